"""A function of small arrays rewritten as straight-line arithmetic on its single numbers.

XLA moves a batch of small vectors through memory at every slice, stack and dot product. Written out number by number,
each number an array over the batch, the same function is purely elementwise and fuses with what surrounds it. Zeros and
ones are folded on the way, which drops the structural zeros of Jacobians and Hessians.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

#: A function of more single operations than this is left to XLA's own batching.
MOST_OPERATIONS = 4000

Numbers = Any  #: np.ndarray of dtype object: Python numbers (constants) and arrays over the batch


class NotScalar(Exception):
    """The function contains something that cannot be written out, or would be too long."""


def scalarised(function: Callable[..., Any], *shapes: Any) -> Callable[..., list[Numbers]]:
    """`function` of arrays of the given shapes, as a function of object arrays of numbers; raises `NotScalar`.

    The arguments are traced once, here; the outputs come flattened in pytree order.
    """
    closed = jax.make_jaxpr(function)(*shapes)
    count = _operations(closed.jaxpr)
    if count > MOST_OPERATIONS:
        raise NotScalar(f"{count} operations")
    _require_known(closed.jaxpr)

    def run(*arguments: Any) -> list[Numbers]:
        flat = [_numbers(leaf) for leaf in jax.tree_util.tree_leaves(arguments, is_leaf=_is_numbers)]
        consts = [_numbers(const) for const in closed.consts]
        return _evaluate(closed.jaxpr, consts, flat)

    return run


def _is_numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _numbers(value: Any) -> Numbers:
    """An array of constants, or an object array as it is."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value
    if isinstance(value, jax.core.Tracer):
        raise NotScalar("a traced constant")
    return _boxed(np.asarray(value).tolist(), np.shape(value))


def _boxed(value: Any, shape: tuple[int, ...]) -> Numbers:
    flat = np.empty(int(np.prod(shape, dtype=int)), dtype=object)
    nested = np.asarray(value, dtype=object).reshape(-1) if not isinstance(value, list) else value
    for i, entry in enumerate(_leaves(nested) if isinstance(nested, list) else nested):
        flat[i] = entry
    return flat.reshape(shape)


def _leaves(nested: Any) -> list[Any]:
    return [leaf for part in nested for leaf in _leaves(part)] if isinstance(nested, list) else [nested]


def _inner(eqn: Any) -> Any | None:
    """The jaxpr of an equation that merely calls one."""
    if eqn.primitive.name not in CALLS:
        return None
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if name in eqn.params:
            return eqn.params[name]
    return None


CALLS = (
    "pjit",
    "jit",
    "closed_call",
    "core_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
    "remat2",
)


def _operations(jaxpr: Any) -> int:
    count = 0
    for eqn in jaxpr.eqns:
        inner = _inner(eqn)
        if inner is not None:
            count += _operations(getattr(inner, "jaxpr", inner))
        elif eqn.primitive.name == "dot_general":
            contracted = eqn.params["dimension_numbers"][0][0]
            depth = int(np.prod([eqn.invars[0].aval.shape[i] for i in contracted], dtype=int))
            count += 2 * depth * int(np.prod(eqn.outvars[0].aval.shape, dtype=int))
        elif eqn.primitive.name not in MOVES:
            count += max(int(np.prod(v.aval.shape, dtype=int)) for v in [*eqn.invars, *eqn.outvars])
    return count


def _require_known(jaxpr: Any) -> None:
    for eqn in jaxpr.eqns:
        inner = _inner(eqn)
        name = eqn.primitive.name
        if inner is not None:
            _require_known(getattr(inner, "jaxpr", inner))
        elif name not in MOVES and name not in ELEMENTWISE and name not in REDUCTIONS and name != "dot_general":
            raise NotScalar(name)


