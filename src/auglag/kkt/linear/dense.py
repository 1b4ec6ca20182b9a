"""Dense KKT matrices by LAPACK: Bunch-Kaufman, or Cholesky of the condensed matrix where rows outnumber variables."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dsytrf, dsytrf_lwork, dsytrs

from auglag._norms import finite, largest
from auglag._typing import Vector
from auglag.kkt import tuning
from auglag.kkt.hessian import Hessian
from auglag.kkt.linear.base import Factor, Indices, LinearSolver, System, block


@final
class Dense(LinearSolver):
    """LAPACK on NumPy arrays."""

    name: ClassVar[str] = "dense"
    is_sparse: ClassVar[bool] = False

    def system(self, h: Hessian, j: Any, analysis: Any) -> System:
        return DenseSystem(h.matrix, j)

    def part(self, h: Hessian, j: Any, free: Indices, active: Indices, analysis: Any) -> System:
        return DenseSystem(block(h.matrix, free, free), block(j, active, free))


@final
class DenseSystem(System):
    """[[H, J'], [J, 0]] as two arrays."""

    __slots__ = ("_h", "_j")

    def __init__(self, h: Any, j: Any) -> None:
        self._h, self._j = h, j

    def factor(self, first: Vector | float, second: Vector | float, soft: float | None = None) -> Factor:
        """Condensed where that makes the matrix much smaller; pivots are chosen, so that `soft` is of no use."""
        m, n = self._j.shape
        if m > n > 0 and n + m > tuning.TUNING.condensed_from:
            corner = self._h.copy()
            corner.reshape(-1)[:: n + 1] += first
            return CondensedFactor(corner, self._j, np.broadcast_to(second, m))
        return DenseFactor(_full(self._h, self._j, first, second))


@final
class DenseFactor(Factor):
    """LAPACK's Bunch-Kaufman factorisation K = P L D L' P' with 1 x 1 and 2 x 2 blocks in D."""

    __slots__ = ("_k", "_ldl", "_pivots")

    def __init__(self, k: Any) -> None:
        self._k = k
        self._ldl, self._pivots, self.negative = bunch_kaufman(k)

    def trusted(self) -> bool:
        """Always: pivots are chosen."""
        return True

    def solve(self, b: Vector) -> Vector:
        x = dsytrs(self._ldl, self._pivots, b, lower=1)[0]
        x += dsytrs(self._ldl, self._pivots, b - self._k.dot(x), lower=1)[0]
        return np.asarray(x)

    @property
    def fill(self) -> int:
        return triangle_size(self._k.shape[0])


@final
class CondensedFactor(Factor):
    """Cholesky factors of H + J'D^-1 J for many rows and few variables; refined until K x = b is solved.

    If they exist K has m negative eigenvalues; if not, their number is not known. The condensed matrix loses digits
    where D is small, so that a residual that refinement does not bring down is answered by factorising K after all.
    """

    __slots__ = ("_cholesky", "_d", "_full", "_h", "_j")

    def __init__(self, h: Any, j: Any, d: Vector) -> None:
        self._h, self._j, self._d = h, j, d
        self._full: DenseFactor | None = None
        with np.errstate(over="ignore", invalid="ignore"):
            matrix = h + (j.T / d) @ j
        self._cholesky, info = dpotrf(matrix, lower=1)
        self.negative = j.shape[0] if info == 0 and finite(self._cholesky.diagonal()) else None

    def trusted(self) -> bool:
        """Always: positive definite matrices need no pivots."""
        return True

    def solve(self, b: Vector) -> Vector:
        if self._full is not None:
            return self._full.solve(b)
        n, t = self._h.shape[0], tuning.TUNING
        x, r = np.zeros(b.size), b
        h, j, d = self._h, self._j, self._d
        transposed, x1, x2 = j.T, x[:n], x[n:]
        target = t.condensed_residual * largest(b)
        for _ in range(t.condensed_refinements):
            step = dpotrs(self._cholesky, r[:n] + transposed.dot(r[n:] / d), lower=1)[0]
            x1 += step
            x2 += (j.dot(step) - r[n:]) / d
            r = np.concatenate((b[:n] - h.dot(x1) - transposed.dot(x2), b[n:] - j.dot(x1) + d * x2))
            error = largest(r)
            if error <= target:
                return x
        if error > t.condensed_poor * target:
            self._full = DenseFactor(_full(self._h, self._j, 0.0, self._d))
            return self._full.solve(b)
        return x

    @property
    def fill(self) -> int:
        return triangle_size(self._h.shape[0])


def triangle_size(size: int) -> int:
    """Entries of a triangle with its diagonal."""
    return size * (size + 1) // 2


def bunch_kaufman(k: Any, *, lower: bool = True) -> tuple[Any, Any, int | None]:
    """(L and D, pivots, number of negative eigenvalues) of a matrix given by one triangle; None where that failed."""
    size = k.shape[0]
    factors, pivots, info = dsytrf(k, lower=int(lower), lwork=_workspace(size))
    diagonal = factors.diagonal()
    single = pivots > 0
    alone = np.count_nonzero(single)
    below = diagonal < 0.0
    ones = int(np.count_nonzero(below if alone == size else below & single))
    # A 2 x 2 block has one eigenvalue of each sign. A pivot that is 0 is reported by LAPACK.
    return factors, pivots, ones + (size - alone) // 2 if info == 0 and finite(diagonal) else None


@cache
def _workspace(size: int) -> int:
    """LAPACK's best workspace, asked for once per size."""
    return max(1, int(dsytrf_lwork(size, lower=1)[0])) if size else 1


def _full(h: Any, j: Any, first: Vector | float, second: Vector | float) -> Any:
    """K as one array."""
    m, n = j.shape
    k = np.zeros((n + m, n + m), order="F")
    k[:n, :n] = h
    k[n:, :n] = j
    k[:n, n:] = j.T
    diagonal = k.T.reshape(-1)[:: n + m + 1]
    diagonal[:n] += first
    diagonal[n:] = -second
    return k
