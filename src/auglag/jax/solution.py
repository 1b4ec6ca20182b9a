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
    status = np.asarray(solution.status)
    numbers, counts = np.unique(status, return_counts=True)
    most_first = sorted(zip(counts.tolist(), numbers.tolist(), strict=True), reverse=True)
    ends = ", ".join(f"{count} {_of(k).name} ({_percent(count, status.size)})" for count, k in most_first)
    lines = [f"Solution of {status.size} instances: {ends}"]
    for name in ("fun", "residual", "violation", "outer", "steps", "penalty"):
        values = np.asarray(getattr(solution, name), float)
        known = values[np.isfinite(values)]
        text = "not finite"
        if known.size:
            text = f"median {np.median(known):.4g}, from {known.min():.4g} to {known.max():.4g}"
            text += f", {values.size - known.size} not finite" if known.size < values.size else ""
        lines.append(f"  {name:>9}: {text}")
    lines.append(f"  {'x':>9}: {_shapes(solution.x)}; multipliers {_shapes(solution.multipliers)}")
    return "\n".join(lines)


def _percent(count: int, total: int) -> str:
    """A share that says 100 % only of all, and 0 % only of none."""
    share = 100.0 * count / total
    text = f"{share:.1f}"
    if count < total and text == "100.0":
        return "> 99.9 %"
    return "< 0.1 %" if text == "0.0" else f"{text.removesuffix('.0')} %"


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
