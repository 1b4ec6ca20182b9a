"""Prox-SVRG on the augmented Lagrangian."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from auglag._names import suggesting
from auglag._typing import Vector
from auglag.errors import InputError, integer_or_none
from auglag.stochastic.fused import Backend, Fused
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.method import Collector, Method, check_method, describe_call, kernel_calls
from auglag.stochastic.problem import Evaluation
from auglag.stochastic.sampling import Sample, SampledLagrangian
from auglag.stochastic.steps import DistanceOverGradients, LocalLipschitz, StepRule
from auglag.stochastic.tuning import TUNING


@suggesting
@final
@dataclass(frozen=True, slots=True)
class SVRG(Method):
    """Prox-SVRG on the augmented Lagrangian: a snapshot of gradient, c and J, corrected by two independent samples.

        chat = c(v~) + c(v, xi2) - c(v~, xi2),     w = y + beta chat,
        D = grad f(v~) + J(v~)'w + [grad f + J'w](v, xi1) - [grad f + J'w](v~, xi1)

    is an unbiased estimate whose variance vanishes with v - v~. A new snapshot (one full-batch evaluation) is taken
    every `period` steps (None: when as many rows have been sampled as there are). A snapshot that lies higher than the
    best one of the call sends the iterates back there and halves the step, so no constant has to be known.
    """

    name: ClassVar[str] = "svrg"
    step: StepRule = field(default_factory=lambda: LocalLipschitz(1.5))
    period: int | None = None
    output: str = "last"
    batch: int | Sequence[int] = 32
    replacement: bool = True

    def __post_init__(self) -> None:
        check_method(self)
        integer_or_none(self.period, "SVRG.period")
        if isinstance(self.step, DistanceOverGradients):
            raise InputError("SVRG.step must be one size per call, got DistanceOverGradients, which changes inside")

    def run(
        self, oracle: SampledLagrangian, v: Vector, steps: int, rng: np.random.Generator, backend: Backend
    ) -> Vector:
        alpha = self.step.size(describe_call(oracle, v, steps, rng))
        rows = oracle.exact.full.problem.rows or 0
        period = self.period or max(1, rows // max(1, oracle.sampling.rows_per_step))
        collector = Collector(self.output, v.size, steps, rng)
        done, lowest = 0, oracle.test(v)
        while done < steps and not oracle.meter.reached():
            test = oracle.test(v)
            if test.value <= lowest.value + TUNING.rounding * max(1.0, abs(lowest.value)):
                lowest = test
            else:  # the step was too long: back to the best snapshot, and shorter
                alpha, v, test = 0.5 * alpha, lowest.v, lowest
            snapshot = test.evaluation
            count = min(period, steps - done)
            before = collector.seen
            fused = backend.fused(oracle, v)
            if fused is not None:
                v = _svrg_fused(fused, snapshot, count, rng, collector, alpha)
            else:
                v = _svrg_numpy(oracle, snapshot, v, count, rng, collector, alpha)
            done += count
            if collector.seen < before + count:
                break
        return collector.result(v)


def _svrg_numpy(
    oracle: SampledLagrangian, snapshot: Evaluation, v: Vector, count: int, rng: np.random.Generator,
    collector: Collector, alpha: float,
) -> Vector:  # fmt: skip
    anchor = np.concatenate([snapshot.x, v[oracle.n :]])  # slacks need no snapshot: they enter linearly
    points = 1 if all(isinstance(block, LinearBlock) for block in oracle.blocks) else 2
    for z in oracle.samples(rng, count, points):
        oracle.charge(1, points)
        v = oracle.prox(v - alpha * svrg_estimate(oracle, snapshot, anchor, v, z), alpha)
        collector.see(v)
    return v


def svrg_estimate(oracle: SampledLagrangian, snapshot: Evaluation, anchor: Vector, v: Vector, z: Sample) -> Vector:
    """The variance-reduced D; `anchor` = (x~, any slacks)."""
    n, at_anchor = oracle.n, np.concatenate([anchor[: oracle.n], v[oracle.n :]])
    w = oracle.y
    if w.size:
        r = oracle.constraint(v, z) - oracle.constraint(at_anchor, z)  # the slacks cancel
        w = oracle.y + oracle.beta * (oracle.exact.remainder(v, snapshot.c) + r)
    d = oracle.weighted(v, z, w)
    d[:n] += snapshot.grad + (w @ snapshot.jac if w.size else 0.0) - oracle.weighted(at_anchor, z, w)[:n]
    return d


def _svrg_fused(
    fused: Fused, snapshot: Evaluation, count: int, rng: np.random.Generator, collector: Collector, alpha: float
) -> Vector:
    known = fused.snapshot(snapshot)
    for drawn in kernel_calls(fused, collector, rng, count, fused.points):
        fused.kernels.svrg(
            fused.model, *drawn, fused.x, fused.s, fused.y, fused.beta, alpha, fused.prox, fused.box, collector.kept,
            collector.plan, known,
        )  # fmt: skip
    return fused.v
