"""The paper's stochastic experiments, figures 2-5: Neyman-Pearson classification on Spambase.

`run` makes all runs that the figures asked for need (and only those that are not on disk yet), then draws the figures
and writes table and records. The paper leaves open: the stepsize of PStorm (here as for SGD, with momentum from an
estimate of the Lipschitz constant), tau (0.8), eta'_k (1/k), what an epoch of the fixed strategy is (a pass over the
data), and whether trials share a split (here every trial has its own; x_0 is the same in all).

The constraint violation that is drawn is ||c(x, s)|| = |c(x) - chat + s|, s >= 0, the second term of the paper's R, at
every full-batch test ("c_norm" in the records). The slack s is that of the run. With the paper's settings it is a
variable, and s is where the sampled steps left it; with ours ("default") it is replaced before every test by the
minimiser of the augmented Lagrangian for this x, s = max(0, chat - c(x) - y/beta). Beside it, in figures, tables and
records, is the violation of the inequality itself, (c(x) - chat)_+, which knows no slack ("violation").
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from auglag.bench.setting import VARIANTS
from auglag.paper.jobs import Record, Runnable, Watch, complete, load, unfinished

CHATS = (0.6, 0.7, 0.8, 0.9)
TRIALS = 20
PASSES = 2000.0
#: What a record keeps of every full-batch test.
COLUMNS = ("epochs", "gradients", "seconds", "residual", "c_norm", "violation", "objective")


#: Other papers' methods: Stoc-iALM with the stepsize of the paper's fixed strategy, and with that of its own theory.
RIVALS = {"stoc-ialm": "Stoc-iALM", "stoc-ialm-theory": "Stoc-iALM, stepsize of its theory"}
#: Other lengths of the inner solves: epochs of every subproblem, and T_{1,1} of Algorithm 2 (100 and 1 in the paper).
LENGTHS = {
    **{f"fixed-{n}": f"fixed, {n} epochs" for n in (10, 30, 300)},
    **{f"adaptive-{n}": f"Algorithm 2, T = {n}" for n in (16, 256)},
}


@final
@dataclass(frozen=True, slots=True)
class Config:
    """One curve: method, outer variant, inner strategy."""

    method: str  #: "sgd", "pstorm", "svrg"
    variant: str
    inner: str  #: "adaptive" (Algorithm 2), "fixed", "default" (our settings), or one of `RIVALS` or `LENGTHS`

    @property
    def key(self) -> str:
        """A name for files and tables."""
        return f"{self.method}/{self.variant}/{self.inner}"

    @property
    def label(self) -> str:
        """The legend's entry."""
        outer = VARIANTS[self.variant]
        known = {"adaptive": outer, "fixed": f"{outer}, fixed", "default": f"{self.method.upper()}"} | RIVALS | LENGTHS
        return known[self.inner]


FIGURES: dict[str, tuple[Config, ...]] = {}
for _number, _method in ((2, "sgd"), (4, "pstorm")):
    FIGURES[f"fig{_number}"] = tuple(Config(_method, variant, "adaptive") for variant in VARIANTS)
    FIGURES[f"fig{_number + 1}"] = tuple(
        Config(_method, variant, inner)
        for variant in ("adaptive-full", "always-full")
        for inner in ("adaptive", "fixed")
    )
#: Not in the paper: variance reduction under Algorithm 2 with our settings, beside SGD and PStorm with ours.
FIGURES["more"] = tuple(Config(method, "adaptive-full", "default") for method in ("svrg", "sgd", "pstorm"))
#: Nor this: Stoc-iALM of the paper's Table 1, beside Algorithm 2 and the fixed strategy with the same inner method.
FIGURES["rivals"] = (
    Config("pstorm", "adaptive-full", "adaptive"),
    Config("pstorm", "adaptive-full", "fixed"),
    *(Config("pstorm", "always-short", name) for name in RIVALS),
)
#: Nor this: how much the length of the inner solves matters.
FIGURES["lengths"] = tuple(Config("sgd", "adaptive-full", inner) for inner in ("adaptive", "fixed", *LENGTHS))


@final
@dataclass(frozen=True, slots=True)
class Job:
    """One run."""

    config: Config
    chat: float
    trial: int
    passes: float

    @property
    def key(self) -> str:
        return f"{self.config.key}/{self.chat}/{self.trial}/{self.passes:g}"

    def run(self) -> Record:
        return solve(self)

    def whole(self, record: Record) -> bool:
        return _whole(record)


@final
@dataclass(frozen=True, slots=True)
class Reference:
    """The optimum of one trial."""

    chat: float
    trial: int

    @property
    def key(self) -> str:
        return f"reference/{self.chat}/{self.trial}"

    def run(self) -> Record:
        """The optimum, certified to R <= 1e-8."""
        from auglag.stochastic import minimize

        problem = problem_of(self.chat, self.trial)
        result = minimize(problem, start(), tol=1e-8, max_epochs=500)
        if not result.success:
            raise RuntimeError(f"no reference for chat {self.chat}, trial {self.trial}: {result.message}")
        return {
            "key": self.key,
            "objective": result.fun,
            "multiplier": float(result.multipliers[0]),
            "constraint": float(problem.evaluate(result.x).c[0]),
            "epochs": result.epochs,
            "rates": result.rates,
        }

    def whole(self, record: Record) -> bool:
        return _whole(record)


