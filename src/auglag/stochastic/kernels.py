"""Fused inner loops for linear models, compiled by numba (extra `fast`): whole runs of steps without Python in between.

They compute what the methods compute step by step with NumPy, from the same row indices, so that both give the same
iterates up to rounding. Nothing here is imported unless numba is installed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from auglag.stochastic.compiled import INLINE, OPTIONS, accumulate, borrowed, loss, margins, slopes, two_margins


@njit(**INLINE)
def _set_sides(lower, rows, s, w):  # type: ignore[no-untyped-def]
    """w = minus what c is compared with: the slack of an inequality, the side of an equality."""
    for k in range(w.size):  # w[:] = -lower would allocate
        w[k] = -lower[k]
    for k in range(rows.size):
        w[rows[k]] = -s[k]


@njit(**INLINE)
def _enter(x, xw, g):  # type: ignore[no-untyped-def]
    """xw = x in the precision and the width of the rows; g = 0. Loops, because slices cost more than they do."""
    for j in range(x.size):
        xw[j] = x[j]
    for j in range(g.size):
        g[j] = 0


@njit(**INLINE)
def _multipliers(model, index, step, x, s, y, beta, w, z, work):  # type: ignore[no-untyped-def]
    """w = y + beta (c(x, xi2) - s), for linear models."""
    As, ts, codes, _, factors, lower, rows, _ = model
    _set_sides(lower, rows, s, w)
    for b in range(len(As)):
        size = index[b].shape[1]
        if size:
            chosen = index[b][step]
            margins(As[b], chosen, x, z)
            total = loss(codes[b], z, chosen, ts[b], work)
            for k in range(w.size):
                w[k] += factors[k, b] * total / size
    for k in range(w.size):
        w[k] = y[k] + beta * w[k]


@njit(**INLINE)
def _two_multipliers(model, index, step, x, s, o, s_old, y, beta, w, w_old, z, zo, work):  # type: ignore[no-untyped-def]
    """`_multipliers` at two points on one sample."""
    As, ts, codes, _, factors, lower, rows, _ = model
    _set_sides(lower, rows, s, w)
    _set_sides(lower, rows, s_old, w_old)
    for b in range(len(As)):
        size = index[b].shape[1]
        if size:
            chosen = index[b][step]
            two_margins(As[b], chosen, x, o, z, zo)
            total = loss(codes[b], z, chosen, ts[b], work)
            total_old = loss(codes[b], zo, chosen, ts[b], work)
            for k in range(w.size):
                w[k] += factors[k, b] * total / size
                w_old[k] += factors[k, b] * total_old / size
    for k in range(w.size):
        w[k] = y[k] + beta * w[k]
        w_old[k] = y[k] + beta * w_old[k]


@njit(**INLINE)
def _weight(factor, factors, b, w):  # type: ignore[no-untyped-def]
    """The factor of block b in f + w'c."""
    q = factor[b]
    for k in range(w.size):
        q += factors[k, b] * w[k]
    return q


@njit(**INLINE)
def _update(x, s, w_s, g, alpha, prox, box):  # type: ignore[no-untyped-def]
    """x and s after one proximal gradient step; `g` the gradient by x, -w_s the one by s."""
    l1, l2, lo, hi, plain = prox
    if plain:
        for j in range(x.size):
            x[j] -= alpha * g[j]
    else:
        for j in range(x.size):
            u = x[j] - alpha * g[j]
            u = max(abs(u) - alpha * l1[j], 0.0) * (1.0 if u > 0.0 else -1.0) / (1.0 + alpha * l2[j])
            x[j] = min(max(u, lo[j]), hi[j])
    for k in range(s.size):
        s[k] = min(max(s[k] + alpha * w_s[k], box[0][k]), box[1][k])


@njit(**INLINE)
def _keep(t, x, s, keep, output):  # type: ignore[no-untyped-def]
    """Remember iterate t if it is the drawn one, or add it to the average of the tail."""
    chosen, tail = output
    if t == chosen:
        keep[: x.size] = x
        keep[x.size :] = s
    if t >= tail:
        keep[: x.size] += x
        keep[x.size :] += s


