"""How good is a point? KKT residuals of any (x, multipliers) on the original problem, in the user's units.

Nothing here depends on how the point was found, and the solver's `success` follows from this check alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import final

import numpy as np
from scipy.sparse.linalg import LinearOperator

from auglag._norms import norm, some
from auglag._typing import Jacobian, Vector
from auglag.certificate.multipliers import best_multipliers
from auglag.certificate.parts import Parts
from auglag.certificate.record import Certificate
from auglag.certificate.scale_free import point_aside, rounding, scale_free, scale_free_error, sizes
from auglag.certificate.splitting import settled
from auglag.certificate.tolerance import Tolerance
from auglag.certificate.tuning import TUNING
from auglag.problems.base import AbstractProblem, Point
from auglag.problems.jacobians import columns_times


def certificate(
    problem: AbstractProblem, x: Vector, y: Vector | None = None, *, enough: float = 0.0, scale_free: bool = True
) -> Certificate:
    """Measure x with the multipliers y; with y=None those with the smallest residual are found by least squares.

    `enough` is a tolerance: a smaller residual is not looked for, and scale_free is only measured as well as it can be
    where the residual meets it. That may take f and c at one more point; `scale_free=False` leaves it out.
    """
    point = problem.at(x)
    if y is not None or not problem.m:
        check = _measure(point, y if y is not None else np.zeros(0))
    else:
        check = _best(point, enough)
    if not scale_free:
        return replace(check, scale_free=math.nan)
    if check.residual > (enough or math.inf):
        return check
    loose = Tolerance.of(enough or TUNING.exactly).scale_free
    if not max(check.scale_free, check.scale_free_error) > loose:
        return check
    check = with_sizes(problem, check)
    if y is None and problem.m and check.scale_free > loose:
        other = with_sizes(problem, _measure(point, _fitted_in_units(point, enough)))
        if other.scale_free < check.scale_free and other.residual <= max(check.residual, enough):
            return other
    return check


def with_sizes(problem: AbstractProblem, check: Certificate) -> Certificate:
    """The certificate with scale_free measured as well as it can be, which may take f and c at one more point."""
    point, aside = problem.at(check.x), point_aside(problem, check.x)
    if aside is None:
        return check
    at = Parts(point, check.multipliers)
    beside, size = scale_free(at, aside)
    explained, doubt = beside, 0.0
    if point.has_errors:
        explained, doubt = scale_free(at, aside, TUNING.reached)[0], scale_free_error(at, aside)
    return replace(
        check,
        scale_free=min(check.scale_free, beside),
        unexplained=min(check.unexplained, explained),
        scale_free_error=min(check.scale_free_error, doubt),
        objective_size=size,
    )


def _fitted_in_units(point: Point, enough: float) -> Vector:
    """Multipliers that fit best where x, f and rows are measured in units of their sizes."""
    problem = point.problem
    if problem.g is not None or isinstance(point.jac, LinearOperator):
        return np.zeros(problem.m)
    with np.errstate(all="ignore"):
        size_x, size_f, size_c = sizes(Parts(point, np.zeros(problem.m)), point_aside(problem, point.x))
    size_f = size_f if 0.0 < size_f < math.inf else np.float64(1.0)
    with np.errstate(all="ignore"):
        view = Point(_InUnits(problem, size_x, size_c), point.x / size_x)
        view._f, view._grad = float(point.f / size_f), point.grad * size_x / size_f
        view._c, view._jac = point.c / size_c, columns_times(columns_times(point.jac, size_x).T, 1.0 / size_c).T
    return _best(view, enough).multipliers * size_f / size_c


@final
class _InUnits(AbstractProblem):
    """A problem measured in other units, of which only one point is known."""

    def __init__(self, problem: AbstractProblem, size_x: Vector, size_c: Vector) -> None:
        lower, upper, cl, cu = problem.lower / size_x, problem.upper / size_x, problem.cl / size_c, problem.cu / size_c
        super().__init__(problem.x0 / size_x, lower=lower, upper=upper, cl=cl, cu=cu)

    def f(self, x: Vector) -> float:
        raise NotImplementedError

    def grad(self, x: Vector) -> Vector:
        raise NotImplementedError

    def c(self, x: Vector) -> Vector:
        raise NotImplementedError

    def jac(self, x: Vector) -> Jacobian:
        raise NotImplementedError


def _best(point: Point, enough: float) -> Certificate:
    """The certificate with multipliers whose R is near the smallest, or at most `enough`.

    A multiplier at a side that c(x) or x does not quite touch costs its gap, so it is not known beforehand which sides
    count as touched. Gaps up to eps do, eps = 1e-10, 1e-8, ..., until R <= eps: multipliers at sides farther away
    cannot make R smaller then, and the eps before was too small for the smallest R. Where R consists of gaps, values
    between the two are tried.
    """
    below, eps = 0.0, TUNING.activity[0]
    best = _measure(point, best_multipliers(point, eps))
    for larger in TUNING.activity[1:]:
        if best.residual <= max(eps, enough, TUNING.only_violation * best.violation):
            break
        below, eps = eps, larger
        check = _measure(point, best_multipliers(point, eps, best.multipliers))
        if not math.isfinite(best.residual) or check.residual < best.residual:
            best = check
    for _ in range(TUNING.halvings):
        if not below or best.residual <= enough or best.complementarity <= best.residual / 2:
            break
        between = math.sqrt(below * eps)
        check = _measure(point, best_multipliers(point, between, best.multipliers))
        if check.residual < best.residual:
            best, eps = check, between
        else:
            below = between
    return best


def _measure(point: Point, y: Vector) -> Certificate:
    """The certificate of (x, y), without more evaluations than these; the same again is looked up at the point."""
    problem, work = point.problem, point.problem.workspace
    known = point.measured
    if known is not None and known[0] is work.sizes and known[1] is work.precision and known[2] == y.tobytes():
        found: Certificate = known[3]
        return found
    at = Parts(point, y)
    bound_violation = norm(at.outside)
    violation = math.hypot(norm(at.violation), bound_violation)
    best = settled(problem, point.x, at.slope, at.multiplier, at.gap, violation)
    z = best.z
    if problem.differenced:
        z = np.where(problem.lower == problem.upper, math.nan, z)  # differences do not move a fixed variable
    (relative, size), doubt = scale_free(at), scale_free_error(at) if point.has_errors else 0.0
    found = Certificate(
        x=point.x,
        multipliers=y,
        bound_multipliers=z,
        objective=float(point.f + (problem.g.value(point.x) if problem.g is not None else 0.0)),
        stationarity=best.stationarity,
        violation=violation,
        complementarity=best.complementarity,
        row_violations=_named(problem, at.violation, bound_violation),
        gradient_norm=norm(point.grad),
        exact=problem.g is None or problem.g.exact,
        differenced=problem.differenced,
        derivative_error=point.derivative_error(y),
        value_error=point.value_error(y),
        objective_error=problem.precision.f if problem.coarse else 0.0,
        rounding=rounding(at),
        scale_free=relative,
        unexplained=scale_free(at, errors=TUNING.reached)[0] if point.has_errors else relative,
        scale_free_error=doubt,
        objective_size=size,
    )
    point.measured = (work.sizes, work.precision, y.tobytes(), found)
    return found


def _named(problem: AbstractProblem, violation: Vector, bounds: float) -> dict[str, float]:
    """The violated rows by name, the worst first."""
    named = {}
    if some(violation):
        worst = np.argsort(-violation, kind="stable")[: TUNING.most_named]
        named = {problem.row_name(int(i)): float(violation[i]) for i in worst if violation[i] != 0.0}
    if bounds > 0:
        named["bounds"] = bounds
    return named


# --------------------------------------------------------------------------------------- multipliers at untouched sides
