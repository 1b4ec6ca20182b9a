"""What the conditions at one (x, y) are made of, each part computed once however many of them need it."""

from __future__ import annotations

from typing import final

import numpy as np
from scipy.sparse.linalg import LinearOperator

from auglag._typing import Jacobian, Vector
from auglag.problems import units
from auglag.problems.base import Point
from auglag.problems.jacobians import transposed_product


@final
class Parts:
    """A point with multipliers y, and what measures of both are made of."""

    def __init__(self, point: Point, y: Vector) -> None:
        self.point, self.y = point, y
        problem = point.problem
        with np.errstate(invalid="ignore", over="ignore"):  # an infinite entry makes a NaN, which no tolerance meets
            self.slope = point.lagrangian_gradient(y)  #: grad f + J'y
        c, cl, cu = point.c, problem.cl, problem.cu
        self.beyond = np.maximum(cl - c, c - cu)  #: by how much each row is outside its sides; inside, negative
        self.violation: Vector = np.maximum(self.beyond, 0.0)
        #: |y_i|, and the gap of the side its sign points at, of inequalities; 0 for equations, which miss no side
        self.multiplier, self.gap = row_gaps(cl, cu, c, y)
        inside = np.minimum(np.maximum(point.x, problem.lower), problem.upper)
        self.outside: Vector = point.x - inside  #: of x beyond its bounds
        self.sizes = units.own_sizes(point)  #: of the variables
        self.largest_sides = problem.largest_sides
        #: |J|, and |J|'|y|; None without rows, or where J is an operator
        self.magnitudes: Jacobian | None = None
        self.pulls: Vector | None = None
        if problem.m and not isinstance(point.jac, LinearOperator):
            self.magnitudes = abs(point.jac)
            with np.errstate(invalid="ignore", over="ignore"):
                self.pulls = transposed_product(self.magnitudes, np.abs(y))


def row_gaps(cl: Vector, cu: Vector, c: Vector, y: Vector) -> tuple[Vector, Vector]:
    """(|y_i|, gap of the side its sign points at) for inequality rows; 0 for equalities, which have no side to miss."""
    inequality, size = cl != cu, np.abs(y)
    pointed = np.where(y > 0, cu - c, c - cl)
    gap = np.where(inequality & (y != 0), np.maximum(pointed, 0.0), 0.0)
    return np.where(inequality, size, 0.0), gap
