"""The strategy of a solve: what is tried next, with how much effort, and when a run ends. Pure functions, one page.

A run is a walk over phases. Algorithm 1's next subproblem is what happens if no other line applies: it makes progress
from anywhere. Newton's method on the KKT conditions is quadratic near a solution and cheap to give up. Interior points
take one factorisation a step however many bounds become active. Restoration and the look for an endless fall settle the
two doubts that an augmented Lagrangian can raise. Other starts come last.

`Standing` and `Aftermath` say how things stand, in numbers and flags that a line of a log could show; the driver makes
them and carries out what these functions answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from auglag.algorithm.status import Status
from auglag.algorithm.stopping import UNBOUNDED_PENALTY
from auglag.inner.base import InnerStatus
from auglag.strategy.tuning import Start, Tuning

#: Ends of an attempt that another start may avoid.
AVOIDABLE = (Status.STUCK, Status.INFEASIBLE, Status.NON_FINITE, Status.ITERATION_LIMIT, Status.UNCERTIFIED)
#: Verdicts under which the constraints may have no solution.
DOUBTFUL = (Status.INFEASIBLE, Status.STUCK, Status.ITERATION_LIMIT)
#: Ends of a subproblem after which the next one is no better, as long as nothing else changes.
ASTRAY = (InnerStatus.UNBOUNDED.name, InnerStatus.LIMIT.name, InnerStatus.EDGE.name)


@final
@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand between two phases of an attempt."""

    # The problem and the settings
    constrained: bool = True  #: it has rows beside bounds
    sparse: bool = False  #: its KKT matrices are kept sparse: it is large
    exact: bool = True  #: Hessians are given
    newton: bool = True  #: Newton's method is tried between subproblems
    patience: int = 2  #: steps in a row without progress after which it gives up
    models: bool = True  #: the inner solver's steps are Newton's too (inner="qp")
    interior: bool = True  #: interior points may be tried
    restoration: bool = True
    restarts: int = 6  #: starts there may be beside x0
    attempt: int = 0
    inner_limit: int = 2000  #: of the budget, for one subproblem

    # The last subproblem
    k: int = 1  #: number of the subproblem to come
    verdict: Status | None = None  #: of the stopping test
    ended: str = ""  #: the `InnerStatus` of the last subproblem
    beta: float = 0.0
    violated: bool = False  #: the constraints, by much more than tol
    depth: float = 0.0  #: below which subproblems count as unbounded
    restorations: int = 0
    settled: str = ""  #: what restoration or the look for an endless fall found; "" before it
    iterations: int = 0  #: inner iterations of this attempt

    # Newton's method on the KKT conditions
    error: float | None = math.inf  #: at (x, y); None before it was measured
    failures: int = 0  #: calls in a row that did not help
    tried_at: float = math.inf  #: the error that the last call began with
    tried: bool = False  #: called since the last subproblem, or passed over
    inside: bool = False  #: interior points were tried in this attempt
    arrived: bool = False  #: and since the last subproblem,
    nearer: bool = False  #: with a smaller error


class Phase:
    """What to do next: what, and how much; the driver knows how."""


@final
@dataclass(frozen=True, slots=True)
class Subproblem(Phase):
    """Algorithm 1's next iteration."""

    limit: int  #: inner iterations


@final
@dataclass(frozen=True, slots=True)
class Measure(Phase):
    """The KKT error at (x, y)."""


@final
@dataclass(frozen=True, slots=True)
class Newton(Phase):
    """Sequential quadratic programming on the KKT conditions."""

    patience: int  #: steps in a row without progress after which it gives up


@final
@dataclass(frozen=True, slots=True)
class Interior(Phase):
    """Interior points, to bring Newton's method near a solution."""

    afresh: bool  #: begin where the attempt began, with no multipliers: what the other ways came to is no good
    most: int | None = None  #: steps; None: as many as the settings say


@final
@dataclass(frozen=True, slots=True)
class CheckUnbounded(Phase):
    """Whether the objective falls without end at feasible points too."""


@final
@dataclass(frozen=True, slots=True)
class Restore(Phase):
    """Whether there is a feasible point."""


@final
@dataclass(frozen=True, slots=True)
class AttemptOver(Phase):
    """This attempt ends so."""

    status: Status


