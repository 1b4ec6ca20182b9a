"""The barrier parameter: how it falls, in the free and in the fixed mode.

In the free mode every step has its own mu, which its predictor allows (`predictor`). In the fixed mode a barrier
problem is solved for one mu after another (Waechter and Biegler 2006). A run begins in the free mode, changes to the
fixed one where that makes no progress or the Hessian needs a shift, and goes back where neither is so.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.filter import Filter
from auglag.interior.large.iterate import Iterate, Residuals
from auglag.kkt.sides import largest


@final
class Mu:
    """The barrier parameter `value`, its mode, and the filter, which holds for one value."""

    def __init__(self, first: float, target: float, known: Filter, *, sides: bool, free: bool) -> None:
        t = tuning.TUNING
        self.target, self.filter = target, known
        self.last = min(t.last_mu, t.last_mu_large * target)  #: at which the last barrier problem is solved
        self.value = first if sides else self.last
        self.may_be_free = free
        self.fixed = not free
        self._free_points: list[tuple[float, float]] = []
        self._least = math.inf  #: error so far, in the free mode

    def choose_mode(self, it: Iterate, residuals: Residuals, lagrangian: Vector, *, shifted: bool) -> None:
        """In the free mode: is there progress? In the fixed mode: on to the next barrier problem, or free again.

        A step whose Hessian had to be `shifted` is not Newton's, and what a predictor promises of it does not come: mu
        would run ahead of all else, and sides make every step short. Then the mode is the fixed one. What is left of an
        earlier shift is no reason: it falls from step to step, and with it what it takes from Newton's steps.
        """
        t = tuning.TUNING
        if self.may_be_free and not shifted and self._progress(it, residuals):
            self.fixed = False
            self._free_points.append((it.at.f, residuals.rows))
            if residuals.worst <= self._solved(it, self.last) and self.last > t.least_mu:
                self.last *= t.last_mu_factor
            return
        if not self.fixed:
            self.fix(t.fixed_mu * residuals.mean)
        while it.residuals(lagrangian, self.value).worst <= self._solved(it, self.value):
            if self.value <= self.last:
                if self.last <= t.least_mu:
                    return
                self.last *= t.last_mu_factor
            self.set(max(self.last, min(t.mu_factor * self.value, self.value**t.mu_power)))

    def fix(self, mu: float) -> None:
        """The fixed mode, with this mu."""
        self.fixed = True
        self.set(max(self.last, mu))

    def set(self, mu: float) -> None:
        """Another barrier problem: its points are compared with each other alone."""
        self.value = mu
        self.filter.clear()

    def _solved(self, it: Iterate, mu: float) -> float:
        """The error up to which a barrier problem counts as solved.

        Not below the target, which the caller does not find met: where gaps and multipliers go to zero together, both
        are about sqrt(mu), and mu has to fall further.
        """
        least = self.target if mu <= self.last else 0.0
        return max(tuning.TUNING.solved_barrier * mu, rounding(it), least)

    def _progress(self, it: Iterate, residuals: Residuals) -> bool:
        """Whether the point is better than every one of the free mode in f or in violation, and, close to a solution,
        its error not much larger than the least so far."""
        t, least = tuning.TUNING, self._least
        self._least = min(least, residuals.worst)
        if least <= t.close and residuals.worst > t.much_worse * least:
            return False
        margin = t.less_violation
        less = margin * min(1.0, residuals.worst)
        return all(
            residuals.rows <= (1.0 - margin) * rows or it.at.f <= f - less * abs(f) or residuals.rows <= self.target
            for f, rows in self._free_points
        )


def rounding(it: Iterate) -> float:
    """What rounding errors make of the residuals."""
    return tuning.TUNING.multiplier_noise * float(np.finfo(float).eps) * max(1.0, largest(it.y))
