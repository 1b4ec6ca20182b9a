"""Local functions taken apart: the elementary operations of their jaxprs, number by number, each of them made once.

XLA compiles for seconds and, on the CPU, computes a sine again for every derivative that needs it. What is found here
`columns` evaluates with NumPy: nothing is compiled, and nothing is computed twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import jax
import numpy as np
from numpy.typing import NDArray
from scipy import special

Numbers = NDArray[np.intp]  #: an array of a jaxpr: the number of the node of every entry
Function = Callable[..., Any]


@final
class Unknown(Exception):
    """An operation that is left to XLA."""


class Node(NamedTuple):
    """One number: an operation on others, an input ("input", its position in `value`), or a constant."""

    name: str
    args: tuple[int, ...]
    value: Any = None


def _reciprocal_root(a: Any, out: Any = None) -> Any:
    return np.reciprocal(np.sqrt(a, out), out)


def _polygamma(order: Any, a: Any, out: Any = None) -> Any:
    found = special.polygamma(np.asarray(order, dtype=int), a)
    if out is None:
        return found
    out[...] = found
    return out


def _larger(a: Any, b: Any, out: Any = None) -> Any:
    return np.maximum(a, b, out=out)


def _smaller(a: Any, b: Any, out: Any = None) -> Any:
    return np.minimum(a, b, out=out)


def _chosen(which: Any, no: Any, yes: Any, out: Any = None) -> Any:
    if out is None:
        return yes if which else no
    np.copyto(out, no)
    np.copyto(out, yes, where=which)
    return out


def _converted(a: Any, out: Any = None) -> Any:
    return np.multiply(a, 1.0, out)


#: Operation of JAX -> a function of the arguments and the array for the result.
OPERATIONS: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "pow": np.power,
    "max": _larger,
    "min": _smaller,
    "rem": np.fmod,
    "atan2": np.arctan2,
    "abs": np.absolute,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "rsqrt": _reciprocal_root,
    "logistic": special.expit,
    "erf": special.erf,
    "erfc": special.erfc,
    "erf_inv": special.erfinv,
    "lgamma": special.gammaln,
    "digamma": special.digamma,
    "polygamma": _polygamma,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "select": _chosen,
    "convert": _converted,
}
#: Operations whose results are True or False.
TESTS: dict[str, Function] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "is_finite": np.isfinite,
}
#: Operations that take arrays apart and put them together, and what they do to the numbers of entries.
_MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda q, a: a.reshape(q.outvars[0].aval.shape),
    "squeeze": lambda q, a: a.reshape(q.outvars[0].aval.shape),
    "expand_dims": lambda q, a: a.reshape(q.outvars[0].aval.shape),
    "transpose": lambda q, a: a.transpose(q.params["permutation"]),
    "rev": lambda q, a: np.flip(a, q.params["dimensions"]),
    "copy": lambda q, a: a,
    "copy_p": lambda q, a: a,
    "stop_gradient": lambda q, a: a,
}
_FOLDS = {"reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min"}
#: What operations on numbers are on True and False.
_OF_TESTS = {"max": "or", "min": "and"}
#: Largest power that is written as a chain of products, as XLA does it for every integer.
_LARGEST_CHAIN = 64
#: Most entries of an array inside a function. Here each is an operation of its own; XLA has one loop for all of them.
#: By trial: derivatives of a fit to 100 points take 2 ms (XLA .3, .5 s once to compile), to 4,000 points 106 ms (1).
_LARGEST_ARRAY = 256


@final
class Expressions:
    """Operations on the inputs 0, 1, ...; equal ones are one node."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[Any, int] = {}

    def input(self, position: int) -> int:
        """The node of an input."""
        return self._node("input", (), position)

    def constant(self, value: Any) -> int:
        """The node of a number known now."""
        value = bool(value) if isinstance(value, bool | np.bool_) else float(value)
        return self._node("constant", (), value)

    def is_test(self, node: int) -> bool:
        """Whether a node is True or False."""
        name, args, value = self.nodes[node]
        return name in TESTS or isinstance(value, bool) or (name == "select" and self.is_test(args[1]))

    def _node(self, name: str, args: tuple[int, ...], value: Any = None) -> int:
        key = (name, args, np.float64(value).tobytes() if isinstance(value, float) else value)
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(Node(name, args, value))
        return self._known[key]

    def of(self, name: str, *args: int) -> int:
        """The node of an operation; of its result where that is known without computing, or is one of the arguments."""
        if name in _OF_TESTS and all(map(self.is_test, args)):
            name = _OF_TESTS[name]
        values = [self.nodes[a].value if self.nodes[a].name == "constant" else None for a in args]
        if all(value is not None for value in values):
            with np.errstate(all="ignore"):
                return self.constant((OPERATIONS.get(name) or TESTS[name])(*values))
        first, second = (*values, None, None)[:2]
        if name == "mul" and 1.0 in (first, second):
            return args[1] if first == 1.0 else args[0]
        if name == "mul" and -1.0 in (first, second):
            return self.of("neg", args[1] if first == -1.0 else args[0])
        if name == "add" and 0.0 in (first, second):
            return args[1] if first == 0.0 else args[0]
        if (name == "sub" and second == 0.0) or (name in ("div", "pow") and second == 1.0):
            return args[0]
        if name == "neg" and self.nodes[args[0]].name == "neg":
            return self.nodes[args[0]].args[0]
        if name == "pow" and isinstance(second, float) and second.is_integer() and abs(second) <= _LARGEST_CHAIN:
            return self.power(args[0], int(second))
        return self._node(name, tuple(sorted(args)) if name in ("add", "mul") else args)

    def power(self, base: int, exponent: int) -> int:
        """base^exponent by squaring."""
        if exponent < 0:
            return self.of("div", self.constant(1.0), self.power(base, -exponent))
        if exponent == 0:
            return self.constant(1.0)
        half = self.power(base, exponent // 2)
        whole = self.of("mul", half, half) if exponent > 1 else self.constant(1.0)
        return self.of("mul", whole, base) if exponent % 2 else whole

    def expand(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Numbers]) -> list[Numbers]:
        """The nodes of what a jaxpr returns."""
        _require_few(jaxpr.constvars)
        known: dict[Any, Numbers] = dict(zip(jaxpr.invars, inputs, strict=True))
        known.update({var: self._array(value) for var, value in zip(jaxpr.constvars, consts, strict=True)})

        def read(v: Any) -> Numbers:
            return self._array(v.val) if hasattr(v, "val") else known[v]

        for q in jaxpr.eqns:
            _require_few(q.outvars)
            known.update(zip(q.outvars, self._results(q, [read(v) for v in q.invars]), strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _array(self, value: Any) -> Numbers:
        array = np.asarray(value)
        return np.array([self.constant(v) for v in array.ravel()], dtype=np.intp).reshape(array.shape)

    def _results(self, q: Any, args: list[Numbers]) -> list[Numbers]:
        name, params = q.primitive.name, q.params
        for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
            inner = params.get(key)
            if inner is not None and name not in ("while", "scan", "cond"):
                closed = getattr(inner, "jaxpr", inner)
                if len(closed.invars) == len(args) and len(closed.outvars) == len(q.outvars):
                    return self.expand(closed, getattr(inner, "consts", ()), args)
        if name == "unstack":
            return list(np.moveaxis(args[0], params["axis"], 0))
        if name == "split":
            return np.split(args[0], np.cumsum(params["sizes"])[:-1], axis=params["axis"])
        return [self._result(name, q, args)]

    def _result(self, name: str, q: Any, args: list[Numbers]) -> Numbers:
        params = q.params
        if name in _MOVES:
            moved: Numbers = _MOVES[name](q, args[0])
            return moved
        if name == "stack":
            return np.stack(args, axis=params["axis"])
        if name == "concatenate":
            return np.concatenate(args, axis=params["dimension"])
        if name == "slice":
            steps = params["strides"] or (1,) * args[0].ndim
            return args[0][tuple(map(slice, params["start_indices"], params["limit_indices"], steps))]
        if name == "broadcast_in_dim":
            wide = np.ones(len(params["shape"]), dtype=int)
            wide[list(params["broadcast_dimensions"])] = args[0].shape
            return np.broadcast_to(args[0].reshape(wide), params["shape"])
        if name == "pad":
            return _padded(args[0], int(args[1]), params["padding_config"])
        if name in _FOLDS:
            return self._folded(_FOLDS[name], args[0], params["axes"])
        if name == "dot_general":
            return self._product(args[0], args[1], params["dimension_numbers"])
        return self._entrywise(name, q, args)

    def _entrywise(self, name: str, q: Any, args: list[Numbers]) -> Numbers:
        kind = q.outvars[0].aval.dtype.kind
        if name == "integer_pow":
            return _each(lambda a: self.power(a, q.params["y"]), args)
        if name == "square":
            return _each(lambda a: self.of("mul", a, a), args)
        if name == "clamp":
            return _each(lambda low, a, high: self.of("min", self.of("max", low, a), high), args)
        if name == "select_n" and len(args) == 3 and q.invars[0].aval.dtype == bool:
            return _each(functools.partial(self.of, "select"), args)
        if name == "convert_element_type" and kind == "f":
            return _each(lambda a: self.of("convert", a) if self.is_test(a) else a, args)
        name = "add" if name == "add_any" else name
        if kind not in "fb" or not (name in OPERATIONS or name in TESTS):
            raise Unknown(name)
        return _each(functools.partial(self.of, name), args)

    def _folded(self, name: str, a: Numbers, axes: Sequence[int]) -> Numbers:
        lines = _last(a, axes)
        if not lines.shape[-1]:
            raise Unknown(name)
        return np.apply_along_axis(lambda line: functools.reduce(functools.partial(self.of, name), line), -1, lines)

    def _product(self, a: Numbers, b: Numbers, dimensions: Any) -> Numbers:
        (left, right), (batch, _) = dimensions
        if batch:
            raise Unknown("dot_general")
        a, b = _last(a, left), _last(b, right)
        both = a.reshape(*a.shape[:-1], *(1,) * (b.ndim - 1), a.shape[-1])
        products = _each(functools.partial(self.of, "mul"), list(np.broadcast_arrays(both, b)))
        return self._folded("add", products, (products.ndim - 1,))


def _require_few(arrays: Sequence[Any]) -> None:
    if any(v.aval.size > _LARGEST_ARRAY for v in arrays):
        raise Unknown("a large array")


def _last(a: Numbers, axes: Sequence[int]) -> Numbers:
    """Some axes as one, which is the last."""
    kept = [k for k in range(a.ndim) if k not in axes]
    count = int(np.prod([a.shape[k] for k in axes]))
    return a.transpose(*kept, *axes).reshape(*(a.shape[k] for k in kept), count)


def _each(make: Callable[..., int], args: list[Numbers]) -> Numbers:
    wide = np.broadcast_arrays(*args)
    made = [make(*map(int, entries)) for entries in zip(*(a.ravel() for a in wide), strict=True)]
    return np.array(made, dtype=np.intp).reshape(wide[0].shape)


def _padded(a: Numbers, value: int, config: Sequence[tuple[int, int, int]]) -> Numbers:
    if any(low < 0 or high < 0 or inner for low, high, inner in config):
        raise Unknown("pad")
    return np.pad(a, [(low, high) for low, high, _ in config], constant_values=value)


def expressions(fn: Callable[..., Any], inputs: Sequence[Any], constants: dict[int, float]) -> tuple[Expressions, Any]:
    """What a function of numbers and small arrays consists of: (operations, nodes of every array it returns).

    `inputs` are the shapes of the arguments, whose entries are the inputs 0, 1, ...; `constants` says which of them are
    known now.
    """
    traced = jax.make_jaxpr(fn)(*(jax.ShapeDtypeStruct(shape, np.float64) for shape in inputs))
    made, first, given = Expressions(), 0, []
    for shape in inputs:
        places = range(first, first + int(np.prod(shape)))
        nodes = [made.constant(constants[k]) if k in constants else made.input(k) for k in places]
        given.append(np.array(nodes, dtype=np.intp).reshape(shape))
        first += len(places)
    return made, made.expand(traced.jaxpr, traced.consts, given)
