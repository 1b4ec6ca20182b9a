"""A model compiled: values, first and second derivatives of all its terms, and where they go in sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from auglag._typing import Vector
from auglag.model.columns import Columns
from auglag.model.expressions import Unknown
from auglag.model.precision import double, host
from auglag.model.sums import Sums
from auglag.model.terms import Term, partials, seconds
from auglag.problems.jacobians import FixedPattern

Keys = NDArray[np.int64]


@final
class Pattern:
    """A sparse matrix of fixed pattern whose entries are sums of contributions."""

    def __init__(self, rows: Keys, columns: Keys, shape: tuple[int, int]) -> None:
        """Contribution i is added to the entry (rows[i], columns[i])."""
        keys = rows * np.int64(shape[1]) + columns
        found, places = np.unique(keys, return_inverse=True)
        self.shape, self.nnz = shape, found.size
        self.places = places.astype(np.int32)  #: contribution -> entry
        self.row, self.column = np.divmod(found, np.int64(shape[1]))
        self.indices = self.column.astype(np.int32)
        self.indptr = np.searchsorted(self.row, np.arange(shape[0] + 1)).astype(np.int32)
        self.entries = Sums(self.places, self.nnz)  #: contributions -> entries, as in a CSR matrix with sorted indices
        self._fixed = FixedPattern(self.indices, self.indptr, shape)

    def matrix(self, contributions: Vector) -> Any:
        """The matrix as a csr_array."""
        return self._fixed.matrix(self.entries(contributions))


@final
class Structure:
    """All terms of a model as pure functions of (data, parameters, x), for XLA to compile.

    Contributions come term by term, derivative by derivative, element by element; `jac` and `hess` (lower triangle)
    say where they go. `data` holds index arrays and constants: it is an argument, so that XLA does not copy it into
    the program.
    """

    def __init__(self, terms: Sequence[Term], n: int, m: int, numbers: int) -> None:
        self.n, self.m, self.numbers = n, m, numbers  #: variables, rows, and entries of all parameters
        self.terms = [term for term in terms if term.size]
        self.objectives = [i for i, term in enumerate(self.terms) if term.rows is None]
        self.jac = Pattern(*self.places(), (m, n))
        row, column, twice = _hessian_places(self.terms)
        self.hess = Pattern(row, column, (n, n))
        # `twice`: contributions that count double, because two local variables are the same one.
        rows = [term.rows.ravel() for term in self.terms if term.rows is not None]
        places = np.concatenate([np.zeros(0, np.int32), *rows]).astype(np.int32)
        data = {"terms": [_data(term) for term in self.terms], "rows": places, "twice": twice}
        self.data: dict[str, Any] = jax.device_put(data, host())
        self._twice = twice
        lower = sparse.csr_array(
            (np.arange(1, self.hess.nnz + 1), self.hess.indices, self.hess.indptr), shape=(n, n), dtype=np.int64
        )
        both = (lower + sparse.tril(lower, -1).T).tocsr()
        both.sort_indices()
        self._both = FixedPattern(both.indices, both.indptr, (n, n)), both.data - 1
        self.values = jax.jit(self.evaluate)
        self.first = jax.jit(self.differentiate)
        self.second = jax.jit(self.curve)

    @cached_property
    def columns(self) -> Columns | None:
        """The same functions for the host, by NumPy; None where an operation is left to XLA."""
        try:
            with double():
                return Columns(self.terms, self.n, self.m, self.numbers, self._twice)
        except Unknown:
            return None

    def places(self) -> tuple[Keys, Keys]:
        """Row and column of every contribution to the Jacobian."""
        return _jacobian_places(self.terms)

    def lower(self) -> tuple[Keys, Keys]:
        """Row and column of every contribution to the lower triangle of the Hessian."""
        return _hessian_places(self.terms)[:2]

    def linear_rows(self) -> NDArray[np.bool_]:
        """Rows all of whose terms have neither second derivatives nor kinks."""
        linear = np.ones(self.m, dtype=bool)
        for term in self.terms:
            if term.rows is not None and (term.kinked or not term.linear):
                linear[term.rows.ravel()] = False
        return linear

    def hessian(self, contributions: Vector) -> Any:
        """Both triangles, as a csr_array."""
        pattern, source = self._both
        return pattern.matrix(self.hess.entries(contributions).take(source))

    # ------------------------------------------------------------------------------------- pure functions, for XLA

    def evaluate(self, data: Any, par: Any, x: Any) -> tuple[Any, Any]:
        """f and c."""
        f, rows = jnp.zeros(()), [jnp.zeros(0)]
        for term, own in zip(self.terms, data["terms"], strict=True):
            values = _over(term.local, own, par, x)
            if term.rows is None:
                f += jnp.sum(values)
            else:
                rows.append(values.reshape(-1))
        return f, self._sums(data, rows)

    def _sums(self, data: Any, values: list[Any]) -> Any:
        """c from the values of all terms, in one go: on a GPU every sum of its own would be a kernel of its own."""
        return jnp.zeros(self.m).at[data["rows"]].add(jnp.concatenate(values))

    def differentiate(self, data: Any, par: Any, x: Any) -> tuple[Any, Any, Any, Any]:
        """f, its gradient, c and the contributions to the Jacobian."""
        f, gradient, rows, parts = jnp.zeros(()), jnp.zeros(self.n), [jnp.zeros(0)], []
        for term, own in zip(self.terms, data["terms"], strict=True):
            values, slopes = _over(partials(term), own, par, x)
            if term.rows is None:
                f += jnp.sum(values)
                used = np.flatnonzero(term.jac[0])
                if used.size:
                    gradient = gradient.at[own["index"][used]].add(slopes)
            else:
                rows.append(values.reshape(-1))
                parts.append(slopes.reshape(-1))
        return f, gradient, self._sums(data, rows), jnp.concatenate(parts) if parts else jnp.zeros(0)

    def curve(self, data: Any, par: Any, x: Any, y: Any, weight: Any = 1.0) -> Any:
        """Contributions to the lower triangle of the Hessian of weight f + y'c."""
        parts = []
        for term, own in zip(self.terms, data["terms"], strict=True):
            if term.linear:
                continue
            w = jnp.full((1, term.size), weight) if term.rows is None else y[own["rows"]]
            found = _over(seconds(term), own, par, x, w)
            parts.append(found.reshape(-1))
        if not parts:
            return jnp.zeros(0)
        found = jnp.concatenate(parts)
        return found.at[data["twice"]].mul(2.0) if data["twice"].size else found


