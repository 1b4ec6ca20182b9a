"""Figure 1, Table 2 and the ablation of what the paper leaves open: which runs they need, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from auglag.bench import plots, report, tables
from auglag.bench.export import export
from auglag.bench.profiles import FAILURE_RATIO, Cost, Profile, performance_profile, subproblem_gradients
from auglag.bench.record import Record
from auglag.bench.rendering import Cell, Table
from auglag.bench.setting import PAPER_SETTINGS, VARIANTS, Setting
from auglag.bench.spec import Limits, Run
from auglag.bench.summary import write_tables
from auglag.paper.deterministic import READINGS, TABLE, ablation_runs, all_runs, figure_runs, run_of, succeeded

#: What the paper counts.
COST: Cost = subproblem_gradients
Runs = Callable[[Sequence[str], Limits], list[Run]]
Write = Callable[[Sequence[Record], Path], Iterator[str]]


def panels(records: Sequence[Record]) -> dict[Setting, Profile]:
    """One profile for each setting."""
    chosen = {setting: setting.select(records) for setting in PAPER_SETTINGS}
    return {setting: _profile(group, tuple(VARIANTS.values())) for setting, group in chosen.items()}


def _profile(records: Sequence[Record], solvers: Sequence[str]) -> Profile:
    """The paper's form: ratio 100 for failures."""
    return performance_profile(records, cost=COST, solved=succeeded, solvers=solvers, failure_ratio=FAILURE_RATIO)


def counts(records: Sequence[Record]) -> Table:
    """How many problems each variant solves in each setting, and what its runs took."""
    lines = []
    for setting in PAPER_SETTINGS:
        group = setting.select(records)
        for title in VARIANTS.values():
            mine = [record for record in group if record.title == title]
            solved = [record for record in mine if succeeded(record)]
            limits = sum(record.ending == "limit" for record in mine)
            gradients = sorted(COST(record) for record in solved)
            median = gradients[len(gradients) // 2] if gradients else None
            lines.append((setting.title, title, len(solved), len(mine), limits, median))
    columns = ("Setting", "Variant", "R <= eps", "problems", "at a limit", "median gradients")
    return Table("Problems solved", columns, tuple(lines), ("The median is over the problems the variant solves.",))


def write_figure(records: Sequence[Record], output: Path) -> Iterator[str]:
    """Figure 1 with everything around it."""
    profiles = panels(records)
    saved = plots.save(plots.figure1(profiles), output / "figure1")
    found = [
        counts(records),
        tables.profile_values({setting.title: profile for setting, profile in profiles.items()}),
        *_table2(records),
        *(
            tables.pairs(setting.select(records), solved=succeeded, cost=COST, title=f"In pairs, {setting.title}")
            for setting in PAPER_SETTINGS
        ),
        tables.failures(TABLE.select(records), solved=succeeded, title=f"Failures by reason, {TABLE.title}"),
    ]
    write_tables(output / "figure1.md", "Figure 1 and Table 2 of the paper, redone", found, _limits(records))
    page = report.write(
        output / "figure1.html",
        report.paper_sections(records, cost=COST),
        title="Figure 1 of the paper, redone",
        tables=_table2(records),
        notes=[_limits(records)],
    )
    yield found[0].text()
    yield found[1].text()
    yield f"Figure: {', '.join(str(path) for path in saved)}"
    yield f"Tables: {output / 'figure1.md'}"
    yield f"Report, with every run: {page}"
    yield f"Runs: {export(records, output / 'figure1-runs.csv.gz')}"


def _table2(records: Sequence[Record]) -> list[Table]:
    group = TABLE.select(records)
    return [tables.table2(group, solved=succeeded, cost=COST), tables.table2_here(group, solved=succeeded, cost=COST)]


def write_table2(records: Sequence[Record], output: Path) -> Iterator[str]:
    """Table 2 alone."""
    found = _table2(records)
    write_tables(output / "table2.md", "Table 2 of the paper, redone", found, _limits(records))
    for table in found:
        yield table.text()
    yield f"Table: {output / 'table2.md'}"


def write_ablation(records: Sequence[Record], output: Path) -> Iterator[str]:
    """How the two Full variants depend on what the paper does not print."""
    lines: list[tuple[Cell, ...]] = []
    details = []
    for reading in READINGS:
        group = [record for record in records if reading.made(record.run)]
        solved = {title: [r for r in group if r.title == title and succeeded(r)] for title in _FULL}
        profile = _profile(group, _FULL)
        row = [len(solved[title]) for title in _FULL]
        at = [profile.value(title, alpha) for alpha in (1.0, 5.0, 99.0) for title in _FULL]
        only = tables.table2_here(group, solved=succeeded, cost=COST, title=f"Only Adaptive: {reading.title}")
        lines.append((reading.title, *row, *at))
        details.append(only)
        details.append(tables.table2(group, solved=succeeded, cost=COST, title=f"The paper's rows: {reading.title}"))
    columns = ["Inner solves", *(f"{title}: R <= eps" for title in _FULL)]
    columns += [f"{title} rho({alpha})" for alpha in (1, 5, 99) for title in _FULL]
    main = Table(f"What the paper leaves open, {TABLE.title}", tuple(columns), tuple(lines), digits=3)
    path = output / "ablation.md"
    write_tables(path, "Inner tolerances and SciPy's own stopping test", [main, *details], _limits(records))
    yield main.text()
    yield f"Tables: {path}"
    yield f"Runs: {export(records, output / 'ablation-runs.csv.gz')}"


def _limits(records: Sequence[Record]) -> str:
    """What was run, in a sentence."""
    limits = {record.run.limits for record in records}
    words = "; ".join(f"{limit.gradients} gradients and {limit.seconds:g} CPU seconds" for limit in limits)
    names = {record.run.problem for record in records}
    machine = ", ".join(sorted({r.environment["machine"] for r in records if "machine" in r.environment}))
    cpu = sum(record.cpu for record in records)
    return (
        f"{len(records)} runs on {len(names)} problems, at most {words} each; {cpu / 60:.0f} minutes of CPU time in "
        f"solvers ({machine}).\n"
    )


_FULL = ("Adaptive-Full", "Always-Full")


def _table_runs(names: Sequence[str], limits: Limits) -> list[Run]:
    return [run_of(name, variant, TABLE, limits) for name in names for variant in ("adaptive-full", "always-full")]


#: What each command runs, and what it makes of it.
RUNS: dict[str, Runs] = {
    "fig1": lambda names, limits: all_runs(figure_runs(names, limits).values()),
    "table2": _table_runs,
    "ablation": lambda names, limits: all_runs(ablation_runs(names, limits).values()),
}
WRITE: dict[str, Write] = {"fig1": write_figure, "table2": write_table2, "ablation": write_ablation}
