"""PStorm: momentum variance reduction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from auglag._names import suggesting
from auglag._typing import Vector
from auglag.errors import InputError, require_positive
from auglag.stochastic.fused import Backend
from auglag.stochastic.method import Collector, Method, check_method, describe_call, estimate_lipschitz, kernel_calls
from auglag.stochastic.sampling import SampledLagrangian
from auglag.stochastic.steps import Call, DistanceOverGradients, InverseSqrt, StepRule


@suggesting
@final
@dataclass(frozen=True, slots=True)
class PStorm(Method):
    """Momentum variance reduction (PStorm): d+ = D(v+; z) + (1 - b)(d - D(v; z)), the same z at both points.

    With `schedule="constant"` the stepsize comes from `step` and b = min(1, 24 a^2 L^2 / (1 + 4 a^2 L^2)), or
    `momentum` if given. With `schedule="decreasing"` both follow the schedule of its own paper (arXiv 2006.00425),
    a_t = a / (t + 4)^(1/3) with a = 4^(1/3) / (8 L), which needs only L. With `schedule="cube-root"` the stepsize is
    1 / (8 L T^(1/3)) for all T iterations of the call and b the one of "constant", which is then at most 0.36.
    `lipschitz=None` estimates L of the subproblem by power iteration on one sample at the start of the call.

    `first="batch"` starts d with the estimate of one batch; "enlarged" with the mean of ceil(T^(1/3)) batches, as the
    rate of a constant stepsize asks for: the error of the first d fades at the rate b, which is of the order T^(-2/3).

    `finish=True` ends a call with one proximal gradient step of length 1/L, with the gradient of all rows: the
    postprocessing of Li et al. (2023), whose point (and not the one before) has a small distance to dg.
    """

    name: ClassVar[str] = "pstorm"
    step: StepRule = field(default_factory=InverseSqrt)
    schedule: str = "constant"
    momentum: float | None = None
    lipschitz: float | None = None
    first: str = "batch"
    finish: bool = False
    output: str = "last"
    batch: int | Sequence[int] = 128
    replacement: bool = True

    def __post_init__(self) -> None:
        check_method(self)
        if self.schedule not in ("constant", "decreasing", "cube-root"):
            raise InputError(f"PStorm.schedule must be 'constant', 'decreasing' or 'cube-root', got {self.schedule!r}")
        if self.first not in ("batch", "enlarged"):
            raise InputError(f"PStorm.first must be 'batch' or 'enlarged', got {self.first!r}")
        if self.momentum is not None and not 0.0 < self.momentum <= 1.0:
            raise InputError(f"PStorm.momentum must lie in (0, 1], got {self.momentum}")
        if self.lipschitz is not None:
            require_positive(self.lipschitz, "PStorm.lipschitz")
        if isinstance(self.step, DistanceOverGradients):
            raise InputError("PStorm.step must be one size per call, got DistanceOverGradients, which changes inside")

    def sizes(self, steps: int, call: Call, L: float) -> tuple[Vector, Vector]:
        """(a_t, b_t) for t = 0, ..., steps - 1; b_0 = 1 starts the momentum with a plain estimate."""
        if self.schedule != "decreasing":
            a = np.full(steps, self.step.size(call) if self.schedule == "constant" else cube_root(L, steps))
            b = np.full(steps, min(1.0, momentum(a[0], L)) if self.momentum is None else self.momentum)
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
        call = describe_call(oracle, v, steps, rng)
        asked = self.schedule != "constant" or self.momentum is None
        L = self.lipschitz or (call.lipschitz() if asked else 1.0)
        alphas, momenta = self.sizes(steps, call, L)
        collector = Collector(self.output, v.size, steps, rng)
        fused, old, d = backend.fused(oracle, v), v.copy(), np.zeros_like(v)
        if self.first == "enlarged":
            d, momenta[0] = self._enlarged(oracle, v, steps, rng)
        if fused is not None:
            for first, second, count, seen in kernel_calls(fused, collector, rng, steps, points=2, gradients=2):
                part = slice(seen, seen + count)
                fused.kernels.pstorm(
                    fused.model,
                    first,
                    second,
                    count,
                    seen,
                    fused.x,
                    fused.s,
                    old,
                    d,
                    fused.y,
                    fused.beta,
                    alphas[part],
                    momenta[part],
                    fused.prox,
                    fused.box,
                    collector.kept,
                    collector.plan,
                )
            return self._end(oracle, collector.result(fused.v), rng)
        for t, z in enumerate(oracle.samples(rng, steps, points=2, gradients=2)):
            left = 1.0 - momenta[t]
            d = oracle.estimate(v, z) + left * (d - oracle.estimate(old, z))
            old = v
            v = oracle.prox(v - alphas[t] * d, alphas[t])
            collector.see(v)
        return self._end(oracle, collector.result(v), rng)

    def _enlarged(
        self, oracle: SampledLagrangian, v: Vector, steps: int, rng: np.random.Generator
    ) -> tuple[Vector, float]:
        """(d, b_0): the mean of ceil(steps^(1/3)) estimates, which the first step takes as it is (b_0 = 0)."""
        d, seen = np.zeros_like(v), 0
        for z in oracle.samples(rng, math.ceil(round(steps ** (1 / 3), 9))):
            d, seen = d + oracle.estimate(v, z), seen + 1
        return (d / seen, 0.0) if seen else (d, 1.0)

    def _end(self, oracle: SampledLagrangian, v: Vector, rng: np.random.Generator) -> Vector:
        """v, or what one proximal gradient step on all rows makes of it."""
        if not self.finish or oracle.meter.reached() or not np.isfinite(v).all():
            return v
        a = 1.0 / (self.lipschitz or estimate_lipschitz(oracle, v, rng))
        return oracle.prox(v - a * oracle.exact.value_and_gradient(v)[1], a)


def cube_root(L: float, steps: int) -> float:
    """a = 1 / (8 L T^(1/3)): the first stepsize of the decreasing schedule, and the rate of a constant one."""
    return 1.0 / (8.0 * L * math.pow(steps, 1 / 3))


def momentum(a: float, L: float) -> float:
    """b = 24 a^2 L^2 / (1 + 4 a^2 L^2), before it is capped at 1."""
    square = (a * L) ** 2
    return 24.0 * square / (1.0 + 4.0 * square)
