"""Training under constraints from the first pass on: the single loop with its defaults beside tuned rivals.

    python benchmarks/training.py [--seeds 10] [--levels 1 2 5 10 20 50 100] [--coarse] [--only NAME ...] [--out FOLDER]
    python benchmarks/training.py --ablation --first 300 [--seeds 10] [--levels 1 5]

Nine tasks (`trainings/tasks.py`); rivals with their grids (`trainings/rivals.py`). A pass is one evaluation of every
row: a batch counts once, with recursive momentum twice; full batches of ours count. R, violation and objective at the
end of every budget are measured over all rows and charged to nobody, R with the better of a way's own multipliers and
of fitted ones. Every budget is a run of its own, over which all rates fall. A rival's settings are found for every task
and budget on a seed of its own; --coarse takes a part of the grid (Adam, batches of 64). Finished runs are kept
in a file of JSON lines: a script that was stopped goes on. --ablation compares the single loop with itself, one of its
parts left out at a time.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from trainings.rivals import RIVALS
from trainings.tasks import TASKS, Task

import auglag.torch as at
from auglag.single_loop.engine import Engine
from auglag.single_loop.steps import ScaledSteps

OURS, TUNING_SEED = "single loop", 1000
LEVELS = (1, 2, 5, 10, 20, 50, 100)
NOTHING = {"residual": math.inf, "violation": math.inf, "objective": math.inf}
moved = Engine.moved


def without_drift(engine: Engine, change: Any, fall: float) -> None:
    """Values stay where they were measured."""
    moved(engine, 0.0 * change, fall)


#: Parts of the single loop, and what takes the place of each where it is left out.
PARTS: dict[str, tuple[type, str, Any]] = {
    "the rate's adaptation": (ScaledSteps, "_adapt", lambda steps, gradient: None),
    "the limit of weights": (Engine, "limit", lambda engine, longest: None),
    "trust": (Engine, "_trust", lambda engine, cbar, gap: 1.0),
    "the drift": (Engine, "moved", without_drift),
    "the paper's rule": (Engine, "pass_ended", False),
}


def ours(task: Task, seed: int, passes: float, settings: dict[str, Any]) -> dict[str, float]:
    """`fit(method="single-loop")`."""
    flags = [False] * task.m if task.exact is None else task.exact.tolist()
    rules = {f"c{i}": at.between(lo, up, exact=flag) for i, (lo, up, flag) in enumerate(sides(task, flags))}
    result = at.fit(
        task.model, task.both, rules, task.data, method=settings.get("method", "single-loop"), tol=1e-8, seed=seed,
        max_epochs=passes,
    )  # fmt: skip
    return task.measure(np.concatenate([np.atleast_1d(y) for y in result.multipliers.values()]))


def sides(task: Task, flags: list[bool]) -> list[tuple[float, float, bool]]:
    return list(zip(task.lower.tolist(), task.upper.tolist(), flags, strict=True))


def rival(name: str, task: Task, seed: int, passes: float, settings: dict[str, Any]) -> dict[str, float]:
    """So many passes of a rival."""
    way = RIVALS[name][0](task, settings)
    batch = min(settings["batch"], task.rows)
    steps = max(1, int(passes * task.rows / (batch * way.evaluations)))
    generator, order, at_row = torch.Generator().manual_seed(seed), torch.zeros(0), task.rows
    for t in range(steps):
        if at_row + batch > task.rows:
            order, at_row = torch.randperm(task.rows, generator=generator), 0
        way.step(task.take(order[at_row : at_row + batch]), max(1.0 - t / steps, 1e-3))
        at_row += batch
        if t % 64 == 0 and not all(bool(torch.isfinite(p).all()) for p in way.params):
            return NOTHING
    return task.measure(way.multipliers())


class Store:
    """Finished runs, one line of JSON each."""

    def __init__(self, path: Path) -> None:
        self.path, self.runs = path, {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            entry = json.loads(line)
            self.runs[entry["key"]] = entry["found"]

    def get(self, name: str, task: str, seed: int, passes: float, settings: dict[str, Any]) -> dict[str, float]:
        """The numbers of a run, from the file or made now."""
        key = json.dumps([name, task, seed, passes, settings])
        if key not in self.runs:
            began, problem = time.process_time(), Task(task, seed)
            if name == OURS:
                found = ours(problem, seed, passes, settings)
            elif name in PARTS:
                with patch.object(*PARTS[name]):
                    found = ours(problem, seed, passes, settings)
            else:
                found = rival(name, problem, seed, passes, settings)
            row = {k: float(f"{v:.4g}") if math.isfinite(v) else 1e300 for k, v in found.items()}
            self.runs[key] = row | {"seconds": round(time.process_time() - began, 3)}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "found": self.runs[key]}) + "\n")
        return self.runs[key]


def tuned(store: Store, name: str, task: str, passes: float, grid: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings with the smallest R on the tuning seed; for long budgets, of the best three at 20 passes."""
    if passes > 20:
        grid = sorted(grid, key=lambda s: store.get(name, task, TUNING_SEED, 20, s)["residual"])[:3]
    return min(grid, key=lambda s: store.get(name, task, TUNING_SEED, passes, s)["residual"])


