"""CUTEst problems at the largest sizes S2MPJ lists, n + m >= 1,000: auglag beside IPOPT, with and without Hessians.

    python benchmarks/cutest_large.py runs.sqlite                # all; goes on where it was interrupted
    python benchmarks/cutest_large.py runs.sqlite --every 6      # every sixth problem of the table, by name
    python benchmarks/cutest_large.py runs.sqlite --table        # writes results/cutest_large.md from what is there

Problems with rows or bounds or neither, with an objective, continuous. One judge for all: solved means a violation and
a stationarity, relative to max(1, |grad f|), of at most 1e-6 with the best multipliers. 10 CPU seconds, unless
`--seconds` says otherwise, and 4 GiB each.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from auglag.bench.record import Ending, Record
from auglag.bench.runner import Progress, run_all, stored
from auglag.bench.spec import Limits, Run
from auglag.bench.store import Store
from auglag.problems.cutest import table

RESULTS = Path(__file__).parent / "results"
LEAST = 1_000  #: n + m
TOL = 1e-6
SECONDS = 10.0  #: of CPU for a run, unless --seconds says otherwise
WALL = 40.0  #: times that by the clock, after which a process is ended: S2MPJ may take long, and machines are busy
SOLVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "auglag": ("auglag", {"tol": TOL, "derivatives": 2}),
    "IPOPT": ("ipopt", {"tol": 1e-8}),
    "auglag, first derivatives": ("auglag", {"tol": TOL, "derivatives": 1}),
    "IPOPT, limited memory": ("ipopt-lm", {"tol": 1e-8}),
}


def problems() -> Iterator[tuple[str, list[float] | None]]:
    """Names and parameters, in the order of their names."""
    for entry in sorted(table().values(), key=lambda entry: entry.name.upper()):
        if not (entry.objective and entry.continuous):
            continue
        listed = max(entry.sizes, key=lambda size: size.n + size.m, default=None)
        if listed is not None and listed.n + listed.m >= max(LEAST, entry.n + entry.m):
            yield entry.name, list(listed.params)
        elif entry.n + entry.m >= LEAST:
            yield entry.name, None


def runs(every: int, limit: float) -> list[Run]:
    """Every solver on every problem of the sample."""
    limits = Limits(gradients=20_000, seconds=limit, wall=WALL * limit, memory=4096.0)
    return [
        Run(name, solver, options, limits, label=label, params=params)
        for label, (solver, options) in SOLVERS.items()
        for name, params in list(problems())[::every]
    ]


def seconds(record: Record) -> float:
    """CPU seconds; the limit for what was killed."""
    limit = record.run.limits.seconds
    return min(record.cpu, limit) if record.cpu > 0.0 else limit


def mean(values: list[float], shift: float = 0.1) -> float:
    """The shifted geometric mean."""
    return math.exp(statistics.mean(math.log(value + shift) for value in values)) - shift


def written(records: list[Record], every: int, limit: float, solvers: list[str]) -> str:
    """The page."""
    by_problem: dict[str, dict[str, Record]] = {}
    for record in records:
        by_problem.setdefault(record.run.problem, {})[record.title] = record
    late = [name for name, row in by_problem.items() if all(map(is_late, row.values()))]
    whole = {name: row for name, row in by_problem.items() if len(row) == len(solvers) and name not in late}
    sample = "all of them" if every == 1 else f"every {every}{'rd' if every == 3 else 'th'} by name"
    lines = [
        "# CUTEst at large sizes",
        "",
        f"`python benchmarks/cutest_large.py runs.sqlite --every {every}`, then `--table`: S2MPJ's continuous problems",
        f"with an objective, at the largest size listed, n + m >= {LEAST:,}: {len(list(problems()))} problems, of",
        f"these {sample}, as far as all solvers here were run: {len(whole)}. Solved: violation and relative",
        f"stationarity at most {TOL:g} for one judge. CPU seconds of the solver, {limit:g} at most; means are",
        "shifted geometric (0.1 s), failures count as the limit.",
        *_left_out(late, WALL * limit),
        "",
        "| solver | solved | CPU s in all | mean s |",
        "|---|---|---|---|",
    ]
    for label in solvers:
        own = [row[label] for row in whole.values()]
        times = [seconds(record) for record in own]
        counted = [s if r.solved(TOL) else limit for s, r in zip(times, own, strict=True)]
        solved = sum(record.solved(TOL) for record in own)
        lines.append(f"| {label} | {solved} of {len(own)} | {sum(times):.0f} | {mean(counted):.2f} |")
    lines += ["", "CPU seconds; in brackets where the point is not a solution.", ""]
    lines += ["| problem | n | m | " + " | ".join(solvers) + " |", "|---" * (3 + len(solvers)) + "|"]
    for name, row in whole.items():
        n, m = max((record.n, record.m) for record in row.values())
        lines.append(f"| {name} | {n} | {m} | " + " | ".join(_cell(row[label]) for label in solvers) + " |")
    return "\n".join(lines) + "\n"


def _left_out(late: list[str], wall: float) -> list[str]:
    """What is said of problems without a result."""
    if not late:
        return []
    names = ", ".join(late)
    return [
        "",
        f"Left out, since no process had a result after {wall:g} s by the clock, in which S2MPJ makes the problem:",
        f"{names}.",
    ]


def _cell(record: Record) -> str:
    text = f"{seconds(record):.2f}"
    return text if record.solved(TOL) else f"({text})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--solver", choices=list(SOLVERS), action="append")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    store, wanted = Store(arguments.store), runs(arguments.every, arguments.seconds)
    if arguments.table:
        known = store.keys()
        solvers = arguments.solver or list(SOLVERS)
        there = stored([run for run in wanted if run.key in known and run.title in solvers], store)
        text = written(there, arguments.every, arguments.seconds, solvers)
        (RESULTS / "cutest_large.md").write_text(text, encoding="utf-8")
        print(text)
        return
    late = {record.run.problem for record in store.records() if is_late(record)}
    wanted = [run for run in wanted if run.problem not in late]  # a problem takes the same time to be made again
    chosen = [run for run in wanted if not arguments.solver or run.title in arguments.solver]
    run_all(chosen, store, watch=shown)


def is_late(record: Record) -> bool:
    """Whether the run was killed before it had a result; most often S2MPJ was still making the problem."""
    return record.ending == Ending.TIMEOUT


def shown(progress: Progress) -> None:
    """A line for each run."""
    record = progress.record
    print(
        f"{record.run.problem:12s} {record.title:26s} {record.ending:9s} {record.cpu:7.2f} s",
        record.solved(TOL),
        flush=True,
    )


if __name__ == "__main__":
    main()
