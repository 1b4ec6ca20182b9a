"""A table of outer iterations, one line each, readable in a terminal and in a file."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TextIO, final

from auglag.algorithm.rules import History

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


def number(value: Any) -> float:
    """A number of a log; nan where it is null, or missing."""
    return float(value) if isinstance(value, int | float) else math.nan


@final
class Table:
    """Prints a row after every outer iteration; the header again every 20 rows."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream if stream is not None else sys.stdout

    def __call__(self, history: History) -> None:
        it = history.last
        if it.attempt and it.k == 1:
            print(f"restart {it.attempt}", file=self.stream)
        if (it.k - 1) % 20 == 0:
            print(HEADER, file=self.stream)
        print(line(asdict(it) | {"violation": it.user_violation}), file=self.stream, flush=True)

    def end(self, message: str) -> None:
        print(message, file=self.stream, flush=True)
