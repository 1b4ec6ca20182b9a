"""What the `Tuning` classes have in common: named numbers, each with its default.

A dataclass writes and compiles methods with all of its fields in their text. For a hundred numbers that takes longer
than all else in a module; of those methods constants need only the one that sets them, and here it is a loop.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any


class Constants:
    """The base of dataclasses of constants, with `init=False`, `repr=False` and `eq=False`."""

    __slots__ = ()

    def __init__(self, **values: Any) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = values.pop(field.name, field.default)
            if value is MISSING:
                raise TypeError(f"{type(self).__qualname__} needs a value for {field.name}")
            object.__setattr__(self, field.name, value)
        if values:
            raise TypeError(f"{type(self).__qualname__} has no constant {next(iter(values))!r}")
