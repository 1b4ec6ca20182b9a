"""Training under constraints: auglag.torch with its defaults beside Cooper's formulations and a fixed penalty, tuned.

    python benchmarks/torch_training.py [--quick] [--seeds 10] [--passes 100] [--out FOLDER]

Tasks: Neyman-Pearson classification on Spambase with a linear model (chat = 0.7) and with a network of two hidden
layers (chat = 0.3); logistic regression with a demographic-parity gap of at most 0.02 on generated data. A pass is
one evaluation of every row, with or without its gradient: a batch of Cooper's is counted once, and of ours everything
is counted, tests included. R is measured on all rows and not charged to the rivals, with the better of their own
multiplier and the least-squares one; for all, R at a number of passes is the best so far. The rivals' settings are
found on a seed of its own: all of the grid for 30 passes, the best three of it to the end, and then the one with the
smallest R; their learning rates fall linearly to zero. Every seed is another split, start and order of batches. Runs
are stored as they finish: a script that was stopped goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cooper
import numpy as np
import torch
from scipy import stats

import auglag.torch
from auglag.certificate import settle_rows
from auglag.datasets import load_spambase

BATCH, TUNING_SEED, TUNING_PASSES, FINALISTS = 256, 1000, 30.0, 3
LEVELS = (2, 3, 5, 8, 12, 20, 30, 50, 70, 100, 150, 200, 300, 500)
OURS = "auglag.torch.fit, defaults"
PRIMAL = [("SGD", 0.3), ("SGD", 1.0), ("Adam", 0.003), ("Adam", 0.01)]
GRIDS: dict[str, list[dict[str, Any]]] = {
    "Cooper Lagrangian": [{"primal": p, "dual": d} for p, d in itertools.product(PRIMAL, (0.01, 0.1))],
    "Cooper augmented Lagrangian": [
        {"primal": p, "dual": d, "penalty": c} for p, d, c in itertools.product(PRIMAL, (0.01, 0.1), (1.0, 10.0))
    ],
    "fixed penalty": [{"primal": p, "penalty": c} for p, c in itertools.product(PRIMAL, (1.0, 10.0, 100.0))],
}


# --------------------------------------------------------------------------------------------------------------- tasks


class Task:
    """A model, rows, and one function for loss and constraint value."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        rng = np.random.default_rng(seed)
        if name == "fairness, logistic":
            self._fairness(rng)
        else:
            self._spambase(rng, 0.7 if "linear" in name else 0.3)
        torch.manual_seed(seed)
        n = self.X.shape[1]
        self.model: Any = torch.nn.Linear(n, 1)
        if "network" in name:
            self.model = torch.nn.Sequential(
                torch.nn.Linear(n, 32),
                torch.nn.Tanh(),
                torch.nn.Linear(32, 16),
                torch.nn.Tanh(),
                torch.nn.Linear(16, 1),
            )

    def _spambase(self, rng: np.random.Generator, chat: float) -> None:
        data = load_spambase()
        rows = rng.permutation(len(data.y))[: int(0.8 * len(data.y))]
        X = data.X[rows]
        self.X = torch.tensor((X - X.mean(0)) / X.std(0), dtype=torch.float32)
        self.t = torch.tensor(np.asarray(data.y)[rows], dtype=torch.float32)
        self.lower, self.upper = -math.inf, chat
        self.share = float(self.t.mean())

    def _fairness(self, rng: np.random.Generator) -> None:
        group = rng.random(3000) < 0.35
        X = rng.standard_normal((3000, 10)) + 0.7 * group[:, None] * (np.arange(10) < 4)
        margin = X[:, :4].sum(1) + X[:, 4] * X[:, 5] + 0.8 * rng.standard_normal(3000) - 0.5
        self.X = torch.tensor(np.column_stack([X, group]), dtype=torch.float32)
        self.t = torch.tensor(margin > 0, dtype=torch.float32)
        self.lower, self.upper = -0.02, 0.02
        self.share = float(group.mean())

    @property
    def data(self) -> tuple[Any, Any]:
        return self.X, self.t

    def both(self, model: Any, batch: Any) -> tuple[Any, Any]:
        """(loss, constraint value), means over the batch."""
        X, t = batch
        z = model(X).squeeze(-1)
        if self.name == "fairness, logistic":
            group = X[:, -1]
            weight = group / self.share - (1 - group) / (1 - self.share)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(z, t)
            return loss, (torch.sigmoid(z) * weight).mean()
        plus = (torch.nn.functional.softplus(-z) * t).mean() / self.share
        minus = (torch.nn.functional.softplus(z) * (1 - t)).mean() / (1 - self.share)
        return plus, minus


