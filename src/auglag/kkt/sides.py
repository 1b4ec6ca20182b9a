"""Iterates strictly between their sides: what both interior-point methods, for models and for the problem, need."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auglag._norms import largest, some
from auglag._typing import Vector
from auglag.kkt.model import Sets

__all__ = ["QUIET", "Mask", "active_sets", "largest", "reach"]

#: Between sides a rounding error apart there is no room: what comes out is not finite, and the method ends.
QUIET = np.errstate(divide="ignore", over="ignore", invalid="ignore")

Mask = NDArray[np.bool_]


def reach(gap: Vector, change: Vector, where: Mask, fraction: float = 1.0) -> float:
    """The largest a <= 1 with gap + a change >= (1 - fraction) gap."""
    down = where & (change < 0)
    if not some(down):
        return 1.0
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return float(np.minimum.reduce(-fraction * gap[down] / change[down], initial=1.0))


def active_sets(at_low: Mask, at_high: Mask, rows: NDArray[np.intp], m: int) -> Sets:
    """The sets for v = (variables, slacks of `rows`) of which these are at their sides; the other rows are equations.

    At both sides counts as at the upper one.
    """
    side = at_high.astype(np.int8) - (at_low & ~at_high).astype(np.int8)
    n = side.size - rows.size
    of_rows = np.ones(m, np.int8)
    of_rows[rows] = side[n:]
    return Sets(of_rows, side[:n])
