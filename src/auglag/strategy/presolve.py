"""Presolve of a run: the problem it works on, its start and its weights, all in terms of the rows that are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auglag.problems.presolve import reduction
from auglag.problems.presolved import Presolved
from auglag.strategy.task import Task, WarmStart


def presolved(task: Task) -> Task:
    """The task without the rows it does not need, or with the reason why it has no solution."""
    problem, settings, start = task.problem, task.settings, task.start
    found = reduction(problem, task.tol) if settings.presolve else None
    if found is None or found.conflict:
        return replace(task, conflict=found.conflict) if found is not None else task
    reduced = Presolved(problem, found)
    weights = settings.weights and tuple(settings.weights[i] for i in found.keep)
    y = None if start.y is None else reduced.own_y(start.y)
    start = WarmStart(np.clip(start.x, reduced.lower, reduced.upper), y, start.beta)
    return replace(task, problem=reduced, settings=replace(settings, weights=weights), start=start)
