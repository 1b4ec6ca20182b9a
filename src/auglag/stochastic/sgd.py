"""Stochastic proximal gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from auglag._names import suggesting
from auglag._typing import Vector
from auglag.stochastic.fused import Backend
from auglag.stochastic.method import Collector, Method, check_method, describe_call, kernel_calls
from auglag.stochastic.sampling import SampledLagrangian
from auglag.stochastic.steps import DistanceOverGradients, InverseSqrt, StepRule


@suggesting
@final
@dataclass(frozen=True, slots=True)
class SGD(Method):
    """Stochastic proximal gradient, v+ = prox_{a g}(v - a D(v, y, z)).

    `output` is "last" (the default: at least as good in practice), "uniform" (an iterate drawn uniformly, which is what
    the paper's lemma speaks of) or "tail" (the average of the last half).
    """

    name: ClassVar[str] = "sgd"
    step: StepRule = field(default_factory=InverseSqrt)
    output: str = "last"
    batch: int | Sequence[int] = 128
    replacement: bool = True

    def __post_init__(self) -> None:
        check_method(self)

    def run(
        self, oracle: SampledLagrangian, v: Vector, steps: int, rng: np.random.Generator, backend: Backend
    ) -> Vector:
        free = isinstance(self.step, DistanceOverGradients)
        alpha = self.step.size(describe_call(oracle, v, steps, rng))
        travel = np.array([alpha * (1.0 + float(np.linalg.norm(v))), 0.0]) if free else np.zeros(0)
        collector = Collector(self.output, v.size, steps, rng)
        fused, start = backend.fused(oracle, v), v.copy()
        if fused is not None:
            for drawn in kernel_calls(fused, collector, rng, steps):
                fused.kernels.sgd(
                    fused.model,
                    *drawn,
                    fused.x,
                    fused.s,
                    fused.y,
                    fused.beta,
                    alpha,
                    fused.prox,
                    fused.box,
                    collector.kept,
                    collector.plan,
                    travel,
                    start,
                )
            return collector.result(fused.v)
        for z in oracle.samples(rng, steps):
            d = oracle.estimate(v, z)
            if free:
                travel[0] = max(travel[0], float(np.linalg.norm(v - start)))
                travel[1] += float(d @ d)
                alpha = travel[0] / math.sqrt(max(travel[1], 1e-300))
            v = oracle.prox(v - alpha * d, alpha)
            collector.see(v)
        return collector.result(v)
