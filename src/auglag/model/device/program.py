"""The compiled parts of the device loop: all vectors stay on the device, decisions are made from a few numbers.

The problem is min f(x) subject to c(x) - s + r = 0 and low <= (x, s) <= high, one slack s per inequality row, scaled
by its gradients at the start. r is zero, or, in the elastic form, a variable with the terms -yk'r + rho/2 |r|^2 in the
objective: that is the augmented Lagrangian of Algorithm 1 with multipliers yk and penalty rho, because eliminating r
gives c - s = (y - yk) / rho. In Newton's equations

    [[H + D, J'], [J, -E]],    D = z/gap + shift,    E = soft + 1/rho + 1/(slack's D)

1/rho stands where the dual regularisation `soft` stands: the penalty is what makes the matrix quasi-definite.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from auglag.model.device.tuning import TUNING
from auglag.model.precision import double
from auglag.model.problem import ModelProblem
from auglag.model.structure import Pattern, Structure

#: The distance from 1 to the next larger number.
EPS = float(np.finfo(np.float64).eps)


class Iterate(NamedTuple):
    """w = (x, s), multipliers of rows, of lower and upper sides, and the elastic variables."""

    w: Any
    y: Any
    z: Any
    u: Any
    r: Any


class Elastic(NamedTuple):
    """The augmented Lagrangian's multipliers and penalty; `on` is 1.0 or 0.0."""

    on: Any
    yk: Any
    rho: Any

    @classmethod
    def inelastic(cls, m: int) -> Elastic:
        """The form without elastic variables, inside compiled functions."""
        return cls(jnp.zeros(()), jnp.zeros(m), jnp.ones(()))

    @classmethod
    def off(cls, m: int, device: Any) -> Elastic:
        """The same as an argument of them."""
        return cls(np.float64(0.0), jax.device_put(np.zeros(m), device), np.float64(1.0))


class Local(NamedTuple):
    """What an iterate's derivatives are: scaled."""

    gradient: Any  #: of the objective, in w
    c: Any  #: c - s
    jac: Any
    hess: Any
    weights: Any  #: z/gap of both sides


class Facts(NamedTuple):
    """What the host sees of an iterate; in the scaled problem unless said otherwise."""

    f: float  #: in the user's units
    dual: float
    primal: float  #: max norm of c - s + r
    comp_most: float
    comp_least: float
    sum_y: float
    sum_z: float
    violation: float  #: largest of c - s, in the user's units
    theta: float  #: 1-norm of c - s + r
    phi: float  #: the barrier function for `mu`
    elastic: float  #: max norm of r
    mu: float  #: after it was lowered where the barrier problem is solved
    error: float  #: of the problem itself, mu = 0
    residual: float  #: 2-norms in the user's units: stationarity + |(violation, complementarity)|
    barrier_error: float  #: of the barrier problem of the mu given
    value: float  #: phi for mu = 0
    mean: float  #: of gaps times multipliers


class Right(NamedTuple):
    """A right side of Newton's equations. It is affine in mu, and comes with its slope as a second row."""

    mu: Any
    both: Any
    slack: Any  #: the slacks' part, which was eliminated
    rows: Any  #: the residual of the rows

    def made_for(self, mu: Any) -> Right:
        """The same for another mu."""
        change = jnp.array([[mu - self.mu], [0.0]])
        return Right(mu, self.both + change * self.both[1], self.slack + change * self.slack[1], self.rows)


class Step(NamedTuple):
    """A direction and what it promises."""

    longest: float  #: to the sides, primal
    longest_dual: float
    slope: float  #: of phi
    phi: float  #: at the longest step
    theta: float
    move: float  #: largest relative change
    dual_move: float  #: largest change of a multiplier of a row
    accuracy: float  #: residual of the linear system, relative to the right side
    row_error: float  #: residual of its rows, relative to their violation
    mu: float  #: that it was made for


