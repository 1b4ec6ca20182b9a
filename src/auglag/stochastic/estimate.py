"""Certificates for sampled (endless) data: estimates with confidence intervals, labelled as such."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy.special import stdtrit

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.stochastic.blocks import Block, Part
from auglag.stochastic.data import Index, batch_rows
from auglag.stochastic.full_batch import FullBatchProblem
from auglag.stochastic.problem import Evaluation, StochasticProblem
from auglag.stochastic.tuning import TUNING


@final
@dataclass(frozen=True, slots=True)
class EstimatedCertificate:
    """R and the constraints at one (x, y), estimated from a fresh sample; intervals hold at the level `confidence`.

    The interval of R is residual -/+ the quantile of the bootstrapped error of gradient and constraints together; it is
    honest for the estimation error of the sample, and says nothing beyond the sampler's distribution.
    """

    estimated: ClassVar[bool] = True  #: this is not a full-batch certificate
    x: Vector
    multipliers: Vector
    objective: float
    stationarity: float
    violation: float
    complementarity: float
    residual: float
    residual_interval: tuple[float, float]
    constraints: Vector  #: estimates of c(x)
    constraint_intervals: tuple[tuple[float, float], ...]
    rows: int  #: rows of every sampled block (the fewest of one) that the estimate rests on, as counted in the batches
    confidence: float

    def meets(self, tol: float) -> bool:
        """Whether the upper end of R's interval is at most `tol`."""
        if not 0.0 < tol < math.inf:
            raise InputError(f"tol must be positive and finite, got {tol}")
        return self.residual_interval[1] <= tol

    def __str__(self) -> str:
        low, high = self.residual_interval
        return (
            f"estimated residual {self.residual:.3e}, {100 * self.confidence:.0f} % interval [{low:.3e}, {high:.3e}] "
            f"from {self.rows} rows; violation {self.violation:.3e}, stationarity {self.stationarity:.3e}"
        )


@final
class FixedSample(Block):
    """A sampled block frozen to some batches, over which it can be evaluated again and again."""

    def __init__(self, block: Block, batches: Sequence[Any], rows: int) -> None:
        self.block, self.kept = block, tuple(batches)
        self.n, self.m, self.rows = block.n, block.m, rows
        self.in_objective, self.in_constraints = block.in_objective, block.in_constraints

    def take(self, index: Index | slice) -> Any:
        raise NotImplementedError("a fixed sample is evaluated as a whole")

    def values(self, x: Vector, batch: Any) -> tuple[float, Vector]:
        return self.block.values(x, batch)

    def gradient(self, x: Vector, batch: Any, w: Vector) -> Vector:
        return self.block.gradient(x, batch, w)

    def part(self, x: Vector, batch: Any) -> Part:
        return self.block.part(x, batch)

    def evaluate(self, x: Vector) -> Part:
        return _mean([self.block.part(x, batch) for batch in self.kept])

    def subset(self, index: Index) -> Block:
        raise NotImplementedError("a fixed sample is evaluated as a whole")


