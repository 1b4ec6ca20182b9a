"""The units in which a run measures variables, f and rows: from what is known at one x."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auglag._typing import Vector
from auglag.problems import units
from auglag.problems.scaling import Scaling
from auglag.strategy.state import State
from auglag.strategy.task import Task


def scale(task: Task, state: State, x: Vector, *, closely: bool = False) -> None:
    """Scale variables, f and rows as the settings say, from what is known at the user's x."""
    if state.sizes is None:
        sizes = units.typical(task.problem.at(x), closely=True)
        state.sizes = sizes if task.x_scale is None else np.fmax(sizes, task.x_scale)
    found = scaling_at(task, x, closely=closely)
    measure_in(task, state.sizes, found.sx)  # finite differences may become better by it
    changed = task.problem.differenced or found.sx is not None
    state.scaling = scaling_at(task, x, closely=closely, sx=found.sx) if changed else found


def scaling_at(task: Task, x: Vector, *, closely: bool = False, sx: Vector | None = None) -> Scaling:
    """The scaling that follows from values and derivatives at x; `closely`: with an eye for sizes a bit unusual."""
    settings, problem, point = task.settings, task.problem, task.problem.at(x)
    sx = task.x_scale if sx is None else sx
    if sx is None and settings.scaling and settings.units and problem.g is None:
        sx = units.factors(units.typical(point, closely=closely), closely=closely)
    sx = None if sx is None or (sx == 1.0).all() else sx
    if settings.scaling:
        scaling = Scaling.from_gradients(
            point, sx, closely=closely, at_most=settings.largest_gradient, enlarge=settings.units
        )
    else:
        scaling = Scaling(1.0, np.ones(problem.m), sx)
    return replace(scaling, sc=scaling.sc * np.sqrt(settings.weights)) if settings.weights else scaling


def measure_in(task: Task, sizes: Vector, unit: Vector | None) -> None:
    """Tell the problem, and the one behind it, how large the variables are."""
    task.problem.measure_in(sizes, unit)
    if task.original is not task.problem:
        task.original.measure_in(sizes, unit)
