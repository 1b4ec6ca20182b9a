"""Making a Hessian convex where the constraints leave room, by turning negative curvature around."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from auglag.sqp.hessian import Hessian

#: Up to so many free variables eigenvalues are computed; beyond it the Hessian is shifted. Beside sparse factors, which
#: cost little, eigenvalues are dear.
EIGENVALUES, BESIDE_SPARSE = 700, 200
#: Eigenvalues below this multiple of |H| count as not positive; turned ones are at least the second multiple.
FLAT, LEAST = 1e-9, 1e-7


def flipped(
    h: Hessian, j: Any, beta: float, free: NDArray[np.intp], active: NDArray[np.intp], floor: float = 1.0
) -> Hessian | None:
    """H plus a low-rank correction that makes H_FF + beta J_AF'J_AF positive definite, or None if it cannot be had.

    Each negative eigenvalue is replaced by its absolute value: the step along it stays as long as its curvature says,
    where a shift of all eigenvalues would shorten steps in every direction.
    """
    if free.size > (BESIDE_SPARSE if h.is_sparse else EIGENVALUES) or free.size == 0:
        return None
    hff = h.on(free).toarray()
    jaf = _block(j, active, free)
    size = max(1e-8, float(np.max(np.abs(hff), initial=0.0)))
    slope = min(float(np.max(np.abs(jaf), initial=0.0)), 1e150) ** 2
    weight = min(beta, 1e4 * max(size, 1e-2) / max(slope, 1e-8)) if slope > 0 else 0.0
    matrix = hff + weight * (jaf.T @ jaf) if weight else hff
    try:
        values, vectors = eigh(matrix, subset_by_value=(-np.inf, FLAT * floor * size), driver="evr", check_finite=False)
    except np.linalg.LinAlgError:
        return None
    if not values.size:
        return None
    full = np.zeros((h.matrix.shape[0], values.size))
    full[free] = vectors
    return h.plus(full, np.maximum(np.abs(values), LEAST * floor * size) - values)


def _block(matrix: Any, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Any:
    if sparse.issparse(matrix):
        return matrix[rows][:, columns].toarray()
    return matrix[np.ix_(rows, columns)]


def diagonal_size(h: Hessian) -> float:
    """The largest diagonal entry in absolute value, at least 1e-8."""
    return max(1e-8, float(np.max(np.abs(h.diagonal()), initial=0.0)))


def larger_shift(shift: float, size: float) -> float:
    """The next multiple of the identity to try: quickly up from almost nothing."""
    return max(4.0 * shift, 1e-8 * size) if shift < 1e-4 * size else 8.0 * shift
