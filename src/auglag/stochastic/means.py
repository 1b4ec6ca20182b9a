"""Are objective and constraints means over the rows of a batch? Some rows are looked at whole and in two parts.

Full batches are evaluated in chunks, whose mean is what a certificate measures. Of a sum over the rows, or of a ratio
of two means, that is another number than the function of all rows: a point could be called a solution that is none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import InputError, attempted
from auglag.report import logger
from auglag.stochastic.blocks import Block, FunctionBlock
from auglag.stochastic.data import batch_rows, chunk_rows, take
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.tuning import TUNING

Index = NDArray[np.int64]
Look = Callable[[Index], Vector]  #: objective and constraints on rows of the sample


@final
@dataclass(frozen=True, slots=True)
class Gap:
    """A function whose value on some rows is not the mean of its values on two parts of them."""

    name: str
    objective: bool
    rows: tuple[int, int]
    whole: float
    parts: tuple[float, float]
    mean: float

    @property
    def summed(self) -> bool:
        """Whether the value is the sum of the two. Where one of them is 0 a ratio over few rows looks the same."""
        return all(self.parts) and math.isclose(self.whole, sum(self.parts), rel_tol=TUNING.mean_rounding)

    def __str__(self) -> str:
        a, b = self.rows
        role = "objective" if self.objective else f"constraint {self.name!r}"
        return (
            f"{role} must be a mean over the rows of its batch, got {self.whole:.6g} on {a + b} rows, but "
            f"{self.parts[0]:.6g} on {a} of them and {self.parts[1]:.6g} on the other {b}, of which the mean is "
            f"{self.mean:.6g}. {self._instead()}"
        )

    def _instead(self) -> str:
        if self.summed:
            return "It adds up rows: divide by the number of rows of the batch"
        ratio = "For a ratio of means, a / b <= r, write the mean of a - r b <= 0"
        if self.objective:
            ratio = "What it divides by must not depend on the batch: divide by a number that is known for all rows"
        return ratio + ". An output of shape (N, 1) and labels of shape (N,) make an (N, N) product: squeeze the output"


def sample_size(rows: int, most: int | None = None) -> int:
    """How many of so many rows are looked at: a small share of a pass where there are many."""
    wanted = min(TUNING.mean_rows, max(TUNING.mean_least_rows, int(TUNING.mean_share * rows)))
    return min(wanted, rows, rows if most is None else most)


def gaps_where_defined(
    looks: Iterable[Look], rows: int, names: Sequence[str], rng: np.random.Generator, eps: float
) -> list[Gap]:
    """The `gaps` at the first of some points at which all functions are finite; none where there is no such point."""
    everything = np.arange(rows)
    for look in looks:
        here = attempted(partial(look, everything))
        if here is not None and np.isfinite(here).all():
            return gaps(look, rows, names, rng, eps)
    return []


def gaps(look: Look, rows: int, names: Sequence[str], rng: np.random.Generator, eps: float) -> list[Gap]:
    """The functions, objective first, that are no means over rows. `look(index)`: their values on rows of the sample.

    The parts have sizes without a common divisor, so that a count of some of the rows is never the same share of both.
    Where they disagree, they are evaluated again, in other orders: noise and rounding come and go, a mistake stays.
    By chance parts may agree, so that rows are split more than once.
    """
    first = next((k for k in range(3 * rows // 8, 0, -1) if math.gcd(k, rows) == 1), 0)
    if first == 0:
        return []
    order = rng.permutation(rows)
    whole, found = look(order), list[Gap]()
    for _ in range(TUNING.mean_splits):
        found = found or _split(look, whole, order, first, names, rng, eps)
        order = rng.permutation(rows)
    return found


def _split(
    look: Look, whole: Vector, order: Index, first: int, names: Sequence[str], rng: np.random.Generator, eps: float
) -> list[Gap]:
    """The gaps between the values of all rows and those of the first ones in an order and of the others."""
    rows, sets = order.size, (order, order[:first], order[first:])
    share, a, b = first / rows, look(sets[1]), look(sets[2])
    size = np.maximum(np.maximum(np.abs(whole), np.abs(a)), np.abs(b)) + math.sqrt(rows) * np.abs(a - b)
    known = np.isfinite(whole)
    with np.errstate(invalid="ignore"):
        mean = share * a + (1.0 - share) * b
        doubtful = known & ~(np.abs(whole - mean) <= max(TUNING.mean_rounding, TUNING.mean_roundings * eps) * size)
        if not doubtful.any():
            return []
        seen = [whole - mean]
        for _ in range(TUNING.mean_repeats):
            again, c, d = (look(rng.permutation(index)) for index in sets)
            seen.append(again - share * c - (1.0 - share) * d)
        found = np.array(seen)
        constant = np.abs(found.mean(axis=0)) > TUNING.mean_deviations * found.std(axis=0)
        missing = ~np.isfinite(found).any(axis=0)  # a mean over rows cannot be undefined on some of them alone
    return [
        Gap("" if i == 0 else names[i - 1], i == 0, (first, rows - first), whole[i], (a[i], b[i]), mean[i])
        for i in map(int, np.flatnonzero(doubtful & (constant | missing)))
    ]


def report(found: Sequence[Gap], *, chunk: int | None, tests_right: bool, how: str, lenient: bool = False) -> None:
    """Raise `InputError` where a certificate would speak of another problem; else warn.

    `tests_right` says that tests see all rows at once. A loss that compares the rows of a batch is no mistake by
    itself, nor are constraints on a model whose layers do (`lenient`).
    """
    if not found:
        return
    wrong = [gap for gap in found if not tests_right and (gap.summed or not (gap.objective or lenient))]
    gap = (wrong or found)[0]
    if wrong:
        raise InputError(f"{gap}{how}")
    if tests_right:
        logger.warn(f"{gap}. Tests see all rows at once and are right; steps on batches aim at something else")
    else:
        batches = "batches" if chunk is None else f"batches of {chunk} rows"
        logger.warn(f"{gap}. What is minimised and certified is its mean over {batches}{how}")


def check_means(problem: StochasticProblem, x: Vector, rng: np.random.Generator, *, sampled: bool) -> int:
    """Raise `InputError`, or warn, if functions are no means over rows; how many row evaluations that took.

    Where tests see all rows at once and no step is `sampled`, nothing can go wrong.
    """
    seen: set[tuple[int, ...]] = set()
    spent = 0
    for block in problem.blocks:
        functions = _functions(block)
        if not functions or functions in seen:
            continue
        seen.add(functions)
        whole = block.rows is not None and block.rows <= chunk_rows(getattr(block, "data", None))
        if whole and not sampled:
            continue
        batch, rows = _some_rows(block, rng)
        looked: list[int] = []
        found = attempted(lambda: _look(block, batch, rows, problem, x, rng, looked))  # noqa: B023
        spent += sum(looked)
        how = "; check_means=False takes such means as they are"
        report(found or (), chunk=None, tests_right=whole, how=how)
    return spent


def _functions(block: Block) -> tuple[int, ...]:
    """What tells functions of the user apart; nothing where there are none, or no rows."""
    own = getattr(block, "_inner", block)
    if not isinstance(own, FunctionBlock) or own.exact:
        return ()
    return tuple(map(id, own.functions))


def _some_rows(block: Block, rng: np.random.Generator) -> tuple[Any, int]:
    if block.rows is None:
        batch = block.draw(rng, TUNING.mean_rows)
        if isinstance(block, FunctionBlock) and block.batches is not None:  # it belongs to the run
            block.batches = itertools.chain([batch], block.batches)
        return batch, batch_rows(batch, 0)
    rows = sample_size(block.rows)
    return block.take(np.sort(rng.choice(block.rows, rows, replace=False))), rows


def _look(
    block: Block,
    batch: Any,
    rows: int,
    problem: StochasticProblem,
    x: Vector,
    rng: np.random.Generator,
    looked: list[int],
) -> list[Gap]:
    """The gaps near x, or at x itself where the functions are not defined near it."""
    moved = x + TUNING.mean_move * (1.0 + np.abs(x)) * rng.standard_normal(x.size)

    def at(z: Vector) -> Look:
        def values(index: Index) -> Vector:
            looked.append(index.size)
            f, c = block.values(z, take(batch, index))
            return np.append(f, c)

        return values

    looks = map(at, (problem.g.domain().prox(moved, 1.0), x))
    with np.errstate(all="ignore"):
        return gaps_where_defined(looks, rows, problem.names, rng, np.finfo(np.float64).eps)
