"""Inner loops for JAX functions: all steps of a draw in one `lax.scan`, with the arguments of the numba kernels.

The scan's length is the next power of two, with the surplus steps switched off, so that few programs are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from auglag.stochastic.jax import JaxBlock


@final
class JaxKernels:
    """The three methods for one problem of JAX blocks; v = (x, s). `compiled` makes a program of a scan."""

    def __init__(
        self, blocks: tuple[JaxBlock, ...], rows: Any, lower: Any, compiled: Callable[..., Any] = jax.jit
    ) -> None:
        self.blocks, self.rows = blocks, jnp.asarray(rows)
        self.lower, self.n = jnp.asarray(lower), blocks[0].n
        self._sgd = compiled(self._sgd_scan)
        self._pstorm = compiled(self._pstorm_scan)
        self._svrg = compiled(self._svrg_scan)

    # ------------------------------------------------------------------------------------------------------ the parts

    def _c(self, data: Any, x: Any, index: Any) -> Any:
        total = jnp.zeros_like(self.lower)
        for block, rows, i in zip(self.blocks, data, index, strict=True):
            if block.c is not None:
                total = total + block.weight * block.c(x, jax.tree.map(lambda a, i=i: a[i], rows))
        return total

    def _remainder(self, c: Any, v: Any) -> Any:
        return (c - self.lower).at[self.rows].set(c[self.rows] - v[self.n :])

    def _weighted(self, data: Any, x: Any, index: Any, w: Any) -> Any:
        def lagrangian(u: Any) -> Any:
            total = 0.0
            for block, rows, i in zip(self.blocks, data, index, strict=True):
                batch = jax.tree.map(lambda a, i=i: a[i], rows)
                if block.f is not None:
                    total = total + block.weight * block.f(u, batch)
                if block.c is not None:
                    total = total + block.weight * jnp.dot(w, block.c(u, batch))
            return total

        return jnp.concatenate([jax.grad(lagrangian)(x), -w[self.rows]])

    def _estimate(self, data: Any, v: Any, first: Any, second: Any, y: Any, beta: Any) -> Any:
        x = v[: self.n]
        w = y + beta * self._remainder(self._c(data, x, second), v) if y.size else y
        return self._weighted(data, x, first, w)

    def _prox(self, v: Any, alpha: Any, prox: Any, box: Any) -> Any:
        l1, l2, lo, hi = prox
        x, s = v[: self.n], v[self.n :]
        x = jnp.clip(jnp.sign(x) * jnp.maximum(jnp.abs(x) - alpha * l1, 0.0) / (1.0 + alpha * l2), lo, hi)
        return jnp.concatenate([x, jnp.clip(s, box[0], box[1])])

    @staticmethod
    def _keep(t: Any, v: Any, keep: Any, output: Any) -> Any:
        keep = jnp.where(t == output[0], v, keep)
        return jnp.where(t >= output[1], keep + v, keep)

    # ------------------------------------------------------------------------------------------------------ the scans

    def _sgd_scan(self, data, first, second, on, t, v, y, beta, alpha, prox, box, keep, output, travel, start):  # type: ignore[no-untyped-def]
        def body(carry, z):  # type: ignore[no-untyped-def]
            v, keep, t, travel = carry
            i, j, on = z
            d = self._estimate(data, v, i, j, y, beta)
            a = alpha
            if travel.size:
                far = jnp.maximum(travel[0], jnp.linalg.norm(v - start))
                square = travel[1] + d @ d
                a = far / jnp.sqrt(jnp.maximum(square, 1e-300))
                travel = jnp.where(on, jnp.array([far, square]), travel)
            new = self._prox(v - a * d, a, prox, box)
            kept = self._keep(t, new, keep, output)
            return (jnp.where(on, new, v), jnp.where(on, kept, keep), t + on, travel), None

        return lax.scan(body, (v, keep, t, travel), (first, second, on))[0]

    def _pstorm_scan(self, data, first, second, on, t, v, old, d, y, beta, alphas, momenta, prox, box, keep, output):  # type: ignore[no-untyped-def]
        def body(carry, z):  # type: ignore[no-untyped-def]
            v, old, d, keep, t = carry
            i, j, on, a, b = z
            before = self._estimate(data, old, i, j, y, beta)
            d_new = self._estimate(data, v, i, j, y, beta) + (1.0 - b) * (d - before)
            new = self._prox(v - a * d_new, a, prox, box)
            kept = self._keep(t, new, keep, output)
            after = (new, v, d_new, kept)
            return (*(jnp.where(on, p, q) for p, q in zip(after, (v, old, d, keep), strict=True)), t + on), None

        return lax.scan(body, (v, old, d, keep, t), (first, second, on, alphas, momenta))[0]

    def _svrg_scan(self, data, first, second, on, t, v, y, beta, alpha, prox, box, keep, output, snapshot):  # type: ignore[no-untyped-def]
        x0, grad0, c0, jac0 = snapshot

        def body(carry, z):  # type: ignore[no-untyped-def]
            v, keep, t = carry
            i, j, on = z
            x, w = v[: self.n], y
            if y.size:
                c = c0 + self._c(data, x, j) - self._c(data, x0, j)
                w = y + beta * self._remainder(c, v)
            d = self._weighted(data, x, i, w)
            d = d.at[: self.n].add(grad0 + w @ jac0 - self._weighted(data, x0, i, w)[: self.n])
            new = self._prox(v - alpha * d, alpha, prox, box)
            kept = self._keep(t, new, keep, output)
            return (jnp.where(on, new, v), jnp.where(on, kept, keep), t + on), None

        return lax.scan(body, (v, keep, t), (first, second, on))[0]

    # ----------------------------------------------------------------------------------- the numba kernels' signatures

    def sgd(self, model, first, second, steps, t, x, s, y, beta, alpha, prox, box, keep, output, travel, start):  # type: ignore[no-untyped-def]
        i, j, on = _padded(first, second, steps)
        v, kept, _, moved = self._sgd(
            model, i, j, on, t, np.concatenate([x, s]), y, beta, alpha, prox[:4], box, keep, output, travel, start
        )
        _store(v, x, s)
        keep[:] = kept
        travel[:] = moved

    def pstorm(self, model, first, second, steps, t, x, s, old, d, y, beta, alphas, momenta, prox, box, keep, output):  # type: ignore[no-untyped-def]
        i, j, on = _padded(first, second, steps)
        extra = len(on) - steps
        a, b = np.pad(alphas[:steps], (0, extra)), np.pad(momenta[:steps], (0, extra))
        v, before, direction, kept, _ = self._pstorm(
            model, i, j, on, t, np.concatenate([x, s]), old, d, y, beta, a, b, prox[:4], box, keep, output
        )
        _store(v, x, s)
        old[:], d[:], keep[:] = before, direction, kept

    def svrg(self, model, first, second, steps, t, x, s, y, beta, alpha, prox, box, keep, output, snapshot):  # type: ignore[no-untyped-def]
        i, j, on = _padded(first, second, steps)
        v, kept, _ = self._svrg(
            model, i, j, on, t, np.concatenate([x, s]), y, beta, alpha, prox[:4], box, keep, output, snapshot
        )
        _store(v, x, s)
        keep[:] = kept


def _padded(first: Any, second: Any, steps: int) -> tuple[Any, Any, Any]:
    length = 1 << max(0, steps - 1).bit_length()

    def pad(index: Any) -> Any:
        used = index[:steps] if index.shape[1] else np.zeros((steps, 0), dtype=index.dtype)
        return np.pad(used, ((0, length - steps), (0, 0)))

    return tuple(pad(i) for i in first), tuple(pad(i) for i in second), np.arange(length) < steps


def _store(v: Any, x: Any, s: Any) -> None:
    x[:] = v[: len(x)]
    s[:] = v[len(x) :]
