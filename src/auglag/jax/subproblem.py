"""The subproblem of Algorithm 1, line 3, for every instance of a batch: L_beta(., y) with the slacks minimised out."""

from __future__ import annotations

from typing import final

import jax.numpy as jnp

from auglag.algorithm import formulas
from auglag.jax import vectors
from auglag.jax.evaluation import Evaluation
from auglag.jax.state import Point, Sides, State
from auglag.jax.tuning import TUNING
from auglag.jax.vectors import Array, Vector, maximum, minimum, norm, total, where


@final
class Subproblem:
    """Values, gradients and measures of the subproblems, as `auglag.algorithm.lagrangian` has them for one."""

    def __init__(self, evaluation: Evaluation, sides: Sides, m: int, tol: float) -> None:
        self.evaluation, self.sides, self.m, self.tol = evaluation, sides, m, tol

    def scaled(self, s: State, f: Array, c: Vector) -> tuple[Array, Vector, Vector, Vector]:
        """f, c and the sides of c in the units of the method."""
        f = f if s.sf is None else s.sf * f
        if s.sc is None:
            return f, c, self.sides.cl, self.sides.cu
        return f, c * s.sc, *self.own_sides(s)

    def own_sides(self, s: State) -> tuple[Vector, Vector]:
        """The sides of c in the units of the method."""
        if s.sc is None:
            return self.sides.cl, self.sides.cu
        return self.sides.cl * s.sc, self.sides.cu * s.sc

    def estimate(self, s: State, c: Vector, beta: Array) -> Vector:
        """yhat for y and this penalty, from c in the units of the method."""
        cl, cu = self.own_sides(s)
        return formulas.estimate(vectors, c, cl, cu, s.y, beta)

    def excess(self, s: State, c: Vector) -> Vector:
        """How far c lies outside its sides, in the units of the method."""
        return formulas.outside(vectors, c, *self.own_sides(s))

    def remainder(self, s: State, c: Vector, w: Vector, otherwise: Vector) -> Vector:
        """c less its slack, the c of the paper; w is yhat, `otherwise` the value where w is 0."""
        return formulas.remainder(vectors, c, *self.own_sides(s), w, otherwise)

    def phi(self, s: State, x: Vector) -> tuple[Array, Vector]:
        """(value of the subproblem, +inf where it is not defined; scaled c) at x."""
        f, c, _, _ = self.scaled(s, *self.evaluation.values(x))
        value = self.value(s, f, self.estimate(s, c, s.beta)) if self.m else f
        return where(jnp.isnan(value), jnp.inf, value), c

    def value(self, s: State, f: Array, w: Vector) -> Array:
        """The value of the subproblem from f and yhat = w."""
        if not self.m:
            return f
        return formulas.lagrangian(f, total(w * w, 0.0 * s.beta), total(s.y * s.y, 0.0 * s.beta), s.beta)

    def projected(self, x: Vector, gradient: Vector) -> Vector:
        """The part of the gradient that the bounds cannot absorb."""
        lower, upper = self.sides.lower, self.sides.upper
        held = where(x <= lower, minimum(gradient, 0.0), gradient)
        return where(x >= upper, maximum(held, 0.0), held)

    def known(self, s: State) -> Point:
        """Everything of first order at x."""
        f, c, g, jac = self.evaluation.first(s.x)
        f, c, _, _ = self.scaled(s, f, c)
        g = g if s.sf is None else g * s.sf
        jac = jac if s.sc is None else self.evaluation.scaled_rows(jac, s.sc)
        return self.with_multipliers(s, Point(f, c, g, jac, s.y, g, f))

    def with_multipliers(self, s: State, p: Point) -> Point:
        """The same point for the current y and beta."""
        w, gradient = p.w, p.g
        if self.m:
            w = self.estimate(s, p.c, s.beta)
            gradient = p.g + self.evaluation.transposed(p.jac, w)
        return p._replace(w=w, gradient=gradient, distance=norm(self.projected(s.x, gradient), 0.0 * s.beta))

    def user_norm(self, s: State, r: Vector) -> Array:
        """The norm of rows in the user's units."""
        return norm(r if s.sc is None else r / s.sc, 0.0 * s.beta) if self.m else 0.0 * s.beta

    def residual(self, s: State, stationarity: Array, violation: Array) -> Array:
        """R in the user's units."""
        return formulas.residual(stationarity, 1.0 if s.sf is None else s.sf, violation)

    def target(self, s: State) -> Array:
        """Where the default inner tolerances end, in the units of the method."""
        scale = 1.0 if s.sf is None else minimum(1.0, s.sf)
        share = TUNING.target if self.m else TUNING.target_unconstrained
        return share * self.tol * scale + 0.0 * s.beta

    def stationary(self, s: State, p: Point) -> Array:
        """Whether the violation alone cannot be reduced to first order."""
        # Each row counts in the units of its gradient at the start: a row that is flat everywhere is no reason.
        excess = self.excess(s, p.c)
        slope = self.projected(s.x, self.evaluation.transposed(p.jac, excess))
        return norm(slope, 0.0 * s.beta) <= TUNING.stationary * norm(excess * s.steep, 0.0 * s.beta)
