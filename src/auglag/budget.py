"""Limits of a run, and the guard that enforces them."""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from auglag._names import suggesting
from auglag.errors import InputError, OutOfBudget, integer_or_none
from auglag.problems.workspace import Counts


@suggesting
@final
@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend; None means no limit.

    `seconds` is wall-clock time and `evaluations` the calls of the user's objective (of the constraints, if those are
    more), finite differences included; both are checked before every new point, so that the differences of a last point
    and the certificate at the end may go beyond them. `outer` is the number of outer
    iterations and `inner` the number of inner iterations per subproblem. `gradients` counts gradients of augmented
    Lagrangians, as the column `evaluations` of the history does: what papers on such methods count.
    """

    seconds: float | None = None
    evaluations: int | None = None
    outer: int | None = 200
    inner: int | None = 2000
    gradients: int | None = None

    def __post_init__(self) -> None:
        seconds: Any = self.seconds
        number = isinstance(seconds, numbers.Real) and not isinstance(seconds, bool)
        if seconds is not None and not (number and seconds > 0.0):
            raise InputError(f"Budget.seconds must be positive or None, got {seconds!r}")
        for name in ("evaluations", "outer", "inner", "gradients"):
            integer_or_none(getattr(self, name), f"Budget.{name}")

    @property
    def outer_limit(self) -> float:
        """`outer`, or infinity."""
        return math.inf if self.outer is None else self.outer

    @property
    def gradient_limit(self) -> float:
        """`gradients`, or infinity."""
        return math.inf if self.gradients is None else self.gradients

    @property
    def inner_limit(self) -> int:
        """`inner`, or a number no run reaches."""
        return 10**12 if self.inner is None else self.inner


@final
class Guard:
    """Called before every new point; raises `OutOfBudget` once when a limit is reached, then lets the rest pass.

    Passing afterwards is what allows the best point to be certified when the budget is gone.
    """

    def __init__(self, budget: Budget, used: Callable[[], Counts], seconds_before: float = 0.0) -> None:
        self.started = time.monotonic() - seconds_before
        self._deadline = math.inf if budget.seconds is None else self.started + budget.seconds
        self._evaluations = budget.evaluations
        self._used = used
        self.fired = False

    @property
    def seconds(self) -> float:
        """Wall-clock time since the start of the run."""
        return time.monotonic() - self.started

    def __call__(self) -> None:
        """Raise if a limit is reached."""
        if self.fired:
            return
        if time.monotonic() > self._deadline:
            self.fired = True
            raise OutOfBudget("seconds")
        if self._evaluations is not None:
            used = self._used()
            if max(used.nfev, used.constr_nfev) >= self._evaluations:
                self.fired = True
                raise OutOfBudget("evaluations")


@final
class Meter:
    """What a run has used: calls of the user's functions and seconds, those before a resume included."""

    def __init__(self, counts: Counts, budget: Budget, start: Counts) -> None:
        """`counts` goes on counting; it was `start` before the run."""
        self._counts, self._budget = counts, budget
        self._before, self._start = Counts(), start
        self.guard = Guard(budget, self.used)

    def used(self) -> Counts:
        """Calls made by this run."""
        return self._before.plus(self._counts.since(self._start))

    def resumed(self, counts: Counts, seconds: float) -> None:
        """Charge what an interrupted run had used, and nothing of what was done since to take it up."""
        self._before, self._start = counts, self._counts.copy()
        self.guard = Guard(self._budget, self.used, seconds)
