"""Newton's method on the KKT conditions and interior points, between two subproblems: the phases of `plan`.

Both hand back candidates; what becomes of them, the driver and `plan` decide.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auglag._typing import Vector
from auglag.interior import Arrival
from auglag.strategy.plan import Interior, Newton
from auglag.strategy.sqp import Candidate
from auglag.strategy.state import Context, State


def by_newton(context: Context, state: State, phase: Newton) -> Candidate:
    """Sequential quadratic programming from (x, y), or from where interior points ended if that is nearer."""
    x, y, before = state.x, state.y, 0
    arrival, error = state.between.arrival, state.between.error
    if arrival is not None:
        before = arrival.steps
        if error is not None and arrival.error < error:
            x, y, state.memory.sets = arrival.x, arrival.y, arrival.sets
    found = context.sqp.run(
        context.form,
        state.memory,
        x,
        y,
        target=context.target(state),
        patience=phase.patience,
        tuning=context.task.tuning,
        seen=lambda x, y, error: keep(context, state, x, y, error),
    )
    return replace(found, steps=found.steps + before)


def by_interior_points(context: Context, state: State, phase: Interior) -> Arrival:
    """Interior points from (x, y), or from where the attempt began."""
    x, y, newtons, barrier = state.x, state.y, state.newtons, context.barrier
    if phase.most is not None:
        barrier = replace(barrier, steps=min(barrier.steps, phase.most))
    if phase.afresh:
        x, y = newtons.origin if newtons.origin is not None else x, np.zeros(context.form.m)
        state.memory.last = None
    newtons.inside = True
    arrival = barrier.run(
        context.form,
        state.memory,
        x,
        y,
        target=context.target(state),
        seen=lambda x, y, error: keep(context, state, x, y, error),
    )
    state.memory.last = None  # the jump back from here must not be used to learn curvature
    return arrival


def keep(context: Context, state: State, x: Vector, y: Vector, error: float) -> bool:
    """Offer a point on the way as the best so far; whether it meets the tolerance in the user's units."""
    task, tuning, newtons, judge = context.task, context.task.tuning, state.newtons, context.task.judge
    near = error <= max(tuning.near_tol * task.tol, state.accuracy)
    if near and judge.refine(state.best, 1):  # differences just became central: measure again first
        return False
    if not (near or error <= tuning.kept_error * newtons.kept):
        return False
    newtons.kept = min(newtons.kept, error)
    user_x, user_y = context.form.user_x(x), context.form.user_y(y)
    check = judge.measure(user_x, user_y)
    judge.offer(state.best, context.compared(check, error), user_x, user_y)
    return judge.reached(check)
