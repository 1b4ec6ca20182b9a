"""The interior-point loop: Newton steps on barrier problems with a falling parameter mu.

After Waechter and Biegler (2006), "On the implementation of an interior-point filter line-search algorithm for
large-scale nonlinear programming", Mathematical Programming 106; the numbers are in `tuning`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.errors import require_positive
from auglag.inner.qp import curvature_for
from auglag.interior import tuning
from auglag.interior.filter import Filter
from auglag.interior.large import Large
from auglag.interior.large.rays import Ray
from auglag.interior.newton import Systems
from auglag.interior.restoration import restore
from auglag.interior.search import Search
from auglag.interior.space import Iterate, Space
from auglag.kkt import Memory, Sets
from auglag.kkt.sides import largest, reach
from auglag.problems.standard_form import StandardForm

Seen = Callable[[Vector, Vector, float], bool]


@final
@dataclass(frozen=True, slots=True)
class Arrival:
    """The best point of one run."""

    x: Vector
    y: Vector
    error: float  #: `StandardForm.error` there
    sets: Sets  #: the sides at which rows and variables are, as far as can be told from inside
    steps: int
    #: A stationary point of the violation at which the run ended: it is in doubt whether there is a feasible point.
    blocked: Vector | None = None
    work: int = 0  #: factorisations, on large problems
    proved: bool = False  #: and multipliers of rows with constant derivatives prove that there is none
    ray: Ray | None = None  #: along which the objective falls without end, if derivatives are as constant as they seem
    slow: bool = False  #: there was hardly any progress, with a free mu: a run in which it is not may do better


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
        self, form: StandardForm, memory: Memory, x: Vector, y: Vector, *, target: float, seen: Seen, safe: bool = False
    ) -> Arrival:
        """Steps from (x, y) until the error is at most `target` and `seen` agrees, or there is no step.

        `seen(x, y, error)` is called with every iterate, and says whether it is good enough in the caller's eyes.
        `safe`: one barrier problem is solved after another.
        """
        curvature = curvature_for(form.traits)
        if not curvature.dense and (curvature.exact or form.n > tuning.TUNING.largest_rank_one):
            begun = memory.layout.factorisations
            large = Large(form, memory, x, y, target, seen, safe=safe)
            try:
                while large.count < self.steps and large.step():
                    pass
            except BaseException:  # a limit, or Ctrl-C: the last iterate may be the best point of the run
                large.show()
                raise
            work = memory.layout.factorisations - begun
            return Arrival(*large.arrival(), large.count, large.blocked, work, large.proved, large.ray, large.ends.slow)
        run = _Run(form, memory, x, y, target, seen)
        while run.count < self.steps and run.step():
            pass
        return Arrival(*run.best, run.count)


@final
class _Run:
    """The state of one run."""

    def __init__(self, form: StandardForm, memory: Memory, x: Vector, y: Vector, target: float, seen: Seen) -> None:
        self.form, self.memory, self.target, self.seen = form, memory, target, seen
        self.space = space = Space(form)
        self.curvature = curvature_for(form.traits)
        self.systems = Systems(space, memory.layout)
        self.first = form.error(x, y)
        self.best = (x, y, self.first, Sets.none(space.n, space.m))
        self.tuning = t = tuning.TUNING
        self.count = self.idle = self.tiny = 0
        warm = bool(y.any()) and self.first < t.first_mu  # near a solution, with multipliers
        self.mu = min(t.first_mu, max(t.warm_mu * self.first, t.least_first_mu)) if warm else t.first_mu
        self.last_mu = min(t.last_mu, t.last_mu_target * target)
        self.fallen_at, self.next_fall = 0, np.inf  #: the step at which the best error last fell by a factor; its aim
        self.it = space.start(x, y, self.mu if warm else t.first_side_multiplier, min(t.push, self.mu))
        point = form.at(self.it.v[: space.n])
        if not warm:
            j = self.curvature.jacobian(point)
            self.it = Iterate(self.it.v, self.systems.least_squares(self.it, point.grad, j), self.it.z, self.it.u)
        self.f_first = abs(float(point.f))
        theta = float(np.abs(space.primal(self.it.v)).sum())
        self.filter = Filter(t.largest_violation * max(1.0, theta))

    def step(self) -> bool:
        """One step; False where the run is over."""
        space, it, t = self.space, self.it, self.tuning
        x = it.v[: space.n]
        point = self.form.at(x)
        gradient = point.lagrangian_gradient(it.y)
        dual, primal = space.dual(it, gradient), space.primal(it.v)
        if not (np.isfinite(dual).all() and np.isfinite(primal).all()) or self._diverges(point.f, x):
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
        fraction = max(t.to_sides, 1.0 - self.mu)
        if largest(direction.v / np.maximum(1.0, np.abs(it.v))) < t.tiny:
            self.tiny += 1
            self.mu = max(self.last_mu, t.mu_factor * self.mu)
            return self.tiny < t.tiny_steps
        search = Search(space, it, self.filter, self.mu, point.grad, primal)
        found = search.run(newton, direction, central, fraction)
        if found is None:
            return self._restore(search)
        search.update_filter(found, space.barrier(found.v, self.mu))
        d = found.direction
        a = min(reach(it.z, d.z, space.has_low, fraction), reach(it.u, d.u, space.has_high, fraction))
        new = Iterate(found.v, it.y + found.length * d.y, it.z + a * d.z, it.u + a * d.u)
        self.it = space.safeguarded(new, self.mu)
        return True

    def _diverges(self, f: float, x: Vector) -> bool:
        far = self.tuning.diverging
        return f < -far * max(1.0, self.f_first) or largest(x) > far

    def _done(self, x: Vector, y: Vector) -> bool:
        """Whether the target is met, or little has improved for long."""
        error, t = self.form.error(x, y), self.tuning
        if error < self.best[2]:
            self.idle = 0 if error < t.idle_less * self.best[2] else self.idle
            self.best = (x.copy(), y, error, self.space.sets(self.it))
        self.idle += 1
        if self.best[2] <= self.next_fall:
            self.fallen_at, self.next_fall = self.count, t.slow_factor * self.best[2]
        if self.seen(x, y, error) and error <= self.target:
            return True
        if self.best[2] <= t.close and self.count - self.fallen_at > t.slow_steps:
            return True
        return self.mu <= self.last_mu and self.idle > t.idle_steps

    def _lower_mu(self, dual: Vector, primal: Vector) -> bool:
        """On to the barrier problem that the iterate does not solve well enough; False if it solves the last one."""
        t = self.tuning
        while self.space.error(self.it, dual, primal, self.mu) <= t.solved_barrier * self.mu:
            if self.mu <= self.last_mu:
                if self.best[2] <= self.target or self.last_mu <= t.least_mu:
                    return False
                self.last_mu *= t.last_mu_factor  # multipliers are large, and scaled the barrier problem's residuals
            self.mu = max(self.last_mu, min(t.mu_factor * self.mu, self.mu**t.mu_power))
            self.filter.clear()
        return True

    def _restore(self, search: Search) -> bool:
        """On from a point that is less violated, where the line search found no step; False if there is none."""
        self.filter.add(search.theta, search.phi)
        if search.theta <= self.tuning.restore_above * self.target or not self.space.m:
            return False
        found = restore(self.space, self.it, self.filter, self.curvature, self.mu)
        if found is None:
            return False
        point = self.form.at(found.v[: self.space.n])
        limit = self.tuning.largest_side_multiplier
        z, u = np.minimum(found.z, limit), np.minimum(found.u, limit)
        found = Iterate(found.v, found.y, z, u)
        y = self.systems.least_squares(found, point.grad, self.curvature.jacobian(point))
        self.it = self.space.safeguarded(Iterate(found.v, y, z, u), self.mu)
        return True
