"""A filter: pairs (violation, barrier value); a new point must be better than each of them in one of the two.

Waechter and Biegler (2006), section 2.3.
"""

from __future__ import annotations

from typing import final

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
