"""The diagonal of the rows: which sizes are tried, in which order."""

from __future__ import annotations

from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.firmness import Firmness


@final
class Softness:
    """What earlier systems teach about the diagonal of the rows (`soft`), the inverse of a penalty.

    Two things may cost the inertia of a minimum, and a shift is the answer to neither. With too small a diagonal pivots
    are rounding errors: a larger one helps. With too large a one the penalty is no match for the curvature of the
    Lagrangian, which grows with the multipliers: a smaller one helps, as long as pivots allow it.
    """

    def __init__(self) -> None:
        self._larger = False  #: the last system needed the larger diagonal
        self._shifted = 0  #: the last systems that had a shift
        self._firmness = Firmness()

    def order(self, soft: Vector, larger: Vector, *, shifted: bool) -> list[tuple[Vector, float]]:
        """Diagonals in the order in which they are tried, with their factors; `shifted`: the system has a shift."""
        sizes = [soft, larger] if np.any(larger > soft) else [larger]
        if self._larger:
            sizes.reverse()
        order: list[tuple[Vector, float]] = []
        for part in self._firmness.order(shifted=shifted):
            order += [(size, part) for size in sizes] if part == 1.0 else [(part * sizes[0], part)]
        return order

    def beside(self, larger: Vector, largest: Vector) -> Vector:
        """The diagonal beside a shift: pivots may have lost the inertia before.

        Where system after system needed one, it may be pivots alone that do: shifts many times as large as the
        curvature asks for make steps short, and do so to the end.
        """
        return largest if self._shifted >= tuning.TUNING.often_shifted else larger

    def worked(self, diagonal: Vector, factor: float, larger: Vector, left: float, *, shifted: bool) -> None:
        """A system with this diagonal has the inertia of a minimum; its step leaves this part of the violation."""
        self._shifted = self._shifted + 1 if shifted else 0
        if factor == 1.0:
            self._larger = diagonal is larger
        self._firmness.worked(factor, left)

    def failed(self) -> None:
        """None of them did: a shift is needed."""
        self._firmness.failed()
