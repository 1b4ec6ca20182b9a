"""The paper's rule between passes, on the tracked errors of c: raise penalties where the error stays, else leave them.

Errors come as sums of squares in the metric of the penalties, one entry per constraint. An error is `certain` if it is
many standard errors of sampling. Gradients of an objective that is fitted at once are so small that weights which the
steps can follow at once (`limit.py`) hardly move its constraints: there penalties rise until no more than `least_held`
of the weights is left, and multipliers, which come slowly, follow errors as if so many times more of them were left.
"""

from __future__ import annotations

from typing import Any

from auglag.single_loop.tuning import TUNING

Array = Any


def certain(now: Array, noise: Array) -> Array:
    """Whether the errors are more than noise; `noise` counts `doubt` variances."""
    return now > (TUNING.certain**2 / TUNING.doubt) * noise


def followed(xp: Any, held: Array, sure: Array) -> Array:
    """The share of the errors that multipliers follow, where weights show the share `held` of them."""
    return xp.where(sure, xp.clip(held / TUNING.least_held, 0.0, 1.0), held)


def boosted(xp: Any, boost: Array, now: Array, then: Array, both: Array, noise: Array, held: Array) -> Array:
    """The factor of the penalties, from the errors of now and of the last Jacobian, and their product `both`."""
    stays = (now > TUNING.tau**2 * then) & (both > TUNING.same_way * xp.sqrt(now * then))
    stays = stays & (now > noise + TUNING.no_penalty)
    stays = stays & (held >= xp.where(certain(now, noise), TUNING.least_held, 1.0))
    turned = xp.where(both < 0.0, boost / TUNING.growth_between, boost)
    return xp.clip(xp.where(stays, TUNING.growth_between * boost, turned), 1.0, TUNING.most_boost)
