"""Pytrees as flat vectors, and the precision they are worked on in."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from auglag._names import nearest
from auglag.errors import InputError, OptionError
from auglag.jax.tuning import TUNING


def arrays_of(args: Any) -> tuple[Any, ...]:
    """Further arguments as a tuple; a list of numbers, or of lists of numbers, is an array, wherever it stands."""

    def array(part: Any) -> Any:
        numbers = isinstance(part, list) and all(
            isinstance(leaf, int | float | np.number) for leaf in jax.tree_util.tree_leaves(part)
        )
        try:
            return np.asarray(part) if numbers and part else part
        except ValueError:  # lists of different lengths stay what they are
            return part

    whole = args if isinstance(args, tuple) else (args,)
    found: tuple[Any, ...] = jax.tree_util.tree_map(array, whole, is_leaf=lambda part: array(part) is not part)
    return found


@final
@dataclass(frozen=True, slots=True)
class Shape:
    """The structure of a pytree of arrays, and the way to a flat vector and back."""

    tree: Any
    shapes: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(value: Any) -> Shape:
        """The structure of a value or of `jax.ShapeDtypeStruct`s."""
        leaves, tree = jax.tree_util.tree_flatten(value)
        return Shape(tree, tuple(tuple(np.shape(leaf)) for leaf in leaves))

    @property
    def sizes(self) -> list[int]:
        """The number of entries of each leaf."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def size(self) -> int:
        """The number of entries."""
        return sum(self.sizes)

    @property
    def is_vector(self) -> bool:
        """Whether it is simply one vector."""
        return len(self.shapes) == 1 and len(self.shapes[0]) == 1 and jax.tree_util.treedef_is_leaf(self.tree)

    def flat(self, value: Any, dtype: Any) -> Any:
        """A value of this structure as one vector; what stands for several leaves (a number, a prefix) is spread."""
        leaves = jax.tree_util.tree_leaves(value)
        if len(leaves) == 1 and len(self.shapes) != 1 and np.ndim(leaves[0]) == 0:
            leaves = leaves * len(self.shapes)
        parts = [
            jnp.broadcast_to(jnp.asarray(leaf, dtype), shape).reshape(-1)
            for leaf, shape in zip(leaves, self.shapes, strict=True)
        ]
        return jnp.concatenate([jnp.zeros(0, dtype), *parts]) if len(parts) != 1 else parts[0]

    def tree_of(self, flat: Any) -> Any:
        """The pytree for a vector whose first axis has the entries; further axes are kept."""
        ends = np.cumsum([0, *self.sizes])
        parts = [
            flat[a:b].reshape(shape + flat.shape[1:]) for a, b, shape in zip(ends, ends[1:], self.shapes, strict=False)
        ]
        return jax.tree_util.tree_unflatten(self.tree, parts)


#: Arguments of other front doors, and what to write instead.
TRANSLATIONS = {
    "g": "prox terms are not compiled; auglag.jax.minimize takes them, and bounds= is for both",
    "jac": "JAX differentiates fun and the constraints",
    "hess": "JAX differentiates fun and the constraints",
    "hessp": "JAX differentiates fun and the constraints",
    "preset": "write variant=, penalty=, dual= and tolerance=",
    "budget": "write max_outer=... and max_steps=...",
    "maxiter": "write max_outer=...",
    "max_iter": "write max_outer=...",
    "callback": "a compiled program calls nobody; record= keeps the first iterations",
    "warm_start": "write x0=solution.x, multipliers=solution.multipliers",
}


def refuse_unknown(function: Callable[..., Any], unknown: Mapping[str, Any]) -> None:
    """Raise for an argument that does not exist, and say what to write instead."""
    known = [name for name in inspect.signature(function).parameters if name != "unknown"]
    for name in unknown:
        hint = f": {TRANSLATIONS[name]}" if name in TRANSLATIONS else nearest(name, known)
        raise OptionError(f"auglag.jax.{function.__name__}() has no argument {name!r}{hint}")


def require_dtype(dtype: Any) -> Any:
    """float64 (which JAX must have been told to use) or float32, asked for by name."""
    try:
        wanted = np.dtype(np.float64 if dtype is None else dtype)
    except TypeError:
        raise InputError(f"dtype must be float64 or float32, got {dtype!r}") from None
    if wanted not in (np.float64, np.float32):
        raise InputError(f"dtype must be float64 or float32, got {wanted}")
    if wanted == np.float64 and jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        raise InputError(
            "dtype float64 needs JAX's 64-bit mode, which is off: call jax.config.update('jax_enable_x64', True) before"
            " the first array is made (auglag does not flip it behind your back), or pass dtype='float32', which meets "
            "tolerances down to 1e-5 at best"
        )
    return wanted


def require_tol(tol: Any, dtype: Any) -> float:
    """The tolerance, if this precision can meet it."""
    if tol is None:
        return TUNING.tol if dtype == np.float64 else TUNING.tol_single
    if not (isinstance(tol, int | float | np.number) and 0.0 < tol < math.inf):
        raise InputError(f"tol must be positive and finite, got {tol!r:.80}")
    lowest = TUNING.smallest_tol if dtype == np.float64 else TUNING.smallest_tol_single
    if tol < lowest:
        raise InputError(
            f"tol must be at least {lowest:.0e} in {np.dtype(dtype)}, whose rounding hides less, got {tol}"
        )
    return float(tol)
