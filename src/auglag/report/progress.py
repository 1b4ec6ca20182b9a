"""A table of outer iterations, one line each, readable in a terminal and in a file."""

from __future__ import annotations

import sys
from typing import TextIO, final

from auglag.algorithm.rules import History

HEADER = (
    f"{'k':>4} {'f + g':>16} {'residual':>10} {'violation':>10} {'stationary':>10} {'penalty':>9} {'|y|':>9} "
    f"{'inner':>6} {'grads':>6}  status"
)


def line(
    k: int,
    objective: float,
    residual: float,
    violation: float,
    beta: float,
    norm: float,
    inner: int,
    gradients: int,
    status: str,
) -> str:
    """One row below `HEADER`; the stationarity is what the residual has beside the violation."""
    return (
        f"{k:>4} {objective:>16.9e} {residual:>10.2e} {violation:>10.2e} {max(residual - violation, 0.0):>10.2e} "
        f"{beta:>9.2e} {norm:>9.2e} {inner:>6} {gradients:>6}  {status.lower()}"
    )


@final
class Table:
    """Prints a row after every outer iteration; the header again every 20 rows."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream if stream is not None else sys.stdout

    def __call__(self, history: History) -> None:
        """Print the last iteration."""
        it = history.last
        if it.attempt and it.k == 1:
            print(f"restart {it.attempt}", file=self.stream)
        if (it.k - 1) % 20 == 0:
            print(HEADER, file=self.stream)
        row = line(
            it.k,
            it.objective,
            it.residual,
            it.user_violation,
            it.beta,
            it.multiplier_norm,
            it.inner_iterations,
            it.evaluations,
            it.inner_status,
        )
        print(row, file=self.stream, flush=True)

    def end(self, message: str) -> None:
        """Print how the run ended."""
        print(message, file=self.stream, flush=True)