def beyond(passes: float, traces: Iterable[Record]) -> str:
    """What "so many passes" means, in words: a run is measured once more when they are used up, which is work, too."""
    most = max((float(epochs) for trace in traces for epochs in trace["epochs"][-1:]), default=passes)
    return f"{passes:g} passes over the data and the full-batch tests that end a run, {most:.2f} passes in all at most"


def _whole(record: Record) -> bool:
    """Whether every column is there: records of an earlier version have no "c_norm"."""
    return "trace" not in record or record["trace"].keys() >= {*COLUMNS, "iterate"}


def problem_of(chat: float, trial: int) -> Any:
    """The problem of a trial: its own 80/20 split."""
    from auglag.stochastic import neyman_pearson

    data = _spambase()
    return neyman_pearson(data.X, data.y, chat=chat, split=0.8, seed=1000 + trial)


@functools.cache
def _spambase() -> Any:
    from auglag.datasets import load_spambase

    return load_spambase()


def start() -> Any:
    """x_0, the same in every run."""
    return np.random.default_rng(2024).standard_normal(57)


def settings(config: Config) -> dict[str, Any]:
    """What `auglag.stochastic.minimize` is told of a curve."""
    from auglag.stochastic import AdaptiveEpochs, FixedEpochs, PStorm

    if config.inner in LENGTHS:
        kind, _, length = config.inner.partition("-")
        epochs = FixedEpochs(int(length)) if kind == "fixed" else AdaptiveEpochs(initial=int(length))
        preset = "paper-fixed" if kind == "fixed" else "paper"
        return {"method": config.method, "preset": preset, "variant": config.variant, "epochs": epochs}
    if config.inner == "stoc-ialm-theory":
        return {"preset": "stoc-ialm", "method": PStorm(schedule="cube-root", first="enlarged", finish=True)}
    if config.inner in RIVALS:
        return {"preset": config.inner}
    own = {"adaptive": "paper", "fixed": "paper-fixed", "default": None}[config.inner]
    return {"method": config.method, "preset": own, "variant": config.variant}


def solve(job: Job) -> Record:
    """One run, as a record."""
    from auglag.stochastic import minimize

    problem, began = problem_of(job.chat, job.trial), time.process_time()
    result = minimize(
        problem, start(), tol=1e-12, seed=job.trial, max_epochs=job.passes, **settings(job.config)
    )  # fmt: skip
    trace = {name: [_short(row[name]) for row in result.trace] for name in COLUMNS}
    # p = 0: the work ended before the first call of a subproblem; x_k again, with multipliers of the next one.
    trace["iterate"] = [int(row["k"] == 0 or (row["accepted"] and row["p"] > 0)) for row in result.trace]
    return {
        "key": job.key,
        "trace": trace,
        "rates": result.rates,
        "multiplier": _short(float(result.multipliers[0])),
        "holdout_violation": _short(result.holdout.violation),
        "cpu_seconds": round(time.process_time() - began, 3),
        "status": result.status.name,
        "steps": result.gradients,
    }


def _short(value: float) -> float:
    """Six digits are enough for a curve."""
    return float(f"{value:.6g}") if math.isfinite(value) else value


# ------------------------------------------------------------------------------------------------------------- running


def run(
    output: Path,
    *,
    quick: bool = False,
    workers: int = 2,
    figures: Iterable[str] = tuple(FIGURES),
    work: str = "epochs",
    watch: Watch | None = None,
) -> Path:
    """Make the runs, draw the figures, write table and records into `output`; returns the table's path.

    `work` is the horizontal axis: "epochs" (passes over the data), "gradients" (stochastic gradients) or "seconds".
    Called again after an interruption, it makes only the runs that are not in `output`/runs.jsonl yet; those that an
    earlier version recorded there with fewer columns are made again. `watch` is told how many are done.
    """
    from auglag.paper import stochastic_report as report

    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    names = tuple(figures)
    chats, trials, passes = size(quick)
    began = time.monotonic()
    records = complete(_jobs(quick, names), output / "runs.jsonl", workers, watch)
    study = report.Study(records, chats, trials, passes, work, time.monotonic() - began)
    for name in names:
        report.draw(study, name, FIGURES[name], output)
    table = report.write(study, {name: FIGURES[name] for name in names}, output)
    with gzip.open(output / "records.jsonl.gz", "wt", encoding="utf-8") as file:
        for key in sorted(records):
            if _whole(records[key]):
                file.write(json.dumps(records[key]) + "\n")
    return table


def remaining(output: Path, *, quick: bool = False, figures: Iterable[str] = tuple(FIGURES)) -> int:
    """How many runs `run` has still to make."""
    return len(unfinished(_jobs(quick, figures), load(Path(output) / "runs.jsonl")))


def size(quick: bool) -> tuple[tuple[float, ...], int, float]:
    """The chats, the number of trials, the passes over the data."""
    return (CHATS[::3], 3, 120.0) if quick else (CHATS, TRIALS, PASSES)


def _jobs(quick: bool, figures: Iterable[str]) -> list[Runnable]:
    """The optima of all trials, and every run of the figures once."""
    chats, trials, passes = size(quick)
    pairs = [(chat, trial) for chat in chats for trial in range(trials)]
    configs = dict.fromkeys(config for name in figures for config in FIGURES[name])
    references = [Reference(*pair) for pair in pairs]
    return [*references, *(Job(config, *pair, passes) for config in configs for pair in pairs)]
