"""Other ways to train under constraints, each as one class that says what a step does with a batch.

Two-sided constraints are two inequalities; equalities have multipliers of any sign. All rates fall linearly to zero.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch

from trainings.tasks import Task

#: Primal optimisers of the grids.
PRIMAL = [("SGD", 0.3), ("SGD", 1.0), ("Adam", 0.003), ("Adam", 0.01), ("Adam", 0.03)]
BATCHES = (16, 64, 256)


class Sides:
    """h <= 0 (or = 0) for every finite side."""

    def __init__(self, task: Task) -> None:
        same = task.lower == task.upper
        self.up = torch.as_tensor(np.flatnonzero(np.isfinite(task.upper)))
        self.low = torch.as_tensor(np.flatnonzero(np.isfinite(task.lower) & ~same))
        self.upper = torch.as_tensor(task.upper[self.up.numpy()], dtype=torch.float32)
        self.lower = torch.as_tensor(task.lower[self.low.numpy()], dtype=torch.float32)
        self.equal = torch.cat([torch.as_tensor(same[self.up.numpy()]), torch.zeros(len(self.low), dtype=torch.bool)])
        self.m, self.n = task.m, len(self.equal)

    def of(self, c: Any) -> Any:
        return torch.cat([c[self.up] - self.upper, self.lower - c[self.low]])

    def positive(self, y: Any) -> Any:
        """The projection of multipliers (or of h, for penalties)."""
        return torch.where(self.equal, y, y.clamp_min(0.0))

    def multipliers(self, y: Any) -> np.ndarray:
        """In the sign L = f + y'c, one per constraint."""
        found = torch.zeros(self.m).index_add(0, self.up, y[: len(self.up)])
        return found.index_add(0, self.low, -y[len(self.up) :]).double().numpy()


class Rival:
    """A step: `gradient` makes a loss of (f, h), whose gradient the primal optimiser takes; `after` moves the duals."""

    evaluations = 1  #: of every row of a batch

    def __init__(self, task: Task, settings: dict[str, Any]) -> None:
        self.task, self.s, self.sides = task, settings, Sides(task)
        self.params = list(task.model.parameters())
        kind, self.rate = settings["primal"]
        self.optimizer = getattr(torch.optim, kind)(self.params, lr=self.rate)
        self.y = torch.zeros(self.sides.n)

    def loss(self, f: Any, h: Any) -> Any:
        raise NotImplementedError

    def after(self, h: Any, fall: float) -> None:
        """The multipliers after the step."""

    def step(self, batch: Any, fall: float) -> None:
        f, c = self.task.both(self.task.model, batch)
        h = self.sides.of(c)
        self.optimizer.zero_grad()
        self.loss(f, h).backward()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * fall
        self.optimizer.step()
        self.after(h.detach(), fall)

    def multipliers(self) -> np.ndarray:
        return self.sides.multipliers(self.y)


class Lagrangian(Rival):
    """Simultaneous descent and ascent on f + y'h (Cooper's Lagrangian)."""

    def loss(self, f: Any, h: Any) -> Any:
        return f + (self.y * h).sum()

    def after(self, h: Any, fall: float) -> None:
        self.y = self.sides.positive(self.y + self.s["dual"] * fall * h)


class Augmented(Lagrangian):
    """The same with rho/2 ||h_+||^2 (Cooper's augmented Lagrangian)."""

    def loss(self, f: Any, h: Any) -> Any:
        return f + (self.y * h).sum() + 0.5 * self.s["penalty"] * (self.sides.positive(h) ** 2).sum()


class NuPI(Lagrangian):
    """nuPI (Sohrabi et al., ICML 2024): integral steps and proportional ones on a moving average of h, nu = 0.9."""

    xi: Any = None

    def after(self, h: Any, fall: float) -> None:
        new = h if self.xi is None else 0.9 * self.xi + 0.1 * h
        change = h + self.s["kp"] * (new - (h if self.xi is None else self.xi))
        self.y, self.xi = self.sides.positive(self.y + self.s["dual"] * fall * change), new


class Fixed(Rival):
    """f + rho/2 ||h_+||^2 with one rho."""

    def loss(self, f: Any, h: Any) -> Any:
        self.y = self.s["penalty"] * self.sides.positive(h.detach())
        return f + 0.5 * self.s["penalty"] * (self.sides.positive(h) ** 2).sum()


class Smoothed(Rival):
    """SSL-ALM (Huang, Zhang and Alacaoglu 2025): a linearised augmented Lagrangian, smoothed by mu/2 |x - z|^2."""

    def __init__(self, task: Task, settings: dict[str, Any]) -> None:
        super().__init__(task, settings)
        self.z = [p.detach().clone() for p in self.params]

    def loss(self, f: Any, h: Any) -> Any:
        w = self.sides.positive(self.y + self.s["penalty"] * h.detach())
        pull = sum(((p - z) ** 2).sum() for p, z in zip(self.params, self.z, strict=True))
        return f + (w * h).sum() + 0.5 * self.s["mu"] * pull

    def after(self, h: Any, fall: float) -> None:
        w = self.sides.positive(self.y + self.s["penalty"] * h)
        self.y = self.y + self.s["dual"] * fall / self.s["penalty"] * (w - self.y)
        with torch.no_grad():
            for p, z in zip(self.params, self.z, strict=True):
                z += 0.5 * min(1.0, self.rate) * (p - z)


