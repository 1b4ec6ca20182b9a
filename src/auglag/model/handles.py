"""What a model hands out: variables and rows as index arrays, parameters as objects that can be indexed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from auglag.errors import InputError

Indices = NDArray[np.intp]


#: What tells positions apart, by entries or over an axis: `np.unique`, `np.isin`, `x[x != x[3]]` and `x.max()` need it.
_TELLING = ("equal", "not_equal", "isnan", "isfinite", "isinf")
_ENDS = ("minimum", "maximum")


class Handle(np.ndarray[Any, np.dtype[np.intp]]):
    """Positions in a flat vector. Every operation of NumPy that picks, joins or shapes integers works on it.

    It looks like values where a model is written, but `x[1:] - x[:-1]` would be positions of other variables: no
    arithmetic is done on it. One entry is a handle, too, or `x[1] - x[0]` would be a number that says nothing of this.
    """

    of = "entries"

    #: The name it was made with; parts of it have none.
    name: str | None = None
    #: Which model it is of, where that is known: parts and sums have it, too.
    owner: int | None = None

    @classmethod
    def make(cls, first: int, shape: tuple[int, ...], name: str, owner: int) -> Self:
        """The positions first, first + 1, ... in this shape."""
        made = np.arange(first, first + int(np.prod(shape)), dtype=np.intp).reshape(shape).view(cls)
        made.name, made.owner = name, owner
        return made

    def __array_finalize__(self, source: Any) -> None:
        self.owner = getattr(source, "owner", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc.__name__ in _TELLING or (ufunc.__name__ in _ENDS and method == "reduce"):
            plain = (np.asarray(part) if isinstance(part, Handle) else part for part in inputs)
            return getattr(ufunc, method)(*plain, **kwargs)
        name = f"{self.name!r}" if self.name else f"a part of the {self.of}"
        raise InputError(
            f"{name} holds positions of {self.of}, not values, got numpy.{ufunc.__name__} of it: compute inside the "
            "function, as in m.constraint(lambda x: x[1] - x[0], x[:-1], x[1:]); np.asarray(x) has the positions as "
            "plain integers"
        )

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return found if isinstance(found, np.ndarray) else self._entry(found)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __hash__(self) -> int:  # type: ignore[override]  # of one entry, as of the integer that it equals
        return hash(int(self))

    def _entry(self, position: Any) -> Self:
        made = np.array(position, dtype=np.intp).view(type(self))
        made.owner = self.owner
        return made


@final
class Variables(Handle):
    """Positions in x."""

    of = "variables"


@final
class Rows(Handle):
    """Positions in c(x)."""

    of = "rows"


def first(handle: Handle) -> int:
    """The lowest of the positions that were handed out together."""
    return int(handle.flat[0])


def entry_name(handles: Sequence[Handle], position: int) -> str:
    """What a user writes for the entry at this position: `th[3]`, `flow[2, 5]`, or `t` where it is the only one."""
    handle = next(h for h in handles if first(h) <= position < first(h) + h.size)
    if handle.size == 1:
        return str(handle.name)
    index = np.unravel_index(position - first(handle), handle.shape)
    return f"{handle.name}[{', '.join(str(int(i)) for i in index)}]"


def require_own(what: str, part: Any, owner: int) -> None:
    """Positions of another model would be taken for those of this one."""
    if getattr(part, "owner", None) not in (None, owner):
        raise InputError(f"{what} must be of this model, got one of another model")


def named(handles: Mapping[str, Handle], key: Any) -> Any:
    """The handle of this name, or `key` itself if it is none."""
    if not isinstance(key, str):
        return key
    if key not in handles:
        raise InputError(f"the model has no variables or rows {key!r}; it has {', '.join(handles)}")
    return handles[key]


@final
class Parameter:
    """Numbers that functions take and that may change between solves; `load[k]` picks some of them."""

    def __init__(self, name: str, index: Indices, owner: int) -> None:
        self.name, self.index, self.owner = name, index, owner

    @property
    def shape(self) -> tuple[int, ...]:
        """As of the numbers."""
        return self.index.shape

    @property
    def size(self) -> int:
        """How many numbers."""
        return self.index.size

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, key: Any) -> Parameter:
        return Parameter(self.name, np.asarray(self.index[key]), self.owner)

    def reshape(self, *shape: Any) -> Parameter:
        """The same numbers in another shape."""
        return Parameter(self.name, self.index.reshape(*shape), self.owner)

    def ravel(self) -> Parameter:
        """The same numbers as a vector."""
        return Parameter(self.name, self.index.ravel(), self.owner)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise InputError(
            f"parameter {self.name!r} may change, so it cannot become an array of numbers: pass it, or a part of it, "
            "in par=(...) and compute with it inside the function"
        )

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, shape {self.shape})"
