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
from typing import Any, final

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.linalg import lsmr

from auglag._typing import Vector
from auglag.bench.record import TOLERANCES
from auglag.problems.base import AbstractProblem

#: Up to so many entries the least-squares systems are dense.
LARGEST_DENSE = 4_000_000
#: Newton steps of the least-squares fit; where it is not good enough then, a linear program decides.
STEPS = 25


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
        fit = _Fit(grad / scale, jac, _allowed(c, *sides[0], eps), _allowed(x, *sides[1], eps))
        guess, stationarity = fit.best(guess, eps)
        found.insert(0, stationarity)
    return Judgement(point.f, violation, (found[0], found[1], found[2]))


def _violation(value: Vector, lower: Vector, upper: Vector) -> float:
    return float(np.max(np.maximum(lower - value, value - upper), initial=0.0))


def _allowed(value: Vector, lower: Vector, upper: Vector, eps: float) -> tuple[Vector, Vector]:
    """The interval for each multiplier: negative ones belong to the lower side, positive ones to the upper."""

    def reach(gap: Vector) -> Vector:
        return np.where(gap > 0, eps / np.where(gap > 0, gap, 1.0), np.inf)

    equal = lower == upper
    return np.where(equal, -np.inf, -reach(value - lower)), np.where(equal, np.inf, reach(upper - value))


@final
class _Fit:
    """min over y in a box of || dist(-(g + J'y), Z) ||, Z the box of the bounds' multipliers."""

    def __init__(self, g: Vector, jac: Any, rows: tuple[Vector, Vector], bounds: tuple[Vector, Vector]) -> None:
        self.g, self.jac, self.transposed = g, jac, sparse.csr_array(jac.T)
        (self.low, self.high), (self.z_low, self.z_high) = rows, bounds
        self.dense = jac.shape[0] * jac.shape[1] <= LARGEST_DENSE

    def excess(self, y: Vector) -> Vector:
        """What the multipliers of the bounds cannot take up of g + J'y."""
        gradient = self.g + self.transposed @ y
        return np.asarray(gradient + np.clip(-gradient, self.z_low, self.z_high))

    def measure(self, y: Vector) -> float:
        """The inf-norm of it."""
        with np.errstate(all="ignore"):
            found = float(np.max(np.abs(self.excess(y)), initial=0.0))
        return found if math.isfinite(found) else math.inf

    def best(self, guess: Vector, eps: float) -> tuple[Vector, float]:
        """(y, stationarity): the first y found that meets eps, or the best one there is."""
        y = np.clip(guess, self.low, self.high)
        if not y.size or self.measure(y) <= 1e-3 * eps:
            return y, self.measure(y)
        starts = (y, np.clip(np.zeros_like(y), self.low, self.high))
        y = min((*starts, *map(self._least_squares, starts)), key=self.measure)
        if self.measure(y) > eps:
            y = min((y, self._linear_program(y)), key=self.measure)
        return y, self.measure(y)

    def _least_squares(self, y: Vector) -> Vector:
        """Newton's method on the piecewise quadratic, projected to the box, with a line search."""
        if not self.measure(y) < 1e150:  # its square must be a number
            return y
        excess = self.excess(y)
        value = float(excess @ excess)
        for _ in range(STEPS):
            slope = np.asarray(self.jac @ excess)
            held = ((y <= self.low) & (slope > 0)) | ((y >= self.high) & (slope < 0))
            free, counted = np.flatnonzero(~held), np.flatnonzero(excess)
            if not free.size or not counted.size:
                break
            step = np.zeros_like(y)
            step[free] = self._solve(free, counted, -excess[counted])
            for fraction in (1.0, 0.5, 0.1, 0.01):
                trial = np.clip(y + fraction * step, self.low, self.high)
                new = self.excess(trial)
                if float(new @ new) < value * (1 - 1e-4 * fraction):
                    break
            else:
                break
            y, excess, value = trial, new, float(new @ new)
            if value <= 1e-30:
                break
        return y

    def _solve(self, free: Any, counted: Any, target: Vector) -> Vector:
        matrix = self.transposed[counted][:, free]
        if self.dense:
            return np.asarray(np.linalg.lstsq(matrix.toarray(), target, rcond=1e-13)[0])
        return np.asarray(lsmr(matrix, target, atol=1e-14, btol=1e-14, maxiter=2000)[0])

    def _linear_program(self, y: Vector) -> Vector:
        """The smallest inf-norm itself: min t with -t <= g + J'y + z <= t; y unchanged where the program fails."""
        n, m = self.g.size, y.size
        ones = sparse.csr_array(np.ones((n, 1)))
        eye = sparse.eye_array(n, format="csr")
        upper = sparse.hstack([self.transposed, eye, -ones])
        lower = sparse.hstack([-self.transposed, -eye, -ones])
        matrix = sparse.vstack([upper, lower], format="csr")
        cost = np.zeros(m + n + 1)
        cost[-1] = 1.0
        bounds = np.column_stack([np.r_[self.low, self.z_low, 0.0], np.r_[self.high, self.z_high, np.inf]])
        for tolerance, presolve in ((1e-10, True), (1e-7, True), (1e-7, False)):
            options = {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}
            options |= {"time_limit": 5.0, "presolve": presolve}
            found = linprog(cost, matrix, np.concatenate([-self.g, self.g]), bounds=bounds, options=options)
            if found.x is not None and np.isfinite(found.x).all():
                rough = np.clip(found.x[:m], self.low, self.high)
                return min((rough, self._least_squares(rough)), key=self.measure)
        return y
