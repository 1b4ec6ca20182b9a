"""Single arguments of a problem: checked, and brought into one form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import Bounds

from auglag._arrays import real_array
from auglag._norms import finite
from auglag._typing import Vector
from auglag.errors import InputError
from auglag.problems.constraints import interval
from auglag.prox import SeparableTerm, add_bounds


def scalar(value: Any, what: str) -> float:
    """A user's objective value as a float."""
    if isinstance(value, float):
        return value
    if value is None:
        raise InputError(f"{what} must return a number, got None: is a return missing?")
    if isinstance(value, tuple):
        raise InputError(f"{what} must return a number, got a tuple of {len(value)}: did you forget jac=True?")
    array = real_array(value, what)
    if array.size != 1:
        raise InputError(f"{what} must return a number, got an array of shape {array.shape}")
    return float(array.reshape(-1)[0])


def pair(value: Any, what: str, demand: str) -> tuple[Any, Any]:
    """Two things returned as one."""
    if not (isinstance(value, tuple | list) and len(value) == 2):
        raise InputError(f"{what} must return {demand}, got {type(value).__name__}")
    return value[0], value[1]


def check_x0(x0: Any, name: str = "x0") -> Vector:
    """x0 as a float vector."""
    if x0 is None:
        raise InputError(f"{name} must be given: a vector of numbers, got None")
    x = np.atleast_1d(real_array(x0, name))
    if x.ndim != 1:
        raise InputError(f"{name} must be a vector, got an array of shape {x.shape}")
    if x.size == 0:
        raise InputError(f"{name} must have at least one entry, got an empty array")
    if not finite(x):
        j = int(np.flatnonzero(~np.isfinite(x))[0])
        raise InputError(f"{name} must be finite, got {x[j]} in entry {j}")
    return np.array(x, dtype=np.float64, order="C")


def parse_bounds(bounds: Any, n: int) -> tuple[Vector, Vector]:
    """(lower, upper) from None, a SciPy Bounds, or a sequence of (low, high) pairs with None for infinite."""
    if bounds is None:
        return np.full(n, -np.inf), np.full(n, np.inf)
    if isinstance(bounds, Bounds):
        return interval(bounds.lb, bounds.ub, n, "bounds")
    two = isinstance(bounds, tuple) and len(bounds) == 2
    try:
        if two and all(isinstance(side, np.ndarray) for side in bounds):  # of two variables it could be either
            raise ValueError
        pairs = [(low, high) for low, high in bounds]
    except (TypeError, ValueError):
        got = "a tuple of two: write Bounds(lower, upper)" if two else f"{bounds!r:.80}"
        raise InputError(
            f"bounds must be a scipy.optimize.Bounds or a sequence of (low, high) pairs, got {got}"
        ) from None
    if len(pairs) != n:
        raise InputError(f"bounds must have {n} pairs, one per variable, got {len(pairs)}")
    lower = [-math.inf if low is None else low for low, _ in pairs]
    upper = [math.inf if high is None else high for _, high in pairs]
    return interval(lower, upper, n, "bounds")


def check_term(term: Any, lower: Vector, upper: Vector, n: int) -> None:
    """Raise unless g fits n variables and can be combined with the bounds."""
    term.check(n)
    if np.isfinite(lower).any() or np.isfinite(upper).any():
        if not isinstance(term, SeparableTerm):
            raise InputError(
                f"bounds and g={type(term).__name__} cannot be combined: the prox of their sum is known only when g is "
                "separable (a sum of functions of one coordinate each). Put the bounds into g, or state one of the two "
                "as a constraint"
            )
        add_bounds(term, lower, upper)  # raises if no point satisfies both
