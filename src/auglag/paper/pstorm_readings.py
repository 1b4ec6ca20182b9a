"""Which PStorm did the paper run? Its appendix prints no stepsize and no momentum; candidates, and what each implies.

What the appendix says of its Figures 4 and 5, and every candidate is asked: Adaptive-Full outperforms the other
variants; the results are like SGD's; Algorithm 2 is far more stable than a fixed number of epochs and does as well or
better in most trials. A candidate is a pair of methods: under Algorithm 2, and with 100 epochs a subproblem.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.bench.rendering import Cell, Table
from auglag.bench.setting import VARIANTS
from auglag.bench.summary import write_tables
from auglag.paper.jobs import Record, Watch, complete, load, unfinished
from auglag.paper.neyman_pearson import CHATS, problem_of, start
from auglag.stochastic import ConstantStep, InverseSqrt, Method, PStorm
from auglag.stochastic.method import estimate_lipschitz
from auglag.stochastic.steps import Call, StepRule

TRIALS, PASSES = 10, 2000.0


@final
@dataclass(frozen=True, slots=True)
class Shortened(StepRule):
    """The stepsize of `step`, but at most 1 / (8 L): there the momentum of PStorm is below 0.36."""

    step: StepRule

    def size(self, call: Call) -> float:
        return min(self.step.size(call), 1.0 / (8.0 * call.lipschitz()))


@final
@dataclass(frozen=True, slots=True)
class InverseCubeRoot(StepRule):
    """1 / T^(1/3), the rate of PStorm's theory without its constant."""

    def size(self, call: Call) -> float:
        return 1.0 / math.pow(call.steps, 1 / 3)


_ROOT, _FIXED = InverseSqrt(1.0), ConstantStep(0.1)
_LEMMA, _DECREASING = PStorm(schedule="cube-root", first="enlarged"), PStorm(schedule="decreasing")
#: Candidate: its method under Algorithm 2, and with fixed epochs. The first is `preset="paper"`.
READINGS: dict[str, tuple[PStorm, PStorm]] = {
    "SGD's stepsize, b from L (the preset)": (PStorm(step=_ROOT), PStorm(step=_FIXED)),
    "the same, first batch enlarged": (PStorm(step=_ROOT, first="enlarged"), PStorm(step=_FIXED, first="enlarged")),
    "the same, stepsize at most 1/(8 L)": (PStorm(step=Shortened(_ROOT)), PStorm(step=Shortened(_FIXED))),
    "SGD's stepsize, b = 0.1": (PStorm(step=_ROOT, momentum=0.1), PStorm(step=_FIXED, momentum=0.1)),
    "T^(-1/3), b from L": (PStorm(step=InverseCubeRoot()), PStorm(step=_FIXED)),
    "T^(-1/3), b = 0.1": (PStorm(step=InverseCubeRoot(), momentum=0.1), PStorm(step=_FIXED, momentum=0.1)),
    "1/(8 L T^(1/3)), enlarged (its lemma)": (_LEMMA, _LEMMA),
    "decreasing (its own paper)": (_DECREASING, _DECREASING),
}
#: (variant, inner strategy) of the runs of one candidate: Figures 4 and 5.
CURVES = (*((variant, "adaptive") for variant in VARIANTS), ("adaptive-full", "fixed"), ("always-full", "fixed"))


@final
@dataclass(slots=True)
class Watched(Method):
    """PStorm as it is, with a note of the iterations of every call, and whether its momentum was capped at 1."""

    inner: PStorm
    calls: list[tuple[int, bool]] = field(default_factory=list)
    batch: int | Sequence[int] = field(init=False)
    replacement: bool = field(init=False)
    name: ClassVar[str] = "pstorm"

    def __post_init__(self) -> None:
        self.batch, self.replacement = self.inner.batch, self.inner.replacement

    def run(self, oracle: Any, v: Vector, steps: int, rng: np.random.Generator, backend: Any) -> Vector:
        self.calls.append((steps, self._capped(oracle, v, steps, copy.deepcopy(rng))))
        return self.inner.run(oracle, v, steps, rng, backend)

    def _capped(self, oracle: Any, v: Vector, steps: int, rng: np.random.Generator) -> bool:
        """Found with a copy of the random numbers, and not counted: the call goes on as if nobody had looked."""
        if self.inner.momentum is not None or self.inner.schedule != "constant":
            return False
        ledger = oracle.ledger
        before = ledger.gradients, ledger.rows
        L = estimate_lipschitz(oracle, v, rng)
        size = self.inner.step.size(Call(steps, oracle.beta, 0.0, lambda: L))
        ledger.gradients, ledger.rows = before
        return 20.0 * (size * L) ** 2 >= 1.0  # 24 s / (1 + 4 s) >= 1


