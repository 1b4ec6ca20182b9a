"""Arrays and Jacobians as users return them: checked, multiplied, stacked; dense, sparse or as operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from auglag._arrays import real_array
from auglag._typing import Jacobian, Vector
from auglag.errors import InputError
from auglag.problems.tuning import TUNING

_Matrix: Any = sparse.csr_array


def vector(x: Vector, size: int, what: str) -> Vector:
    """`x` as a float64 vector of this length."""
    if type(x) is not np.ndarray or x.dtype != np.float64:
        x = real_array(x, what)
    if x.shape != (size,):
        raise InputError(f"{what} must have shape ({size},), got {x.shape}")
    return x


def as_jacobian(value: Any, m: int, n: int, what: str, csr: Callable[[Any], Any] | None = None) -> Jacobian:
    """A Jacobian of shape (m, n), dense, sparse or operator; a row may be given as a vector when m = 1.

    `csr` makes a csr array of its own of a sparse matrix: `Pattern.csr`, which knows the one before.
    """
    if type(value) is np.ndarray and value.dtype == np.float64:
        if value.shape == (m, n):
            return value.copy()  # users reuse their arrays
        if m == 1 and value.shape == (n,):
            return value.reshape(1, n).copy()
    if isinstance(value, LinearOperator):
        shape: tuple[int, ...] = value.shape
    elif sparse.issparse(value):
        if np.iscomplexobj(value):
            raise InputError(f"{what} must be real, got complex values")
        value = value.tocsr().copy() if csr is None else csr(value)
        shape = value.shape
    else:
        value = real_array(value, what)
        if value.ndim <= 1 and m == 1 and value.size == n:
            value = value.reshape(1, n)
        elif value.ndim <= 1 and n == 1 and value.size == m:
            value = value.reshape(m, 1)
        shape = value.shape
    if shape != (m, n):
        raise InputError(f"{what} must have shape ({m}, {n}), got {shape}")
    return value


def transposed_product(jac: Jacobian, w: Vector) -> Vector:
    """J'w for a dense, sparse or operator J."""
    if isinstance(jac, np.ndarray):
        return np.asarray(w.dot(jac))
    if sparse.issparse(jac):
        if jac.format == "csr" and jac.nnz <= TUNING.few_entries:  # SciPy spends most of its time on making J'
            weights = jac.data * np.repeat(w, np.diff(jac.indptr))
            return np.asarray(np.bincount(jac.indices, weights, minlength=jac.shape[1]))
        return np.asarray((transpose(jac) if type(jac) is _Matrix else jac.T) @ w)
    return np.asarray(jac.rmatvec(w))


def product(jac: Jacobian, v: Vector) -> Vector:
    """J v for a dense, sparse or operator J."""
    return np.asarray(jac.dot(v) if isinstance(jac, np.ndarray) else jac @ v)


def kind(jac: Jacobian) -> str:
    """What sort of matrix it is: "dense", "sparse" or "operator"."""
    if isinstance(jac, np.ndarray):
        return "dense"
    return "operator" if isinstance(jac, LinearOperator) else "sparse" if sparse.issparse(jac) else "dense"


def dense(jac: Jacobian) -> Vector:
    """J as a dense array; an operator is applied to the unit vectors of its smaller side."""
    if isinstance(jac, np.ndarray):
        return jac
    if sparse.issparse(jac):
        return np.asarray(jac.toarray())
    m, n = jac.shape
    return np.asarray(jac @ np.eye(n)) if n <= m else np.asarray(jac.rmatmat(np.eye(m))).T


def row_norms(jac: Jacobian) -> Vector:
    """The max norm of every row; 1 for a LinearOperator, whose entries are not to be had cheaply."""
    if isinstance(jac, np.ndarray):
        return np.asarray(np.maximum.reduce(np.abs(jac), axis=1, initial=0.0))
    if sparse.issparse(jac):
        csr = as_csr(jac)
        if not csr.has_canonical_format:
            csr = sparse.csr_array(csr, copy=True)
            csr.sum_duplicates()
        norms, some = np.zeros(csr.shape[0]), np.diff(csr.indptr) > 0
        if some.any():  # rows without entries would take those of the next one
            norms[some] = np.maximum.reduceat(np.abs(csr.data[: csr.indptr[-1]]), csr.indptr[:-1][some])
        return norms
    return np.ones(jac.shape[0])


def equilibrating(jac: Any, square: Any = None) -> tuple[Vector, Vector]:
    """Factors of the rows and of the columns of a matrix with which the largest entries of all of them are near 1; with
    a square matrix beside it, those of [[square, J'], [J, 0]] (Ruiz 2001, RAL-TR-2001-034).
    """
    j = abs(jac)
    h = None if square is None else abs(square)
    rows, x = np.ones(j.shape[0]), np.ones(j.shape[1])
    for _ in range(TUNING.equilibrations):
        of_rows = row_norms(columns_times(j, x)) * rows
        of_columns = row_norms(columns_times(j.T, rows))
        if h is not None:
            of_columns = np.maximum(row_norms(columns_times(h.T, x)), of_columns)
        x, rows = x / _root(of_columns * x), rows / _root(of_rows)
    return rows, x


