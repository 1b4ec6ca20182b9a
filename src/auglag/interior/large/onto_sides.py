"""The end of interior points on large problems: Newton steps on the sides that are active.

Where a multiplier and a gap go to zero together, both are about sqrt(mu), and the error falls by a half where mu falls
by a quarter: the last digits would cost ten steps, with matrices ever closer to singular ones. On the sides that are
active at the solution the conditions are equations, and Newton's method has their solution in a step or two.
"""

from __future__ import annotations

from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.large.directions import Equations
from auglag.interior.large.values import Values
from auglag.kkt import Curvature, Memory, Sets
from auglag.kkt.sides import QUIET, Mask, active_sets
from auglag.problems.jacobians import transposed_product

Gaps = tuple[Vector, Vector, Vector, Vector]  #: gaps of lower and upper sides, and their multipliers


@final
class OntoSides:
    """Which sides are active, as the last step tells, and Newton steps on them."""

    def __init__(self, equations: Equations, before: Gaps, now: Gaps) -> None:
        """The gaps and multipliers of two iterates, one step apart.

        A side is active if its gap falls faster than its multiplier: near a solution one of the two goes to zero, and
        the other one hardly changes (El-Bakry, Tapia and Zhang 1994, SIAM Review 36, "A study of indicators for
        identifying zero variables in interior-point methods"). Their sizes tell much later, and depend on units.
        """
        self._equations, self.sides = equations, equations.sides
        p, q, z, u = now
        self.low: Mask = p * before[2] < z * before[0]
        self.high: Mask = q * before[3] < u * before[1]

    def same(self, other: OntoSides) -> bool:
        """Whether both have the same active sides."""
        return np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    def sets(self) -> Sets:
        """The active sides of rows and variables."""
        low, high = self._spread()
        return active_sets(low, high, self.sides.rows, self.sides.m)

    def _spread(self) -> tuple[Mask, Mask]:
        return self.sides.spread(self.low, 0.0) > 0.0, self.sides.spread(0.0, self.high) > 0.0

    @QUIET
    def step(self, curvature: Curvature, memory: Memory, at: Values, y: Vector) -> tuple[Vector, Vector] | None:
        """v and y after the step; None if it is not one to a minimum.

        It is done in the pattern of all other systems: active sides are stiff springs, the others have no curvature.
        What is put on its sides first, and what that does to the equations, is known before.
        """
        sides, t, n = self.sides, tuning.TUNING, self.sides.n
        h, j = curvature.hessian(at.point, at.v[:n], y, memory), curvature.jacobian(at.point)
        stiff = sides.spread(t.stiff_side * self.low, t.stiff_side * self.high)
        newton = self._equations.on_sides(h, j, stiff, t.soft_largest * sides.row_units) if h.finite() else None
        if newton is None:
            return None
        first = self._placed(at.v) - at.v
        dual = np.concatenate([at.point.grad + transposed_product(j, y) + h @ first[:n], -y[sides.rows]])
        dual[stiff > 0.0] = 0.0
        rows = at.rows + j @ first[:n]
        rows[sides.rows] -= first[n:]
        dv, dy = newton.solve(dual, rows)
        if not (newton.error <= t.poorly_refined and np.isfinite(dv).all()):
            return None
        return self._placed(at.v + first + dv), self._signed(y + dy)

    def _placed(self, v: Vector) -> Vector:
        """v with what is active on its sides."""
        v, sides = v.copy(), self.sides
        v[sides.at_low[self.low]], v[sides.at_high[self.high]] = sides.low[self.low], sides.high[self.high]
        return v

    def _signed(self, y: Vector) -> Vector:
        """Multipliers with the signs that the sides allow."""
        rows, n = self.sides.rows, self.sides.n
        low, high = self._spread()
        y[rows] = np.where(low[n:], np.minimum(y[rows], 0.0), 0.0) + np.where(high[n:], np.maximum(y[rows], 0.0), 0.0)
        return y
