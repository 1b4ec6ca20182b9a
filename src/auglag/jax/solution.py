"""What `solve` and `solve_batch` return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from auglag.algorithm.status import Status
from auglag.jax.state import Record
from auglag.jax.vectors import Array


@final
@dataclass(frozen=True)
class Solution:
    """One instance, or a batch of them with the batch as the first axis of every array. A pytree.

    Multipliers have the sign L = f + y'c + z'x, residuals are in the user's units, and `status` is SOLVED only where
    the certificate, recomputed from x and the multipliers, meets the tolerance.
    """

    x: Any  #: the structure of x0
    fun: Array  #: f(x)
    multipliers: list[Any]  #: one entry per constraint, shaped as its function returns it
    bound_multipliers: Any  #: the structure of x0; > 0 at an upper bound, < 0 at a lower one
    status: Array  #: numbers of `auglag.Status`
    residual: Array  #: stationarity + ||(violation, complementarity)||
    stationarity: Array
    violation: Array
    complementarity: Array
    outer: Array  #: outer iterations
    steps: Array  #: inner steps, all subproblems together
    penalty: Array  #: the last beta (of the scaled problem, where scaling is on)
    record: Record | None = None  #: the first outer iterations, if asked for

    @property
    def success(self) -> Array:
        """Where the certificate meets the tolerance."""
        return self.status == int(Status.SOLVED)

    def messages(self) -> dict[str, int]:
        """Status in words -> how many instances ended so."""
        numbers, counts = np.unique(np.asarray(self.status), return_counts=True)
        return {_message(int(k)): int(c) for k, c in zip(numbers, counts, strict=True)}


def _message(number: int) -> str:
    if number == Status.INFEASIBLE:  # unlike the NumPy loop, a compiled program looks from its one start only
        return "Locally infeasible: the violation is stationary and not small, from this start; or bounds cross."
    return next(status.message for status in Status if status.value == number)


FIELDS = tuple(Solution.__dataclass_fields__)

jax.tree_util.register_pytree_with_keys(
    Solution,
    lambda s: ([(jax.tree_util.GetAttrKey(name), getattr(s, name)) for name in FIELDS], None),
    lambda _, parts: Solution(*parts),
)
