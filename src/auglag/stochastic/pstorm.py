"""PStorm: momentum variance reduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError, require_positive
from auglag.stochastic.fused import Backend
from auglag.stochastic.method import Collector, Method, check_method, describe_call, kernel_calls
from auglag.stochastic.sampling import SampledLagrangian
from auglag.stochastic.steps import Call, DistanceOverGradients, InverseSqrt, StepRule


@final
@dataclass(frozen=True, slots=True)
class PStorm(Method):
    """Momentum variance reduction (PStorm): d+ = D(v+; z) + (1 - b)(d - D(v; z)), the same z at both points.

    With `schedule="constant"` the stepsize comes from `step` and b = min(1, 24 a^2 L^2 / (1 + 4 a^2 L^2)), or
    `momentum` if given. With `schedule="decreasing"` both follow the schedule of its own paper (arXiv 2006.00425),
    a_t = a / (t + 4)^(1/3) with a = 4^(1/3) / (8 L), which needs only L. `lipschitz=None` estimates L of the subproblem
    by power iteration on one sample at the start of the call.
    """

    name: ClassVar[str] = "pstorm"
    step: StepRule = field(default_factory=InverseSqrt)
    schedule: str = "constant"
    momentum: float | None = None
    lipschitz: float | None = None
    output: str = "last"
    batch: int | Sequence[int] = 128
    replacement: bool = True

    def __post_init__(self) -> None:
        check_method(self)
        if self.schedule not in ("constant", "decreasing"):
            raise InputError(f"PStorm.schedule must be 'constant' or 'decreasing', got {self.schedule!r}")
        if self.momentum is not None and not 0.0 < self.momentum <= 1.0:
            raise InputError(f"PStorm.momentum must lie in (0, 1], got {self.momentum}")
        if self.lipschitz is not None:
            require_positive(self.lipschitz, "PStorm.lipschitz")
        if isinstance(self.step, DistanceOverGradients):
            raise InputError("PStorm.step must be one size per call, got DistanceOverGradients, which changes inside")

    def sizes(self, steps: int, call: Call, L: float) -> tuple[Vector, Vector]:
        """(a_t, b_t) for t = 0, ..., steps - 1; b_0 = 1 starts the momentum with a plain estimate."""
        if self.schedule == "constant":
            a = np.full(steps, self.step.size(call))
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
        asked = self.schedule == "decreasing" or self.momentum is None
        L = self.lipschitz or (call.lipschitz() if asked else 1.0)
        alphas, momenta = self.sizes(steps, call, L)
        collector = Collector(self.output, v.size, steps, rng)
        fused, old, d = backend.fused(oracle, v), v.copy(), np.zeros_like(v)
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
            return collector.result(fused.v)
        for t, z in enumerate(oracle.samples(rng, steps, points=2, gradients=2)):
            left = 1.0 - momenta[t]
            d = oracle.estimate(v, z) + left * (d - oracle.estimate(old, z))
            old = v
            v = oracle.prox(v - alphas[t] * d, alphas[t])
            collector.see(v)
        return collector.result(v)


def momentum(a: float, L: float) -> float:
    """b = 24 a^2 L^2 / (1 + 4 a^2 L^2), before it is capped at 1."""
    square = (a * L) ** 2
    return 24.0 * square / (1.0 + 4.0 * square)
