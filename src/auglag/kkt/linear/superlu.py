"""Sparse KKT matrices by SuperLU (in SciPy), used without row exchanges: of a quasi-definite matrix that is L D L'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from auglag._typing import Vector
from auglag.kkt import tuning
from auglag.kkt.hessian import Hessian
from auglag.kkt.linear.base import Factor, Indices, LinearSolver, System
from auglag.kkt.linear.layout import Layout, canonical
from auglag.kkt.linear.refinement import HeldFactor, LowRankFactor, PlainFactor, probe


@final
class SuperLU(LinearSolver):
    """SuperLU on csc matrices, with a `Layout` for systems of one pattern."""

    name: ClassVar[str] = "superlu"
    is_sparse: ClassVar[bool] = True

    def analysis(self) -> Layout:
        return Layout()

    def system(self, h: Hessian, j: Any, analysis: Layout) -> System:
        return SparseSystem(h, j, analysis)

    def part(self, h: Hessian, j: Any, free: Indices, active: Indices, analysis: Layout) -> System:
        """In the layout of the whole as long as not too little of it is used; without rank-one terms."""
        used, whole = free.size + active.size, sum(j.shape)
        if h.v is None:
            if used == whole:
                return SparseSystem(h, j, analysis)
            if used >= tuning.TUNING.part_of_layout * whole:
                return HeldSystem(h.matrix, j, free, active, analysis)
        return super().part(h, j, free, active, analysis)


@final
class SparseSystem(System):
    """[[H, J'], [J, 0]], assembled once."""

    __slots__ = ("_h", "_k", "_layout", "_parts", "_shape")

    def __init__(self, h: Hessian, j: Any, layout: Layout) -> None:
        self._shape, self._layout, self._h = j.shape, layout, h
        self._parts = canonical(h.matrix), canonical(j)
        self._assemble()

    def _assemble(self) -> None:
        self._layout.arrange(*self._parts)
        self._k = self._layout.matrix(*self._parts)

    def factor(self, first: Vector | float, second: Vector | float, soft: float | None = None) -> Factor:
        """Without row exchanges."""
        return self._factor(first, second, soft, pivoting=False)

    def pivoted(self, first: Vector | float, second: Vector | float) -> Factor | None:
        """With row exchanges; None where these factors may be too large."""
        if not exchangeable(sum(self._shape), self._layout.fill):
            return None
        return self._factor(first, second, 0.0, pivoting=True)

    def _factor(self, first: Vector | float, second: Vector | float, soft: float | None, *, pivoting: bool) -> Factor:
        m, n = self._shape
        if self._layout.order is not None and not self._layout.arranged:
            self._assemble()  # the first factorisation found the order for those to come
        k = self._k.copy()
        k.data[self._layout.diagonal] += np.concatenate([np.broadcast_to(first, n), -np.broadcast_to(second, m)])
        plain = SparseFactor(k, self._layout, n, soft, pivoting=pivoting)
        h = self._h
        return plain if h.v is None or h.c is None else LowRankFactor(plain, h.v, h.c)


@final
class SparseFactor(PlainFactor):
    """Factors without row exchanges, whose pivots have the signs of the eigenvalues.

    Without exchanges tiny pivots would be fatal, so that a little is added to the diagonal, with the sign it should
    have, and taken back by iterative refinement. With `pivoting` rows are exchanged and nothing is added: solutions are
    as accurate as can be, but the inertia is not known.
    """

    __slots__ = ("_exchanged", "_k", "_lu", "_order", "_regular")

    def __init__(self, k: Any, layout: Layout, n: int, soft: float | None, *, pivoting: bool = False) -> None:
        """K, laid out so, has n columns of H."""
        self._k, self._regular = k, k
        self._exchanged: Any = None  #: factors with row exchanges, where those without were too poor
        self._order = layout.order if layout.arranged else None
        self.negative = None
        if pivoting:
            self._lu = with_exchanges(k)
            return
        t, regular = tuning.TUNING, k
        if soft != 0.0:
            added = np.zeros(k.shape[0])
            added[:n] = t.regularisation
            added[n:] = -np.maximum((t.regularisation if soft is None else soft) + k.data[layout.diagonal[n:]], 0.0)
            regular = k.copy()
            regular.data[layout.diagonal] += added
        self._regular = regular
        try:
            self._lu = splu(
                regular,
                permc_spec="NATURAL" if self._order is not None else "MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                relax=t.superlu_relax,
                panel_size=t.superlu_panel,
                options={"SymmetricMode": True},
            )
        except RuntimeError:  # exactly singular
            self._lu = None
            return
        layout.fill = self.fill
        if layout.order is None:
            layout.order = np.argsort(self._lu.perm_c)
        if np.array_equal(self._lu.perm_r, self._lu.perm_c):
            pivots = self._lu.U.diagonal()
            if np.isfinite(pivots).all() and (pivots != 0.0).all():
                self.negative = int(np.count_nonzero(pivots < 0))

    @property
    def size(self) -> int:
        return int(self._k.shape[0])

    @property
    def fill(self) -> int:
        """The entries of L and U, which has the pivots once more: half of them."""
        return 0 if self._lu is None else int(self._lu.nnz) // 2

    def trusted(self) -> bool:
        """Whether the factors are those of the matrix, so that the inertia is: with tiny pivots they need not be."""
        if self._lu is None:
            return False
        b = probe(self.size)
        error = np.max(np.abs(self._regular @ self._lu.solve(b) - b), initial=0.0)
        return bool(error <= tuning.TUNING.trusted_residual)

    @property
    def failed(self) -> bool:
        return self._lu is None

    @property
    def changed(self) -> bool:
        return self._regular is not self._k

    def magnitudes(self, x: Vector) -> Vector:
        return np.asarray(self._stated(abs(self._k) @ self._ordered(x)))

    def exchanged(self) -> Callable[[Vector], Vector] | None:
        if self._exchanged is None and exchangeable(self.size, self.fill):
            self._exchanged = with_exchanges(self._k)
        factors = self._exchanged
        return None if factors is None else lambda b: np.asarray(self._stated(factors.solve(self._ordered(b))))

    def columns(self, b: Any) -> Any:
        """K^-1 B, refined once."""
        if self._lu is None:
            return np.full(b.shape, np.nan)
        b = self._ordered(b)
        x = self._lu.solve(b)
        x += self._lu.solve(b - self._k @ x)
        return self._stated(x)

    def once(self, b: Vector) -> Vector:
        if self._lu is None:
            return np.full(b.size, np.nan)
        return np.asarray(self._stated(self._lu.solve(self._ordered(b))))

    def product(self, x: Vector) -> Vector:
        return np.asarray(self._stated(self._k @ self._ordered(x)))

    def _ordered(self, stated: Any) -> Any:
        """From the order of the matrix as stated to that of the layout."""
        return stated if self._order is None else stated[self._order]

    def _stated(self, ordered: Any) -> Any:
        """From the order of the layout back to that of the matrix as stated."""
        if self._order is None:
            return ordered
        x = np.empty_like(ordered)
        x[self._order] = ordered
        return x


def exchangeable(size: int, fill: int) -> bool:
    """Whether factors with row exchanges of a matrix of this size are sure to be small, or not much larger than `fill`.

    Exchanges may fill the whole matrix, of which nothing can be known before: one long column, as a free final time
    has, is enough.
    """
    t = tuning.TUNING
    return size**2 <= max(t.exchanged_entries, t.exchanged_growth * fill)


def with_exchanges(k: Any) -> Any:
    """SuperLU's factors with row exchanges; None if K is exactly singular."""
    try:
        return splu(k, permc_spec="COLAMD")
    except RuntimeError:
        return None


@final
class HeldSystem(System):
    """The system of the free variables and active rows alone, in the layout of the whole.

    What is held or not active has ones on the diagonal and nothing else. Factors are larger than they had to be, but
    which variables are free changes from one system to the next, and the layout does not.
    """

    __slots__ = ("_k", "_layout", "_places", "_shape", "_variables")

    def __init__(self, h: Any, j: Any, free: Indices, active: Indices, layout: Layout) -> None:
        (m, n), h, j = j.shape, canonical(h), canonical(j)
        self._layout, self._shape = layout, (m, n)
        self._places, self._variables = np.concatenate([free, n + active]), free.size
        is_free, is_active = np.zeros(n, dtype=bool), np.zeros(m, dtype=bool)
        is_free[free] = is_active[active] = True
        h_on = is_free[h.indices] & np.repeat(is_free, np.diff(h.indptr))
        j_on = is_free[j.indices] & np.repeat(is_active, np.diff(j.indptr))
        h = sparse.csc_array((np.where(h_on, h.data, 0.0), h.indices, h.indptr), shape=h.shape)
        j = sparse.csr_array((np.where(j_on, j.data, 0.0), j.indices, j.indptr), shape=j.shape)
        layout.arrange(h, j)
        self._k = layout.matrix(h, j)

    def factor(self, first: Vector | float, second: Vector | float, soft: float | None = None) -> Factor:
        m, n = self._shape
        free, active = np.split(self._places, [self._variables])
        added = np.concatenate([np.ones(n), np.full(m, -1.0)])
        added[free], added[active] = first, -np.asarray(second)
        k = self._k.copy()
        k.data[self._layout.diagonal] += added
        return HeldFactor(SparseFactor(k, self._layout, n, soft), self._places, m - active.size)