@final
class Program:
    """A model, scaled and compiled, for any bounds, sides and parameters that fix the same variables and rows."""

    def __init__(
        self, structure: Structure, problem: ModelProblem, device: Any, *, deterministic: bool = False
    ) -> None:
        self.structure, self.n, self.m = structure, problem.n, problem.m
        self.fixed = problem.lower >= problem.upper
        self.equal = problem.cl == problem.cu
        self.rows = np.flatnonzero(~self.equal)
        self.pattern, places = kkt_pattern(structure, self.fixed)
        row, column = self.pattern.row, self.pattern.column
        jac_row, jac_column = structure.places()
        constant = {
            "model": structure.data,
            "places": jnp.asarray(places),
            "row": jnp.asarray(row.astype(np.int32)),
            "column": jnp.asarray(column.astype(np.int32)),
            "off": jnp.asarray(row != column),
            "jac_row": jnp.asarray(jac_row.astype(np.int32)),
            "jac_column": jnp.asarray(jac_column.astype(np.int32)),
            "rows": jnp.asarray(self.rows.astype(np.int32)),
            "free": jnp.asarray(np.where(self.fixed, 0.0, 1.0)),
        }
        self.constant: dict[str, Any] = jax.device_put(constant, device)
        self.device, self._jac = device, (jac_row, jac_column)
        jit = self.jit = compiler(device, deterministic=deterministic)
        self.begin, self.least_squares, self.fitted = jit(self._begin), jit(self._least_squares), jit(self._fitted)
        self.advance, self.assemble, self.right = jit(self._advance), jit(self._assemble), jit(self._right)
        self.post, self.predicted, self.trial = jit(self._post), jit(self._predicted), jit(self._trial)
        self.unregularised, self.minimal_residual = jit(self._unregularised), jit(self._minimal_residual)
        self.enter, self.last = jit(self._enter), jit(self._last)
        self.repair, self.repair_step, self.repair_trial = (
            jit(self._repair),
            jit(self._repair_step),
            jit(self._repair_trial),
        )
        self.moved, self.freshened = jit(self._moved), jit(self._freshened)
        self._first = jit(structure.differentiate) if deterministic else structure.first

    def still(self) -> Iterate:
        """Zeros."""
        w, y = np.zeros(self.n + self.rows.size), np.zeros(self.m)
        return Iterate(*jax.device_put((w, y, w, w, y), self.device))

    def ones(self, size: int) -> Any:
        """A vector of ones."""
        return jax.device_put(np.ones(size), self.device)

    @cached_property
    def no_basis(self) -> tuple[Any, Any]:
        """For the first call of `minimal_residual`: made once, it is as large as several iterates."""
        empty = np.zeros((TUNING.krylov, self.n + self.m))
        return tuple(jax.device_put((empty, empty), self.device))

    def compile_all(self, d: dict[str, Any], more: Callable[..., list[tuple[Any, ...]]]) -> None:
        """Compile every function now, and what `more` returns for such arguments, side by side: XLA does it outside
        Python's lock.

        A run then waits for the slowest, and restoration or the elastic form do not compile in the middle of it.
        """
        it, plain = self.still(), Elastic.off(self.m, self.device)
        advance = (d, it, it, np.zeros(2), plain, np.zeros(5))
        shapes = jax.eval_shape(self.advance, *advance)
        _, at, values, right, _ = jax.device_put(
            jax.tree_util.tree_map(lambda s: np.zeros(s.shape, s.dtype), shapes), self.device
        )
        both, newton = right.both, (values, right, it, at, plain)
        near = (0.0, 0.0, 1.0)
        calls: list[tuple[Any, ...]] = [
            (self.advance, *advance),
            (self.begin, d, it.w[: self.n], it.y, np.zeros(3)),
            (self.least_squares, d, it),
            (self.fitted, both[0]),
            (self.post, d, both[0], *newton, np.zeros(3)),
            (self.predicted, d, both, *newton, np.zeros(4)),
            (self.assemble, d, at, 0.0, 0.0, plain, 0.0),
            (self.unregularised, d, both[0], both[0], (0.0, 0.0)),
            (self.minimal_residual, d, values, both[0], both[0], both[0], self.no_basis, 0, np.zeros(4)),
            (self.right, d, it, at, at.c, 0.0, 0.0, plain),
            (self.trial, d, it, it, 0.0, 0.0, plain),
            (self.enter, it, at, 0.0),
            (self.repair, d, it, it.w, near),
            (self.repair_step, d, both[0], right, it, at, near),
            (self.repair_trial, d, it, it, 0.0, it.w, near, 0.0),
            (self.moved, d, it, it, (0.0, 0.0), 0.0),
            (self.freshened, it),
            (self.last, d, it),
            *more(d, it, at, values, right),
        ]

        def compiled(call: tuple[Any, ...]) -> None:
            with double(), jax.default_device(self.device):  # these contexts are a thread's own
                call[0](*call[1:])

        with ThreadPoolExecutor(len(calls)) as pool:
            list(pool.map(compiled, calls))

    def data(self, problem: ModelProblem) -> dict[str, Any]:
        """Parameters, sides and scaling of one problem, beside what is the same for all."""
        t = TUNING
        _, gradient, _, entries = self._first(self.constant["model"], problem.par, problem.x0)
        row, column = self._jac
        largest = np.zeros(self.m)
        entries = np.abs(np.asarray(entries)) * ~self.fixed[column]
        np.maximum.at(largest, row, np.nan_to_num(entries))
        rows = np.maximum(t.least_scale, np.minimum(1.0, t.largest_gradient / np.maximum(largest, 1e-300)))
        steepest = float(np.max(np.abs(np.nan_to_num(gradient)), initial=0.0, where=~self.fixed))
        objective = max(t.least_scale, min(1.0, t.largest_gradient / max(steepest, 1e-300)))
        low = np.concatenate([np.where(self.fixed, -np.inf, problem.lower), (rows * problem.cl)[self.rows]])
        high = np.concatenate([np.where(self.fixed, np.inf, problem.upper), (rows * problem.cu)[self.rows]])
        one_sided = np.isfinite(low) * ~np.isfinite(high) * 1.0 - np.isfinite(high) * ~np.isfinite(low)
        sides = int(np.isfinite(low).sum() + np.isfinite(high).sum())
        own = {
            "par": problem.par,
            "low": jnp.asarray(low),
            "high": jnp.asarray(high),
            "damping": jnp.asarray(t.damping * one_sided),
            "shift": jnp.asarray(np.where(self.equal, problem.cl, 0.0)),
            "scale_f": jnp.asarray(objective),
            "scale_c": jnp.asarray(rows),
            "units": jnp.asarray(np.maximum(rows / max(np.max(rows, initial=0.0), 1e-300), t.least_row_unit)),
            "sides": jnp.asarray(float(sides)),
            "first_side": jnp.asarray(max(1.0, t.first_side * steepest * objective)),
        }
        return {**self.constant, **jax.device_put(own, self.device)}

    # ------------------------------------------------------------------------------------------- the start

    def _begin(self, d: Any, x: Any, y: Any, control: Any) -> Iterate:
        """The first iterate, inside the sides; y in the user's units, control = (push, mu, 1.0 for a warm start)."""
        push, mu, warm = control
        w = inside(d, jnp.concatenate([x, self._values(d, x)[1][d["rows"]]]), push)
        low, high, below, above = gaps(d, w)
        z = jnp.where(low, jnp.where(warm > 0, mu / below, d["first_side"]), 0.0)
        u = jnp.where(high, jnp.where(warm > 0, mu / above, d["first_side"]), 0.0)
        return Iterate(w, y * d["scale_f"] / d["scale_c"], z, u, jnp.zeros(self.m))

    def _fitted(self, solution: Any) -> Any:
        """Multipliers from the solution of `least_squares`; zero where they are large or not finite."""
        y = solution[self.n :]
        return jnp.where(largest(y) <= TUNING.largest_first_multiplier, y, 0.0)

    # ------------------------------------------------------------------------------------------- functions and sides

    def _values(self, d: Any, x: Any) -> tuple[Any, Any]:
        """f and c, scaled; equality rows less their side."""
        f, c = self.structure.evaluate(d["model"], d["par"], x)
        return f * d["scale_f"], (c - d["shift"]) * d["scale_c"]

    def _rows(self, d: Any, c: Any, w: Any) -> Any:
        """c - s."""
        return c.at[d["rows"]].add(-w[self.n :])

    def _transposed(self, d: Any, entries: Any, y: Any) -> Any:
        """J'y."""
        return jnp.zeros(self.n).at[d["jac_column"]].add(entries * y[d["jac_row"]]) * d["free"]

    def _slopes(self, d: Any, it: Iterate) -> tuple[Any, Local]:
        """f and all derivatives at an iterate."""
        x = it.w[: self.n]
        f, gradient, c, entries = self.structure.differentiate(d["model"], d["par"], x)
        second = self.structure.curve(d["model"], d["par"], x, it.y * d["scale_c"], d["scale_f"])
        c = self._rows(d, (c - d["shift"]) * d["scale_c"], it.w)
        low, high, p, q = gaps(d, it.w)
        weights = jnp.where(low, it.z / p, 0.0) + jnp.where(high, it.u / q, 0.0)
        entries = entries * d["scale_c"][d["jac_row"]]
        gradient = jnp.concatenate([gradient * d["scale_f"] * d["free"], jnp.zeros(self.rows.size)])
        return f * d["scale_f"], Local(gradient, c, entries, second, weights)

    def _barrier(self, d: Any, w: Any, f: Any, mu: Any, r: Any, elastic: Elastic) -> Any:
        low, high, p, q = gaps(d, w)
        logs = jnp.sum(jnp.where(low, jnp.log(p), 0.0)) + jnp.sum(jnp.where(high, jnp.log(q), 0.0))
        damped = jnp.sum(jnp.where(d["damping"] > 0, p, 0.0) + jnp.where(d["damping"] < 0, q, 0.0)) * TUNING.damping
        penalty = elastic.on * (0.5 * elastic.rho * jnp.dot(r, r) - jnp.dot(elastic.yk, r))
        return f - mu * logs + mu * damped + penalty

    # ---------------------------------------------------------------------------------------------- Newton's equations

    def _assemble(self, d: Any, at: Local, shift: Any, soft: Any, elastic: Elastic, prox: Any = 0.0) -> Any:
        """The entries of the upper triangle of the KKT matrix, regularised by `soft` and `prox`."""
        n = self.n
        first = jnp.where(d["free"] > 0, at.weights[:n] + shift + prox, 1.0)
        second = -(soft * d["units"] + elastic.on / elastic.rho)
        second = second.at[d["rows"]].add(-1.0 / self._slack_weights(at, shift))
        contributions = jnp.concatenate([at.hess, at.jac, first, second])
        return jnp.zeros(self.pattern.nnz).at[d["places"]].add(contributions)

    def _slack_weights(self, at: Local, shift: Any) -> Any:
        """The diagonal of the slacks; those without sides are free to move."""
        return jnp.maximum(at.weights[self.n :] + shift, TUNING.least_weight)

    def _central(self, d: Any, w: Any, mu: Any) -> Any:
        """The gradient of the barrier terms."""
        low, high, p, q = gaps(d, w)
        return jnp.where(high, mu / q, 0.0) - jnp.where(low, mu / p, 0.0) + mu * d["damping"]

    def _right(self, d: Any, it: Iterate, at: Local, rows: Any, mu: Any, shift: Any, elastic: Elastic) -> Right:
        """The right side of Newton's equations for the residual `rows` of the rows."""
        n, weights = self.n, self._slack_weights(at, shift)
        push = -self._central(d, it.w, 1.0)
        first = -(self._transposed(d, at.jac, it.y) + at.gradient[:n] - mu * push[:n]) * d["free"]
        slack = it.y[d["rows"]] - at.gradient[n:] + mu * push[n:]
        second = -rows + elastic.on * (it.r + (it.y - elastic.yk) / elastic.rho)
        second = second.at[d["rows"]].add(slack / weights)
        slope = jnp.zeros(self.m).at[d["rows"]].add(push[n:] / weights)
        both = (jnp.concatenate([first, second]), jnp.concatenate([push[:n] * d["free"], slope]))
        return Right(jnp.asarray(mu, jnp.float64), jnp.stack(both), jnp.stack([slack, push[n:]]), rows)

    def _least_squares(self, d: Any, it: Iterate) -> tuple[Any, Any]:
        """Matrix and right side for multipliers by least squares at an iterate."""
        _, at = self._slopes(d, it._replace(y=jnp.zeros(self.m)))
        flat = at._replace(hess=jnp.zeros_like(at.hess), weights=jnp.zeros_like(at.weights))
        plain = Elastic.inelastic(self.m)
        values = self._assemble(d, flat, 1.0, TUNING.soft_most, plain)
        first = -(at.gradient - it.z + it.u)[: self.n] * d["free"]
        second = jnp.zeros(self.m).at[d["rows"]].add(it.z[self.n :] - it.u[self.n :])
        return values, jnp.concatenate([first, second])

    # ---------------------------------------------------------------------------------------------- one iteration

    def _advance(
        self, d: Any, it: Iterate, step: Iterate, lengths: Any, elastic: Elastic, control: Any
    ) -> tuple[Iterate, Local, Any, Right, Any]:
        """Move, evaluate, lower mu, assemble: (iterate, derivatives, matrix, right side, facts)."""
        mu, least_mu, shift, soft_factor, prox = control
        it = self._moved(d, it, step, lengths, mu)
        f, at = self._slopes(d, it)
        facts, mu = self._facts(d, it, at, f, mu, least_mu, elastic)
        soft = soft_factor * soft_of(mu)
        values = self._assemble(d, at, shift, soft, elastic, prox)
        right = self._right(d, it, at, at.c + elastic.on * it.r, mu, shift, elastic)
        return it, at, values, right, facts

    def _moved(self, d: Any, it: Iterate, step: Iterate, lengths: Any, mu: Any) -> Iterate:
        primal, dual = lengths
        w, k = it.w + primal * step.w, TUNING.side_multiplier_factor
        low, high, p, q = gaps(d, w)
        z = jnp.where(low, jnp.clip(it.z + dual * step.z, mu / (k * p), k * mu / p), 0.0)
        u = jnp.where(high, jnp.clip(it.u + dual * step.u, mu / (k * q), k * mu / q), 0.0)
        return Iterate(w, it.y + primal * step.y, z, u, it.r + primal * step.r)

    def _facts(
        self, d: Any, it: Iterate, at: Local, f: Any, mu: Any, least_mu: Any, elastic: Elastic
    ) -> tuple[Any, Any]:
        n, t = self.n, TUNING
        low, high, p, q = gaps(d, it.w)
        dual = jnp.concatenate([self._transposed(d, at.jac, it.y), -it.y[d["rows"]]]) + at.gradient - it.z + it.u
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
        comp = jnp.hypot(self._missed(d, it.z, p, low), self._missed(d, it.u, q, high))
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
            phi=self._barrier(d, it.w, f, mu, it.r, elastic),
            value=self._barrier(d, it.w, f, 0.0, it.r, elastic),
            mean=(jnp.sum(below) + jnp.sum(above)) / count,
            elastic=largest(it.r),
            mu=mu,
            error=error(0.0),
            residual=residual,
            barrier_error=given,
        )
        return jnp.stack([jnp.asarray(v, jnp.float64) for v in facts]), mu

    def _missed(self, d: Any, z: Any, gap: Any, has: Any) -> Any:
        """What multipliers at sides that are not touched cost, as in `Certificate`: their size, or the gap."""
        n, rows = self.n, d["scale_c"][d["rows"]]
        size = jnp.concatenate([z[:n], z[n:] * rows]) / d["scale_f"]
        gap = jnp.concatenate([gap[:n] * jnp.maximum(1.0, size[:n]), gap[n:] / rows])
        return jnp.linalg.norm(jnp.where(has, jnp.minimum(size, gap), 0.0))

    def _post(
        self, d: Any, solution: Any, values: Any, right: Right, it: Iterate, at: Local, elastic: Elastic, control: Any
    ) -> tuple[Iterate, Any, Any, Any]:
        """From a solution of the linear system: the step, its residual, the rows at its longest length, and `Step`."""
        n, (mu, shift, fraction) = self.n, control
        error = right.both[0] - self._product(d, values, solution)
        step = self._completed(d, solution, right, it, at, elastic, mu, shift)
        dw, dy, dz, du, dr = step
        low, high, p, q = gaps(d, it.w)
        longest = jnp.minimum(reach(p, dw, low, fraction), reach(q, -dw, high, fraction))
        dual = jnp.minimum(reach(it.z, dz, low, fraction), reach(it.u, du, high, fraction))
        slope = jnp.dot(at.gradient + self._central(d, it.w, mu), dw) + elastic.on * jnp.dot(
            elastic.rho * it.r - elastic.yk, dr
        )
        phi, theta, rows = self._trial(d, it, step, longest, mu, elastic)
        move = largest(dw / jnp.maximum(1.0, jnp.abs(it.w)))
        accuracy = largest(error) / jnp.maximum(largest(right.both[0]), 1e-300)
        row_error = largest(error[n:]) / jnp.maximum(largest(at.c + elastic.on * it.r), TUNING.rows_matter)
        facts = Step(longest, dual, slope, phi, theta, move, largest(dy), accuracy, row_error, mu)
        return step, error, rows, jnp.stack([jnp.asarray(v, jnp.float64) for v in facts])

    def _completed(
        self, d: Any, solution: Any, right: Right, it: Iterate, at: Local, elastic: Elastic, mu: Any, shift: Any
    ) -> Iterate:
        """The step that belongs to a solution of the linear system.

        A slack's step is that of its multiplier over its weight, or what its row needs. These are the same but for
        rounding: far from its sides a slack has a weight near zero, and the first is wrong; close to them it has a
        large one, and the second is.
        """
        n, weights = self.n, self._slack_weights(at, shift)
        dx, dy = solution[:n] * d["free"], solution[n:]
        dr = -elastic.on * (it.r + (it.y - elastic.yk + dy) / elastic.rho)
        needed = (right.rows + dr).at[d["jac_row"]].add(at.jac * dx[d["jac_column"]])[d["rows"]]
        ds = jnp.where(weights < 1.0, needed, (dy[d["rows"]] + right.slack[0]) / weights)
        dw = jnp.concatenate([dx, ds])
        low, high, p, q = gaps(d, it.w)
        dz = jnp.where(low, mu / p - it.z - it.z / p * dw, 0.0)
        du = jnp.where(high, mu / q - it.u + it.u / q * dw, 0.0)
        return Iterate(dw, dy, dz, du, dr)

    def _predicted(
        self, d: Any, solutions: Any, values: Any, right: Right, it: Iterate, at: Local, elastic: Elastic, control: Any
    ) -> tuple[Any, Right, tuple[Iterate, Any, Any, Any]]:
        """Choose mu by Mehrotra's predictor: the solution and right side for it, and what `_post` makes of them.

        `solutions` are those for both rows of the right side: every mu's solution is a combination of the two, so that
        the choice costs neither another solve nor another call.
        """
        t, (shift, mean, least, fraction) = TUNING, control
        affine = solutions[0] - right.mu * solutions[1]
        dw, _, dz, du, _ = self._completed(d, affine, right.made_for(0.0), it, at, elastic, 0.0, shift)
        low, high, p, q = gaps(d, it.w)
        a = jnp.minimum(reach(p, dw, low, 1.0), reach(q, -dw, high, 1.0))
        b = jnp.minimum(reach(it.z, dz, low, 1.0), reach(it.u, du, high, 1.0))
        below = jnp.where(low, (p + a * dw) * (it.z + b * dz), 0.0)
        above = jnp.where(high, (q - a * dw) * (it.u + b * du), 0.0)
        ratio = (jnp.sum(below) + jnp.sum(above)) / jnp.maximum(d["sides"], 1.0) / mean
        mu = jnp.maximum(jnp.clip(ratio**3, t.least_centring, 1.0) * mean, least)
        right = right.made_for(mu)
        solution = affine + mu * solutions[1]
        return solution, right, self._post(d, solution, values, right, it, at, elastic, (mu, shift, fraction))

    def _product(self, d: Any, values: Any, v: Any) -> Any:
        """The symmetric matrix times a vector."""
        above = jnp.zeros(self.n + self.m).at[d["row"]].add(values * v[d["column"]])
        return above.at[d["column"]].add(jnp.where(d["off"], values, 0.0) * v[d["row"]])

    def _regularisation(self, d: Any, soft: Any, prox: Any) -> Any:
        """What was added to the diagonal."""
        return jnp.concatenate([prox * d["free"], -soft * d["units"]])

    def _unregularised(self, d: Any, error: Any, solution: Any, control: Any) -> Any:
        """The residual in the system without regularisation; control = (soft, prox)."""
        return error + self._regularisation(d, *control) * solution

    def _minimal_residual(
        self, d: Any, values: Any, solution: Any, error: Any, direction: Any, basis: Any, count: Any, control: Any
    ) -> tuple[Any, Any, Any, Any]:
        """One step of the method of conjugate residuals on the system without regularisation.

        `direction` is what the factors make of the error, `basis` has the directions before and their images, made
        orthogonal: (solution, error, basis, largest errors of dual and rows). control = (soft, prox, weights of dual
        and of rows in the norm).
        """
        soft, prox, first, second = control
        weights = jnp.concatenate([jnp.full(self.n, first), jnp.full(self.m, second)])
        image = self._product(d, values, direction) - self._regularisation(d, soft, prox) * direction
        directions, images = basis
        for _ in range(2):  # twice is enough
            parts = images @ (weights * image)
            image, direction = image - parts @ images, direction - parts @ directions
        size = jnp.sqrt(jnp.dot(weights * image, image))
        enough = TUNING.krylov_least * jnp.sqrt(jnp.dot(weights * error, error))  # less is lost in rounding
        inverse = jnp.where(size > enough, 1.0 / size, 0.0)
        image, direction = inverse * image, inverse * direction
        length = jnp.dot(weights * image, error)
        solution, error = solution + length * direction, error - length * image
        basis = directions.at[count].set(direction), images.at[count].set(image)
        return solution, error, basis, jnp.stack([largest(error[: self.n]), largest(error[self.n :])])

    def _trial(
        self, d: Any, it: Iterate, step: Iterate, length: Any, mu: Any, elastic: Elastic
    ) -> tuple[Any, Any, Any]:
        """phi, theta and the rows at a step length."""
        w, r = it.w + length * step.w, it.r + length * step.r
        f, c = self._values(d, w[: self.n])
        rows = self._rows(d, c, w) + elastic.on * r
        return self._barrier(d, w, f, mu, r, elastic), jnp.sum(jnp.abs(rows)), rows

    # ------------------------------------------------------------------------------------- restoration

    def _repair(self, d: Any, it: Iterate, ref: Any, control: Any) -> tuple[Local, Any, Right, Any]:
        """Matrix and right side of a Gauss-Newton step on `_merit`: (derivatives, matrix, right side, facts).

        A step of the elastic form without the objective: yk = 0, and rows linear. The matrix is quasi-definite anyway.
        """
        mu, near, rho = control
        _, at = self._slopes(d, it._replace(y=jnp.zeros(self.m)))
        size = near / jnp.maximum(1.0, jnp.abs(ref)) ** 2
        at = at._replace(gradient=size * (it.w - ref), hess=jnp.zeros_like(at.hess), weights=at.weights + size)
        plain = Elastic.inelastic(self.m)
        values = self._assemble(d, at, 0.0, 1.0 / rho, plain)
        still = it._replace(y=jnp.zeros(self.m))
        right = self._right(d, still, at, at.c, mu, 0.0, plain)
        merit = self._merit(d, it.w, at.c, ref, control)
        return at, values, right, jnp.stack([merit, jnp.sum(jnp.abs(at.c)), largest(at.c)])

    def _merit(self, d: Any, w: Any, rows: Any, ref: Any, control: Any) -> Any:
        """rho/2 |c - s|^2, the barrier, and the distance to the reference."""
        mu, near, rho = control
        plain = Elastic.inelastic(self.m)
        away = 0.5 * near * jnp.sum(((w - ref) / jnp.maximum(1.0, jnp.abs(ref))) ** 2)
        return 0.5 * rho * jnp.dot(rows, rows) + away + self._barrier(d, w, 0.0, mu, jnp.zeros(self.m), plain)

    def _repair_step(
        self, d: Any, solution: Any, right: Right, it: Iterate, at: Local, control: Any
    ) -> tuple[Iterate, Any]:
        """The step, and (longest primal, longest dual, slope of the merit, largest move)."""
        y, (mu, _, rho) = solution[self.n :], control
        nothing = jnp.zeros(self.m)
        still, penalty = it._replace(y=nothing, r=nothing), Elastic(jnp.ones(()), nothing, rho)
        dw, _, dz, du, _ = self._completed(d, solution, right, still, at, penalty, mu, 0.0)
        low, high, p, q = gaps(d, it.w)
        fraction = TUNING.to_sides
        longest = jnp.minimum(reach(p, dw, low, fraction), reach(q, -dw, high, fraction))
        dual = jnp.minimum(reach(it.z, dz, low, fraction), reach(it.u, du, high, fraction))
        slope = jnp.dot(at.gradient + self._central(d, it.w, mu), dw) + jnp.dot(at.c, y - rho * at.c)
        step = Iterate(dw, jnp.zeros(self.m), dz, du, jnp.zeros(self.m))
        return step, jnp.stack([longest, dual, slope, largest(dw / jnp.maximum(1.0, jnp.abs(it.w)))])

    def _repair_trial(self, d: Any, it: Iterate, step: Iterate, length: Any, ref: Any, control: Any, mu: Any) -> Any:
        """(merit, theta, phi of the barrier problem for its own mu) at a step length."""
        w = it.w + length * step.w
        f, c = self._values(d, w[: self.n])
        rows = self._rows(d, c, w)
        plain = Elastic.inelastic(self.m)
        phi = self._barrier(d, w, f, mu, jnp.zeros(self.m), plain)
        return jnp.stack([self._merit(d, w, rows, ref, control), jnp.sum(jnp.abs(rows)), phi])

    def _freshened(self, it: Iterate) -> Iterate:
        """After restoration: multipliers of sides begin anew where one is too large."""
        over = jnp.maximum(largest(it.z), largest(it.u)) > TUNING.repair_largest_multiplier
        z, u = (jnp.where(over, jnp.where(v > 0, 1.0, 0.0), v) for v in (it.z, it.u))
        return it._replace(z=z, u=u)

    def _enter(self, it: Iterate, at: Local, rho: Any) -> tuple[Iterate, Any, Any]:
        """The elastic form, from rows that are satisfied by r: (iterate, multipliers yk, largest of r)."""
        most, r = TUNING.elastic_largest_multiplier, -at.c
        yk = jnp.clip(it.y, -most, most)
        return it._replace(y=yk - rho * r, r=r), yk, largest(r)

    def _last(self, d: Any, it: Iterate) -> tuple[Any, Any, Any]:
        """x and the multipliers of rows and bounds, in the user's units."""
        z = (it.u - it.z)[: self.n] * d["free"] / d["scale_f"]
        return it.w[: self.n], it.y * d["scale_c"] / d["scale_f"], z


