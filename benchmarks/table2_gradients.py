"""The problems of the paper's Table 2: gradients until R <= 1e-3, beside the paper's own and other solvers'.

    python benchmarks/table2_gradients.py          # writes results/table2_gradients.md

The paper's numbers are those it prints; the preset "paper" is its algorithm as it stands here. Every other number is
measured: points at which a gradient was asked for, with the solver's tolerance at 1e-3, by `auglag.bench`; a number in
brackets means that the judge does not accept the point at 1e-3.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

from auglag.bench import baselines
from auglag.bench.profiles import subproblem_gradients
from auglag.bench.runner import run_all
from auglag.bench.spec import Limits, Run
from auglag.bench.store import Store
from auglag.bench.tables import PAPER_ROWS
from auglag.problems import cutest

RESULTS = Path(__file__).parent / "results"
TOL = 1e-3
PAPER = {"preset": "paper", "derivatives": 1, "variant": "adaptive-full", "tol": TOL, "gamma": 1.5, "tau": 0.8}
COLUMNS = {
    "auglag": ("auglag", {"tol": TOL}),
    "auglag, first derivatives": ("auglag", {"tol": TOL, "derivatives": 1}),
    'auglag, preset "paper"': ("auglag", PAPER),
    "IPOPT": ("ipopt", {"tol": TOL}),
    "Uno": ("uno", {"tol": TOL, "stationarity": TOL, "violation": TOL, "complementarity": TOL}),
    "SLSQP": ("slsqp", {}),
}


def main():
    there = {title: run for title, run in COLUMNS.items() if not baselines.get(run[0]).unavailable()}
    known = set(cutest.table())
    names = [row.problem for row in PAPER_ROWS if row.problem in known]
    runs = [
        Run(name, solver, options, Limits(), label=title)
        for name in names
        for title, (solver, options) in there.items()
    ]
    with TemporaryDirectory() as folder:
        records = run_all(runs, Store(Path(folder) / "runs.sqlite"), workers=1)
    found = {(record.run.problem, record.run.label): record for record in records}
    lines = [
        "# The paper's Table 2: gradients until 1e-3",
        "",
        "Redo with `python benchmarks/table2_gradients.py`, which says what is counted.",
        "",
        "| problem | paper, Adaptive-Full | paper, Always-Full | " + " | ".join(there) + " |",
        "|---" * (3 + len(there)) + "|",
    ]
    counts = {title: [] for title in there}
    for row in PAPER_ROWS:
        cells = []
        for title in there:
            record = found.get((row.problem, title))
            if record is None:
                cells.append("")
                continue
            gradients = int(subproblem_gradients(record)) if "paper" in title else record.gradients
            counts[title].append(gradients)
            cells.append(f"{gradients}" if record.solved(TOL) else f"({gradients})")
        lines.append(
            f"| {row.problem} | {row.adaptive_gradients} | fails after {row.always_gradients} | "
            + " | ".join(cells)
            + " |"
        )
    paper = statistics.median(row.adaptive_gradients for row in PAPER_ROWS)
    medians = " | ".join(f"{statistics.median(values):.0f}" for values in counts.values())
    lines += [f"| median | {paper:.0f} | | {medians} |", ""]
    lines += (
        ["S2MPJ has no BROWNALE with constraints, so that it is missing here."] if len(names) < len(PAPER_ROWS) else []
    )
    lines += [
        "",
        "Of LANCELOT 11 to 68 gradients on these problems are known to us, of ALGENCAN 4.0 a median of 47 on all",
        "constrained problems of CUTEst (to 1e-6); neither was run here.",
    ]
    (RESULTS / "table2_gradients.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
