"""Algorithm 1 for a batch in lockstep: every instance takes one inner step of its own subproblem at a time.

There is no inner loop to wait for: when an instance meets the test of line 3 it updates its own y and beta (lines 4-6)
and goes on with its next subproblem in the same step. All evolving state is in `State`; arrays have the batch last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax.numpy as jnp

from auglag.jax.directions import free_step
from auglag.jax.evaluation import Evaluation
from auglag.jax.rules import Rules
from auglag.jax.vectors import Array, Vector, clip, each, maximum, minimum, norm, select, staged, total, where
from auglag.problems.standard_form import LARGEST_GRADIENT, SMALLEST_SCALE
from auglag.result import Status
from auglag.stopping import UNBOUNDED_PENALTY

RUNNING = -1
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
#: Subproblems in a row that stalled without a better residual before a run counts as stuck.
STALLS = 6
#: Increases of the penalty in a row without less violation that raise the question of infeasibility; how stationary the
#: violation must then be.
IN_VAIN = 4
STATIONARY = 1e-5
#: A value so far below the first one (relative) is taken as no lower bound.
UNBOUNDED = 1e10


@final
@dataclass(frozen=True, slots=True)
class Options:
    """What defines the method apart from the rules."""

    tol: float
    negligible: float
    accelerate: bool
    scaling: bool
    max_outer: int
    max_steps: int
    largest_penalty: float
    memory: int  #: pairs of the limited-memory method; 0 for Newton
    record: int  #: outer iterations to record


class Sides(NamedTuple):
    """Bounds of x and of the rows."""

    lower: Vector
    upper: Vector
    cl: Vector
    cu: Vector


class Pairs(NamedTuple):
    """The limited-memory matrix of the current subproblem: steps and changes of the gradient, newest last."""

    s: Array  #: (memory, n, batch)
    t: Array  #: (memory, n, batch)
    rho: Array  #: (memory, batch), 0 for an empty place
    x: Array  #: where the last gradient was taken
    gradient: Array
    fresh: Array  #: whether `gradient` is of the current subproblem


class Record(NamedTuple):
    """The first outer iterations, for the curious and for tests."""

    beta: Array  #: (record, batch)
    eta: Array
    violation: Array
    stationarity: Array
    x: Array  #: (record, n, batch)
    y: Array  #: (record, m, batch): the multipliers for the next subproblem


class State(NamedTuple):
    """One instance per column."""

    x: Vector
    y: Vector
    beta: Array
    eta: Array
    before: Array  #: ||c(x_k)||, scaled
    first: Array  #: ||c(x_1)||, scaled
    level: Array  #: max(1, |phi at the start|)
    best: Array  #: the smallest residual so far
    length: Array  #: step length of the line search
    shift: Any  #: what was last added to the diagonal of the Hessian; None where it is written out
    k: Array
    steps: Array
    idle: Array  #: steps in a row that changed nothing but rounding; `patience` marks a stalled subproblem
    stalls: Array  #: subproblems in a row that stalled
    vain: Array  #: increases of beta in a row without less violation
    status: Array
    sf: Any  #: scale of f, None without scaling
    sc: Any  #: scales of the rows
    pairs: Pairs | None
    record: Record | None


class Point(NamedTuple):
    """What is known at x: values, first derivatives, and the multiplier estimate for the current (y, beta)."""

    f: Array
    c: Vector
    g: Vector
    jac: Any
    w: Vector  #: yhat
    gradient: Vector  #: of phi
    distance: Array  #: dist(-grad phi, normal cone of the bounds)


@final
class Lockstep:
    """One step of the method on `Evaluation`, for all instances."""

    def __init__(
        self, evaluation: Evaluation, sides: Sides, rules: Rules, options: Options, m: int, dtype: Any
    ) -> None:
        self.evaluation, self.sides, self.rules, self.options, self.m = evaluation, sides, rules, options, m
        self.eps = float(jnp.finfo(dtype).eps)
        self.patience = MANY_IDLE if options.memory else IDLE

    # ------------------------------------------------------------------------------------------------------ start

    def begin(self, x: Vector, y: Vector, beta: Array | None, batch: int, dtype: Any) -> State:
        """The state before the first step; y in the user's units."""
        x = clip(x, self.sides.lower, self.sides.upper)
        zero = jnp.zeros(batch, dtype)
        count = jnp.zeros(batch, jnp.int32)
        sf = sc = None
        f, c, g, jac = self.evaluation.first(x)
        if self.options.scaling:
            sf = _factor(_largest(g, zero))
            sc = self._row_factors(jac, zero)
        state = State(
            x=x, y=y, beta=zero, eta=zero, before=zero, first=zero, level=zero, best=zero + jnp.inf, length=zero + 1.0,
            shift=None if isinstance(jac, list) else zero,
            k=count + 1, steps=count, idle=count, stalls=count, vain=count, status=count + RUNNING, sf=sf, sc=sc,
            pairs=None, record=None,
        )  # fmt: skip
        if self.m and sc is not None:
            state = state._replace(y=y * sf / sc)
        f, c, cl, cu = self._scaled(state, f, c)
        excess = c - clip(c, cl, cu)
        violation = norm(excess, zero) if self.m else zero
        first = self.rules.first_beta(f, violation) if beta is None else beta
        target = self._target(state)
        eta = self.rules.eta(state.k, first, target)
        pairs = self._no_pairs(x, batch, dtype) if self.options.memory else None
        return state._replace(
            beta=first, eta=eta, before=violation, first=violation, level=maximum(1.0, abs(f)), pairs=pairs,
            record=self._no_record(len_of(x), batch, dtype),
        )  # fmt: skip

    def _row_factors(self, jac: Any, zero: Array) -> Vector:
        if not self.m:
            return self.sides.cl * zero[None] if not isinstance(jac, list) else self.sides.cl
        if isinstance(jac, list):
            return type(jac[0])([_factor(_largest(row, zero)) for row in jac])
        return _factor(jnp.abs(jac).max(axis=1))

    def _target(self, state: State) -> Array:
        """Where the default inner tolerances end: half of what the stopping test leaves for the stationarity."""
        scale = 1.0 if state.sf is None else minimum(1.0, state.sf)
        if not self.m:
            return 0.5 * self.options.tol * scale + 0.0 * state.beta
        return 0.05 * self.options.tol * scale + 0.0 * state.beta

    def _no_pairs(self, x: Array, batch: int, dtype: Any) -> Pairs:
        blank = jnp.zeros((self.options.memory, x.shape[0], batch), dtype)
        rho = jnp.zeros((self.options.memory, batch), dtype)
        return Pairs(blank, blank, rho, x, jnp.zeros_like(x), jnp.zeros(batch, bool))

    def _no_record(self, n: int, batch: int, dtype: Any) -> Record | None:
        rows = self.options.record
        if not rows:
            return None
        blank = jnp.full((rows, batch), jnp.nan, dtype)
        x, y = jnp.full((rows, n, batch), jnp.nan, dtype), jnp.full((rows, self.m, batch), jnp.nan, dtype)
        return Record(blank, blank, blank, blank, x, y)

    # ------------------------------------------------------------------------------------------------ the subproblem

    def _scaled(self, s: State, f: Array, c: Vector) -> tuple[Array, Vector, Vector, Vector]:
        """f, c and the sides of c in the units of the method."""
        if s.sf is None:
            return f, c, self.sides.cl, self.sides.cu
        if not self.m:
            return s.sf * f, c, self.sides.cl, self.sides.cu
        return s.sf * f, c * s.sc, self.sides.cl * s.sc, self.sides.cu * s.sc

    def _estimate(self, c: Vector, cl: Vector, cu: Vector, y: Vector, beta: Array) -> Vector:
        """yhat = max(y + beta (c - cu), 0) + min(y + beta (c - cl), 0): slacks minimised out in closed form."""
        return maximum(y + (c - cu) * beta, 0.0) + minimum(y + (c - cl) * beta, 0.0)

    def _constraint(self, c: Vector, cl: Vector, cu: Vector, w: Vector, otherwise: Vector) -> Vector:
        """c less its slack: the distance to the side that the multiplier w holds."""
        return where(w > 0.0, c - cu, where(w < 0.0, c - cl, otherwise))

    def _phi(self, s: State, y: Vector, beta: Array, x: Vector) -> tuple[Array, Vector]:
        """(value of the subproblem, +inf where it is not defined; scaled c) at x."""
        f, c = self.evaluation.values(x)
        f, c, cl, cu = self._scaled(s, f, c)
        value = f
        if self.m:
            value = f + self._penalty_terms(self._estimate(c, cl, cu, y, beta), y, beta)
        return where(jnp.isnan(value), jnp.inf, value), c

    def _penalty_terms(self, w: Vector, y: Vector, beta: Array) -> Array:
        return (total(w * w, 0.0 * beta) - total(y * y, 0.0 * beta)) / (2.0 * beta)

    def _projected(self, x: Vector, gradient: Vector) -> Vector:
        """The part of the gradient that the bounds cannot absorb."""
        lower, upper = self.sides.lower, self.sides.upper
        held = where(x <= lower, minimum(gradient, 0.0), gradient)
        return where(x >= upper, maximum(held, 0.0), held)

    def _known(self, s: State) -> Point:
        f, c, g, jac = self.evaluation.first(s.x)
        f, c, _, _ = self._scaled(s, f, c)
        if s.sf is not None:
            g = g * s.sf
            if self.m:
                jac = self.evaluation.scaled_rows(jac, s.sc)
        point = Point(f, c, g, jac, s.y, g, f)
        return self._with_multipliers(s, point)

    def _with_multipliers(self, s: State, p: Point) -> Point:
        if not self.m:
            return p._replace(distance=norm(self._projected(s.x, p.g), 0.0 * s.beta))
        _, _, cl, cu = self._scaled(s, p.f, p.c)
        w = self._estimate(p.c, cl, cu, s.y, s.beta)
        gradient = p.g + self.evaluation.transposed(p.jac, w)
        return p._replace(w=w, gradient=gradient, distance=norm(self._projected(s.x, gradient), 0.0 * s.beta))

    def _user_norm(self, s: State, r: Vector) -> Array:
        return norm(r if s.sc is None else r / s.sc, 0.0 * s.beta) if self.m else 0.0 * s.beta

    # ------------------------------------------------------------------------------------------------------ the step

    def step(self, old: State) -> State:
        """Test, update y and beta where the subproblem is solved, then one inner step; finished instances stay."""
        running = old.status == RUNNING
        always = old.steps[0] >= 0
        point = staged(always, self._known, old)
        s = staged(always, self._outer, old, point)
        point = staged(always, self._with_multipliers, s, point)
        settled = (s.k > old.k) & (point.distance <= s.eta)  # the start of the next subproblem already solves it
        moved = self._newton(s, point) if not self.options.memory else self._limited_memory(s, point)
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
        _, _, cl, cu = self._scaled(s, p.f, p.c)
        r = self._constraint(p.c, cl, cu, p.w, s.y / (-s.beta)) if self.m else p.c
        now = norm(r, zero) if self.m else zero
        violation = self._user_norm(s, r)
        residual = p.distance / (1.0 if s.sf is None else s.sf) + violation
        finite = jnp.isfinite(residual) & jnp.isfinite(p.f)
        solved = residual <= options.tol
        inner = (p.distance <= s.eta) | (s.idle >= self.patience)
        update = inner & ~solved & finite & (s.status == RUNNING)
        negligible = violation <= options.negligible * options.tol
        grow = update & self.rules.raises(s.before, now, negligible)
        vain = where(update, where(grow & (now > 0.9 * s.before), s.vain + 1, 0), s.vain)
        y = self.rules.next_y(s.y, r, s.beta, s.first, now, s.k) if self.m else s.y
        beta = where(grow, self.rules.gamma * s.beta, s.beta)
        k = where(update, s.k + 1, s.k)
        status = where(solved, int(Status.SOLVED), s.status)
        status = where(update & (k > options.max_outer), int(Status.ITERATION_LIMIT), status)
        stalled = s.idle >= self.patience
        stalls = where(update, where(stalled & (residual > 0.9 * s.best), s.stalls + 1, 0), s.stalls)
        stuck = update & ((beta > options.largest_penalty) | (stalls >= (STALLS if self.m else 1)))
        status = where(stuck, int(Status.STUCK), status)
        if self.m:
            hopeless = update & (vain >= IN_VAIN) & (violation > 10 * options.tol) & self._stationary(s, p)
            status = where(hopeless, int(Status.INFEASIBLE), status)
        status = where(finite, status, int(Status.NON_FINITE))
        record = (
            s.record if s.record is None else self._recorded(s, p, update | (solved & (s.status == RUNNING)), now, y)
        )
        pairs = s.pairs if s.pairs is None else s.pairs._replace(
            rho=where(update, 0.0, s.pairs.rho), fresh=s.pairs.fresh & ~update
        )  # fmt: skip
        return s._replace(
            y=each(lambda a, b, c: where(solved, a, where(update, b, c)), p.w, y, s.y) if self.m else s.y,
            beta=beta,
            eta=where(update, self.rules.eta(k, beta, self._target(s)), s.eta),
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

    def _stationary(self, s: State, p: Point) -> Array:
        """Whether the violation alone cannot be reduced to first order."""
        _, _, cl, cu = self._scaled(s, p.f, p.c)
        excess = p.c - clip(p.c, cl, cu)
        slope = self._projected(s.x, self.evaluation.transposed(p.jac, excess))
        return norm(slope, 0.0 * s.beta) <= STATIONARY * norm(excess, 0.0 * s.beta)

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
        return Record(beta, eta, violations, stationarity, x, put(record.y, _stacked(y)) if self.m else record.y)

    # ----------------------------------------------------------------------------------------------- inner steps

    def _newton(self, s: State, p: Point) -> State:
        """A projected Newton step, searched; or the accelerated step where it halves the best residual so far."""
        jac, w = p.jac, p.w
        weights = w if s.sc is None or not self.m else w * s.sc
        sf = jnp.ones_like(s.beta) if s.sf is None else s.sf
        always = s.steps[0] >= 0
        curvature = staged(always, self.evaluation.hessian, s.x, sf, weights)
        cl, cu = self._scaled(s, p.f, p.c)[2:]
        hessian = curvature
        if self.m:
            active = (w > 0.0) | (w < 0.0) | _equal(cl, cu)
            hessian = staged(always, self.evaluation.add_squares, curvature, jac, where(active, s.beta, 0.0))
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
        if not (self.options.accelerate and self.m):
            return s.beta
        largest = self.options.tol / (100.0 * self.eps * self._size(s.x, p.jac))  # beyond it rounding in c spoils y
        wanted = minimum(s.beta * maximum(STIFFER, 1.0 / s.best), STIFFEST)
        return minimum(maximum(s.beta, wanted), maximum(largest, STIFFER))

    def _size(self, x: Vector, jac: Any) -> Array:
        """A bound for the terms that make up c near x."""
        return maximum(1.0, norm(x, 0.0)) * maximum(1.0, self.evaluation.size(jac))

    def _held(self, x: Vector, gradient: Vector, distance: Array) -> tuple[Vector, Vector]:
        """Which variables are not held by a bound that the gradient pushes against; the way there for the others."""
        lower, upper = self.sides.lower, self.sides.upper
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
        lower, upper = self.sides.lower, self.sides.upper
        end = s.x + first
        below, above = end < lower, end > upper
        stay = free & ~(below | above)
        reach = where(below, lower - s.x, where(above, upper - s.x, held))
        if not self.m:
            return free_step(hessian, p.gradient, stay, reach, s.shift)[0]
        cl, cu = self._scaled(s, p.f, p.c)[2:]
        ahead = self.evaluation.product(p.jac, clip(end, lower, upper) - s.x)
        over, under = s.y + (p.c - cu) * s.beta, s.y + (p.c - cl) * s.beta
        equal = _equal(cl, cu)
        is_over = (over + ahead * s.beta > 0.0) & ~equal
        is_under = (under + ahead * s.beta < 0.0) & ~equal
        over, under = s.y + (p.c - cu) * stiff, s.y + (p.c - cl) * stiff
        weights = where(equal, under, where(is_over, over, where(is_under, under, 0.0 * s.beta)))
        gradient = p.g + self.evaluation.transposed(p.jac, weights)
        held_rows = where(equal | is_over | is_under, stiff, 0.0)
        hessian = self.evaluation.add_squares(curvature, p.jac, held_rows)
        return free_step(hessian, gradient, stay, reach, s.shift)[0]

    def _searched(self, s: State, p: Point, direction: Vector, full: Vector, stiff: Array) -> State:
        """The first of four trial points with sufficient decrease; the accelerated point goes before them all."""
        lower, upper = self.sides.lower, self.sides.upper
        value = p.f + (self._penalty_terms(p.w, s.y, s.beta) if self.m else 0.0)
        noise = 5.0 * self.eps * maximum(1.0, abs(value))
        floor = -UNBOUNDED * s.level
        trials = [clip(s.x + full, lower, upper)]
        trials += [clip(s.x + direction * (t * s.length), lower, upper) for t in SHORTER]
        x, best, taken, number = s.x, value, value > jnp.inf, jnp.zeros_like(s.k)
        endless = taken
        first_c = p.c
        for i, trial in enumerate(trials):
            there, c = staged(s.steps[0] >= 0, self._phi, s, s.y, s.beta, trial)
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
        over = (beta > UNBOUNDED_PENALTY) if self.m else (beta == beta)
        return new._replace(
            x=where(endless, s.x, new.x),
            beta=where(endless, beta, new.beta),
            eta=where(endless, self.rules.eta(s.k, beta, self._target(s)), new.eta),
            length=where(endless, 1.0, new.length),
            status=where(endless & over, int(Status.UNBOUNDED), new.status),
        )

    def _accelerated(self, s: State, p: Point, x: Vector, c: Vector, new: State, stiff: Array) -> State:
        """The Newton step on the KKT system, which the subproblem's own step contains: x + d and yhat(x + d) to first
        order. Taken if its residual is at most half the smallest so far.
        """
        zero = 0.0 * s.beta
        y, violation = s.y, zero
        if self.m:
            cl, cu = self._scaled(s, p.f, p.c)[2:]
            linear = p.c + self.evaluation.product(p.jac, x - s.x)
            y = self.rules.project(self._estimate(linear, cl, cu, s.y, stiff), s.k)
            violation = self._user_norm(s, self._constraint(c, cl, cu, y, c - clip(c, cl, cu)))
        sf = jnp.ones_like(s.beta) if s.sf is None else s.sf
        gradient = self.evaluation.gradient(x, sf, y if s.sc is None or not self.m else y * s.sc)
        residual = norm(self._projected(x, gradient), zero) / sf + violation
        better = residual <= 0.5 * s.best
        solved = better & (residual <= self.options.tol)
        return new._replace(
            x=where(better, x, new.x),
            y=where(better, y, new.y) if self.m else new.y,
            beta=where(better, s.beta, new.beta),
            eta=where(better, s.eta, new.eta),
            best=where(better, residual, new.best),
            length=where(better, 1.0, new.length),
            idle=where(better, 0, new.idle),
            status=where(solved, int(Status.SOLVED), where(better, s.status, new.status)),
        )

    def _limited_memory(self, s: State, p: Point) -> State:
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


def _stacked(v: Vector) -> Array:
    return jnp.stack(v.entries) if hasattr(v, "entries") else v


def len_of(v: Vector) -> int:
    """The number of components."""
    return len(v) if hasattr(v, "entries") else int(v.shape[0])


def _equal(a: Vector, b: Vector) -> Vector:
    return each(jnp.equal, a, b)


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