def compiler(device: Any, *, deterministic: bool) -> Any:
    """`jax.jit`, where asked for so that sums on a GPU are added up in the same order every time."""
    if deterministic and device.platform == "gpu":
        return partial(jax.jit, compiler_options={"xla_gpu_deterministic_ops": True})
    return jax.jit


def gaps(d: Any, w: Any) -> tuple[Any, Any, Any, Any]:
    """Which sides are finite, and the distances to them (1 where there is none), at least a rounding error of the side.

    Rounding may put w on a side (Waechter and Biegler 2006, section 3.5).
    """
    low, high = jnp.isfinite(d["low"]), jnp.isfinite(d["high"])
    below = jnp.maximum(w - d["low"], EPS * jnp.maximum(1.0, jnp.abs(d["low"])))
    above = jnp.maximum(d["high"] - w, EPS * jnp.maximum(1.0, jnp.abs(d["high"])))
    return low, high, jnp.where(low, below, 1.0), jnp.where(high, above, 1.0)


def inside(d: Any, w: Any, push: float) -> Any:
    """w moved off its sides by `push` relative to max(1, |side|), or by that part of the width if it is less."""
    low, high = jnp.isfinite(d["low"]), jnp.isfinite(d["high"])
    below, above = jnp.where(low, d["low"], 0.0), jnp.where(high, d["high"], 0.0)
    width = jnp.where(low & high, above - below, jnp.inf)
    least = below + jnp.minimum(push * jnp.maximum(1.0, jnp.abs(below)), push * width)
    most = above - jnp.minimum(push * jnp.maximum(1.0, jnp.abs(above)), push * width)
    w = jnp.where(low, jnp.maximum(w, least), w)
    return jnp.where(high, jnp.minimum(w, most), w)


