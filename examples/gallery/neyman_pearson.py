"""Neyman-Pearson classification of e-mail.

We look for the linear rule that misses the least spam, subject to a bound on the loss of good mail. This is the paper's
stochastic problem, on the Spambase data that come with the package. A smaller bound loses less good mail and lets
more spam through. The right picture shows the residual, measured over all rows, against the passes over the data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt

import auglag
from auglag.datasets import load_spambase
from auglag.stochastic import StochasticResult, minimize, neyman_pearson

BOUNDS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


def solve(bound: float) -> StochasticResult:
    """Four fifths of the mails for training, a fifth held out."""
    data = load_spambase()
    problem = neyman_pearson(data.X, data.y, chat=bound, split=0.8, seed=0, intercept=True)
    return minimize(problem, tol=1e-6)


def draw(found: dict[float, StochasticResult], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.5), layout="constrained")
    for part, colour, style in (("training", "#0072B2", "o-"), ("test", "#D55E00", "s--")):
        good = [100 * run.rates[f"{part} false positives"] for run in found.values()]
        spam = [100 * run.rates[f"{part} false negatives"] for run in found.values()]
        axes[0].plot(good, spam, style, color=colour, label=part)
    for bound, x, y in zip(found, good, spam, strict=True):
        axes[0].annotate(f"{bound}", (x, y), xytext=(5, 5), textcoords="offset points", fontsize=9)
    axes[0].set(xlabel="good mail lost, %", ylabel="spam missed, %", title="bounds on the loss of good mail")
    axes[0].set(xlim=(0, 1.08 * max(good)), ylim=(0, None))
    axes[0].legend(frameon=False)
    for (bound, run), shade in zip(found.items(), plt.cm.viridis([0.0, 0.17, 0.35, 0.52, 0.7, 0.85]), strict=True):
        passes = [row["epochs"] for row in run.trace]
        axes[1].semilogy(passes, [row["residual"] for row in run.trace], ".-", color=shade, label=f"bound {bound}")
    axes[1].axhline(1e-6, color="0.6", lw=0.8)
    axes[1].set(xlabel="passes over the data", ylabel="R over all rows", title="the default method")
    axes[1].legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    found = {bound: solve(bound) for bound in BOUNDS}
    for bound, run in found.items():
        print(
            f"bound {bound}: {100 * run.rates['test false positives']:.1f} % of good mail lost, "
            f"{100 * run.rates['test false negatives']:.1f} % of spam missed (held out), multiplier "
            f"{run.multipliers[0]:.4f}, {run.epochs:.0f} passes, R = {run.certificate.residual:.0e}"
        )
    draw(found, output / "neyman_pearson.png")
    return list(found.values())


if __name__ == "__main__":
    main()
