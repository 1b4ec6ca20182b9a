"""Other starts for a run that ended without a solution: where each begins, and with which penalty.

Algorithm 1 and Newton's method find a stationary point near their start. Where they end at a point that is none
(constraint gradients that lose rank, a local minimum of the violation, a subproblem without end), another start often
leads elsewhere. Which starts there are, and what they may spend, is in `tuning`; which comes next, in `plan`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.history import History
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.algorithm.rules import Adaptive, Always, PenaltyRule, first_penalty
from auglag.errors import attempted
from auglag.inner import InnerSolver
from auglag.problems.base import AbstractProblem
from auglag.problems.constraints import nearby
from auglag.problems.standard_form import StandardForm
from auglag.strategy.restoration import least_violation
from auglag.strategy.tuning import Start, Tuning


def defined(problem: AbstractProblem, x: Vector) -> bool:
    """Whether f, its gradient and c are finite at x."""
    point = problem.at(x)
    return bool(point.finite() and np.isfinite(point.grad).all())


def defined_near(problem: AbstractProblem, x: Vector) -> Vector | None:
    """x, or a point near it where f and c are finite, or None."""
    g = problem.g
    for trial in nearby(x, (problem.lower, problem.upper)):
        if g is not None:
            trial = np.clip(g.domain().prox(trial, 1.0), problem.lower, problem.upper)
        if defined(problem, trial):
            return trial
    return None


def place(start: Start, form: StandardForm, inner: InnerSolver | str, x0: Vector, seed: int, tuning: Tuning) -> Vector:
    """The user's x that a start away from the best point begins at."""
    problem, x = form.problem, x0
    if start.spread:
        step = np.random.default_rng(seed).standard_normal(x.size)
        x = x + start.spread * np.maximum(1.0, np.abs(x)) * step
        x = np.clip(x, problem.lower, problem.upper)
        if not defined(problem, x):
            return x0
    if start.feasible:
        found = least_violation(form, inner, x, tuning.start_search, tuning)
        if found is not None and np.isfinite(problem.at(found.x).f):
            return found.x
    return x


def far_below(form: StandardForm, z: Vector, y: Vector, beta: float, part: float, tuning: Tuning) -> Vector | None:
    """A point far away at which the augmented Lagrangian is lower by more than this part of its size, or None.

    A small gradient means little where x is small against the size that the variables have at the solution, which
    nobody knows at x0. Steps downhill that grow tenfold show it by values alone: along the gradient of the Lagrangian
    and along the variables with its largest entries, which may be the only ones with another size.
    """
    merit = AugmentedLagrangian(form, y, beta)
    down = -form.at(z).lagrangian_gradient(y)
    first = lowest = merit.value(z) + form.g.value(z)
    least, found = part * max(abs(first), abs(form.at(z).f)), None
    largest = np.argsort(-np.abs(down))[: tuning.far_entries]
    for direction in (down, *(np.where(np.arange(z.size) == j, down, 0.0) for j in largest)):
        length = float(np.max(np.abs(direction), initial=0.0))
        if not 0.0 < length < np.inf:
            continue
        step = max(1.0, float(np.max(np.abs(z), initial=0.0))) / length
        for _ in range(tuning.far_steps):
            step *= 10.0
            trial = form.g.domain().prox(z + step * direction, 1.0)
            value = _tried(merit, trial)
            if not value < lowest:
                break
            lowest, found = value, trial
    return found if first - lowest > least else None


def _tried(merit: AugmentedLagrangian, z: Vector) -> float:
    """Its value at a point that is our idea: where the user's functions fail, none is known."""
    with np.errstate(all="ignore"):
        value = attempted(lambda: merit.value(z) + merit.g.value(z))
    return math.nan if value is None else value


def penalty_of(rule: PenaltyRule, start: Start | None) -> PenaltyRule:
    """The rule with its first penalty multiplied by `start.penalty`; only Adaptive and Always can be."""
    if start is None or start.penalty == 1.0 or not isinstance(rule, Adaptive | Always):
        return rule
    return _Raised(rule, start.penalty)


@final
@dataclass(frozen=True, slots=True)
class _Raised(PenaltyRule):
    """A rule whose first penalty is multiplied."""

    rule: Adaptive | Always
    factor: float

    def next(self, history: History) -> float:
        """The rule's, but for the first."""
        if not history.iterations:
            return first_penalty(self.rule.initial, history) * self.factor
        return self.rule.next(history)
