"""Stochastic problems: min f(x) + g(x) subject to lower <= c(x) <= upper, with f and c sums of blocks of means."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._arrays import real_array
from auglag._typing import Matrix, Vector
from auglag.errors import InputError
from auglag.prox import Zero, as_term
from auglag.prox.base import ProxTerm
from auglag.stochastic.blocks import Block, Function, FunctionBlock, Part
from auglag.stochastic.data import Index, count_rows, take
from auglag.stochastic.linear import LinearBlock


@final
@dataclass(frozen=True, slots=True)
class Evaluation:
    """f and c with their derivatives at one x, over all rows."""

    x: Vector
    f: float
    grad: Vector
    c: Vector
    jac: Matrix
    parts: tuple[Part, ...]  #: by block

    @property
    def finite(self) -> bool:
        """Whether all numbers are finite."""
        size = float(np.max(np.abs(self.grad), initial=0.0)) + float(np.max(np.abs(self.c), initial=0.0)) + abs(self.f)
        return bool(size < 1e150)  # so that no square overflows

    def broken(self, names: Sequence[str]) -> str:
        """What of it is NaN or infinite, in words."""
        rows = [name for name, v in zip(names, self.c, strict=True) if not math.isfinite(v)]
        if not math.isfinite(self.f) or rows:
            return "the objective" if not math.isfinite(self.f) else f"constraint {rows[0]!r}"
        rows = [name for name, row in zip(names, self.jac, strict=True) if not np.isfinite(row).all()]
        return f"the Jacobian of constraint {rows[0]!r}" if rows else "the gradient of the objective"


@final
class StochasticProblem:
    """min f(x) + g(x) subject to lower <= c(x) <= upper; f and c are sums over blocks (see `auglag.stochastic.blocks`).

    lower = upper makes an equality; infinite sides are allowed. `holdout` is a problem of the same shape on other data
    (`StochasticProblem`), on which the result is measured too.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        *,
        lower: Any = (),
        upper: Any = (),
        g: Any = None,
        names: Sequence[str] | None = None,
        x0: Any = None,
        holdout: StochasticProblem | None = None,
        report: Callable[[Vector], dict[str, float]] | None = None,
    ) -> None:
        if not blocks:
            raise InputError("blocks must hold at least one block, got none")
        self.blocks = tuple(blocks)
        self.n = blocks[0].n
        self.lower, self.upper = _sides(lower, upper)
        self.m = self.lower.size
        for i, block in enumerate(self.blocks):
            if block.n != self.n:
                raise InputError(f"all blocks must have the same number of variables, got {self.n} and {block.n}")
            if block.m != self.m and (block.in_constraints or block.m):
                raise InputError(
                    f"blocks[{i}] must have as many constraints as lower and upper, {self.m}, got {block.m}"
                )
        if not any(block.in_objective for block in self.blocks) and not self.m:
            raise InputError("a problem must have an objective or constraints, got neither")
        if self.m and not any(block.in_constraints for block in self.blocks):
            raise InputError(f"lower and upper name {self.m} constraints, but no block has any")
        self.g: ProxTerm = as_term(g) if g is not None else Zero()
        self.g.check(self.n)
        self.names = tuple(names) if names is not None else tuple(f"c[{i}]" for i in range(self.m))
        if len(self.names) != self.m:
            raise InputError(f"names must have one entry per constraint, {self.m}, got {len(self.names)}")
        self.x0 = None if x0 is None else real_array(x0, "x0")
        self.holdout, self.report = holdout, report
        if holdout is not None and (holdout.n, holdout.m) != (self.n, self.m):
            raise InputError(
                f"holdout must have {self.n} variables and {self.m} constraints, got {holdout.n} and {holdout.m}"
            )

    @classmethod
    def from_functions(
        cls,
        n: int,
        objective: Function | None,
        gradient: Function | None,
        *,
        data: Any = None,
        sampler: Function | None = None,
        batches: Iterator[Any] | None = None,
        constraints: Function | None = None,
        vjp: Function | None = None,
        jacobian: Function | None = None,
        curvature: Function | None = None,
        lower: Any = (),
        upper: Any = (),
        g: Any = None,
        names: Sequence[str] | None = None,
        classes: Any = None,
        x0: Any = None,
        holdout: Any = None,
    ) -> StochasticProblem:
        """A problem from functions of (x, batch) that return means over the batch (see `FunctionBlock`).

        `classes`, one label per row, asks for class-wise sampling: every class is a block of its own, weighted by its
        share of the rows, so that f and c stay the means over all rows. `holdout` is data like `data`.
        """
        sides = _sides(lower, upper)
        if data is not None and (sampler is not None or batches is not None):
            raise InputError("a problem must have one of data, sampler or batches, got data and another of them")

        def block(rows: Any, weight: float = 1.0) -> FunctionBlock:
            return FunctionBlock(
                n,
                sides[0].size,
                objective=objective,
                gradient=gradient,
                constraints=constraints,
                vjp=vjp,
                jacobian=jacobian,
                curvature=curvature,
                data=rows,
                sampler=sampler if rows is None else None,
                batches=batches if rows is None else None,
                weight=weight,
            )

        blocks = [block(data)] if classes is None else [block(*part) for part in _by_class(data, classes)]
        other = None if holdout is None else cls([block(holdout)], lower=lower, upper=upper, g=g, names=names)
        return cls(blocks, lower=lower, upper=upper, g=g, names=names, x0=x0, holdout=other)

    @property
    def rows(self) -> int | None:
        """Rows of all blocks together; None if a block is sampled without end."""
        known = [block.rows for block in self.blocks if block.rows is not None]
        return sum(known) if len(known) == len(self.blocks) else None

    @property
    def finite_data(self) -> bool:
        """Whether full-batch values can be had."""
        return self.rows is not None

    @property
    def linear(self) -> tuple[LinearBlock, ...] | None:
        """The blocks, if all of them are linear models."""
        blocks = tuple(block for block in self.blocks if isinstance(block, LinearBlock))
        return blocks if len(blocks) == len(self.blocks) else None

    def evaluate(self, x: Vector) -> Evaluation:
        """f, c and their derivatives over all rows."""
        if not self.finite_data:
            raise InputError("full-batch values need data with an end; a sampler only allows estimates")
        return self._sum(x, [block.evaluate(x) for block in self.blocks])

    def estimate(self, x: Vector, batches: Sequence[Any]) -> Evaluation:
        """The same from one batch per block: an estimate."""
        return self._sum(x, [block.part(x, batch) for block, batch in zip(self.blocks, batches, strict=True)])

    def _sum(self, x: Vector, parts: Sequence[Part]) -> Evaluation:
        f, grad, c, jac = 0.0, np.zeros(self.n), np.zeros(self.m), np.zeros((self.m, self.n))
        for part in parts:
            f, grad = f + part.f, grad + part.grad
            if part.c.size:
                c, jac = c + part.c, jac + part.jac
        return Evaluation(x.copy(), f, grad, c, jac, tuple(parts))

    def subset(self, indices: Sequence[Index]) -> StochasticProblem:
        """The problem on these rows of every block, in memory."""
        blocks = [block.subset(index) for block, index in zip(self.blocks, indices, strict=True)]
        return StochasticProblem(blocks, lower=self.lower, upper=self.upper, g=self.g, names=self.names)

    def violation(self, c: Vector) -> Vector:
        """The distance of every row of c to its sides."""
        return np.maximum(np.maximum(self.lower - c, c - self.upper), 0.0)


def _sides(lower: Any, upper: Any) -> tuple[Vector, Vector]:
    low, high = (np.atleast_1d(real_array(side, name)) for side, name in ((lower, "lower"), (upper, "upper")))
    if low.shape != high.shape or low.ndim != 1:
        raise InputError(f"lower and upper must be vectors of one length, got shapes {low.shape} and {high.shape}")
    if not (low <= high).all():
        i = int(np.argmax(~(low <= high)))
        raise InputError(f"lower must not exceed upper, got lower[{i}] = {low[i]} and upper[{i}] = {high[i]}")
    if (np.isneginf(high) | np.isposinf(low)).any():
        raise InputError("lower must be below inf and upper above -inf")
    return low, high


def _by_class(data: Any, classes: Any) -> Iterator[tuple[Any, float]]:
    if data is None:
        raise InputError("classes needs data: a sampler or an iterator draws its own batches")
    labels, rows = np.asarray(classes), count_rows(data, "data")
    if labels.shape != (rows,):
        raise InputError(f"classes must have one label per row of data, {rows}, got shape {labels.shape}")
    for label in np.unique(labels):
        index = np.flatnonzero(labels == label)
        yield take(data, index), len(index) / rows
