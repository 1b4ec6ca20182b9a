"""Evaluations for solvers written in C or C++, through which no exception can pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, final

import numpy as np

from auglag.bench.counted import CountedProblem, LimitReached
from auglag.errors import EvaluationError

_Value = TypeVar("_Value")


@final
class Callbacks:
    """Runs evaluations, and keeps the first exception until the solver has returned.

    After a limit or an error nothing is evaluated any more: every call fails at once, and the solver has to give up.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None

    @property
    def limit(self) -> str:
        """The limit that was reached, or empty."""
        return str(self.error) if isinstance(self.error, LimitReached) else ""

    def evaluate(self, function: Callable[[], _Value]) -> _Value | None:
        """The value; None where the function is not defined or not finite, and when the run is over."""
        if self.error is not None:
            return None
        try:
            value = function()
        except EvaluationError:
            return None
        except BaseException as error:  # a KeyboardInterrupt, too, has to wait for the C code
            self.error = error
            return None
        return value if np.all(np.isfinite(np.asarray(value))) else None

    def stop(self, problem: CountedProblem) -> bool:
        """Whether the solver is to stop, asked once an iteration: some iterate for long without evaluations."""
        if self.error is None:
            try:
                problem.check_time()
            except LimitReached as limit:
                self.error = limit
        return self.error is not None

    def raise_error(self) -> None:
        """Raise what was kept, unless it was a limit."""
        if self.error is not None and not isinstance(self.error, LimitReached):
            raise self.error
