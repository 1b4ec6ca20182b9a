"""Algorithm 1 for a batch in lockstep: every instance takes one inner step of its own subproblem at a time.

There is no inner loop to wait for: when an instance meets the test of line 3 it updates its own y and beta (lines 4-6)
and goes on with its next subproblem in the same step. All evolving state is in `State`; arrays have the batch last.
"""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp

from auglag.algorithm import formulas
from auglag.algorithm.status import Status
from auglag.jax.evaluation import Evaluation
from auglag.jax.rules import Rules
from auglag.jax.state import RUNNING, Options, Pairs, Point, Record, Sides, State
from auglag.jax.steps import Steps
from auglag.jax.subproblem import Subproblem
from auglag.jax.tuning import TUNING
from auglag.jax.vectors import Array, Vector, clip, each, largest, maximum, minimum, norm, select, staged, where


@final
class Lockstep:
    """One step of the method on `Evaluation`, for all instances."""

    def __init__(
        self, evaluation: Evaluation, sides: Sides, rules: Rules, options: Options, m: int, dtype: Any
    ) -> None:
        self.sub = Subproblem(evaluation, sides, m, options.tol)
        self.steps = Steps(self.sub, rules, options, float(jnp.finfo(dtype).eps))
        self.rules, self.options = rules, options

    def begin(self, x: Vector, y: Vector, beta: Array | None, batch: int, dtype: Any) -> State:
        """The state before the first step; y in the user's units."""
        x = clip(x, self.sub.sides.lower, self.sub.sides.upper)
        zero = jnp.zeros(batch, dtype)
        count = jnp.zeros(batch, jnp.int32)
        f, c, g, jac = self.sub.evaluation.first(x)
        sf = sc = steep = None
        if self.options.scaling:
            sf = _scale_factor(largest(g, zero))
        if self.options.scaling and self.sub.m:
            sc = each(_scale_factor, self.sub.evaluation.row_sizes(jac))
            y, jac = y * sf / sc, self.sub.evaluation.scaled_rows(jac, sc)
        if self.sub.m:
            steep = each(_steepness, self.sub.evaluation.row_squares(jac)) + zero  # one number per instance
        state = State(
            x=x, y=y, start=x, beta=zero, eta=zero, before=zero, first=zero, level=zero, best=zero + jnp.inf,
            length=zero + 1.0, shift=zero, k=count + 1, steps=count, idle=count, stalls=count, lag=count,
            vain=count, status=count + RUNNING, sf=sf, sc=sc, steep=steep, pairs=self._no_pairs(x, batch, dtype),
            record=self._no_record(len(x), batch, dtype),
        )  # fmt: skip
        f, c, _, _ = self.sub.scaled(state, f, c)
        violation = norm(self.sub.excess(state, c), zero) if self.sub.m else zero
        first = self.rules.first_beta(f, violation) if beta is None else beta
        eta = self.rules.eta(state.k, first, self.sub.target(state))
        return state._replace(beta=first, eta=eta, before=violation, first=violation, level=maximum(1.0, abs(f)))

    def _no_pairs(self, x: Array, batch: int, dtype: Any) -> Pairs | None:
        if not self.options.memory:
            return None
        blank = jnp.zeros((self.options.memory, x.shape[0], batch), dtype)
        rho = jnp.zeros((self.options.memory, batch), dtype)
        return Pairs(blank, blank, rho, x, jnp.zeros_like(x), jnp.zeros(batch, bool))

    def _no_record(self, n: int, batch: int, dtype: Any) -> Record | None:
        rows = self.options.record
        if not rows:
            return None
        blank = jnp.full((rows, batch), jnp.nan, dtype)
        x, y = jnp.full((rows, n, batch), jnp.nan, dtype), jnp.full((rows, self.sub.m, batch), jnp.nan, dtype)
        return Record(blank, blank, blank, blank, x, y)

    def step(self, old: State) -> State:
        """Test, update y and beta where the subproblem is solved, then one inner step; finished instances stay."""
        running = old.status == RUNNING
        always = old.steps[0] >= 0
        point = staged(always, self.sub.known, old)
        s = staged(always, self._outer, old, point)
        point = staged(always, self.sub.with_multipliers, s, point)
        settled = (s.k > old.k) & (point.distance <= s.eta)  # the start of the next subproblem already solves it
        moved = self.steps.newton(s, point) if not self.options.memory else self.steps.limited_memory(s, point)
        going = (s.status == RUNNING) & ~settled
        s = select(going, moved, s)
        s = s._replace(steps=old.steps + 1)
        late = (s.status == RUNNING) & (s.steps >= self.options.max_steps)
        s = s._replace(status=where(late, int(Status.ITERATION_LIMIT), s.status))
        finished: State = select(running, s, old)
        return finished

    def _outer(self, s: State, p: Point) -> State:
        """Lines 4 to 6 for the instances whose inner solve is done, and the ways to end."""
        options, zero = self.options, 0.0 * s.beta
        r = self.sub.remainder(s, p.c, p.w, s.y / (-s.beta)) if self.sub.m else p.c
        now = norm(r, zero) if self.sub.m else zero
        violation = self.sub.user_norm(s, r)
        residual = self.sub.residual(s, p.distance, violation)
        finite = jnp.isfinite(residual) & jnp.isfinite(p.f)
        solved = residual <= options.tol
        stalled = s.idle >= self.steps.patience
        update = ((p.distance <= s.eta) | stalled) & ~solved & finite & (s.status == RUNNING)
        negligible = formulas.is_negligible(violation, options.negligible * options.tol)
        grow = update & self.rules.raises(s.before, now, negligible)
        vain = where(update, where(grow & formulas.hardly_less(now, s.before), s.vain + 1, 0), s.vain)
        y = self.rules.next_y(s.y, r, s.beta, s.first, now, s.k) if self.sub.m else s.y
        beta = where(grow, self.rules.gamma * s.beta, s.beta)
        k = where(update, s.k + 1, s.k)
        status = where(solved, int(Status.SOLVED), s.status)
        status = where(update & (k > options.max_outer), int(Status.ITERATION_LIMIT), status)
        stalls = where(update, where(stalled & formulas.hardly_less(residual, s.best), s.stalls + 1, 0), s.stalls)
        many = formulas.STUCK_AFTER if self.sub.m else 1
        status = where(update & (beta > options.largest_penalty), int(Status.PENALTY_LIMIT), status)
        status = where(update & (stalls >= many), int(Status.STUCK), status)
        if self.sub.m:
            missed = self.sub.user_norm(s, self.sub.excess(s, p.c))  # `violation` has complementarity in it
            suspicious = (vain >= formulas.VAIN_INCREASES) & formulas.clearly_violated(missed, options.tol)
            status = where(update & suspicious & self.sub.stationary(s, p), int(Status.INFEASIBLE), status)
        status = where(finite, status, int(Status.NON_FINITE))
        return s._replace(
            y=each(lambda a, b, c: where(solved, a, where(update, b, c)), p.w, y, s.y) if self.sub.m else s.y,
            start=where(update, s.x, s.start),
            beta=beta,
            eta=where(update, self.rules.eta(k, beta, self.sub.target(s)), s.eta),
            before=where(update, now, s.before),
            best=minimum(s.best, where(finite, residual, jnp.inf)),
            length=where(update, 1.0, s.length),
            k=minimum(k, options.max_outer),
            idle=where(update, 0, s.idle),
            lag=where(update, minimum(s.lag, TUNING.lagging), s.lag),
            stalls=stalls,
            vain=vain,
            status=status,
            pairs=None if s.pairs is None else s.pairs.without(update),
            record=s.recorded(update | (solved & (s.status == RUNNING)), now, p.distance, y),
        )


def _scale_factor(norms: Array) -> Array:
    return formulas.scale_factor(jnp, norms)


def _steepness(squares: Array) -> Array:
    """The norm of a row of J from its square, at most 1; 1 where it is 0 and there is no telling."""
    return where((squares > 0.0) & (squares < 1.0), jnp.sqrt(squares), 1.0)
