"""Measured numbers of inner steps against eps, beside the exponents of the paper's complexity theorems.

The problem meets the assumptions: f and c are smooth and nonconvex (a quartic in a bounded box, g its indicator), the
constraint is a sphere on which the Jacobian does not vanish, noise is Gaussian with bounded variance. For every eps the
methods run under Algorithm 1 (and 2) until R <= eps on the exact functions; the slope of log(steps) against log(1/eps)
is fitted over all trials, with a bootstrap interval over the trials.

Theory: proximal gradient eps^-3; stochastic proximal gradient eps^-6 (deterministic constraints) and eps^-7; PStorm
eps^-4 and eps^-5. These are worst cases: a measured slope below them is agreement, one above would be a contradiction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.paper.jobs import Record, Watch, complete, load, unfinished

N, ROWS = 10, 4000
THEORY = {
    "proximal gradient": 3.0,
    "SGD, deterministic c": 6.0,
    "SGD, stochastic c": 7.0,
    "PStorm, deterministic c": 4.0,
    "PStorm, stochastic c": 5.0,
}
EPS = {"proximal gradient": (1e-1, 3e-2, 1e-2, 3e-3, 1e-3), "sampled": (0.8, 0.57, 0.4, 0.28, 0.2, 0.14)}
LIMIT = 150_000
TRIALS = 6


@final
@dataclass(frozen=True, slots=True)
class Job:
    """One method, one eps, one trial."""

    name: str
    eps: float
    trial: int
    limit: int

    @property
    def key(self) -> str:
        return f"{self.name}/{self.eps:g}/{self.trial}" + ("" if self.limit == LIMIT else f"/{self.limit}")

    def run(self) -> Record:
        return measure(self)

    def whole(self, record: Record) -> bool:
        return "steps" in record


def problem_of(trial: int, *, noisy_constraint: bool) -> Any:
    """min mean sum_j (x_j^4/4 - x_j^2/2 + a_ij x_j) s.t. mean b_i (||x||^2 - 1) = 0, |x_j| <= 2."""
    from auglag import prox
    from auglag.stochastic import FunctionBlock, StochasticProblem

    rng = np.random.default_rng(trial)
    a = 0.5 * rng.standard_normal((ROWS, N))
    a += 0.3 * rng.standard_normal(N) - a.mean(axis=0)
    b = 1.0 + 0.25 * rng.standard_normal(ROWS)
    b += 1.0 - b.mean()
    loss = FunctionBlock(
        N,
        1,
        data=a,
        objective=lambda x, z: float(np.sum(x**4 / 4 - x**2 / 2 + z.mean(axis=0) * x)),
        gradient=lambda x, z: x**3 - x + z.mean(axis=0),
    )
    if noisy_constraint:
        sphere = FunctionBlock(
            N, 1, data=b, constraints=lambda x, z: [z.mean() * (x @ x - 1.0)],
            vjp=lambda x, z, w: 2 * w[0] * z.mean() * x,
        )  # fmt: skip
    else:
        sphere = FunctionBlock(
            N, 1, exact=True, constraints=lambda x, z: [x @ x - 1.0], vjp=lambda x, z, w: 2 * w[0] * x
        )  # fmt: skip
    return StochasticProblem([loss, sphere], lower=[0.0], upper=[0.0], g=prox.Box(-2.0, 2.0))


def measure(job: Job) -> Record:
    """Steps until R <= eps, or None if the limit came first."""
    import auglag
    from auglag.stochastic import SGD, AdaptiveEpochs, FullBatchProblem, InverseSqrt, PStorm, minimize

    problem = problem_of(job.trial, noisy_constraint="stochastic c" in job.name)
    x0 = np.random.default_rng(10_000 + job.trial).uniform(-1.5, 1.5, N)
    rules: dict[str, Any] = {
        "penalty": auglag.Adaptive(initial=1.0, gamma=2.0, tau=0.8),
        "dual": auglag.Full(y_max=100.0),
    }
    if job.name == "proximal gradient":
        result = auglag.minimize(
            FullBatchProblem(problem, x0), tol=job.eps, inner="proximal-gradient", scaling=False,
            tolerance=auglag.PowerLaw(1.0, 1.0), budget=auglag.Budget(inner=None, outer=2000), **rules,
        )  # fmt: skip
        steps = result.nit_inner if result.success else None
    else:
        method = SGD if job.name.startswith("SGD") else PStorm
        found = minimize(
            problem, x0, method=method(step=InverseSqrt(0.5), batch=1),
            epochs=AdaptiveEpochs(initial=16, restart=False), tol=job.eps, seed=job.trial,
            tolerance=auglag.PowerLaw(1.0, 1.0), max_epochs=None, max_gradients=job.limit, **rules,
        )  # fmt: skip
        steps = found.gradients if found.success else None
    return {"key": job.key, "steps": steps}


def run(output: Path, *, quick: bool = False, workers: int = 2, watch: Watch | None = None) -> Path:
    """Measure, fit, draw, write `complexity.md`; finished runs in `output`/complexity.jsonl are kept.

    `watch` is told how many of how many are done.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    jobs = _jobs(quick)
    records = complete(jobs, output / "complexity.jsonl", workers, watch)
    fits = {name: _fit([job for job in jobs if job.name == name], records) for name in THEORY}
    _draw(fits, output)
    return _write(fits, len({job.trial for job in jobs}), jobs[0].limit, output)


