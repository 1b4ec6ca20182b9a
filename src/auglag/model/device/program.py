"""The compiled parts of the device loop: all vectors stay on the device, decisions are made from a few numbers.

What the problem and Newton's equations are is in `equations`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from auglag.jax.compiler import quick_options
from auglag.model.device.equations import Equations, soft_of
from auglag.model.device.pattern import kkt_pattern
from auglag.model.device.records import Elastic, Iterate, Local, Right, Step
from auglag.model.device.repair import Repair
from auglag.model.device.sides import gaps, inside, largest, reach
from auglag.model.device.tuning import TUNING
from auglag.model.precision import double
from auglag.model.problem import ModelProblem
from auglag.model.structure import Structure


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
        self.equations = e = Equations(structure, self.rows.size, self.pattern.nnz)
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
        #: For the functions of a problem outside of the loop: on a GPU they are evaluated there, else by NumPy.
        self.elsewhere: Any = None if device.platform == "cpu" else self.constant["model"]
        self.device, self._jac = device, (jac_row, jac_column)
        small = structure.jac.places.size + structure.hess.places.size <= TUNING.quickly_compiled
        jit = self.jit = compiler(device, deterministic=deterministic, small=small)
        self.begin, self.least_squares, self.fitted = jit(self._begin), jit(self._least_squares), jit(self._fitted)
        self.advance, self.assemble, self.right = jit(self._advance), jit(e.assemble), jit(e.right)
        self.post, self.predicted, self.trial = jit(self._post), jit(self._predicted), jit(self._trial)
        self.unregularised, self.minimal_residual = jit(self._unregularised), jit(self._minimal_residual)
        self.moved, self.enter, self.last = jit(e.moved), jit(self._enter), jit(self._last)
        self.plus = jit(lambda a, b: a + b)  # compiled, too: what JAX does outside of `jit` waits at its first use
        self.longer = jit(lambda length, rows, more: length * rows + more)
        self.repair = Repair(e, jit)
        self._first: Any = None
        if self.elsewhere is not None:
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
            (self.plus, both[0], both[0]),
            (self.longer, 0.0, at.c, at.c),
            (self.moved, d, it, it, (0.0, 0.0), 0.0),
            (self.last, d, it),
            *self.repair.calls(d, it, at, right),
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
        if self.elsewhere is None:
            _, gradient, _, entries = problem.first_order(problem.x0)
        else:
            _, gradient, _, entries = self._first(self.elsewhere, problem.par, problem.x0)
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
            "scale_f": jnp.asarray(objective, jnp.float64),
            "scale_c": jnp.asarray(rows),
            "units": jnp.asarray(np.maximum(rows / max(np.max(rows, initial=0.0), 1e-300), t.least_row_unit)),
            "sides": jnp.asarray(sides, jnp.float64),
            "first_side": jnp.asarray(max(1.0, t.first_side * steepest * objective), jnp.float64),
        }
        return {**self.constant, **jax.device_put(own, self.device)}

    def _begin(self, d: Any, x: Any, y: Any, control: Any) -> Iterate:
        """The first iterate, inside the sides; y in the user's units, control = (push, mu, 1.0 for a warm start)."""
        push, mu, warm = control
        w = inside(d, jnp.concatenate([x, self.equations.values(d, x)[1][d["rows"]]]), push)
        low, high, below, above = gaps(d, w)
        z = jnp.where(low, jnp.where(warm > 0, mu / below, d["first_side"]), 0.0)
        u = jnp.where(high, jnp.where(warm > 0, mu / above, d["first_side"]), 0.0)
        return Iterate(w, y * d["scale_f"] / d["scale_c"], z, u, jnp.zeros(self.m))

    def _fitted(self, solution: Any) -> Any:
        """Multipliers from the solution of `least_squares`; zero where they are large or not finite."""
        y = solution[self.n :]
        return jnp.where(largest(y) <= TUNING.largest_first_multiplier, y, 0.0)

    def _least_squares(self, d: Any, it: Iterate) -> tuple[Any, Any]:
        """Matrix and right side for multipliers by least squares at an iterate."""
        _, at = self.equations.slopes(d, it._replace(y=jnp.zeros(self.m)))
        flat = at._replace(hess=jnp.zeros_like(at.hess), weights=jnp.zeros_like(at.weights))
        plain = Elastic.inelastic(self.m)
        values = self.equations.assemble(d, flat, 1.0, TUNING.soft_most, plain)
        first = -(at.gradient - it.z + it.u)[: self.n] * d["free"]
        second = jnp.zeros(self.m).at[d["rows"]].add(it.z[self.n :] - it.u[self.n :])
        return values, jnp.concatenate([first, second])

    def _advance(
        self, d: Any, it: Iterate, step: Iterate, lengths: Any, elastic: Elastic, control: Any
    ) -> tuple[Iterate, Local, Any, Right, Any]:
        """Move, evaluate, lower mu, assemble: (iterate, derivatives, matrix, right side, facts)."""
        mu, least_mu, shift, soft_factor, prox = control
        it = self.equations.moved(d, it, step, lengths, mu)
        f, at = self.equations.slopes(d, it)
        facts, mu = self.equations.facts(d, it, at, f, mu, least_mu, elastic)
        soft = soft_factor * soft_of(mu)
        values = self.equations.assemble(d, at, shift, soft, elastic, prox)
        right = self.equations.right(d, it, at, at.c + elastic.on * it.r, mu, shift, elastic)
        return it, at, values, right, facts

    def _post(
        self, d: Any, solution: Any, values: Any, right: Right, it: Iterate, at: Local, elastic: Elastic, control: Any
    ) -> tuple[Iterate, Any, Any, Any]:
        """From a solution of the linear system: the step, its residual, the rows at its longest length, and `Step`."""
        n, (mu, shift, fraction) = self.n, control
        error = right.both[0] - self.equations.product(d, values, solution)
        step = self.equations.completed(d, solution, right, it, at, elastic, mu, shift)
        dw, dy, dz, du, dr = step
        low, high, p, q = gaps(d, it.w)
        longest = jnp.minimum(reach(p, dw, low, fraction), reach(q, -dw, high, fraction))
        dual = jnp.minimum(reach(it.z, dz, low, fraction), reach(it.u, du, high, fraction))
        slope = jnp.dot(at.gradient + self.equations.central(d, it.w, mu), dw) + elastic.on * jnp.dot(
            elastic.rho * it.r - elastic.yk, dr
        )
        phi, theta, rows = self._trial(d, it, step, longest, mu, elastic)
        move = largest(dw / jnp.maximum(1.0, jnp.abs(it.w)))
        accuracy = largest(error) / jnp.maximum(largest(right.both[0]), 1e-300)
        row_error = largest(error[n:]) / jnp.maximum(largest(at.c + elastic.on * it.r), TUNING.rows_matter)
        facts = Step(longest, dual, slope, phi, theta, move, largest(dy), accuracy, row_error, mu)
        return step, error, rows, jnp.stack([jnp.asarray(v, jnp.float64) for v in facts])

    def _predicted(
        self, d: Any, solutions: Any, values: Any, right: Right, it: Iterate, at: Local, elastic: Elastic, control: Any
    ) -> tuple[Any, Right, tuple[Iterate, Any, Any, Any]]:
        """Choose mu by Mehrotra's predictor: the solution and right side for it, and what `_post` makes of them.

        `solutions` are those for both rows of the right side: every mu's solution is a combination of the two, so that
        the choice costs neither another solve nor another call. A step with a shift leaves a dual error of shift times
        it, which mu is not to run ahead of, as little as of the violation.
        """
        shift, mean, least, fraction = control
        mu = self._centring(d, solutions, right, it, at, elastic, (shift, mean, least))
        solution = solutions[0] + (mu - right.mu) * solutions[1]
        right = right.made_for(mu)
        return solution, right, self._post(d, solution, values, right, it, at, elastic, (mu, shift, fraction))

    def _centring(
        self, d: Any, solutions: Any, right: Right, it: Iterate, at: Local, elastic: Elastic, control: Any
    ) -> Any:
        """mu by Mehrotra's predictor, from the solutions for both rows of the right side."""
        t, (shift, mean, least) = TUNING, control
        affine = solutions[0] - right.mu * solutions[1]
        dw, _, dz, du, _ = self.equations.completed(d, affine, right.made_for(0.0), it, at, elastic, 0.0, shift)
        low, high, p, q = gaps(d, it.w)
        a = jnp.minimum(reach(p, dw, low, 1.0), reach(q, -dw, high, 1.0))
        b = jnp.minimum(reach(it.z, dz, low, 1.0), reach(it.u, du, high, 1.0))
        below = jnp.where(low, (p + a * dw) * (it.z + b * dz), 0.0)
        above = jnp.where(high, (q - a * dw) * (it.u + b * du), 0.0)
        ratio = (jnp.sum(below) + jnp.sum(above)) / jnp.maximum(d["sides"], 1.0) / mean
        guard = jnp.minimum(mean, t.free_guard * shift * largest(dw))
        return jnp.maximum(jnp.clip(ratio**3, t.least_centring, 1.0) * mean, jnp.maximum(least, guard))

    def _unregularised(self, d: Any, error: Any, solution: Any, control: Any) -> Any:
        """The residual in the system without regularisation; control = (soft, prox)."""
        return error + self.equations.regularisation(d, *control) * solution

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
        image = self.equations.product(d, values, direction) - self.equations.regularisation(d, soft, prox) * direction
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
        f, c = self.equations.values(d, w[: self.n])
        rows = self.equations.rows(d, c, w) + elastic.on * r
        return self.equations.barrier(d, w, f, mu, r, elastic), jnp.sum(jnp.abs(rows)), rows

    def _enter(self, it: Iterate, at: Local, rho: Any) -> tuple[Iterate, Any, Any]:
        """The elastic form, from rows that are satisfied by r: (iterate, multipliers yk, largest of r)."""
        most, r = TUNING.elastic_largest_multiplier, -at.c
        yk = jnp.clip(it.y, -most, most)
        return it._replace(y=yk - rho * r, r=r), yk, largest(r)

    def _last(self, d: Any, it: Iterate) -> tuple[Any, Any, Any]:
        """x and the multipliers of rows and bounds, in the user's units."""
        z = (it.u - it.z)[: self.n] * d["free"] / d["scale_f"]
        return it.w[: self.n], it.y * d["scale_c"] / d["scale_f"], z


def compiler(device: Any, *, deterministic: bool, small: bool) -> Any:
    """`jax.jit`: where asked for so that sums on a GPU are added up in the same order every time, and on the CPU with
    little optimisation where a model is small, because its solves take less time than optimising would.
    """
    if deterministic and device.platform == "gpu":
        return partial(jax.jit, compiler_options={"xla_gpu_deterministic_ops": True})
    if small and device.platform == "cpu":
        return partial(jax.jit, compiler_options=quick_options(0))
    return jax.jit
