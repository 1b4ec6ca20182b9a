"""Natural units of a problem: how large its variables, its objective and its rows are, judged from what is known.

A solution must not depend on whether lengths are stated in metres or in nanometres. So a run measures variables that
are very small or very large in units of their own size, and the certificate compares what is left to gain, and
violations, with the sizes of f and c (`auglag.certificate.kkt`).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from auglag._norms import some
from auglag._typing import Matrix, Vector
from auglag.problems.base import AbstractProblem, Point
from auglag.problems.jacobians import dense
from auglag.problems.tuning import TUNING


def typical(point: Point, *, closely: bool = False) -> Vector:
    """The size of every variable, judged at one point.

    It is |x_j|. Where that is small or 0 it says little: then it is the step along x_j that changes f and the rows by
    their own size (the median of |value| / |derivative|), between |x_j| and 1 unless x_j = 0. Where values are 0, it
    is the step that changes f as much as steps of the other variables do. No size is larger than the distance of the
    bounds. NaN where nothing is known; with `closely` a start that is small, but not 0, then counts as it is.
    """
    if closely:
        return _judged(point, closely=True)
    if point.typical is None:  # asked for by the check of derivatives and by the scaling
        point.typical = _judged(point, closely=False)
    return point.typical


def _judged(point: Point, *, closely: bool) -> Vector:
    problem, x = point.problem, np.abs(point.x)
    width = problem.upper - problem.lower
    x = np.where(x < TUNING.zero, 0.0, x)
    small = (x < TUNING.small_variable) & (width > 0.0)
    found = np.where(width > 0.0, x, 1.0)
    if some(small):
        # Long steps come from weak dependence more often than from large variables.
        most = TUNING.farthest if closely else TUNING.far
        first = _natural_steps(point, x, most)
        steps = _natural_steps(point, np.where(small & np.isfinite(first), np.fmax(first, x), x), most)
        steps = np.where(np.isfinite(steps), steps, _by_gradient(point, np.where(small, steps, x)))
        least = np.maximum(x, TUNING.bounded_share * np.where(np.isfinite(width), np.minimum(width, 1.0), 0.0))
        unknown = least if closely else 1.0
        steps = np.where(x > 0.0, np.clip(np.where(np.isnan(steps), unknown, steps), least, 1.0), steps)
        steps = np.where(
            np.isnan(steps) & (width <= (1.0 / TUNING.zero if closely else TUNING.far_closely)), width, steps
        )
        found = np.where(small, np.minimum(steps, width), found)
        found[small & ~((found > TUNING.zero) & (found < 1.0 / TUNING.zero))] = np.nan
    return found


def factors(typical: Vector, *, closely: bool = False) -> Vector | None:
    """The units of a run: powers of two near the sizes; None where no size is far from 1.

    Far is a factor of a million, as the method is not that sensitive; with `closely` (after a first attempt that found
    no solution) a factor of a thousand.
    """
    known = np.where(np.isfinite(typical), typical, 1.0)
    far = TUNING.far_closely if closely else TUNING.far
    unusual = (known < 1.0 / far) | (known > far)
    return power_of_two(known) if some(unusual) else None


def own_sizes(point: Point) -> Vector:
    """The sizes of the variables at a point: |x_j|, but at least a tenth of the size at the start of the run.

    Outside of runs a point that is small counts as the start: 1e-8 may be all that is left of an error at 0.
    """
    sizes: Vector = np.where(np.abs(point.x) > TUNING.zero, np.abs(point.x), 0.0)
    start = point.problem.workspace.sizes
    if start is not None:
        sizes = np.fmax(sizes, TUNING.start_share * start)
    else:  # a variable a hair off its bound at 0 may be large elsewhere
        near = np.minimum(point.x - point.problem.lower, point.problem.upper - point.x) == np.abs(point.x)
        if (sizes < TUNING.small_variable).any():
            sizes = np.fmax(sizes, np.where(sizes > 0.0, TUNING.start_share, 1.0) * typical(point))
        sizes = np.where(near & (sizes < TUNING.hair), 1.0, sizes)
    return np.where(sizes > 0.0, sizes, 1.0)


def power_of_two(values: Vector) -> Vector:
    """The nearest powers of two, from 2^-332 to 2^332 (1e100): products with them are exact."""
    powers: Vector = np.exp2(np.clip(np.rint(np.log2(values)), -332, 332))
    return powers


def row_values(problem: AbstractProblem, c: Vector) -> Vector:
    """How far every row is from the nearer of its sides, inside or outside; |c_i| of a row without sides."""
    gap = np.minimum(np.abs(c - problem.cl), np.abs(c - problem.cu))
    values: Vector = np.where(np.isfinite(gap), gap, np.abs(c))
    return values


def _longest(point: Point) -> Vector | float:
    """The longest steps that finite differences show: what a value's last digits do not show is an error."""
    shown: Vector = TUNING.shown / np.finfo(np.float64).eps ** 0.5 * np.maximum(1.0, np.abs(point.x))
    return shown if point.problem.differenced else np.inf


