"""How good is a point? KKT residuals of any (x, multipliers) on the original problem, in the user's units.

Nothing here depends on how the point was found, and the solver's `success` follows from this check alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.certificate.multipliers import best_multipliers
from auglag.certificate.tuning import TUNING
from auglag.errors import InputError
from auglag.problems.base import AbstractProblem, Point
from auglag.prox import SeparableTerm, Zero


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """The residuals at one (x, y), L = f + y'c + z'x; 2-norms unless said otherwise.

    residual = stationarity + ||(violation, complementarity)||, which for equality constraints is the paper's
    R(x, y) = dist(-grad L(x, y), dg(x)) + ||c(x)||. An inequality is an equality c - s = 0 with a slack s between its
    sides. A multiplier at a side that c(x) does not touch counts either with its size, as stationarity in s, or with
    the gap, as complementarity; one at a bound that x does not touch with its size or with gap * max(1, size). Of all
    these splits the one with the smallest residual is reported.
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

    def meets(self, tol: float) -> bool:
        """Whether the residual is at most `tol`; False if anything is not finite, or not known that accurately."""
        if not 0.0 < tol < math.inf:
            raise InputError(f"tol must be positive and finite, got {tol}")
        return math.isfinite(self.objective) and self.residual <= tol and self.accuracy <= tol

    def limited(self, tol: float) -> bool:
        """Whether the functions are not accurate enough for `tol`, and R is no larger than their errors make it.

        Errors of derivatives excuse a violation v only as far as it changes the objective, by |y| v, no more than they.
        """
        times, weight = TUNING.reached, max(1.0, float(np.linalg.norm(self.multipliers)))
        excused = max(tol, times * self.value_error, times * self.derivative_error / weight)
        enough = self.residual <= max(tol, times * self.accuracy) and self.violation <= excused
        return math.isfinite(self.objective) and tol < self.accuracy < math.inf and enough

    def __str__(self) -> str:
        name, size = self.worst
        note = "" if self.exact else " (stationarity estimated by the prox residual)"
        if self.differenced:
            note += f" (derivatives by finite differences, error about {self.derivative_error:.1e})"
        return (
            f"residual {self.residual:.3e} = stationarity {self.stationarity:.3e} + norm of (violation "
            f"{self.violation:.3e}, complementarity {self.complementarity:.3e}); worst: {name} {size:.3e}{note}"
        )


def certificate(problem: AbstractProblem, x: Vector, y: Vector | None = None, *, enough: float = 0.0) -> Certificate:
    """Measure x with the multipliers y; with y=None those with the smallest residual are found by least squares."""
    point = problem.at(x)
    if y is not None:
        return _measure(point, y)
    return _best(point, enough) if problem.m else _measure(point, np.zeros(0))


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
    problem, x = point.problem, point.x
    inside = np.clip(x, problem.lower, problem.upper)
    bound_violation = float(np.linalg.norm(x - inside))
    c = point.c
    row_violation = np.maximum(np.maximum(problem.cl - c, c - problem.cu), 0.0)
    violation = math.hypot(float(np.linalg.norm(row_violation)), bound_violation)
    with np.errstate(invalid="ignore", over="ignore"):  # an infinite entry makes a NaN, which no tolerance meets
        lagrangian_gradient = point.lagrangian_gradient(y)
    size, gap = _row_gaps(problem.cl, problem.cu, c, y)
    splits = [
        split for bounds in _for_bounds(problem, x, -lagrangian_gradient) for split in _for_rows(bounds, size, gap)
    ]
    best = min(splits, key=lambda split: split.residual(violation))
    z = best.z.copy()
    if problem.differenced:
        z[problem.lower == problem.upper] = math.nan  # differences do not move a fixed variable
    worst = [int(i) for i in np.argsort(-row_violation, kind="stable")[: TUNING.most_named] if row_violation[i] != 0.0]
    named = {problem.row_name(i): float(row_violation[i]) for i in worst}
    if bound_violation > 0:
        named["bounds"] = bound_violation
    g_value = problem.g.value(x) if problem.g is not None else 0.0
    return Certificate(
        x=x,
        multipliers=y,
        bound_multipliers=z,
        objective=float(point.f + g_value),
        stationarity=best.stationarity,
        violation=violation,
        complementarity=best.complementarity,
        row_violations=named,
        gradient_norm=float(np.linalg.norm(point.grad)),
        exact=problem.g is None or problem.g.exact,
        differenced=problem.differenced,
        derivative_error=point.derivative_error(y),
        value_error=point.value_error(y),
    )


