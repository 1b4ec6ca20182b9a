"""Logistic regression under a fairness bound: R, violation and objective against passes over the data.

    python benchmarks/fairness.py                      # all of it; goes on where it was interrupted
    python benchmarks/fairness.py --quick --output DIR # two seeds, a corner of the grid

Two tasks: generated data with two groups and equalised odds (4000 rows, 20 features, drawn anew for every seed), and
scikit-learn's diabetes data with a bound on demographic parity between the sexes (a random 80 % of its 442 rows for
every seed). All methods train the same linear model on the same standardised features from 0:

- ours: `FairLogisticRegression`, defaults, both solvers;
- Cooper (cooper-optim), Lagrangian and augmented Lagrangian formulations, primal SGD and dual ascent at every step;
- a fixed quadratic penalty, SGD.

The rivals are tuned over the grids below, on seeds that are not those of the figures, for the smallest R they come to;
ours is not tuned. A pass is one evaluation of every row (loss and group mean); the gradient evaluations of a row, the
full-batch tests of ours and the rows whose curvature it forms all count, the full-batch R of the rivals does not: they
know nothing of it. Their R is that of the best multipliers for their point, and the smallest so far is shown for all.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import numpy as np
from scipy.stats import t as student
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

from auglag.certificate import certificate
from auglag.sklearn import FairLogisticRegression
from auglag.stochastic import FullBatchProblem, LinearBlock, StochasticProblem, minimize

try:
    import torch
except ImportError:
    torch = None
try:
    import cooper
except ImportError:
    cooper = None

BOUND, L2 = 0.02, 1e-4
SEEDS, TUNING_SEEDS = tuple(range(10)), (100,)
PASSES = 60.0
#: Passes at which rivals are looked at.
LOOKS = np.unique(np.round(np.geomspace(1.0, PASSES, 20), 1))
LEVELS = (10.0, 30.0, 60.0)
RATES, STEPS = (0.03, 0.3, 3.0), (20, 1)  # STEPS: steps to a pass; 1 takes all rows
GRIDS = {
    "Cooper, Lagrangian": {"rate": RATES, "dual": (0.01, 0.1, 1.0), "steps": STEPS},
    "Cooper, augmented Lagrangian": {"rate": RATES, "dual": (0.1, 1.0), "penalty": (1.0, 10.0), "steps": STEPS},
    "fixed penalty": {"rate": RATES, "penalty": (1.0, 10.0, 100.0, 1000.0), "steps": STEPS},
}
#: Full-batch steps bear longer ones; for them the grids go on.
LONGER = {"rate": (10.0,), "dual": (10.0,)}
OURS = {"auglag, default": "deterministic", "auglag, stochastic": "stochastic"}


# -------------------------------------------------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class Task:
    """Standardised features with a column of ones, labels, groups, and the rows within which groups are compared."""

    A: np.ndarray
    y: np.ndarray
    s: np.ndarray
    constraint: str

    @property
    def parts(self) -> list[np.ndarray]:
        return [np.ones(len(self.y), bool)] if self.constraint == "demographic_parity" else [~self.y, self.y]

    def problem(self) -> StochasticProblem:
        """The problem that `FairLogisticRegression` solves."""
        parts, n = self.parts, self.A.shape[1]
        m, d = len(parts), n - 1
        blocks = [LinearBlock(self.A, np.where(self.y, 1.0, -1.0), objective=1.0, constraints=np.zeros(m))]
        for j, inside in enumerate(parts):
            for group, sign in ((0, 1.0), (1, -1.0)):
                rows = self.A[inside & (self.s == group)]
                blocks.append(LinearBlock(rows, -1.0, loss="sigmoid", constraints=sign * np.eye(m)[j]))
        l2 = np.sqrt(L2 * d) * np.eye(d, n)
        blocks.append(LinearBlock(l2, 0.0, loss="squared", objective=1.0, constraints=np.zeros(m)))
        return StochasticProblem(blocks, lower=np.full(m, -BOUND), upper=np.full(m, BOUND))


def generated(seed: int) -> Task:
    rng = np.random.default_rng(seed)
    n, d = 4000, 20
    s = rng.integers(0, 2, n)
    mixing = np.eye(d) + 0.5 * rng.standard_normal((d, d)) / math.sqrt(d)
    X = rng.standard_normal((n, d)) @ mixing
    X += 0.5 * s[:, None] * rng.standard_normal(d)
    X *= 10.0 ** rng.uniform(-1.0, 1.0, d)
    w = rng.standard_normal(d) / X.std(axis=0) / math.sqrt(d) * 2.0
    y = X @ w + 0.8 * s + rng.logistic(size=n) > np.median(X @ w)
    return Task(_standardised(X), y, s, "equalized_odds")


def diabetes(seed: int) -> Task:
    data = load_diabetes()
    rows = np.random.default_rng(seed).permutation(len(data.target))[: round(0.8 * len(data.target))]
    s = (data.data[rows, 1] > 0.0).astype(int)
    y = data.target[rows] > np.median(data.target)
    return Task(_standardised(np.delete(data.data[rows], 1, axis=1)), y, s, "demographic_parity")


def _standardised(X: np.ndarray) -> np.ndarray:
    return np.hstack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones((len(X), 1))])


TASKS = {"generated": generated, "diabetes": diabetes}


# ------------------------------------------------------------------------------------------------------------ methods


def judged(problem: StochasticProblem, x: np.ndarray, passes: float) -> dict[str, float]:
    """R with the best multipliers, violation, objective."""
    at = problem.evaluate(x)
    if not at.finite:
        return {"passes": passes, "residual": math.inf, "violation": math.inf, "objective": math.inf}
    found = certificate(FullBatchProblem.from_evaluation(problem, at), x)
    return {"passes": passes, "residual": found.residual, "violation": found.violation, "objective": found.objective}


def ours(task: Task, solver: str, seed: int, passes: float) -> list[dict[str, float]]:
    model = FairLogisticRegression(
        BOUND, constraint=task.constraint, solver=solver, l2=L2, tol=1e-7, max_iter=int(passes), random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(task.A[:, :-1], task.y, sensitive_features=task.s)
    keys = {"passes": "epochs", "residual": "residual", "violation": "violation", "objective": "objective"}
    return [{name: float(row[key]) for name, key in keys.items()} for row in model.result_.trace]


class Losses:
    """Loss and gaps of a linear model on a batch: of every (class, group) as many rows as is its share, or all rows."""

    def __init__(self, task: Task, steps: int, seed: int) -> None:
        self.A, self.sign = task.A, np.where(task.y, 1.0, -1.0)
        self.n, self.d = task.A.shape[0], task.A.shape[1] - 1
        self.rng, self.whole = np.random.default_rng(seed), steps == 1
        self.cells = [np.flatnonzero((task.y == label) & (task.s == group)) for label in (0, 1) for group in (0, 1)]
        self.counts = [len(cell) if self.whole else max(2, round(len(cell) / steps)) for cell in self.cells]
        self.rows_per_step = sum(self.counts)
        shares = [len(cell) / self.n for cell in self.cells]
        self.weights = torch.from_numpy(np.repeat(np.divide(shares, self.counts), self.counts))
        means = np.zeros((len(task.parts), self.rows_per_step))  # times sigmoid(z): the gaps
        ends = np.cumsum(self.counts)
        for cell, (end, count) in enumerate(zip(ends, self.counts, strict=True)):
            label, group = divmod(cell, 2)
            part, weight = (
                (label, 1.0) if len(task.parts) > 1 else (0, shares[cell] / (shares[group] + shares[group + 2]))
            )
            means[part, end - count : end] = (1.0 if group == 0 else -1.0) * weight / count
        self.means = torch.from_numpy(means)
        self.x = torch.nn.Parameter(torch.zeros(task.A.shape[1], dtype=torch.float64))
        self.batch = self._take(np.concatenate(self.cells)) if self.whole else None

    def _take(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(self.A[rows]), torch.from_numpy(self.sign[rows])

    def __call__(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(loss, violations of gap <= bound and -gap <= bound)."""
        batch = self.batch
        if batch is None:
            drawn = [cell[self.rng.integers(0, len(cell), k)] for cell, k in zip(self.cells, self.counts, strict=True)]
            batch = self._take(np.concatenate(drawn))
        z = batch[0] @ self.x
        loss = self.weights @ torch.nn.functional.softplus(-batch[1] * z) + 0.5 * L2 * torch.sum(self.x[: self.d] ** 2)
        gaps = self.means @ torch.sigmoid(z)
        return loss, torch.cat([gaps, -gaps]) - BOUND


