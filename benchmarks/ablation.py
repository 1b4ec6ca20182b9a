"""What each part of the strategy buys: parts switched off one by one, and twelve constants varied each way.

    python benchmarks/ablation.py              # about 30 CPU minutes; resumes; writes results/ablation.md and .csv
    python benchmarks/ablation.py --only "no restarts" "no interior points"
    python benchmarks/ablation.py --quick      # eight problems; writes results/ablation-quick.md

100 problems: the 50 CUTEst problems of the paper's list that take most gradients and are solved by the default
settings (easy ones need no strategy; and since all are solved, none can be won), and 5 of each family of
`degenerate.py`. Tolerance 1e-8, Hessians given, at most 600 gradients. A part is worth keeping if problems are lost
without it, or the others take more gradients. Constants are varied tenfold where that makes sense. A file of runs
belongs to one state of the code: remove it after a change.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import csv
import json
import math
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from degenerate import FAMILIES, problem_of

import auglag
from auglag import SQP, Adaptive, FromScale
from auglag.bench.counted import CountedProblem
from auglag.bench.spec import Limits
from auglag.inner import tuning as inner_tuning
from auglag.interior import tuning as interior_tuning
from auglag.kkt import tuning as kkt_tuning
from auglag.problems import cutest
from auglag.strategy import tuning as strategy_tuning
from auglag.strategy.tuning import STARTS, Patience

RESULTS = Path(__file__).parent / "results"
GRADIENTS = 600
ROOMS = {"strategy": strategy_tuning, "inner": inner_tuning, "interior": interior_tuning, "kkt": kkt_tuning}
HARDEST = [
    "ALLINITA",
    "SPIRAL",
    "MSS1",
    "ACOPR30",
    "ALLINITC",
    "HS13",
    "KISSING",
    "KISSING2",
    "CRESC4",
    "ACOPR14",
    "YORKNET",
    "ORTHRDS2",
    "CmRELOAD",
    "CRESC50",
    "HIMMELBJ",
    "HADAMARD",
    "LEWISPOL",
    "HS103",
    "AGG",
    "ERRINBAR",
    "TENBARS4",
    "HS101",
    "TRO6X2",
    "TENBARS2",
    "COSHFUN",
    "TENBARS1",
    "HS99EXP",
    "LAKES",
    "QPCBLEND",
    "LUKVLE4",
    "LUKVLI4",
    "ORTHREGA",
    "TRO4X4",
    "DISC2",
    "TRO3X3",
    "ZAMB2m9",
    "HS102",
    "ORTHRGDM",
    "POLAK5",
    "CLNLBEAM",
    "DEMBO7",
    "HS72",
    "HS89",
    "BIGGSC4",
    "HATFLDH",
    "HS92",
    "HS68",
    "DRUGDIS",
    "DALLASS",
    "HS116",
]


def options(**changes):
    """A change of the arguments of `minimize`."""
    return {"options": changes}


def tuned(room="strategy", **changes):
    """A change of the constants of a room."""
    return {"room": room, "changes": changes}


def without(index):
    """The starts but one."""
    return tuned(starts=tuple(start for k, start in enumerate(STARTS) if k != index))


PARTS = {
    "default": {},
    # parts of the plan
    "no Newton's method (Algorithm 1 with inner='qp' alone)": options(acceleration=False, inner="qp"),
    "no interior points": options(acceleration=SQP(barrier=None)),
    "no restoration": options(restoration=False),
    "no suspicion of infeasibility before the run is stuck": tuned(suspicions=()),
    "no look for an endless fall": tuned("inner", unbounded=1e300),
    "no restarts": options(restarts=0),
    **{f"no start from {start.name}": without(k) for k, start in enumerate(STARTS)},
    "no scaling": options(scaling=False),
    "no presolve": options(presolve=False),
    "no call of Newton's method after two failures": tuned(newton_progress=0.0, newton_period=10**9),
    "Newton's candidates never adopted": tuned(adopted_error=0.0),
    "no points kept far from tol": tuned(kept_error=0.0),
    "no aim below tol": tuned(newton_aim=1.0),
    "no steps without the proximal term, no second look": tuned(newton_close=0.0),
    "no second look at sudden steps": tuned(newton_leap=math.inf),
    "no softer model for sudden multipliers": tuned(newton_sudden=math.inf),
    "no proximal term in the model": tuned("kkt", prox=0.0),
}
REMARKS = """
ACOPR14, ALLINITA, LEWISPOL and MSS1 are lost by many changes: their paths are long, and every change makes another
one.

