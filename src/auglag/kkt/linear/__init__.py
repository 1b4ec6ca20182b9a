"""Linear solvers for KKT matrices: one file each, one line of registration here, and the one place that chooses."""

from __future__ import annotations

import warnings
from contextvars import ContextVar
from functools import cache
from typing import Any, final

from auglag.errors import InputError
from auglag.kkt import tuning
from auglag.kkt.hessian import Hessian
from auglag.kkt.linear.base import Analyses, Factor, Indices, LinearSolver, System
from auglag.kkt.linear.dense import Dense, triangle_size
from auglag.kkt.linear.full import Full
from auglag.kkt.linear.pardiso import Pardiso
from auglag.kkt.linear.qdldl import Qdldl
from auglag.kkt.linear.superlu import SuperLU

SOLVERS: dict[str, LinearSolver] = {solver.name: solver for solver in (Dense(), Qdldl(), Pardiso(), Full(), SuperLU())}
AUTO = "auto"

#: The solver for sparse matrices that this run was told to use.
_wanted: ContextVar[str] = ContextVar("linear_solver", default=AUTO)


def require_solver(name: object) -> str:
    """The name, if it is "auto" or one of a solver for sparse matrices that is installed; else an error."""
    names = [AUTO, *(solver.name for solver in SOLVERS.values() if solver.is_sparse)]
    if name not in names:
        raise InputError(f"linear_solver must be one of {', '.join(map(repr, names))}, got {name!r}")
    if name != AUTO and not SOLVERS[str(name)].available:
        solver = SOLVERS[str(name)]
        raise InputError(f"linear_solver={name!r} needs the package {solver.needs}: pip install {solver.install}")
    return str(name)


@final
class using:
    """For the time of a run, in this thread: sparse matrices are factorised by this solver.

    `contextlib.contextmanager` would set attributes of the exceptions of users, which may not allow it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._token = _wanted.set(self._name)

    def __exit__(self, *error: object) -> None:
        _wanted.reset(self._token)


def chosen(h: Hessian, analyses: Analyses | None = None) -> LinearSolver:
    """The solver for a Hessian: LAPACK for a dense one; for a sparse one what the run was told, else by what is known.

    qdldl comes first, LAPACK where qdldl's factors of this pattern turned out to be nearly full, Pardiso where they
    turned out to be much work, SuperLU where neither is installed.
    """
    if not h.is_sparse:
        return SOLVERS["dense"]
    if _wanted.get() != AUTO:
        return SOLVERS[_wanted.get()]
    if not SOLVERS["qdldl"].available:
        if h.matrix.shape[0] >= tuning.TUNING.large_problem:
            _recommend()
        return SOLVERS["superlu"]
    t, qdldl = tuning.TUNING, SOLVERS["qdldl"]
    if analyses is None:
        return qdldl
    if fill := analyses.fill(qdldl):
        triangle = analyses.of(qdldl)
        if triangle.n == h.matrix.shape[0] and fill > t.nearly_full * triangle_size(triangle.size):
            return SOLVERS["full"]
    return SOLVERS["pardiso"] if analyses.work(qdldl) > t.large_work and SOLVERS["pardiso"].available else qdldl


@cache
def _recommend() -> None:
    """Say once that there is a faster way."""
    warnings.warn(
        "large sparse matrices are factorised by SuperLU; pip install 'auglag[sparse]' brings qdldl, which is several "
        "times faster",
        stacklevel=2,
    )


def system(h: Hessian, j: Any, analyses: Analyses | None = None) -> System:
    """[[H, J'], [J, 0]] for the solver chosen; `analyses` is shared with systems of the same pattern."""
    solver = chosen(h, analyses)
    return solver.system(h, j, (Analyses() if analyses is None else analyses).of(solver))


def part(h: Hessian, j: Any, free: Indices, active: Indices, analyses: Analyses) -> System:
    """The same on some variables and rows; `analyses` is that of the whole."""
    solver = chosen(h, analyses)
    return solver.part(h, j, free, active, analyses.of(solver) if solver.is_sparse else None)


__all__ = [
    "AUTO",
    "SOLVERS",
    "Analyses",
    "Factor",
    "LinearSolver",
    "System",
    "chosen",
    "part",
    "require_solver",
    "system",
    "using",
]