def freeze(problem: StochasticProblem, rows: int, rng: np.random.Generator) -> StochasticProblem:
    """The problem with every sampled block replaced by a fixed sample of about `rows` rows, for the tests of a run."""
    size = max(1, rows // TUNING.sample_batches)
    blocks: list[Block] = []
    for block in problem.blocks:
        if block.rows is None:
            kept = [block.draw(rng, size) for _ in range(TUNING.sample_batches)]
            block = FixedSample(block, kept, sum(batch_rows(batch, size) for batch in kept))
        blocks.append(block)
    return StochasticProblem(blocks, lower=problem.lower, upper=problem.upper, g=problem.g, names=problem.names)


def estimate_certificate(
    problem: StochasticProblem,
    x: Vector,
    y: Vector,
    *,
    rows: int,
    rng: np.random.Generator,
    confidence: float = TUNING.confidence,
) -> EstimatedCertificate:
    """Measure (x, y) on a fresh sample of about `rows` rows per sampled block.

    Parameters
    ----------
    problem : StochasticProblem
        A problem with at least one sampler.
    x : array_like
        The point.
    y : array_like
        Its multipliers, with the sign L = f + y'c.
    rows : int
        Rows of the sample, for each sampled block.
    rng : numpy.random.Generator
        Where the sample comes from.
    confidence : float
        Of the intervals.

    Examples
    --------
    The mean of samples that are normal around 1 is the minimum of E (x - s)^2 / 2:

    >>> import numpy as np
    >>> from auglag.stochastic import StochasticProblem, estimate_certificate
    >>> problem = StochasticProblem.from_functions(
    ...     1,
    ...     lambda x, s: 0.5 * np.mean((x - s) ** 2),
    ...     lambda x, s: np.mean(x - s, axis=0),
    ...     sampler=lambda rng, k: rng.normal(1.0, 1.0, (k, 1)),
    ... )
    >>> found = estimate_certificate(problem, np.ones(1), np.zeros(0), rows=10_000, rng=np.random.default_rng(0))
    >>> bool(found.residual < 0.05)
    True
    """
    from auglag.certificate import certificate

    size = max(1, rows // TUNING.sample_batches)
    exact = {i: block.evaluate(x) for i, block in enumerate(problem.blocks) if block.rows is not None}
    draws, seen = [], np.zeros(len(problem.blocks), dtype=np.int64)
    for _ in range(TUNING.sample_batches):
        parts = []
        for i, block in enumerate(problem.blocks):
            if i in exact:
                parts.append(exact[i])
                continue
            batch = block.draw(rng, size)
            seen[i] += batch_rows(batch, size)
            parts.append(block.part(x, batch))
        draws.append(problem._sum(x, parts))
    mean = problem._sum(x, [_mean([d.parts[i] for d in draws]) for i in range(len(problem.blocks))])
    check = certificate(FullBatchProblem.from_evaluation(problem, mean), x, y, scale_free=False)
    c = np.array([d.c for d in draws])
    radius = _radius(draws, y, rng, confidence)
    t = float(stdtrit(TUNING.sample_batches - 1, 0.5 + confidence / 2.0))
    half = t * c.std(axis=0, ddof=1) / math.sqrt(TUNING.sample_batches) if y.size else np.zeros(0)
    return EstimatedCertificate(
        x=x,
        multipliers=y,
        objective=check.objective,
        stationarity=check.stationarity,
        violation=check.violation,
        complementarity=check.complementarity,
        residual=check.residual,
        residual_interval=(max(0.0, check.residual - radius), check.residual + radius),
        constraints=mean.c,
        constraint_intervals=tuple((float(v - h), float(v + h)) for v, h in zip(mean.c, half, strict=True)),
        rows=int(min(rows for i, rows in enumerate(seen) if i not in exact)),
        confidence=confidence,
    )


def _radius(draws: Sequence[Evaluation], y: Vector, rng: np.random.Generator, confidence: float) -> float:
    """The quantile of the bootstrapped error of gradient and constraints together."""
    c = np.array([d.c for d in draws])
    gradients = np.array([d.grad + (y @ d.jac if y.size else 0.0) for d in draws])
    errors = np.empty(TUNING.resamples)
    for j in range(TUNING.resamples):
        pick = rng.integers(0, TUNING.sample_batches, TUNING.sample_batches)
        errors[j] = np.linalg.norm(gradients[pick].mean(0) - gradients.mean(0))
        if y.size:
            errors[j] += np.linalg.norm(c[pick].mean(0) - c.mean(0))
    return float(np.quantile(errors, confidence))


def _mean(parts: Sequence[Part]) -> Part:
    share = 1.0 / len(parts)
    return Part(
        share * sum(p.f for p in parts),
        share * np.sum([p.grad for p in parts], axis=0),
        share * np.sum([p.c for p in parts], axis=0),
        share * np.sum([p.jac for p in parts], axis=0),
    )
