"""Steps of x: gradients over their root mean squares, and the average of iterates; for arrays and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from auglag.single_loop.tuning import TUNING

Array = Any
#: Rate of the scaled steps at the start of a round, unless another one is asked for.
RATE = TUNING.rate


@final
@dataclass(slots=True)
class ScaledState:
    """The moments of gradients."""

    mean: Array
    squares: Array
    rate: Array  #: one number, where the gradients are
    steps: int = 0


@final
class ScaledSteps:
    """Gradients over their root mean squares, as in Adam (Kingma and Ba 2015), and the same in any units of f.

    All entries of a part of x that is `shared` have one root mean square, so that the prox of a norm of that part,
    taken after the step, has the right fixed points.
    """

    def __init__(
        self, xp: Any, x: Array, rate: float, shared: Sequence[slice] = (), *, adapt: bool = True, tiny: float = 1e-300
    ) -> None:
        self.xp, self.first, self.shared, self.adapt, self.tiny = xp, rate, list(shared), adapt, tiny
        self.factor = 1.0  #: of the rate, falling
        self._scales: Array = None  #: those of the present squares, once they are asked for
        self.state = ScaledState(xp.zeros_like(x), xp.zeros_like(x), xp.zeros_like(x[:1]) + rate)

    def forget(self) -> None:
        """Nothing is known about gradients any more."""
        zero = self.xp.zeros_like(self.state.mean)
        self.state, self._scales = ScaledState(zero, zero, self.xp.ones_like(self.state.rate) * self.first), None

    def take(self, x: Array, gradient: Array) -> Array:
        """The next x."""
        s = self.state
        if self.adapt and s.steps:
            self._adapt(gradient)
        s.steps += 1
        square = gradient * gradient
        for part in self.shared:
            square[part] = square[part].mean()
        s.mean = s.mean + (1.0 - TUNING.momentum) * (gradient - s.mean)
        s.squares = s.squares + max(1.0 - TUNING.squares, 1.0 / s.steps) * (square - s.squares)
        self._scales = None
        return x - (self.matrix() / (1.0 - TUNING.momentum**s.steps)) * s.mean

    def _adapt(self, gradient: Array) -> None:
        """The rate grows while gradients point where the last steps went, and shrinks where they point back.

        It is multiplied by exp(gain cos), cos that of the angle between the gradient and the mean of those before, in
        the metric of the steps (a hypergradient as in Baydin et al. 2018, made free of units).
        """
        s, scales = self.state, self.scales()
        scaled = gradient * scales
        size = self.xp.sqrt((scaled @ gradient) * ((s.mean * scales) @ s.mean))
        cos = (scaled @ s.mean) / (size + self.tiny)
        rate = s.rate * self.xp.exp(TUNING.rate_gain * self.xp.where(self.xp.isfinite(cos), cos, 0.0 * size))
        s.rate = self.xp.clip(rate, self.first / TUNING.rate_range, self.first * TUNING.rate_range)

    def scales(self) -> Array:
        """1 / root mean square of every entry of the gradient."""
        if self._scales is None:
            root = self.xp.sqrt(self.state.squares)
            self._scales = 1.0 / (root + (TUNING.least_scale * root.mean() + self.tiny))
        return self._scales

    def matrix(self) -> Array:
        """The diagonal of A in x - A d, at the present rate."""
        return (self.state.rate * self.factor) * self.scales()

    def longest(self) -> Array:
        """The most that a step changes an entry of x by, at the full rate."""
        return self.state.rate

    def coast(self) -> float:
        """How many times the length of the last step the momentum will still go."""
        return TUNING.momentum / (1.0 - TUNING.momentum)

    def fall(self) -> float:
        """The present rate, relative to that at the start of the round."""
        return self.factor


def newest_share(count: int, *, endless: bool = False) -> float:
    """The weight of iterate number `count` of a round in the average, which is over about the last fifth of them.

    Where data have no end it is over no more than the window of the values, so that it follows what changes.
    """
    if endless:
        count = min(count, int(TUNING.power * TUNING.stream_window))
    return min(1.0, TUNING.power / (count + TUNING.power - 1.0))


def least_fall(ratio: float) -> float:
    """A ratio of rates, kept away from zero, by which penalties are divided."""
    return max(ratio, TUNING.least_fall)
