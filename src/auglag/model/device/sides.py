"""Sides, which are the bounds of variables and slacks: the distances to them, and how far a step may go."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

#: The distance from 1 to the next larger number.
EPS = float(np.finfo(np.float64).eps)


def gaps(d: Any, w: Any) -> tuple[Any, Any, Any, Any]:
    """Which sides are finite, and the distances to them (1 where there is none), at least a rounding error of the side.

    Rounding may put w on a side (Waechter and Biegler 2006, section 3.5).
    """
    low, high = jnp.isfinite(d["low"]), jnp.isfinite(d["high"])
    below = jnp.maximum(w - d["low"], EPS * jnp.maximum(1.0, jnp.abs(d["low"])))
    above = jnp.maximum(d["high"] - w, EPS * jnp.maximum(1.0, jnp.abs(d["high"])))
    return low, high, jnp.where(low, below, 1.0), jnp.where(high, above, 1.0)


def inside(d: Any, w: Any, push: float) -> Any:
    """w moved off its sides by `push` relative to max(1, |side|), or by that part of the width if it is less."""
    low, high = jnp.isfinite(d["low"]), jnp.isfinite(d["high"])
    below, above = jnp.where(low, d["low"], 0.0), jnp.where(high, d["high"], 0.0)
    width = jnp.where(low & high, above - below, jnp.inf)
    least = below + jnp.minimum(push * jnp.maximum(1.0, jnp.abs(below)), push * width)
    most = above - jnp.minimum(push * jnp.maximum(1.0, jnp.abs(above)), push * width)
    w = jnp.where(low, jnp.maximum(w, least), w)
    return jnp.where(high, jnp.minimum(w, most), w)


def reach(gap: Any, change: Any, has: Any, fraction: Any) -> Any:
    """The longest step at most 1 after which a gap is at least (1 - fraction) of what it was."""
    shrinks = has & (change < 0)
    lengths = jnp.where(shrinks, -fraction * gap / jnp.where(shrinks, change, -1.0), 1.0)
    return jnp.minimum(jnp.min(lengths, initial=1.0), 1.0)


def largest(v: Any) -> Any:
    """The max norm."""
    return jnp.max(jnp.abs(v), initial=0.0)
