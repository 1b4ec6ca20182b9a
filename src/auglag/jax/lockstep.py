"""Algorithm 1 for a batch in lockstep: every instance takes one inner step of its own subproblem at a time.

There is no inner loop to wait for: when an instance meets the test of line 3 it updates its own y and beta (lines 4-6)
and goes on with its next subproblem in the same step. All evolving state is in `State`; arrays have the batch last.
"""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp

from auglag.algorithm.status import Status
from auglag.jax.evaluation import Evaluation
from auglag.jax.rules import Rules
from auglag.jax.state import RUNNING, Options, Pairs, Point, Record, Sides, State
from auglag.jax.steps import Steps
from auglag.jax.subproblem import Subproblem
from auglag.jax.vectors import Array, Vector, clip, each, maximum, minimum, norm, select, staged, total, where
from auglag.problems.standard_form import LARGEST_GRADIENT, SMALLEST_SCALE

#: Subproblems in a row that stalled without a better residual before a run counts as stuck.
STALLS = 6
#: Increases of the penalty in a row without less violation that raise the question of infeasibility.
IN_VAIN = 4


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
        sf = sc = None
        f, c, g, jac = self.sub.evaluation.first(x)
        if self.options.scaling:
            sf = _factor(_largest(g, zero))
            sc = self._row_factors(jac, zero)
        state = State(
            x=x, y=y, beta=zero, eta=zero, before=zero, first=zero, level=zero, best=zero + jnp.inf, length=zero + 1.0,
            shift=None if isinstance(jac, list) else zero,
            k=count + 1, steps=count, idle=count, stalls=count, vain=count, status=count + RUNNING, sf=sf, sc=sc,
            steep=self._steepness(jac, sc) if self.sub.m else None, pairs=None, record=None,
        )  # fmt: skip
        if self.sub.m and sc is not None:
            state = state._replace(y=y * sf / sc)
        f, c, cl, cu = self.sub.scaled(state, f, c)
        excess = c - clip(c, cl, cu)
        violation = norm(excess, zero) if self.sub.m else zero
        first = self.rules.first_beta(f, violation) if beta is None else beta
        target = self.sub.target(state)
        eta = self.rules.eta(state.k, first, target)
        pairs = self._no_pairs(x, batch, dtype) if self.options.memory else None
        return state._replace(
            beta=first, eta=eta, before=violation, first=violation, level=maximum(1.0, abs(f)), pairs=pairs,
            record=self._no_record(len_of(x), batch, dtype),
        )  # fmt: skip

    def _row_factors(self, jac: Any, zero: Array) -> Vector:
        if not self.sub.m:
            return self.sub.sides.cl * zero[None] if not isinstance(jac, list) else self.sub.sides.cl
        if isinstance(jac, list):
            return type(jac[0])([_factor(_largest(row, zero)) for row in jac])
        return _factor(jnp.abs(jac).max(axis=1))

    def _steepness(self, jac: Any, sc: Any) -> Vector:
        """The 2-norms of the scaled rows of J, at most 1; 1 where there is no telling."""
        own = jac if sc is None else self.sub.evaluation.scaled_rows(jac, sc)
        if isinstance(own, list):
            squares: Vector = type(own[0])([total(row * row, 0.0) for row in own])
        else:
            squares = jnp.sum(own * own, axis=1)
        return each(lambda q: where((q > 0.0) & (q < 1.0), jnp.sqrt(q), 1.0), squares)

    def _no_pairs(self, x: Array, batch: int, dtype: Any) -> Pairs:
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
        _, _, cl, cu = self.sub.scaled(s, p.f, p.c)
        r = self.sub.constraint(p.c, cl, cu, p.w, s.y / (-s.beta)) if self.sub.m else p.c
        now = norm(r, zero) if self.sub.m else zero
        violation = self.sub.user_norm(s, r)
        residual = p.distance / (1.0 if s.sf is None else s.sf) + violation
        finite = jnp.isfinite(residual) & jnp.isfinite(p.f)
        solved = residual <= options.tol
        inner = (p.distance <= s.eta) | (s.idle >= self.steps.patience)
        update = inner & ~solved & finite & (s.status == RUNNING)
        negligible = violation <= options.negligible * options.tol
        grow = update & self.rules.raises(s.before, now, negligible)
        vain = where(update, where(grow & (now > 0.9 * s.before), s.vain + 1, 0), s.vain)
        y = self.rules.next_y(s.y, r, s.beta, s.first, now, s.k) if self.sub.m else s.y
        beta = where(grow, self.rules.gamma * s.beta, s.beta)
        k = where(update, s.k + 1, s.k)
        status = where(solved, int(Status.SOLVED), s.status)
        status = where(update & (k > options.max_outer), int(Status.ITERATION_LIMIT), status)
        stalled = s.idle >= self.steps.patience
        stalls = where(update, where(stalled & (residual > 0.9 * s.best), s.stalls + 1, 0), s.stalls)
        stuck = update & ((beta > options.largest_penalty) | (stalls >= (STALLS if self.sub.m else 1)))
        status = where(stuck, int(Status.STUCK), status)
        if self.sub.m:
            hopeless = update & (vain >= IN_VAIN) & (violation > 10 * options.tol) & self.sub.stationary(s, p)
            status = where(hopeless, int(Status.INFEASIBLE), status)
        status = where(finite, status, int(Status.NON_FINITE))
        record = (
            s.record if s.record is None else self._recorded(s, p, update | (solved & (s.status == RUNNING)), now, y)
        )
        pairs = s.pairs if s.pairs is None else s.pairs._replace(
            rho=where(update, 0.0, s.pairs.rho), fresh=s.pairs.fresh & ~update
        )  # fmt: skip
        return s._replace(
            y=each(lambda a, b, c: where(solved, a, where(update, b, c)), p.w, y, s.y) if self.sub.m else s.y,
            beta=beta,
            eta=where(update, self.rules.eta(k, beta, self.sub.target(s)), s.eta),
            before=where(update, now, s.before),
            best=minimum(s.best, where(finite, residual, jnp.inf)),
            length=where(update, 1.0, s.length),
            k=k,
            idle=where(update, 0, s.idle),
            stalls=stalls,
            vain=vain,
            status=status,
            pairs=pairs,
            record=record,
        )

    def _recorded(self, s: State, p: Point, now: Array, violation: Array, y: Vector) -> Record:
        record = s.record
        assert record is not None
        here = (jnp.arange(self.options.record)[:, None] == s.k[None] - 1) & now[None]

        def put(old: Array, new: Array) -> Array:
            mask = here if old.ndim == 2 else here[:, None]
            return where(mask, new[None], old)

        beta, eta, violations, stationarity = (
            put(old, new) for old, new in zip(record[:4], (s.beta, s.eta, violation, p.distance), strict=True)
        )
        x = put(record.x, _stacked(s.x))
        return Record(beta, eta, violations, stationarity, x, put(record.y, _stacked(y)) if self.sub.m else record.y)


def _stacked(v: Vector) -> Array:
    return jnp.stack(v.entries) if hasattr(v, "entries") else v


def len_of(v: Vector) -> int:
    """The number of components."""
    return len(v) if hasattr(v, "entries") else int(v.shape[0])


def _largest(v: Vector, zero: Array) -> Array:
    """The max norm, per instance."""
    if not hasattr(v, "entries"):
        return jnp.abs(v).max(axis=0)
    result = zero
    for entry in v.entries:
        result = maximum(result, abs(entry))
    return result


def _factor(norms: Array) -> Array:
    norms = where(jnp.isfinite(norms), norms, 1.0)
    return maximum(1.0 / maximum(norms / LARGEST_GRADIENT, 1.0), SMALLEST_SCALE)
