"""A table of outer iterations, one line each, readable in a terminal and in a file."""

from __future__ import annotations

import sys
from typing import TextIO, final

from auglag.rules import History

HEADER = (
    f"{'k':>4} {'f + g':>16} {'residual':>10} {'violation':>10} {'penalty':>9} {'|y|':>9} "
    f"{'inner':>6} {'grads':>6}  status"
)


@final
class Table:
    """Prints a row after every outer iteration; the header again every 20 rows."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream if stream is not None else sys.stdout

    def __call__(self, history: History) -> None:
        """Print the last iteration."""
        it = history.last
        if (it.k - 1) % 20 == 0:
            print(HEADER, file=self.stream)
        print(
            f"{it.k:>4} {it.objective:>16.9e} {it.residual:>10.2e} {it.user_violation:>10.2e} {it.beta:>9.2e} "
            f"{it.multiplier_norm:>9.2e} {it.inner_iterations:>6} {it.evaluations:>6}  {it.inner_status.lower()}",
            file=self.stream,
            flush=True,
        )

    def end(self, message: str) -> None:
        """Print how the run ended."""
        print(message, file=self.stream, flush=True)
