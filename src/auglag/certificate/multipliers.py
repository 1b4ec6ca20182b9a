"""Multipliers for a bare x: the ones that make it look best, by bounded linear least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import lsq_linear

from auglag._typing import Vector
from auglag.certificate.tuning import TUNING
from auglag.problems.base import AbstractProblem, Point
from auglag.problems.jacobians import dense
from auglag.prox import SeparableTerm, Zero


def best_multipliers(point: Point, active: float = TUNING.activity[0]) -> Vector:
    """min over y of ||(grad f + J'y + s, y_inactive)||, s in dg(x) + the normal cone of the bounds.

    A row at a side carries a multiplier of that side's sign, an equality any. A row at no side may carry one at the
    price of its size, which is the stationarity in its slack. With a separable g the set of s is a box and the whole a
    bounded least-squares problem; with another g, y and s are improved in turn.
    """
    problem = point.problem
    if not problem.m:
        return np.zeros(0)
    grad, c = point.grad, point.c
    finite = np.isfinite(c).all() and np.isfinite(grad).all() and _finite(point.jac)
    if not finite:
        return np.zeros(problem.m)
    low, high, inactive = _row_signs(problem, c, active)
    g = problem.g if problem.g is not None else Zero()
    if isinstance(g, SeparableTerm):
        lo, hi = _subgradient_box(problem, g, point.x, active)
        wide = np.flatnonzero(lo < hi)
        system = _system(point, inactive, wide)
        target = np.concatenate([-(grad + np.where(lo == hi, lo, 0.0)), np.zeros(inactive.size)])
        bounds = np.concatenate([low, lo[wide]]), np.concatenate([high, hi[wide]])
        return bounded_least_squares(system, target, *bounds)[: problem.m]
    system = _system(point, inactive, np.zeros(0, dtype=np.intp))
    y = np.zeros(problem.m)
    for _ in range(TUNING.alternations):
        subgradient = g.project_subdiff(point.x, -(grad + point.vjp(y)))
        target = np.concatenate([-(grad + subgradient), np.zeros(inactive.size)])
        new = bounded_least_squares(system, target, low, high)
        done = np.linalg.norm(new - y) <= TUNING.alternations_end * max(1.0, float(np.linalg.norm(new)))
        y = new
        if done:
            break
    return y


def _row_signs(problem: AbstractProblem, c: Vector, active: float) -> tuple[Vector, Vector, NDArray[np.intp]]:
    """(low, high, inactive): the interval for each row's multiplier, and the rows that touch no side."""
    at_upper, at_lower = _near(problem.cu - c, problem.cu, active), _near(c - problem.cl, problem.cl, active)
    equal = problem.cl == problem.cu
    inactive = ~(at_upper | at_lower | equal)
    low = np.where(at_lower | equal | inactive, -np.inf, 0.0)
    high = np.where(at_upper | equal | inactive, np.inf, 0.0)
    return low, high, np.flatnonzero(inactive)


def _finite(jac: Any) -> bool:
    """Whether the entries are finite; those of an operator are not looked at."""
    if isinstance(jac, np.ndarray):
        return bool(np.isfinite(jac).all())
    return bool(np.isfinite(jac.data).all()) if sparse.issparse(jac) else True


def _near(gap: Vector, side: Vector, active: float) -> NDArray[np.bool_]:
    return np.asarray(gap <= active * np.maximum(1.0, np.abs(np.where(np.isfinite(side), side, 0.0))))


def _subgradient_box(problem: AbstractProblem, g: SeparableTerm, x: Vector, active: float) -> tuple[Vector, Vector]:
    """The intervals of dg(x) + the normal cone of the bounds."""
    lo, hi = g.subdiff_interval(x)
    lo = np.where(_near(x - problem.lower, problem.lower, active), -np.inf, lo)
    hi = np.where(_near(problem.upper - x, problem.upper, active), np.inf, hi)
    return lo, hi


def _system(point: Point, inactive: NDArray[np.intp], wide: NDArray[np.intp]) -> Any:
    """[[J', unit vectors of the wide coordinates], [unit rows of the inactive multipliers, 0]]."""
    n, m, jac = point.problem.n, point.problem.m, point.jac
    if sparse.issparse(jac):
        picks = sparse.csr_array((np.ones(wide.size), (wide, np.arange(wide.size))), shape=(n, wide.size))
        drops = sparse.csr_array(
            (np.ones(inactive.size), (np.arange(inactive.size), inactive)), shape=(inactive.size, m + wide.size)
        )
        return sparse.csr_array(sparse.vstack([sparse.hstack([sparse.csr_array(jac).T, picks]), drops]))
    system = np.zeros((n + inactive.size, m + wide.size))
    system[:n, :m] = dense(jac).T
    system[wide, m + np.arange(wide.size)] = 1.0
    system[n + np.arange(inactive.size), inactive] = 1.0
    return system


def bounded_least_squares(matrix: Any, target: Vector, low: Vector, high: Vector) -> Vector:
    """min ||matrix v - target|| over low <= v <= high."""
    if isinstance(matrix, np.ndarray):
        if np.isneginf(low).all() and np.isposinf(high).all():
            return np.asarray(np.linalg.lstsq(matrix, target, rcond=None)[0])
        method = "bvls" if matrix.shape[1] <= TUNING.exact_columns else "trf"
        return np.asarray(lsq_linear(matrix, target, (low, high), method=method, tol=TUNING.least_squares_tol).x)
    return np.asarray(
        lsq_linear(matrix, target, (low, high), method="trf", tol=TUNING.least_squares_tol, lsmr_tol="auto").x
    )
