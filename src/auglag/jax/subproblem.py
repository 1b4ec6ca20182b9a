"""The subproblem of Algorithm 1, line 3, for every instance of a batch: L_beta(., y) with the slacks minimised out."""

from __future__ import annotations

from typing import final

import jax.numpy as jnp

from auglag.jax.evaluation import Evaluation
from auglag.jax.state import Point, Sides, State
from auglag.jax.vectors import Array, Vector, clip, maximum, minimum, norm, total, where

#: The violation counts as stationary when ||J'r|| (projected) is at most this times ||r||, each row of r in the units
#: of its gradient at the start: a row that is flat everywhere is no reason.
STATIONARY = 1e-5


@final
class Subproblem:
    """Values, gradients and measures of the subproblems; the formulas are those of `auglag.algorithm.lagrangian`."""

    def __init__(self, evaluation: Evaluation, sides: Sides, m: int, tol: float) -> None:
        self.evaluation, self.sides, self.m, self.tol = evaluation, sides, m, tol

    def scaled(self, s: State, f: Array, c: Vector) -> tuple[Array, Vector, Vector, Vector]:
        """f, c and the sides of c in the units of the method."""
        if s.sf is None:
            return f, c, self.sides.cl, self.sides.cu
        if not self.m:
            return s.sf * f, c, self.sides.cl, self.sides.cu
        return s.sf * f, c * s.sc, self.sides.cl * s.sc, self.sides.cu * s.sc

    def estimate(self, c: Vector, cl: Vector, cu: Vector, y: Vector, beta: Array) -> Vector:
        """yhat = max(y + beta (c - cu), 0) + min(y + beta (c - cl), 0): slacks minimised out in closed form."""
        return maximum(y + (c - cu) * beta, 0.0) + minimum(y + (c - cl) * beta, 0.0)

    def constraint(self, c: Vector, cl: Vector, cu: Vector, w: Vector, otherwise: Vector) -> Vector:
        """c less its slack: the distance to the side that the multiplier w holds."""
        return where(w > 0.0, c - cu, where(w < 0.0, c - cl, otherwise))

    def phi(self, s: State, y: Vector, beta: Array, x: Vector) -> tuple[Array, Vector]:
        """(value of the subproblem, +inf where it is not defined; scaled c) at x."""
        f, c = self.evaluation.values(x)
        f, c, cl, cu = self.scaled(s, f, c)
        value = f
        if self.m:
            value = f + self.penalty_terms(self.estimate(c, cl, cu, y, beta), y, beta)
        return where(jnp.isnan(value), jnp.inf, value), c

    def penalty_terms(self, w: Vector, y: Vector, beta: Array) -> Array:
        """What y and the penalty add to f."""
        return (total(w * w, 0.0 * beta) - total(y * y, 0.0 * beta)) / (2.0 * beta)

    def projected(self, x: Vector, gradient: Vector) -> Vector:
        """The part of the gradient that the bounds cannot absorb."""
        lower, upper = self.sides.lower, self.sides.upper
        held = where(x <= lower, minimum(gradient, 0.0), gradient)
        return where(x >= upper, maximum(held, 0.0), held)

    def known(self, s: State) -> Point:
        """Everything of first order at x."""
        f, c, g, jac = self.evaluation.first(s.x)
        f, c, _, _ = self.scaled(s, f, c)
        if s.sf is not None:
            g = g * s.sf
            if self.m:
                jac = self.evaluation.scaled_rows(jac, s.sc)
        point = Point(f, c, g, jac, s.y, g, f)
        return self.with_multipliers(s, point)

    def with_multipliers(self, s: State, p: Point) -> Point:
        """The same point for the current y and beta."""
        if not self.m:
            return p._replace(distance=norm(self.projected(s.x, p.g), 0.0 * s.beta))
        _, _, cl, cu = self.scaled(s, p.f, p.c)
        w = self.estimate(p.c, cl, cu, s.y, s.beta)
        gradient = p.g + self.evaluation.transposed(p.jac, w)
        return p._replace(w=w, gradient=gradient, distance=norm(self.projected(s.x, gradient), 0.0 * s.beta))

    def user_norm(self, s: State, r: Vector) -> Array:
        """The norm of rows in the user's units."""
        return norm(r if s.sc is None else r / s.sc, 0.0 * s.beta) if self.m else 0.0 * s.beta

    def target(self, state: State) -> Array:
        """Where the default inner tolerances end: half of what the stopping test leaves for the stationarity."""
        scale = 1.0 if state.sf is None else minimum(1.0, state.sf)
        if not self.m:
            return 0.5 * self.tol * scale + 0.0 * state.beta
        return 0.05 * self.tol * scale + 0.0 * state.beta

    def stationary(self, s: State, p: Point) -> Array:
        """Whether the violation alone cannot be reduced to first order."""
        _, _, cl, cu = self.scaled(s, p.f, p.c)
        excess = p.c - clip(p.c, cl, cu)
        slope = self.projected(s.x, self.evaluation.transposed(p.jac, excess))
        return norm(slope, 0.0 * s.beta) <= STATIONARY * norm(excess * s.steep, 0.0 * s.beta)
