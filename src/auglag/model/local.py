"""The small functions of a model: how they are called, and which of their derivatives can be other than zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from auglag._names import signature
from auglag.errors import InputError, first_line
from auglag.model.precision import in_double

Mask = NDArray[np.bool_]


@final
class Local(tuple[Any, ...]):
    """The local variables or parameters of one element: a tuple of numbers that computes like an array.

    As long as a function takes its entries one by one, each has derivatives of its own, and no zeros are computed.
    """

    __slots__ = ()

    def array(self) -> Any:
        """All entries as one JAX array."""
        return jnp.stack(self) if self else jnp.zeros(0)

    __jax_array__ = array
    shape = property(lambda self: (len(self),))
    ndim = 1

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Local(tuple.__getitem__(self, key))
        if isinstance(key, int | np.integer):
            return tuple.__getitem__(self, int(key))
        if isinstance(key, str):
            raise InputError(
                f"the local variables and parameters of a function have numbers, not names, got [{key!r}]: x[0] is of "
                "the first index array, p[0] the first of par"
            )
        return self.array()[key]


jax.tree_util.register_pytree_node(Local, lambda x: (tuple(x), None), lambda _, parts: Local(parts))


def _delegate(name: str) -> Callable[..., Any]:
    def operation(self: Local, *others: Any) -> Any:
        return getattr(self.array(), name)(*(o.array() if isinstance(o, Local) else o for o in others))

    return operation


_BINARY = ("add", "sub", "mul", "truediv", "pow", "matmul")
for _name in [f"__{side}{op}__" for op in _BINARY for side in ("", "r")] + ["__neg__", "__abs__", "sum", "dot"]:
    setattr(Local, _name, _delegate(_name))


def caller(fn: Callable[..., Any], parametric: bool) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    """fn as a function of two sequences of numbers with one vector as its value.

    A function that takes one argument only is called without parameters, if there are none.
    """
    alone = not parametric and _arguments(fn) == 1

    def called(x: Sequence[Any], p: Sequence[Any]) -> Any:
        value = fn(Local(x)) if alone else fn(Local(x), Local(p))
        parts = list(value) if isinstance(value, tuple | list) else [value]
        flat = [jnp.ravel(jnp.asarray(part, dtype=float)) for part in parts]
        return flat[0] if len(flat) == 1 else jnp.concatenate(flat)

    return called


def _arguments(fn: Callable[..., Any]) -> int:
    """How many positional arguments a function must be given; 2 where that cannot be told."""
    try:
        parameters = signature(fn).parameters.values()
    except (TypeError, ValueError):
        return 2
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)


def output_shape(fn: Callable[..., Any], name: str, variables: int, parameters: int) -> tuple[int, ...]:
    """The shape of the value of fn for one element: () for a number."""
    number = jax.ShapeDtypeStruct((), np.float64)
    alone = not parameters and _arguments(fn) == 1
    _require_arguments(fn, name, 1 if alone else 2)
    wrong = f"the function of {name} must return a number, an array or a tuple of numbers, got "

    def called(*numbers: Any) -> Any:
        x, p = Local(numbers[:variables]), Local(numbers[variables:])
        value = fn(x) if alone else fn(x, p)
        for part in value if isinstance(value, tuple | list) else (value,):
            if not isinstance(part, jax.Array | np.ndarray | np.generic | float | int | Local):
                raise InputError(f"{wrong}{value!r:.80}")
        return value

    what = f"the function of {name}, called with {variables} variables and {parameters} parameters,"
    try:
        value = jax.eval_shape(called, *[number] * (variables + parameters))
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise InputError(
            f"{what} must be made of operations that JAX can trace: use jax.numpy (jnp.sin) instead of numpy and math, "
            f"and jnp.where instead of if. JAX says: {first_line(error)}"
        ) from error
    except IndexError as error:
        raise InputError(
            f"{what} must take entries that are there: x has one for each index array, p one for each part of par. "
            f"Python says: {first_line(error)}"
        ) from error
    except InputError:
        raise
    except Exception as error:
        error.add_note(
            f"raised by {what.removesuffix(',')}: as fn({'x' if alone else 'x, p'}), where x[0], x[1], ... are the "
            "variables of one element"
        )
        raise
    parts = value if isinstance(value, tuple | list) else (value,)
    if isinstance(value, tuple | list) and any(part.shape != () for part in parts):
        raise InputError(f"{wrong}parts of the shapes {', '.join(str(part.shape) for part in parts)}")
    if any(np.issubdtype(part.dtype, np.complexfloating) for part in parts):
        raise InputError(f"{wrong}complex numbers")
    return (len(parts),) if isinstance(value, tuple | list) else tuple(value.shape)


def _require_arguments(fn: Callable[..., Any], name: str, count: int) -> None:
    try:
        signature(fn).bind(*range(count))
    except TypeError as error:
        form = "fn(x, p), with all variables of an element in x and its parameters in p" if count == 2 else "fn(x)"
        raise InputError(f"the function of {name} must take the arguments {form}; Python says: {error}") from None
    except ValueError:  # no signature can be told
        return


# ---------------------------------------------------------------------------------------------------------- sparsity


def jacobian_mask(local: Callable[[Any, Any], Any], variables: int, parameters: int) -> Mask:
    """(outputs, variables): False where an output does not depend on a variable, whatever the values are."""
    return dependencies(lambda *v: local(v[:variables], v[variables:]), variables, parameters)


def hessian_mask(local: Callable[[Any, Any], Any], variables: int, parameters: int, outputs: int) -> Mask:
    """(variables, variables): False where no output has a second derivative by the two variables."""

    def gradient(*v: Any) -> Any:
        p, w = v[variables : variables + parameters], v[variables + parameters :]
        return jnp.stack(jax.grad(lambda x: jnp.sum(jnp.stack(w) * local(x, p)))(v[:variables]))

    if not variables or not outputs:
        return np.zeros((variables, variables), dtype=bool)
    mask = dependencies(gradient, variables, parameters + outputs)
    return mask | mask.T


@in_double
def dependencies(function: Callable[..., Any], variables: int, others: int) -> Mask:
    """Which entries of the value of a function of numbers depend on which of its first arguments.

    Found from the operations of the function, not from its values: jumps have the derivative 0, but both branches of a
    `where` count. Operations that are not known here make every result depend on every argument of theirs.
    """
    number = jax.ShapeDtypeStruct((), np.float64)
    closed = jax.make_jaxpr(function)(*[number] * (variables + others))
    inputs = [np.eye(variables, dtype=bool)[i] for i in range(variables)]
    inputs += [np.zeros(variables, dtype=bool)] * others
    return _propagate(closed.jaxpr, inputs, variables)[0].reshape(-1, variables)


@in_double
def kinked(function: Callable[..., Any], variables: int, others: int) -> bool:
    """Whether a function of numbers may have kinks or jumps in its first arguments, as its operations tell.

    Where it may, derivatives that look constant are not: |x| has no second derivative, and is not linear.
    """
    number = jax.ShapeDtypeStruct((), np.float64)
    closed = jax.make_jaxpr(function)(*[number] * (variables + others))
    return _bends(closed.jaxpr, [True] * variables + [False] * others)[0]


def _bends(jaxpr: Any, depends: list[bool]) -> tuple[bool, list[bool]]:
    """Whether operations on what depends on variables may have kinks or jumps, and which results depend on them."""
    known, bent = dict(zip(jaxpr.invars, depends, strict=True)), False
    for equation in jaxpr.eqns:
        given = [not hasattr(v, "val") and known.get(v, False) for v in equation.invars]
        inner, outs = _called(equation), [any(given)] * len(equation.outvars)
        if inner is not None:
            own, outs = _bends(inner, given)
        else:
            numbers = all(np.issubdtype(out.aval.dtype, np.floating) for out in equation.outvars)
            own = any(given) and not (numbers and equation.primitive.name in _SMOOTH)
        bent = bent or own
        known.update(zip(equation.outvars, outs, strict=True))
    return bent, [not hasattr(v, "val") and known.get(v, False) for v in jaxpr.outvars]


#: Operations whose derivative is zero wherever it exists.
_FLAT = {"sign", "floor", "ceil", "round", "stop_gradient"}
#: Operations that work entry by entry on arguments of one shape.
_ENTRYWISE = frozenset(
    (
        *(
            "add",
            "sub",
            "mul",
            "div",
            "neg",
            "exp",
            "exp2",
            "log",
            "log1p",
            "expm1",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
        ),
        *("atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sqrt", "rsqrt", "cbrt", "pow", "integer_pow"),
        *("square", "max", "min", "abs", "logistic", "erf", "erfc", "erf_inv", "lgamma", "digamma"),
        *("convert_element_type", "copy", "copy_p", "add_any", "rem", "clamp", "reduce_precision"),
    )
)
#: Operations without kinks and jumps, where no condition or position depends on variables.
_SMOOTH = (_ENTRYWISE - {"abs", "max", "min", "rem", "clamp"}) | {
    *("select_n", "concatenate", "stack", "unstack", "split", "reshape", "squeeze", "expand_dims", "broadcast_in_dim"),
    *("slice", "dynamic_slice", "gather", "pad", "rev", "transpose", "reduce_sum", "cumsum", "dot_general"),
}


def _called(equation: Any) -> Any:
    """The operations of an equation that is nothing but a call; None for all others."""
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(key)
        if inner is not None and equation.primitive.name not in ("while", "scan", "cond"):
            inner = getattr(inner, "jaxpr", inner)
            if len(inner.invars) == len(equation.invars) and len(inner.outvars) == len(equation.outvars):
                return inner
    return None


def _propagate(jaxpr: Any, inputs: list[Mask], k: int) -> list[Mask]:
    known: dict[Any, Mask] = dict(zip(jaxpr.invars, inputs, strict=True))

    def mask(v: Any) -> Mask:
        if not hasattr(v, "val") and v in known:
            return known[v]
        return np.zeros((*v.aval.shape, k), dtype=bool)

    for equation in jaxpr.eqns:
        outs = _results(equation, [mask(v) for v in equation.invars], k)
        known.update(zip(equation.outvars, outs, strict=True))
    return [mask(v) for v in jaxpr.outvars]


def _results(equation: Any, given: list[Mask], k: int) -> list[Mask]:
    name, params, outs = equation.primitive.name, equation.params, equation.outvars
    shape = tuple(outs[0].aval.shape)
    inner = _called(equation)
    if inner is not None:
        return _propagate(inner, given, k)
    if name in _FLAT or not np.issubdtype(outs[0].aval.dtype, np.floating):
        return [np.zeros((*out.aval.shape, k), dtype=bool) for out in outs]
    if name in _ENTRYWISE:
        return [_joined(given, shape, k)]
    if name == "select_n":
        return [_joined(given[1:], shape, k)]
    if name in ("unstack", "split"):
        axis, whole = params["axis"], given[0]
        if name == "unstack":
            return list(np.moveaxis(whole, axis, 0))
        return list(np.split(whole, np.cumsum(params["sizes"])[:-1], axis=axis))
    moved = _moved(name, params, given, shape, k)
    if moved is not None:
        return [moved]
    anything = np.zeros(k, dtype=bool)
    for part in given:
        anything |= part.reshape(-1, k).any(axis=0)
    return [np.broadcast_to(anything, (*out.aval.shape, k)) for out in outs]


def _joined(given: list[Mask], shape: tuple[int, ...], k: int) -> Mask:
    result = np.zeros((*shape, k), dtype=bool)
    for part in given:
        result |= part
    return result


def _moved(name: str, params: Any, given: list[Mask], shape: tuple[int, ...], k: int) -> Mask | None:
    """The masks moved as an operation moves its entries; None for operations that are not known here."""
    first = given[0] if given else None
    if name == "concatenate":
        return np.concatenate(given, axis=params["dimension"])
    if first is None:
        return None
    if name == "stack":
        return np.stack(given, axis=params["axis"])
    if name in ("reshape", "squeeze", "expand_dims") and len(given) == 1:
        return first.reshape(*shape, k)
    if name == "broadcast_in_dim" and len(given) == 1:
        wide = np.ones(len(shape), dtype=int)
        wide[list(params["broadcast_dimensions"])] = first.shape[:-1]
        return np.broadcast_to(first.reshape(*wide, k), (*shape, k))
    if name == "slice":
        steps = params["strides"] or (1,) * len(shape)
        return first[tuple(map(slice, params["start_indices"], params["limit_indices"], steps))]
    if name == "transpose":
        return first.transpose(*params["permutation"], first.ndim - 1)
    if name == "reduce_sum":
        return np.asarray(first.any(axis=tuple(params["axes"])))
    return None
