"""The subproblem L_beta(., y) + g over v = x, or v = (x, s) with the slacks of inequalities as variables.

With r(v) = c(x) - s, s the slack in [lower, upper] (for an equality, lower = upper = s),

    L_beta = f + y'r + beta/2 ||r||^2,      yhat = y + beta r,      grad_x = grad f + J'yhat,   grad_s = -yhat.

`slacks="explicit"` (the paper's experiments): s is a variable whose box joins g, and sampled gradients are unbiased.
`slacks="closed"`: s = clip(c + y/beta, lower, upper), the exact minimiser, and the subproblem is one in x alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.prox import Box, SeparableSum
from auglag.prox.base import ProxTerm
from auglag.stochastic.full_batch import FullBatch
from auglag.stochastic.problem import Evaluation, StochasticProblem
from auglag.stochastic.stage import Tested, Witness, unseen


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FullTest(Tested):
    """With the values and derivatives it rests on."""

    evaluation: Evaluation


@final
class Geometry:
    """What all subproblems of a run share: where x and the slacks lie in v, and the prox term over v."""

    def __init__(self, problem: StochasticProblem, slacks: str) -> None:
        self.problem, self.slacks = problem, slacks
        self.n = problem.n
        inequality = problem.lower != problem.upper
        self.rows = np.flatnonzero(inequality) if slacks == "explicit" else np.zeros(0, dtype=np.intp)
        self.size = self.n + self.rows.size
        self.low, self.high = problem.lower[self.rows], problem.upper[self.rows]
        self.g: ProxTerm = problem.g
        if self.rows.size:
            box = Box(self.low, self.high)
            self.g = SeparableSum([(np.arange(self.n), problem.g), (np.arange(self.n, self.size), box)])

    def start(self, x: Vector, c: Vector) -> Vector:
        """v for x, each slack the constraint value clipped to its interval."""
        return np.concatenate([x, np.clip(c[self.rows], self.low, self.high)])

    def x(self, v: Vector) -> Vector:
        """The variables without the slacks."""
        return v[: self.n]


@final
class StochasticLagrangian:
    """L_beta(., y) + g for one y and one beta, measured on the full batch; `witness` sees the tests of inner loops."""

    def __init__(
        self, geometry: Geometry, full: FullBatch, y: Vector, beta: float, witness: Witness[FullTest] = unseen
    ) -> None:
        self.geometry, self.full, self.y, self.beta, self.witness = geometry, full, y, beta, witness
        self.problem = geometry.problem
        self.g = geometry.g

    def remainder(self, v: Vector, c: Vector) -> Vector:
        """r = c - s."""
        if self.geometry.rows.size:
            s = self.problem.lower.copy()
            s[self.geometry.rows] = v[self.geometry.n :]
            return c - s
        return c - np.clip(c + self.y / self.beta, self.problem.lower, self.problem.upper)

    def gradient(self, evaluation: Evaluation, y_hat: Vector) -> Vector:
        """grad L_beta at v, from yhat there."""
        grad = evaluation.grad + y_hat @ evaluation.jac if y_hat.size else evaluation.grad
        return np.concatenate([grad, -y_hat[self.geometry.rows]]) if self.geometry.rows.size else grad

    def smooth(self, evaluation: Evaluation, r: Vector) -> float:
        """L_beta from f and r."""
        return evaluation.f + float(self.y @ r) + 0.5 * self.beta * float(r @ r)

    def test(self, v: Vector) -> FullTest:
        """Everything Algorithm 2 asks about v: one full-batch evaluation (none, if just done)."""
        evaluation = self.full.at(self.geometry.x(v))
        r = self.remainder(v, evaluation.c)
        y_hat = self.y + self.beta * r
        value = dist = math.inf
        with np.errstate(over="ignore", invalid="ignore"):
            objective = float(evaluation.f + self.problem.g.value(evaluation.x))
        if evaluation.finite and np.isfinite(v).all():
            value = self.smooth(evaluation, r) + self.g.value(v)
            dist = self.g.subdiff_distance(v, -self.gradient(evaluation, y_hat))
        violation = float(np.linalg.norm(self.problem.violation(evaluation.c)))
        return FullTest(
            v=v.copy(), value=value, dist=dist, c=r, y_hat=y_hat, violation=violation, objective=objective,
            evaluation=evaluation,
        )  # fmt: skip

    def polish(self, v: Vector) -> Vector:
        """v with the slacks that minimise L_beta for its x: an exact partial minimisation."""
        if not self.geometry.rows.size:
            return v
        c = self.full.at(self.geometry.x(v)).c[self.geometry.rows]
        s = np.clip(c + self.y[self.geometry.rows] / self.beta, self.geometry.low, self.geometry.high)
        return np.concatenate([v[: self.geometry.n], s])

    # What the outer loop and the deterministic inner solvers ask.

    def constraint(self, v: Vector) -> Vector:
        """r(v)."""
        return self.remainder(v, self.full.at(self.geometry.x(v)).c)

    def value(self, v: Vector) -> float:
        """L_beta(v, y), without g."""
        evaluation = self.full.at(self.geometry.x(v))
        return self.smooth(evaluation, self.remainder(v, evaluation.c)) if evaluation.finite else math.nan

    def value_and_gradient(self, v: Vector) -> tuple[float, Vector]:
        """L_beta and its gradient."""
        evaluation = self.full.at(self.geometry.x(v))
        if not evaluation.finite:
            return math.nan, np.zeros_like(v)
        r = self.remainder(v, evaluation.c)
        return self.smooth(evaluation, r), self.gradient(evaluation, self.y + self.beta * r)

    @property
    def has_hessp(self) -> bool:
        """No second derivatives through this door."""
        return False

    def hessp(self, x: Vector, v: Vector) -> Vector:
        """Not available."""
        raise NotImplementedError("a stochastic Lagrangian has no Hessian products")
