"""The data inside a report: runs and histories as compact JSON. Pure functions of records.

Sizes count: a full experiment has 7552 runs. A history is thinned to 60 points, and its columns are stored as
differences of whole numbers, hundredths of log10. `assets/report.js` reads all of this back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from auglag.bench.profiles import FAILURE_RATIO, Cost, Profile, Solved, axes, data_profile, grid, performance_profile
from auglag.bench.record import Record
from auglag.bench.tables import last_beta

#: At most so many points of a history are kept, the first and the last among them.
POINTS = 60

#: The columns of a history that are kept, after the gradient evaluations.
COLUMNS = ("residual", "violation", "beta")

#: Longer messages are cut.
MESSAGE = 240


class Strings:
    """Texts by number, each stored once."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of this text."""
        return self.texts.setdefault(text, len(self.texts))


def section_data(
    records: Sequence[Record], solved: Solved, cost: Cost, solvers: Sequence[str], strings: Strings
) -> dict[str, Any]:
    """Profiles and runs of one section; `runs[problem][solver]` is a row of `run_data`, or None."""
    table = grid(records)
    names, problems = axes(table, None, None)
    sizes = [_sizes(table[s][p] for s in names if p in table[s]) for p in problems]
    rows = [
        [run_data(table[s][p], solved, cost, strings) if p in table.get(s, {}) else None for s in solvers]
        for p in problems
    ]
    capped = performance_profile(records, cost=cost, solved=solved, failure_ratio=FAILURE_RATIO)
    free = performance_profile(records, cost=cost, solved=solved)
    return {
        "problems": [[name, *size] for name, size in zip(problems, sizes, strict=True)],
        "runs": rows,
        "profiles": {
            "paper": profile_data(capped, solvers),
            "uncapped": profile_data(free, solvers),
            "data": profile_data(data_profile(records, cost=cost, solved=solved), solvers),
        },
    }


def _sizes(records: Iterable[Record]) -> tuple[int, int]:
    """n and m; a run that was killed may not know them."""
    return max(((record.n, record.m) for record in records), default=(0, 0))


def profile_data(profile: Profile, solvers: Sequence[str]) -> list[Any]:
    """For each solver the jumps of its curve, to five digits, and the problems solved by then; None if it has none."""
    total = len(profile.problems)

    def curve(solver: str) -> list[list[float]]:
        at, values = profile.curve(solver)
        return [[float(f"{x:.5g}") for x in at], [round(v * total) for v in values.tolist()]]

    return [curve(solver) if solver in profile.solvers else None for solver in solvers]


def run_data(record: Record, solved: Solved, cost: Cost, strings: Strings) -> list[Any]:
    """Solved, cost, ending, message, R, violation, stationarity at 1e-6, beta, CPU seconds, outer, history."""
    message = record.message if len(record.message) <= MESSAGE else record.message[: MESSAGE - 3] + "..."
    return [
        int(solved(record)),
        round(cost(record)),
        strings.number(record.ending),
        strings.number(message),
        _short(record.residual),
        _short(record.violation),
        _short(record.stationarity[1]),
        _short(last_beta(record)),
        _short(record.cpu),
        len(record.history or ()),
        history_data(record.history or []),
    ]


def _short(value: float | None) -> float | None:
    """Three digits, and nothing for what is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.3g}")


def kept(length: int) -> list[int]:
    """Which of so many rows are kept: all, or `POINTS` of them evenly."""
    if length <= POINTS:
        return list(range(length))
    return [math.floor(i * (length - 1) / (POINTS - 1) + 0.5) for i in range(POINTS)]


def history_data(history: Sequence[dict[str, float]]) -> list[list[int | None]] | None:
    """Cumulated gradient evaluations, then 100 log10 of each of `COLUMNS`; all as differences to the value before.

    None for a history that does not say what its rows cost; a column that it has not is all gaps.
    """
    if not history or not all("evaluations" in row for row in history):
        return None
    rows = kept(len(history))
    work = np.cumsum([row["evaluations"] for row in history])
    columns: list[list[int | None]] = [[int(work[i]) for i in rows]]
    columns += [[_decades(history[i].get(name, math.nan)) for i in rows] for name in COLUMNS]
    return [_differences(column) for column in columns]


def _decades(value: float) -> int | None:
    return round(100 * math.log10(value)) if 0.0 < value < math.inf else None


def _differences(values: Sequence[int | None]) -> list[int | None]:
    """Each value less the last one that was there; gaps stay gaps."""
    last, found = 0, []
    for value in values:
        found.append(None if value is None else value - last)
        last = last if value is None else value
    return found
