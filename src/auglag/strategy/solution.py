"""A point that meets the tolerance, and which sides hold it: what the second-order conditions are about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._norms import highest, largest, some
from auglag._typing import Vector
from auglag.kkt import Curvature, Memory, Tangent
from auglag.kkt.linear.base import Indices
from auglag.problems.base import Point
from auglag.problems.jacobians import row_norms
from auglag.problems.standard_form import FormPoint, StandardForm
from auglag.strategy.tuning import Tuning


@final
@dataclass(frozen=True, slots=True)
class Sides:
    """What holds a solution: sides with a multiplier hold it strongly, sides that are merely touched weakly."""

    free: Indices  #: variables that no multiplier holds
    rows: Indices  #: equations, and rows that a multiplier holds
    weak: NDArray[np.int8]  #: of each variable: -1 at the lower bound, 1 at the upper one, without a multiplier
    weak_rows: Indices

    @property
    def any_weak(self) -> bool:
        """Whether something is touched that no multiplier holds."""
        return some(self.weak) or self.weak_rows.size > 0

    def all_held(self) -> Sides:
        """The same, with everything held that is touched."""
        if not self.any_weak:
            return self
        free = self.free[self.weak[self.free] == 0]
        rows = np.union1d(self.rows, self.weak_rows).astype(np.intp)
        return Sides(free, rows, np.zeros_like(self.weak), self.weak_rows[:0])


@final
@dataclass(frozen=True, slots=True)
class Solution:
    """A point that meets the tolerance, in the form's variables and units."""

    form: StandardForm
    curvature: Curvature
    memory: Memory  #: of the run: the curvature it has learnt
    z: Vector
    y: Vector
    residual: float  #: R, user's units
    tol: float
    beta: float  #: of the augmented Lagrangian that tells whether another point is lower
    seed: int = 0  #: of random directions
    failed: str = ""  #: the verdict on it, if leaving it led to nothing better

    @property
    def point(self) -> FormPoint | Point:
        """Its values."""
        return self.form.at(self.z)

    @property
    def size(self) -> float:
        """The unit of lengths: max(1, |z|)."""
        return max(1.0, largest(self.z))

    def inside(self, z: Vector) -> Vector:
        """z within the bounds."""
        inside: Vector = z.clip(*self.form.bounds)
        return inside

    def reflected(self, z: Vector) -> Vector:
        """z within the bounds, thrown back where it is beyond them."""
        lower, upper = self.form.bounds
        z = np.where(z < lower, 2.0 * lower - z, np.where(z > upper, 2.0 * upper - z, z))
        return self.inside(z)

    def flat(self, tangent: Tangent, tuning: Tuning) -> float:
        """Curvature up to this counts as none: Hessians are not more accurate, or multipliers of size tol make it."""
        return max(tuning.curved * tangent.size, self.form.scaling.sf * self.tol)

    def sides(self, jacobian: Any, tuning: Tuning) -> Sides:
        """Which sides hold it.

        A side is touched if the gap is at most the square root of R, relative to the size of what it bounds (Facchinei,
        Fischer and Kanzow 1998, SIAM J. Optim. 9: gaps of active sides fall faster than that, other gaps do not). A
        multiplier holds it if its pull is above that part of the largest term of the Lagrangian's gradient, and above
        tol.
        """
        form, z, point = self.form, self.z, self.point
        near = math.sqrt(min(max(self.residual, tuning.activity_least), tuning.activity_largest))
        slope, c = point.lagrangian_gradient(self.y), point.c
        pulls = np.abs(self.y) * row_norms(jacobian) if form.m else np.zeros(0)
        strongest = max(largest(point.grad), highest(pulls))
        least = max(near * strongest, form.scaling.sf * self.tol)
        lower, upper = form.bounds
        reach = near * np.maximum(1.0, np.abs(z))
        low, high = z - lower <= reach, upper - z <= reach
        strong = (low & (slope > least)) | (high & (slope < -least))
        weak = np.where(strong, 0, high.astype(np.int8) - low.astype(np.int8)).astype(np.int8)
        reach = near * np.maximum(1.0, np.abs(c))
        touched = form.equal | (form.cu - c <= reach) | (c - form.cl <= reach)
        rows = form.equal | (touched & (pulls > least))
        (free,), (held,), (weak_rows,) = (~strong).nonzero(), rows.nonzero(), (touched & ~rows).nonzero()
        return Sides(free, held, weak, weak_rows)
