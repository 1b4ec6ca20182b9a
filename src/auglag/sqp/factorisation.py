"""LDL' factorisations of quasi-definite matrices [[H, J'], [J, -D]], dense or sparse, that know their inertia."""

from __future__ import annotations

from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.lapack import dpotrf, dpotrs, dsytrf, dsytrf_lwork, dsytrs
from scipy.sparse.linalg import splu

from auglag._typing import Vector
from auglag.sqp.hessian import Hessian

#: Dense systems with more rows than variables are condensed from this size on.
CONDENSED = 60
#: Added to the diagonal of sparse systems before they are factorised, and the most steps to take it back.
REGULARISATION = 1e-9
REFINEMENTS = 8


class Factor(Protocol):
    """A factorised symmetric matrix."""

    negative: int  #: number of negative eigenvalues; -1 where it is not known, or the matrix is singular

    def solve(self, b: Vector) -> Vector:
        """The solution of K x = b, with one step of iterative refinement."""
        ...


@final
class DenseFactor:
    """LAPACK's Bunch-Kaufman factorisation."""

    __slots__ = ("_k", "_ldl", "_pivots", "negative")

    def __init__(self, k: Any) -> None:
        self._k = k
        size = k.shape[0]
        work = _workspace(size)
        self._ldl, self._pivots, info = dsytrf(k, lower=1, lwork=work)
        diagonal = np.diagonal(self._ldl)
        single = self._pivots > 0
        ones = diagonal[single]
        self.negative = int(np.count_nonzero(ones < 0)) + int(size - np.count_nonzero(single)) // 2
        if info > 0 or (ones == 0).any() or not np.isfinite(diagonal).all():
            self.negative = -1

    def solve(self, b: Vector) -> Vector:
        """K^-1 b."""
        x = dsytrs(self._ldl, self._pivots, b, lower=1)[0]
        x += dsytrs(self._ldl, self._pivots, b - self._k @ x, lower=1)[0]
        return np.asarray(x)


@final
class CondensedFactor:
    """Cholesky factors of H + J'D^-1 J for many rows and few variables; refined until the full system is solved.

    The condensed matrix loses digits where D is small, so that a residual that refinement does not bring down is
    answered by factorising the full system after all.
    """

    __slots__ = ("_cholesky", "_d", "_full", "_h", "_j", "negative")

    def __init__(self, h: Any, j: Any, d: Vector) -> None:
        self._h, self._j, self._d = h, j, d
        self._full: DenseFactor | None = None
        with np.errstate(over="ignore", invalid="ignore"):
            matrix = h + (j.T / d) @ j
        self._cholesky, info = dpotrf(matrix, lower=1)
        self.negative = j.shape[0] if info == 0 and np.isfinite(self._cholesky.diagonal()).all() else -1

    def solve(self, b: Vector) -> Vector:
        """K^-1 b."""
        if self._full is not None:
            return self._full.solve(b)
        n = self._h.shape[0]
        x, r = np.zeros(b.size), b
        target = 1e-12 * float(np.max(np.abs(b), initial=0.0))
        for _ in range(4):
            step = dpotrs(self._cholesky, r[:n] + self._j.T @ (r[n:] / self._d), lower=1)[0]
            x[:n] += step
            x[n:] += (self._j @ step - r[n:]) / self._d
            r = np.concatenate([b[:n] - self._h @ x[:n] - self._j.T @ x[n:], b[n:] - self._j @ x[:n] + self._d * x[n:]])
            error = float(np.max(np.abs(r), initial=0.0))
            if error <= target:
                return x
        if error > 1e3 * target:
            self._full = DenseFactor(_full(self._h, self._j, 0.0, self._d))
            return self._full.solve(b)
        return x


