"""A classifier that treats two groups alike.

Logistic regression on synthetic data in which one feature is a stand-in for the group. The mean predicted probability
of the two groups may differ by at most a given gap: a two-sided, nonconvex constraint on means over the data. The
sweep over the gap shows the price of fairness; the multiplier is its slope.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import NonlinearConstraint
from scipy.special import expit

import auglag


def data(rows: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (the last is 1), labels, groups; merit decides, and is seen through features that know the group."""
    rng = np.random.default_rng(11)
    group = rng.random(rows) < 0.4
    merit = rng.standard_normal(rows) - 0.3 * group
    X = np.column_stack(
        [
            merit + 0.8 * rng.standard_normal(rows),
            0.5 * merit - 1.2 * group + 0.6 * rng.standard_normal(rows),
            rng.standard_normal(rows),
            np.ones(rows),
        ]
    )
    label = merit - 0.4 * group + 0.5 * rng.standard_normal(rows) > 0.0
    return X, label.astype(float), group


def solve(gap: float, X: np.ndarray, label: np.ndarray, group: np.ndarray) -> auglag.Result:
    side = np.where(group, -1.0 / group.sum(), 1.0 / (~group).sum())  # mean of one group less mean of the other

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = X @ w
        return float(np.mean(np.logaddexp(0.0, z) - label * z)), X.T @ (expit(z) - label) / len(z)

    def slope(w: np.ndarray) -> np.ndarray:
        p = expit(X @ w)
        return X.T @ (side * p * (1 - p))

    rows = NonlinearConstraint(lambda w: side @ expit(X @ w), -gap, gap, jac=slope)
    return auglag.minimize(loss, np.zeros(X.shape[1]), jac=True, constraints=rows)


def draw(gaps: np.ndarray, found: list[auglag.Result], sample: tuple, path: Path) -> None:
    X, label, group = sample
    accuracy = [np.mean((X @ run.x > 0) == (label > 0)) for run in found]
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    axes[0].plot(gaps, [run.fun for run in found], "o-", color="#0072B2", label="log loss")
    axes[0].plot(gaps, 1 - np.array(accuracy), "s--", color="#D55E00", label="error rate")
    axes[0].set(xlabel="gap allowed", title="the price of fairness")
    axes[0].legend(frameon=False)
    bins = np.linspace(0, 1, 25)
    for axis, k in ((axes[1], -1), (axes[2], 0)):
        p = expit(X @ found[k].x)
        axis.hist(p[~group], bins, density=True, alpha=0.55, color="#0072B2", label="group A")
        axis.hist(p[group], bins, density=True, histtype="step", lw=2, color="#D55E00", label="group B")
        for which, colour in ((~group, "#0072B2"), (group, "#D55E00")):
            axis.axvline(p[which].mean(), color=colour, ls="--")
        axis.set(xlabel="predicted probability", title=f"gap at most {gaps[k]:.2f}", yticks=[])
    axes[2].legend(frameon=False, title="dashed: means")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    sample, gaps = data(), np.linspace(0.0, 0.35, 8)
    found = [solve(gap, *sample) for gap in gaps]
    for gap, run in zip(gaps, found, strict=True):
        accuracy = np.mean((sample[0] @ run.x > 0) == (sample[1] > 0))
        print(
            f"gap <= {gap:.2f}: loss {run.fun:.4f}, accuracy {accuracy:.3f}, multiplier {run.multipliers[0]:.3f}, "
            f"R = {run.certificate.residual:.0e}"
        )
    draw(gaps, found, sample, output / "fair_classifier.png")
    return found


if __name__ == "__main__":
    main()
