"""The Hessian of the Lagrangian as a sparse matrix of fixed pattern."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from auglag._typing import Vector
from auglag.problems.cutest.evaluation import SecondOrder
from auglag.problems.cutest.structure import Structure
from auglag.problems.jacobians import FixedPattern

#: Most pairs of entries of a row for which places are kept, some 20 bytes each. Beyond, SciPy multiplies the matrices.
KEPT_PAIRS = 1_000_000

_Cells = NDArray[np.int64]


@final
class HessianPattern:
    """Puts element Hessians and the products of row gradients into one symmetric csr matrix.

    The pattern is structural: it holds every entry that is not zero at some x and y, and the zeros there at others.
    """

    def __init__(self, structure: Structure) -> None:
        s = self._structure = structure
        curved = np.unique(np.concatenate([np.zeros(0, np.int32), *(t.rows for t in s.group_types)]))
        cells = [np.zeros(0, np.int64)]
        for kind in s.element_types:
            v = kind.variables.astype(np.int64)
            cells.append((v[:, :, None] * s.n + v[:, None, :]).ravel())
        self._outer = _OuterProducts(s, curved)
        quadratic = None if s.quadratic is None else sparse.coo_array(s.quadratic)
        of_quadratic = np.zeros(0, np.int64) if quadratic is None else _cells_of(quadratic, s.n)
        known = np.unique(np.concatenate([*cells, self._outer.cells, of_quadratic]))
        self._size = known.size
        self._places = np.searchsorted(known, np.concatenate(cells))
        self._outer.place(known)
        self._quadratic = None if quadratic is None else (np.searchsorted(known, of_quadratic), quadratic.data)
        element = [np.repeat(np.arange(t.value_at, t.value_at + t.count), t.size**2) for t in s.element_types]
        self._element = np.concatenate([np.zeros(0, int), *element])
        self._weights = sparse.csr_array(s.weights.T)
        start = np.searchsorted(known // s.n, np.arange(s.n + 1)).astype(np.int32)
        self._pattern = FixedPattern((known % s.n).astype(np.int32), start, (s.n, s.n))

    def matrix(self, parts: SecondOrder, y: Vector) -> Any:
        """Hess(f + y'c) from its parts at x."""
        s = self._structure
        scale = s.inverse_scale * np.concatenate([np.ones(s.objective_rows), y])
        with np.errstate(all="ignore"):
            weights = self._weights @ (scale * parts.first)
            data = np.bincount(self._places, parts.hessians * weights[self._element], self._size).astype(float)
            self._outer.add(data, parts.rows, scale * parts.second)
        if self._quadratic is not None:
            np.add.at(data, *self._quadratic)
        return self._pattern.matrix(data)


@final
class _OuterProducts:
    """sum over rows of (second derivative of the group function) * gradient * gradient'."""

    def __init__(self, structure: Structure, curved: Any) -> None:
        s = self._structure = structure
        self._curved = curved
        lengths = np.diff(s.start)[curved].astype(np.int64)
        if int((lengths**2).sum()) > KEPT_PAIRS:
            rows = self._gradients(np.ones(s.entries))
            self.cells, self._left = _cells_of(rows.T @ rows, s.n), None
            return
        entries = [np.arange(s.start[r], s.start[r + 1], dtype=np.int32) for r in curved]
        nothing = np.zeros(0, np.int32)
        self._left = np.concatenate([nothing, *(np.repeat(e, e.size) for e in entries)])
        self._right = np.concatenate([nothing, *(np.tile(e, e.size) for e in entries)])
        self._row = s.row[self._left]
        self.cells = s.column[self._left].astype(np.int64) * s.n + s.column[self._right]

    def place(self, known: _Cells) -> None:
        """`known` are the cells of the whole pattern, sorted."""
        self._known, self._places = known, np.searchsorted(known, self.cells)

    def add(self, data: Vector, gradients: Vector, second: Vector) -> None:
        """Add to the entries of the whole pattern."""
        if not self._curved.size:
            return
        if self._left is not None:
            products = (second[self._row] * gradients[self._right]) * gradients[self._left]
            data += np.bincount(self._places, products, data.size)
            return
        rows = self._gradients(gradients)
        product = sparse.csr_array(rows.T @ (sparse.diags_array(second[self._curved]) @ rows))
        data[np.searchsorted(self._known, _cells_of(product, self._structure.n))] += product.data

    def _gradients(self, data: Vector) -> Any:
        s = self._structure
        return sparse.csr_array((data, s.column, s.start), shape=(s.rows, s.n))[self._curved, :]


def _cells_of(matrix: Any, n: int) -> _Cells:
    """Row and column of each entry as one number."""
    entries = matrix.tocoo()
    return np.asarray(entries.row.astype(np.int64) * n + entries.col)
