"""Training under constraints from the first pass on: the single loop with its defaults beside tuned rivals.

    python benchmarks/training.py [--seeds 10] [--levels 1 2 5 10 20 50 100] [--coarse] [--only NAME ...] [--out FOLDER]
    python benchmarks/training.py --stored --seeds 5 --first 900 --levels 1 2 5 10 20
    python benchmarks/training.py --page training_last --tasks "forecasts, worst tenth" "digits, convolutions"
    python benchmarks/training.py --ablation --first 300 [--seeds 10] [--levels 1 5]

Nine tasks (`trainings/tasks.py`), and two that were added last (`trainings/last.py`); rivals with their grids
(`trainings/rivals.py`): SGD and Adam at five rates, batches of 16, 64 and 256, dual rates and penalties. A pass is one
evaluation of every row: a batch counts once, with recursive momentum twice; full batches of ours count. R, violation
and objective at the end of every budget are measured over all rows and charged to nobody, R with the better of a way's
own multipliers and of fitted ones. Every budget is a run of its own, over which all rates fall. A rival's settings are
found for every task and budget on three seeds of their own: the whole grid at one pass, and at every longer budget
those that were best at the one before (`SURVIVORS`); --coarse takes the two middle rates of Adam alone. Finished runs
are kept in a file of JSON lines: a script that was stopped goes on. --stored takes the rivals' runs of that file as
they are, and makes those of the single loop alone. --ablation compares the single loop with itself, one of its parts
left out at a time.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from trainings.last import LAST
from trainings.rivals import RIVALS, Job, race
from trainings.tasks import TASKS, Task

import auglag.torch as at
from auglag.errors import InputError
from auglag.single_loop.engine import Engine
from auglag.single_loop.schedule import worth_full_batches
from auglag.single_loop.steps import ScaledSteps
from auglag.single_loop.tuning import TUNING as SCHEDULE
from auglag.torch import single_loop
from auglag.torch.single_loop_run import Sampled

NINE = list(TASKS)
TASKS.update(LAST)
OURS, TUNING_SEEDS = "single loop", (1000, 1001, 1002)
#: Budgets at which a rival has fewer settings: the best so many of those at a shorter budget.
SURVIVORS = {2: (1, 12), 5: (1, 8), 10: (5, 5), 20: (5, 3), 50: (20, 2), 100: (20, 1)}
#: Rivals that stay in the race, the best on the tuning seeds: for longer budgets, and for a table.
FINALISTS = 3
COARSE = (("Adam", 0.01), ("Adam", 0.03))
LEVELS = (1, 2, 5, 10, 20, 50, 100)
NOTHING = {"residual": math.inf, "violation": math.inf, "objective": math.inf}
moved = Engine.moved


def without_drift(engine: Engine, change: Any, fall: float, coast: float = 0.0) -> None:
    """Values stay where they were measured."""
    moved(engine, 0.0 * change, fall)


def without_coming(engine: Engine, change: Any, fall: float, coast: float = 0.0) -> None:
    """Weights do not look ahead."""
    moved(engine, change, fall)


#: Parts of the single loop, and what takes the place of each where it is left out.
PARTS: dict[str, tuple[Any, str, Any]] = {
    "the rate's adaptation": (ScaledSteps, "_adapt", lambda steps, gradient: None),
    "the limit of weights": (Engine, "limit", lambda engine, power, strain, rows=None: None),
    "trust": (Engine, "_trust", lambda engine, cbar, gap: 1.0),
    "the drift": (Engine, "moved", without_drift),
    "looking ahead": (Engine, "moved", without_coming),
    "the paper's rule": (Engine, "pass_ended", False),
    "going back": (Sampled, "_look_back", lambda sampled: None),
    "the rule between passes": (Engine, "_boost", lambda engine: None),
    "the mean of iterates": (single_loop, "newest_share", lambda count, endless=False: 1.0),
}


def ours(task: Task, seed: int, passes: float) -> dict[str, float]:
    """`fit(method="single-loop")`; "fitted" is R with the multipliers that are fitted for the rivals, too."""
    flags = [False] * task.m if task.exact is None else task.exact.tolist()
    rules = {f"c{i}": at.between(lo, up, exact=flag) for i, (lo, up, flag) in enumerate(sides(task, flags))}
    result = at.fit(
        task.model, task.both, rules, task.data, method="single-loop", tol=1e-8, seed=seed, max_epochs=budget(passes)
    )
    found = task.measure(np.concatenate([np.atleast_1d(y) for y in result.multipliers.values()]))
    return found | {"fitted": task.measure()["residual"]}


def budget(passes: float) -> float:
    """The `max_epochs` with so many passes before the certificate, and before the last test where all are of steps.

    The R at the end of a way is charged to nobody here.
    """
    if worth_full_batches(passes):
        return passes + 1.0
    return min(passes + SCHEDULE.closing, passes / SCHEDULE.least_share)


def sides(task: Task, flags: list[bool]) -> list[tuple[float, float, bool]]:
    return list(zip(task.lower.tolist(), task.upper.tolist(), flags, strict=True))


class Store:
    """Finished runs, one line of JSON each."""

    def __init__(self, path: Path) -> None:
        self.path, self.runs = path, {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            entry = json.loads(line)
            self.runs[entry["key"]] = entry["found"]

    @staticmethod
    def key(name: str, task: str, seed: int, passes: float, settings: dict[str, Any]) -> str:
        return json.dumps([name, task, seed, int(passes) if passes == int(passes) else passes, settings])

    def keep(self, key: str, found: dict[str, float]) -> None:
        """A run that is over."""
        self.runs[key] = {k: float(f"{v:.4g}") if math.isfinite(v) else 1e300 for k, v in found.items()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "found": self.runs[key]}) + "\n")

    def ours(self, name: str, task: str, seed: int, passes: float) -> dict[str, float]:
        """The numbers of a run of the single loop (or of that without a part), from the file or made now."""
        key = self.key(name, task, seed, passes, {})
        if key not in self.runs:
            began, problem, found = time.process_time(), Task(task, seed), NOTHING
            with patch.object(*PARTS[name]) if name in PARTS else nullcontext(), suppress(InputError):
                found = ours(problem, seed, passes)  # without a part of it, parameters may become NaN
            self.keep(key, found | {"seconds": time.process_time() - began})
        return self.runs[key]

    def race(self, jobs: list[Job], task: str, passes: float, *, rough: bool = False) -> list[dict[str, float]]:
        """The same for runs of rivals, side by side: those of all seeds that are missing, in one go."""
        keys = [self.key(name, task, seed, passes, settings) for name, settings, seed in jobs]
        missing = [i for i, key in enumerate(keys) if key not in self.runs]
        for i, found in zip(missing, race([jobs[i] for i in missing], task, passes, rough=rough), strict=True):
            self.keep(keys[i], found)
        return [self.runs[key] for key in keys]

    def complete(self, task: str, passes: float, seeds: range) -> dict[str, list[dict[str, float]]]:
        """The runs of rivals that are in the file for all of these seeds; of several settings those of the least R."""
        found: dict[str, dict[str, dict[int, dict[str, float]]]] = {}
        for key, run in self.runs.items():
            name, of, seed, length, settings = json.loads(key)
            if name in RIVALS and of == task and length == passes:
                found.setdefault(name, {}).setdefault(json.dumps(settings), {})[seed] = run
        best: dict[str, list[dict[str, float]]] = {}
        for name, ways in found.items():
            all_seeds = [[runs[s] for s in seeds] for runs in ways.values() if all(s in runs for s in seeds)]
            if all_seeds:
                best[name] = min(all_seeds, key=lambda runs: float(np.median([run["residual"] for run in runs])))
        return best


def kept_settings(store: Store, name: str, task: str, passes: float, coarse: bool) -> list[dict[str, Any]]:
    """The grid, or from 2 passes on the part of it that was best at the level before, best first."""
    grid = [s for s in RIVALS[name][1] if not coarse or tuple(s["primal"]) in COARSE]
    if passes not in SURVIVORS:
        return grid
    before, count = SURVIVORS[passes]
    return ranked(store, name, task, before, coarse)[:count]


def ranked(store: Store, name: str, task: str, passes: float, coarse: bool) -> list[dict[str, Any]]:
    """Settings by their median R on the tuning seeds."""
    found = kept_settings(store, name, task, passes, coarse)
    jobs = [(name, s, seed) for s in found for seed in TUNING_SEEDS]
    values = [run["residual"] for run in store.race(jobs, task, passes, rough=True)]
    medians = np.median(np.reshape(values, (len(found), len(TUNING_SEEDS))), axis=1)
    return [found[i] for i in np.argsort(medians, kind="stable")]


def tune(store: Store, task: str, passes: float, names: list[str], coarse: bool) -> dict[str, dict[str, Any]]:
    """Settings for every rival, best rival first; runs of all rivals that are missing are made side by side."""
    if passes in SURVIVORS:
        before = SURVIVORS[passes][0]
        found = list(tune(store, task, before, names, coarse))
        names = found if before == 1 else found[:FINALISTS]
    jobs = [(n, s, seed) for n in names for s in kept_settings(store, n, task, passes, coarse) for seed in TUNING_SEEDS]
    store.race(jobs, task, passes, rough=True)
    best = {name: ranked(store, name, task, passes, coarse)[0] for name in names}

    def median(name: str) -> float:
        runs = store.race([(name, best[name], seed) for seed in TUNING_SEEDS], task, passes, rough=True)
        return float(np.median([run["residual"] for run in runs]))

    return {name: best[name] for name in sorted(names, key=median)}


def band(values: list[float]) -> tuple[float, float, float]:
    """The median and a 95 % band of it, by bootstrap."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(values, (2000, len(values))), axis=1)
    return float(np.median(values)), *(float(v) for v in np.quantile(medians, (0.025, 0.975)))


