"""Sparse principal directions: L1 and a sphere.

The direction of largest variance is easy to find and hard to read: every feature is in it. Adding weight ||x||_1 sets
most loadings to exactly zero. The norm has a kink and the sphere x'x = 1 is a nonlinear equality; no method of SciPy
takes the two together. Each solution starts the next one (`warm_start=`) along a path of weights.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import auglag

FEATURES, ROWS = 40, 300
TRUTH = np.zeros(FEATURES)
TRUTH[[3, 4, 5, 17, 18, 30]] = [0.5, 0.45, 0.4, -0.4, -0.35, 0.33]
TRUTH /= np.linalg.norm(TRUTH)


def covariance() -> np.ndarray:
    """Noise of size 1 in every feature, and one direction with a signal."""
    rng = np.random.default_rng(3)
    data = rng.standard_normal((ROWS, FEATURES)) + 1.6 * rng.standard_normal((ROWS, 1)) * TRUTH
    return data.T @ data / ROWS


def path(weights: np.ndarray, S: np.ndarray) -> list[auglag.Result]:
    sphere = {"type": "eq", "fun": lambda x: x @ x - 1, "jac": lambda x: 2 * x, "name": "sphere"}
    found: list[auglag.Result] = []
    for weight in weights:
        start = {"warm_start": found[-1]} if found else {"x0": np.linalg.eigh(S)[1][:, -1]}
        found.append(
            auglag.minimize(
                lambda x: -0.5 * x @ S @ x, jac=lambda x: -S @ x, constraints=sphere, g=auglag.prox.L1(weight), **start
            )
        )
    return found


def draw(weights: np.ndarray, found: list[auglag.Result], S: np.ndarray, where: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
    counts = [np.count_nonzero(result.x) for result in found]
    variance = [result.x @ S @ result.x for result in found]
    axes[0].plot(weights, counts, "o-", color="#0072B2", label="features used (of 40)")
    axes[0].axhline(np.count_nonzero(TRUTH), color="0.6", ls=":", label="features with signal")
    axes[0].set(xlabel="weight of the L1 norm", ylabel="nonzero loadings", ylim=(0, 42))
    other = axes[0].twinx()
    other.plot(weights, variance, "s--", color="#D55E00", label="variance explained")
    other.set(ylabel="variance x'Sx", ylim=(0, 1.1 * max(variance)))
    handles = [*axes[0].get_legend_handles_labels()[0], *other.get_legend_handles_labels()[0]]
    axes[0].legend(handles=handles, loc="center right", frameon=False)
    chosen = min(range(len(found)), key=lambda k: abs(counts[k] - np.count_nonzero(TRUTH)))
    sign = np.sign(found[chosen].x @ TRUTH)
    first = found[0].x * np.sign(found[0].x @ TRUTH)
    axes[1].bar(np.arange(FEATURES), TRUTH, color="0.85", width=0.9, label="truth")
    axes[1].plot(first, "o", ms=5, mfc="none", color="#0072B2", label="weight 0")
    axes[1].plot(sign * found[chosen].x, "D", ms=5, color="#D55E00", label=f"weight {weights[chosen]:.2f}")
    axes[1].set(xlabel="feature", ylabel="loading")
    axes[1].legend(frameon=False)
    figure.savefig(where, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    S, weights = covariance(), np.linspace(0.0, 0.6, 13)
    found = path(weights, S)
    for weight, result in zip(weights, found, strict=True):
        overlap = abs(result.x @ TRUTH)
        print(
            f"weight {weight:.2f}: {np.count_nonzero(result.x):2} loadings, overlap with the truth {overlap:.3f}, "
            f"R = {result.certificate.residual:.0e}"
        )
    draw(weights, found, S, output / "sparse_pca.png")
    return found


if __name__ == "__main__":
    main()
