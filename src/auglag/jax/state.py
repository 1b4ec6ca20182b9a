"""What evolves while a batch is solved, and what does not: plain tuples of arrays with the batch as the last axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax.numpy as jnp

from auglag.jax.vectors import Array, Vector, as_array, where

#: The status of an instance that is not finished; the others are those of `auglag.Status`.
RUNNING = -1


@final
@dataclass(frozen=True, slots=True)
class Options:
    """What defines the method apart from the rules."""

    tol: float
    negligible: float
    accelerate: bool
    scaling: bool
    max_outer: int
    max_steps: int
    largest_penalty: float
    memory: int  #: pairs of the limited-memory method; 0 for Newton
    record: int  #: outer iterations to record


class Sides(NamedTuple):
    """Bounds of x and of the rows."""

    lower: Vector
    upper: Vector
    cl: Vector
    cu: Vector


class Pairs(NamedTuple):
    """The limited-memory matrix of the current subproblem: steps and changes of the gradient, newest last."""

    s: Array  #: (memory, n, batch)
    t: Array  #: (memory, n, batch)
    rho: Array  #: (memory, batch), 0 for an empty place
    x: Array  #: where the last gradient was taken
    gradient: Array
    fresh: Array  #: whether `gradient` is of the current subproblem

    def without(self, mask: Array) -> Pairs:
        """Nothing remembered where the mask holds: another subproblem begins."""
        return self._replace(rho=where(mask, 0.0, self.rho), fresh=self.fresh & ~mask)


class Record(NamedTuple):
    """The first outer iterations, for the curious and for tests."""

    beta: Array  #: (record, batch)
    eta: Array
    violation: Array  #: NaN, like the stationarity, where the subproblem had no lower bound
    stationarity: Array
    x: Array  #: (record, n, batch)
    y: Array  #: (record, m, batch): the multipliers for the next subproblem

    def put(self, mask: Array, k: Array, row: Record) -> Record:
        """Iteration k of the instances in the mask; `row` has no axis of iterations."""
        here = (jnp.arange(self.beta.shape[0])[:, None] == k[None] - 1) & mask[None]
        both = zip(self, row, strict=True)
        return Record(*[where(here if old.ndim == 2 else here[:, None], new[None], old) for old, new in both])


class State(NamedTuple):
    """One instance per column."""

    x: Vector
    y: Vector
    start: Vector  #: x at the start of the subproblem, to which an unbounded one returns
    beta: Array
    eta: Array
    before: Array  #: ||c(x_k)||, scaled
    first: Array  #: ||c(x_1)||, scaled
    level: Array  #: max(1, |phi at the start|)
    best: Array  #: the smallest residual so far
    length: Array  #: step length of the line search
    shift: Array  #: what was last added to the diagonal of the Hessian
    k: Array
    steps: Array
    idle: Array  #: steps in a row that changed nothing but rounding; `patience` marks a stalled subproblem
    stalls: Array  #: subproblems in a row that stalled
    lag: Array  #: steps in a row that were not accelerated
    vain: Array  #: increases of beta in a row without less violation
    status: Array
    sf: Any  #: scale of f, None without scaling
    sc: Any  #: scales of the rows, None without scaling or rows
    steep: Any  #: what counts as a steep row: the norms of the rows' gradients at the start, scaled, at most 1
    pairs: Pairs | None
    record: Record | None

    def recorded(self, mask: Array, violation: Array, stationarity: Array, y: Vector) -> Record | None:
        """The record with iteration k of the instances in the mask."""
        if self.record is None:
            return None
        batch, dtype = self.beta.shape[-1], self.beta.dtype
        x, y = as_array(self.x, batch, dtype), as_array(y, batch, dtype)
        return self.record.put(mask, self.k, Record(self.beta, self.eta, violation, stationarity, x, y))


class Point(NamedTuple):
    """What is known at x: values, first derivatives, and the multiplier estimate for the current (y, beta)."""

    f: Array
    c: Vector
    g: Vector
    jac: Any
    w: Vector  #: yhat
    gradient: Vector  #: of phi
    distance: Array  #: dist(-grad phi, normal cone of the bounds)
