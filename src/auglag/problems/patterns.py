"""Sparse matrices of one pattern after another: sorted and summed once, then only their values are put in place.

A user's functions return a new SciPy matrix at every point, nearly always with the same pattern. SciPy would sort its
indices, sum entries that are stored twice and check everything anew for each; here that is done for the first.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.problems.jacobians import FixedPattern


@final
class Pattern:
    """The pattern of the last matrix, in the format in which it came, and where its values go in a csr array."""

    def __init__(self) -> None:
        self._known: tuple[Any, _Places] | None = None

    def csr(self, matrix: Any) -> Any:
        """The matrix as a csr array of its own, with sorted indices and no entry stored twice."""
        if matrix.format == "coo":
            parts = tuple(matrix.coords)
        else:
            matrix = matrix if matrix.format in ("csr", "csc") else matrix.tocsr()
            parts = matrix.indices, matrix.indptr
        known, form = self._known, (matrix.format, matrix.shape)
        if known is None or known[0][0] != form or not all(map(np.array_equal, known[0][1], parts)):
            # A copy of the indices is compared with: users reuse their arrays.
            seen = form, tuple(part.copy() for part in parts)
            known = self._known = seen, _Places(*_entries(matrix), matrix.shape)
        return known[1].matrix(matrix.data)


@final
class Combined:
    """Several csr arrays as one, below each other or summed; where their values go is found once."""

    def __init__(self, *, summed: bool) -> None:
        self._summed = summed
        self._known: tuple[list[Any], _Places] | None = None

    def of(self, parts: Sequence[Any]) -> Any:
        """The whole; parts whose indices are the same objects as the last time have the same pattern."""
        known, indices = self._known, [part.indices for part in parts]
        if known is None or len(known[0]) != len(parts) or not all(map(operator.is_, known[0], indices)):
            known = self._known = indices, self._places(parts)
        return known[1].matrix(np.concatenate([part.data for part in parts]))

    def _places(self, parts: Sequence[Any]) -> _Places:
        heights = [0 if self._summed else part.shape[0] for part in parts]
        entries = [_entries(part) for part in parts]
        above = np.cumsum([0, *heights])
        rows = np.concatenate([row + first for (row, _), first in zip(entries, above[:-1], strict=True)])
        columns = np.concatenate([column for _, column in entries])
        return _Places(rows, columns, (parts[0].shape[0] if self._summed else int(above[-1]), parts[0].shape[1]))


@final
class _Places:
    """Where the values at (rows, columns) go in a csr array with sorted indices."""

    def __init__(self, rows: Any, columns: Any, shape: tuple[int, int]) -> None:
        m, n = shape
        keys = rows.astype(np.int64) * n + columns
        unique, self._places = np.unique(keys, return_inverse=True)
        self._size = unique.size
        self._in_order = self._size == keys.size and bool((np.diff(keys) > 0).all())
        starts = np.searchsorted(unique, np.arange(m + 1, dtype=np.int64) * n)
        kind = np.int32 if max(self._size, m, n) < np.iinfo(np.int32).max else np.int64
        self._fixed = FixedPattern((unique % max(1, n)).astype(kind), starts.astype(kind), shape)

    def matrix(self, data: Any) -> Any:
        """The csr array with these values; those of the same place are summed."""
        values: Vector = np.array(data[: self._places.size], dtype=np.float64)
        if not self._in_order:
            values = np.bincount(self._places, values, minlength=self._size).astype(np.float64, copy=False)
        return self._fixed.matrix(values)


def _entries(matrix: Any) -> tuple[Any, Any]:
    """(rows, columns) of the values of a csr, csc or coo array, in their order."""
    if matrix.format == "coo":
        rows, columns = matrix.coords
        return rows, columns
    outer = np.repeat(np.arange(matrix.indptr.size - 1), np.diff(matrix.indptr))
    inner = matrix.indices[: outer.size]  # SciPy allows more room than there are entries
    return (outer, inner) if matrix.format == "csr" else (inner, outer)
