"""The segments of a `.nl` file, read into one `Model`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.problems.nl.expressions import Builder, Form, Value
from auglag.problems.nl.header import Header, read_header
from auglag.problems.nl.source import NlError, Source

#: AMPL's infinity.
INFINITY = 1e20


@final
@dataclass(slots=True)
class Model:
    """What the file says, not yet compiled. Rows and objectives: a nonlinear part and linear entries."""

    header: Header
    builder: Builder
    x0: Vector
    y0: Vector  #: AMPL's sign, as in the file
    lower: Vector
    upper: Vector
    cl: Vector
    cu: Vector
    rows: list[Value]
    row_entries: list[tuple[list[int], list[float]]]
    objectives: list[Value]
    objective_entries: list[tuple[list[int], list[float]]]
    maximise: list[bool]


def read(path: Path) -> Model:
    """The model in a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NlError(f"a .nl file must be readable, got {str(path)!r} ({error.strerror})") from None
    return parse(data, path.name)


def parse(data: bytes, name: str = "nl") -> Model:
    """The model in the bytes of a file."""
    header, source = read_header(data, name)
    reader = _Reader(header, source)
    reader.run()
    return reader.model


@final
class _Reader:
    """Takes the segments one by one."""

    def __init__(self, header: Header, source: Source) -> None:
        n, m, objectives = header.variables, header.constraints, header.objectives
        self.source, self.header, self.n, self.m = source, header, n, m
        self.model = Model(
            header,
            Builder(n, header.common),
            np.zeros(n),
            np.zeros(m),
            np.full(n, -np.inf),
            np.full(n, np.inf),
            np.full(m, -np.inf),
            np.full(m, np.inf),
            [0.0] * m,
            [([], []) for _ in range(m)],
            [0.0] * objectives,
            [([], []) for _ in range(objectives)],
            [False] * objectives,
        )
        self._seen: set[tuple[str, int]] = set()

    def run(self) -> None:
        """Read to the end of the file."""
        segments: dict[str, Callable[[], None]] = {
            "C": self._constraint,
            "O": self._objective,
            "V": self._defined,
            "J": lambda: self._linear("J", self.m, self.model.row_entries),
            "G": lambda: self._linear("G", self.header.objectives, self.model.objective_entries),
            "x": lambda: self._guess("x", self.model.x0),
            "d": lambda: self._guess("d", self.model.y0),
            "r": lambda: self._sides("r", self.model.cl, self.model.cu),
            "b": lambda: self._sides("b", self.model.lower, self.model.upper),
            "k": self._columns,
            "K": self._columns,
            "S": self._suffix,
            "F": self._function,
            "L": self._logical,
        }
        while letter := self.source.segment():
            if letter not in segments:
                self.source.fail("a segment must be one of C, O, V, J, G, x, d, r, b, k, K, S, F, L", letter)
            segments[letter]()
        missing = [name for name, size in (("b", self.n), ("r", self.m)) if size and (name, 0) not in self._seen]
        if missing:
            self.source.fail(f"segment {missing[0]} (bounds) expected, but the file ends")

    def _once(self, letter: str, index: int = 0) -> None:
        if (letter, index) in self._seen:
            self.source.fail("a segment must occur once", f"{letter}{index}")
        self._seen.add((letter, index))

    def _constraint(self) -> None:
        (index,) = self.source.integers(1, "segment C")
        self._once("C", self.source.index(index, self.m, "a constraint"))
        self.model.rows[index] = self.model.builder.read(self.source)

    def _objective(self) -> None:
        index, sense = self.source.integers(2, "segment O")
        self._once("O", self.source.index(index, self.header.objectives, "an objective"))
        if sense not in (0, 1):
            self.source.fail("the sense of an objective must be 0 (minimise) or 1 (maximise)", sense)
        self.model.maximise[index] = sense == 1
        self.model.objectives[index] = self.model.builder.read(self.source)

    def _defined(self) -> None:
        index, count, _ = self.source.integers(3, "segment V")
        if not self.n <= index < self.n + self.header.common:
            self.source.fail(
                f"a defined variable must have an index from {self.n} to {self.n + self.header.common - 1}", index
            )
        self._once("V", index)
        entries = self._entries(count, "V")
        value = self.model.builder.read(self.source)
        if entries[0]:
            value = self.model.builder.plus(value, Form(*entries))
        self.model.builder.define(index, value)

    def _entries(self, count: int, letter: str) -> tuple[list[int], list[float]]:
        source, n = self.source, self.n
        if not 0 <= count <= n:
            source.fail(f"segment {letter} must have between 0 and {n} entries", count)
        columns, values, what = [], [], f"an entry of segment {letter}"
        for _ in range(count):
            column, value = source.entry(what)
            columns.append(source.index(column, n, "a variable"))
            values.append(source.number(value, "a coefficient"))
        return columns, values

    def _linear(self, letter: str, size: int, into: list[tuple[list[int], list[float]]]) -> None:
        index, count = self.source.integers(2, f"segment {letter}")
        self._once(letter, self.source.index(index, size, "a row"))
        into[index] = self._entries(count, letter)

    def _guess(self, letter: str, into: Vector) -> None:
        (count,) = self.source.integers(1, f"segment {letter}")
        self._once(letter)
        if not 0 <= count <= into.size:
            self.source.fail(f"segment {letter} must have between 0 and {into.size} entries", count)
        for _ in range(count):
            index, value = self.source.entry(f"an entry of segment {letter}")
            into[self.source.index(index, into.size, "an index")] = self.source.number(value, "a starting value")

    def _sides(self, letter: str, lower: Vector, upper: Vector) -> None:
        self._once(letter)
        for i in range(lower.size):
            kind, numbers, _ = self.source.bound(f"a line of segment {letter}")
            if kind == 5:
                self.source.fail("complementarity constraints are not supported", f"row {i}")
            low = numbers[0] if kind in (0, 2, 4) else -np.inf
            high = numbers[-1] if kind in (0, 1, 4) else np.inf
            low, high = (-np.inf if low <= -INFINITY else low), (np.inf if high >= INFINITY else high)
            if low == np.inf or high == -np.inf:
                self.source.fail(f"the sides of entry {i} of segment {letter} must be reachable", (low, high))
            lower[i], upper[i] = low, high

    def _columns(self) -> None:
        """Column counts: they say nothing that the segments J do not."""
        (count,) = self.source.integers(1, "segment k")
        self._once("k")
        if not 0 <= count <= self.n:
            self.source.fail(f"segment k must have between 0 and {self.n} entries", count)
        for _ in range(count):
            self.source.integer("a column count")

    def _suffix(self) -> None:
        """Suffixes are for other solvers: they are checked and passed over."""
        kind, count = self.source.integers(2, "segment S")
        name = self.source.text("the name of a suffix")
        if not 0 <= kind <= 7:
            self.source.fail("the kind of a suffix must be from 0 to 7", kind)
        size = (self.n, self.m, self.header.objectives, 1)[kind & 3]
        if not 0 <= count <= size:
            self.source.fail(f"suffix {name!r:.40} must have between 0 and {size} entries", count)
        for _ in range(count):
            index, _value = self.source.entry("an entry of a suffix", whole=not kind & 4)
            self.source.index(index, size, "an index")

    def _function(self) -> None:
        self.source.integers(3, "segment F")
        name = self.source.text("the name of a function")
        self.source.fail("imported functions are not supported", name)

    def _logical(self) -> None:
        self.source.fail("logical constraints (segment L) are not supported")