def ablation(store: Store, options: Any) -> str:
    """Markdown: R of the single loop, and of the same without one part."""
    seeds = range(options.first, options.first + options.seeds)
    lines = [
        "# The single loop without one of its parts", "", f"Median R of {options.seeds} seeds. `{options.command}`", "",
        f"| task | passes | all | {' | '.join(f'without {part}' for part in PARTS)} |", "|---" * (len(PARTS) + 3) + "|",
    ]  # fmt: skip
    changes: dict[str, list[float]] = {part: [] for part in PARTS}
    for passes in sorted(options.levels):
        for task in options.tasks:
            found = {
                name: [store.ours(name, task, seed, passes)["residual"] for seed in seeds] for name in (OURS, *PARTS)
            }
            medians = {name: float(np.median(values)) for name, values in found.items()}
            for part, logs in changes.items():
                logs.append(math.log(medians[part] / medians[OURS]))
            lines.append(f"| {task} | {passes:g} | {' | '.join(f'{v:.2g}' for v in medians.values())} |")
            print(lines[-1], flush=True)
    means = [f"{math.exp(float(np.mean(logs))):.2f}" for logs in changes.values()]
    return "\n".join([*lines, f"| geometric mean, relative | | 1 | {' | '.join(means)} |"]) + "\n"


