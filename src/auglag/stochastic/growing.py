"""Larger and larger samples of endless data: a deterministic method solves the problem on one, a fresh one certifies.

On N rows the best point of the sample is off by about 1/sqrt(N). So where the certificate of a point that solves the
problem on its sample fails, more steps on that sample cannot help, but more rows can; the run goes on from there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from auglag.stochastic.data import leaves
from auglag.stochastic.estimate import FixedSample
from auglag.stochastic.problem import StochasticProblem

if TYPE_CHECKING:
    from auglag.stochastic.run import Run

#: R on the sample, relative to tol, at which the rest is left to the error of the sample.
AIM = 0.3
#: Samples larger than this (bytes) are not taken.
LARGEST_SAMPLE = 2**30
#: The sample grows by at most this factor at once; the error is then known better.
MOST = 16
#: A larger sample is taken only if the limits allow so many passes over it.
PASSES = 4
#: The certificate's sample is so much larger than the one of the tests.
CERTIFICATE = 4


def growth(run: Run) -> int:
    """The factor by which the sample has to grow for the certificate to meet tol; 1 if it cannot."""
    assert run.failed is not None
    high = run.failed.residual_interval[1]
    rows = run.tests_on.rows or 1
    wanted = math.ceil(min((high / (0.7 * run.tol)) ** 2, MOST))
    paid = (run.limits.rows - run.ledger.rows) / ((PASSES + CERTIFICATE) * rows)
    held = LARGEST_SAMPLE / max(_bytes(run.tests_on), 1)
    run.limit = "epochs" if paid < min(held, 2.0) else "memory" if held < 2.0 else ""
    return int(max(1.0, min(max(wanted, 2), paid, held)))


def _bytes(problem: StochasticProblem) -> int:
    """What the sample takes in memory."""
    return sum(
        np.asarray(leaf).nbytes
        for block in problem.blocks
        if isinstance(block, FixedSample)
        for batch in block.kept
        for leaf in leaves(batch)
    )
