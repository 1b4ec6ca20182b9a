"""The certificate of `auglag.certificate`, for one instance in JAX: recomputed from x and y with plain derivatives.

Nothing here comes from the solver, whose own derivatives are written out in another way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from auglag.jax.evaluation import Functions
from auglag.jax.vectors import Array


class Residuals(NamedTuple):
    """KKT residuals of one (x, y), L = f + y'c + z'x, in the user's units; see `auglag.Certificate`."""

    objective: Array
    stationarity: Array
    violation: Array
    complementarity: Array
    residual: Array  #: stationarity + ||(violation, complementarity)||: what `tol` is compared with
    bound_multipliers: Array


def residuals(functions: Functions, x: Array, y: Array, p: Any, lower: Any, upper: Any, cl: Any, cu: Any) -> Residuals:
    """Measure x with the multipliers y; a multiplier off its side is paid for in the cheapest of the known ways."""
    f = functions.objective(x, p)
    c = functions.rows(x, p) if functions.m else jnp.zeros(0, x.dtype)
    one = jnp.ones((), x.dtype)
    v = -functions.gradient(x, p, one, y)
    outside = jnp.maximum(jnp.maximum(lower - x, x - upper), 0.0)  # not by clip: where bounds cross it sees one only
    excess_rows = jnp.maximum(jnp.maximum(cl - c, c - cu), 0.0)
    violation = jnp.sqrt(jnp.sum(excess_rows**2) + jnp.sum(outside**2))
    size, gap = _row_gaps(c, y, cl, cu)
    best: Residuals | None = None
    for held, price in _bound_ways(x, v, lower, upper):
        z = jnp.where(held, v, 0.0)
        bound_cost = jnp.sum(jnp.where(held, price, 0.0) ** 2)
        for dropped in (jnp.zeros_like(size), jnp.where(size < gap, size, 0.0)):
            kept_gap = jnp.where(dropped > 0.0, 0.0, gap)
            stationarity = jnp.sqrt(jnp.sum((v - z) ** 2) + jnp.sum(dropped**2))
            complementarity = jnp.sqrt(bound_cost + jnp.sum(kept_gap**2))
            residual = stationarity + jnp.hypot(violation, complementarity)
            way = Residuals(f, stationarity, violation, complementarity, residual, z)
            if best is None:
                best = way
            else:
                better = residual < best.residual
                best = Residuals(*[jnp.where(better, a, b) for a, b in zip(way, best, strict=True)])
    assert best is not None
    finite = jnp.isfinite(f)
    return best._replace(residual=jnp.where(finite, best.residual, jnp.nan))


def impossible(lower: Any, upper: Any, cl: Any, cu: Any) -> Array:
    """Whether bounds or sides contradict themselves; those known before tracing are refused, traced ones end here."""
    none = jnp.zeros((), bool)
    for low, high in ((lower, upper), (cl, cu)):
        none = none | jnp.any((low > high) | (low == jnp.inf) | (high == -jnp.inf))
    return none


def _row_gaps(c: Array, y: Array, cl: Any, cu: Any) -> tuple[Array, Array]:
    """(|y_i|, gap of the side its sign points at) for inequality rows; 0 for equalities."""
    inequality = cl != cu
    gap = jnp.where(y > 0, cu - c, jnp.where(y < 0, c - cl, 0.0))
    return jnp.where(inequality, jnp.abs(y), 0.0), jnp.where(inequality, jnp.maximum(gap, 0.0), 0.0)


def _bound_ways(x: Array, v: Array, lower: Any, upper: Any) -> list[tuple[Array, Array]]:
    """(which components of -grad L a bound takes, at which price): only at the bound, or near it."""
    gap = jnp.where(v > 0, upper - x, jnp.where(v < 0, x - lower, 0.0))
    size = jnp.abs(v)
    price = jnp.where(jnp.isfinite(gap), jnp.maximum(gap, 0.0) * jnp.maximum(1.0, size), jnp.inf)
    return [(gap <= 0.0, price), (price < size, price)]
