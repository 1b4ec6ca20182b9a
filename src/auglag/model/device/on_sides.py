"""The end of a run on a device: Newton steps on the sides that are active, as in `interior.onto_sides`.

A step is made in the pattern of all other systems: active sides are stiff springs, the others have no curvature. What
is active is put on its sides first, and what that does to the equations is known before.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import jax.numpy as jnp

from auglag.model.device.program import Program
from auglag.model.device.records import Elastic, Iterate, Local, Right
from auglag.model.device.sides import gaps, largest
from auglag.model.device.tuning import TUNING


class Active(NamedTuple):
    """The active sides of w."""

    low: Any
    high: Any


@final
class OnSides:
    """The compiled parts of a program for such steps."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.active, self.system = program.jit(self._active), program.jit(self._system)
        self.error, self.landed = program.jit(self._error), program.jit(self._landed)

    def calls(self, d: Any, it: Iterate, at: Local, values: Any, right: Right) -> list[tuple[Any, ...]]:
        """Every function with arguments of the right shapes, to be compiled."""
        none, both = Active(it.z > 0.0, it.z > 0.0), right.both[0]
        return [
            (self.active, d, it, it),
            (self.system, d, it, at, none, 0.0),
            (self.error, d, values, right, both),
            (self.landed, d, it, at, none, right, both),
        ]

    def _active(self, d: Any, before: Iterate, now: Iterate) -> Active:
        """The sides whose gap fell faster than their multiplier in the last step (El-Bakry, Tapia and Zhang 1994)."""
        low, high, p, q = gaps(d, now.w)
        _, _, p_before, q_before = gaps(d, before.w)
        return Active(low & (p * before.z < now.z * p_before), high & (q * before.u < now.u * q_before))

    def _placed(self, d: Any, w: Any, active: Active) -> Any:
        """w with what is active on its sides, and the rest within them."""
        w = jnp.clip(w, d["low"], d["high"])
        return jnp.where(active.low, d["low"], jnp.where(active.high, d["high"], w))

    def _system(self, d: Any, it: Iterate, at: Local, active: Active, shift: Any) -> tuple[Any, Local, Right]:
        """The matrix, the derivatives with the curvature of sides in it, and the right side."""
        e, n, t = self.program.equations, self.program.n, TUNING
        plain = Elastic.inelastic(e.m)
        stiff = active.low | active.high
        first = jnp.where(stiff, self._placed(d, it.w, active) - it.w, 0.0)
        weights = jnp.where(stiff, t.stiff_side, t.side_prox) + shift
        springs = at._replace(weights=weights.astype(at.weights.dtype))  # else of the type that Python's numbers have
        values = e.assemble(d, springs, 0.0, t.soft_most, plain)
        change = e.product(d, values, jnp.concatenate([first[:n], jnp.zeros(e.m)]))
        gradient = jnp.concatenate([at.gradient[:n] + change[:n], at.gradient[n:]])
        balance = jnp.concatenate([-e.transposed(d, at.jac, it.y), it.y[d["rows"]]])
        springs = springs._replace(gradient=jnp.where(stiff, balance, gradient))
        rows = (at.c + change[n:]).at[d["rows"]].add(-first[n:])
        return values, springs, e.right(d, it, springs, rows, 0.0, 0.0, plain)

    def _error(self, d: Any, values: Any, right: Right, solution: Any) -> tuple[Any, Any]:
        """What a solution leaves, and its size."""
        error = right.both[0] - self.program.equations.product(d, values, solution)
        return error, largest(error)

    def _landed(
        self, d: Any, it: Iterate, springs: Local, active: Active, right: Right, solution: Any
    ) -> tuple[Iterate, Local, Active, Any, Any]:
        """The iterate after the step, with multipliers of sides that fit it, its derivatives, the sides that seem
        active there, its facts, and how many sides are not what they were.

        An active side whose multiplier has the wrong sign is left, one that the step would cross becomes active: the
        primal-dual active set method (Hintermueller, Ito and Kunisch 2002, SIAM J. Optim. 13).
        """
        e, n = self.program.equations, self.program.n
        plain = Elastic.inelastic(e.m)
        step = e.completed(d, solution, right, it, springs, plain, 0.0, 0.0)
        stiff = active.low | active.high
        free = it.w + jnp.where(stiff, 0.0, step.w)
        w, y = self._placed(d, free, active), it.y + step.y
        any_sign, own = y, y[d["rows"]]
        own = jnp.where(active.low[n:], jnp.minimum(own, 0.0), 0.0) + jnp.where(
            active.high[n:], jnp.maximum(own, 0.0), 0.0
        )
        y = y.at[d["rows"]].set(own)
        nothing = jnp.zeros_like(w)
        f, at = e.slopes(d, Iterate(w, y, nothing, nothing, jnp.zeros(e.m)))
        dual = jnp.concatenate([e.transposed(d, at.jac, y), -own]) + at.gradient
        z = jnp.where(active.low, jnp.maximum(dual, 0.0), 0.0)
        u = jnp.where(active.high, jnp.maximum(-dual, 0.0), 0.0)
        found = Iterate(w, y, z, u, jnp.zeros(e.m))
        pull = jnp.concatenate([e.transposed(d, at.jac, any_sign), -any_sign[d["rows"]]]) + at.gradient
        low = jnp.where(active.low, pull > 0.0, jnp.isfinite(d["low"]) & ~active.high & (free < d["low"]))
        high = jnp.where(active.high, pull < 0.0, jnp.isfinite(d["high"]) & ~active.low & (free > d["high"]))
        changed = jnp.sum(low != active.low) + jnp.sum(high != active.high)
        facts, _ = e.facts(d, found, at, f, TUNING.least_mu, TUNING.least_mu, plain)
        return found, at, Active(low, high), facts, changed
