"""The line search of large problems, with second-order corrections (Waechter and Biegler 2006, sections 2.3, 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.filter import Filter, Test
from auglag.interior.large.directions import Newton
from auglag.interior.large.iterate import Iterate
from auglag.interior.large.sides import reach
from auglag.interior.large.values import Values
from auglag.interior.newton import Direction


@final
@dataclass(frozen=True, slots=True)
class Found:
    """An acceptable step."""

    at: Values  #: where it leads
    direction: Direction
    length: float
    left: float  #: the part of the longest step that the search left

    def multipliers(self, it: Iterate, fraction: float, mu: float) -> tuple[Vector, Vector, Vector]:
        """y, z and u after the step, z and u positive and within a factor of mu over the gaps (WB (16))."""
        d, at = self.direction, self.at
        a = min(reach(it.z, d.z, fraction), reach(it.u, d.u, fraction))
        z, u = it.z + a * d.z, it.u + a * d.u
        factor = tuning.TUNING.side_multiplier_factor
        z = np.clip(z, mu / (factor * at.p), factor * mu / at.p)
        u = np.clip(u, mu / (factor * at.q), factor * mu / at.q)
        return it.y + self.length * d.y, z, u


@final
class Search:
    """The line search from one iterate for one mu."""

    def __init__(self, it: Iterate, known: Filter, mu: float, fraction: float, small: float) -> None:
        """Steps end at this `fraction` of the way to the sides; violations below `small` do not matter much."""
        self.it, self.sides, self.filter, self.mu = it, it.sides, known, mu
        self.fraction, self.small = fraction, small

    def run(self, newton: Newton, lagrangian: Vector, d: Direction, *, corrections: bool) -> Found | None:
        """The first acceptable step along d, from the longest down, with the filter up to date; None if there is none.

        Without `corrections` only the longest step is tried.
        """
        sides, at = self.sides, self.it.at
        test = self._test(d)
        length = sides.longest(at.p, at.q, d.v, self.fraction)
        shortest = test.shortest()
        trial = 0
        while length >= shortest or trial == 0:
            values = Values(sides, at.v + length * d.v)
            if self._accepts(test, values, length):
                return Found(values, d, length, 0.5**trial)
            if not corrections:
                return None
            if trial == 0 and values.finite and values.theta >= at.theta and sides.m:
                found = self._corrected(newton, lagrangian, values, length, test)
                if found is not None:
                    return found
            length *= 0.5
            trial += 1
        return None

    def _test(self, d: Direction) -> Test:
        at = self.it.at
        phi = at.f + self.sides.barrier(at.v, self.mu)
        slope = self.sides.slope(at.p, at.q, self.mu)
        slope[: self.sides.n] += self.it.gradient
        return Test(self.filter, at.theta, phi, float(slope @ d.v), self.small)

    def _accepts(self, test: Test, values: Values, length: float) -> bool:
        if not values.finite:
            return False
        phi = values.f + self.sides.barrier(values.v, self.mu)
        if not test.accepts(values.theta, phi, length):
            return False
        if not test.lowered:
            self.filter.add(test.theta, test.phi)
        return True

    def _corrected(self, newton: Newton, lagrangian: Vector, values: Values, length: float, test: Test) -> Found | None:
        """Second-order corrections: steps that take back the violation that the full step left."""
        sides, at, t = self.sides, self.it.at, tuning.TUNING
        central = lagrangian + sides.slope(at.p, at.q, self.mu)
        right, last = length * at.rows + values.rows, values.theta
        for _ in range(t.corrections):
            dv, dy = newton.solve(central, right)
            if not np.isfinite(dv).all():
                return None
            a = sides.longest(at.p, at.q, dv, self.fraction)
            values = Values(sides, at.v + a * dv)
            if not values.finite:
                return None
            if self._accepts(test, values, length):
                return Found(values, self.it.completed(dv, dy, self.mu), a, 1.0)
            if values.theta > t.correction_leaves * last:
                return None
            last, right = values.theta, a * right + values.rows
        return None
