"""The subproblem L_beta(., y) + g over the parameters of a model, slacks minimised out, measured on the full batch.

With s = clip(c + y / beta, lower, upper), the slack that minimises L_beta for its x,

    r = c - s,    L_beta = f + y'r + beta/2 ||r||^2,    yhat = y + beta r,    grad L_beta = grad f + J'yhat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.stochastic.stage import Tested, Witness, unseen
from auglag.torch.constraints import Layout
from auglag.torch.full_batch import FullBatch, Values
from auglag.torch.prox import ProxMap
from auglag.torch.tuning import TUNING

Tensor = Any


def remainder(c: Vector, y: Vector, beta: Any, layout: Layout) -> Vector:
    """r = c - s, s the minimising slack."""
    s: Vector = np.clip(c + y / beta, layout.lower, layout.upper)
    return c - s


def smooth_value(f: float, r: Vector, y: Vector, beta: Any) -> float:
    """L_beta from f and r; beta may be one number per constraint."""
    return f + float(y @ r) + (0.5 * beta * float(r @ r) if np.ndim(beta) == 0 else 0.5 * float(beta @ (r * r)))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Test(Tested):
    """With the values it rests on, and the gradient of L_beta."""

    __test__ = False  # pytest, this is none of yours

    values: Values
    gradient: Tensor


@final
class Subproblem:
    """L_beta(., y) + g for one y and one beta (or one per constraint); `witness` sees the tests of inner loops."""

    def __init__(self, full: FullBatch, prox: ProxMap, y: Vector, beta: Any, witness: Witness[Test] = unseen) -> None:
        self.full, self.prox, self.y, self.beta, self.witness = full, prox, y, beta, witness
        self.layout = full.functions.layout
        self._tests: dict[int, Test] = {}

    def remainder(self, c: Vector) -> Vector:
        """r = c - s."""
        return remainder(c, self.y, self.beta, self.layout)

    def test(self, v: Tensor) -> Test:
        """Everything Algorithm 2 asks about v."""
        known = self._tests.get(id(v))
        if known is not None:
            return known
        return self.tested(v, *self.full.at(v, lambda c: self.y + self.beta * self.remainder(c)))

    def tested(self, v: Tensor, values: Values, gradient: Tensor) -> Test:
        """The same from values and the gradient of L_beta, which are known."""
        r = self.remainder(values.c)
        outside = values.c - np.clip(values.c, self.layout.lower, self.layout.upper)
        value = dist = objective = math.inf
        if values.finite:
            g = self.prox.value(v)
            objective = values.f + g
            value = smooth_value(values.f, r, self.y, self.beta) + g
            dist = self.full.team.agree([self.prox.distance(v, gradient)])[0]
            if not math.isfinite(dist):
                value = dist = math.inf
        y_hat, violation = self.y + self.beta * r, float(np.linalg.norm(outside))
        test = Test(
            v=v, value=value, dist=dist, c=r, y_hat=y_hat, violation=violation, objective=objective, values=values,
            gradient=gradient,
        )  # fmt: skip
        while len(self._tests) >= TUNING.cached_tests:
            del self._tests[next(iter(self._tests))]
        self._tests[id(v)] = test
        return test

    def constraint(self, v: Tensor) -> Vector:
        """r."""
        return self.remainder(self.full.values(v).c)
