"""Evaluation with NumPy alone, for machines without a C compiler."""

from __future__ import annotations

import math
import threading
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.problems.cutest.evaluation import Evaluator, SecondOrder, Values
from auglag.problems.cutest.kernels import element_kernel, group_kernel
from auglag.problems.cutest.structure import Structure

#: Matrices with at most this many entries are multiplied as dense ones: a call of BLAS costs less than one of SciPy.
_SMALL = 4096


@final
class _Product:
    """v -> M v, dense where that is cheaper; zeros of M do not turn a NaN of v into one of the product."""

    def __init__(self, matrix: Any) -> None:
        self._sparse = matrix
        self._dense = matrix.toarray() if matrix.shape[0] * matrix.shape[1] <= _SMALL else None

    def __call__(self, v: Vector) -> Vector:
        if self._dense is not None:
            product = self._dense.dot(v)
            if math.isfinite(product.sum()):
                return np.asarray(product)
        return np.asarray(self._sparse @ v)


@final
class NumpyEvaluator(Evaluator):
    """A problem's functions with NumPy; element types with few elements are evaluated on Python's own numbers."""

    backend = "numpy"

    def __init__(self, raw: Any, structure: Structure) -> None:
        s = self._structure = structure
        x0 = np.asarray(raw.x0, dtype=float).ravel()
        with np.errstate(all="ignore"):
            self._elements = [element_kernel(raw, t, trial=x0) for t in s.element_types]
            self._groups = [group_kernel(raw, s, t, trial=True) for t in s.group_types]
        self._linear = _Product(sparse.csr_array((s.linear, s.column, s.start), shape=(s.rows, s.n)))
        self._weights = _Product(s.weights)
        self._scatter = _Product(s.scatter)
        entries = s.objective_entries
        summed = sparse.csr_array((np.ones(entries), (s.column[:entries], np.arange(entries))), shape=(s.n, entries))
        self._gather = _Product(summed)
        self._fe, self._ge, self._he = np.zeros(s.values), np.zeros(s.gradients), np.zeros(s.hessians)
        self._ones, self._nothing = np.ones(s.rows), np.zeros(s.rows)
        self._lock = threading.RLock()
        self._state: tuple[bytes, SecondOrder] | None = None

    def values(self, x: Vector, key: bytes) -> Values:
        s = self._structure
        with self._lock, np.errstate(all="ignore"):
            entries, value, first, _ = self._rows(x, 2)
            first = first * s.inverse_scale
            value = value * s.inverse_scale
            entries = entries * first[s.row]
            f = float(value[: s.objective_rows].sum())
            grad = self._gather(entries[: s.objective_entries])
            if s.quadratic is not None:
                hx = s.quadratic @ x
                f += 0.5 * float(x @ hx)
                grad = grad + hx
            return f, grad, value[s.objective_rows :], entries[s.objective_entries :]

    def second_order(self, x: Vector) -> SecondOrder:
        key = x.tobytes()
        with self._lock, np.errstate(all="ignore"):
            if self._state is None or self._state[0] != key:
                entries, _, first, second = self._rows(x, 3)
                self._state = (key, SecondOrder(self._he.copy(), entries, first, second))
            return self._state[1]

    def product(self, x: Vector, y: Vector, v: Vector) -> Vector:
        s, parts = self._structure, self.second_order(x)
        with np.errstate(all="ignore"):
            scale = s.inverse_scale * np.concatenate([np.ones(s.objective_rows), y])
            curvature = scale * parts.second
            out = np.zeros(s.n)
            if curvature.any():
                along = np.bincount(s.row, parts.rows * v[s.column], s.rows) * curvature
                out += np.bincount(s.column, parts.rows * along[s.row], s.n)
            weights = s.weights.T @ (scale * parts.first)
            for kind in s.element_types:
                count, size = kind.count, kind.size
                hessians = parts.hessians[kind.hessian_at :][: count * size**2].reshape(count, size, size)
                product = np.einsum("eij,ej->ei", hessians, v[kind.variables])
                product *= weights[kind.value_at : kind.value_at + count, None]
                out += np.bincount(kind.variables.ravel(), product.ravel(), s.n)
            return out if s.quadratic is None else out + s.quadratic @ v

    def _rows(self, x: Vector, level: int) -> tuple[Vector, Vector, Vector, Vector]:
        """Gradients of the arguments of the group functions; values, first and second derivatives of those."""
        s = self._structure
        for element in self._elements:
            element.fill(level, x, self._fe, self._ge, self._he)
        inner = self._linear(x) - s.constant
        entries = s.linear
        if s.values:
            inner += self._weights(self._fe)
            entries = entries + self._scatter(self._ge)
        if not self._groups:
            return entries, inner, self._ones, self._nothing
        value, first, second = inner.copy(), self._ones.copy(), self._nothing.copy()
        for group in self._groups:
            group.fill(level, inner, value, first, second)
        return entries, value, first, second
