"""A network that solves the heat equation, with conditions as constraints.

A network u(x, t) is to obey u_t = u_xx on a rod whose ends let no heat through, from a given temperature at t = 0. As
usual for physics-informed networks the mean square of u_t - u_xx is minimised; but the start, the ends and the heat in
the rod, which does not change, are constraints and not terms with weights. Beside it, trained as long from the same
start: weights of 1, 10, 100 and 1000 on the same conditions; weights that follow the sizes of gradients ("annealed",
Wang, Teng and Perdikaris 2021); and multipliers with one adaptive penalty per condition ("adaptive", Basir and Senocak
2023). The constraints come near the best fixed weight, which is known only after trying all of them; the two rules that
adapt did best with 60 steps of L-BFGS between two changes, of 20 or 60 and of Adam at three rates, and stay behind.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from auglag.torch import TrainingResult, at_most, equal, fit

END, NODES, TIMES = 0.2, 24, 8
WEIGHTS = (1.0, 10.0, 100.0, 1000.0)
ROUND = 60  #: steps of L-BFGS between two changes of weights
CLOSE = 1e-4  #: mean squares of the errors at the start and at the ends that are allowed


def exact(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Two waves that decay, and their mean, which stays."""
    pi = torch.pi
    return 1 + torch.cos(pi * x) * torch.exp(-(pi**2) * t) + 0.5 * torch.cos(2 * pi * x) * torch.exp(-4 * pi**2 * t)


class Rod(torch.nn.Module):
    """u(x, t), its derivatives, and the errors of everything that is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 12), torch.nn.Tanh(), torch.nn.Linear(12, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1)
        )

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return self.net(torch.stack([2 * x - 1, 2 * t / END - 1], -1)).squeeze(-1)

    @torch.enable_grad()  # tests are made without gradients, but the law needs derivatives of u
    def law(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x, t = x.clone().requires_grad_(), t.clone().requires_grad_()
        u = self(x, t)
        u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        return (u_t - torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]) / 10

    @torch.enable_grad()
    def conditions(self) -> dict[str, torch.Tensor]:
        """Mean squares of the errors at the start and of the flow at the ends; the heat at eight times, less 1."""
        x, t = torch.linspace(0, 1, NODES), torch.linspace(0, END, TIMES)
        ends = torch.tensor([0.0, 1.0]).repeat(TIMES, 1).T.reshape(-1).requires_grad_()
        flow = torch.autograd.grad(self(ends, t.repeat(2)).sum(), ends, create_graph=True)[0]
        points, weights = np.polynomial.legendre.leggauss(12)
        where = torch.tensor((points + 1) / 2).repeat(TIMES, 1)
        heat = self(where, t[:, None].expand_as(where)) @ torch.tensor(weights / 2)
        start = ((self(x, torch.zeros_like(x)) - exact(x, torch.zeros_like(x))) ** 2).mean()
        return {"start": start, "ends": (flow**2).mean(), "heat": heat - 1}


def error(model: Rod) -> float:
    """Root mean square error on a fine grid."""
    x, t = torch.meshgrid(torch.linspace(0, 1, 60), torch.linspace(0, END, 60), indexing="ij")
    with torch.no_grad():
        return float(((model(x, t) - exact(x, t)) ** 2).mean().sqrt().detach())


def constrained(model: Rod, inside: tuple[torch.Tensor, torch.Tensor]) -> TrainingResult:
    """All functions at once: objective and conditions share the network's derivatives."""
    sides = {"start": at_most(CLOSE), "ends": at_most(CLOSE), "heat": equal([0.0] * TIMES)}
    return fit(
        model, lambda m, b: ((m.law(*b) ** 2).mean(), m.conditions()), sides, inside, method="lbfgs", tol=2e-3, seed=0
    )


