"""From prefix notation to a graph: constants folded, sums flattened, each defined variable one node.

A value is a number, or a `Form`: a linear combination of nodes. Nodes below n are the variables; the others are made
here, arguments before what uses them. Nothing recurses, so that depth does not matter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np

from auglag.problems.nl.operators import CODES, OPERATORS, UNSUPPORTED
from auglag.problems.nl.source import Source

#: A form with more terms than this becomes a node when it is to be scaled, so that no chain costs its square.
SMALL = 8


@final
@dataclass(slots=True)
class Form:
    """sum of coefficient * node + constant. The lists belong to the form and may be taken over."""

    nodes: list[int]
    coefficients: list[float]
    constant: float = 0.0


Value: TypeAlias = float | Form


@final
@dataclass(slots=True)
class Graph:
    """Nodes from n on: an operator with arguments and a parameter, "constant", or "linear" with a form."""

    n: int
    operators: list[str] = field(default_factory=list)
    arguments: list[tuple[int, ...]] = field(default_factory=list)
    parameters: list[float] = field(default_factory=list)
    forms: dict[int, Form] = field(default_factory=dict)
    constants: dict[float, int] = field(default_factory=dict)

    def add(self, operator: str, arguments: tuple[int, ...] = (), parameter: float = 0.0) -> int:
        """A new node."""
        self.operators.append(operator)
        self.arguments.append(arguments)
        self.parameters.append(parameter)
        return self.n + len(self.operators) - 1

    def linear(self, form: Form) -> int:
        """A node for a form."""
        node = self.add("linear", tuple(form.nodes), form.constant)
        self.forms[node] = form
        return node

    def constant(self, value: float) -> int:
        """The node of a constant."""
        if value not in self.constants:
            self.constants[value] = self.add("constant", (), value)
        return self.constants[value]

    def node(self, value: Value) -> int:
        """A node with this value."""
        if not isinstance(value, Form):
            return self.constant(value)
        if not value.nodes:
            return self.constant(value.constant)
        if len(value.nodes) == 1 and value.coefficients[0] == 1.0 and value.constant == 0.0:
            return value.nodes[0]
        return self.linear(value)


@final
class Builder:
    """Reads expressions into a graph."""

    def __init__(self, n: int, common: int) -> None:
        self.graph = Graph(n)
        self._common = common
        self.defined: dict[int, Value] = {}  #: index -> value of a defined variable, a number or a form of one node

    def read(self, source: Source) -> Value:
        """The expression that comes next in the file."""
        waiting: list[tuple[str, int, list[Value]]] = []
        while True:
            letter, number = source.token()
            if letter == "o":
                name, needed = self._operator(source, int(number))
                waiting.append((name, needed, []))
                continue
            value = self._leaf(source, letter, number)
            while True:
                if not waiting:
                    return value
                name, needed, collected = waiting[-1]
                collected.append(value)
                if len(collected) < needed:
                    break
                waiting.pop()
                value = self._apply(source, name, collected)

    def define(self, index: int, value: Value) -> None:
        """A defined variable; whatever uses it shares its node."""
        self.defined[index] = value if not isinstance(value, Form) else _of(self.graph.node(value))

    def _operator(self, source: Source, code: int) -> tuple[str, int]:
        if code in UNSUPPORTED:
            source.fail(f"operator o{code} ({UNSUPPORTED[code]}) is not supported")
        if code not in CODES:
            source.fail("an operator must be one of AMPL's, o0 to o82", f"o{code}")
        needed, name = CODES[code]
        if needed:
            return name, needed
        count = source.integer("the number of arguments")
        if not 1 <= count <= source.size:
            source.fail("the number of arguments must be at least 1 and within the file", count)
        return name, 2 * count if name == "piecewise" else count

    def _leaf(self, source: Source, letter: str, number: float) -> Value:
        if letter == "n":
            return number
        if letter == "f":
            source.fail("imported functions are not supported", f"f{int(number)}")
        index, n = int(number), self.graph.n
        if 0 <= index < n:
            return _of(index)
        source.index(index, n + self._common, "a variable")
        if index not in self.defined:
            source.fail("a defined variable must be defined before it is used", f"v{index}")
        value = self.defined[index]
        return _of(value.nodes[0]) if isinstance(value, Form) and value.nodes else value

    # ------------------------------------------------------------------------------------------------------ operators

    def _apply(self, source: Source, name: str, values: list[Value]) -> Value:
        rule = _RULES.get(name)
        if rule is not None:
            if name == "piecewise":
                _check_piecewise(source, values)
            if name in ("round_to", "trunc_to") and isinstance(values[1], Form):
                source.fail("the number of digits to round to must be a constant")
            return rule(self, *values)
        if name == "multiply":
            return self.times(values[0], values[1])
        return self.function(name, values)

    def function(self, name: str, values: list[Value], parameter: float = 0.0) -> Value:
        """An elementary function, or its value if all arguments are constants."""
        operator = OPERATORS[name]
        if not any(isinstance(value, Form) and value.nodes for value in values):
            arrays = [np.array([_number(value)]) for value in values]
            with np.errstate(all="ignore"):
                return float(operator.value(np.array([parameter]), *arrays)[0])
        return _of(self.graph.add(name, tuple(self.graph.node(value) for value in values), parameter))

    def plus(self, a: Value, b: Value) -> Value:
        """a + b, in the longer of the two lists."""
        if not isinstance(a, Form):
            a, b = b, a
        if not isinstance(a, Form):
            assert not isinstance(b, Form)
            return a + b
        if not isinstance(b, Form):
            a.constant += b
            return a
        if len(a.nodes) < len(b.nodes):
            a, b = b, a
        a.nodes += b.nodes
        a.coefficients += b.coefficients
        a.constant += b.constant
        return a

    def scaled(self, value: Value, factor: float) -> Value:
        """factor * value."""
        if not isinstance(value, Form):
            return value * factor
        if not math.isfinite(factor) or len(value.nodes) > SMALL:
            node = self.graph.node(value)
            return Form([node], [factor])
        return Form(value.nodes, [factor * c for c in value.coefficients], factor * value.constant)

    def times(self, a: Value, b: Value) -> Value:
        """a * b, with constant factors in front."""
        if not isinstance(a, Form):
            return self.scaled(b, a)
        if not isinstance(b, Form):
            return self.scaled(a, b)
        (factor, i), (other, j) = self._split(a), self._split(b)
        if i == j:
            return Form([self.graph.add("square", (i,))], [factor * other])
        return Form([self.graph.add("times", (i, j))], [factor * other])

    def _split(self, form: Form) -> tuple[float, int]:
        """(c, node) with form = c * node."""
        if len(form.nodes) == 1 and form.constant == 0.0 and math.isfinite(form.coefficients[0]):
            return form.coefficients[0], form.nodes[0]
        return 1.0, self.graph.node(form)

    def divide(self, a: Value, b: Value) -> Value:
        """a / b."""
        if not isinstance(b, Form):
            return self.scaled(a, 1.0 / b) if b != 0.0 else self.function("divide", [a, b])
        if not isinstance(a, Form):
            return self.scaled(self.function("reciprocal", [b]), a)
        return self.function("divide", [a, b])

    def power(self, a: Value, b: Value) -> Value:
        """a ^ b, with the functions that a constant on one side makes of it."""
        if isinstance(a, Form) and not isinstance(b, Form):
            named = {2.0: "square", -1.0: "reciprocal", 0.5: "sqrt"}
            if b == 0.0:
                return 1.0
            if b == 1.0:
                return a
            return self.function(named[b], [a]) if b in named else self.function("power", [a], b)
        if isinstance(b, Form) and not isinstance(a, Form) and 0.0 < a < math.inf:
            return self.function("exp", [self.scaled(b, math.log(a))])
        return self.function("pow", [a, b])

    def balanced(self, name: str, values: list[Value]) -> Value:
        """An operator of two arguments over a list, as a tree of little depth."""
        while len(values) > 1:
            pairs = [self.function(name, values[k : k + 2]) for k in range(0, len(values) - 1, 2)]
            values = pairs + values[len(values) - len(values) % 2 :]
        return values[0]

    def total(self, values: list[Value]) -> Value:
        """The sum of a list."""
        result: Value = 0.0
        for value in values:
            result = self.plus(result, value)
        return result

    def piecewise(self, values: list[Value]) -> Value:
        """slope_1, breakpoint_1, slope_2, ..., variable: continuous, and 0 at 0."""
        numbers, argument = [_number(value) for value in values[:-1]], self.graph.node(values[-1])
        slopes, breaks = numbers[0::2], numbers[1::2]
        kinks: list[Value] = [Form([argument], [slopes[0]])]
        for (left, right), at in zip(itertools.pairwise(slopes), breaks, strict=True):
            beyond = self.function("max", [Form([argument], [1.0], -at), 0.0])
            kinks.append(self.plus(self.scaled(beyond, right - left), -(right - left) * max(-at, 0.0)))
        return self.total(kinks)

    def rounded(self, name: str, value: Value, digits: Value) -> Value:
        """round or trunc to a constant number of digits."""
        factor = 10.0 ** min(max(_number(digits), -300.0), 300.0)
        return self.scaled(self.function(name, [self.scaled(value, factor)]), 1.0 / factor)

    def implies(self, a: Value, b: Value, c: Value) -> Value:
        """a ==> b else c."""
        return self.function("if", [a, self._truth(b), self._truth(c)])

    def _truth(self, value: Value) -> Value:
        return self.function("!=", [value, 0.0])


#: Rules for operators that are not elementary functions.
_RULES: dict[str, Callable[..., Value]] = {
    "plus": lambda build, a, b: build.plus(a, b),
    "minus": lambda build, a, b: build.plus(a, build.scaled(b, -1.0)),
    "negate": lambda build, a: build.scaled(a, -1.0),
    "sum": lambda build, *values: build.total(list(values)),
    "divide": lambda build, a, b: build.divide(a, b),
    "raise": lambda build, a, b: build.power(a, b),
    "less": lambda build, a, b: build.function("max", [build.plus(a, build.scaled(b, -1.0)), 0.0]),
    "minimum": lambda build, *values: build.balanced("min", list(values)),
    "maximum": lambda build, *values: build.balanced("max", list(values)),
    "all": lambda build, *values: build.balanced("and", list(values)),
    "any": lambda build, *values: build.balanced("or", list(values)),
    "count": lambda build, *values: build.total([build._truth(value) for value in values]),
    "piecewise": lambda build, *values: build.piecewise(list(values)),
    "round_to": lambda build, a, digits: build.rounded("round", a, digits),
    "trunc_to": lambda build, a, digits: build.rounded("trunc", a, digits),
    "implies": lambda build, a, b, c: build.implies(a, b, c),
}


def _of(node: int) -> Form:
    return Form([node], [1.0])


def _number(value: Value) -> float:
    if isinstance(value, Form):
        return value.constant if not value.nodes else math.nan
    return value


def _check_piecewise(source: Source, values: list[Value]) -> None:
    *numbers, argument = values
    if any(isinstance(value, Form) or not math.isfinite(value) for value in numbers):
        source.fail("slopes and breakpoints of a piecewise-linear term (o64) must be finite numbers")
    breaks = [_number(value) for value in numbers[1::2]]
    if any(not left < right for left, right in itertools.pairwise(breaks)):
        source.fail("breakpoints of a piecewise-linear term (o64) must increase", breaks)
    if not (isinstance(argument, Form) and argument.nodes):
        source.fail("a piecewise-linear term (o64) must end with a variable", argument)
