"""Where a single loop goes back to when steps did nothing but harm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import torch

from auglag._typing import Vector
from auglag.torch.tuning import TUNING

Tensor = Any


@final
@dataclass(slots=True)
class Safe:
    """A point at the end of a pass which no pass before has made worse in both f and violation, or the start.

    No multipliers make a point better that has a larger f and a larger violation. So a pass that ends at one, by more
    than batches differ, was too bold: the rate comes down by `retreat`, and x goes back.
    """

    x: Tensor
    y: Vector
    mean: float = math.inf  #: of f over the pass, with the spread of its batches, and the violation after it
    spread: float = 0.0
    violation: float = math.inf
    rate: float = 1.0  #: factor of the rate
    count: int = 0  #: steps of the present pass, with the sums of f and of f^2 less the first f
    first: Tensor = None
    sums: Tensor = None

    def add(self, f: Tensor) -> None:
        """f of a batch; it stays where it is."""
        if self.count == 0:
            self.first, self.sums = f, torch.zeros(2, dtype=f.dtype, device=f.device)
        d = f - self.first
        self.sums, self.count = self.sums + torch.stack([d, d * d]), self.count + 1

    def values(self) -> tuple[float, float]:
        """Mean and spread of f over the pass, which is over."""
        if self.count == 0:
            return math.inf, 0.0
        one, two = (float(v) / self.count for v in self.sums)
        mean = float(self.first) + one
        self.count = 0
        return mean, math.sqrt(max(two - one * one, 0.0))

    def harmed(self, mean: float, violation: float) -> bool:
        """Whether a pass that ended like this only did harm."""
        if not (math.isfinite(mean) and math.isfinite(violation)):
            return True
        return violation > TUNING.harm * self.violation and mean > self.mean + TUNING.harm * self.spread

    def reach(self, x: Tensor, y: Vector, mean: float, spread: float, violation: float) -> None:
        """The end of a pass becomes the point to go back to, unless it is worse in both."""
        if mean <= self.mean or violation <= self.violation:
            self.x, self.y, self.mean, self.spread, self.violation = x, y, mean, spread, violation

    def retreat(self) -> None:
        """The rate with which it goes on."""
        self.rate *= TUNING.retreat
        self.count = 0
