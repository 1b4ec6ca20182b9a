"""What Algorithm 1 leaves open, as small frozen objects that map the history to one number.

Penalty rules give beta_k, dual rules the step length and the projection of the multipliers, tolerance rules eta'_k.
They keep no state: everything they know is the `History`, which is also what a checkpoint saves.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm import formulas
from auglag.algorithm.history import History
from auglag.errors import InputError, require_positive


def _positive(rule: object, name: str) -> None:
    require_positive(getattr(rule, name), f"{type(rule).__name__}.{name}")


def require_above_one(rule: object, name: str) -> None:
    """Raise unless the field is above 1."""
    value = getattr(rule, name)
    if not 1.0 < value < math.inf:
        raise InputError(f"{type(rule).__name__}.{name} must be finite and greater than 1, got {value}")


def require_fraction(rule: object, name: str) -> None:
    """Raise unless the field lies between 0 and 1."""
    value = getattr(rule, name)
    if not 0.0 < value < 1.0:
        raise InputError(f"{type(rule).__name__}.{name} must lie in (0, 1), got {value}")


def require_initial(rule: PenaltyRule) -> None:
    """Raise unless `rule.initial` is a positive number or an `InitialPenalty`."""
    if not isinstance(rule.initial, InitialPenalty):  # type: ignore[attr-defined]
        _positive(rule, "initial")


def _leap(rule: Always | Adaptive) -> None:
    if not 1.0 <= rule.leap < math.inf:
        raise InputError(f"{type(rule).__name__}.leap must be finite and at least 1, got {rule.leap}")


# ---------------------------------------------------------------------------------------------------- initial penalty


class InitialPenalty(ABC):
    """Chooses beta_1 from the start."""

    @abstractmethod
    def value(self, history: History) -> float:
        """beta_1 > 0."""


@final
@dataclass(frozen=True, slots=True)
class FromScale(InitialPenalty):
    """beta_1 = factor * max(1, |f|) / max(1, ||c||^2 / 2) at x_1, kept in [lowest, highest] (as ALGENCAN does)."""

    factor: float = 10.0
    lowest: float = 0.1
    highest: float = 100.0

    def __post_init__(self) -> None:
        _positive(self, "factor")
        _positive(self, "lowest")
        if not self.lowest <= self.highest < math.inf:
            raise InputError(f"FromScale.highest must be finite and at least lowest, got {self.highest}")

    def value(self, history: History) -> float:
        """beta_1 from |f| and ||c|| at the starting point."""
        scale = self.factor, self.lowest, self.highest
        return float(formulas.from_scale(np, history.objective, history.violation, *scale))


# ------------------------------------------------------------------------------------------------------ penalty rules


class PenaltyRule(ABC):
    """beta_k. A user's own rule is one small class with one method."""

    @abstractmethod
    def next(self, history: History) -> float:
        """beta for the iteration to come.

        If `history.last.usable` is False, the subproblem had no lower bound: the answer must be larger than
        `history.last.beta` (see `after_failure`).
        """


def first_penalty(initial: float | InitialPenalty, history: History) -> float:
    """beta_1 from a number or a rule."""
    return initial.value(history) if isinstance(initial, InitialPenalty) else float(initial)


def after_failure(history: History, gamma: float, leap: float = formulas.FAILURE_GROWTH) -> float:
    """The answer to a subproblem with no lower bound: beta times the first power of gamma that is at least `leap`."""
    return history.last.beta * formulas.failure_factor(gamma, leap)


def unfinished(history: History) -> bool:
    """Whether the inner solver was cut short but gets on: such a subproblem says nothing of its penalty.

    Getting on means a residual smaller by a fifth within the last six iterations. (The paper has no such case.)
    """
    residuals = [it.residual for it in history.iterations if it.usable]
    gets_on = len(residuals) <= 6 or min(residuals[-6:]) < 0.8 * min(residuals[:-6])
    return history.last.inner_status == "LIMIT" and gets_on


@final
@dataclass(frozen=True, slots=True)
class Always(PenaltyRule):
    """Raise beta by the factor `gamma` in every iteration (the rival schedule of the paper's experiments).

    After a subproblem without a lower bound, of which the paper knows nothing, beta grows by the first power of gamma
    that is at least `leap`; with `leap=1` by gamma as ever.
    """

    initial: float | InitialPenalty = FromScale()
    gamma: float = 10.0
    leap: float = formulas.FAILURE_GROWTH

    def __post_init__(self) -> None:
        require_initial(self)
        require_above_one(self, "gamma")
        _leap(self)

    def next(self, history: History) -> float:
        """beta_{k+1} = gamma beta_k."""
        if not history.iterations:
            return first_penalty(self.initial, history)
        if not history.last.usable:
            return after_failure(history, self.gamma, self.leap)
        return self.gamma * history.last.beta


