"""The derivative of a solution by its parameters, from the KKT system at the active set: nothing is unrolled.

At a solution with free variables F and active rows A,

    [ H_FF   J_AF' ] [dx_F]     [ d(grad_x L)_F + H_FB dx_B ]
    [ J_AF     0   ] [dy_A] = - [ d(c_A - side_A) + J_AB dx_B ]

where d on the right is the change by the parameters at fixed (x, y), variables B at a bound move with it, and inactive
rows keep the multiplier 0. Rows that depend on each other are no obstacle: a tiny number on the lower diagonal picks
one of their equivalent multipliers. Where strict complementarity fails (an active row or bound with multiplier 0) the
solution has only directional derivatives; the row or bound then counts as inactive, which is the derivative along the
side where it stays so. The derivative of an instance that is not solved is NaN.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from auglag.jax.evaluation import Functions
from auglag.jax.state import Sides
from auglag.jax.tuning import TUNING
from auglag.jax.vectors import Array


def zero(dtype: Any) -> float:
    """Multipliers up to this (see `_weighs`) count as 0, sides within this distance (relative) as touched."""
    return TUNING.zero * math.sqrt(jnp.finfo(dtype).eps)


def tiny(dtype: Any) -> float:
    """On the lower diagonal, relative to the size of the rows: above rounding, below what would be seen."""
    return math.pow(jnp.finfo(dtype).eps, TUNING.regularisation)


def tangents(
    functions: Functions, x: Array, y: Array, p: Any, sides: Sides, dp: Any, dsides: Sides, solved: Array
) -> tuple[Array, Array]:
    """(dx, dy) for changes dp of the parameters and dsides of bounds and rows."""
    n, m = functions.n, functions.m
    one = jnp.ones((), x.dtype)
    known = jnp.where(solved, 1.0, jnp.nan)  # as a factor, so that it also counts backwards
    gradient, d_gradient = jax.jvp(lambda q: functions.gradient(x, q, one, y), (p,), (dp,))
    hessian = functions.hessian(x, p, one, y)
    stiffness = jnp.max(jnp.abs(hessian)) * jnp.maximum(1.0, jnp.max(jnp.abs(x)))
    free, d_bound = _bounds(x, gradient, sides, dsides, stiffness)
    keep = free.astype(x.dtype)
    moved = jnp.where(free, 0.0, d_bound)
    top = jnp.where(free[:, None] & free[None, :], hessian, jnp.eye(n, dtype=x.dtype))
    right = jnp.where(free, -(d_gradient + hessian @ moved), d_bound)
    if not m:
        return known * jnp.linalg.solve(top, right), jnp.zeros(0, x.dtype)
    jac = jax.jacrev(functions.rows)(x, p)
    c, d_rows = jax.jvp(lambda q: functions.rows(x, q), (p,), (dp,))
    active, d_side = _rows(y, c, jnp.max(jnp.abs(jac), axis=1), sides, dsides, stiffness)
    hold = active.astype(x.dtype)
    block = jac * hold[:, None] * keep[None, :]
    size = tiny(x.dtype) * jnp.maximum(1.0, jnp.max(jnp.abs(jac), initial=0.0) ** 2)
    corner = jnp.diag(jnp.where(active, -size, 1.0))
    low = jnp.where(active, -(d_rows - d_side + jac @ moved), 0.0)
    system = jnp.block([[top, block.T], [block, corner]])
    found = known * jnp.linalg.solve(system, jnp.concatenate([right, low]))
    return found[:n], found[n:]


def _weighs(forces: Array, largest: Array, stiffness: Array) -> Array:
    """Which forces (multipliers, or parts of the gradient) are more than rounding.

    Either against the largest and 1, or because x would move visibly without them: a force against the curvature. The
    second makes the answer the same for f and for a small multiple of f.
    """
    return forces > zero(forces.dtype) * jnp.minimum(jnp.maximum(1.0, largest), stiffness)


def _bounds(x: Array, gradient: Array, sides: Sides, dsides: Sides, stiffness: Array) -> tuple[Array, Array]:
    """Which variables are free, and the change of the bound that holds each of the others."""
    near = zero(x.dtype) * jnp.maximum(1.0, jnp.abs(x))
    weighs = _weighs(jnp.abs(gradient), jnp.max(jnp.abs(gradient)), stiffness)
    fixed = sides.lower == sides.upper
    low = ((x - sides.lower <= near) & (gradient > 0.0) & weighs) | fixed
    high = (sides.upper - x <= near) & (gradient < 0.0) & weighs
    return ~(low | high), jnp.where(low, dsides.lower, dsides.upper)


def _rows(y: Array, c: Array, slopes: Array, sides: Sides, dsides: Sides, stiffness: Array) -> tuple[Array, Array]:
    """Which rows are active, and the change of the side that holds them."""
    equal = sides.cl == sides.cu
    size = jnp.abs(y)
    gap = jnp.where(y > 0, sides.cu - c, c - sides.cl)
    touched = gap <= zero(y.dtype) * jnp.maximum(1.0, jnp.abs(c))
    clearly = size > zero(y.dtype) * jnp.maximum(1.0, jnp.max(size))
    active = equal | clearly | (touched & (y != 0.0) & _weighs(size * slopes, jnp.max(size * slopes), stiffness))
    return active, jnp.where(y > 0, dsides.cu, dsides.cl)
