"""Which linear rows need not be rows: empty and free ones, bounds written as rows, multiples of other rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from auglag._typing import Vector
from auglag.problems.base import AbstractProblem, LinearRows
from auglag.problems.tuning import TUNING
from auglag.prox import SeparableTerm, Zero

Indices = NDArray[np.intp]


@final
class Sides:
    """Intervals [low, high] and where each side comes from: the row, and the factor of the quantity in that row."""

    def __init__(self, low: Vector, high: Vector, rows: Indices, factor: float) -> None:
        self.low, self.high = low.copy(), high.copy()
        self.low_row, self.high_row = rows.copy(), rows.copy()
        self.low_factor, self.high_factor = np.full(low.size, factor), np.full(low.size, factor)

    def narrow(self, j: int, low: float, high: float, row: int, factor: float) -> float:
        """Intersect interval j with that of a row; 0, or what the rows are violated by at least, and no change.

        A side that differs from the one there by rounding only is not new, and sides that cross by rounding meet.
        """
        own_low, own_high = float(self.low[j]), float(self.high[j])
        raised, lowered = low > own_low and not _same(low, own_low), high < own_high and not _same(high, own_high)
        new_low, new_high = low if raised else own_low, high if lowered else own_high
        if new_low > new_high:
            if not _same(new_low, new_high):
                other = float(self.high_factor[j] if raised else self.low_factor[j])
                return _least_violation(new_low - new_high, abs(other), abs(factor))
            if raised:
                new_low = new_high
            else:
                new_high = new_low
        self.low[j], self.high[j] = new_low, new_high
        if raised:
            self.low_row[j], self.low_factor[j] = row, factor
        if lowered:
            self.high_row[j], self.high_factor[j] = row, factor
        return 0.0


def _same(a: float, b: float) -> bool:
    return a == b or bool(abs(a - b) <= TUNING.rounding * max(abs(a), abs(b)) < math.inf)


def _least_violation(gap: float, one: float, two: float) -> float:
    """The least norm of the violations of two sides that are `gap` apart; an infinite factor is a bound's."""
    return gap * two if math.isinf(one) else gap * one * (two / math.hypot(one, two))


@final
@dataclass(frozen=True, slots=True)
class Reduction:
    """What is left of a problem: the rows to keep with their sides, the bounds; or why nothing satisfies all rows."""

    keep: Indices  #: the rows that stay, in their order
    merged: tuple[Indices, Indices, Vector]  #: (row, position in `keep`, factor): row is factor times the kept one
    cl: Vector  #: sides of the kept rows
    cu: Vector
    rows: Sides  #: of all rows, the constants of linear ones taken off
    bounds: Sides  #: of the variables; row -1: the user's own bound
    conflict: str = ""


def reduction(problem: AbstractProblem, tol: float) -> Reduction | None:
    """What can be taken off the problem; None where nothing can."""
    linear = problem.linear() if problem.m else None
    if linear is None or not linear.rows.size:
        return None
    search = _Search(problem, linear, tol)
    for step in (search.empty_and_free, search.singletons, search.multiples):
        step()
        if search.conflict:
            break
    return search.result() if search.conflict or search.dropped.any() else None


