"""The line search: steps that reduce the violation or the barrier value, with second-order corrections.

Waechter and Biegler (2006), sections 2.3 and 2.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.filter import Filter
from auglag.interior.newton import Direction, Newton
from auglag.interior.space import Iterate, Space


@final
@dataclass(frozen=True, slots=True)
class Found:
    """An accepted step."""

    v: Vector
    length: float
    direction: Direction


@final
class Search:
    """A line search from one iterate."""

    def __init__(self, space: Space, it: Iterate, known: Filter, mu: float, gradient: Vector, primal: Vector) -> None:
        self.space, self.it, self.filter, self.mu, self.tuning = space, it, known, mu, tuning.TUNING
        self.primal, self.theta = primal, float(np.abs(primal).sum())
        self.phi = space.barrier(it.v, mu)
        self.slope = space.barrier_slope(it.v, gradient, mu)
        self.noise = self.tuning.value_noise * np.finfo(float).eps * abs(self.phi)
        self.small = self.tuning.small_violation * max(1.0, known.largest / self.tuning.largest_violation)

    def run(self, newton: Newton, direction: Direction, dual: Vector, fraction: float) -> Found | None:
        """The first acceptable step length, from the longest down."""
        longest = self.space.longest(self.it, direction.v, fraction)
        descent = float(self.slope @ direction.v)
        length, t = longest, self.tuning
        for trial in range(t.trials):
            v = self.it.v + length * direction.v
            primal, theta, phi = self.measured(v)
            if self.accepts(theta, phi, length, descent):
                return Found(v, length, direction)
            if trial == 0 and math.isfinite(theta) and theta >= self.theta and self.space.m:
                found = self._corrected(newton, dual, length * self.primal + primal, theta, length, descent, fraction)
                if found is not None:
                    return found
            length *= 0.5
            if length < t.least_length or length * np.max(np.abs(direction.v), initial=0.0) < t.least_move:
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
        if self._should_lower(length, descent):
            return self._lowers(phi, length, descent)
        t = self.tuning
        less_violated = theta <= (1.0 - t.less_violation) * self.theta
        return bool(less_violated or phi <= self.phi - t.less_value * self.theta + self.noise)

    def _should_lower(self, length: float, descent: float) -> bool:
        """The switching condition: the violation is small, and the step promises a lower value beside it."""
        if not (self.theta <= self.small and descent < 0):
            return False
        return bool(length * (-descent) ** self.tuning.power_value > self.theta**self.tuning.power_violation)

    def _lowers(self, phi: float, length: float, descent: float) -> bool:
        """The Armijo condition."""
        return bool(phi <= self.phi + self.tuning.decrease * length * descent + self.noise)

    def update_filter(self, found: Found, phi: float) -> None:
        """Add the iterate to the filter unless the step to a point of value phi lowered the value as it should."""
        descent = float(self.slope @ found.direction.v)
        if not (self._should_lower(found.length, descent) and self._lowers(phi, found.length, descent)):
            self.filter.add(self.theta, self.phi)

    def _corrected(
        self, newton: Newton, dual: Vector, right: Vector, theta: float, length: float, descent: float, fraction: float
    ) -> Found | None:
        """Second-order corrections: steps that take back the violation that the full step left."""
        last = theta
        for _ in range(self.tuning.corrections):
            dv, dy = newton.solve(dual, right)
            if not np.isfinite(dv).all():
                return None
            a = self.space.longest(self.it, dv, fraction)
            v = self.it.v + a * dv
            primal, theta, phi = self.measured(v)
            if self.accepts(theta, phi, length, descent):
                return Found(v, a, newton.completed(dv, dy, self.mu))
            if not theta <= self.tuning.correction_leaves * last:
                return None
            last, right = theta, a * right + primal
        return None