def _root(norms: Vector) -> Vector:
    """The square roots; 1 for rows without entries."""
    return np.asarray(np.sqrt(np.where(norms > 0.0, norms, 1.0)))


def columns_times(jac: Jacobian, factors: Vector | None) -> Jacobian:
    """J with every column multiplied by its factor."""
    if factors is None:
        return jac
    if isinstance(jac, np.ndarray):
        return jac * factors
    if sparse.issparse(jac):
        csr = as_csr(jac)
        return with_values(csr, csr.data * factors[csr.indices])
    return LinearOperator(
        jac.shape, matvec=lambda v: jac @ (factors * v.ravel()), rmatvec=lambda w: factors * jac.rmatvec(w.ravel())
    )


def same(a: Any, b: Any) -> bool:
    """Whether two arrays of indices are the same."""
    return a is b or (a.size == b.size and bool((a == b).all()))


@final
class Selection:
    """Some rows and columns of sparse matrices: where their entries are is found once for each pattern."""

    def __init__(self, rows: Any = None, columns: Any = None) -> None:
        self._rows, self._columns = rows, columns  #: None: all
        self._known: tuple[Any, ...] = ()  #: indptr and indices of the last matrix

    def of(self, matrix: Any) -> Any:
        """The part of this matrix, as csr."""
        csr = matrix if matrix.format == "csr" else _Matrix(matrix)
        pattern = (csr.indptr, csr.indices)
        if not (self._known and all(map(same, self._known, pattern))):
            numbered = _Matrix((np.arange(csr.data.size), csr.indices, csr.indptr), shape=csr.shape)
            numbered = numbered if self._rows is None else numbered[self._rows]
            self._part = numbered if self._columns is None else numbered[:, self._columns]
            self._part.has_canonical_format  # noqa: B018  sets the flags that the copies inherit
        self._known = pattern
        return with_values(self._part, csr.data[self._part.data])


def stack(parts: list[Jacobian], n: int) -> Jacobian:
    """Several Jacobians as one: dense if all are dense, sparse if some are sparse, else an operator."""
    if not parts:
        return np.zeros((0, n))
    for part in parts:
        if not isinstance(part, np.ndarray):
            break
    else:
        return np.concatenate(parts)
    if any(isinstance(part, LinearOperator) for part in parts):
        return _stacked_operator(parts, n)
    return sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in parts]))


@final
class FixedPattern:
    """Makes csr_arrays that share their indices: SciPy's constructor would cost more than an evaluation."""

    def __init__(self, indices: Any, indptr: Any, shape: tuple[int, int]) -> None:
        first = _Matrix((np.zeros(indices.size), indices, indptr), shape=shape)
        first.has_canonical_format  # noqa: B018  sets the flags that the copies inherit
        first.indices.flags.writeable = first.indptr.flags.writeable = False
        self._state: dict[str, Any] = first.__dict__

    def matrix(self, data: Vector) -> Any:
        """A matrix with these entries."""
        new = _Matrix.__new__(_Matrix)
        new.__dict__ = self._state | {"data": data}
        return new


def as_csr(matrix: Any) -> Any:
    """A sparse matrix as a csr array; one that is one already as it is, with what SciPy knows of its order."""
    return matrix if type(matrix) is _Matrix else sparse.csr_array(matrix)


def with_values(csr: Any, data: Vector) -> Any:
    """A csr array with the indices of another; SciPy's constructor would look through them again."""
    new = _Matrix.__new__(_Matrix)
    new.__dict__ = csr.__dict__ | {"data": data}
    return new


def transpose(csr: Any) -> Any:
    """The transpose of a csr array as a csc array of the same memory; SciPy's would look through the indices again."""
    new = sparse.csc_array.__new__(sparse.csc_array)
    new.__dict__ = csr.__dict__ | {"_shape": csr.shape[::-1]}
    return new


def _stacked_operator(parts: list[Jacobian], n: int) -> LinearOperator:
    ends = np.cumsum([part.shape[0] for part in parts])
    starts = np.concatenate([[0], ends[:-1]])

    def matvec(v: Vector) -> Vector:
        return np.concatenate([np.asarray(part @ v.ravel()) for part in parts])

    def rmatvec(w: Vector) -> Vector:
        w = w.ravel()
        pieces = zip(parts, starts, ends, strict=True)
        return np.asarray(sum(transposed_product(part, w[start:end]) for part, start, end in pieces))

    return LinearOperator((int(ends[-1]), n), matvec=matvec, rmatvec=rmatvec, dtype=np.float64)
