"""Stochastic problems from JAX functions (extra `jax`): gradients for free, inner loops compiled as one scan.

    problem = jax_problem(n, objective, data=(X, t), constraints=constraints, lower=[-inf], upper=[0.5])

`objective(x, batch)` returns a number and `constraints(x, batch)` a vector, both means over the batch. JAX works in
single precision unless `jax.config.update("jax_enable_x64", True)` was called. Full-batch tests and certificates are
evaluated in double precision all the same; sampled gradients and inner loops are not. Functions that insist on single
precision (a scan whose carry has a fixed type) cannot be certified so, and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import numpy as np

from auglag._arrays import real_array
from auglag._typing import Matrix, Vector
from auglag.errors import InputError
from auglag.stochastic.blocks import Block, FunctionBlock, Part
from auglag.stochastic.data import Index
from auglag.stochastic.problem import StochasticProblem


def _jax() -> Any:
    try:
        import jax
    except ImportError:
        raise InputError("JAX functions need jax: pip install 'auglag[jax]'") from None
    return jax


@final
class JaxBlock(Block):
    """A block of JAX functions. With `predict` it has Gauss-Newton curvature.

    `predict(x, batch)` gives one number z per row, and then `objective(z, batch)` and `constraints(z, batch)` take z in
    place of x (they must be means of functions of one row's z each).
    """

    def __init__(
        self,
        n: int,
        m: int = 0,
        *,
        objective: Callable[..., Any] | None = None,
        constraints: Callable[..., Any] | None = None,
        predict: Callable[..., Any] | None = None,
        data: Any = None,
        sampler: Callable[..., Any] | None = None,
        weight: float = 1.0,
    ) -> None:
        jax = _jax()
        if predict is not None:
            outer_f, outer_c = objective, constraints
            objective = None if outer_f is None else lambda x, batch: outer_f(predict(x, batch), batch)
            constraints = None if outer_c is None else lambda x, batch: outer_c(predict(x, batch), batch)
        self.f, self.c = objective, constraints
        given: dict[str, Any] = {}
        if objective is not None:
            given |= {"objective": jax.jit(objective), "gradient": jax.jit(jax.grad(objective))}
        if constraints is not None:
            given |= {
                "constraints": jax.jit(constraints),
                "jacobian": jax.jit(jax.jacrev(constraints)),
                "vjp": jax.jit(lambda x, batch, w: jax.vjp(lambda u: constraints(u, batch), x)[1](w)[0]),
            }
        if predict is not None:
            given["curvature"] = jax.jit(partial(_gauss_newton, jax, predict, outer_f, outer_c, m))
        self._inner = FunctionBlock(n, m, data=data, sampler=sampler, weight=weight, **given)
        self._given, self.data, self.weight = given, data, weight
        self.n, self.m, self.rows, self.has_curvature = n, m, self._inner.rows, predict is not None
        self.in_objective, self.in_constraints = objective is not None, constraints is not None

    def take(self, index: Index | slice) -> Any:
        return self._inner.take(index)

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        return self._inner.draw(rng, size)

    def values(self, x: Vector, batch: Any) -> tuple[float, Vector]:
        return self._inner.values(x, batch)

    def gradient(self, x: Vector, batch: Any, w: Vector) -> Vector:
        return self._inner.gradient(x, batch, w)

    def part(self, x: Vector, batch: Any) -> Part:
        return self._precisely(lambda: self._inner.part(x, batch))

    def evaluate(self, x: Vector) -> Part:
        return self._precisely(lambda: self._inner.evaluate(x))

    @staticmethod
    def _precisely(evaluate: Callable[[], Part]) -> Part:
        """A residual near the rounding of single precision may be nothing but rounding: what is certified is not."""
        jax = _jax()
        if jax.config.jax_enable_x64:
            return evaluate()
        double = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
        with double(True):
            try:
                return evaluate()
            except TypeError as error:
                raise InputError(
                    "objective and constraints must also run in double precision, which certificates need, got "
                    f"TypeError: {str(error).strip()[:200]}"
                ) from error

    def subset(self, index: Index) -> JaxBlock:
        copy = object.__new__(JaxBlock)
        copy.f, copy.c, copy._given, copy.weight = self.f, self.c, self._given, self.weight
        copy._inner = self._inner.subset(index)
        copy.data = copy._inner.data
        copy.n, copy.m, copy.rows, copy.has_curvature = self.n, self.m, copy._inner.rows, self.has_curvature
        copy.in_objective, copy.in_constraints = self.in_objective, self.in_constraints
        return copy

    def curvature(self, x: Vector) -> Matrix:
        return self._inner.curvature(x)


def _gauss_newton(jax: Any, predict: Any, f: Any, c: Any, m: int, x: Any, batch: Any) -> Any:
    """J_z' diag(l'') J_z for f and for every c, negative curvature left out; shape (1 + m, n, n)."""
    jnp = jax.numpy
    z = predict(x, batch)
    J = jax.jacrev(predict)(x, batch)
    ones = jnp.ones_like(z)

    def matrix(loss: Any) -> Any:
        bend = jax.jvp(jax.grad(loss), (z,), (ones,))[1]  # every row's loss depends on its own z alone
        return (J * jnp.maximum(bend, 0.0)[:, None]).T @ J

    n = J.shape[1]
    matrices = [matrix(lambda u: f(u, batch)) if f is not None else jnp.zeros((n, n))]
    for i in range(m):
        matrices.append(matrix(lambda u, i=i: c(u, batch)[i]) if c is not None else jnp.zeros((n, n)))
    return jnp.stack(matrices)


def jax_problem(
    n: int,
    objective: Callable[..., Any],
    *,
    data: Any = None,
    sampler: Callable[..., Any] | None = None,
    constraints: Callable[..., Any] | None = None,
    predict: Callable[..., Any] | None = None,
    lower: Any = (),
    upper: Any = (),
    g: Any = None,
    names: Sequence[str] | None = None,
    x0: Any = None,
    holdout: Any = None,
) -> StochasticProblem:
    """A problem from JAX functions of (x, batch), or of (z, batch) with z = predict(x, batch); see `JaxBlock`.

    Parameters
    ----------
    n : int
        The number of variables.
    objective : callable
        `objective(x, batch)`, a number: a mean over the rows of the batch.
    data : array or pytree of arrays
        All rows; the first axis of every array counts them.
    sampler : callable
        `sampler(rng, k)` draws k rows; instead of `data`.
    constraints : callable
        `constraints(x, batch)`, a vector: a mean over the rows of the batch.
    predict : callable
        What objective and constraints share; they then take its value in the place of x.
    lower : array_like
        The lower sides of the constraints.
    upper : array_like
        The upper sides of the constraints.
    g : prox term
        A convex term that is added to the objective.
    names : sequence of str
        Of the constraints.
    x0 : array_like
        The start.
    holdout : array or pytree of arrays
        Rows on which the result is measured as well.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> from auglag.stochastic import jax_problem, minimize
    >>> data = np.linspace(0.0, 2.0, 101)[:, None]
    >>> problem = jax_problem(1, lambda x, s: 0.5 * jnp.mean((x - s) ** 2), data=data)
    >>> minimize(problem).x.round(2).tolist()
    [1.0]
    """
    m = np.atleast_1d(real_array(lower, "lower")).size

    def build(rows: Any, **more: Any) -> StochasticProblem:
        block = JaxBlock(
            n, m, objective=objective, constraints=constraints, predict=predict, data=rows,
            sampler=sampler if rows is None else None,
        )  # fmt: skip
        return StochasticProblem([block], lower=lower, upper=upper, g=g, names=names, **more)

    return build(data, x0=x0, holdout=None if holdout is None else build(holdout))
