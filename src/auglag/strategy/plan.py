"""The strategy of a solve: what is tried next, with how much effort, and when a run ends. Pure functions, one page.

A run is a sequence of attempts, an attempt a sequence of phases. If nothing else applies, the next phase is Algorithm
1's next subproblem, which makes progress from anywhere. Newton's method on the KKT conditions converges quadratically
near a solution, and little is lost where it does not. Interior points take one factorisation a step, however many
bounds become active. Two phases check whether the problem has a solution at all: restoration looks for a feasible
point, `CheckUnbounded` for an objective that falls without end. Other starts come last.

`Standing` and `Aftermath` say how things stand, in numbers and flags. The driver makes them, asks these functions what
to do, and does it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from auglag.algorithm.formulas import UNBOUNDED_PENALTY
from auglag.algorithm.status import Status
from auglag.inner.base import InnerStatus
from auglag.strategy.tuning import Tuning

#: What `Result.second_order` may say.
MINIMUM, PROBABLE, LEFT = "minimum", "probable minimum", "saddle left"
SADDLE, DEGENERATE, UNCHECKED = "saddle", "degenerate", "not checked"
VERDICTS = (MINIMUM, PROBABLE, LEFT, SADDLE, DEGENERATE, UNCHECKED)

#: Verdicts under which the constraints may have no solution.
DOUBTFUL = (Status.INFEASIBLE, Status.STUCK, Status.PENALTY_LIMIT, Status.ITERATION_LIMIT, Status.NON_FINITE)
#: Ends of an attempt that another start may avoid.
AVOIDABLE = (*DOUBTFUL, Status.UNCERTIFIED)
#: Ends of an attempt that nothing more is to follow.
CUT_SHORT = (Status.TIME_LIMIT, Status.EVALUATION_LIMIT, Status.STOPPED, Status.INTERRUPTED)
#: Ends of a subproblem that was not solved: interior points are tried next.
UNSOLVED = (InnerStatus.UNBOUNDED.name, InnerStatus.LIMIT.name, InnerStatus.EDGE.name)


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
    restoration: bool = True  #: restoration may be tried
    restarts: int = 7  #: most starts beside x0
    attempt: int = 0  #: 0 from x0, then the number of the restart
    departed: int | None = None  #: steps made to find a better solution than one that was left; None: none was
    found_in: int = 0  #: steps made before the first solution that was left
    inner_limit: int = 2000  #: of the budget, for one subproblem
    first_limit: int | None = None  #: of the settings, for the first subproblem

    # The last subproblem
    k: int = 1  #: number of the subproblem to come
    verdict: Status | None = None  #: of the stopping test
    ended: str = ""  #: the `InnerStatus` of the last subproblem
    beta: float = 0.0
    violated: bool = False  #: the constraints are violated by much more than tol
    depth: float = 0.0  #: relative depth below which subproblems count as unbounded
    restorations: int = 0  #: made in this attempt
    settled: str = ""  #: what `Restore` or `CheckUnbounded` found; "" before it
    iterations: int = 0  #: inner iterations of this attempt
    steps: int = 0  #: and with them those of Newton's method and of interior points

    # Newton's method on the KKT conditions
    error: float | None = math.inf  #: at (x, y); None before it was measured
    failures: int = 0  #: calls in a row that did not halve the error
    tried_at: float = math.inf  #: the error that the last call began with
    tried: bool = False  #: it was called since the last subproblem
    inside: bool = False  #: interior points were tried in this attempt
    arrived: bool = False  #: interior points were tried since the last subproblem
    nearer: bool = False  #: and ended at a smaller error
    blocked: bool = False  #: and ended where the violation is stationary
    falls: bool = False  #: and found a ray along which the objective seems to fall without end
    lost: bool = False  #: and ended far from a solution for want of progress, other than in their safe mode


class Phase:
    """What to do next, and how much of it. The driver carries it out."""


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

    afresh: bool  #: begin where the attempt began, with multipliers 0, instead of at the current point
    most: int | None = None  #: most steps; None: as many as the settings say
    safe: bool = False  #: one barrier problem after another


@final
@dataclass(frozen=True, slots=True)
class CheckUnbounded(Phase):
    """Check whether the objective falls without end at feasible points too."""


@final
@dataclass(frozen=True, slots=True)
class Restore(Phase):
    """Check whether there is a feasible point."""


@final
@dataclass(frozen=True, slots=True)
class AttemptOver(Phase):
    """The attempt ends, with this status."""

    status: Status


def next_phase(s: Standing, t: Tuning) -> Phase:
    """What an attempt does next. The first `return` that is reached decides; a doubt that was settled goes on below."""
    # The last subproblem has no lower bound. Check whether the problem has one; if so, subproblems may fall deeper, up
    # to a point where the attempt is stuck.
    verdict = s.verdict
    if verdict is Status.UNBOUNDED:
        if not s.settled:
            return CheckUnbounded()
        if s.settled == "unbounded":
            return AttemptOver(Status.UNBOUNDED)
        beyond = s.beta >= UNBOUNDED_PENALTY or s.depth > t.deepest
        verdict = Status.STUCK if beyond else None
    # The violation does not fall. Check whether there is a feasible point. The verdict INFEASIBLE is a suspicion: if it
    # is not confirmed, the attempt goes on. After a solution was left, nothing needs to be confirmed.
    if verdict in DOUBTFUL and s.restoration and s.violated and s.departed is None:
        if s.settled in ("", "bounded"):
            return Restore()
        if s.settled == "infeasible":
            return AttemptOver(Status.INFEASIBLE)
        if verdict is not Status.INFEASIBLE:
            return AttemptOver(verdict)
    elif verdict is not None:
        return AttemptOver(verdict)
    if s.falls and s.settled in ("", "unbounded"):
        return AttemptOver(Status.UNBOUNDED) if s.settled else CheckUnbounded()
    # Interior points that are blocked raise the same doubt, once in a run; sooner than subproblems would.
    if s.blocked and s.restoration and s.departed is None:
        if s.settled == "infeasible":
            return AttemptOver(Status.INFEASIBLE)
        if not s.settled and not s.restorations:
            return Restore()
    # Between two subproblems: interior points and Newton's method, as long as they are worth their price.
    if s.newton and not s.tried:
        if s.error is None:
            return Measure()
        if s.interior and not s.arrived and newton_pays(s, s.error, t) and interior_pays(s, s.error, t):
            cheap = s.sparse and not s.models
            return Interior(afresh=not s.sparse, most=t.interior_first_steps if cheap else None)
        if s.lost and s.sparse and s.models:
            return Interior(afresh=True, safe=True)
        # Without rows the inner solver's steps already are Newton's. It stalls where rounding hides the differences of
        # values; steps that look at the KKT error may still help there.
        useful = s.constrained or s.nearer or s.ended == InnerStatus.STALLED.name
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
    return not s.inside and (in_vain or s.ended in UNSOLVED or s.iterations >= patience.iterations)


def effort_left(s: Standing, t: Tuning) -> float:
    """Steps that this attempt may still take."""
    if s.departed is not None:
        return t.departure_steps - s.departed
    if not (s.constrained and s.models):
        return math.inf
    return t.effort(s.attempt, s.restarts) - s.steps


def solve_limit(s: Standing, t: Tuning) -> int:
    """Most iterations of the next inner solve: few as long as interior points were not tried."""
    left = effort_left(s, t)
    if s.models:
        untried = s.interior and not s.inside
        left = min(left, max(1, t.patience(exact=s.exact).iterations - s.iterations) if untried else t.longest_solve)
    most = s.inner_limit if s.first_limit is None or s.k > 1 else min(s.inner_limit, s.first_limit)
    return most if left > most else max(1, int(left))


def suspicion(s: Standing, t: Tuning) -> int | None:
    """How many penalty increases in a row without less violation call for restoration; None: it is not called again."""
    asked = s.restoration and s.restorations < len(t.suspicions)
    return t.suspicions[s.restorations] if asked else None


# ------------------------------------------------------------------------------------------------- Newton's candidates


def adopts(error: float, before: float, t: Tuning) -> bool:
    """Whether Algorithm 1 goes on from a candidate of Newton's method, with its multipliers."""
    return error < t.adopted_error and error < t.newton_success * before


