"""Making a Hessian convex where the constraints leave room: negative eigenvalues become their absolute values."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from auglag._norms import largest
from auglag.kkt import tuning
from auglag.kkt.hessian import Hessian
from auglag.kkt.lapack import eigenvectors_below, right_singular_vectors
from auglag.kkt.linear.base import Indices, block


def flipped(h: Hessian, j: Any, beta: float, free: Indices, active: Indices) -> Hessian | None:
    """H plus a low-rank correction that makes H_FF + beta J_AF'J_AF positive definite, or None if it cannot be had.

    Each negative eigenvalue is replaced by its absolute value: the step along it stays as long as its curvature says,
    where a shift of all eigenvalues would shorten steps in every direction.
    """
    t = tuning.TUNING
    if free.size > (t.eigenvalues_sparse if h.is_sparse else t.eigenvalues_dense) or free.size == 0:
        return None
    hff = h.on(free).toarray()
    jaf = block(j, active, free)
    jaf = jaf.toarray() if sparse.issparse(jaf) else jaf
    units = np.ones(free.size)
    if not jaf.size:  # without rows nothing ties the variables together but H: each is measured in its own unit
        diagonal = np.abs(np.diagonal(hff))
        units = np.sqrt(np.maximum(diagonal, t.least_unit * max(1e-8, largest(diagonal))))
        hff = hff / np.outer(units, units)
    size = max(1e-8, largest(hff))
    try:
        reduced, basis = _on_soft_directions(hff, jaf, beta, size)
        values, vectors = eigenvectors_below(reduced, t.flat * size)
    except np.linalg.LinAlgError:
        return None
    if not values.size:
        return None
    full = np.zeros((h.matrix.shape[0], values.size))
    full[free] = (vectors if basis is None else basis @ vectors) * units[:, None]
    return h.plus(full, np.maximum(np.abs(values), t.least_flipped * size) - values)


def _on_soft_directions(h: Any, j: Any, beta: float, size: float) -> tuple[Any, Any]:
    """(H + beta J'J on the directions that the rows do not hold, a basis of them).

    Rows hold a right singular vector of J where its beta sigma^2 is far above |H|: no curvature of H can matter there,
    and left in, the rounding errors of beta J'J would hide what does. For large matrices, H + beta J'J with a smaller
    beta on all directions, and None.
    """
    if not j.size:
        return h, None
    t = tuning.TUNING
    if beta * _slope_bound(j) < t.held * size:  # no direction is held, which singular values need not tell
        return h + beta * (j.T @ j), None
    if h.shape[0] > t.singular_values:
        slope = min(largest(j), 1e150) ** 2
        weight = min(beta, t.held * max(size, t.held_least_size) / max(slope, t.held_least_slope)) if slope > 0 else 0.0
        return (h + weight * (j.T @ j) if weight else h), None
    sigma, vt = right_singular_vectors(j)
    stiffness = np.zeros(h.shape[0])
    stiffness[: sigma.size] = beta * sigma**2
    soft = stiffness < t.held * size
    basis = vt[soft].T
    return basis.T @ h @ basis + np.diag(stiffness[soft]), basis


def _slope_bound(j: Any) -> float:
    """A bound on the square of the largest singular value: |J|_F^2, or |J|_1 |J|_inf where that is less."""
    entries = np.abs(j)
    return min(float(np.vdot(j, j)), float(entries.sum(0).max() * entries.sum(1).max()))


def diagonal_size(h: Hessian) -> float:
    """The largest diagonal entry in absolute value, at least 1e-8."""
    return max(1e-8, largest(h.diagonal()))


def larger_shift(shift: float, size: float) -> float:
    """The next multiple of the identity to try, for a Hessian of that size."""
    t = tuning.TUNING
    if shift < t.shift_small * size:
        return max(t.shift_growth_small * shift, t.shift_first * size)
    return t.shift_growth * shift