def _evaluate(jaxpr: Any, consts: list[Numbers], arguments: list[Numbers]) -> list[Numbers]:
    known: dict[Any, Numbers] = dict(zip(jaxpr.constvars, consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(var: Any) -> Numbers:
        return _numbers(var.val) if isinstance(var, Literal) else known[var]

    for eqn in jaxpr.eqns:
        inputs = [read(var) for var in eqn.invars]
        inner = _inner(eqn)
        if inner is not None:
            inner_consts = [_numbers(const) for const in getattr(inner, "consts", ())]
            outputs = _evaluate(getattr(inner, "jaxpr", inner), inner_consts, inputs)
        else:
            outputs = _split(eqn, inputs[0]) if eqn.primitive.name in SPLITS else [_apply(eqn, inputs)]
        known.update(zip(eqn.outvars, outputs, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _apply(eqn: Any, inputs: list[Numbers]) -> Numbers:
    name = eqn.primitive.name
    if name == "dot_general":
        return _dot(inputs[0], inputs[1], eqn.params["dimension_numbers"])
    if name in MOVES:
        return _moved(eqn, inputs)
    if name in REDUCTIONS:
        return _reduced(inputs[0], tuple(eqn.params["axes"]), REDUCTIONS[name])
    shape, dtype = eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype
    parts = [np.broadcast_to(part, shape).reshape(-1) for part in inputs]
    rule = ELEMENTWISE[name]
    out = np.empty(int(np.prod(shape, dtype=int)), dtype=object)
    for i in range(out.size):
        entries = [part[i] for part in parts]
        out[i] = rule(*entries) if rule is not None else _bound(eqn, entries, dtype)
    return out.reshape(shape)


def _bound(eqn: Any, entries: list[Any], dtype: Any) -> Any:
    """The primitive itself on single numbers; on the host if all are constants."""
    typed = [
        entry if _varies(entry) else np.asarray(entry, var.aval.dtype)
        for entry, var in zip(entries, eqn.invars, strict=True)
    ]
    if not any(_varies(entry) for entry in typed):
        with jax.ensure_compile_time_eval():
            return np.asarray(eqn.primitive.bind(*typed, **eqn.params)).item()
    shape = jnp.broadcast_shapes(*[np.shape(entry) for entry in typed])
    return eqn.primitive.bind(*[jnp.broadcast_to(entry, shape) for entry in typed], **_plain(eqn.params))


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "sharding"} | (
        {"sharding": None} if "sharding" in params else {}
    )


def _varies(entry: Any) -> bool:
    return isinstance(entry, jax.Array | jax.core.Tracer)


# ---------------------------------------------------------------------------------------------- arithmetic with folding


def _is(entry: Any, number: float) -> bool:
    return not _varies(entry) and entry == number


def add(a: Any, b: Any) -> Any:
    """a + b, zeros folded."""
    return b if _is(a, 0) else a if _is(b, 0) else a + b


def _sub(a: Any, b: Any) -> Any:
    return a if _is(b, 0) else -b if _is(a, 0) else a - b


def mul(a: Any, b: Any) -> Any:
    """a * b, zeros and ones folded."""
    # A structural zero wins over whatever it meets: what is not finite shows in the values, which are kept whole.
    if _is(a, 0) or _is(b, 0):
        return 0.0
    return b if _is(a, 1) else a if _is(b, 1) else -b if _is(a, -1) else -a if _is(b, -1) else a * b


def _div(a: Any, b: Any) -> Any:
    if _is(b, 1):
        return a
    if not _varies(a) and not _varies(b) and b == 0:
        return float(np.divide(float(a), float(b)))
    return 0.0 if _is(a, 0) and _varies(b) else a / b


def _neg(a: Any) -> Any:
    return -a


def _same(a: Any, *_: Any) -> Any:
    return a


def _select(which: Any, *cases: Any) -> Any:
    if not _varies(which):
        return cases[int(which)]
    result = cases[0]
    for k, case in enumerate(cases[1:], 1):
        result = jnp.where(which == k if which.dtype != jnp.bool_ else which, case, result)
    return result


#: name -> rule with folding, or None for the primitive itself number by number.
ELEMENTWISE: dict[str, Callable[..., Any] | None] = {
    **dict.fromkeys(
        [
            "sin",
            "cos",
            "tan",
            "tanh",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log1p",
            "sqrt",
            "rsqrt",
            "cbrt",
            "pow",
            "integer_pow",
            "square",
            "abs",
            "sign",
            "floor",
            "ceil",
            "round",
            "max",
            "min",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "and",
            "or",
            "not",
            "xor",
            "asin",
            "acos",
            "atan",
            "atan2",
            "sinh",
            "cosh",
            "asinh",
            "acosh",
            "atanh",
            "erf",
            "erfc",
            "erf_inv",
            "logistic",
            "is_finite",
            "rem",
            "lgamma",
            "digamma",
            "nextafter",
            "convert_element_type",
            "clamp",
        ]
    ),
    "add": add,
    "add_any": add,
    "sub": _sub,
    "mul": mul,
    "div": _div,
    "neg": _neg,
    "select_n": _select,
    "copy": _same,
    "stop_gradient": _same,
}

REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "reduce_sum": add,
    "reduce_prod": mul,
    "reduce_max": jnp.maximum,
    "reduce_min": jnp.minimum,
}

#: Primitives that only move numbers about: done once on their positions.
MOVES = frozenset(
    [
        "reshape",
        "squeeze",
        "expand_dims",
        "transpose",
        "broadcast_in_dim",
        "slice",
        "rev",
        "concatenate",
        "pad",
        "gather",
        "dynamic_slice",
        "split",
        "stack",
        "unstack",
        "dynamic_update_slice",
        "scatter",
        "scatter-add",
        "cumsum",
        "iota",
    ]
)


SPLITS = ("split", "unstack")


def _split(eqn: Any, a: Numbers) -> list[Numbers]:
    axis = eqn.params["axis"]
    if eqn.primitive.name == "unstack":
        return [a.take(i, axis=axis) if a.ndim > 1 else _boxed([a[i]], ()) for i in range(a.shape[axis])]
    return list(np.split(a, np.cumsum(eqn.params["sizes"])[:-1], axis=axis))


def _dot(a: Numbers, b: Numbers, dimensions: Any) -> Numbers:
    ((ca, cb), (ba, bb)) = dimensions
    free_a = [i for i in range(a.ndim) if i not in ca and i not in ba]
    free_b = [i for i in range(b.ndim) if i not in cb and i not in bb]
    batch = tuple(a.shape[i] for i in ba)
    left = a.transpose(*ba, *free_a, *ca).reshape(
        int(np.prod(batch, dtype=int)), -1, int(np.prod([a.shape[i] for i in ca], dtype=int))
    )
    right = b.transpose(*bb, *free_b, *cb).reshape(left.shape[0], -1, left.shape[2])
    out = np.empty((left.shape[0], left.shape[1], right.shape[1]), dtype=object)
    for k, i, j in np.ndindex(*out.shape):
        entry: Any = 0.0
        for p, q in zip(left[k, i], right[k, j], strict=True):
            entry = add(entry, mul(p, q))
        out[k, i, j] = entry
    return out.reshape(batch + tuple(a.shape[i] for i in free_a) + tuple(b.shape[i] for i in free_b))


def _reduced(a: Numbers, axes: tuple[int, ...], combine: Callable[[Any, Any], Any]) -> Numbers:
    kept = [i for i in range(a.ndim) if i not in axes]
    rows = a.transpose(*kept, *axes).reshape(int(np.prod([a.shape[i] for i in kept], dtype=int)), -1)
    out = np.empty(rows.shape[0], dtype=object)
    for i, row in enumerate(rows):
        entry = row[0]
        for other in row[1:]:
            entry = combine(entry, other)
        out[i] = entry
    return out.reshape([a.shape[i] for i in kept])


def _moved(eqn: Any, inputs: list[Numbers]) -> Numbers:
    """Apply the primitive to the positions of its entries, then put the entries where the positions went."""
    name, params = eqn.primitive.name, eqn.params
    if name == "iota":
        with jax.ensure_compile_time_eval():
            return _numbers(np.asarray(eqn.primitive.bind(**params)))
    if name == "reshape":
        return inputs[0].reshape(params["new_sizes"])
    if name in ("squeeze", "expand_dims"):
        return inputs[0].reshape(eqn.outvars[0].aval.shape)
    if name == "transpose":
        return inputs[0].transpose(params["permutation"])
    if name == "stack":
        return np.stack(inputs, axis=params["axis"])
    if name == "concatenate":
        return np.concatenate(inputs, axis=params["dimension"])
    if name == "slice":
        strides = params["strides"] or (1,) * inputs[0].ndim
        cut = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
        return inputs[0][tuple(slice(*part) for part in cut)]
    if name == "broadcast_in_dim":
        shape, dims = params["shape"], params["broadcast_dimensions"]
        aligned = [1] * len(shape)
        for axis, dim in enumerate(dims):
            aligned[dim] = inputs[0].shape[axis]
        return np.broadcast_to(inputs[0].reshape(aligned), shape)
    return _padded(inputs[0], inputs[1], params["padding_config"]) if name == "pad" else _by_matrix(eqn, inputs)


def _padded(a: Numbers, filling: Numbers, config: Any) -> Numbers:
    """`lax.pad`: room before, after (negative cuts) and between the entries, filled with one number."""
    for axis, (before, after, between) in enumerate(config):
        size = a.shape[axis]
        inner = size + max(size - 1, 0) * between
        shape = list(a.shape)
        shape[axis] = max(before, 0) + inner + max(after, 0)
        out = np.empty(shape, dtype=object)
        out[...] = filling[()]
        place: list[Any] = [slice(None)] * a.ndim
        place[axis] = slice(max(before, 0), max(before, 0) + inner, between + 1)
        out[tuple(place)] = a
        place[axis] = slice(max(-before, 0), shape[axis] - max(-after, 0))
        a = out[tuple(place)]
    return a


def _by_matrix(eqn: Any, inputs: list[Numbers]) -> Numbers:
    """Any linear rearrangement, through its matrix, computed once on the host; indices have to be constant."""
    floats = [k for k, var in enumerate(eqn.invars) if jnp.issubdtype(var.aval.dtype, jnp.inexact)]
    fixed = {}
    for k, part in enumerate(inputs):
        if k not in floats:
            if any(_varies(entry) for entry in part.reshape(-1)):
                raise NotScalar(f"{eqn.primitive.name} with indices that depend on x")
            fixed[k] = np.asarray(part.tolist(), dtype=eqn.invars[k].aval.dtype)
    entries = np.concatenate([inputs[k].reshape(-1) for k in floats])
    sizes = [inputs[k].size for k in floats]

    def moved(unit: Any) -> Any:
        pieces = jnp.split(unit, np.cumsum(sizes)[:-1])
        values = dict(fixed)
        for k, piece in zip(floats, pieces, strict=True):
            values[k] = piece.reshape(inputs[k].shape).astype(eqn.invars[k].aval.dtype)
        return eqn.primitive.bind(*[values[k] for k in range(len(inputs))], **eqn.params).reshape(-1)

    with jax.ensure_compile_time_eval():
        matrix = np.asarray(jax.vmap(moved)(jnp.eye(entries.size)))
    shape = eqn.outvars[0].aval.shape
    out = np.empty(matrix.shape[1], dtype=object)
    for j in range(out.size):
        entry: Any = 0.0
        for i in np.flatnonzero(matrix[:, j]):
            entry = add(entry, mul(float(matrix[i, j]), entries[i]))
        out[j] = entry
    return out.reshape(shape)
