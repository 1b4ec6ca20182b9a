"""Equal odds in 24 groups.

A logistic regression decides over 24,000 people in 24 groups of very different sizes. Left alone, its mean score of the
positives, and that of the negatives, differs between groups. Forty-eight two-sided constraints keep every group within
a gap of the mean over all groups, once among the positives and once among the negatives (equalised odds); the
multipliers name the few groups that cost anything. Means over groups are blocks of a stochastic problem; since scores
are not convex, L-BFGS is the method for it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from auglag.stochastic import LinearBlock, StochasticProblem, StochasticResult, minimize

GROUPS, ROWS, FEATURES = 24, 24_000, 10
GAPS = (1.0, 0.1, 0.05, 0.02, 0.01)  #: 1 is no constraint at all


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features with a 1, whether positive, group): what some features say depends on the group."""
    rng = np.random.default_rng(5)
    size = rng.dirichlet(np.full(GROUPS, 2.0))
    group = np.concatenate([np.arange(GROUPS).repeat(40), rng.choice(GROUPS, ROWS - 40 * GROUPS, p=size)])
    merit = rng.standard_normal(ROWS)
    shift = 0.8 * rng.standard_normal((GROUPS, FEATURES)) * (np.arange(FEATURES) < 4)
    X = 0.5 * merit[:, None] + rng.standard_normal((ROWS, FEATURES)) + shift[group]
    return np.hstack([X, np.ones((ROWS, 1))]), merit + 0.7 * rng.standard_normal(ROWS) > 0.3, group


def solve(gap: float, X: np.ndarray, y: np.ndarray, group: np.ndarray) -> StochasticResult:
    """Mean score of a group less the mean over groups, for both classes, within [-gap, gap]."""
    m = 2 * GROUPS
    blocks = [LinearBlock(X, np.where(y, 1.0, -1.0), objective=1.0, constraints=np.zeros(m))]
    for label in (0, 1):
        for g in range(GROUPS):
            factors = np.zeros(m)
            factors[label * GROUPS : (label + 1) * GROUPS] = -1.0 / GROUPS
            factors[label * GROUPS + g] += 1.0
            blocks.append(LinearBlock(X[(group == g) & (y == label)], -1.0, loss="sigmoid", constraints=factors))
    problem = StochasticProblem(blocks, lower=np.full(m, -gap), upper=np.full(m, gap))
    return minimize(problem, method="lbfgs", tol=1e-4)


def means(x: np.ndarray, X: np.ndarray, y: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Mean scores, by class and group."""
    p = expit(X @ x)
    return np.array([[p[(group == g) & (y == label)].mean() for g in range(GROUPS)] for label in (0, 1)])


def draw(found: dict[float, StochasticResult], sample: tuple, path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained", width_ratios=[1.4, 1, 1])
    order = np.argsort(means(found[1.0].x, *sample)[1])
    for gap, colour, marker in ((1.0, "#D55E00", "s"), (0.02, "#0072B2", "o")):
        scores = means(found[gap].x, *sample)[:, order]
        name = "no constraint" if gap == 1.0 else f"gap {gap}"
        axes[0].plot(scores[1], marker, color=colour, label=name)
        axes[0].plot(scores[0], marker, color=colour, mfc="none")
    axes[0].set(xlabel="group", ylabel="mean score", title="positives (filled), negatives (open)")
    axes[0].legend(frameon=False)
    losses = [run.fun for run in found.values()]
    axes[1].plot(list(found)[1:], losses[1:], "o-", color="#0072B2")
    axes[1].axhline(losses[0], color="#D55E00", ls="--")
    axes[1].set(xlabel="gap allowed", ylabel="log loss", title="the price")
    axes[2].bar(range(2 * GROUPS), found[0.02].multipliers, color="#0072B2")
    axes[2].set(xlabel="constraint", title="multipliers at gap 0.02")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[StochasticResult]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    sample, found = data(), {}
    for gap in GAPS:
        found[gap] = solve(gap, *sample)
        run, scores = found[gap], means(found[gap].x, *sample)
        accuracy = np.mean((sample[0] @ run.x > 0) == sample[1])
        print(
            f"gap {gap}: groups {np.ptp(scores[1]):.3f} and {np.ptp(scores[0]):.3f} apart, accuracy {accuracy:.3f}, "
            f"{np.sum(np.abs(run.multipliers) > 1e-4)} prices, {run.epochs:.0f} passes, "
            f"R = {run.certificate.residual:.0e}"
        )
    draw(found, sample, output / "equal_odds.png")
    return list(found.values())


if __name__ == "__main__":
    main()
