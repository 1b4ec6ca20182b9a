"""One term of a model: a function, the variables and parameters it takes, and the rows its values are added to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import InputError, first_line
from auglag.model.given import numbers_of
from auglag.model.handles import Indices, Parameter, Rows, Variables
from auglag.model.local import Mask, caller, hessian_mask, jacobian_mask, kinked


@final
@dataclass(frozen=True)
class Term:
    """E elements of one function: entry e takes x[index[0][e]], x[index[1][e]], ... and its parameters."""

    name: str
    local: Callable[[Any, Any], Any]  #: (x, p) -> vector of the outputs
    index: Indices  #: (variables, E)
    constants: tuple[Vector | None, ...]  #: one per parameter: a number or (E,), None where `places` has it
    places: tuple[Indices | None, ...]  #: one per parameter: positions in the vector of all parameters
    rows: Indices | None  #: (outputs, E); None: a term of the objective
    outputs: int
    jac: Mask  #: (outputs, variables)
    hess: Mask  #: (variables, variables), symmetric
    kinked: bool  #: whether it may have kinks or jumps, as |x| has, which is not linear without second derivatives

    @property
    def size(self) -> int:
        """E."""
        return int(self.index.shape[1])

    @property
    def linear(self) -> bool:
        """Whether it has no second derivatives, whatever the values are."""
        return not self.hess.any()

    def pairs(self) -> list[tuple[int, list[int]]]:
        """(a, [b, ...]) with a <= b: the local second derivatives that are needed."""
        columns = ((a, [int(b) for b in np.flatnonzero(self.hess[a]) if b >= a]) for a in range(len(self.hess)))
        return [(a, b) for a, b in columns if b]


def place(name: str, index: tuple[Any, ...], par: tuple[Any, ...], n: int) -> tuple[tuple[int, ...], Any, Any, Any]:
    """The common shape of index arrays and parameters, and all of them in it: (shape, index, constants, places)."""
    if not index:
        raise InputError(f"{name} needs at least one index array of variables")
    arrays = [_indices(f"index array {i} of {name}", part, n) for i, part in enumerate(index)]
    numbers = [part.index if isinstance(part, Parameter) else _numbers(name, i, part) for i, part in enumerate(par)]
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays), *(p.shape for p in numbers))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays)
        wide = f" and parameters of shapes {', '.join(str(p.shape) for p in numbers)}" if numbers else ""
        raise InputError(
            f"index arrays and parameters of {name} must have shapes that broadcast, got {shapes}{wide}"
        ) from None
    flat = [np.broadcast_to(a, shape).ravel() for a in arrays]
    constants, places = [], []
    for part, values in zip(par, numbers, strict=True):
        spread = values.reshape(()) if values.size == 1 and values.ndim == 0 else np.broadcast_to(values, shape).ravel()
        is_parameter = isinstance(part, Parameter)
        constants.append(None if is_parameter else spread)
        places.append(spread if is_parameter else None)
    size = int(np.prod(shape))
    return shape, np.array(flat, dtype=np.intp).reshape(len(flat), size), tuple(constants), tuple(places)


def _indices(what: str, part: Any, n: int) -> NDArray[np.intp]:
    if isinstance(part, Rows):
        raise InputError(f"{what} must hold variables, got rows")
    if isinstance(part, Parameter):
        raise InputError(f"{what} must hold variables, got parameter {part.name!r}: pass it in par=(...)")
    array = np.asarray(part)
    if array.size == 0:
        return array.astype(np.intp)
    if array.dtype.kind not in "iu":
        raise InputError(f"{what} must hold integers, got {array.dtype}")
    if array.min() < 0 or array.max() >= n:
        worst = array.min() if array.min() < 0 else array.max()
        raise InputError(f"{what} must lie in 0 .. {n - 1}, got {worst}")
    return np.asarray(array, dtype=np.intp)


def _numbers(name: str, i: int, part: Any) -> Vector:
    if isinstance(part, Variables | Rows):
        kind = "variables: pass them as an index array" if isinstance(part, Variables) else "rows"
        raise InputError(f"par[{i}] of {name} must be numbers or a parameter, got {kind}")
    array = numbers_of(part)
    if array is None:
        raise InputError(f"par[{i}] of {name} must be numbers or a parameter, got {part!r:.80}")
    if not np.isfinite(array).all():
        raise InputError(f"par[{i}] of {name} must be finite, got {array[~np.isfinite(array)].flat[0]}")
    return array


def placed_rows(name: str, rows: Any, shape: tuple[int, ...], output: tuple[int, ...], m: int) -> Indices:
    """Existing rows for every element and output, as (outputs, E)."""
    array = np.asarray(rows)
    if isinstance(rows, Variables):
        raise InputError(f"rows of {name} must be what constraint returned, or a part of it, got variables")
    if not isinstance(rows, Rows) and array.dtype.kind not in "iu" and array.size:
        raise InputError(f"rows of {name} must hold integers, got {array.dtype}")
    if array.size and (array.min() < 0 or array.max() >= m):
        demand = f"lie in 0 .. {m - 1}" if m else "be those of a constraint that was made before"
        raise InputError(f"rows of {name} must {demand}, got {array.min() if array.min() < 0 else array.max()}")
    wanted = shape + output
    if array.shape != wanted:
        raise InputError(
            f"rows of {name} must have the shape {wanted} of its index arrays"
            f"{f' {shape} and outputs {output}' if output else ''}, got {array.shape}"
        )
    return np.ascontiguousarray(array.reshape(int(np.prod(shape)), int(np.prod(output))).T, dtype=np.intp)


def make(name: str, fn: Callable[..., Any], placed: tuple[Any, Any, Any], rows: Indices | None, outputs: int) -> Term:
    """A term with its sparsity."""
    index, constants, places = placed
    local = caller(fn, bool(constants))
    k, q = len(index), len(constants)
    try:
        jac, hess = jacobian_mask(local, k, q), hessian_mask(local, k, q, outputs)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise InputError(
            f"the function of {name} must have derivatives of first and second order. JAX says: {first_line(error)}"
        ) from error
    bent = kinked(lambda *v: local(v[:k], v[k:]), k, q)
    return Term(name, local, index, constants, places, rows, outputs, jac, hess, bent)


def partials(term: Term) -> Any:
    """(x, p) -> values and the partial derivatives that are not zero, ordered by output, then variable."""

    def found(x: Sequence[Any], p: Sequence[Any]) -> tuple[Any, Any]:
        columns = {}
        for i in map(int, np.flatnonzero(term.jac.any(axis=0))):

            def along(v: Any, i: int = i) -> Any:
                return term.local([*x[:i], v, *x[i + 1 :]], p)

            columns[i] = jax.jvp(along, (x[i],), (jnp.ones(()),))[1]
        slopes = [columns[i][j] for j, i in np.argwhere(term.jac)]
        return term.local(x, p), jnp.stack(slopes) if slopes else jnp.zeros(0)

    return found


def seconds(term: Term) -> Any:
    """(x, p, w) -> the second derivatives of w'outputs in the order of `Term.pairs`."""

    def found(x: Sequence[Any], p: Sequence[Any], w: Any) -> Any:
        entries = []
        for a, partners in term.pairs():

            def slopes(v: Any, a: int = a, partners: list[int] = partners) -> Any:
                def value(chosen: list[Any]) -> Any:
                    point = [*x[:a], v, *x[a + 1 :]]
                    for b, z in zip(partners, chosen, strict=True):
                        point[b] = z
                    return jnp.sum(w * term.local(point, p))

                return jax.grad(value)([v if b == a else x[b] for b in partners])

            entries += jax.jvp(slopes, (x[a],), (jnp.ones(()),))[1]
        return jnp.stack(entries)

    return found
