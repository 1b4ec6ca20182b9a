"""The variables of the barrier problem: x and a slack for every inequality row, strictly between their sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.interior import tuning
from auglag.kkt.model import Sets
from auglag.kkt.sides import QUIET, active_sets, largest, reach
from auglag.problems.standard_form import StandardForm


@final
@dataclass(frozen=True, slots=True)
class Iterate:
    """v = (x, slacks), multipliers y of the rows, z and u of the lower and upper sides of v."""

    v: Vector
    y: Vector
    z: Vector
    u: Vector


@final
class Space:
    """low <= v <= high with v = (x, s), and the equations c(x) - s = 0 (s = cl for equality rows)."""

    def __init__(self, form: StandardForm) -> None:
        box = form.box
        if box is None:
            raise InputError("interior points handle bounds but no other term g of the objective")
        self.form, self.n, self.m = form, form.n, form.m
        self.rows = np.flatnonzero(~form.equal)
        self.low = np.concatenate([box[0], form.cl[self.rows]])
        self.high = np.concatenate([box[1], form.cu[self.rows]])
        self.has_low, self.has_high = np.isfinite(self.low), np.isfinite(self.high)
        self._low, self._high = np.where(self.has_low, self.low, 0.0), np.where(self.has_high, self.high, 0.0)
        damping = tuning.TUNING.damping
        self.damping = (self.has_low & ~self.has_high) * damping - (self.has_high & ~self.has_low) * damping
        self.sides = int(self.has_low.sum() + self.has_high.sum())

    def inside(self, v: Vector, push: float) -> Vector:
        """v moved off its sides by `push` relative to max(1, |side|), or by that part of the width if it is less."""
        both = self.has_low & self.has_high
        width = np.where(both, self._high - self._low, np.inf)
        low = self._low + np.minimum(push * np.maximum(1.0, np.abs(self._low)), push * width)
        high = self._high - np.minimum(push * np.maximum(1.0, np.abs(self._high)), push * width)
        v = np.where(self.has_low, np.maximum(v, low), v)
        return np.where(self.has_high, np.minimum(v, high), v)

    def start(self, x: Vector, y: Vector, mu: float, push: float) -> Iterate:
        """The iterate for x, with sides' multipliers of the size that mu asks for."""
        x = self.inside(np.concatenate([x, np.zeros(self.rows.size)]), push)[: self.n]
        v = self.inside(np.concatenate([x, self.form.at(x).c[self.rows]]), push)
        z, u = self._central(v, mu)
        largest_allowed = tuning.TUNING.largest_side_multiplier
        return Iterate(v, y, np.minimum(z, largest_allowed), np.minimum(u, largest_allowed))

    @QUIET
    def _central(self, v: Vector, mu: float) -> tuple[Vector, Vector]:
        """mu / gap for both sides."""
        p, q = self.gaps(v)
        return np.where(self.has_low, mu / p, 0.0), np.where(self.has_high, mu / q, 0.0)

    def gaps(self, v: Vector) -> tuple[Vector, Vector]:
        """Distances to the sides; 1 where there is none."""
        return np.where(self.has_low, v - self._low, 1.0), np.where(self.has_high, self._high - v, 1.0)

    @QUIET
    def weights(self, it: Iterate) -> Vector:
        """z / p + u / q: the curvature of the barrier."""
        p, q = self.gaps(it.v)
        return np.asarray(it.z / p + it.u / q)

    def primal(self, v: Vector) -> Vector:
        """c(x) - s, not finite where c is not defined."""
        form = self.form
        target = form.cl.copy()
        target[self.rows] = v[self.n :]
        return np.asarray(form.at(v[: self.n]).c - target)

    def barrier(self, v: Vector, mu: float) -> float:
        """f less mu times the logarithms of all gaps."""
        p, q = self.gaps(v)
        if not (p > 0).all() or not (q > 0).all():
            return np.inf
        logs = float(np.log(p).sum() + np.log(q).sum())
        damped = float(self.damping @ (v - np.where(self.has_low, self._low, self._high)))
        return float(self.form.at(v[: self.n]).f) - mu * logs + mu * damped

    @QUIET
    def barrier_slope(self, v: Vector, gradient: Vector, mu: float) -> Vector:
        """The gradient of `barrier` for the gradient of f."""
        z, u = self._central(v, mu)
        slope = mu * self.damping - z + u
        slope[: self.n] += gradient
        return np.asarray(slope)

    def dual(self, it: Iterate, lagrangian_gradient: Vector) -> Vector:
        """The gradient of the Lagrangian in v."""
        return np.concatenate([lagrangian_gradient, -it.y[self.rows]]) - it.z + it.u

    @QUIET
    def error(self, it: Iterate, dual: Vector, primal: Vector, mu: float) -> float:
        """The largest scaled residual of the barrier problem's optimality conditions (E_mu)."""
        p, q = self.gaps(it.v)
        sides = float(np.abs(it.z).sum() + np.abs(it.u).sum())
        total = sides + float(np.abs(it.y).sum())
        large = tuning.TUNING.large_multipliers
        s_dual = max(large, total / max(1, self.m + self.sides)) / large
        s_sides = max(large, sides / max(1, self.sides)) / large
        low = np.abs(p * it.z - mu)[self.has_low]
        high = np.abs(q * it.u - mu)[self.has_high]
        comp = max(float(np.max(low, initial=0.0)), float(np.max(high, initial=0.0)))
        return max(largest(dual) / s_dual, largest(primal), comp / s_sides)

    @QUIET
    def safeguarded(self, it: Iterate, mu: float) -> Iterate:
        """The iterate with its sides' multipliers not too far from mu / gap."""
        factor = tuning.TUNING.side_multiplier_factor
        p, q = self.gaps(it.v)
        z = np.clip(it.z, mu / (factor * p), factor * mu / p)
        u = np.clip(it.u, mu / (factor * q), factor * mu / q)
        return Iterate(it.v, it.y, np.where(self.has_low, z, 0.0), np.where(self.has_high, u, 0.0))

    def sets(self, it: Iterate) -> Sets:
        """The active sets: a row or variable is at a side if the multiplier of the side is larger than the distance."""
        p, q = self.gaps(it.v)
        return active_sets(self.has_low & (it.z > p), self.has_high & (it.u > q), self.rows, self.m)

    def longest(self, it: Iterate, dv: Vector, fraction: float) -> float:
        """The largest step length at most 1 that keeps v inside, up to a fraction of the way to the sides."""
        p, q = self.gaps(it.v)
        return min(reach(p, dv, self.has_low, fraction), reach(q, -dv, self.has_high, fraction))
