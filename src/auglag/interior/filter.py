"""A filter: pairs (violation, barrier value); a new point must be better than each of them in one of the two.

Waechter and Biegler (2006), section 2.3.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from auglag.interior import tuning


@final
class Filter:
    """The pairs since the last change of mu."""

    def __init__(self, largest: float) -> None:
        self.largest = largest  #: no violation may be larger
        self.pairs: list[tuple[float, float]] = []

    def admits(self, theta: float, phi: float) -> bool:
        """Whether a point is acceptable to all pairs."""
        return theta <= self.largest and all(theta < t or phi < p for t, p in self.pairs)

    def add(self, theta: float, phi: float) -> None:
        """Points must be better than this one from here on."""
        t = tuning.TUNING
        pair = ((1.0 - t.less_violation) * theta, phi - t.less_value * theta)
        self.pairs = [known for known in self.pairs if known[0] < pair[0] or known[1] < pair[1]]
        self.pairs.append(pair)

    def clear(self) -> None:
        """Forget all pairs."""
        self.pairs = []


@final
class Test:
    """Which points a line search accepts: the filter's, and those that lower the barrier value as they should."""

    def __init__(self, known: Filter, theta: float, phi: float, descent: float, small: float) -> None:
        self.filter, self.theta, self.phi, self.descent, self.small = known, theta, phi, descent, small
        self.t = tuning.TUNING
        self.noise = self.t.value_noise * np.finfo(float).eps * abs(phi)
        self.lowered = False  #: the last point accepted lowered the value as it should

    def _should_lower(self, length: float) -> bool:
        """The switching condition: the violation is small, and the step promises a lower value beside it."""
        if not (self.theta <= self.small and self.descent < 0):
            return False
        return bool(length * (-self.descent) ** self.t.power_value > self.theta**self.t.power_violation)

    def accepts(self, theta: float, phi: float, length: float) -> bool:
        """The filter's conditions."""
        t = self.t
        self.lowered = False
        if not math.isfinite(phi) or not self.filter.admits(theta, phi - self.noise):
            return False
        if self._should_lower(length):
            self.lowered = bool(phi <= self.phi + t.decrease_large * length * self.descent + self.noise)
            return self.lowered
        less = theta <= (1.0 - t.less_violation) * self.theta
        return bool(less or phi <= self.phi - t.less_value_large * self.theta + self.noise)

    def shortest(self) -> float:
        """The step length below which restoration is better (WB (23))."""
        t = self.t
        if not self.descent < 0:
            return t.shortest_part * t.less_violation
        least = min(t.less_violation, t.less_value_large * self.theta / -self.descent)
        if self.theta <= self.small:
            least = min(least, self.theta**t.power_violation / (-self.descent) ** t.power_value)
        return t.shortest_part * least
