"""Vectors over a batch, with the batch as the last (fast) axis, in two layouts behind the same operations.

A small vector is a `Rows`: a list of n arrays of shape (batch,), one per component, so that a whole Newton step is one
elementwise program which the compiler keeps in registers. A large one is an array of shape (n, batch). Numbers per
instance are arrays of shape (batch,) in both. Code written with the functions below does not know which it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

Array: TypeAlias = Any  #: a JAX array or tracer
Vector: TypeAlias = Any  #: `Rows` or an array (n, batch)


@final
class Rows:
    """A vector as a list of its components, each an array over the batch or a plain number."""

    __slots__ = ("entries",)

    def __init__(self, entries: Sequence[Array]) -> None:
        self.entries = list(entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, i: int) -> Array:
        return self.entries[i]

    def _with(self, other: Any, operation: Callable[[Any, Any], Any]) -> Rows:
        others = other.entries if isinstance(other, Rows) else [other] * len(self.entries)
        return Rows([operation(a, b) for a, b in zip(self.entries, others, strict=True)])

    def __add__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: a / b)

    def __radd__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: b + a)

    def __rsub__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: b - a)

    def __rmul__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: b * a)

    def __neg__(self) -> Rows:
        return Rows([-a for a in self.entries])

    def __invert__(self) -> Rows:
        return Rows([~a for a in self.entries])

    def __and__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: a & b)

    def __or__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: a | b)

    def __le__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: a <= b)

    def __ge__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: a >= b)

    def __lt__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: a < b)

    def __gt__(self, other: Any) -> Rows:
        return self._with(other, lambda a, b: a > b)


jax.tree_util.register_pytree_node(Rows, lambda rows: (rows.entries, None), lambda _, entries: Rows(entries))


def each(function: Callable[..., Any], *vectors: Any) -> Vector:
    """`function` componentwise; an argument that is no vector goes with every component."""
    lengths = [len(v) for v in vectors if isinstance(v, Rows)]
    if not lengths:
        return function(*vectors)
    parts = [v.entries if isinstance(v, Rows) else [v] * lengths[0] for v in vectors]
    return Rows([function(*entries) for entries in zip(*parts, strict=True)])


def _alike(*parts: Any) -> list[Array]:
    """Numbers and arrays brought to one shape and dtype: `jax.numpy` does the same with a good deal more tracing."""
    arrays = [part for part in parts if isinstance(part, jax.Array | jax.core.Tracer)]
    shape, dtype = np.broadcast_shapes(*[part.shape for part in arrays]), arrays[0].dtype
    out = []
    for part in parts:
        if isinstance(part, jax.Array | jax.core.Tracer):
            part = part if part.dtype == dtype else part.astype(dtype)
            out.append(part if part.shape == shape else jnp.broadcast_to(part, shape))
        else:
            out.append(
                jax.lax.full(shape, part, dtype)
                if np.ndim(part) == 0
                else jnp.broadcast_to(jnp.asarray(part, dtype), shape)
            )
    return out


def _is_array(*parts: Any) -> bool:
    return any(isinstance(part, jax.Array | jax.core.Tracer) for part in parts)


def _where(mask: Array, yes: Any, no: Any) -> Array:
    if not _is_array(yes, no):
        return jnp.where(mask, yes, no)  # plain numbers, which leave the precision to what they meet
    yes, no = _alike(yes, no)
    if not isinstance(mask, jax.Array | jax.core.Tracer):
        mask = jnp.asarray(mask)
    shape = np.broadcast_shapes(mask.shape, yes.shape)
    mask, yes, no = [part if part.shape == shape else jnp.broadcast_to(part, shape) for part in (mask, yes, no)]
    return jax.lax.select(mask, yes, no)


def _larger(a: Any, b: Any) -> Array:
    return jax.lax.max(*_alike(a, b)) if _is_array(a, b) else jnp.maximum(a, b)


def _smaller(a: Any, b: Any) -> Array:
    return jax.lax.min(*_alike(a, b)) if _is_array(a, b) else jnp.minimum(a, b)


def where(mask: Vector, yes: Any, no: Any) -> Vector:
    """`yes` where the mask holds, else `no`."""
    return each(_where, mask, yes, no)


def maximum(a: Any, b: Any) -> Vector:
    """The larger of two, componentwise."""
    return each(_larger, a, b)


def minimum(a: Any, b: Any) -> Vector:
    """The smaller of two, componentwise."""
    return each(_smaller, a, b)


def clip(v: Vector, low: Any, high: Any) -> Vector:
    """v moved into [low, high]."""
    return minimum(maximum(v, low), high)


def total(v: Vector, empty: Array) -> Array:
    """The sum over the components, per instance; `empty` (zeros) if there are none."""
    if not isinstance(v, Rows):
        return v.sum(axis=0)
    result = empty
    for k, entry in enumerate(v.entries):
        result = entry if k == 0 else result + entry
    return result


def norm(v: Vector, empty: Array) -> Array:
    """The 2-norm, per instance."""
    return jnp.sqrt(total(v * v, empty))


def largest(v: Vector, empty: Array) -> Array:
    """The max norm, per instance."""
    if not isinstance(v, Rows):
        return jnp.abs(v).max(axis=0)
    result = empty
    for entry in v.entries:
        result = maximum(result, abs(entry))
    return result


def equal(a: Vector, b: Vector) -> Vector:
    """Whether two are equal, componentwise."""
    return each(jnp.equal, a, b)


def select(mask: Array, new: Any, old: Any) -> Any:
    """`new` for the instances in the mask, `old` for the others, over whole pytrees."""
    return jax.tree_util.tree_map(lambda a, b: _where(mask, a, b), new, old)


def as_rows(array: Array) -> Rows:
    """(n, batch) as a list of components."""
    return Rows([array[i] for i in range(array.shape[0])])


def as_array(v: Vector, batch: int, dtype: Any) -> Array:
    """Either layout as an array (n, batch)."""
    if not isinstance(v, Rows):
        return jnp.broadcast_to(v, (v.shape[0], batch))
    if not v.entries:
        return jnp.zeros((0, batch), dtype)
    return jnp.stack([jnp.broadcast_to(jnp.asarray(entry, dtype), (batch,)) for entry in v.entries])


def staged(always: Array, function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments), computed as a whole before anything that uses it. `always` must be true at run time.

    On a CPU the compiler would otherwise repeat long chains of arithmetic in every loop that needs one of their
    results; a branch whose outcome it cannot know stops it. A GPU's compiler weighs this by itself.
    """
    if jax.default_backend() != "cpu":
        return function(*arguments)
    numbers: list[Any] = []  # plain numbers among the results (structural zeros) stay what they are

    def arrays() -> list[Array]:
        leaves, tree = jax.tree_util.tree_flatten(function(*arguments))
        numbers[:] = [tree, [None if isinstance(leaf, jax.Array) else leaf for leaf in leaves]]
        return [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

    shapes = jax.eval_shape(arrays)
    found = iter(jax.lax.cond(always, arrays, lambda: [jnp.zeros(a.shape, a.dtype) for a in shapes]))
    return jax.tree_util.tree_unflatten(numbers[0], [next(found) if leaf is None else leaf for leaf in numbers[1]])
