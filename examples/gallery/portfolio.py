"""A portfolio with trading costs and a limit on risk.

Largest expected return less trading costs, subject to a limit on the standard deviation, a budget, and at most 35 %
in one asset. Costs are proportional to what is bought or sold: weight |x_i - current_i|, a kink at the present
holding, which is why some assets are not traded at all. The variance is a nonlinear constraint; its multiplier says
what return is gained per unit of risk allowed. Returns and risks are made up.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import LinearConstraint, NonlinearConstraint

import auglag

ASSETS = ("bonds", "gold", "utilities", "industry", "banks", "energy", "software", "start-ups")
COLOURS = ("#999999", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
MEAN = np.array([0.02, 0.03, 0.04, 0.055, 0.06, 0.065, 0.08, 0.11])
DEVIATION = np.array([0.03, 0.13, 0.11, 0.15, 0.18, 0.20, 0.22, 0.35])
CURRENT = np.full(8, 1 / 8)


def covariance() -> np.ndarray:
    """Bonds and gold move on their own, the others with the market."""
    market = np.array([-0.1, 0.0, 0.5, 0.7, 0.75, 0.6, 0.75, 0.7])
    correlation = np.outer(market, market)
    np.fill_diagonal(correlation, 1.0)
    return correlation * np.outer(DEVIATION, DEVIATION)


def best(limit: float, cost: float, last: auglag.Result | None) -> auglag.Result:
    """The best portfolio whose standard deviation is at most `limit`; returns in per cent."""
    S = covariance() / limit**2
    rows = [
        LinearConstraint(np.ones((1, 8)), 1.0, 1.0),
        NonlinearConstraint(lambda x: x @ S @ x, -np.inf, 1.0, jac=lambda x: 2 * S @ x),
    ]
    return auglag.minimize(
        lambda x: -100 * MEAN @ x,
        CURRENT if last is None else None,
        jac=lambda x: -100 * MEAN,
        bounds=[(0.0, 0.35)] * 8,
        constraints=rows,
        g=auglag.prox.Translated(auglag.prox.L1(100 * cost), CURRENT) if cost else None,
        warm_start=last,
    )


def frontier(limits: np.ndarray, cost: float) -> list[auglag.Result]:
    found: list[auglag.Result] = []
    for limit in limits:
        found.append(best(limit, cost, found[-1] if found else None))
    return found


def draw(limits: np.ndarray, runs: dict[float, list[auglag.Result]], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    for (cost, found), colour, style in zip(runs.items(), ("#0072B2", "#D55E00"), ("-o", "--s"), strict=True):
        axes[0].plot(100 * limits, [-run.fun for run in found], style, ms=4, color=colour, label=f"costs of {cost:.0%}")
    axes[0].plot(100 * DEVIATION, 100 * MEAN, "k.", ms=5)
    for name, x, y in zip(ASSETS, 100 * DEVIATION, 100 * MEAN, strict=True):
        axes[0].annotate(name, (x, y), xytext=(4, -4), textcoords="offset points", fontsize=8)
    axes[0].set(xlabel="limit on the standard deviation, % a year", ylabel="return less costs, % a year", xlim=(0, 43))
    axes[0].legend(frameon=False)
    shares = np.array([run.x for run in list(runs.values())[-1]]).T
    axes[1].stackplot(100 * limits, 100 * shares, labels=ASSETS, colors=COLOURS, edgecolor="w", linewidth=0.5)
    axes[1].set(xlabel="limit on the standard deviation, % a year", ylabel="share, %", ylim=(0, 100))
    axes[1].set(xlim=(100 * limits[0], 100 * limits[-1]), title=f"holdings at costs of {list(runs)[-1]:.0%}")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, reverse=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    limits = np.linspace(0.06, 0.22, 9)
    runs = {cost: frontier(limits, cost) for cost in (0.0, 0.01)}
    for cost, found in runs.items():
        run = found[4]
        untraded = [name for name, x, now in zip(ASSETS, run.x, CURRENT, strict=True) if abs(x - now) < 1e-9]
        slope = 2 * run.multipliers[1] / (100 * limits[4])  # by the limit in per cent
        print(
            f"costs of {cost:.0%}, risk {limits[4]:.0%}: return {-run.fun:.2f} %, {slope:.3f} more per % of risk, "
            f"not traded: {', '.join(untraded) or 'none'}; R = {run.certificate.residual:.0e}"
        )
    draw(limits, runs, output / "portfolio.png")
    return [run for found in runs.values() for run in found]


if __name__ == "__main__":
    main()
