"""Newton's equations of the barrier problem: one symmetric matrix, of the right inertia, for several right sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.space import Iterate, Space
from auglag.kkt import linear
from auglag.kkt.hessian import Hessian
from auglag.kkt.linear import Analyses, Factor
from auglag.kkt.sides import QUIET, largest


@final
@dataclass(frozen=True, slots=True)
class Direction:
    """A step of v and of all multipliers."""

    v: Vector
    y: Vector
    z: Vector
    u: Vector

    def finite(self) -> bool:
        """Whether all entries are."""
        return all(bool(np.isfinite(part.sum())) for part in (self.v, self.y, self.z, self.u))


@final
class Newton:
    """The factorised system at one iterate."""

    def __init__(self, space: Space, it: Iterate, factor: Factor, diagonal: Vector) -> None:
        self.space, self.it, self._factor, self.diagonal = space, it, factor, diagonal
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
    """Makes Newton systems; keeps what one step teaches about the next."""

    def __init__(self, space: Space, analyses: Analyses) -> None:
        self.space = space
        self.last = 0.0  #: the last multiple of the identity that was needed
        self.soft = tuning.TUNING.soft  #: the least diagonal of the rows that a factorisation may use
        self.contradicting = False  #: rows were met that contradict each other to first order
        self._analyses = analyses

    def newton(
        self, it: Iterate, h: Hessian, j: Any, mu: float, residuals: tuple[Vector, Vector]
    ) -> tuple[Newton, Direction] | None:
        """The system with H + shift I of the inertia of a minimum, and its step; None if no shift gives that inertia.

        The step leads towards the barrier problem's solution; of `residuals` the first is that with z = mu / gap.

        Equations that are satisfied only approximately (the diagonal of the rows) may seem to leave room for negative
        curvature where they leave none, so that the first answer to a wrong inertia is a smaller diagonal, from then
        on. With it, sparse factors without row exchanges may lose the inertia by rounding; where they do, rows are
        exchanged, and instead of the inertia the curvature along the step is tested. The shifts are those of Waechter
        and Biegler (2006), Algorithm IC.
        """
        space, t = self.space, tuning.TUNING
        system, weights = linear.system(h, j, self._analyses), space.weights(it)
        condensed = not h.is_sparse and space.m > space.n  # which loses digits where the diagonal of the rows is small
        shift = 0.0
        while True:
            soft = (t.soft if self.contradicting else self.soft) * max(1.0, t.soft_mu * mu**t.soft_power)
            diagonal = weights + shift
            second = np.full(space.m, soft if condensed or self.contradicting else t.hard)
            second[space.rows] += 1.0 / np.maximum(diagonal[space.n :], 1e-30)
            factor = system.factor(diagonal[: space.n], second, self.soft)
            found: Newton | None = None
            if factor.negative == space.m:
                found = Newton(space, it, factor, diagonal)
                step = found.solve(*residuals)
                if not (condensed or self.contradicting or h.is_sparse) and _contradicting(step[1], residuals[1]):
                    self.contradicting = True
                    continue
            elif self.soft <= t.hard and not factor.trusted():
                exact = system.pivoted(diagonal[: space.n], second)
                if exact is not None:
                    found = Newton(space, it, exact, diagonal)
                    step = found.solve(*residuals)
                    found = found if _convex_along(found, h, step) else None
            if found is not None:
                self.last = shift if shift else self.last
                return found, found.completed(*step, mu)
            if self.soft > t.hard:
                self.soft = t.hard
            elif shift == 0.0:
                shift = t.first_shift if self.last == 0.0 else max(t.least_shift, self.last / t.shift_fall)
            else:
                shift *= t.shift_growth_first if self.last == 0.0 else t.shift_growth
            if not shift <= t.largest_shift:
                return None

    def least_squares(self, it: Iterate, gradient: Vector, j: Any) -> Vector:
        """Multipliers y that make the gradient of the Lagrangian small, or 0 where they would be large."""
        space, t = self.space, tuning.TUNING
        if not space.m:
            return it.y
        blank = sparse.csc_array((space.n, space.n)) if sparse.issparse(j) else np.zeros((space.n, space.n))
        second = np.full(space.m, t.least_squares_soft)
        second[space.rows] += 1.0
        factor = linear.system(Hessian(blank), j).factor(1.0, second)
        diagonal = np.ones(space.n + space.rows.size)
        dual = np.concatenate([gradient, np.zeros(space.rows.size)]) - it.z + it.u
        _, y = Newton(space, it, factor, diagonal).solve(dual, np.zeros(space.m))
        return y if np.isfinite(y).all() and largest(y) <= t.largest_first_multiplier else np.zeros(space.m)


def _contradicting(dy: Vector, primal: Vector) -> bool:
    """Whether the step leaves the equations unsatisfied by a good part of their violation, with huge multipliers."""
    t = tuning.TUNING
    return bool(t.hard * largest(dy) > t.contradicting * largest(primal) > 0.0)


def _convex_along(newton: Newton, h: Hessian, step: tuple[Vector, Vector]) -> bool:
    """Whether the system's matrix has positive curvature along a step."""
    dv, dy = step
    if not (np.isfinite(dv).all() and np.isfinite(dy).all()):
        return False
    dx = dv[: newton.space.n]
    curvature = float(dx @ (h @ dx)) + float((newton.diagonal * dv) @ dv)
    return curvature >= tuning.TUNING.curvature_along_step * float(dv @ dv)
