"""The single loop with NumPy, as a method by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from auglag._names import suggesting
from auglag.algorithm.rules import PenaltyRule
from auglag.errors import integer_or_none, require_positive
from auglag.single_loop.steps import RATE


@suggesting
@final
@dataclass(frozen=True, slots=True)
class SingleLoop:
    """method="single-loop": sampled steps in which multipliers move too, then full batches.

    `rate` is that of the scaled steps at the start, in units of x; with `adapt` it follows the angles between
    gradients, by a factor of 3 at most. `batch` None: chosen so that there are about 250 steps in one pass. `rule`
    moves the common factor of the penalties once per pass (None: the paper's, gamma = 1.5, tau = 0.8).
    Before Gauss-Newton there are at most 500 sampled steps or two passes, before L-BFGS 1000 or 20 passes; in a run of
    fewer than 15 passes all of them are sampled.
    """

    name: ClassVar[str] = "single-loop"
    rate: float = RATE
    adapt: bool = True
    batch: int | None = None
    rule: PenaltyRule | None = None
    nested: bool | None = False

    def __post_init__(self) -> None:
        require_positive(self.rate, "SingleLoop.rate")
        integer_or_none(self.batch, "SingleLoop.batch")
