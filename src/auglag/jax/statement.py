"""A problem stated in JAX: functions of pytrees, checked before they are compiled, made functions of a flat vector."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

from auglag._names import nearest, signature, takes
from auglag.errors import InputError, OptionError, first_line
from auglag.jax.evaluation import Functions
from auglag.jax.structure import Shape
from auglag.problems.arguments import parse_bounds

_DICT_KEYS = ("type", "fun", "name")


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One constraint of the user: lower <= fun(x, *args) <= upper."""

    name: str
    fun: Callable[..., Any]
    lower: Any
    upper: Any
    shape: Shape


@final
@dataclass(frozen=True, slots=True)
class Statement:
    """min f(x, *args) subject to lower <= x <= upper and cl <= c(x, *args) <= cu, for one instance."""

    functions: Functions
    x: Shape
    rows: tuple[Row, ...]
    lower: Any
    upper: Any
    cl: Any
    cu: Any
    dtype: Any

    def multipliers(self, y: Any) -> list[Any]:
        """One entry per constraint, shaped as its function returns it."""
        out, start = [], 0
        for row in self.rows:
            out.append(row.shape.tree_of(y[start : start + row.shape.size]))
            start += row.shape.size
        return out


def state(fun: Any, x0: Any, args: Any, constraints: Any, bounds: Any, dtype: Any) -> Statement:
    """Check everything that can be checked without values. x0 and args may be `jax.ShapeDtypeStruct`s."""
    if fun is not None and not callable(fun):
        raise InputError(f"fun must be callable or None for a feasibility problem, got {fun!r:.80}")
    x = _shape_of_x(x0)
    example = jax.tree_util.tree_unflatten(x.tree, [jax.ShapeDtypeStruct(shape, dtype) for shape in x.shapes])
    args = jax.tree_util.tree_map(_abstract, args)
    rows = _rows(constraints, example, args, dtype)
    if fun is None and not rows:
        raise InputError("fun and constraints must not both be missing: there is nothing to solve, got fun=None")
    if fun is not None:
        _check_objective(fun, example, args)

    def objective(z: Any, p: Any) -> Any:
        if fun is None:
            return jnp.zeros((), dtype) * z[0]
        return jnp.asarray(fun(x.tree_of(z), *p), dtype).reshape(())

    def constraint(z: Any, p: Any) -> Any:
        parts = [row.shape.flat(row.fun(x.tree_of(z), *p), dtype) for row in rows]
        return parts[0] if len(parts) == 1 else jnp.concatenate([jnp.zeros(0, dtype), *parts])

    lower, upper = _bounds(bounds, x, dtype)
    sides = [[getattr(row, side) for row in rows] for side in ("lower", "upper")]
    cl, cu = (_joined(parts, dtype) for parts in sides)
    m = sum(row.shape.size for row in rows)
    return Statement(Functions(objective, constraint, x.size, m), x, tuple(rows), lower, upper, cl, cu, dtype)


def _abstract(leaf: Any) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    try:
        return jax.ShapeDtypeStruct(np.shape(leaf), jnp.result_type(leaf))
    except TypeError:
        raise InputError(f"args must be a pytree of arrays and numbers, got an entry {leaf!r:.60}") from None


def _shape_of_x(x0: Any) -> Shape:
    leaves = jax.tree_util.tree_leaves(x0)
    if not leaves:
        raise InputError(f"x0 must be an array or a pytree of arrays, got {x0!r:.80}")
    if isinstance(x0, list | tuple) and all(isinstance(leaf, int | float) for leaf in leaves):
        x0 = np.asarray(x0, float)  # a plain list of numbers is a vector, as everywhere in NumPy
        leaves = [x0]
    for leaf in leaves:
        if not isinstance(leaf, jax.ShapeDtypeStruct) and not np.issubdtype(jnp.result_type(leaf), np.number):
            raise InputError(f"x0 must hold numbers, got an entry {leaf!r:.60}")
    shape = Shape.of(x0)
    if not shape.size:
        raise InputError("x0 must have at least one entry, got empty arrays")
    return shape


def flat_x(x0: Any, shape: Shape, dtype: Any) -> Any:
    """x0 as one vector."""
    if isinstance(x0, list | tuple) and shape.is_vector:
        x0 = jnp.asarray(x0, dtype)
    return shape.flat(x0, dtype)


