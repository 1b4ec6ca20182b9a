"""Drawing samples, and the estimator D(x, y, z) of the gradient of L_beta from two independent ones.

    D(x, y, z) = grad f(x, xi1) + J(x, xi1)'(y + beta c(x, xi2)),     z = (xi1, xi2) independent,

is unbiased because c and J come from different samples; with one sample for both it is not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError, require_integer
from auglag.stochastic.blocks import Block
from auglag.stochastic.data import Index
from auglag.stochastic.lagrangian import FullTest, StochasticLagrangian
from auglag.stochastic.limits import Meter
from auglag.stochastic.tuning import TUNING


@final
@dataclass(frozen=True, slots=True)
class Sample:
    """z = (xi1, xi2): one batch per block for gradients, and one per block with constraints for their values."""

    first: tuple[Any, ...]
    second: tuple[Any, ...]


@final
@dataclass(frozen=True, slots=True)
class Draw:
    """Row indices of many samples, one row of each array per step; None for blocks that are not drawn by index."""

    steps: int
    first: tuple[Index | None, ...]
    second: tuple[Index | None, ...]


@final
class Sampling:
    """How batches are drawn: `batch` rows of every block (one number, or one per block), with replacement or not."""

    def __init__(self, blocks: Sequence[Block], batch: int | Sequence[int], *, replacement: bool = True) -> None:
        sizes = [batch] * len(blocks) if isinstance(batch, int | np.integer) else list(batch)
        if len(sizes) != len(blocks):
            raise InputError(f"batch must be one number or one per block, {len(blocks)}, got {len(sizes)}")
        for block, size in zip(blocks, sizes, strict=True):
            require_integer(size, "batch")
            if not replacement and block.rows is not None and not block.exact and size > block.rows:
                raise InputError(
                    f"batch must not exceed the rows of a block when replacement is off: got {size} of {block.rows}"
                )
        self.blocks, self.sizes, self.replacement = tuple(blocks), tuple(int(s) for s in sizes), replacement
        self.indexed = all(block.rows is not None for block in blocks)

    @property
    def rows_per_step(self) -> int:
        """Rows touched by one D(x, y, z)."""
        pairs = [(b, s) for b, s in zip(self.blocks, self.sizes, strict=True) if not b.exact]
        return sum(size * (1 + block.in_constraints) for block, size in pairs)

    def draws(self, rng: np.random.Generator, steps: int) -> Iterator[Draw]:
        """Indices for `steps` samples, `steps_per_draw` at a time."""
        for start in range(0, steps, TUNING.steps_per_draw):
            count = min(TUNING.steps_per_draw, steps - start)
            first = tuple(self._indices(rng, i, count) for i in range(len(self.blocks)))
            second = tuple(
                self._indices(rng, i, count) if block.in_constraints else None for i, block in enumerate(self.blocks)
            )
            yield Draw(count, first, second)

    def _indices(self, rng: np.random.Generator, i: int, count: int) -> Index | None:
        rows, size = self.blocks[i].rows, self.sizes[i]
        if rows is None or self.blocks[i].exact:
            return None
        if self.replacement:
            return rng.integers(0, rows, (count, size), dtype=np.int32 if rows < 2**31 else np.int64)
        return np.stack([rng.choice(rows, size, replace=False, shuffle=False) for _ in range(count)])

    def sample(self, draw: Draw, step: int, rng: np.random.Generator) -> Sample:
        """The batches of one step of a draw; blocks without rows draw theirs now."""
        first = tuple(self._batch(i, draw.first[i], step, rng) for i in range(len(self.blocks)))
        second = tuple(
            self._batch(i, draw.second[i], step, rng) if block.in_constraints else None
            for i, block in enumerate(self.blocks)
        )
        return Sample(first, second)

    def _batch(self, i: int, index: Index | None, step: int, rng: np.random.Generator) -> Any:
        block = self.blocks[i]
        if index is not None:
            return block.take(index[step])
        return block.take(slice(0, 0)) if block.exact else block.draw(rng, self.sizes[i])


@final
class SampledLagrangian:
    """L_beta(., y) + g as a stochastic method sees it: samples, estimates D, the prox of g, and full-batch tests."""

    def __init__(self, exact: StochasticLagrangian, sampling: Sampling, meter: Meter) -> None:
        self.exact, self.sampling, self.meter = exact, sampling, meter
        self.blocks = sampling.blocks
        self.geometry, self.y, self.beta, self.g = exact.geometry, exact.y, exact.beta, exact.g
        self.n = exact.geometry.n
        self.ledger = exact.full.ledger
        self.refused = ""  #: the limit that left no room for the last samples asked for

    def draws(self, rng: np.random.Generator, steps: int, points: int = 1, gradients: int = 1) -> Iterator[Draw]:
        """Indices for `steps` samples; fewer once a limit is reached, which `refused` then names.

        A sample is used at `points` points and counts as so many `gradients`.
        """
        cost = max(1, points * self.sampling.rows_per_step)
        for whole in self.sampling.draws(rng, steps):
            for draw in self._pieces(whole):
                room = (self.meter.rows - self.ledger.rows) / cost
                left = (self.meter.gradients - self.ledger.gradients) / gradients
                self.refused = self.meter.reached() or ("epochs" if room < 1 else "gradients" if left < 1 else "")
                if self.refused:
                    return
                room = min(room, left)
                started = time.monotonic()
                yield draw if room >= draw.steps else Draw(math.floor(room), draw.first, draw.second)
                self.meter.pace(time.monotonic() - started)

    def _pieces(self, draw: Draw) -> Iterator[Draw]:
        """The draw in parts, between which the clock is looked at; in one if there is no deadline."""
        start = 0
        while start < draw.steps:
            stride = draw.steps if math.isinf(self.meter.deadline) else self.meter.stride
            part = slice(start, min(start + stride, draw.steps))
            first, second = (tuple(None if i is None else i[part] for i in side) for side in (draw.first, draw.second))
            yield Draw(part.stop - part.start, first, second)
            start = part.stop

    def samples(self, rng: np.random.Generator, steps: int, points: int = 1, gradients: int = 1) -> Iterator[Sample]:
        """`steps` independent samples z; fewer once a limit of the run is reached."""
        for draw in self.draws(rng, steps, points, gradients):
            for step in range(draw.steps):
                yield self.sampling.sample(draw, step, rng)

    def charge(self, gradients: int, points: int = 1) -> None:
        """Count stochastic gradients that a kernel took."""
        self.ledger.gradients += gradients
        self.ledger.rows += gradients * points * self.sampling.rows_per_step

    def constraint(self, v: Vector, sample: Sample) -> Vector:
        """r(v, xi2) = c(x, xi2) - s: unbiased."""
        x, c = v[: self.n], np.zeros(self.y.size)
        for block, batch in zip(self.blocks, sample.second, strict=True):
            if block.in_constraints:
                c = c + block.values(x, batch)[1]
        return self.exact.remainder(v, c)

    def weighted(self, v: Vector, sample: Sample, w: Vector) -> Vector:
        """grad f(x, xi1) + J(x, xi1)'w, and -w for the slacks."""
        total = np.zeros(self.n)
        for block, batch in zip(self.blocks, sample.first, strict=True):
            total += block.gradient(v[: self.n], batch, w)
        rows = self.geometry.rows
        return np.concatenate([total, -w[rows]]) if rows.size else total

    def estimate(self, v: Vector, sample: Sample) -> Vector:
        """D(v, y, z)."""
        self.charge(1)
        w = self.y + self.beta * self.constraint(v, sample) if self.y.size else self.y
        return self.weighted(v, sample, w)

    def prox(self, v: Vector, step: float) -> Vector:
        """prox of step * g."""
        return self.g.prox(v, step)

    def test(self, v: Vector) -> FullTest:
        """A full-batch test, counted."""
        return self.exact.test(v)
