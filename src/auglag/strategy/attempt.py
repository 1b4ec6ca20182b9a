"""One attempt of a run: phase after phase, as `plan` says, until it is over."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from functools import partial

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.outer import iteration
from auglag.algorithm.status import Status
from auglag.certificate.incumbent import Best
from auglag.errors import StoppedByCallback
from auglag.inner.qp import curvature_for
from auglag.problems.standard_form import StandardForm
from auglag.strategy import newton, plan, restoration, unboundedness
from auglag.strategy.context import Context
from auglag.strategy.restoration import Restoration
from auglag.strategy.rows import Posed, candidate_row, stop, watch
from auglag.strategy.sqp import Candidate
from auglag.strategy.state import Between, State
from auglag.strategy.task import Task

#: Said of rows that least squares prove to have no point in common.
PROOF = "Constraints are linear, and a combination of them contradicts the bounds."


def attempt(context: Context, state: State) -> Status:
    """One attempt: phase after phase, as the plan says, until it is over."""
    while True:
        match plan.next_phase(context.standing(state), context.task.tuning):
            case plan.AttemptOver(status):
                return status
            case plan.CheckUnbounded():
                check_unbounded(context, state)
            case plan.Restore():
                restore(context, state)
            case plan.Measure():
                measure(context, state)
            case plan.Interior() as phase:
                state.between.arrival = newton.by_interior_points(context, state, phase)
            case plan.Newton() as phase:
                consider(context, state, newton.by_newton(context, state, phase))
            case plan.Subproblem(limit):
                subproblem(context, state, limit)
            case phase:
                raise TypeError(f"attempt.attempt has no case for {phase}")


def subproblem(context: Context, state: State, limit: int) -> None:
    """Algorithm 1's next iteration, and the stopping test."""
    posed, asked = Posed(context, state), state.between.asked
    try:
        turn = iteration(context.rules, posed, context.inner, state.x, state.y, state.history, limit=limit, asked=asked)
    except StoppedByCallback:
        raise
    except Exception as error:
        keep_reached(context, state, error)
        raise
    state.between = Between()
    state.x, state.y = turn.x, turn.y
    watch(context, state, turn.y_hat)
    state.between.verdict = stop(context, state, turn.found.status, turn.found.limit)


def keep_reached(context: Context, state: State, error: Exception) -> None:
    """Of a subproblem that an exception of user code ends, the lowest point is the best one so far."""
    reached = getattr(error, "reached", None)
    if reached is not None:
        near = state.best.residual <= context.task.tuning.near_tol * context.task.tol
        with contextlib.suppress(Exception):
            del error.reached  # type: ignore[attr-defined]
        if not near:
            x, y = context.form.user_x(reached).copy(), context.form.user_y(state.y)
            state.best = Best(x, y, level=state.best.level)


def measure(context: Context, state: State) -> None:
    """The KKT error at (x, y), on which the plan decides whether Newton's method or interior points are tried."""
    newtons = state.newtons
    state.between.asked = context.rules.ask(state.history)  # a rule that returns nonsense is named before all else
    newtons.steps = 0
    newtons.origin = state.x if newtons.origin is None else newtons.origin
    state.between.error = context.form.error(state.x, state.y)


def consider(context: Context, state: State, found: Candidate) -> None:
    """Decide what becomes of a candidate of Newton's method: the end of the attempt, the next iterate, or nothing."""
    tuning, newtons, between, target = context.task.tuning, state.newtons, state.between, context.target(state)
    before = math.inf if between.error is None else between.error
    between.tried = True
    newtons.tried_at, newtons.steps = before, found.steps
    newtons.failures = 0 if found.error < tuning.newton_success * before else newtons.failures + 1
    limited = found.error <= context.near(state) and context.task.judge.rounding_limits(state.best)
    if found.error <= target or state.best.residual <= context.goal(state) or limited:
        newtons.in_vain += found.error > tuning.newton_success * newtons.nearest
        newtons.nearest = min(newtons.nearest, found.error)
        if finished(context, state, found, limited=limited):
            return
    if plan.adopts(found.error, before, tuning):
        state.x, state.y = found.x, found.y
    elif not state.history.iterations and _lower(context, state, found.x):
        state.x = found.x


