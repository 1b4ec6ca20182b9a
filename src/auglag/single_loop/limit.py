"""How large the part e = beta (cbar - s) of the weights may be, where steps are divided by the size of gradients.

Such steps have a length that no weight can exceed, and penalties are made from them: beta ~ 1 / (J A J'), and A is
about rate / rms with the root mean squares rms of the gradients grad f + J'w. So gradients that e makes larger make
penalties larger, and these make e larger: without a limit weights can feed on their own noise until nothing of f is
left in a step. Over n parameters let

    power = rate^2 sum of 1 / A_ii,   about |g|^2 in the norm of A for a gradient g of the size of rms.

The noise of batches in J'e, whose mean over steps is no help to anybody, may have the share `noise`^2 < 1 of it. The
squares that it adds to the moments are then less than these have, so that they come to rest. What the mean of Jacobians
says is a signal that the multipliers are about to take over; it may have `signal`^2, with which the moments, that
remember a hundred steps, still grow slowly, but less in the first hundred steps, of which the moments are plain means.

|J'e|^2 is measured on batches that bring a Jacobian, and in between follows the errors of c as if all else were equal.
"""

from __future__ import annotations

from typing import Any

from auglag.single_loop.tuning import TUNING

Array = Any


def strain(noise: Array, mean: Array, steps: int) -> Array:
    """|J'e|^2 as far as it counts, from those of the noise in J and of the mean of J, after so many steps."""
    signal = min(max(TUNING.growth * steps, TUNING.noise**2), TUNING.signal**2)
    return noise + TUNING.noise**2 / signal * mean


def ratio(xp: Any, found: Array, expected: Array) -> Array:
    """The strain on a batch, from weights that did not know it, over what was expected."""
    return xp.where(xp.isfinite(found) & (expected > 2.0 * TUNING.no_penalty), found / expected, 1.0)


def held(xp: Any, power: Array, strain: Array) -> Array:
    """The factor of e that keeps its strain within `noise`^2 power."""
    most = TUNING.noise**2 * power
    return xp.where(strain > most, xp.sqrt(most / (strain + TUNING.no_penalty)), xp.ones_like(strain))