Cell = dict[str, dict[str, tuple[float, float, float]]]
Cells = dict[tuple[str, float], Cell]


def tuned_runs(store: Store, task: str, passes: float, seeds: range, options: Any) -> dict[str, list[dict[str, float]]]:
    """The runs of the best rivals with their best settings."""
    settings = tune(store, task, passes, options.only, options.coarse)
    finalists = list(settings)[:FINALISTS]
    store.race([(name, settings[name], seed) for name in finalists for seed in seeds], task, passes)
    return {name: store.race([(name, settings[name], seed) for seed in seeds], task, passes) for name in finalists}


def collect(store: Store, options: Any) -> Cells:
    """(task, passes) -> way -> quantity -> band; runs what is missing, short budgets first."""
    cells: Cells = {}
    for passes in sorted(options.levels):
        for task in options.tasks:
            seeds = range(options.first, options.first + options.seeds)
            rivals = (
                store.complete(task, passes, seeds)
                if options.stored
                else tuned_runs(store, task, passes, seeds, options)
            )
            if options.stored and not rivals:
                continue
            runs = {OURS: [store.ours(OURS, task, seed, passes) for seed in seeds]} | rivals
            cells[task, passes] = cell = banded(runs)
            show(task, passes, cell)
    return cells


def banded(runs: dict[str, list[dict[str, float]]]) -> Cell:
    """Medians and their bands, for every way and quantity."""
    return {name: {key: band([run[key] for run in found]) for key in NOTHING} for name, found in runs.items()}


def show(task: str, passes: float, cell: Cell) -> None:
    """A line for whoever waits."""
    best = best_rival(cell)
    numbers = f"{cell[OURS]['residual'][0]:.2e} / {cell[best]['residual'][0]:.2e} {best}"
    print(f"{task}, {passes:g} passes: {numbers}", flush=True)