def stepped(task: Task, losses: Losses, step, passes: float) -> list[dict[str, float]]:
    """Steps until the passes are spent, looked at now and then."""
    problem, done, trace = task.problem(), 0, []
    looks = [look for look in LOOKS if look <= passes]
    for look in looks:
        while (done + 1) * losses.rows_per_step <= look * losses.n:
            step()
            done += 1
        if done:
            x = losses.x.detach().numpy().copy()
            row = judged(problem, x, done * losses.rows_per_step / losses.n)
            trace.append(row)
            if not math.isfinite(row["residual"]):
                break
    return trace


def fixed_penalty(task: Task, setting: dict[str, float], seed: int, passes: float) -> list[dict[str, float]]:
    losses = Losses(task, int(setting["steps"]), seed)
    optimizer = torch.optim.SGD([losses.x], lr=setting["rate"])

    def step() -> None:
        optimizer.zero_grad()
        loss, violation = losses()
        (loss + 0.5 * setting["penalty"] * torch.sum(torch.relu(violation) ** 2)).backward()
        optimizer.step()

    return stepped(task, losses, step, passes)


def with_cooper(task: Task, setting: dict[str, float], seed: int, passes: float) -> list[dict[str, float]]:
    losses = Losses(task, int(setting["steps"]), seed)
    m = 2 * len(task.parts)
    multiplier = cooper.multipliers.DenseMultiplier(num_constraints=m, dtype=torch.float64)
    kind, penalty = cooper.formulations.Lagrangian, None
    if "penalty" in setting:
        kind = cooper.formulations.AugmentedLagrangian
        penalty = cooper.penalty_coefficients.DensePenaltyCoefficient(torch.tensor(setting["penalty"]).double())

    class Fairness(cooper.ConstrainedMinimizationProblem):
        def __init__(self) -> None:
            super().__init__()
            self.gaps = cooper.Constraint(cooper.ConstraintType.INEQUALITY, kind, multiplier, penalty)

        def compute_cmp_state(self) -> cooper.CMPState:
            loss, violation = losses()
            return cooper.CMPState(loss=loss, observed_constraints={self.gaps: cooper.ConstraintState(violation)})

    cmp = Fairness()
    optimizer = cooper.optim.AlternatingDualPrimalOptimizer(
        cmp,
        primal_optimizers=torch.optim.SGD([losses.x], lr=setting["rate"]),
        dual_optimizers=torch.optim.SGD(cmp.dual_parameters(), lr=setting["dual"], maximize=True),
    )
    return stepped(task, losses, optimizer.roll, passes)


