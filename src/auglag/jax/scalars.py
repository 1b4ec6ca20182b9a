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

from auglag.jax.folding import NotScalar, Numbers, add, div, mul, neg, numbers, same, select, sub, varies
from auglag.jax.moves import MOVES, SPLITS, dot, moved_numbers, reduced, split
from auglag.jax.tuning import TUNING


def scalarised(function: Callable[..., Any], *shapes: Any) -> Callable[..., list[Numbers]]:
    """`function` of arrays of the given shapes, as a function of object arrays of numbers; raises `NotScalar`.

    The arguments are traced once, here; the outputs come flattened in pytree order.
    """
    closed = jax.make_jaxpr(function)(*shapes)
    count = _operations(closed.jaxpr)
    if count > TUNING.unrolled_operations:
        raise NotScalar(f"{count} operations")
    _require_known(closed.jaxpr)

    def run(*arguments: Any) -> list[Numbers]:
        flat = [numbers(leaf) for leaf in jax.tree_util.tree_leaves(arguments, is_leaf=_is_numbers)]
        consts = [numbers(const) for const in closed.consts]
        return _evaluate(closed.jaxpr, consts, flat)

    return run


def _is_numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray)


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
        return numbers(var.val) if isinstance(var, Literal) else known[var]

    for eqn in jaxpr.eqns:
        inputs = [read(var) for var in eqn.invars]
        inner = _inner(eqn)
        if inner is not None:
            inner_consts = [numbers(const) for const in getattr(inner, "consts", ())]
            outputs = _evaluate(getattr(inner, "jaxpr", inner), inner_consts, inputs)
        else:
            outputs = split(eqn, inputs[0]) if eqn.primitive.name in SPLITS else [_apply(eqn, inputs)]
        known.update(zip(eqn.outvars, outputs, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _apply(eqn: Any, inputs: list[Numbers]) -> Numbers:
    name = eqn.primitive.name
    if name == "dot_general":
        return dot(inputs[0], inputs[1], eqn.params["dimension_numbers"])
    if name in MOVES:
        return moved_numbers(eqn, inputs)
    if name in REDUCTIONS:
        return reduced(inputs[0], tuple(eqn.params["axes"]), *REDUCTIONS[name])
    shape, dtype = eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype
    parts = [np.broadcast_to(part, shape).reshape(-1) for part in inputs]
    # The rules are those of real numbers: whole numbers divide and overflow in their own way.
    rule = ELEMENTWISE[name] if name in CHOICES or jnp.issubdtype(dtype, jnp.inexact) else None
    out = np.empty(int(np.prod(shape, dtype=int)), dtype=object)
    for i in range(out.size):
        entries = [part[i] for part in parts]
        out[i] = rule(*entries) if rule is not None else _bound(eqn, entries, dtype)
    return out.reshape(shape)


def _bound(eqn: Any, entries: list[Any], dtype: Any) -> Any:
    """The primitive itself on single numbers; on the host if all are constants."""
    typed = [
        jnp.asarray(entry, var.aval.dtype) if varies(entry) else np.asarray(entry, var.aval.dtype)
        for entry, var in zip(entries, eqn.invars, strict=True)
    ]
    if not any(varies(entry) for entry in typed):
        with jax.ensure_compile_time_eval():
            return np.asarray(eqn.primitive.bind(*typed, **eqn.params)).item()
    shape = jnp.broadcast_shapes(*[np.shape(entry) for entry in typed])
    return eqn.primitive.bind(*[jnp.broadcast_to(entry, shape) for entry in typed], **_plain(eqn.params))


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "sharding"} | (
        {"sharding": None} if "sharding" in params else {}
    )


#: Primitives that are applied to single numbers as they are.
PLAIN = [
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
#: name -> rule with folding, or None for the primitive itself number by number.
ELEMENTWISE: dict[str, Callable[..., Any] | None] = {
    **dict.fromkeys(PLAIN),
    "add": add,
    "add_any": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "neg": neg,
    "select_n": select,
    "copy": same,
    "stop_gradient": same,
}

#: Rules that only pick, for entries of any kind.
CHOICES = ("select_n", "copy", "stop_gradient")

#: name -> how two are put together, and what nothing at all comes to.
REDUCTIONS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "reduce_sum": (add, 0.0),
    "reduce_prod": (mul, 1.0),
    "reduce_max": (jnp.maximum, -np.inf),
    "reduce_min": (jnp.minimum, np.inf),
}
