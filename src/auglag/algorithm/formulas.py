"""The arithmetic of the rules, written once for numbers and for arrays: `xp` is `numpy` or `jax.numpy`.

`auglag.algorithm.rules` applies these to the history of one run, `auglag.jax` to thousands of instances at a time.
"""

from __future__ import annotations

import math
from typing import Any


def from_scale(xp: Any, objective: Any, violation: Any, factor: float, lowest: float, highest: float) -> Any:
    """beta_1 = factor * max(1, |f|) / max(1, ||c||^2 / 2), kept in [lowest, highest]."""
    beta = factor * xp.maximum(1.0, abs(objective)) / xp.maximum(1.0, 0.5 * violation * violation)
    return xp.minimum(xp.maximum(beta, lowest), highest)


def shrank_enough(before: Any, now: Any, tau: float) -> Any:
    """||c(x_{k+1})|| <= tau ||c(x_k)||: the test of Algorithm 1, line 5."""
    return now <= tau * before


def short_step(xp: Any, first: Any, now: Any, k: Any) -> Any:
    """a_k = min(||c(x_1)|| log^2 2 / (||c(x_{k+1})|| (k + 1) log^2(k + 2)), 1), and 1 where c(x_{k+1}) = 0."""
    safe = xp.where(now == 0.0, 1.0, now)
    step = xp.minimum(first * math.log(2) ** 2 / (safe * (k + 1) * xp.log(k + 2.0) ** 2), 1.0)
    return xp.where(now == 0.0, 1.0, step)


def power_law(k: Any, scale: float, power: float) -> Any:
    """scale / k^power."""
    return scale / k**power


def geometric(xp: Any, k: Any, first: float, ratio: float, floor: Any) -> Any:
    """max(first * ratio^(k-1), floor)."""
    return xp.maximum(first * ratio ** (k - 1), floor)
