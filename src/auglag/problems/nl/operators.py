"""The elementary functions of expressions on arrays: values, first and second partial derivatives.

An `Operator` works on a whole group of nodes at once. `first` gives one array for each argument that counts for
derivatives, `second` one for each pair in `pairs`. Where a function is not defined the values are NaN or infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._typing import Vector

Partials = tuple[Vector, ...]


@final
@dataclass(frozen=True, slots=True)
class Operator:
    """One elementary function. `p` is the parameter of each node (an exponent), 0 for most functions."""

    arguments: int
    value: Callable[..., Any]  #: (p, *arguments) -> values
    first: Callable[..., Partials] | None = None  #: (p, v, *arguments) -> partial derivatives; None: all are 0
    second: Callable[..., Partials] | None = None  #: (p, v, *arguments) -> second ones; None: all are 0
    differentiable: tuple[int, ...] = ()  #: which arguments `first` is about
    pairs: tuple[tuple[int, int], ...] = ()  #: which pairs of arguments `second` is about


def _unary(value: Any, first: Any, second: Any = None) -> Operator:
    """A function of one argument from f(a), f'(a, v) and f''(a, v), v the value."""
    return Operator(
        1,
        lambda p, a: value(a),
        lambda p, v, a: (first(a, v),),
        None if second is None else lambda p, v, a: (second(a, v),),
        (0,),
        () if second is None else ((0, 0),),
    )


def _step(value: Any) -> Operator:
    """A function that is constant almost everywhere."""
    return Operator(1, lambda p, a: value(a))


def _truth(arguments: int, test: Any) -> Operator:
    """1.0 where the test holds, else 0.0."""
    return Operator(arguments, lambda p, *args: np.asarray(test(*args), dtype=np.float64))


def _power_first(p: Vector, v: Vector, a: Vector) -> Partials:
    return (p * a ** (p - 1.0),)


def _power_second(p: Vector, v: Vector, a: Vector) -> Partials:
    return (p * (p - 1.0) * a ** (p - 2.0),)


def _log(a: Vector, v: Vector) -> Vector:
    """log(a) where a^b has derivatives by b; 0 at a = 0 if the power is 0 too, so that 0^b is the constant 0."""
    return np.log(np.where((a == 0.0) & (v == 0.0), 1.0, a))


def _pow_first(p: Vector, v: Vector, a: Vector, b: Vector) -> Partials:
    return b * a ** (b - 1.0), v * _log(a, v)


def _pow_second(p: Vector, v: Vector, a: Vector, b: Vector) -> Partials:
    log = _log(a, v)
    return b * (b - 1.0) * a ** (b - 2.0), a ** (b - 1.0) * (1.0 + b * log), v * log * log


def _atan2_second(p: Vector, v: Vector, a: Vector, b: Vector) -> Partials:
    square = (a * a + b * b) ** 2
    return -2.0 * a * b / square, (a * a - b * b) / square, 2.0 * a * b / square


_BOTH, _MIXED = (0, 1), ((0, 0), (0, 1), (1, 1))
_LOG10 = float(np.log(10.0))

