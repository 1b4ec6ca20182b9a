"""Parts of the diagonal of the rows that are tried before a shift, on the CPU and on devices."""

from __future__ import annotations

from typing import final

from auglag.interior import tuning


@final
class Firmness:
    """What earlier systems teach about making the diagonal of the rows, the inverse of a penalty, smaller.

    A penalty that is no match for the curvature of the Lagrangian, which grows with the multipliers, costs the inertia
    of a minimum. A larger one gives it back without a shift, as long as pivots allow it.
    """

    def __init__(self) -> None:
        self.part = 1.0  #: of the diagonal in the last system; less than 1 where that made a shift superfluous
        self._rest = 0  #: systems without tries

    def order(self, *, shifted: bool) -> list[float]:
        """Parts in the order in which they are tried, the whole (1.0) among them; `shifted`: the system has a shift."""
        t = tuning.TUNING
        order = [self.part, 1.0] if self.part < 1.0 else [1.0]
        self._rest = max(0, self._rest - 1)
        if not (shifted or self._rest):
            order += [part for part in (t.firmer, t.firmer**2) if part != self.part]
        return order

    def worked(self, part: float, left: float) -> None:
        """A system with this part has the inertia of a minimum; its step leaves this part of the violation."""
        t = tuning.TUNING
        self.part = max(t.firmer * part, t.firmest) if left > t.left_by_soft else part

    def failed(self) -> None:
        """None of them did: a shift is needed."""
        self.part, self._rest = 1.0, tuning.TUNING.firmer_rest
