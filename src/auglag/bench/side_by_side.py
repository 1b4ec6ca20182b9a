"""Every problem in a row, every solver in a column: what it cost, or how it failed, and whether the answers agree."""

from __future__ import annotations

import math
from collections.abc import Iterable

from auglag.bench.profiles import Solved, axes, gradients, grid, judged
from auglag.bench.record import Record
from auglag.bench.rendering import Cell, Table
from auglag.bench.tables import reason

#: Objectives that differ by less than this, relative to max(1, |f|), are the same.
SAME = 1e-4


def side_by_side(records: Iterable[Record]) -> Table:
    """Gradients of each solver where the judge accepts its point at 1e-6, else why not; who found a worse objective."""
    accepted = judged(1e-6)
    table = grid(records)
    names, problems = axes(table, None, None)
    lines: list[tuple[Cell, ...]] = []
    for problem in problems:
        row = [table[name].get(problem) for name in names]
        good = {name: r.objective for name, r in zip(names, row, strict=True) if r is not None and accepted(r)}
        best = min(good.values(), default=math.nan)
        worse = [name for name, value in good.items() if value > best + SAME * max(1.0, abs(best))]
        known = next((r for r in row if r is not None), None)
        cells = [_cell(r, accepted) for r in row]
        lines.append((problem, known.n if known else None, known.m if known else None, *cells, best, ", ".join(worse)))
    columns = ("Problem", "n", "m", *names, "best f", "worse f")
    notes = ("gradients where the judge accepts the point, else why not; 'worse f': solved, at a larger objective.",)
    return Table("Problem by problem", columns, tuple(lines), notes, digits=8)


def _cell(record: Record | None, accepted: Solved) -> str:
    if record is None:
        return "no record"
    if accepted(record):
        return f"{gradients(record):.4g}"
    return f"fails: {record.ending}" if record.ending != "returned" else f"fails: {reason(record)}"