def explained(what: str, call: Callable[[], Any]) -> Any:
    """What `call` returns; the errors that tracing raises are said again in words, with the name of the function."""
    try:
        return call()
    except jax.errors.TracerBoolConversionError as error:
        raise InputError(
            f"{what} must not branch in Python (if, while, and, or, assert) on values that depend on x: use jnp.where, "
            f"jax.lax.cond or jax.lax.while_loop. JAX says: {first_line(error)}"
        ) from None
    except jax.errors.TracerArrayConversionError as error:
        raise InputError(
            f"{what} must be written with jax.numpy: a NumPy or SciPy function was called on a JAX array. JAX says: "
            f"{first_line(error)}"
        ) from None
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError) as error:
        raise InputError(
            f"{what} must not turn values that depend on x into Python numbers (float(), int(), range(), shapes). JAX "
            f"says: {first_line(error)}"
        ) from None


def _outline(what: str, fun: Any, x: Any, args: Any) -> Any:
    """The shapes that fun returns. Traced values that it does not get as arguments are refused: no derivative by them
    could be right, and the program kept for the next call would hold on to them.
    """
    if not takes(fun, x, *args):
        said = "x alone" if not args else f"x and the {len(args)} argument{'s' * (len(args) > 1)} in args"
        raise InputError(f"{what} must take {said}, {1 + len(args)} in all, but its arguments are {signature(fun)}")
    closed, value = explained(what, lambda: jax.make_jaxpr(lambda *a: fun(*a), return_shape=True)(x, *args))
    for const in closed.consts:
        if isinstance(const, jax.core.Tracer):
            raise InputError(
                f"{what} must get values that jit, vmap or grad trace as arguments, but it uses one from outside ("
                f"shape {const.shape}): pass it through args"
            )
    return value


def _check_objective(fun: Any, x: Any, args: Any) -> None:
    value = _outline("fun(x)", fun, x, args)
    leaves = jax.tree_util.tree_leaves(value)
    if len(leaves) != 1 or not hasattr(value, "shape"):
        kind = "None: is a return missing?" if value is None else f"{type(value).__name__} of {len(leaves)} arrays"
        raise InputError(f"fun(x) must return a number, got {kind}")
    if math.prod(value.shape) != 1:
        raise InputError(f"fun(x) must return a number, got an array of shape {value.shape}")
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise InputError(f"fun(x) must return a real number, got {value.dtype}")


def _rows(constraints: Any, x: Any, args: Any, dtype: Any) -> list[Row]:
    if constraints is None:
        return []
    single = isinstance(constraints, Mapping | NonlinearConstraint | LinearConstraint) or _is_triple(constraints)
    listed = [constraints] if single else constraints
    if not isinstance(listed, list | tuple):
        raise InputError(
            "constraints must be a constraint ((fun, lb, ub), {'type': 'ineq', 'fun': f}, NonlinearConstraint or "
            f"LinearConstraint) or a list of them, got {type(constraints).__name__}"
        )
    rows = [_row(constraint, i, x, args, dtype) for i, constraint in enumerate(listed)]
    for i, row in enumerate(rows):
        if any(row.name == other.name for other in rows[:i]):
            raise InputError(f"constraints[{i}]: the name {row.name!r} is used twice; names must differ")
    return rows


def _is_triple(constraint: Any) -> bool:
    return isinstance(constraint, tuple) and len(constraint) == 3 and callable(constraint[0])


def _row(constraint: Any, i: int, x: Any, args: Any, dtype: Any) -> Row:
    name, fun, lower, upper = _parts(constraint, i, x)
    value = _outline(f"{name}: fun(x)", fun, x, args)
    leaves = jax.tree_util.tree_leaves(value)
    if not leaves or not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        kinds = ", ".join(str(leaf.dtype) for leaf in leaves) or "nothing: is a return missing?"
        hint = ": return a difference, not a comparison" if "bool" in kinds else ""
        raise InputError(f"{name}: fun(x) must return real numbers, got {kinds}{hint}")
    shape = Shape.of(value)
    low, high = (_side(side, shape, dtype, f"{name}.{label}") for side, label in ((lower, "lb"), (upper, "ub")))
    _check_order(low, high, name)
    return Row(name, fun, low, high, shape)


def _parts(constraint: Any, i: int, x: Any) -> tuple[str, Any, Any, Any]:
    name = f"constraints[{i}]"
    if isinstance(constraint, Mapping):
        for key in constraint:
            if key not in _DICT_KEYS:
                raise OptionError(f"{name} has the unknown key {key!r}{nearest(key, _DICT_KEYS)}")
        kind, fun = constraint.get("type"), constraint.get("fun")
        if kind not in ("eq", "ineq"):
            raise InputError(f"{name}['type'] must be 'eq' or 'ineq', got {kind!r}")
        lower, upper = 0.0, (0.0 if kind == "eq" else math.inf)
        name = str(constraint.get("name", name))
    elif isinstance(constraint, NonlinearConstraint):
        fun, lower, upper = constraint.fun, constraint.lb, constraint.ub
    elif isinstance(constraint, LinearConstraint):
        dense = constraint.A.toarray() if sparse.issparse(constraint.A) else constraint.A
        matrix = np.atleast_2d(np.asarray(dense, np.float64))
        n = sum(math.prod(leaf.shape) for leaf in jax.tree_util.tree_leaves(x))
        if matrix.shape[1] != n:
            raise InputError(f"{name}.A must have {n} columns, one per variable, got shape {matrix.shape}")
        fun, lower, upper = Linear(matrix.tobytes(), matrix.shape), constraint.lb, constraint.ub
    elif _is_triple(constraint):
        fun, lower, upper = constraint
    else:
        raise InputError(
            f"{name} must be (fun, lb, ub), a dict, a NonlinearConstraint or a LinearConstraint, got "
            f"{type(constraint).__name__}"
        )
    if not callable(fun):
        raise InputError(f"{name}: fun must be callable, got {fun!r:.80}")
    return name, fun, lower, upper


