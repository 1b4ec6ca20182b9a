"""Newton directions for many systems at once, from factorisations that always give descent."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp

from auglag.jax.tuning import TUNING
from auglag.jax.vectors import Array, Rows, Vector, maximum, where


def free_step(hessian: Any, gradient: Vector, free: Vector, held: Vector, shift: Array) -> tuple[Vector, Array]:
    """d with d = held on the variables that are not free and H_FF d_F = -(g_F + H_FA held_A) on the free ones.

    Where H_FF is not positive definite it is replaced by a matrix that is, so that d is a direction of descent on the
    free variables. Returns d and what was added to the diagonal, from which the next search for it starts.
    """
    if isinstance(gradient, Rows):
        return _unrolled(hessian, gradient, free, held), shift
    return _by_cholesky(hessian, gradient, free, held, shift)


def _unrolled(h: list[list[Array]], gradient: Rows, free: Rows, held: Rows) -> Rows:
    """Small systems: LDL' with the pivots max(|d_j|, theta_j^2 / bound, smallest) of Gill and Murray (1974).

    theta_j is the largest entry of the column to come: a sufficiently positive definite matrix is left as it is, any
    other becomes positive definite without the huge steps that a mere |d_j| makes of a pivot near zero.
    """
    n = len(gradient)
    tiny = jnp.finfo(jnp.result_type(gradient[0])).eps
    a = [[where(free[i] & free[j], h[i][j], 0.0) for j in range(i)] for i in range(n)]
    diagonal = [where(free[i], h[i][i], 1.0) for i in range(n)]
    largest = reduce(maximum, [jnp.abs(v) for v in diagonal])
    off = [jnp.abs(v) for row in a for v in row]
    bound = maximum(largest, reduce(maximum, off) / n) if off else largest
    bound = maximum(bound, tiny)
    smallest = maximum(TUNING.pivot * tiny * bound, TUNING.smallest_pivot * tiny)
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


def _by_cholesky(h: Array, gradient: Array, free: Array, held: Array, shift: Array) -> tuple[Array, Array]:
    """Larger systems: Cholesky factors of H_FF + shift I, the shift 0 or the first of a growing sequence that works."""
    n = gradient.shape[0]
    pair = free[:, None] & free[None, :]
    eye = jnp.eye(n, dtype=h.dtype)
    right = where(free, -(gradient + jnp.sum(h * held[None], axis=1)), held)
    a = jnp.moveaxis(where(pair, h, eye[:, :, None]), -1, 0)
    diagonal = jnp.abs(jnp.diagonal(a, axis1=1, axis2=2)).max(axis=-1)
    least = TUNING.first_shift * maximum(diagonal, jnp.finfo(h.dtype).tiny)

    def attempt(shift: Array) -> tuple[Array, Array]:
        factor = jax.lax.linalg.cholesky(a + shift[:, None, None] * eye)
        return factor, ~jnp.isfinite(jnp.sum(factor, axis=(1, 2)))

    def failing(carry: tuple[Array, Array, Array, Array]) -> Array:
        return jnp.any(carry[2]) & (carry[3] < TUNING.shift_attempts)

    def again(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        factor, used, failed, count = carry
        larger = maximum(TUNING.shift_growth * used, maximum(least, shift / TUNING.shift_decay))
        used = where(failed, larger, used)
        new, still = attempt(used)
        return where(failed[:, None, None], new, factor), used, failed & still, count + 1

    none = jnp.zeros_like(shift)
    factor, failed = attempt(none)
    factor, used, failed, _ = jax.lax.while_loop(failing, again, (factor, none, failed, 0))
    solve = partial(jax.lax.linalg.triangular_solve, factor, left_side=True, lower=True)
    step = solve(solve(jnp.moveaxis(right, -1, 0)[..., None]), transpose_a=True)[..., 0]
    step = jnp.moveaxis(where(failed[:, None], jnp.moveaxis(right, -1, 0), step), 0, -1)
    return where(free, step, held), used
