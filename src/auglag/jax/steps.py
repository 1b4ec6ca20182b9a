"""One inner step for every instance: projected Newton or limited-memory directions, searched, and the acceleration."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp

from auglag.algorithm.status import Status
from auglag.algorithm.stopping import UNBOUNDED_PENALTY
from auglag.jax.directions import free_step
from auglag.jax.rules import Rules
from auglag.jax.state import Options, Pairs, Point, State
from auglag.jax.subproblem import Subproblem
from auglag.jax.vectors import Array, Vector, clip, each, maximum, minimum, norm, staged, total, where

#: Trial steps beside the full one, relative to the current step length.
SHORTER = (1.0, 0.25, 0.05)
#: The full step is made with a penalty at least so many times the subproblem's, and at most this.
STIFFER = 10.0
STIFFEST = 1e6
#: Steps in a row that change the value by rounding only, and step lengths, at which a subproblem counts as stalled.
IDLE = 4
MANY_IDLE = 40  # for limited-memory steps, which gain little at a time
SHORTEST = 1e-10
#: Longest step, relative to max(1, ||x||).
FARTHEST = 10.0
#: A value so far below the first one (relative) is taken as no lower bound.
UNBOUNDED = 1e10


@final
class Steps:
    """The inner steps."""

    def __init__(self, sub: Subproblem, rules: Rules, options: Options, eps: float) -> None:
        self.sub, self.rules, self.options, self.eps = sub, rules, options, eps
        self.patience = MANY_IDLE if options.memory else IDLE

    def newton(self, s: State, p: Point) -> State:
        """A projected Newton step, searched; or the accelerated step where it halves the best residual so far."""
        jac, w = p.jac, p.w
        weights = w if s.sc is None or not self.sub.m else w * s.sc
        sf = jnp.ones_like(s.beta) if s.sf is None else s.sf
        always = s.steps[0] >= 0
        curvature = staged(always, self.sub.evaluation.hessian, s.x, sf, weights)
        cl, cu = self.sub.scaled(s, p.f, p.c)[2:]
        hessian = curvature
        if self.sub.m:
            active = (w > 0.0) | (w < 0.0) | _equal(cl, cu)
            hessian = staged(always, self.sub.evaluation.add_squares, curvature, jac, where(active, s.beta, 0.0))
        free, held = self._held(s.x, p.gradient, p.distance)
        first, shift = staged(always, free_step, hessian, p.gradient, free, held, s.shift)
        first, s = self._capped(first, s.x), s._replace(shift=shift)
        stiff = self._stiff(s, p)
        full = self._capped(staged(always, self._second_look, s, p, curvature, hessian, first, free, held, stiff), s.x)
        return self._searched(s, p, first, full, stiff)

    def _capped(self, step: Vector, x: Vector) -> Vector:
        """The step, shortened to FARTHEST times the size of x: without curvature a Newton step knows no length."""
        zero = jnp.zeros(())
        reach = FARTHEST * maximum(1.0, norm(x, zero))
        size = norm(step, zero)
        return step * where(size > reach, reach / maximum(size, reach), 1.0)

    def _stiff(self, s: State, p: Point) -> Array:
        """The penalty of the full step: large near the solution, where it makes the step Newton's on the KKT system.

        The paper's loop (no acceleration) has only one penalty.
        """
        if not (self.options.accelerate and self.sub.m):
            return s.beta
        largest = self.options.tol / (100.0 * self.eps * self._size(s.x, p.jac))  # beyond it rounding in c spoils y
        wanted = minimum(s.beta * maximum(STIFFER, 1.0 / s.best), STIFFEST)
        return minimum(maximum(s.beta, wanted), maximum(largest, STIFFER))

    def _size(self, x: Vector, jac: Any) -> Array:
        """A bound for the terms that make up c near x."""
        return maximum(1.0, norm(x, 0.0)) * maximum(1.0, self.sub.evaluation.size(jac))

    def _held(self, x: Vector, gradient: Vector, distance: Array) -> tuple[Vector, Vector]:
        """Which variables are not held by a bound that the gradient pushes against; the way there for the others."""
        lower, upper = self.sub.sides.lower, self.sub.sides.upper
        near = minimum(distance, 1e-6)
        at_lower = (x - lower <= near) & (gradient > 0.0)
        at_upper = (upper - x <= near) & (gradient < 0.0)
        free = ~(at_lower | at_upper)
        return free, where(at_lower, lower - x, where(at_upper, upper - x, 0.0 * x))

    def _second_look(
        self, s: State, p: Point, curvature: Any, hessian: Any, first: Vector, free: Vector, held: Vector,
        stiff: Array,
    ) -> Vector:  # fmt: skip
        """The step with the bounds and rows taken as they are at the end of the first one, not at its start."""
        lower, upper = self.sub.sides.lower, self.sub.sides.upper
        end = s.x + first
        below, above = end < lower, end > upper
        stay = free & ~(below | above)
        reach = where(below, lower - s.x, where(above, upper - s.x, held))
        if not self.sub.m:
            return free_step(hessian, p.gradient, stay, reach, s.shift)[0]
        cl, cu = self.sub.scaled(s, p.f, p.c)[2:]
        ahead = self.sub.evaluation.product(p.jac, clip(end, lower, upper) - s.x)
        over, under = s.y + (p.c - cu) * s.beta, s.y + (p.c - cl) * s.beta
        equal = _equal(cl, cu)
        is_over = (over + ahead * s.beta > 0.0) & ~equal
        is_under = (under + ahead * s.beta < 0.0) & ~equal
        over, under = s.y + (p.c - cu) * stiff, s.y + (p.c - cl) * stiff
        weights = where(equal, under, where(is_over, over, where(is_under, under, 0.0 * s.beta)))
        gradient = p.g + self.sub.evaluation.transposed(p.jac, weights)
        held_rows = where(equal | is_over | is_under, stiff, 0.0)
        hessian = self.sub.evaluation.add_squares(curvature, p.jac, held_rows)
        return free_step(hessian, gradient, stay, reach, s.shift)[0]

    def _searched(self, s: State, p: Point, direction: Vector, full: Vector, stiff: Array) -> State:
        """The first of four trial points with sufficient decrease; the accelerated point goes before them all."""
        lower, upper = self.sub.sides.lower, self.sub.sides.upper
        value = p.f + (self.sub.penalty_terms(p.w, s.y, s.beta) if self.sub.m else 0.0)
        noise = 5.0 * self.eps * maximum(1.0, abs(value))
        floor = -UNBOUNDED * s.level
        trials = [clip(s.x + full, lower, upper)]
        trials += [clip(s.x + direction * (t * s.length), lower, upper) for t in SHORTER]
        x, best, taken, number = s.x, value, value > jnp.inf, jnp.zeros_like(s.k)
        endless = taken
        first_c = p.c
        for i, trial in enumerate(trials):
            there, c = staged(s.steps[0] >= 0, self.sub.phi, s, s.y, s.beta, trial)
            if i == 0:
                first_c = c
            slope = total(p.gradient * (trial - s.x), 0.0 * s.beta)
            if i == 0:  # it has to do as well as the other direction promises: a step that leads nowhere does not
                slope = minimum(slope, total(p.gradient * direction, 0.0 * s.beta))
            low = there < floor
            endless = endless | low
            good = ~low & (there <= value + minimum(1e-4 * slope, 0.0) + noise) & ~taken
            x, best = where(good, trial, x), where(good, there, best)
            number, taken = where(good, i, number), taken | good
        next_length = where(number <= 1, 4.0 * s.length, where(number == 2, s.length, 0.25 * s.length))
        length = where(taken, minimum(1.0, next_length), 0.02 * s.length)
        quiet = taken & (value - best <= noise)
        idle = where(quiet, s.idle + 1, where(taken, 0, s.idle))
        idle = where(~taken & (length < SHORTEST), self.patience, idle)
        new = s._replace(x=x, length=length, idle=idle)
        new = self._without_floor(s, new, endless & ~taken)
        if not (self.options.accelerate and not self.options.memory):
            return new
        taken_or_better: State = staged(s.steps[0] >= 0, self._accelerated, s, p, trials[0], first_c, new, stiff)
        return taken_or_better

    def _without_floor(self, s: State, new: State, endless: Array) -> State:
        """A subproblem with no lower bound: x and y stay and beta grows; UNBOUNDED if no penalty helps."""
        beta = max(self.rules.gamma, 10.0) * s.beta
        over = (beta > UNBOUNDED_PENALTY) if self.sub.m else (beta == beta)
        return new._replace(
            x=where(endless, s.x, new.x),
            beta=where(endless, beta, new.beta),
            eta=where(endless, self.rules.eta(s.k, beta, self.sub.target(s)), new.eta),
            length=where(endless, 1.0, new.length),
            status=where(endless & over, int(Status.UNBOUNDED), new.status),
        )

    def _accelerated(self, s: State, p: Point, x: Vector, c: Vector, new: State, stiff: Array) -> State:
        """The Newton step on the KKT system, which the subproblem's own step contains: x + d and yhat(x + d) to first
        order. Taken if its residual is at most half the smallest so far.
        """
        zero = 0.0 * s.beta
        y, violation = s.y, zero
        if self.sub.m:
            cl, cu = self.sub.scaled(s, p.f, p.c)[2:]
            linear = p.c + self.sub.evaluation.product(p.jac, x - s.x)
            y = self.rules.project(self.sub.estimate(linear, cl, cu, s.y, stiff), s.k)
            violation = self.sub.user_norm(s, self.sub.constraint(c, cl, cu, y, c - clip(c, cl, cu)))
        sf = jnp.ones_like(s.beta) if s.sf is None else s.sf
        gradient = self.sub.evaluation.gradient(x, sf, y if s.sc is None or not self.sub.m else y * s.sc)
        residual = norm(self.sub.projected(x, gradient), zero) / sf + violation
        better = residual <= 0.5 * s.best
        solved = better & (residual <= self.options.tol)
        return new._replace(
            x=where(better, x, new.x),
            y=where(better, y, new.y) if self.sub.m else new.y,
            beta=where(better, s.beta, new.beta),
            eta=where(better, s.eta, new.eta),
            best=where(better, residual, new.best),
            length=where(better, 1.0, new.length),
            idle=where(better, 0, new.idle),
            status=where(solved, int(Status.SOLVED), where(better, s.status, new.status)),
        )

    def limited_memory(self, s: State, p: Point) -> State:
        """A projected limited-memory step on the free variables."""
        pairs = s.pairs
        assert pairs is not None
        step, change = s.x - pairs.x, p.gradient - pairs.gradient
        curved = jnp.sum(step * change, axis=0)
        use = pairs.fresh & (curved > self.eps * jnp.sum(change * change, axis=0))
        rho = where(use, 1.0 / where(use, curved, 1.0), 0.0)

        def appended(old: Array, new: Array) -> Array:
            return where(use, jnp.concatenate([old[1:], new[None]]), old)

        pairs = Pairs(appended(pairs.s, step), appended(pairs.t, change), appended(pairs.rho, rho), s.x, p.gradient,
                      jnp.ones_like(pairs.fresh))  # fmt: skip
        free, _ = self._held(s.x, p.gradient, p.distance)
        direction = _two_loops(pairs, where(free, p.gradient, 0.0), free)
        downhill = jnp.sum(direction * p.gradient, axis=0) < 0.0
        steepest = where(free, -p.gradient, 0.0) / maximum(1.0, p.distance)
        direction = where(downhill, direction, steepest)
        return self._searched(s._replace(pairs=pairs), p, direction, direction, s.beta)


def _two_loops(pairs: Pairs, gradient: Array, free: Array) -> Array:
    """-H g restricted to the free variables, H the limited-memory inverse of the pairs."""
    memory = pairs.rho.shape[0]
    q = gradient
    weights = []
    for i in reversed(range(memory)):
        a = pairs.rho[i] * jnp.sum(where(free, pairs.s[i], 0.0) * q, axis=0)
        q = q - a * where(free, pairs.t[i], 0.0)
        weights.append(a)
    newest = jnp.sum(pairs.t[-1] * pairs.t[-1], axis=0) * pairs.rho[-1]
    none = pairs.rho[-1] == 0.0
    start = maximum(1.0, jnp.sqrt(jnp.sum(gradient * gradient, axis=0)))
    q = q / where(none, start, where(newest > 0.0, newest, 1.0))
    for i, a in zip(range(memory), reversed(weights), strict=True):
        b = pairs.rho[i] * jnp.sum(where(free, pairs.t[i], 0.0) * q, axis=0)
        q = q + (a - b) * where(free, pairs.s[i], 0.0)
    return -where(free, q, 0.0)


def _equal(a: Vector, b: Vector) -> Vector:
    return each(jnp.equal, a, b)
