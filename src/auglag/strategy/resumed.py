"""A run taken up from a checkpoint: whether the saved state fits, and the context it goes on in."""

from __future__ import annotations

import math

from auglag._norms import norm
from auglag._typing import Vector
from auglag.certificate.incumbent import objective
from auglag.errors import CheckpointError
from auglag.inner import InnerStatus
from auglag.strategy.context import Context
from auglag.strategy.scales import measure_in
from auglag.strategy.state import ACCELERATED, State
from auglag.strategy.task import Task


def _require_size(task: Task, name: str, values: Vector, size: int) -> None:
    if values.shape != (size,):
        path = task.hooks.resume
        raise CheckpointError(
            f"{path} is not a usable checkpoint of this run: {name} must have {size} entries, got shape {values.shape}"
        )


def _require_same_functions(task: Task, saved: State) -> None:
    """The values at x_1 are those of the run that was saved, but for errors of the functions."""
    problem, x = task.problem, saved.start_x
    known, found = (saved.first_objective, saved.first_rows), (objective(problem, x), norm(problem.at(x).c))
    noise = (0.0, 0.0) if saved.precision is None else (saved.precision.f, norm(saved.precision.c))
    for what, before, now, error in zip(("fun", "the norm of the constraints"), known, found, noise, strict=True):
        if not abs(now - before) <= task.tuning.same_values * abs(before) + task.tuning.same_errors * error:
            raise CheckpointError(
                f"{task.hooks.resume} belongs to another problem: {what} was {before:.6g} at its start and is {now:.6g}"
            )


def restored(task: Task, saved: State) -> tuple[Context, State]:
    """The context of a state from a checkpoint, with everything in place to go on."""
    n, m = task.problem.n, task.problem.m
    sizes = (("start_x", saved.start_x, n), ("best.x", saved.best.x, n), ("scaling", saved.scaling.sc, m))
    for name, values, size in sizes:
        _require_size(task, name, values, size)
    sx = saved.scaling.sx
    if sx is not None:
        _require_size(task, "scaling.sx", sx, n)
    if not (saved.scaling.sf > 0.0 and (saved.scaling.sc > 0.0).all() and (sx is None or (sx > 0.0).all())):
        raise CheckpointError(f"{task.hooks.resume} is not a usable checkpoint: scaling must be positive")
    for it in saved.iterations:
        if not 0.0 < it.beta < math.inf or it.inner_status not in (ACCELERATED, *InnerStatus.__members__):
            raise CheckpointError(f"{task.hooks.resume} is not a usable checkpoint: its history has {it!r:.200}")
    if saved.sizes is None:
        raise CheckpointError(f"{task.hooks.resume} is not a usable checkpoint: it has no sizes of the variables")
    _require_size(task, "sizes", saved.sizes, n)
    measure_in(task, saved.sizes, sx)
    context = Context.of(task, saved)
    form, problem, best = context.form, task.problem, saved.best
    own = [("x", saved.x, form.n), ("y", saved.y, form.m), ("best.y", best.y, form.m)]
    if saved.second.kept is not None:
        own += [("kept.x", saved.second.kept.x, n), ("kept.y", saved.second.kept.y, form.m)]
    for name, values, size in own:
        _require_size(task, name, values, size)
    task.original.workspace.precision = saved.precision
    _require_same_functions(task, saved)
    problem.refine(best.level)
    best.point = problem.at(best.x)
    points = [best.point, problem.at(form.user_x(saved.x))]
    if saved.second.kept is not None:
        saved.second.kept.point = problem.at(saved.second.kept.x)
        points.append(saved.second.kept.point)
    for point in points:  # known before: not counted again
        _ = point.f, point.c
        if not saved.refined_now:
            _ = point.grad, point.jac if problem.m else None
    task.meter.resumed(saved.counts, saved.seconds)
    return context, saved
