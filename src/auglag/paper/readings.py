"""Always-Full against Adaptive-Full under every reading of what the paper leaves open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from auglag.bench import plots, tables
from auglag.bench.comparison import compare
from auglag.bench.profiles import FAILURE_RATIO, Cost, Profile, gradients, performance_profile, subproblem_gradients
from auglag.bench.record import Record
from auglag.bench.rendering import Cell, Table
from auglag.bench.setting import VARIANTS
from auglag.bench.summary import write_tables
from auglag.paper.deterministic import FULL, READINGS, TABLE, Reading, certified, publish, succeeded
from auglag.problems import cutest
from auglag.problems.cutest.catalogue import Entry

#: What the paper counts.
COST: Cost = subproblem_gradients
_TITLES = tuple(VARIANTS[variant] for variant in FULL)
_NAMES = ("Adaptive", "Always")


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
    kinds = [by_kind(group, f"Kinds of problems: {reading.title}") for reading, group in groups.items()]
    found = [main, counted, *kinds, *only, *details]
    path = output / "variants.md"
    write_tables(path, "Readings of the paper: all tables", found, what_was_run(records))
    saved = plots.save(plots.panels(profiles(records)), output / "variants")
    yield main.text()
    yield counted.text()
    yield f"Profiles: {', '.join(map(str, saved))}"
    yield f"Tables: {path}"
    yield f"Runs: {publish(records, output / 'variants-runs.csv.gz')}"


#: Kinds of problems, by the table of CUTEst.
KINDS: dict[str, Callable[[Entry], bool]] = {
    "equations only": lambda p: p.equalities == p.m,
    "with inequalities": lambda p: p.equalities < p.m,
    "linear rows only": lambda p: p.linear == p.m,
    "with nonlinear rows": lambda p: p.linear < p.m,
    "no more than 10 variables and rows": lambda p: p.n + p.m <= 10,
    "11 to 100": lambda p: 10 < p.n + p.m <= 100,
    "more than 100": lambda p: p.n + p.m > 100,
}


def by_kind(records: Sequence[Record], title: str) -> Table:
    """The two Full variants on each kind of problems; `records` are those of one setting and one reading."""
    held, known = [r for r in records if r.title in _TITLES], cutest.table()
    groups = {name: [r for r in held if kind(known[r.run.problem])] for name, kind in KINDS.items()}
    return _table(title, {name: (group, COST) for name, group in groups.items() if group}, "Problems")


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
        count = len({record.run.problem for record in group})
        wins = (pair.median_ratio, pair.wins_a, pair.wins_b, ahead, pair.p_value)
        whole = [sum(certified(record) for record in group if record.title == title) for title in _TITLES]
        lines.append((name, count, *solved, *whole, *only, *values, *wins, *_where_both(group, pair.both)))
    columns = [head, "problems", *(f"{who} {what}" for what in ("solves", "certified") for who in _NAMES)]
    columns += [f"only {who}" for who in _NAMES]
    columns += [f"{who} rho({alpha})" for alpha in (1, 5, 99) for who in _NAMES]
    columns += ["median ratio", "Adaptive wins", "Always wins", "ahead", "p"]
    columns += [f"{who} {what}" for what in ("last beta", "outer iterations") for who in _NAMES]
    notes = (
        "Adaptive and Always: Adaptive-Full and Always-Full. Solves: R <= eps, as line 4 of Algorithm 1 asks. "
        "Certified: the whole certificate, the scale-free test included. Median ratio: gradients of Adaptive over "
        "those of Always where both succeed. A win: the only one to succeed, or both and fewer gradients.",
        "p: exact two-sided sign test on the wins. Last betas and outer iterations: medians where both succeed.",
    )
    return Table(title, tuple(columns), tuple(lines), notes, digits=3)


def _where_both(group: Sequence[Record], both: Sequence[str]) -> list[Cell]:
    """Median last penalties and outer iterations of the two variants where both succeed."""
    held = [[r for r in group if r.title == title and r.run.problem in both] for title in _TITLES]
    betas = [[beta for r in records if (beta := tables.last_beta(r)) is not None] for records in held]
    outer = [[float(len(r.history or ())) for r in records] for records in held]
    return [median(values) if values else None for values in (*betas, *outer)]


def what_was_run(records: Sequence[Record]) -> str:
    """What was run, in a sentence."""
    limits = {record.run.limits for record in records}
    words = "; ".join(f"{limit.gradients} gradients and {limit.seconds:g} CPU seconds" for limit in limits)
    names = {record.run.problem for record in records}
    machine = ", ".join(sorted({r.environment["machine"] for r in records if "machine" in r.environment}))
    cpu = sum(record.cpu for record in records)
    return (
        f"{len(records)} runs on {len(names)} problems, at most {words} each; {cpu / 60:.1f} minutes of CPU time in "
        f"solvers ({machine}).\n"
    )
