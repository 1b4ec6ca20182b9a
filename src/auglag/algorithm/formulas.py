"""The arithmetic of Algorithm 1, written once for numbers and for arrays.

`auglag.algorithm` applies it to one run, `auglag.jax` to thousands of instances at a time. `xp` is the library whose
`where`, `maximum`, `minimum` and `clip` are used: `numpy`, `jax.numpy` or `auglag.jax.vectors`.
"""

from __future__ import annotations

import math
from typing import Any

# ----------------------------------------------------------------------------------------------------------- thresholds

#: Max norm to which larger gradients of f and of rows at x0 are scaled down (Waechter & Biegler 2006, section 3.8).
LARGEST_GRADIENT = 100.0
#: Smallest scale factor, IPOPT's default of nlp_scaling_min_value: a gradient of 1e12 must not make a row vanish.
SMALLEST_SCALE = 1e-8
#: After a subproblem without a lower bound beta grows at least by this factor. The paper has no such case.
FAILURE_GROWTH = 10.0
#: Penalty at which a subproblem without a lower bound calls for a look whether the problem has one.
UNBOUNDED_PENALTY = 1e12
#: So many subproblems in a row without a lower bound do so, too.
UNBOUNDED_IN_A_ROW = 3
#: Penalty beyond which no useful subproblem can be posed in double precision.
LARGEST_PENALTY = 1e20
#: A residual or violation above this fraction of the one before counts as no progress.
HARDLY_LESS = 0.9
#: Outer iterations in a row without progress, the inner solver failing in each, after which a run is stuck.
STUCK_AFTER = 6
#: Outer iterations in a row without less violation, the penalty larger after them than before, that raise the question
#: whether the problem is infeasible.
VAIN_INCREASES = 4
#: A violation above this multiple of tol (user's units) is too large for a point that is feasible up to rounding.
CLEARLY_VIOLATED = 10.0
#: Outer iterations that may be spent on getting from tol to the fraction of it that is aimed at; and where the inner
#: solver's last steps are Newton's, which cost little: only degenerate problems need any.
EXTRA = 2
EXTRA_BY_NEWTON = 10
#: First inner tolerance of the default sequence, and its ratio: one more digit per outer iteration.
FIRST_TOLERANCE = 0.1
TOLERANCE_RATIO = 0.1


# ----------------------------------------------------------------------------------------------------------- subproblem


def slack(xp: Any, c: Any, cl: Any, cu: Any, y: Any, beta: Any) -> Any:
    """s = clip(c + y / beta, cl, cu), which minimises y'(c - s) + beta/2 ||c - s||^2 over cl <= s <= cu."""
    return xp.clip(c + y / beta, cl, cu)


def outside(xp: Any, c: Any, cl: Any, cu: Any) -> Any:
    """c - clip(c, cl, cu): how far each row lies outside its sides, signed; 0 inside."""
    return c - xp.clip(c, cl, cu)


def shifted(y: Any, beta: Any, gap: Any) -> Any:
    """y + beta gap, with gap = c - side: yhat where that side holds the row, and for equations."""
    # The gap is taken first: near a solution it is exact, however large beta is.
    return y + gap * beta


def above(xp: Any, y: Any, beta: Any, c: Any, cu: Any) -> Any:
    """yhat of rows c <= cu."""
    return xp.maximum(shifted(y, beta, c - cu), 0.0)


def below(xp: Any, y: Any, beta: Any, c: Any, cl: Any) -> Any:
    """yhat of rows c >= cl."""
    return xp.minimum(shifted(y, beta, c - cl), 0.0)


def estimate(xp: Any, c: Any, cl: Any, cu: Any, y: Any, beta: Any) -> Any:
    """yhat = y + beta (c - s), s the closed-form slack, for rows cl <= c <= cu of any kind."""
    return above(xp, y, beta, c, cu) + below(xp, y, beta, c, cl)


def remainder(xp: Any, c: Any, cl: Any, cu: Any, w: Any, otherwise: Any) -> Any:
    """c - s, the c of the paper: the gap to the side that yhat = w holds; `otherwise` (-y / beta) where w is 0."""
    return xp.where(w > 0.0, c - cu, xp.where(w < 0.0, c - cl, otherwise))


