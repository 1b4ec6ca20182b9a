"""Other starts for a run that ended without a solution: where each begins, its penalty, and what it may spend.

Algorithm 1 and its acceleration find a stationary point near their start. Where they end at a point that is none
(constraint gradients that lose rank, a local minimum of the violation, a subproblem without end), another start often
leads elsewhere. Where they came near a solution, they go on from there first, with f scaled anew; the last of all goes
on from the best point in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.rules import Adaptive, Always, History, PenaltyRule, first_penalty
from auglag.algorithm.status import Status
from auglag.inner import InnerResult, InnerSolver
from auglag.problems.base import AbstractProblem
from auglag.problems.constraints import nearby
from auglag.strategy.restoration import least_violation

if TYPE_CHECKING:
    from auglag.strategy.old_outer import OuterSubproblem
    from auglag.strategy.run import Run

#: Inner iterations that the first attempt (and one from a near point), each other, and the last may take.
FIRST_EFFORT, EFFORT, LAST_EFFORT = 750, 250, 1000
#: A residual up to which a point is near a solution; up to this multiple of tol no other start is worth while.
NEAR, ENOUGH = 1e-3, 10.0
#: The least violation is looked for in at most so many iterations.
SEARCH = 100
#: Ends that another start may avoid.
AVOIDABLE = (Status.STUCK, Status.INFEASIBLE, Status.NON_FINITE, Status.ITERATION_LIMIT, Status.UNCERTIFIED)


@final
@dataclass(frozen=True, slots=True)
class Start:
    """One way to begin again."""

    name: str
    near: bool = False  #: begin at the best point so far, if it is near a solution; else there is no such start
    spread: float = 0.0  #: standard deviation of the random displacement of x0, relative to max(1, |x0|)
    feasible: bool = False  #: begin at the least violated point near there
    penalty: float = 1.0  #: multiplies the first penalty

    def place(self, run: Run, seed: int) -> Vector:
        """The user's x to begin at."""
        problem, x = run.problem, run.start_x
        if self.spread:
            step = np.random.default_rng(seed).standard_normal(x.size)
            x = x + self.spread * np.maximum(1.0, np.abs(x)) * step
            x = np.clip(x, problem.lower, problem.upper)
            if not (problem.at(x).finite() and np.isfinite(problem.at(x).grad).all()):
                return run.start_x
        if self.feasible:
            assert run.form is not None
            found = least_violation(run.form, run.settings.inner, x, SEARCH)
            if found is not None and np.isfinite(problem.at(found[0]).f):
                return found[0]
        return x


#: What those are called that go on from there.
BEST = "the best point so far"
#: In the order in which they are tried; the last one is followed by the best point so far, near or not.
STARTS = (
    Start(BEST, near=True),
    Start("the least violated point near x0", feasible=True),
    Start("x0 with a larger penalty", penalty=10.0),
    Start("a point near x0", spread=0.1),
    Start("the least violated point near a point around x0", spread=0.3, feasible=True, penalty=100.0),
)
#: More starts than these are not made, whatever is asked for.
MOST = len(STARTS) + 1


@final
@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands after an attempt."""

    status: Status  #: how the attempt ended
    residual: float  #: of the best point so far
    tol: float
    feasible: bool  #: whether x0 satisfies the constraints
    constrained: bool = True  #: whether there are any

    def calls_for(self, start: Start | None) -> bool:
        """Whether a start may lead further.

        Where the violation was found stationary only starts elsewhere may, and going on from there may not; where the
        tolerance is nearly met only going on from there may, and so it is without constraints: a kink stays one, and
        other starts have other minima; the least violated point near a feasible x0 is x0.
        """
        enough = self.residual <= ENOUGH * self.tol
        if self.status is Status.INFEASIBLE:
            return start is not None and start.spread > 0.0
        if start is not None and start.near:
            return self.residual <= NEAR
        if enough or not self.constrained:
            return False
        return start is None or bool(start.spread) or not (self.feasible and start.feasible)


def defined_near(problem: AbstractProblem, x: Vector) -> Vector | None:
    """x, or a point near it where f and c are finite, or None."""
    g = problem.g
    for trial in nearby(x, (problem.lower, problem.upper)):
        if g is not None:
            trial = np.clip(g.domain().prox(trial, 1.0), problem.lower, problem.upper)
        point = problem.at(trial)
        if point.finite() and np.isfinite(point.grad).all():
            return trial
    return None


def following(attempt: int, restarts: int, standing: Standing) -> int | None:
    """The attempt to make after one that left things so; None if there is none."""
    last = min(restarts, MOST)
    return next((k for k in range(attempt + 1, last + 1) if standing.calls_for(start_of(k, last))), None)


def start_of(attempt: int, restarts: int) -> Start | None:
    """The start of attempt 1, 2, ...; None for the last one, which goes on from the best point."""
    return STARTS[attempt - 1] if attempt < restarts and attempt <= len(STARTS) else None


def effort(attempt: int, restarts: int) -> float:
    """The inner iterations that an attempt may take: no limit for the only one."""
    if restarts == 0:
        return float("inf")
    if attempt >= restarts:
        return LAST_EFFORT
    return FIRST_EFFORT if attempt == 0 or STARTS[attempt - 1].near else EFFORT


def penalty_of(rule: PenaltyRule, start: Start | None) -> PenaltyRule:
    """The rule with a larger first penalty, where it has one."""
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
            return first_penalty(self.rule.initial, replace(history)) * self.factor
        return self.rule.next(history)


@final
@dataclass(frozen=True, slots=True)
class Capped:
    """An inner solver that takes no more iterations than the attempt has left."""

    inner: InnerSolver
    run: Run

    def solve(self, subproblem: OuterSubproblem, x: Vector, tol: float, *, limit: int) -> InnerResult:
        """As the solver does, within the limit."""
        left = min(self.run.effort_left(), self.run.accelerator.leash())
        return self.inner.solve(subproblem, x, tol, limit=limit if left > limit else max(1, int(left)))