@final
@dataclass(frozen=True, slots=True)
class Linear:
    """x -> A x, equal to another with the same matrix, so that the compiled program is found again."""

    entries: bytes
    shape: tuple[int, ...]

    def __call__(self, x: Any, *_: Any) -> Any:
        """A x for the leaves of x one after the other."""
        matrix = np.frombuffer(self.entries).reshape(self.shape)
        flat = jnp.concatenate([jnp.reshape(leaf, -1) for leaf in jax.tree_util.tree_leaves(x)])
        return jnp.asarray(matrix, flat.dtype) @ flat


def _traced(value: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(value))


def _numbers(value: list[Any] | tuple[Any, ...]) -> bool:
    """Whether a list holds numbers and nothing else, so that it means an array, as everywhere in NumPy."""
    leaves = jax.tree_util.tree_leaves(value, is_leaf=lambda leaf: leaf is None)
    return all(leaf is not None and np.ndim(leaf) == 0 for leaf in leaves)


def _side(side: Any, shape: Shape, dtype: Any, what: str) -> Any:
    """One side as a flat vector: NumPy where its values are known, a tracer where they are not."""
    if isinstance(side, list | tuple) and jax.tree_util.treedef_is_leaf(shape.tree) and _numbers(side):
        with contextlib.suppress(ValueError):  # rows of different lengths are no array, and refused below
            side = jnp.asarray(side, dtype) if _traced(side) else np.asarray(side, float)
    leaves = jax.tree_util.tree_leaves(side)
    spread = len(leaves) == 1 and (np.ndim(leaves[0]) == 0 or len(shape.shapes) == 1)
    if not spread and len(leaves) != len(shape.shapes):
        raise InputError(f"{what} must be a number or have the structure {shape.tree}, got {side!r:.80}")
    try:
        if _traced(side):
            return shape.flat(side, dtype)
        parts = leaves * len(shape.shapes) if len(leaves) == 1 else leaves
        flats = [
            np.broadcast_to(np.asarray(part, dtype), s).ravel() for part, s in zip(parts, shape.shapes, strict=True)
        ]
    except ValueError:
        sizes = [np.shape(leaf) for leaf in leaves]
        raise InputError(f"{what} must be a number or have the shape {shape.shapes}, got {sizes}") from None
    flat = np.concatenate([np.zeros(0, dtype), *flats])
    if np.isnan(flat).any():
        raise InputError(f"{what} must not contain NaN, got {side!r:.80}")
    return flat


def _check_order(lower: Any, upper: Any, what: str) -> None:
    if _traced((lower, upper)):
        return
    bad = np.flatnonzero((lower > upper) | (lower == np.inf) | (upper == -np.inf))
    if bad.size:
        j = bad[0]
        raise InputError(
            f"{what}: lb must be at most ub and both sides reachable, got {lower[j]} > {upper[j]} in entry {j}"
        )


def _bounds(bounds: Any, x: Shape, dtype: Any) -> tuple[Any, Any]:
    if bounds is None:
        return np.full(x.size, -np.inf, dtype), np.full(x.size, np.inf, dtype)
    if isinstance(bounds, tuple) and len(bounds) == 2:
        low, high = (
            _side(default if side is None else side, x, dtype, f"bounds[{k}]")
            for k, (side, default) in enumerate(zip(bounds, (-math.inf, math.inf), strict=True))
        )
    elif isinstance(bounds, Bounds) or x.is_vector:
        low, high = (side.astype(dtype) for side in parse_bounds(bounds, x.size))
    else:
        raise InputError(
            "bounds must be a tuple (lower, upper) of numbers or of pytrees like x0, or a SciPy Bounds, got "
            f"{type(bounds).__name__}"
        )
    _check_order(low, high, "bounds")
    return low, high


def _joined(parts: list[Any], dtype: Any) -> Any:
    if _traced(parts):
        return jnp.concatenate([jnp.asarray(part, dtype) for part in parts])
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype)
