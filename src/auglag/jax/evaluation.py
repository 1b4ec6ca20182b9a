"""f, c and their derivatives for a whole batch, batch last: written out number by number, or through `jax.vmap`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from auglag.jax.folding import NotScalar, add, boxed, mul
from auglag.jax.scalars import scalarised
from auglag.jax.tuning import TUNING
from auglag.jax.vectors import Array, Rows, Vector, largest, total


@final
@dataclass(frozen=True, slots=True)
class Functions:
    """The problem's functions of one flat x and the parameters p of one instance."""

    objective: Callable[[Array, Any], Array]  #: f(x, p), a number
    rows: Callable[[Array, Any], Array]  #: c(x, p), shape (m,)
    n: int
    m: int

    def lagrangian(self, x: Array, p: Any, sf: Array, w: Array) -> Array:
        """sf f + w'c."""
        value = sf * self.objective(x, p)
        return value + w @ self.rows(x, p) if self.m else value

    def values(self, x: Array, p: Any) -> tuple[Array, Array]:
        """(f, c)."""
        return self.objective(x, p), self.rows(x, p)

    def first(self, x: Array, p: Any) -> tuple[Array, Array, Array, Array]:
        """(f, c, grad f, J); the Jacobian by the mode that needs fewer products."""
        f, g = jax.value_and_grad(self.objective)(x, p)
        c = self.rows(x, p)
        jacobian = jax.jacfwd if self.n < self.m else jax.jacrev
        j = jacobian(self.rows)(x, p) if self.m else jnp.zeros((0, self.n), x.dtype)
        return f, c, g, j

    def hessian(self, x: Array, p: Any, sf: Array, w: Array) -> Array:
        """Hess(sf f + w'c)."""
        return jax.jacfwd(jax.grad(self.lagrangian))(x, p, sf, w)

    def gradient(self, x: Array, p: Any, sf: Array, w: Array) -> Array:
        """grad(sf f + w'c)."""
        return jax.grad(self.lagrangian)(x, p, sf, w)


class Evaluation(ABC):
    """What a step needs to know at x, for all instances at once."""

    @abstractmethod
    def values(self, x: Vector) -> tuple[Array, Vector]:
        """(f, c)."""

    @abstractmethod
    def first(self, x: Vector) -> tuple[Array, Vector, Vector, Any]:
        """(f, c, grad f, J), J as a list of m vectors or an array (m, n, batch)."""

    @abstractmethod
    def hessian(self, x: Vector, sf: Array, w: Vector) -> Any:
        """Hess(sf f + w'c): nested lists (lower triangle) or an array (n, n, batch)."""

    @abstractmethod
    def gradient(self, x: Vector, sf: Array, w: Vector) -> Vector:
        """grad(sf f + w'c)."""

    @abstractmethod
    def transposed(self, jac: Any, w: Vector) -> Vector:
        """J'w."""

    @abstractmethod
    def product(self, jac: Any, d: Vector) -> Vector:
        """J d."""

    @abstractmethod
    def add_squares(self, hessian: Any, jac: Any, weight: Vector) -> Any:
        """H + J' diag(weight) J."""

    @abstractmethod
    def size(self, jac: Any) -> Array:
        """The Frobenius norm of J."""

    @abstractmethod
    def scaled_rows(self, jac: Any, factors: Vector) -> Any:
        """diag(factors) J."""

    @abstractmethod
    def row_sizes(self, jac: Any) -> Vector:
        """The max norms of the rows of J."""

    @abstractmethod
    def row_squares(self, jac: Any) -> Vector:
        """The squares of the 2-norms of the rows of J."""


