"""Units in which proximal terms are measured: those of each variable and of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.large.sides import Sides
from auglag.kkt.hessian import Hessian
from auglag.problems.jacobians import row_norms


@final
@dataclass(frozen=True, slots=True)
class Proximal:
    """Factors of the diagonals of variables and rows.

    A variable that is measured in units 1e4 times as large has entries of J that are 1e4 times as large, and curvature
    1e8 times: a term of 1e-7 would then be nothing, and a shift of 1e-4 no shift. With small units it would be the
    other way round. The same holds for rows: below a row of 1e-6, a diagonal of 1e-8 would let everything pass.
    """

    v: Vector
    rows: Vector

    @staticmethod
    def of(sides: Sides, h: Hessian, j: Any) -> Proximal:
        """From the derivatives at one point: the squares of the largest entries of rows, and of columns beside them."""
        t = tuning.TUNING
        rows = row_norms(j) if sides.m else np.zeros(0)
        rows = np.where(rows > 0.0, np.clip(rows, t.least_row, 1.0), 1.0)
        columns = np.sqrt(row_norms(h.matrix))
        if sides.m:
            columns = np.maximum(columns, row_norms(sparse.csr_array((sparse.diags_array(1.0 / rows) @ j).T)))
        v = np.ones(sides.size)
        v[: sides.n] = np.where(columns > 0.0, np.clip(columns, t.least_variable, t.largest_variable), 1.0)
        return Proximal(v**2, rows**2)
