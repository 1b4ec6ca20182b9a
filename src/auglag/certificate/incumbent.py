"""The best point of a run so far, how accurate the derivatives are there, and its certificate."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.certificate import Certificate, certificate
from auglag.certificate.multipliers import best_multipliers
from auglag.problems.base import AbstractProblem, Point
from auglag.problems.presolved import Presolved
from auglag.strategy.unboundedness import objective

#: Least-squares multipliers are tried at the end only while their matrix has at most this many entries.
LARGEST_FIT = 100_000
#: Without rows, residuals above this multiple of tol say less than the objective: at a kink they say nothing.
NEARLY = 1e3


@final
class Incumbent:
    """The point with the smallest residual, in the user's units, and the multipliers that belong to it."""

    def __init__(self, problem: AbstractProblem, x: Vector, tol: float) -> None:
        self.problem, self.tol = problem, tol
        self.original = problem.original if isinstance(problem, Presolved) else problem
        self.residual = math.inf
        self.x, self.y = x, np.zeros(problem.m)
        self.point: Point | None = None  #: its values, kept for the certificate
        self.level = 0  #: accuracy of finite differences

    def offer(self, residual: float, x: Vector, y: Vector) -> None:
        """Take a better point."""
        if self._better(residual, x):
            self.residual, self.x, self.y = residual, x.copy(), y
            self.point = self.problem.at(self.x)

    def _better(self, residual: float, x: Vector) -> bool:
        """Whether its residual is smaller; without rows, as long as neither is near the tolerance, its objective."""
        told = self.problem.m > 0 or not min(residual, self.residual) > NEARLY * self.tol
        if told or not math.isfinite(self.residual + residual):
            return residual < self.residual
        return objective(self.problem, x) < objective(self.problem, self.x)

    def replace(self, x: Vector) -> None:
        """Take a point for another reason than its residual, with the multipliers that fit it best."""
        self.x, self.point = x, None
        self.y = best_multipliers(self.problem.at(x))

    def refine(self, level: int) -> bool:
        """Ask for more accurate derivatives; what was measured without them is not to stand in the way afterwards."""
        if level <= self.level or not self.problem.refine(level):
            return False
        self.level, self.residual = level, math.inf
        if self.point is not None:
            self.point.forget_derivatives()
        return True

    def check(self) -> Certificate:
        """The certificate, from the values that are known at the point."""
        if self.point is not None:
            self.problem.remember(self.point)
        return self.measure(self.x, self.y)

    def measure(self, x: Vector, y: Vector | None) -> Certificate:
        """The certificate of any point, always on the original problem and with its multipliers."""
        problem = self.problem
        if not isinstance(problem, Presolved):
            return certificate(problem, x, y, enough=self.tol)
        self.original.remember(problem.source(problem.at(x)))
        return certificate(self.original, x, None if y is None else problem.user_y(x, y), enough=self.tol)

    def solves(self) -> bool:
        """Whether the certificate meets the tolerance."""
        return self.check().meets(self.tol)

    def certify(self, status: Status) -> tuple[Status, Certificate]:
        """The certificate decides: success without it is not success, with it a failure is none."""
        check = self.check()
        out_of_budget = status in (Status.TIME_LIMIT, Status.EVALUATION_LIMIT)
        if out_of_budget and not check.meets(self.tol):
            return status, check  # nothing more is spent on a point that does not come near
        if self.refine(2):
            check = self.check()
        if check.meets(self.tol):
            return Status.SOLVED, check
        if self.original.m and self.original.n * self.original.m <= LARGEST_FIT and status is not Status.NON_FINITE:
            fitted = self.measure(self.x, None)
            if fitted.meets(self.tol):
                return Status.SOLVED, fitted
            if not math.isfinite(check.residual) or fitted.residual < 0.5 * check.residual:
                check = fitted
        return (Status.UNCERTIFIED if status is Status.SOLVED else status), check