class Recursive(Rival):
    """Steps along d <- grad(x; xi) + (1 - a)(d - grad(x before; xi)), two gradients on every batch."""

    evaluations = 2
    keep = 0.9  #: 1 - a

    def __init__(self, task: Task, settings: dict[str, Any]) -> None:
        super().__init__(task, settings)
        self.d: list[Any] = []
        self.before: list[Any] = []

    def weights(self, h: Any) -> Any:
        raise NotImplementedError

    def gradients(self, batch: Any) -> tuple[list[Any], Any]:
        f, c = self.task.both(self.task.model, batch)
        h = self.sides.of(c)
        value = f + (self.weights(h.detach()) * h).sum()
        return list(torch.autograd.grad(value, self.params)), h.detach()

    def step(self, batch: Any, fall: float) -> None:
        new, h = self.gradients(batch)
        if self.d:
            here = [p.detach().clone() for p in self.params]
            with torch.no_grad():
                torch._foreach_copy_(self.params, self.before)
            old, _ = self.gradients(batch)
            with torch.no_grad():
                torch._foreach_copy_(self.params, here)
            new = [g + self.keep * (d - o) for g, d, o in zip(new, self.d, old, strict=True)]
        self.d, self.before = new, [p.detach().clone() for p in self.params]
        for p, d in zip(self.params, new, strict=True):
            p.grad = self.clipped(d)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * fall
        self.optimizer.step()
        self.after(h, fall)

    def clipped(self, d: Any) -> Any:
        return d


class Momentum(Recursive):
    """MLALM (Shi, Wang and Wang 2022): the linearised augmented Lagrangian with recursive momentum, y + theta h."""

    def weights(self, h: Any) -> Any:
        return self.sides.positive(self.y + self.s["penalty"] * h)

    def after(self, h: Any, fall: float) -> None:
        self.y = self.sides.positive(self.y + self.s["dual"] * fall * h)


class Spider(Recursive):
    """A SPIDER-type penalty method (after Liu and Xu 2025): an exact penalty rho h_+, with h tracked by differences."""

    keep = 1.0
    u: Any = None
    last: Any = None
    steps = 0

    def weights(self, h: Any) -> Any:
        u = h if self.u is None else self.u
        return self.s["penalty"] * torch.where(self.sides.equal, u.sign(), (u > 0).float())

    def step(self, batch: Any, fall: float) -> None:
        if self.steps % 32 == 0:  # the estimates start again
            self.d, self.u = [], None
        self.steps += 1
        super().step(batch, fall)
        self.y = self.weights(self.u)

    def after(self, h: Any, fall: float) -> None:
        with torch.no_grad():
            self.u = h if self.u is None else self.u + 0.1 * (h - self.u)


class Adaptive(Recursive):
    """After AdaSSP (adaptive single-loop stochastic penalty, 2025): recursive momentum, clipped, and rho that grows.

    Its abstract is what we know: rho grows by half after every 50 steps in which the mean violation did not halve.
    """

    def __init__(self, task: Task, settings: dict[str, Any]) -> None:
        super().__init__(task, settings)
        self.rho, self.seen, self.total, self.last = settings["penalty"], 0, 0.0, math.inf

    def weights(self, h: Any) -> Any:
        return self.rho * self.sides.positive(h)

    def clipped(self, d: Any) -> Any:
        return d * min(1.0, 10.0 / max(float(d.norm()), 1e-12))

    def after(self, h: Any, fall: float) -> None:
        self.y = self.weights(h)
        self.seen, self.total = self.seen + 1, self.total + float(self.sides.positive(h).norm())
        if self.seen == 50:
            self.rho *= 1.5 if self.total > 0.5 * self.last else 1.0
            self.seen, self.total, self.last = 0, 0.0, self.total


def grid(**options: Any) -> list[dict[str, Any]]:
    """All combinations."""
    options = {"primal": PRIMAL, "batch": BATCHES, **options}
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


#: Name -> (class, grid). One line adds another.
RIVALS: dict[str, tuple[type[Rival], list[dict[str, Any]]]] = {
    "Lagrangian (Cooper)": (Lagrangian, grid(dual=(0.01, 0.1, 0.5))),
    "augmented Lagrangian (Cooper)": (Augmented, grid(dual=(0.01, 0.1), penalty=(1.0, 10.0))),
    "nuPI (Cooper)": (NuPI, grid(dual=(0.01, 0.1), kp=(1.0, 10.0))),
    "fixed penalty": (Fixed, grid(penalty=(1.0, 10.0, 100.0))),
    "SSL-ALM": (Smoothed, grid(dual=(0.01, 0.1), penalty=(1.0, 10.0), mu=(0.1,))),
    "MLALM": (Momentum, grid(dual=(0.01, 0.1), penalty=(1.0, 10.0))),
    "SPIDER penalty": (Spider, grid(penalty=(1.0, 3.0))),
    "AdaSSP": (Adaptive, grid(penalty=(1.0, 10.0))),
}
