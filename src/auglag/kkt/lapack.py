"""Decompositions of small dense matrices straight from LAPACK: SciPy's checks would cost several times as much."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg.lapack import dgesdd, dgesdd_lwork, dsyevr, dsyevr_lwork

from auglag._typing import Matrix, Vector


def eigenvectors_below(matrix: Any, limit: float) -> tuple[Vector, Matrix]:
    """The eigenvalues up to `limit` of a symmetric matrix, of which the lower triangle is read, and their vectors."""
    if not limit > -np.inf:
        raise np.linalg.LinAlgError(f"no eigenvalue is at most {limit}")
    if not matrix.size:  # LAPACK refuses
        return np.zeros(0), np.zeros((0, 0))
    work, iwork = _eigen_workspace(matrix.shape[0])
    values, vectors, count, _, info = dsyevr(
        matrix, compute_v=1, range="V", lower=1, vl=-np.inf, vu=limit, lwork=work, liwork=iwork
    )
    if info:
        raise np.linalg.LinAlgError(f"dsyevr returned {info}")
    return values[:count], vectors[:, :count]


def right_singular_vectors(matrix: Any, *, complete: bool = True) -> tuple[Vector, Matrix]:
    """The singular values, and right singular vectors as rows: all, or only as many as there are singular values.

    Those of a matrix with more rows than columns are those of its triangular factor: LAPACK would make a square matrix
    of left singular vectors, which nobody asked for.
    """
    if matrix.shape[0] > matrix.shape[1]:
        matrix = np.linalg.qr(matrix, mode="r")
    work = _singular_workspace(*matrix.shape, complete)
    _, sigma, rows, info = dgesdd(matrix, compute_uv=1, full_matrices=complete, lwork=work)
    if info:
        raise np.linalg.LinAlgError(f"dgesdd returned {info}")
    return sigma, rows


@lru_cache(maxsize=256)
def _eigen_workspace(n: int) -> tuple[int, int]:
    work, iwork, _ = dsyevr_lwork(n, lower=1)
    return int(work), int(iwork)


@lru_cache(maxsize=256)
def _singular_workspace(m: int, n: int, complete: bool) -> int:
    return int(dgesdd_lwork(m, n, compute_uv=1, full_matrices=complete)[0])
