"""The terms of a model by NumPy: operation after operation, each on a column of elements that stays in the cache."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.model.expressions import OPERATIONS, TESTS, Node, expressions
from auglag.model.handles import Indices
from auglag.model.sums import Sums
from auglag.model.terms import Term, partials, seconds

#: Elements of a column that are computed at once: with a few dozen columns they fit into a cache of a megabyte. By
#: trial: 1,024 to 8,192 are equally fast on 2,869 buses.
BLOCK = 4096

Call = tuple[Callable[..., Any], tuple[Any, ...]]


@final
class Columns:
    """Values and derivatives of all terms on the host; raises `Unknown` where an operation is left to XLA.

    The order of contributions is that of `Structure`. Every thread has arrays of its own.
    """

    def __init__(self, terms: Sequence[Term], n: int, m: int, numbers: int, twice: NDArray[np.int32]) -> None:
        self.terms, self.n, self.m, self.numbers, self.twice = terms, n, m, numbers, twice
        self._slopes = [_Traced(term, partials(term), (term.outputs,)) for term in terms]
        self._curved = [term for term in terms if not term.linear]
        self._seconds = [_Traced(term, seconds(term), (term.outputs,), weighted=True) for term in self._curved]
        rows = [term.rows.ravel() for term in terms if term.rows is not None]
        self._rows = Sums(np.concatenate([np.zeros(0, np.intp), *rows]), m)
        columns = [term.index[np.flatnonzero(term.jac[0])].ravel() for term in terms if term.rows is None]
        self._gradient = Sums(np.concatenate([np.zeros(0, np.intp), *columns]), n)
        self._own = threading.local()

    def values(self, par: Vector, x: Vector) -> tuple[float, Vector]:
        """f and c."""
        (values, rows), run = self._of("values", self._for_values)
        run(par, x)
        return float(np.sum(values)), self._rows(rows)

    def first(self, par: Vector, x: Vector) -> tuple[float, Vector, Vector, Vector]:
        """f, its gradient, c and the contributions to the Jacobian, which the next call overwrites."""
        (values, rows, slopes, entries), run = self._of("first", self._for_first)
        run(par, x)
        return float(np.sum(values)), self._gradient(slopes), self._rows(rows), entries

    def second(self, par: Vector, x: Vector, y: Vector) -> Vector:
        """Contributions to the lower triangle of the Hessian of f + y'c, which the next call overwrites."""
        entries: Vector
        (entries,), run = self._of("second", self._for_second)
        run(par, x, y)
        if self.twice.size:
            entries = entries.copy()  # what is constant was written once and for all
            entries[self.twice] *= 2.0
        return entries

    def _of(self, name: str, make: Callable[[], Any]) -> Any:
        found = getattr(self._own, name, None)
        if found is None:
            found = make()
            setattr(self._own, name, found)
        return found

    def _for_values(self) -> Any:
        return self._made(self._slopes, lambda term: (term.outputs, 0))

    def _for_first(self) -> Any:
        (values, rows), (slopes, entries), run = self._split(self._slopes, lambda t: (t.outputs, int(t.jac.sum())))
        return (values, rows, slopes, entries), run

    def _for_second(self) -> Any:
        sizes = [sum(len(partners) for _, partners in term.pairs()) for term in self._curved]
        entries = np.zeros(sum(s * term.size for s, term in zip(sizes, self._curved, strict=True)))
        run, first = _Run(self.n, self.numbers, self.m), 0
        for traced, size in zip(self._seconds, sizes, strict=True):
            last = first + size * traced.term.size
            run.add(traced, (entries[first:last].reshape(size, traced.term.size),), (0,))
            first = last
        return (entries,), run

    def _made(self, traced: Sequence[_Traced], sizes: Any) -> Any:
        values, _, run = self._split(traced, sizes)
        return values, run

    def _split(self, traced: Sequence[_Traced], sizes: Callable[[Term], tuple[int, int]]) -> Any:
        """Arrays for values and slopes, each of the objective and of rows, and what computes them."""
        totals = np.zeros((2, 2), dtype=int)
        for term in self.terms:
            totals[:, int(term.rows is not None)] += np.multiply(sizes(term), term.size)
        arrays = [[np.zeros(size) for size in pair] for pair in totals]
        run, ends = _Run(self.n, self.numbers, self.m), np.zeros((2, 2), dtype=int)
        for one in traced:
            kind, outs = int(one.term.rows is not None), []
            for k, size in enumerate(sizes(one.term)):
                first, last = ends[k, kind], ends[k, kind] + size * one.term.size
                outs.append(arrays[k][kind][first:last].reshape(size, one.term.size))
                ends[k, kind] = last
            wanted = (0, 1) if outs[1].size else (0,)
            run.add(one, tuple(outs[k] for k in wanted), wanted)
        return *arrays, run


