"""The KKT conditions relative to the sizes of x, f and c, and what rounding makes of R."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse.linalg import LinearOperator

from auglag._norms import highest, largest, norm, some
from auglag._random import uniform
from auglag._typing import Vector
from auglag.certificate.parts import Parts
from auglag.certificate.tuning import TUNING
from auglag.errors import attempted
from auglag.problems import units
from auglag.problems.base import AbstractProblem, Point
from auglag.problems.jacobians import columns_times, product, row_norms
from auglag.prox import SeparableTerm

_EPS = np.finfo(np.float64).eps


def rounding(at: Parts) -> float:
    """One rounding error of each term of grad L, of each row and its sides, and of x in each row; in 2-norms."""
    point = at.point
    gradient = np.abs(point.grad) + abs(point.f) / at.sizes
    rows = np.maximum(np.abs(point.c), at.largest_sides)
    if at.magnitudes is not None and at.pulls is not None:
        with np.errstate(invalid="ignore", over="ignore"):
            gradient = gradient + at.pulls
            rows = rows + product(at.magnitudes, np.abs(point.x))
    return float(_EPS * (norm(gradient) + norm(rows)))


def scale_free(at: Parts, aside: Point | None = None, errors: float = 0.0) -> tuple[float, float]:
    """The KKT conditions relative to the sizes of x, f and c, and that of f; see `Certificate`. `aside`: see `sizes`.

    So many times the errors of values and derivatives are taken off first.
    """
    point, y = at.point, at.y
    problem, x = point.problem, point.x
    beyond, missed, g = at.violation, at.gap, problem.g
    if errors:
        rows = errors * problem.precision.c
        beyond, missed = np.maximum(at.beyond - rows, 0.0), np.maximum(at.gap - rows, 0.0)
    with np.errstate(all="ignore"):
        v = -at.slope
        size_x, size_f, size_c = sizes(at, aside)
        if g is None or isinstance(g, SeparableTerm):
            lo, hi = (0.0, 0.0) if g is None else g.subdiff_interval(x)
            gap = np.where(v > hi, problem.upper - x, x - problem.lower)
            v = np.abs(v if g is None else v - v.clip(lo, hi))
            v = np.maximum(v - errors * point.gradient_errors(y), 0.0) if errors else v
        else:
            v, gap = np.array([g.subdiff_distance(x, v)]), np.array([math.inf])
            size_x = np.max(size_x, initial=0.0, keepdims=True)
        left = np.minimum(v * size_x / size_f, np.maximum(gap, 0.0) / size_x)
        parts = [np.where(v == 0.0, 0.0, left), beyond / size_c]
        if some(at.outside):
            parts.append(np.abs(at.outside) / np.maximum(largest(size_x), np.abs(x)))
        if some(at.gap):
            price = np.minimum(missed / size_c, at.multiplier * size_c / size_f)
            parts.append(np.where(missed > 0.0, price, 0.0))
        worst = highest(np.concatenate(parts))
    return worst if not math.isnan(worst) else math.inf, float(size_f)


def scale_free_error(at: Parts, aside: Point | None = None) -> float:
    """What the errors of values and derivatives may do to `scale_free`."""
    point = at.point
    problem, x = point.problem, point.x
    with np.errstate(all="ignore"):
        size_x, size_f, size_c = sizes(at, aside)
        gap = np.where(at.slope < 0.0, problem.upper - x, x - problem.lower)
        errors = point.gradient_errors(at.y)
        left = np.minimum(errors * size_x / size_f, np.maximum(gap, 0.0) / size_x)
        free = np.where(errors < np.finfo(np.float64).tiny, 0.0, left)
        counts = (problem.cl == problem.cu) | (at.multiplier != 0.0) | (at.beyond > 0.0)
        rows = np.where(counts, problem.precision.c / size_c, 0.0) if problem.coarse else np.zeros(0)
    worst = highest(np.concatenate([free, rows]))
    return worst if not math.isnan(worst) else math.inf


def sizes(at: Parts, aside: Point | None) -> tuple[Vector, np.float64, Vector]:
    """(X, F, C): the sizes of the variables, of the objective and of the rows.

    X_j is |x_j|, but at least a tenth of its size at x0. F is the largest of |f + g|, of the terms of grad L times X_j,
    and of the change of f from x to `aside`, a point about X away; C_i the largest of the row's finite sides, of its
    gradient times X_j and of its change.
    """
    point = at.point
    problem, x = point.problem, point.x
    value = abs(point.f + (problem.g.value(x) if problem.g is not None else 0.0))
    gradient, sides = np.abs(point.grad), at.largest_sides
    if at.pulls is not None:
        gradient = np.maximum(gradient, at.pulls)
        sides = np.maximum(sides, row_norms(columns_times(point.jac, at.sizes)))
    elif problem.m:
        gradient = np.maximum(gradient, np.abs(point.vjp(at.y)))
    size_f = max(value, highest(gradient * at.sizes))
    if aside is not None:
        size_f = max(size_f, abs(aside.f - point.f))
        sides = np.maximum(sides, np.abs(aside.c - point.c))
    return at.sizes, np.float64(size_f), np.where(sides > 0.0, sides, 1.0)


def relative_violation(problem: AbstractProblem, x: Vector) -> float:
    """The largest violation of a row relative to its size, as in `scale_free`, errors of the values taken off.

    f plays no part: c is evaluated at x and at one point aside.
    """
    point, size_x = problem.at(x), units.own_sizes(problem.at(x))
    beyond = np.maximum(problem.cl - point.c, point.c - problem.cu) - TUNING.reached * problem.precision.c
    size_c, aside = problem.largest_sides, Point(problem, _place_aside(problem, x, size_x)).c
    with np.errstate(invalid="ignore", over="ignore"):
        if not isinstance(point.jac, LinearOperator):
            size_c = np.fmax(size_c, row_norms(columns_times(point.jac, size_x)))
        size_c = np.fmax(size_c, np.abs(aside - point.c))
    return highest(np.maximum(beyond, 0.0) / np.where(size_c > 0.0, size_c, 1.0))


def _place_aside(problem: AbstractProblem, x: Vector, size: Vector) -> Vector:
    """About as far from x as the variables are large, on the way back to x0 if that is far enough."""
    start = problem.x0.clip(problem.lower, problem.upper)
    far = highest(np.abs(start - x) / size)
    if far < TUNING.too_near:
        signs = np.where(uniform(0, x.size) < 0.5, -1.0, 1.0)
        trial = (x + signs * size).clip(problem.lower, problem.upper)
        return np.where(trial == x, (x - signs * size).clip(problem.lower, problem.upper), trial)
    aside: Vector = (x + min(1.0, 1.0 / far) * (start - x)).clip(problem.lower, problem.upper)
    return aside


def point_aside(problem: AbstractProblem, x: Vector) -> Point | None:
    """A point about as far from x as the variables are large, on the way back to x0 if that is far enough.

    Where f and its gradient vanish at the solution nothing at x alone says how small a gradient is small. None where a
    function is not defined there.
    """
    size = units.own_sizes(problem.at(x))
    here, aside = problem.at(x), _evaluated(problem, _place_aside(problem, x, size))
    own = max(abs(here.f), highest(np.abs(here.grad) * size))
    if aside is None or abs(aside.f - here.f) <= own / _EPS:
        return aside
    # Beside such a change f is 0 in all its digits. Polynomials do that near a minimum; exponentials do where the
    # variables are thought too large, and then the point has to be nearer. Over each half of the distance a polynomial
    # changes by the same factor less, 2^degree, an exponential by ever smaller ones.
    before = math.inf
    while (nearer := _evaluated(problem, x + 0.5 * (aside.x - x))) is not None:
        factor = abs(aside.f - here.f) / max(abs(nearer.f - here.f), np.finfo(np.float64).tiny)
        if factor <= TUNING.polynomial or (before < math.inf and math.log(before) <= TUNING.degree * math.log(factor)):
            return aside
        before, aside = factor, nearer
    return None


def _evaluated(problem: AbstractProblem, x: Vector) -> Point | None:
    """The point, forgotten before and after; None where f or c is not defined.

    Whether it is known depends on the way here: a resumed run would make other calls.
    """
    problem.forget(x)
    point = problem.at(x)
    known = attempted(point.finite)
    problem.forget(x)
    return point if known else None
