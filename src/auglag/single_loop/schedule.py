"""How many passes a round has, how large its batches are, and how the rate falls: numbers in, numbers out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from auglag.single_loop.steps import least_fall
from auglag.single_loop.tuning import TUNING

#: Rows on which a run looks at the functions before its first step.
FIRST_LOOK = TUNING.least_batch
#: Steps of one pass that the size of a batch aims at.
STEPS = TUNING.steps


@final
@dataclass(frozen=True, slots=True)
class Round:
    """A stretch of steps over which the rate falls once."""

    passes: float
    batch: int  #: rows, in all processes
    steps: int
    pass_steps: int  #: steps of one pass

    def fall(self, done: int) -> float:
        """The factor of the rate after `done` steps of this round."""
        return least_fall(1.0 - done / self.steps)


def endless_fall(done: int) -> float:
    """The factor of the rate after `done` steps of a training without an end."""
    return max(TUNING.endless_least, 1.0 / (1.0 + done / TUNING.steps))


def batch_rows(rows: int, passes: float, least: int = 1) -> int:
    """Rows of a batch: 250 steps in one pass, sqrt(passes) times as many in more; a power of two from 8 to 128.

    Both the number of steps and the rows of each grow with the passes: of a longer run half of the gain is less noise.
    """
    steps = TUNING.steps * math.sqrt(max(passes, 1.0))
    wanted = 2 ** round(math.log2(max(rows * passes / steps, 1.0)))
    return int(min(max(wanted, TUNING.least_batch, least), max(TUNING.largest_batch, least), rows))


def worth_full_batches(budget: float) -> bool:
    """Whether a budget of passes is enough for full batches after the sampled steps."""
    return budget >= TUNING.least_passes


def before_closing(budget: float) -> float:
    """Passes of a budget that go into steps: the others are those that the last test and the certificate take."""
    return max(budget - TUNING.closing, TUNING.least_share * budget)


def first_round(budget: float, *, full: bool) -> float:
    """Passes of the first round, for a budget of passes; `full`: full batches come afterwards."""
    if full and worth_full_batches(budget):
        return min((1.0 - TUNING.full_share) * budget, TUNING.first_passes)
    return budget if budget < 2.0 * TUNING.first_passes else TUNING.first_passes


def next_round(last: float, left: float) -> float:
    """Passes of the round after one of `last` passes: longer, and the last one takes all that is left."""
    wanted = TUNING.longer * last
    return left if left < 2.0 * wanted else wanted


def round_of(passes: float, rows: int, batch: int) -> Round:
    """The round of so many passes with batches of so many rows."""
    return Round(passes, batch, max(1, int(passes * rows / batch)), max(1, rows // batch))
