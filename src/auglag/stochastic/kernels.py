"""Fused inner loops for linear models, compiled by numba (extra `fast`): whole runs of steps without Python in between.

They compute what the methods compute step by step with NumPy, from the same row indices, so that both give the same
iterates up to rounding. Nothing here is imported unless numba is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_OPTIONS: dict[str, Any] = {"fastmath": True, "nogil": True, "cache": True, "error_model": "numpy"}
#: For what relies on rounding: sums are not rearranged.
_EXACT = _OPTIONS | {"fastmath": {"contract"}}

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6  # whose sum is log(2)
_ROUND = 6755399441055744.0  # 1.5 * 2^52: a double this large has no bits behind the point


@njit(**_OPTIONS)
def _margins(A, index, x, z):  # type: ignore[no-untyped-def]
    """z[e] = a_i'x for i = index[e], four rows at a time."""
    size, whole = index.size, index.size - index.size % 4
    for e in range(0, whole, 4):
        i, j, k, l = index[e], index[e + 1], index[e + 2], index[e + 3]
        a = x[0] * 0
        b, c, d = a, a, a
        for col in range(x.size):
            u = x[col]
            a += A[i, col] * u
            b += A[j, col] * u
            c += A[k, col] * u
            d += A[l, col] * u
        z[e], z[e + 1], z[e + 2], z[e + 3] = a, b, c, d
    for e in range(whole, size):
        a = x[0] * 0
        for col in range(x.size):
            a += A[index[e], col] * x[col]
        z[e] = a


@njit(**_OPTIONS)
def _two_margins(A, index, x, o, z, zo):  # type: ignore[no-untyped-def]
    """z[e] = a_i'x and zo[e] = a_i'o for i = index[e]: every row is read once."""
    size, whole = index.size, index.size - index.size % 2
    for e in range(0, whole, 2):
        i, j = index[e], index[e + 1]
        a = x[0] * 0
        b, c, d = a, a, a
        for col in range(x.size):
            u, v = A[i, col], A[j, col]
            a += u * x[col]
            b += v * x[col]
            c += u * o[col]
            d += v * o[col]
        z[e], z[e + 1], zo[e], zo[e + 1] = a, b, c, d
    for e in range(whole, size):
        a = x[0] * 0
        c = a
        for col in range(x.size):
            a += A[index[e], col] * x[col]
            c += A[index[e], col] * o[col]
        z[e], zo[e] = a, c


@njit(**_OPTIONS)
def _accumulate(A, index, factors, g):  # type: ignore[no-untyped-def]
    """g += sum_e factors[e] a_i for i = index[e], four rows at a time."""
    size, whole = index.size, index.size - index.size % 4
    for e in range(0, whole, 4):
        i, j, k, l = index[e], index[e + 1], index[e + 2], index[e + 3]
        a, b, c, d = factors[e], factors[e + 1], factors[e + 2], factors[e + 3]
        for col in range(g.size):
            g[col] += a * A[i, col] + b * A[j, col] + c * A[k, col] + d * A[l, col]
    for e in range(whole, size):
        for col in range(g.size):
            g[col] += factors[e] * A[index[e], col]


@njit(**_EXACT)
def _exp(size, work):  # type: ignore[no-untyped-def]
    """out[e] = exp(u[e]) for e < size, to the last bit or so, in loops that a compiler turns into vector instructions.

    exp(u) = 2^k exp(r) with |r| <= log(2) / 2. Adding and taking away `_ROUND` rounds to the whole number k, whose bits
    then stand at the end of the sum's and are moved to where a double has its exponent. Beyond +-708, the ends.
    """
    u, out, shifted, whole, bits, power = work
    for e in range(size):
        shifted[e] = min(max(u[e], -708.0), 708.0) * _LOG2E + _ROUND
    for e in range(size):
        bits[e] = (whole[e] + 1023) << 52
    for e in range(size):
        k = shifted[e] - _ROUND
        r = min(max(u[e], -708.0), 708.0) - k * _LN2_HIGH - k * _LN2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        out[e] = p * power[e]


@njit(**_OPTIONS)
def _slopes(code, z, index, t, out, work):  # type: ignore[no-untyped-def]
    """out[e] = the derivative of the loss at margin z[e] of row index[e]."""
    if code == 1:
        for e in range(index.size):
            out[e] = z[e] - t[index[e]]
        return
    for e in range(index.size):
        work[0][e] = t[index[e]] * z[e]
    _exp(index.size, work)
    if code == 0:
        for e in range(index.size):
            out[e] = -t[index[e]] / (1.0 + work[1][e])
    else:
        for e in range(index.size):
            q = 1.0 / (1.0 + work[1][e])
            out[e] = -t[index[e]] * q * (1.0 - q)