def lagrangian(f: Any, w_squared: Any, y_squared: Any, beta: Any) -> Any:
    """L_beta(x, y) with the slacks minimised out: f + (||yhat||^2 - ||y||^2) / (2 beta)."""
    return f + w_squared / (2.0 * beta) - y_squared / (2.0 * beta)


def residual(stationarity: Any, sf: Any, violation: Any) -> Any:
    """R in the user's units: the distance to stationarity freed from the scale sf of f, plus the user's violation."""
    return stationarity / sf + violation


def scale_factor(xp: Any, norms: Any, largest: float = LARGEST_GRADIENT) -> Any:
    """The factor that brings a gradient of this max norm down to `largest`; 1 where it is smaller."""
    norms = xp.where(xp.isfinite(norms), norms, 1.0)
    return xp.maximum(1.0 / xp.maximum(norms / largest, 1.0), SMALLEST_SCALE)


# -------------------------------------------------------------------------------------------------------------- penalty


def from_scale(xp: Any, objective: Any, violation: Any, factor: float, lowest: float, highest: float) -> Any:
    """beta_1 = factor * max(1, |f|) / max(1, ||c||^2 / 2), kept in [lowest, highest]."""
    beta = factor * xp.maximum(1.0, abs(objective)) / xp.maximum(1.0, 0.5 * violation * violation)
    return xp.minimum(xp.maximum(beta, lowest), highest)


def shrank_enough(before: Any, now: Any, tau: float) -> Any:
    """||c(x_{k+1})|| <= tau ||c(x_k)||: the test of Algorithm 1, line 5."""
    return now <= tau * before


def is_negligible(violation: Any, negligible: Any) -> Any:
    """Whether a violation (user's units) is so small that no penalty is raised for it: rounding decides its size."""
    return violation <= negligible


def failure_factor(gamma: float, leap: float = FAILURE_GROWTH) -> float:
    """What beta is multiplied by after a subproblem without a lower bound: the first power of gamma that is >= leap."""
    # The small number keeps log(10) / log(gamma) = 1.0000000000000002 from becoming 2.
    return float(gamma ** max(1, math.ceil(math.log(leap) / math.log(gamma) - 1e-9)))


# ----------------------------------------------------------------------------------------------------------- dual steps


def short_step(xp: Any, first: Any, now: Any, k: Any) -> Any:
    """a_k = min(||c(x_1)|| log^2 2 / (||c(x_{k+1})|| (k + 1) log^2(k + 2)), 1), and 1 where c(x_{k+1}) = 0."""
    safe = xp.where(now == 0.0, 1.0, now)
    step = xp.minimum(first * math.log(2) ** 2 / (safe * (k + 1) * xp.log(k + 2.0) ** 2), 1.0)
    return xp.where(now == 0.0, 1.0, step)


def in_box(xp: Any, y: Any, radius: Any) -> Any:
    """The projection of y on |y_i| <= radius."""
    return xp.clip(y, -radius, radius)


def ball_factor(xp: Any, norm: Any, radius: Any) -> Any:
    """The factor that projects a vector of this norm on the ball ||y|| <= radius."""
    return xp.where(norm <= radius, 1.0, radius / xp.where(norm == 0.0, 1.0, norm))


# ----------------------------------------------------------------------------------------------------- inner tolerances


def inner_tolerance(xp: Any, beta: Any, sequence: Any) -> Any:
    """eta_k = min(1 / beta_k, eta'_k): Algorithm 1, line 2."""
    return xp.minimum(1.0 / beta, sequence)


def power_law(k: Any, scale: float, power: float) -> Any:
    """scale / k^power."""
    return scale / k**power


def geometric(xp: Any, k: Any, first: Any, ratio: float, floor: Any) -> Any:
    """max(first * ratio^(k-1), floor)."""
    return xp.maximum(first * ratio ** (k - 1), floor)


# ------------------------------------------------------------------------------------------------------- stopping tests


def hardly_less(now: Any, before: Any) -> Any:
    """Whether a residual or violation made no progress worth the name."""
    return now > HARDLY_LESS * before


def clearly_violated(violation: Any, tol: float) -> Any:
    """Whether a violation (user's units) is larger than what a nearly feasible point has."""
    return violation > CLEARLY_VIOLATED * tol
