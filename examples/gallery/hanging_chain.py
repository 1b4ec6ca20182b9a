"""A hanging chain, its tension, and a table below.

Forty links of equal length hang between two nails. The chain takes the shape of least potential energy; the length of
each link is a nonlinear equality, and the table is a bound on the heights. The multipliers of the links are the
tensions in the chain (in units of its weight per length): largest at the higher nail, and the same all along the part
that lies on the table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy import sparse
from scipy.optimize import NonlinearConstraint

import auglag

LINKS, LENGTH = 40, 3.2
LEFT, RIGHT = np.array([0.0, 1.0]), np.array([2.0, 0.7])


def joints(z: np.ndarray) -> np.ndarray:
    """All joints, nails included; the variables are the inner joints (x1, y1, x2, y2, ...)."""
    return np.vstack([LEFT, z.reshape(-1, 2), RIGHT])


def solve(table: float) -> auglag.Result:
    n = LINKS - 1
    link = LENGTH / LINKS

    def energy(z: np.ndarray) -> tuple[float, np.ndarray]:
        """Every joint carries one link's weight."""
        return link * z[1::2].sum(), np.tile([0.0, link], n)

    def lengths(z: np.ndarray) -> np.ndarray:
        return np.sum(np.diff(joints(z), axis=0) ** 2, axis=1) / (2 * link)

    def slopes(z: np.ndarray) -> sparse.csr_array:
        d = np.diff(joints(z), axis=0) / link
        link_number, joint = np.arange(LINKS), np.arange(LINKS) - 1
        rows = np.concatenate([np.repeat(link_number[1:], 2), np.repeat(link_number[:-1], 2)])
        columns = np.concatenate([np.ravel(2 * joint[1:, None] + [0, 1]), np.ravel(2 * joint[1:, None] + [0, 1])])
        values = np.concatenate([-d[1:].ravel(), d[:-1].ravel()])
        return sparse.csr_array((values, (rows, columns)), shape=(LINKS, 2 * n))

    start = np.linspace(LEFT, RIGHT, LINKS + 1)[1:-1]
    start[:, 1] -= 0.5 * np.sin(np.linspace(0, np.pi, LINKS + 1)[1:-1])
    rigid = NonlinearConstraint(lengths, link / 2, link / 2, jac=slopes)
    bounds = [(None, None), (table, None)] * n
    return auglag.minimize(energy, start.ravel(), jac=True, bounds=bounds, constraints=rigid)


def draw(results: dict[float, auglag.Result], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharey=True, layout="constrained")
    for axis, (table, result) in zip(axes, results.items(), strict=True):
        p = joints(result.x)
        chain = LineCollection(np.stack([p[:-1], p[1:]], axis=1), cmap="viridis", lw=5, capstyle="round")
        chain.set_array(np.abs(result.multipliers[0]))
        chain.set_clim(0.4, 1.85)
        axis.add_collection(chain)
        axis.plot(*np.array([LEFT, RIGHT]).T, "o", color="#D55E00", ms=9)
        if np.isfinite(table):
            axis.fill_between([-0.3, 2.3], -1.2, table - 0.02, color="0.85")
            axis.text(0.75, table - 0.15, "table")
        axis.set(xlim=(-0.15, 2.15), ylim=(-0.7, 1.15), aspect="equal", xlabel="x")
        axis.set_title("free" if not np.isfinite(table) else f"on a table at {table}")
    axes[0].set_ylabel("y")
    figure.colorbar(chain, ax=axes, label="tension (multiplier of the link)", shrink=0.8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    results = {table: solve(table) for table in (-np.inf, -0.2)}
    for table, result in results.items():
        tension = np.abs(result.multipliers[0])
        print(
            f"table at {table}: energy {result.fun:.6f}, tension {tension.min():.3f} to {tension.max():.3f}, "
            f"lowest joint {result.x[1::2].min():.3f}, R = {result.certificate.residual:.0e}, {result.nit_inner} steps"
        )
    draw(results, output / "hanging_chain.png")
    return list(results.values())


if __name__ == "__main__":
    main()
