"""How good is a point? KKT residuals of any (x, multipliers) on the original problem, in the user's units.

Nothing here depends on how the point was found, and the solver's `success` follows from this check alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.sparse.linalg import LinearOperator

from auglag._norms import finite, norm, some
from auglag._typing import Jacobian, Vector
from auglag.certificate.multipliers import best_multipliers
from auglag.certificate.parts import Parts, row_gaps
from auglag.certificate.scale_free import point_aside, rounding, scale_free, scale_free_error, sizes
from auglag.certificate.tolerance import Tolerance
from auglag.certificate.tuning import TUNING
from auglag.problems.base import AbstractProblem, Point
from auglag.problems.jacobians import columns_times
from auglag.prox import SeparableTerm


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """The residuals at one (x, y), L = f + y'c + z'x; 2-norms unless said otherwise.

    residual = stationarity + ||(violation, complementarity)||, which for equality constraints is the paper's
    R(x, y) = dist(-grad L(x, y), dg(x)) + ||c(x)||. An inequality is an equality c - s = 0 with a slack s between its
    sides. A multiplier at a side that c(x) does not touch counts either with its size, as stationarity in s, or with
    the gap, as complementarity; one at a bound that x does not touch with its size or with gap * max(1, size). Of all
    these splits the one with the smallest residual is reported.

    scale_free is the largest of these, with X_j, F and C_i the sizes of x_j, f and row i (`_sizes`): what a step of the
    size of x_j still promises, |v_j| X_j / F, v = -(grad f + J'y) less dg, or the gap to the bound that stops it,
    gap_j / X_j, if that is less; violations v_i / C_i; for multipliers at a side that row i does not touch gap_i / C_i
    or |y_i| C_i / F, whichever is less. Other units of x, f or c do not change it.
    """

    x: Vector
    multipliers: Vector  #: y, one per row
    bound_multipliers: Vector  #: z: > 0 where the upper bound holds x, < 0 where the lower one does
    objective: float  #: f(x) + g(x)
    stationarity: float  #: dist(-(grad f + J'y + z), dg(x))
    violation: float  #: distance of c(x) to [cl, cu] and of x to its bounds
    complementarity: float
    row_violations: dict[str, float]  #: by name, only rows that are violated, worst first (a thousand at most)
    gradient_norm: float  #: ||grad f(x)||, to judge the scale of the stationarity
    exact: bool  #: False if g is a user's term, whose subdifferential distance is only estimated by a prox residual
    differenced: bool  #: derivatives are finite differences, with their errors
    derivative_error: float  #: what these errors may do to the stationarity; an estimate, 0 for exact derivatives
    value_error: float = 0.0  #: what errors of c beyond those of double precision may do to the violation; an estimate
    objective_error: float = 0.0  #: the error of f beyond those of double precision; an estimate
    rounding: float = 0.0  #: what double precision makes of R: one rounding error of every term in it, and of x
    scale_free: float = math.nan  #: the same conditions, relative to the sizes of x, f and c; NaN: not measured
    unexplained: float = 0.0  #: scale_free after the errors of values and derivatives were taken off
    scale_free_error: float = 0.0  #: what these errors may do to scale_free; an estimate
    #: F of scale_free; where a run led to x, what f has fallen by since its start, if that is more. NaN: not measured
    objective_size: float = math.nan

    @property
    def residual(self) -> float:
        """R: the number that `tol` is compared with."""
        return self.stationarity + math.hypot(self.violation, self.complementarity)

    @property
    def accuracy(self) -> float:
        """How well R is known: what the errors of the functions and of their derivatives make of it; an estimate."""
        return self.derivative_error + self.value_error

    @property
    def relative_residual(self) -> float:
        """R with the stationarity divided by max(1, ||grad f||)."""
        return self.stationarity / max(1.0, self.gradient_norm) + math.hypot(self.violation, self.complementarity)

    @property
    def worst(self) -> tuple[str, float]:
        """What spoils the residual most: a constraint's name, 'bounds', 'stationarity' or 'complementarity'."""
        parts = {"stationarity": self.stationarity, "complementarity": self.complementarity, **self.row_violations}
        name = max(parts, key=lambda key: parts[key] if not math.isnan(parts[key]) else math.inf)
        return name, parts[name]

    def meets(self, tol: Tolerance | float | tuple[float, float]) -> bool:
        """Whether R <= tol and scale_free is at most its own tolerance, by default 0.1 sqrt(tol).

        False if anything is not finite, or not known that accurately.
        """
        tol = Tolerance.of(tol)
        known = math.isfinite(self.objective) and not self._doubtful(tol)
        return known and self.residual <= tol.residual and not self.scale_free > tol.scale_free

    def limited(
        self, tolerance: Tolerance | float | tuple[float, float], *, rounding: bool = True, rough: float = TUNING.rough
    ) -> bool:
        """Whether the functions are not accurate enough for `tol`, and R is no larger than their errors make it.

        An error of f excuses a violation v that changes the objective, by |y| v, no more than that.
        With `rounding`, those of double precision excuse R as well, if the scale-free test is met. However large the
        errors are, scale_free must be at most `rough`.
        """
        both = Tolerance.of(tolerance)
        tol, times = both.residual, TUNING.reached
        if rounding and self.rounding_limits(both):
            return True
        enough = self.residual <= max(tol, times * self.accuracy)
        enough = enough and self.violation <= max(tol, times * self._excused_violation)
        enough = enough and not self.unexplained > both.scale_free and not self.scale_free > max(both.scale_free, rough)
        return math.isfinite(self.objective) and self._doubtful(both) and self.accuracy < math.inf and enough

    def _doubtful(self, tol: Tolerance) -> bool:
        """Whether errors of the functions may be what meets the tolerance."""
        return not (self.accuracy <= tol.residual and self.scale_free_error <= tol.scale_free)

    @property
    def _excused_violation(self) -> float:
        weight = max(1.0, norm(self.multipliers))
        return max(self.value_error, self.objective_error / weight)

    def weighed(self, tol: float) -> float:
        """R, for runs whose functions have errors: at most max(tol, accuracy) only if the violation is excused, too.

        Where the errors are below `tol` it is R.
        """
        if not self.accuracy > tol:
            return self.residual
        return max(self.residual, self.violation * self.accuracy / max(tol, self._excused_violation))

    def rounding_limits(self, tol: Tolerance) -> bool:
        """Whether R is above `tol` by no more than rounding errors explain, and the scale-free test is met."""
        explained = self.rounding_reach < math.inf and self.residual <= self.rounding_reach
        return explained and tol.residual < self.residual and self.scale_free <= tol.scale_free

    @property
    def rounding_reach(self) -> float:
        """The R that rounding errors, and those of the functions, may explain."""
        return TUNING.reached * max(self.rounding, self.accuracy)

    def __str__(self) -> str:
        name, size = self.worst
        relative = "" if math.isnan(self.scale_free) else f"; scale-free {self.scale_free:.3e}"
        note = "" if self.exact else " (stationarity estimated by the prox residual)"
        if self.differenced:
            note += f" (derivatives by finite differences, error about {self.derivative_error:.1e})"
        return (
            f"residual {self.residual:.3e} = stationarity {self.stationarity:.3e} + norm of (violation "
            f"{self.violation:.3e}, complementarity {self.complementarity:.3e}); worst: {name} {size:.3e}"
            f"{relative}{note}"
        )


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
    best = _settled(problem, point.x, at.slope, at.multiplier, at.gap, violation)
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


@dataclass(frozen=True, slots=True)
class _Split:
    """One way to count multipliers at sides that are not touched: as stationarity, or as complementarity."""

    stationarity: float
    complementarity: float
    z: Vector

    def residual(self, violation: float) -> float:
        return self.stationarity + math.hypot(violation, self.complementarity)


def settle_rows(
    stationarity: float, violation: float, c: Vector, y: Vector, cl: Vector, cu: Vector
) -> tuple[float, float]:
    """(stationarity, complementarity) of a point without bounds: the split with the smallest residual."""
    splits = _for_rows([_Split(stationarity, 0.0, np.zeros(0))], *row_gaps(cl, cu, c, y))
    best = min(splits, key=lambda split: split.residual(violation))
    return best.stationarity, best.complementarity


def _settled(problem: AbstractProblem, x: Vector, slope: Vector, size: Vector, gap: Vector, violation: float) -> _Split:
    """The split with the smallest residual."""
    splits = _for_rows(_for_bounds(problem, x, -slope), size, gap)
    return min(splits, key=lambda split: split.residual(violation))


def _for_rows(bounds: list[_Split], size: Vector, gap: Vector) -> list[_Split]:
    """All rows count with their gap, as in Algorithm 1 with its slacks; or each with the smaller of gap_i and |y_i|."""
    if not some(gap):
        return bounds
    dropped = size < gap
    every, freed, left = norm(gap), norm(np.where(dropped, size, 0.0)), norm(np.where(dropped, 0.0, gap))
    splits = []
    for split in bounds:
        off, z = split.complementarity, split.z
        splits.append(_Split(split.stationarity, math.hypot(off, every), z))
        splits.append(_Split(math.hypot(split.stationarity, freed), math.hypot(off, left), z))
    return splits


def _for_bounds(problem: AbstractProblem, x: Vector, v: Vector) -> list[_Split]:
    """v = -grad L less dg and bound multipliers z: only at bounds that x touches (the paper's distance), or near them.

    A multiplier z at a bound that x does not quite touch costs gap * max(1, |z|), which bounds what moving x there
    could still change: a gap below the tolerance excuses no gradient by itself, whatever the units of x are.
    """
    g, excess = problem.g, v  # what dg cannot absorb and a bound must
    if g is not None and not isinstance(g, SeparableTerm):  # no bounds beside such a g
        return [_Split(g.subdiff_distance(x, v), 0.0, np.zeros(x.size))]
    if not finite(v):
        return [_Split(math.nan, 0.0, np.zeros(x.size))]
    if g is not None:
        excess = v - v.clip(*g.subdiff_interval(x))
    gap = np.where(excess > 0, problem.upper - x, x - problem.lower)
    size = np.abs(excess)
    price = np.maximum(gap, 0.0) * np.maximum(1.0, size)
    touched, near = np.where(gap <= 0.0, excess, 0.0), price < size
    z = np.where(near, excess, 0.0)
    return [_Split(norm(excess - touched), 0.0, touched), _Split(norm(excess - z), norm(np.where(near, price, 0.0)), z)]
