"""Proximal terms against steps that are many times too long, and a memory of how short the last ones were."""

from __future__ import annotations

from collections import deque
from typing import final

from auglag.interior import tuning


@final
class Damping:
    """What line searches leave of steps, and what follows from it.

    Newton's steps are many times too long in flat curved valleys, and where curved rows are nearly dependent; what a
    line search leaves of them leads nowhere. Proximal terms make them shorter, as in the method of Levenberg and
    Marquardt: on the variables in valleys, where no row is violated; else, in the safe mode, on the multipliers, which
    keeps a step from the directions in which rows hardly change. Otherwise a restoration is what helps: see `jammed`.
    """

    def __init__(self, *, safe: bool = False) -> None:
        self.weight = 0.0  #: of the term on the variables
        self.rows = 0.0  #: of the one on the multipliers
        self._safe = safe
        self._shortened = 0  #: the last steps that line searches made short
        self._lengths: deque[float] = deque(maxlen=tuning.TUNING.jammed_steps)

    def after(self, length: float, left: float, *, violated: bool) -> None:
        """After a step of this length, of which a line search left this part, from a point that was `violated`."""
        t = tuning.TUNING
        self._lengths.append(length)
        short = left < t.jammed_length
        if short and violated and self._safe:
            self.rows = max(t.soft_largest, t.shift_growth * self.rows)
            self.moved()
        else:
            self.rows = self.rows / t.shift_fall if self.rows > t.soft_least else 0.0
        short = short and not violated
        self._shortened = self._shortened + 1 if short else 0
        if short and (self.weight or self._shortened == t.jammed_steps):
            self.weight = max(t.first_shift, t.shift_growth * self.weight)
        elif not short:
            self.weight = self.weight / t.shift_fall if self.weight > t.standing_prox else 0.0

    def jammed(self) -> bool:
        """Whether the last steps were all short."""
        lengths = self._lengths
        return len(lengths) == lengths.maxlen and max(lengths) < tuning.TUNING.jammed_length

    def moved(self) -> None:
        """The run goes on elsewhere, or otherwise."""
        self._lengths.clear()
