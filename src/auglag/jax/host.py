"""`auglag.jax.minimize`: `auglag.minimize` for JAX functions of pytrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from auglag.budget import Budget
from auglag.jax.problem import JaxProblem
from auglag.log import JsonLog
from auglag.minimize import minimize as minimize_on_the_host
from auglag.result import Result


def minimize(
    fun: Callable[..., Any] | None,
    x0: Any,
    args: Any = (),
    *,
    constraints: Any = (),
    bounds: Any = None,
    g: Any = None,
    tol: float | None = 1e-6,
    variant: str | None = None,
    preset: str | None = None,
    penalty: Any = None,
    dual: Any = None,
    tolerance: Any = None,
    inner: Any = None,
    slacks: str | None = None,
    scaling: bool | None = None,
    restoration: bool | None = None,
    budget: Budget | None = None,
    warm_start: Any = None,
    callback: Callable[..., Any] | JsonLog | None = None,
    progress: bool = False,
) -> Result:
    """Minimise a JAX function with the outer loop and the inner solvers of `auglag.minimize`.

    Results, statuses, certificates and signs are those of `auglag.minimize`. Where x0 is a pytree, so are `result.x`,
    `result.jac`, `result.bound_multipliers` and each of `result.multipliers`.

    The parameters that are not listed are those of `auglag.minimize`.

    Parameters
    ----------
    fun : callable
        The objective, a JAX function `fun(x, *args)` that returns a number; None for a feasibility problem.
    x0 : pytree of arrays
        The starting point.
    args : tuple of pytrees
        Parameters of fun and of every constraint.
    constraints : tuple, dict, NonlinearConstraint, LinearConstraint or list of these
        As in `auglag.jax.solve`.
    bounds : pair or Bounds
        As in `auglag.jax.solve`.
    g : prox term
        On the flat vector of all variables.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> import auglag.jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> start = {"a": jnp.zeros(2), "b": jnp.ones(())}
    >>> sphere = (lambda x: jnp.sum(x["a"] ** 2) + x["b"] ** 2, 1.0, 1.0)
    >>> result = auglag.jax.minimize(lambda x: jnp.sum(x["a"]) - x["b"], start, constraints=sphere)
    >>> result.success, round(float(result.x["b"]), 4)
    (True, 0.5774)
    """
    problem = JaxProblem(fun, x0, args, constraints=constraints, bounds=bounds, g=g)
    result = minimize_on_the_host(
        problem,
        tol=tol,
        variant=variant,
        preset=preset,
        penalty=penalty,
        dual=dual,
        tolerance=tolerance,
        inner=inner,
        slacks=slacks,
        scaling=scaling,
        restoration=restoration,
        budget=budget,
        warm_start=_flat_start(warm_start),
        callback=callback,
        progress=progress,
    )
    return _shaped(result, problem)


def _flat_start(warm_start: Any) -> Any:
    """An earlier result of `minimize`, its x flat again."""
    if not isinstance(warm_start, Result):
        return warm_start
    return (warm_start.certificate.x, warm_start.certificate.multipliers, warm_start.penalty)


def _shaped(result: Result, problem: JaxProblem) -> Result:
    """x and what belongs to it in the structure of x0; multipliers as the constraints return them."""
    values = dict(result)
    if not problem.statement.x.is_vector:
        for name in ("x", "jac", "bound_multipliers"):
            values[name] = problem.tree(result[name])
    shaped = problem.statement.multipliers(np.asarray(result.y))
    values["multipliers"] = [
        float(y) if np.ndim(y) == 0 and not isinstance(y, dict | tuple | list) else y for y in shaped
    ]
    return Result(**values)
