"""The subproblem of Algorithm 1, line 3: the augmented Lagrangian as a smooth function of x."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm import formulas
from auglag.inner import tuning
from auglag.kkt import Curvature, Memory, Model
from auglag.problems.standard_form import StandardForm


@final
class AugmentedLagrangian:
    """phi(x) = L_beta(x, y) with every slack minimised out, for one y and one beta.

    For a row with interval [cl, cu] the slack s in [cl, cu] of c(x) - s = 0 has the closed-form minimiser
    s = clip(c + y/beta, cl, cu). With the multiplier estimate

        yhat = y + beta (c - s) = max(y + beta (c - cu), 0) + min(y + beta (c - cl), 0)

    (for an equality, cl = cu = s, simply y + beta (c - s)) value and gradient are

        phi = f + (||yhat||^2 - ||y||^2) / (2 beta),      grad phi = grad f + J' yhat = grad L(x, yhat).
    """

    def __init__(
        self,
        form: StandardForm,
        y: Vector,
        beta: float,
        *,
        unbounded: float | None = None,
        memory: Memory | None = None,
        gradients_left: float = math.inf,
        projected: bool = False,
        seen: Callable[[AugmentedLagrangian, Vector, float], None] | None = None,
    ) -> None:
        self.form, self.y, self.beta = form, y, beta
        self.memory = Memory() if memory is None else memory  #: what solvers by models hand on to the next subproblem
        #: How low, relative to the start, values may fall.
        self.unbounded = tuning.TUNING.unbounded if unbounded is None else unbounded
        self.gradients_left = gradients_left  #: gradients that the budget of the run allows
        self.projected = projected  #: tolerances are met by the largest entry of the projected gradient
        #: Called with every accepted iteration of the inner solver: x, and its residual.
        self.seen = None if seen is None else partial(seen, self)
        self.g = form.g
        self._y_squared = float(y.dot(y))

    def estimate(self, c: Vector) -> Vector:
        """yhat(x) from the values of the constraint functions."""
        form, y, beta = self.form, self.y, self.beta
        yhat: Vector
        if form.equalities:
            yhat = formulas.shifted(y, beta, c - form.cl)
        elif not form.has_lower:
            yhat = formulas.above(np, y, beta, c, form.cu)
        elif not form.has_upper:
            yhat = formulas.below(np, y, beta, c, form.cl)
        else:
            yhat = formulas.estimate(np, c, form.cl, form.cu, y, beta)
        return yhat

    def value(self, x: Vector) -> float:
        """phi(x), not finite where f or c is not."""
        point = self.form.at(x)
        c = point.c
        if not math.isfinite(c @ c):
            return math.nan
        w = self.estimate(c)
        return float(formulas.lagrangian(point.f, float(w @ w), self._y_squared, self.beta))

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """phi(x) and its gradient; the gradient is not evaluated where phi is not finite."""
        point = self.form.at(x)
        if not self.form.m:
            f = point.f
            return f, point.lagrangian_gradient(self.y) if math.isfinite(f) else np.zeros_like(x)
        f, c = point.f, point.c
        if not (math.isfinite(f) and math.isfinite(c @ c)):
            return (f if f == -math.inf else math.nan), np.zeros_like(x)
        w = self.estimate(c)
        value = formulas.lagrangian(f, float(w @ w), self._y_squared, self.beta)
        return value, point.lagrangian_gradient(w)

    def constraint(self, x: Vector) -> Vector:
        """c(x) - s: the c of the paper, with s the minimising slack. yhat = y + beta times this."""
        c, form = self.form.at(x).c, self.form
        w = self.estimate(c)
        r: Vector = formulas.remainder(np, c, form.cl, form.cu, w, self.y / -self.beta)
        return r

    def error(self, x: Vector) -> float:
        """What errors of f and c beyond those of double precision make of phi(x), to first order."""
        problem, scaling = self.form.problem, self.form.scaling
        if not problem.coarse:
            return 0.0
        precision = problem.precision
        return float(scaling.sf * precision.f + np.abs(self.multipliers(x)) @ (scaling.sc * precision.c))

    @property
    def has_hessp(self) -> bool:
        """Whether second derivatives are at hand."""
        return self.form.has_hessp

    def hessp(self, x: Vector, v: Vector) -> Vector:
        """(Hess L(x, yhat) + beta J_A'J_A) v, A the rows whose yhat is not 0 (and all equalities)."""
        point, form = self.form.at(x), self.form
        w = self.estimate(point.c)
        active = (w != 0.0) | (form.cl == form.cu)
        product = np.where(active, self.beta * point.jvp(v), 0.0)
        return point.hessp(w, v) + point.vjp(product)

    # What solvers by models ask for in addition

    def multipliers(self, x: Vector) -> Vector:
        """yhat(x)."""
        return self.estimate(self.form.at(x).c)

    def model(self, x: Vector, w: Vector, curvature: Curvature, radius: float) -> Model | None:
        """phi around x with f and c expanded and the Hessian taken at the multipliers w, for steps within radius.

        None where a derivative is not finite. The radius bounds the largest entry of the step.
        """
        form, box = self.form, self.form.bounds
        point = form.at(x)
        model = Model(
            hessian=curvature.hessian(point, x, w, self.memory),
            gradient=point.grad,
            jacobian=curvature.jacobian(point),
            t=point.c + self.y / self.beta,
            beta=self.beta,
            cl=form.cl,
            cu=form.cu,
            lower=np.minimum(np.maximum(box[0] - x, -radius), 0.0),
            upper=np.maximum(np.minimum(box[1] - x, radius), 0.0),
            equal=form.equal,
            layout=self.memory.layout,
        )
        return model if model.finite else None

    def corrected(self, model: Model, trial: Vector, d: Vector) -> Model:
        """The model with c(x) replaced by c(trial) - J d: the second-order correction of the step d = trial - x."""
        return replace(model, t=self.form.at(trial).c - model.jacobian @ d + self.y / self.beta)

    def restated(self, model: Model, beta: float) -> Model:
        """A model of the same x and y with another penalty."""
        c = model.t - self.y / self.beta
        return replace(model, t=c + self.y / beta, beta=beta)