TASKS = ("Spambase, linear", "Spambase, network", "fairness, logistic")


def measure(task: Task, own: float | None) -> dict[str, float]:
    """R, violation and objective of the model over all rows, with the multiplier that makes R smaller."""
    f, c = task.both(task.model, task.data)
    params = list(task.model.parameters())
    grad, jac = (
        torch.cat([g.reshape(-1) for g in torch.autograd.grad(v, params, retain_graph=keep)]).double()
        for v, keep in ((f, True), (c, False))
    )
    value = float(c.detach())
    fitted = -float(jac @ grad) / max(float(jac @ jac), 1e-30)
    violation = max(task.lower - value, value - task.upper, 0.0)
    residuals = []
    for y in {0.0, fitted, *(() if own is None else (own,))}:
        if y < 0.0 and math.isinf(task.lower):
            continue
        dist = float(torch.linalg.vector_norm(grad + y * jac))
        vectors = (np.array([v]) for v in (value, y, task.lower, task.upper))
        stationarity, complementarity = settle_rows(dist, violation, *vectors)
        residuals.append(stationarity + math.hypot(violation, complementarity))
    return {"residual": min(residuals), "violation": violation, "objective": float(f.detach())}


# ---------------------------------------------------------------------------------------------------------------- ways


def ours(task: Task, seed: int, passes: float, settings: dict[str, Any]) -> list[dict[str, float]]:
    result = auglag.torch.fit(
        task.model, task.both, {"c": auglag.torch.between(task.lower, task.upper)}, task.data, tol=1e-6, seed=seed,
        max_epochs=passes,
    )  # fmt: skip
    keys = ("residual", "violation", "objective")
    return [{"passes": row["epochs"], **{key: row[key] for key in keys}} for row in result.trace]


class Problem(cooper.ConstrainedMinimizationProblem):
    """The task as Cooper takes it; a two-sided constraint is two inequalities."""

    def __init__(self, task: Task, way: str, settings: dict[str, Any]) -> None:
        super().__init__()
        self.task = task
        kinds = {
            "Cooper Lagrangian": cooper.formulations.Lagrangian,
            "Cooper augmented Lagrangian": cooper.formulations.AugmentedLagrangian,
            "fixed penalty": cooper.formulations.QuadraticPenalty,
        }
        self.sides = [s for s in (1.0, -1.0) if not math.isinf(task.upper if s > 0 else task.lower)]
        more: dict[str, Any] = {}
        if way != "fixed penalty":
            more["multiplier"] = cooper.multipliers.DenseMultiplier(num_constraints=len(self.sides))
        if "penalty" in settings:
            coefficients = torch.full((len(self.sides),), settings["penalty"])
            more["penalty_coefficient"] = cooper.penalty_coefficients.DensePenaltyCoefficient(init=coefficients)
        self.constraint = cooper.Constraint(
            constraint_type=cooper.ConstraintType.INEQUALITY, formulation_type=kinds[way], **more
        )

    def compute_cmp_state(self, batch: Any) -> cooper.CMPState:
        f, c = self.task.both(self.task.model, batch)
        violation = torch.stack([c - self.task.upper if s > 0 else self.task.lower - c for s in self.sides])
        state = cooper.ConstraintState(violation=violation)
        return cooper.CMPState(loss=f, observed_constraints={self.constraint: state})

    def multiplier(self) -> float | None:
        """In the sign L = f + y'c."""
        found = self.constraint.multiplier
        if found is None:
            return None
        return sum(s * float(y) for s, y in zip(self.sides, found.weight.detach().reshape(-1), strict=True))