@final
class _Search:
    """The state while rows are looked at; indices of rows are the problem's, positions those among the linear ones."""

    def __init__(self, problem: AbstractProblem, linear: LinearRows, tol: float) -> None:
        self.problem, self.index, self.certain = problem, linear.rows, TUNING.certain * tol
        self.matrix: Any = sparse.csr_array(linear.matrix, copy=True)
        self.matrix.sum_duplicates()
        self.matrix.eliminate_zeros()
        self.sizes = np.diff(self.matrix.indptr)
        self.constant = np.zeros(problem.m)
        self.constant[self.index] = linear.constant
        self.rows = Sides(problem.cl - self.constant, problem.cu - self.constant, np.arange(problem.m), 1.0)
        self.box = self._box()
        low, high = self.box if self.box is not None else (problem.lower, problem.upper)
        self.bounds = Sides(low, high, np.full(problem.n, -1), math.inf)
        self.dropped = np.zeros(problem.m, dtype=bool)
        self.merged: list[tuple[int, int, float]] = []
        self.conflict = ""

    def _box(self) -> tuple[Vector, Vector] | None:
        """The bounds and what g adds to them; None where bounds cannot be had beside g."""
        problem = self.problem
        g = problem.g if problem.g is not None else Zero()
        if not isinstance(g, SeparableTerm):
            return None
        own = g.domain().box(problem.n)
        if own is None:
            return None
        return np.maximum(problem.lower, own[0]), np.minimum(problem.upper, own[1])

    def empty_and_free(self) -> None:
        """Rows without entries, if their constant is within their sides, and rows without sides."""
        low, high = self.rows.low[self.index], self.rows.high[self.index]
        excess = np.where(self.sizes == 0, np.maximum(np.maximum(low, -high), 0.0), 0.0)
        self.dropped[self.index[((self.sizes == 0) & (excess == 0.0)) | (np.isneginf(low) & np.isposinf(high))]] = True
        if (excess > self.certain).any():
            i = int(self.index[int(np.argmax(excess))])
            cl, cu = self.problem.cl[i], self.problem.cu[i]
            self.conflict = (
                f"{self.problem.row_name(i)} contains no variable: it is {self.constant[i]:.6g}, which does not lie in "
                f"[{cl:.6g}, {cu:.6g}]."
            )

    def singletons(self) -> None:
        """Rows of one variable, which are bounds."""
        if self.box is None:
            return
        for position in np.flatnonzero((self.sizes == 1) & ~self.dropped[self.index]).tolist():
            i, start = int(self.index[position]), self.matrix.indptr[position]
            j, entry = int(self.matrix.indices[start]), float(self.matrix.data[start])
            sides = _divided(float(self.rows.low[i]), float(self.rows.high[i]), entry)
            if sides is None:
                continue
            violation = self.bounds.narrow(j, *sides, i, entry)
            self.dropped[i] = violation == 0.0
            if violation > self.certain:
                self.conflict = self._clash(i, self.bounds, j, sides, self.problem.variable_name(j))
                return

    def multiples(self) -> None:
        """Rows that are multiples of another, the largest, whose sides they narrow: in its units errors are largest."""

        def largest_first(position: int) -> tuple[float, int]:
            return -abs(float(self.matrix.data[self.matrix.indptr[position]])), position

        at = np.flatnonzero((self.sizes > 0) & ~self.dropped[self.index])
        for run in _alike(self.matrix[at]):
            first, *others = sorted(at[run].tolist(), key=largest_first)
            i = int(self.index[first])
            for position in others:
                k, factor = int(self.index[position]), self._factor(first, position)
                if factor is None:
                    continue
                sides = _divided(float(self.rows.low[k]), float(self.rows.high[k]), factor)
                if sides is None:
                    continue
                violation = self.rows.narrow(i, *sides, k, factor)
                if violation > self.certain:
                    self.conflict = self._clash(k, self.rows, i, sides, f"the row {self.problem.row_name(i)}")
                    return
                if violation == 0.0:
                    self.dropped[k] = True
                    self.merged.append((k, i, factor))

    def _factor(self, first: int, position: int) -> float | None:
        """What the first row is to be multiplied with to give the other one, up to rounding of its entries."""
        starts = self.matrix.indptr
        one, two = slice(starts[first], starts[first + 1]), slice(starts[position], starts[position + 1])
        if not np.array_equal(self.matrix.indices[one], self.matrix.indices[two]):
            return None
        a, b = self.matrix.data[one], self.matrix.data[two]
        factor = float(b[0] / a[0])
        if not (math.isfinite(factor) and factor != 0.0):
            return None
        return factor if bool((np.abs(b - factor * a) <= TUNING.rounding * np.abs(b)).all()) else None

    def _clash(self, i: int, sides: Sides, j: int, wanted: tuple[float, float], what: str) -> str:
        low, high = float(sides.low[j]), float(sides.high[j])
        other = int(sides.high_row[j] if wanted[0] > high else sides.low_row[j])
        against = "the bounds" if other < 0 else self.problem.row_name(other)
        at_least, at_most = (wanted[0], high) if wanted[0] > high else (low, wanted[1])
        name = self.problem.row_name(i)
        return f"{name} and {against} exclude each other: {what} >= {at_least:.6g} and <= {at_most:.6g}."

    def result(self) -> Reduction:
        """What was found."""
        problem, rows = self.problem, self.rows
        keep = np.flatnonzero(~self.dropped)
        place = np.cumsum(~self.dropped) - 1
        own = np.arange(problem.m)
        cl = np.where(rows.low_row == own, problem.cl, rows.low + self.constant)  # not (cl - constant) + constant
        cu = np.where(rows.high_row == own, problem.cu, rows.high + self.constant)
        merged = (
            np.array([k for k, _, _ in self.merged], dtype=np.intp),
            place[np.array([i for _, i, _ in self.merged], dtype=np.intp)],
            np.array([factor for _, _, factor in self.merged], dtype=float),
        )
        return Reduction(keep, merged, cl[keep], np.maximum(cl, cu)[keep], rows, self.bounds, self.conflict)


def _divided(low: float, high: float, factor: float) -> tuple[float, float] | None:
    """[low, high] / factor; None where a finite side overflows."""
    sides = (low / factor, high / factor) if factor != 0.0 else (math.nan, math.nan)
    if math.isinf(sides[0]) != math.isinf(low) or math.isinf(sides[1]) != math.isinf(high):
        return None
    return sides if factor > 0 else (sides[1], sides[0])


def _alike(matrix: Any) -> list[Indices]:
    """Groups of rows that may be multiples of each other: their products with random numbers, over the first entry."""
    if matrix.shape[0] < 2:
        return []
    weights = np.random.default_rng(0).uniform(1.0, 2.0, matrix.shape[1])
    with np.errstate(all="ignore"):
        pivots = matrix.data[matrix.indptr[:-1]]
        products, sizes = (matrix @ weights) / pivots, (abs(matrix) @ weights) / np.abs(pivots)
    order = np.argsort(products, kind="stable")
    with np.errstate(all="ignore"):
        near = np.diff(products[order]) <= TUNING.alike * sizes[order][1:]
    starts = np.flatnonzero(np.concatenate([[True], ~near]))
    ends = np.append(starts[1:], order.size)
    several = np.flatnonzero(ends - starts > 1)
    return [order[starts[k] : ends[k]] for k in several]