def reach(gap: Any, change: Any, has: Any, fraction: Any) -> Any:
    """The longest step at most 1 after which a gap is at least (1 - fraction) of what it was."""
    shrinks = has & (change < 0)
    lengths = jnp.where(shrinks, -fraction * gap / jnp.where(shrinks, change, -1.0), 1.0)
    return jnp.minimum(jnp.min(lengths, initial=1.0), 1.0)


def largest(v: Any) -> Any:
    """The max norm."""
    return jnp.max(jnp.abs(v), initial=0.0)


def soft_of(mu: Any) -> Any:
    """The dual regularisation that belongs to mu."""
    return jnp.clip(TUNING.soft_mu * mu, TUNING.soft_least, TUNING.soft_most)


def soft_number(mu: float) -> float:
    """The same on the host."""
    return min(max(TUNING.soft_mu * mu, TUNING.soft_least), TUNING.soft_most)


def kkt_pattern(structure: Structure, fixed: NDArray[np.bool_]) -> tuple[Pattern, Any]:
    """The upper triangle of the KKT matrix without fixed variables, and the place of every contribution in it.

    Contributions are those of H, of J, and the diagonals of variables and rows. What belongs to fixed variables gets a
    place behind the last, where JAX drops it.
    """
    n, m = structure.n, structure.m
    lower_row, lower_column = structure.lower()
    jac_row, jac_column = structure.places()
    diagonal = np.arange(n + m, dtype=np.int64)
    row = np.concatenate([lower_column, jac_column, diagonal])
    column = np.concatenate([lower_row, n + jac_row, diagonal])
    out = np.concatenate([fixed[lower_row] | fixed[lower_column], fixed[jac_column], np.zeros(n + m, dtype=bool)])
    kept = np.flatnonzero(~out)
    pattern = Pattern(row[kept], column[kept], (n + m, n + m))
    places = np.full(row.size, pattern.nnz, dtype=np.int32)
    places[kept] = pattern.places
    return pattern, places
