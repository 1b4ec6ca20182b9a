"""When a run is over: the target is met, there is no minimum, or nothing more is to be gained."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.large.directions import Equations
from auglag.interior.large.iterate import Iterate, Residuals
from auglag.interior.large.mu import Mu, rounding
from auglag.interior.large.onto_sides import Gaps, OntoSides
from auglag.interior.large.values import Values
from auglag.kkt import Curvature, Memory, Sets
from auglag.kkt.sides import largest
from auglag.problems.standard_form import StandardForm

Seen = Callable[[Vector, Vector, float], bool]


@final
class Ends:
    """The best point so far, and how the error fell."""

    def __init__(self, form: StandardForm, x: Vector, y: Vector, target: float, seen: Seen, *, exact: bool) -> None:
        """`exact`: whether second derivatives are known."""
        self.form, self.target, self.seen, self._exact = form, target, seen, exact
        self._follow = getattr(seen, "step", lambda *point: None)  #: told of every iterate
        self.first = form.error(x, y)
        self.best: tuple[Vector, Vector, float, Sets] = (x, y, self.first, Sets.none(form.n, form.m))
        self.nearest = math.inf  #: the least error so far
        self._next_fall, self._fallen_at = math.inf, 0  #: the error to be reached next, and when it last was
        self.free = False  #: mu is free to fall ahead of the barrier problems
        self.slow = False  #: so it was, and the run ended far from a solution: one in which it is not may do better
        self._finishing = 0
        self._before: Gaps | None = None  #: of the iterate before
        self._tried: tuple[OntoSides, float] | None = None  #: the last steps on sides, and the error before them

    def diverges(self, it: Iterate) -> bool:
        """Whether f or a variable is so large that there is no minimum."""
        far = tuning.TUNING.diverging
        return it.at.f < -far * max(1.0, abs(self.first)) or largest(it.x) > far

    def leaves(self, it: Iterate) -> None:
        """A step from this iterate was taken."""
        self._before = it.gaps

    def note(self, it: Iterate) -> float:
        """The error at this iterate, in the eyes of the caller."""
        error = self.form.error(it.x, it.y)
        if error < self.best[2]:
            self.best = (it.x.copy(), it.y, error, it.sides.sets(it.at.v, it.z, it.u))
        return error

    def done(
        self, it: Iterate, residuals: Residuals, count: int, mu: Mu, onto: tuple[Equations, Curvature, Memory]
    ) -> bool:
        """Whether the target is met in the eyes of the caller, or not much more can be gained, after `count` steps."""
        t = tuning.TUNING
        self._follow(it.x, it.y, residuals.worst)
        self.nearest = min(self.nearest, residuals.worst)
        if residuals.worst <= self._next_fall:
            self._next_fall, self._fallen_at = t.slow_factor * residuals.worst, count
        if count - self._fallen_at > t.slow_steps_large:
            if self._next_fall / t.slow_factor <= t.close:
                return True  # no longer Newton's method: there are no multipliers, as it seems
            if self.free:
                self.slow = True
                return True
        if max(residuals.rows, residuals.sides) > t.worth_a_look * self.target:
            return False  # the dual residual has the multipliers of sides in it, which the caller does not see
        error = self.note(it)
        if error <= self.target and self.seen(it.x, it.y, error):
            return True
        if self._on_sides(it, error, *onto):
            return True
        if not self._rounded(it) and (not self._exact or residuals.worst > max(t.handed_over, rounding(it))):
            return False
        self._finishing += 1
        mu.last = max(t.least_mu, t.last_mu_factor * mu.last)
        return self._finishing > t.finishing_steps

    def _rounded(self, it: Iterate) -> bool:
        """Whether the best error is near the target, and no larger than rounding makes that of the gradient."""
        best = self.best[2]
        return best <= tuning.TUNING.nearly * self.target and best <= it.gradient_rounding()

    def _on_sides(self, it: Iterate, error: float, equations: Equations, curvature: Curvature, memory: Memory) -> bool:
        """Whether Newton steps on the sides that are active, as it seems, lead to a point that meets the target."""
        t, sides = tuning.TUNING, it.sides
        if not self._exact or self._before is None:
            return False
        onto = OntoSides(equations, self._before, it.gaps)
        if self._tried is not None and onto.same(self._tried[0]) and error > t.slow_factor * self._tried[1]:
            return False
        self._tried, at, y = (onto, error), it.at, it.y
        for _ in range(t.steps_on_sides):
            found = onto.step(curvature, memory, at, y)
            if found is None:
                return False
            v, y = found
            x, before = sides.into_box(v[: sides.n]), error
            at, error = Values(sides, v), self.form.error(x, y)
            if error < self.best[2]:
                self.best = (x, y, error, onto.sets())
            if error <= self.target and self.seen(x, y, error):
                return True
            if not error <= t.slow_factor * before:
                return False
        return False
