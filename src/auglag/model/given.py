"""What a model is given, checked: shapes, numbers that broadcast, sides in order, values of parameters by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.model.handles import Parameter


def shape_of(shape: Any) -> tuple[int, ...]:
    """A number of entries, or several, as a tuple."""
    sizes = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    if not all(isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0 for size in sizes):
        raise InputError(f"shape must be a nonnegative integer or a tuple of them, got {shape!r}")
    return tuple(int(size) for size in sizes)


def numbers_of(value: Any) -> Vector | None:
    """Numbers as an array, None where they are none: NumPy would read strings as numbers."""
    try:
        array = np.asarray(value)
        return array.astype(np.float64) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        return None


def spread(value: Any, shape: tuple[int, ...] | None, what: str, *, finite: bool = False) -> Vector:
    """Numbers in this shape; None: in their own."""
    array = numbers_of(value)
    if array is None:
        raise InputError(f"{what} must be numbers, got {value!r:.80}")
    bad = ~np.isfinite(array) if finite else np.isnan(array)
    if bad.any():
        k = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f" in entry {k[0] if len(k) == 1 else k}" if k else ""
        raise InputError(f"{what} must {'be finite' if finite else 'not contain NaN'}, got {array[k]}{where}")
    try:
        return array if shape is None else np.broadcast_to(array, shape)
    except ValueError:
        raise InputError(f"{what} must broadcast to the shape {shape}, got {array.shape}") from None


def values_of(value: Any, shape: tuple[int, ...], what: str) -> Vector:
    """Numbers of this very shape, or one number for all: what broadcasting makes of other shapes is rarely meant."""
    array = spread(value, None, what, finite=True)
    if array.shape not in ((), shape):
        raise InputError(f"{what} must have the shape {shape}, got {array.shape}")
    return array


def require_ordered(lower: Vector, upper: Vector, what: str) -> None:
    """Every lower side is at most the upper one, and finite values lie between them."""
    for side, value, nowhere in (("lb", lower, np.inf), ("ub", upper, -np.inf)):
        if (value == nowhere).any():
            raise InputError(f"{side} {what} must leave a finite value, got {nowhere}")
    wrong = ~(lower <= upper)
    if wrong.any():
        k = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise InputError(f"lb {what} must be at most ub, got {lower[k]} and {upper[k]} in entry {k}")


def by_name(par: Any) -> Mapping[str, Any]:
    """Values of parameters by name; none where nothing is given."""
    if par is not None and not isinstance(par, Mapping):
        raise InputError(f"par must be a mapping of names to values, got {type(par).__name__}")
    return par or {}


def batch_of(par: Any, parameters: Mapping[str, Parameter], now: Vector) -> Vector:
    """The values of all parameters for every member of a batch, (batch, numbers); those not given are as now."""
    if not by_name(par):
        raise InputError("par must have at least one parameter with the batch as its first axis")
    sizes: dict[str, int | None] = {}
    for name, value in par.items():
        if name not in parameters:
            raise InputError(f"the model has no parameter {name!r}; it has {', '.join(parameters)}")
        sizes[name] = np.shape(value)[0] if np.ndim(value) else None
    count = next(iter(sizes.values()))
    if not count or any(size != count for size in sizes.values()):
        raise InputError(
            f"parameters of a batch must have the batch as their first axis, all of one length, got lengths {sizes}"
        )
    rows = np.tile(now, (count, 1))
    for name, value in par.items():
        index = parameters[name].index
        values = values_of(value, (count, *index.shape), f"batch of values of parameter {name!r}")
        rows[:, index.ravel()] = values.reshape(count, -1)
    return rows
