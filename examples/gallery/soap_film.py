"""A soap film over a ball, and one that holds a volume of air.

The film of least area on a wavy frame that stays above a ball: 625 heights, the ball is a lower bound on each of
them. With a given volume of air below it the film bulges; the volume is one more equality, and its multiplier is the
pressure, in units of the surface tension. With many variables, a cheap gradient and no Hessian, L-BFGS-B is the right
inner solver.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import LinearConstraint

import auglag

CELLS = 26
STEP = 2.0 / CELLS
X, Y = np.meshgrid(np.linspace(-1, 1, CELLS + 1), np.linspace(-1, 1, CELLS + 1), indexing="ij")
FRAME = 0.25 * np.cos(2 * np.pi * X) * np.cos(np.pi * Y / 2 + 0.4)
BALL = np.sqrt(np.maximum(0.45**2 - X**2 - Y**2, 0.0)) + np.where(X**2 + Y**2 < 0.45**2, 0.0, -9.0)


def surface(z: np.ndarray) -> np.ndarray:
    """The heights at all nodes; the frame holds those at the edge."""
    u = FRAME.copy()
    u[1:-1, 1:-1] = z.reshape(CELLS - 1, CELLS - 1)
    return u


def area(z: np.ndarray) -> tuple[float, np.ndarray]:
    """The area of two triangles in every cell, and its gradient."""
    u = surface(z)
    along_x, along_y = np.diff(u, axis=0) / STEP, np.diff(u, axis=1) / STEP
    total, slope = 0.0, np.zeros_like(u)
    for low, px, py in ((0, along_x[:, :-1], along_y[:-1, :]), (1, along_x[:, 1:], along_y[1:, :])):
        root = np.sqrt(1 + px**2 + py**2)
        total += 0.5 * STEP**2 * root.sum()
        dx, dy = 0.5 * STEP * px / root, 0.5 * STEP * py / root
        columns, rows = slice(low, low + CELLS), slice(low, low + CELLS)
        slope[1:, columns] += dx
        slope[:-1, columns] -= dx
        slope[rows, 1:] += dy
        slope[rows, :-1] -= dy
    return total, slope[1:-1, 1:-1].ravel()


def solve(volume: float | None) -> auglag.Result:
    lower = BALL[1:-1, 1:-1].ravel()
    start = np.maximum(lower, 0.1)
    air = LinearConstraint(np.full((1, start.size), STEP**2), volume, volume) if volume is not None else ()
    bounds = [(low, None) for low in lower]
    return auglag.minimize(area, start, jac=True, bounds=bounds, constraints=air, inner="lbfgsb")


def draw(films: dict[str, auglag.Result], path: Path) -> None:
    figure = plt.figure(figsize=(11, 4.8), layout="constrained")
    for place, (title, result) in enumerate(films.items(), 1):
        axis = figure.add_subplot(1, 2, place, projection="3d")
        u = surface(result.x)
        touching = np.where(u - BALL < 1e-6, 1.0, 0.0)
        shade = plt.cm.cividis(0.15 + 0.75 * (u - u.min()) / np.ptp(u))
        shade[touching > 0] = (0.84, 0.37, 0.0, 1.0)
        axis.plot_surface(X, Y, u, facecolors=shade, rstride=1, cstride=1, linewidth=0.2, edgecolor="0.3")
        axis.set(title=title, zlim=(-0.3, 0.9), xlabel="x", ylabel="y", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
        axis.view_init(28, -55)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    free, full = solve(None), solve(1.6)
    pressure = -float(np.ravel(full.multipliers[0])[0])
    touching = [int(np.count_nonzero(np.abs(run.x - BALL[1:-1, 1:-1].ravel()) < 1e-6)) for run in (free, full)]
    print(f"free: area {free.fun:.6f}, {touching[0]} nodes on the ball, R = {free.certificate.residual:.0e}")
    print(
        f"with air: area {full.fun:.6f}, {touching[1]} nodes on the ball, pressure {pressure:.4f}, "
        f"R = {full.certificate.residual:.0e}"
    )
    titles = ("free film; orange: touching the ball", f"volume 1.6 below; pressure {pressure:.2f}")
    draw(dict(zip(titles, (free, full), strict=True)), output / "soap_film.png")
    return [free, full]


if __name__ == "__main__":
    main()
