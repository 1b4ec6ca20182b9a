"""Sparse gradients of chosen nodes, by one reverse sweep over all of them and the chain rule between them.

The graph is cut at the chosen nodes and at all nodes that are used more than once. Then every other node belongs to one
cut node, and one sweep gives the derivative of each cut node by variables and by other cut nodes. The chain rule, on
patterns that are computed once, makes gradients of these.
"""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.problems.nl.tape import Indices, Tape

#: More entries, or more products in the chain rule, are refused.
LARGEST_FILL = 10_000_000


class FillError(InputError):
    """Defined variables are shared so widely that their gradients would not fit into memory."""


@final
class SparseGradients:
    """Gradients of `targets` (nodes that nothing else uses come last, in the order given) as one sparse matrix.

    `start` and `column` are its pattern in csr form; `rows(p)` its entries, for the partial derivatives p.
    """

    def __init__(self, tape: Tape, inner: Indices, last: Indices) -> None:
        self.tape = tape
        cut = np.zeros(tape.size, dtype=bool)
        uses = np.bincount(tape.edge_argument, minlength=tape.size)
        cut[tape.first :] = uses[tape.first :] > 1
        cut[inner] = True
        cut[last] = False
        wanted = _below(tape, np.concatenate([inner, last]))
        cut &= wanted
        self.nodes: Indices = np.concatenate([np.flatnonzero(cut), last])
        cut[last] = True
        self.number = np.full(tape.size, -1, dtype=np.intp)  #: node -> row
        self.number[self.nodes] = np.arange(self.nodes.size)
        self._plan_sweep(cut)
        self._plan_chain()

    # -------------------------------------------------------------------------------------------------------- planning

    def _plan_sweep(self, cut: NDArray[np.bool_]) -> None:
        tape = self.tape
        owner = np.where(cut, self.number, -1)
        inside = (tape.edge_argument >= tape.first) & ~cut[tape.edge_argument]
        self._steps: list[tuple[Indices, Indices, Indices]] = []
        for group in reversed(tape.groups):
            if not group.edges:
                continue
            edges = np.arange(group.edges[0].start, group.edges[-1].stop, dtype=np.intp)
            edges = edges[inside[edges] & (owner[tape.edge_node[edges]] >= 0)]
            if edges.size:
                nodes, arguments = tape.edge_node[edges], tape.edge_argument[edges]
                owner[arguments] = owner[nodes]
                self._steps.append((edges, nodes, arguments))
        leaf = ~inside & ((tape.edge_argument < tape.n) | (tape.edge_argument >= tape.first))
        leaf &= owner[tape.edge_node] >= 0
        self._to_variable = np.flatnonzero(leaf & (tape.edge_argument < tape.n))
        self._to_cut = np.flatnonzero(leaf & (tape.edge_argument >= tape.first))
        self._owner = owner

    def _plan_chain(self) -> None:
        """Patterns and products, one depth of cut nodes after the other."""
        tape, n = self.tape, self.tape.n
        source = self._owner[tape.edge_node[self._to_cut]]
        target = self.number[tape.edge_argument[self._to_cut]]
        depth = _depths(source, target, self.nodes.size)
        row, column = self._owner[tape.edge_node[self._to_variable]], tape.edge_argument[self._to_variable]
        by_depth = _Levels(depth[source]), _Levels(depth[row]), _Levels(depth)
        columns: list[Indices] = [np.zeros(0, dtype=np.intp)] * self.nodes.size
        lengths = np.zeros(self.nodes.size, dtype=np.intp)
        products: list[tuple[Indices, Indices, Indices]] = []  # (edge, entry in the row of its argument, key)
        total = 0
        for level in range(int(depth.max(initial=-1)) + 1):
            edges, direct, rows = (levels.at(level) for levels in by_depth)
            total = _within_limit(total + int(lengths[target[edges]].sum()))
            edge, entry = _ragged(edges, lengths[target[edges]])
            chained = np.concatenate([np.zeros(0, dtype=np.intp), *[columns[target[e]] for e in edges]])
            keys = source[edge] * n + chained
            unique = np.unique(np.concatenate([row[direct] * n + column[direct], keys]))
            ends = np.searchsorted(unique, np.concatenate([rows * n, rows * n + n])).reshape(2, -1)
            for r, first, stop in zip(rows, *ends, strict=True):
                columns[r] = unique[first:stop] % n
            lengths[rows] = ends[1] - ends[0]
            products.append((edge, entry, keys))
        self.start = np.concatenate([[0], np.cumsum(lengths)])
        self.column: Indices = np.concatenate([np.zeros(0, dtype=np.intp), *columns])
        every = np.repeat(np.arange(self.nodes.size), lengths) * n + self.column
        self._direct = np.searchsorted(every, row * n + column)
        self._products = [
            (edge, self.start[target[edge]] + entry, np.searchsorted(every, keys))
            for edge, entry, keys in products
            if edge.size
        ]

    # ------------------------------------------------------------------------------------------------------ evaluation

    def rows(self, p: Vector) -> Vector:
        """The entries of the gradients."""
        tape = self.tape
        adjoint = np.zeros(tape.size)
        adjoint[self.nodes] = 1.0
        for edges, nodes, arguments in self._steps:
            adjoint[arguments] = tape.times(adjoint[nodes], p[edges])
        by_variable = tape.times(adjoint[tape.edge_node[self._to_variable]], p[self._to_variable])
        data = np.bincount(self._direct, by_variable, self.column.size).astype(float)
        if self._products:
            by_cut = tape.times(adjoint[tape.edge_node[self._to_cut]], p[self._to_cut])
            for edge, entry, where in self._products:
                np.add.at(data, where, tape.times(by_cut[edge], data[entry]))
        return data


@final
class _Levels:
    """Indices by their depth."""

    def __init__(self, depth: Indices) -> None:
        self._order = np.argsort(depth, kind="stable")
        self._sorted = depth[self._order]

    def at(self, level: int) -> Indices:
        """Those of this depth."""
        first, stop = np.searchsorted(self._sorted, [level, level + 1])
        return self._order[first:stop]


def _within_limit(products: int) -> int:
    if products > LARGEST_FILL:
        raise FillError(
            f"defined variables must not be shared so widely: their gradients would need more than {LARGEST_FILL} "
            "products"
        )
    return products


def _ragged(items: Indices, lengths: Indices) -> tuple[Indices, Indices]:
    """Each item as often as its length says, and a count from 0 within each."""
    which = np.repeat(items, lengths)
    return which, np.arange(which.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _below(tape: Tape, nodes: Indices) -> NDArray[np.bool_]:
    """The nodes that these depend on, themselves included."""
    wanted = np.zeros(tape.size, dtype=bool)
    wanted[nodes] = True
    for group in reversed(tape.groups):
        for edges in group.edges:
            arguments = tape.edge_argument[edges]
            wanted[arguments[wanted[tape.edge_node[edges]]]] = True
    return wanted


def _depths(source: Indices, target: Indices, size: int) -> Indices:
    """The longest chain of cut nodes below each; edges are given by source, and targets have their depth before."""
    depth = np.zeros(size, dtype=np.intp)
    arguments: list[list[int]] = [[] for _ in range(size)]
    for s, t in zip(source.tolist(), target.tolist(), strict=True):
        arguments[s].append(t)
    for row, below in enumerate(arguments):  # rows are numbered with arguments first
        if below:
            depth[row] = 1 + max(depth[t] for t in below)
    return depth