@njit(**_OPTIONS)
def _loss(code, z, index, t, work):  # type: ignore[no-untyped-def]
    """The sum of the losses at the margins z[e] of rows index[e].

    log(1 + e^-|u|) is summed as the logarithm of a product of 16 factors between 1 and 2: one logarithm for sixteen.
    """
    total, size = 0.0, index.size
    if code == 1:
        for e in range(size):
            total += 0.5 * (z[e] - t[index[e]]) ** 2
        return total
    if code == 0:
        for e in range(size):
            u = -t[index[e]] * z[e]
            total += max(u, 0.0)
            work[0][e] = -abs(u)
        _exp(size, work)
        for start in range(0, size, 16):
            product = 1.0
            for e in range(start, min(start + 16, size)):
                product *= 1.0 + work[1][e]
            total += np.log(product)
        return total
    for e in range(size):
        work[0][e] = t[index[e]] * z[e]
    _exp(size, work)
    for e in range(size):
        total += 1.0 / (1.0 + work[1][e])
    return total


@njit(**_OPTIONS)
def _buffers(A, first, second):  # type: ignore[no-untyped-def]
    """The work arrays of a step: two as wide as the rows, zero, three as long as the largest batch, those of `_exp`."""
    most = 1
    for b in range(len(first)):
        most = max(most, first[b].shape[1], second[b].shape[1])
    wide, long = np.zeros_like(A[0]), np.empty(most, A.dtype)
    u, shifted, bits = np.empty(most), np.empty(most), np.empty(most, np.int64)
    work = (u, np.empty(most), shifted, shifted.view(np.int64), bits, bits.view(np.float64))
    return wide, wide.copy(), long, long.copy(), long.copy(), work


@njit(**_OPTIONS)
def _multipliers(model, index, step, x, s, y, beta, w, z, work):  # type: ignore[no-untyped-def]
    """w = y + beta (c(x, xi2) - s), for linear models."""
    As, ts, codes, _, factors, lower, rows = model
    w[:] = -lower
    for k in range(rows.size):
        w[rows[k]] = -s[k]
    for b in range(len(As)):
        size = index[b].shape[1]
        if size:
            chosen = index[b][step]
            _margins(As[b], chosen, x, z)
            total = _loss(codes[b], z, chosen, ts[b], work)
            for k in range(w.size):
                w[k] += factors[k, b] * total / size
    for k in range(w.size):
        w[k] = y[k] + beta * w[k]


@njit(**_OPTIONS)
def _two_multipliers(model, index, step, x, s, o, s_old, y, beta, w, w_old, z, zo, work):  # type: ignore[no-untyped-def]
    """`_multipliers` at two points on one sample."""
    As, ts, codes, _, factors, lower, rows = model
    w[:] = -lower
    w_old[:] = -lower
    for k in range(rows.size):
        w[rows[k]] = -s[k]
        w_old[rows[k]] = -s_old[k]
    for b in range(len(As)):
        size = index[b].shape[1]
        if size:
            chosen = index[b][step]
            _two_margins(As[b], chosen, x, o, z, zo)
            total = _loss(codes[b], z, chosen, ts[b], work)
            total_old = _loss(codes[b], zo, chosen, ts[b], work)
            for k in range(w.size):
                w[k] += factors[k, b] * total / size
                w_old[k] += factors[k, b] * total_old / size
    for k in range(w.size):
        w[k] = y[k] + beta * w[k]
        w_old[k] = y[k] + beta * w_old[k]


@njit(**_OPTIONS)
def _weight(factor, factors, b, w):  # type: ignore[no-untyped-def]
    """The factor of block b in f + w'c."""
    q = factor[b]
    for k in range(w.size):
        q += factors[k, b] * w[k]
    return q


@njit(**_OPTIONS)
def _update(x, s, w_s, g, alpha, prox, box):  # type: ignore[no-untyped-def]
    """x and s after one proximal gradient step; `g` the gradient by x, -w_s the one by s."""
    l1, l2, lo, hi, plain = prox
    for j in range(x.size):
        u = x[j] - alpha * g[j]
        if not plain:
            u = max(abs(u) - alpha * l1[j], 0.0) * (1.0 if u > 0.0 else -1.0) / (1.0 + alpha * l2[j])
            u = min(max(u, lo[j]), hi[j])
        x[j] = u
    for k in range(s.size):
        s[k] = min(max(s[k] + alpha * w_s[k], box[0][k]), box[1][k])


@njit(**_OPTIONS)
def _keep(t, x, s, keep, output):  # type: ignore[no-untyped-def]
    """Remember iterate t if it is the drawn one, or add it to the average of the tail."""
    chosen, tail = output
    if t == chosen:
        keep[: x.size] = x
        keep[x.size :] = s
    if t >= tail:
        keep[: x.size] += x
        keep[x.size :] += s


