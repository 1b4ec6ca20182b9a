"""Every accepted step of a run is kept as one line of its trail, and shown to whoever listens.

Nothing is computed for a step that nobody looks at. What is shown comes from values that are known already: listening
changes neither the steps nor the counts of evaluations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import OptimizeResult

from auglag._norms import norm
from auglag._typing import Vector
from auglag.algorithm.history import Iteration
from auglag.algorithm.trail import INNER, OUTER
from auglag.certificate.incumbent import Best
from auglag.errors import StoppedByCallback
from auglag.strategy.context import Context
from auglag.strategy.state import State


@final
@dataclass(frozen=True, slots=True)
class Sight:
    """A step as a listener sees it. x and the multipliers are made when they are asked for."""

    context: Context
    state: State
    z: Vector  #: in the variables of the form
    y: Vector  #: the multipliers that belong to it, scaled
    kind: str  #: one of `trail.KINDS`
    number: int  #: steps of all kinds so far, outer iterations not counted
    attempt: int
    k: int
    objective: float  #: f + g; NaN where it is not known
    residual: float  #: see `Step`; of an inner iteration stationarity + violation
    violation: float  #: in the user's units
    beta: float
    inner_status: str = ""

    def x(self) -> Vector:
        """The user's x, a copy."""
        return self.context.form.user_x(self.z).copy()

    def seconds(self) -> float:
        """Since the run began."""
        return self.context.task.meter.guard.seconds

    def result(self) -> OptimizeResult:
        """What a callback gets as `intermediate_result`."""
        return OptimizeResult(
            x=self.x(),
            fun=self.objective,
            kind=self.kind,
            nit=self.k,
            step=self.number,
            residual=self.residual,
            violation=self.violation,
            multipliers=self.context.user_y(self.z, self.y),
            penalty=self.beta,
            nit_inner=self.state.history.inner_iterations,
            inner_status=self.inner_status,
        )


def step(context: Context, state: State, kind: str, z: Vector, y: Vector, residual: float, beta: float) -> None:
    """A step to z was accepted; `residual` as in `Step`."""
    _keep(context, state, (kind, state.attempt, state.history.k, residual))
    state.steps += 1
    if context.task.hooks.sees_steps:
        _show_step(context, state, kind, z, y, residual, beta)


def outer(context: Context, state: State, y_hat: Vector) -> None:
    """An outer iteration is over: the last row of the history."""
    last, hooks = state.history.last, context.task.hooks
    _keep(context, state, (OUTER, last.attempt, last.k, last.residual))
    if hooks.table is not None:
        hooks.table(state.history)
    if hooks.log is not None:
        every = context.user_y(state.x, y_hat)
        hooks.log.outer(last, every, context.task.meter.guard.seconds, context.task.meter.used().as_dict())
    if last.usable and hooks.callback is not None:
        _call(_of_row(context, state, y_hat, last))


def _keep(context: Context, state: State, one: tuple[str, int, int, float]) -> None:
    """Put it at the end of the trail; of a trail that has become long, every second step is forgotten."""
    trail = state.trail
    trail.append(one)
    if len(trail) > context.task.tuning.longest_trail:
        del trail[::2]


def _of_row(context: Context, state: State, y_hat: Vector, last: Iteration) -> Sight:
    return Sight(
        context,
        state,
        state.x,
        y_hat,
        OUTER,
        number=state.steps,
        attempt=last.attempt,
        k=last.k,
        objective=last.objective,
        residual=last.residual,
        violation=last.user_violation,
        beta=last.beta,
        inner_status=last.inner_status,
    )


def _show_step(context: Context, state: State, kind: str, z: Vector, y: Vector, residual: float, beta: float) -> None:
    problem, hooks = context.task.problem, context.task.hooks
    x = context.form.user_x(z)
    point, objective, violation = problem.seen_at(x), math.nan, math.nan
    if point is not None:
        objective = point.f if problem.g is None else point.f + problem.g.value(x)
        violation = norm(point.c - point.c.clip(problem.cl, problem.cu)) if problem.m else 0.0
        residual += violation if kind == INNER else 0.0
    sight = Sight(
        context, state, z, y, kind, state.steps, state.attempt, state.history.k, objective, residual, violation, beta
    )
    if hooks.steps is not None:
        hooks.steps(sight)
    if hooks.log is not None:
        hooks.log.step(
            kind,
            step=sight.number,
            k=sight.k,
            attempt=sight.attempt,
            seconds=sight.seconds(),
            objective=objective,
            residual=residual,
            violation=violation,
            beta=beta,
        )
    if hooks.callback is not None:
        _call(sight)


def _call(sight: Sight) -> None:
    """Call the callback. Where it ends the run, the point that it saw is the one that is returned."""
    context, state = sight.context, sight.state
    try:
        context.task.hooks.call(sight)
    except StoppedByCallback:
        best = Best(sight.x(), context.form.user_y(sight.y), sight.residual, state.best.level)
        if np.isfinite(best.y).all():
            state.best = best
        raise
