"""One slot of a batch: the device loop without a host, as functions of its state, for `jax.vmap`.

All decisions are made here: mu, filter, line search, shifts, and the test of the residual in the user's units. In place
of the inertia, which a batched factorisation does not tell, the curvature along the step is tested (Chiang and Zavala
2016).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from auglag.algorithm.status import Status
from auglag.model.device.program import Program
from auglag.model.device.records import Elastic, Facts, Iterate, Local, Right, Step
from auglag.model.device.sides import gaps, inside
from auglag.model.device.tuning import TUNING

#: A slot's status while its problem runs.
RUNNING = -1


class State(NamedTuple):
    """What evolves in one slot."""

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
    free: Any  #: whether every step chooses its own mu
    values: Any  #: of the iterates in the free mode, minus infinity where there are none, and their violations
    violations: Any
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


@final
class Slot:
    """The functions of one slot. `d` is the data of the program, `par` the parameters of the slot's problem."""

    def __init__(self, program: Program, *, tol: float, scaled_tol: float, steps: int) -> None:
        self.program, self.tol, self.scaled_tol, self.most_steps = program, tol, scaled_tol, steps

    def _plain(self) -> Elastic:
        return Elastic.inelastic(self.program.m)

    def begin(self, d: Any, par: Any, x: Any, y: Any, warm: bool) -> State:
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
            free=jnp.asarray(False),
            values=-none,
            violations=none,
            steps=jnp.zeros((), dtype=int),
            extra=jnp.zeros((), dtype=int),
            status=jnp.asarray(RUNNING),
        )

    def before(self, d: Any, par: Any, s: State) -> tuple[State, Local, Any, Right, Any]:
        """Move, evaluate, test, lower mu, assemble."""
        t, d = TUNING, {**d, "par": par}
        lower = jnp.maximum(t.least_mu, t.lower_mu * s.mu)  # where only the residual in the user's units is too large
        before = jnp.where(s.extra > 0, lower, s.mu)
        least_mu = jnp.where(s.extra > 0, lower, s.least_mu)
        control = (before, jnp.where(s.free, before, least_mu), s.shift, s.soft_factor, 0.0)
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
        still = jax.tree_util.tree_map(jnp.zeros_like, s.step)
        s, mu = self._settled(s._replace(extra=extra), facts)
        theta = jnp.where(mu != s.mu, jnp.inf, s.theta)
        s = s._replace(it=it, step=still, mu=mu, least_mu=least_mu, status=status, theta=theta)
        return s, at, values, right, numbers

    def _settled(self, s: State, facts: Facts) -> tuple[State, Any]:
        """The mode and mu of the next step, as `loop` settles them."""
        margin, may = TUNING.less_violation, s.extra == 0
        less = margin * jnp.minimum(1.0, facts.error)
        rows = facts.primal <= jnp.maximum(self.scaled_tol, (1.0 - margin) * s.violations)
        progress = jnp.all(rows | (facts.value <= s.values - less * jnp.abs(s.values)))
        free = may & progress
        fixed = jnp.where(may, TUNING.fixed_mu, 1.0) * facts.mean
        mu = jnp.where(s.free & ~free, jnp.maximum(s.least_mu, fixed), facts.mu)
        values = jnp.where(free, jnp.roll(s.values, 1).at[0].set(facts.value), s.values)
        violations = jnp.where(free, jnp.roll(s.violations, 1).at[0].set(facts.primal), s.violations)
        return s._replace(free=free, values=values, violations=violations), mu

    def residual(self, d: Any, values: Any, right: Any, solution: Any) -> tuple[Any, Any]:
        error = right - jax.vmap(partial(self.program.equations.product, d, values))(solution)
        return error, jnp.max(jnp.abs(error[0])) / jnp.maximum(jnp.max(jnp.abs(right[0])), 1e-300)

    def after(
        self, d: Any, par: Any, s: State, at: Local, values: Any, right: Right, numbers: Any, solution: Any
    ) -> State:
        """From solutions for both rows of the right side to a step that the filter takes, or a larger shift."""
        t, p, old = TUNING, self.program, Facts(*numbers)
        d, plain = {**d, "par": par}, self._plain()
        fraction = jnp.maximum(t.to_sides, 1.0 - jnp.where(s.free, old.error, s.mu))
        least = jnp.maximum(s.least_mu, jnp.minimum(old.mean, t.free_guard * old.primal))
        mean = jnp.maximum(old.mean, t.least_mu)
        chosen = p._centring(d, solution, right, s.it, at, plain, (s.shift, mean, least))
        mu = jnp.where(s.free, chosen, s.mu)
        solution = solution[0] + (mu - right.mu) * solution[1]
        step, _, _, found = p._post(d, solution, values, right.made_for(mu), s.it, at, plain, (mu, s.shift, fraction))
        new = Step(*found)
        old = old._replace(phi=old.value + mu / old.mu * (old.phi - old.value), mu=mu)
        s = s._replace(mu=mu, theta=jnp.where(s.free, jnp.inf, s.theta))
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
        larger = jnp.where(s.free & usable, s.shift, larger)  # another mu is tried first
        smaller = jnp.where(s.shift > t.standing_shift, s.shift / t.shift_fall, 0.0)
        shift = jnp.where(taken, smaller, jnp.where(running, larger, s.shift))
        rough = new.accuracy > t.batch_accurate
        soft = jnp.where(rough, jnp.minimum(t.soft_factor_most, t.soft_growth * s.soft_factor), 1.0)
        status = jnp.where(running & (shift > t.batch_largest_shift), int(Status.STUCK), s.status)
        step = jax.tree_util.tree_map(lambda v: jnp.where(taken, v, 0.0), step)
        lengths = (jnp.where(taken, length, 0.0), jnp.where(taken, new.longest_dual, 0.0))
        refused = s.free & ~taken
        return s._replace(
            step=step,
            lengths=lengths,
            mu=jnp.where(refused, jnp.maximum(s.least_mu, old.mean), mu),
            free=s.free & taken,
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

    def kept(self, d: Any, s: State, numbers: Any) -> Finished:
        facts = Facts(*numbers)
        x, y, z = self.program._last(d, s.it)
        return Finished(x, y, z, facts.f, facts.residual, facts.violation, s.steps, s.status)
