"""Linear solvers for the device loop: a pattern analysed once, values factorised again and again.

`Sparse` is all that the loop asks for. On the CPU qdldl does it, and SuperLU where qdldl is not installed; on a GPU
cuDSS (`cudss`). All of them factorise without pivoting, which the matrices' quasi-definiteness allows.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any, Protocol, final

import jax
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from auglag.errors import InputError
from auglag.model.precision import host
from auglag.model.structure import Pattern


class Sparse(Protocol):
    """Symmetric matrices of one pattern, whose upper triangle is given row by row."""

    name: str
    analysis: float  #: seconds that the analysis of the pattern took

    def factor(self, values: Any) -> tuple[int, int] | None:
        """Factorise; the numbers of positive and negative eigenvalues, None where the factorisation broke down."""

    def solve(self, right: Any) -> Any:
        """The solution, without refinement, for one right side, or for several that are the rows of an array."""


@final
class Qdldl:
    """L D L' by qdldl, on the CPU."""

    name = "qdldl"

    def __init__(self, pattern: Pattern) -> None:
        import qdldl

        self._qdldl, self.analysis = qdldl, 0.0
        self._solver: Any = None
        numbered = sparse.csr_array((np.arange(1, pattern.nnz + 1), pattern.indices, pattern.indptr), pattern.shape)
        self._matrix = numbered.tocsc()
        self._matrix.sort_indices()
        self._order = self._matrix.data - 1
        self._matrix = sparse.csc_matrix(self._matrix, dtype=np.float64)

    def factor(self, values: Any) -> tuple[int, int] | None:
        self._matrix.data = np.asarray(values)[self._order]
        start = time.perf_counter()
        try:
            if self._solver is None:
                self._solver = self._qdldl.Solver(self._matrix, upper=True)
                self.analysis = time.perf_counter() - start
            else:
                self._solver.update(self._matrix, upper=True)
        except Exception:  # a pivot that is exactly zero; the binding raises exceptions of several kinds
            self._solver = None
            return None
        pivots = self._solver.factors()[1]
        if not (np.isfinite(pivots).all() and pivots.all()):  # it stops at a pivot that is zero
            return None
        return int((pivots > 0).sum()), int((pivots < 0).sum())

    def solve(self, right: Any) -> Any:
        return _each(self._solver.solve, right)


@final
class SuperLU:
    """L U without row exchanges by SuperLU, on the CPU: what SciPy has."""

    name = "superlu"

    def __init__(self, pattern: Pattern) -> None:
        self.analysis = 0.0
        index = np.arange(pattern.nnz)
        off = pattern.row != pattern.column
        row = np.concatenate([pattern.row, pattern.column[off]])
        column = np.concatenate([pattern.column, pattern.row[off]])
        numbered = sparse.coo_array((np.concatenate([index, index[off]]) + 1, (row, column)), pattern.shape).tocsc()
        numbered.sort_indices()
        self._order = numbered.data - 1
        self._matrix = sparse.csc_array((np.zeros(row.size), numbered.indices, numbered.indptr), pattern.shape)

    def factor(self, values: Any) -> tuple[int, int] | None:
        self._matrix.data = np.asarray(values)[self._order]
        try:
            self._lu = splu(
                self._matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
            )
        except RuntimeError:  # exactly singular
            return None
        pivots = self._lu.U.diagonal()
        if not np.isfinite(pivots).all() or not np.array_equal(self._lu.perm_r, self._lu.perm_c):
            return None
        return int((pivots > 0).sum()), int((pivots < 0).sum())

    def solve(self, right: Any) -> Any:
        return _each(self._lu.solve, right)


def _each(solve: Any, right: Any) -> Any:
    right = np.asarray(right)
    return jax.device_put(solve(right) if right.ndim == 1 else np.stack([solve(row) for row in right]), host())


def chosen(pattern: Pattern, device: str, name: str | None = None, *, deterministic: bool = False) -> Sparse:
    """The solver for a device ("cpu" or "gpu"), or the one so named."""
    if name is None:
        name = "cudss" if device == "gpu" else "qdldl" if find_spec("qdldl") else "superlu"
    if name == "cudss":
        from auglag.model.device.cudss import CuDSS

        return CuDSS(pattern, deterministic=deterministic)
    if name not in ("qdldl", "superlu"):
        raise InputError(f"linear_solver must be 'cudss', 'qdldl' or 'superlu', got {name!r}")
    if name == "qdldl" and find_spec("qdldl") is None:
        raise InputError("linear_solver='qdldl' needs the package qdldl: pip install 'auglag[sparse]'")
    return Qdldl(pattern) if name == "qdldl" else SuperLU(pattern)


def require_device(device: str) -> Any:
    """The JAX device "cpu" or "gpu"."""
    if device not in ("cpu", "gpu"):
        raise InputError(f"device must be 'cpu' or 'gpu', got {device!r}")
    try:
        return jax.devices(device)[0]
    except RuntimeError:
        raise InputError(
            "device must be one that JAX finds, got 'gpu': for NVIDIA GPUs install 'auglag[gpu]' (jax[cuda13] and "
            "nvidia-cudss-cu13), or solve with device='cpu'"
        ) from None
