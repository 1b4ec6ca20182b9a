"""One inner step for every instance: projected Newton or limited-memory directions, searched, and the acceleration."""

from __future__ import annotations

from typing import Any, final

import jax
import jax.numpy as jnp

from auglag.algorithm import formulas
from auglag.algorithm.status import Status
from auglag.inner import tuning as inner_tuning
from auglag.jax.directions import free_step
from auglag.jax.quadratic import Model, is_convex, solved
from auglag.jax.rules import Rules
from auglag.jax.state import RUNNING, Options, Pairs, Point, State
from auglag.jax.subproblem import Subproblem
from auglag.jax.tuning import TUNING
from auglag.jax.vectors import Array, Rows, Vector, clip, equal, maximum, minimum, norm, select, staged, total, where


@final
class Steps:
    """The inner steps."""

    def __init__(self, sub: Subproblem, rules: Rules, options: Options, eps: float) -> None:
        self.sub, self.rules, self.options, self.eps = sub, rules, options, eps
        self.patience = TUNING.idle_memory if options.memory else TUNING.idle_newton

    def newton(self, s: State, p: Point) -> State:
        """A projected Newton step, searched; or the accelerated step where it halves the best residual so far."""
        jac, w = p.jac, p.w
        always = s.steps[0] >= 0
        modelled = self.options.accelerate and self.sub.m and not isinstance(s.x, Rows)
        sf, weights = _user_weights(s, w)
        if modelled:
            outside = self.sub.excess(s, p.c)
            violated = self.sub.user_norm(s, outside) > self.options.tol
            restoring = self._lags(s) & violated & (2 * s.vain >= formulas.VAIN_INCREASES)
            excess = _user_weights(s, outside * TUNING.model_penalty)[1]
            sf, weights = where(restoring, 0.0, sf), where(restoring, excess, weights)
        curvature = staged(always, self.sub.evaluation.hessian, s.x, sf, weights)
        hessian = curvature
        if self.sub.m:
            active = (w > 0.0) | (w < 0.0) | equal(*self.sub.own_sides(s))
            hessian = staged(always, self.sub.evaluation.add_squares, curvature, jac, where(active, s.beta, 0.0))
        free, held = self._held(s.x, p.gradient, p.distance)
        first, shift = staged(always, free_step, hessian, p.gradient, free, held, s.shift)
        first, s = self._capped(first, s.x), s._replace(shift=shift)
        stiff = self._stiff(s, p)
        full = self._capped(staged(always, self._second_look, s, p, curvature, hessian, first, free, held, stiff), s.x)
        if not modelled:
            return self._searched(s, p, first, full, stiff)
        full, y, used, convex = self._modelled(s, p, curvature, full, stiff, restoring)
        s = self._judged(s, p, full, used)
        restores = restoring & used
        y = where(restores, s.y, y)
        # The step of a convex model descends in the subproblem of its multipliers, also a part of it.
        own = s._replace(y=where(convex, y, s.y))
        model = (y, used, convex, s.y, restores)
        return self._searched(own, self.sub.with_multipliers(own, p), where(convex, full, first), full, stiff, model)

    def _lags(self, s: State) -> Array:
        """Where the quadratic model is called for."""
        few = s.lag < TUNING.lagging + TUNING.model_patience
        return (s.lag >= TUNING.lagging) & few & (s.status == RUNNING)

    def _modelled(
        self, s: State, p: Point, curvature: Any, full: Vector, stiff: Array, restoring: Array
    ) -> tuple[Vector, Vector, Array, Array]:
        """The full step and its multipliers, by the quadratic model with all bounds where others lag; where so, and
        where the model is convex.

        Where the last step of the model found no way to reduce the violation, this one leaves the objective out.
        """
        y = self.sub.estimate(s, p.c + self.sub.evaluation.product(p.jac, full), stiff)
        lags = self._lags(s)

        def solve() -> tuple[Vector, Vector, Array, Array]:
            batch, (cl, cu) = s.beta.shape[-1], self.sub.own_sides(s)
            low = jnp.concatenate([self.sub.sides.lower - s.x, jnp.broadcast_to(cl, (self.sub.m, batch))])
            high = jnp.concatenate([self.sub.sides.upper - s.x, jnp.broadcast_to(cu, (self.sub.m, batch))])
            beta = TUNING.model_penalty * where((s.vain > 0) & ~restoring, TUNING.model_firmer, 1.0 + 0.0 * s.beta)
            g, before = where(restoring, 0.0, p.g), where(restoring, 0.0, s.y)
            d, multipliers, good = solved(Model(curvature, g, p.jac, p.c, before, beta, low, high))
            good = good & lags
            y_good = where(good, self.rules.project(multipliers, s.k), y)
            return where(good, d, full), y_good, good, good & is_convex(curvature)

        found: tuple[Vector, Vector, Array, Array]
        found = jax.lax.cond(jnp.any(lags), solve, lambda: (full, y, jnp.zeros_like(lags), jnp.zeros_like(lags)))
        return found

    def _judged(self, s: State, p: Point, d: Vector, used: Array) -> State:
        """What steps of the model say of the rows: `vain` counts those in a row that leave most of the violation of the
        linear rows, so that the next one is firmer, and those after it leave the objective out. INFEASIBLE after some
        that change nothing where the violation is stationary; without the model where it is within the tolerance.
        """
        zero = 0.0 * s.beta
        excess = self.sub.excess(s, p.c)
        ahead = self.sub.excess(s, p.c + self.sub.evaluation.product(p.jac, d))
        # The model holds its rows as far as they can be held: no multiple of tol has to stand for doubt.
        violated = self.sub.user_norm(s, excess) > self.options.tol
        before, left = norm(excess, zero), norm(ahead, zero)
        little = self.sub.user_norm(s, ahead) <= TUNING.model_poor * self.options.tol
        poor = used & ~little & (left > TUNING.model_poor * before)
        # Rows that once needed a firmer model go on to need it.
        count = where(used, where(poor, s.vain + 1, minimum(s.vain, 1)), s.vain)
        vain = poor & violated & formulas.hardly_less(left, before)
        lost = vain & (count >= formulas.VAIN_INCREASES) & self.sub.stationary(s, p)
        enough = poor & ~violated & (s.vain > 0)
        lag = where(enough, TUNING.lagging + TUNING.model_patience, s.lag)
        return s._replace(vain=count, lag=lag, status=where(lost, int(Status.INFEASIBLE), s.status))

    def _capped(self, step: Vector, x: Vector) -> Vector:
        """The step, shortened to what is allowed for the size of x."""
        zero = jnp.zeros(())
        reach = TUNING.farthest * maximum(1.0, norm(x, zero))
        size = norm(step, zero)
        return step * where(size > reach, reach / maximum(size, reach), 1.0)

    def _stiff(self, s: State, p: Point) -> Array:
        """The penalty of the full step: large near the solution, where it makes the step Newton's on the KKT system.

        The paper's loop (no acceleration) has only one penalty.
        """
        if not (self.options.accelerate and self.sub.m):
            return s.beta
        largest = self.options.tol / (
            TUNING.rounding * self.eps * self._size(s.x, p.jac)
        )  # beyond it rounding in c spoils y
        wanted = minimum(s.beta * maximum(TUNING.stiffer, 1.0 / s.best), TUNING.stiffest)
        return minimum(maximum(s.beta, wanted), maximum(largest, TUNING.stiffer))

    def _size(self, x: Vector, jac: Any) -> Array:
        """A bound for the terms that make up c near x."""
        return maximum(1.0, norm(x, 0.0)) * maximum(1.0, self.sub.evaluation.size(jac))

    def _held(self, x: Vector, gradient: Vector, distance: Array) -> tuple[Vector, Vector]:
        """Which variables are not held by a bound that the gradient pushes against; the way there for the others."""
        lower, upper = self.sub.sides.lower, self.sub.sides.upper
        near = minimum(distance, TUNING.near_bound)
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
        cl, cu = self.sub.own_sides(s)
        ahead = self.sub.evaluation.product(p.jac, clip(end, lower, upper) - s.x)
        over, under = (formulas.shifted(s.y, s.beta, p.c - side) for side in (cu, cl))
        both = equal(cl, cu)
        is_over = (over + ahead * s.beta > 0.0) & ~both
        is_under = (under + ahead * s.beta < 0.0) & ~both
        over, under = (formulas.shifted(s.y, stiff, p.c - side) for side in (cu, cl))
        weights = where(both, under, where(is_over, over, where(is_under, under, 0.0 * s.beta)))
        gradient = p.g + self.sub.evaluation.transposed(p.jac, weights)
        held_rows = where(both | is_over | is_under, stiff, 0.0)
        hessian = self.sub.evaluation.add_squares(curvature, p.jac, held_rows)
        return free_step(hessian, gradient, stay, reach, s.shift)[0]

    def _searched(self, s: State, p: Point, direction: Vector, full: Vector, stiff: Array, model: Any = None) -> State:
        """The first of four trial points with sufficient decrease; the accelerated point goes before them all.

        `model`: the multipliers of the full step, where it is the quadratic model's, where that is convex, the
        multipliers before, and where it restores.
        """
        lower, upper = self.sub.sides.lower, self.sub.sides.upper
        value = self.sub.value(s, p.f, p.w)
        noise = TUNING.noise * self.eps * maximum(1.0, abs(value))
        floor = -inner_tuning.TUNING.unbounded * s.level
        accelerated = clip(s.x + full, lower, upper)
        promised = total(p.gradient * direction, 0.0 * s.beta)
        lengths = jnp.array([0.0, *TUNING.trial_lengths], s.beta.dtype)

        def tried(i: Any, carry: Any) -> Any:  # a loop, so that the functions are compiled once
            x, best, taken, number, endless, first_c = carry
            trial = where(i == 0, accelerated, clip(s.x + direction * (lengths[i] * s.length), lower, upper))
            there, c = staged(s.steps[0] >= 0, self.sub.phi, s, trial)
            slope = total(p.gradient * (trial - s.x), 0.0 * s.beta)
            # The first has to do as well as the other direction promises: a step that leads nowhere does not.
            slope = where(i == 0, minimum(slope, promised), slope)
            low = there < floor
            good = ~low & (there <= value + minimum(TUNING.sufficient_decrease * slope, 0.0) + noise) & ~taken
            x, best = where(good, trial, x), where(good, there, best)
            return (
                x,
                best,
                taken | good,
                where(good, i.astype(number.dtype), number),
                endless | low,
                where(i == 0, c, first_c),
            )

        none = value > jnp.inf
        start = (s.x, value, none, jnp.zeros_like(s.k), none, p.c)
        x, best, taken, number, endless, first_c = jax.lax.fori_loop(0, len(lengths), tried, start)
        shorter = where(number == 2, s.length, TUNING.shorten * s.length)
        next_length = where(number <= 1, TUNING.lengthen * s.length, shorter)
        length = where(taken, minimum(1.0, next_length), TUNING.retreat * s.length)
        quiet = taken & (value - best <= noise)
        idle = where(quiet, s.idle + 1, where(taken, 0, s.idle))
        idle = where(~taken & (length < TUNING.shortest), self.patience, idle)
        new = s._replace(x=x, length=length, idle=idle)
        if model is not None:
            _, _, convex, before, _ = model
            new = new._replace(y=where(convex & ~taken, before, new.y), start=where(convex & taken, x, new.start))
        new = self._failed(s, new, endless & ~taken)
        if not self.options.accelerate or self.options.memory:
            return new
        better: State = staged(s.steps[0] >= 0, self._accelerated, s, p, accelerated, first_c, new, stiff, model)
        return better

    def _failed(self, s: State, new: State, endless: Array) -> State:
        """A subproblem without a lower bound: x and y stay and beta grows; UNBOUNDED if no penalty helps."""
        if not self.sub.m:
            return new._replace(status=where(endless, int(Status.UNBOUNDED), new.status))
        beta, k = self.rules.failure_factor * s.beta, s.k + 1
        hopeless = endless & (s.beta >= formulas.UNBOUNDED_PENALTY)
        status = where(endless & (k > self.options.max_outer), int(Status.ITERATION_LIMIT), new.status)
        unknown = jnp.full_like(s.beta, jnp.nan)
        return new._replace(
            x=where(hopeless, s.x, where(endless, s.start, new.x)),
            beta=where(endless, beta, new.beta),
            eta=where(endless, self.rules.eta(k, beta, self.sub.target(s)), new.eta),
            length=where(endless, 1.0, new.length),
            k=where(endless, minimum(k, self.options.max_outer), new.k),
            idle=where(endless, 0, new.idle),
            status=where(hopeless, int(Status.UNBOUNDED), status),
            pairs=None if new.pairs is None else new.pairs.without(endless),
            record=s._replace(x=s.start).recorded(endless, unknown, unknown, s.y),
        )

    def _accelerated(self, s: State, p: Point, x: Vector, c: Vector, new: State, stiff: Array, model: Any) -> State:
        """The Newton step on the KKT system, which the subproblem's own step contains: x + d and yhat(x + d) to first
        order. Taken if it improves the smallest residual so far enough, instead of `new`.
        """
        zero = 0.0 * s.beta
        y, violation = s.y, zero
        if self.sub.m:
            linear = p.c + self.sub.evaluation.product(p.jac, x - s.x)
            y = self.rules.project(self.sub.estimate(s, linear, stiff) if model is None else model[0], s.k)
            violation = self.sub.user_norm(s, self.sub.remainder(s, c, y, self.sub.excess(s, c)))
        gradient = self.sub.evaluation.gradient(x, *_user_weights(s, y))
        residual = self.sub.residual(s, norm(self.sub.projected(x, gradient), zero), violation)
        better = residual <= TUNING.improvement * s.best
        progress = better
        if model is not None:  # restoration: less violation is all that counts
            there, here = (norm(self.sub.excess(s, at), zero) for at in (c, p.c))
            _, used, convex, _, restores = model
            better = better | where(restores, there <= here, used & ~convex & self._descends(s, p, x, y))
        done = better & (residual <= self.options.tol)
        accepted = new._replace(
            x=where(better, x, new.x),
            y=where(better, y, new.y) if self.sub.m else new.y,
            start=where(better, x, new.start),
            beta=where(better, s.beta, new.beta),
            eta=where(better, s.eta, new.eta),
            best=where(better, minimum(s.best, residual), new.best),
            length=where(better, 1.0, new.length),
            k=where(better, s.k, new.k),
            idle=where(better, 0, new.idle),
            lag=where(progress, where(s.lag < TUNING.lagging, 0 * s.lag, TUNING.lagging), s.lag + 1),
            status=where(done, int(Status.SOLVED), where(better, s.status, new.status)),
        )
        return accepted if s.record is None else accepted._replace(record=select(better, s.record, new.record))

    def _descends(self, s: State, p: Point, x: Vector, y: Vector) -> Array:
        """Whether x is lower in the augmented Lagrangian for the multipliers y of the quadratic model."""
        own = s._replace(y=y)
        here = self.sub.value(own, p.f, self.sub.estimate(own, p.c, s.beta))
        there, _ = self.sub.phi(own, x)
        return there < here

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


def _user_weights(s: State, w: Vector) -> tuple[Array, Vector]:
    """The factors of f and c in sf f + w'(sc c), for functions in the user's units."""
    return jnp.ones_like(s.beta) if s.sf is None else s.sf, w if s.sc is None else w * s.sc


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