def coarse(grid: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adam at two rates, batches of 64."""
    kept = [("Adam", 0.01, 64), ("Adam", 0.03, 64)]
    return [s for s in grid if (*s["primal"], s["batch"]) in kept]


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
                name: [store.get(name, task, seed, passes, {})["residual"] for seed in seeds] for name in (OURS, *PARTS)
            }
            medians = {name: float(np.median(values)) for name, values in found.items()}
            for part, logs in changes.items():
                logs.append(math.log(medians[part] / medians[OURS]))
            lines.append(f"| {task} | {passes:g} | {' | '.join(f'{v:.2g}' for v in medians.values())} |")
            print(lines[-1], flush=True)
    means = [f"{math.exp(float(np.mean(logs))):.2f}" for logs in changes.values()]
    return "\n".join([*lines, f"| geometric mean, relative | | 1 | {' | '.join(means)} |"]) + "\n"


Cells = dict[tuple[str, float], dict[str, dict[str, tuple[float, float, float]]]]


def collect(store: Store, options: Any) -> Cells:
    """(task, passes) -> way -> quantity -> band; runs what is missing, short budgets first."""
    cells: Cells = {}
    for passes in sorted(options.levels):
        for task in options.tasks:
            cell: dict[str, dict[str, tuple[float, float, float]]] = {}
            for name in (OURS, *(name for name in RIVALS if name in options.only)):
                settings: dict[str, Any] = {}
                if name != OURS:
                    grid = RIVALS[name][1]
                    settings = tuned(store, name, task, passes, coarse(grid) if options.coarse else grid)
                seeds = range(options.first, options.first + options.seeds)
                runs = [store.get(name, task, seed, passes, settings) for seed in seeds]
                cell[name] = {key: band([run[key] for run in runs]) for key in (*NOTHING, "seconds")}
            cells[task, passes] = cell
            best = min((n for n in cell if n != OURS), key=lambda n: cell[n]["residual"][0], default=OURS)
            numbers = f"{cell[OURS]['residual'][0]:.2e} / {cell[best]['residual'][0]:.2e} {best}"
            print(f"{task}, {passes:g} passes: {numbers}", flush=True)
    return cells


def table(cells: Cells, options: Any) -> str:
    """Markdown: ours and the best rival in every cell, and how often each is first."""
    lines = [
        "# Training under constraints: the single loop and tuned rivals", "",
        f"{options.seeds} seeds, medians [95 % bands]; rivals tuned per task and budget"
        f"{' over a coarse grid' if options.coarse else ''}. `{options.command}`", "",
        "| task | passes | R, single loop | best rival's R | rival | violation, ours / rival's / smallest |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    wins, near = 0, 0
    for (task, passes), cell in sorted(cells.items(), key=lambda item: (list(TASKS).index(item[0][0]), item[0][1])):
        names = [n for n in cell if n != OURS]
        best = min(names, key=lambda n: cell[n]["residual"][0])
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
            f"[{theirs[1]:.2g}, {theirs[2]:.2g}] | {best} | {' / '.join(f'{v:.1e}' for v in violations)} |"
        )
    lines += ["", f"Lowest median R in {wins} of {len(cells)} cells; at most 1.3 times the best rival's in {near}."]
    return "\n".join(lines) + "\n"


def draw(cells: Cells, options: Any, path: Path) -> None:
    """R against passes, one panel per task."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(options.tasks), figsize=(3.1 * len(options.tasks), 3.2), squeeze=False)
    for ax, task in zip(axes[0], options.tasks, strict=True):
        for name in (OURS, *options.only):
            bands = np.array([cells[task, p][name]["residual"] for p in sorted(options.levels)]).clip(1e-9, 1e3)
            colour = {"color": "black", "linewidth": 2} if name == OURS else {"linewidth": 1}
            (line,) = ax.loglog(sorted(options.levels), bands[:, 0], label=name, **colour)
            ax.fill_between(sorted(options.levels), bands[:, 1], bands[:, 2], alpha=0.15, color=line.get_color())
        ax.set_title(task, fontsize=9)
        ax.set_xlabel("passes over the data")
    axes[0][0].set_ylabel("R")
    axes[0][-1].legend(fontsize=6)
    fig.tight_layout()
    fig.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=500, help="the first seed (things were chosen on 100 to 202)")
    parser.add_argument("--levels", type=float, nargs="+", default=list(LEVELS), help="passes")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--only", nargs="+", default=list(RIVALS), choices=list(RIVALS), help="these rivals")
    parser.add_argument("--coarse", action="store_true", help="a part of the grids")
    parser.add_argument("--ablation", action="store_true", help="no rivals: the single loop without its parts")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    options.command = f"python benchmarks/training.py --seeds {options.seeds}{' --coarse' if options.coarse else ''}"
    options.command += f" --first {options.first} --levels {' '.join(f'{v:g}' for v in options.levels)}"
    if options.ablation:
        options.command += f" --ablation --tasks {shlex.join(options.tasks)}"
        text = ablation(Store(options.out / "training.jsonl"), options)
        (options.out / "training_ablation.md").write_text(text, encoding="utf-8")
        return
    cells = collect(Store(options.out / "training.jsonl"), options)
    (options.out / "training.md").write_text(table(cells, options), encoding="utf-8")
    draw(cells, options, options.out / "training.png")
    print(options.out / "training.md")


if __name__ == "__main__":
    main()
