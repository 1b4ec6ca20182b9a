"""Where attempts begin and where they ended: the first point, the next start, and what is known in between."""

from __future__ import annotations

import math

import numpy as np

from auglag._norms import norm
from auglag._typing import Vector
from auglag.algorithm import formulas
from auglag.algorithm.history import History
from auglag.algorithm.status import Status
from auglag.inner import InnerStatus
from auglag.inner import tuning as inner_tuning
from auglag.kkt import Memory
from auglag.strategy import further, restarts
from auglag.strategy.context import Context
from auglag.strategy.scales import scale, scaling_at
from auglag.strategy.state import Between, Newtons, State


def meets_tolerance(context: Context, state: State, z: Vector, y: Vector) -> bool:
    """Whether the start already does: then it is the best point so far."""
    task, judge, best = context.task, context.task.judge, state.best
    x, y_user = context.form.user_x(z), context.form.user_y(y)
    if context.newton_first and context.form.error(z, y) > context.near(state):
        best.x, best.y = x.copy(), y_user  # it is measured with the other points that Newton's method sees
        return False
    check = judge.measure(x, y_user)
    if task.start.y is not None and not judge.accepts(check) and task.problem.refine(2):
        check = judge.measure(x, y_user)  # an earlier result was certified with the best differences
        task.problem.refine(best.level)
    if math.isfinite(check.residual):
        own = context.form.error(z, y) if context.form.magnified else 0.0
        best.x, best.y, best.residual = x.copy(), y_user, context.compared(check, own)
    return judge.accepts(check)


def begin(context: Context, state: State, z: Vector, y: Vector) -> None:
    """Put the iterate at (z, y), in the form's variables and units, with nothing in the history."""
    state.x, state.y = z, y
    state.history = fresh_history(context, z)


def fresh_history(context: Context, z: Vector) -> History:
    """A history that begins at z."""
    form = context.form
    violation = norm(form.distance(z))
    negligible, optimal = context.demands
    return History(form.at(z).f, violation, negligible, optimal=optimal)


def note_end(context: Context, state: State, status: Status) -> None:
    """Note where an attempt without a solution ended, and whether that is nothing new."""
    rows = state.history.iterations
    violation = rows[-1].user_violation if rows else math.nan
    violated = bool(formulas.clearly_violated(violation, context.goal(state)))
    endless = sum(row.inner_status == InnerStatus.UNBOUNDED.name for row in rows)
    x = context.form.user_x(state.x).copy()
    state.ends.append(further.End(x, violation, violated, 2 * endless > len(rows), status is Status.INFEASIBLE))
    start = context.task.tuning.start_of(state.attempt, context.restarts) if state.attempt else None
    if start is not None and not start.near:  # one that goes on from the best point ends there
        state.repeats += further.repeated(state.ends, context.task.tuning)


def aftermath(context: Context, state: State, status: Status) -> further.Aftermath:
    """How things stand when an attempt has ended."""
    problem, tol = context.task.problem, context.goal(state)
    c = problem.at(state.start_x).c
    feasible = bool(np.all(np.abs(c - np.clip(c, problem.cl, problem.cu)) <= tol))
    usual, other = (scaling_at(context.task, state.start_x, closely=closely) for closely in (False, True))
    unusual = context.task.settings.scaling and not other.same_as(usual)
    return further.Aftermath(
        status,
        state.best.residual,
        feasible,
        nearly=state.best.residual <= context.task.tuning.nearly_solved * tol,
        limited=context.task.judge.rounding_limits(state.best),
        constrained=problem.m > 0,
        repeats=state.repeats,
        widened=state.doubts.widened,
        proved=bool(state.doubts.proof),
        unusual=unusual,
    )


def begin_again(context: Context, state: State, attempt: int) -> Context:
    """Begin the next attempt: x, multipliers and scaling. Of the attempts before only the best point is kept."""
    task, tuning, settings = context.task, context.task.tuning, context.task.settings
    start = tuning.start_of(attempt, settings.restarts)
    if start is None or start.near:
        x, onwards = state.best.x, True
    else:
        x, onwards = restarts.place(start, context.form, settings.inner, state.start_x, attempt - 1, tuning), False
    if start is not None and start.feasible and state.doubts.widened and state.doubts.feasible is not None:
        x = state.doubts.feasible  # minimising the violation near x0 leads to a point that is not feasible
    if not restarts.defined(task.problem, x):
        x = state.start_x
    state.earlier += state.history.iterations  # only now: a limit may end the run while a start is looked for
    state.attempt, history = attempt, state.history
    state.history = History(history.objective, history.violation, history.negligible)
    if settings.scaling:  # where f has fallen far, its gradient at x0 says nothing any more
        # Units of the variables' sizes are also needed where R met tol, and the scale-free test was not met.
        closely = (start is not None and start.units) or (onwards and state.best.residual <= task.tol)
        scale(task, state, x if onwards else state.start_x, closely=closely)
    context = context.again(state)
    if context.form.magnified and math.isfinite(state.best.residual):  # points are compared in other units from here on
        own = context.form.error(context.form.start(state.best.x), context.form.own_y(state.best.y))
        state.best.residual = context.compared(task.judge.check(state.best), own)
    most = tuning.start_multipliers
    y = np.clip(context.form.own_y(state.best.y), -most, most) if onwards else np.zeros(context.form.m)
    begin(context, state, context.form.start(x), y)
    state.memory, state.newtons, state.between = Memory(), Newtons(), Between()
    state.doubts.restorations, state.doubts.depth = 0, inner_tuning.TUNING.unbounded
    return context
