"""Newton's equations of the barrier problem: one symmetric matrix, of the right inertia, for several right sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.interior.space import QUIET, Iterate, Space, largest
from auglag.kkt import linear
from auglag.kkt.hessian import Hessian
from auglag.kkt.linear import Analyses, Factor

#: The first shift of a Hessian with the wrong inertia, how it grows, and how it shrinks for the next step.
FIRST, QUICKLY, SLOWLY, BACK, HOPELESS = 1e-4, 100.0, 8.0, 3.0, 1e30
#: Equations are satisfied up to this multiple of their multiplier's step: what sparse and condensed factorisations
#: need to be safe at first, and as little as all can do with.
SOFT, HARD = 1e-9, 1e-12
#: Equations that are missed by this part of what they are violated by exclude each other to first order.
MISSING = 0.1
#: Curvature along a step, relative to its square, that makes up for an inertia that is not known.
LEAST = 1e-12


@final
@dataclass(frozen=True, slots=True)
class Direction:
    """The step for an iterate."""

    v: Vector
    y: Vector
    z: Vector
    u: Vector


@final
class Newton:
    """The factorised system at one iterate."""

    def __init__(self, space: Space, it: Iterate, factor: Factor, diagonal: Vector, shift: float) -> None:
        self.space, self.it, self._factor, self.diagonal, self.shift = space, it, factor, diagonal, shift
        self._inverse = 1.0 / np.maximum(diagonal[space.n :], 1e-30)

    @QUIET
    def solve(self, dual: Vector, primal: Vector) -> tuple[Vector, Vector]:
        """(dv, dy) for the residuals: K (dv, dy) = -(dual, primal)."""
        n, rows = self.space.n, self.space.rows
        right = -primal
        right[rows] -= dual[n:] * self._inverse
        x = self._factor.solve(np.concatenate([-dual[:n], right]))
        dy = x[n:]
        return np.concatenate([x[:n], (dy[rows] - dual[n:]) * self._inverse]), dy

    @QUIET
    def completed(self, dv: Vector, dy: Vector, mu: float) -> Direction:
        """With the steps of the sides' multipliers that belong to dv."""
        space, it = self.space, self.it
        p, q = space.gaps(it.v)
        dz = np.where(space.has_low, (mu - it.z * dv) / p - it.z, 0.0)
        du = np.where(space.has_high, (mu + it.u * dv) / q - it.u, 0.0)
        return Direction(dv, dy, dz, du)


@final
class Systems:
    """Makes Newton systems; remembers the last shift that was needed, and the pattern of the matrix."""

    def __init__(self, space: Space, analyses: Analyses) -> None:
        self.space, self.last, self.soft = space, 0.0, SOFT
        self.dependent = False  #: rows were met that exclude each other to first order
        self._analyses = analyses

    def newton(
        self, it: Iterate, h: Hessian, j: Any, mu: float, residuals: tuple[Vector, Vector]
    ) -> tuple[Newton, Direction] | None:
        """The system with H shifted until its inertia is that of a minimum, and its step; None if no shift will do.

        The step leads towards the barrier problem's solution; of `residuals` the first is that with z = mu / gap.

        Rows that are satisfied only approximately may seem to leave room for negative curvature where they leave none,
        so that the first answer to a wrong inertia is to take them more seriously, from then on. Sparse factors without
        row exchanges then may lose the inertia by rounding; where they do, rows are exchanged, and curvature is
        asked for along the step for these residuals instead.
        """
        space = self.space
        system, weights = linear.system(h, j, self._analyses), space.weights(it)
        condensed = not h.is_sparse and space.m > space.n  # which loses the more digits the harder the rows are
        shift = 0.0
        while True:
            soft = (SOFT if self.dependent else self.soft) * max(1.0, 10.0 * mu**0.25)
            diagonal = weights + shift
            second = np.full(space.m, soft if condensed or self.dependent else HARD)
            second[space.rows] += 1.0 / np.maximum(diagonal[space.n :], 1e-30)
            factor = system.factor(diagonal[: space.n], second, self.soft)
            found: Newton | None = None
            if factor.negative == space.m:
                found = Newton(space, it, factor, diagonal, shift)
                step = found.solve(*residuals)
                if not (condensed or self.dependent or h.is_sparse) and _excluding(step[1], residuals[1]):
                    self.dependent = True
                    continue
            elif self.soft <= HARD and not factor.trusted():
                exact = system.pivoted(diagonal[: space.n], second)
                if exact is not None:
                    found = Newton(space, it, exact, diagonal, shift)
                    step = found.solve(*residuals)
                    found = found if _convex_along(found, h, step) else None
            if found is not None:
                self.last = shift if shift else self.last
                return found, found.completed(*step, mu)
            if self.soft > HARD:
                self.soft = HARD
            elif shift == 0.0:
                shift = FIRST if self.last == 0.0 else max(1e-20, self.last / BACK)
            else:
                shift *= QUICKLY if self.last == 0.0 else SLOWLY
            if not shift <= HOPELESS:
                return None

    def least_squares(self, it: Iterate, gradient: Vector, j: Any, limit: float = 1e3) -> Vector:
        """Multipliers y that make the gradient of the Lagrangian small, or 0 where they would be large."""
        space = self.space
        if not space.m:
            return it.y
        blank = sparse.csc_array((space.n, space.n)) if sparse.issparse(j) else np.zeros((space.n, space.n))
        second = np.full(space.m, 1e-8)
        second[space.rows] += 1.0
        factor = linear.system(Hessian(blank), j).factor(1.0, second)
        diagonal = np.ones(space.n + space.rows.size)
        dual = np.concatenate([gradient, np.zeros(space.rows.size)]) - it.z + it.u
        _, y = Newton(space, it, factor, diagonal, 0.0).solve(dual, np.zeros(space.m))
        return y if np.isfinite(y).all() and largest(y) <= limit else np.zeros(space.m)


def _excluding(dy: Vector, primal: Vector) -> bool:
    """Whether multipliers grow until the little that equations may be missed by is what is missing."""
    return bool(HARD * largest(dy) > MISSING * largest(primal) > 0.0)


def _convex_along(newton: Newton, h: Hessian, step: tuple[Vector, Vector]) -> bool:
    """Whether the system's matrix has positive curvature along a step."""
    dv, dy = step
    if not (np.isfinite(dv).all() and np.isfinite(dy).all()):
        return False
    dx = dv[: newton.space.n]
    curvature = float(dx @ (h @ dx)) + float((newton.diagonal * dv) @ dv)
    return curvature >= LEAST * float(dv @ dv)