def terms(model: Rod, inside: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean square of the law, and those of the three conditions."""
    found = model.conditions()
    return (model.law(*inside) ** 2).mean(), torch.stack([found["start"], found["ends"], (found["heat"] ** 2).mean()])


def descend(
    model: Rod, inside: tuple[torch.Tensor, torch.Tensor], y: torch.Tensor, beta: torch.Tensor, steps: int, passes: int
) -> int:
    """L-BFGS on law + y'c + beta'c^2 / 2, c the conditions; how many passes it took."""
    optimizer, taken = torch.optim.LBFGS(
        model.parameters(), max_iter=steps, max_eval=passes, history_size=60, line_search_fn="strong_wolfe",
        tolerance_grad=1e-9, tolerance_change=0.0,
    ), 0  # fmt: skip

    def loss() -> torch.Tensor:
        nonlocal taken
        taken += 1
        optimizer.zero_grad()
        law, c = terms(model, inside)
        total = law + y @ c + 0.5 * beta @ c**2
        total.backward()
        return total

    optimizer.step(loss)
    return taken


def weighted(model: Rod, inside: tuple[torch.Tensor, torch.Tensor], weight: float, passes: int) -> Rod:
    """The usual way: everything in one sum, L-BFGS with as many passes."""
    descend(model, inside, torch.full((3,), weight), torch.zeros(3), passes, passes)
    return model


def annealed(model: Rod, inside: tuple[torch.Tensor, torch.Tensor], passes: int) -> Rod:
    """Weights move towards max |gradient of the law| / mean |gradient of the condition|, by a tenth of the way."""
    weights, left, params = torch.ones(3), passes, list(model.parameters())
    while left > 1:
        law, c = terms(model, inside)
        rows = [torch.autograd.grad(term, params, retain_graph=True, materialize_grads=True) for term in (law, *c)]
        first, *others = (torch.cat([part.reshape(-1) for part in row]).abs() for row in rows)
        weights = 0.9 * weights + 0.1 * first.max() / torch.stack([row.mean() for row in others])
        left -= 1 + descend(model, inside, weights, torch.zeros(3), ROUND, min(ROUND * 5 // 4, left - 1))
    return model


def adaptive(model: Rod, inside: tuple[torch.Tensor, torch.Tensor], passes: int) -> Rod:
    """y <- y + beta c and beta = 0.01 / (root mean square of c so far), for every condition on its own."""
    y, beta, squares, left = torch.ones(3), torch.ones(3), torch.zeros(3), passes
    while left > 0:
        left -= descend(model, inside, y, beta, ROUND, min(ROUND * 5 // 4, left))
        c = terms(model, inside)[1].detach()
        y, squares = y + beta * c, 0.99 * squares + 0.01 * c**2
        beta = 0.01 / (squares.sqrt() + 1e-8)
    return model


def draw(model: Rod, errors: dict[str, float], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    x = torch.linspace(0, 1, 100)
    for t, shade in zip((0.0, 0.01, 0.03, 0.06, END), plt.cm.viridis(np.linspace(0, 0.85, 5)), strict=True):
        at = torch.full_like(x, t)
        axes[0].plot(x, exact(x, at), color=shade, lw=4, alpha=0.35)
        axes[0].plot(x, model(x, at).detach(), color=shade, lw=1.5, label=f"t = {t:g}")
    axes[0].set(xlabel="x", ylabel="temperature", title="network (thin) and solution (wide)")
    axes[0].legend(frameon=False)
    colours = ["#D55E00"] * len(WEIGHTS) + ["#E69F00", "#E69F00", "#0072B2"]
    axes[1].bar(list(errors), list(errors.values()), color=colours)
    axes[1].set(yscale="log", ylabel="root mean square error", title="fixed weights, rules, constraints")
    axes[1].tick_params(axis="x", rotation=25)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[TrainingResult]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    first = Rod()
    inside = torch.rand(200), END * torch.rand(200) ** 2  # more of them early, where it changes fast
    model = copy.deepcopy(first)
    result = constrained(model, inside)
    passes = int(result.epochs)
    errors = {f"{w:g}": error(weighted(copy.deepcopy(first), inside, w, passes)) for w in WEIGHTS}
    errors |= {rule.__name__: error(rule(copy.deepcopy(first), inside, passes)) for rule in (annealed, adaptive)}
    errors["constraints"] = error(model)
    heat = float(model.conditions()["heat"].detach().abs().max())
    print(result.message)
    print(f"heat changes by at most {heat:.0e}; R = {result.certificate.residual:.0e} after {result.epochs:.0f} passes")
    print("root mean square errors: " + ", ".join(f"{name} {value:.1e}" for name, value in errors.items()))
    torch.set_default_dtype(torch.float32)
    draw(model.float(), errors, output / "heat_network.png")
    return [result]


if __name__ == "__main__":
    main()