def newton_verdict(
    error: float, target: float, in_vain: int, t: Tuning, *, solved: bool, limited: bool = False
) -> Status | None:
    """The verdict on a call that reached tol, or what rounding makes of it (`limited`): the end is at its target, or
    after `newton_finishes` calls that no longer halve the error; one is enough where rounding explains what is left."""
    over = in_vain >= (1 if limited else t.newton_finishes) or (solved and error <= target)
    return ended_by_newton(solved=solved) if over else None


def ended_by_newton(*, solved: bool) -> Status:
    """The verdict on an attempt whose last row is a candidate of Newton's method."""
    return Status.SOLVED if solved else Status.STUCK


# ------------------------------------------------------------------------------------------------------- second order


def checks_curvature(
    s: Standing, known: str, failures: int, departures: int, t: Tuning, *, level: bool = False
) -> bool:
    """Whether the second-order conditions of a solution are checked: `known` is what is known of them already.

    It is part of the strategy around Algorithm 1, as other starts are: not where only that was asked for. A degenerate
    solution from which one with the same objective was reached, itself or another, lies in a valley: once is enough.
    """
    again = known == SADDLE or (known == DEGENERATE and not level)
    unknown = known == UNCHECKED or (again and failures > 0 and departures < t.departures)
    return s.newton and s.restarts > 0 and unknown


def departs(s: Standing, verdict: str, departures: int, steps: int, rows: float, t: Tuning) -> bool:
    """Whether a solution is left, if another one may be near: so many `steps` that took so far, and `rows` are left.

    Flat directions are common where matrices are large and sparse (singular arcs of controls, rows that say the same),
    and a look along them takes many times what the solution took: there only saddles are left.
    """
    promising = verdict == SADDLE or not s.sparse
    most = min(t.departure_steps, max(s.found_in, t.departure_least))
    return promising and departures < t.departures and steps < most and rows > 0


def reported(verdict: str, *, left: bool) -> str:
    """`Result.second_order`: the verdict on the point that is returned, and whether others were left on the way."""
    return LEFT if left and verdict in (MINIMUM, PROBABLE) else verdict


def better(objective: float, before: float, t: Tuning) -> bool:
    """Whether the objective of another solution is lower, beyond what tolerances explain."""
    return objective < before - t.better * max(abs(objective), abs(before))


def level(objective: float, before: float, t: Tuning) -> bool:
    """Whether it is the same, up to what tolerances explain."""
    return abs(objective - before) <= t.better * max(abs(objective), abs(before))
