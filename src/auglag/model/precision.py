"""Double precision for what a model compiles, whatever JAX is set to elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def double() -> Any:
    """A context in which JAX computes in double precision; outside of it nothing changes."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64  # before JAX 0.8

    return enable_x64(True)


def host() -> Any:
    """The CPU as a device of JAX; the default device where JAX was told to see no CPU."""
    try:
        return jax.devices("cpu")[0]
    except RuntimeError:
        return jax.devices()[0]


def in_double(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run in that context."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with double():
            return function(*args, **kwargs)

    return wrapped
