"""What only moves numbers about, adds them up or multiplies matrices of them: done on object arrays, on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from auglag.jax.folding import NotScalar, Numbers, add, boxed, mul, numbers, varies

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


def dot(a: Numbers, b: Numbers, dimensions: Any) -> Numbers:
    """`lax.dot_general`."""
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


def reduced(a: Numbers, axes: tuple[int, ...], combine: Callable[[Any, Any], Any], empty: float) -> Numbers:
    """A reduction over some axes; `empty` where there is nothing to reduce."""
    kept = [i for i in range(a.ndim) if i not in axes]
    count, depth = (int(np.prod([a.shape[i] for i in some], dtype=int)) for some in (kept, axes))
    rows = a.transpose(*kept, *axes).reshape(count, depth)
    out = np.empty(rows.shape[0], dtype=object)
    for i, row in enumerate(rows):
        entry = row[0] if depth else empty
        for other in row[1:]:
            entry = combine(entry, other)
        out[i] = entry
    return out.reshape([a.shape[i] for i in kept])


def split(eqn: Any, a: Numbers) -> list[Numbers]:
    """`lax.split` and its kin."""
    axis = eqn.params["axis"]
    if eqn.primitive.name == "unstack":
        return [a.take(i, axis=axis) if a.ndim > 1 else boxed([a[i]], ()) for i in range(a.shape[axis])]
    return list(np.split(a, np.cumsum(eqn.params["sizes"])[:-1], axis=axis))


def moved_numbers(eqn: Any, inputs: list[Numbers]) -> Numbers:
    """Apply the primitive to the positions of its entries, then put the entries where the positions went."""
    name, params = eqn.primitive.name, eqn.params
    if name == "iota":
        with jax.ensure_compile_time_eval():
            return numbers(np.asarray(eqn.primitive.bind(**params)))
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
            if any(varies(entry) for entry in part.reshape(-1)):
                raise NotScalar(f"{eqn.primitive.name} with indices that depend on x")
            fixed[k] = np.asarray(part.tolist(), dtype=eqn.invars[k].aval.dtype)
    if not floats:  # whole numbers, all known
        with jax.ensure_compile_time_eval():
            return numbers(np.asarray(eqn.primitive.bind(*[fixed[k] for k in range(len(inputs))], **eqn.params)))
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
