"""Dense Jacobians of many variables that are nearly all zeros, made sparse: the rest of a run then costs far less.

What decides are the Jacobians at the start and at a point close by, since the start is often special (all variables 0,
or equal). An entry that is other than zero for the first time later on is added to the pattern, so that no value is
ever lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from auglag._typing import Matrix, Vector
from auglag.problems.jacobians import FixedPattern
from auglag.problems.tuning import TUNING


def thin(matrix: Any) -> bool:
    """Whether a matrix is nearly all zeros, or comes as sparse or as products; a dense one must be finite."""
    if not isinstance(matrix, np.ndarray):
        return True
    few = np.count_nonzero(matrix) <= TUNING.thin_share * matrix.size
    return bool(few and np.isfinite(matrix).all())


@final
class Thinned:
    """The entries of dense Jacobians that were ever other than zero."""

    def __init__(self, seen: Iterable[Matrix]) -> None:
        self._seen: NDArray[np.bool_] = np.logical_or.reduce([matrix != 0.0 for matrix in seen])
        self._settle()

    def _settle(self) -> None:
        m, n = self._seen.shape
        rows, columns = np.nonzero(self._seen)
        starts = np.searchsorted(rows, np.arange(m + 1))
        self._places = rows * n + columns
        self._fixed = FixedPattern(columns.astype(np.int32), starts.astype(np.int32), (m, n))

    def of(self, jac: Matrix) -> Any:
        """The Jacobian as a csr array."""
        values: Vector = jac.ravel()[self._places]
        if np.count_nonzero(values) != np.count_nonzero(jac):
            if not np.isfinite(jac).all():  # undefined here: nothing to learn a pattern from
                return sparse.csr_array(jac)
            self._seen = self._seen | (jac != 0.0)
            self._settle()
            values = jac.ravel()[self._places]
        return self._fixed.matrix(values)
