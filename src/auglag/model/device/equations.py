"""The problem's functions and Newton's equations, on the device.

The problem is min f(x) subject to c(x) - s + r = 0 and low <= (x, s) <= high, one slack s per inequality row, scaled
by its gradients at the start. r is zero, or, in the elastic form, a variable with the terms -yk'r + rho/2 |r|^2 in the
objective: that is the augmented Lagrangian of Algorithm 1 with multipliers yk and penalty rho, because eliminating r
gives c - s = (y - yk) / rho. In Newton's equations

    [[H + D, J'], [J, -E]],    D = z/gap + shift,    E = soft + 1/rho + 1/(slack's D)

1/rho stands where the dual regularisation `soft` stands: the penalty is what makes the matrix quasi-definite.
"""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp

from auglag.model.device.records import Elastic, Facts, Iterate, Local, Right
from auglag.model.device.sides import gaps, largest
from auglag.model.device.tuning import TUNING
from auglag.model.structure import Structure


@final
class Equations:
    """Functions of arrays on the device, to be compiled; `d` is the data of a problem (`Program.data`)."""

    def __init__(self, structure: Structure, slacks: int, size: int) -> None:
        self.structure, self.n, self.m = structure, structure.n, structure.m
        self.slacks, self.size = slacks, size  #: inequality rows, entries of the KKT matrix

    def values(self, d: Any, x: Any) -> tuple[Any, Any]:
        """f and c, scaled; equality rows less their side."""
        f, c = self.structure.evaluate(d["model"], d["par"], x)
        return f * d["scale_f"], (c - d["shift"]) * d["scale_c"]

    def rows(self, d: Any, c: Any, w: Any) -> Any:
        """c - s."""
        return c.at[d["rows"]].add(-w[self.n :])

    def transposed(self, d: Any, entries: Any, y: Any) -> Any:
        """J'y."""
        return jnp.zeros(self.n).at[d["jac_column"]].add(entries * y[d["jac_row"]]) * d["free"]

    def slopes(self, d: Any, it: Iterate) -> tuple[Any, Local]:
        """f and all derivatives at an iterate."""
        x = it.w[: self.n]
        f, gradient, c, entries = self.structure.differentiate(d["model"], d["par"], x)
        second = self.structure.curve(d["model"], d["par"], x, it.y * d["scale_c"], d["scale_f"])
        c = self.rows(d, (c - d["shift"]) * d["scale_c"], it.w)
        low, high, p, q = gaps(d, it.w)
        weights = jnp.where(low, it.z / p, 0.0) + jnp.where(high, it.u / q, 0.0)
        entries = entries * d["scale_c"][d["jac_row"]]
        gradient = jnp.concatenate([gradient * d["scale_f"] * d["free"], jnp.zeros(self.slacks)])
        return f * d["scale_f"], Local(gradient, c, entries, second, weights)

    def barrier(self, d: Any, w: Any, f: Any, mu: Any, r: Any, elastic: Elastic) -> Any:
        low, high, p, q = gaps(d, w)
        logs = jnp.sum(jnp.where(low, jnp.log(p), 0.0)) + jnp.sum(jnp.where(high, jnp.log(q), 0.0))
        damped = jnp.sum(jnp.where(d["damping"] > 0, p, 0.0) + jnp.where(d["damping"] < 0, q, 0.0)) * TUNING.damping
        penalty = elastic.on * (0.5 * elastic.rho * jnp.dot(r, r) - jnp.dot(elastic.yk, r))
        return f - mu * logs + mu * damped + penalty

    def assemble(self, d: Any, at: Local, shift: Any, soft: Any, elastic: Elastic, prox: Any = 0.0) -> Any:
        """The entries of the upper triangle of the KKT matrix, regularised by `soft` and `prox`."""
        n = self.n
        first = jnp.where(d["free"] > 0, at.weights[:n] + shift + prox, 1.0)
        second = -(soft * d["units"] + elastic.on / elastic.rho)
        second = second.at[d["rows"]].add(-1.0 / self.slack_weights(at, shift))
        contributions = jnp.concatenate([at.hess, at.jac, first, second])
        return jnp.zeros(self.size).at[d["places"]].add(contributions)

    def slack_weights(self, at: Local, shift: Any) -> Any:
        """The diagonal of the slacks; those without sides are free to move."""
        return jnp.maximum(at.weights[self.n :] + shift, TUNING.least_weight)

    def central(self, d: Any, w: Any, mu: Any) -> Any:
        """The gradient of the barrier terms."""
        low, high, p, q = gaps(d, w)
        return jnp.where(high, mu / q, 0.0) - jnp.where(low, mu / p, 0.0) + mu * d["damping"]

    def right(self, d: Any, it: Iterate, at: Local, rows: Any, mu: Any, shift: Any, elastic: Elastic) -> Right:
        """The right side of Newton's equations for the residual `rows` of the rows."""
        n, weights = self.n, self.slack_weights(at, shift)
        push = -self.central(d, it.w, 1.0)
        first = -(self.transposed(d, at.jac, it.y) + at.gradient[:n] - mu * push[:n]) * d["free"]
        slack = it.y[d["rows"]] - at.gradient[n:] + mu * push[n:]
        second = -rows + elastic.on * (it.r + (it.y - elastic.yk) / elastic.rho)
        second = second.at[d["rows"]].add(slack / weights)
        slope = jnp.zeros(self.m).at[d["rows"]].add(push[n:] / weights)
        both = (jnp.concatenate([first, second]), jnp.concatenate([push[:n] * d["free"], slope]))
        return Right(jnp.asarray(mu, jnp.float64), jnp.stack(both), jnp.stack([slack, push[n:]]), rows)

    def completed(
        self, d: Any, solution: Any, right: Right, it: Iterate, at: Local, elastic: Elastic, mu: Any, shift: Any
    ) -> Iterate:
        """The step that belongs to a solution of the linear system.

        A slack's step is that of its multiplier over its weight, or what its row needs. These are the same but for
        rounding: far from its sides a slack has a weight near zero, and the first is wrong; close to them it has a
        large one, and the second is.
        """
        n, weights = self.n, self.slack_weights(at, shift)
        dx, dy = solution[:n] * d["free"], solution[n:]
        dr = -elastic.on * (it.r + (it.y - elastic.yk + dy) / elastic.rho)
        needed = (right.rows + dr).at[d["jac_row"]].add(at.jac * dx[d["jac_column"]])[d["rows"]]
        ds = jnp.where(weights < 1.0, needed, (dy[d["rows"]] + right.slack[0]) / weights)
        dw = jnp.concatenate([dx, ds])
        low, high, p, q = gaps(d, it.w)
        dz = jnp.where(low, mu / p - it.z - it.z / p * dw, 0.0)
        du = jnp.where(high, mu / q - it.u + it.u / q * dw, 0.0)
        return Iterate(dw, dy, dz, du, dr)

    def product(self, d: Any, values: Any, v: Any) -> Any:
        """The symmetric matrix times a vector."""
        above = jnp.zeros(self.n + self.m).at[d["row"]].add(values * v[d["column"]])
        return above.at[d["column"]].add(jnp.where(d["off"], values, 0.0) * v[d["row"]])

    def regularisation(self, d: Any, soft: Any, prox: Any) -> Any:
        """What was added to the diagonal."""
        return jnp.concatenate([prox * d["free"], -soft * d["units"]])

    def moved(self, d: Any, it: Iterate, step: Iterate, lengths: Any, mu: Any) -> Iterate:
        primal, dual = lengths
        w, k = it.w + primal * step.w, TUNING.side_multiplier_factor
        low, high, p, q = gaps(d, w)
        z = jnp.where(low, jnp.clip(it.z + dual * step.z, mu / (k * p), k * mu / p), 0.0)
        u = jnp.where(high, jnp.clip(it.u + dual * step.u, mu / (k * q), k * mu / q), 0.0)
        return Iterate(w, it.y + primal * step.y, z, u, it.r + primal * step.r)

    def facts(
        self, d: Any, it: Iterate, at: Local, f: Any, mu: Any, least_mu: Any, elastic: Elastic
    ) -> tuple[Any, Any]:
        n, t = self.n, TUNING
        low, high, p, q = gaps(d, it.w)
        dual = jnp.concatenate([self.transposed(d, at.jac, it.y), -it.y[d["rows"]]]) + at.gradient - it.z + it.u
        rows = at.c + elastic.on * it.r
        own = elastic.on * (elastic.rho * it.r - elastic.yk + it.y)
        below, above = jnp.where(low, p * it.z, 0.0), jnp.where(high, q * it.u, 0.0)
        most = jnp.maximum(largest(below), largest(above))
        least = jnp.minimum(
            jnp.min(jnp.where(low, p * it.z, jnp.inf), initial=jnp.inf),
            jnp.min(jnp.where(high, q * it.u, jnp.inf), initial=jnp.inf),
        )
        sum_y, sum_z = jnp.sum(jnp.abs(it.y)), jnp.sum(it.z) + jnp.sum(it.u)
        large, count = t.large_multipliers, jnp.maximum(d["sides"], 1.0)
        scale_dual = jnp.maximum(large, (sum_y + sum_z) / jnp.maximum(self.m + d["sides"], 1.0)) / large
        scale_comp = jnp.maximum(large, sum_z / count) / large
        largest_dual, primal = jnp.maximum(largest(dual), largest(own)), largest(rows)

        def error(mu: Any) -> Any:
            comp = jnp.where(d["sides"] > 0, jnp.maximum(most - mu, mu - least), 0.0)
            return jnp.maximum(jnp.maximum(largest_dual / scale_dual, primal), comp / scale_comp)

        given = error(mu)
        for _ in range(t.falls):
            fall = (error(mu) <= t.solved_barrier * mu) & (mu > least_mu)
            mu = jnp.where(fall, jnp.maximum(least_mu, jnp.minimum(t.mu_factor * mu, mu**t.mu_power)), mu)
        violation = at.c / d["scale_c"]
        stationarity = jnp.linalg.norm(dual[:n]) + jnp.linalg.norm(dual[n:] * d["scale_c"][d["rows"]])
        comp = jnp.hypot(self.missed(d, it.z, p, low), self.missed(d, it.u, q, high))
        residual = stationarity / d["scale_f"] + jnp.hypot(jnp.linalg.norm(violation), comp)
        facts = Facts(
            f=f / d["scale_f"],
            dual=largest_dual,
            primal=primal,
            comp_most=most,
            comp_least=least,
            sum_y=sum_y,
            sum_z=sum_z,
            violation=largest(violation),
            theta=jnp.sum(jnp.abs(rows)),
            phi=self.barrier(d, it.w, f, mu, it.r, elastic),
            value=self.barrier(d, it.w, f, 0.0, it.r, elastic),
            mean=(jnp.sum(below) + jnp.sum(above)) / count,
            elastic=largest(it.r),
            mu=mu,
            error=error(0.0),
            residual=residual,
            barrier_error=given,
        )
        return jnp.stack([jnp.asarray(v, jnp.float64) for v in facts]), mu

    def missed(self, d: Any, z: Any, gap: Any, has: Any) -> Any:
        """What multipliers at sides that are not touched cost, as in `Certificate`: their size, or the gap."""
        n, rows = self.n, d["scale_c"][d["rows"]]
        size = jnp.concatenate([z[:n], z[n:] * rows]) / d["scale_f"]
        gap = jnp.concatenate([gap[:n] * jnp.maximum(1.0, size[:n]), gap[n:] / rows])
        return jnp.linalg.norm(jnp.where(has, jnp.minimum(size, gap), 0.0))


def soft_of(mu: Any) -> Any:
    """The dual regularisation that belongs to mu."""
    return jnp.clip(TUNING.soft_mu * mu, TUNING.soft_least, TUNING.soft_most)
