"""Twenty-five thousand problems at once: the distance to a curve.

How far is every point of a grid from a curve given only by an equation c(x) = 0? Each point is an optimisation
problem of its own: min ||x - p||^2 subject to c(x) = 0, with several local solutions. Seven starts for each of 10,000
points make 25,200 problems, which `auglag.jax.solve_batch` solves in one compiled program, on a CPU or a GPU, each
with its own penalty, multipliers, status and certificate. Derivatives come from JAX. The nearest certified solution
of a point is kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import auglag.jax

SIDE, STARTS = 60, 7


def curve(x: jax.Array, p: jax.Array) -> jax.Array:
    """A blob with three lobes."""
    angle, radius = jnp.arctan2(x[1], x[0]), jnp.sqrt(x @ x + 1e-12)
    return radius - 1.0 - 0.35 * jnp.cos(3 * angle)


def distance(x: jax.Array, p: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum((x - p) ** 2)


def solve(points: np.ndarray) -> auglag.jax.Solution:
    """Every point with every start: the point itself, and six points around the curve."""
    angles = np.arange(STARTS - 1) * 2 * np.pi / (STARTS - 1)
    around = (1 + 0.35 * np.cos(3 * angles)) * np.array([np.cos(angles), np.sin(angles)])
    starts = np.concatenate([points[None], np.broadcast_to(around.T[:, None], (STARTS - 1, *points.shape))])
    targets = np.broadcast_to(points, starts.shape)
    rows = {"type": "eq", "fun": curve, "name": "curve"}
    flat = starts.reshape(-1, 2), (targets.reshape(-1, 2),)
    return auglag.jax.solve_batch(distance, *flat, in_axes=(0, 0), constraints=rows)


def draw(points: np.ndarray, nearest: np.ndarray, path: Path) -> None:
    shape = (SIDE, SIDE)
    x, y = points[:, 0].reshape(shape), points[:, 1].reshape(shape)
    inside = np.hypot(x, y) < 1 + 0.35 * np.cos(3 * np.arctan2(y, x))
    signed = np.linalg.norm(points - nearest, axis=1).reshape(shape) * np.where(inside, -1, 1)
    figure, axis = plt.subplots(figsize=(7.4, 6), layout="constrained")
    shown = axis.contourf(x, y, signed, levels=np.linspace(-1.5, 1.5, 31), cmap="PuOr", extend="both")
    axis.contour(x, y, signed, levels=[0], colors="k", linewidths=2)
    for k in np.random.default_rng(4).choice(len(points), 60, replace=False):
        axis.plot(*np.array([points[k], nearest[k]]).T, "-", color="0.25", lw=0.8)
        axis.plot(*points[k], "o", color="0.25", ms=3)
    axis.set(aspect="equal", xlabel="x", ylabel="y", title="distance to the curve; 60 of 3,600 points drawn")
    figure.colorbar(shown, label="signed distance")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.jax.Solution]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_enable_x64", True)
    axis = np.linspace(-1.8, 1.8, SIDE)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    batch = solve(points)
    print(batch.messages())
    found = np.asarray(batch.x).reshape(STARTS, -1, 2)
    gap = np.where(np.asarray(batch.success).reshape(STARTS, -1), np.linalg.norm(found - points, axis=2), np.inf)
    nearest = found[gap.argmin(axis=0), np.arange(len(points))]
    local = np.mean(gap[0] > gap.min(axis=0) + 1e-6)
    print(f"from the first start alone, {100 * local:.1f} % of the points would have ended at one that is not nearest")
    draw(points, nearest, output / "distance_field.png")
    return [batch]


if __name__ == "__main__":
    main()
