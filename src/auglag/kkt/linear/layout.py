"""Where the entries of H, J and the diagonals go in a sparse KKT matrix: found once per pattern."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import sparse

from auglag.kkt.linear.base import Indices
from auglag.problems.jacobians import same


@final
class Layout:
    """The pattern of [[H, J'], [J, 0]] with its whole diagonal, in an order that keeps factors sparse.

    Both are kept as long as the patterns of H and J stay the same: assembling is then one pass over the entries. The
    order is set by the solver, which finds it in its first factorisation.
    """

    def __init__(self) -> None:
        self._parts: tuple[Any, ...] = ()
        self.order: Indices | None = None  #: position -> index in the matrix as stated; None: as stated
        self.arranged = False  #: whether the pattern is in that order
        self.fill = 0  #: how many numbers the last factors without row exchanges held

    def arrange(self, h: Any, j: Any) -> None:
        """Take on the patterns of these matrices (csc, csr), in which no entry may occur twice."""
        parts = tuple(a for matrix in (h, j) for a in (matrix.indptr, matrix.indices))
        if len(self._parts) == len(parts) and all(map(same, self._parts, parts)):
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
        self.diagonal = np.empty(size, np.intp)  #: where the data of `matrix` has the diagonal
        self.diagonal[columns[there]] = places[there]
        self.diagonal[extra] = places[row.size - extra.size :]

    def matrix(self, h: Any, j: Any) -> Any:
        """[[H, J'], [J, 0]] with its diagonal stored, zero or not, as csc, in the order."""
        given = np.concatenate([h.data, j.data, j.data])
        entries = np.concatenate([given, np.zeros(self._source.size - given.size)])
        return sparse.csc_array((entries[self._source], self._indices, self._indptr), shape=(self.size, self.size))


def canonical(matrix: Any) -> Any:
    """The matrix with no entry stored twice."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix
