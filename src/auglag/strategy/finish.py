"""The end of a run of `minimize`: what is said of its best point, after it was measured once more."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from auglag._norms import largest
from auglag.algorithm.status import Status
from auglag.certificate import Certificate
from auglag.report import logger
from auglag.report.messages import Ending, result_of
from auglag.result import Result
from auglag.strategy import plan
from auglag.strategy.context import Context
from auglag.strategy.departures import settle
from auglag.strategy.restoration import linearly_infeasible, only_linear
from auglag.strategy.state import State
from auglag.strategy.task import Task


def ended(task: Task, state: State, context: Context | None, status: Status) -> Result:
    """The result of a run that ended so, with the certificate of its best point."""
    task.original.workspace.guard = None
    if state.second.kept is not None:
        settle(task, state, cut_short=True)
    if status is Status.INFEASIBLE and not task.conflict and _known_feasible(task, state):
        status = Status.STUCK  # so ended the first attempt, and a later one refuted it
    elif _shown_infeasible(task, state, status):
        status = Status.INFEASIBLE
    if status is Status.INFEASIBLE and not (task.conflict or state.doubts.proof) and _unproved(task):
        status = Status.STUCK
    endless = state.doubts.endless if status is Status.UNBOUNDED else None
    if endless is not None:
        task.judge.replace(state.best, endless)
    check = task.judge.final(state.best, status, task.meter.used().nfev)
    if status is Status.INFEASIBLE and not task.conflict:
        feasible = task.judge.excess(state.best.x, task.tol) <= 1.0
        status = Status.STUCK if feasible or not task.judge.trusts(check) else status
    if endless is not None:  # far out a gradient may be small; the objective is known to fall on there
        return _said(task, _result(task, state, context, status, check))
    if task.check_derivatives and task.judge.reached(check):
        known = task.original.workspace.precision
        wrong = task.original.wrong_derivatives(state.best.x, _negligible(task, state, check))
        if wrong:
            return _said(task, _result(task, state, context, Status.WRONG_DERIVATIVES, check, wrong))
        if task.original.workspace.precision is not known:  # there was a doubt: values may have changed since
            check = task.judge.again(state.best, check)
    judge = task.judge
    if not judge.accepts(check) and status not in (Status.TIME_LIMIT, Status.EVALUATION_LIMIT, Status.NON_FINITE):
        check = judge.with_sizes(check)
    limited = check.limited(judge.tolerance)
    # A user who states the errors knows them, and does not ask for more.
    consent = task.problem.errors_stated and judge.limited_by_consent(check)
    return _said(
        task, _result(task, state, context, status.certified(judge.accepts(check) or consent, limited=limited), check)
    )


def so_far(task: Task, state: State, context: Context | None) -> Result | None:
    """The result of a run that an exception of user code ends, if there is a point to show.

    It is never called solved: a success would have to be certified with the best derivatives there are. Where the
    functions fail once more the certificate says NaN.
    """
    task.original.workspace.guard = None
    if state.second.kept is not None:
        state.best, state.second.kept = state.second.kept, None
    best = state.best
    if math.isnan(state.history.objective):  # nothing had begun
        return None
    try:
        check = task.judge.check(best)
    except Exception:
        task.problem.at(best.x).give_up()
        check = task.judge.check(best)
    result = _result(task, state, context, Status.STOPPED, check)
    task.original.forget(best.x)  # another run may know more
    return result


def _result(
    task: Task, state: State, context: Context | None, status: Status, check: Certificate, wrong: str = ""
) -> Result:
    """Everything about the best point, with this certificate."""
    fall = abs(state.first_objective - check.objective)
    if fall > check.objective_size:
        check = replace(check, objective_size=fall)
    return result_of(
        Ending(
            problem=task.original,
            settings=task.settings,
            tol=task.tol,
            scale_free=task.scale_free,
            status=status,
            check=check,
            x=state.best.x,
            iterations=state.iterations,
            counts=task.meter.used(),
            seconds=task.meter.guard.seconds,
            penalty=_last_penalty(task, state, context),
            attempt=state.attempt,
            last=state.history.iterations,
            begun=bool(state.history.iterations) or state.newtons.origin is not None,
            conflict=task.conflict or state.doubts.proof,
            wrong=wrong,
            evidence=state.doubts.evidence,
            traits=context.form.traits if context is not None else None,
            inner=context.inner.name if context is not None else str(task.settings.inner),
            tuning=task.tuning,
            trail=state.trail,
            second_order=plan.reported(state.second.verdict, left=state.second.left),
        )
    )


def _negligible(task: Task, state: State, check: Certificate) -> float:
    """The error of a derivative that matters neither for R nor for the scale-free test."""
    if not state.iterations:  # the start was solved: nothing is known of the size of f elsewhere
        return task.tol
    size_f = max(abs(check.objective), abs(state.first_objective - check.objective))
    size_x = largest(state.best.x)
    if state.sizes is not None:
        size_x = max(size_x, largest(np.fmax(state.sizes, 0.0)))  # those that are not known are NaN
    return min(task.tol, task.scale_free * size_f / size_x) if size_f * size_x > 0.0 else task.tol


def _said(task: Task, result: Result) -> Result:
    """The result, after its message was printed, if that is wanted."""
    if task.hooks.say is not None:
        task.hooks.say(result.message)
    if not result.success:
        logger.failed(result.status.name, result.message, result.advice)
    return result


def _shown_infeasible(task: Task, state: State, status: Status) -> bool:
    """Local infeasibility that restoration found is reported if no restart found a solution, whatever ended it."""
    least = state.doubts.least
    if least is None or status not in (*plan.AVOIDABLE, Status.TIME_LIMIT, Status.EVALUATION_LIMIT):
        return False
    if _known_feasible(task, state) or task.judge.solves(state.best):
        return False
    task.judge.replace(state.best, least.x)
    return True


def _known_feasible(task: Task, state: State) -> bool:
    """Whether the run has seen a point that satisfies the constraints up to tol, also with rows in their own scales."""
    own = max(task.tol, task.scale_free)
    seen = any(it.usable and it.user_violation <= task.tol and it.violation <= own for it in state.iterations)
    return seen or state.doubts.feasible is not None


def _unproved(task: Task) -> bool:
    """Whether all rows are linear, and a linear programme does not confirm that they exclude each other.

    In poor units a minimiser of the violation only seems to be one.
    """
    return only_linear(task.problem) and not linearly_infeasible(task.problem)


def _last_penalty(task: Task, state: State, context: Context | None) -> float:
    beta = task.start.beta
    if state.iterations:
        return state.iterations[-1].beta
    if beta is not None:
        return beta
    if context is None or not math.isfinite(state.history.objective):
        return 1.0
    return context.rules.penalty.next(state.history)