@njit(**OPTIONS)
def sgd(model, first, second, steps, t, x, s, y, beta, alpha, prox, box, keep, output, travel, start):  # type: ignore[no-untyped-def]
    """`steps` proximal SGD steps in place; travel = (farthest distance, sum of squared gradients) or empty."""
    model, first, second, prox, box = borrowed(model), borrowed(first), borrowed(second), borrowed(prox), borrowed(box)
    As, ts, codes, factor, factors, _, rows, ((g, xw, _), (z, _, out, _), work) = model
    n, number = x.size, xw.dtype.type
    w, w_s = np.empty(y.size), np.empty(s.size)
    for step in range(steps):
        _enter(x, xw, g)
        _multipliers(model, second, step, xw, s, y, beta, w, z, work)
        for b in range(len(As)):
            chosen = first[b][step]
            q = number(_weight(factor, factors, b, w) / max(chosen.size, 1))
            margins(As[b], chosen, xw, z)
            slopes(codes[b], z, chosen, ts[b], out, work)
            for e in range(chosen.size):
                out[e] *= q
            accumulate(As[b], chosen, out, g)
        for k in range(s.size):
            w_s[k] = w[rows[k]]
        a = alpha
        if travel.size:
            square, far = 0.0, 0.0
            for j in range(n):
                square += float(g[j]) ** 2
                far += (x[j] - start[j]) ** 2
            for k in range(s.size):
                square += w_s[k] ** 2
                far += (s[k] - start[n + k]) ** 2
            travel[0] = max(travel[0], np.sqrt(far))
            travel[1] += square
            a = travel[0] / np.sqrt(max(travel[1], 1e-300))
        _update(x, s, w_s, g, a, prox, box)
        _keep(t + step, x, s, keep, output)


@njit(**OPTIONS)
def pstorm(model, first, second, steps, t, x, s, old, d, y, beta, alphas, momenta, prox, box, keep, output):  # type: ignore[no-untyped-def]
    """`steps` PStorm steps in place: d = D(v; z) + (1 - b)(d - D(old; z)), then v = prox(v - a d)."""
    model, first, second, prox, box = borrowed(model), borrowed(first), borrowed(second), borrowed(prox), borrowed(box)
    As, ts, codes, factor, factors, _, rows, ((g, xw, ow), (z, zo, out, before), work) = model
    n, number = x.size, xw.dtype.type
    old, d = borrowed(old), borrowed(d)
    w, w_old, w_s = np.empty(y.size), np.empty(y.size), np.empty(s.size)
    for step in range(steps):
        left = 1.0 - momenta[step]
        _enter(x, xw, g)
        _enter(old[:n], ow, g)
        _two_multipliers(model, second, step, xw, s, ow, old[n:], y, beta, w, w_old, z, zo, work)
        for b in range(len(As)):
            chosen = first[b][step]
            share = 1.0 / max(chosen.size, 1)
            q = number(share * _weight(factor, factors, b, w))
            q_old = number(share * left * _weight(factor, factors, b, w_old))
            two_margins(As[b], chosen, xw, ow, z, zo)
            slopes(codes[b], z, chosen, ts[b], out, work)
            slopes(codes[b], zo, chosen, ts[b], before, work)
            for e in range(chosen.size):
                out[e] = q * out[e] - q_old * before[e]
            accumulate(As[b], chosen, out, g)
        for j in range(n):
            d[j] = g[j] + left * d[j]
            old[j] = x[j]
        for k in range(s.size):
            d[n + k] = -w[rows[k]] + left * (d[n + k] + w_old[rows[k]])
            old[n + k] = s[k]
            w_s[k] = -d[n + k]
        _update(x, s, w_s, d[:n], alphas[step], prox, box)
        _keep(t + step, x, s, keep, output)


@njit(**OPTIONS)
def svrg(model, first, second, steps, t, x, s, y, beta, alpha, prox, box, keep, output, snapshot):  # type: ignore[no-untyped-def]
    """`steps` prox-SVRG steps in place; snapshot = (means, gradients, values, slopes) by block."""
    model, first, second, prox, box = borrowed(model), borrowed(first), borrowed(second), borrowed(prox), borrowed(box)
    As, ts, codes, factor, factors, lower, rows, ((g, xw, _), (z, _, out, _), work) = model
    means, gradients, values, known = borrowed(snapshot)
    n, number = x.size, xw.dtype.type
    w, w_s = np.empty(y.size), np.empty(s.size)
    for step in range(steps):
        _enter(x, xw, g)
        _set_sides(lower, rows, s, w)
        for b in range(len(As)):
            chosen = second[b][step] if second[b].shape[1] else first[b][step][:0]
            if chosen.size:
                margins(As[b], chosen, xw, z)
                total = loss(codes[b], z, chosen, ts[b], work)
                for e in range(chosen.size):
                    total -= values[b][chosen[e]]
                for k in range(w.size):
                    w[k] += factors[k, b] * (means[b] + total / chosen.size)
        for k in range(w.size):
            w[k] = y[k] + beta * w[k]
        for b in range(len(As)):
            chosen = first[b][step]
            q = _weight(factor, factors, b, w)
            margins(As[b], chosen, xw, z)
            slopes(codes[b], z, chosen, ts[b], out, work)
            share, at = number(q / chosen.size), known[b]
            for e in range(chosen.size):
                out[e] = share * (out[e] - at[chosen[e]])
            accumulate(As[b], chosen, out, g)
            for j in range(n):
                g[j] += q * gradients[b, j]
        for k in range(s.size):
            w_s[k] = w[rows[k]]
        _update(x, s, w_s, g, alpha, prox, box)
        _keep(t + step, x, s, keep, output)
