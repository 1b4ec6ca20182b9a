"""Sparse quasi-definite matrices: assembled into a pattern that is analysed once, and factorised as L D L'.

Rank-one terms of the Hessian stay outside the factors and come in through a small dense matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from auglag._typing import Vector
from auglag.kkt.hessian import Hessian

#: Added to the diagonal of sparse systems before they are factorised, and the most steps to take it back.
REGULARISATION = 1e-9
REFINEMENTS = 8
#: A residual, relative to the right side, above which factors are not taken to tell the inertia; and one above which
#: rows are exchanged to have a better solution.
TRUSTED, POOR = 1e-5, 1e-9
#: How SuperLU groups columns: hardly, since grouping fills the thin factors of such matrices.
RELAX, PANEL = 1, 4

Indices = NDArray[np.intp]


@final
class Layout:
    """The pattern of [[H, J'], [J, 0]] with its diagonal, in an order that keeps factors sparse.

    Both are kept as long as the patterns of H and J stay the same: assembling is then one pass over the entries. The
    order is SuperLU's, from the first factorisation.
    """

    def __init__(self) -> None:
        self._parts: tuple[Any, ...] = ()
        self.order: Indices | None = None  #: position -> index in the matrix as stated; None: as stated
        self.arranged = False  #: whether the pattern is in that order

    def arrange(self, h: Any, j: Any) -> None:
        """Take on the patterns of these matrices (csc, csr), in which no entry may occur twice."""
        parts = tuple(a for matrix in (h, j) for a in (matrix.indptr, matrix.indices))
        if len(self._parts) == len(parts) and all(map(_same, self._parts, parts)):
            if self.order is None or self.arranged:
                return
        else:
            self._parts, self.order = tuple(part.copy() for part in parts), None
        self._place(h, j)

    def _place(self, h: Any, j: Any) -> None:
        m, n = j.shape
        self.size = size = n + m
        columns = np.repeat(np.arange(n), np.diff(h.indptr))
        below, left = n + np.repeat(np.arange(m), np.diff(j.indptr)), j.indices
        there = np.flatnonzero(h.indices == columns)
        missing = np.ones(size, dtype=bool)
        missing[columns[there]] = False
        extra = np.flatnonzero(missing)
        row = np.concatenate([h.indices, below, left, extra])
        column = np.concatenate([columns, left, below, extra])
        self.arranged = self.order is not None
        if self.order is not None:
            position = np.empty(size, np.intp)
            position[self.order] = np.arange(size)
            row, column = position[row], position[column]
        numbered = sparse.coo_array((np.arange(row.size), (row, column)), shape=(size, size)).tocsc()
        numbered.sort_indices()
        places = np.empty(row.size, np.intp)
        places[numbered.data] = np.arange(row.size)
        self._indices, self._indptr = numbered.indices, numbered.indptr
        self._source = numbered.data
        self.diagonal = np.empty(size, np.intp)
        self.diagonal[columns[there]] = places[there]
        self.diagonal[extra] = places[row.size - extra.size :]

    def matrix(self, h: Any, j: Any) -> Any:
        """The matrix with zeros added on the diagonal, as csc, in the order."""
        given = np.concatenate([h.data, j.data, j.data])
        entries = np.concatenate([given, np.zeros(self._source.size - given.size)])
        return sparse.csc_array((entries[self._source], self._indices, self._indptr), shape=(self.size, self.size))


def _same(a: Any, b: Any) -> bool:
    return a.size == b.size and bool((a == b).all())


def _canonical(matrix: Any) -> Any:
    """The matrix with no entry stored twice."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _refined(b: Vector, solve: Callable[[Vector], Vector], product: Callable[[Vector], Vector]) -> tuple[Vector, float]:
    """The solution by an approximate inverse, refined as long as that helps; and its residual."""
    x, residual, error = np.zeros(b.size), b, float(np.max(np.abs(b), initial=0.0))
    target = 1e-14 * error
    for _ in range(REFINEMENTS):
        trial = x + solve(residual)
        residual = b - product(trial)
        now = float(np.max(np.abs(residual), initial=0.0))
        if not now < error:
            break
        slow = now > 0.5 * error
        x, error = trial, now
        if error <= target or slow:
            break
    return x, error


@final
class SparseSystem:
    """[[H, J'], [J, 0]] to be factorised with various diagonals."""

    __slots__ = ("_h", "_k", "_layout", "_parts", "_shape")

    def __init__(self, h: Hessian, j: Any, layout: Layout) -> None:
        self._shape, self._layout, self._h = j.shape, layout, h
        self._parts = _canonical(h.matrix), _canonical(j)
        self._assemble()

    def _assemble(self) -> None:
        self._layout.arrange(*self._parts)
        self._k = self._layout.matrix(*self._parts)

    def factor(
        self, first: Vector | float, second: Vector | float, soft: float, *, pivoting: bool = False
    ) -> SparseFactor | LowRankFactor:
        """The factors with `first` added to the diagonal of H and -`second` as that of the rows."""
        m, n = self._shape
        if self._layout.order is not None and not self._layout.arranged:
            self._assemble()  # the first factorisation found the order for those to come
        k = self._k.copy()
        k.data[self._layout.diagonal] += np.concatenate([np.broadcast_to(first, n), -np.broadcast_to(second, m)])
        plain = SparseFactor(k, self._layout, n, 0, soft, pivoting=pivoting)
        h = self._h
        return plain if h.v is None or h.c is None else LowRankFactor(plain, h.v, h.c)


@final
class SparseFactor:
    """SuperLU without row exchanges: of a quasi-definite matrix that is L D L', and D has its inertia.

    Without exchanges tiny pivots would be fatal, so that a little is added to the diagonal, with the sign it should
    have, and taken back by iterative refinement. With `pivoting` rows are exchanged and nothing is added: solutions are
    as accurate as can be, but the inertia is not known.
    """

    __slots__ = ("_exact", "_k", "_lu", "_order", "_regular", "negative")

    def __init__(self, k: Any, layout: Layout, n: int, extra: int, soft: float, *, pivoting: bool = False) -> None:
        """K, laid out so, has n columns of H; `extra` of its negative eigenvalues do not count."""
        self._k, self._regular = k, k
        self._exact: Any = None  #: factors with row exchanges, where they were needed
        self._order = layout.order if layout.arranged else None
        self.negative = -1
        if pivoting:
            try:
                self._lu = splu(k, permc_spec="COLAMD")
            except RuntimeError:  # exactly singular
                self._lu = None
            return
        added = np.zeros(k.shape[0])
        added[:n] = REGULARISATION
        added[n:] = -np.maximum(soft + k.data[layout.diagonal[n:]], 0.0)
        regular = k.copy()
        regular.data[layout.diagonal] += added
        self._regular = regular
        try:
            self._lu = splu(
                regular,
                permc_spec="NATURAL" if self._order is not None else "MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                relax=RELAX,
                panel_size=PANEL,
                options={"SymmetricMode": True},
            )
        except RuntimeError:  # exactly singular
            self._lu = None
            return
        if layout.order is None:
            layout.order = np.argsort(self._lu.perm_c)
        if np.array_equal(self._lu.perm_r, self._lu.perm_c):
            pivots = self._lu.U.diagonal()
            if np.isfinite(pivots).all() and (pivots != 0.0).all():
                self.negative = int(np.count_nonzero(pivots < 0)) - extra

    @property
    def size(self) -> int:
        """Rows and columns."""
        return int(self._k.shape[0])

    def trusted(self) -> bool:
        """Whether the factors are those of the matrix, so that the inertia is: with tiny pivots they need not be."""
        if self._lu is None:
            return False
        b = np.cos(np.arange(self._k.shape[0], dtype=float))
        return bool(np.max(np.abs(self._regular @ self._lu.solve(b) - b), initial=0.0) <= TRUSTED)

    def solve(self, b: Vector) -> Vector:
        """K^-1 b, refined as long as that helps."""
        if self._lu is None:
            return np.full(b.size, np.nan)
        b = b if self._order is None else b[self._order]
        x, error = _refined(b, self._lu.solve, lambda x: self._k @ x)
        if not error <= POOR * float(np.max(np.abs(b), initial=0.0)):
            x = self._exchanged(b, x, error)
        return np.asarray(self._stated(x))

    def _exchanged(self, b: Vector, x: Vector, error: float) -> Vector:
        """The solution by factors with row exchanges, if it is better than x."""
        if self._exact is None:
            try:
                self._exact = splu(self._k, permc_spec="COLAMD")
            except RuntimeError:  # exactly singular
                return x
        other, less = _refined(b, self._exact.solve, lambda x: self._k @ x)
        return other if less < error else x

    def columns(self, b: Any) -> Any:
        """K^-1 B, refined once."""
        if self._lu is None:
            return np.full(b.shape, np.nan)
        b = b if self._order is None else b[self._order]
        x = self._lu.solve(b)
        x += self._lu.solve(b - self._k @ x)
        return self._stated(x)

    def product(self, x: Vector) -> Vector:
        """K x."""
        return np.asarray(self._stated(self._k @ (x if self._order is None else x[self._order])))

    def _stated(self, ordered: Any) -> Any:
        """From the order of the layout back to that of the matrix as stated."""
        if self._order is None:
            return ordered
        x = np.empty_like(ordered)
        x[self._order] = ordered
        return x


@final
class LowRankFactor:
    """The factors of K + V diag(c) V', V with zeros for the rows of J, from those of K.

    Both Schur complements of [[K, V], [V', -1/c]] have its inertia but for that of the other corner, which is where the
    number of negative eigenvalues comes from. What cancels between the two parts of a solution, refinement brings back;
    where it cannot, the inertia counts as not known, and solutions are not numbers.
    """

    __slots__ = ("_c", "_n", "_plain", "_small", "_v", "_w", "negative")

    def __init__(self, plain: SparseFactor, v: Any, c: Vector) -> None:
        self._plain, self._v, self._c, self._n = plain, v, c, v.shape[0]
        right = np.zeros((plain.size, c.size))
        right[: self._n] = v
        self._w = plain.columns(right)
        corner = -np.diag(1.0 / c) - v.T @ self._w[: self._n]
        self.negative, self._small = -1, None
        if not np.isfinite(corner).all():
            return
        values, vectors = np.linalg.eigh(0.5 * (corner + corner.T))
        if (values == 0.0).any():
            return
        self._small = (vectors / values) @ vectors.T
        probe = np.cos(np.arange(plain.size, dtype=float))
        if not _refined(probe, self._once, self._product)[1] <= TRUSTED:  # too much cancels between the parts
            self._small = None
        elif plain.negative >= 0:
            self.negative = plain.negative + int(np.count_nonzero(values < 0)) - int(np.count_nonzero(c > 0))

    def trusted(self) -> bool:
        """As the factors of K."""
        return self._small is not None and self._plain.trusted()

    def solve(self, b: Vector) -> Vector:
        """The solution, refined as long as that helps."""
        if self._small is None:
            return np.full(b.size, np.nan)
        return _refined(b, self._once, self._product)[0]

    def _once(self, b: Vector) -> Vector:
        x = self._plain.solve(b)
        return np.asarray(x + self._w @ (self._small @ (self._v.T @ x[: self._n])))

    def _product(self, x: Vector) -> Vector:
        product = self._plain.product(x)
        product[: self._n] += self._v @ (self._c * (self._v.T @ x[: self._n]))
        return product


@final
class HeldSystem:
    """The system of the free variables and active rows alone, in the layout of the whole.

    What is held or not active has ones on the diagonal and nothing else. Factors are larger than they had to be, but
    which variables are free changes from one system to the next, and the layout does not.
    """

    __slots__ = ("_active", "_free", "_k", "_layout", "_places")

    def __init__(self, h: Any, j: Any, free: Indices, active: Indices, layout: Layout) -> None:
        (m, n), h, j = j.shape, _canonical(h), _canonical(j)
        self._layout, self._places = layout, np.concatenate([free, n + active])
        self._free, self._active = np.zeros(n, dtype=bool), np.zeros(m, dtype=bool)
        self._free[free] = self._active[active] = True
        h_on = self._free[h.indices] & np.repeat(self._free, np.diff(h.indptr))
        j_on = self._free[j.indices] & np.repeat(self._active, np.diff(j.indptr))
        h = sparse.csc_array((np.where(h_on, h.data, 0.0), h.indices, h.indptr), shape=h.shape)
        j = sparse.csr_array((np.where(j_on, j.data, 0.0), j.indices, j.indptr), shape=j.shape)
        layout.arrange(h, j)
        self._k = layout.matrix(h, j)

    def factor(self, first: float, second: float) -> HeldFactor:
        """The factors with `first` added to the diagonal of H and -`second` as that of the rows."""
        k = self._k.copy()
        added = np.concatenate([np.where(self._free, first, 1.0), -np.where(self._active, second, 1.0)])
        k.data[self._layout.diagonal] += added
        off = int(self._active.size - np.count_nonzero(self._active))
        whole = SparseFactor(k, self._layout, self._free.size, off, REGULARISATION)
        return HeldFactor(whole, self._places, added.size)


@final
class HeldFactor:
    """The factors of a `HeldSystem`."""

    __slots__ = ("_places", "_size", "_whole", "negative")

    def __init__(self, whole: SparseFactor, places: Indices, size: int) -> None:
        self._whole, self._places, self._size, self.negative = whole, places, size, whole.negative

    def trusted(self) -> bool:
        """As the whole."""
        return self._whole.trusted()

    def solve(self, b: Vector) -> Vector:
        """The part of K^-1 that is wanted, times b."""
        full = np.zeros(self._size)
        full[self._places] = b
        return self._whole.solve(full)[self._places]
