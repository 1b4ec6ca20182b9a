"""A point between bounds, and the ways in which its variables may sensibly be moved. No point outside is ever made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auglag._norms import some
from auglag._random import LONGEST, uniform
from auglag._typing import Matrix, Vector
from auglag.derivatives.tuning import TUNING


@final
@dataclass(frozen=True, slots=True)
class Box:
    """A point x in [lower, upper], with the length by which each variable may sensibly be moved."""

    x: Vector
    lower: Vector
    upper: Vector
    scale: Vector
    gap: Vector  #: to the nearer bound
    near: NDArray[np.bool_] | None  #: variables near a bound; None: all have more room than the first test needs

    @staticmethod
    def at(x: ArrayLike, lower: ArrayLike, upper: ArrayLike, least: ArrayLike = 1.0) -> Box:
        """The scale is sqrt|x| for large x: between 1, where a gradient of order 1 shows, and |x|, where 1/x does.

        It is at least `least`, the size of variables that are much smaller than 1.
        """
        x = np.array(x, dtype=np.float64)
        sides = [np.asarray(side, dtype=np.float64) for side in (lower, upper)]
        lower, upper = (side if side.shape == x.shape else np.broadcast_to(side, x.shape) for side in sides)
        size = np.maximum(least, np.abs(x))
        move = np.maximum(np.minimum(size, np.sqrt(size)), TUNING.least_relative_move * size)
        return Box.around(x, lower, upper, np.minimum(move, upper - lower))

    @staticmethod
    def around(x: Vector, lower: Vector, upper: Vector, scale: Vector) -> Box:
        """The box of a point, with what is made of the bounds."""
        gap = np.minimum(x - lower, upper - x)
        near = gap < TUNING.largest_step * scale
        return Box(x, lower, upper, scale, gap, near if some(near) else None)

    def room(self, direction: Vector) -> float:
        """The largest t for which x + t * direction is inside."""
        t = np.where(direction > 0, self.upper - self.x, self.x - self.lower) / np.abs(direction)
        return float(np.minimum.reduce(t[direction != 0], initial=np.inf))

    def room_both_ways(self, direction: Vector) -> float:
        """The largest t for which x + t * direction and x - t * direction are inside."""
        t = self.gap / np.abs(direction)
        return float(np.minimum.reduce(t[direction != 0], initial=np.inf))

    def move(self, direction: Vector, t: float) -> Vector:
        """x + t * direction, inside the bounds to the last bit; variables that do not move keep their bits."""
        moved: Vector = np.minimum(np.maximum(self.x + t * direction, self.lower), self.upper)
        return moved

    def directions(self, count: int, rng: np.random.Generator | None) -> Matrix:
        """Random directions (n, count), the same ones without `rng`; a variable near a bound moves away from it.

        All magnitudes lie between a third of the scale and the scale, and no two are equal, so that neither a wrong
        entry nor two swapped ones can hide.
        """
        n = self.x.size
        if rng is None and n * count <= LONGEST:
            size, sign, signed = _usual_shapes(n, count)
        else:
            size, sign, signed = _shapes(uniform(0, 3, n, count) if rng is None else rng.random((3, n, count)))
        if self.near is not None:
            away = np.where(self.upper - self.x >= self.x - self.lower, 1.0, -1.0)
            signed = np.where(self.near[:, None], away[:, None], sign) * size
        directions: Matrix = signed * self.scale[:, None]
        return directions


def _shapes(draws: Any) -> tuple[Matrix, Matrix, Matrix]:
    """(sizes, signs, both) of directions, from draws (3, n, count)."""
    rank = np.argsort(draws[0], axis=0)
    size, sign = (1 + 2 * (rank + 0.5 * draws[1]) / draws.shape[1]) / 3, np.where(draws[2] < 0.5, -1.0, 1.0)
    return size, sign, sign * size


@lru_cache(maxsize=8)
def _usual_shapes(n: int, count: int) -> tuple[Matrix, Matrix, Matrix]:
    """Those without a generator: the same in every run, so that they are made once for small n."""
    return _shapes(uniform(0, 3, n, count))
