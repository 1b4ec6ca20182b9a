"""The interior-point loop: Newton steps on barrier problems with a falling parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.errors import require_positive
from auglag.inner.qp import curvature_for
from auglag.interior.filter import Filter
from auglag.interior.newton import Systems
from auglag.interior.restoration import restored
from auglag.interior.search import Search
from auglag.interior.space import Iterate, Space, largest, reach
from auglag.kkt import Memory, Sets
from auglag.problems.standard_form import StandardForm

#: A barrier problem is solved to this multiple of mu; mu then falls by this factor, or to this power if less.
ENOUGH, FALL, POWER = 10.0, 0.2, 1.5
#: The first parameter, and the distance kept from the sides at the start.
FIRST_MU, PUSH = 0.1, 1e-2
#: The last parameter there may be, where the error asks for it.
LEAST = 1e-15
#: Steps without a smaller error, once mu is at its end.
IDLE = 8
#: So close to a solution Newton's method does not take so many steps for a digit, unless there are no multipliers.
CLOSE, CREEPING = 1e-3, 40
#: Objectives below this multiple of the first one, and variables beyond it, mean that there is no end.
FAR = 1e15


@final
@dataclass(frozen=True, slots=True)
class Arrival:
    """The best point of one run."""

    x: Vector
    y: Vector
    error: float  #: `StandardForm.error` there
    sets: Sets  #: the sides that hold rows and variables, as far as can be told from inside
    steps: int


@final
@dataclass(frozen=True, slots=True)
class Barrier:
    """Newton's method on barrier problems, with a filter line search.

    It needs Hessians, bounds or rows of any kind, and one factorisation of the KKT matrix a step. Where its line search
    fails, and the constraints cannot be restored either, it ends with the best point, and Algorithm 1 goes on.
    """

    steps: int = 300

    def __post_init__(self) -> None:
        require_positive(self.steps, "Barrier.steps")

    def run(
        self,
        form: StandardForm,
        memory: Memory,
        x: Vector,
        y: Vector,
        *,
        target: float,
        seen: Callable[[Vector, Vector, float], bool],
    ) -> Arrival:
        """Steps from (x, y) until the error is at most `target` and `seen` agrees, or there is no step."""
        walk = _Walk(form, memory, x, y, target, seen)
        while walk.count < self.steps and walk.step():
            pass
        return Arrival(*walk.best, walk.count)


@final
class _Walk:
    """The state of one run."""

    def __init__(
        self,
        form: StandardForm,
        memory: Memory,
        x: Vector,
        y: Vector,
        target: float,
        seen: Callable[[Vector, Vector, float], bool],
    ) -> None:
        self.form, self.memory, self.target, self.seen = form, memory, target, seen
        self.space = space = Space(form)
        self.curvature = curvature_for(form.traits)
        self.systems = Systems(space, memory.layout)
        self.first = form.error(x, y)
        self.best = (x, y, self.first, Sets.none(space.n, space.m))
        self.count = self.idle = self.tiny = 0
        warm = bool(y.any()) and self.first < FIRST_MU
        self.mu = min(FIRST_MU, max(0.1 * self.first, 1e-8)) if warm else FIRST_MU
        self.least = min(1e-8, 0.1 * target)
        self.marked = (0, np.inf)  #: when the best error had fallen to a tenth, and a tenth of it
        self.it = space.start(x, y, self.mu if warm else 1.0, min(PUSH, self.mu))
        point = form.at(self.it.v[: space.n])
        if not warm:
            j = self.curvature.jacobian(point)
            self.it = Iterate(self.it.v, self.systems.least_squares(self.it, point.grad, j), self.it.z, self.it.u)
        self.f_first = abs(float(point.f))
        theta = float(np.abs(space.primal(self.it.v)).sum())
        self.filter = Filter(1e4 * max(1.0, theta))

    def step(self) -> bool:
        """One step; False where the walk is over."""
        space, it = self.space, self.it
        x = it.v[: space.n]
        point = self.form.at(x)
        gradient = point.lagrangian_gradient(it.y)
        dual, primal = space.dual(it, gradient), space.primal(it.v)
        if not (np.isfinite(dual).all() and np.isfinite(primal).all()) or self._far(point.f, x):
            return False
        if self._done(x, it.y) or not self._lower_mu(dual, primal):
            return False
        self.count += 1
        j = self.curvature.jacobian(point)
        h = self.curvature.hessian(point, x, it.y, self.memory)
        central = space.barrier_slope(it.v, point.grad, self.mu)
        central[: space.n] += gradient - point.grad
        central[space.n :] -= it.y[space.rows]
        made = self.systems.newton(it, h, j, self.mu, (central, primal)) if h.finite() else None
        if made is None:
            return False
        newton, direction = made
        if not np.isfinite(direction.v).all():
            return False
        fraction = max(0.99, 1.0 - self.mu)
        if largest(direction.v / np.maximum(1.0, np.abs(it.v))) < 1e-14:
            self.tiny += 1
            self.mu = max(self.least, FALL * self.mu)
            return self.tiny < 3
        search = Search(space, it, self.filter, self.mu, point.grad, primal)
        found = search.run(newton, direction, central, fraction)
        if found is None:
            return self._restore(search)
        search.closes(found, float(np.abs(space.primal(found.v)).sum()), space.barrier(found.v, self.mu))
        d = found.direction
        a = min(reach(it.z, d.z, space.has_low, fraction), reach(it.u, d.u, space.has_high, fraction))
        new = Iterate(found.v, it.y + found.length * d.y, it.z + a * d.z, it.u + a * d.u)
        self.it = space.safeguarded(new, self.mu)
        return True

    def _far(self, f: float, x: Vector) -> bool:
        return f < -FAR * max(1.0, self.f_first) or largest(x) > FAR

    def _done(self, x: Vector, y: Vector) -> bool:
        """Whether the target is met, or little has improved for long."""
        error = self.form.error(x, y)
        if error < self.best[2]:
            self.idle = 0 if error < 0.9 * self.best[2] else self.idle
            self.best = (x.copy(), y, error, self.space.sets(self.it))
        self.idle += 1
        if self.best[2] <= self.marked[1]:
            self.marked = (self.count, 0.1 * self.best[2])
        if self.seen(x, y, error) and error <= self.target:
            return True
        if self.best[2] <= CLOSE and self.count - self.marked[0] > CREEPING:
            return True
        return self.mu <= self.least and self.idle > IDLE

    def _lower_mu(self, dual: Vector, primal: Vector) -> bool:
        """On to the barrier problem that the iterate does not solve well enough; False if it solves the last one."""
        while self.space.error(self.it, dual, primal, self.mu) <= ENOUGH * self.mu:
            if self.mu <= self.least:
                if self.best[2] <= self.target or self.least <= LEAST:
                    return False
                self.least *= 0.1  # multipliers are large, and the barrier problem's residuals were scaled by them
            self.mu = max(self.least, min(FALL * self.mu, self.mu**POWER))
            self.filter.clear()
        return True

    def _restore(self, search: Search) -> bool:
        self.filter.add(search.theta, search.phi)
        if search.theta <= 1e-2 * self.target or not self.space.m:
            return False
        found = restored(self.space, self.it, self.filter, self.curvature, self.mu)
        if found is None:
            return False
        point = self.form.at(found.v[: self.space.n])
        z, u = np.minimum(found.z, 1e3), np.minimum(found.u, 1e3)
        found = Iterate(found.v, found.y, z, u)
        y = self.systems.least_squares(found, point.grad, self.curvature.jacobian(point))
        self.it = self.space.safeguarded(Iterate(found.v, y, z, u), self.mu)
        return True