@final
class Written:
    """The functions written out number by number, traced once per problem."""

    __slots__ = ("first", "gradient", "hessian", "values")

    def __init__(self, functions: Functions, p: Any, dtype: Any) -> None:
        shape = jax.ShapeDtypeStruct
        x, w, one = shape((functions.n,), dtype), shape((functions.m,), dtype), shape((), dtype)
        self.values = scalarised(functions.values, x, p)
        self.first = scalarised(functions.first, x, p)
        self.hessian = scalarised(functions.hessian, x, p, one, w)
        self.gradient = scalarised(functions.gradient, x, p, one, w)
        jax.eval_shape(self._all, x, p, one, w)  # what shows only in passing, like an index that varies, shows here

    def _all(self, *arguments: Any) -> list[Any]:
        x, p, one, w = jax.tree_util.tree_map(lambda leaf: _boxed(leaf, mapped=False), arguments)
        found = [*self.values(x, p), *self.first(x, p), *self.hessian(x, p, one, w), *self.gradient(x, p, one, w)]
        return [list(part.reshape(-1)) for part in found]


def written(functions: Functions, p: Any, dtype: Any) -> Written | None:
    """The functions written out, or None where the problem is too large or contains loops and the like.

    p holds the shapes of one instance's parameters.
    """
    if functions.n > TUNING.unrolled or functions.m * functions.n > TUNING.unrolled_jacobian:
        return None
    try:
        return Written(functions, p, dtype)
    except NotScalar:
        return None


@final
class ByNumbers(Evaluation):
    """Small problems: vectors are `Rows`."""

    def __init__(self, functions: Written, p: Any, axes: Any, batch: int, dtype: Any) -> None:
        self.functions, self.batch, self.dtype = functions, batch, dtype
        self.p = jax.tree_util.tree_map(_boxed, p, axes)

    def values(self, x: Vector) -> tuple[Array, Vector]:
        """(f, c)."""
        f, c = self.functions.values(_box(x), self.p)
        return self._number(f), self._rows(c)

    def first(self, x: Vector) -> tuple[Array, Vector, Vector, Any]:
        """(f, c, grad f, J)."""
        f, c, g, j = self.functions.first(_box(x), self.p)
        return self._number(f), self._rows(c), self._rows(g), [Rows(row) for row in j]

    def hessian(self, x: Vector, sf: Array, w: Vector) -> Any:
        """The lower triangle."""
        (h,) = self.functions.hessian(_box(x), self.p, _one(sf), _box(w))
        return [[h[i, j] for j in range(i + 1)] for i in range(h.shape[0])]

    def gradient(self, x: Vector, sf: Array, w: Vector) -> Vector:
        """grad(sf f + w'c)."""
        return self._rows(self.functions.gradient(_box(x), self.p, _one(sf), _box(w))[0])

    def transposed(self, jac: Any, w: Vector) -> Vector:
        """J'w."""
        n = len(jac[0])
        return Rows([_inner([row[j] for row in jac], w.entries) for j in range(n)])

    def product(self, jac: Any, d: Vector) -> Vector:
        """J d."""
        return Rows([_inner(row.entries, d.entries) for row in jac])

    def add_squares(self, hessian: Any, jac: Any, weight: Vector) -> Any:
        """H + J' diag(weight) J, lower triangle."""
        weighted = [[mul(entry, weight[i]) for entry in row.entries] for i, row in enumerate(jac)]
        return [
            [
                add(entry, _inner([row[i] for row in weighted], [row[j] for row in jac]))
                for j, entry in enumerate(entries)
            ]
            for i, entries in enumerate(hessian)
        ]

    def size(self, jac: Any) -> Array:
        """The Frobenius norm of J."""
        squares = reduce(add, [mul(entry, entry) for row in jac for entry in row.entries], 0.0)
        return jnp.sqrt(jnp.asarray(squares, self.dtype))

    def scaled_rows(self, jac: Any, factors: Vector) -> Any:
        """diag(factors) J."""
        return [Rows([mul(entry, factors[i]) for entry in row.entries]) for i, row in enumerate(jac)]

    def row_sizes(self, jac: Any) -> Vector:
        """The max norms of the rows of J."""
        zero = jnp.zeros(self.batch, self.dtype)
        return Rows([largest(row, zero) for row in jac])

    def row_squares(self, jac: Any) -> Vector:
        """The squares of the 2-norms of the rows of J."""
        return Rows([total(row * row, 0.0) for row in jac])

    def _number(self, value: Any) -> Array:
        return jnp.broadcast_to(jnp.asarray(value.reshape(-1)[0], self.dtype), (self.batch,))

    def _rows(self, numbers: Any) -> Rows:
        return Rows([self._number(entry) for entry in numbers.reshape(-1, 1)])


