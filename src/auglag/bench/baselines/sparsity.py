"""Sparse derivatives for solvers that fix the structure of a matrix once and then ask for its values."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.bench.counted import CountedProblem
from auglag.errors import AuglagError, EvaluationError


class StructureError(AuglagError):
    """A matrix has an entry where its structure, as the solver was told it, has none."""


@final
class Structure:
    """The places (`rows`, `columns`) of a matrix, and the values of any matrix in that order."""

    def __init__(self, matrices: list[Any], *, lower: bool, what: str) -> None:
        """The union of the structures of `matrices`; with `lower` only its lower triangle."""
        self._lower, self._what = lower, what
        self.shape: tuple[int, int] = matrices[0].shape
        self._cells = np.unique(np.concatenate([self._cells_of(self._triangle(matrix)) for matrix in matrices]))
        self.rows = (self._cells // max(1, self.shape[1])).astype(np.intc)
        self.columns = (self._cells % max(1, self.shape[1])).astype(np.intc)

    @property
    def size(self) -> int:
        """The number of places."""
        return int(self._cells.size)

    def values(self, matrix: Any) -> Vector:
        """The entries of the matrix at the places of the structure; an entry elsewhere that is not 0 is an error."""
        part = self._triangle(matrix)
        cells = self._cells_of(part)
        if cells.size == self._cells.size and np.array_equal(cells, self._cells):
            return np.asarray(part.data, dtype=float)
        places = np.searchsorted(self._cells, cells)
        known = places < self._cells.size
        known[known] = self._cells[places[known]] == cells[known]
        if np.any(part.data[~known] != 0):
            cell = int(cells[~known][np.flatnonzero(part.data[~known])[0]])
            place = (cell // self.shape[1], cell % self.shape[1])
            raise StructureError(f"the {self._what} has an entry at {place}, outside its structure")
        result = np.zeros(self._cells.size)
        np.add.at(result, places[known], part.data[known])
        return result

    def _triangle(self, matrix: Any) -> Any:
        entries = sparse.coo_array(matrix)
        if not self._lower:
            return entries
        kept = entries.row >= entries.col
        return sparse.coo_array((entries.data[kept], (entries.row[kept], entries.col[kept])), shape=entries.shape)

    def _cells_of(self, entries: Any) -> Any:
        return entries.row.astype(np.int64) * self.shape[1] + entries.col


def jacobian_structure(problem: CountedProblem) -> Structure:
    """Where the Jacobian may have entries. Looked up at the uncounted problem: structure is not an evaluation."""
    inner: Any = problem.inner
    matrices = [inner.jac(x) for x in _points(problem, inner.jac)]
    return Structure(matrices, lower=False, what="Jacobian of the constraints")


def hessian_structure(problem: CountedProblem) -> Structure:
    """Where the lower triangle of the Hessian of the Lagrangian may have entries; not counted either."""
    inner: Any = problem.inner
    y = np.random.default_rng(0).uniform(0.5, 1.5, problem.m)  # a generic one: nothing cancels
    matrices = [inner.hess(x, y) for x in _points(problem, lambda x: inner.hess(x, y))]
    return Structure(matrices, lower=True, what="Hessian of the Lagrangian")


def _points(problem: CountedProblem, function: Any) -> list[Vector]:
    """x0 and a generic point near it, if the function is defined there: entries that happen to be 0 may be absent."""
    step = np.random.default_rng(1).uniform(0.5, 1.5, problem.n) * 1e-2 * np.maximum(1.0, np.abs(problem.x0))
    points = []
    for x in (problem.x0, np.clip(problem.x0 + step, problem.lower, problem.upper)):
        try:
            function(x)
        except EvaluationError:
            continue
        points.append(x)
    if not points:
        raise StructureError(f"the derivatives of {problem.name} are not defined at or near its starting point")
    return points
