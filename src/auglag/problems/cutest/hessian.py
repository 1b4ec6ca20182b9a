"""The Hessian of the Lagrangian as a sparse matrix of fixed pattern."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.problems.cutest.evaluation import SecondOrder
from auglag.problems.cutest.structure import Structure


@final
class HessianPattern:
    """Puts element Hessians and the products of row gradients into one symmetric csr matrix.

    The pattern is structural: it holds every entry that is not zero at some x and y, and the zeros there at others.
    """

    def __init__(self, structure: Structure) -> None:
        s = self._structure = structure
        self._curved = np.unique(np.concatenate([np.zeros(0, np.int32), *(t.rows for t in s.group_types)]))
        cells = [np.zeros(0, np.int64)]
        for kind in s.element_types:
            v = kind.variables.astype(np.int64)
            cells.append((v[:, :, None] * s.n + v[:, None, :]).ravel())
        rows = self._row_gradients(np.ones(s.entries))
        self._product = sparse.csr_array(rows.T @ rows)  #: the last one; its pattern, and where it goes
        cells.append(self._cells_of(self._product))
        self._quadratic = None if s.quadratic is None else sparse.coo_array(s.quadratic)
        if self._quadratic is not None:
            cells.append(self._cells_of(self._quadratic))
        self._cells = np.unique(np.concatenate(cells))
        self._places = np.searchsorted(self._cells, np.concatenate(cells[: 1 + len(s.element_types)]))
        self._places_of_product = np.searchsorted(self._cells, self._cells_of(self._product))
        element = [np.repeat(np.arange(t.value_at, t.value_at + t.count), t.size**2) for t in s.element_types]
        self._element = np.concatenate([np.zeros(0, int), *element])
        self._column = (self._cells % s.n).astype(np.int32)
        self._start = np.searchsorted(self._cells // s.n, np.arange(s.n + 1)).astype(np.int32)

    def matrix(self, parts: SecondOrder, y: Vector) -> Any:
        """Hess(f + y'c) from its parts at x."""
        s = self._structure
        scale = s.inverse_scale * np.concatenate([np.ones(s.objective_rows), y])
        with np.errstate(all="ignore"):
            weights = s.weights.T @ (scale * parts.first)
            data = np.bincount(self._places, parts.hessians * weights[self._element], self._cells.size).astype(float)
            if self._curved.size:
                rows = self._row_gradients(parts.rows)
                scaled = sparse.diags_array((scale * parts.second)[self._curved]) @ rows
                self._add_product(data, sparse.csr_array(rows.T @ scaled))
        if self._quadratic is not None:
            np.add.at(data, np.searchsorted(self._cells, self._cells_of(self._quadratic)), self._quadratic.data)
        return sparse.csr_array((data, self._column.copy(), self._start.copy()), shape=(s.n, s.n))

    def _row_gradients(self, data: Vector) -> Any:
        s = self._structure
        return sparse.csr_array((data, s.column, s.start), shape=(s.rows, s.n))[self._curved, :]

    def _cells_of(self, matrix: Any) -> Any:
        """Row and column of each entry as one number."""
        entries = matrix.tocoo()
        return entries.row.astype(np.int64) * self._structure.n + entries.col

    def _add_product(self, data: Vector, product: Any) -> None:
        """Where its entries go is looked up anew only if its pattern is not the last one's."""
        last = self._product
        if not (np.array_equal(product.indices, last.indices) and np.array_equal(product.indptr, last.indptr)):
            self._product = product
            self._places_of_product = np.searchsorted(self._cells, self._cells_of(product))
        data[self._places_of_product] += product.data
