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

from typing import Any

import jax
import jax.numpy as jnp

from auglag.jax.evaluation import Functions
from auglag.jax.state import Sides
from auglag.jax.vectors import Array

#: Multipliers up to this (relative to the largest) count as 0, bounds within this distance (relative) as touched.
ZERO = 1e-7
#: On the lower diagonal, relative to the size of the rows.
TINY = 1e-12


def tangents(
    functions: Functions, x: Array, y: Array, p: Any, sides: Sides, dp: Any, dsides: Sides, solved: Array
) -> tuple[Array, Array]:
    """(dx, dy) for changes dp of the parameters and dsides of bounds and rows."""
    n, m = functions.n, functions.m
    one = jnp.ones((), x.dtype)
    known = jnp.where(solved, 1.0, jnp.nan)  # as a factor, so that it also counts backwards
    gradient, d_gradient = jax.jvp(lambda q: functions.gradient(x, q, one, y), (p,), (dp,))
    hessian = functions.hessian(x, p, one, y)
    free, d_bound = _bounds(x, gradient, sides, dsides)
    keep = free.astype(x.dtype)
    moved = jnp.where(free, 0.0, d_bound)
    top = jnp.where(free[:, None] & free[None, :], hessian, jnp.eye(n, dtype=x.dtype))
    right = jnp.where(free, -(d_gradient + hessian @ moved), d_bound)
    if not m:
        return known * jnp.linalg.solve(top, right), jnp.zeros(0, x.dtype)
    jac = jax.jacrev(functions.rows)(x, p)
    _, d_rows = jax.jvp(lambda q: functions.rows(x, q), (p,), (dp,))
    active, d_side = _rows(y, sides, dsides)
    hold = active.astype(x.dtype)
    block = jac * hold[:, None] * keep[None, :]
    size = TINY * jnp.maximum(1.0, jnp.max(jnp.abs(jac), initial=0.0) ** 2)
    corner = jnp.diag(jnp.where(active, -size, 1.0))
    low = jnp.where(active, -(d_rows - d_side + jac @ moved), 0.0)
    system = jnp.block([[top, block.T], [block, corner]])
    found = known * jnp.linalg.solve(system, jnp.concatenate([right, low]))
    return found[:n], found[n:]


def _bounds(x: Array, gradient: Array, sides: Sides, dsides: Sides) -> tuple[Array, Array]:
    """Which variables are free, and the change of the bound that holds each of the others."""
    near = ZERO * jnp.maximum(1.0, jnp.abs(x))
    largest = jnp.maximum(1.0, jnp.max(jnp.abs(gradient)))
    fixed = sides.lower == sides.upper
    low = ((x - sides.lower <= near) & (gradient > ZERO * largest)) | fixed
    high = (sides.upper - x <= near) & (gradient < -ZERO * largest)
    return ~(low | high), jnp.where(low, dsides.lower, dsides.upper)


def _rows(y: Array, sides: Sides, dsides: Sides) -> tuple[Array, Array]:
    """Which rows are active, and the change of the side that holds them."""
    zero = ZERO * jnp.maximum(1.0, jnp.max(jnp.abs(y)))
    equal = sides.cl == sides.cu
    active = equal | (jnp.abs(y) > zero)
    return active, jnp.where(y > 0, dsides.cu, dsides.cl)
