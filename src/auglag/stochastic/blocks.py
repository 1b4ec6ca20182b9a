"""Blocks: the parts of a stochastic problem, each a mean over its own rows (or an expectation over its own sampler).

A problem is a sum of blocks, f(x) = sum_s f_s(x) and c(x) = sum_s c_s(x), where f_s and c_s are means over the rows of
block s. Sampling is done block by block, so class-wise sampling is one block per class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from auglag._arrays import real_array
from auglag._typing import Matrix, Vector
from auglag.errors import InputError, note_point, require_integer
from auglag.stochastic.data import Index, batch_rows, chunks, count_rows, take

Function = Callable[..., Any]


@final
@dataclass(frozen=True, slots=True)
class Part:
    """The mean of one block over some rows: values, gradient of the objective, Jacobian."""

    f: float
    grad: Vector
    c: Vector
    jac: Matrix
    # Of a linear model, per unit factor: the mean loss, the mean of slope times row, and a'x of every row.
    mean: float = 0.0
    direction: Vector = field(default_factory=lambda: np.zeros(0))
    margins: Vector = field(default_factory=lambda: np.zeros(0))


class Block(ABC):
    """One mean f_s (objective) and c_s (m constraint functions), with derivatives on any batch of its rows."""

    n: int
    m: int
    rows: int | None  #: None: an endless sampler
    in_objective: bool
    in_constraints: bool
    exact: bool = False  #: no randomness at all: evaluated as a whole in every estimate
    has_curvature: bool = False  #: whether Gauss-Newton curvature is at hand

    @abstractmethod
    def take(self, index: Index | slice) -> Any:
        """The batch of these rows."""

    @abstractmethod
    def values(self, x: Vector, batch: Any) -> tuple[float, Vector]:
        """(f, c), means over the batch."""

    @abstractmethod
    def gradient(self, x: Vector, batch: Any, w: Vector) -> Vector:
        """grad f + J'w, means over the batch."""

    @abstractmethod
    def part(self, x: Vector, batch: Any) -> Part:
        """Values, gradient and Jacobian over the batch."""

    @abstractmethod
    def evaluate(self, x: Vector) -> Part:
        """The same over all rows, streamed in chunks."""

    @abstractmethod
    def subset(self, index: Index) -> Block:
        """The block of these rows alone, copied to memory."""

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        """A fresh batch; only for blocks without a number of rows."""
        raise NotImplementedError(f"{type(self).__name__} has rows: batches are drawn by index")

    def curvature(self, x: Vector) -> Matrix:
        """Gauss-Newton matrices of f and of every c over all rows, shape (1 + m, n, n)."""
        raise NotImplementedError(f"{type(self).__name__} has no curvature of its own")


