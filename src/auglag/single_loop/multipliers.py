"""Multipliers for the point where a round ends: the weights of the last step, fitted to the gradient over all rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from auglag._typing import Matrix, Vector
from auglag.single_loop.tuning import TUNING


def rows_to_fit(y: Vector) -> NDArray[np.intp]:
    """The constraints whose multipliers are worth fitting: all, or of very many those that have one."""
    rows = np.arange(y.size) if y.size <= TUNING.most_fitted else np.flatnonzero(y)
    return rows if rows.size <= TUNING.most_fitted else rows[:0]


def fitted_to(jac: Matrix, gradient: Vector, y: Vector, c: Vector, lower: Vector, upper: Vector) -> Vector:
    """`fitted` with J and the gradient of L themselves, for the constraints of `rows_to_fit`."""
    few, found = rows_to_fit(y), y.copy()
    J = jac[few]
    found[few] = fitted(J @ J.T, J @ gradient, y[few], c[few], lower[few], upper[few])
    return found


def fitted(gram: Matrix, slope: Vector, y: Vector, c: Vector, lower: Vector, upper: Vector) -> Vector:
    """The multipliers near y with nearly the smallest R at a point, by what is known of its Jacobian J.

    With the gradient g = grad f + J'y there, `gram` = J J' and `slope` = J g, they minimise ||g + J'd||^2 + sum of
    (distance of c to the side that y + d pulls to)^2 (y + d)^2 / 4 over d, where y + d has the sign that its constraint
    allows. (R itself has the smaller of that product and the distance.)
    """
    m = y.size
    if not m or not (np.isfinite(gram).all() and np.isfinite(slope).all()):
        return y
    values, vectors = np.linalg.eigh(gram)
    kept = values > values[-1] * m * np.finfo(float).eps
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T  # root' root = gram
    target = (vectors[:, kept].T @ slope) / np.sqrt(values[kept])
    # Columns: the positive part of y + d, then the negative one.
    sides = [(i, 1.0, abs(upper[i] - c[i])) for i in range(m) if upper[i] < math.inf]
    sides += [(i, -1.0, abs(c[i] - lower[i])) for i in range(m) if lower[i] > -math.inf]
    if not sides:  # no constraint has a side
        return np.zeros(m)
    index, sign, gap = (np.array(part) for part in zip(*sides, strict=True))
    columns = root[:, index.astype(int)] * sign
    matrix = np.vstack([columns, np.diag(0.5 * gap)])
    try:
        found = nnls(matrix, np.concatenate([root @ y - target, np.zeros(len(sides))]))[0]
    except RuntimeError:  # too many steps: what is known already will do
        return y
    result = np.zeros(m)
    np.add.at(result, index.astype(int), sign * found)
    return result
