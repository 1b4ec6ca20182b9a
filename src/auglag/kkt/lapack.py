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


def right_singular_vectors(matrix: Any) -> tuple[Vector, Matrix]:
    """The singular values, and all right singular vectors as rows."""
    _, sigma, rows, info = dgesdd(matrix, compute_uv=1, full_matrices=1, lwork=_singular_workspace(*matrix.shape))
    if info:
        raise np.linalg.LinAlgError(f"dgesdd returned {info}")
    return sigma, rows


def row_space(matrix: Any) -> tuple[Vector, Matrix]:
    """The singular values, and their right singular vectors as rows."""
    work = _singular_workspace(*matrix.shape, full=0)
    _, sigma, rows, info = dgesdd(matrix, compute_uv=1, full_matrices=0, lwork=work)
    if info:
        raise np.linalg.LinAlgError(f"dgesdd returned {info}")
    return sigma, rows


@lru_cache(maxsize=256)
def _eigen_workspace(n: int) -> tuple[int, int]:
    work, iwork, _ = dsyevr_lwork(n, lower=1)
    return int(work), int(iwork)


@lru_cache(maxsize=256)
def _singular_workspace(m: int, n: int, full: int = 1) -> int:
    return int(dgesdd_lwork(m, n, compute_uv=1, full_matrices=full)[0])
