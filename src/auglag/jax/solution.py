"""What `solve` and `solve_batch` return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from auglag.algorithm.status import Status
from auglag.jax.state import Record
from auglag.jax.vectors import Array
from auglag.report.spread import counted, spreads


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

    def __repr__(self) -> str:
        """How many instances ended how, and the spread of what matters; one instance in a few lines."""
        if any(isinstance(part, jax.core.Tracer) for part in (self.status, self.fun)):  # inside jit, vmap or grad
            return f"Solution(traced, status {self.status}, fun {self.fun})"
        return _batch(self) if np.ndim(self.status) else _single(self)

    def messages(self) -> dict[str, int]:
        """Status in words -> how many instances ended so."""
        numbers, counts = np.unique(np.asarray(self.status), return_counts=True)
        return {_message(int(k)): int(c) for k, c in zip(numbers, counts, strict=True)}


def _message(number: int) -> str:
    if number == Status.INFEASIBLE:  # unlike the NumPy loop, a compiled program looks from its one start only
        return "Locally infeasible: the violation is stationary and not small, from this start; or bounds cross."
    return _of(number).message


def _of(number: int) -> Status:
    return next(status for status in Status if status.value == number)


def _single(solution: Solution) -> str:
    status = _of(int(solution.status))
    parts = ("stationarity", "violation", "complementarity")
    measured = ", ".join(f"{name} {float(getattr(solution, name)):.2e}" for name in parts)
    return "\n".join(
        (
            f"Solution: {status.name}, f = {float(solution.fun):.10g}",
            f"  residual {float(solution.residual):.2e}: {measured}",
            f"  {int(solution.outer)} outer iterations, {int(solution.steps)} steps, "
            f"last penalty {float(solution.penalty):.3g}",
            f"  x {_shapes(solution.x)}, multipliers {_shapes(solution.multipliers)}",
        )
    )


def _batch(solution: Solution) -> str:
    """Counts by status with their share, then the median and the extremes of numbers."""
    names = ("fun", "residual", "violation", "outer", "steps", "penalty")
    lines = [f"Solution of {np.size(solution.status)} instances: {counted(solution.status)}"]
    lines += spreads({name: getattr(solution, name) for name in names})
    lines.append(f"  {'x':>9}: {_shapes(solution.x)}; multipliers {_shapes(solution.multipliers)}")
    return "\n".join(lines)


def _shapes(tree: Any) -> str:
    """The shapes of the arrays in a structure, the structure as it is."""
    return str(jax.tree_util.tree_map(lambda leaf: _Shape(np.shape(leaf)), tree))


class _Shape:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __repr__(self) -> str:
        return str(self.shape)


FIELDS = tuple(Solution.__dataclass_fields__)

jax.tree_util.register_pytree_with_keys(
    Solution,
    lambda s: ([(jax.tree_util.GetAttrKey(name), getattr(s, name)) for name in FIELDS], None),
    lambda _, parts: Solution(*parts),
)
