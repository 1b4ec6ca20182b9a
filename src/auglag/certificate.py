"""How good is a point? KKT residuals of any (x, multipliers) on the original problem, in the user's units.

Nothing here depends on how the point was found, and the solver's `success` follows from this check alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import sparse
from scipy.optimize import lsq_linear

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.problems.base import AbstractProblem, Point, dense
from auglag.prox import SeparableTerm, Zero


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
        return (
            f"residual {self.residual:.3e} = stationarity {self.stationarity:.3e} + "
            f"|violation {self.violation:.3e}, complementarity {self.complementarity:.3e}|; "
            f"worst: {name} {size:.3e}{note}"
        )


def certificate(problem: AbstractProblem, x: Vector, y: Vector | None = None) -> Certificate:
    """Measure x with the multipliers y; with y=None the best multipliers are found by (signed) least squares."""
    point = problem.at(x)
    if y is None:
        y = best_multipliers(point)
    return _measure(point, y)


def _measure(point: Point, y: Vector) -> Certificate:
    problem, x = point.problem, point.x
    inside = np.clip(x, problem.lower, problem.upper)
    bound_violation = float(np.linalg.norm(x - inside))
    c = point.c
    row_violation = np.maximum(np.maximum(problem.cl - c, c - problem.cu), 0.0)
    violation = math.hypot(float(np.linalg.norm(row_violation)), bound_violation)
    lagrangian_gradient = point.grad + point.vjp(y) if problem.m else point.grad
    z, stationarity, bound_gap, exact = _stationarity(problem, x, -lagrangian_gradient)
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


# ------------------------------------------------------------------------------------- multipliers for a bare x


def best_multipliers(point: Point, activity: float | None = None) -> Vector:
    """Least-squares multipliers: min over y of dist(-(grad f + J'y), dg(x) + normal cone of the bounds).

    Only rows within `activity` of a side (default: 1e-6 relative to the side, or the violation itself) may carry a
    multiplier, of that side's sign; equalities any. The subproblem is a bounded linear least-squares problem when g is
    separable (a bound or a kink contributes an interval), and otherwise g's term is projected alternately.
    """
    problem = point.problem
    if not problem.m:
        return np.zeros(0)
    c = point.c
    grad, jac = point.grad, point.jac
    if not (np.isfinite(c).all() and np.isfinite(grad).all()):
        return np.zeros(problem.m)
    low, high = _row_signs(problem, c, activity)
    rows = np.flatnonzero(low < high)
    y = np.zeros(problem.m)
    if not rows.size:
        return y
    matrix = sparse.csr_array(jac)[rows].T if sparse.issparse(jac) else dense(jac)[rows].T
    g = problem.g if problem.g is not None else Zero()
    if isinstance(g, SeparableTerm):
        y[rows] = _separable_fit(problem, g, point.x, matrix, grad, low[rows], high[rows], activity)
    else:
        fit = np.zeros(rows.size)
        for _ in range(50):  # alternate: the subgradient nearest to -grad L, then the multipliers nearest to that
            target = -(grad + matrix @ fit)
            subgradient = g.project_subdiff(point.x, target)
            new = _bounded_lsq(matrix, -(grad + subgradient), low[rows], high[rows])
            done = np.linalg.norm(new - fit) <= 1e-12 * max(1.0, float(np.linalg.norm(new)))
            fit = new
            if done:
                break
        y[rows] = fit
    return y


def _row_signs(problem: AbstractProblem, c: Vector, activity: float | None) -> tuple[Vector, Vector]:
    """(low, high): the interval in which each row's multiplier may lie."""
    near = 1e-6 if activity is None else activity
    at_upper = c >= problem.cu - near * np.maximum(1.0, np.abs(np.where(np.isfinite(problem.cu), problem.cu, 0.0)))
    at_lower = c <= problem.cl + near * np.maximum(1.0, np.abs(np.where(np.isfinite(problem.cl), problem.cl, 0.0)))
    equal = problem.cl == problem.cu
    return np.where(at_lower | equal, -np.inf, 0.0), np.where(at_upper | equal, np.inf, 0.0)


def _separable_fit(
    problem: AbstractProblem,
    g: SeparableTerm,
    x: Vector,
    matrix: object,
    grad: Vector,
    low: Vector,
    high: Vector,
    activity: float | None,
) -> Vector:
    """min ||grad + matrix y + s|| over y in [low, high] and s in the intervals of dg + the bounds' normal cone."""
    near = 1e-6 if activity is None else activity
    lo, hi = g.subdiff_interval(x)
    lo = np.where(x - problem.lower <= near * np.maximum(1.0, np.abs(x)), -np.inf, lo)
    hi = np.where(problem.upper - x <= near * np.maximum(1.0, np.abs(x)), np.inf, hi)
    fixed = np.where(lo == hi, lo, 0.0)
    wide = np.flatnonzero(lo < hi)
    m = low.size
    if isinstance(matrix, np.ndarray):
        columns = np.zeros((x.size, m + wide.size))
        columns[:, :m] = matrix
        columns[wide, m + np.arange(wide.size)] = 1.0
        system: object = columns
    else:
        picks = sparse.csr_array((np.ones(wide.size), (wide, np.arange(wide.size))), shape=(x.size, wide.size))
        system = sparse.csr_array(sparse.hstack([matrix, picks]))
    bounds_low, bounds_high = np.concatenate([low, lo[wide]]), np.concatenate([high, hi[wide]])
    return _bounded_lsq(system, -(grad + fixed), bounds_low, bounds_high)[:m]


def _bounded_lsq(matrix: object, target: Vector, low: Vector, high: Vector) -> Vector:
    if np.isneginf(low).all() and np.isposinf(high).all() and isinstance(matrix, np.ndarray):
        return np.asarray(np.linalg.lstsq(matrix, target, rcond=None)[0])
    method = "bvls" if isinstance(matrix, np.ndarray) else "trf"
    options = {} if method == "bvls" else {"lsmr_tol": "auto"}
    return np.asarray(lsq_linear(matrix, target, (low, high), method=method, tol=1e-14, **options).x)
