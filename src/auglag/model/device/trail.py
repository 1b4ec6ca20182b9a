"""The iterates that a run has left, of which one tells active sides."""

from __future__ import annotations

from typing import final

from auglag.model.device.records import Iterate
from auglag.model.device.tuning import TUNING


@final
class Trail:
    """Earlier iterates, with the mean of their gaps times multipliers: what active sides are told from.

    How a gap and its multiplier changed says which of the two goes to zero once the products have fallen. Over a step
    that lowers the violation alone it says nothing.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[float, Iterate]] = []  #: with falling means

    def leave(self, it: Iterate, mean: float) -> None:
        """A step was taken from this iterate."""
        while self._kept and self._kept[-1][0] * TUNING.trail_thins <= mean:
            self._kept.pop()
        self._kept.append((mean, it))

    def clear(self) -> None:
        """Forget all: what comes is not a step from here."""
        self._kept = []

    def before(self, mean: float) -> Iterate | None:
        """The last iterate whose mean was clearly larger; None if there is none."""
        least = mean / TUNING.trail_falls
        while len(self._kept) > 1 and self._kept[1][0] >= least:
            del self._kept[0]
        return self._kept[0][1] if self._kept and self._kept[0][0] >= least else None
