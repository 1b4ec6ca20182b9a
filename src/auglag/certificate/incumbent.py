"""The best point of a run so far, how accurate the derivatives are there, and its certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from auglag._norms import norm
from auglag._typing import Vector
from auglag.algorithm import formulas
from auglag.algorithm.status import Status
from auglag.certificate.kkt import certificate, with_sizes
from auglag.certificate.multipliers import cheap_fit
from auglag.certificate.record import Certificate
from auglag.certificate.scale_free import relative_violation
from auglag.certificate.tolerance import Tolerance
from auglag.certificate.tuning import TUNING
from auglag.problems.base import AbstractProblem, Point
from auglag.problems.presolved import Presolved


def objective(problem: AbstractProblem, x: Vector) -> float:
    """f + g."""
    g = problem.g
    return float(problem.at(x).f + (g.value(x) if g is not None else 0.0))


@final
@dataclass(slots=True)
class Best:
    """The point with the smallest residual, in the user's units, and the multipliers that belong to it."""

    x: Vector
    y: Vector
    residual: float = math.inf
    level: int = 0  #: accuracy of the finite differences it was measured with
    point: Point | None = field(default=None, metadata={"saved": False})  #: its values, kept for the certificate


@final
@dataclass(frozen=True, slots=True)
class Judge:
    """Measures points of a run on the original problem, and keeps its best one up to date."""

    problem: AbstractProblem  #: that the run solves; perhaps presolved
    tol: float
    scale_free: float = math.inf  #: tolerance of the scale-free test
    tolerance: Tolerance = field(init=False)  #: both of them
    original: AbstractProblem = field(init=False)  #: the user's problem, with all of its rows

    def __post_init__(self) -> None:
        problem = self.problem
        object.__setattr__(self, "tolerance", Tolerance(self.tol, self.scale_free))
        object.__setattr__(self, "original", problem.original if isinstance(problem, Presolved) else problem)

    def accepts(self, check: Certificate) -> bool:
        """Whether a certificate is one of a solution."""
        return check.meets(self.tolerance)

    def offer(self, best: Best, residual: float, x: Vector, y: Vector) -> None:
        """Take a better point."""
        if self._better(best, residual, x):
            best.residual, best.x, best.y = residual, x.copy(), y
            best.point = self.problem.at(best.x)

    def _better(self, best: Best, residual: float, x: Vector) -> bool:
        """Whether its residual is smaller; without rows, as long as neither is near the tolerance, its objective."""
        told = self.problem.m > 0 or not min(residual, best.residual) > TUNING.nearly * self.tol
        if told or not math.isfinite(best.residual + residual):
            return residual < best.residual
        return objective(self.problem, x) < objective(self.problem, best.x)

    def replace(self, best: Best, x: Vector) -> None:
        """Take a point for another reason than its residual, with the multipliers that fit it best.

        A fit of a large problem takes longer than its run, and none makes such a point a solution: 0 there.
        """
        best.x, best.point = x, None
        fits = cheap_fit(self.problem)
        best.y = certificate(self.problem, x, enough=self.tol).multipliers if fits else np.zeros(self.problem.m)

    def refine(self, best: Best, level: int) -> bool:
        """Ask for more accurate derivatives; what was measured without them is not to stand in the way afterwards."""
        if level <= best.level or not self.problem.refine(level):
            return False
        if level == 2:  # values may have other errors here than at the start
            self.problem.learn_precision(best.x)
        best.level, best.residual = level, math.inf
        if best.point is not None:
            best.point.forget_derivatives()
        return True

    def check(self, best: Best) -> Certificate:
        """The certificate, from the values that are known at the point."""
        if best.point is not None:
            self.problem.remember(best.point)
        return self.measure(best.x, best.y)

    def measure(self, x: Vector, y: Vector | None) -> Certificate:
        """The certificate of any point, always on the original problem and with its multipliers."""
        if y is not None and self.original.repeatable:  # asked for the same point several times
            key = x.tobytes() + y.tobytes()
            found: Certificate = self.original.workspace.last("certificate", key, lambda: self._measured(x, y))
            return found
        return self._measured(x, y)

    def _measured(self, x: Vector, y: Vector | None) -> Certificate:
        problem = self.problem
        if not isinstance(problem, Presolved):
            return certificate(problem, x, y, enough=self.tol)
        self.original.remember(problem.source(problem.at(x)))
        return certificate(self.original, x, None if y is None else problem.user_y(x, y), enough=self.tol)

    def excess(self, x: Vector, tol: float) -> float:
        """How many times the violation is what a solution may have, in the user's units or relative to its rows.

        `tol` is the larger of the tolerance and the errors of the functions.
        """
        c = self.problem.at(x).c
        times = norm(c - np.clip(c, self.problem.cl, self.problem.cu)) / tol
        if formulas.clearly_violated(times, 1.0) or not times > 0.0 or not math.isfinite(self.scale_free):
            return times
        return max(times, relative_violation(self.problem, x) / self.scale_free)

    def limited_by_consent(self, check: Certificate) -> bool:
        """Whether a user who has stated the errors of the functions can be content with a point."""
        return check.limited(self.tolerance, rounding=False, rough=TUNING.rough_success)

    def with_sizes(self, check: Certificate) -> Certificate:
        """The certificate with its scale-free part measured as well as it can be."""
        return with_sizes(self.original, check)

    def solves(self, best: Best) -> bool:
        """Whether the certificate meets the tolerance, or all of it that the errors of the functions allow."""
        return self.reached(self.check(best))

    def reached(self, check: Certificate) -> bool:
        """As `solves`, of a certificate."""
        return self.accepts(check) or check.limited(self.tolerance, rounding=False)

    def rounding_limits(self, best: Best) -> bool:
        """Whether R is above tol by no more than rounding errors explain, and the scale-free test is met."""
        check = self.check(best)
        if not self.tol < check.residual <= check.rounding_reach:
            return False  # before what is scale-free is measured, which takes f and c at one more point
        return self.with_sizes(check).rounding_limits(self.tolerance)

    def final(self, best: Best, status: Status, calls: int) -> Certificate:
        """The certificate of the point that is returned, with the best derivatives and multipliers there are.

        Success is claimed only for values that were computed twice; `calls` of f were made by the run. After a limit
        nothing more is spent on a point that does not come near.
        """
        check = self._best_known(best, status)
        if not self.reached(check) or self.original.repeatable:
            return check
        return self.again(best, check, min(TUNING.repeats, int(TUNING.repeats_share * calls)))

    def again(self, best: Best, check: Certificate, repeats: int = 0) -> Certificate:
        """The certificate of the same (x, y) with f, c and derivatives evaluated afresh; differences are kept.

        Values that are right in most calls and wrong in some are found by `repeats` more calls.
        """
        original = self.original
        known = original.at(best.x)
        fresh = original.afresh(known)
        self.problem.forget(best.x)
        best.point = None
        original.remember(fresh)
        original.compare(known, fresh)
        if not original.differenced:  # differences were many calls at one point already
            for _ in range(repeats):
                original.compare(known, Point(original, best.x))
        if fresh.same_as(known):
            fresh.measured = known.measured
        return certificate(original, best.x, check.multipliers, enough=self.tol)

    def trusts(self, check: Certificate) -> bool:
        """Whether c is what it was after f was called elsewhere: a verdict on values that change by themselves is none.

        Nothing is known of the new values where the budget is used up.
        """
        original = self.original
        if original.repeatable:
            return True
        known, elsewhere = original.at(check.x), Point(original, original.x0)
        if not math.isnan(elsewhere.f):
            original.compare(known, original.afresh(known))
        return bool(np.max(original.precision.c, initial=0.0) <= TUNING.unsteady * check.violation)

    def _best_known(self, best: Best, status: Status) -> Certificate:
        """From the values that are known, which are made more accurate where that may help."""
        check = self.check(best)
        out_of_budget = status in (Status.TIME_LIMIT, Status.EVALUATION_LIMIT)
        if out_of_budget and not self.accepts(check):
            return check
        if self.refine(best, 2):
            check = self.check(best)
        if self.problem.m and check.residual <= self.tol and not self.reached(check):
            none = self.measure(best.x, np.zeros(self.problem.m))  # multipliers may be rounding errors of an f of 0
            if self.accepts(none):
                return none
        if self.reached(check) or not cheap_fit(self.original) or status is Status.NON_FINITE:
            return check
        fitted = self.measure(best.x, None)
        better = fitted.residual < TUNING.fitted_better * check.residual and not fitted.scale_free > check.scale_free
        return fitted if better or not math.isfinite(check.residual) or self.accepts(fitted) else check