@final
class SparseFactor:
    """SuperLU without row exchanges: of a quasi-definite matrix that is L D L', and D has its inertia.

    Without exchanges tiny pivots would be fatal, so that a little is added to the diagonal, with the sign it should
    have, and taken back by iterative refinement.
    """

    __slots__ = ("_k", "_lu", "_size", "negative")

    def __init__(self, k: Any, diagonal: NDArray[np.intp], n: int, size: int, extra: int) -> None:
        """K has n columns of H and its diagonal at `diagonal` in its data.

        Its first `size` rows are wanted; `extra` negative eigenvalues belong to the others.
        """
        self._k, self._size = k, size
        self.negative = -1
        signs = np.where(np.arange(k.shape[0]) < n, REGULARISATION, -REGULARISATION)
        signs[size:] = 0.0
        regular = k.copy()
        regular.data[diagonal] += signs
        try:
            self._lu = splu(
                regular,
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError:  # exactly singular
            self._lu = None
            return
        if np.array_equal(self._lu.perm_r, self._lu.perm_c):
            diagonal = self._lu.U.diagonal()
            if np.isfinite(diagonal).all() and (diagonal != 0.0).all():
                self.negative = int(np.count_nonzero(diagonal < 0)) - extra

    def solve(self, b: Vector) -> Vector:
        """K^-1 b, refined as long as that helps."""
        if self._lu is None:
            return np.full(b.size, np.nan)
        b = np.concatenate([b, np.zeros(self._k.shape[0] - b.size)])
        x, error = np.zeros(b.size), float(np.max(np.abs(b), initial=0.0))
        target, residual = 1e-14 * error, b
        for _ in range(REFINEMENTS):
            trial = x + self._lu.solve(residual)
            residual = b - self._k @ trial
            now = float(np.max(np.abs(residual), initial=0.0))
            if not now < error:
                break
            x, error = trial, now
            if error <= target:
                break
        return x[: self._size]


_lwork: dict[int, int] = {}


def _workspace(size: int) -> int:
    """LAPACK's best workspace, asked for once per size."""
    if size not in _lwork:
        _lwork[size] = max(1, int(dsytrf_lwork(size, lower=1)[0])) if size else 1
    return _lwork[size]


def factorise(h: Hessian, j: Any, first: Vector | float, second: Vector | float) -> Factor:
    """The factors of [[H + diag(first), J'], [J, -diag(second)]]."""
    return System(h, j).factor(first, second)


@final
class System:
    """[[H, J'], [J, 0]], to be factorised with various diagonals; a sparse one is assembled once.

    Rank-one terms c v v' of a sparse H become rows v' with -1/c on the diagonal: eliminating them gives the terms back.
    """

    __slots__ = ("_diagonal", "_h", "_j", "_k", "_terms")

    def __init__(self, h: Hessian, j: Any) -> None:
        self._h, self._j = h, j
        if h.is_sparse:
            self._assemble()

    def _assemble(self) -> None:
        """The sparse matrix with every entry of its diagonal there, and where they are."""
        h, j = self._h.matrix.tocoo(), self._j.tocoo()
        (m, n), terms = self._j.shape, np.zeros((0, self._j.shape[1]))
        self._terms = np.zeros(0)
        if self._h.v is not None and self._h.c is not None:
            terms, self._terms = self._h.v.T, self._h.c
        v = sparse.coo_array(terms)
        size = n + m + terms.shape[0]
        below, left = np.concatenate([n + j.row, n + m + v.row]), np.concatenate([j.col, v.col])
        data, every = np.concatenate([j.data, v.data]), np.arange(size)
        entries = np.concatenate([h.data, data, data, np.zeros(size)])
        places = np.concatenate([h.row, below, left, every]), np.concatenate([h.col, left, below, every])
        self._k = sparse.coo_array((entries, places), shape=(size, size)).tocsc()
        columns = np.repeat(every, np.diff(self._k.indptr))
        self._diagonal = np.flatnonzero(self._k.indices == columns)

    def factor(self, first: Vector | float, second: Vector | float) -> Factor:
        """The factors with `first` added to the diagonal of H and -`second` as that of the rows."""
        h, j = self._h, self._j
        m, n = j.shape
        if h.is_sparse:
            added = np.concatenate([np.broadcast_to(first, n), -np.broadcast_to(second, m), -1.0 / self._terms])
            k = self._k.copy()
            k.data[self._diagonal] += added
            return SparseFactor(k, self._diagonal, n, n + m, int(np.count_nonzero(self._terms > 0)))
        if m > n > 0 and n + m > CONDENSED:
            corner = h.matrix.copy()
            corner.reshape(-1)[:: n + 1] += first
            return CondensedFactor(corner, j, np.broadcast_to(second, m))
        return DenseFactor(_full(h.matrix, j, first, second))


def _full(h: Any, j: Any, first: Vector | float, second: Vector | float) -> Any:
    """The matrix, dense."""
    m, n = j.shape
    k = np.zeros((n + m, n + m), order="F")
    k[:n, :n] = h
    k[n:, :n] = j
    k[:n, n:] = j.T
    flat = k.reshape(-1, order="F")
    diagonal = flat[:: n + m + 1]
    diagonal[:n] += first
    diagonal[n:] = -np.asarray(second)
    return k
