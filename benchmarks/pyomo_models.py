"""Models written in Pyomo, solved by auglag and by IPOPT: how each ends, objective, duals, iterations, time.

    python benchmarks/pyomo_models.py --output benchmarks/results/pyomo_models.md

Pyomo writes a `.nl` file; auglag reads it with its own reader and solves with its defaults (tol = 1e-6); IPOPT (of
CasADi's wheel, with Hessians) solves the same file, read and differentiated by CasADi: with its defaults (tol = 1e-8)
for iterations and time, and at 1e-9 for the objective and the duals to compare with. Times are CPU seconds, the best
of three, of the solvers alone, without the start of a process, on the machine at hand: compare them with each other
only. The exit status is 1 if an end, an objective (1e-5) or duals (1e-4, where they are unique) disagree.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np

import auglag
from auglag.ampl import answer
from auglag.problems.nl import load
from helpers.pyomo_models import MODELS, ipopt

ENDS = {"optimal": "Solve_Succeeded", "infeasible": "Infeasible_Problem_Detected", "unbounded": "Diverging_Iterates"}
TIMES = 3
STATUSES = {"optimal": "SOLVED", "infeasible": "INFEASIBLE", "unbounded": "UNBOUNDED"}
COLUMNS = (
    "| model | n | m | auglag | IPOPT | objective | IPOPT's | duals differ by "
    "| outer | inner | IPOPT's iterations | gradients | CPU s | IPOPT's |"
)


def row(name: str, folder: Path) -> tuple[str, bool]:
    case, path = MODELS[name], folder / f"{name}.nl"
    case.build().write(str(path))
    problem = load(path)
    seconds = []
    for _ in range(TIMES):
        fresh, started = load(path), time.process_time()
        result = auglag.minimize(fresh)
        seconds.append(time.process_time() - started)
    timed = [ipopt(path, maximise=problem.maximise, tol=1e-8) for _ in range(TIMES)]
    ours, theirs = answer(problem, result), ipopt(path, maximise=problem.maximise)
    objective = -result.fun if problem.maximise else result.fun
    agrees = result.status.name == STATUSES[case.ends] and {theirs.status, timed[0].status} == {ENDS[case.ends]}
    values = ["", "", ""]
    if case.ends == "optimal":
        difference = float(np.max(np.abs(ours.duals - theirs.duals), initial=0.0))
        scale = 1.0 + float(np.max(np.abs(ours.duals), initial=0.0))
        agrees &= abs(objective - theirs.objective) <= 1e-5 * (1 + abs(objective))
        agrees &= not case.duals or difference <= 1e-4 * scale
        shown = f"{difference:.0e}" if case.duals else "not unique"
        values = [f"{objective + 0.0:.8g}", f"{theirs.objective + 0.0:.8g}", shown]
    cells = [name, problem.n, problem.m, result.status.name, timed[0].status, *values]
    cells += [result.nit, result.nit_inner, timed[0].iterations, result.njev]
    cells += [f"{min(seconds):.3f}", f"{min(run.seconds for run in timed):.3f}"]
    return "| " + " | ".join(map(str, cells)) + " |", agrees


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="a Markdown file for the table")
    given = parser.parse_args()
    lines = [COLUMNS, "|" + "---|" * 14]
    agreed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            line, agrees = row(name, Path(folder))
            agreed += agrees
            lines.append(line)
            print(line if agrees else f"{line} <- disagrees", flush=True)
    last = f"{agreed} of {len(MODELS)} models end as with IPOPT, with its objective and its duals."
    print(last)
    if given.output:
        title = (
            "# Pyomo models against IPOPT\n\n`python benchmarks/pyomo_models.py`; both with their defaults (IPOPT's "
        )
        title += "objectives and duals from a second run at tol = 1e-9). CPU seconds are the best of three.\n"
        given.output.write_text("\n".join([title, *lines, "", last, ""]), encoding="utf-8")
    return int(agreed < len(MODELS))


if __name__ == "__main__":
    sys.exit(main())
