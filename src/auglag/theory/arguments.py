"""What the arguments of a bound have to satisfy."""

from __future__ import annotations

import math

from auglag.errors import InputError


def require_nonnegative(name: str, value: float) -> None:
    """Finite and at least 0."""
    if not 0.0 <= value < math.inf:
        raise InputError(f"{name} must be nonnegative and finite, got {value}")


def require_at_least_one(name: str, value: float) -> None:
    """Finite and at least 1."""
    if not 1.0 <= value < math.inf:
        raise InputError(f"{name} must be finite and at least 1, got {value}")


def require_probability(name: str, value: float) -> None:
    """Between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise InputError(f"{name} must lie in (0, 1), got {value}")


def require_above_one(name: str, value: float) -> None:
    """Finite and above 1."""
    if not 1.0 < value < math.inf:
        raise InputError(f"{name} must be finite and greater than 1, got {value}")
