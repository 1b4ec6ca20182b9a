"""Many problems of one structure at once: each slot of a batch runs the device loop on one parameter set.

All decisions are made on the device, slot by slot: mu, filter, line search, shifts, and the test of the residual in the
user's units. In place of the inertia, which a batched factorisation does not tell, the curvature along the step is
tested (Chiang and Zavala 2016). A slot whose problem has ended takes on the next one, so that the batch stays full and
nothing is compiled or analysed again; what a slot cannot solve is left to the loop for single problems.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from auglag.algorithm.status import Status
from auglag.errors import InputError
from auglag.model.device.linear import Sparse, chosen
from auglag.model.device.program import Program
from auglag.model.device.records import Elastic, Facts, Iterate, Local, Right, Step
from auglag.model.device.sides import gaps, inside
from auglag.model.device.tuning import TUNING
from auglag.model.structure import Pattern

#: A slot's status while its problem runs.
RUNNING = -1


class State(NamedTuple):
    """One slot."""

    it: Iterate
    step: Iterate
    lengths: Any  #: primal, dual
    mu: Any
    least_mu: Any
    shift: Any
    soft_factor: Any
    theta: Any  #: of the filter's pairs, infinite where there is none
    phi: Any
    largest_theta: Any
    small_theta: Any
    steps: Any
    extra: Any  #: steps since the scaled tolerance was met
    status: Any


class Finished(NamedTuple):
    """What is known of every problem, on the device."""

    x: Any
    y: Any
    z: Any
    f: Any
    residual: Any
    violation: Any
    steps: Any
    status: Any


class Solver(Protocol):
    """Factorises and solves a whole batch."""

    def factor(self, values: Any) -> Any: ...
    def solve(self, right: Any) -> Any: ...


@final
class OneByOne:
    """A batch by a solver of single matrices for every slot: for the CPU."""

    def __init__(self, pattern: Pattern, size: int, name: str | None) -> None:
        self._solvers: list[Sparse] = [chosen(pattern, "cpu", name) for _ in range(size)]
        self._known = [False] * size

    def factor(self, values: Any) -> None:
        self._known = [s.factor(v) is not None for s, v in zip(self._solvers, np.asarray(values), strict=True)]

    def solve(self, right: Any) -> Any:
        right = np.asarray(right)
        rows = [
            np.asarray(s.solve(b)) if known else np.full_like(b, np.nan)
            for s, b, known in zip(self._solvers, right, self._known, strict=True)
        ]
        return jnp.asarray(np.stack(rows))


@final
class Flat:
    """cuDSS's uniform batch, whose members lie one after the other."""

    def __init__(self, pattern: Pattern, size: int, *, deterministic: bool) -> None:
        from auglag.model.device.cudss import CuDSS

        self._solver = CuDSS(pattern, batch=size, deterministic=deterministic)

    def factor(self, values: Any) -> None:
        self._known = self._solver.factor(values.reshape(-1)) is not None

    def solve(self, right: Any) -> Any:
        if not self._known:
            return jnp.full_like(right, jnp.nan)
        return self._solver.solve(right.reshape(-1)).reshape(right.shape)


def slots_for(device: Any, wanted: int | None) -> int:
    """How many problems a batch on this device solves at a time."""
    if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1):
        raise InputError(f"slots must be a positive integer, got {wanted!r}")
    return wanted or (TUNING.batch_slots_cpu if device.platform == "cpu" else TUNING.batch_slots)


