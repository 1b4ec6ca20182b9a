"""Arrays of numbers as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError


def real_array(value: Any, what: str) -> Vector:
    """`value` as a float64 array, or an error that says what is wrong with it. A string is no number, whatever it says.

    It is `value` itself where that is such an array.
    """
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    if type(value) is float:
        return np.array(value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # the ways in which torch refuses tensors
        raise InputError(f"{what} must be an array of numbers, got {type(value).__name__} ({error})") from None
    if np.iscomplexobj(array):
        raise InputError(f"{what} must be real, got complex values")
    if array.dtype == np.bool_ and "(x)" in what:
        raise InputError(f"{what} must be a number or numbers, got booleans: return a difference, not a comparison")
    if array.dtype.kind in _NO_NUMBERS or (array.dtype == object and any(map(_no_number, array.ravel()))):
        raise InputError(f"{what} must be an array of numbers, got {value!r:.80}")  # NumPy would convert some of them
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be an array of numbers, got {value!r:.80}") from None


#: Kinds of arrays: strings, bytes, dates and times.
_NO_NUMBERS = "USMm"


def _no_number(entry: object) -> bool:
    return entry is None or isinstance(entry, str | bytes)
