"""CUTEst problems outside the paper's list: other sizes, no constraints, no objective. Solved counts beside IPOPT.

    python benchmarks/held_out.py                    # all four sets; writes results/held_out.md and .csv
    python benchmarks/held_out.py --set sizes        # one of sizes, large, unconstrained, equations
    python benchmarks/held_out.py --every 5          # a fifth of each

The paper's 472 problems are S2MPJ's with default parameters, mostly small. The sets here are

- sizes: the same problems with the largest parameters S2MPJ lists that keep 100 <= n + m < 1,000;
- large: likewise with 1,000 <= n + m < 6,000;
- unconstrained: all of S2MPJ's with an objective, n < 1,000, and no rows (bounds or nothing);
- equations: all of S2MPJ's without an objective, n + m < 1,000: systems of equations and inequalities, many with more
  rows than variables, and some without a solution.

One judge, 20 CPU seconds and 20,000 gradients each. Interrupted, it resumes.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from auglag.bench.record import TOLERANCES, Record
from auglag.bench.runner import run_all
from auglag.bench.spec import Limits, Run
from auglag.bench.store import Store
from auglag.problems.cutest import select, table

RESULTS = Path(__file__).parent / "results"
LIMITS = Limits(gradients=20_000, seconds=20.0, wall=600.0)
SOLVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "auglag": ("auglag", {"tol": 1e-8, "derivatives": 2}),
    "auglag, first derivatives": ("auglag", {"tol": 1e-8, "derivatives": 1}),
    "IPOPT": ("ipopt", {}),
    "IPOPT, limited memory": ("ipopt-lm", {}),
}
BANDS = {"sizes": (100, 1_000), "large": (1_000, 6_000)}


def problems(name: str) -> Iterator[tuple[str, list[float] | None]]:
    """Names and parameters of a set."""
    if name == "unconstrained":
        yield from ((problem, None) for problem in select(constrained=False))
    elif name == "equations":
        yield from ((problem, None) for problem in select(constrained=True, objective=False))
    else:
        low, high = BANDS[name]
        for entry in table().values():
            if not (entry.m and entry.objective and entry.continuous):
                continue
            others = [size for size in entry.sizes if low <= size.n + size.m < high and size.n != entry.n]
            if others:
                yield entry.name, list(max(others, key=lambda size: size.n + size.m).params)


def row(name: str, label: str, records: list[Record]) -> dict[str, Any]:
    """One row of the table."""
    solved = [record.gradients for record in records if record.solved(1e-6)]
    return {
        "set": name,
        "solver": label,
        "problems": len(records),
        **{f"solved at {tol:.0e}": sum(record.solved(tol) for record in records) for tol in TOLERANCES},
        "median gradients": statistics.median(solved) if solved else "",
        "claims success without": sum(record.claims_success and not record.solved(1e-6) for record in records),
        "CPU seconds": round(sum(record.cpu for record in records)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=[*BANDS, "unconstrained", "equations"], action="append")
    parser.add_argument("--solver", choices=list(SOLVERS), action="append")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    store = Store(arguments.output / "held_out.sqlite")
    rows, failures = [], []
    for name in arguments.set or [*BANDS, "unconstrained", "equations"]:
        chosen = list(problems(name))[:: arguments.every]
        for label in arguments.solver or list(SOLVERS):
            solver, options = SOLVERS[label]
            runs = [Run(problem, solver, options, LIMITS, label=label, params=params) for problem, params in chosen]
            records = run_all(runs, store, workers=arguments.workers)
            rows.append(row(name, label, records))
            unsolved = ", ".join(record.run.problem for record in records if not record.solved(1e-6))
            failures.append(f"- {name}, {label}: {unsolved or 'none'}")
            print(rows[-1], flush=True)
    with (arguments.output / "held_out.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    lines = ["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    lines += ["| " + " | ".join(str(value) for value in entry.values()) + " |" for entry in rows]
    text = "\n".join(["# Problems outside the list", "", *lines, "", "Not solved at 1e-6:", "", *failures, ""])
    (arguments.output / "held_out.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
