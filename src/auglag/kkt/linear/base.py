"""The contract of a linear solver for the symmetric matrices of Newton's method on the KKT conditions.

All of them have the form

    K = [[H + diag(first), J'], [J, -diag(second)]],    H symmetric n x n, J m x n, first >= 0, second >= 0,

where H and J stay the same while `first` and `second` change. K has exactly m negative eigenvalues if and only if the
step it gives is one of descent (for second > 0: if and only if H + diag(first) + J' diag(1/second) J is positive
definite), which is why every factorisation must report its inertia.

Three objects, from the pattern to the solution:

    LinearSolver    one per library; stateless. `system` analyses the pattern, or takes the analysis of before.
    System          one per (H, J). `factor` factorises the values with one choice of diagonals.
    Factor          one per K. `negative`, `trusted`, `solve`, `fill`.

To add a solver: one file with the three classes, one line in `SOLVERS` of `auglag.kkt.linear`, and a line in `chosen`
there that says when it is used. tests/contract/test_linear_solvers.py runs over all that are registered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.util import find_spec
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.kkt.hessian import Hessian

Indices = NDArray[np.intp]


class Factor(ABC):
    """The factors of one symmetric matrix K."""

    __slots__ = ("negative",)

    #: The number of negative eigenvalues of K; None where K is singular to working precision, or where the
    #: factorisation broke down or cannot tell. A solver that can only tell whether K has m negative eigenvalues may
    #: report None for every other number.
    negative: int | None

    @abstractmethod
    def trusted(self) -> bool:
        """Whether a `negative` that is not m proves that K does not have m negative eigenvalues.

        False if rounding may have caused it: then `System.pivoted` is asked for factors that solve K x = b accurately.
        A solver that chooses its pivots is always to be trusted.
        """

    @abstractmethod
    def solve(self, b: Vector) -> Vector:
        """x with K x = b, in the order (variables, rows), after iterative refinement with K itself.

        Refinement uses K with the diagonals that were asked for, not what a factorisation replaced them by. Where the
        factorisation failed, entries are not finite; no exception is raised and no zeros are returned instead.
        """

    def roughly(self, b: Vector, enough: float) -> tuple[Vector, float]:
        """x with K x = b, refined only until its residual, relative to |b|, is `enough`; and the residual relative to
        |b| + |x|.

        What `solve` does beyond that may cost several times as much. Solvers without refinement report 0.
        """
        return self.solve(b), 0.0

    @property
    @abstractmethod
    def fill(self) -> int:
        """How many numbers the factors hold: about half of the multiplications of one triangular solve."""


class System(ABC):
    """[[H, J'], [J, 0]], to be factorised with one choice of diagonals after another."""

    __slots__ = ()

    @abstractmethod
    def factor(self, first: Vector | float, second: Vector | float, soft: float | None = None) -> Factor:
        """The factors of K; a number stands for a vector with that number in every entry.

        A factorisation without pivoting is stable only for quasi-definite matrices, so that it may use max(second,
        `soft`) instead of `second`; `Factor.solve` corrects for the difference by refinement, and `Factor.negative` is
        that of the changed matrix. None: what the solver needs. 0: K itself is factorised, since the caller has seen to
        it that it is quasi-definite. Solvers that choose their pivots ignore `soft`.
        """

    def pivoted(self, first: Vector | float, second: Vector | float) -> Factor | None:
        """Factors by another method that chooses its pivots: more accurate, `negative` is None.

        None for solvers whose `factor` does so anyway, and where such factors may be too large.
        """
        return None


class LinearSolver(ABC):
    """A library that factorises symmetric indefinite matrices."""

    name: ClassVar[str]
    #: Whether H.matrix and J are sparse (csc and csr arrays, H with both triangles) or NumPy arrays.
    is_sparse: ClassVar[bool]
    needs: ClassVar[str] = ""  #: the package that has to be installed for it
    install: ClassVar[str] = ""  #: what pip is told to get it

    @property
    def available(self) -> bool:
        """Whether that package is there."""
        return not self.needs or find_spec(self.needs) is not None

    def fill(self, analysis: Any) -> int:
        """How many numbers the last factors of this analysis held; 0 where that is not known."""
        return 0

    def work(self, analysis: Any) -> float:
        """How many multiplications made these factors; 0 where that is not known."""
        return 0.0

    def analysis(self) -> Any:
        """A new object for what the solver keeps from one system to the next of the same pattern (order, symbolic
        factors), as yet empty; None if it keeps nothing."""
        return None

    @abstractmethod
    def system(self, h: Hessian, j: Any, analysis: Any) -> System:
        """The system of H and J; `analysis` comes from `analysis()`, and maybe from systems before.

        It is the solver's task to find out whether it belongs to the pattern of H and J, and to do it again if not.
        Rank-one terms of H (`Hessian.v`, `Hessian.c`), which occur beside sparse matrices only, are part of K.
        """

    def part(self, h: Hessian, j: Any, free: Indices, active: Indices, analysis: Any) -> System:
        """The system of H[free, free] and J[active, free]; `analysis` is that of the whole H and J.

        A solver may reuse the analysis of the whole where that is cheaper than the analysis of the part.
        """
        return self.system(h.on(free), block(j, active, free), self.analysis())


@final
class Analyses:
    """What linear solvers keep from one system to the next of the same pattern: one `analysis` for each of them."""

    __slots__ = ("_known", "factorisations")

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self.factorisations = 0  #: made so far: what a phase costs on large problems, whatever the machine

    def of(self, solver: LinearSolver) -> Any:
        """The analysis of this solver."""
        if solver.name not in self._known:
            self._known[solver.name] = solver.analysis()
        return self._known[solver.name]

    def fill(self, solver: LinearSolver) -> int:
        """How many numbers this solver's last factors held; 0 before there were any."""
        return solver.fill(self._known[solver.name]) if solver.name in self._known else 0

    def work(self, solver: LinearSolver) -> float:
        """How many multiplications made them; 0 before there were any."""
        return solver.work(self._known[solver.name]) if solver.name in self._known else 0.0


def block(matrix: Any, rows: Indices, columns: Indices) -> Any:
    """matrix[rows, columns]; the matrix itself where that is all of it."""
    if rows.size == matrix.shape[0] and columns.size == matrix.shape[1]:
        return matrix
    if isinstance(matrix, np.ndarray):
        return matrix.take(rows, 0).take(columns, 1)
    return matrix[rows][:, columns]
