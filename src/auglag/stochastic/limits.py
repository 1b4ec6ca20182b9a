"""What a run on data may spend, what it has spent, and which limit it has reached: for NumPy and PyTorch runs alike."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, final

from auglag.errors import InputError, require_positive
from auglag.stochastic.tuning import TUNING


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may spend; None: no limit."""

    epochs: float | None = None  #: passes over the data, tests included
    gradients: int | None = None  #: stochastic gradients D(x, y, z)
    seconds: float | None = None  #: wall-clock time
    outer: int | None = None  #: outer iterations

    @staticmethod
    def of(*, max_epochs: Any, max_gradients: Any, max_seconds: Any, max_outer: Any) -> Limits:
        """The limits of a front door, checked."""
        given = {"epochs": max_epochs, "gradients": max_gradients, "seconds": max_seconds, "outer": max_outer}
        for name, value in given.items():
            if value is not None:
                require_positive(value, f"max_{name}")
        if max_outer is not None and max_outer != int(max_outer):  # 1e4 will do
            raise InputError(f"max_outer must be a positive integer or None, got {max_outer!r}")
        return Limits(max_epochs, max_gradients, max_seconds, None if max_outer is None else int(max_outer))


@final
@dataclass(slots=True)
class Ledger:
    """What a run has spent."""

    rows: int = 0  #: row evaluations, of any kind: one row at one point is one
    gradients: int = 0  #: stochastic gradients D(x, y, z)
    tests: int = 0  #: full-batch evaluations
    curvature_rows: int = 0  #: rows whose curvature was formed, counted in `rows` as well


@final
class Meter:
    """Compares what a run has spent with its limits."""

    def __init__(self, limits: Limits, ledger: Ledger, pass_rows: int = 1, began: float | None = None) -> None:
        self.limits, self.ledger = limits, ledger
        self.pass_rows = pass_rows  #: rows of one pass over the data
        self.began = time.monotonic() if began is None else began  #: earlier, where a run is resumed
        self.rows = math.inf if limits.epochs is None else limits.epochs * pass_rows
        self.gradients = math.inf if limits.gradients is None else limits.gradients
        self.deadline = math.inf if limits.seconds is None else self.began + limits.seconds
        #: Steps between two looks at the clock, where there is a deadline; adapts to what steps cost.
        self.stride = TUNING.first_stride

    @property
    def seconds(self) -> float:
        """Wall-clock time, that before a resume included."""
        return time.monotonic() - self.began

    @property
    def epochs(self) -> float:
        """Passes over the data."""
        return self.ledger.rows / self.pass_rows

    def pace(self, seconds: float) -> None:
        """Look at the clock more often if `stride` steps took long, and less often if they did not."""
        if seconds > TUNING.clock_interval:
            self.stride = max(1, self.stride // 4)
        elif seconds < TUNING.clock_interval / 8:
            self.stride = 4 * self.stride

    def reached(self) -> str:
        """Which limit is reached, or ''."""
        if self.ledger.rows >= self.rows:
            return "epochs"
        if self.ledger.gradients >= self.gradients:
            return "gradients"
        return "seconds" if time.monotonic() >= self.deadline else ""
