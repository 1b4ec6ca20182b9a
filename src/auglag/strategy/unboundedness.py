"""A subproblem fell without end: does the objective do so at feasible points, too?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, lsqr

from auglag._norms import norm
from auglag._typing import Vector
from auglag.certificate.incumbent import objective
from auglag.inner import InnerSolver
from auglag.interior.large.rays import Ray
from auglag.problems.base import AbstractProblem
from auglag.problems.standard_form import StandardForm
from auglag.strategy.restoration import least_violation
from auglag.strategy.tuning import Tuning


@final
@dataclass(frozen=True, slots=True)
class Fall:
    """What was found far out."""

    endless: bool
    evidence: tuple[float, float] | None  #: objective and violation of the feasible point nearest to where it fell
    x: Vector | None = None  #: that point, where the fall is endless
    low: bool = False  #: the objective is very low there


def look(
    form: StandardForm,
    inner: InnerSolver | str,
    *,
    start: Vector,
    diverged: Vector,
    depth: float,
    tol: float,
    limit: int,
    tuning: Tuning,
) -> Fall:
    """Whether the objective falls without end at feasible points too; `diverged` is where a subproblem fell.

    Asked for: a feasible point near the start, one with an objective as low as in the unbounded subproblem, and from
    there on feasible points ever further from the start, each the nearest to `stride` times the distance of the one
    before, at which the objective falls on by at least the factor `growth` each, until the distance has been multiplied
    by `reach` or the objective overflows to -infinity.
    """
    problem, x = form.problem, diverged
    far = _Far(form, inner, tol, min(limit, tuning.further_search), tuning)
    if problem.m:
        found = least_violation(form, inner, x, limit, tuning)
        if found is None:
            return Fall(False, None)
        x = found.x
    x = far.mended(x)
    reached, first, violation = objective(problem, x), objective(problem, start), far.violation(x)
    low = reached < -tuning.depth_share * depth * max(1.0, abs(first))
    shown = low and far.feasible(x) and far.told(x, first - reached) and far.falls_on(start, x, first)
    if shown and far.begins_feasible(start):
        return Fall(True, (reached, violation), x, low)
    return Fall(False, (reached, violation), None, low)


def along(form: StandardForm, ray: Ray, tol: float, tuning: Tuning) -> Vector | None:
    """The last point on a ray that is feasible, if f falls along it as its slope says, and rows hold as well as the
    digits of the ray let them, at points that are each `stride` times as far as the one before; None if not.

    The ray comes from derivatives that are constant as far as they were seen. Values tell whether they are so up to
    `ray_reach` times the size of the variables.
    """
    problem = form.problem
    start = form.user_x(ray.x).copy()
    d = form.user_x(ray.d) - form.user_x(0.0 * ray.d)  # a difference near x would lose digits
    first, slope = objective(problem, start), float(problem.at(start).grad @ d)
    x, size = start, max(1.0, float(np.max(np.abs(start)))) / float(np.max(np.abs(d)))
    found, length = start, size
    while length <= tuning.ray_reach * size:
        x = np.clip(start + length * d, problem.lower, problem.upper)
        if not (slope < 0.0 and objective(problem, x) <= first + 0.5 * length * slope):
            return None
        if problem.m:
            point = problem.at(x)
            terms = np.asarray(abs(point.jac) @ np.abs(x)).ravel()
            off = np.abs(point.c - np.clip(point.c, problem.cl, problem.cu))
            if not (off <= tol + tuning.ray_digits * terms).all():
                return None
            found = x if norm(off) <= tol else found
        length *= tuning.stride
    return found if problem.m else x


@final
@dataclass(frozen=True, slots=True)
class _Far:
    """Points far from the start: which are feasible, and how the objective goes on there."""

    form: StandardForm
    inner: InnerSolver | str
    tol: float
    limit: int
    tuning: Tuning

    @property
    def problem(self) -> AbstractProblem:
        return self.form.problem

    def begins_feasible(self, start: Vector) -> bool:
        """Whether there is a feasible point near the start, where rounding errors are small.

        Far out they hide how far x <= -1 and x >= 1 are apart.
        """
        if self.violation(start) <= self.tol:
            return True
        found = least_violation(self.form, self.inner, start, self.limit, self.tuning)
        return found is not None and self.violation(self.mended(found.x)) <= self.tol

    def falls_on(self, start: Vector, x: Vector, first: float) -> bool:
        """Whether the objective falls on, at the pace that is asked for, at feasible points ever further away."""
        t, way, last = self.tuning, 1.0, objective(self.problem, x)
        while way < t.reach and last > -math.inf:
            stride, found = t.stride, None
            while found is None and stride > t.least_stride:  # shorter ones where values overflow so far out
                least = t.growth ** (math.log(stride) / math.log(t.stride)) * (first - last)
                found = self.ahead(start, x, stride, first - least)
                stride, made = math.sqrt(stride), stride
            if found is None:
                return False
            x, way, last = found, way * made, objective(self.problem, found)
        return last == -math.inf or self.told(x, first - last)

    def ahead(self, start: Vector, x: Vector, stride: float, level: float) -> Vector | None:
        """A feasible point near start + stride (x - start) where the objective is at most `level`, or None.

        If the objective is higher there, variables that have hardly moved, beside those that have gone far, stay.
        """
        way = np.abs(x - start)
        settled = way <= self.tuning.settled * np.max(way)
        for held in (np.zeros_like(settled), settled):
            with np.errstate(over="ignore", invalid="ignore"):
                guess = self.nearest(np.where(held, x, start + stride * (x - start)))
            if guess is not None and objective(self.problem, guess) <= level:
                return guess
        return None

    def nearest(self, x: Vector) -> Vector | None:
        """The feasible point nearest to x, or None if there is none."""
        if not np.isfinite(x).all():
            return None
        x = self.projected(x)
        if not self.inside(x):
            defined = bool(np.isfinite(self._distance(x)).all())
            found = least_violation(self.form, self.inner, x, self.limit, self.tuning) if defined else None
            if found is None:
                return None
            x = self.mended(found.x)
        return x if self.feasible(x) else None

    def projected(self, x: Vector) -> Vector:
        """x in the bounds and the domain of g."""
        problem = self.problem
        if problem.g is not None:
            x = problem.g.domain().prox(x, 1.0)
        return np.clip(x, problem.lower, problem.upper)

    def violation(self, x: Vector) -> float:
        """||c - clip(c, cl, cu)||, user's units."""
        return norm(self._distance(x))

    def inside(self, x: Vector) -> bool:
        """Whether every row holds to the last digit."""
        return not self._distance(x).any()

    def _distance(self, x: Vector) -> Vector:
        problem = self.problem
        c = problem.at(x).c
        with np.errstate(invalid="ignore"):
            return np.asarray(c - np.clip(c, problem.cl, problem.cu))

    def feasible(self, x: Vector) -> bool:
        """Whether every row holds up to a small part of its own size, and up to rounding.

        A row that is flat far out, as exp(-x) >= 1e-6, holds up to tol everywhere; it does not up to its own size.
        """
        off = np.abs(self._distance(x))
        if not off.any():
            return True
        if not np.isfinite(off).all():
            return False
        problem, t = self.problem, self.tuning
        terms = self._terms(x)
        if terms is None:
            return False
        c = problem.at(x).c
        side = np.abs(np.clip(c, problem.cl, problem.cu))
        own = t.own_size * np.maximum(side, terms)
        return bool(np.all(off <= np.minimum(self.tol, own) + t.rounding * (terms + side)))

    def _terms(self, x: Vector) -> Vector | None:
        """sum_j |J_ij x_j|, the size of the terms of each row; None where J is no matrix or not finite."""
        jac = self.problem.at(x).jac
        if isinstance(jac, LinearOperator):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.asarray(abs(jac) @ np.abs(x)).ravel()
        return terms if np.isfinite(terms).all() else None

    def told(self, x: Vector, fall: float) -> bool:
        """Whether the fall is much larger than what rounding errors of x make of the objective."""
        if fall == math.inf:
            return True
        with np.errstate(over="ignore", invalid="ignore"):
            noise = self.tuning.rounding * float(np.abs(self.problem.at(x).grad) @ np.abs(x))
        return not noise * self.tuning.told >= fall

    def mended(self, x: Vector) -> Vector:
        """x after a few Gauss-Newton steps on the rows that do not hold, each relative to the size of the variables."""
        problem = self.problem
        for _ in range(self.tuning.mending_steps if problem.m else 0):
            if self.inside(x):
                return x
            off, jac = self._distance(x), problem.at(x).jac
            rows = np.flatnonzero(off)
            if isinstance(jac, LinearOperator) or not np.isfinite(off).all():
                return x
            size = np.maximum(1.0, np.abs(x))
            matrix = sparse.csr_array(sparse.csr_array(jac)[rows] * size)
            if not np.isfinite(matrix.data).all():
                return x
            trial = self.projected(
                x - size * lsqr(matrix, off[rows], atol=0.0, btol=0.0, conlim=0.0, iter_lim=self.limit)[0]
            )
            if not self.violation(trial) < self.violation(x):
                return x
            x = trial
        return x
