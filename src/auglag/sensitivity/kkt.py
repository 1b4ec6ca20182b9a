"""The KKT conditions at a solution as a linear system for its derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, onenormest, splu

from auglag._typing import Matrix, Vector
from auglag.derivatives.differences import hessian_from_gradient
from auglag.problems.base import AbstractProblem
from auglag.sensitivity.tuning import TUNING

EPS = float(np.finfo(float).eps)
Mask = NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True)
class Sided:
    """Rows or bounds: which are active, with what multipliers, and how their active sides move."""

    both: Mask  #: equations and fixed variables
    strong: Mask  #: these, and active inequalities with multipliers
    weak: Mask  #: active inequalities without
    at_upper: Mask
    moves: Matrix  #: derivatives of the active sides, 0 where none is active

    @classmethod
    def of(
        cls, value: Vector, y: Vector, low: Vector, high: Vector, d_low: Matrix, d_high: Matrix, near: float
    ) -> Sided:
        both = low == high
        strong = both | (np.abs(y) > near)
        to_low, to_high = value - low, high - value
        weak = ~strong & (np.minimum(to_low, to_high) <= near)
        at_upper = np.where(strong, y > 0.0, to_high < to_low)
        moves = np.where((strong | weak)[:, None], np.where(at_upper[:, None], d_high, d_low), 0.0)
        return cls(both, strong, weak, at_upper, moves)

    @property
    def active(self) -> Mask:
        return self.strong | self.weak

    def limits(self, base: Vector, step: Vector) -> tuple[Vector, Vector]:
        """What the change of a row or variable must lie between: equal to a strong side, on one side of a weak one."""
        target = base + self.moves @ step
        lower = np.where(self.strong | (self.weak & ~self.at_upper), target, -np.inf)
        return lower, np.where(self.strong | (self.weak & self.at_upper), target, np.inf)


@final
class Kkt:
    """[H J'; J 0], scaled, and what its solutions are worth."""

    def __init__(self, h: Any, j: Any) -> None:
        self._n, self._m = h.shape[0], j.shape[0]
        matrix = sparse.csc_array(sparse.block_array([[h, j.T], [j, None]])) if self._m else sparse.csc_array(h)
        self._scale = np.ones(matrix.shape[0])
        for _ in range(TUNING.sweeps):
            largest = abs(matrix).max(axis=1).toarray().ravel()
            d = 1.0 / np.sqrt(np.where(largest > 0.0, largest, 1.0))
            matrix = sparse.csc_array(sparse.diags_array(d) @ matrix @ sparse.diags_array(d))
            self._scale *= d
        self._matrix = matrix

    def solve(self, first: Matrix, second: Matrix) -> tuple[Matrix, Matrix, str]:
        """dx, dy and why they are not determined, if so."""
        right = self._scale[:, None] * np.vstack([first, second])
        if not right.shape[0]:
            return first, second, ""
        factors = self._factors
        if factors is not None:
            found = self._scale[:, None] * factors.solve(right)
            return found[: self._n], found[self._n :], ""
        return self._undetermined(right)

    @cached_property
    def _factors(self) -> Any:
        """By LU; None if the matrix is singular, or so nearly that solutions mean nothing."""
        try:
            factors = splu(self._matrix)
        except RuntimeError:
            return None
        inverse: Any = LinearOperator(
            self._matrix.shape, matvec=factors.solve, rmatvec=lambda b: factors.solve(b, "T"), dtype=float
        )
        size = (
            onenormest(inverse) if self._matrix.shape[0] > 4 else np.abs(factors.solve(np.eye(inverse.shape[0]))).max()
        )
        return factors if size * abs(self._matrix).sum(axis=0).max() < TUNING.condition else None

    def _undetermined(self, right: Matrix) -> tuple[Matrix, Matrix, str]:
        """Dependent rows leave dx alone if they move together; then only the multipliers are not determined."""
        n, size = self._n, self._matrix.shape[0]
        nothing = np.full((size, right.shape[1]), np.nan)
        if size > TUNING.dense:
            return nothing[:n], nothing[n:], "the KKT matrix is singular: x or the multipliers are not unique"
        values, vectors = linalg.eigh(self._matrix.toarray())
        null = np.abs(values) <= np.abs(values).max() / TUNING.condition
        kernel, rest = vectors[:, null], vectors[:, ~null]
        noise = np.sqrt(EPS)
        if np.abs(kernel[:n]).max(initial=0.0) > noise:
            return nothing[:n], nothing[n:], "the curvature is zero along some direction: the solution is not isolated"
        if np.abs(kernel.T @ right).max() > noise * max(1.0, float(np.abs(right).max())):
            text = "active constraints depend on each other and move apart: there are no solutions on one side of p"
            return nothing[:n], nothing[n:], text
        found = self._scale[:, None] * (rest @ ((rest.T @ right) / values[~null][:, None]))
        return found[:n], nothing[n:], "gradients of active constraints are dependent: multipliers are not unique"


def hessian_of(problem: AbstractProblem, x: Vector, y: Vector) -> Any:
    """Of f + y'c: as the problem has it, from its products, or by differences of gradients."""
    if problem.has_hess:
        matrix = problem.hess(x, y)
        return sparse.csr_array(matrix) if sparse.issparse(matrix) else np.asarray(matrix)
    if problem.has_hessp:
        return np.stack([problem.hessp(x, y, e) for e in np.eye(problem.n)], axis=1)

    def slope(z: Vector) -> Vector:
        return problem.at(z).lagrangian_gradient(y)

    fixed = problem.lower == problem.upper  # their bounds may move with p
    lower, upper = (np.where(fixed, np.inf * sign, side) for sign, side in ((-1, problem.lower), (1, problem.upper)))
    g0, small = slope(x), (x != 0.0) & (np.abs(x) < 1.0)
    blind = fixed if problem.differenced else None
    by_differences = partial(hessian_from_gradient, slope, x, g0, lower=lower, upper=upper, blind=blind)
    matrix = by_differences()
    if not small.any():
        return matrix
    # Steps of the usual size may be far too long for small variables. Shorter ones are better where the two differ by
    # more than rounding errors of the shorter.
    point, step = problem.at(x), np.cbrt(np.finfo(np.float64).eps)
    closer = by_differences(rel_step=step)
    terms = np.abs(point.grad) + abs(point.jac).T @ np.abs(y) if problem.m else np.abs(point.grad)
    rounding = TUNING.rounding * np.finfo(np.float64).eps * np.maximum(terms, 1e-300)
    length = step * np.where(small, np.abs(x), 1.0)
    noise = np.maximum(rounding[:, None] / length, rounding / length[:, None])
    better = (small[:, None] | small) & (np.abs(closer - matrix) > noise) & np.isfinite(closer)
    return np.where(better, closer, matrix)


def sides_of(problem: AbstractProblem) -> tuple[Vector, Vector, Vector, Vector]:
    """Lower and upper sides of the variables and of the rows."""
    return problem.lower, problem.upper, problem.cl, problem.cu
