"""One judge for all solvers: how good a point is, from x alone.

The violation is the largest one of a row or bound, absolute. The stationarity at a tolerance eps is

    min over y, z of  || grad f + J'y + z ||_inf / s,     s = max(1, largest |grad f| of a variable that is not fixed),

where a multiplier has the sign of its side and is allowed as far as |multiplier| / s * (distance to that side) <= eps:
a row that is active may carry any, one far from its sides none, and an interior point is judged by its
complementarity. Equalities may carry any. A point is solved at eps if both numbers are at most eps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.bench.record import TOLERANCES
from auglag.certificate.multipliers import Fit
from auglag.problems.base import AbstractProblem


@final
@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judge found."""

    objective: float
    violation: float
    stationarity: tuple[float, float, float]  #: for each of `TOLERANCES`


def judge(problem: AbstractProblem, x: Vector, y: Vector | None = None) -> Judgement:
    """Judge x. Multipliers y, if given, are only a first guess: what counts is whether good ones exist."""
    nothing = Judgement(math.nan, math.inf, (math.inf, math.inf, math.inf))
    if x.shape != (problem.n,) or not np.isfinite(x).all():
        return nothing
    with np.errstate(all="ignore"):
        point = problem.at(np.array(x, dtype=float))
        grad, c = point.grad, point.c
        jac = sparse.csr_array(point.jac) if problem.m else sparse.csr_array((0, problem.n))
    if not all(np.isfinite(part).all() for part in (point.f, grad, c, jac.data)):
        return nothing
    scale = max(1.0, float(np.max(np.abs(grad[problem.lower < problem.upper]), initial=0.0)))
    sides = (problem.cl, problem.cu), (problem.lower, problem.upper)
    violation = max(_violation(c, *sides[0]), _violation(x, *sides[1]))
    guess = y / scale if y is not None and y.shape == c.shape and np.isfinite(y).all() else np.zeros(c.size)
    found: list[float] = []
    for eps in sorted(TOLERANCES):  # what is allowed at a smaller tolerance is so at a larger one: a good first guess
        fit = Fit(grad / scale, jac, _allowed(c, *sides[0], eps), _allowed(x, *sides[1], eps))
        guess = fit.flattest(guess, eps)
        found.insert(0, fit.distance(guess, np.inf))
    return Judgement(point.f, violation, (found[0], found[1], found[2]))


def _violation(value: Vector, lower: Vector, upper: Vector) -> float:
    return float(np.max(np.maximum(lower - value, value - upper), initial=0.0))


def _allowed(value: Vector, lower: Vector, upper: Vector, eps: float) -> tuple[Vector, Vector]:
    """The interval for each multiplier: negative ones belong to the lower side, positive ones to the upper."""

    def reach(gap: Vector) -> Vector:
        return np.where(gap > 0, eps / np.where(gap > 0, gap, 1.0), np.inf)

    equal = lower == upper
    return np.where(equal, -np.inf, -reach(value - lower)), np.where(equal, np.inf, reach(upper - value))
