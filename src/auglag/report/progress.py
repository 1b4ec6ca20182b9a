"""A table of outer iterations and steps, one line each, readable in a terminal and in a file."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TextIO, final

from auglag.algorithm.history import History

HEADER = (
    f"{'k':>4} {'f + g':>16} {'residual':>10} {'violation':>10} {'stationary':>10} {'penalty':>9} {'|y|':>9} "
    f"{'inner':>6} {'grads':>6}  status"
)


def line(row: Mapping[str, Any]) -> str:
    """An iteration of a log as a row below `HEADER`; what is not known is nan.

    The stationarity shown is the residual less the violation.
    """
    names = ("objective", "residual", "violation", "beta", "multiplier_norm")
    objective, residual, violation, beta, norm = (number(row.get(name)) for name in names)
    inner, gradients = (int(row.get(name) or 0) for name in ("inner_iterations", "evaluations"))
    return (
        f"{int(row['k']):>4} {objective:>16.9e} {residual:>10.2e} {violation:>10.2e} "
        f"{max(residual - violation, 0.0):>10.2e} {beta:>9.2e} {norm:>9.2e} {inner:>6} {gradients:>6}  "
        f"{str(row.get('inner_status') or '').lower()}"
    )


def step_line(row: Mapping[str, Any]) -> str:
    """A step between two outer iterations as a row below `HEADER`: without k, its number as `inner`, its kind last."""
    names = ("objective", "residual", "violation", "beta")
    objective, residual, violation, beta = (number(row.get(name)) for name in names)
    penalty = f"{beta:>9.2e}" if math.isfinite(beta) else f"{'':>9}"
    return (
        f"{'':>4} {objective:>16.9e} {residual:>10.2e} {violation:>10.2e} {max(residual - violation, 0.0):>10.2e} "
        f"{penalty} {'':>9} {int(row.get('step') or 0):>6} {'':>6}  {row.get('kind') or ''} step"
    )


def table_line(row: Mapping[str, Any]) -> str:
    """A step or an iteration of a log as a row below `HEADER`."""
    return step_line(row) if row.get("event") == "step" else line(row)


def number(value: Any) -> float:
    """A number of a log; nan where it is null, or missing."""
    return float(value) if isinstance(value, int | float) else math.nan


@final
class Table:
    """Prints a row after every outer iteration, and after every step where that is wanted; a header every 20 rows."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream if stream is not None else sys.stdout
        self.rows = self.attempt = 0

    def __call__(self, history: History) -> None:
        """A row for the last outer iteration."""
        it = history.last
        self._row(it.attempt, line(asdict(it) | {"violation": it.user_violation}))

    def step(self, seen: Any) -> None:
        """A row for a step: an object with what `step_line` shows as attributes."""
        row = {name: getattr(seen, name) for name in ("objective", "residual", "violation", "beta", "kind")}
        self._row(seen.attempt, step_line({**row, "step": seen.number}))

    def _row(self, attempt: int, text: str) -> None:
        if attempt != self.attempt:
            self.attempt, self.rows = attempt, 0
            print(f"restart {attempt}", file=self.stream)
        if self.rows % 20 == 0:
            print(HEADER, file=self.stream)
        self.rows += 1
        print(text, file=self.stream, flush=True)

    def end(self, message: str) -> None:
        print(message, file=self.stream, flush=True)