OPERATORS: dict[str, Operator] = {
    "square": _unary(lambda a: a * a, lambda a, v: 2.0 * a, lambda a, v: np.full_like(a, 2.0)),
    "reciprocal": _unary(lambda a: 1.0 / a, lambda a, v: -v * v, lambda a, v: 2.0 * v**3),
    "abs": _unary(np.abs, lambda a, v: np.sign(a)),
    "sqrt": _unary(np.sqrt, lambda a, v: 0.5 / v, lambda a, v: -0.25 / (a * v)),
    "exp": _unary(np.exp, lambda a, v: v, lambda a, v: v),
    "log": _unary(np.log, lambda a, v: 1.0 / a, lambda a, v: -1.0 / (a * a)),
    "log10": _unary(np.log10, lambda a, v: 1.0 / (_LOG10 * a), lambda a, v: -1.0 / (_LOG10 * a * a)),
    "sin": _unary(np.sin, lambda a, v: np.cos(a), lambda a, v: -v),
    "cos": _unary(np.cos, lambda a, v: -np.sin(a), lambda a, v: -v),
    "tan": _unary(np.tan, lambda a, v: 1.0 + v * v, lambda a, v: 2.0 * v * (1.0 + v * v)),
    "asin": _unary(np.arcsin, lambda a, v: (1.0 - a * a) ** -0.5, lambda a, v: a * (1.0 - a * a) ** -1.5),
    "acos": _unary(np.arccos, lambda a, v: -((1.0 - a * a) ** -0.5), lambda a, v: -a * (1.0 - a * a) ** -1.5),
    "atan": _unary(np.arctan, lambda a, v: 1.0 / (1.0 + a * a), lambda a, v: -2.0 * a / (1.0 + a * a) ** 2),
    "sinh": _unary(np.sinh, lambda a, v: np.cosh(a), lambda a, v: v),
    "cosh": _unary(np.cosh, lambda a, v: np.sinh(a), lambda a, v: v),
    "tanh": _unary(np.tanh, lambda a, v: 1.0 - v * v, lambda a, v: -2.0 * v * (1.0 - v * v)),
    "asinh": _unary(np.arcsinh, lambda a, v: (1.0 + a * a) ** -0.5, lambda a, v: -a * (1.0 + a * a) ** -1.5),
    "acosh": _unary(np.arccosh, lambda a, v: (a * a - 1.0) ** -0.5, lambda a, v: -a * (a * a - 1.0) ** -1.5),
    "atanh": _unary(np.arctanh, lambda a, v: 1.0 / (1.0 - a * a), lambda a, v: 2.0 * a / (1.0 - a * a) ** 2),
    "floor": _step(np.floor),
    "ceil": _step(np.ceil),
    "trunc": _step(np.trunc),
    "round": _step(np.round),
    "power": Operator(1, lambda p, a: a**p, _power_first, _power_second, (0,), ((0, 0),)),
    "times": Operator(
        2, lambda p, a, b: a * b, lambda p, v, a, b: (b, a), lambda p, v, a, b: (np.ones_like(a),), _BOTH, ((0, 1),)
    ),
    "divide": Operator(
        2,
        lambda p, a, b: a / b,
        lambda p, v, a, b: (1.0 / b, -v / b),
        lambda p, v, a, b: (-1.0 / (b * b), 2.0 * v / (b * b)),
        _BOTH,
        ((0, 1), (1, 1)),
    ),
    "pow": Operator(2, lambda p, a, b: a**b, _pow_first, _pow_second, _BOTH, _MIXED),
    "atan2": Operator(
        2,
        lambda p, a, b: np.arctan2(a, b),
        lambda p, v, a, b: (b / (a * a + b * b), -a / (a * a + b * b)),
        _atan2_second,
        _BOTH,
        _MIXED,
    ),
    "mod": Operator(
        2, lambda p, a, b: np.fmod(a, b), lambda p, v, a, b: (np.ones_like(a), -np.trunc(a / b)), None, _BOTH
    ),
    "div": Operator(2, lambda p, a, b: np.trunc(a / b)),
    # At a tie the first argument counts; NaN in either makes NaN.
    "min": Operator(
        2, lambda p, a, b: np.minimum(a, b), lambda p, v, a, b: (1.0 * (a <= b), 1.0 * (a > b)), None, _BOTH
    ),
    "max": Operator(
        2, lambda p, a, b: np.maximum(a, b), lambda p, v, a, b: (1.0 * (a >= b), 1.0 * (a < b)), None, _BOTH
    ),
    "if": Operator(
        3,
        lambda p, c, a, b: np.where(c != 0.0, a, b),
        lambda p, v, c, a, b: (1.0 * (c != 0.0), 1.0 * (c == 0.0)),
        None,
        (1, 2),
    ),
    "or": _truth(2, lambda a, b: (a != 0.0) | (b != 0.0)),
    "and": _truth(2, lambda a, b: (a != 0.0) & (b != 0.0)),
    "iff": _truth(2, lambda a, b: (a != 0.0) == (b != 0.0)),
    "not": _truth(1, lambda a: a == 0.0),
    "<": _truth(2, lambda a, b: a < b),
    "<=": _truth(2, lambda a, b: a <= b),
    "==": _truth(2, lambda a, b: a == b),
    ">=": _truth(2, lambda a, b: a >= b),
    ">": _truth(2, lambda a, b: a > b),
    "!=": _truth(2, lambda a, b: a != b),
}

#: Operators one of whose branches may be undefined without harm.
BRANCHES = frozenset({"if", "min", "max"})

#: Numbers in `.nl` files -> (number of arguments, our name or a rule of `Builder`); a count of 0 is read from the file.
CODES: dict[int, tuple[int, str]] = {
    **{0: (2, "plus"), 1: (2, "minus"), 2: (2, "multiply"), 3: (2, "divide"), 4: (2, "mod"), 5: (2, "raise")},
    **{6: (2, "less"), 11: (0, "minimum"), 12: (0, "maximum"), 13: (1, "floor"), 14: (1, "ceil"), 15: (1, "abs")},
    **{16: (1, "negate"), 20: (2, "or"), 21: (2, "and"), 22: (2, "<"), 23: (2, "<="), 24: (2, "=="), 28: (2, ">=")},
    **{29: (2, ">"), 30: (2, "!="), 34: (1, "not"), 35: (3, "if"), 37: (1, "tanh"), 38: (1, "tan"), 39: (1, "sqrt")},
    **{40: (1, "sinh"), 41: (1, "sin"), 42: (1, "log10"), 43: (1, "log"), 44: (1, "exp"), 45: (1, "cosh")},
    **{46: (1, "cos"), 47: (1, "atanh"), 48: (2, "atan2"), 49: (1, "atan"), 50: (1, "asinh"), 51: (1, "asin")},
    **{52: (1, "acosh"), 53: (1, "acos"), 54: (0, "sum"), 55: (2, "div"), 57: (2, "round_to"), 58: (2, "trunc_to")},
    **{59: (0, "count"), 64: (0, "piecewise"), 70: (0, "all"), 71: (0, "any"), 72: (3, "implies"), 73: (2, "iff")},
    **{76: (2, "raise"), 77: (1, "square"), 78: (2, "raise")},
}
#: Operators that are known but not supported, with their names.
UNSUPPORTED = {
    **{56: "precision", 60: "numberof", 61: "numberof (symbolic)", 62: "atleast", 63: "atmost", 65: "if (symbolic)"},
    **{66: "exactly", 67: "not atleast", 68: "not atmost", 69: "not exactly", 74: "alldiff", 75: "not alldiff"},
    **{79: "an imported function", 80: "a number", 81: "a string", 82: "a variable"},
}
