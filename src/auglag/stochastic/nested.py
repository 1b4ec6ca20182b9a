"""A start from nested random samples: with many more rows than parameters, most of the way costs few of them.

Algorithm 1 is run on N/64 and then N/8 of the rows, each until its residual is no larger than the noise of its sample;
that is only a choice of x_1, y_1 and beta_1 for the run on all rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.rules import Adaptive, Always, History, PenaltyRule, ToleranceRule
from auglag.algorithm.status import Status
from auglag.inner.base import InnerResult
from auglag.stochastic.full_batch import FullBatch, Ledger
from auglag.stochastic.lagrangian import FullTest, Geometry
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.settings import Settings, Tracking
from auglag.stochastic.stage import InnerLoop, Stage
from auglag.strategy.old_outer import augmented_lagrangian

#: Shares of the rows, smallest first.
SHARES = (1 / 64, 1 / 8)
#: Samples larger than this (bytes) are not copied to memory; the level is skipped.
LARGEST_SAMPLE = 600 * 2**20
#: Outer iterations on one sample; more would fit its noise.
MOST_OUTER = 12
#: Slices of a sample whose spread estimates its noise.
SLICES = 16
#: Nested samples pay where there are more rows than this per variable.
ROWS_PER_VARIABLE = 500


@final
@dataclass(frozen=True, slots=True)
class Start:
    """x_1, y_1 and beta_1, and the tolerance that the schedule goes on with."""

    x: Vector
    y: Vector
    beta: float | None
    eta: float | None


def worthwhile(problem: StochasticProblem, wanted: bool | None) -> bool:
    """Whether to start on samples."""
    if wanted is not None:
        return wanted and problem.finite_data
    return problem.finite_data and (problem.rows or 0) > ROWS_PER_VARIABLE * problem.n


def nested_start(
    problem: StochasticProblem,
    settings: Settings,
    start: Start,
    inner: InnerLoop,
    ledger: Ledger,
    tol: float,
    rng: np.random.Generator,
    say: Callable[[str], None] | None = None,
) -> Start:
    """The point, multipliers and penalty that the samples lead to."""
    rows = sum(block.rows or 0 for block in problem.blocks)
    orders = [rng.permutation(block.rows or 0) for block in problem.blocks]
    for share in SHARES:
        sizes = [min(len(order), max(32, int(share * len(order)))) for order in orders]
        if sum(sizes) < 4 * problem.n or 2 * sum(sizes) > rows or _bytes(problem, sizes) > LARGEST_SAMPLE:
            continue
        sample = problem.subset([order[:size] for order, size in zip(orders, sizes, strict=True)])
        start = _level(sample, settings, start, inner, ledger, tol, sum(sizes) / rows)
        if say is not None:
            say(f"sample of {sum(sizes)} rows: done after {ledger.rows / rows:.2f} passes over all rows")
    return start


def _level(
    sample: StochasticProblem,
    settings: Settings,
    start: Start,
    inner: InnerLoop,
    ledger: Ledger,
    tol: float,
    share: float,
) -> Start:
    full = FullBatch(sample, ledger)
    stage = Stage(Geometry(sample, settings.slacks), full)
    penalty, tolerance = begin_at(settings.penalty, start.beta), go_on(settings.tolerance, start.eta, tol)
    first = stage.subproblem(start.y, penalty.next(History(0.0, 0.0)))
    v = stage.geometry.start(start.x, full.at(start.x).c)
    rows = History(full.at(start.x).f, float(np.linalg.norm(first.constraint(v))), settings.negligible * tol)

    def stop(history: History, found: InnerResult) -> Status | None:
        last = history.last
        test = stage.last
        assert test is not None
        quiet = last.residual <= max(noise(sample, test, ledger) * math.sqrt(max(0.0, 1.0 - share)), tol)
        if quiet or last.k >= MOST_OUTER or last.inner_status == "BUDGET":
            return Status.SOLVED
        return None

    inner.begin_level()
    watch, inner.watch = inner.watch, _Silent()
    try:
        outcome = augmented_lagrangian(
            stage, v, start.y, rows, penalty=penalty, dual=settings.dual, tolerance=tolerance, inner=inner,
            stop=stop, watch=lambda history, x, y, y_hat: inner.set_iteration(history.k), inner_limit=10**6,
        )  # fmt: skip
    finally:
        inner.watch = watch
    x = stage.geometry.x(outcome.x)
    return Start(x, outcome.y, rows.last.beta, max(tolerance.next(rows), 0.02))


@final
class _Silent:
    """Tests on a sample are not tests of the problem: they are not recorded, and never end the run."""

    def tested(self, test: FullTest, *, p: int, steps: int, accepted: bool) -> bool:
        return False


def begin_at(penalty: PenaltyRule, beta: float | None) -> PenaltyRule:
    """The rule with another beta_1."""
    return replace(penalty, initial=beta) if beta is not None and isinstance(penalty, Adaptive | Always) else penalty


def go_on(tolerance: ToleranceRule | None, eta: float | None, tol: float) -> ToleranceRule:
    """The rule given, or `Tracking` from where the samples left it."""
    return tolerance if tolerance is not None else Tracking(first=eta or 0.1, floor=0.2 * tol)


def noise(problem: StochasticProblem, test: FullTest, ledger: Ledger) -> float:
    """The size of R that sampling alone explains: standard errors of grad L and of c.

    For linear models from the rows' variances, which the last test gave away; else from the spread of slices.
    """
    gradient, values = 0.0, np.zeros(problem.m)
    for block, part in zip(problem.blocks, test.evaluation.parts, strict=True):
        if block.exact:
            continue
        if isinstance(block, LinearBlock):
            assert part.margins is not None
            assert part.direction is not None
            slopes, losses = block.loss.slope(part.margins, block.t), block.loss.value(part.margins, block.t)
            spread = float(np.mean(slopes**2 * block.squares())) - float(part.direction @ part.direction)
            gradient += block.weight(test.y_hat) ** 2 * max(spread, 0.0) / len(slopes)
            if block.m:
                values += block.factors**2 * float(np.var(losses)) / len(slopes)
        else:
            edges = np.linspace(0, block.rows or 0, SLICES + 1).astype(int)
            batches = [block.take(slice(a, b)) for a, b in itertools.pairwise(edges)]
            x = test.evaluation.x
            slices = np.array([block.gradient(x, batch, test.y_hat) for batch in batches])
            gradient += float(np.sum(np.var(slices, axis=0, ddof=1))) / SLICES
            if block.m:
                values += np.var([block.values(x, batch)[1] for batch in batches], axis=0, ddof=1) / SLICES
            ledger.rows += block.rows or 0
    return math.sqrt(gradient) + float(np.sqrt(values.sum()))


def _bytes(problem: StochasticProblem, sizes: list[int]) -> float:
    total = 0.0
    for block, size in zip(problem.blocks, sizes, strict=True):
        item = block.A.dtype.itemsize if isinstance(block, LinearBlock) else 8
        total += size * block.n * item
    return total
