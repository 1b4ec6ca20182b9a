"""Where values of H, J and the diagonals go in the upper triangle of a sparse KKT matrix: found once per pattern."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.kkt.linear.base import Indices
from auglag.problems.jacobians import same


@final
class Triangle:
    """The pattern of the upper triangle of [[H, J'], [J, 0]] with its whole diagonal, column by column.

    `take_on` is told the patterns of H (csc, both triangles) and J (csr); as long as they stay the same, `values` is
    three assignments to an array. Column n + i of the triangle is row i of J above its diagonal entry.
    """

    def __init__(self) -> None:
        self._parts: tuple[Any, ...] = ()
        self.n, self.size = 0, 0  #: variables; rows of K
        self.known: Any = None  #: what a solver keeps for this pattern; None after a change

    def take_on(self, h: Any, j: Any) -> None:
        """Find the places for these patterns, in which no entry may occur twice, unless they are known."""
        parts = (h.indptr, h.indices, j.indptr, j.indices)
        if len(self._parts) == 4 and all(map(same, self._parts, parts)):
            self._parts = parts  # the next ones are likely to be the same arrays
            return
        self._parts, self.known = parts, None
        m, n = j.shape
        self.n, self.size = n, n + m
        column = np.repeat(np.arange(n), np.diff(h.indptr))
        self._above = np.flatnonzero(h.indices <= column)  #: the entries of H that are used
        row_h, column_h = h.indices[self._above], column[self._above]
        column_j = n + np.repeat(np.arange(m), np.diff(j.indptr))
        everything = np.arange(self.size)
        row = np.concatenate([row_h, j.indices, everything]).astype(np.int64)
        key = np.concatenate([column_h, column_j, everything]) * self.size + row
        unique, place = np.unique(key, return_inverse=True)
        self._of_h, self._of_j, self.diagonal = np.split(place, [row_h.size, row_h.size + j.indices.size])
        counts = np.bincount(unique // self.size, minlength=self.size)
        self.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self.indices = (unique % self.size).astype(np.int32)
        self._column = self.matrix(np.zeros(self.indices.size))  # its entries are exchanged: making one takes longer
        self._row = self._column.T

    def values(self, h: Vector, j: Vector) -> Vector:
        """The entries of the triangle for the entries of H and J, zeros on the diagonal where H has none."""
        data = np.zeros(self.indices.size)
        data[self._of_h] = h[self._above]
        data[self._of_j] = j
        return data

    def matrix(self, data: Vector) -> Any:
        """The triangle with these entries, as csc."""
        return sparse.csc_array((data, self.indices, self.indptr), shape=(self.size, self.size))

    def product(self, data: Vector, x: Any) -> Any:
        """The whole symmetric matrix with these entries times x, a vector or several as columns."""
        self._column.data = self._row.data = data
        diagonal = data[self.diagonal] if x.ndim == 1 else data[self.diagonal][:, None]
        return np.asarray(self._column @ x + self._row @ x - diagonal * x)

    def lent(self, data: Vector) -> Any:
        """The triangle with these entries, as csc, until the next call."""
        self._column.data = data
        return self._column

    def whole(self, data: Vector) -> Any:
        """Both triangles, as csc."""
        upper = self.matrix(data)
        return (upper + sparse.triu(upper, 1).T).tocsc()

    def outside(self, on: Any) -> Indices:
        """The entries with a row or a column that is not `on`, those of the diagonal among them."""
        column = np.repeat(np.arange(self.size), np.diff(self.indptr))
        return np.flatnonzero(~(on[self.indices] & on[column]))
