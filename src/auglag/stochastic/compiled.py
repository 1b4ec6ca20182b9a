"""The pieces of the compiled kernels: margins, sums of rows, losses and slopes over the rows of one batch.

They compute in the precision of the rows; only sums over a batch are doubles. A step takes microseconds, so that two
habits of numba would take a third of it: a call passes every array word by word (hence `INLINE`), and whenever an array
is taken out of a tuple, its users are counted (hence `borrowed`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

OPTIONS: dict[str, Any] = {"fastmath": True, "nogil": True, "cache": True, "error_model": "numpy"}
#: Of the pieces.
INLINE = OPTIONS | {"forceinline": True}
#: For what relies on rounding: sums are not rearranged.
_EXACT = INLINE | {"fastmath": {"contract"}}

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6  # whose sum is log(2)
_ROUND, _ROUND_SINGLE = 1.5 * 2.0**52, 1.5 * 2.0**23  # numbers this large have no bits behind the point


@intrinsic
def borrowed(typing_context, value):  # type: ignore[no-untyped-def]
    """The same array, or tuple of arrays, without a count of its users: the caller has to keep it alive."""

    def strip(context: Any, builder: Any, kind: Any, held: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, held)
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            parts = [strip(context, builder, k, builder.extract_value(held, i)) for i, k in enumerate(kind)]
            return context.make_tuple(builder, kind, parts)
        return held

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return strip(context, builder, signature.args[0], arguments[0])

    return value(value), code


def room(dtype: Any, batch: int, wide: int) -> tuple[Any, ...]:
    """The work arrays of a step: three as wide as the rows (zeros), four as long as a batch, those of `_exp`."""
    batch = max(batch, 1)
    u, out, shifted = (np.empty(batch, dtype) for _ in range(3))
    bits = np.empty(batch, f"i{u.itemsize}")
    work = u, out, shifted, shifted.view(bits.dtype), bits, bits.view(dtype)
    return tuple(np.zeros(wide, dtype) for _ in range(3)), tuple(np.empty(batch, dtype) for _ in range(4)), work


@njit(**INLINE)
def margins(A, index, x, z):  # type: ignore[no-untyped-def]
    """z[e] = a_i'x for i = index[e], four rows at a time."""
    zero = x.dtype.type(0)
    size, whole = index.size, index.size - index.size % 4
    for e in range(0, whole, 4):
        i, j, k, l = index[e], index[e + 1], index[e + 2], index[e + 3]
        a, b, c, d = zero, zero, zero, zero
        for col in range(x.size):
            u = x[col]
            a += A[i, col] * u
            b += A[j, col] * u
            c += A[k, col] * u
            d += A[l, col] * u
        z[e], z[e + 1], z[e + 2], z[e + 3] = a, b, c, d
    for e in range(whole, size):
        a = zero
        for col in range(x.size):
            a += A[index[e], col] * x[col]
        z[e] = a


@njit(**INLINE)
def two_margins(A, index, x, o, z, zo):  # type: ignore[no-untyped-def]
    """z[e] = a_i'x and zo[e] = a_i'o for i = index[e]: every row is read once."""
    zero = x.dtype.type(0)
    size, whole = index.size, index.size - index.size % 4
    for e in range(0, whole, 4):
        i, j, k, l = index[e], index[e + 1], index[e + 2], index[e + 3]
        a, b, c, d = zero, zero, zero, zero
        p, q, r, s = zero, zero, zero, zero
        for col in range(x.size):
            u, v = x[col], o[col]
            a += A[i, col] * u
            b += A[j, col] * u
            c += A[k, col] * u
            d += A[l, col] * u
            p += A[i, col] * v
            q += A[j, col] * v
            r += A[k, col] * v
            s += A[l, col] * v
        z[e], z[e + 1], z[e + 2], z[e + 3] = a, b, c, d
        zo[e], zo[e + 1], zo[e + 2], zo[e + 3] = p, q, r, s
    for e in range(whole, size):
        a, p = zero, zero
        for col in range(x.size):
            a += A[index[e], col] * x[col]
            p += A[index[e], col] * o[col]
        z[e], zo[e] = a, p


@njit(**INLINE)
def accumulate(A, index, factors, g):  # type: ignore[no-untyped-def]
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
    then stand at the end of the sum's and are moved to where the exponent is. Beyond +-708 (87 in single), the ends.
    """
    u, out, shifted, whole, bits, power = work
    number = u.dtype.type  # a plain 0.5 would make doubles of all
    mantissa, bias = (52, 1023) if u.itemsize == 8 else (23, 127)
    ends, large = (number(708.0), number(_ROUND)) if u.itemsize == 8 else (number(87.0), number(_ROUND_SINGLE))
    for e in range(size):
        shifted[e] = min(max(u[e], -ends), ends) * number(_LOG2E) + large
    for e in range(size):
        bits[e] = (whole[e] + bias) << mantissa
    for e in range(size):
        k = shifted[e] - large
        r = min(max(u[e], -ends), ends) - k * number(_LN2_HIGH) - k * number(_LN2_LOW)
        p = number(1.0 / 6227020800.0)
        p = p * r + number(1.0 / 479001600.0)
        p = p * r + number(1.0 / 39916800.0)
        p = p * r + number(1.0 / 3628800.0)
        p = p * r + number(1.0 / 362880.0)
        p = p * r + number(1.0 / 40320.0)
        p = p * r + number(1.0 / 5040.0)
        p = p * r + number(1.0 / 720.0)
        p = p * r + number(1.0 / 120.0)
        p = p * r + number(1.0 / 24.0)
        p = p * r + number(1.0 / 6.0)
        p = p * r + number(0.5)
        p = p * r + number(1.0)
        p = p * r + number(1.0)
        out[e] = p * power[e]


@njit(**INLINE)
def slopes(code, z, index, t, out, work):  # type: ignore[no-untyped-def]
    """out[e] = the derivative of the loss at margin z[e] of row index[e]; `t` has one target, or one per row."""
    one, many, u, power = z.dtype.type(1), int(t.size > 1), work[0], work[1]
    if code == 1:
        for e in range(index.size):
            out[e] = z[e] - t[index[e] * many]
        return
    for e in range(index.size):
        out[e] = t[index[e] * many]
        u[e] = out[e] * z[e]
    _exp(index.size, work)
    if code == 0:
        for e in range(index.size):
            out[e] = -out[e] / (one + power[e])
    else:
        for e in range(index.size):
            q = one / (one + power[e])
            out[e] = -out[e] * q * (one - q)


@njit(**INLINE)
def loss(code, z, index, t, work):  # type: ignore[no-untyped-def]
    """The sum of the losses at the margins z[e] of rows index[e].

    log(1 + e^-|u|) is summed as the logarithm of a product of 16 factors between 1 and 2: one logarithm for sixteen.
    """
    one, many, u, power = z.dtype.type(1), int(t.size > 1), work[0], work[1]
    total, size = 0.0, index.size
    if code == 1:
        for e in range(size):
            total += 0.5 * (z[e] - t[index[e] * many]) ** 2
        return total
    for e in range(size):
        u[e] = t[index[e] * many] * z[e]
    if code == 0:
        for e in range(size):
            total += max(-u[e], one - one)
            u[e] = -abs(u[e])
        _exp(size, work)
        for start in range(0, size, 16):
            product = one
            for e in range(start, min(start + 16, size)):
                product *= one + power[e]
            total += np.log(product)
        return total
    _exp(size, work)
    for e in range(size):
        total += one / (one + power[e])
    return total