@final
class _Traced:
    """A function of a term and its derivatives as operations on x, p and, if `weighted`, one weight per output."""

    def __init__(self, term: Term, fn: Any, weights: tuple[int, ...], *, weighted: bool = False) -> None:
        self.term, k, q = term, len(term.index), len(term.constants)
        known = {k + j: float(c) for j, c in enumerate(term.constants) if c is not None and c.ndim == 0}
        if weighted and term.rows is None:
            known[k + q] = 1.0

        def called(*numbers: Any) -> Any:
            given = (numbers[:k], numbers[k : k + q], *numbers[k + q :])
            return fn(*given)

        shapes = [()] * (k + q) + [weights] * weighted
        self.made, outputs = expressions(called, shapes, known)
        self.outputs = [np.ravel(part) for part in outputs]

    def needed(self, wanted: Sequence[int]) -> list[int]:
        """The nodes that outputs depend on, each after its arguments."""
        nodes, open_ = self.made.nodes, [int(v) for k in wanted for v in self.outputs[k]]
        found: set[int] = set()
        while open_:
            node = open_.pop()
            if node not in found:
                found.add(node)
                open_.extend(nodes[node].args)
        return sorted(found)


@final
class _Run:
    """A list of calls on arrays that stay where they are: x, p and y are copied to them first."""

    def __init__(self, n: int, numbers: int, m: int) -> None:
        self.x, self.par, self.y = np.zeros(n), np.zeros(numbers), np.zeros(m)
        self.calls: list[Call] = []
        self._scratch: dict[tuple[Any, int], Any] = {}

    def __call__(self, par: Vector, x: Vector, y: Vector | None = None) -> None:
        self.x[:], self.par[:] = x, par
        if y is not None:
            self.y[:] = y
        with np.errstate(all="ignore"):
            for function, args in self.calls:
                function(*args)

    def add(self, traced: _Traced, outs: Sequence[Vector], wanted: Sequence[int]) -> None:
        """The calls for some outputs of a term, whose values go to `outs`."""
        needed, size = traced.needed(wanted), traced.term.size
        targets: dict[int, list[Vector]] = {}
        for k, out in zip(wanted, outs, strict=True):
            for node, row in zip(traced.outputs[k], out, strict=True):
                targets.setdefault(int(node), []).append(row)
        for first in range(0, size, BLOCK):
            self._block(traced, needed, targets, slice(first, min(size, first + BLOCK)))

    def _block(self, traced: _Traced, needed: list[int], targets: dict[int, list[Vector]], part: slice) -> None:
        made, nodes = traced.made, traced.made.nodes
        last = {a: node for node in needed for a in nodes[node].args}
        arrays: dict[int, Any] = {}
        free: dict[Any, list[int]] = {bool: [], float: []}
        held: dict[int, tuple[Any, int]] = {}
        size, used = part.stop - part.start, {bool: 0, float: 0}
        for node in needed:
            name, args, _ = nodes[node]
            own = [row[part] for row in targets.get(node, [])]
            known = self._given(traced, nodes[node], part)
            if known is not None and not isinstance(known, tuple):
                arrays[node] = known
            else:
                if own:
                    arrays[node] = own.pop()
                else:
                    kind = bool if made.is_test(node) else float
                    if not free[kind]:
                        free[kind].append(used[kind])
                        used[kind] += 1
                    held[node] = kind, free[kind].pop()
                    arrays[node] = self._column(held[node])[:size]
                if known is None:
                    function = OPERATIONS.get(name) or TESTS[name]
                    self.calls.append((function, (*(arrays[a] for a in args), arrays[node])))
                else:
                    take, index = known
                    self.calls.append((take, (index, None, arrays[node], "clip")))
            for row in own:
                self._copy(row, arrays[node])
            for a in set(args):
                if last[a] == node and a in held:
                    kind, place = held.pop(a)
                    free[kind].append(place)

    def _copy(self, row: Vector, value: Any) -> None:
        if isinstance(value, float | bool):
            row[:] = value  # once and for all
        else:
            self.calls.append((np.copyto, (row, value)))

    def _column(self, key: tuple[Any, int]) -> Any:
        if key not in self._scratch:
            self._scratch[key] = np.zeros(BLOCK, dtype=key[0])
        return self._scratch[key]

    def _given(self, traced: _Traced, node: Node, part: slice) -> Any:
        """A number, an array that is there, or where to take one from; None if it is computed."""
        if node.name == "constant":
            return node.value
        if node.name != "input":
            return None
        term, k, q = traced.term, len(traced.term.index), len(traced.term.constants)
        place = int(node.value)
        if place < k:
            return _picked(self.x, term.index[place], part)
        if place < k + q:
            constant, places = term.constants[place - k], term.places[place - k]
            if constant is not None:
                return constant[part]
            assert places is not None
            return _picked(self.par, places, part)
        assert term.rows is not None
        return _picked(self.y, term.rows[place - k - q], part)


def _picked(source: Vector, places: Indices, part: slice) -> Any:
    """Entries of a vector: a view where they are evenly spaced, else what takes them."""
    if places.ndim == 0:
        return source[int(places) : int(places) + 1]
    chosen = places[part]
    step = int(chosen[1] - chosen[0]) if chosen.size > 1 else 1
    if step > 0 and (np.diff(chosen) == step).all():
        return source[int(chosen[0]) : int(chosen[-1]) + 1 : step]
    return source.take, np.ascontiguousarray(chosen, dtype=np.intp)
