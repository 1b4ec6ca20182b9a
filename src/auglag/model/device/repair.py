"""The compiled parts of restoration: a point of less violation, near the one before and inside the sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import jax.numpy as jnp

from auglag.model.device.equations import Equations
from auglag.model.device.records import Elastic, Iterate, Local, Right
from auglag.model.device.sides import gaps, largest, reach
from auglag.model.device.tuning import TUNING


@final
class Repair:
    """Gauss-Newton steps on the violation, with a barrier; `control` is (mu, weight of the distance, rho)."""

    def __init__(self, equations: Equations, jit: Callable[..., Any]) -> None:
        self.equations, self.n, self.m = equations, equations.n, equations.m
        self.system, self.step, self.trial = jit(self._system), jit(self._step), jit(self._trial)
        self.freshened = jit(self._freshened)

    def calls(self, d: Any, it: Iterate, at: Local, right: Right) -> list[tuple[Any, ...]]:
        """Every function with arguments of the right shapes, to be compiled."""
        control = (0.0, 0.0, 1.0)
        return [
            (self.system, d, it, it.w, control),
            (self.step, d, right.both[0], right, it, at, control),
            (self.trial, d, it, it, 0.0, it.w, control, 0.0),
            (self.freshened, it),
        ]

    def _system(self, d: Any, it: Iterate, ref: Any, control: Any) -> tuple[Local, Any, Right, Any]:
        """Matrix and right side of a Gauss-Newton step on `_merit`: (derivatives, matrix, right side, facts).

        A step of the elastic form without the objective: yk = 0, and rows linear. The matrix is quasi-definite anyway.
        """
        mu, near, rho = control
        _, at = self.equations.slopes(d, it._replace(y=jnp.zeros(self.m)))
        size = near / jnp.maximum(1.0, jnp.abs(ref)) ** 2
        at = at._replace(gradient=size * (it.w - ref), hess=jnp.zeros_like(at.hess), weights=at.weights + size)
        plain = Elastic.inelastic(self.m)
        values = self.equations.assemble(d, at, 0.0, 1.0 / rho, plain)
        still = it._replace(y=jnp.zeros(self.m))
        right = self.equations.right(d, still, at, at.c, mu, 0.0, plain)
        merit = self._merit(d, it.w, at.c, ref, control)
        return at, values, right, jnp.stack([merit, jnp.sum(jnp.abs(at.c)), largest(at.c)])

    def _merit(self, d: Any, w: Any, rows: Any, ref: Any, control: Any) -> Any:
        """rho/2 |c - s|^2, the barrier, and the distance to the reference."""
        mu, near, rho = control
        plain = Elastic.inelastic(self.m)
        away = 0.5 * near * jnp.sum(((w - ref) / jnp.maximum(1.0, jnp.abs(ref))) ** 2)
        return 0.5 * rho * jnp.dot(rows, rows) + away + self.equations.barrier(d, w, 0.0, mu, jnp.zeros(self.m), plain)

    def _step(self, d: Any, solution: Any, right: Right, it: Iterate, at: Local, control: Any) -> tuple[Iterate, Any]:
        """The step, and (longest primal, longest dual, slope of the merit, largest move)."""
        y, (mu, _, rho) = solution[self.n :], control
        nothing = jnp.zeros(self.m)
        still, penalty = it._replace(y=nothing, r=nothing), Elastic(jnp.ones(()), nothing, rho)
        dw, _, dz, du, _ = self.equations.completed(d, solution, right, still, at, penalty, mu, 0.0)
        low, high, p, q = gaps(d, it.w)
        fraction = TUNING.to_sides
        longest = jnp.minimum(reach(p, dw, low, fraction), reach(q, -dw, high, fraction))
        dual = jnp.minimum(reach(it.z, dz, low, fraction), reach(it.u, du, high, fraction))
        slope = jnp.dot(at.gradient + self.equations.central(d, it.w, mu), dw) + jnp.dot(at.c, y - rho * at.c)
        step = Iterate(dw, jnp.zeros(self.m), dz, du, jnp.zeros(self.m))
        return step, jnp.stack([longest, dual, slope, largest(dw / jnp.maximum(1.0, jnp.abs(it.w)))])

    def _trial(self, d: Any, it: Iterate, step: Iterate, length: Any, ref: Any, control: Any, mu: Any) -> Any:
        """(merit, theta, phi of the barrier problem for its own mu) at a step length."""
        w = it.w + length * step.w
        f, c = self.equations.values(d, w[: self.n])
        rows = self.equations.rows(d, c, w)
        plain = Elastic.inelastic(self.m)
        phi = self.equations.barrier(d, w, f, mu, jnp.zeros(self.m), plain)
        return jnp.stack([self._merit(d, w, rows, ref, control), jnp.sum(jnp.abs(rows)), phi])

    def _freshened(self, it: Iterate) -> Iterate:
        """After restoration: multipliers of sides begin anew where one is too large."""
        over = jnp.maximum(largest(it.z), largest(it.u)) > TUNING.repair_largest_multiplier
        z, u = (jnp.where(over, jnp.where(v > 0, 1.0, 0.0), v) for v in (it.z, it.u))
        return it._replace(z=z, u=u)
