"""A run in the terminal: what is being solved, charts of its residuals, its last iterations, how it ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auglag.log import LoggedRun, LogReader
from auglag.log.schema import duration
from auglag.report.progress import HEADER, number, table_line

STYLES = {"waiting": "yellow", "running": "cyan", "finished": "green", "failed": "red", "gone": "red"}
BLOCKS = " ▁▂▃▄▅▆▇█"
#: Dots of a braille character, from the bottom of its left and of its right column.
DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))


def view(reader: LogReader, *, width: int, height: int, outer: bool = False) -> RenderableType:
    """The run as it is now, in so many columns and rows; `outer`: outer iterations only."""
    run = reader.run
    if run is None:
        return Text(f"waiting for {reader.path}", style=STYLES["waiting"])
    headline = Text.assemble((run.name, "bold"), (f"  {words(reader)}", STYLES[_state(reader)]))
    parts: list[RenderableType] = [headline, Text(_facts(run), style="dim")]
    rows = run.tests or run.shown(outer=outer)
    if rows:
        parts += [Text(), *_chart(rows, number(run.start.get("tol")), min(width, 110) - 22, 8 if height >= 30 else 4)]
        parts += [Text(), _strips(run, rows, min(width, 110))]
        room = max(3, height - len(parts) - (18 if height >= 30 else 14))
        parts += [Text(), *_last(run.shown(outer=outer), room)]
    if run.end is not None:
        parts += [Text(), Text(str(run.end.get("message", "")), style=STYLES[_state(reader)])]
        parts += [Text(f"Try: {advice}") for advice in run.end.get("advice") or ()]
    if reader.bad:
        parts.append(Text(f"{reader.bad} lines of the log could not be read", style="yellow"))
    return Group(*parts)


def words(reader: LogReader) -> str:
    """The state of a run in words."""
    run = reader.run
    if run is None:
        return f"waiting for {reader.path}"
    spent = duration(run.seconds)
    if run.end is not None:
        return f"{str(run.end.get('status')).lower().replace('_', ' ')} after {spent}"
    if reader.state == "gone":
        return f"ended unexpectedly after {spent}: it was killed, or it crashed"
    silent = f", silent for {duration(reader.silent())}" if reader.silent() > 60 else ""
    return f"running, {spent} at its last line{silent}"


def _state(reader: LogReader) -> str:
    run = reader.run
    return "failed" if run is not None and run.end is not None and not run.end.get("success") else reader.state


def _facts(run: LoggedRun) -> str:
    start = run.start
    options = start.get("options") or {}
    how = ", ".join(str(options[name]) for name in ("method", "rules") if name in options)
    tol = number(start.get("tol"))
    return f"{start.get('n')} variables, {start.get('m')} constraint rows, tol {tol:.0e}; {how}"


# --------------------------------------------------------------------------------------------------------------- charts


def _chart(rows: Sequence[dict[str, Any]], tol: float, width: int, height: int) -> list[Text]:
    """log10 of the residual, in braille dots, with the tolerance as a dashed line."""
    logs = [_log(row.get("residual")) for row in rows]
    known = [value for value in logs if value is not None]
    if not known:
        return []
    level = math.log10(tol) if tol > 0 else min(known)
    low, high = math.floor(min(*known, level)), math.ceil(max(*known, level))
    high = max(high, low + 1)

    def place(value: float) -> int:
        return round((value - low) / (high - low) * (4 * height - 1))

    width = max(10, min(width, 8 * len(rows)))
    cells = [[0] * width for _ in range(height)]
    columns = 2 * width
    at = [round(i * (columns - 1) / max(1, len(logs) - 1)) for i in range(len(logs))]
    points = [(x, place(v)) for x, v in zip(at, logs, strict=True) if v is not None]
    for (x0, y0), (x1, y1) in zip(points, points[1:] or points, strict=False):
        for step in range(max(1, abs(x1 - x0), abs(y1 - y0)) + 1):
            share = step / max(1, abs(x1 - x0), abs(y1 - y0))
            _dot(cells, round(x0 + share * (x1 - x0)), round(y0 + share * (y1 - y0)))
    dashed = height - 1 - place(level) // 4
    lines = []
    for i, row in enumerate(cells):
        label = f"1e{high:+03d}" if i == 0 else f"1e{low:+03d}" if i == height - 1 else ""
        text = Text.assemble((f"{'residual' if i == height // 2 else '':>8} {label:>6} ", "dim"))
        for empty, codes in groupby(row, key=lambda code: code == 0):
            count = list(codes)
            level_here = empty and i == dashed
            drawn = "╌" * len(count) if level_here else "".join(chr(0x2800 + code) for code in count)
            text.append(drawn, style="dim" if level_here else "cyan")
        if i == dashed:
            text.append(" tol", style="dim")
        lines.append(text)
    return lines


def _dot(cells: list[list[int]], x: int, y: int) -> None:
    cells[len(cells) - 1 - y // 4][x // 2] |= DOTS[x % 2][y % 4]


def _strips(run: LoggedRun, rows: Sequence[dict[str, Any]], width: int) -> Table:
    """One line of blocks for each of the other quantities."""
    table = Table.grid(padding=(0, 1))
    room = max(8, width - 46)
    outer = run.iterations
    for name, column, source in (
        ("violation", "violation", rows),
        ("stationarity", "stationarity", run.tests or outer),
        ("penalty", "beta", outer),
        ("|y|", "multiplier_norm", outer),
        ("inner work", "evaluations", outer),
    ):
        if not source:
            continue
        values = [row.get(column) for row in source][-room:]
        strip = Text(_strip(values, logarithmic=column != "evaluations"), style="cyan")
        last = number(source[-1].get(column))
        table.add_row(Text(f"{name:>15}", style="dim"), strip, f"{last:.3g}")
    return table


def _strip(values: Sequence[Any], *, logarithmic: bool) -> str:
    numbers = [_log(v) if logarithmic else number(v) for v in values]
    known = [v for v in numbers if v is not None and math.isfinite(v)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    low = min(low, 0.0) if not logarithmic else low

    def block(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return BLOCKS[0]
        return (
            BLOCKS[1 + round(7 * (value - low) / (high - low))]
            if high > low + (0.02 if logarithmic else 0)
            else BLOCKS[4]
        )

    return "".join(map(block, numbers))


def _last(rows: Sequence[dict[str, Any]], room: int) -> list[Text]:
    """The last rows, as `solve` prints them."""
    shown = rows[-room:]
    return [Text(HEADER, style="bold")] + [Text(table_line(row)) for row in shown] if shown else []


def _log(value: Any) -> float | None:
    known = number(value)
    return math.log10(known) if math.isfinite(known) and known > 0 else None
