"""Stepsizes of the stochastic methods, as small frozen objects."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import final

from auglag._names import suggesting
from auglag.errors import InputError, require_positive
from auglag.theory import Constants, StochasticConstants, alpha, c_big, lipschitz, sigma


@final
@dataclass(frozen=True, slots=True)
class Call:
    """What a stepsize may depend on: one call of the method, for `steps` iterations on one subproblem."""

    steps: int
    beta: float
    value: float  #: L_beta + g at the point the call starts from
    lipschitz: Callable[[], float] = lambda: 1.0  #: estimates the local Lipschitz constant of grad L_beta; costs rows


class StepRule(ABC):
    """The stepsize for one call of a method. A user's own rule is one class with one method."""

    @abstractmethod
    def size(self, call: Call) -> float:
        """alpha > 0, for all iterations of the call."""


@dataclass(frozen=True, slots=True)
class PositiveStep(StepRule):
    """A rule whose fields are positive numbers, all of them."""

    def __post_init__(self) -> None:
        for field in fields(self):
            require_positive(getattr(self, field.name), f"{type(self).__name__}.{field.name}")


@suggesting
@final
@dataclass(frozen=True, slots=True)
class InverseSqrt(PositiveStep):
    """alpha = scale / sqrt(T), T the iterations of the call: the paper's experiments with scale = 1."""

    scale: float = 1.0

    def size(self, call: Call) -> float:
        return self.scale / math.sqrt(call.steps)


@suggesting
@final
@dataclass(frozen=True, slots=True)
class ConstantStep(PositiveStep):
    """alpha = value."""

    value: float = 0.1

    def size(self, call: Call) -> float:
        return self.value


@suggesting
@final
@dataclass(frozen=True, slots=True)
class LocalLipschitz(PositiveStep):
    """alpha = scale / L, L the curvature of a sampled L_beta at the start of the call, by power iteration."""

    scale: float = 1.0

    def size(self, call: Call) -> float:
        return self.scale / call.lipschitz()


@final
@dataclass(frozen=True, slots=True)
class Scaled(PositiveStep):
    """alpha = scale / (1 + rate * beta): shrinks as the penalty makes the subproblem steeper."""

    scale: float = 3.0
    rate: float = 2.0

    def size(self, call: Call) -> float:
        return self.scale / (1.0 + self.rate * call.beta)


@final
@dataclass(frozen=True, slots=True)
class LemmaStep(StepRule):
    """alpha = min(1 / (2 L_k), sqrt(Omega_k / (L_k sigma_k^2 T))), the stepsize of the paper's lemma.

    `auglag.theory.alpha`; L_k and sigma_k are `lipschitz` and `sigma` there, and
    Omega_k = L_beta + g at the start less `lowest`, a lower bound of the subproblem.
    """

    constants: Constants
    sigma_f: float
    sigma_c: float = 0.0
    lowest: float = 0.0
    beta_1: float = 1.0
    violation_1: float = 0.0

    def __post_init__(self) -> None:
        require_positive(self.sigma_f, "LemmaStep.sigma_f")
        require_positive(self.beta_1, "LemmaStep.beta_1")
        if not 0.0 <= self.sigma_c < math.inf:
            raise InputError(f"LemmaStep.sigma_c must be nonnegative and finite, got {self.sigma_c}")

    def size(self, call: Call) -> float:
        big = c_big(self.constants, self.beta_1, self.violation_1)
        L = lipschitz(self.constants, call.beta, big)
        deviation = sigma(self.constants, StochasticConstants(self.sigma_f, self.sigma_c), call.beta)
        return alpha(L, max(call.value - self.lowest, 1e-16), deviation, call.steps)


@suggesting
@final
@dataclass(frozen=True, slots=True)
class DistanceOverGradients(PositiveStep):
    """alpha_t = (farthest distance from the start so far) / sqrt(sum of squared gradients): needs no constant at all.

    `first` is the distance taken before anything has moved, relative to 1 + ||x||. (Ivgi, Hinder and Carmon, 2023.)
    """

    first: float = 1e-4

    def size(self, call: Call) -> float:
        """Unused: the size changes from step to step."""
        return self.first
