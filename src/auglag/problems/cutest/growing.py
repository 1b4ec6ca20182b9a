"""NumPy's append and union1d for arrays that grow by an entry at a time, at the cost of that entry.

S2MPJ makes a problem by `a = np.append(a, value)` and `a = np.union1d(a, [value])`, each of which copies the array:
with 10,000 variables the copies take nearly all of the time. Here an array that grows is the first part of a larger
one, and what is added is written behind it. The results have the values and types of NumPy's; unlike those they share
memory with the shorter array whose place they take.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

_SMALL = 64  #: entries; fewer are copied faster than room for them is looked up
_used: dict[int, int] = {}  #: how many entries of an array with room behind them are in use, by its `id`
_sets: list[weakref.ref[np.ndarray]] = []  #: the last result of `union1d`


def append(array: Any, values: Any, axis: int | None = None) -> np.ndarray:
    """As `numpy.append`; without a copy if `array` is its last result."""
    added = np.asarray(values)
    grows = isinstance(array, np.ndarray) and array.ndim == 1 and added.ndim <= 1 and array.size >= _SMALL
    if not grows or (axis is not None and added.ndim == 0) or np.result_type(array, added) != array.dtype:
        return np.append(array, values, axis)
    size = array.size + added.size
    room = array.base
    if room is None or _used.get(id(room)) != array.size or room.size < size:
        room = np.empty(2 * size, dtype=array.dtype)
        room[: array.size] = array
        weakref.finalize(room, _used.pop, id(room), None)
    room[array.size : size] = added
    _used[id(room)] = size
    grown: np.ndarray = room[:size]
    return grown


def union1d(array: Any, values: Any) -> np.ndarray:
    """As `numpy.union1d`; quickly where one value is added to the last result."""
    added = np.asarray(values).ravel()
    last = _sets[0]() if _sets else None
    if added.size != 1 or last is None or last is not array:
        result = np.union1d(array, values)
    else:
        place = int(np.searchsorted(last, added[0]))
        if place < last.size and last[place] == added[0]:
            return last
        result = append(last, added) if place == last.size else np.insert(last, place, added)
    _sets[:] = [weakref.ref(result)]
    return result
