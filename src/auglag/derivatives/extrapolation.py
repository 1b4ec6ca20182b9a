"""Finite differences good enough for a certificate, with an estimate of their error.

Two wide 3-point differences and Richardson extrapolation settle the usual case at 4 evaluations per column. Where the
extrapolation changes much, the steps are too wide for the function there (a variable of size 1e-5, say), and the column
is done again by Ridders' method: ever smaller steps from a tenth of |x_j| on, extrapolated to the limit, as long as the
estimate of the error falls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from auglag._typing import Matrix, Vector
from auglag.derivatives.differences import jacobian, steps
from auglag.derivatives.noise import Noise
from auglag.derivatives.tuning import EPS, TUNING
from auglag.errors import EvaluationError, note_point

Function = Callable[[Any], Any]


def extrapolated(
    fun: Function,
    x: Vector,
    f0: Vector,
    *,
    lower: Vector,
    upper: Vector,
    sparsity: Any = None,
    noise: Noise | None = None,
) -> tuple[Matrix | sparse.csr_array, Matrix | sparse.csr_array]:
    """(Jacobian, estimate of the absolute error of its entries), dense or with the structure of `sparsity`."""
    wide: Any
    half: Any
    both, t, first, trusted, times = (TUNING.wide, TUNING.half), TUNING, 0.0, TUNING.trusted_change, 1.0
    if noise is not None:
        first = noise.step(t.noise_extrapolated, t.wide * t.central_step)
        both, trusted = (first / t.central_step, 0.5 * first / t.central_step), max(trusted, first**2)
        times = t.noise_errors[2]
    wide, half = (jacobian(fun, x, f0, lower=lower, upper=upper, sparsity=sparsity, stretch=s) for s in both)
    (h1, side1), (h2, side2) = (steps(x, lower, upper, "3-point", None, s) for s in both)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (h1 / h2) ** 2
        weight = np.where((side1 == side2) & (ratio > 2.0) & np.isfinite(ratio), 1.0 / (ratio - 1.0), 0.0)
        rounding = EPS * np.maximum(np.abs(f0), 1e-300)
        rounding = rounding if noise is None else times * np.maximum(rounding, noise.values)
        per_step = np.where(h2 != 0.0, 1.0 / np.abs(h2), 0.0)
    free = h2 != 0.0
    if isinstance(half, np.ndarray):
        better = half + weight * (half - wide)
        change = np.abs(better - half)
        error = rounding[:, None] * per_step + trusted * change
        usual = (weight > 0) & (
            change <= t.trusted_change * np.abs(half) + t.trusted_roundings * rounding[:, None] * per_step
        )
        for j in np.flatnonzero(free & ~usual.all(axis=0)):
            better[:, j], error[:, j] = ridders(fun, x, int(j), f0, lower, upper, rounding, first)
        return better, error
    rows = np.repeat(np.arange(half.shape[0]), np.diff(half.indptr))
    cols = half.indices
    data = half.data + weight[cols] * (half.data - wide.data)
    change = np.abs(data - half.data)
    by_rounding = rounding[rows] * per_step[cols]
    error = by_rounding + trusted * change
    doubtful = (
        ~((weight[cols] > 0) & (change <= t.trusted_change * np.abs(half.data) + t.trusted_roundings * by_rounding))
        & free[cols]
    )
    for j in np.unique(cols[doubtful]):
        column, column_error = ridders(fun, x, int(j), f0, lower, upper, rounding, first)
        own = cols == j
        data[own], error[own] = column[rows[own]], column_error[rows[own]]
    shape = half.shape
    return sparse.csr_array((data, cols, half.indptr), shape), sparse.csr_array((error, cols, half.indptr), shape)


def ridders(
    fun: Function, x: Vector, j: int, f0: Vector, lower: Vector, upper: Vector, rounding: Vector, first: float = 0.0
) -> tuple[Vector, Vector]:
    """(column j of the Jacobian, estimate of its error) by Ridders' method, inside the bounds.

    `rounding` are the errors of the values, `first` the least first step relative to max(1, |x_j|).
    """
    below, above = x[j] - lower[j], upper[j] - x[j]
    h = TUNING.ridders_first * abs(x[j]) if x[j] else TUNING.ridders_first_at_zero
    h = max(h, first * max(1.0, abs(x[j])))
    central = min(below, above) >= TUNING.ridders_central_room * h
    side = 1.0 if above >= below else -1.0
    h = min(h, min(below, above)) if central else min(h, 0.5 * max(below, above))
    best, error = np.full(f0.size, np.nan), np.full(f0.size, np.inf)
    previous: list[Vector] = []
    for level in range(TUNING.ridders_levels):
        row = [_slope(fun, x, j, f0, h if central else side * h, central)]
        noise = rounding / h
        for k, before in enumerate(previous, start=1):
            factor = 4.0**k if central else 2.0 ** (k + 1)
            row.append((factor * row[-1] - before) / (factor - 1.0))
            with np.errstate(invalid="ignore"):
                estimate = np.maximum(np.abs(row[-1] - row[-2]), np.abs(row[-1] - before)) + noise
                improves = estimate < error
            best, error = np.where(improves, row[-1], best), np.where(improves, estimate, error)
        if level >= 2 and (error <= TUNING.ridders_enough * np.abs(best) + 2 * noise).all():
            break
        previous, h = row, 0.5 * h
    return np.where(np.isfinite(error), best, previous[0] if previous else row[0]), error


def _slope(fun: Function, x: Vector, j: int, f0: Vector, h: float, central: bool) -> Vector:
    """A 3-point difference, central or to the side of h."""
    points = []
    for step in (h, -h) if central else (h, 2.0 * h):
        point = x.copy()
        point[j] += step
        points.append((point[j] - x[j], _values(fun, point, f0.size)))
    (d1, f1), (d2, f2) = points
    with np.errstate(invalid="ignore", over="ignore"):
        if central:
            return np.asarray((f1 - f2) / (d1 - d2))
        return np.asarray((d2 / d1 * (f1 - f0) - d1 / d2 * (f2 - f0)) / (d2 - d1))


def _values(fun: Function, x: Vector, size: int) -> Vector:
    try:
        return np.array(fun(x), dtype=np.float64).reshape(-1)
    except EvaluationError:
        return np.full(size, np.nan)
    except Exception as error:
        note_point(error, x)
        raise
