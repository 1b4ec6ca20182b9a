"""How good is a point? KKT residuals of any (x, multipliers) on the original problem, in the user's units.

Nothing here depends on how the point was found, and the solver's `success` follows from this check alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.multipliers import best_multipliers
from auglag.problems.base import AbstractProblem, Point
from auglag.prox import SeparableTerm, Zero

#: Distances (relative to max(1, |side|)) within which a row or variable may be held by a multiplier, for a bare x.
ACTIVITY = (1e-6, 1e-8, 1e-4, 1e-2)


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """The residuals at one (x, y), L = f + y'c + z'x; 2-norms unless said otherwise.

    residual = stationarity + ||(violation, complementarity)||, which for equality constraints is the paper's
    R(x, y) = dist(-grad L(x, y), dg(x)) + ||c(x)||. An inequality is an equality c - s = 0 with a slack s between its
    sides: a multiplier at a side that c(x) does not touch is paid for either by its size, as stationarity in s, or by
    the gap, as complementarity. The same holds for bounds.
    """

    x: Vector
    multipliers: Vector  #: y, one per row
    bound_multipliers: Vector  #: z: > 0 where the upper bound holds x, < 0 where the lower one does
    objective: float  #: f(x) + g(x)
    stationarity: float  #: dist(-(grad f + J'y + z), dg(x))
    violation: float  #: distance of c(x) to [cl, cu] and of x to its bounds
    complementarity: float
    row_violations: dict[str, float]  #: by name, only rows that are violated, worst first
    gradient_norm: float  #: ||grad f(x)||, to judge the scale of the stationarity
    exact: bool  #: False if g is a user's term, whose subdifferential distance is only estimated by a prox residual
    differenced: bool  #: derivatives are finite differences, with their errors

    @property
    def residual(self) -> float:
        """R: the number that `tol` is compared with."""
        return self.stationarity + math.hypot(self.violation, self.complementarity)

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
        """Whether the residual is at most `tol`; False if anything is not finite."""
        if not 0.0 < tol < math.inf:
            raise InputError(f"tol must be positive and finite, got {tol}")
        return math.isfinite(self.objective) and self.residual <= tol

    def __str__(self) -> str:
        name, size = self.worst
        note = "" if self.exact else " (stationarity estimated by the prox residual)"
        note += " (derivatives by finite differences)" if self.differenced else ""
        return (
            f"residual {self.residual:.3e} = stationarity {self.stationarity:.3e} + norm of (violation "
            f"{self.violation:.3e}, complementarity {self.complementarity:.3e}); worst: {name} {size:.3e}{note}"
        )


def certificate(problem: AbstractProblem, x: Vector, y: Vector | None = None) -> Certificate:
    """Measure x with the multipliers y; with y=None the best multipliers are found by (signed) least squares."""
    point = problem.at(x)
    if y is not None:
        return _measure(point, y)
    # What counts as active at a point of unknown accuracy? Try several answers and keep the best.
    tries = [_measure(point, best_multipliers(point, active)) for active in (ACTIVITY if problem.m else ACTIVITY[:1])]
    return min(tries, key=lambda check: check.residual if math.isfinite(check.residual) else math.inf)


def _measure(point: Point, y: Vector) -> Certificate:
    problem, x = point.problem, point.x
    inside = np.clip(x, problem.lower, problem.upper)
    bound_violation = float(np.linalg.norm(x - inside))
    c = point.c
    row_violation = np.maximum(np.maximum(problem.cl - c, c - problem.cu), 0.0)
    violation = math.hypot(float(np.linalg.norm(row_violation)), bound_violation)
    with np.errstate(invalid="ignore", over="ignore"):  # an infinite entry makes a NaN, which no tolerance meets
        lagrangian_gradient = point.lagrangian_gradient(y)
    z, stationarity, bound_gap, exact = _stationarity(problem, x, -lagrangian_gradient)
    if problem.differenced:
        z[problem.lower == problem.upper] = math.nan  # differences do not move a fixed variable
    size, gap = _row_gaps(problem, c, y)
    stationarity, complementarity = _cheapest(stationarity, float(np.linalg.norm(bound_gap)), violation, size, gap)
    named = {problem.row_name(int(i)): float(row_violation[i]) for i in np.argsort(-row_violation, kind="stable")}
    named = {name: size for name, size in named.items() if size != 0.0}
    if bound_violation > 0:
        named["bounds"] = bound_violation
    g_value = problem.g.value(x) if problem.g is not None else 0.0
    return Certificate(
        x=x,
        multipliers=y,
        bound_multipliers=z,
        objective=float(point.f + g_value),
        stationarity=stationarity,
        violation=violation,
        complementarity=complementarity,
        row_violations=named,
        gradient_norm=float(np.linalg.norm(point.grad)),
        exact=exact,
        differenced=problem.differenced,
    )


def _row_gaps(problem: AbstractProblem, c: Vector, y: Vector) -> tuple[Vector, Vector]:
    """(|y_i|, gap of the side its sign points at) for inequality rows; 0 for equalities, which have no side to miss."""
    inequality = problem.cl != problem.cu
    gap = np.where(y > 0, problem.cu - c, np.where(y < 0, c - problem.cl, 0.0))
    return np.where(inequality, np.abs(y), 0.0), np.where(inequality, np.maximum(gap, 0.0), 0.0)


def _cheapest(
    stationarity: float, bound_gap: float, violation: float, size: Vector, gap: Vector
) -> tuple[float, float]:
    """(stationarity, complementarity) with the smaller sum R of two ways to pay for multipliers off their side.

    Either each row pays the smaller of |y_i| (as stationarity in its slack) and gap_i (as complementarity), or all
    pay the gap, as Algorithm 1 with its slacks does.
    """
    dropped = np.where(size < gap, size, 0.0)
    mixed_stationarity = math.hypot(stationarity, float(np.linalg.norm(dropped)))
    mixed = math.hypot(bound_gap, float(np.linalg.norm(np.where(size < gap, 0.0, gap))))
    kept = math.hypot(bound_gap, float(np.linalg.norm(gap)))
    if stationarity + math.hypot(violation, kept) <= mixed_stationarity + math.hypot(violation, mixed):
        return stationarity, kept
    return mixed_stationarity, mixed


def _stationarity(problem: AbstractProblem, x: Vector, v: Vector) -> tuple[Vector, float, Vector, bool]:
    """(z, dist, gap, exact): bound multipliers, distance of v = -grad L to dg + z, gap of the bounds they use."""
    g = problem.g if problem.g is not None else Zero()
    if not isinstance(g, SeparableTerm):  # no bounds beside such a g
        return np.zeros(x.size), g.subdiff_distance(x, v), np.zeros(x.size), g.exact
    if not np.isfinite(v).all():
        return np.zeros(x.size), math.nan, np.zeros(x.size), g.exact
    lo, hi = g.subdiff_interval(x)
    excess = v - np.clip(v, lo, hi)  # what dg cannot absorb and a bound must
    gap = np.where(excess > 0, problem.upper - x, np.where(excess < 0, x - problem.lower, 0.0))
    gap = np.maximum(gap, 0.0)
    held = gap < np.abs(excess)
    z = np.where(held, excess, 0.0)
    return z, float(np.linalg.norm(excess - z)), np.where(held, gap, 0.0), g.exact
