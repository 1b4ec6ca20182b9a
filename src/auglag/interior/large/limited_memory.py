"""Curvature from first derivatives for large problems: a limited-memory BFGS matrix as a few rank-one terms.

The matrix is sigma I - W M^-1 W' with W = [sigma S, R] (Byrd, Nocedal and Schnabel 1994, Math. Programming 63,
"Representations of quasi-Newton matrices", (2.17)), S the last steps in x, R the differences of the gradient of the
Lagrangian along them. Powell's damping keeps it positive definite, so that the KKT matrix has the right inertia.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.kkt.hessian import Hessian


@final
class LimitedMemory:
    """Pairs of steps and differences of gradients, newest last."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._s: list[Vector] = []
        self._r: list[Vector] = []
        self._sigma = 1.0
        self._pattern = sparse.csc_array(sparse.eye_array(n, format="csc"))
        self._terms: tuple[Any, Vector] | None = None  #: V and c of the rank-one terms

    def learn(self, s: Vector, r: Vector) -> None:
        """A step and the change of the gradient of the Lagrangian along it."""
        t = tuning.TUNING
        square = float(s @ s)
        if not (square > 0.0 and np.isfinite(r).all()):
            return
        b = self._product(s)
        along, curvature = float(s @ b), float(s @ r)
        if curvature < t.damped * along:  # Powell's damping: keep a part of what is known
            part = (1.0 - t.damped) * along / (along - curvature)
            r = part * r + (1.0 - part) * b
            curvature = float(s @ r)
        if not curvature > 0.0:
            return
        self._s, self._r = [*self._s, s][-t.pairs :], [*self._r, r][-t.pairs :]
        self._sigma = min(max(curvature / square, t.least_sigma), t.largest_sigma)
        self._terms = self._compact()

    def _compact(self) -> tuple[Any, Vector] | None:
        s, r, sigma = np.array(self._s), np.array(self._r), self._sigma
        sr = s @ r.T
        lower = np.tril(sr, -1)
        middle = np.block([[sigma * (s @ s.T), lower], [lower.T, -np.diag(np.diag(sr))]])
        values, vectors = np.linalg.eigh(middle)
        usable = np.abs(values) > tuning.TUNING.negligible_term * float(np.abs(values).max())
        if not usable.any():
            return None
        v = np.concatenate([sigma * s, r]).T @ vectors[:, usable]
        return np.ascontiguousarray(v), -1.0 / values[usable]

    def _product(self, x: Vector) -> Vector:
        product = self._sigma * x
        if self._terms is not None:
            v, c = self._terms
            product = product + v @ (c * (v.T @ x))
        return np.asarray(product)

    def hessian(self) -> Hessian:
        """The matrix as it is now."""
        pattern = self._pattern
        identity = sparse.csc_array(
            (np.full(self._n, self._sigma), pattern.indices, pattern.indptr), shape=pattern.shape
        )
        return Hessian(identity) if self._terms is None else Hessian(identity, *self._terms)