def next_phase(s: Standing, t: Tuning) -> Phase:
    """What an attempt does next. Read from the top: the first line that applies decides."""
    # The last subproblem fell without end: so may the problem. If it does not, subproblems may fall deeper.
    if s.verdict is Status.UNBOUNDED:
        if not s.settled:
            return CheckUnbounded()
        if s.settled == "unbounded":
            return AttemptOver(Status.UNBOUNDED)
        if s.beta >= UNBOUNDED_PENALTY or s.depth > t.deepest:
            return AttemptOver(Status.STUCK)
    # The violation does not fall: there may be no feasible point. If there is one, a suspicion goes on from it.
    elif s.verdict in DOUBTFUL and s.restoration and s.violated:
        if not s.settled:
            return Restore()
        if s.settled == "infeasible":
            return AttemptOver(Status.INFEASIBLE)
        if s.verdict is not Status.INFEASIBLE:
            return AttemptOver(s.verdict)
    elif s.verdict is not None:
        return AttemptOver(s.verdict)
    # Between two subproblems: other ways, which end where they do not halve the error.
    if s.newton and not s.tried:
        if s.error is None:
            return Measure()
        if s.interior and not s.arrived and newton_pays(s, s.error, t) and interior_pays(s, s.error, t):
            cheap = s.sparse and not s.models
            return Interior(afresh=not s.sparse, most=t.interior_first_steps if cheap else None)
        # Without rows the inner solver's own steps are Newton's, and go down as long as values tell.
        useful = s.constrained or s.arrived or s.ended == InnerStatus.STALLED.name
        if useful and newton_pays(s, s.error, t):
            return Newton(patience=s.patience if s.nearer else max(0, s.patience - s.failures))
    return Subproblem(solve_limit(s, t))


def newton_pays(s: Standing, error: float, t: Tuning) -> bool:
    """Whether Newton's method is worth another call."""
    progress = error < t.newton_progress * s.tried_at
    return s.failures < t.newton_failures or progress or s.k % t.newton_period == 1


def interior_pays(s: Standing, error: float, t: Tuning) -> bool:
    """Whether interior points come first: at once where matrices are large and sparse, else where other ways fail."""
    patience = t.patience(exact=s.exact)
    in_vain = s.failures >= patience.failures
    if s.sparse:
        return not (in_vain if s.models else s.inside) and error > t.interior_error
    return not s.inside and (in_vain or s.ended in ASTRAY or s.iterations >= patience.iterations)


def effort_left(s: Standing, t: Tuning) -> float:
    """Inner iterations that this attempt may still take."""
    if not (s.constrained and s.models):
        return math.inf
    return t.effort(s.attempt, s.restarts) - s.iterations


def solve_limit(s: Standing, t: Tuning) -> int:
    """Iterations of the next inner solve: few as long as there is another way to try."""
    left = effort_left(s, t)
    if s.models:
        untried = s.interior and not s.inside
        left = min(left, max(1, t.patience(exact=s.exact).iterations - s.iterations) if untried else t.longest_solve)
    return s.inner_limit if left > s.inner_limit else max(1, int(left))


def suspicion(s: Standing, t: Tuning) -> int | None:
    """Penalty increases in vain that call for restoration; None: no more of it."""
    asked = s.restoration and s.restorations < len(t.suspicions)
    return t.suspicions[s.restorations] if asked else None


# ------------------------------------------------------------------------------------------------- Newton's candidates


def adopts(error: float, before: float, t: Tuning) -> bool:
    """Whether Algorithm 1 goes on from a candidate of Newton's method, with its multipliers."""
    return error < t.adopted_error and error < t.newton_success * before


def newton_verdict(error: float, target: float, in_vain: int, t: Tuning, *, solved: bool) -> Status | None:
    """The verdict on a call that came to tol: the end is at its target, or where calls come no nearer to it."""
    over = in_vain >= t.newton_finishes or (solved and error <= target)
    return ended_by_newton(solved=solved) if over else None


def ended_by_newton(*, solved: bool) -> Status:
    """The verdict on an attempt whose last row is a candidate of Newton's method."""
    return Status.SOLVED if solved else Status.STUCK


# ------------------------------------------------------------------------------------------------------ other attempts


@final
@dataclass(frozen=True, slots=True)
class Aftermath:
    """How an attempt left things."""

    status: Status  #: how it ended
    residual: float  #: of the best point so far
    tol: float
    feasible: bool  #: whether x0 satisfies the constraints
    constrained: bool = True  #: whether there are any


def next_attempt(attempt: int, restarts: int, a: Aftermath, t: Tuning) -> int | None:
    """The attempt to make after one that left things so; None if there is none."""
    last = min(restarts, t.most_restarts)
    return next((k for k in range(attempt + 1, last + 1) if _calls_for(a, t.start_of(k, last), t)), None)


def _calls_for(a: Aftermath, start: Start | None, t: Tuning) -> bool:
    """Whether a start may lead further.

    Where the violation was found stationary only starts elsewhere may, and going on from there may not; where the
    tolerance is nearly met only going on from there may, and so it is without constraints: a kink stays one, and other
    starts have other minima; the least violated point near a feasible x0 is x0.
    """
    if a.status is Status.INFEASIBLE:
        return start is not None and start.spread > 0.0
    if start is not None and start.near:
        return a.residual <= t.near_residual
    if a.residual <= t.nearly_solved * a.tol or not a.constrained:
        return False
    return start is None or bool(start.spread) or not (a.feasible and start.feasible)
