"""LDL' factorisations of quasi-definite matrices [[H, J'], [J, -D]], dense or sparse, that know their inertia."""

from __future__ import annotations

from typing import Any, Protocol, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dsytrf, dsytrf_lwork, dsytrs

from auglag._typing import Vector
from auglag.kkt.hessian import Hessian
from auglag.kkt.sparse import REGULARISATION, Layout, SparseSystem

#: Dense systems with more rows than variables are condensed from this size on.
CONDENSED = 60


class Factor(Protocol):
    """A factorised symmetric matrix."""

    negative: int  #: number of negative eigenvalues; -1 where it is not known, or the matrix is singular

    def trusted(self) -> bool:
        """Whether that number can be relied on."""
        ...

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

    def trusted(self) -> bool:
        """Always: pivots are chosen."""
        return True

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

    def trusted(self) -> bool:
        """Always: pivots are chosen."""
        return True

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

    Systems of the same pattern may share a `Layout`, which spares them its analysis.
    """

    __slots__ = ("_h", "_j", "_sparse")

    def __init__(self, h: Hessian, j: Any, layout: Layout | None = None) -> None:
        self._h, self._j = h, j
        self._sparse = SparseSystem(h, j, Layout() if layout is None else layout) if h.is_sparse else None

    def pivoted(self, first: Vector | float, second: Vector | float) -> Factor | None:
        """Factors of a sparse matrix that are accurate whatever its pivots, and do not know its inertia."""
        return None if self._sparse is None else self._sparse.factor(first, second, 0.0, pivoting=True)

    def factor(self, first: Vector | float, second: Vector | float, soft: float = REGULARISATION) -> Factor:
        """The factors with `first` added to the diagonal of H and -`second` as that of the rows.

        `soft` is the least that a sparse factorisation sees of the latter; solutions are refined to what was asked for.
        """
        h, j = self._h, self._j
        m, n = j.shape
        if self._sparse is not None:
            return self._sparse.factor(first, second, soft)
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
