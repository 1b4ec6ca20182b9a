"""Always-Full against Adaptive-Full under every reading of what the paper leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from auglag.bench import plots, tables
from auglag.bench.comparison import compare
from auglag.bench.export import export
from auglag.bench.profiles import FAILURE_RATIO, Cost, Profile, gradients, performance_profile, subproblem_gradients
from auglag.bench.record import Record
from auglag.bench.rendering import Cell, Table
from auglag.bench.setting import VARIANTS
from auglag.bench.summary import write_tables
from auglag.paper.deterministic import FULL, READINGS, TABLE, Reading, succeeded

#: What the paper counts.
COST: Cost = subproblem_gradients
_TITLES = tuple(VARIANTS[variant] for variant in FULL)


def with_test(record: Record) -> float:
    """As `COST`, with one gradient more in each outer iteration: line 4 evaluated on its own."""
    return COST(record) + len(record.history or ())


#: Other ways to count the gradients of the same runs.
COSTS: dict[str, Cost] = {
    "gradients that SciPy counts": COST,
    "and one for each stopping test": with_test,
    "points with new derivatives of f or c": gradients,
}


def profile_of(records: Sequence[Record], solvers: Sequence[str], cost: Cost = COST) -> Profile:
    """The paper's form: ratio 100 for failures."""
    return performance_profile(records, cost=cost, solved=succeeded, solvers=solvers, failure_ratio=FAILURE_RATIO)


def made_with(records: Sequence[Record]) -> dict[Reading, list[Record]]:
    """Reading -> its records."""
    return {reading: [r for r in records if reading.made(r.run)] for reading in READINGS}


def profiles(records: Sequence[Record]) -> dict[str, Profile]:
    """A profile of the two variants for each reading."""
    return {reading.tex: profile_of(group, _TITLES) for reading, group in made_with(records).items()}


def write_variants(records: Sequence[Record], output: Path) -> Iterator[str]:
    """The two Full variants under every reading: tables, profiles, and one row per run."""
    groups = made_with(records)
    main = _table(
        f"Readings, {TABLE.title}", {reading.title: (group, COST) for reading, group in groups.items()}, "Reading"
    )
    first = groups[READINGS[0]]
    counted = _table("Ways to count, as in Figure 1", {name: (first, cost) for name, cost in COSTS.items()}, "Count")
    details = [
        tables.table2(group, solved=succeeded, cost=COST, title=f"The paper's rows: {reading.title}")
        for reading, group in groups.items()
    ]
    only = [
        tables.table2_here(group, solved=succeeded, cost=COST, title=f"Only Adaptive-Full: {reading.title}")
        for reading, group in groups.items()
    ]
    path = output / "variants.md"
    write_tables(path, "Readings of the paper: all tables", [main, counted, *only, *details], what_was_run(records))
    saved = plots.save(plots.panels(profiles(records)), output / "variants")
    yield main.text()
    yield counted.text()
    yield f"Profiles: {', '.join(map(str, saved))}"
    yield f"Tables: {path}"
    yield f"Runs: {export(records, output / 'variants-runs.csv.gz')}"


def _table(title: str, groups: dict[str, tuple[list[Record], Cost]], head: str) -> Table:
    """One line for each group: who solves how many, the profiles, and the two side by side."""
    lines: list[tuple[Cell, ...]] = []
    for name, (group, cost) in groups.items():
        profile = profile_of(group, _TITLES, cost)
        pair = compare(group, *_TITLES, cost=cost, solved=succeeded)
        solved = [len(pair.both) + len(only) for only in (pair.only_a, pair.only_b)]
        values = [profile.value(title, alpha) for alpha in (1.0, 5.0, 99.0) for title in _TITLES]
        ahead = "Adaptive" if pair.wins_a > pair.wins_b else "Always" if pair.wins_b > pair.wins_a else "neither"
        only = (len(pair.only_a), len(pair.only_b))
        lines.append((name, *solved, *only, *values, pair.median_ratio, pair.wins_a, pair.wins_b, ahead, pair.p_value))
    columns = [head, "Adaptive solves", "Always solves", "only Adaptive", "only Always"]
    columns += [f"{who} rho({alpha})" for alpha in (1, 5, 99) for who in ("Adaptive", "Always")]
    columns += ["median ratio", "Adaptive wins", "Always wins", "ahead", "p"]
    notes = (
        "Adaptive and Always: Adaptive-Full and Always-Full. Median ratio: gradients of Adaptive over those of Always "
        "where both succeed. A win: the only one to succeed, or both and fewer gradients.",
        "p: exact two-sided sign test on the wins.",
    )
    return Table(title, tuple(columns), tuple(lines), notes, digits=3)


def what_was_run(records: Sequence[Record]) -> str:
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
