"""The diagonal of the rows: which sizes are tried, in which order."""

from __future__ import annotations

from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.interior import tuning


@final
class Softness:
    """What earlier systems teach about the diagonal of the rows (`soft`), the inverse of a penalty.

    Two things may cost the inertia of a minimum, and a shift is the answer to neither. With too small a diagonal pivots
    are rounding errors: a larger one helps. With too large a one the penalty is no match for the curvature of the
    Lagrangian, which grows with the multipliers: a smaller one helps, as long as pivots allow it.
    """

    def __init__(self) -> None:
        self._larger = False  #: the last system needed the larger diagonal
        self._factor = 1.0  #: of the diagonal of the last system; less than 1 where that made a shift superfluous
        self._rest = 0  #: systems without tries of smaller ones

    def order(self, soft: Vector, larger: Vector, *, shifted: bool) -> list[tuple[Vector, float]]:
        """Diagonals in the order in which they are tried, with their factors; `shifted`: the system has a shift."""
        t = tuning.TUNING
        sizes = [soft, larger] if np.any(larger > soft) else [larger]
        if self._larger:
            sizes.reverse()
        order = [(size, 1.0) for size in sizes]
        if self._factor < 1.0:
            order.insert(0, (self._factor * sizes[0], self._factor))
        self._rest = max(0, self._rest - 1)
        if not (shifted or self._rest):
            order += [(part * sizes[0], part) for part in (t.firmer, t.firmer**2) if part != self._factor]
        return order

    def worked(self, diagonal: Vector, factor: float, larger: Vector, left: float) -> None:
        """A system with this diagonal has the inertia of a minimum; its step leaves this part of the violation."""
        t = tuning.TUNING
        if factor == 1.0:
            self._larger = diagonal is larger
        self._factor = max(t.firmer * factor, t.firmest) if left > t.left_by_soft else factor

    def failed(self) -> None:
        """None of them did: a shift is needed."""
        self._factor, self._rest = 1.0, tuning.TUNING.firmer_rest
