"""The exceptions of auglag. Every message names the argument, the demand and the value."""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


class AuglagError(Exception):
    """Base class of the errors that auglag raises on purpose."""


class InputError(AuglagError, ValueError):
    """An argument does not satisfy what is asked of it."""


class OptionError(AuglagError, TypeError):
    """An argument or option that does not exist; the message suggests the nearest name."""


class DerivativeError(InputError):
    """A user-supplied derivative disagrees with finite differences of the function."""


class EvaluationError(AuglagError):
    """Raise this in your own functions to say "not defined at this x".

    The solver treats the point as if the value there were +inf and steps back. Any other exception raised by user code
    propagates: the same object, with a note (`note_point`) and, where a run had begun, its result so far in `.best`.
    """


class CheckpointError(AuglagError):
    """A saved state or result cannot be used: damaged, of another format, or of another problem."""


class MissingExtra(AuglagError, ImportError):
    """A package that is needed here is not installed; the message says how to get it."""


class StoppedByCallback(AuglagError):
    """Internal signal: the user's callback raised StopIteration."""


class OutOfBudget(AuglagError):
    """Internal signal: a limit of the `Budget` has been reached. Carries which one."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


def attempted(call: Callable[[], _T]) -> _T | None:
    """What a call gives that looks at points which are our idea, not the user's; None where it raises.

    A user's function that fails at such a point says nothing of the solution. Limits end the run there as everywhere.
    """
    try:
        return call()
    except OutOfBudget:
        raise
    except Exception:
        return None


#: The first words of the note that `note_point` leaves.
_RAISED = "raised by a function "


def note_point(error: Exception, x: Any, batch: str | None = None) -> None:
    """Note in an exception of user code the x at which it was raised, once, and the batch.

    Where there are no batches, what to do outside the domain of a function: there the solver can step back.
    """
    if batch is not None:
        note_place(error, f"at x = {x!r}, {batch}")
        return
    note_place(
        error,
        f"at x = {x!r}; if the function is not defined there, let it return NaN or raise auglag.EvaluationError, "
        "and the solver steps back",
    )


def note_place(error: Exception, place: str) -> None:
    """Note in an exception of user code where it was raised, once."""
    if isinstance(error, AuglagError) or any(note.startswith(_RAISED) for note in getattr(error, "__notes__", ())):
        return
    with contextlib.suppress(Exception):  # an exception that cannot be changed stays as it is
        error.add_note(_RAISED + place)


def first_line(error: Exception) -> str:
    """What an error says, in short."""
    return str(error).strip().partition("\n")[0][:160] or type(error).__name__


def require_positive(value: Any, what: str) -> float:
    """`value` as a float, if it is a positive, finite number (NumPy's included, booleans not)."""
    number = type(value) is float or (isinstance(value, numbers.Real) and not isinstance(value, bool))
    if not (number and 0.0 < value < math.inf):
        raise InputError(f"{what} must be positive and finite, got {value!r:.80}")
    return float(value)


def require_integer(value: Any, what: str, least: int = 1) -> int:
    """`value` as an int, if it is an integer of at least `least` (NumPy's included, booleans not)."""
    return _integer(value, what, least, "")


def integer_or_none(value: Any, what: str, least: int = 1) -> int | None:
    """The same where None is allowed."""
    return None if value is None else _integer(value, what, least, " or None")


def _integer(value: Any, what: str, least: int, other: str) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        demand = {0: "a nonnegative integer", 1: "a positive integer"}.get(least, f"an integer of at least {least}")
        raise InputError(f"{what} must be {demand}{other}, got {value!r:.80}")
    return int(value)
