"""Larger and larger samples of endless data: a deterministic method solves the problem on one, a fresh one certifies.

On N rows the best point of the sample is off by about 1/sqrt(N). So where the certificate of a point that solves the
problem on its sample fails, more steps on that sample cannot help, but more rows can; the run goes on from there.
"""

from __future__ import annotations

import math

import numpy as np

from auglag.stochastic.data import leaves
from auglag.stochastic.estimate import FixedSample
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.tuning import TUNING


def growth(sample: StochasticProblem, high: float, tol: float, rows_left: float) -> tuple[int, str]:
    """The factor by which the sample has to grow for `high`, the upper end of R's interval, to fall below tol.

    1 if it cannot, and then what forbids it: "epochs", where `rows_left` row evaluations do not suffice, or "memory".
    """
    wanted = math.ceil(min((high / (TUNING.growth_aim * tol)) ** 2, TUNING.growth_most))
    paid = rows_left / ((TUNING.growth_passes + TUNING.certificate_rows) * (sample.rows or 1))
    held = TUNING.growth_bytes / max(_bytes(sample), 1)
    limit = "epochs" if paid < min(held, 2.0) else "memory" if held < 2.0 else ""
    return int(max(1.0, min(max(wanted, 2), paid, held))), limit


def _bytes(problem: StochasticProblem) -> int:
    """What the sample takes in memory."""
    return sum(
        np.asarray(leaf).nbytes
        for block in problem.blocks
        if isinstance(block, FixedSample)
        for batch in block.kept
        for leaf in leaves(batch)
    )
