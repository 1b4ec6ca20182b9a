"""The variables of the barrier problem of a large problem: x and slacks, strictly between sides that are kept as lists.

`space.Space` has the same for small problems, with entries for sides that do not exist; where there are many variables
that costs more than it saves.
"""

from __future__ import annotations

import copy
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.interior import tuning
from auglag.kkt.model import Sets
from auglag.kkt.sides import QUIET, active_sets, largest
from auglag.problems.standard_form import StandardForm


@final
class Sides:
    """low <= v <= high with v = (x, slacks of the inequality rows), and the equations c(x) - s = 0.

    Multipliers of lower and upper sides (z and u) and gaps have one entry for each side there is: `at_low` and
    `at_high` say which variable it belongs to.
    """

    def __init__(self, form: StandardForm) -> None:
        box = form.box
        if box is None:
            raise InputError("interior points handle bounds but no other term g of the objective")
        self.form, self.n, self.m = form, form.n, form.m
        self.rows = np.flatnonzero(~form.equal)
        self.size = self.n + self.rows.size
        low, high = np.concatenate([box[0], form.cl[self.rows]]), np.concatenate([box[1], form.cu[self.rows]])
        has_low, has_high = np.isfinite(low), np.isfinite(high)
        self.at_low, self.at_high = np.flatnonzero(has_low), np.flatnonzero(has_high)
        self.low, self.high = low[self.at_low], high[self.at_high]
        self.count = self.low.size + self.high.size
        self._least = self._rounding()
        self.both = has_low & has_high  #: which variables have sides on both sides
        self._width = np.where(self.both, high - low, np.inf)
        alone = has_low.astype(float) - has_high.astype(float)
        self.damping = tuning.TUNING.damping * alone
        self._target = np.where(form.equal, form.cl, 0.0)
        factors = form.scaling.sc
        #: How much less than others rows were scaled by: a penalty on them is to be larger by that.
        self.row_units = np.maximum(factors / max(largest(factors), 1e-300), tuning.TUNING.least_row_unit)

    def inside(self, v: Vector, push: float) -> Vector:
        """v moved off its sides by `push` relative to max(1, |side|), or by that part of the width if it is less."""
        v, l, h = v.copy(), self.at_low, self.at_high
        v[l] = np.maximum(v[l], self.low + np.minimum(push * np.maximum(1.0, np.abs(self.low)), push * self._width[l]))
        v[h] = np.minimum(
            v[h], self.high - np.minimum(push * np.maximum(1.0, np.abs(self.high)), push * self._width[h])
        )
        return v

    def into_box(self, x: Vector) -> Vector:
        """The nearest variables within their bounds."""
        assert self.form.box is not None
        return np.asarray(x.clip(*self.form.box))

    def in_units(self, v: Vector, rows: Vector) -> Sides:
        """The same sides for v divided and equations multiplied by these factors."""
        other = copy.copy(self)
        other.low, other.high = self.low / v[self.at_low], self.high / v[self.at_high]
        other._width, other._target = self._width / v, self._target * rows
        other._least = other._rounding()
        return other

    def directions(self, equations: int) -> Sides:
        """The cone of the directions that sides never stop, with so many homogeneous equations.

        Variables with two sides have none in it; slacks with two are left out. What barrier problems need beside sides,
        the damping and the units of rows, does not belong to it.
        """
        cone, free = copy.copy(self), ~self.both
        places = np.cumsum(np.concatenate([np.ones(self.n, dtype=bool), free[self.n :]])) - 1
        cone.rows = self.rows[free[self.n :]]
        cone.size = self.n + cone.rows.size
        cone.at_low, cone.at_high = (places[at[free[at]]] for at in (self.at_low, self.at_high))
        cone.low, cone.high = np.zeros(cone.at_low.size), np.zeros(cone.at_high.size)
        cone.count = cone.low.size + cone.high.size
        cone._width = np.full(cone.size, np.inf)
        cone._least = cone._rounding()
        cone.m, cone._target = equations, np.zeros(equations)
        return cone

    def _rounding(self) -> tuple[Vector, Vector]:
        """Rounding errors of the gaps of lower and of upper sides."""
        return np.finfo(float).eps * np.abs(self.low), np.finfo(float).eps * np.abs(self.high)

    def gaps(self, v: Vector) -> tuple[Vector, Vector]:
        """Distances to the lower and to the upper sides, at least a rounding error of the side where v is on it.

        Rounding may put v there (Waechter and Biegler 2006, section 3.5).
        """
        p, q = v[self.at_low] - self.low, self.high - v[self.at_high]
        low, high = self._least
        return np.where(np.abs(p) < low, low, p), np.where(np.abs(q) < high, high, q)

    def spread(self, low: Any, high: Any) -> Vector:
        """A vector like v with a number for each side added to the entry that the side belongs to."""
        v = np.zeros(self.size)
        v[self.at_low] = low
        v[self.at_high] += high
        return v

    def equations(self, v: Vector, c: Vector) -> Vector:
        """c - s, or c - cl for equations."""
        rows = c - self._target
        rows[self.rows] -= v[self.n :]
        return rows

    @QUIET
    def barrier(self, v: Vector, mu: float) -> float:
        """-mu times the logarithms of all gaps, and the damping; not finite outside."""
        p, q = self.gaps(v)
        logs = float(np.log(p).sum()) + float(np.log(q).sum())
        damped = float(self.damping[self.at_low] @ p) - float(self.damping[self.at_high] @ q)
        return -mu * logs + mu * damped

    def slope(self, p: Vector, q: Vector, mu: float) -> Vector:
        """The gradient of `barrier` for the gaps p and q."""
        return np.asarray(self.spread(-mu / p, mu / q) + mu * self.damping)

    def longest(self, p: Vector, q: Vector, dv: Vector, fraction: float) -> float:
        """The largest step length at most 1 that keeps v inside, up to a fraction of the way to the sides."""
        return min(reach(p, dv[self.at_low], fraction), reach(q, -dv[self.at_high], fraction))

    def sets(self, v: Vector, z: Vector, u: Vector) -> Sets:
        """The active sets: a row or variable is at a side if the multiplier of the side is larger than the distance."""
        p, q = self.gaps(v)
        low, high = np.zeros(self.size, dtype=bool), np.zeros(self.size, dtype=bool)
        low[self.at_low], high[self.at_high] = z > p, u > q
        return active_sets(low, high, self.rows, self.m)


@QUIET
def reach(gap: Vector, change: Vector, fraction: float) -> float:
    """The largest a <= 1 with gap + a change >= (1 - fraction) gap."""
    if not gap.size:
        return 1.0
    steepest = float(np.max(-change / gap))
    return fraction / steepest if steepest > fraction else 1.0
