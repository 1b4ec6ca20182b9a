"""LDL' factorisations of quasi-definite matrices [[H, J'], [J, -D]], dense or sparse, that know their inertia."""

from __future__ import annotations

from typing import Any, Protocol, final

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dsytrf, dsytrf_lwork, dsytrs
from scipy.sparse.linalg import splu

from auglag._typing import Vector


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
class SparseFactor:
    """SuperLU without row exchanges: of a quasi-definite matrix that is L D L', and D has its inertia."""

    __slots__ = ("_k", "_lu", "negative")

    def __init__(self, k: Any) -> None:
        self._k = k
        self.negative = -1
        try:
            self._lu = splu(k, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        except RuntimeError:  # exactly singular
            self._lu = None
            return
        if np.array_equal(self._lu.perm_r, self._lu.perm_c):
            diagonal = self._lu.U.diagonal()
            if np.isfinite(diagonal).all() and (diagonal != 0.0).all():
                self.negative = int(np.count_nonzero(diagonal < 0))

    def solve(self, b: Vector) -> Vector:
        """K^-1 b."""
        if self._lu is None:
            return np.full(b.size, np.nan)
        x = self._lu.solve(b)
        return np.asarray(x + self._lu.solve(b - self._k @ x))


_lwork: dict[int, int] = {}


def _workspace(size: int) -> int:
    """LAPACK's best workspace, asked for once per size."""
    if size not in _lwork:
        _lwork[size] = max(1, int(dsytrf_lwork(size, lower=1)[0])) if size else 1
    return _lwork[size]


def factorise(h: Any, j: Any, first: Vector | float, second: Vector | float) -> Factor:
    """The factors of [[H + diag(first), J'], [J, -diag(second)]]."""
    m, n = j.shape
    if sparse.issparse(h):
        corner = h + sparse.diags_array(np.broadcast_to(first, n), format="csc")
        if not m:
            return SparseFactor(sparse.csc_array(corner))
        below = sparse.diags_array(-np.broadcast_to(second, m), format="csc")
        return SparseFactor(sparse.csc_array(sparse.block_array([[corner, j.T], [j, below]], format="csc")))
    k = np.zeros((n + m, n + m), order="F")
    k[:n, :n] = h
    k[n:, :n] = j
    k[:n, n:] = j.T
    flat = k.reshape(-1, order="F")
    diagonal = flat[:: n + m + 1]
    diagonal[:n] += first
    diagonal[n:] = -np.asarray(second)
    return DenseFactor(k)
