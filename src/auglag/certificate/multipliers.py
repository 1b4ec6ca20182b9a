"""Multipliers for a bare x: the ones that make it look best.

One problem serves the certificate and the benchmarks' judge: `Fit`, the distance of -(gradient + J'y) to a box of
subgradients and bound multipliers, made small over all y that the sides of the rows allow.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lstsq
from scipy.optimize import linprog
from scipy.sparse.linalg import lsmr, splu

from auglag._typing import Vector
from auglag.certificate.tuning import TUNING
from auglag.problems.base import AbstractProblem, Point
from auglag.problems.jacobians import dense
from auglag.prox import SeparableTerm, Zero

#: A pair of vectors: lower and upper.
Sides = tuple[Vector, Vector]


def best_multipliers(point: Point, eps: float, guess: Vector | None = None) -> Vector:
    """min over y of ||(grad f + J'y + s + z, y_inactive)||, s in dg(x), z the multipliers of the bounds.

    A row within eps of a side carries any multiplier of that side's sign, an equality any. A row at no side may carry
    one at the price of its size, which is the stationarity in its slack. A bound within eps carries one at the price
    gap * |z|. Where multipliers with R <= eps exist these prices are at most R^2 in all, so those found have the same,
    and their R is larger by the gaps up to eps that they use. With a separable g the set of s is a box and the whole a
    bounded least-squares problem; with another g, y and s are improved in turn.
    """
    problem = point.problem
    nothing = np.zeros(problem.m)
    if not problem.m or not all(np.isfinite(part).all() for part in (point.c, point.grad, _entries(point.jac))):
        return nothing
    low, high, inactive = _row_signs(problem, point.c, eps)
    jac = _with_prices(point.jac, problem, inactive)
    gradient, more = np.concatenate([point.grad, np.zeros(inactive.size)]), np.zeros(inactive.size)
    y = np.clip(nothing if guess is None else guess, low, high)
    g = problem.g if problem.g is not None else Zero()
    if isinstance(g, SeparableTerm):
        (lo, hi), prices = _subgradients(problem, g, point.x, eps)
        z = np.concatenate([lo, more]), np.concatenate([hi, more])
        below, above = (np.concatenate([price, more + 1.0]) for price in prices)
        return Fit(gradient, jac, (low, high), z, (below, above)).nearest(y, eps)
    for _ in range(TUNING.alternations):
        s = np.concatenate([g.project_subdiff(point.x, -(point.grad + point.vjp(y))), more])
        new = Fit(gradient, jac, (low, high), (s, s)).nearest(y, eps)
        done = np.linalg.norm(new - y) <= TUNING.alternations_end * max(1.0, float(np.linalg.norm(new)))
        y = new
        if done:
            break
    return y


def _entries(jac: Any) -> Vector:
    """The entries that are stored; those of an operator are not looked at."""
    if isinstance(jac, np.ndarray):
        return jac
    return np.asarray(jac.data) if sparse.issparse(jac) else np.zeros(0)


def _row_signs(problem: AbstractProblem, c: Vector, eps: float) -> tuple[Vector, Vector, NDArray[np.intp]]:
    """(low, high, inactive): the interval for each row's multiplier, and the rows that are near no side."""
    at_upper, at_lower, equal = problem.cu - c <= eps, c - problem.cl <= eps, problem.cl == problem.cu
    inactive = ~(at_upper | at_lower | equal)
    low = np.where(at_lower | equal | inactive, -np.inf, 0.0)
    high = np.where(at_upper | equal | inactive, np.inf, 0.0)
    return low, high, np.flatnonzero(inactive)


def _subgradients(problem: AbstractProblem, g: SeparableTerm, x: Vector, eps: float) -> tuple[Sides, Sides]:
    """The intervals of dg(x) + the multipliers of the bounds that x touches; the prices of what is below and above."""
    lo, hi = g.subdiff_interval(x)
    below, above = x - problem.lower, problem.upper - x
    sides = np.where(below > 0, lo, -np.inf), np.where(above > 0, hi, np.inf)
    near_below, near_above = (np.where(gap <= eps, np.clip(gap, 0.0, 1.0), 1.0) for gap in (below, above))
    return sides, (near_below, near_above)


def _with_prices(jac: Any, problem: AbstractProblem, inactive: NDArray[np.intp]) -> Any:
    """[J, unit columns of the inactive rows]: their multipliers count with their size."""
    shape, columns = (problem.m, inactive.size), np.arange(inactive.size)
    if sparse.issparse(jac):
        prices = sparse.csr_array((np.ones(inactive.size), (inactive, columns)), shape=shape)
        return sparse.hstack([sparse.csr_array(jac), prices], format="csr")
    units = np.zeros(shape)
    units[inactive, columns] = 1.0
    return np.hstack([dense(jac), units])


@final
class Fit:
    """min over low <= y <= high of || dist(-(gradient + J'y), [z_low, z_high]) ||, in the 2-norm or the inf-norm.

    With prices (below, above) what sticks out of [z_low, z_high] at a side counts with that factor.
    """

    def __init__(self, gradient: Vector, jac: Any, rows: Sides, z: Sides, prices: Sides | None = None) -> None:
        large = sparse.issparse(jac) and jac.shape[0] * jac.shape[1] > TUNING.largest_dense
        self.gradient = gradient
        self.jac = sparse.csr_array(jac) if large else np.asarray(dense(jac))
        self.transposed = sparse.csr_array(self.jac.T) if large else np.ascontiguousarray(self.jac.T)
        (self.low, self.high), (self.z_low, self.z_high), self.prices = rows, z, prices

    def excess(self, y: Vector) -> Vector:
        """What no z can take up of gradient + J'y, at its price."""
        excess, price = self._priced(y)
        return excess * price

    def _priced(self, y: Vector) -> Sides:
        with np.errstate(all="ignore"):
            found = self.gradient + self.transposed @ y
            excess = np.asarray(found + np.clip(-found, self.z_low, self.z_high))
        if self.prices is None:
            return excess, np.ones(excess.size)
        return excess, np.where(excess > 0, *self.prices)

    def distance(self, y: Vector, order: float = 2) -> float:
        """The norm of it; infinite where it is not a number."""
        with np.errstate(all="ignore"):
            found = float(np.linalg.norm(self.excess(y), order)) if self.gradient.size else 0.0
        return found if math.isfinite(found) else math.inf

    def nearest(self, guess: Vector, enough: float) -> Vector:
        """The y with the smallest 2-norm. Where least squares do not settle it, a linear program finds a new start."""
        y, settled = self.least_squares(guess)
        if settled or self.distance(y) <= TUNING.negligible * enough:
            return y
        others = (guess, np.clip(np.zeros_like(guess), self.low, self.high))
        y = min((y, self.least_squares(others[1])[0], *others), key=self.distance)
        if self.distance(y) <= TUNING.negligible * enough:
            return y
        rough = self.linear_program(y, enough)
        return min((y, rough, self.least_squares(rough)[0]), key=self.distance)

    def flattest(self, guess: Vector, enough: float) -> Vector:
        """A y whose inf-norm is at most `enough`, or the smallest: least squares, then the linear program."""

        def measure(y: Vector) -> float:
            return self.distance(y, np.inf)

        y = np.clip(guess, self.low, self.high)
        if not y.size or measure(y) <= TUNING.negligible * enough:
            return y
        starts = (y, np.clip(np.zeros_like(y), self.low, self.high))
        y = min((*starts, *(self.least_squares(start)[0] for start in starts)), key=measure)
        if measure(y) > enough:
            rough = self.linear_program(y, enough)
            y = min((y, rough, self.least_squares(rough)[0]), key=measure)
        return y

    def least_squares(self, y: Vector) -> tuple[Vector, bool]:
        """(y, whether it is the minimiser): Newton's method on the piecewise quadratic, projected to the box.

        On each piece a Newton step is a linear least-squares problem, and no step can do better than the piece's own
        minimiser where that is reached: the function is convex. So the end is known to be one.
        """
        if not self.distance(y) < TUNING.overflow:
            return y, False
        excess, price = self._priced(y)
        value = float(np.sum((excess * price) ** 2))
        for _ in range(TUNING.newton_steps):
            slope = np.asarray(self.jac @ (excess * price**2))
            held = ((y <= self.low) & (slope >= 0)) | ((y >= self.high) & (slope <= 0))
            free, counted = np.flatnonzero(~held), np.flatnonzero(excess)
            if not free.size or not counted.size:
                return y, True
            step = np.zeros_like(y)
            step[free], left = self._solve(free, counted, -excess[counted], price[counted])
            if not left < (1 - TUNING.settled) * value:
                last = np.clip(y + step, self.low, self.high)
                return min((y, last), key=self.distance), True
            fraction = 1.0
            while fraction > TUNING.shortest:
                trial = np.clip(y + fraction * step, self.low, self.high)
                excess, price = self._priced(trial)
                new = float(np.sum((excess * price) ** 2))
                if new < value - TUNING.armijo * fraction * (value - left):
                    break
                fraction *= TUNING.shorter
            else:
                return y, math.sqrt(value) <= self._rounding(y)
            y, value = trial, new
        return y, False

    def _rounding(self, y: Vector) -> float:
        """What rounding may leave of an excess that is zero."""
        terms = np.abs(self.gradient) + abs(self.transposed) @ np.abs(y)
        return TUNING.rounding * float(np.linalg.norm(terms))

    def _solve(self, free: Any, counted: Any, target: Vector, price: Vector) -> tuple[Vector, float]:
        """(p, ||price * (A p - target)||^2) of the p that minimises it; A is J' with some rows and columns."""
        target = price * target
        # Columns get the length 1 without their prices: what is cheap must not move y far.
        if isinstance(self.jac, np.ndarray):
            matrix = self.transposed[np.ix_(counted, free)]
            size = np.linalg.norm(matrix, axis=0)
        else:
            matrix = self.transposed[counted][:, free]
            size = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=0)).ravel())
        size[size == 0.0] = 1.0
        if isinstance(matrix, np.ndarray):
            matrix = price[:, None] * matrix
            p = lstsq(matrix / size, target, cond=TUNING.rank, lapack_driver="gelsy", check_finite=False)[0] / size
        else:
            matrix = sparse.diags_array(price) @ matrix
            p = _sparse_least_squares(matrix @ sparse.diags_array(1.0 / size), target) / size
        rest = matrix @ p - target
        return p, float(rest @ rest)

    def linear_program(self, y: Vector, enough: float) -> Vector:
        """The smallest inf-norm: min t with -t <= gradient + J'y + z <= t; y unchanged where the program fails.

        Where there are prices z may stick out as far as that costs `enough`.
        """
        n, m = self.gradient.size, y.size
        ones, eye = sparse.csr_array(np.ones((n, 1))), sparse.eye_array(n, format="csr")
        transposed = sparse.csr_array(self.transposed)
        upper = sparse.hstack([transposed, eye, -ones])
        lower = sparse.hstack([-transposed, -eye, -ones])
        matrix = sparse.vstack([upper, lower], format="csr")
        cost = np.zeros(m + n + 1)
        cost[-1] = 1.0
        z_low, z_high = self.z_low, self.z_high
        if self.prices is not None:
            below, above = (np.where(p < 1.0, enough / np.maximum(p, 1e-300), 0.0) for p in self.prices)
            z_low, z_high = z_low - below, z_high + above
        bounds = np.column_stack([np.r_[self.low, z_low, 0.0], np.r_[self.high, z_high, np.inf]])
        sides = np.concatenate([-self.gradient, self.gradient])
        for tolerance, presolve in TUNING.programs:
            options = {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}
            options |= {"maxiter": max(1, int(TUNING.program_work / matrix.nnz)), "presolve": presolve}
            found = linprog(cost, matrix, sides, bounds=bounds, options=options)
            if found.x is not None and np.isfinite(found.x).all():
                return np.asarray(np.clip(found.x[:m], self.low, self.high))
        return y


