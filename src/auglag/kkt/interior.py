"""Mehrotra's interior-point method for the model, for the case that active sets cycle."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import final

import numpy as np

from auglag._norms import finite
from auglag._typing import Vector
from auglag.kkt import linear, tuning
from auglag.kkt.convexity import diagonal_size, flipped, larger_shift
from auglag.kkt.linear import Factor
from auglag.kkt.model import Model, Step
from auglag.kkt.sides import active_sets, largest, reach


@final
class _Interior:
    """The iterate: v = (d, slacks of the inequality rows) between its sides, with multipliers z and u, and w."""

    def __init__(self, model: Model, shift: float, hint: float) -> None:
        self.model, self.h, self.shift = model, model.hessian, shift
        self.system = linear.system(self.h, model.jacobian, model.layout)
        self.rows = np.flatnonzero(~model.equal)
        self.low = np.concatenate([model.lower, model.cl[self.rows]])
        self.high = np.concatenate([model.upper, model.cu[self.rows]])
        self.has_low, self.has_high = np.isfinite(self.low), np.isfinite(self.high)
        self.has_sides = np.concatenate((self.has_low, self.has_high, self.has_low, self.has_high))
        self.low, self.high = np.where(self.has_low, self.low, 0.0), np.where(self.has_high, self.high, 0.0)
        self.v = self._inside(np.concatenate([np.zeros(model.n), model.t[self.rows]]))
        t, slope = tuning.TUNING, largest(model.gradient)
        self.scale = max(1.0, slope)
        first = max(t.first_multiplier, t.first_multiplier_slope * slope)
        self.z, self.u = np.where(self.has_low, first, 0.0), np.where(self.has_high, first, 0.0)
        self.w = np.zeros(model.m)
        self.w[self.rows] = (self.u - self.z)[model.n :]
        self.sides = max(1, int(self.has_low.sum() + self.has_high.sum()))
        self.flipped, self.hint = False, hint

    def _inside(self, v: Vector) -> Vector:
        """v moved off its sides by a margin relative to them, or to the width where that is less."""
        t = tuning.TUNING
        low, high = self.low, self.high
        near = np.where(self.has_low & self.has_high, np.minimum(np.abs(low), np.abs(high)), np.abs(low) + np.abs(high))
        width = np.where(self.has_low & self.has_high, high - low, np.inf)
        margin = np.maximum(np.minimum(t.start_margin * np.maximum(1.0, near), t.start_margin_width * width), 1e-14)
        v = np.where(self.has_low, np.maximum(v, low + margin), v)
        return np.where(self.has_high, np.minimum(v, high - margin), v)

    def gaps(self) -> tuple[Vector, Vector]:
        """Distances to the sides; 1 where there is none."""
        return np.where(self.has_low, self.v - self.low, 1.0), np.where(self.has_high, self.high - self.v, 1.0)

    def residuals(self) -> tuple[Vector, Vector]:
        """Of stationarity in v, and of t + J d - s - w/beta = 0."""
        model, n = self.model, self.model.n
        d = self.v[:n]
        slope = self.h @ d + self.shift * d + model.gradient + model.jacobian.T.dot(self.w)
        dual = np.concatenate((slope, -self.w[self.rows]))
        target = model.cl.copy()
        target[self.rows] = self.v[n:]
        return dual - self.z + self.u, model.t + model.jacobian.dot(d) - target - self.w / model.beta

    def factor(self, dv: Vector, inverse: Vector) -> Factor | None:
        """The factors of the Newton system, with the right inertia."""
        model = self.model
        size = diagonal_size(self.h)
        second = np.full(model.m, 1.0 / model.beta)
        second[self.rows] += inverse
        while True:
            factor = self.system.factor(dv[: model.n] + self.shift, second)
            model.layout.factorisations += 1
            if factor.negative == model.m:
                return factor
            if not self.flipped:
                self.flipped = True
                everything, equal = np.arange(model.n), np.flatnonzero(model.equal)
                h = flipped(self.h, model.jacobian, model.beta, everything, equal)
                if h is not None:
                    self.h, self.system = h, linear.system(h, model.jacobian)
                    continue
            self.shift, self.hint = max(larger_shift(self.shift, size), self.hint), 0.0
            if not self.shift <= tuning.TUNING.shift_limit * size:
                return None


def interior_point(model: Model, shift: float, *, hint: float = 0.0) -> tuple[Step, Model] | None:
    """(an approximate solution, the convex model it solves); None if it breaks down.

    Its sets are a good start for the active-set method. `shift` and `hint` are as there.
    """
    t = tuning.TUNING
    it = _Interior(model, shift, hint)
    errors: list[float] = []
    for _ in range(t.interior_steps):
        p, q = it.gaps()
        mu = float(p[it.has_low].dot(it.z[it.has_low]) + q[it.has_high].dot(it.u[it.has_high])) / it.sides
        dual, primal = it.residuals()
        error = max(largest(dual) / it.scale, largest(primal), mu / it.scale)
        if not math.isfinite(error):
            return None
        long, idle = len(errors) > t.interior_long, t.interior_idle
        if error <= t.interior_error or (long and min(errors[-idle:]) > t.interior_less * min(errors[:-idle])):
            break
        errors.append(error)
        if not _advance(it, p, q, mu, dual, primal):
            return None
    p, q = it.gaps()
    sets = active_sets(it.has_low & (it.z > p), it.has_high & (it.u > q), it.rows, model.m)
    d = np.clip(it.v[: model.n], model.lower, model.upper)
    return Step(d, it.w, sets, it.shift, it.h, cycled=True), replace(model, hessian=it.h)


def _advance(it: _Interior, p: Vector, q: Vector, mu: float, dual: Vector, primal: Vector) -> bool:
    """One predictor-corrector step; False where the linear algebra fails."""
    t, n = tuning.TUNING, it.model.n
    by_low, by_high = it.z / p, it.u / q
    dv = by_low + by_high
    inverse = 1.0 / np.maximum(dv[n:], 1e-30)
    before = it.h, it.shift
    factor = it.factor(dv, inverse)
    if factor is None:
        return False
    if before[0] is not it.h or before[1] != it.shift:
        dual, primal = it.residuals()

    def direction(low: Vector | float, high: Vector | float) -> tuple[Vector, Vector, Vector, Vector]:
        a = np.where(it.has_low, low / p - it.z, 0.0)
        b = np.where(it.has_high, high / q - it.u, 0.0)
        r = -dual + a - b
        shifted = -primal
        shifted[it.rows] += r[n:] * inverse
        x = factor.solve(np.concatenate((r[:n], shifted)))
        dw = x[n:]
        step = np.concatenate((x[:n], (dw[it.rows] + r[n:]) * inverse))
        return step, dw, a - by_low * step, b + by_high * step

    positive = np.concatenate((p, q, it.z, it.u))

    def length(step: Vector, dz: Vector, du: Vector) -> float:
        return reach(positive, np.concatenate((step, -step, dz, du)), it.has_sides)

    step, _, dz, du = direction(0.0, 0.0)
    a = length(step, dz, du)
    low, high = (p + a * step) * (it.z + a * dz), (q - a * step) * (it.u + a * du)
    after = float(low[it.has_low].sum() + high[it.has_high].sum())
    left = min(1.0, after / it.sides / max(mu, 1e-300))  # a large number would overflow
    centring = max(t.least_centring, left**t.centring_power)
    step, dw, dz, du = direction(centring * mu - step * dz, centring * mu + step * du)
    if not finite(step):
        return False
    a = t.to_boundary * length(step, dz, du)
    it.v, it.w = it.v + a * step, it.w + a * dw
    it.z = np.where(it.has_low, np.maximum(it.z + a * dz, 1e-300), 0.0)
    it.u = np.where(it.has_high, np.maximum(it.u + a * du, 1e-300), 0.0)
    return True
