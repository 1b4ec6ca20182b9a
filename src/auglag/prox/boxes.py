"""Boxes: with `Zero`, the terms a solver for bound-constrained problems accepts. `sets` has the other sets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from auglag._norms import some
from auglag._typing import Vector
from auglag.errors import InputError
from auglag.prox._validate import EPS, compact, demand, finite, real, same_length, scalar, show, store
from auglag.prox.base import SeparableTerm, Weights, require_length

INF = math.inf


@final
@dataclass(frozen=True, slots=True, eq=False)
class Box(SeparableTerm):
    """The set lower <= x <= upper; each bound is a number or one per coordinate, and may be infinite.

    A coordinate counts as being at a bound when it equals it (the projection sets it so), not when it is near.
    """

    lower: Weights = -INF
    upper: Weights = INF
    _lower: Vector = field(init=False, repr=False)
    _upper: Vector = field(init=False, repr=False)
    _least: Vector = field(init=False, repr=False)  #: lower less a few units in the last place
    _most: Vector = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lower, upper = real("Box.lower", self.lower), real("Box.upper", self.upper)
        demand("Box.lower", "below +inf", lower, lower < INF)
        demand("Box.upper", "above -inf", upper, upper > -INF)
        same_length("Box.lower", lower, "Box.upper", upper)
        if some(lower > upper):
            low, high = np.broadcast_arrays(lower, upper)
            at = int(np.argmin(low <= high))
            raise InputError(f"Box.lower must not exceed Box.upper, got {show(low.flat[at])} > {show(high.flat[at])}")
        store(self, lower=compact(lower), upper=compact(upper), _lower=lower, _upper=upper)
        store(self, _least=lower - 4.0 * EPS * np.abs(lower), _most=upper + 4.0 * EPS * np.abs(upper))

    def value(self, x: Vector) -> float:
        return 0.0 if ((x >= self._least) & (x <= self._most)).all() else INF

    def prox(self, x: Vector, step: float) -> Vector:
        return np.minimum(np.maximum(x, self._lower), self._upper)

    def subdiff_interval(self, x: Vector) -> tuple[Vector, Vector]:
        """[-inf, 0] at the lower bound, [0, inf] at the upper, [-inf, inf] where they coincide, {0} in between."""
        return np.where(x <= self._lower, -INF, 0.0), np.where(x >= self._upper, INF, 0.0)

    def subdiff_distance(self, x: Vector, v: Vector) -> float:
        """The norm of v without the entries that point out of the box at a bound."""
        above, below = x > self._lower, x < self._upper
        if np.count_nonzero(above & below) < v.size:
            v = np.where(np.where(v < 0.0, above, below), v, 0.0)
        return math.sqrt(v @ v)

    def restrict(self, index: NDArray[np.intp]) -> Box:
        return Box(*(bound[index] if bound.ndim else bound for bound in (self._lower, self._upper)))

    def domain(self) -> Box:
        return self

    def box(self, n: int) -> tuple[Vector, Vector]:
        """The bounds, in full length; not to be written to."""
        self.check(n)
        lower, upper = self._lower, self._upper
        return lower if lower.ndim else np.full(n, lower), upper if upper.ndim else np.full(n, upper)

    def check(self, n: int) -> None:
        require_length(self, "lower", self._lower, n)
        require_length(self, "upper", self._upper, n)


def NonNegative() -> Box:
    """The set x >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from auglag.prox import L1, NonNegative
    >>> (L1(0.5) + NonNegative()).prox(np.array([2.0, -1.0]), 1.0).tolist()
    [1.5, 0.0]
    """
    return Box(0.0, INF)


def LinfBall(radius: float = 1.0, center: Weights = 0.0) -> Box:
    """The set max_i |x_i - center_i| <= radius.

    Parameters
    ----------
    radius : float
        At least 0.
    center : float or array_like
        The middle of the ball.

    Examples
    --------
    >>> import numpy as np
    >>> from auglag.prox import LinfBall
    >>> LinfBall(2.0).prox(np.array([3.0, -1.0, -5.0]), 1.0).tolist()  # the nearest point of the ball
    [2.0, -1.0, -2.0]
    """
    radius = scalar("LinfBall.radius", radius, positive=True)
    middle = finite("LinfBall.center", center)
    return Box(middle - radius, middle + radius)
