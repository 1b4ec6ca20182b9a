"""The quadratic model of a step with all bounds and rows, solved by interior points for a whole batch at once.

A Newton step on a guessed active set is cheap, but where the Hessian is singular (a linear objective) it says nothing
on which bounds will be active. The model

    min  d'Qd/2 + g'd + beta/2 ||c + Jd - t + y/beta||^2    with x + d within its bounds and t within the rows' sides

does. With lam = y + beta (c + Jd - t) and t eliminated, a step of interior points solves one n x n system with the
matrix Q + D + J'WJ, 1/W = 1/beta + 1/(weights of t's sides), as Mehrotra (1992, SIAM J. Optim. 2, 575-601) proposes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from auglag.jax.tuning import TUNING
from auglag.jax.vectors import Array


class Model(NamedTuple):
    """The data, with the batch last."""

    q: Array  #: (n, n, batch)
    g: Array
    jac: Array  #: (m, n, batch)
    c: Array
    y: Array
    beta: Array
    low: Array  #: bounds of (d, t), infinite where there are none
    high: Array


class Inside(NamedTuple):
    """An iterate: v = (d, t), the multipliers of the rows and of both sides of v."""

    v: Array
    lam: Array
    z: Array
    u: Array


def solved(model: Model) -> tuple[Array, Array, Array]:
    """(d, lam, whether it was solved) for every instance; entries of d whose bound is active are exactly there."""
    n = model.g.shape[0]
    free = model.low < model.high
    has_low, has_high = jnp.isfinite(model.low) & free, jnp.isfinite(model.high) & free
    sides = jnp.maximum(jnp.sum(has_low, axis=0) + jnp.sum(has_high, axis=0), 1)
    scale = 1.0 + jnp.abs(model.g).max(axis=0)

    def gaps(v: Array) -> tuple[Array, Array]:
        return jnp.where(has_low, v - model.low, 1.0), jnp.where(has_high, model.high - v, 1.0)

    def mean(p: Array, q: Array, z: Array, u: Array) -> Array:
        return jnp.sum(p * z + q * u, axis=0) / sides

    def residuals(at: Inside) -> tuple[Array, Array, Array]:
        """Of stationarity in d and in t, and of the definition of lam."""
        d, t, push = at.v[:n], at.v[n:], at.u - at.z
        dual = _times(model.q, d) + model.g + jnp.sum(model.jac * at.lam[:, None], axis=0) + push[:n]
        rows = model.c + _times(model.jac, d) - t - (at.lam - model.y) / model.beta
        return jnp.where(free[:n], dual, 0.0), jnp.where(free[n:], push[n:] - at.lam, 0.0), rows

    def small(at: Inside, accuracy: float) -> Array:
        """Whether the conditions of optimality hold that well."""
        dual, slack, rows = (jnp.abs(part).max(axis=0, initial=0.0) for part in residuals(at))
        largest = jnp.maximum(jnp.maximum(dual, slack), mean(*gaps(at.v), at.z, at.u)) / scale
        return jnp.maximum(largest, rows) <= accuracy

    def step(carry: tuple[Inside, Array, Array]) -> tuple[Inside, Array, Array]:
        at, _, count = carry
        p, q = gaps(at.v)
        dual, slack, rows = residuals(at)
        weights = at.z / p + at.u / q
        soft = jnp.where(free[n:], 1.0 / jnp.maximum(weights[n:], TUNING.model_least_weight), 0.0)
        w = 1.0 / (1.0 / model.beta + soft)
        solve = _factor(model, jnp.where(free[:n], weights[:n], jnp.inf), w)

        def direction(target: tuple[Array, Array]) -> Inside:
            """Newton's direction towards p z = target[0] and q u = target[1]."""
            low = jnp.where(has_low, target[0] / p - at.z, 0.0)
            high = jnp.where(has_high, target[1] / q - at.u, 0.0)
            push = high - low
            first, second = dual + push[:n], slack + push[n:]
            d = solve(-first - jnp.sum(model.jac * (w * (rows + soft * second))[:, None], axis=0))
            lam = w * (_times(model.jac, d) + rows + soft * second)
            v = jnp.concatenate([d, soft * (lam - second)])
            z = jnp.where(has_low, low - at.z / p * v, 0.0)
            return Inside(v, lam, z, jnp.where(has_high, high + at.u / q * v, 0.0))

        def reach(s: Inside) -> Array:
            parts = [(p, s.v, has_low), (q, -s.v, has_high), (at.z, s.z, has_low), (at.u, s.u, has_high)]
            ratios = [
                jnp.min(jnp.where(has & (b < 0), -a / jnp.where(b < 0, b, -1.0), jnp.inf), axis=0)
                for a, b, has in parts
            ]
            return jnp.minimum(1.0, TUNING.model_to_sides * jnp.min(jnp.stack(ratios), axis=0))

        before, zero = mean(p, q, at.z, at.u), jnp.zeros_like(p)
        affine = direction((zero, zero))
        a = reach(affine)
        after = jnp.sum(
            jnp.where(has_low, (p + a * affine.v) * (at.z + a * affine.z), 0.0)
            + jnp.where(has_high, (q - a * affine.v) * (at.u + a * affine.u), 0.0),
            axis=0,
        )
        mu = jnp.clip(after / sides / jnp.maximum(before, 1e-300), 0.0, 1.0) ** 3 * before
        both = direction((mu - affine.v * affine.z, mu + affine.v * affine.u))
        a = reach(both)
        new = Inside(*(x + a * dx for x, dx in zip(at, both, strict=True)))
        finite = jnp.isfinite(jnp.sum(new.v, axis=0) + jnp.sum(new.lam, axis=0))
        going = carry[1] & finite
        new = jax.tree_util.tree_map(lambda x, y: jnp.where(going, x, y), new, at)
        return new, going & ~small(new, TUNING.model_accuracy), count + 1

    def unfinished(carry: tuple[Inside, Array, Array]) -> Array:
        return jnp.any(carry[1]) & (carry[2] < TUNING.model_steps)

    start = _start(model, has_low, has_high, scale)
    at, _, _ = jax.lax.while_loop(unfinished, step, (start, jnp.ones_like(scale, bool), jnp.asarray(0)))
    d, lam, exact = _settled(model, at, has_low, has_high, TUNING.model_settling * scale)
    return d, lam, exact | small(at, TUNING.model_usable)


