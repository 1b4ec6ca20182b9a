"""Denoising with a known noise level: total variation under a ball.

We look for the signal with the least total variation among all signals that are no further from the data than the
noise is large, ||x - data||^2 <= n sigma^2. The objective is nonsmooth, the constraint is nonlinear, and there is no
regularisation parameter to tune. The multiplier y of the constraint on the mean square gives that parameter: n / (2 y)
is the weight of the total variation beside ||x - data||^2 / 2 that one would have had to guess.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import NonlinearConstraint

import auglag

SIGMA = 0.25


def signal(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """A signal of steps and a ramp, and the same with noise."""
    t = np.arange(n) / n
    truth = np.select([t < 0.15, t < 0.35, t < 0.5, t < 0.75], [0.0, 1.5, -0.5, 1.0], default=0.2)
    return truth, truth + SIGMA * np.random.default_rng(5).standard_normal(n)


def solve(data: np.ndarray, sigma: float) -> auglag.Result:
    n = data.size
    ball = NonlinearConstraint(
        lambda x: np.mean((x - data) ** 2), -np.inf, sigma**2, jac=lambda x: 2 * (x - data)[None, :] / n
    )
    return auglag.minimize(
        lambda x: 0.0, data.copy(), jac=np.zeros_like, constraints=ball, g=auglag.prox.TotalVariation1D(1.0), tol=1e-5
    )


def draw(truth: np.ndarray, data: np.ndarray, found: dict[float, auglag.Result], path: Path) -> None:
    figure, axes = plt.subplots(len(found), 1, figsize=(9, 6.6), sharex=True, layout="constrained")
    for axis, (factor, run) in zip(axes, found.items(), strict=True):
        axis.plot(data, ".", color="0.7", ms=4, label="data")
        axis.step(np.arange(truth.size), truth, ":", where="mid", color="k", label="truth")
        axis.step(np.arange(truth.size), run.x, where="mid", color="#D55E00", lw=2, label="solution")
        error = np.sqrt(np.mean((run.x - truth) ** 2))
        axis.set(ylabel="value", title=f"{factor:g} times the noise allowed: {steps(run)} steps, error {error:.3f}")
    axes[0].legend(ncols=3, frameon=False, loc="upper right")
    axes[-1].set_xlabel("sample")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def steps(run: auglag.Result) -> int:
    return int(np.count_nonzero(np.abs(np.diff(run.x)) > 1e-6))


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    truth, data = signal()
    found = {factor: solve(data, factor * SIGMA) for factor in (0.5, 1.0, 1.3)}
    for factor, run in found.items():
        print(
            f"noise x {factor}: total variation {run.fun:.4f}, {steps(run)} steps, "
            f"multiplier {run.multipliers[0]:.3f}, R = {run.certificate.residual:.0e}"
        )
    draw(truth, data, found, output / "denoising.png")
    return list(found.values())


if __name__ == "__main__":
    main()
