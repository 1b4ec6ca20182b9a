"""A problem as a solver under test sees it: evaluations are counted here, and limits enforced."""

from __future__ import annotations

import time
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.bench.spec import Limits
from auglag.errors import OutOfBudget
from auglag.problems.base import AbstractProblem, LinearRows

#: Evaluations a solver may still make after it was told of a limit, to assess its best point.
GRACE = 10


class LimitReached(OutOfBudget):
    """Raised inside the solver when the gradients or the CPU seconds of a run are used up."""


@final
class CountedProblem(AbstractProblem):
    """The problem `inner` with the harness's own counters.

    Functions asked for at one and the same x in a row count once: a "value" is a point at which f or c was asked for, a
    "gradient" one at which grad f or the Jacobian was, a "Hessian" one at which that of any Lagrangian was; every
    product with a Hessian counts. When a limit is reached `LimitReached` is raised; the next
    `GRACE` evaluations pass, then every one raises. Gradients beyond the limit are counted apart, in `late`: they are
    for the verdict on the point that is returned, and `gradients` never exceeds the limit. `last_x` is the last point
    at which derivatives were asked for; for a solver that asks for none, the last one at which values were.
    """

    def __init__(self, inner: AbstractProblem, limits: Limits) -> None:
        super().__init__(
            inner.x0, lower=inner.lower, upper=inner.upper, cl=inner.cl, cu=inner.cu, groups=inner.groups, g=inner.g
        )
        self.inner, self.limits, self.name, self.repeatable = inner, limits, inner.name, inner.repeatable
        self.linear_rows = getattr(inner, "linear_rows", np.zeros(self.m, dtype=bool))
        self.values = self.gradients = self.hessians = self.products = 0
        self.last_x = inner.x0.copy()
        self.hide_hessians = False  #: set it to see what a solver does without second derivatives
        self.exhausted = ""  #: which limit was reached
        #: Set it for a solver that keeps the limit on gradients itself: what it asks for beyond is its certificate's.
        self.keeps_limit = False
        self.late = 0  #: gradients beyond the limit
        self._grace = 0
        self._value_key = self._gradient_key = self._hessian_key = b""
        self._started = time.process_time()

    def f(self, x: Vector) -> float:
        self._value_at(x)
        self.counts.nfev += 1
        return self.inner.f(x)

    def c(self, x: Vector) -> Vector:
        self._value_at(x)
        self.counts.constr_nfev += 1
        return self.inner.c(x)

    def grad(self, x: Vector) -> Vector:
        self._gradient_at(x)
        self.counts.njev += 1
        return self.inner.grad(x)

    def jac(self, x: Vector) -> Any:
        """The Jacobian of c, a csr_array."""
        self._gradient_at(x)
        self.counts.constr_njev += 1
        return self.inner.jac(x)

    @property
    def has_hessp(self) -> bool:
        return self.inner.has_hessp and not self.hide_hessians

    @property
    def has_hess(self) -> bool:
        return self.inner.has_hess and not self.hide_hessians

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        """The Hessian of f + y'c at x times v; every product counts."""
        self.check_time()
        self.products += 1
        self.counts.nhev += 1
        return self.inner.hessp(x, y, v)

    def hess(self, x: Vector, y: Vector) -> Any:
        """The Hessian of f + y'c at x, a csr_array with both triangles."""
        self._hessian_at(x)
        return self.inner.hess(x, y)

    def weighted_hess(self, x: Vector, weight: float, y: Vector) -> Any:
        """The Hessian of weight * f + y'c, as IPOPT and others ask for it."""
        if weight:
            return weight * self.hess(x, y / weight)
        return self.hess(x, y) - self.hess(x, np.zeros_like(y))

    def linear(self) -> LinearRows | None:
        return self.inner.linear()

    def row_name(self, i: int) -> str:
        return self.inner.row_name(i)

    def variable_name(self, j: int) -> str:
        return self.inner.variable_name(j)

    def check_time(self) -> None:
        """Raise `LimitReached` if the CPU seconds are used up; for solvers that iterate without evaluations."""
        if self.spent > self.limits.seconds:
            self._refuse(f"{self.limits.seconds:g} CPU seconds")

    # ------------------------------------------------------------------------------------------------------- counting

    def _value_at(self, x: Vector) -> None:
        key = x.tobytes()
        if key != self._value_key:
            self.check_time()
            self._value_key = key
            self.values += 1
            if not self.gradients:
                self.last_x = np.array(x)

    def _gradient_at(self, x: Vector) -> None:
        key = x.tobytes()
        if key != self._gradient_key:
            late = self.gradients >= self.limits.gradients
            if late:
                self._refuse(f"{self.limits.gradients} gradients", told=self.keeps_limit)
            self.check_time()
            self._gradient_key = key
            self.gradients += not late
            self.late += late
            self.last_x = np.array(x)

    def _hessian_at(self, x: Vector) -> None:
        key = x.tobytes()
        if key != self._hessian_key:
            self.check_time()
            self._hessian_key = key
            self.hessians += 1
        self.counts.nhev += 1

    def _refuse(self, limit: str, *, told: bool = False) -> None:
        """Raise, unless the solver is inside its grace, which begins when it was told of a limit."""
        if not (self.exhausted or told):
            self.exhausted = limit
            raise LimitReached(limit)
        self._grace += 1
        if self._grace > GRACE:
            raise LimitReached(limit)

    @property
    def spent(self) -> float:
        """CPU seconds since the problem was made."""
        return time.process_time() - self._started
