"""What should be the default of `auglag.torch.fit`: the double loop or the single loop, at budgets of 1 to 200 passes.

    python benchmarks/training_default.py [--seeds 3] [--levels 1 5 20 100 200] [--processes 1] [--out FOLDER]
    python benchmarks/training_default.py --sampled --levels 1 5 20 100
    python benchmarks/training_default.py --table [--sampled]

The nine trainings of `trainings/tasks.py` and four more (`trainings/held_out.py`) that nothing was chosen on.
--sampled compares what is left where full batches are too dear: Adam under Algorithm 2, the single loop without them.
Each budget is a run of its own, with tol=1e-8 so that it uses all of it; R, violation and objective are measured at its
end over all rows. Level 0 is a run without a budget: `fit` with tol=1e-3 and nothing else but a limit of 1000 passes,
its default; passes and seconds until it ends count there. Finished runs are kept in a file of JSON lines: a script that
was stopped goes on. --table makes the table of the runs in the file.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from trainings.held_out import HELD_OUT
from trainings.tasks import TASKS, Task

import auglag.torch as at

#: The two that are compared: where full batches are affordable, and where they are not (`--sampled`).
#: The double loop begins with a few passes of Adam, in `one` only where rows are many, as "auto" has it.
FULL = {"double loop": at.LBFGS(warm_up=True), "single loop": "single-loop"}
SAMPLED = {"Adam under Algorithm 2": "adam", "steps alone": at.SingleLoopMethod(full=False)}
LEVELS = (1, 5, 20, 60, 100, 200, 0)
#: Passes of the default of `fit`, and its tolerance.
MOST, TOL = 1000.0, 1e-3
#: Rows from which on the double loop begins with sampled steps.
MANY = 1024
Run = dict[str, Any]


def one(job: tuple[str, str, int, float]) -> Run:
    """A run: what it was, and R, violation and objective at its end."""
    torch.set_num_threads(1)
    way, name, seed, passes = job
    task = Task(name, seed)
    flags = [False] * task.m if task.exact is None else task.exact.tolist()
    sides = zip(task.lower.tolist(), task.upper.tolist(), flags, strict=True)
    rules = {f"c{i}": at.between(lo, up, exact=flag) for i, (lo, up, flag) in enumerate(sides)}
    method = (FULL | SAMPLED)[way]
    if isinstance(method, at.LBFGS) and task.rows < MANY:
        method = at.LBFGS()
    limits = {"tol": 1e-8, "max_epochs": passes} if passes else {"tol": TOL, "max_epochs": MOST}
    began = time.process_time()
    result = at.fit(task.model, task.both, rules, task.data, method=method, seed=seed, **limits)
    seconds = time.process_time() - began
    found = task.measure(np.concatenate([np.atleast_1d(y) for y in result.multipliers.values()]))
    found |= {"epochs": result.epochs, "seconds": seconds}
    return {"job": job, "found": {k: float(f"{v:.4g}") if math.isfinite(v) else 1e300 for k, v in found.items()}}


def jobs(options: Any, done: set[tuple[Any, ...]]) -> Iterable[tuple[str, str, int, float]]:
    """Runs that are missing, one seed after the other."""
    ways = SAMPLED if options.sampled else FULL
    for seed in range(options.first, options.first + options.seeds):
        for passes in options.levels:
            for name in options.tasks:
                for way in ways:
                    if (way, name, seed, passes) not in done:
                        yield way, name, seed, passes


def stored(path: Path) -> dict[tuple[Any, ...], dict[str, float]]:
    """The runs of the file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {tuple(run["job"]): run["found"] for run in map(json.loads, lines)}


def ratio(pairs: list[tuple[float, float]]) -> float:
    """The geometric mean of second / first."""
    return math.exp(float(np.mean([math.log(max(b, 1e-9) / max(a, 1e-9)) for a, b in pairs])))


def table(runs: dict[tuple[Any, ...], dict[str, float]], ways: tuple[str, str]) -> str:
    """Markdown: medians of both ways, and how often the second is ahead."""
    lines = [f"| training | passes | R, {ways[0]} | R, {ways[1]} | violation | CPU s |", "|---|---|---|---|---|---|"]
    cells: dict[float, list[tuple[float, float]]] = {}
    times: dict[float, list[tuple[float, float]]] = {}
    for name in TASKS:
        for passes in LEVELS:
            seeds = [s for s in sorted({j[2] for j in runs}) if all((way, name, s, passes) in runs for way in ways)]
            if not seeds:
                continue
            (a, b), (va, vb), (ta, tb), (ea, eb) = (
                [float(np.median([runs[way, name, s, passes][key] for s in seeds])) for way in ways]
                for key in ("residual", "violation", "seconds", "epochs")
            )
            cells.setdefault(passes, []).append((a, b) if passes else (ea, eb))
            times.setdefault(passes, []).append((ta, tb))
            level = f"{passes:g}" if passes else f"to {TOL:g}: {ea:.0f} / {eb:.0f}"
            one, two = (f"**{a:.2g}**", f"{b:.2g}") if a < b else (f"{a:.2g}", f"**{b:.2g}**")
            lines.append(
                f"| {name}{' (new)' if name in HELD_OUT else ''} | {level} | {one} | {two} | {va:.1e} / {vb:.1e} | "
                f"{ta:.1f} / {tb:.1f} |"
            )
    head = [f"| passes | {ways[1]} ahead | R, relative (geometric mean) | CPU time, relative |", "|---|---|---|---|"]
    for passes in sorted(cells, key=LEVELS.index):
        ahead = sum(b <= a for a, b in cells[passes])
        what = f"{passes:g}" if passes else f"to {TOL:g} (passes instead of R)"
        head.append(
            f"| {what} | {ahead} of {len(cells[passes])} | {ratio(cells[passes]):.2f} | {ratio(times[passes]):.2f} |"
        )
    return "\n".join([*head, "", *lines]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=700)
    parser.add_argument("--levels", type=float, nargs="+", default=list(LEVELS), help="passes; 0: until R <= 1e-3")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no run after so many")
    parser.add_argument(
        "--sampled", action="store_true", help="the methods for data that full batches are too dear for"
    )
    parser.add_argument("--table", action="store_true", help="no runs: the table of those in the file")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path, began = options.out / "training_default.jsonl", time.monotonic()
    if not options.table:
        os.environ["OMP_NUM_THREADS"] = "1"
        missing = jobs(options, set(stored(path)))
        with multiprocessing.get_context("spawn").Pool(options.processes) as pool, path.open("a") as file:
            for run in pool.imap_unordered(one, missing):
                file.write(json.dumps(run) + "\n")
                file.flush()
                if time.monotonic() - began > options.seconds:
                    pool.terminate()
                    break
    print(
        table(
            stored(path),
            ("Adam under Algorithm 2", "steps alone") if options.sampled else ("double loop", "single loop"),
        )
    )


if __name__ == "__main__":
    main()