def table(cells: Cells, options: Any) -> str:
    """Markdown: ours and the best rival in every cell, and how often each is first."""
    lines = [
        "# Training under constraints: the single loop and tuned rivals", "",
        f"{options.seeds} seeds, medians [95 % bands]; rivals tuned per task and budget"
        f"{' over a coarse grid' if options.coarse else ''} on other seeds, and the {FINALISTS} best of them there run "
        f"here. `{options.command}`", "",
        "| task | passes | R, single loop | best rival's R | rival | violation, ours / rival's / smallest | "
        "objective, ours / rival's |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    wins, near = 0, 0
    for (task, passes), cell in sorted(cells.items(), key=lambda item: (list(TASKS).index(item[0][0]), item[0][1])):
        names = [n for n in cell if n != OURS]
        best = best_rival(cell)
        mine, theirs = cell[OURS]["residual"], cell[best]["residual"]
        wins, near = wins + (mine[0] <= theirs[0]), near + (mine[0] <= 1.3 * theirs[0])
        mark = "**" if mine[0] <= theirs[0] else ""
        violations = [
            cell[OURS]["violation"][0],
            cell[best]["violation"][0],
            min(cell[n]["violation"][0] for n in names),
        ]
        lines.append(
            f"| {task} | {passes:g} | {mark}{mine[0]:.2g}{mark} [{mine[1]:.2g}, {mine[2]:.2g}] | {theirs[0]:.2g} "
            f"[{theirs[1]:.2g}, {theirs[2]:.2g}] | {best} | {' / '.join(f'{v:.1e}' for v in violations)} "
            f"| {cell[OURS]['objective'][0]:.2g} / {cell[best]['objective'][0]:.2g} |"
        )
    lines += ["", f"Lowest median R in {wins} of {len(cells)} cells; at most 1.3 times the best rival's in {near}."]
    return "\n".join(lines) + "\n"


def best_rival(cell: Cell) -> str:
    """That with the smallest median R."""
    return min((name for name in cell if name != OURS), key=lambda name: cell[name]["residual"][0], default=OURS)


def draw(cells: Cells, options: Any, path: Path) -> None:
    """R against passes, one panel per task: ours, and the best rival of every budget."""
    import matplotlib.pyplot as plt

    columns = min(3, len(options.tasks))
    rows = -(-len(options.tasks) // columns)
    fig, axes = plt.subplots(rows, columns, figsize=(3.2 * columns, 2.5 * rows), squeeze=False)
    levels = sorted(options.levels)
    for ax, task in zip(axes.flat, options.tasks, strict=False):
        at = [cells[task, passes] for passes in levels]
        for label, names in ((OURS, [OURS] * len(at)), ("best tuned rival", [best_rival(cell) for cell in at])):
            bands = np.array([cell[name]["residual"] for cell, name in zip(at, names, strict=True)]).clip(1e-9, 1e3)
            (line,) = ax.loglog(levels, bands[:, 0], "o-", markersize=3, label=label)
            ax.fill_between(levels, bands[:, 1], bands[:, 2], alpha=0.2, color=line.get_color())
        ax.set_title(task, fontsize=9)
        ax.set_xticks(levels, [f"{passes:g}" for passes in levels], minor=False)
        ax.minorticks_off()
    for ax in axes[-1]:
        ax.set_xlabel("passes over the data")
    for ax in axes[:, 0]:
        ax.set_ylabel("R")
    axes[0][0].legend(fontsize=7)
    fig.tight_layout()
    fig.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=500, help="the first seed (things were chosen on 100 to 202)")
    parser.add_argument("--levels", type=float, nargs="+", default=list(LEVELS), help="passes")
    parser.add_argument("--tasks", nargs="+", default=NINE, choices=list(TASKS))
    parser.add_argument("--page", default="training", help="the name of the table, the figure and the file of runs")
    parser.add_argument("--only", nargs="+", default=list(RIVALS), choices=list(RIVALS), help="these rivals")
    parser.add_argument("--coarse", action="store_true", help="a part of the grids")
    parser.add_argument("--stored", action="store_true", help="rivals as their runs are in the file; none is made")
    parser.add_argument("--ablation", action="store_true", help="no rivals: the single loop without its parts")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    options.command = f"python benchmarks/training.py --seeds {options.seeds}{' --coarse' if options.coarse else ''}"
    options.command += " --stored" if options.stored else ""
    options.command += f" --first {options.first} --levels {' '.join(f'{v:g}' for v in options.levels)}"
    if options.tasks != NINE:
        options.command += f" --tasks {shlex.join(options.tasks)} --page {options.page}"
    if options.ablation:
        options.command += " --ablation"
        text = ablation(Store(options.out / "training.jsonl"), options)
        (options.out / "training_ablation.md").write_text(text, encoding="utf-8")
        return
    page = options.out / f"{options.page}.md"
    cells = collect(Store(page.with_suffix(".jsonl")), options)
    page.write_text(table(cells, options), encoding="utf-8")
    draw(cells, options, page.with_suffix(".png"))
    print(page)


if __name__ == "__main__":
    main()
