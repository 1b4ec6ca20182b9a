"""Presolve of a run: the problem it works on, its start and its weights, all in terms of the rows that are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auglag.problems.base import AbstractProblem
from auglag.problems.presolve import reduction
from auglag.problems.presolved import Presolved
from auglag.strategy.settings import Settings
from auglag.strategy.state import WarmStart


def presolved(
    problem: AbstractProblem, settings: Settings, start: WarmStart, tol: float
) -> tuple[AbstractProblem, Settings, WarmStart, str]:
    """(problem, settings, start, why there is no solution); unchanged if there is nothing to take off."""
    found = reduction(problem, tol) if settings.presolve else None
    if found is None or found.conflict:
        return problem, settings, start, found.conflict if found is not None else ""
    reduced = Presolved(problem, found)
    weights = settings.weights and tuple(settings.weights[i] for i in found.keep)
    y = None if start.y is None else reduced.own_y(start.y)
    start = WarmStart(np.clip(start.x, reduced.lower, reduced.upper), y, start.beta)
    return reduced, replace(settings, weights=weights), start, ""