def finished(context: Context, state: State, found: Candidate, *, limited: bool) -> bool:
    """Whether a candidate that reached tol, or what rounding makes of it (`limited`), ends the attempt.

    It then becomes a row of the history.
    """
    judge, best, newtons = context.task.judge, state.best, state.newtons
    if judge.refine(best, 2) and not judge.solves(best):
        return False
    solved = judge.solves(best)
    if (
        state.accuracy > 0.0
    ):  # where derivatives have errors, a candidate with a smaller error may have a larger residual
        best.residual = judge.check(best).weighed(context.task.tol)
    target = context.target(state)
    verdict = plan.newton_verdict(
        found.error, target, newtons.in_vain, context.task.tuning, solved=solved, limited=limited
    )
    if verdict is None:
        return False
    context.rules.close(state.history, candidate_row(context, state, found))
    state.x, state.y, state.between = found.x, found.y, Between()
    watch(context, state, found.y)
    state.between.verdict = verdict
    return True


def _lower(context: Context, state: State, x: Vector) -> bool:
    """Whether the first augmented Lagrangian is lower at a new starting point."""
    beta = context.rules.penalty.next(state.history)
    first = Posed(context, state).subproblem(state.y, beta)
    return first.value(x) < first.value(state.x)


def check_unbounded(context: Context, state: State) -> None:
    """Find out whether the objective falls without end; if it does not, subproblems may fall deeper."""
    task, doubts, arrival = context.task, state.doubts, state.between.arrival
    state.between.settled = "bounded"
    if arrival is not None and arrival.ray is not None:
        x = unboundedness.along(context.form, arrival.ray, task.tol, task.tuning)
        if x is not None:
            state.between.settled, doubts.endless = "unbounded", x
        return
    if doubts.diverged is None:
        return
    fall = unboundedness.look(
        context.form,
        task.settings.inner,
        start=state.start_x,
        diverged=doubts.diverged,
        depth=doubts.depth,
        tol=task.tol,
        limit=task.budget.inner_limit,
        tuning=task.tuning,
    )
    doubts.evidence = fall.evidence if fall.low else doubts.evidence
    if fall.endless:
        state.between.settled, doubts.endless = "unbounded", fall.x
    elif fall.evidence is not None:
        doubts.depth *= task.tuning.deeper


def restore(context: Context, state: State) -> None:
    """Find out whether there is a feasible point; if the attempt was only suspected to be infeasible, x moves there."""
    task, form, doubts, arrival = context.task, context.form, state.doubts, state.between.arrival
    if arrival is not None and arrival.blocked is not None:
        starts = [form.user_x(arrival.blocked)]
        if arrival.proved and restoration.only_linear(task.problem):
            doubts.least = restoration.proved(task.problem, starts[0])
            doubts.proof, state.between.settled = PROOF, "infeasible"
            return
    else:
        starts = [form.user_x(state.x), state.start_x]
    found = feasible_point(task, form, state, starts, context.goal(state))
    doubts.restorations += 1
    state.between.settled = found.verdict
    if found.verdict not in ("feasible", "elsewhere"):
        return
    if state.between.verdict is Status.INFEASIBLE:
        state.x, state.y = form.start(found.x), np.zeros(form.m)
    elif state.between.verdict is None:  # interior points were blocked: they begin again from there
        state.x, state.y, state.between = form.start(found.x), np.zeros(form.m), Between()


def feasible_point(task: Task, form: StandardForm, state: State, starts: list[Vector], tol: float) -> Restoration:
    """What restoration finds from these starts, noted in the state. Starts far away are tried once in a run."""
    doubts, tuning = state.doubts, task.tuning
    least = tuning.wide_effort if curvature_for(form.traits).dense else tuning.wide_effort_sparse
    effort = 0 if doubts.widened else max(least, sum(it.inner_iterations for it in state.iterations))
    inner, limit = task.settings.inner, task.budget.inner_limit
    excess = partial(task.judge.excess, tol=tol)
    found = restoration.restore(
        form, inner, starts, excess, limit, tuning, effort=effort, known=doubts.from_start if starts[1:] else None
    )
    doubts.widened |= found.wide
    if found.verdict in ("feasible", "elsewhere"):
        doubts.feasible = found.x
    elif found.verdict == "infeasible" and doubts.feasible is not None:  # it is known that there are feasible points
        return replace(found, x=doubts.feasible, verdict="elsewhere")
    elif found.verdict == "infeasible" and (doubts.least is None or found.violation < doubts.least.violation):
        doubts.least = found
    return found
