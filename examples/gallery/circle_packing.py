"""Packing ten circles, or spheres, as large as they go.

Where to put ten points in a unit square, or a unit cube, so that balls around them are as large as possible and do
not overlap? The variables are the centres and the radius; every pair is a nonconvex constraint, the walls are
constraints too. There are many local solutions, so several starts are tried and the best certified one is kept. In
the plane the best radius known is 0.148204322565 (and proved to be the best); the multipliers show which contacts
carry load.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import NonlinearConstraint

import auglag

COUNT = 10
I, J = np.triu_indices(COUNT, 1)
BEST_KNOWN = 0.148204322565  # in the plane


def solve(dimension: int, seed: int) -> auglag.Result:
    """Maximise r = z[-1] over the centres z[:-1]: |p_i - p_j|^2 >= 4 r^2, r <= p_i <= 1 - r."""
    size = COUNT * dimension

    def gaps(z: np.ndarray) -> np.ndarray:
        p = z[:-1].reshape(COUNT, dimension)
        pairs = np.sum((p[I] - p[J]) ** 2, axis=1) - 4 * z[-1] ** 2
        return np.concatenate([pairs, z[:-1] - z[-1], 1 - z[-1] - z[:-1]])

    def slopes(z: np.ndarray) -> np.ndarray:
        p = z[:-1].reshape(COUNT, dimension)
        jac = np.zeros((I.size + 2 * size, size + 1))
        for row, (i, j) in enumerate(zip(I, J, strict=True)):
            jac[row, i * dimension : (i + 1) * dimension] = 2 * (p[i] - p[j])
            jac[row, j * dimension : (j + 1) * dimension] = 2 * (p[j] - p[i])
        jac[: I.size, -1] = -8 * z[-1]
        jac[I.size : I.size + size, :-1] = np.eye(size)
        jac[I.size + size :, :-1] = -np.eye(size)
        jac[I.size :, -1] = -1.0
        return jac

    start = np.append(np.random.default_rng(seed).uniform(0.1, 0.9, size), 0.05)
    down = np.append(np.zeros(size), -1.0)
    rows = NonlinearConstraint(gaps, 0.0, np.inf, jac=slopes)
    return auglag.minimize(lambda z: -z[-1], start, jac=lambda z: down, constraints=rows)


def draw(flat: auglag.Result, solid: auglag.Result, path: Path) -> None:
    figure = plt.figure(figsize=(10, 5), layout="constrained")
    axis = figure.add_subplot(1, 2, 1)
    p, r = flat.x[:-1].reshape(COUNT, 2), flat.x[-1]
    load = np.abs(flat.multipliers[0][: I.size])
    for centre in p:
        axis.add_patch(plt.Circle(centre, r, facecolor="#56B4E9", edgecolor="#0072B2", alpha=0.7))
    for i, j, force in zip(I, J, load, strict=True):
        if force > 1e-4:
            axis.plot(*p[[i, j]].T, color="#D55E00", lw=1 + 12 * force / load.max() * 0.4)
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", title=f"square: r = {r:.9f}; lines: contacts under load")
    axis = figure.add_subplot(1, 2, 2, projection="3d")
    p, r = solid.x[:-1].reshape(COUNT, 3), solid.x[-1]
    u, v = np.mgrid[0 : 2 * np.pi : 25j, 0 : np.pi : 13j]
    ball = np.stack([np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)])
    for k, centre in enumerate(p):
        axis.plot_surface(*(centre[:, None, None] + r * ball), color=plt.cm.cividis(k / (COUNT - 1)), linewidth=0)
    axis.set(xlim=(0, 1), ylim=(0, 1), zlim=(0, 1), box_aspect=(1, 1, 1), title=f"cube: r = {r:.6f}")
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    best = []
    for dimension, starts in ((2, 20), (3, 8)):
        runs = [solve(dimension, seed) for seed in range(starts)]
        certified = [run for run in runs if run.success]
        best.append(max(certified, key=lambda run: run.x[-1]))
        radii = sorted({round(float(run.x[-1]), 6) for run in certified}, reverse=True)
        print(f"dimension {dimension}: {len(certified)} of {starts} starts certified, radii {radii}")
    print(f"square: {best[0].x[-1]:.12f}, best known {BEST_KNOWN}, R = {best[0].certificate.residual:.0e}")
    draw(*best, output / "circle_packing.png")
    return best


if __name__ == "__main__":
    main()
