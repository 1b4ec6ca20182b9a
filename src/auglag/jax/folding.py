"""Arithmetic on numbers of which some are known: zeros and ones are folded, the rest is left to the compiler."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Numbers = Any  #: np.ndarray of dtype object: Python numbers (constants) and arrays over the batch


class NotScalar(Exception):
    """The function contains something that cannot be written out, or would be too long."""


def numbers(value: Any) -> Numbers:
    """An array of constants, or an object array as it is."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value
    if isinstance(value, jax.core.Tracer):
        raise NotScalar("a traced constant")
    return boxed(np.asarray(value).tolist(), np.shape(value))


def boxed(value: Any, shape: tuple[int, ...]) -> Numbers:
    """Nested lists (or one number) as an object array of this shape."""
    flat = np.empty(int(np.prod(shape, dtype=int)), dtype=object)
    for i, entry in enumerate(_leaves(value)):
        flat[i] = entry
    return flat.reshape(shape)


def _leaves(nested: Any) -> list[Any]:
    return [leaf for part in nested for leaf in _leaves(part)] if isinstance(nested, list) else [nested]


def varies(entry: Any) -> bool:
    """Whether it is an array over the batch rather than a known number."""
    return isinstance(entry, jax.Array | jax.core.Tracer)


def _is(entry: Any, number: float) -> bool:
    return not varies(entry) and entry == number


def add(a: Any, b: Any) -> Any:
    """a + b, zeros folded."""
    return b if _is(a, 0) else a if _is(b, 0) else a + b


def sub(a: Any, b: Any) -> Any:
    """a - b, zeros folded."""
    return a if _is(b, 0) else -b if _is(a, 0) else a - b


def mul(a: Any, b: Any) -> Any:
    """a * b, zeros and ones folded."""
    # A structural zero wins over whatever it meets: what is not finite shows in the values, which are kept whole.
    if _is(a, 0) or _is(b, 0):
        return 0.0
    return b if _is(a, 1) else a if _is(b, 1) else -b if _is(a, -1) else -a if _is(b, -1) else a * b


def div(a: Any, b: Any) -> Any:
    """a / b, ones folded."""
    if _is(b, 1):
        return a
    if not varies(a) and not varies(b) and b == 0:
        return float(np.divide(float(a), float(b)))
    return 0.0 if _is(a, 0) and varies(b) else a / b


def neg(a: Any) -> Any:
    """-a."""
    return -a


def same(a: Any, *_: Any) -> Any:
    """a."""
    return a


def select(which: Any, *cases: Any) -> Any:
    """The case that `which` picks."""
    if not varies(which):
        return cases[int(which)]
    result = cases[0]
    for k, case in enumerate(cases[1:], 1):
        result = jnp.where(which == k if which.dtype != jnp.bool_ else which, case, result)
    return result
