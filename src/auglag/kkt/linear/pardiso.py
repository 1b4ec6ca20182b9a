"""Sparse KKT matrices by MKL's Pardiso: symmetric indefinite, supernodal, ordered by nested dissection.

For matrices of meshes, whose factors are large, it is several times faster than qdldl. `pip install pypardiso` (Linux
and Windows on x86).
"""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.kkt.linear.static import Engine, StaticSolver

#: Parameters of Pardiso, numbered as in Intel's manual ("pardiso iparm Parameter"): no defaults, order by METIS, no
#: refinement (it is done outside), pivots perturbed by 1e-13, no scaling, no matching, 1 x 1 and 2 x 2 pivots.
PARAMETERS = {1: 1, 2: 2, 8: 0, 10: 13, 11: 0, 13: 0, 21: 1, 24: 0}
ANALYSIS, FACTOR, SOLVE = 11, 22, 33  #: its phases
NEGATIVE, FILL = 23, 18  #: where it reports the number of negative eigenvalues and of entries


@final
class Pardiso(StaticSolver):
    """Pardiso on the upper triangle."""

    name: ClassVar[str] = "pardiso"
    needs: ClassVar[str] = "pypardiso"
    install: ClassVar[str] = "pypardiso"

    def engine(self) -> Engine:
        return PardisoEngine()


@final
class PardisoEngine(Engine):
    """A handle of Pardiso: its analysis stays, values come and go."""

    def __init__(self) -> None:
        self._handle: Any = None

    def factor(self, triangle: Any) -> int | None:
        if self._handle is None:
            self._analyse(triangle)
        self._matrix.data[:] = triangle.data[self._source]
        try:
            self._call(FACTOR, self._blank)
        except Exception:  # PyPardisoError, which is importable only where the library is
            return None
        self.fill = int(self._handle.get_iparm(FILL))
        return int(self._handle.get_iparm(NEGATIVE))

    def _analyse(self, triangle: Any) -> None:
        from pypardiso import PyPardisoSolver

        self._handle = PyPardisoSolver(mtype=-2)
        for key, value in PARAMETERS.items():
            self._handle.set_iparm(key, value)
        numbered = sparse.csc_matrix(
            (np.arange(1.0, triangle.nnz + 1.0), triangle.indices, triangle.indptr), shape=triangle.shape
        ).tocsr()
        numbered.sort_indices()
        self._source = numbered.data.astype(np.intp) - 1
        self._matrix = sparse.csr_matrix(
            (triangle.data[self._source], numbered.indices, numbered.indptr), shape=triangle.shape
        )
        self._blank = np.zeros((triangle.shape[0], 1), order="F")
        self._call(ANALYSIS, self._blank)

    def _call(self, phase: int, b: Any) -> Any:
        self._handle.set_phase(phase)
        return self._handle._call_pardiso(self._matrix, b)

    def solve(self, b: Vector) -> Vector:
        return np.asarray(self._call(SOLVE, np.asfortranarray(b.reshape(-1, 1)))).ravel()
