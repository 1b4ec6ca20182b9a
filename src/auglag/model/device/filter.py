"""The filter of Waechter and Biegler (2006): pairs of violation and barrier value that no later iterate may be in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from auglag.model.device.records import Facts
from auglag.model.device.tuning import TUNING


@final
@dataclass(slots=True)
class Filter:
    """The pairs, and the violations that are too large and small (their theta_max and theta_min)."""

    pairs: list[tuple[float, float]] = field(default_factory=list)
    largest_theta: float = math.inf
    small_theta: float = math.inf

    def clear(self) -> None:
        """Forget all pairs: the barrier problem is another one."""
        self.pairs = []

    def begin(self, theta: float) -> None:
        """Fix what is large and small, by the first violation that is seen."""
        if self.largest_theta == math.inf:
            self.largest_theta = TUNING.largest_violation * max(1.0, theta)
            self.small_theta = TUNING.small_violation * max(1.0, theta)

    def accepts(self, old: Facts, phi: float, theta: float, slope: float, length: float) -> str:
        """Why the filter takes a point; "" if it does not."""
        t = TUNING
        if not (math.isfinite(phi) and math.isfinite(theta)) or theta > self.largest_theta:
            return ""
        if any(theta >= known and phi >= value for known, value in self.pairs):
            return ""
        noise = t.value_noise * np.finfo(np.float64).eps * abs(old.phi)
        with np.errstate(over="ignore"):  # where the value falls without end
            must_fall = slope < 0 and length * np.float64(-slope) ** t.power_value > old.theta**t.power_violation
        if old.theta <= self.small_theta and must_fall:
            return "value" if phi - old.phi - noise <= t.decrease * length * slope else ""
        less = theta <= (1.0 - t.less_violation) * old.theta or phi - old.phi - noise <= -t.less_value * old.theta
        return "violation" if less else ""

    def remember(self, facts: Facts) -> None:
        t = TUNING
        pair = ((1.0 - t.less_violation) * facts.theta, facts.phi - t.less_value * facts.theta)
        self.pairs = [known for known in self.pairs if known[0] < pair[0] or known[1] < pair[1]]
        self.pairs.append(pair)
