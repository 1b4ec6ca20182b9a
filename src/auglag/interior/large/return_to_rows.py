"""Back to the rows of a large problem, where the line search found no step: least squares on the violation."""

from __future__ import annotations

import math

import numpy as np

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.filter import Filter
from auglag.interior.large.directions import Equations
from auglag.interior.large.sides import Sides, reach
from auglag.interior.large.values import Values
from auglag.kkt import Curvature
from auglag.kkt.sides import QUIET, largest
from auglag.problems.jacobians import transposed_product


@QUIET
def return_to_rows(
    sides: Sides, equations: Equations, curvature: Curvature, at: Values, z: Vector, u: Vector, known: Filter, mu: float
) -> tuple[Values, Vector, Vector] | None:
    """A point that the filter admits and that is clearly less violated, with multipliers of its sides; None if none.

    Gauss-Newton steps with a line search on weight/2 |c - s|^2 + a barrier + zeta/2 |D (v - v_0)|^2: the problem of
    Waechter and Biegler (2006), section 3.3.1, with squares for absolute values; in other words a subproblem of the
    augmented Lagrangian without f. The weight is such that a violation counts for more than the barrier, however small
    it is.
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

    z, u = np.minimum(z, mu / at.p), np.minimum(u, mu / at.q)
    for _ in range(t.restoration_steps_large):
        j = curvature.jacobian(at.point)
        diagonal = sides.spread(z / at.p, u / at.q) + nearness
        newton = equations.without_hessian(j, diagonal, 1.0 / weight)
        if newton is None:
            return None
        slope = sides.slope(at.p, at.q, mu) + nearness * (at.v - first.v)
        dv, _ = newton.solve(slope, at.rows)
        if not math.isfinite(float(dv.sum())):
            return None
        to_rows = np.concatenate([transposed_product(j, at.rows), -at.rows[sides.rows]])
        descent, value = float((slope + weight * to_rows) @ dv), merit(at)
        a = sides.longest(at.p, at.q, dv, t.to_sides)
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
        b = min(reach(z, dz, t.to_sides), reach(u, du, t.to_sides))
        z, u = z + b * dz, u + b * du
        at = new
        if at.theta <= t.restoration_aim * first.theta and known.admits(at.theta, at.f + sides.barrier(at.v, mu)):
            return at, z, u
        if a * largest(dv) <= t.restoration_least_move:
            break
    less = at.theta <= t.restoration_leaves * first.theta
    return (at, z, u) if less and known.admits(at.theta, at.f + sides.barrier(at.v, mu)) else None
