"""An infeasible problem, explained.

A point is wanted inside a disc, above a parabola and to the right of a line. No such point exists. The
result does not only say "failed": it says that the problem is infeasible, where the violation is least, and which
constraints are in conflict there. The constraint that is not named may stay as it is. Moving one of the named ones by a
little more than its violation makes the problem feasible.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import auglag


def constraints(line: float) -> list[dict]:
    return [
        {"type": "ineq", "fun": lambda x: 1.0 - x @ x, "name": "inside the disc"},
        {"type": "ineq", "fun": lambda x: x[1] - x[0] ** 2, "name": "above the parabola"},
        {"type": "ineq", "fun": lambda x: x[0] - line, "name": "right of the line"},
        {"type": "ineq", "fun": lambda x: x[1] + 0.5, "name": "above y = -0.5"},
    ]


def solve(line: float) -> auglag.Result:
    """The point nearest to the origin that meets them all."""
    return auglag.minimize(lambda x: x @ x, [0.2, 0.4], constraints=constraints(line))


def draw(bad: auglag.Result, good: auglag.Result, path: Path) -> None:
    grid = np.meshgrid(np.linspace(-0.4, 1.8, 300), np.linspace(-0.7, 1.8, 300))
    x, y = grid
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 5), sharey=True, layout="constrained")
    for axis, line, result in zip(axes, (1.2, 0.75), (bad, good), strict=True):
        rows = [1 - x**2 - y**2, y - x**2, x - line, y + 0.5]
        violation = np.sqrt(sum(np.minimum(row, 0) ** 2 for row in rows))
        levels = np.linspace(0, 6, 25)
        shown = axis.contourf(x, y, violation, levels=levels, cmap="Greys", vmax=9)
        for row, colour in zip(rows, ("#0072B2", "#D55E00", "#009E73", "0.5"), strict=True):
            axis.contour(x, y, row, levels=[0], colors=colour, linewidths=2)
        axis.plot(*result.x, "*", ms=17, color="#F0E442", mec="k")
        axis.set(title=f"x >= {line}: {result.status.name.lower()}", xlabel="x", aspect="equal")
    axes[0].set_ylabel("y")
    for name, colour, where in (
        ("disc", "#0072B2", (-0.3, 0.75)),
        ("parabola", "#D55E00", (0.02, -0.2)),
        ("line", "#009E73", (1.26, 1.6)),
        ("y = -0.5", "0.3", (-0.3, -0.63)),
    ):
        axes[0].text(*where, name, color=colour, weight="bold", bbox={"color": "w", "alpha": 0.7, "pad": 1})
    figure.colorbar(shown, ax=axes, label="norm of the violation", shrink=0.8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    bad, good = solve(1.2), solve(0.75)
    print(bad.explain())
    print("In conflict:", ", ".join(f"{name} ({size:.3f})" for name, size in bad.violations.items()))
    print(f"With the line at 0.75: {good.message}")
    draw(bad, good, output / "infeasible.png")
    return [bad, good]


if __name__ == "__main__":
    main()