@final
class Batch:
    """The compiled parts for `slots` problems at once."""

    def __init__(
        self, program: Program, slots: int, solver: Solver, *, tol: float, scaled_tol: float, steps: int | None = None
    ) -> None:
        self.program, self.slots, self.solver = program, slots, solver
        self.tol, self.scaled_tol, self.most_steps = tol, scaled_tol, steps or TUNING.batch_steps
        many = (None, 0)
        jit = program.jit
        self._fresh = jit(jax.vmap(self._begin, in_axes=(*many, None, None, None)), static_argnums=4)
        self._first = jit(jax.vmap(self._before, in_axes=(*many, 0)))
        self._second = jit(jax.vmap(self._after, in_axes=(*many, 0, 0, 0, 0, 0, 0)))
        self._refill, self._put = jit(self._refilled), jit(self._written)
        self._accuracy = jit(jax.vmap(self._residual, in_axes=(None, 0, 0, 0)))
        self._store = jit(jax.vmap(self._kept, in_axes=(None, 0, 0)))

    def run(self, d: dict[str, Any], par: Any, x: Any, y: Any) -> tuple[Finished, float]:
        """Solve for every row of `par` from x (and multipliers y, if given)."""
        begun = time.perf_counter()
        d = {**d, "units": self.program.ones(self.program.m)}  # all rows are regularised alike, as far from solutions
        total, warm = par.shape[0], y is not None
        y = jnp.zeros(self.program.m) if y is None else y
        place = np.minimum(np.arange(self.slots), total - 1)
        waiting = min(self.slots, total)
        here = par[place]
        state = self._fresh(d, here, x, y, warm)
        if total < self.slots:  # copies of the last problem, which nobody asks for
            idle = jnp.arange(self.slots) >= total
            state = state._replace(status=jnp.where(idle, int(Status.STOPPED), state.status))
            place = np.where(np.arange(self.slots) < total, place, total)
        done = self._empty(total)
        while True:
            state, at, values, right, facts = self._first(d, here, state)
            new = (np.asarray(state.status) != RUNNING) & (place < total)
            taken = np.zeros(self.slots, dtype=bool)
            if new.any():
                done = self._put(done, jnp.asarray(np.where(new, place, total)), self._store(d, state, facts))
                place = np.where(new, total, place)
                count = min(int(new.sum()), total - waiting)
                slots = np.flatnonzero(new)[:count]
                place[slots] = np.arange(waiting, waiting + count)
                waiting += count
                taken[slots] = True
            if (place >= total).all():
                break
            self.solver.factor(values)
            solution = self._refined(d, values, right.both[:, 0], np.asarray(state.status) == RUNNING)
            state = self._second(d, here, state, at, values, right, facts, solution)
            if taken.any():  # they begin with the next round: evaluating all slots again would cost more
                here = par[np.minimum(place, total - 1)]
                state = self._refill(jnp.asarray(taken), self._fresh(d, here, x, y, warm), state)
        return done, time.perf_counter() - begun

    def _refined(self, d: dict[str, Any], values: Any, right: Any, running: Any) -> Any:
        """The solutions of all slots, refined once where too many of them are not accurate."""
        solution = self.solver.solve(right)
        error, accuracy = self._accuracy(d, values, right, solution)
        if (np.asarray(accuracy)[running] > TUNING.batch_accurate).mean() > TUNING.batch_refined:
            solution = solution + self.solver.solve(error)
        return solution

    def _empty(self, total: int) -> Finished:
        n, m = self.program.n, self.program.m
        number = jnp.full(total, jnp.nan)
        whole = jnp.zeros(total, dtype=int)
        return Finished(
            jnp.zeros((total, n)), jnp.zeros((total, m)), jnp.zeros((total, n)), number, number, number, whole, whole
        )

    @staticmethod
    def _written(done: Finished, place: Any, new: Finished) -> Finished:
        return Finished(*(old.at[place].set(part, mode="drop") for old, part in zip(done, new, strict=True)))

    @staticmethod
    def _refilled(taken: Any, fresh: State, old: State) -> State:
        def chosen(a: Any, b: Any) -> Any:
            return jnp.where(taken.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

        mixed: State = jax.tree_util.tree_map(chosen, fresh, old)
        return mixed

    # ------------------------------------------------------------------------------------------- one slot, for vmap

    def _plain(self) -> Elastic:
        return Elastic.inelastic(self.program.m)

    def _begin(self, d: Any, par: Any, x: Any, y: Any, warm: bool) -> State:
        t, p = TUNING, self.program
        d = {**d, "par": par}
        _, c = p.equations.values(d, x)
        w = inside(d, jnp.concatenate([x, c[d["rows"]]]), t.warm_push if warm else t.push)
        low, high, below, above = gaps(d, w)
        mu = jnp.asarray(t.warm_mu if warm else t.first_mu)
        z = jnp.where(low, mu / below if warm else jnp.ones_like(w), 0.0)
        u = jnp.where(high, mu / above if warm else jnp.ones_like(w), 0.0)
        it = Iterate(w, y * d["scale_f"] / d["scale_c"], z, u, jnp.zeros(p.m))
        still = jax.tree_util.tree_map(jnp.zeros_like, it)
        none, zero = jnp.full(t.batch_filter, jnp.inf), jnp.zeros(())
        rows = p.equations.rows(d, c, w)
        theta = jnp.maximum(1.0, jnp.sum(jnp.abs(rows)))
        return State(
            it=it,
            step=still,
            lengths=(zero, zero),
            mu=mu,
            least_mu=jnp.asarray(self.scaled_tol / t.last_mu),
            shift=zero,
            soft_factor=jnp.ones(()),
            theta=none,
            phi=none,
            largest_theta=t.largest_violation * theta,
            small_theta=t.small_violation * theta,
            steps=jnp.zeros((), dtype=int),
            extra=jnp.zeros((), dtype=int),
            status=jnp.asarray(RUNNING),
        )

    def _before(self, d: Any, par: Any, s: State) -> tuple[State, Local, Any, Right, Any]:
        """Move, evaluate, test, lower mu, assemble."""
        t, d = TUNING, {**d, "par": par}
        lower = jnp.maximum(t.least_mu, t.lower_mu * s.mu)  # where only the residual in the user's units is too large
        before = jnp.where(s.extra > 0, lower, s.mu)
        least_mu = jnp.where(s.extra > 0, lower, s.least_mu)
        control = (before, least_mu, s.shift, s.soft_factor, 0.0)
        it, at, values, right, numbers = self.program._advance(d, s.it, s.step, s.lengths, self._plain(), control)
        facts = Facts(*numbers)
        finite = jnp.isfinite(facts.f) & jnp.isfinite(facts.dual) & jnp.isfinite(facts.primal)
        met = (facts.error <= self.scaled_tol) & (facts.violation <= self.tol)
        good = met & (facts.residual <= self.tol)
        extra = s.extra + met
        status = jnp.where(s.steps >= self.most_steps, int(Status.ITERATION_LIMIT), RUNNING)
        status = jnp.where(met & (extra > t.extra_steps), int(Status.UNCERTIFIED), status)
        status = jnp.where(good, int(Status.SOLVED), status)
        status = jnp.where(finite, status, int(Status.NON_FINITE))
        status = jnp.where(s.status == RUNNING, status, s.status)
        fell = facts.mu != s.mu
        theta = jnp.where(fell, jnp.inf, s.theta)
        still = jax.tree_util.tree_map(jnp.zeros_like, s.step)
        s = s._replace(it=it, step=still, mu=facts.mu, least_mu=least_mu, extra=extra, status=status, theta=theta)
        return s, at, values, right, numbers

    def _residual(self, d: Any, values: Any, right: Any, solution: Any) -> tuple[Any, Any]:
        error = right - self.program.equations.product(d, values, solution)
        return error, jnp.max(jnp.abs(error)) / jnp.maximum(jnp.max(jnp.abs(right)), 1e-300)

    def _after(
        self, d: Any, par: Any, s: State, at: Local, values: Any, right: Right, numbers: Any, solution: Any
    ) -> State:
        """From a solution of the linear system to a step that the filter takes, or a larger shift."""
        t, p, old = TUNING, self.program, Facts(*numbers)
        d, plain = {**d, "par": par}, self._plain()
        control = (s.mu, s.shift, jnp.maximum(t.to_sides, 1.0 - s.mu))
        step, _, _, found = p._post(d, solution, values, right, s.it, at, plain, control)
        new = Step(*found)
        usable = self._usable(d, s, at, values, step, new)
        length, kind = self._search(d, s, step, new, old, plain)
        noise = (kind == 0) & (old.theta < t.noisy) & (new.theta <= jnp.maximum(t.noisy_violation, 10.0 * old.theta))
        noise = noise & (new.phi - old.phi <= t.noisy * jnp.maximum(1.0, jnp.abs(old.phi)))
        length = jnp.where(noise, new.longest, length)
        taken = usable & ((kind > 0) | noise) & (s.status == RUNNING)
        running = s.status == RUNNING
        remember = taken & (kind == 1)
        theta = jnp.where(remember, jnp.roll(s.theta, 1).at[0].set((1.0 - t.less_violation) * old.theta), s.theta)
        phi = jnp.where(remember, jnp.roll(s.phi, 1).at[0].set(old.phi - t.less_value * old.theta), s.phi)
        theta = jnp.where(taken & noise, jnp.inf, theta)
        larger = jnp.maximum(t.first_shift, t.shift_growth * s.shift)
        smaller = jnp.where(s.shift > t.standing_shift, s.shift / t.shift_fall, 0.0)
        shift = jnp.where(taken, smaller, jnp.where(running, larger, s.shift))
        rough = new.accuracy > t.batch_accurate
        soft = jnp.where(rough, jnp.minimum(t.soft_factor_most, t.soft_growth * s.soft_factor), 1.0)
        status = jnp.where(running & (shift > t.batch_largest_shift), int(Status.STUCK), s.status)
        step = jax.tree_util.tree_map(lambda v: jnp.where(taken, v, 0.0), step)
        lengths = (jnp.where(taken, length, 0.0), jnp.where(taken, new.longest_dual, 0.0))
        return s._replace(
            step=step,
            lengths=lengths,
            theta=theta,
            phi=phi,
            shift=shift,
            soft_factor=soft,
            status=status,
            steps=s.steps + running,
        )

    def _usable(self, d: Any, s: State, at: Local, values: Any, step: Iterate, new: Step) -> Any:
        """Whether the system was solved, and the curvature along the step is positive."""
        t, n = TUNING, self.program.n
        along = jnp.concatenate([step.w[:n], jnp.zeros(self.program.m)])
        curvature = jnp.dot(along, self.program.equations.product(d, values, along))
        curvature += jnp.sum((at.weights[n:] + s.shift) * step.w[n:] ** 2)
        enough = t.curvature_along_step * jnp.dot(step.w, step.w)
        return (new.accuracy <= t.usable * t.accurate) & (curvature >= enough)

    def _search(self, d: Any, s: State, step: Iterate, new: Step, old: Facts, plain: Elastic) -> tuple[Any, Any]:
        """A length and why the filter takes it: 2 for its value, 1 for its violation, 0 if it does not."""

        def body(v: Any) -> Any:
            length, _, k = v
            length = 0.5 * length
            phi, theta, _ = self.program._trial(d, s.it, step, length, s.mu, plain)
            return length, self._accepts(s, old, phi, theta, new.slope, length), k + 1

        first = self._accepts(s, old, new.phi, new.theta, new.slope, new.longest)
        start = (new.longest, first, jnp.zeros((), dtype=int))
        length, kind, _ = jax.lax.while_loop(
            lambda v: (v[1] == 0) & (v[2] < TUNING.batch_trials) & (s.status == RUNNING), body, start
        )
        return length, kind

    def _accepts(self, s: State, old: Facts, phi: Any, theta: Any, slope: Any, length: Any) -> Any:
        t = TUNING
        finite = jnp.isfinite(phi) & jnp.isfinite(theta) & (theta <= s.largest_theta)
        admitted = finite & ~jnp.any((theta >= s.theta) & (phi >= s.phi))
        noise = t.value_noise * np.finfo(np.float64).eps * jnp.abs(old.phi)
        down = jnp.maximum(-slope, 0.0)
        must = (old.theta <= s.small_theta) & (length * down**t.power_value > old.theta**t.power_violation)
        falls = phi - old.phi - noise <= t.decrease * length * slope
        less = (theta <= (1.0 - t.less_violation) * old.theta) | (phi - old.phi - noise <= -t.less_value * old.theta)
        return jnp.where(admitted, jnp.where(must, jnp.where(falls, 2, 0), jnp.where(less, 1, 0)), 0)

    def _kept(self, d: Any, s: State, numbers: Any) -> Finished:
        facts = Facts(*numbers)
        x, y, z = self.program._last(d, s.it)
        return Finished(x, y, z, facts.f, facts.residual, facts.violation, s.steps, s.status)
