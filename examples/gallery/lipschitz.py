"""A network with a bound on its slope.

Forty noisy points of a step are fitted by a network, which would follow the noise. Bounds on the norms of the three
weight matrices, constraints that need no data, keep its slope below their product (a Lipschitz constant); the smaller
the bound, the smoother the curve, and the multipliers say what the bound of each layer costs. A weight decay would not
say how steep the curve may become.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from auglag.torch import TrainingResult, at_most, fit

BOUNDS = (50.0, 6.0, 2.5)  #: of the slope
LAYERS, WIDTH = 3, 12


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.linspace(-1, 1, 40, dtype=torch.float64)
    return x[:, None], torch.tanh(6 * x) + 0.3 * torch.randn(40, generator=generator, dtype=torch.float64)


def network() -> torch.nn.Sequential:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(1, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(),
        torch.nn.Linear(WIDTH, 1),
    ).double()  # fmt: skip


def norms(model: torch.nn.Module) -> torch.Tensor:
    """Squares of the Frobenius norms, which are at least those of the largest singular values."""
    return torch.stack([(model[i].weight ** 2).sum() for i in (0, 2, 4)])


def train(bound: float) -> tuple[torch.nn.Module, TrainingResult]:
    """Each norm may be the third root of the bound."""
    model = network()
    result = fit(
        model,
        lambda m, batch: ((m(batch[0]).squeeze(-1) - batch[1]) ** 2).mean(),
        {"norms": at_most([bound ** (2 / LAYERS)] * LAYERS, lambda m, _: norms(m), exact=True)},
        data(),
        method="lbfgs",
        tol=1e-3,
        seed=0,
    )
    return model, result


def slope(model: torch.nn.Module) -> float:
    """The largest on a fine grid."""
    x = torch.linspace(-1, 1, 2001, dtype=torch.float64)[:, None]
    with torch.no_grad():
        return float((model(x).diff(dim=0).abs() / x.diff(dim=0)).max())


def draw(found: dict[float, tuple[torch.nn.Module, TrainingResult]], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", width_ratios=[2, 1])
    x, y = data()
    fine = torch.linspace(-1, 1, 400, dtype=torch.float64)[:, None]
    axes[0].plot(x, y, "o", color="0.6", ms=5)
    axes[0].plot(fine, torch.tanh(6 * fine), color="k", lw=1, ls=":", label="without noise")
    colours = ("#D55E00", "#0072B2", "#009E73")
    for place, ((bound, (model, result)), colour) in enumerate(zip(found.items(), colours, strict=True)):
        axes[0].plot(fine, model(fine).detach(), color=colour, label=f"slope at most {bound:g}")
        where = np.arange(LAYERS) + 0.27 * (place - 1)
        axes[1].bar(where, np.atleast_1d(result.multipliers["norms"]), 0.25, color=colour)
    axes[0].set(xlabel="x", ylabel="y")
    axes[0].legend(frameon=False)
    axes[1].set(xlabel="layer", ylabel="multiplier", xticks=range(LAYERS), yscale="log", title="prices of the norms")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[TrainingResult]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    found = {bound: train(bound) for bound in BOUNDS}
    x = torch.linspace(-1, 1, 400, dtype=torch.float64)[:, None]
    for bound, (model, result) in found.items():
        with torch.no_grad():
            error = float(((model(x) - torch.tanh(6 * x)) ** 2).mean().sqrt())
        print(
            f"bound {bound:g}: steepest {slope(model):.2f}, misfit {result.fun:.4f}, error {error:.3f}, "
            f"R = {result.certificate.residual:.0e}"
        )
    draw(found, output / "lipschitz.png")
    return [result for _, result in found.values()]


if __name__ == "__main__":
    main()
