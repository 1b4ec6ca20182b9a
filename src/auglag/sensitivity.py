"""How a solution moves with the parameters of its problem: derivatives of x and the multipliers, without solving again.

At a solution where the gradients of the active constraints are independent, active inequalities have multipliers away
from zero and the second-order conditions hold, x and the multipliers are smooth functions of the parameters, and their
derivatives solve one linear system with the KKT matrix (Fiacco 1983, Theorem 2.4.4). Where one of these fails, the
derivatives may not exist: `reasons` says which and why, and `directional` has one-sided derivatives of x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse.linalg import LinearOperator, onenormest, splu

from auglag._arrays import real_array
from auglag._typing import Matrix, Vector
from auglag.certificate import certificate
from auglag.derivatives.differences import hessian_from_gradient
from auglag.derivatives.extrapolation import extrapolated
from auglag.errors import InputError
from auglag.minimize import minimize
from auglag.problems.base import AbstractProblem
from auglag.result import Result

Mask = NDArray[np.bool_]
EPS = float(np.finfo(float).eps)


@final
@dataclass(frozen=True, slots=True)
class Tuning:
    """The numbers of this module."""

    #: Largest condition number of the scaled KKT matrix whose solutions are shown: 1e12 leaves them four digits.
    condition: float = 1e12
    #: Largest KKT matrix that is taken apart by its eigenvalues, which costs about a second.
    dense: int = 1000
    #: Sweeps of scaling by the square roots of the largest entries (Ruiz 2001: a few bring all rows near 1).
    sweeps: int = 4
    #: Rounding errors of a gradient, in units of the precision times the sum of its terms. A few operations each.
    rounding: float = 10.0
    #: Tolerance of the quadratic problem behind a one-sided derivative: below the errors of its data.
    quadratic: float = 1e-9
    #: A result belongs to p if the residual of problem(p) there is at most this many times its own (or its `tol`):
    #: derivatives by differences are not the same digit by digit, and ten leaves them the last one.
    residual: float = 10.0


TUNING = Tuning()


@final
@dataclass(frozen=True, slots=True)
class Parts:
    """Derivatives of a problem by its parameters at fixed (x, y), one column for each parameter."""

    f: Vector  #: (k,)
    gradient: Matrix  #: of grad f + J'y, (n, k)
    c: Matrix  #: (m, k)
    lower: Matrix  #: of the bounds, (n, k); 0 where they are infinite
    upper: Matrix
    cl: Matrix  #: of the sides of the rows, (m, k)
    cu: Matrix


def sensitivity(problem: Callable[[Any], AbstractProblem], p: Any, result: Result) -> Sensitivity:
    """Derivatives of a solution by the parameters p of its problem.

    Parameters
    ----------
    problem : callable
        `problem(p)` returns the problem for these parameters: an `auglag.Problem`, or any other problem object. They
        may stand in the objective, the constraints, their sides and the bounds. It is called a few times for each
        parameter, and only values and first derivatives at x are asked for.
    p : number or array_like
        The parameters that `result` belongs to.
    result : Result
        Of `auglag.minimize(problem(p))`, solved. The smaller its `tol`, the sharper active constraints are told from
        others.

    Returns
    -------
    Sensitivity
        With the derivatives of x, the multipliers and the optimal value.

    Examples
    --------
    The point of the line x + y = p that is nearest to 0 moves by 1/2 in both coordinates:

    >>> import auglag
    >>> def problem(p):
    ...     line = {"type": "eq", "fun": lambda x: x[0] + x[1] - p, "jac": lambda x: [1.0, 1.0]}
    ...     return auglag.Problem(lambda x: x @ x, [0.0, 0.0], jac=lambda x: 2 * x, constraints=line)
    >>> found = auglag.sensitivity(problem, 1.0, auglag.minimize(problem(1.0)))
    >>> found.dx.round(4).ravel().tolist()
    [0.5, 0.5]
    """
    point = np.atleast_1d(real_array(p, "p")).astype(float)
    if point.ndim != 1 or not np.isfinite(point).all():
        raise InputError(f"p must be a finite number or vector, got {p!r:.80}")
    scalar = np.ndim(p) == 0

    if not callable(problem):
        raise InputError(
            f"problem must be a function of the parameters that returns the problem for them, got "
            f"{type(problem).__name__}: pass problem, not problem(p)"
        )

    def at(q: Vector) -> AbstractProblem:
        made = problem(float(q[0]) if scalar else q.copy())
        if not isinstance(made, AbstractProblem):
            raise InputError(f"problem(p) must return a problem object, such as auglag.Problem, got {made!r:.80}")
        return made

    here = at(point)
    _require(here, result)
    return Sensitivity(here, result, point, _by_differences(at, here, result, point))


def _require(problem: AbstractProblem, result: Result) -> None:
    if not isinstance(result, Result) or not result.success:
        raise InputError(f"result must be a solution (success), got {getattr(result, 'status', result)!r:.80}")
    if (problem.n, problem.m) != (result.x.size, result.y.size):
        raise InputError(
            f"problem(p) must have the {result.x.size} variables and {result.y.size} rows of the result, got "
            f"{problem.n} and {problem.m}"
        )
    if problem.g is not None:
        raise InputError(f"sensitivities need a smooth problem, got g={type(problem.g).__name__}")
    with problem.running():
        if problem.differenced:
            problem.learn_precision(result.x)
        problem.refine(2)
        residual = certificate(problem, result.x, result.y).residual
    allowed = TUNING.residual * max(result.tol, result.certificate.residual)
    if not residual <= allowed:
        raise InputError(
            f"result must solve problem(p) for the p that is given, got a KKT residual of {residual:.2g} there, above "
            f"{allowed:.2g}: pass the parameters that it was found for"
        )


def _by_differences(at: Callable[[Vector], AbstractProblem], here: AbstractProblem, result: Result, p: Vector) -> Parts:
    """All derivatives by the parameters at once, by extrapolated central differences."""
    x, y, n, m = result.x, result.y, here.n, here.m
    sizes = (1, n, m, n, n, m, m)

    def stacked(q: Vector) -> Vector:
        moved = at(q)
        with moved.running():
            moved.refine(2)
            point = moved.at(x)
            sides = (np.nan_to_num(side, posinf=0.0, neginf=0.0) for side in _sides(moved))
            return np.concatenate([[point.f], point.lagrangian_gradient(y), point.c, *sides])

    free = np.full(p.size, np.inf)
    derivatives = np.asarray(extrapolated(stacked, p, stacked(p), lower=-free, upper=free)[0])
    f, *others = np.split(derivatives, np.cumsum(sizes)[:-1])
    return Parts(f[0], *others)


def _sides(problem: AbstractProblem) -> tuple[Vector, Vector, Vector, Vector]:
    return problem.lower, problem.upper, problem.cl, problem.cu


@final
class Sensitivity:
    """Derivatives of a solution by the parameters p, one column for each.

    Attributes
    ----------
    x, y, p : vectors
        The solution, its multipliers (L = f + y'c) and its parameters.
    dx, dy, dz : matrices
        Derivatives of x, y and the multipliers of the bounds. NaN where they are not determined.
    dfun : vector
        Derivatives of the optimal value.
    reasons : tuple of str
        Why x or y may not be differentiable here; empty if they are.
    """

    def __init__(self, problem: AbstractProblem, result: Result, p: Vector, parts: Parts) -> None:
        self.x, self.y, self.z, self.p = result.x, result.y, np.asarray(result.bound_multipliers), p
        self._parts, self._name, self._variable = parts, problem.row_name, problem.variable_name
        #: Slacks and multipliers below this are taken for zero (Facchinei, Fischer and Kanzow 1998: the square root of
        #: the residual tells active constraints from others near a solution).
        self.near = float(np.sqrt(max(result.certificate.residual, EPS)))
        with problem.running():
            problem.refine(2)
            point = problem.at(self.x)
            self._rows = _Sided.of(point.c, self.y, problem.cl, problem.cu, parts.cl, parts.cu, self.near)
            self._bounds = _Sided.of(self.x, self.z, *_sides(problem)[:2], parts.lower, parts.upper, self.near)
            self._h = _hessian(problem, self.x, self.y)
            self._j = sparse.csr_array(point.jac) if problem.m else sparse.csr_array((0, problem.n))
        self.reasons: tuple[str, ...] = self._weak()
        self._solve()

    def __repr__(self) -> str:
        state = "differentiable" if self.differentiable else "; ".join(self.reasons)
        with np.printoptions(precision=6, threshold=8, edgeitems=2):
            parts = [f"{name} = {getattr(self, name)!r}" for name in ("dx", "dy", "dfun")]
        return "\n".join([f"Sensitivity of {self.x.size} variables by {self.p.size} parameters: {state}", *parts])

    @property
    def differentiable(self) -> bool:
        """Whether x and the multipliers are differentiable, as far as can be told."""
        return not self.reasons

    def predict(self, p: Any) -> tuple[Vector, Vector]:
        """x and y for other parameters, to first order; multipliers of inequalities keep their signs.

        `auglag.minimize(problem(p), warm_start=s.predict(p))` solves again from there.
        """
        step = self._fitting(p, "p") - self.p
        x, y = self.x + self.dx @ step, self.y + self.dy @ step
        y = np.where(self._rows.both | (y * self.y > 0.0), y, 0.0)
        return np.where(np.isfinite(x), x, self.x), np.where(np.isfinite(y), y, self.y)

    def directional(self, dp: Any) -> Vector:
        """The one-sided derivative of x as p moves in the direction dp.

        It exists also where active inequalities have zero multipliers (but the gradients of the active constraints must
        be independent): it solves a quadratic problem in which those stay satisfied.
        """
        step = self._fitting(dp, "dp")
        rows, bounds, parts = self._rows, self._bounds, self._parts
        lower, upper = rows.limits(-parts.c @ step, step)
        dlower, dupper = bounds.limits(np.zeros(self.x.size), step)
        linear, h = parts.gradient @ step, self._h
        found = minimize(
            lambda d: (0.5 * d @ (h @ d) + linear @ d, h @ d + linear),
            np.clip(np.zeros(self.x.size), dlower, dupper),
            jac=True,
            hess=lambda d: h,
            bounds=Bounds(dlower, dupper),
            constraints=LinearConstraint(self._j, lower, upper) if rows.active.any() else (),
            tol=TUNING.quadratic * max(1.0, float(np.abs(linear).max(initial=0.0))),
        )
        if not found.success:
            raise InputError(f"dp must be a direction in which solutions exist, got {dp!r:.80} ({found.message})")
        return np.asarray(found.x)

    def _fitting(self, value: Any, name: str) -> Vector:
        vector = np.atleast_1d(real_array(value, name))
        if vector.shape != self.p.shape:
            raise InputError(f"{name} must have {self.p.size} entries, got {vector.size}")
        return vector

    def _weak(self) -> tuple[str, ...]:
        """Active inequalities whose multipliers are zero."""
        names = [self._name(int(i)) for i in np.flatnonzero(self._rows.weak)]
        names += [f"the bound of {self._variable(int(j))}" for j in np.flatnonzero(self._bounds.weak)]
        if not names:
            return ()
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")
        return (
            f"active with multipliers below {self.near:.1e}, so that x has one-sided derivatives only (a smaller tol "
            f"tells small multipliers from zero): {shown}",
        )

    def _solve(self) -> None:
        """The linear system of the free variables and the strongly active rows."""
        parts, n, k = self._parts, self.x.size, self.p.size
        free, active = np.flatnonzero(~self._bounds.strong), np.flatnonzero(self._rows.strong)
        self.dx, self.dy = np.where(self._bounds.strong[:, None], self._bounds.moves, 0.0), np.zeros((self.y.size, k))
        h, j = self._h, self._j[active]
        fixed = self.dx.copy()
        first = -(parts.gradient + h @ fixed)[free]
        second = (self._rows.moves - parts.c)[active] - j @ fixed
        matrix = _Kkt(sparse.csr_array(h)[free][:, free], j[:, free])
        self.dx[free], self.dy[active], reason = matrix.solve(first, second)
        if reason:
            self.reasons = (*self.reasons, reason)
        total = parts.gradient + h @ self.dx + self._j.T @ self.dy
        self.dz = np.where(self._bounds.strong[:, None], -total, 0.0)
        self.dfun = parts.f + self.y @ (parts.c - self._rows.moves) - self.z @ self._bounds.moves
        assert self.dx.shape == (n, k)


@final
@dataclass(frozen=True, slots=True)
class _Sided:
    """Rows or bounds: which are active, with what multipliers, and how their active sides move."""

    both: Mask  #: equations and fixed variables
    strong: Mask  #: these, and active inequalities with multipliers
    weak: Mask  #: active inequalities without
    at_upper: Mask
    moves: Matrix  #: derivatives of the active sides, 0 where none is active

    @classmethod
    def of(
        cls, value: Vector, y: Vector, low: Vector, high: Vector, d_low: Matrix, d_high: Matrix, near: float
    ) -> _Sided:
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
class _Kkt:
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


def _hessian(problem: AbstractProblem, x: Vector, y: Vector) -> Any:
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
