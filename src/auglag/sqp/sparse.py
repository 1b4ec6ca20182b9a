"""Sparse quasi-definite matrices: assembled into a pattern that is analysed once, and factorised as L D L'."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from auglag._typing import Vector
from auglag.sqp.hessian import Hessian

#: Added to the diagonal of sparse systems before they are factorised, and the most steps to take it back.
REGULARISATION = 1e-9
REFINEMENTS = 8
#: How SuperLU groups columns: hardly, since grouping fills the thin factors of such matrices.
RELAX, PANEL = 1, 4

Indices = NDArray[np.intp]


@final
class Layout:
    """The pattern of [[H, J', V], [J, 0, 0], [V', 0, 0]] with its diagonal, in an order that keeps factors sparse.

    Both are kept as long as the patterns of H, J and V stay the same: assembling is then one pass over the entries. The
    order is SuperLU's, from the first factorisation.
    """

    def __init__(self) -> None:
        self._parts: tuple[Any, ...] = ()
        self.order: Indices | None = None  #: position -> index in the matrix as stated; None: as stated
        self.arranged = False  #: whether the pattern is in that order

    def arrange(self, h: Any, j: Any, v: Any) -> None:
        """Take on the patterns of these matrices (csc, csr, csr), in which no entry may occur twice."""
        parts = tuple(a for matrix in (h, j, v) for a in (matrix.indptr, matrix.indices))
        if len(self._parts) == len(parts) and all(map(_same, self._parts, parts)):
            if self.order is None or self.arranged:
                return
        else:
            self._parts, self.order = tuple(part.copy() for part in parts), None
        self._place(h, j, v)

    def _place(self, h: Any, j: Any, v: Any) -> None:
        (m, n), terms = j.shape, v.shape[0]
        self.size = size = n + m + terms
        columns = np.repeat(np.arange(n), np.diff(h.indptr))
        j_rows, v_rows = (np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)) for part in (j, v))
        below, left = np.concatenate([n + j_rows, n + m + v_rows]), np.concatenate([j.indices, v.indices])
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

    def matrix(self, h: Any, j: Any, v: Any) -> Any:
        """The matrix with zeros added on the diagonal, as csc, in the order."""
        given = np.concatenate([h.data, j.data, v.data, j.data, v.data])
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


@final
class SparseSystem:
    """[[H, J'], [J, 0]] to be factorised with various diagonals.

    Rank-one terms c v v' of H become rows v' with -1/c on the diagonal: eliminating them gives the terms back.
    """

    __slots__ = ("_k", "_layout", "_parts", "_shape", "_terms")

    def __init__(self, h: Hessian, j: Any, layout: Layout) -> None:
        self._shape, self._layout = j.shape, layout
        terms, self._terms = np.zeros((0, j.shape[1])), np.zeros(0)
        if h.v is not None and h.c is not None:
            terms, self._terms = h.v.T, h.c
        self._parts = _canonical(h.matrix), _canonical(j), sparse.csr_array(terms)
        self._assemble()

    def _assemble(self) -> None:
        self._layout.arrange(*self._parts)
        self._k = self._layout.matrix(*self._parts)

    def factor(self, first: Vector | float, second: Vector | float, soft: float) -> SparseFactor:
        """The factors with `first` added to the diagonal of H and -`second` as that of the rows."""
        m, n = self._shape
        if self._layout.order is not None and not self._layout.arranged:
            self._assemble()  # the first factorisation found the order for those to come
        added = np.concatenate([np.broadcast_to(first, n), -np.broadcast_to(second, m), -1.0 / self._terms])
        k = self._k.copy()
        k.data[self._layout.diagonal] += added
        return SparseFactor(k, self._layout, n, n + m, int(np.count_nonzero(self._terms > 0)), soft)


@final
class SparseFactor:
    """SuperLU without row exchanges: of a quasi-definite matrix that is L D L', and D has its inertia.

    Without exchanges tiny pivots would be fatal, so that a little is added to the diagonal, with the sign it should
    have, and taken back by iterative refinement.
    """

    __slots__ = ("_k", "_lu", "_order", "_size", "negative")

    def __init__(self, k: Any, layout: Layout, n: int, size: int, extra: int, soft: float) -> None:
        """K, laid out so, has n columns of H.

        The first `size` of its unknowns are wanted; `extra` negative eigenvalues belong to the others.
        """
        self._k, self._size = k, size
        self._order = layout.order if layout.arranged else None
        self.negative = -1
        added = np.zeros(k.shape[0])
        added[:n] = REGULARISATION
        added[n:size] = -np.maximum(soft + k.data[layout.diagonal[n:size]], 0.0)
        regular = k.copy()
        regular.data[layout.diagonal] += added
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

    def solve(self, b: Vector) -> Vector:
        """K^-1 b, refined as long as that helps."""
        if self._lu is None:
            return np.full(b.size, np.nan)
        b = np.concatenate([b, np.zeros(self._k.shape[0] - b.size)])
        b = b if self._order is None else b[self._order]
        x, error = np.zeros(b.size), float(np.max(np.abs(b), initial=0.0))
        target, residual = 1e-14 * error, b
        for _ in range(REFINEMENTS):
            trial = x + self._lu.solve(residual)
            residual = b - self._k @ trial
            now = float(np.max(np.abs(residual), initial=0.0))
            if not now < error:
                break
            slow = now > 0.5 * error
            x, error = trial, now
            if error <= target or slow:
                break
        if self._order is not None:
            ordered, x = x, np.empty_like(x)
            x[self._order] = ordered
        return x[: self._size]


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
        v = sparse.csr_array((0, n))
        layout.arrange(h, j, v)
        self._k = layout.matrix(h, j, v)

    def factor(self, first: float, second: float) -> HeldFactor:
        """The factors with `first` added to the diagonal of H and -`second` as that of the rows."""
        k = self._k.copy()
        added = np.concatenate([np.where(self._free, first, 1.0), -np.where(self._active, second, 1.0)])
        k.data[self._layout.diagonal] += added
        off = int(self._active.size - np.count_nonzero(self._active))
        whole = SparseFactor(k, self._layout, self._free.size, added.size, off, REGULARISATION)
        return HeldFactor(whole, self._places, added.size)


@final
class HeldFactor:
    """The factors of a `HeldSystem`."""

    __slots__ = ("_places", "_size", "_whole", "negative")

    def __init__(self, whole: SparseFactor, places: Indices, size: int) -> None:
        self._whole, self._places, self._size, self.negative = whole, places, size, whole.negative

    def solve(self, b: Vector) -> Vector:
        """The part of K^-1 that is wanted, times b."""
        full = np.zeros(self._size)
        full[self._places] = b
        return self._whole.solve(full)[self._places]
