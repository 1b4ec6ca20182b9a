"""Checks of constructor arguments, made by `fit`: constructors of scikit-learn's kind only store."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from auglag.errors import InputError


def require_share(value: Any, what: str) -> float:
    """A number in (0, 1), as a float."""
    if not _real(value) or not 0.0 < value < 1.0:
        raise InputError(f"{what} must lie in (0, 1), got {value!r:.80}")
    return float(value)


def require_nonnegative(value: Any, what: str, most: float = math.inf) -> float:
    """A finite number in [0, most], as a float."""
    if not _real(value) or not 0.0 <= value <= most or value == math.inf:
        demand = "be nonnegative and finite" if most == math.inf else f"lie in [0, {most:g}]"
        raise InputError(f"{what} must {demand}, got {value!r:.80}")
    return float(value)


def share_or_count(value: Any, total: int, what: str) -> int:
    """How many of `total` a share in (0, 1), or a number of them, asks for; one has to be left."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return math.floor(require_share(value, what) * total)
    if not 1 <= value < total:
        raise InputError(f"{what} must lie between 1 and {total - 1}, one less than there are, got {value!r}")
    return int(value)


def _real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