RIVALS = {
    "Cooper, Lagrangian": with_cooper,
    "Cooper, augmented Lagrangian": with_cooper,
    "fixed penalty": fixed_penalty,
}


# --------------------------------------------------------------------------------------------------------------- runs


@dataclass(frozen=True)
class Key:
    task: str
    method: str
    setting: str  #: JSON
    seed: int


class Store:
    """One line per run, appended; what is there is not run again."""

    def __init__(self, path: Path) -> None:
        self.path, self.runs = path, {}
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue  # cut off by an interruption
                self.runs[Key(**row["key"])] = row["trace"]

    def run(self, key: Key, passes: float) -> list[dict[str, float]]:
        if key not in self.runs:
            task = TASKS[key.task](key.seed)
            if key.method in OURS:
                trace = ours(task, OURS[key.method], key.seed, passes)
            else:
                trace = RIVALS[key.method](task, json.loads(key.setting), key.seed, passes)
            with self.path.open("a") as file:
                file.write(json.dumps({"key": asdict(key), "trace": trace}) + "\n")
            self.runs[key] = trace
        return self.runs[key]


def smallest(trace: list[dict[str, float]], passes: float) -> dict[str, float]:
    """The row with the smallest R up to so many passes."""
    rows = [row for row in trace if row["passes"] <= passes * (1.0 + 1e-9)]
    none = {"residual": math.inf, "violation": math.inf, "objective": math.inf}
    return min(rows, key=lambda row: row["residual"], default=none)


def tuned(store: Store, task: str, method: str, grid: dict, seeds: tuple[int, ...], passes: float) -> tuple[str, int]:
    """(the setting with the smallest mean log R on the tuning seeds, how many there were)."""
    scores = {}
    wide = {name: (1,) if name == "steps" else (*values, *LONGER.get(name, ())) for name, values in grid.items()}
    every = [dict(zip(grid, values, strict=True)) for g in (grid, wide) for values in itertools.product(*g.values())]
    for setting in dict.fromkeys(json.dumps(setting) for setting in every):
        ends = [smallest(store.run(Key(task, method, setting, seed), passes), passes)["residual"] for seed in seeds]
        scores[setting] = float(np.mean(np.log10(np.clip(ends, 1e-12, 1e12))))
    return min(scores, key=lambda setting: scores[setting]), len(scores)


def band(values: list[float]) -> tuple[float, float, float]:
    """Mean of the logarithms and the 95 % interval, as numbers again."""
    logs = np.log10(np.clip(values, 1e-9, 1e9))
    half = student.ppf(0.975, len(logs) - 1) * np.std(logs, ddof=1) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    middle = float(np.mean(logs))
    return 10**middle, 10 ** (middle - half), 10 ** (middle + half)


# ------------------------------------------------------------------------------------------------------------- output


