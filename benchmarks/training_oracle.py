"""How hard networks are to finish: Newton's method with exact second derivatives, from where the single loop stands.

    python benchmarks/training_oracle.py [--seeds 700 701] [--newton 400] [--tasks NAME ...]

After 20 sampled passes of the single loop, in double precision, Algorithm 1 goes on with a trust region and conjugate
gradients (Steihaug) on products with the exact Hessian of the augmented Lagrangian over all rows. Nothing it asks for
is charged: what counts is how many Newton iterations it takes until R <= 1e-2 and 1e-3. A method that learns the
curvature from gradients cannot be expected to need fewer passes than that.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from trainings.held_out import HELD_OUT
from trainings.tasks import TASKS, Task

import auglag.torch as at

TASKS_SHOWN = [name for name in (*TASKS, *HELD_OUT) if name not in ("fairness, logistic", "a wide network")]
LEVELS = (1e-2, 1e-3)
PASSES, PRODUCTS = 20.0, 200
Tensor = Any


class Augmented:
    """L_beta of a task in double precision, slacks minimised out."""

    def __init__(self, name: str, seed: int) -> None:
        self.task = task = Task(name, seed)
        flags = [False] * task.m if task.exact is None else task.exact.tolist()
        sides = zip(task.lower.tolist(), task.upper.tolist(), flags, strict=True)
        rules = {f"c{i}": at.between(lo, up, exact=flag) for i, (lo, up, flag) in enumerate(sides)}
        method = at.SingleLoopMethod(full=False)
        found = at.fit(
            task.model, task.both, rules, task.data, method=method, tol=1e-8, seed=seed, max_epochs=PASSES
        ).multipliers
        task.model.double()
        task.data = tuple(t.double() if t.is_floating_point() else t for t in task.data)
        self.params = list(task.model.parameters())
        self.y, self.beta = torch.tensor(np.concatenate([np.atleast_1d(v) for v in found.values()])), 1.0
        self.lower, self.upper = torch.tensor(task.lower), torch.tensor(task.upper)

    def put(self, x: Tensor) -> None:
        """The model at x."""
        with torch.no_grad():
            for p, part in zip(self.params, torch.split(x, [p.numel() for p in self.params]), strict=True):
                p.copy_(part.view_as(p))

    def at(self, x: Tensor) -> tuple[float, Tensor, Tensor, Callable[[Tensor], Tensor]]:
        """(value, gradient, c less its slacks, products with the Hessian)."""
        self.put(x)
        f, c = self.task.both(self.task.model, self.task.data)
        r = c - torch.clamp(c + self.y / self.beta, self.lower, self.upper)
        value = f + self.y @ r + 0.5 * self.beta * (r @ r)
        slope = torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, self.params, create_graph=True)])

        def product(v: Tensor) -> Tensor:
            parts = torch.autograd.grad(slope, self.params, v, retain_graph=True, materialize_grads=True)
            return torch.cat([p.reshape(-1) for p in parts]).detach()

        return float(value.detach()), slope.detach(), r.detach(), product


def steihaug(product: Callable[[Tensor], Tensor], g: Tensor, radius: float) -> Tensor:
    """The step of truncated conjugate gradients inside the trust region."""
    z, r = torch.zeros_like(g), g.clone()
    d, square = -r, float(r @ r)
    first = square
    for _ in range(PRODUCTS):
        h = product(d)
        bend = float(d @ h)
        longer = z + square / bend * d if bend > 0.0 else None
        if longer is None or float(longer.norm()) >= radius:
            a, b, c = float(d @ d), float(z @ d), float(z @ z) - radius**2
            return z + (-b + (b * b - a * c) ** 0.5) / a * d
        z, r = longer, r + square / bend * h
        before, square = square, float(r @ r)
        if square <= 0.01 * first:
            return z
        d = -r + square / before * d
    return z


def newton(name: str, seed: int, most: int) -> tuple[list[int | None], float]:
    """(iterations until each level, the smallest R)."""
    problem = Augmented(name, seed)
    x = torch.cat([p.detach().reshape(-1) for p in problem.params])
    value, g, r, product = problem.at(x)
    radius, best, size, reached = 1.0, np.inf, np.inf, [None] * len(LEVELS)
    for i in range(most):
        violation = float(r.norm())
        if float(g.norm()) <= max(0.2 * violation, 1e-5):  # the subproblem is solved: y, and beta where it must grow
            problem.y = problem.y + problem.beta * r
            problem.beta *= 1.0 if violation <= 0.5 * size else 3.0
            size = violation
            value, g, r, product = problem.at(x)
        d = steihaug(product, g, radius)
        promised = -float(g @ d) - 0.5 * float(d @ product(d))
        trial = problem.at(x + d)
        ratio = (value - trial[0]) / max(promised, 1e-300)
        radius = 0.25 * float(d.norm()) if not ratio > 0.25 else max(radius, 2.0 * float(d.norm()))
        if ratio > 1e-4:
            x, (value, g, r, product) = x + d, trial
        else:  # the trial has written over the parameters
            value, g, r, product = problem.at(x)
        best = min(best, float(g.norm() + r.norm()))
        reached = [i + 1 if n is None and best <= level else n for n, level in zip(reached, LEVELS, strict=True)]
        if reached[-1] is not None:
            break
    return reached, best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[700, 701])
    parser.add_argument("--newton", type=int, default=400, help="Newton iterations, at most")
    parser.add_argument("--tasks", nargs="+", default=TASKS_SHOWN, choices=list(TASKS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| training | Newton iterations to 1e-2 | to 1e-3 | smallest R |\n|---|---|---|---|")
    for name in options.tasks:
        runs = [newton(name, seed, options.newton) for seed in options.seeds]
        cells = [", ".join(str(run[0][i] or f"> {options.newton}") for run in runs) for i in range(len(LEVELS))]
        print(f"| {name} | {' | '.join(cells)} | {', '.join(f'{run[1]:.1e}' for run in runs)} |", flush=True)


if __name__ == "__main__":
    main()
