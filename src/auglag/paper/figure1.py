"""Figure 1, Table 2 and the readings of what the paper leaves open: which runs they need, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from auglag.bench import plots, report, tables
from auglag.bench.profiles import Profile
from auglag.bench.record import Record
from auglag.bench.rendering import Table
from auglag.bench.setting import PAPER_SETTINGS, VARIANTS, Setting
from auglag.bench.spec import Limits, Run
from auglag.bench.summary import write_tables
from auglag.paper.deterministic import (
    FULL,
    TABLE,
    all_runs,
    certified,
    figure_runs,
    publish,
    run_of,
    succeeded,
    variant_runs,
)
from auglag.paper.readings import COST, by_kind, profile_of, what_was_run, write_variants

Runs = Callable[[Sequence[str], Limits], list[Run]]
Write = Callable[[Sequence[Record], Path], Iterator[str]]


def panels(records: Sequence[Record]) -> dict[Setting, Profile]:
    """One profile for each setting."""
    chosen = {setting: setting.select(records) for setting in PAPER_SETTINGS}
    return {setting: profile_of(group, tuple(VARIANTS.values())) for setting, group in chosen.items()}


def counts(records: Sequence[Record]) -> Table:
    """How many problems each variant solves in each setting, and what its runs took."""
    lines = []
    for setting in PAPER_SETTINGS:
        group = setting.select(records)
        for title in VARIANTS.values():
            mine = [record for record in group if record.title == title]
            solved = [record for record in mine if succeeded(record)]
            whole, limits = sum(map(certified, mine)), sum(record.ending == "limit" for record in mine)
            middle = median(map(COST, solved)) if solved else None
            lines.append((setting.title, title, len(solved), whole, len(mine), limits, middle))
    columns = ("Setting", "Variant", "R <= eps", "certified", "problems", "at a limit", "median gradients")
    notes = (
        "R <= eps: line 4 of Algorithm 1, at the last iterate and at the point returned (column succeeded of the "
        "runs). Certified: the scale-free test, too (column claims_success). The median is over the runs with R <= "
        "eps.",
    )
    return Table("Problems solved", columns, tuple(lines), notes)


def overview(records: Sequence[Record], profiles: dict[Setting, Profile]) -> Table:
    """Figure 1 in four lines."""
    lines = []
    for setting, profile in profiles.items():
        cells = []
        for title in VARIANTS.values():
            mine = [record for record in setting.select(records) if record.title == title]
            counts = f"{sum(map(succeeded, mine))}, {sum(map(certified, mine))}"
            cells.append(f"{counts} ({profile.value(title, 1.0):.2f}, {profile.value(title, 5.0):.2f})")
        lines.append((setting.title, *cells))
    note = "Problems with R <= eps, certified in full (rho(1), rho(5))."
    return Table("Figure 1 in numbers", ("Setting", *VARIANTS.values()), tuple(lines), (note,))


def write_figure(records: Sequence[Record], output: Path) -> Iterator[str]:
    """Figure 1 with everything around it."""
    profiles = panels(records)
    saved = plots.save(plots.figure1(profiles), output / "figure1")
    found = [
        overview(records, profiles),
        counts(records),
        tables.profile_values({setting.title: profile for setting, profile in profiles.items()}),
        *_table2(records),
        by_kind(TABLE.select(records), f"Kinds of problems, {TABLE.title}"),
        *(
            tables.pairs(setting.select(records), solved=succeeded, cost=COST, title=f"In pairs, {setting.title}")
            for setting in PAPER_SETTINGS
        ),
        tables.failures(TABLE.select(records), solved=succeeded, title=f"Failures by reason, {TABLE.title}"),
    ]
    write_tables(output / "figure1.md", "Figure 1 and Table 2 of the paper, redone", found, what_was_run(records))
    page = report.write(
        output / "figure1.html",
        report.paper_sections(records, cost=COST),
        title="Figure 1 of the paper, redone",
        tables=_table2(records),
        notes=[what_was_run(records)],
    )
    yield found[0].text()
    yield found[1].text()
    yield found[2].text()
    yield f"Figure: {', '.join(str(path) for path in saved)}"
    yield f"Tables: {output / 'figure1.md'}"
    yield f"Report, with every run: {page}"
    yield f"Runs: {publish(records, output / 'figure1-runs.csv.gz')}"


def _table2(records: Sequence[Record]) -> list[Table]:
    group = TABLE.select(records)
    return [tables.table2(group, solved=succeeded, cost=COST), tables.table2_here(group, solved=succeeded, cost=COST)]


def write_table2(records: Sequence[Record], output: Path) -> Iterator[str]:
    """Table 2 alone."""
    found = _table2(records)
    write_tables(output / "table2.md", "Table 2 of the paper, redone", found, what_was_run(records))
    for table in found:
        yield table.text()
    yield f"Table: {output / 'table2.md'}"


def _table_runs(names: Sequence[str], limits: Limits) -> list[Run]:
    return [run_of(name, variant, TABLE, limits) for name in names for variant in FULL]


#: What each command runs, and what it makes of it.
RUNS: dict[str, Runs] = {
    "fig1": lambda names, limits: all_runs(figure_runs(names, limits).values()),
    "table2": _table_runs,
    "variants": lambda names, limits: all_runs(variant_runs(names, limits).values()),
}
WRITE: dict[str, Write] = {"fig1": write_figure, "table2": write_table2, "variants": write_variants}