def cheap_fit(problem: AbstractProblem) -> bool:
    """Whether there are multipliers whose fit at one point takes less time than a run: not in large problems."""
    return 0 < problem.m * problem.n <= TUNING.largest_fit


def _sparse_least_squares(matrix: Any, target: Vector) -> Vector:
    """min ||matrix p - target||, columns of length 1: a factor of [[I, A], [A', -delta I]], refined; LSMR if it fails.

    Each refinement takes delta's error off by the factor delta / (delta + sigma^2) for a singular value sigma.
    """
    rows, columns = matrix.shape
    symmetric = {"SymmetricMode": True}
    corner = sparse.eye_array(columns, format="csc")
    blocks = [[sparse.eye_array(rows, format="csc"), matrix], [matrix.T, -TUNING.delta * corner]]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", sparse.linalg.MatrixRankWarning)
            whole = sparse.csc_array(sparse.block_array(blocks))
            factor = splu(whole, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=TUNING.pivot, options=symmetric)
    except (RuntimeError, MemoryError, sparse.linalg.MatrixRankWarning):
        return np.asarray(lsmr(matrix, target, atol=1e-14, btol=1e-14, maxiter=2000)[0])
    p, rest = np.zeros(columns), target
    for _ in range(TUNING.refinements):
        trial = p + factor.solve(np.concatenate([rest, np.zeros(columns)]))[rows:]
        new = target - matrix @ trial
        if not float(new @ new) < float(rest @ rest):
            break
        p, rest = trial, new
    return p
