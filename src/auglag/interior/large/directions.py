"""Newton's equations of the barrier problem of a large problem: a quasi-definite matrix, steps for many right sides.

Every row keeps a term -soft on the diagonal, every variable a term +prox: these are the proximal terms of the
augmented Lagrangian (a penalty 1/soft and its multiplier update, y + dy), so that the matrix can be factorised in any
fixed order and its inertia is told by the signs of the pivots. They do not move the solution: at a solution the steps
that they damp are zero.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._norms import norm
from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.large.sides import Sides
from auglag.interior.large.softness import Softness
from auglag.kkt import linear
from auglag.kkt.hessian import Hessian
from auglag.kkt.linear import Analyses, Factor, System
from auglag.kkt.sides import QUIET, largest
from auglag.problems.jacobians import row_norms


@final
class Newton:
    """The factorised system at one iterate."""

    def __init__(
        self,
        sides: Sides,
        factor: Factor,
        slacks: Vector,
        shift: float,
        *,
        enough: float | None = None,
        soft: Vector | float = 0.0,
    ) -> None:
        """`soft` is the part of the diagonal of the rows that solutions are to be free of, where it matters."""
        self.sides, self._factor, self._inverse, self._soft = sides, factor, 1.0 / slacks, soft
        #: How small residuals of solutions are to be, relative to the right side.
        self._enough = tuning.TUNING.enough_refined if enough is None else enough
        self.shift = shift  #: the multiple of the identity that the Hessian needed
        self.error = 0.0  #: the largest residual of a solution so far
        self.left = 0.0  #: the part of the violation that the first solution leaves because of `soft`

    @QUIET
    def solve(self, dual: Vector, rows: Vector) -> tuple[Vector, Vector]:
        """(dv, dy) for the residuals: K (dv, dy) = -(dual, rows)."""
        sides = self.sides
        n, at = sides.n, sides.rows
        right = np.empty(n + sides.m)
        right[:n], right[n:] = -dual[:n], -rows
        right[n + at] -= dual[n:] * self._inverse
        x, error = self._factor.roughly(right, self._enough)
        self.error = max(self.error, error)
        x = self._sharpened(x, norm(rows))
        dv = np.empty(sides.size)
        dv[:n] = x[:n]
        dv[n:] = (x[n + at] - dual[n:]) * self._inverse
        return dv, x[n:]

    def _sharpened(self, x: Vector, violation: float) -> Vector:
        """The solution of the system without `soft`, where that makes a difference.

        A full step leaves the violation soft dy. Where multipliers have a long way to go, a run with it converges as
        slowly as a method of multipliers whose penalty is too small. The factors of the system with it are a good
        preconditioner for minimal residuals: K x = b leaves the error -soft dy in the rows, and nothing elsewhere.
        """
        t, n = tuning.TUNING, self.sides.n
        error, enough = -self._soft * x[n:], t.left_by_soft * max(violation, t.rows_matter)
        images: list[tuple[Vector, Vector]] = []
        for _ in range(t.sharpenings):
            if not enough < norm(error) < np.inf:
                break
            step = self._factor.roughly(np.concatenate([np.zeros(n), error]), self._enough)[0]
            image = error + self._soft * step[n:]
            for known, its in images:
                part = float(known @ image)
                image, step = image - part * known, step - part * its
            size, whole = norm(image), norm(error)
            if not self._enough * whole < t.sharpening_gains * size < np.inf:
                break
            image, step = image / size, step / size
            images.append((image, step))
            length = float(image @ error)
            if not abs(length) > t.sharpening_gains * whole:
                break
            x, error = x + length * step, error - length * image
        self.left = max(self.left, norm(error) / max(violation, t.rows_matter))
        return x


@final
class Equations:
    """Makes Newton systems; keeps what one step teaches about the next."""

    def __init__(self, sides: Sides, analyses: Analyses) -> None:
        self.sides = sides
        self.last = 0.0  #: the last multiple of the identity that was needed
        self.shifted = False  #: whether the last system needed a shift beyond what was left of the one before
        self._kept = 0.0  #: the shift of the last system
        self._prox = tuning.TUNING.standing_prox  #: on the diagonal of the variables, in units of the Hessian
        self._softened = 0.0  #: the same of the last system, in the units of the form
        self._softness = Softness()
        self._analyses = analyses
        self._last_h: Hessian | None = None
        self._units: Vector | None = None  #: of the diagonal of the rows

    def newton(
        self,
        h: Hessian,
        j: Any,
        weights: Vector,
        soft: Vector | float,
        residuals: tuple[Vector, Vector],
        *,
        far: bool = False,
        sharp: bool = True,
    ) -> tuple[Newton, tuple[Vector, Vector]] | None:
        """The system with H + shift I of the inertia of a minimum and its step for the residuals; None if there is no
        such shift.

        `weights` are the curvatures of the barrier. Factors whose solutions are poor count as of the wrong inertia. The
        shifts are those of Waechter and Biegler (2006), Algorithm IC. `far`: from a solution a shift is given up bit by
        bit. Where it was only just not needed any more, the matrix is nearly singular, and its step much too long.
        `sharp`: whether solutions are to be free of `soft`.
        """
        t = tuning.TUNING
        shift = t.shift_kept * self._kept if far else 0.0
        shift = given = shift if shift > t.standing_prox else 0.0
        system = linear.system(h, j, self._analyses)
        size = largest(h.matrix.data)
        unit = min(1.0, max(t.least_hessian, size)) if size > 0.0 else 1.0  # a linear programme has no such size
        self.remember(h)
        largest_soft = self._own(np.maximum(soft, t.soft_largest), j)
        soft = self._own(soft, j)
        larger = np.maximum(soft, self._own(t.soft_largest * self.sides.row_units, j))
        softs = self._softness.order(soft, larger, shifted=shift > 0.0)
        while True:
            first = weights + (shift + self._prox * unit)
            for diagonal, factor in softs:
                made = self._solved(system, first, diagonal, shift, residuals, sharp=sharp)
                if made is not None:
                    self._softness.worked(diagonal, factor, larger, made[0].left, shifted=shift > 0.0)
                    self._softened = self._prox * unit
                    self.last = shift if shift else self.last
                    self._kept, self.shifted = shift, shift > given
                    return made
            if self._prox < t.standing_prox:
                self._prox = t.standing_prox
                continue
            if shift == 0.0:
                self._softness.failed()
            softs = [(self._softness.beside(larger, largest_soft), 1.0)]
            if shift == 0.0:
                shift = t.first_shift if self.last == 0.0 else max(t.least_shift, self.last / t.shift_fall)
            else:
                shift *= t.shift_growth_first if self.last == 0.0 else t.shift_growth
            if not shift <= t.largest_shift:
                return None

    def _solved(
        self,
        system: System,
        first: Vector,
        soft: Vector,
        shift: float,
        residuals: tuple[Vector, Vector],
        *,
        sharp: bool,
    ) -> tuple[Newton, tuple[Vector, Vector]] | None:
        """The system with these diagonals and its step; None if the inertia is wrong or the step is poor."""
        found = self._factorised(system, first, soft, shift, sharp=sharp)
        step = None if found is None else found.solve(*residuals)
        return None if found is None or step is None or found.error > tuning.TUNING.poorly_refined else (found, step)

    def after(self, dv: Vector, dual: Vector) -> None:
        """After the step dv from a point where `dual` was left of the gradient of the Lagrangian, sides included.

        Where the diagonal of the variables alone makes as much of it again, a smaller one is taken from then on: steps
        would be those of a proximal point method, of which hundreds may be needed. So it is with variables far away in
        which the Lagrangian is nearly linear, but which rows determine. Not after a shift was needed: then the diagonal
        may be what keeps from another one.
        """
        t = tuning.TUNING
        if self.last == 0.0 and self._softened * norm(dv) > t.left_by_prox * norm(dual):
            self._prox = max(t.firmer * self._prox, t.least_prox)

    def remember(self, h: Hessian) -> None:
        """The pattern of the Hessians to come: one analysis then serves systems with and without them."""
        self._last_h = h

    def _own(self, soft: Vector | float, j: Any) -> Vector:
        """A diagonal of the rows in units of each row: the square of its largest entry at the first point, at most 1.

        Below a row of 1e-6, a diagonal of 1e-8 would let everything pass.
        """
        if self._units is None:
            norms = row_norms(j) if self.sides.m else np.zeros(0)
            self._units = np.where(norms > 0.0, np.clip(norms, tuning.TUNING.least_row, 1.0), 1.0) ** 2
        return np.asarray(soft * self._units)

    def _blank(self) -> Hessian:
        """Zeros in the pattern of the last Hessian."""
        sides, last = self.sides, self._last_h
        if last is None:
            return Hessian(sparse.csc_array((sides.n, sides.n)))
        matrix = last.matrix
        return Hessian(sparse.csc_array((0.0 * matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape))

    def _factorised(
        self, system: System, first: Vector, soft: Vector | float, shift: float = 0.0, *, sharp: bool = False
    ) -> Newton | None:
        """The system with `first` on the diagonal of v; None if the inertia is not that of a minimum.

        `sharp`: whether solutions are to be free of `soft`.
        """
        sides = self.sides
        second = np.array(np.broadcast_to(soft, sides.m))
        second[sides.rows] += 1.0 / first[sides.n :]
        factor = system.factor(first[: sides.n], second, 0.0)
        self._analyses.factorisations += 1
        if factor.negative != sides.m:
            return None
        return Newton(sides, factor, first[sides.n :], shift, soft=soft if sharp else 0.0)

    def on_sides(self, h: Hessian, j: Any, weights: Vector, soft: Vector | float) -> Newton | None:
        """The system for these curvatures of sides, with the last shift or none; None if neither is enough."""
        system, diagonal = linear.system(h, j, self._analyses), weights + tuning.TUNING.standing_prox
        soft = self._own(soft, j)
        found = self._factorised(system, diagonal, soft, sharp=True)
        if found is None and self.last:
            return self._factorised(system, diagonal + self.last, soft, self.last, sharp=True)
        return found

    def plain(self, h: Hessian, j: Any, first: Vector, soft: float) -> Newton | None:
        """The system with these diagonals and no shift; None if the inertia is not that of a minimum."""
        return self._factorised(linear.system(h, j, self._analyses), first, soft)

    def without_hessian(self, j: Any, first: Vector, soft: float) -> Newton | None:
        """The system with `first` on the diagonal in place of a Hessian: for least squares in v."""
        return self.plain(self._blank(), j, first, soft)

    def least_squares(self, gradient: Vector, j: Any, z: Vector, u: Vector) -> Vector:
        """Multipliers y that make the gradient of the Lagrangian small, or 0 where they would be large."""
        sides, t = self.sides, tuning.TUNING
        nothing = np.zeros(sides.m)
        newton = self.without_hessian(j, np.ones(sides.size), t.least_squares_soft) if sides.m else None
        if newton is None:
            return nothing
        dual = sides.spread(-z, u)
        dual[: sides.n] += gradient
        y = newton.solve(dual, nothing)[1]
        return y if largest(y) <= t.largest_first_multiplier else nothing