def _settled(model: Model, at: Inside, has_low: Array, has_high: Array, prox: Array) -> tuple[Array, Array, Array]:
    """(d, lam, whether they are exact): on the sides that the iterate is near, d is there and every other lam is 0.

    Where no set of sides confirms itself, as where several do in a degenerate program, d is the iterate, moved onto the
    sides that it is near, and lam that of the iterate.

    The primal-dual active set method (Hintermueller, Ito, Kunisch 2002, SIAM J. Optim. 13, 865-888), which from a
    good guess ends in a step or two. Where nothing determines d, the term prox |d - d of the iterate|^2 / 2 does.
    """
    n = model.g.shape[0]
    fixed = model.low >= model.high

    def solve(low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
        held = low | high | fixed
        v = jnp.where(low | fixed, model.low, jnp.where(high, model.high, at.v))
        w = jnp.where(held[n:], model.beta, 0.0)
        lam = jnp.where(held[n:], model.y + model.beta * (model.c + _times(model.jac, v[:n]) - v[n:]), 0.0)
        gradient = _times(model.q, v[:n]) + model.g + jnp.sum(model.jac * lam[:, None], axis=0)
        d = v[:n] + _factor(model, jnp.where(held[:n], jnp.inf, prox), w)(-gradient)
        lam = jnp.where(held[n:], lam + w * _times(model.jac, d - v[:n]), 0.0)
        slope = _times(model.q, d) + model.g + jnp.sum(model.jac * lam[:, None], axis=0)
        slope = jnp.concatenate([slope, -lam])
        v = jnp.concatenate([d, jnp.where(held[n:], v[n:], model.c + _times(model.jac, d))])
        keeps_low = jnp.where(low, slope > 0.0, v < model.low) & has_low
        return d, lam, keeps_low, jnp.where(high, slope < 0.0, v > model.high) & has_high

    def again(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, d, lam, exact, count = carry
        new_d, new_lam, new_low, new_high = solve(low, high)
        same = jnp.all((new_low == low) & (new_high == high), axis=0)
        d, lam = jnp.where(exact, d, new_d), jnp.where(exact, lam, new_lam)
        return new_low, new_high, d, lam, exact | same, count + 1

    def unfinished(carry: tuple[Array, ...]) -> Array:
        return ~jnp.all(carry[4]) & (carry[5] < TUNING.model_settlings)

    p, q = at.v - model.low, model.high - at.v
    on_low, on_high = has_low & (at.z > p), has_high & (at.u > q)
    start = (on_low, on_high, at.v[:n], at.lam, jnp.zeros_like(prox, bool), jnp.asarray(0))
    _, _, d, lam, exact, _ = jax.lax.while_loop(unfinished, again, start)
    exact = exact & jnp.isfinite(jnp.sum(d, axis=0) + jnp.sum(lam, axis=0))
    near = jnp.where(on_low, model.low, jnp.where(on_high, model.high, at.v))[:n]
    return jnp.where(exact, d, near), jnp.where(exact, lam, at.lam), exact


def is_convex(q: Array) -> Array:
    """Whether Q has no clearly negative eigenvalue, per instance."""
    n = q.shape[0]
    size = jnp.abs(q).max(axis=(0, 1))
    shifted = q + TUNING.model_convex * jnp.where(size > 0.0, size, 1.0) * jnp.eye(n, dtype=q.dtype)[:, :, None]
    return jnp.isfinite(jnp.sum(jax.lax.linalg.cholesky(jnp.moveaxis(shifted, -1, 0)), axis=(1, 2)))


def _start(model: Model, has_low: Array, has_high: Array, scale: Array) -> Inside:
    """d = 0 and t = c, moved off their sides; multipliers of the size of the gradient."""
    v = jnp.concatenate([jnp.zeros_like(model.g), model.c])
    width = jnp.where(has_low & has_high, model.high - model.low, 1.0)
    off = TUNING.model_push * jnp.minimum(1.0, width)
    v = jnp.where(has_low, jnp.maximum(v, model.low + off), v)
    v = jnp.where(has_high, jnp.minimum(v, model.high - off), v)
    v = jnp.where(model.low < model.high, v, model.low)
    z, u = (jnp.where(has, scale, 0.0) for has in (has_low, has_high))
    return Inside(v, model.y + 0.0 * model.c, z, u)


def _times(a: Array, v: Array) -> Array:
    """A v."""
    return jnp.sum(a * v[None], axis=1)


def _factor(model: Model, weights: Array, w: Array) -> Any:
    """Solutions of (Q + diag(weights) + J'WJ) d = right; d = 0 where a weight is infinite, NaN if it is indefinite."""
    n = weights.shape[0]
    eye, free = jnp.eye(n)[:, :, None], jnp.isfinite(weights)
    a = model.q + jnp.einsum("ijb,ikb->jkb", model.jac * w[:, None], model.jac)
    a = jnp.where(free[:, None] & free[None], a, 0.0) + eye * jnp.where(free, weights, 1.0)
    largest = jnp.abs(a).max(axis=(0, 1))
    a = a + eye * (TUNING.model_prox * largest)
    factor = jax.lax.linalg.cholesky(jnp.moveaxis(a, -1, 0))
    half = partial(jax.lax.linalg.triangular_solve, factor, left_side=True, lower=True)

    def solve(right: Array) -> Array:
        right = jnp.where(free, right, 0.0)
        found = half(half(jnp.moveaxis(right, -1, 0)[..., None]), transpose_a=True)[..., 0]
        return jnp.moveaxis(found, 0, -1)

    return solve
