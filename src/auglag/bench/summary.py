"""What a comparison of solvers leaves behind: tables, profiles, plots, one row per run, and a report."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

from auglag.bench import baselines
from auglag.bench.export import export
from auglag.bench.record import TOLERANCES, Record
from auglag.bench.rendering import Table
from auglag.bench.side_by_side import side_by_side
from auglag.bench.tables import failures, pairs, solved_at

#: Problems up to which a comparison is shown problem by problem in the terminal.
FEW = 40


def compare(records: Sequence[Record], output: Path, *, title: str) -> Iterator[str]:
    """As `write`, with the solvers side by side on every problem, and in pairs."""
    rows = side_by_side(records)
    if len(rows.rows) <= FEW:
        yield rows.text()
    costed = _with_gradients(records)
    if len({record.title for record in costed}) > 1:
        yield pairs(costed).text()
    write_tables(output / "problems.md", title, [rows])
    yield f"Problem by problem: {output / 'problems.md'}"
    yield from write(records, output, title=title)


def write(records: Sequence[Record], output: Path, *, title: str) -> Iterator[str]:
    """Write everything into the folder; what to tell the user, line by line."""
    tables = [solved_at(records, claims_at=_asked(records)), failures(records)]
    costed = _with_gradients(records)
    if len({record.title for record in costed}) > 1:
        tables.insert(1, pairs(costed))
    write_tables(output / "tables.md", title, tables)
    yield tables[0].text()
    yield f"Tables: {output / 'tables.md'}"
    yield f"Runs: {', '.join(map(str, _export(records, output)))}"
    if importlib.util.find_spec("matplotlib") is None:
        yield "No plots and no report: pip install 'auglag[plot]'"
        return
    from auglag.bench import plots, report
    from auglag.bench.profiles import data_profile, performance_profile

    longest = max(len(record.title) for record in records)
    width = 5.0 + 0.06 * max(0, longest - 20)  # inches: long names want room
    figures = {"solved-at": plots.solved_at_plot(records, title=title, width=width)}
    if costed:
        figures["profile"] = plots.profile_plot(performance_profile(costed), title=title, width=width)
        figures["data-profile"] = plots.data_profile_plot(data_profile(costed), title=title, width=width)
    if len(costed) < len(records):
        yield "Solvers that ask for no gradients are left out where gradients are the cost."
    for name, figure in figures.items():
        saved = plots.save(figure, output / name)
        yield f"Plot: {saved[-1]}"
    page = report.write(output / "report.html", [report.Section(title, records)], title=title)
    yield f"Report, with every run: {page}"


def _export(records: Sequence[Record], output: Path) -> Iterator[Path]:
    yield export(records, output / "runs.csv.gz")
    if importlib.util.find_spec("pyarrow") is not None:
        yield export(records, output / "runs.parquet")


def _with_gradients(records: Sequence[Record]) -> list[Record]:
    """The records of solvers that ask for gradients, whose number can be their cost."""
    titles = {record.title for record in records if record.gradients}
    return [record for record in records if record.title in titles]


def _asked(records: Sequence[Record]) -> float:
    """The tolerance at which claims are checked: 1e-6, or what was asked for where that is looser."""
    asked = max(float(baselines.complete(r.run.solver, r.run.options)["tol"]) for r in records)
    return min((eps for eps in TOLERANCES if eps >= max(asked, 1e-6)), default=max(TOLERANCES))


def write_tables(path: Path, title: str, tables: Sequence[Table], text: str = "") -> None:
    """One markdown file."""
    parts = [f"# {title}\n", text, *(table.markdown() for table in tables)]
    path.write_text("\n".join(part for part in parts if part), encoding="utf-8")
