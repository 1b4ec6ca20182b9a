"""Making a Hessian convex where the constraints leave room, by turning negative curvature around."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh, svd

from auglag.kkt.hessian import Hessian

#: Up to so many free variables eigenvalues are computed; beyond it the Hessian is shifted. Beside sparse factors, which
#: cost little, eigenvalues are dear.
EIGENVALUES, BESIDE_SPARSE = 700, 200
#: Eigenvalues below this multiple of |H| count as not positive; turned ones are at least the second multiple.
FLAT, LEAST = 1e-9, 1e-7
#: A direction in which the penalty is so many times stiffer than |H| is held by the rows. Up to so many variables the
#: directions are told apart by singular values.
HELD, SINGULAR_VALUES = 1e4, 300


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
    units = np.ones(free.size)
    if not jaf.size:  # without rows nothing ties the variables together but H: each is measured in its own unit
        diagonal = np.abs(np.diagonal(hff))
        units = np.sqrt(np.maximum(diagonal, 1e-8 * max(1e-8, float(np.max(diagonal, initial=0.0)))))
        hff = hff / np.outer(units, units)
    size = max(1e-8, float(np.max(np.abs(hff), initial=0.0)))
    try:
        reduced, basis = _on_soft_directions(hff, jaf, beta, size)
        limit = FLAT * floor * size
        values, vectors = eigh(reduced, subset_by_value=(-np.inf, limit), driver="evr", check_finite=False)
    except (np.linalg.LinAlgError, ValueError):
        return None
    if not values.size:
        return None
    full = np.zeros((h.matrix.shape[0], values.size))
    full[free] = (vectors if basis is None else basis @ vectors) * units[:, None]
    return h.plus(full, np.maximum(np.abs(values), LEAST * floor * size) - values)


def _on_soft_directions(h: Any, j: Any, beta: float, size: float) -> tuple[Any, Any]:
    """(H + beta J'J on the directions that the rows do not hold, a basis of them).

    Rows hold a right singular vector of J where its beta sigma^2 is far above |H|: no curvature of H can matter there,
    and left in, beta J'J would drown what does. Of large matrices, all directions with a smaller beta.
    """
    if not j.size:
        return h, None
    if h.shape[0] > SINGULAR_VALUES:
        slope = min(float(np.max(np.abs(j), initial=0.0)), 1e150) ** 2
        weight = min(beta, HELD * max(size, 1e-2) / max(slope, 1e-8)) if slope > 0 else 0.0
        return (h + weight * (j.T @ j) if weight else h), None
    _, sigma, vt = svd(j, check_finite=False)
    stiffness = np.zeros(h.shape[0])
    stiffness[: sigma.size] = beta * sigma**2
    soft = stiffness < HELD * size
    basis = vt[soft].T
    return basis.T @ h @ basis + np.diag(stiffness[soft]), basis


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
