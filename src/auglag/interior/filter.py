"""A filter: pairs (violation, barrier value), none of which a new point may be worse than in both."""

from __future__ import annotations

from typing import final

#: A new point is better than a pair in the violation by this fraction, or in the value by this multiple of it.
LESS_VIOLATION, LESS_VALUE = 1e-5, 1e-5


@final
class Filter:
    """What was seen since the last change of mu."""

    def __init__(self, most: float) -> None:
        self.most = most  #: no violation may be larger
        self.pairs: list[tuple[float, float]] = []

    def admits(self, theta: float, phi: float) -> bool:
        """Whether a point is acceptable to all pairs."""
        return theta <= self.most and all(theta < t or phi < p for t, p in self.pairs)

    def add(self, theta: float, phi: float) -> None:
        """Points must be better than this one from here on."""
        pair = ((1.0 - LESS_VIOLATION) * theta, phi - LESS_VALUE * theta)
        self.pairs = [(t, p) for t, p in self.pairs if t < pair[0] or p < pair[1]]
        self.pairs.append(pair)

    def clear(self) -> None:
        """Forget all pairs."""
        self.pairs = []
