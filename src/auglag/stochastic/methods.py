"""Stochastic proximal methods M for Algorithm 2: SGD, PStorm, SVRG, and the contract for a method of your own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError, require_positive
from auglag.stochastic.fused import Backend, Fused
from auglag.stochastic.lagrangian import ROUNDING
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.problem import Evaluation
from auglag.stochastic.sampling import Sample, SampledLagrangian
from auglag.stochastic.steps import Call, DistanceOverGradients, InverseSqrt, LocalLipschitz, StepRule

OUTPUTS = ("last", "uniform", "tail")


class Method(ABC):
    """A stochastic proximal method. To write one: a class with `name`, `batch`, `replacement` and `run`.

    It sees the subproblem through `oracle`: `oracle.samples(rng, steps)` yields independent samples z (fewer than asked
    for once the budget of the run is gone), `oracle.estimate(v, z)` is D(v, y, z), `oracle.prox(v, step)` the prox of
    step * g, `oracle.test(v)` a full-batch evaluation, which is counted as such.
    """

    batch: int | Sequence[int]
    replacement: bool

    @property
    @abstractmethod
    def name(self) -> str:
        """The name users pass as `method=`."""

    @abstractmethod
    def run(
        self, oracle: SampledLagrangian, v: Vector, steps: int, rng: np.random.Generator, backend: Backend
    ) -> Vector:
        """The point after `steps` iterations from v. All randomness comes from `rng`."""


def _call(oracle: SampledLagrangian, v: Vector, steps: int, rng: np.random.Generator) -> Call:
    return Call(steps, oracle.beta, oracle.test(v).value, lambda: estimate_lipschitz(oracle, v, rng))


@final
class Collector:
    """Picks what a call hands back: the last iterate, one drawn uniformly, or the average of the last half."""

    def __init__(self, output: str, size: int, steps: int, rng: np.random.Generator) -> None:
        self.kind, self.steps = output, steps
        self.chosen = int(rng.integers(steps)) if output == "uniform" else -1
        self.tail = steps // 2 if output == "tail" else steps
        self.kept = np.zeros(size)
        self.seen = 0

    @property
    def plan(self) -> tuple[int, int]:
        """(iterate to keep, first iterate of the tail), for the kernels."""
        return self.chosen, self.tail

    def see(self, v: Vector) -> None:
        """One more iterate."""
        if self.seen == self.chosen:
            self.kept[:] = v
        if self.seen >= self.tail:
            self.kept += v
        self.seen += 1

    def result(self, last: Vector) -> Vector:
        """What the call hands back; the last iterate if it was cut short before there was anything to choose from."""
        if self.kind == "uniform" and self.seen > self.chosen:
            return self.kept
        if self.kind == "tail" and self.seen > self.tail:
            return self.kept / (self.seen - self.tail)
        return last


def _check(method: Any) -> None:
    if method.output not in OUTPUTS:
        raise InputError(f"{type(method).__name__}.output must be one of {OUTPUTS}, got {method.output!r}")
    if not isinstance(method.step, StepRule):
        raise InputError(
            f"{type(method).__name__}.step must be a StepRule such as InverseSqrt(), got {method.step!r:.80}"
        )


@final
@dataclass(frozen=True, slots=True)
class SGD(Method):
    """Stochastic proximal gradient, v+ = prox_{a g}(v - a D(v, y, z)).

    `output` is "last" (the default: at least as good in practice), "uniform" (an iterate drawn uniformly, which is what
    the paper's lemma speaks of) or "tail" (the average of the last half).
    """

    step: StepRule = field(default_factory=InverseSqrt)
    output: str = "last"
    batch: int | Sequence[int] = 128
    replacement: bool = True

    def __post_init__(self) -> None:
        _check(self)

    @property
    def name(self) -> str:
        """sgd."""
        return "sgd"

    def run(
        self, oracle: SampledLagrangian, v: Vector, steps: int, rng: np.random.Generator, backend: Backend
    ) -> Vector:
        """`steps` stochastic proximal gradient steps."""
        free = isinstance(self.step, DistanceOverGradients)
        alpha = self.step.size(_call(oracle, v, steps, rng))
        travel = np.array([alpha * (1.0 + float(np.linalg.norm(v))), 0.0]) if free else np.zeros(0)
        collector = Collector(self.output, v.size, steps, rng)
        fused, start = backend.fused(oracle, v), v.copy()
        if fused is not None:
            return self._fused(fused, steps, rng, collector, alpha, travel, start)
        for z in oracle.samples(rng, steps):
            d = oracle.estimate(v, z)
            if free:
                travel[0] = max(travel[0], float(np.linalg.norm(v - start)))
                travel[1] += float(d @ d)
                alpha = travel[0] / math.sqrt(max(travel[1], 1e-300))
            v = oracle.prox(v - alpha * d, alpha)
            collector.see(v)
        return collector.result(v)

    def _fused(
        self, fused: Fused, steps: int, rng: np.random.Generator, collector: Collector, alpha: float, travel: Vector,
        start: Vector,
    ) -> Vector:  # fmt: skip
        for draw in fused.oracle.draws(rng, steps):
            first, second = fused.indices(draw)
            fused.kernels.sgd(
                fused.model, first, second, draw.steps, collector.seen, fused.x, fused.s, fused.y, fused.beta, alpha,
                fused.prox, fused.box, collector.kept, collector.plan, travel, start,
            )  # fmt: skip
            collector.seen += draw.steps
            fused.oracle.charge(draw.steps)
        return collector.result(fused.v)


@final
@dataclass(frozen=True, slots=True)
class PStorm(Method):
    """Momentum variance reduction (PStorm): d+ = D(v+; z) + (1 - b)(d - D(v; z)), the same z at both points.

    With `schedule="constant"` the stepsize comes from `step` and b = min(1, 24 a^2 L^2 / (1 + 4 a^2 L^2)), or
    `momentum` if given. With `schedule="decreasing"` both follow the schedule of its own paper (arXiv 2006.00425),
    a_t = a / (t + 4)^(1/3) with a = 4^(1/3) / (8 L), which needs only L. `lipschitz=None` estimates L of the subproblem
    by power iteration on one sample at the start of the call.
    """

    step: StepRule = field(default_factory=InverseSqrt)
    schedule: str = "constant"
    momentum: float | None = None
    lipschitz: float | None = None
    output: str = "last"
    batch: int | Sequence[int] = 128
    replacement: bool = True

    def __post_init__(self) -> None:
        _check(self)
        if self.schedule not in ("constant", "decreasing"):
            raise InputError(f"PStorm.schedule must be 'constant' or 'decreasing', got {self.schedule!r}")
        if self.momentum is not None and not 0.0 < self.momentum <= 1.0:
            raise InputError(f"PStorm.momentum must lie in (0, 1], got {self.momentum}")
        if self.lipschitz is not None:
            require_positive(self.lipschitz, "PStorm.lipschitz")
        if isinstance(self.step, DistanceOverGradients):
            raise InputError("PStorm.step must be one size per call, got DistanceOverGradients, which changes inside")

    @property
    def name(self) -> str:
        """pstorm."""
        return "pstorm"

    def sizes(self, steps: int, call: Call, L: float) -> tuple[Vector, Vector]:
        """(a_t, b_t) for t = 0, ..., steps - 1; b_0 = 1 starts the momentum with a plain estimate."""
        if self.schedule == "constant":
            a = np.full(steps, self.step.size(call))
            b = np.full(steps, min(1.0, _momentum(a[0], L)) if self.momentum is None else self.momentum)
        else:
            t = np.arange(steps + 1, dtype=np.float64)
            all_a = 4.0 ** (1 / 3) / (8.0 * L) / (t + 4.0) ** (1 / 3)
            a, square = all_a[:-1], (all_a[:-1] * L) ** 2
            b = np.empty(steps)
            b[1:] = ((1.0 + 24.0 * square - all_a[1:] / a) / (1.0 + 4.0 * square))[:-1]  # b_{t} is set with a_{t-1}
        b[0] = 1.0
        return a, b

    def run(
        self, oracle: SampledLagrangian, v: Vector, steps: int, rng: np.random.Generator, backend: Backend
    ) -> Vector:
        """`steps` PStorm steps; the first one, without a past, is a plain one."""
        call = _call(oracle, v, steps, rng)
        asked = self.schedule == "decreasing" or self.momentum is None
        L = self.lipschitz or (call.lipschitz() if asked else 1.0)
        alphas, momenta = self.sizes(steps, call, L)
        collector = Collector(self.output, v.size, steps, rng)
        fused, old, d = backend.fused(oracle, v), v.copy(), np.zeros_like(v)
        if fused is not None:
            return self._fused(fused, steps, rng, collector, alphas, momenta, old, d)
        for t, z in enumerate(oracle.samples(rng, steps, points=2)):
            left = 1.0 - momenta[t]
            d = oracle.estimate(v, z) + left * (d - oracle.estimate(old, z))
            old = v
            v = oracle.prox(v - alphas[t] * d, alphas[t])
            collector.see(v)
        return collector.result(v)

    def _fused(
        self, fused: Fused, steps: int, rng: np.random.Generator, collector: Collector, alphas: Vector,
        momenta: Vector, old: Vector, d: Vector,
    ) -> Vector:  # fmt: skip
        for draw in fused.oracle.draws(rng, steps, points=2):
            first, second = fused.indices(draw)
            part = slice(collector.seen, collector.seen + draw.steps)
            fused.kernels.pstorm(
                fused.model, first, second, draw.steps, collector.seen, fused.x, fused.s, old, d, fused.y, fused.beta,
                alphas[part], momenta[part], fused.prox, fused.box, collector.kept, collector.plan,
            )  # fmt: skip
            collector.seen += draw.steps
            fused.oracle.charge(2 * draw.steps)
        return collector.result(fused.v)


def _momentum(a: float, L: float) -> float:
    square = (a * L) ** 2
    return 24.0 * square / (1.0 + 4.0 * square)


def estimate_lipschitz(oracle: SampledLagrangian, v: Vector, rng: np.random.Generator, rounds: int = 6) -> float:
    """The largest eigenvalue of the sampled Hessian of L_beta at v, by power iteration with differences of D."""
    sample = next(iter(oracle.samples(rng, 1)), None)
    if sample is None:
        return 1.0
    here, direction = oracle.estimate(v, sample), rng.standard_normal(v.size)
    h, size = 1e-5 * (1.0 + float(np.linalg.norm(v))), 1.0
    for _ in range(rounds):
        direction /= float(np.linalg.norm(direction))
        direction = (oracle.estimate(v + h * direction, sample) - here) / h
        size = float(np.linalg.norm(direction))
        if not size > 0.0:
            return 1.0
    return size


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

    step: StepRule = field(default_factory=lambda: LocalLipschitz(1.5))
    period: int | None = None
    output: str = "last"
    batch: int | Sequence[int] = 32
    replacement: bool = True

    def __post_init__(self) -> None:
        _check(self)
        if self.period is not None and not self.period >= 1:
            raise InputError(f"SVRG.period must be a positive integer or None, got {self.period!r}")
        if isinstance(self.step, DistanceOverGradients):
            raise InputError("SVRG.step must be one size per call, got DistanceOverGradients, which changes inside")

    @property
    def name(self) -> str:
        """svrg."""
        return "svrg"

    def run(
        self, oracle: SampledLagrangian, v: Vector, steps: int, rng: np.random.Generator, backend: Backend
    ) -> Vector:
        """`steps` steps, a snapshot every `period`."""
        alpha = self.step.size(_call(oracle, v, steps, rng))
        rows = oracle.exact.full.problem.rows or 0
        period = self.period or max(1, rows // max(1, oracle.sampling.rows_per_step))
        collector = Collector(self.output, v.size, steps, rng)
        done, lowest = 0, oracle.test(v)
        while done < steps and not oracle.limits.reached(oracle.ledger):
            test = oracle.test(v)
            if test.value <= lowest.value + ROUNDING * max(1.0, abs(lowest.value)):
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
    for draw in fused.oracle.draws(rng, count, fused.points):
        first, second = fused.indices(draw)
        fused.kernels.svrg(
            fused.model, first, second, draw.steps, collector.seen, fused.x, fused.s, fused.y, fused.beta, alpha,
            fused.prox, fused.box, collector.kept, collector.plan, known,
        )  # fmt: skip
        collector.seen += draw.steps
        fused.oracle.charge(draw.steps, fused.points)
    return fused.v


METHODS: dict[str, Method] = {method.name: method for method in (SGD(), PStorm(), SVRG())}
