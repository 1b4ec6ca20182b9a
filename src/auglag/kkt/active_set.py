"""A primal-dual active-set (semismooth Newton) method for the model, started from the sets of the last step."""

from __future__ import annotations

import numpy as np

from auglag._norms import finite, some
from auglag._typing import Vector
from auglag.kkt import linear, tuning
from auglag.kkt.convexity import diagonal_size, flipped, larger_shift
from auglag.kkt.linear.base import Factor, Indices
from auglag.kkt.model import Model, Sets, Side, Step
from auglag.kkt.sides import Mask


class _Corrected:
    """The Hessian of one model, as corrected so far."""

    def __init__(self, model: Model, shift: float, hint: float, correct: bool) -> None:
        self.model, self.h, self.correct = model, model.hessian, correct
        self.shift, self.flips, self.hint = shift, 0, hint
        #: Whether sets before the last ones asked for a correction, or the last ones for more than one.
        self.overdone = False

    def factor(self, free: Indices, active: Indices) -> Factor | None:
        """The factors on the free variables and active rows, with the inertia of a minimum."""
        t, model = tuning.TUNING, self.model
        self.overdone |= self.flips > 0
        system = linear.part(self.h, model.jacobian, free, active, model.layout)
        while True:
            factor = system.factor(self.shift, 1.0 / model.beta)
            model.layout.factorisations += 1
            if factor.negative == active.size:
                return factor
            if not self.correct:
                return None
            self.overdone |= self.flips > 0
            if self.flips < t.flips:
                self.flips += 1
                h = flipped(self.h, model.jacobian, model.beta, free, active)
                if h is not None:
                    self.h, system = h, linear.part(h, model.jacobian, free, active, model.layout)
                    continue
            self.overdone, size = True, diagonal_size(model.hessian)
            self.shift = max(larger_shift(self.shift, size), self.hint)
            self.hint = 0.0
            if not self.shift <= t.shift_limit * size:
                return None


def active_set(
    model: Model, sets: Sets, shift: float, *, sweeps: int | None = None, hint: float = 0.0, correct: bool = True
) -> Step | None:
    """The solution, or None where the sets cycle or the Hessian cannot be made convex on them.

    `shift` times the identity is added to the Hessian. One that needs more is given `hint` at least: a fraction of what
    the last one needed saves trials. With `correct=False` one that is not convex on the sets is left as it is.
    `sweeps` is the most changes of the sets; None: `Tuning.sweeps`.
    """
    rows, variables = sets.rows.copy(), sets.variables.copy()
    rows[model.equal] = 1
    equal = model.lower == model.upper
    fixed = equal if some(equal) else None
    if fixed is not None:
        variables[fixed & (variables == 0)] = 1
    system = _Corrected(model, shift, hint, correct)
    seen: set[bytes] = set()
    key = rows.tobytes() + variables.tobytes()
    for _ in range(tuning.TUNING.sweeps if sweeps is None else sweeps):
        if key in seen:
            break
        seen.add(key)
        found = _solve(model, system, rows, variables)
        if found is None:
            break
        d, w = found
        new_rows = _new_rows(model, rows, d, w)
        new_variables = _new_variables(model, system, variables, fixed, d, w)
        last, key = key, new_rows.tobytes() + new_variables.tobytes()
        if key == last:
            d = np.minimum(np.maximum(d, model.lower), model.upper)
            return Step(d, w, Sets(rows, variables), system.shift, system.h, plain=not system.overdone)
        rows, variables = new_rows, new_variables
    return None


def _solve(model: Model, system: _Corrected, rows: Side, variables: Side) -> tuple[Vector, Vector] | None:
    """(d, w) with the variables and rows held as the sets say."""
    (free,), (active,) = np.logical_not(variables).nonzero(), rows.nonzero()
    factor = system.factor(free, active)
    if factor is None:
        return None
    r1, r2, count = model.gradient, model.t, free.size
    if count < variables.size:
        d = np.where(variables < 0, model.lower, model.upper)
        d[free] = 0.0
        r1, r2 = r1 + system.h @ d, r2 + model.jacobian.dot(d)
    else:
        d = np.zeros(count)
    w = np.zeros(rows.size)
    rhs = np.empty(count + active.size)
    np.negative(r1[free], out=rhs[:count])
    sides = model.cu if np.count_nonzero(rows < 0) == 0 else np.where(rows > 0, model.cu, model.cl)
    rhs[count:] = sides[active] - r2[active]
    if rhs.size:
        z = factor.solve(rhs)
        if not finite(z):
            return None
        d[free], w[active] = z[:count], z[count:]
    return d, w


def _new_rows(model: Model, rows: Side, d: Vector, w: Vector) -> Side:
    """Active rows stay while their multiplier has the sign of their side; others enter where they leave theirs."""
    kept, new = model.equal | (rows * w >= 0.0), rows
    if np.count_nonzero(kept) < rows.size:
        new = rows * kept
    if np.count_nonzero(rows) < rows.size:
        t = model.t + model.jacobian.dot(d)
        if some(((t > model.cu) | (t < model.cl)) & (rows == 0)):
            slack = tuning.TUNING.row_slack * np.maximum(1.0, np.abs(t))
            entering = (t > model.cu + slack).view(np.int8) - (t < model.cl - slack).view(np.int8)
            new = np.where(rows, new, entering)
    return new


def _new_variables(model: Model, system: _Corrected, variables: Side, fixed: Mask | None, d: Vector, w: Vector) -> Side:
    """The same for bounds: free variables that leave them are held, held ones that pull away are let go."""
    low, high, new = model.lower, model.upper, variables
    if np.count_nonzero(variables):
        slope = model.gradient + system.h @ d + model.jacobian.T.dot(w) + system.shift * d
        kept = variables * slope <= 0.0
        if fixed is not None:
            kept |= fixed
        if np.count_nonzero(kept) < kept.size:
            new = variables * kept
    if some((d > high) | (d < low)):
        slack = tuning.TUNING.bound_slack
        below, above = low - slack * np.maximum(1.0, np.abs(low)), high + slack * np.maximum(1.0, np.abs(high))
        new = np.where(variables, new, (d > above).view(np.int8) - (d < below).view(np.int8))
    return new
