"""What a comparison of solvers leaves behind: tables, profiles, plots, one row per run, and a report."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

from auglag.bench.export import export
from auglag.bench.record import Record
from auglag.bench.rendering import Table
from auglag.bench.tables import failures, pairs, solved_at


def write(records: Sequence[Record], output: Path, *, title: str) -> Iterator[str]:
    """Write everything into the folder; what to tell the user, line by line."""
    tables = [solved_at(records), failures(records)]
    if len({record.title for record in records}) > 1:
        tables.insert(1, pairs(records))
    write_tables(output / "tables.md", title, tables)
    yield tables[0].text()
    yield f"Tables: {output / 'tables.md'}"
    yield f"Runs: {export(records, output / 'runs.csv.gz')}"
    if importlib.util.find_spec("matplotlib") is None:
        yield "No plots and no report: pip install 'auglag[plot]'"
        return
    from auglag.bench import plots, report
    from auglag.bench.profiles import data_profile, performance_profile

    figures = {
        "profile": plots.profile_plot(performance_profile(records), title=title),
        "data-profile": plots.data_profile_plot(data_profile(records), title=title),
        "solved-at": plots.solved_at_plot(records, title=title),
    }
    for name, figure in figures.items():
        saved = plots.save(figure, output / name)
        yield f"Plot: {saved[-1]}"
    page = report.write(output / "report.html", [report.Section(title, records)], title=title)
    yield f"Report, with every run: {page}"


def write_tables(path: Path, title: str, tables: Sequence[Table], text: str = "") -> None:
    """One markdown file."""
    parts = [f"# {title}\n", text, *(table.markdown() for table in tables)]
    path.write_text("\n".join(part for part in parts if part), encoding="utf-8")
