"""The pattern of the KKT matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from auglag.model.structure import Pattern, Structure


def kkt_pattern(structure: Structure, fixed: NDArray[np.bool_]) -> tuple[Pattern, Any]:
    """The upper triangle of the KKT matrix without fixed variables, and the place of every contribution in it.

    Contributions are those of H, of J, and the diagonals of variables and rows. What belongs to fixed variables gets a
    place behind the last, where JAX drops it.
    """
    n, m = structure.n, structure.m
    lower_row, lower_column = structure.lower()
    jac_row, jac_column = structure.places()
    diagonal = np.arange(n + m, dtype=np.int64)
    row = np.concatenate([lower_column, jac_column, diagonal])
    column = np.concatenate([lower_row, n + jac_row, diagonal])
    out = np.concatenate([fixed[lower_row] | fixed[lower_column], fixed[jac_column], np.zeros(n + m, dtype=bool)])
    kept = np.flatnonzero(~out)
    pattern = Pattern(row[kept], column[kept], (n + m, n + m))
    places = np.full(row.size, pattern.nnz, dtype=np.int32)
    places[kept] = pattern.places
    return pattern, places