def rival(way: str) -> Callable[..., list[dict[str, float]]]:
    def run(task: Task, seed: int, passes: float, settings: dict[str, Any]) -> list[dict[str, float]]:
        problem = Problem(task, way, settings)
        kind, rate = settings["primal"]
        primal = getattr(torch.optim, kind)(task.model.parameters(), lr=rate)
        if way == "fixed penalty":
            optimizer = cooper.optim.UnconstrainedOptimizer(problem, primal_optimizers=primal)
            duals = []
        else:
            dual = torch.optim.SGD(problem.dual_parameters(), lr=settings["dual"], maximize=True)
            optimizer = cooper.optim.SimultaneousOptimizer(problem, primal_optimizers=primal, dual_optimizers=dual)
            duals = [dual]
        rows = len(task.t)
        steps = int(passes * rows / BATCH)
        rates = [(group, group["lr"]) for o in (primal, *duals) for group in o.param_groups]
        looks = {math.ceil(level * rows / BATCH) for level in LEVELS if level <= passes} | {steps}
        generator, trace = torch.Generator().manual_seed(seed), []
        for t in range(1, steps + 1):
            index = torch.randint(rows, (BATCH,), generator=generator)
            optimizer.roll(compute_cmp_state_kwargs={"batch": (task.X[index], task.t[index])})
            for group, first in rates:
                group["lr"] = first * max(1.0 - t / steps, 1e-3)
            if t in looks:
                trace.append({"passes": t * BATCH / rows, **measure(task, problem.multiplier())})
        return trace

    return run


WAYS: dict[str, Callable[..., list[dict[str, float]]]] = {**{way: rival(way) for way in GRIDS}, OURS: ours}


# --------------------------------------------------------------------------------------------------------------- runs


class Store:
    """Finished runs, one line of JSON each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.runs: dict[str, list[dict[str, float]]] = {}
        for line in lines:
            entry = json.loads(line)
            self.runs[entry["key"]] = entry["trace"]

    def get(self, way: str, task: str, seed: int, passes: float, settings: dict[str, Any]) -> list[dict[str, float]]:
        key = json.dumps([way, task, seed, passes, settings])
        if key not in self.runs:
            try:
                trace = WAYS[way](Task(task, seed), seed, passes, settings)
            except (ArithmeticError, ValueError) as error:  # a setting that blew up
                print(f"{key}: {error}")
                trace = []
            trace = [row for row in trace if math.isfinite(row["residual"])]
            trace = [{name: float(f"{value:.5g}") for name, value in row.items()} for row in trace]
            self.runs[key] = trace
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "trace": trace}) + "\n")
        return self.runs[key]


def best_until(trace: list[dict[str, float]], passes: float) -> dict[str, float] | None:
    """The row with the smallest R among those of the first so many passes."""
    rows = [row for row in trace if row["passes"] <= passes * 1.02]
    return min(rows, key=lambda row: row["residual"]) if rows else None


def tuned(store: Store, way: str, task: str, passes: float, grid: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings with the smallest R, on the tuning seed: all of the grid for a while, the best three to the end."""

    def score(settings: dict[str, Any], until: float) -> float:
        row = best_until(store.get(way, task, TUNING_SEED, until, settings), until)
        return math.inf if row is None else row["residual"]

    first = min(passes, TUNING_PASSES)
    best = sorted(grid, key=lambda settings: score(settings, first))[:FINALISTS]
    return min(best, key=lambda settings: score(settings, passes))


def band(values: list[float], logarithmic: bool) -> tuple[float, float, float]:
    """(mean, low, high): a 95 % interval by Student's t, of logarithms where sizes differ by powers of ten."""
    sample = np.log(np.maximum(values, 1e-12)) if logarithmic else np.asarray(values)
    mean = float(sample.mean())
    half = 0.0
    if len(values) > 1:
        half = float(stats.t.ppf(0.975, len(values) - 1) * sample.std(ddof=1) / math.sqrt(len(values)))
    found = (mean, mean - half, mean + half)
    return tuple(math.exp(v) for v in found) if logarithmic else found  # type: ignore[return-value]


