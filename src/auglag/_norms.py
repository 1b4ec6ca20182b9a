"""Norms and tests of vectors without what NumPy's general functions spend on axes, types and orders.

A solve of a small problem makes thousands of them, and each costs more than the arithmetic in it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from auglag._typing import Vector


def norm(v: Vector) -> float:
    """The 2-norm; the same digits as `np.linalg.norm`."""
    return math.sqrt(v.dot(v))


def largest(v: Any) -> float:
    """The max norm, 0 without entries, NaN if an entry is."""
    sizes = np.abs(v)
    return float(sizes.item(sizes.argmax())) if sizes.size else 0.0


def highest(v: Any) -> float:
    """The largest entry or 0, whichever is more; NaN if an entry is."""
    top = v.item(v.argmax()) if v.size else 0.0
    return 0.0 if top < 0.0 else float(top)


def finite(v: Any) -> bool:
    """Whether all entries are finite; the sum of their squares usually tells, unless that is too large."""
    flat = v if v.ndim == 1 else v.ravel("K")
    return math.isfinite(flat.dot(flat)) or bool(np.isfinite(flat).all())


def some(mask: Any) -> bool:
    """Whether an entry is true."""
    return bool(np.count_nonzero(mask))
