"""One-dimensional searches behind the simplex, the l1 ball and the max norm. Both are exact, by sorting."""

from __future__ import annotations

import numpy as np

from auglag._typing import Vector
from auglag.prox._validate import EPS


def threshold(u: Vector, total: float) -> float:
    """The tau with sum_i max(u_i - max(u) - tau, 0) = total > 0, so -total <= tau < 0.

    Working relative to max(u) keeps the result accurate to rounding of `total`, however large u is: entries that
    count lie within `total` of the largest one.
    """
    shifted = u - u.max()
    high = np.sort(shifted[shifted > -total])[::-1]
    excess = np.cumsum(high) - total
    count = np.arange(1, high.size + 1)
    # The entries above the threshold are a prefix of the sorted ones; the first always is: 0 > -total.
    kept = max(1, int(np.count_nonzero(high * count > excess)))
    return float(excess[kept - 1]) / kept


def project_simplex(u: Vector, total: float) -> Vector:
    """The point of {p >= 0, sum p = total} nearest to u, its sum correct to rounding; total >= 0.

    Entries at the level of rounding are set to 0: whether an entry is 0 decides what the normal cone is.
    """
    if total == 0.0 or u.size == 0:
        return np.zeros_like(u)
    p = u - u.max() - threshold(u, total)
    p[p <= 4.0 * EPS * total] = 0.0
    return np.asarray(p * (total / p.sum()))


def project_l1_ball(x: Vector, radius: float) -> Vector:
    """The point of {||p||_1 <= radius} nearest to x; radius >= 0."""
    size = np.abs(x)
    if size.sum() <= radius:
        return x.copy()
    return np.copysign(project_simplex(size, radius), x)


def level(fixed: Vector, free: Vector) -> float:
    """The c that minimises sum (fixed - c)^2 + sum max(free - c, 0)^2, with `fixed` not empty.

    c is the mean of `fixed` and those of `free` that exceed c. Adding the latter in descending order, the mean rises
    exactly as long as they exceed it, so c is the largest of the running means.
    """
    origin = float(fixed[0])
    total = float((fixed - origin).sum())
    mean = total / fixed.size
    above = np.sort(free[free - origin > mean])[::-1] - origin
    means = (total + np.cumsum(above)) / np.arange(fixed.size + 1, fixed.size + above.size + 1)
    return origin + float(np.max(means, initial=mean))
