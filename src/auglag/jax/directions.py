"""Newton directions for many small systems at once: a modified LDL' factorisation that always gives descent."""

from __future__ import annotations

from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp

from auglag.jax.vectors import Array, Rows, Vector, maximum, where

#: Systems up to this size are written out number by number; larger ones are arrays worked on in loops.
UNROLLED = 8


def free_step(hessian: Any, gradient: Vector, free: Vector, held: Vector) -> Vector:
    """d with d = held on the variables that are not free and H_FF d_F = -(g_F + H_FA held_A) on the free ones.

    H_FF is factorised as LDL' with the pivots max(|d_j|, theta_j^2 / bound, smallest) of Gill and Murray (1974), where
    theta_j is the largest entry of the column to come: a sufficiently positive definite matrix is left as it is, any
    other becomes positive definite without the huge steps that a mere |d_j| makes of a pivot near zero.
    """
    if isinstance(gradient, Rows):
        return _unrolled(hessian, gradient, free, held)
    return _looped(hessian, gradient, free, held)


def _unrolled(h: list[list[Array]], gradient: Rows, free: Rows, held: Rows) -> Rows:
    n = len(gradient)
    tiny = jnp.finfo(jnp.result_type(gradient[0])).eps
    a = [[where(free[i] & free[j], h[i][j], 0.0) for j in range(i)] for i in range(n)]
    diagonal = [where(free[i], h[i][i], 1.0) for i in range(n)]
    largest = reduce(maximum, [jnp.abs(v) for v in diagonal])
    off = [jnp.abs(v) for row in a for v in row]
    bound = maximum(largest, reduce(maximum, off) / n) if off else largest
    bound = maximum(bound, tiny)
    smallest = maximum(10.0 * tiny * bound, 1e4 * tiny)
    pivots: list[Array] = []
    low: list[list[Array]] = [[] for _ in range(n)]  # L below the diagonal
    scaled: list[list[Array]] = [[] for _ in range(n)]  # L times the pivots
    for j in range(n):
        pivot = diagonal[j]
        for k in range(j):
            pivot = pivot - low[j][k] * scaled[j][k]
        column = []
        for i in range(j + 1, n):
            entry = a[i][j]
            for k in range(j):
                entry = entry - low[i][k] * scaled[j][k]
            column.append(entry)
        pivot = maximum(jnp.abs(pivot), smallest)
        if column:
            theta = reduce(maximum, [jnp.abs(v) for v in column])
            pivot = maximum(pivot, theta * theta / bound)
        inverse = 1.0 / pivot
        pivots.append(inverse)
        for i, entry in zip(range(j + 1, n), column, strict=True):
            low[i].append(entry * inverse)
            scaled[i].append(entry)
    reaction = [sum((_entry(h, i, j) * held[j] for j in range(n)), start=0.0 * held[0]) for i in range(n)]
    z = [where(free[i], -(gradient[i] + reaction[i]), held[i]) for i in range(n)]
    for i in range(n):
        for k in range(i):
            z[i] = z[i] - low[i][k] * z[k]
    z = [z[i] * pivots[i] for i in range(n)]
    for i in reversed(range(n)):
        for k in range(i + 1, n):
            z[i] = z[i] - low[k][i] * z[k]
    step: Rows = where(free, Rows(z), held)
    return step


def _entry(h: list[list[Array]], i: int, j: int) -> Array:
    return h[i][j] if j <= i else h[j][i]


def _looped(h: Array, gradient: Array, free: Array, held: Array) -> Array:
    n = gradient.shape[0]
    tiny = jnp.finfo(gradient.dtype).eps
    pair = free[:, None] & free[None, :]
    eye = jnp.eye(n, dtype=h.dtype)[:, :, None]
    rhs = where(free, -(gradient + jnp.sum(h * held[None], axis=1)), held)
    a = where(pair, h, eye)
    diagonal = jnp.abs(jnp.diagonal(a)).max(axis=-1)
    bound = maximum(maximum(diagonal, jnp.abs(a * (1.0 - eye)).max(axis=(0, 1)) / n), tiny)
    smallest = maximum(10.0 * tiny * bound, 1e4 * tiny)
    index = jnp.arange(n)[:, None]

    def eliminate(j: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Column j of L into its place, and the Schur complement behind it; the right-hand side goes along."""
        a, z, inverses = carry
        column = jax.lax.dynamic_index_in_dim(a, j, 1, keepdims=False)
        pivot = jax.lax.dynamic_index_in_dim(column, j, 0, keepdims=False)
        below = where(index > j, column, 0.0)
        theta = jnp.abs(below).max(axis=0)
        pivot = maximum(maximum(jnp.abs(pivot), smallest), theta * theta / bound)
        low = below / pivot
        z = z - low * jax.lax.dynamic_index_in_dim(z, j, 0, keepdims=False)
        a = a - low[:, None] * below[None]
        a = jax.lax.dynamic_update_index_in_dim(a, low, j, 1)
        return a, z, jax.lax.dynamic_update_index_in_dim(inverses, 1.0 / pivot, j, 0)

    def back(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        low, z = carry
        j = n - 1 - i
        column = jax.lax.dynamic_index_in_dim(low, j, 1, keepdims=False)
        update = jnp.sum(where(index > j, column * z, 0.0), axis=0)
        value = jax.lax.dynamic_index_in_dim(z, j, 0, keepdims=False) - update
        return low, jax.lax.dynamic_update_index_in_dim(z, value, j, 0)

    low, z, inverses = jax.lax.fori_loop(0, n, eliminate, (a, rhs, jnp.ones_like(rhs)))
    _, z = jax.lax.fori_loop(0, n, back, (low, z * inverses))
    return where(free, z, held)
