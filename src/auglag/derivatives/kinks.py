"""Does a function have a kink at x? Values on both sides, at two distances, tell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.derivatives.tuning import TUNING


def kinked(values: Callable[[Vector], Vector], x: Vector, lower: Vector, upper: Vector) -> NDArray[np.bool_]:
    """Which of `values` seem to have a kink within a small distance of x, along a random line: five evaluations.

    Forward and backward slopes differ by curvature times the distance, which is half as much at half the distance; at a
    kink they differ by the same.
    """
    rng = np.random.default_rng(0)
    line = np.where(rng.random(x.size) < 0.5, -1.0, 1.0) * np.maximum(1.0, np.abs(x)) * (0.5 + 0.5 * rng.random(x.size))
    f0 = values(x)
    gaps, slopes = [], []
    with np.errstate(all="ignore"):
        for h in (TUNING.kink_step, 0.5 * TUNING.kink_step):
            ahead, behind = (values(np.clip(x + sign * h * line, lower, upper)) for sign in (1.0, -1.0))
            gaps.append(np.abs(ahead + behind - 2.0 * f0) / h)
            slopes.append(np.maximum(np.abs(ahead - f0), np.abs(behind - f0)) / h)
        return (gaps[1] >= TUNING.kink_stays * gaps[0]) & (gaps[1] >= TUNING.kink_share * slopes[1]) & (gaps[1] > 0.0)