def _inner(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Sum of products, structural zeros left out."""
    return reduce(add, [mul(p, q) for p, q in zip(a, b, strict=True)], 0.0)


def _boxed(leaf: Array, mapped: bool) -> Any:
    """A leaf (..., batch) as an object array of arrays over the batch; one that all instances share, of numbers."""
    shape = leaf.shape[:-1] if mapped else leaf.shape
    return boxed([leaf[index] for index in np.ndindex(*shape)], shape)


def _box(v: Rows) -> Any:
    return boxed(v.entries, (len(v),))


def _one(value: Any) -> Any:
    return boxed([value], ())


@final
class ByArrays(Evaluation):
    """Problems of any size: vectors are arrays (n, batch), functions are mapped over the last axis."""

    def __init__(self, functions: Functions, p: Any, axes: Any, batch: int, dtype: Any) -> None:
        self.functions, self.p, self.batch, self.dtype = functions, p, batch, dtype
        self.axes = jax.tree_util.tree_map(lambda mapped: -1 if mapped else None, axes)

    def _mapped(self, function: Callable[..., Any], x: Array, p: Any, *others: Any) -> Any:
        axes = (-1, self.axes, *([-1] * len(others)))
        return jax.vmap(function, in_axes=axes, out_axes=-1, axis_size=self.batch)(x, p, *others)

    def values(self, x: Vector) -> tuple[Array, Vector]:
        """(f, c)."""
        f, c = self._mapped(self.functions.values, x, self.p)
        return f, c

    def first(self, x: Vector) -> tuple[Array, Vector, Vector, Any]:
        """(f, c, grad f, J)."""
        f, c, g, j = self._mapped(self.functions.first, x, self.p)
        return f, c, g, j

    def hessian(self, x: Vector, sf: Array, w: Vector) -> Any:
        """All of it."""
        return self._mapped(self.functions.hessian, x, self.p, self._all(sf), w)

    def gradient(self, x: Vector, sf: Array, w: Vector) -> Vector:
        """grad(sf f + w'c)."""
        return self._mapped(self.functions.gradient, x, self.p, self._all(sf), w)

    def _all(self, sf: Any) -> Array:
        return jnp.broadcast_to(jnp.asarray(sf, self.dtype), (self.batch,))

    def transposed(self, jac: Any, w: Vector) -> Vector:
        """J'w."""
        return jnp.sum(jac * w[:, None], axis=0)

    def product(self, jac: Any, d: Vector) -> Vector:
        """J d."""
        return jnp.sum(jac * d[None], axis=1)

    def add_squares(self, hessian: Any, jac: Any, weight: Vector) -> Any:
        """H + J' diag(weight) J."""
        return hessian + jnp.einsum("ijb,ikb->jkb", jac * weight[:, None], jac)

    def size(self, jac: Any) -> Array:
        """The Frobenius norm of J."""
        return jnp.sqrt(jnp.sum(jac * jac, axis=(0, 1)))

    def scaled_rows(self, jac: Any, factors: Vector) -> Any:
        """diag(factors) J."""
        return jac * factors[:, None]

    def row_sizes(self, jac: Any) -> Vector:
        """The max norms of the rows of J."""
        return jnp.abs(jac).max(axis=1)

    def row_squares(self, jac: Any) -> Vector:
        """The squares of the 2-norms of the rows of J."""
        return jnp.sum(jac * jac, axis=1)
