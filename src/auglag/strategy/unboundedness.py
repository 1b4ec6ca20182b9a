"""A subproblem fell without end: does the objective do so at feasible points, too?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.certificate.incumbent import objective
from auglag.inner import InnerSolver
from auglag.problems.base import AbstractProblem
from auglag.problems.standard_form import StandardForm
from auglag.strategy.restoration import least_violation
from auglag.strategy.tuning import Tuning


@final
@dataclass(frozen=True, slots=True)
class Fall:
    """What was found far out."""

    endless: bool
    evidence: tuple[float, float] | None  #: objective and violation of the feasible point nearest to where it fell


def look(
    form: StandardForm,
    inner: InnerSolver | str,
    *,
    start: Vector,
    diverged: Vector,
    depth: float,
    tol: float,
    limit: int,
    tuning: Tuning,
) -> Fall:
    """Whether the objective falls without end at feasible points too; `diverged` is where a subproblem fell.

    Asked for: a feasible point with an objective as low as in the unbounded subproblem, and an objective that goes on
    falling when the way there from the start is made 4, 16, ..., 4^8 times as long, and no sign that the constraints
    stop the fall further on.
    """
    problem, x, violation = form.problem, diverged, 0.0
    if problem.m:
        found = least_violation(form, inner, x, limit, tuning)
        if found is None:
            return Fall(False, None)
        x, violation = found.x, found.violation
    reached, first = objective(problem, x), objective(problem, start)
    low = reached < -tuning.depth_share * depth * max(1.0, abs(first))
    feasible = violation <= tol + _rounding(x, tuning)
    endless = (
        low
        and feasible
        and _falls_on(problem, start, x, reached, tuning)
        and not _stopped(form, inner, start, x, limit, tuning)
    )
    return Fall(endless, (reached, violation))


def _falls_on(problem: AbstractProblem, start: Vector, x: Vector, reached: float, tuning: Tuning) -> bool:
    for k in range(1, tuning.ahead_times + 1):
        ahead = objective(problem, np.clip(start + tuning.ahead**k * (x - start), problem.lower, problem.upper))
        if not (ahead < reached or ahead == reached == -math.inf):
            return False
        reached = ahead
    return True


def _rounding(x: Vector, tuning: Tuning) -> float:
    """The violation that rounding alone makes of a feasible point so far away."""
    return tuning.rounding * float(np.max(np.abs(x)))


def _stopped(
    form: StandardForm, inner: InnerSolver | str, start: Vector, x: Vector, limit: int, tuning: Tuning
) -> bool:
    """Whether constraints end the fall somewhere: feasible points near ever longer ways are no lower any more."""
    problem = form.problem
    if not problem.m:
        return False
    last = math.inf
    for times in tuning.further:
        ahead = np.clip(start + times * (x - start), problem.lower, problem.upper)
        found = least_violation(form, inner, ahead, min(limit, tuning.further_search), tuning)
        if found is None or found.violation > _rounding(ahead, tuning):
            return False  # nothing was learnt
        reached = objective(problem, found.x)
        if not reached < last - tuning.lower * abs(reached):
            return True
        last = reached
    return False
