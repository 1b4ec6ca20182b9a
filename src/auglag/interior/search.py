"""The line search: steps that reduce the violation or the barrier value, with second-order corrections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.interior.filter import LESS_VALUE, LESS_VIOLATION, Filter
from auglag.interior.newton import Direction, Newton
from auglag.interior.space import Iterate, Space

#: Sufficient decrease of the value, and the powers of the condition under which it is asked for.
DECREASE, POWER_VIOLATION, POWER_VALUE = 1e-4, 1.1, 2.3
#: Second-order corrections a step, and what each has to bring.
CORRECTIONS, BRINGS = 4, 0.99
#: Step lengths tried before the search gives up.
TRIALS = 25


@final
@dataclass(frozen=True, slots=True)
class Found:
    """An accepted step."""

    v: Vector
    length: float
    direction: Direction
    trials: int


@final
class Search:
    """A line search from one iterate."""

    def __init__(self, space: Space, it: Iterate, seen: Filter, mu: float, gradient: Vector, primal: Vector) -> None:
        self.space, self.it, self.filter, self.mu = space, it, seen, mu
        self.primal, self.theta = primal, float(np.abs(primal).sum())
        self.phi = space.barrier(it.v, mu)
        self.slope = space.barrier_slope(it.v, gradient, mu)
        self.small = 1e-4 * max(1.0, seen.most / 1e4)

    def run(self, newton: Newton, direction: Direction, dual: Vector, fraction: float) -> Found | None:
        """The first acceptable step length, from the longest down."""
        longest = self.space.longest(self.it, direction.v, fraction)
        descent = float(self.slope @ direction.v)
        length = longest
        for trial in range(TRIALS):
            v = self.it.v + length * direction.v
            primal, theta, phi = self.measured(v)
            if self.accepts(theta, phi, length, descent):
                return Found(v, length, direction, trial + 1)
            if trial == 0 and math.isfinite(theta) and theta >= self.theta and self.space.m:
                found = self._corrected(newton, dual, length * self.primal + primal, theta, length, descent, fraction)
                if found is not None:
                    return found
            length *= 0.5
            if length < 1e-14 or length * np.max(np.abs(direction.v), initial=0.0) < 1e-16:
                break
        return None

    def measured(self, v: Vector) -> tuple[Vector, float, float]:
        """c(x) - s, its 1-norm, the barrier value; infinite where something is not defined."""
        point = self.space.form.at(v[: self.space.n])
        if not math.isfinite(point.f):
            return self.primal, math.inf, math.inf
        primal = self.space.primal(v)
        theta = float(np.abs(primal).sum())
        phi = self.space.barrier(v, self.mu)
        return (primal, theta, phi) if math.isfinite(theta + phi) else (self.primal, math.inf, math.inf)

    def accepts(self, theta: float, phi: float, length: float, descent: float) -> bool:
        """The filter's conditions; a step that should lower the value near feasibility must do so."""
        if not math.isfinite(theta + phi) or not self.filter.admits(theta, phi):
            return False
        noise = 10 * np.finfo(float).eps * abs(self.phi)
        if self._switches(length, descent):
            return bool(phi <= self.phi + DECREASE * length * descent + noise)
        better = theta <= (1.0 - LESS_VIOLATION) * self.theta or phi <= self.phi - LESS_VALUE * self.theta + noise
        return bool(better)

    def _switches(self, length: float, descent: float) -> bool:
        if not (self.theta <= self.small and descent < 0):
            return False
        return bool(length * (-descent) ** POWER_VALUE > self.theta**POWER_VIOLATION)

    def closes(self, found: Found, theta: float, phi: float) -> None:
        """Add the iterate to the filter unless the step lowered the value as it should."""
        descent = float(self.slope @ found.direction.v)
        noise = 10 * np.finfo(float).eps * abs(self.phi)
        lowered = phi <= self.phi + DECREASE * found.length * descent + noise
        if not (self._switches(found.length, descent) and lowered):
            self.filter.add(self.theta, self.phi)

    def _corrected(
        self, newton: Newton, dual: Vector, right: Vector, theta: float, length: float, descent: float, fraction: float
    ) -> Found | None:
        """Steps that take back the violation that the full step left."""
        last = theta
        for count in range(CORRECTIONS):
            dv, dy = newton.solve(dual, right)
            if not np.isfinite(dv).all():
                return None
            a = self.space.longest(self.it, dv, fraction)
            v = self.it.v + a * dv
            primal, theta, phi = self.measured(v)
            if self.accepts(theta, phi, length, descent):
                return Found(v, a, newton.completed(dv, dy, self.mu), count + 2)
            if not theta <= BRINGS * last:
                return None
            last, right = theta, a * right + primal
        return None