def _by_gradient(point: Point, known: Vector) -> Vector:
    """Sizes with which every variable changes f alike, as those that are `known` (others are NaN) do in the median.

    If none is known, the sizes are relative to each other, which says something of two variables, but not of one.
    """
    with np.errstate(all="ignore"):
        gradient = np.abs(point.grad)
        relative = np.isnan(known).all() and np.count_nonzero(gradient) > 1
        changes = gradient if relative else gradient * known
        changes = changes[np.isfinite(changes) & (changes > 0.0)]
        sizes = _medians(changes[:, None]) / gradient if changes.size else np.full_like(gradient, np.nan)
        usable = np.isfinite(sizes) & (sizes > 0.0) & (sizes <= _longest(point))
    return np.where(usable, sizes, np.nan)


def _natural_steps(point: Point, sizes: Vector, most: float) -> Vector:
    """Median over f and the rows of |value| / |derivative along x_j|; NaN where there is none up to `most`.

    Rows that are as good as at a side, for variables of these sizes, say nothing.
    """
    problem = point.problem
    if sparse.issparse(point.jac) and problem.m * problem.n <= TUNING.largest_sizing:
        return _natural_steps_of_entries(point, sizes, most)
    steps = np.full((1, problem.n), np.nan)
    with np.errstate(all="ignore"):
        if point.f != 0.0:
            steps[0] = abs(point.f) / np.abs(point.grad)
        if problem.m and not isinstance(point.jac, LinearOperator) and problem.m * problem.n <= TUNING.largest_sizing:
            jac, values = np.abs(dense(point.jac)), row_values(problem, point.c)
            at_side = TUNING.at_side * np.maximum(np.abs(point.c), np.maximum.reduce(jac * sizes, axis=1, initial=0.0))
            rows = np.where(values > at_side, values, np.nan)[:, None] / jac
            steps = np.concatenate((steps, rows))
        steps[~np.isfinite(steps) | (steps <= TUNING.zero) | (steps > np.minimum(_longest(point), most))] = np.nan
        steps = np.log(steps)
    return np.exp(_medians(steps))


def _natural_steps_of_entries(point: Point, sizes: Vector, most: float) -> Vector:
    """The same from the entries of a sparse Jacobian: those that are 0 have nothing to say."""
    problem, n = point.problem, point.problem.n
    jac = sparse.csr_array(point.jac, copy=True)
    jac.sum_duplicates()
    values, largest = row_values(problem, point.c), np.zeros(problem.m)
    row, column, slopes = np.repeat(np.arange(problem.m), np.diff(jac.indptr)), jac.indices, np.abs(jac.data)
    with np.errstate(all="ignore"):
        np.maximum.at(largest, row, slopes * sizes[column])
        at_side = TUNING.at_side * np.maximum(np.abs(point.c), largest)
        steps = np.where(values > at_side, values, np.nan)[row] / slopes
        if point.f != 0.0:
            steps = np.concatenate((abs(point.f) / np.abs(point.grad), steps))
            column = np.concatenate((np.arange(n), column))
        longest = np.broadcast_to(np.minimum(_longest(point), most), n)
        known = np.isfinite(steps) & (steps > TUNING.zero) & (steps <= longest[column])
        steps, column = np.log(steps[known]), column[known]
    ordered, count = steps[np.lexsort((steps, column))], np.bincount(column, minlength=n)
    first, there = np.cumsum(count) - count, count > 0
    first, count = first[there], count[there]
    medians = np.full(n, np.nan)
    medians[there] = np.exp((ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2)
    return medians


def _medians(values: Matrix) -> Vector:
    """The median of the numbers in each column, NaN where there are none; NumPy's takes a hundred times as long."""
    ordered, count = np.sort(values, axis=0), np.count_nonzero(~np.isnan(values), axis=0)  # NaN comes last
    columns = np.arange(values.shape[1])
    medians: Vector = (ordered[np.maximum(count - 1, 0) // 2, columns] + ordered[count // 2, columns]) / 2
    return medians
