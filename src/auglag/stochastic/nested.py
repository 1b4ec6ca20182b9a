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
from auglag.algorithm.history import History
from auglag.algorithm.outer import Algorithm1, iteration
from auglag.algorithm.rules import Adaptive, Always, PenaltyRule, ToleranceRule
from auglag.inner.base import InnerStatus
from auglag.stochastic.course import NO_LIMIT
from auglag.stochastic.full_batch import FullBatch
from auglag.stochastic.lagrangian import FullTest, Geometry, StochasticLagrangian
from auglag.stochastic.limits import Ledger
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.settings import Settings, Tracking
from auglag.stochastic.stage import InnerLoop, Stage
from auglag.stochastic.tuning import TUNING


@final
@dataclass(frozen=True, slots=True)
class Start:
    """x_1 and y_1; beta_1 and the tolerance that the schedule goes on with, where samples have led to them."""

    x: Vector
    y: Vector
    beta: float | None = None
    eta: float | None = None


def worthwhile(problem: StochasticProblem, wanted: bool | None) -> bool:
    """Whether to start on samples."""
    if wanted is not None:
        return wanted and problem.finite_data
    return problem.finite_data and (problem.rows or 0) > TUNING.nested_rows_per_variable * problem.n


def nested_start(
    problem: StochasticProblem,
    settings: Settings,
    start: Start,
    inner: InnerLoop[StochasticLagrangian],
    ledger: Ledger,
    tol: float,
    rng: np.random.Generator,
    say: Callable[[str], None] | None = None,
) -> Start:
    """The point, multipliers and penalty that the samples lead to."""
    rows = sum(block.rows or 0 for block in problem.blocks)
    orders = [rng.permutation(block.rows or 0) for block in problem.blocks]
    for share in TUNING.nested_shares:
        sizes = [min(len(order), max(TUNING.nested_least_rows, int(share * len(order)))) for order in orders]
        few = sum(sizes) < TUNING.nested_least_rows_per_variable * problem.n
        if few or 2 * sum(sizes) > rows or _bytes(problem, sizes) > TUNING.nested_bytes:
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
    inner: InnerLoop[StochasticLagrangian],
    ledger: Ledger,
    tol: float,
    share: float,
) -> Start:
    """Algorithm 1 on one sample, until R is what sampling `share` of the rows explains. No test of it is recorded."""
    full, geometry = FullBatch(sample, ledger), Geometry(sample, settings.slacks)
    stage = Stage[StochasticLagrangian, FullTest](lambda y, beta: StochasticLagrangian(geometry, full, y, beta))
    rules = Algorithm1(begin_at(settings.penalty, start.beta), settings.dual, go_on(settings.tolerance, start.eta, tol))
    first = stage.subproblem(start.y, rules.penalty.next(History(0.0, 0.0)))
    v, y = geometry.start(start.x, full.at(start.x).c), start.y
    history = History(full.at(start.x).f, float(np.linalg.norm(first.constraint(v))), settings.negligible * tol)
    inner.forget()
    quiet = False
    while not quiet:
        turn = iteration(rules, stage, inner, v, y, history, limit=NO_LIMIT)
        v, y, inner.k = turn.x, turn.y, history.k
        explained = noise(sample, stage.last, ledger) * math.sqrt(max(0.0, 1.0 - share))
        over = history.last.k >= TUNING.nested_outer or turn.found.status is InnerStatus.BUDGET
        quiet = over or history.last.residual <= max(explained, tol)
    eta = max(rules.tolerance.next(history), TUNING.nested_eta)
    return Start(geometry.x(v), y, history.last.beta, eta)


def begin_at(penalty: PenaltyRule, beta: float | None) -> PenaltyRule:
    """The rule with another beta_1."""
    return replace(penalty, initial=beta) if beta is not None and isinstance(penalty, Adaptive | Always) else penalty


def go_on(tolerance: ToleranceRule | None, eta: float | None, tol: float) -> ToleranceRule:
    """The rule given, or `Tracking` from where the samples left it."""
    return tolerance if tolerance is not None else Tracking(first=eta or TUNING.first_eta, floor=TUNING.least_eta * tol)


def noise(problem: StochasticProblem, test: FullTest, ledger: Ledger) -> float:
    """The size of R that sampling alone explains: standard errors of grad L and of c.

    For linear models from the rows' variances, which the last test gave away; else from the spread of slices.
    """
    gradient, values = 0.0, np.zeros(problem.m)
    for block, part in zip(problem.blocks, test.evaluation.parts, strict=True):
        if block.exact:
            continue
        if isinstance(block, LinearBlock):
            slopes, losses = block.loss.slope(part.margins, block.t), block.loss.value(part.margins, block.t)
            spread = float(np.mean(slopes**2 * block.squares())) - float(part.direction @ part.direction)
            gradient += block.weight(test.y_hat) ** 2 * max(spread, 0.0) / len(slopes)
            if block.m:
                values += block.factors**2 * float(np.var(losses)) / len(slopes)
        else:
            count = TUNING.nested_slices
            edges = np.linspace(0, block.rows or 0, count + 1).astype(int)
            batches = [block.take(slice(a, b)) for a, b in itertools.pairwise(edges)]
            x = test.evaluation.x
            slices = np.array([block.gradient(x, batch, test.y_hat) for batch in batches])
            gradient += float(np.sum(np.var(slices, axis=0, ddof=1))) / count
            if block.m:
                values += np.var([block.values(x, batch)[1] for batch in batches], axis=0, ddof=1) / count
            ledger.rows += block.rows or 0
    return math.sqrt(gradient) + float(np.sqrt(values.sum()))


def _bytes(problem: StochasticProblem, sizes: list[int]) -> float:
    total = 0.0
    for block, size in zip(problem.blocks, sizes, strict=True):
        item = block.A.dtype.itemsize if isinstance(block, LinearBlock) else 8
        total += size * block.n * item
    return total