@final
@dataclass(frozen=True, slots=True)
class Job:
    """One run of a candidate."""

    reading: str
    variant: str
    inner: str
    chat: float
    trial: int
    passes: float

    @property
    def key(self) -> str:
        return f"{self.reading}/{self.variant}/{self.inner}/{self.chat}/{self.trial}/{self.passes:g}"

    def run(self) -> Record:
        from auglag.stochastic import minimize

        method = Watched(READINGS[self.reading][self.inner == "fixed"])
        result = minimize(
            problem_of(self.chat, self.trial), start(), method=method, variant=self.variant, tol=1e-12, seed=self.trial,
            preset="paper" if self.inner == "adaptive" else "paper-fixed", max_epochs=self.passes,
        )  # fmt: skip
        rows = [row for row in result.trace if row["k"] == 0 or (row["accepted"] and row["p"] > 0)]
        steps, capped = (np.array(column) for column in zip(*method.calls, strict=True))
        return {
            "key": self.key,
            "residual": float(f"{rows[-1]['residual']:.6g}"),
            "c_norm": float(f"{rows[-1]['c_norm']:.6g}"),
            "calls": len(steps),
            "capped": int(capped.sum()),
            "steps": int(steps.sum()),
            "capped_steps": int(steps[capped].sum()),
        }

    def whole(self, record: Record) -> bool:
        return "capped_steps" in record


def _size(quick: bool) -> tuple[tuple[float, ...], int, float]:
    return (CHATS[::3], 2, 100.0) if quick else (CHATS, TRIALS, PASSES)


def _jobs(quick: bool) -> list[Job]:
    chats, trials, passes = _size(quick)
    return [
        Job(reading, variant, inner, chat, trial, passes)
        for reading in READINGS
        for chat in chats
        for trial in range(trials)
        for variant, inner in CURVES
    ]


def run(output: Path, *, quick: bool = False, workers: int = 2, watch: Watch | None = None) -> Path:
    """Make the runs that `output`/pstorm.jsonl does not have, and write `pstorm.md`."""
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    records = complete(_jobs(quick), output / "pstorm.jsonl", workers, watch)
    path = output / "pstorm.md"
    write_tables(path, "Which PStorm did the paper run?", [table(records, quick=quick)], _TEXT)
    return path


def remaining(output: Path, *, quick: bool = False) -> int:
    """How many runs `run` has still to make."""
    return len(unfinished(_jobs(quick), load(Path(output) / "pstorm.jsonl")))


_TEXT = """    auglag paper pstorm

The command keeps one record for each run in `pstorm.jsonl` beside the page, in the folder that `--output` names; this
file is not published. `residual` and `c_norm` there are R and c(x, s) of the last iterate, which the table counts.

Neyman-Pearson classification as in Figures 4 and 5. b is PStorm's momentum, d+ = D(v+) + (1 - b)(d - D(v)); with b = 1
it is SGD at twice the cost. "b from L" is min(1, 24 a^2 L^2 / (1 + 4 a^2 L^2)) for the stepsize a and an estimate of L.
"""


def table(records: Mapping[str, Record], *, quick: bool = False) -> Table:
    """One row for each candidate: what the appendix says of its figures, and how often b is capped."""
    chats, trials, passes = _size(quick)
    lines: list[tuple[Cell, ...]] = []
    for reading in READINGS:
        found = {
            (variant, inner, chat): [records[Job(reading, variant, inner, chat, t, passes).key] for t in range(trials)]
            for variant, inner in CURVES
            for chat in chats
        }
        best_r = sum(_best(found, chat, "residual", np.median) for chat in chats)
        best_c = sum(_best(found, chat, "c_norm", np.mean) for chat in chats)
        both = [[found["adaptive-full", inner, c][t]["residual"] for inner in ("adaptive", "fixed")]
                for c in chats for t in range(trials)]  # fmt: skip
        wins = sum(adaptive <= fixed for adaptive, fixed in both)
        ours = [r for (_, inner, _), group in found.items() if inner == "adaptive" for r in group]
        calls, steps = (sum(r[f"capped{w}"] for r in ours) / sum(r[k] for r in ours)
                        for w, k in (("", "calls"), ("_steps", "steps")))  # fmt: skip
        middle = [np.median([r["residual"] for r in found["adaptive-full", "adaptive", c]]) for c in chats]
        lines.append(
            (
                reading,
                f"{best_r}/{len(chats)}",
                f"{best_c}/{len(chats)}",
                f"{wins}/{len(both)}",
                f"{min(middle):.1e} to {max(middle):.1e}",
                f"{100 * calls:.0f} %",
                f"{100 * steps:.0f} %",
            )
        )
    columns = ("stepsize and momentum", "Adaptive-Full: least median R", "least mean c(x, s)", "Algorithm 2 wins",
               "its median R", "calls with b = 1", "iterations with b = 1")  # fmt: skip
    notes = (
        f"{trials} trials, {passes:g} passes and the last full-batch tests. Panels (of {len(chats)}) in which "
        "Adaptive-Full is the best of the four variants; trials in which Algorithm 2 ends with no larger R than the "
        "fixed strategy, both with Adaptive-Full.",
    )
    return Table("Candidates, and what the appendix says", columns, tuple(lines), notes)


def _best(found: Mapping[tuple[str, str, float], list[Record]], chat: float, column: str, middle: Any) -> bool:
    values = {v: middle([r[column] for r in found[v, "adaptive", chat]]) for v in VARIANTS}
    return min(values, key=lambda v: float(values[v])) == "adaptive-full"
