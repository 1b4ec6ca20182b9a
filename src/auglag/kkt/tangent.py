"""A Hessian on the directions that active constraints leave: is it positive there, and where is it lowest?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from auglag._norms import norm
from auglag._typing import Vector
from auglag.kkt import linear, tuning
from auglag.kkt.convexity import diagonal_size, larger_shift
from auglag.kkt.hessian import Hessian
from auglag.kkt.linear.base import Analyses, Factor, Indices


@final
class Tangent:
    """H on the directions d with d = 0 off the free variables and J_A d = 0 for the active rows A.

    H is positive definite there if and only if K = [[H_FF, J_AF'], [J_AF, -E]] has as many negative eigenvalues as
    there are rows, for a small E > 0 (Gould 1985, Math. Programming 32): one factorisation decides. Rows are measured
    in units of their gradients, since small ones would not hold beside E; those below E count as none.
    """

    def __init__(self, h: Hessian, j: Any, free: Indices, active: Indices, analyses: Analyses | None = None) -> None:
        self.free, self.active = free, active
        self._h = h
        self._j, self._units = _in_units(j)
        self._least: Factor | None = None  #: for the shortest steps back to the rows
        self._system = linear.part(h, self._j, free, active, Analyses() if analyses is None else analyses)
        part = h.on(free)
        self.size = diagonal_size(part)  #: |H|, at least 1e-8
        self._soft = 1.0 / (tuning.TUNING.tangent_penalty * max(1.0, self.size))

    def factor(self, shift: float) -> Factor | None:
        """The factors of K with shift * I added to H, if that makes it positive definite on the tangent space."""
        factor = self._system.factor(shift, self._soft)
        return factor if factor.negative == self.active.size else None

    def positive(self, margin: float) -> bool:
        """Whether all eigenvalues are above `margin`; also if there are no directions."""
        return not self.free.size or self.factor(-margin) is not None

    def empty(self, seed: Vector) -> bool:
        """Whether the rows leave no direction: nothing of the random vector `seed` is left in the tangent space."""
        v = np.zeros(seed.size)
        v[self.free] = seed[self.free]
        if self.active.size < self.free.size:
            return not self.free.size
        rest = norm(v + self._back(self._j @ v))
        return rest <= tuning.TUNING.tangent_new * norm(v)

    def shifted(self, shift: float) -> Factor | None:
        """Factors for the smallest multiple of the identity tried, `shift` at least, that makes H positive."""
        while shift <= tuning.TUNING.shift_limit * self.size:
            factor = self.factor(shift)
            if factor is not None:
                return factor
            shift = larger_shift(shift, self.size)
        return None

    def lowest(self, factor: Factor, seed: Vector) -> tuple[Vector, Any]:
        """(Ritz values, Ritz vectors as columns): H on a Krylov space of K^-1, which holds its lowest directions well.

        `seed` is any vector; its part in the tangent space begins the space. Values rise.
        """
        basis: list[Vector] = []
        v = seed
        for _ in range(tuning.TUNING.tangent_solves):
            v = self.onto(factor, v)
            v = orthogonal(v / max(norm(v), 1e-300), basis)
            length = norm(v)
            if not length > tuning.TUNING.tangent_new:
                break
            v = v / length
            v = v + self._back(self._j @ v)  # what little left the tangent space has grown
            v = v / norm(v)
            basis.append(v)
        if not basis:
            return np.zeros(0), np.zeros((seed.size, 0))
        q = np.column_stack(basis)
        reduced = q.T @ np.column_stack([self._h @ column for column in basis])
        values, vectors = eigh((reduced + reduced.T) / 2)
        return values, q @ vectors

    def onto(self, factor: Factor, v: Vector) -> Vector:
        """K^-1 applied to v: a direction of the tangent space; zeros where the factors fail."""
        d = np.zeros(v.size)
        found = _solved(factor, np.concatenate([v[self.free], np.zeros(self.active.size)]))
        if np.isfinite(found).all():
            d[self.free] = found[: self.free.size]
        return d

    def back(self, c: Vector) -> Vector:
        """The shortest step d of the free variables with J_A d = -c_A, as far as there is one."""
        return self._back(c / self._units)

    def _back(self, c: Vector) -> Vector:
        """As `back`, with c in units of the rows."""
        n = self._h.matrix.shape[0]
        d = np.zeros(n)
        if not (self.active.size and self.free.size):
            return d
        if self._least is None:
            identity = sparse.eye_array(n, format="csc") if self._h.is_sparse else np.eye(n)
            system = linear.part(Hessian(identity), self._j, self.free, self.active, Analyses())
            self._least = system.factor(0.0, 1.0 / tuning.TUNING.tangent_penalty)
        found = _solved(self._least, np.concatenate([np.zeros(self.free.size), -c[self.active]]))
        if np.isfinite(found).all():
            d[self.free] = found[: self.free.size]
        return d


def _solved(factor: Factor, b: Vector) -> Vector:
    """K^-1 b, by more accurate factors only where these ones are too poor: others take many times the memory."""
    enough = tuning.TUNING.tangent_refined
    x, error = factor.roughly(b, enough)
    return x if error <= enough else factor.solve(b)


def _in_units(j: Any) -> tuple[Any, Vector]:
    """(J with its rows divided by their lengths, these lengths)."""
    least = 1.0 / tuning.TUNING.tangent_penalty
    if isinstance(j, np.ndarray):
        units = np.maximum(np.sqrt(np.add.reduce(j * j, axis=1)), least)
        return j / units[:, None], units
    units = np.maximum(sparse.linalg.norm(j, axis=1), least)
    return sparse.csr_array((j.data / np.repeat(units, np.diff(j.indptr)), j.indices, j.indptr), j.shape), units


def orthogonal(v: Vector, basis: Sequence[Vector]) -> Vector:
    """v less its part in the span of orthonormal vectors; twice is enough (Kahan)."""
    for _ in range(2):
        for q in basis:
            v = v - (q @ v) * q
    return v
