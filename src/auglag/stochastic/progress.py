"""A line per full-batch test, readable in a terminal and in a file."""

from __future__ import annotations

import sys
from typing import Any, TextIO, final

HEADER = (
    f"{'k':>4} {'p':>4} {'T':>8} {'epochs':>9} {'f + g':>14} {'residual':>10} {'dist':>10} {'violation':>10}  {'s':>7}"
)


@final
class Table:
    """Prints a row after every full-batch test; the header again every 20 rows."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream if stream is not None else sys.stdout
        self._rows = 0

    def __call__(self, row: dict[str, Any]) -> None:
        if self._rows % 20 == 0:
            print(HEADER, file=self.stream)
        self._rows += 1
        mark = "*" if row["accepted"] else " "
        print(
            f"{row['k']:>4} {row['p']:>4} {row['steps']:>8} {row['epochs']:>9.2f} {row['objective']:>14.7e} "
            f"{row['residual']:>10.2e} {row['dist']:>10.2e} {row['violation']:>10.2e} {mark}{row['seconds']:>7.2f}",
            file=self.stream,
            flush=True,
        )

    def end(self, message: str) -> None:
        print(message, file=self.stream, flush=True)
