"""The Hessian of f + y'c: second derivatives of each operator between the gradients of its arguments.

    H = sum over operators u of adjoint_u * sum over arguments a, b of d2u/da db * grad a (grad b)'

so that products with vectors need no more than the gradients of arguments, and entries sums of triple products whose
places are computed once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.problems.jacobians import FixedPattern
from auglag.problems.nl.gradients import SparseGradients
from auglag.problems.nl.tape import Indices, Tape

#: Places of so many triple products are kept; beyond, they are computed again at each evaluation.
KEPT = 2_000_000
#: A Hessian with more triple products than this is not assembled.
LARGEST = 20_000_000


Triple = tuple[Indices, Indices, Indices, Indices]


@final
@dataclass(frozen=True, slots=True)
class _Plan:
    """How a Hessian is put together: computed once, when one is asked for."""

    key: Indices  #: row * n + column of every entry, sorted
    pattern: FixedPattern
    kept: list[Triple] | None  #: None: too many to keep


@final
class SecondOrder:
    """Products and entries of the Hessian of the weighted sum of the roots."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        # Pairs with a constant argument contribute nothing.
        constant = _constant(tape)
        self._pairs = np.flatnonzero(~(constant[tape.pair_left] | constant[tape.pair_right]))
        left, right = tape.pair_left[self._pairs], tape.pair_right[self._pairs]
        arguments = np.unique(np.concatenate([left, right]))
        self.gradients = SparseGradients(tape, arguments[arguments >= tape.first], np.zeros(0, dtype=np.intp))
        rows = self.gradients.number + tape.n
        rows[: tape.n] = np.arange(tape.n)
        self._left, self._right = rows[left], rows[right]  # rows of [I; gradients]
        self._mixed = tape.pair_mixed[self._pairs]
        self.start: Indices = np.concatenate([np.arange(tape.n), tape.n + self.gradients.start])
        self.column: Indices = np.concatenate([np.arange(tape.n), self.gradients.column])
        self._row = np.repeat(np.arange(self.start.size - 1), np.diff(self.start))
        self._steps = _adjoint_steps(tape)
        sizes = self._lengths(self._left) * self._lengths(self._right)
        self.products = int(sizes.sum() + sizes[self._mixed].sum())  #: what `assemble` costs

    def matrix(self, p: Vector) -> Any:
        """[I; gradients of arguments], a csr_array."""
        data = np.concatenate([np.ones(self.tape.n), self.gradients.rows(p)])
        shape = (self.start.size - 1, self.tape.n)
        return sparse.csr_array((data, self.column, self.start), shape=shape)

    def weights(self, p: Vector, q: Vector, root_weights: Vector) -> Vector:
        """adjoint * second derivative for each pair of arguments."""
        tape = self.tape
        adjoint = np.zeros(tape.size)
        adjoint[tape.roots] = root_weights
        for edges, nodes, arguments in self._steps:
            np.add.at(adjoint, arguments, tape.times(adjoint[nodes], p[edges]))
        adjoint_pairs = adjoint[tape.pair_node[self._pairs]]
        product = tape.times(adjoint_pairs, q[self._pairs])
        product[adjoint_pairs == 0.0] = 0.0  # a row with multiplier 0 does not count, even where it is not defined
        return product

    def product(self, gradients: Any, d: Vector, v: Vector) -> Vector:
        """H v."""
        along, times = gradients @ v, self.tape.times
        back = np.bincount(self._left, times(d, along[self._right]), along.size)
        crossed = np.where(self._mixed, times(d, along[self._left]), 0.0)
        both: Vector = np.asarray(back + np.bincount(self._right, crossed, along.size), dtype=float)
        entries = times(both[self._row], gradients.data)
        return np.asarray(np.bincount(self.column, entries, self.tape.n), dtype=float)

    # -------------------------------------------------------------------------------------------------------- entries

    def assemble(self, gradients: Any, d: Vector) -> Any:
        """H, a csr_array with both triangles and always the same pattern."""
        plan = self._plan
        data = np.zeros(plan.key.size)
        for pair, left, right, where in plan.kept if plan.kept is not None else self._triples(plan.key):
            terms = self.tape.times(d[pair], gradients.data[left] * gradients.data[right])
            data += np.bincount(where, terms, data.size)
        return plan.pattern.matrix(data)

    @property
    def pattern(self) -> FixedPattern:
        """Where H has entries."""
        return self._plan.pattern

    @functools.cached_property
    def _plan(self) -> _Plan:
        n, total = self.tape.n, self.products
        if total > LARGEST:
            raise InputError(f"a Hessian must need at most {LARGEST} products to be assembled, got {total}: use hessp")
        key: Indices = np.zeros(0, dtype=np.intp)
        for _, left, right, _ in self._triples(key):
            key = np.union1d(key, self._row_of(left, right))
        indptr = np.searchsorted(key, n * np.arange(n + 1)).astype(np.int32)
        pattern = FixedPattern((key % n).astype(np.int32), indptr, (n, n))
        return _Plan(key, pattern, list(self._triples(key)) if total <= KEPT else None)

    def _lengths(self, rows: Indices) -> Indices:
        return np.asarray(self.start[rows + 1] - self.start[rows])

    def _row_of(self, left: Indices, right: Indices) -> Indices:
        return np.asarray(self.column[left] * self.tape.n + self.column[right])

    def _triples(self, key: Indices) -> Iterator[Triple]:
        """(pair, entry of the left gradient, entry of the right one, place in `key`), in chunks."""
        flipped = np.flatnonzero(self._mixed)
        pair = np.concatenate([np.arange(self._left.size), flipped])
        left = np.concatenate([self._left, self._right[flipped]])
        right = np.concatenate([self._right, self._left[flipped]])
        width, sizes = self._lengths(right), self._lengths(left) * self._lengths(right)
        ends = np.cumsum(sizes)
        first = 0
        while first < pair.size:
            base = ends[first - 1] if first else 0
            stop = max(int(np.searchsorted(ends, base + KEPT, side="right")), first + 1)
            part = slice(first, stop)
            k = np.repeat(np.arange(first, stop), sizes[part])
            offset = np.arange(k.size) - np.repeat(ends[part] - sizes[part] - base, sizes[part])
            i, j = self.start[left[k]] + offset // width[k], self.start[right[k]] + offset % width[k]
            yield pair[k], i, j, np.searchsorted(key, self._row_of(i, j))
            first = stop


def _constant(tape: Tape) -> Any:
    """Nodes on which no variable has an influence that derivatives see."""
    depends = np.zeros(tape.size, dtype=bool)
    depends[: tape.n] = True
    for group in tape.groups:
        for edges in group.edges:
            depends[tape.edge_node[edges][depends[tape.edge_argument[edges]]]] = True
    return ~depends


def _adjoint_steps(tape: Tape) -> list[tuple[Indices, Indices, Indices]]:
    """Edges to operator nodes, group by group from the roots down."""
    steps = []
    for group in reversed(tape.groups):
        if group.edges:
            edges = np.arange(group.edges[0].start, group.edges[-1].stop, dtype=np.intp)
            edges = edges[tape.edge_argument[edges] >= tape.first]
            if edges.size:
                steps.append((edges, tape.edge_node[edges], tape.edge_argument[edges]))
    return steps
