"""The graph as a tape: nodes sorted by depth and operator, so that one NumPy call evaluates many of them.

Node numbers: variables, constants, then operators; arguments come before what uses them. An edge leads from a node to
one of its arguments and carries the partial derivative; edges to constants, and those on which nothing depends, have
none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.problems.nl.expressions import Form, Graph
from auglag.problems.nl.operators import BRANCHES, OPERATORS, Operator

Indices = NDArray[np.intp]


@final
@dataclass(frozen=True, slots=True)
class Group:
    """Nodes start to stop, which share a depth and an operator; None: linear combinations."""

    start: int
    stop: int
    operator: Operator | None
    arguments: tuple[Indices, ...]  #: for linear nodes: all arguments in one array
    parameter: Vector
    edges: tuple[slice, ...]  #: the edges of each differentiable argument; for linear nodes: one slice
    row: Indices  #: for linear nodes: the node of each argument, from 0
    pairs: tuple[slice, ...]  #: where the second derivatives of each pair of arguments go


@final
class Tape:
    """Values, partial derivatives and second partial derivatives of all nodes."""

    def __init__(self, graph: Graph, roots: list[int]) -> None:
        used = _reachable(graph, roots)
        order, keys = _sorted(graph, used)
        self.n = graph.n
        number = {node: k for k, node in enumerate(order, start=self.n)}
        self.roots: Indices = np.array([number[root] for root in roots], dtype=np.intp)
        self.constants = np.array([graph.parameters[node - self.n] for node in order if not keys[node][0]], dtype=float)
        self.first = self.n + self.constants.size  #: the first operator node
        self.size = self.n + len(order)
        self.branches = any(graph.operators[node - self.n] in BRANCHES for node in order)
        collected = _Collected()
        self.groups: list[Group] = []
        for start, stop in _runs([keys[node] for node in order], self.first - self.n):
            members, first = order[start:stop], self.n + start
            name = keys[members[0]][1]
            if name == "linear":
                self.groups.append(_linear_group(graph, members, number, first, collected))
            else:
                self.groups.append(_function_group(graph, members, number, first, OPERATORS[name], collected))
        self.edge_node, self.edge_argument = _join(collected.nodes), _join(collected.arguments)
        self._fixed_partials = np.zeros(self.edge_node.size)
        for where, weights in collected.fixed:
            self._fixed_partials[where] = weights
        self.pair_node = _join([pair[0] for pair in collected.pairs])
        self.pair_left = _join([pair[1] for pair in collected.pairs])
        self.pair_right = _join([pair[2] for pair in collected.pairs])
        mixed = [np.full(pair[0].size, pair[3]) for pair in collected.pairs]
        self.pair_mixed = np.concatenate([np.zeros(0, dtype=bool), *mixed])

    def values(self, x: Vector) -> Vector:
        """All nodes at x."""
        v = np.empty(self.size)
        v[: self.n] = x
        v[self.n : self.first] = self.constants
        for group in self.groups:
            if group.operator is None:
                terms = self._fixed_partials[group.edges[0]] * v[group.arguments[0]]
                v[group.start : group.stop] = np.bincount(group.row, terms, group.stop - group.start)
                v[group.start : group.stop] += group.parameter
            else:
                v[group.start : group.stop] = group.operator.value(group.parameter, *[v[a] for a in group.arguments])
        return v

    def partials(self, v: Vector) -> Vector:
        """The partial derivative on every edge."""
        p = self._fixed_partials.copy()
        for group in self.groups:
            self._fill(p, v, group, group.operator.first if group.operator else None, group.edges)
        return p

    def second_partials(self, v: Vector) -> Vector:
        """The second partial derivative of every pair."""
        q = np.empty(self.pair_node.size)
        for group in self.groups:
            self._fill(q, v, group, group.operator.second if group.operator else None, group.pairs)
        return q

    def _fill(self, out: Vector, v: Vector, group: Group, derivatives: Any, places: tuple[slice, ...]) -> None:
        """Write the derivatives of a group's operator; None: they do not depend on v."""
        if derivatives is not None:
            found = derivatives(group.parameter, v[group.start : group.stop], *[v[a] for a in group.arguments])
            for where, partial in zip(places, found, strict=True):
                out[where] = partial

    def times(self, weight: Vector, derivative: Vector) -> Vector:
        """weight * derivative, in which a branch that was not taken (weight 0) counts as 0 even where it is NaN."""
        product = weight * derivative
        if self.branches:
            product[weight == 0.0] = 0.0
        return product


