"""Records made by hand, and a whole seeded experiment of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from auglag.bench.profiles import FAILURE_RATIO, Profile, performance_profile, residual_below
from auglag.bench.record import Ending, Record
from auglag.bench.setting import PAPER_SETTINGS, VARIANTS, Setting
from auglag.bench.spec import Run

TABLE2_NAMES = ("ALLINITC", "BROWNALE", "BT4", "BT6", "BT7", "BYRDSPHR", "CB2", "CB3", "CHACONN1", "CHACONN2")


def record(problem: str, solver: str, gradients: int, *, solved: bool = True, n: int = 2, **fields: Any) -> Record:
    """A run that the judge accepts at every tolerance, or at none."""
    small = 0.0 if solved else math.inf
    content = {
        "ending": Ending.RETURNED,
        "claims_success": solved,
        "violation": small,
        "stationarity": (small, small, small),
        "residual": small,
    }
    return Record(run=Run(problem, solver), gradients=gradients, n=n, **(content | fields))


def paper_profile(records: list[Record], *, eps: float, **options: Any) -> Profile:
    """One panel of the paper's Figure 1: R <= eps as the test, ratio 100 for failures."""
    return performance_profile(records, solved=residual_below(eps), failure_ratio=FAILURE_RATIO, **options)


def experiment(problems: int = 60, *, seed: int = 0, settings: tuple[Setting, ...] = PAPER_SETTINGS) -> list[Record]:
    """Four variants x settings x problems: gradients, betas, histories and failures of every kind."""
    generator = np.random.default_rng(seed)
    names = (TABLE2_NAMES + tuple(f"PROB{i}" for i in range(problems)))[:problems]
    hardness = {name: generator.normal() for name in names}
    sizes = {name: (int(generator.integers(2, 400)), int(generator.integers(1, 300))) for name in names}
    return [
        _run(name, sizes[name], hardness[name], variant, setting, generator)
        for setting in settings
        for name in names
        for variant in VARIANTS
    ]


def _run(
    name: str, size: tuple[int, int], hardness: float, variant: str, setting: Setting, generator: np.random.Generator
) -> Record:
    always, short = variant.startswith("always"), variant.endswith("short")
    growth = setting.gamma if always else setting.gamma ** (0.6 if setting.tau > 0.6 else 0.8)
    rate = np.exp(-0.35 + 0.25 * short + 0.1 * generator.normal() + 0.08 * hardness)
    failed = generator.random() < 1 / (1 + math.exp(1.4 - hardness - 0.9 * short - 0.2 * always * setting.gamma))
    history: list[dict[str, float]] = []
    beta, violation = 1e-3, 10.0 ** generator.uniform(-1, 3)
    for k in range(1, 151):
        violation = float(max(violation * rate * math.exp(0.3 * generator.normal()), 0.03 if failed else 1e-7))
        stationarity = min(1 / k, 1 / beta) * generator.random()
        history.append(
            {
                "k": float(k),
                "beta": beta,
                "eta": min(1 / k, 1 / beta),
                "violation": violation,
                "stationarity": stationarity,
                "residual": violation + stationarity,
                "objective": float(generator.normal()),
                "evaluations": float(generator.integers(2, 12) * (1 + always * k // 20)),
            }
        )
        if violation + stationarity <= setting.eps:
            break
        beta *= growth
    solved = history[-1]["residual"] <= setting.eps
    ending, message = _end(solved, generator)
    last = history[-1]
    options = {"tol": setting.eps, "tau": setting.tau, "gamma": setting.gamma, "variant": variant, "preset": "paper"}
    judge = float(max(last["residual"] * generator.uniform(0.2, 1.2), 1e-9))
    lost = ending in (Ending.TIMEOUT, Ending.MEMORY, Ending.CRASH)
    return Record(
        run=Run(name, "auglag", options=options, label=VARIANTS[variant]),
        ending=ending,
        message=message,
        claims_success=None if lost else solved or generator.random() < 0.05,
        n=0 if lost else size[0],
        m=0 if lost else size[1],
        objective=math.nan if lost else last["objective"],
        violation=math.inf if lost else last["violation"],
        stationarity=(math.inf,) * 3 if lost else (judge, judge, judge),
        residual=math.nan if lost else last["residual"],
        gradients=int(sum(row["evaluations"] for row in history)),
        cpu=float(generator.exponential(0.2)),
        seconds=float(generator.exponential(0.25)),
        extra={} if lost else {"beta": last["beta"], "outer": len(history), "status": message.split(":")[0]},
        history=None if lost else history,
        environment={"solver": "auglag 0.1"},
    )


def _end(solved: bool, generator: np.random.Generator) -> tuple[str, str]:
    if solved:
        return Ending.RETURNED, "SOLVED: Solved: the certificate meets the tolerance."
    ends = [
        (Ending.RETURNED, f"STUCK: Stuck: no further progress. Residual {generator.random():.2e}"),
        (Ending.LIMIT, "EVALUATION_LIMIT: 20000 gradients"),
        (Ending.EXCEPTION, "FloatingPointError: overflow encountered in </script><b>multiply & divide"),
        (Ending.TIMEOUT, "killed after 60 s"),
        (Ending.MEMORY, "killed above 4096 MiB"),
        (Ending.CRASH, "signal 11"),
    ]
    return ends[int(generator.choice(len(ends), p=[0.45, 0.35, 0.1, 0.06, 0.02, 0.02]))]
