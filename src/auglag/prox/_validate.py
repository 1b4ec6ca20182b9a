"""Validation of the fields of prox terms; every message names the class, the field, the demand and the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auglag._arrays import real_array
from auglag._typing import Vector
from auglag.errors import InputError
from auglag.prox.base import Weights

#: The unit roundoff of float64, doubled.
EPS = float(np.finfo(np.float64).eps)
#: "A few units in the last place": the relative tolerance of membership tests such as "x is on the sphere".
ULPS = 32.0 * EPS

Index = NDArray[np.intp]


def store(term: object, **fields: object) -> None:
    """Set fields of a frozen dataclass; for use in `__post_init__` alone."""
    for name, value in fields.items():
        object.__setattr__(term, name, value)


def compact(array: Vector) -> float | Vector:
    """What is stored in a field that may be a number or a vector: a float or the array."""
    return array if array.ndim else float(array)


def numbers(value: Weights) -> Vector:
    """The array (of no or one dimension) in such a field."""
    return np.asarray(value, dtype=np.float64)


def entries(value: Weights, index: Index) -> Weights:
    """The entries of such a field for the coordinates `index`."""
    array = numbers(value)
    return array[index] if array.ndim else value


def show(number: float | np.float64) -> str:
    """A number as the user would have typed it: `-1` rather than `np.float64(-1.0)`."""
    return repr(float(number)).removesuffix(".0")


def real(name: str, value: ArrayLike, *, ndim: int = 1) -> Vector:
    """A read-only float64 copy of a number (always allowed for ndim=1) or an array of `ndim` dimensions."""
    array = np.array(real_array(value, name))
    if array.ndim != ndim and not (ndim == 1 and array.ndim == 0):
        raise InputError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    array.flags.writeable = False
    return array


def demand(name: str, what: str, array: Vector, ok: NDArray[np.bool_] | np.bool_) -> None:
    """Raise, quoting the first entry that is not ok."""
    if np.count_nonzero(ok) < np.size(ok):
        at = np.unravel_index(int(np.argmin(ok)), array.shape)
        where = f" at index {', '.join(str(int(i)) for i in at)}" if array.ndim else ""
        raise InputError(f"{name} must be {what}, got {show(array[at])}{where}")


def finite(name: str, value: ArrayLike, *, ndim: int = 1) -> Vector:
    """A read-only copy of a finite number or array."""
    array = real(name, value, ndim=ndim)
    demand(name, "finite", array, np.isfinite(array))
    return array


def nonnegative(name: str, value: ArrayLike) -> Vector:
    """A read-only copy of a nonnegative finite number or vector."""
    array = real(name, value)
    demand(name, "nonnegative and finite", array, (array >= 0.0) & (array < np.inf))
    return array


def scalar(name: str, value: ArrayLike, *, positive: bool) -> float:
    """A positive (or nonnegative) finite number."""
    array = real(name, value)
    if array.ndim:
        raise InputError(f"{name} must be a number, got an array of shape {array.shape}")
    number = float(array)
    if not (0.0 < number < np.inf or (number == 0.0 and not positive)):
        raise InputError(f"{name} must be {'positive' if positive else 'nonnegative'} and finite, got {show(number)}")
    return number


def same_length(name: str, one: Vector, other_name: str, other: Vector) -> None:
    """Raise unless two per-coordinate fields, each a number or a vector, fit together."""
    if one.ndim and other.ndim and one.size != other.size:
        raise InputError(f"{name} must have {other.size} entries like {other_name}, got {one.size}")


def index_array(name: str, value: Any) -> Index:
    """A read-only copy of a nonempty vector of distinct nonnegative indices; a slice needs an explicit stop."""
    if isinstance(value, slice):
        if value.stop is None or min(value.start or 0, value.stop) < 0 or (value.step or 1) < 0:
            raise InputError(f"{name} must be a slice with nonnegative start, stop and step, got {value!r}")
        value = np.arange(value.stop)[value]
    array = np.asarray(value)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise InputError(f"{name} must be a nonempty vector of integer indices, got {value!r}")
    index = array.astype(np.intp)
    if index.min() < 0 or np.unique(index).size != index.size:
        raise InputError(f"{name} must have distinct nonnegative entries, got {value!r}")
    index.flags.writeable = False
    return index


def require_disjoint(name: str, indices: Sequence[Index]) -> None:
    """Raise if a coordinate occurs in two of the index arrays."""
    every, count = np.unique(np.concatenate(indices), return_counts=True)
    if np.any(count > 1):
        raise InputError(f"{name} must be disjoint, got index {every[np.argmax(count > 1)]} more than once")
