"""How a solution moves with its parameters: derivatives, and one-sided ones where a constraint begins to hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

from auglag._arrays import real_array
from auglag._typing import Matrix, Vector
from auglag.errors import InputError
from auglag.minimize import minimize
from auglag.problems.base import AbstractProblem
from auglag.result import Result
from auglag.sensitivity.kkt import EPS, Kkt, Sided, hessian_of, sides_of
from auglag.sensitivity.tuning import TUNING


@final
@dataclass(frozen=True, slots=True)
class Parts:
    """Derivatives of a problem by its parameters at fixed (x, y), one column for each parameter."""

    f: Vector  #: (k,)
    gradient: Matrix  #: of grad f + J'y, (n, k)
    c: Matrix  #: (m, k)
    lower: Matrix  #: of the bounds, (n, k); 0 where they are infinite
    upper: Matrix
    cl: Matrix  #: of the sides of the rows, (m, k)
    cu: Matrix


@final
class Sensitivity:
    """Derivatives of a solution by the parameters p, one column for each.

    Attributes
    ----------
    x, y, p : vectors
        The solution, its multipliers (L = f + y'c) and its parameters.
    dx, dy, dz : matrices
        Derivatives of x, y and the multipliers of the bounds. NaN where they are not determined.
    dfun : vector
        Derivatives of the optimal value.
    reasons : tuple of str
        Why x or y may not be differentiable here; empty if they are.
    """

    def __init__(self, problem: AbstractProblem, result: Result, p: Vector, parts: Parts) -> None:
        self.x, self.y, self.z, self.p = result.x, result.y, np.asarray(result.bound_multipliers), p
        self._parts, self._name, self._variable = parts, problem.row_name, problem.variable_name
        #: Slacks and multipliers below this are taken for zero (Facchinei, Fischer and Kanzow 1998: the square root of
        #: the residual tells active constraints from others near a solution).
        self.near = float(np.sqrt(max(result.certificate.residual, EPS)))
        with problem.running():
            problem.refine(2)
            point = problem.at(self.x)
            self._rows = Sided.of(point.c, self.y, problem.cl, problem.cu, parts.cl, parts.cu, self.near)
            self._bounds = Sided.of(self.x, self.z, *sides_of(problem)[:2], parts.lower, parts.upper, self.near)
            self._h = hessian_of(problem, self.x, self.y)
            self._j = sparse.csr_array(point.jac) if problem.m else sparse.csr_array((0, problem.n))
        self.reasons: tuple[str, ...] = self._weak()
        self._solve()

    def __repr__(self) -> str:
        state = "differentiable" if self.differentiable else "; ".join(self.reasons)
        with np.printoptions(precision=6, threshold=8, edgeitems=2):
            parts = [f"{name} = {getattr(self, name)!r}" for name in ("dx", "dy", "dfun")]
        return "\n".join([f"Sensitivity of {self.x.size} variables by {self.p.size} parameters: {state}", *parts])

    @property
    def differentiable(self) -> bool:
        """Whether x and the multipliers are differentiable, as far as can be told."""
        return not self.reasons

    def predict(self, p: Any) -> tuple[Vector, Vector]:
        """x and y for other parameters, to first order; multipliers of inequalities keep their signs.

        `auglag.minimize(problem(p), warm_start=s.predict(p))` solves again from there.
        """
        step = self._fitting(p, "p") - self.p
        x, y = self.x + self.dx @ step, self.y + self.dy @ step
        y = np.where(self._rows.both | (y * self.y > 0.0), y, 0.0)
        return np.where(np.isfinite(x), x, self.x), np.where(np.isfinite(y), y, self.y)

    def directional(self, dp: Any) -> Vector:
        """The one-sided derivative of x as p moves in the direction dp.

        It exists also where active inequalities have zero multipliers (but the gradients of the active constraints must
        be independent): it solves a quadratic problem in which those stay satisfied.
        """
        step = self._fitting(dp, "dp")
        rows, bounds, parts = self._rows, self._bounds, self._parts
        lower, upper = rows.limits(-parts.c @ step, step)
        dlower, dupper = bounds.limits(np.zeros(self.x.size), step)
        linear, h = parts.gradient @ step, self._h
        found = minimize(
            lambda d: (0.5 * d @ (h @ d) + linear @ d, h @ d + linear),
            np.clip(np.zeros(self.x.size), dlower, dupper),
            jac=True,
            hess=lambda d: h,
            bounds=Bounds(dlower, dupper),
            constraints=LinearConstraint(self._j, lower, upper) if rows.active.any() else (),
            tol=TUNING.quadratic * max(1.0, float(np.abs(linear).max(initial=0.0))),
        )
        if not found.success:
            raise InputError(f"dp must be a direction in which solutions exist, got {dp!r:.80} ({found.message})")
        return np.asarray(found.x)

    def _fitting(self, value: Any, name: str) -> Vector:
        vector = np.atleast_1d(real_array(value, name))
        if vector.shape != self.p.shape:
            raise InputError(f"{name} must have {self.p.size} entries, got {vector.size}")
        return vector

    def _weak(self) -> tuple[str, ...]:
        """Active inequalities whose multipliers are zero."""
        names = [self._name(int(i)) for i in np.flatnonzero(self._rows.weak)]
        names += [f"the bound of {self._variable(int(j))}" for j in np.flatnonzero(self._bounds.weak)]
        if not names:
            return ()
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")
        return (
            f"active with multipliers below {self.near:.1e}, so that x has one-sided derivatives only (a smaller tol "
            f"tells small multipliers from zero): {shown}",
        )

    def _solve(self) -> None:
        """The linear system of the free variables and the strongly active rows."""
        parts, n, k = self._parts, self.x.size, self.p.size
        free, active = np.flatnonzero(~self._bounds.strong), np.flatnonzero(self._rows.strong)
        self.dx, self.dy = np.where(self._bounds.strong[:, None], self._bounds.moves, 0.0), np.zeros((self.y.size, k))
        h, j = self._h, self._j[active]
        fixed = self.dx.copy()
        first = -(parts.gradient + h @ fixed)[free]
        second = (self._rows.moves - parts.c)[active] - j @ fixed
        matrix = Kkt(sparse.csr_array(h)[free][:, free], j[:, free])
        self.dx[free], self.dy[active], reason = matrix.solve(first, second)
        if reason:
            self.reasons = (*self.reasons, reason)
        total = parts.gradient + h @ self.dx + self._j.T @ self.dy
        self.dz = np.where(self._bounds.strong[:, None], -total, 0.0)
        self.dfun = parts.f + self.y @ (parts.c - self._rows.moves) - self.z @ self._bounds.moves
        assert self.dx.shape == (n, k)
