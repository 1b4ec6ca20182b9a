"""The paper's rule between passes, on the tracked errors of c: raise penalties where the error stays, else leave them.

Errors come as sums of squares in the metric of the penalties, one entry per constraint. An error is `certain` if it is
many standard errors of sampling. Gradients of an objective that is fitted at once are so small that weights which the
steps can follow at once (`limit.py`) hardly move its constraints: there penalties rise until no more than `least_held`
of the weights is left, and multipliers, which come slowly, follow errors as if so many times more of them were left.

An error stays if it points the same way at two Jacobians and from step to step in between: one that swings may look
the same at every fifth step, and weights whose penalties grew by that would feed on the swing until nothing of f is
left in a step. And these steps have to be such as could have changed it: by kappa of it each, at the full rate, and by
less at the end of a round.
"""

from __future__ import annotations

import math
from typing import Any

from auglag.single_loop.tuning import TUNING

Array = Any


def certain(now: Array, noise: Array) -> Array:
    """Whether the errors are more than noise; `noise` counts `doubt` variances."""
    return now > (TUNING.certain**2 / TUNING.doubt) * noise


def followed(xp: Any, held: Array, sure: Array) -> Array:
    """The share of the errors that multipliers follow, where weights show the share `held` of them."""
    return xp.where(sure, xp.clip(held / TUNING.least_held, 0.0, 1.0), held)


def stays(xp: Any, now: Array, then: Array, both: Array, reach: float) -> Array:
    """Whether an error stays: from its squares at two Jacobians, and the product `both` of the two.

    `reach`: the steps in between should have brought it down by exp(-reach).
    """
    if math.exp(-reach) > TUNING.tau:  # too short a way to tell
        return now < 0.0
    return (now > TUNING.tau**2 * then) & (both > TUNING.same_way * xp.sqrt(now * then))


def boosted(xp: Any, boost: Array, stays: Array, turned: Array, now: Array, noise: Array, held: Array) -> Array:
    """The factor of the penalties, by whether errors stay or have turned round, and their squares `now`."""
    stays = stays & (now > noise + TUNING.no_penalty)
    stays = stays & (held >= xp.where(certain(now, noise), TUNING.least_held, 1.0))
    lower = xp.where(turned, boost / TUNING.growth_between, boost)
    return xp.clip(xp.where(stays, TUNING.growth_between * boost, lower), 1.0, TUNING.most_boost)