@njit(**_OPTIONS)
def sgd(model, first, second, steps, t, x, s, y, beta, alpha, prox, box, keep, output, travel, start):  # type: ignore[no-untyped-def]
    """`steps` proximal SGD steps in place; travel = (farthest distance, sum of squared gradients) or empty."""
    As, ts, codes, factor, factors, _, rows = model
    n, wide = x.size, As[0].shape[1]
    g, xw, z, out, coefficients, work = _buffers(As[0], first, second)
    w, w_s = np.empty(y.size), np.empty(s.size)
    for step in range(steps):
        xw[:n] = x
        _multipliers(model, second, step, xw, s, y, beta, w, z, work)
        g[:wide] = 0.0
        for b in range(len(As)):
            chosen = first[b][step]
            q = _weight(factor, factors, b, w) / max(chosen.size, 1)
            _margins(As[b], chosen, xw, z)
            _slopes(codes[b], z, chosen, ts[b], out, work)
            for e in range(chosen.size):
                coefficients[e] = q * out[e]
            _accumulate(As[b], chosen, coefficients, g)
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


@njit(**_OPTIONS)
def pstorm(model, first, second, steps, t, x, s, old, d, y, beta, alphas, momenta, prox, box, keep, output):  # type: ignore[no-untyped-def]
    """`steps` PStorm steps in place: d = D(v; z) + (1 - b)(d - D(old; z)), then v = prox(v - a d)."""
    As, ts, codes, factor, factors, _, rows = model
    n, wide = x.size, As[0].shape[1]
    g, xw, z, out, coefficients, work = _buffers(As[0], first, second)
    ow, zo, before = np.zeros_like(xw), np.empty_like(z), np.empty_like(z)
    w, w_old, w_s = np.empty(y.size), np.empty(y.size), np.empty(s.size)
    for step in range(steps):
        left = 1.0 - momenta[step]
        xw[:n] = x
        ow[:n] = old[:n]
        _two_multipliers(model, second, step, xw, s, ow, old[n:], y, beta, w, w_old, z, zo, work)
        g[:wide] = 0.0
        for b in range(len(As)):
            chosen = first[b][step]
            share = 1.0 / max(chosen.size, 1)
            q, q_old = share * _weight(factor, factors, b, w), share * left * _weight(factor, factors, b, w_old)
            _two_margins(As[b], chosen, xw, ow, z, zo)
            _slopes(codes[b], z, chosen, ts[b], out, work)
            _slopes(codes[b], zo, chosen, ts[b], before, work)
            for e in range(chosen.size):
                coefficients[e] = q * out[e] - q_old * before[e]
            _accumulate(As[b], chosen, coefficients, g)
        for j in range(n):
            d[j] = g[j] + left * d[j]
            old[j] = x[j]
        for k in range(s.size):
            d[n + k] = -w[rows[k]] + left * (d[n + k] + w_old[rows[k]])
            old[n + k] = s[k]
            w_s[k] = -d[n + k]
        _update(x, s, w_s, d[:n], alphas[step], prox, box)
        _keep(t + step, x, s, keep, output)


@njit(**_OPTIONS)
def svrg(model, first, second, steps, t, x, s, y, beta, alpha, prox, box, keep, output, snapshot):  # type: ignore[no-untyped-def]
    """`steps` prox-SVRG steps in place; snapshot = (means, gradients, values, slopes) by block."""
    As, ts, codes, factor, factors, lower, rows = model
    means, gradients, values, slopes = snapshot
    n, wide = x.size, As[0].shape[1]
    g, xw, z, out, coefficients, work = _buffers(As[0], first, second)
    w, w_s = np.empty(y.size), np.empty(s.size)
    for step in range(steps):
        xw[:n] = x
        w[:] = -lower
        for k in range(s.size):
            w[rows[k]] = -s[k]
        for b in range(len(As)):
            chosen = second[b][step] if second[b].shape[1] else first[b][step][:0]
            if chosen.size:
                _margins(As[b], chosen, xw, z)
                total = _loss(codes[b], z, chosen, ts[b], work)
                for e in range(chosen.size):
                    total -= values[b][chosen[e]]
                for k in range(w.size):
                    w[k] += factors[k, b] * (means[b] + total / chosen.size)
        for k in range(w.size):
            w[k] = y[k] + beta * w[k]
        g[:wide] = 0.0
        for b in range(len(As)):
            chosen = first[b][step]
            q = _weight(factor, factors, b, w)
            _margins(As[b], chosen, xw, z)
            _slopes(codes[b], z, chosen, ts[b], out, work)
            for e in range(chosen.size):
                coefficients[e] = q / chosen.size * (out[e] - slopes[b][chosen[e]])
            _accumulate(As[b], chosen, coefficients, g)
            for j in range(n):
                g[j] += q * gradients[b, j]
        for k in range(s.size):
            w_s[k] = w[rows[k]]
        _update(x, s, w_s, g, alpha, prox, box)
        _keep(t + step, x, s, keep, output)