def _reachable(graph: Graph, roots: list[int]) -> list[int]:
    """The nodes from n on that the roots need, in order."""
    n = graph.n
    needed = bytearray(len(graph.operators))
    for root in roots:
        needed[root - n] = 1
    for k in range(len(graph.operators) - 1, -1, -1):
        if needed[k]:
            for a in graph.arguments[k]:
                if a >= n:
                    needed[a - n] = 1
    return [n + k for k, flag in enumerate(needed) if flag]


def _sorted(graph: Graph, used: list[int]) -> tuple[list[int], dict[int, tuple[int, str]]]:
    """The nodes by (depth, operator), and these keys; constants have depth 0."""
    n = graph.n
    depth: dict[int, int] = {}
    for node in used:
        arguments = graph.arguments[node - n]
        constant = graph.operators[node - n] == "constant"
        depth[node] = 0 if constant else 1 + max((depth[a] for a in arguments if a >= n), default=0)
    keys = {node: (depth[node], graph.operators[node - n]) for node in used}
    return sorted(used, key=keys.__getitem__), keys


@final
class _Collected:
    """Edges and pairs of the groups so far."""

    def __init__(self) -> None:
        self.nodes: list[Indices] = []
        self.arguments: list[Indices] = []
        self.fixed: list[tuple[slice, Vector]] = []  #: derivatives that do not depend on x
        self.pairs: list[tuple[Indices, Indices, Indices, bool]] = []
        self._edges = self._second = 0

    def edges(self, nodes: Indices, arguments: Indices) -> slice:
        """Take these in, and say where."""
        self.nodes.append(nodes)
        self.arguments.append(arguments)
        self._edges += nodes.size
        return slice(self._edges - nodes.size, self._edges)

    def pair(self, nodes: Indices, left: Indices, right: Indices, mixed: bool) -> slice:
        """Take these in, and say where."""
        self.pairs.append((nodes, left, right, mixed))
        self._second += nodes.size
        return slice(self._second - nodes.size, self._second)


def _runs(keys: list[tuple[int, str]], first: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of each run of equal keys from `first` on."""
    start = first
    while start < len(keys):
        stop = start + 1
        while stop < len(keys) and keys[stop] == keys[start]:
            stop += 1
        yield start, stop
        start = stop


def _linear_group(graph: Graph, members: list[int], number: dict[int, int], first: int, collected: _Collected) -> Group:
    forms: list[Form] = [graph.forms[node] for node in members]
    row = np.repeat(np.arange(len(forms), dtype=np.intp), [len(form.nodes) for form in forms])
    arguments = np.array([number.get(a, a) for form in forms for a in form.nodes], dtype=np.intp)
    edges = collected.edges(first + row, arguments)
    collected.fixed.append((edges, np.array([c for form in forms for c in form.coefficients], dtype=float)))
    constants = np.array([form.constant for form in forms])
    return Group(first, first + len(members), None, (arguments,), constants, (edges,), row, ())


def _function_group(
    graph: Graph, members: list[int], number: dict[int, int], first: int, operator: Operator, collected: _Collected
) -> Group:
    own = np.arange(first, first + len(members), dtype=np.intp)
    parameter = np.array([graph.parameters[node - graph.n] for node in members])
    table = np.array([[number.get(a, a) for a in graph.arguments[node - graph.n]] for node in members], dtype=np.intp)
    arguments = tuple(np.ascontiguousarray(column) for column in table.T)
    edges = tuple(collected.edges(own, arguments[i]) for i in operator.differentiable)
    pairs = tuple(collected.pair(own, arguments[i], arguments[j], i != j) for i, j in operator.pairs)
    return Group(first, first + len(members), operator, arguments, parameter, edges, np.zeros(0, dtype=np.intp), pairs)


def _join(parts: list[Indices]) -> Indices:
    return np.concatenate([np.zeros(0, dtype=np.intp), *parts])
