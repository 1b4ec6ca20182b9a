"""Does a function have a kink at x? Values on both sides, at two distances, tell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.derivatives.noise import line_inside
from auglag.derivatives.tuning import TUNING


def kinked(values: Callable[[Vector], Vector], x: Vector, lower: Vector, upper: Vector) -> NDArray[np.bool_]:
    """Which of `values` seem to have a kink within a small distance of x, along a random line: five evaluations.

    Forward and backward slopes differ by curvature times the distance, which is half as much at half the distance; at a
    kink they differ by the same. Variables that a bound keeps from moving to one of the sides stay.
    """
    line = line_inside(x, lower, upper, np.random.default_rng(0))
    roomy = np.minimum(x - lower, upper - x) >= TUNING.kink_step * np.abs(line)
    line = np.where(roomy, line, 0.0)
    f0 = values(x)
    gaps, slopes = [], []
    with np.errstate(all="ignore"):
        for h in (TUNING.kink_step, 0.5 * TUNING.kink_step):
            ahead, behind = (values(x + sign * h * line) for sign in (1.0, -1.0))
            gaps.append(np.abs(ahead + behind - 2.0 * f0) / h)
            slopes.append(np.maximum(np.abs(ahead - f0), np.abs(behind - f0)) / h)
        return (gaps[1] >= TUNING.kink_stays * gaps[0]) & (gaps[1] >= TUNING.kink_share * slopes[1]) & (gaps[1] > 0.0)
