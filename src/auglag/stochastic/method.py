"""The contract of a stochastic method, and what the methods share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.stochastic.fused import Backend
from auglag.stochastic.sampling import SampledLagrangian
from auglag.stochastic.steps import Call, StepRule
from auglag.stochastic.tuning import TUNING

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


def describe_call(oracle: SampledLagrangian, v: Vector, steps: int, rng: np.random.Generator) -> Call:
    """What a stepsize may depend on, for a call that starts at v."""
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


def check_method(method: Any) -> None:
    """Raise `InputError` for an output or a step that does not exist."""
    if method.output not in OUTPUTS:
        raise InputError(f"{type(method).__name__}.output must be one of {OUTPUTS}, got {method.output!r}")
    if not isinstance(method.step, StepRule):
        raise InputError(
            f"{type(method).__name__}.step must be a StepRule such as InverseSqrt(), got {method.step!r:.80}"
        )


def estimate_lipschitz(oracle: SampledLagrangian, v: Vector, rng: np.random.Generator) -> float:
    """The largest eigenvalue of the sampled Hessian of L_beta at v, by power iteration with differences of D."""
    rounds = TUNING.lipschitz_rounds
    sample = next(iter(oracle.samples(rng, 1, gradients=rounds + 1)), None)
    if sample is None:
        return 1.0
    here, direction = oracle.estimate(v, sample), rng.standard_normal(v.size)
    h, size = TUNING.lipschitz_step * (1.0 + float(np.linalg.norm(v))), 1.0
    for _ in range(rounds):
        direction /= float(np.linalg.norm(direction))
        direction = (oracle.estimate(v + h * direction, sample) - here) / h
        size = float(np.linalg.norm(direction))
        if not size > 0.0:
            return 1.0
    return size