def written(folder: Path, found: dict, best: dict, optimum: dict, seeds: tuple[int, ...], passes: float) -> None:
    lines = [
        "# Logistic regression under a fairness bound",
        "",
        f"Made by `python benchmarks/fairness.py`; {len(seeds)} seeds, geometric means with 95 % intervals. Bound "
        f"{BOUND}, l2 = {L2}. A pass is one evaluation of every row; what counts is said in the script.",
        "",
    ]
    for task, methods in found.items():
        lines += [f"## {task}", "", "| method | " + " | ".join(f"R at {p:g} passes" for p in LEVELS if p <= passes)]
        lines[-1] += f" | violation at {passes:g} | objective above the optimum at {passes:g} | setting |"
        lines.append("|---" * (len([p for p in LEVELS if p <= passes]) + 4) + "|")
        for method, traces in methods.items():
            cells = []
            for level in [p for p in LEVELS if p <= passes]:
                middle, low, high = band([smallest(trace, level)["residual"] for trace in traces])
                cells.append(f"{middle:.1e} [{low:.0e}, {high:.0e}]")
            ends = [smallest(trace, passes) for trace in traces]
            cells.append(f"{np.mean([row['violation'] for row in ends]):.1e}")
            above = [row["objective"] - optimum[task][seed] for row, seed in zip(ends, seeds, strict=True)]
            cells.append(f"{np.mean(above):+.1e}")
            setting, count = best[task][method]
            chosen = ", ".join(f"{k} {v:g}" for k, v in json.loads(setting).items())
            cells.append(f"{chosen} (best of {count})" if count else "default")
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += [
        "Grids: "
        + "; ".join(f"{name}: {grid}" for name, grid in GRIDS.items())
        + f" (steps: to a pass; 1 takes all rows, and for it also {LONGER}); tuned on seeds {TUNING_SEEDS}.",
        "",
    ]
    if cooper is None:
        lines += ["Cooper was left out: cooper-optim is not installed.", ""]
    text = "\n".join(lines)
    (folder / "fairness.md").write_text(text)
    print(text)


def drawn(folder: Path, found: dict, optimum: dict, seeds: tuple[int, ...], passes: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from auglag.bench.style import RC, looks

    grid = np.geomspace(1.0, passes, 60)
    quantities = {"residual": "R", "violation": "violation", "objective": "objective above the optimum"}
    with plt.rc_context(RC):
        figure, axes = plt.subplots(len(found), 3, figsize=(9.0, 2.7 * len(found)), squeeze=False)
        for row, (task, methods) in zip(axes, found.items(), strict=True):
            look = looks(list(methods))
            for axis, (quantity, label) in zip(row, quantities.items(), strict=True):
                for method, traces in methods.items():
                    bands = []
                    for p in grid:
                        values = [smallest(trace, p)[quantity] for trace in traces]
                        if quantity == "objective":
                            values = [abs(v - optimum[task][seed]) for v, seed in zip(values, seeds, strict=True)]
                        bands.append(band(np.maximum(values, 1e-8).tolist()))
                    middle, low, high = np.array(bands).T
                    shown = middle < 1e3  # nothing evaluated yet
                    colour = look[method].colour
                    axis.plot(grid[shown], middle[shown], color=colour, linestyle=look[method].line, label=method)
                    axis.fill_between(grid[shown], low[shown], high[shown], color=colour, alpha=0.15, linewidth=0.0)
                axis.set(xscale="log", yscale="log", xlabel="passes over the data", title=f"{task}: {label}")
        figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", ncol=3, frameon=False)
        figure.tight_layout(rect=(0.0, 0.32 / (2.7 * len(found)) + 0.04, 1.0, 1.0))
        figure.savefig(folder / "fairness.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tasks", nargs="+", choices=sorted(TASKS), default=list(TASKS))
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent / "results")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    if torch is not None:
        torch.set_num_threads(1)
    seeds, tuning, passes = (SEEDS, TUNING_SEEDS, PASSES) if not options.quick else ((0, 1), (100,), 30.0)
    store = Store(options.output / ("fairness_quick.jsonl" if options.quick else "fairness.jsonl"))
    found, best, optimum = {}, {}, {}
    for task in options.tasks:
        found[task], best[task], optimum[task] = {}, {}, {}
        for seed in seeds:
            solution = minimize(TASKS[task](seed).problem(), tol=1e-8)
            optimum[task][seed] = solution.fun
        for method in (*OURS, *RIVALS):
            if (method in RIVALS and torch is None) or ("Cooper" in method and cooper is None):
                print(f"{method} is left out: not installed")
                continue
            best[task][method] = ("{}", 0)
            if method in RIVALS:
                grid = (
                    GRIDS[method] if not options.quick else {name: values[:2] for name, values in GRIDS[method].items()}
                )
                best[task][method] = tuned(store, task, method, grid, tuning, passes)
            setting = best[task][method][0]
            found[task][method] = [store.run(Key(task, method, setting, seed), passes) for seed in seeds]
            print(f"{task}, {method}: done", flush=True)
    written(options.output, found, best, optimum, seeds, passes)
    drawn(options.output, found, optimum, seeds, passes)


if __name__ == "__main__":
    main()
