"""Back to the constraints, where the line search found no step: least squares on the violation, inside the sides."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.filter import Filter
from auglag.interior.newton import Newton
from auglag.interior.space import Iterate, Space
from auglag.kkt import linear
from auglag.kkt.curvature import Curvature
from auglag.kkt.hessian import Hessian


def restore(space: Space, it: Iterate, known: Filter, curvature: Curvature, mu: float) -> Iterate | None:
    """An iterate that the filter admits and that is clearly less violated; None if none was found.

    Gauss-Newton steps with a line search on weight/2 |c - s|^2 + a barrier + zeta/2 |D (v - v_0)|^2: the problem of
    Waechter and Biegler (2006), section 3.3.1, with squares for absolute values. The weight is such that a violation
    counts for more than the barrier, however small it is.
    """
    t = tuning.TUNING
    first = it
    theta_first = float(np.abs(space.primal(it.v)).sum())
    zeta = math.sqrt(mu)
    weight = t.restoration_weight / min(1.0, theta_first) ** 2
    d2 = 1.0 / np.maximum(1.0, np.abs(it.v)) ** 2

    def merit(v: Vector, primal: Vector) -> float:
        p, q = space.gaps(v)
        if not ((p > 0).all() and (q > 0).all()):
            return math.inf
        away = v - first.v
        logs = float(np.log(p).sum() + np.log(q).sum())
        return 0.5 * weight * float(primal @ primal) - mu * logs + 0.5 * zeta * float(d2 @ (away * away))

    for _ in range(t.restoration_steps):
        point = space.form.at(it.v[: space.n])
        j, primal = curvature.jacobian(point), space.primal(it.v)
        weights = space.weights(it) + zeta * d2
        h = sparse.csc_array((space.n, space.n)) if sparse.issparse(j) else np.zeros((space.n, space.n))
        second = np.full(space.m, 1.0 / weight)
        second[space.rows] += 1.0 / weights[space.n :]
        newton = Newton(space, it, linear.system(Hessian(h), j).factor(weights[: space.n], second), weights)
        slope = zeta * d2 * (it.v - first.v)
        p, q = space.gaps(it.v)
        slope = slope - np.where(space.has_low, mu / p, 0.0) + np.where(space.has_high, mu / q, 0.0)
        dv, _ = newton.solve(slope, primal.copy())
        if not np.isfinite(dv).all():
            return None
        direction = newton.completed(dv, np.zeros(space.m), mu)
        a = space.longest(it, dv, t.to_sides)
        value = merit(it.v, primal)
        jacobian_slope = np.concatenate([np.asarray(j.T @ primal), -primal[space.rows]])
        descent = float((slope + weight * jacobian_slope) @ dv)
        while True:
            v = it.v + a * dv
            new = space.primal(v)
            if np.isfinite(new).all() and merit(v, new) <= value + t.restoration_decrease * a * descent:
                break
            a *= 0.5
            if a < t.restoration_least_length:
                return None
        a_dual = min(1.0, a)
        it = Iterate(v, it.y, it.z + a_dual * direction.z, it.u + a_dual * direction.u)
        it = space.safeguarded(Iterate(v, it.y, np.maximum(it.z, 0.0), np.maximum(it.u, 0.0)), mu)
        theta = float(np.abs(new).sum())
        defined = math.isfinite(space.form.at(v[: space.n]).f)
        if theta <= t.restoration_leaves * theta_first and defined and known.admits(theta, space.barrier(v, mu)):
            return it
        if a * float(np.max(np.abs(dv), initial=0.0)) <= t.restoration_least_move:
            return None
    return None