@final
class FunctionBlock(Block):
    """A block from user functions of (x, batch), each returning means over the batch.

    `objective` and `gradient` give f and grad f; `constraints` gives c (length m) and `vjp(x, batch, w)` J'w, or
    `jacobian(x, batch)` the (m, n) matrix. Exactly one source of rows: `data` (arrays), `sampler(rng, size)` (a batch
    drawn afresh), `batches` (an endless iterator of independent batches: two that follow each other become xi1 and xi2
    of one estimate, so that an iterator with a period is biased). `exact=True` takes functions of x that need no data:
    they get batch = None. `curvature(x, batch)`, shape (1 + m, n, n), holds Gauss-Newton matrices of f and of every c.
    """

    def __init__(
        self,
        n: int,
        m: int = 0,
        *,
        objective: Function | None = None,
        gradient: Function | None = None,
        constraints: Function | None = None,
        vjp: Function | None = None,
        jacobian: Function | None = None,
        curvature: Function | None = None,
        data: Any = None,
        sampler: Function | None = None,
        batches: Iterator[Any] | None = None,
        exact: bool = False,
        weight: float = 1.0,
    ) -> None:
        _paired("objective", objective, "gradient", gradient)
        _paired("constraints", constraints, "vjp or jacobian", vjp or jacobian)
        sources = [data is not None, sampler is not None, batches is not None, exact]
        if sum(sources) != 1:
            raise InputError(
                f"a block must have exactly one of data, sampler, batches or exact=True, got {sum(sources)} of them"
            )
        if batches is not None and not hasattr(batches, "__next__"):
            raise InputError(
                f"batches must be an iterator (have __next__), got {type(batches).__name__}; "
                "rows with an end are data=..."
            )
        if constraints is not None and not m:
            raise InputError(
                "a block with constraints must be told how many there are: lower and upper (in a FunctionBlock m) must "
                "have an entry for each, got none"
            )
        self.n, self.m = require_integer(n, "n"), require_integer(m, "m", 0)
        self.weight, self.exact = weight, exact
        self.data, self.sampler, self.batches = data, sampler, batches
        self.rows = count_rows(data, "data") if data is not None else 0 if exact else None
        self.in_objective, self.in_constraints = objective is not None, constraints is not None
        self._f, self._grad, self._c, self._vjp, self._jac = objective, gradient, constraints, vjp, jacobian
        self._curvature, self.has_curvature = curvature, curvature is not None

    def take(self, index: Index | slice) -> Any:
        return None if self.exact else take(self.data, index)

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        what = "sampler(rng, size)" if self.sampler is not None else "batches"
        try:
            batch = self.sampler(rng, size) if self.sampler is not None else next(self.batches)  # type: ignore[arg-type]
        except StopIteration:
            how = "it raised StopIteration" if self.sampler is not None else "the iterator is exhausted"
            raise InputError(
                f"{what} must not end before the run does: {how}. Draw independent batches without end, or use data=..."
            ) from None
        if batch is None:
            raise InputError(f"{what} must return a batch every time, got None")
        return batch

    def values(self, x: Vector, batch: Any) -> tuple[float, Vector]:
        f = self.weight * self._number(_called(self._f, x, batch)) if self._f is not None else 0.0
        if self._c is None:
            return f, np.zeros(self.m)
        return f, self.weight * self._vector(
            _called(self._c, x, batch), self.m, "constraints(x, batch)", "one per constraint"
        )

    @property
    def functions(self) -> tuple[Function | None, ...]:
        """The user's: objective, gradient, constraints, vjp, jacobian."""
        return self._f, self._grad, self._c, self._vjp, self._jac

    def gradient(self, x: Vector, batch: Any, w: Vector) -> Vector:
        total = self.objective_gradient(x, batch)
        if self._vjp is not None:
            total = total + self.product(x, batch, w)
        elif self._jac is not None:
            total = total + self.jacobian(x, batch).T @ w
        return total

    def objective_gradient(self, x: Vector, batch: Any) -> Vector:
        """grad f over the batch."""
        if self._grad is None:
            return np.zeros(self.n)
        return self.weight * self._vector(
            _called(self._grad, x, batch), self.n, "gradient(x, batch)", "one per variable"
        )

    def product(self, x: Vector, batch: Any, w: Vector) -> Vector:
        """J'w over the batch, by the user's `vjp`."""
        assert self._vjp is not None
        return self.weight * self._vector(
            _called(self._vjp, x, batch, w), self.n, "vjp(x, batch, w)", "one per variable"
        )

    def part(self, x: Vector, batch: Any) -> Part:
        f, c = self.values(x, batch)
        jac = np.zeros((self.m, self.n))
        if self._jac is not None:
            jac = self.jacobian(x, batch)
        elif self._vjp is not None:
            for i, unit in enumerate(np.eye(self.m)):
                jac[i] = self.product(x, batch, unit)
        return Part(f, self.objective_gradient(x, batch), c, jac)

    def evaluate(self, x: Vector) -> Part:
        if self.exact:
            return self.part(x, None)
        f, grad, c, jac = 0.0, np.zeros(self.n), np.zeros(self.m), np.zeros((self.m, self.n))
        for share, batch in self._shares():
            part = self.part(x, batch)
            f, grad, c, jac = f + share * part.f, grad + share * part.grad, c + share * part.c, jac + share * part.jac
        return Part(f, grad, c, jac)

    def subset(self, index: Index) -> FunctionBlock:
        return FunctionBlock(
            self.n,
            self.m,
            objective=self._f,
            gradient=self._grad,
            constraints=self._c,
            vjp=self._vjp,
            jacobian=self._jac,
            curvature=self._curvature,
            data=None if self.exact else take(self.data, index),
            exact=self.exact,
            weight=self.weight,
        )

    def curvature(self, x: Vector) -> Matrix:
        assert self._curvature is not None
        total = np.zeros((1 + self.m, self.n, self.n))
        parts = [(1.0, None)] if self.exact else self._shares()
        for share, batch in parts:
            found = real_array(_called(self._curvature, x, batch), "curvature(x, batch)")
            if found.shape != total.shape:
                raise InputError(f"curvature(x, batch) must have shape {total.shape}, got {found.shape}")
            total += self.weight * share * found
        return total

    def _shares(self) -> Iterator[tuple[float, Any]]:
        """All rows in chunks, each with its share of the rows."""
        rows = count_rows(self.data, "data")
        for where, batch in chunks(self.data, rows):
            yield (where.stop - where.start) / rows, batch

    def jacobian(self, x: Vector, batch: Any) -> Matrix:
        """J over the batch, by the user's `jacobian`."""
        assert self._jac is not None
        jac = real_array(_called(self._jac, x, batch), "jacobian(x, batch)")
        if jac.shape != (self.m, self.n):
            raise InputError(f"jacobian(x, batch) must have shape {(self.m, self.n)}, got {jac.shape}")
        return self.weight * jac

    @staticmethod
    def _number(value: Any) -> float:
        number = real_array(value, "objective(x, batch)")
        if number.size != 1:
            raise InputError(f"objective(x, batch) must return a number, got shape {number.shape}")
        return float(number.reshape(()))

    @staticmethod
    def _vector(value: Any, length: int, what: str, why: str) -> Vector:
        vector = np.atleast_1d(real_array(value, what))
        if vector.shape != (length,):
            raise InputError(f"{what} must return {length} numbers, {why}, got shape {vector.shape}")
        return vector


def _called(function: Function, x: Vector, batch: Any, *more: Any) -> Any:
    """function(x, batch); an exception gets a note with x and the rows of the batch."""
    try:
        return function(x, batch, *more)
    except Exception as error:
        rows = None if batch is None else batch_rows(batch, 0)
        note_point(error, x, f"on a batch of {rows} rows" if rows else "without a batch")
        raise


def _paired(first: str, a: object, second: str, b: object) -> None:
    if (a is None) != (b is None):
        have, miss = (first, second) if a is not None else (second, first)
        raise InputError(f"{first} and {second} must be given together, got {have} without {miss}")
