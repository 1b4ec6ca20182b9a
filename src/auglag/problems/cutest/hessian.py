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
        product = sparse.coo_array(rows.T @ rows)
        cells.append(product.row.astype(np.int64) * s.n + product.col)
        self._quadratic = None if s.quadratic is None else sparse.coo_array(s.quadratic)
        if self._quadratic is not None:
            cells.append(self._quadratic.row.astype(np.int64) * s.n + self._quadratic.col)
        self._cells = np.unique(np.concatenate(cells))
        self._places = np.searchsorted(self._cells, np.concatenate(cells[: 1 + len(s.element_types)]))
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
                self._add(data, sparse.coo_array(rows.T @ scaled))
        if self._quadratic is not None:
            self._add(data, self._quadratic)
        return sparse.csr_array((data, self._column.copy(), self._start.copy()), shape=(s.n, s.n))

    def _row_gradients(self, data: Vector) -> Any:
        s = self._structure
        return sparse.csr_array((data, s.column, s.start), shape=(s.rows, s.n))[self._curved, :]

    def _add(self, data: Vector, matrix: Any) -> None:
        places = np.searchsorted(self._cells, matrix.row.astype(np.int64) * self._structure.n + matrix.col)
        np.add.at(data, places, matrix.data)
