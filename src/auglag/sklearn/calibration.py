"""Thresholds that keep false positives below a rate with a stated confidence, whatever the scores' distribution.

With the scores s_(1) <= ... <= s_(n) of n negatives that training has not seen, and "positive" meaning "above s_(k)",

    P(false-positive rate > alpha) <= P(Binomial(n, 1 - alpha) >= k),

with equality where scores have no ties. The smallest k whose right-hand side is at most 1 - confidence is taken (Tong,
Feng and Li 2018 build Neyman-Pearson classifiers of any kind on this).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.stats import binom

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.sklearn.arguments import require_share


@final
@dataclass(frozen=True, slots=True)
class Calibration:
    """How a threshold was set, and what it promises."""

    max_fpr: float  #: alpha: the false-positive rate that is not to be exceeded
    confidence: float  #: the probability asked for, over the draw of the held-out negatives
    negatives: int  #: n, held out
    rank: int  #: k: the threshold lies at the k-th smallest score of the held-out negatives
    threshold: float  #: in units of the score
    failure_probability: float  #: P(Binomial(n, 1 - alpha) >= k), at most 1 - confidence
    false_positives: int  #: held-out negatives above the threshold


def negatives_needed(max_fpr: float, confidence: float) -> int:
    """The fewest held-out negatives with which a rate can be certified: (1 - max_fpr)^n <= 1 - confidence.

    Parameters
    ----------
    max_fpr : float
        The bound on the false-positive rate.
    confidence : float
        The probability with which the bound is to hold.

    Examples
    --------
    >>> from auglag.sklearn import negatives_needed
    >>> negatives_needed(0.05, 0.95)
    59
    """
    require_share(max_fpr, "max_fpr")
    require_share(confidence, "confidence")
    n = max(1, math.ceil(math.log1p(-confidence) / math.log1p(-max_fpr)))
    while binom.sf(n - 1, n, 1.0 - max_fpr) > 1.0 - confidence:  # the quotient of logarithms was rounded down
        n += 1
    return n


def calibrate(scores: Vector, max_fpr: float, confidence: float, rounding: float = 0.0) -> Calibration:
    """The lowest threshold that the scores of held-out negatives allow.

    `rounding` bounds the error of a score: the threshold is put so much higher, because rows that tie with the k-th
    must not become positive when their scores are computed again.
    """
    n = len(scores)
    need = negatives_needed(max_fpr, confidence)
    if n < need:
        raise InputError(
            f"max_fpr = {max_fpr:g} with confidence = {confidence:g} needs at least {need} held-out negatives, got {n}"
        )
    tails = binom.sf(np.arange(n), n, 1.0 - max_fpr)  # P(Binomial >= k) for k = 1, ..., n
    rank = int(np.argmax(tails <= 1.0 - confidence)) + 1
    threshold = float(np.sort(scores)[rank - 1] + rounding)
    return Calibration(
        max_fpr=float(max_fpr),
        confidence=float(confidence),
        negatives=n,
        rank=rank,
        threshold=threshold,
        failure_probability=float(tails[rank - 1]),
        false_positives=int(np.sum(scores > threshold)),
    )
