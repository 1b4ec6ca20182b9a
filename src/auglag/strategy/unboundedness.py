"""How deep a subproblem may fall, and whether the objective falls without end at feasible points too."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.inner import InnerSolver
from auglag.inner.base import UNBOUNDED
from auglag.problems.base import AbstractProblem
from auglag.problems.standard_form import StandardForm
from auglag.strategy.restoration import least_violation

#: Beyond this relative depth nothing is asked any more.
DEEPEST = 1e30
#: A fall that goes on is lower by this much, relatively, from one of these multiples of the way to the next.
LOWER, FURTHER = 1e-6, (1e6, 1e7)
#: Iterations for each of them.
SEARCH = 100


def objective(problem: AbstractProblem, x: Vector) -> float:
    """f + g."""
    g = problem.g
    return float(problem.at(x).f + (g.value(x) if g is not None else 0.0))


@final
class Depth:
    """The relative depth at which a subproblem counts as unbounded, and what came of those that did."""

    def __init__(self) -> None:
        self.limit = UNBOUNDED
        self.diverged: Vector | None = None  #: where the last subproblem fell below every bound
        self.evidence: tuple[float, float] | None = None  #: objective and violation of a point that shows unboundedness

    def confirm(self, form: StandardForm, inner: InnerSolver | str, start: Vector, tol: float, search: int) -> bool:
        """Whether the objective falls without end at feasible points too; if not, subproblems may fall further.

        Asked for: a feasible point with an objective as low as in the unbounded subproblem, and an objective that goes
        on falling when the way there from the start is made 4, 16, ..., 4^8 times as long, and no sign that the
        constraints stop the fall further on.
        """
        assert self.diverged is not None
        problem, x, violation = form.problem, self.diverged, 0.0
        if problem.m:
            found = least_violation(form, inner, x, search)
            if found is None:
                return False
            x, violation, _ = found
        reached, first = objective(problem, x), objective(problem, start)
        low = reached < -0.1 * self.limit * max(1.0, abs(first))
        self.evidence = (reached, violation)
        feasible = violation <= tol + _rounding(x)
        if low and feasible and _falls_on(problem, start, x, reached) and not _stopped(form, inner, start, x, search):
            return True
        self.limit *= 1e3
        return False


def _falls_on(problem: AbstractProblem, start: Vector, x: Vector, reached: float) -> bool:
    for k in range(1, 9):
        ahead = objective(problem, np.clip(start + 4.0**k * (x - start), problem.lower, problem.upper))
        if not (ahead < reached or ahead == reached == -math.inf):
            return False
        reached = ahead
    return True


def _rounding(x: Vector) -> float:
    """The violation that rounding alone makes of a feasible point so far away."""
    return 1e-14 * float(np.max(np.abs(x)))


def _stopped(form: StandardForm, inner: InnerSolver | str, start: Vector, x: Vector, search: int) -> bool:
    """Whether constraints end the fall somewhere: feasible points near ever longer ways are no lower any more."""
    problem = form.problem
    if not problem.m:
        return False
    last = math.inf
    for times in FURTHER:
        ahead = np.clip(start + times * (x - start), problem.lower, problem.upper)
        found = least_violation(form, inner, ahead, min(search, SEARCH))
        if found is None or found[1] > _rounding(ahead):
            return False  # nothing was learnt
        reached = objective(problem, found[0])
        if not reached < last - LOWER * abs(reached):
            return True
        last = reached
    return False
