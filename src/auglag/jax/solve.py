"""`solve`: Algorithm 1 inside one compiled program, for use under `jit`, `vmap`, `grad` and `jvp`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from auglag.algorithm.status import Status
from auglag.errors import InputError
from auglag.jax.batch import judged
from auglag.jax.certificate import impossible, residuals
from auglag.jax.implicit import tangents
from auglag.jax.method import PROGRAMS, key_of, method, program, sides_of
from auglag.jax.program import Program
from auglag.jax.solution import Solution
from auglag.jax.state import Sides
from auglag.jax.statement import Statement, flat_x, state
from auglag.jax.structure import arrays_of, refuse_unknown, require_dtype, require_tol
from auglag.jax.vectors import Array


def solve(
    fun: Callable[..., Any] | None,
    x0: Any,
    args: Any = (),
    *,
    constraints: Any = (),
    bounds: Any = None,
    tol: float | None = None,
    variant: str | None = None,
    penalty: Any = None,
    dual: Any = None,
    tolerance: Any = None,
    inner: str = "auto",
    accelerate: bool = True,
    scaling: bool = True,
    max_outer: int = 100,
    max_steps: int | None = None,
    multipliers: Any = None,
    dtype: Any = None,
    record: int = 0,
    **unknown: Any,
) -> Solution:
    """Minimise fun(x, *args) subject to constraints and bounds, all inside one compiled program.

    Parameters
    ----------
    fun : callable
        The objective, a JAX function `fun(x, *args)` that returns a number; None for a feasibility problem.
    x0 : pytree of arrays
        The starting point; moved into the bounds.
    args : tuple of pytrees
        Parameters of fun and of every constraint. Derivatives of the solution by them (and by bounds and sides) are
        those of the KKT system at the solution; x0 has no influence on them.
    constraints : tuple, dict, NonlinearConstraint, LinearConstraint or list of these
        One or a list of: `(con, lb, ub)` for lb <= con(x, *args) <= ub (equal sides make an equality; con may return
        any pytree), `{"type": "eq" | "ineq", "fun": con}` (ineq: con >= 0), `NonlinearConstraint`, `LinearConstraint`.
    bounds : pair or Bounds
        `(lower, upper)` with numbers or pytrees like x0, a SciPy `Bounds`, or pairs for a vector.
    tol : float
        SOLVED means that the certificate's residual is at most tol; 1e-6 by default, 1e-3 in float32.
    variant : str
        As in `auglag.minimize`.
    penalty : str or PenaltyRule
        As in `auglag.minimize`; the rules of the package can be compiled, others cannot.
    dual : str or DualRule
        As in `auglag.minimize`, of the package.
    tolerance : ToleranceRule
        As in `auglag.minimize`, of the package.
    inner : str
        "newton" (projected Newton), "lbfgs" (projected, limited memory), "auto" (Newton up to 128 variables).
    accelerate : bool
        Whether the Newton step on the KKT system is taken where it halves the residual; False is the paper's loop.
    scaling : bool
        Whether f and c are scaled by their gradients at x0, as in `auglag.minimize`.
    max_outer : int
        The most outer iterations.
    max_steps : int
        The most inner steps in all.
    multipliers : list or array
        Multipliers to start from: a list as in `Solution.multipliers`, or one flat vector.
    dtype : dtype
        float64 (the default, which needs `jax_enable_x64`) or float32.
    record : int
        Keep the first so many outer iterations in `Solution.record`.

    Notes
    -----
    Nothing is raised for what happens at run time: `Solution.status` tells, per instance under `vmap`.

    Examples
    --------
    The nearest point of a disc, and how it moves with the radius:

    >>> import jax, jax.numpy as jnp
    >>> import auglag.jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> def nearest(r):
    ...     disc = (lambda x, r: x @ x - r**2, -jnp.inf, 0.0)
    ...     return auglag.jax.solve(lambda x, r: jnp.sum((x - 3) ** 2), jnp.zeros(2), (r,), constraints=disc).x[0]
    >>> round(float(nearest(1.0)), 4), round(float(jax.grad(nearest)(1.0)), 4)
    (0.7071, 0.7071)
    """
    refuse_unknown(solve, unknown)
    wanted = require_dtype(dtype)
    tol = require_tol(tol, wanted)
    args = arrays_of(args)
    statement = state(fun, x0, args, constraints, bounds, wanted)
    chosen = method(
        statement, tol=tol, variant=variant, penalty=penalty, dual=dual, tolerance=tolerance, inner=inner,
        accelerate=accelerate, scaling=scaling, max_outer=max_outer, max_steps=max_steps, record=record,
    )  # fmt: skip
    args = jax.tree_util.tree_map(jnp.asarray, args)
    leaves, tree = jax.tree_util.tree_flatten(args)
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
    key = ("one", key_of(fun, statement, (tree, shapes), (), chosen))
    run = PROGRAMS.get(key, lambda: _compiled(statement, args, chosen))
    y = _start_y(multipliers, statement)
    sides = Sides(*[jnp.asarray(side, wanted) for side in sides_of(statement)])
    found: Solution = run(flat_x(x0, statement.x, wanted), y, args, sides)
    return found


def _start_y(multipliers: Any, statement: Statement) -> Array:
    m = statement.functions.m
    if multipliers is None:
        return jnp.zeros(m, statement.dtype)
    parts = [jnp.reshape(jnp.asarray(leaf, statement.dtype), -1) for leaf in jax.tree_util.tree_leaves(multipliers)]
    y = jnp.concatenate([jnp.zeros(0, statement.dtype), *parts])
    if y.size != m:
        raise InputError(f"multipliers must have {m} entries, one per constraint row, got {y.size}")
    return y


def _compiled(statement: Statement, args: Any, chosen: Any) -> Any:
    """x0, y0, args, sides -> Solution, jitted, with the implicit derivative rule inside."""
    shapes = jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), args)
    own = program(statement, shapes, jax.tree_util.tree_map(lambda _: True, args), chosen)
    inside = _differentiable(own)
    functions = own.functions

    def run(x0: Array, y0: Array, p: Any, sides: Sides) -> Solution:
        x, y, info = inside(p, sides, x0, y0)
        check = info["check"]
        # A held variable's multiplier is its part of -grad L, taken again here so that it has the derivative of that.
        held = (check.bound_multipliers != 0.0) | (sides.lower == sides.upper)
        z = jnp.where(held, -functions.gradient(x, p, jnp.ones((), x.dtype), y), 0.0)
        return Solution(
            x=statement.x.tree_of(x),
            fun=functions.objective(x, p),
            multipliers=statement.multipliers(y),
            bound_multipliers=statement.x.tree_of(z),
            status=info["status"],
            residual=check.residual,
            stationarity=check.stationarity,
            violation=check.violation,
            complementarity=check.complementarity,
            outer=info["outer"],
            steps=info["steps"],
            penalty=info["penalty"],
            record=info["record"],
        )

    return jax.jit(run)


def _differentiable(own: Program) -> Any:
    """(p, sides, x0, y0) -> (x, y, info), whose derivative comes from the KKT system."""

    def inside(p: Any, sides: Sides, x0: Array, y0: Array) -> tuple[Array, Array, dict[str, Any]]:
        x0, y0, p, sides = jax.tree_util.tree_map(lambda a: a[..., None], (x0, y0, p, sides))
        s = own.run(own.begin(x0, y0, None, p, sides), p, sides, own.options.max_steps, 0)
        x, y = own.solution(s)
        record = jax.tree_util.tree_map(lambda a: a[..., 0], s.record)
        info = {"status": s.status[0], "outer": s.k[0], "steps": s.steps[0], "penalty": s.beta[0], "record": record}
        return x[..., 0], y[..., 0], info

    def certified(p: Any, sides: Sides, x0: Array, y0: Array) -> tuple[Array, Array, dict[str, Any]]:
        x, y, info = inside(p, sides, x0, y0)
        check = residuals(own.functions, x, y, p, *sides)
        status = judged(info["status"], check.residual, own.options.tol)
        lost = impossible(*sides) & (status != int(Status.SOLVED))
        return x, y, info | {"check": check, "status": jnp.where(lost, int(Status.INFEASIBLE), status)}

    mapped = jax.custom_jvp(certified)

    def rule(primals: Any, changes: Any) -> Any:
        p, sides, x0, y0 = primals
        out = mapped(p, sides, x0, y0)
        x, y, info = out
        solved = info["status"] == int(Status.SOLVED)
        dx, dy = tangents(own.functions, x, y, p, sides, changes[0], changes[1], solved)
        return out, (dx, dy, jax.tree_util.tree_map(_no_change, info))

    mapped.defjvp(rule)
    return mapped


def _no_change(value: Array) -> Any:
    if jnp.issubdtype(value.dtype, jnp.inexact):
        return jnp.zeros_like(value)
    return np.zeros(value.shape, jax.dtypes.float0)