@final
@dataclass(frozen=True, slots=True)
class Adaptive(PenaltyRule):
    """Raise beta only when the violation failed to shrink by the factor `tau` (Algorithm 1, line 5).

    `leap` as in `Always`.
    """

    initial: float | InitialPenalty = FromScale()
    gamma: float = 10.0
    tau: float = 0.25
    leap: float = formulas.FAILURE_GROWTH

    def __post_init__(self) -> None:
        require_initial(self)
        require_above_one(self, "gamma")
        _leap(self)
        require_fraction(self, "tau")

    def next(self, history: History) -> float:
        """beta_{k+1} = beta_k if ||c(x_{k+1})|| <= tau ||c(x_k)||, else gamma beta_k."""
        if not history.iterations:
            return first_penalty(self.initial, history)
        if not history.last.usable:
            return after_failure(history, self.gamma, self.leap)
        before, now = history.violations()[-2:]
        enough = formulas.shrank_enough(before, now, self.tau)
        enough = enough or formulas.is_negligible(history.last.user_violation, history.negligible)
        enough = enough or (history.negligible > 0.0 and unfinished(history))
        return history.last.beta if enough else self.gamma * history.last.beta


# --------------------------------------------------------------------------------------------------------- dual rules


class DualRule(ABC):
    """The length of the dual step y + step * c(x_{k+1}), and where the result is projected."""

    @abstractmethod
    def step(self, history: History) -> float:
        """The step length for the iteration just finished."""

    def project(self, y: Vector, history: History) -> Vector:
        """The multipliers kept for the next subproblem; by default y itself."""
        return y


@final
@dataclass(frozen=True, slots=True)
class Full(DualRule):
    """The full step beta_k, projected on |y_i| <= y_max (`ball="box"`) or on ||y|| <= y_max (`ball="l2"`).

    With `growing=True` the radius is y_max * k, the O(k) growth that the paper mentions in passing.
    """

    y_max: float = 1e9
    ball: str = "box"
    growing: bool = False

    def __post_init__(self) -> None:
        _positive(self, "y_max")
        if self.ball not in ("box", "l2"):
            raise InputError(f"Full.ball must be 'box' or 'l2', got {self.ball!r}")

    def step(self, history: History) -> float:
        """beta_k (Algorithm 1, line 6)."""
        return history.last.beta

    def project(self, y: Vector, history: History) -> Vector:
        """The nearest point of the box or ball of radius y_max."""
        radius = self.y_max * (history.last.k if self.growing else 1)
        if self.ball == "box":
            return np.asarray(formulas.in_box(np, y, radius))
        return y * float(formulas.ball_factor(np, float(np.linalg.norm(y)), radius))


@final
@dataclass(frozen=True, slots=True)
class Short(DualRule):
    """The short step of Sahin et al. (2019), which keeps the multipliers bounded by itself.

    a_k = min(||c(x_1)|| log^2 2 / (||c(x_{k+1})|| (k + 1) log^2(k + 2)), 1), and 1 where c(x_{k+1}) = 0.
    """

    def step(self, history: History) -> float:
        """a_k."""
        with np.errstate(over="ignore"):  # a violation near the smallest number: the step is 1
            return float(formulas.short_step(np, history.violation, history.last.violation, history.last.k))


# ----------------------------------------------------------------------------------------- inner tolerance sequences


class ToleranceRule(ABC):
    """eta'_k, positive and decreasing to 0 (or to a floor below what the stopping test needs)."""

    within_penalty: ClassVar[bool] = True  #: whether eta_k = min(1/beta_k, eta'_k), as in Algorithm 1, or eta'_k

    @abstractmethod
    def next(self, history: History) -> float:
        """eta'_k for the iteration to come; the loop takes eta_k = min(1/beta_k, eta'_k)."""


@final
@dataclass(frozen=True, slots=True)
class PowerLaw(ToleranceRule):
    """eta'_k = scale / k^power; the paper's experiments are matched by scale = power = 1."""

    scale: float = 1.0
    power: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, "scale")
        _positive(self, "power")

    def next(self, history: History) -> float:
        """scale / k^power."""
        return float(formulas.power_law(history.k, self.scale, self.power))


@final
@dataclass(frozen=True, slots=True)
class Geometric(ToleranceRule):
    """eta'_k = max(first * ratio^(k-1), floor)."""

    first: float = 0.1
    ratio: float = 0.1
    floor: float = 0.0

    def __post_init__(self) -> None:
        _positive(self, "first")
        require_fraction(self, "ratio")
        if not 0.0 <= self.floor < math.inf:
            raise InputError(f"Geometric.floor must be nonnegative and finite, got {self.floor}")

    def next(self, history: History) -> float:
        """first * ratio^(k-1), not below the floor."""
        return float(formulas.geometric(np, history.k, self.first, self.ratio, self.floor))


@final
@dataclass(frozen=True, slots=True)
class Constant(ToleranceRule):
    """eta'_k = value throughout; for problems without constraints, which one subproblem solves."""

    value: float

    def __post_init__(self) -> None:
        _positive(self, "value")

    def next(self, history: History) -> float:
        """The constant."""
        return self.value
