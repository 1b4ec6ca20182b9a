"""What is known at one point of the interior-point method for large problems."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.interior.large.sides import Sides


@final
class Values:
    """What is known at one v = (x, slacks)."""

    __slots__ = ("f", "p", "point", "q", "rows", "theta", "v")

    def __init__(self, sides: Sides, v: Vector) -> None:
        self.v = v
        self.point: Any = sides.form.at(v[: sides.n])
        self.f = float(self.point.f)
        self.rows = sides.equations(v, self.point.c)
        self.theta = float(np.abs(self.rows).sum())
        self.p, self.q = sides.gaps(v)

    @property
    def finite(self) -> bool:
        """Whether f and the rows are."""
        return math.isfinite(self.f) and math.isfinite(self.theta)
