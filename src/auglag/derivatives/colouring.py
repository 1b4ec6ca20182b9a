"""Which columns of a sparse Jacobian can be differenced together: greedy colouring of the column intersection graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from auglag.errors import InputError


def colour(sparsity: Any) -> NDArray[np.intp]:
    """The group of each column, such that the columns of one group share no row.

    Greedy colouring of the column intersection graph, in the given order and with the longest columns first; the one
    with fewer groups. Bit k of a row's mask says that group k has an entry in that row.
    """
    pattern = sparse.csc_array(_pattern(sparsity))
    columns = [rows.tolist() for rows in np.split(pattern.indices, pattern.indptr[1:-1])] if pattern.shape[1] else []
    best: NDArray[np.intp] | None = None
    for order in (np.arange(len(columns)), np.argsort(-np.diff(pattern.indptr), kind="stable")):
        masks = [0] * pattern.shape[0]
        group = np.zeros(len(columns), dtype=np.intp)
        for j in order.tolist():
            taken = 0
            for i in columns[j]:
                taken |= masks[i]
            bit = ~taken & (taken + 1)  # the lowest bit that is not taken
            group[j] = bit.bit_length() - 1
            for i in columns[j]:
                masks[i] |= bit
        if best is None or group.max(initial=0) < best.max(initial=0):
            best = group
    return np.asarray(best)


def _pattern(structure: Any) -> sparse.csr_array:
    """The stored entries of a sparse structure, the nonzeros of a dense one, as ones with sorted indices."""
    given: Any = structure if sparse.issparse(structure) else np.atleast_2d(np.asarray(structure)) != 0
    pattern = sparse.csr_array(given, copy=True)
    pattern.sum_duplicates()
    return sparse.csr_array((np.ones(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape)


def structure(sparsity: Any, shape: tuple[int, int]) -> tuple[sparse.csr_array, NDArray[np.intp]]:
    """The pattern, and the group of each column; coloured here unless the user gave the groups too."""
    structure, group = sparsity if isinstance(sparsity, tuple) else (sparsity, None)
    pattern = _pattern(structure)
    if pattern.shape != shape:
        raise InputError(f"sparsity must have the shape of the Jacobian, {shape}, got {pattern.shape}")
    group = colour(pattern) if group is None else np.asarray(group, dtype=np.intp)
    if group.shape != shape[1:]:
        raise InputError(f"sparsity must give one group for each of {shape[1]} columns, got shape {group.shape}")
    return pattern, group