Parts without which none of these problems is lost stay for other reasons. Restoration, the suspicion before it and
the look for an endless fall give the verdicts INFEASIBLE and UNBOUNDED, and all problems here have solutions. The
starts from the least violated point and with a larger penalty solve SINROSNB, SPINOP, LUKVLE18, LUKVLI4C and S365
with more gradients than are allowed here (docs/results/solvers). The last random start is one of the two that stand
between a local minimum of the violation and the claim INFEASIBLE. The second look at sudden steps solves ACOPR14 with
first derivatives. Presolve serves degenerate models and the message that names rows which exclude each other. The aim
below tol and the points kept far from tol make what is returned better, not the number of problems solved.
""".strip().splitlines()
CONSTANTS = {
    "first penalty, highest (100)": [options(penalty=Adaptive(initial=FromScale(highest=v))) for v in (10.0, 1000.0)],
    "gamma (10)": [options(penalty=Adaptive(gamma=v)) for v in (2.0, 100.0)],
    "tau (0.25)": [options(penalty=Adaptive(tau=v)) for v in (0.025, 0.9)],
    "SQP.penalty (1e8)": [options(acceleration=SQP(penalty=v)) for v in (1e7, 1e9)],
    "newton_aim (4e-3)": [tuned(newton_aim=v) for v in (4e-4, 4e-2)],
    "adopted_error (1e-2)": [tuned(adopted_error=v) for v in (1e-3, 1e-1)],
    "interior_error (1e-5)": [tuned(interior_error=v) for v in (1e-6, 1e-4)],
    "patience, inner iterations (60)": [tuned(patience_exact=Patience(2, v)) for v in (6, 600)],
    "patience, failures (2)": [tuned(patience_exact=Patience(v, 60)) for v in (1, 20)],
    "effort (750 / 250 / 1000)": [
        tuned(effort_first=75, effort_other=25, effort_last=100),
        tuned(effort_first=7500, effort_other=2500, effort_last=10_000),
    ],
    "near_residual (1e-3)": [tuned(near_residual=v) for v in (1e-4, 1e-2)],
    "first mu (0.1)": [tuned("interior", first_mu=v) for v in (0.01, 1.0)],
}
CASES = PARTS | {
    f"{name} {sign}": change
    for name, changes in CONSTANTS.items()
    for sign, change in zip(("smaller", "larger"), changes, strict=True)
}


def problems(quick):
    for name in HARDEST[:: 10 if quick else 1]:
        yield name, lambda name=name: cutest.load(name)
    for family in FAMILIES:
        for seed in range(5):
            if not quick or (seed == 0 and family.startswith("c")):
                yield f"{family} {seed}", lambda f=family, s=seed: problem_of(f, s)


def solved(problem, case):
    """One run: whether it is solved, gradients, CPU seconds."""
    counted = CountedProblem(problem, Limits(gradients=GRADIENTS, seconds=60.0))
    room = ROOMS[case.get("room", "strategy")]
    usual, began = room.TUNING, time.process_time()
    room.TUNING = replace(usual, **case.get("changes", {}))
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = auglag.minimize(counted, tol=1e-8, check_derivatives=False, **case.get("options", {}))
    finally:
        room.TUNING = usual
    return {
        "status": result.status.name,
        "gradients": counted.gradients,
        "cpu": time.process_time() - began,
        "fun": result.fun,
    }


def read(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(line["case"], line["problem"]): line for line in lines}


def table(runs):
    """Markdown: problems solved, lost and won against the default, and the ratio of gradients where both solve."""
    names = [problem for case, problem in runs if case == "default"]
    default = {name: runs["default", name] for name in names}
    lines = ["| change | solved | lost | won | gradients |", "|---|---|---|---|---|"]
    for case in CASES:
        own = {name: runs[case, name] for name in names if (case, name) in runs}
        if len(own) < len(names):
            continue
        good = {name for name in names if own[name]["status"] == "SOLVED"}
        usual = {name for name in names if default[name]["status"] == "SOLVED"}
        both = sorted(good & usual)
        ratio = math.exp(sum(math.log(own[n]["gradients"] / default[n]["gradients"]) for n in both) / len(both))
        lost = ", ".join(sorted(usual - good)[:6]) + (" ..." if len(usual - good) > 6 else "")
        won = ", ".join(sorted(good - usual))
        lines.append(
            f"| {case} | {len(good)} | {len(usual - good)}{': ' + lost if lost else ''} | "
            f"{len(good - usual)}{': ' + won if won else ''} | {ratio:.2f} |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    name = "ablation-quick" if arguments.quick else "ablation"
    path = RESULTS / f"{name}.jsonl"
    runs = read(path)
    with open(path, "a") as file:
        for case in dict.fromkeys(["default", *arguments.only]):
            for problem, load in problems(arguments.quick):
                if (case, problem) not in runs:
                    runs[case, problem] = {"case": case, "problem": problem, **solved(load(), CASES[case])}
                    file.write(json.dumps(runs[case, problem]) + "\n")
                    file.flush()
            print(table(runs)[-1], flush=True)
    count = sum(case == "default" for case, _ in runs)
    text = [
        "# What each part of the strategy buys",
        "",
        f"{count} problems, tolerance 1e-8, at most {GRADIENTS} gradients; redo with `python benchmarks/ablation.py`.",
        "Gradients: the geometric mean of ratios to the default, on problems that both solve. CPU seconds are in the",
        "CSV file; they are worth comparing only if nothing else ran on the machine.",
        "",
        *table(runs),
        "",
        *REMARKS,
    ]
    (RESULTS / f"{name}.md").write_text("\n".join(text) + "\n")
    with open(RESULTS / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=["case", "problem", "status", "gradients", "cpu", "fun"])
        writer.writeheader()
        writer.writerows(runs.values())


if __name__ == "__main__":
    main()
