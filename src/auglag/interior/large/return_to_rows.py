"""Back to the rows of a large problem, where the line search found no step: least squares on the violation."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.filter import Filter
from auglag.interior.large.directions import Equations
from auglag.interior.large.sides import Sides, reach
from auglag.interior.large.values import Values
from auglag.kkt import Curvature, Hessian, Memory
from auglag.kkt.sides import QUIET, largest
from auglag.problems.jacobians import transposed_product


class Blocked(Exception):
    """The violation is stationary at v, as far as first derivatives tell: there is no way to the rows from there."""

    def __init__(self, v: Vector) -> None:
        super().__init__()
        self.v = v


@QUIET
def return_to_rows(
    sides: Sides, equations: Equations, curvature: Curvature, at: Values, z: Vector, u: Vector, known: Filter, mu: float
) -> tuple[Values, Vector, Vector] | None:
    """A point that the filter admits and that is clearly less violated, with multipliers of its sides; None if none.

    Newton steps, or those of Gauss and Newton where these are not ones to a minimum, with a line search on
    weight/2 |c - s|^2 + a barrier + zeta/2 |D (v - v_0)|^2: the problem of Waechter and Biegler (2006), section 3.3.1,
    with squares for absolute values; in other words a subproblem of the augmented Lagrangian without f. The weight is
    such that a violation counts for more than the barrier, however small it is. It begins at some distance from all
    sides, since steps that end at one after another lead nowhere. Raises Blocked at a stationary point.
    """
    t = tuning.TUNING
    first = at
    mu = max(mu, largest(at.rows))  # WB, section 3.3.1: bar mu
    zeta = math.sqrt(mu)
    weight = t.restoration_weight / min(1.0, at.theta) ** 2 * max(1.0, mu)
    nearness = zeta / np.maximum(1.0, np.abs(at.v)) ** 2

    def merit(values: Values) -> float:
        away = values.v - first.v
        square = float(values.rows @ values.rows)
        return 0.5 * weight * square + sides.barrier(values.v, mu) + 0.5 * float(nearness @ (away * away))

    at = Values(sides, sides.inside(at.v, min(t.push, mu)))
    z, u = np.minimum(z, mu / at.p), np.minimum(u, mu / at.q)
    damping = 0.0
    for _ in range(t.restoration_steps_large):
        j = curvature.jacobian(at.point)
        diagonal = sides.spread(z / at.p, u / at.q) + nearness + weight * damping
        h = curvature_of_rows(curvature, at, weight * at.rows, sides.n)
        newton = None if h is None else equations.plain(h, j, diagonal, 1.0 / weight)
        newton = equations.without_hessian(j, diagonal, 1.0 / weight) if newton is None else newton
        if newton is None:
            return None
        slope = sides.slope(at.p, at.q, mu) + nearness * (at.v - first.v)
        dv, _ = newton.solve(slope, at.rows)
        if not math.isfinite(float(dv.sum())):
            return None
        to_rows = np.concatenate([transposed_product(j, at.rows), -at.rows[sides.rows]])
        descent, value = float((slope + weight * to_rows) @ dv), merit(at)
        a = longest = sides.longest(at.p, at.q, dv, t.to_sides)
        while True:
            new = Values(sides, at.v + a * dv)
            if new.finite and merit(new) <= value + t.restoration_decrease * a * descent:
                break
            a *= 0.5
            if a < t.restoration_least_length:
                dv = 0.0 * dv
                new = at
                break
        dz = (mu - z * dv[sides.at_low]) / at.p - z
        du = (mu + u * dv[sides.at_high]) / at.q - u
        damping = damped(damping, a / longest)
        b = min(reach(z, dz, t.to_sides), reach(u, du, t.to_sides))
        z, u = z + b * dz, u + b * du
        stands, at = new.theta > t.restoration_leaves * at.theta, new
        if stands and blocked(sides, at, mu / weight):
            raise Blocked(at.v)
        if at.theta <= t.restoration_aim * first.theta and known.admits(at.theta, at.f + sides.barrier(at.v, mu)):
            return at, z, u
        if a * largest(dv) <= t.restoration_least_move:
            break
    if at.theta <= t.restoration_leaves * first.theta and known.admits(at.theta, at.f + sides.barrier(at.v, mu)):
        return at, z, u
    if at.theta <= t.restoration_aim * first.theta:  # it is better to go on than to keep to points of the past
        known.clear()
        return at, z, u
    return None


def damped(damping: float, left: float) -> float:
    """The proximal term of the next step, in units of the weight, after a line search that `left` this part of one.

    Where gradients of rows are nearly dependent, steps of Gauss and Newton are many times too long, and what a line
    search leaves of them leads nowhere; this makes them shorter, as in the method of Levenberg and Marquardt.
    """
    t = tuning.TUNING
    if left < t.restoration_shortened:
        return max(t.first_shift, t.shift_growth * damping)
    return damping / t.shift_fall if damping > t.standing_prox else 0.0


def curvature_of_rows(curvature: Curvature, at: Values, y: Vector, n: int) -> Hessian | None:
    """The Hessian of y'c; None where it is not known, or not the difference of two Hessians of one pattern.

    Close to a stationary point of the violation Gauss-Newton steps without it hardly converge.
    """
    if not curvature.exact:
        return None
    memory, x = Memory(), at.v[:n]
    whole, f = (curvature.hessian(at.point, x, weights, memory).matrix for weights in (y, np.zeros_like(y)))
    if not (np.array_equal(whole.indices, f.indices) and np.array_equal(whole.indptr, f.indptr)):
        return None
    h = Hessian(sparse.csc_array((whole.data - f.data, whole.indices, whole.indptr), shape=whole.shape))
    return h if h.finite() else None


def blocked(sides: Sides, at: Values, push: float) -> bool:
    """Whether the gradient of |c - s|^2/2 vanishes in v, but for what sides take up.

    It is compared with the terms of which it is made. A side takes up what points outside, as far as a barrier with the
    parameter `push` would: push over the gap. It must be small beside the square of the violation. Large variables are
    measured in their own size: a long way along a gentle slope leads to the rows, too.
    """
    t, rows = tuning.TUNING, sides.rows
    worst = largest(at.rows)
    if not worst > t.blocked_violation:
        return False
    push = min(push, t.blocked_slope * worst**2)
    j = at.point.jac
    slope = np.concatenate([transposed_product(j, at.rows), -at.rows[rows]])
    terms = np.concatenate([transposed_product(abs(j), np.abs(at.rows)), np.abs(at.rows[rows])])
    low, high = sides.spread(push / at.p, 0.0), sides.spread(0.0, push / at.q)
    left = slope - slope.clip(-high, low)
    return largest(left * np.maximum(1.0, np.abs(at.v))) <= t.blocked_slope * largest(terms)
