"""The exact proximal operator of one-dimensional total variation, in O(n)."""

from __future__ import annotations

from collections import deque

import numpy as np

from auglag._typing import Vector


def tv_prox(x: Vector, lam: float) -> Vector:
    """The minimiser u of 1/2 ||u - x||^2 + lam * sum_i |u_{i+1} - u_i|; equal neighbours are equal bit for bit.

    Dynamic programming finds where u jumps and in which direction; the level of each constant piece then follows in
    closed form, which keeps it accurate when lam is much larger or much smaller than x.
    """
    if x.size < 2 or lam == 0.0:
        return x.copy()
    origin = float(x[0])
    centred = x - origin
    rough = _dynamic_programme(centred.tolist(), lam)
    return _levels(centred, lam, np.sign(np.diff(rough))) + origin


def _dynamic_programme(x: list[float], lam: float) -> Vector:
    """Minimise over u_1, u_2, ... in turn, carrying the derivative of the optimal value as a function of the next u.

    With h_i(b) = min over u_1..u_{i-1} of the objective of the first i terms given u_i = b, the derivative h_i' is
    piecewise linear and increasing, and h_{i+1}'(b) = clip(h_i'(b), -lam, lam) + b - x_{i+1}. `knots` holds its
    breakpoints (position, change of slope, change of intercept) from left to right; left of them all the clipped
    derivative is -lam, right of them +lam. Clipping removes knots at the ends and adds two, so the cost is O(n).
    """
    low, high = [], []  # h_i' = -lam at low[i] and +lam at high[i]
    knots: deque[tuple[float, float, float]] = deque()
    offset = 0.0  # the clipped h_0' is 0, not +-lam: there is no edge before the first coordinate
    for value in x[:-1]:
        slope, shift = 1.0, -value - offset
        while knots and slope * knots[0][0] + shift <= -lam:
            _, more, rise = knots.popleft()
            slope, shift = slope + more, shift + rise
        left = ((-lam - shift) / slope, slope, shift + lam)
        slope, shift = 1.0, -value + offset
        while knots and slope * knots[-1][0] + shift >= lam:
            _, more, rise = knots.pop()
            slope, shift = slope - more, shift - rise
        right = (max((lam - shift) / slope, left[0]), -slope, lam - shift)
        knots.appendleft(left)
        knots.append(right)
        low.append(left[0])
        high.append(right[0])
        offset = lam
    slope, shift = 1.0, -x[-1] - lam
    while knots and slope * knots[0][0] + shift <= 0.0:
        _, more, rise = knots.popleft()
        slope, shift = slope + more, shift + rise
    u = [-shift / slope]
    for lower, upper in zip(reversed(low), reversed(high), strict=True):
        u.append(min(max(u[-1], lower), upper))
    return np.array(u[::-1])


def _levels(x: Vector, lam: float, jumps: Vector) -> Vector:
    """The minimiser given the signs of its jumps (0 where there is none).

    Stationarity of a constant piece reads: length * level = sum of x over it + lam * (jump after - jump before).
    Where rounding makes a level contradict the sign of its jump, the two pieces are one.
    """
    while True:
        at = np.flatnonzero(jumps)
        starts = np.concatenate(([0], at + 1))
        lengths = np.diff(np.concatenate((starts, [x.size])))
        signs = np.concatenate(([0.0], jumps[at], [0.0]))
        level = np.add.reduceat(x, starts) / lengths + lam * (np.diff(signs) / lengths)
        # The outermost pieces have one neighbour only; np.diff with zero padding gives them their one term.
        wrong = jumps[at] * np.diff(level) <= 0.0
        if not np.any(wrong):
            return np.repeat(level, lengths)
        jumps = jumps.copy()
        jumps[at[wrong]] = 0.0
