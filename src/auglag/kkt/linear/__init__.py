"""Linear solvers for KKT matrices: one file each, one line of registration here, and the one place that chooses."""

from __future__ import annotations

from typing import Any

from auglag.kkt.hessian import Hessian
from auglag.kkt.linear.base import Analyses, Factor, Indices, LinearSolver, System
from auglag.kkt.linear.dense import Dense
from auglag.kkt.linear.superlu import SuperLU

SOLVERS: dict[str, LinearSolver] = {solver.name: solver for solver in (Dense(), SuperLU())}


def chosen(h: Hessian) -> LinearSolver:
    """The solver for a Hessian: by whether it is sparse."""
    return SOLVERS["superlu" if h.is_sparse else "dense"]


def system(h: Hessian, j: Any, analyses: Analyses | None = None) -> System:
    """[[H, J'], [J, 0]] for the solver chosen; `analyses` is shared with systems of the same pattern."""
    solver = chosen(h)
    return solver.system(h, j, (Analyses() if analyses is None else analyses).of(solver))


def part(h: Hessian, j: Any, free: Indices, active: Indices, analyses: Analyses) -> System:
    """The same on some variables and rows; `analyses` is that of the whole."""
    solver = chosen(h)
    return solver.part(h, j, free, active, analyses.of(solver))


__all__ = ["SOLVERS", "Analyses", "Factor", "LinearSolver", "System", "chosen", "part", "system"]