def curves(store: Store, task: str, way: str, options: Any, settings: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """(passes, quantity, band) over the seeds, where all seeds have a value."""
    seeds = range(options.first, options.first + options.seeds)
    runs = [store.get(way, task, seed, options.passes, settings) for seed in seeds]
    for level in (*(level for level in LEVELS if level < options.passes), options.passes):
        rows = [best_until(trace, level) for trace in runs]
        if all(row is not None for row in rows):
            for quantity in ("residual", "violation", "objective"):
                values = [row[quantity] for row in rows if row is not None]
                yield level, quantity, band(values, quantity == "residual")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 seeds, 10 passes, a corner of the grids")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--passes", type=float, default=100.0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    grids = GRIDS
    if options.quick:
        options.seeds, options.passes = 2, 10.0
        grids = {way: grid[:: max(1, len(grid) // 2)] for way, grid in GRIDS.items()}
    options.out.mkdir(parents=True, exist_ok=True)
    name = "torch_training_quick" if options.quick else "torch_training"
    store = Store(options.out / f"{name}.jsonl")
    pairs = [(task, way) for task in TASKS for way in WAYS]
    settings = {
        (task, way): tuned(store, way, task, options.passes, grids[way]) if way in grids else {} for task, way in pairs
    }
    for seed in range(options.first, options.first + options.seeds):
        for task, way in pairs:
            store.get(way, task, seed, options.passes, settings[task, way])
        print(f"seed {seed} done", flush=True)
    found: dict[str, dict[str, Any]] = {task: {} for task in TASKS}
    for task, way in pairs:
        rows = list(curves(store, task, way, options, settings[task, way]))
        found[task][way] = {"settings": settings[task, way], "rows": rows}
        print(task, way, settings[task, way], [row for row in rows if row[1] == "residual"][-1:], flush=True)
    (options.out / f"{name}.md").write_text(report(found, options, grids), encoding="utf-8")
    picture(found, options.out / f"{name}.png")


# -------------------------------------------------------------------------------------------------------------- report


def report(found: dict[str, dict[str, Any]], options: Any, grids: dict[str, list[dict[str, Any]]]) -> str:
    shown = [level for level in (8, 20, 50, 100, 200, 500) if level < options.passes] + [options.passes]
    lines = [
        "# Training under constraints: auglag.torch beside Cooper and a fixed penalty",
        "",
        f"`python benchmarks/torch_training.py --first {options.first} --seeds {options.seeds} "
        f"--passes {options.passes:g}`: {options.seeds} seeds (split, start and batches) from {options.first} on, "
        "geometric means of R with 95 % intervals, means of the rest. A pass is one "
        "evaluation of every row; everything of ours counts, measuring R of the rivals does not. R is the best so far.",
        "",
        "Grids (best R on a seed of its own: all settings for 30 passes, the best three to the end): "
        + "; ".join(f"{way}: {len(grid)} settings" for way, grid in grids.items())
        + f". Primal {PRIMAL}, dual rates 0.01 and 0.1, penalties 1 and 10 (fixed: 100 too); "
        f"batches of {BATCH}, rates falling linearly to zero.",
        "",
    ]
    for task, ways in found.items():
        columns = " | ".join(f"R at {level:g}" for level in shown)
        lines += [
            f"## {task}",
            "",
            f"| | {columns} | violation | objective | settings |",
            "|" + "---|" * (len(shown) + 4),
        ]
        for way, entry in ways.items():
            at = {(level, quantity): value for level, quantity, value in entry["rows"]}
            cells = []
            for level in shown:
                value = at.get((level, "residual"))
                cells.append("-" if value is None else f"{value[0]:.1e} [{value[1]:.1e}, {value[2]:.1e}]")
            end = [at.get((shown[-1], quantity)) for quantity in ("violation", "objective")]
            cells += ["-" if value is None else f"{value[0]:.2e}" for value in end]
            settings = ", ".join(f"{k} {v}" for k, v in entry["settings"].items()) or "defaults"
            lines.append(f"| {way} | " + " | ".join(cells) + f" | {settings} |")
        lines.append("")
    return "\n".join(lines)


def picture(found: dict[str, dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(found), 3, figsize=(13, 3.6 * len(found)), squeeze=False, sharex=True)
    for row, (task, ways) in zip(axes, found.items(), strict=True):
        for axis, quantity in zip(row, ("residual", "violation", "objective"), strict=True):
            for way, entry in ways.items():
                points = [(level, value) for level, kind, value in entry["rows"] if kind == quantity]
                if points:
                    x = [level for level, _ in points]
                    mean, low, high = (np.array([value[i] for _, value in points]) for i in range(3))
                    if quantity == "violation":
                        low = np.maximum(low, 0.0)
                    (line,) = axis.plot(x, mean, label=way, marker=".")
                    axis.fill_between(x, low, high, alpha=0.2, color=line.get_color())
            axis.set_xscale("log")
            if quantity == "residual":
                axis.set_yscale("log")
            elif quantity == "violation":
                axis.set_yscale("symlog", linthresh=1e-4)
            axis.set_title(f"{task}: {'R' if quantity == 'residual' else quantity}", fontsize=10)
            axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("passes over the data (everything counted)")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