def remaining(output: Path, *, quick: bool = False) -> int:
    """How many runs `run` has still to make."""
    return len(unfinished(_jobs(quick), load(Path(output) / "complexity.jsonl")))


def _jobs(quick: bool) -> list[Job]:
    count, limit = (3, 30_000) if quick else (TRIALS, LIMIT)
    jobs = []
    for name in THEORY:
        levels = EPS[name] if name in EPS else EPS["sampled"]
        jobs += [Job(name, eps, t, limit) for eps in (levels[:3] if quick else levels) for t in range(count)]
    return jobs


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """The slope of log steps against log 1/eps, with its interval, and the points behind it."""

    eps: Vector
    steps: Vector  #: (trials, eps), NaN where the limit came first
    slope: float
    interval: tuple[float, float]
    used: int  #: smallest levels of eps at which every trial finished


def _fit(jobs: list[Job], records: Mapping[str, Record]) -> Fit:
    levels = sorted({job.eps for job in jobs}, reverse=True)
    found = {(job.trial, job.eps): records[job.key]["steps"] for job in jobs}
    trials = sorted({job.trial for job in jobs})
    steps = np.array([[found[trial, eps] for eps in levels] for trial in trials], dtype=np.float64)  # None: NaN
    whole = int(np.sum(np.cumprod(np.isfinite(steps).all(axis=0))))
    eps = np.array(levels)
    if whole < 2:
        return Fit(eps, steps, math.nan, (math.nan, math.nan), whole)
    x, y = np.log(1.0 / eps[:whole]), np.log(np.maximum(steps[:, :whole], 1.0))
    rng = np.random.default_rng(0)
    slopes = [np.polyfit(x, y[rng.integers(0, len(y), len(y))].mean(axis=0), 1)[0] for _ in range(2000)]
    low, high = np.quantile(slopes, [0.025, 0.975])
    return Fit(eps, steps, float(np.polyfit(x, y.mean(axis=0), 1)[0]), (float(low), float(high)), whole)


def _draw(fits: dict[str, Fit], output: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from auglag.bench.style import COLOURS
    from auglag.paper.stochastic_report import DASHES

    figure, axis = plt.subplots(figsize=(6.0, 4.2))
    for i, (name, fit) in enumerate(fits.items()):
        colour, dash = COLOURS[i], (*DASHES, "-")[i]
        label = f"{name}: slope {fit.slope:.2f} (bound {THEORY[name]:g})"
        middle = np.exp(np.mean(np.log(np.maximum(fit.steps[:, : fit.used], 1.0)), axis=0))
        axis.plot(1.0 / fit.eps[: fit.used], middle, dash, marker="o", markersize=3, color=colour, label=label)
    axis.set(
        xscale="log", yscale="log", xlabel="1 / eps",
        ylabel="iterations (proximal gradient) or\nstochastic gradients, geometric mean",
    )  # fmt: skip
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
    figure.tight_layout()
    for suffix in ("pdf", "png"):
        figure.savefig(output / f"complexity.{suffix}", dpi=110)
    plt.close(figure)


def _write(fits: dict[str, Fit], trials: int, limit: int, output: Path) -> Path:
    lines = [
        "# Inner steps against eps",
        "",
        f"{trials} trials; a sampled run ends after {limit} stochastic gradients of one row each. The slope is "
        "fitted over the levels of eps at which every trial finished; 95 % bootstrap interval over trials.",
        "",
        "Steps are iterations for proximal gradient and stochastic gradients for the others; an iteration of PStorm "
        "takes two. SGD and PStorm both run under Algorithm 2 with stepsize 0.5/sqrt(T) and PStorm with the momentum "
        "of its constant schedule, not with the stepsizes of the theory: the slopes are those of this stepsize and of "
        "the doubling of T as much as of the methods.",
        "",
        "| method | theory (at most) | measured slope | interval | eps used | steps, geometric mean |",
        "|---|---|---|---|---|---|",
    ]
    for name, fit in fits.items():
        middle = np.exp(np.mean(np.log(np.maximum(fit.steps[:, : fit.used], 1.0)), axis=0))
        eps, steps = ", ".join(f"{e:g}" for e in fit.eps[: fit.used]), ", ".join(f"{s:.0f}" for s in middle)
        low, high = fit.interval
        lines.append(f"| {name} | {THEORY[name]:g} | {fit.slope:.2f} | [{low:.2f}, {high:.2f}] | {eps} | {steps} |")
    path = output / "complexity.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