def settle_rows(
    stationarity: float, violation: float, c: Vector, y: Vector, cl: Vector, cu: Vector
) -> tuple[float, float]:
    """(stationarity, complementarity) of a point without bounds: the split with the smallest residual."""
    splits = _for_rows(_Split(stationarity, 0.0, np.zeros(0)), *_row_gaps(cl, cu, c, y))
    best = min(splits, key=lambda split: split.residual(violation))
    return best.stationarity, best.complementarity


def _row_gaps(cl: Vector, cu: Vector, c: Vector, y: Vector) -> tuple[Vector, Vector]:
    """(|y_i|, gap of the side its sign points at) for inequality rows; 0 for equalities, which have no side to miss."""
    inequality = cl != cu
    gap = np.where(y > 0, cu - c, np.where(y < 0, c - cl, 0.0))
    return np.where(inequality, np.abs(y), 0.0), np.where(inequality, np.maximum(gap, 0.0), 0.0)


@dataclass(frozen=True, slots=True)
class _Split:
    """One way to count multipliers at sides that are not touched: as stationarity, or as complementarity."""

    stationarity: float
    complementarity: float
    z: Vector

    def residual(self, violation: float) -> float:
        return self.stationarity + math.hypot(violation, self.complementarity)


def _for_rows(bounds: _Split, size: Vector, gap: Vector) -> Iterator[_Split]:
    """All rows count with their gap, as in Algorithm 1 with its slacks; or each with the smaller of gap_i and |y_i|."""
    yield replace(bounds, complementarity=math.hypot(bounds.complementarity, float(np.linalg.norm(gap))))
    dropped = np.where(size < gap, size, 0.0)
    yield replace(
        bounds,
        stationarity=math.hypot(bounds.stationarity, float(np.linalg.norm(dropped))),
        complementarity=math.hypot(bounds.complementarity, float(np.linalg.norm(np.where(size < gap, 0.0, gap)))),
    )


def _for_bounds(problem: AbstractProblem, x: Vector, v: Vector) -> Iterator[_Split]:
    """v = -grad L less dg and bound multipliers z: only at bounds that x touches (the paper's distance), or near them.

    A multiplier z at a bound that x does not quite touch costs gap * max(1, |z|), which bounds what moving x there
    could still change: a gap below the tolerance excuses no gradient by itself, whatever the units of x are.
    """
    g = problem.g if problem.g is not None else Zero()
    none = np.zeros(x.size)
    if not isinstance(g, SeparableTerm):  # no bounds beside such a g
        yield _Split(g.subdiff_distance(x, v), 0.0, none)
        return
    if not np.isfinite(v).all():
        yield _Split(math.nan, 0.0, none)
        return
    lo, hi = g.subdiff_interval(x)
    excess = v - np.clip(v, lo, hi)  # what dg cannot absorb and a bound must
    gap = np.where(excess > 0, problem.upper - x, np.where(excess < 0, x - problem.lower, 0.0))
    size = np.abs(excess)
    price = np.maximum(gap, 0.0) * np.maximum(1.0, size)
    for held in (gap <= 0.0, price < size):
        z = np.where(held, excess, 0.0)
        off = np.where(held, price, 0.0)
        yield _Split(float(np.linalg.norm(excess - z)), float(np.linalg.norm(off)), z)