def _data(term: Term) -> dict[str, Any]:
    data: dict[str, Any] = {"index": term.index.astype(np.int32), "constants": term.constants}
    data["places"] = tuple(None if p is None else p.astype(np.int32) for p in term.places)
    if term.rows is not None:
        data["rows"] = term.rows.astype(np.int32)
    return data


def _over(local: Any, own: Any, par: Any, x: Any, weights: Any = None) -> Any:
    """A local function over all elements; its outputs come first, elements last."""
    variables = [x[index] for index in own["index"]]
    numbers = [
        constant if constant is not None else par[place]
        for constant, place in zip(own["constants"], own["places"], strict=True)
    ]
    axes = ([0] * len(variables), [0 if jnp.ndim(number) else None for number in numbers])
    if weights is None:
        return jax.vmap(local, in_axes=axes, out_axes=-1)(variables, numbers)
    return jax.vmap(local, in_axes=(*axes, -1), out_axes=-1)(variables, numbers, weights)


def _jacobian_places(terms: Sequence[Term]) -> tuple[Keys, Keys]:
    rows, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for term in terms:
        if term.rows is not None:
            j, i = np.nonzero(term.jac)
            rows.append(term.rows[j].ravel())
            columns.append(term.index[i].ravel())
    return np.concatenate(rows).astype(np.int64), np.concatenate(columns).astype(np.int64)


def _hessian_places(terms: Sequence[Term]) -> tuple[Keys, Keys, NDArray[np.int32]]:
    """Rows and columns in the lower triangle, and which contributions count twice."""
    first, second, twice = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, bool)]
    for term in terms:
        for a, partners in term.pairs():
            for b in partners:
                first.append(term.index[a])
                second.append(term.index[b])
                twice.append((term.index[a] == term.index[b]) & (a != b))
    i, j = np.concatenate(first).astype(np.int64), np.concatenate(second).astype(np.int64)
    return np.maximum(i, j), np.minimum(i, j), np.flatnonzero(np.concatenate(twice)).astype(np.int32)
