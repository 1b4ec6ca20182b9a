"""Sparse KKT matrices by qdldl: L D L' without pivoting, ordered by approximate minimum degree.

qdldl (Stellato et al. 2020, Mathematical Programming Computation 12, "OSQP: an operator splitting solver for quadratic
programs", section 5) analyses a pattern once, and then factorises one set of values after another. On the matrices of
networks and of control it is some ten times faster than SuperLU, which analyses every matrix anew. `pip install qdldl`,
or the extra `auglag[sparse]`.
"""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.kkt.linear.static import Engine, StaticSolver


@final
class Qdldl(StaticSolver):
    """qdldl on the upper triangle."""

    name: ClassVar[str] = "qdldl"
    needs: ClassVar[str] = "qdldl"
    install: ClassVar[str] = "'auglag[sparse]'"

    def engine(self) -> Engine:
        return QdldlEngine()


@final
class QdldlEngine(Engine):
    """qdldl's solver object: its order and symbolic factors stay, values come and go."""

    def __init__(self) -> None:
        self._solver: Any = None

    def factor(self, triangle: Any) -> int | None:
        import qdldl

        try:
            if self._solver is None:
                self._solver = qdldl.Solver(triangle, upper=True)
            else:
                self._solver.update(triangle, upper=True)
        except (RuntimeError, ValueError):  # a pivot that is exactly zero
            self._solver = None
            return None
        lower, pivots, _ = self._solver.factors()
        self.fill = int(lower.nnz) + pivots.size
        lengths = np.diff(lower.indptr).astype(float)
        self.work = float(lengths.dot(lengths))
        usable = np.isfinite(pivots).all() and (pivots != 0.0).all()
        return int(np.count_nonzero(pivots < 0.0)) if usable else None

    def solve(self, b: Vector) -> Vector:
        return np.asarray(self._solver.solve(b))
