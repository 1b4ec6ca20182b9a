"""A primal-dual active-set (semismooth Newton) method for the model, started from the sets of the last step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from auglag._typing import Vector
from auglag.kkt.convexity import diagonal_size, flipped, larger_shift
from auglag.kkt.factorisation import Factor, System
from auglag.kkt.model import Model, Sets, Side, Step
from auglag.kkt.sparse import HeldSystem

#: A shift beyond this multiple of |H| means that the matrix cannot be used.
HOPELESS = 1e12
#: How often the curvature of one model is turned around before the Hessian is shifted instead.
FLIPS = 3
#: A sparse system of this part of all variables and rows, or more, is stated with the others held.
MOSTLY = 0.4


class _System:
    """The Hessian of one model, as corrected so far."""

    def __init__(self, model: Model, shift: float, floor: float, hint: float, correct: bool) -> None:
        self.h, self.j, self.beta = model.hessian, model.jacobian, model.beta
        self.layout = model.layout
        self.correct, self.plain = correct, True
        self.shift, self.floor, self.flips, self.hint = shift, floor, 0, hint
        self.size = diagonal_size(self.h)

    def factor(self, free: NDArray[np.intp], active: NDArray[np.intp]) -> Factor | None:
        """The factors on the free variables and active rows, with the right inertia."""
        system = self._system(free, active)
        while True:
            factor = system.factor(self.shift, 1.0 / self.beta)
            if factor.negative == active.size:
                return factor
            self.plain = False
            if not self.correct:
                return None
            if self.flips < FLIPS:
                self.flips += 1
                h = flipped(self.h, self.j, self.beta, free, active, self.floor)
                if h is not None:
                    self.h = h
                    system = self._system(free, active)
                    continue
            self.shift = max(larger_shift(self.shift, self.size), self.hint)
            self.hint = 0.0
            if not self.shift <= HOPELESS * self.size:
                return None

    def _system(self, free: NDArray[np.intp], active: NDArray[np.intp]) -> System | HeldSystem:
        """A layout that is known serves as long as not too little of it is used."""
        if self.layout is not None and self.h.is_sparse and self.h.v is None:
            used = free.size + active.size
            if sum(self.j.shape) > used >= MOSTLY * sum(self.j.shape):
                return HeldSystem(self.h.matrix, self.j, free, active, self.layout)
            if used == sum(self.j.shape):
                return System(self.h, self.j, self.layout)
        return System(self.h.on(free), part(self.j, active, free))


def part(matrix: Any, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Any:
    """matrix[rows, columns]; the matrix itself where that is all of it."""
    if rows.size == matrix.shape[0] and columns.size == matrix.shape[1]:
        return matrix
    if sparse.issparse(matrix):
        return matrix[rows][:, columns]
    return matrix[np.ix_(rows, columns)]


def active_set(
    model: Model,
    sets: Sets,
    shift: float,
    *,
    floor: float = 1.0,
    sweeps: int = 12,
    hint: float = 0.0,
    correct: bool = True,
) -> tuple[Step | None, Sets]:
    """The solution, or None where the sets cycle or the curvature cannot be mended; and the last sets.

    A Hessian that has to be shifted is so by `hint` at least: a fraction of what the last one needed saves trials. With
    `correct=False` one that is not convex on the sets is not mended.
    """
    rows, variables = sets.rows.copy(), sets.variables.copy()
    rows[model.equal] = 1
    fixed = model.lower == model.upper
    variables[fixed & (variables == 0)] = 1
    system = _System(model, shift, floor, hint, correct)
    seen: set[bytes] = set()
    for _ in range(sweeps):
        key = rows.tobytes() + variables.tobytes()
        if key in seen:
            break
        seen.add(key)
        found = _solve(model, system, rows, variables)
        if found is None:
            break
        d, w = found
        new_rows = _new_rows(model, rows, d, w)
        new_variables = _new_variables(model, system, variables, fixed, d, w)
        if (new_rows == rows).all() and (new_variables == variables).all():
            sets = Sets(rows, variables)
            d = np.minimum(np.maximum(d, model.lower), model.upper)
            return Step(d, w, sets, system.shift, plain=system.plain), sets
        rows, variables = new_rows, new_variables
    return None, Sets(rows, variables)


def _solve(model: Model, system: _System, rows: Side, variables: Side) -> tuple[Vector, Vector] | None:
    """(d, w) with the variables and rows held as the sets say."""
    free, active = np.flatnonzero(variables == 0), np.flatnonzero(rows)
    held = free.size < model.n
    d = np.where(variables < 0, model.lower, np.where(variables > 0, model.upper, 0.0))
    side = np.where(rows[active] > 0, model.cu[active], model.cl[active])
    w = np.zeros(model.m)
    factor = system.factor(free, active)
    if factor is None:
        return None
    r1, r2 = model.gradient, model.t
    if held:
        r1, r2 = r1 + system.h @ d, r2 + model.jacobian @ d
    rhs = np.concatenate([-r1[free], side - r2[active]])
    if rhs.size:
        z = factor.solve(rhs)
        if not np.isfinite(z).all():
            return None
        d[free] = z[: free.size]
        w[active] = z[free.size :]
    return d, w


def _new_rows(model: Model, rows: Side, d: Vector, w: Vector) -> Side:
    """Active rows stay while their multiplier has the sign of their side; others enter where they leave theirs."""
    t = model.t + model.jacobian @ d
    tolerance = 1e-11 * np.maximum(1.0, np.abs(t))
    entering = (t > model.cu + tolerance).astype(np.int8) - (t < model.cl - tolerance).astype(np.int8)
    staying = np.where(rows * w >= 0, rows, 0).astype(np.int8)
    new = np.where(rows != 0, staying, entering).astype(np.int8)
    new[model.equal] = 1
    return new


def _new_variables(
    model: Model, system: _System, variables: Side, fixed: NDArray[np.bool_], d: Vector, w: Vector
) -> Side:
    """The same for bounds: free variables that leave them are held, held ones that pull away are let go."""
    slope = model.gradient + system.h @ d + model.jacobian.T @ w + system.shift * d
    below = d < model.lower - 1e-13 * np.maximum(1.0, np.abs(model.lower))
    above = d > model.upper + 1e-13 * np.maximum(1.0, np.abs(model.upper))
    entering = above.astype(np.int8) - below.astype(np.int8)
    staying = np.where(variables * slope <= 0, variables, 0).astype(np.int8)
    new = np.where(variables != 0, staying, entering).astype(np.int8)
    new[fixed] = variables[fixed]
    return new
