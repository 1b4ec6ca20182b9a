"""What is known at one iterate: values, multipliers, first derivatives, and the residuals of the conditions there."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.large.onto_sides import Gaps
from auglag.interior.large.sides import Sides
from auglag.interior.large.values import Values
from auglag.interior.newton import Direction
from auglag.kkt import Curvature
from auglag.kkt.sides import largest
from auglag.problems.jacobians import transposed_product


@final
@dataclass(frozen=True, slots=True)
class Residuals:
    """The residuals of the optimality conditions, scaled down where multipliers are large (WB (5))."""

    dual: float
    rows: float
    sides: float  #: complementarity
    mean: float  #: of gap times multiplier

    @property
    def worst(self) -> float:
        """The largest of the three."""
        return max(self.dual, self.rows, self.sides)


@final
class Iterate:
    """One point v = (x, slacks) with multipliers y of the rows, z of lower and u of upper sides."""

    __slots__ = ("at", "gradient", "j", "sides", "u", "y", "z")

    def __init__(self, sides: Sides, curvature: Curvature, at: Values, y: Vector, z: Vector, u: Vector) -> None:
        self.sides, self.at, self.y, self.z, self.u = sides, at, y, z, u
        self.gradient: Vector = at.point.grad
        self.j: Any = curvature.jacobian(at.point)

    @property
    def x(self) -> Vector:
        """The variables of the problem."""
        return self.at.v[: self.sides.n]

    @property
    def gaps(self) -> Gaps:
        """The gaps and the multipliers of the sides."""
        return self.at.p, self.at.q, self.z, self.u

    def with_multipliers(self, y: Vector) -> Iterate:
        """The same point with other multipliers of the rows."""
        other = copy.copy(self)
        other.y = y
        return other

    def lagrangian(self) -> Vector:
        """The gradient of f + y'(c - s) in v."""
        sides = self.sides
        out = np.empty(sides.size)
        out[: sides.n] = self.gradient
        if sides.m:
            out[: sides.n] += transposed_product(self.j, self.y)
        out[sides.n :] = -self.y[sides.rows]
        return out

    def dual(self) -> float:
        """What is left of the gradient of the Lagrangian, sides included."""
        return largest(self.lagrangian() - self.sides.spread(self.z, -self.u))

    def residuals(self, lagrangian: Vector, mu: float) -> Residuals:
        """The residuals of the barrier problem for this mu."""
        sides, at, large = self.sides, self.at, tuning.TUNING.large_multipliers
        total = float(self.z.sum() + self.u.sum())
        scale_dual = max(large, (total + float(np.abs(self.y).sum())) / max(1, sides.m + sides.count)) / large
        scale_sides = max(large, total / max(1, sides.count)) / large
        low, high = at.p * self.z, at.q * self.u
        comp = max(_span(low, mu), _span(high, mu))
        mean = float(low.sum() + high.sum()) / max(1, sides.count)
        dual = largest(lagrangian - sides.spread(self.z, -self.u))
        return Residuals(dual / scale_dual, largest(at.rows), comp / scale_sides, mean)

    def completed(self, dv: Vector, dy: Vector, mu: float, low: Any = 0.0, high: Any = 0.0) -> Direction:
        """With the steps of the sides' multipliers that belong to dv; `low` and `high` are second-order terms."""
        sides, at = self.sides, self.at
        dz = (mu - low - self.z * dv[sides.at_low]) / at.p - self.z
        du = (mu - high + self.u * dv[sides.at_high]) / at.q - self.u
        return Direction(dv, dy, dz, du)

    def gradient_rounding(self) -> float:
        """What rounding errors make of the KKT error: of its stationarity, in max norm, relative to that of grad f."""
        terms = np.abs(self.gradient)
        if self.sides.m:
            terms = terms + transposed_product(abs(self.j), np.abs(self.y))
        noise = tuning.TUNING.multiplier_noise * float(np.finfo(float).eps)
        return noise * largest(terms) / max(1.0, largest(self.gradient))


def _span(products: Vector, mu: float) -> float:
    """The largest |product - mu|."""
    if not products.size:
        return 0.0
    return max(float(products.max()) - mu, mu - float(products.min()))
