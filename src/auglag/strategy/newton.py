"""Newton's method on the KKT conditions and interior points, between two subproblems: the phases of `plan`.

Both hand back candidates; what becomes of them, `attempt` and `plan` decide.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.trail import INTERIOR, NEWTON
from auglag.errors import StoppedByCallback
from auglag.interior import Arrival
from auglag.problems.base import Point
from auglag.strategy import following
from auglag.strategy.context import Context
from auglag.strategy.plan import Interior, Newton
from auglag.strategy.sqp import Candidate
from auglag.strategy.state import State


def by_newton(context: Context, state: State, phase: Newton) -> Candidate:
    """Sequential quadratic programming from (x, y), or from where interior points ended if that is nearer."""
    x, y, before = state.x, state.y, 0
    arrival, error, most = state.between.arrival, state.between.error, None
    if arrival is not None:
        before = arrival.steps
        most = None if context.curvature.dense else arrival.work  # where sets cycle, a step takes a hundred of these
        if error is not None and arrival.error < error:
            x, y, error, state.memory.sets = arrival.x, arrival.y, None, arrival.sets
    watch = Watch(context, state, NEWTON)
    try:
        found = context.sqp.run(
            context.form,
            state.memory,
            x,
            y,
            target=watch.target,
            patience=phase.patience,
            error=error,
            most=most,
            tuning=context.task.tuning,
            seen=watch,
        )
    finally:
        watch.over()
    return Candidate(found.x, found.y, found.error, found.steps + before)


def by_interior_points(context: Context, state: State, phase: Interior) -> Arrival:
    """Interior points from (x, y), or from where the attempt began."""
    x, y, newtons, barrier = state.x, state.y, state.newtons, context.barrier
    if phase.most is not None:
        barrier = replace(barrier, steps=min(barrier.steps, phase.most))
    if phase.afresh:
        x, y = newtons.origin if newtons.origin is not None else x, np.zeros(context.form.m)
        state.memory.last = None
    newtons.inside, before = True, state.between.arrival
    watch = Watch(context, state, INTERIOR)
    try:
        arrival = barrier.run(context.form, state.memory, x, y, target=watch.target, seen=watch, safe=phase.safe)
    finally:
        watch.over()
    state.memory.last = None  # the jump back from here must not be used to learn curvature
    if before is None:
        return arrival
    better = arrival if arrival.error < before.error else before
    return replace(better, steps=before.steps + arrival.steps, work=before.work + arrival.work, slow=arrival.slow)


@final
class Watch:
    """Offers the points on the way of one call as the best so far, and says whether one meets the tolerance.

    A certificate costs as much as a step. So points that are not at the target yet are only noted, and measured when
    the call is over: not at all if it ends at a solution.
    """

    def __init__(self, context: Context, state: State, kind: str) -> None:
        self.context, self.state, self.kind = context, state, kind
        self.begun, self.least = False, math.inf  #: a point was seen; the smallest error so far
        self.apart = False  #: steps are told of by `step`, and not every one of them is shown to `__call__`
        self.target = context.target(state)
        self.waits = not context.task.problem.differenced  # differences may become more accurate in between
        self.noted: list[tuple[Vector, Vector, float, Point]] = []

    def __call__(self, x: Vector, y: Vector, error: float) -> bool:
        """Whether (x, y) meets the tolerance in the user's units; of points above the target that is not asked."""
        context, state, task = self.context, self.state, self.context.task
        if not self.apart:
            self._follow(x, y, error)
        tuning, newtons, judge = task.tuning, state.newtons, task.judge
        near = error <= context.near(state)
        if near and judge.refine(state.best, 1):  # differences just became central: measure again first
            return False
        if not (near or error <= tuning.kept_error * newtons.kept):
            return False
        newtons.kept = min(newtons.kept, error)
        if self.waits and error > self.target:
            self.noted.append((x, y, error, task.problem.at(context.form.user_x(x))))
            return False
        if not self._offer(x, y, error):
            return False
        self.noted.clear()
        return True

    def step(self, x: Vector, y: Vector, error: float) -> None:
        """An iterate, for methods that ask only now and then whether one meets the tolerance."""
        self.apart = True
        self._follow(x, y, error)

    def _follow(self, x: Vector, y: Vector, error: float) -> None:
        """Tell of a step: every point that is seen but the first.

        Newton's method tries steps that make the error larger for a while; only those that make it smaller are accepted
        ones. Interior points accept a step by their line search.
        """
        rows = self.state.history.iterations
        accepted = self.begun and (self.kind == INTERIOR or error < self.least)
        self.least = min(self.least, error)
        try:
            if accepted:
                following.step(self.context, self.state, self.kind, x, y, error, rows[-1].beta if rows else math.nan)
        except StoppedByCallback:
            self.noted.clear()  # the run ends with the point that the callback saw
            raise
        self.begun = True

    def over(self) -> None:
        """Offer the points that were noted."""
        for x, y, error, point in self.noted:
            self.context.task.problem.recall(point)
            self._offer(x, y, error)
        self.noted.clear()

    def _offer(self, x: Vector, y: Vector, error: float) -> bool:
        context, judge = self.context, self.context.task.judge
        user_x, user_y = context.form.user_x(x), context.form.user_y(y)
        check = judge.measure(user_x, user_y)
        judge.offer(self.state.best, context.compared(check, error), user_x, user_y)
        return judge.reached(check)
