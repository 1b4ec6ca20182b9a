"""Directions of the free mode: Mehrotra's predictor says how far mu can fall, his corrector may make steps longer."""

from __future__ import annotations

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.large.directions import Newton
from auglag.interior.large.iterate import Iterate, Residuals
from auglag.interior.large.mu import Mu
from auglag.interior.large.sides import reach
from auglag.interior.newton import Direction
from auglag.kkt.sides import QUIET


@QUIET
def predicted(
    newton: Newton, it: Iterate, lagrangian: Vector, step: tuple[Vector, Vector], residuals: Residuals, mu: Mu
) -> list[Direction]:
    """Sets mu to what the predictor `step` (that for mu = 0) allows; the steps for it: with the corrector where that is
    longer, without."""
    sides, at, t = it.sides, it.at, tuning.TUNING
    dv = step[0]
    affine = it.completed(*step, 0.0)
    a, b = sides.longest(at.p, at.q, dv, 1.0), min(reach(it.z, affine.z, 1.0), reach(it.u, affine.u, 1.0))
    after = float((at.p + a * dv[sides.at_low]) @ (it.z + b * affine.z))
    after += float((at.q - a * dv[sides.at_high]) @ (it.u + b * affine.u))
    ratio = after / max(1, sides.count) / residuals.mean if residuals.mean > 0.0 else 1.0
    sigma = min(1.0, max(ratio**3, t.least_centring))
    mu.set(max(sigma * residuals.mean, mu.last, min(residuals.mean, t.free_guard * residuals.rows)))
    central = lagrangian + sides.slope(at.p, at.q, mu.value)
    plain = it.completed(*newton.solve(central, at.rows), mu.value)
    if newton.shift:
        return [plain]
    low, high = dv[sides.at_low] * affine.z, -dv[sides.at_high] * affine.u
    corrected = central + sides.spread(low / at.p, -high / at.q)
    other = it.completed(*newton.solve(corrected, at.rows), mu.value, low, high)
    longer = newton.error <= t.poorly_refined and _lengths(it, other) > _lengths(it, plain)
    return [other, plain] if longer and other.finite() else [plain]


def _lengths(it: Iterate, d: Direction) -> float:
    """The sum of the longest primal and dual step lengths."""
    to = tuning.TUNING.to_sides
    primal = it.sides.longest(it.at.p, it.at.q, d.v, to)
    return primal + min(reach(it.z, d.z, to), reach(it.u, d.u, to))
