"""Nonlinear least squares with bounds and constraints: `scipy.optimize.least_squares`, and what it cannot state.

The run is one of `minimize`, with the Gauss-Newton part J'J of the Hessian taken from the Jacobian of the residuals and
only the rest of the curvature learnt (compare Dennis, Gay and Welsch 1981, ACM Trans. Math. Softw. 7). A sparse
Jacobian gives a sparse J'J.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse
from scipy.optimize import OptimizeResult

from auglag._arrays import real_array
from auglag._typing import Jacobian, Vector
from auglag.budget import Budget
from auglag.derivatives import differences
from auglag.derivatives.colouring import colour
from auglag.errors import InputError, OptionError, require_positive
from auglag.minimize import minimize, require_options
from auglag.problems.arguments import check_x0, parse_bounds
from auglag.problems.constraints import with_args
from auglag.problems.functions import Problem
from auglag.problems.jacobians import as_jacobian, dense, transposed_product
from auglag.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Name -> (rho, rho', rho'') of z = (f / f_scale)^2, as in SciPy.
LOSSES: dict[str, Callable[[Vector], tuple[Vector, Vector, Vector]]] = {
    "linear": lambda z: (z, np.ones_like(z), np.zeros_like(z)),
    "soft_l1": lambda z: (2.0 * (np.sqrt(1.0 + z) - 1.0), (1.0 + z) ** -0.5, -0.5 * (1.0 + z) ** -1.5),
    "huber": lambda z: _huber(z),
    "cauchy": lambda z: (np.log1p(z), 1.0 / (1.0 + z), -1.0 / (1.0 + z) ** 2),
    "arctan": lambda z: (np.arctan(z), 1.0 / (1.0 + z**2), -2.0 * z / (1.0 + z**2) ** 2),
}


def _huber(z: Vector) -> tuple[Vector, Vector, Vector]:
    inside, far = z <= 1.0, np.maximum(z, 1.0)
    value = np.where(inside, z, 2.0 * np.sqrt(far) - 1.0)
    return value, np.where(inside, 1.0, far**-0.5), np.where(inside, 0.0, -0.5 * far**-1.5)


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = "2-point",
    bounds: Any = (-np.inf, np.inf),
    *,
    constraints: Any = (),
    loss: str | Callable[[Vector], Any] = "linear",
    f_scale: float = 1.0,
    x_scale: Any = None,
    jac_sparsity: Any = None,
    diff_step: Any = None,
    max_nfev: int | None = None,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    tol: Any = 1e-6,
    **options: Any,
) -> LeastSquaresResult:
    """Minimise 1/2 sum rho(fun_i(x)^2) subject to bounds and constraints.

    Parameters
    ----------
    fun : callable
        The residuals `fun(x, *args, **kwargs)`, a vector (or a number).
    x0 : array_like
        The start.
    args : tuple
        More arguments of `fun` and `jac`.
    kwargs : dict
        More keyword arguments of `fun` and `jac`.
    diff_step : float or array_like
        The relative step of finite differences, as in `scipy.optimize.least_squares`.
    jac_sparsity : array_like or sparse matrix
        Where the Jacobian may be nonzero, as in `scipy.optimize.least_squares`.
    jac : callable or str
        The Jacobian of the residuals, dense or sparse, or '2-point', '3-point', 'cs'. Differences are central also for
        '2-point': the certificate asks for their accuracy.
    bounds : pair or Bounds
        (lower, upper), each a number or an array, or anything that `minimize` takes.
    constraints : dict, constraint or list
        As in `minimize`: dictionaries, `NonlinearConstraint`, `LinearConstraint`, one or a list.
    loss : str or callable
        'linear', 'soft_l1', 'huber', 'cauchy', 'arctan', or a function of z = (fun / f_scale)^2 that returns rho, rho'
        and rho'' as the rows of an array, as in SciPy.
    f_scale : float
        The size of residuals from which on a robust loss counts them as outliers.
    x_scale : number, array_like or 'jac'
        The sizes of the variables; None or 'jac': as `minimize` judges them.
    max_nfev : int
        Most evaluations of the residuals.
    tol : float
        The tolerance of the certificate, as in `minimize`.
    **options : dict
        Any other argument of `minimize`: `callback`, `progress`, `budget`, `starts`, ...

    Returns
    -------
    LeastSquaresResult
        With SciPy's fields (x, cost, fun, jac, grad, optimality, active_mask, nfev, njev, status, message, success),
        `covariance()`, `multipliers` and `result`, that of `minimize` with its certificate.

    Examples
    --------
    A line near three points that is at most 2 at t = 2:

    >>> import numpy as np
    >>> import auglag
    >>> t, y = np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 3.0])
    >>> below = {"type": "ineq", "fun": lambda p: 2 - (p[0] + 2 * p[1])}
    >>> fit = auglag.least_squares(lambda p: p[0] + p[1] * t - y, [0.0, 1.0], constraints=below)
    >>> fit.success, fit.x.round(3).tolist()
    (True, [0.0, 1.0])
    """
    if "hess" in options or "hessp" in options:
        raise OptionError("least_squares() takes no hess: the Gauss-Newton part comes from jac, the rest is learnt")
    require_options(options, "least_squares()", ("loss", "f_scale", "jac_sparsity", "diff_step", "max_nfev", "kwargs"))
    start = check_x0(x0)
    if isinstance(bounds, tuple) and len(bounds) == 2:
        bounds = list(zip(*map(partial(_side, n=start.size), bounds, ("lower", "upper")), strict=True))
    if max_nfev is not None:
        if options.get("budget") is not None:
            raise InputError("budget already limits the run; leave out max_nfev")
        options["budget"] = Budget(evaluations=max_nfev)
    more = tuple(args) if isinstance(args, list | tuple) else (args,)
    residuals = _Residuals(
        with_args(_with_keywords(fun, kwargs, "fun"), more),
        jac if isinstance(jac, str) else with_args(_with_keywords(jac, kwargs, "jac"), more),
        _loss(loss),
        require_positive(f_scale, "f_scale"),
        parse_bounds(bounds, start.size),
        jac_sparsity,
        diff_step,
    )
    problem = Problem(
        residuals.cost,
        start,
        jac=residuals.gradient,
        bounds=bounds,
        constraints=constraints,
        known_curvature=residuals.gauss_newton,
    )
    scale = None if isinstance(x_scale, str) and x_scale == "jac" else x_scale
    result = minimize(problem, tol=tol, x_scale=scale, **options)
    return LeastSquaresResult.of(result, residuals, problem)


def _side(side: Any, name: str, n: int) -> list[float]:
    """One of (lower, upper): a number for all variables or one for each."""
    values = real_array(side, f"the {name} side of bounds")
    if values.ndim and values.shape != (n,):
        raise InputError(f"the {name} side of bounds must be a number or {n} numbers, got shape {values.shape}")
    return [float(value) for value in np.broadcast_to(values, (n,))]


def _with_keywords(function: Any, kwargs: dict[str, Any] | None, name: str) -> Any:
    if not callable(function):
        schemes = f", or one of {differences.SCHEMES}" if name == "jac" else ""
        raise InputError(f"{name} must be callable{schemes}, got {function!r:.80}")
    return function if not kwargs else lambda x, *args: function(x, *args, **kwargs)


def _loss(loss: str | Callable[[Vector], Any]) -> Callable[[Vector], Any]:
    if not isinstance(loss, str):
        if not callable(loss):
            raise InputError(f"loss must be one of {', '.join(map(repr, LOSSES))} or callable, got {loss!r:.80}")
        return loss
    if loss not in LOSSES:
        raise InputError(f"loss must be one of {', '.join(map(repr, LOSSES))} or callable, got {loss!r:.80}")
    return LOSSES[loss]


@final
class _Residuals:
    """The residuals, their Jacobian and their loss; the last points are kept, since cost and gradient share them."""

    def __init__(
        self,
        fun: Callable[[Vector], Any],
        jac: Any,
        loss: Callable[[Vector], Any],
        scale: float,
        box: tuple[Vector, Vector],
        sparsity: Any,
        step: Any,
    ) -> None:
        if isinstance(jac, str) and jac not in differences.SCHEMES:
            raise InputError(f"jac must be callable or one of {differences.SCHEMES}, got {jac!r:.80}")
        self._fun, self._jac, self._loss, self.scale, self._box = fun, jac, loss, scale, box
        self._scheme = {"2-point": "3-point"}.get(jac, jac) if isinstance(jac, str) else None
        pattern = None if sparsity is None else sparse.csr_array(sparsity)
        self._sparsity = None if pattern is None else (pattern, colour(pattern))
        self._step = step
        self.nfev = self.njev = 0
        self._size: int | None = None
        self._values: dict[bytes, Vector] = {}
        self._jacobians: dict[bytes, Jacobian] = {}

    def values(self, x: Vector) -> Vector:
        """fun(x) as a vector."""
        key = x.tobytes()
        known = self._values.get(key)
        if known is None:
            self.nfev += 1
            known = np.atleast_1d(real_array(self._fun(x.copy()), "fun(x)")).ravel().copy()
            self._size = known.size if self._size is None else self._size
            if known.size != self._size:
                raise InputError(f"fun(x) must return {self._size} residuals as it did first, got {known.size}")
            _keep(self._values, key, known)
        return known

    def jacobian(self, x: Vector) -> Jacobian:
        """Its Jacobian."""
        key = x.tobytes()
        known = self._jacobians.get(key)
        if known is None:
            f = self.values(x)
            self.njev += 1
            known = self._differences(x, f) if self._scheme else self._given(x, f)
            _keep(self._jacobians, key, known)
        return known

    def _given(self, x: Vector, f: Vector) -> Jacobian:
        raw = self._jac(x.copy())
        return as_jacobian(sparse.csr_array(raw) if sparse.issparse(raw) else raw, f.size, x.size, "jac(x)")

    def _differences(self, x: Vector, f: Vector) -> Any:
        def fun(z: Any) -> Any:
            self.nfev += 1
            return np.atleast_1d(np.asarray(self._fun(z))).ravel()

        if self._sparsity is not None and self._sparsity[0].shape != (f.size, x.size):
            raise InputError(f"jac_sparsity must have shape ({f.size}, {x.size}), got {self._sparsity[0].shape}")
        lower, upper = np.minimum(self._box[0], x), np.maximum(self._box[1], x)
        return differences.jacobian(
            fun, x, f, lower=lower, upper=upper, scheme=str(self._scheme), rel_step=self._step, sparsity=self._sparsity
        )

    def rho(self, f: Vector) -> tuple[Vector, Vector, Vector]:
        """(rho, rho', rho'') by f^2, in the units of f^2."""
        value, first, second = self._loss((f / self.scale) ** 2)
        return self.scale**2 * np.asarray(value), np.asarray(first), np.asarray(second) / self.scale**2

    def cost(self, x: Vector) -> float:
        """1/2 sum rho."""
        return 0.5 * float(self.rho(self.values(x))[0].sum())

    def gradient(self, x: Vector) -> Vector:
        """J'(rho' f)."""
        f = self.values(x)
        return transposed_product(self.jacobian(x), self.rho(f)[1] * f)

    def gauss_newton(self, x: Vector) -> Any:
        """J' diag(rho' + 2 rho'' f^2) J, weights at least 0 (Triggs et al. 2000, "Bundle adjustment", section 4.3)."""
        f, jac = self.values(x), self.jacobian(x)
        _, first, second = self.rho(f)
        weights = np.maximum(first + 2.0 * second * f**2, 0.0)
        if sparse.issparse(jac):
            return sparse.csr_array(jac.T @ sparse.diags_array(weights) @ jac)
        matrix = dense(jac)
        return matrix.T @ (weights[:, None] * matrix)


def _keep(known: dict[bytes, Any], key: bytes, value: Any) -> None:
    """Put it at the end of a few: cost, gradient and curvature are asked for one after the other."""
    known[key] = value
    while len(known) > 4:
        known.pop(next(iter(known)), None)


@final
class LeastSquaresResult(OptimizeResult):
    """What `least_squares` returns: SciPy's fields, and `result`, that of `minimize`."""

    result: Result

    @staticmethod
    def of(result: Result, residuals: _Residuals, problem: Problem) -> LeastSquaresResult:
        """From a run of `minimize` on the cost."""
        x = np.asarray(result.x)
        near = 1e-10 * np.abs(x)  # a variable that is small is not at a bound of 0
        mask = (x >= problem.upper - near).astype(int) - (x <= problem.lower + near).astype(int)
        fixed = problem.lower == problem.upper
        found = LeastSquaresResult(
            x=x,
            cost=residuals.cost(x),
            fun=residuals.values(x),
            jac=residuals.jacobian(x),
            grad=residuals.gradient(x),
            optimality=result.certificate.residual,
            active_mask=np.where(fixed, 1, mask),
            multipliers=result.multipliers,
            status=result.status,
            message=result.message,
            success=result.success,
            nfev=residuals.nfev,
            njev=residuals.njev,
            result=result,
        )
        found._rows = _active_rows(problem, x, result)
        found._weights = residuals.rho(found.fun)[1]
        return found

    def __dir__(self) -> list[str]:
        own = {name for name in vars(type(self)) if not name.startswith("_")} - {"of"}
        return sorted({*(name for name in self if not name.startswith("_")), *own})

    def __repr__(self) -> str:
        """What matters most, the status by its name, in a screen."""
        from auglag.report.summary import brief, lines, named

        result = self.result
        fields = {
            "status": f"{result.status.name} ({int(result.status)})",
            "success": self.success,
            "message": self.message,
            "cost": f"{self.cost:.12g}",
            "x": brief(self.x),
            "fun": brief(self.fun),
            "multipliers": named(result.multipliers_by_name) if result.names else "",
            "certificate": str(result.certificate),
            "calls": f"nfev {self.nfev}, njev {self.njev}",
            "advice": " ".join(result.advice),
            "more": "jac, grad, optimality, active_mask, result; covariance(), explain(), plot(), save(path)",
        }
        return lines(fields)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows: as of `result`, whose f is the cost."""
        return self.result._repr_html_()

    def explain(self) -> str:
        """In words: what happened, how good the point is, and what to try."""
        return self.result.explain()

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """The course of the run, as `Result.plot`."""
        return self.result.plot(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `result` to a file, as JSON; `auglag.load_result(path)` gives it back, without residuals and `jac`."""
        self.result.save(path)

    def covariance(self, *, absolute: bool = False) -> Any:
        """The covariance of x to first order, where errors of the residuals are independent and of one size.

        That size is estimated from the residuals (cost over degrees of freedom), or 1 with `absolute`, for residuals
        that were divided by their standard deviations. Variables at a bound, and directions that active constraints
        exclude, do not vary. Entries to which a direction contributes that the residuals do not determine are infinite,
        and all that vary are where no residual is left over to estimate that size from. Robust losses weigh J by rho'.
        """
        jac = dense(self.jac) * np.sqrt(self._weights)[:, None]
        n, rows = self.x.size, self._rows
        free = np.flatnonzero(np.asarray(self.active_mask) == 0)
        allowed = np.zeros((n, free.size))
        allowed[free, np.arange(free.size)] = 1.0
        if rows.size:
            _, sigma, right = np.linalg.svd(rows @ allowed)
            rank = int(np.count_nonzero(sigma > 1e-10 * max(1.0, float(np.max(sigma, initial=0.0)))))
            allowed = allowed @ right[rank:].T
        _, sigma, right = np.linalg.svd(jac @ allowed)
        least = np.finfo(float).eps * max(jac.shape) * float(np.max(sigma, initial=0.0))
        rank = int(np.count_nonzero(sigma > least))
        root, open_ways = allowed @ (right[:rank].T / sigma[:rank]), allowed @ right[rank:].T
        freedom = self.fun.size - rank
        known = root @ root.T
        if absolute or freedom > 0:
            known = known * (1.0 if absolute else 2.0 * self.cost / freedom)
        else:
            known = _infinite(known, np.zeros_like(known))
        return _infinite(open_ways @ open_ways.T, known)


def _infinite(spread: Any, otherwise: Any) -> Any:
    """The limit of t * spread + otherwise for large t; entries of `spread` below its rounding errors are zero."""
    sizes = np.sqrt(np.diag(spread))
    sizes[sizes <= math.sqrt(np.finfo(float).eps) * np.max(sizes, initial=0.0)] = 0.0
    there = np.abs(spread) > math.sqrt(np.finfo(float).eps) * np.outer(sizes, sizes)
    return np.where(there & (np.outer(sizes, sizes) > 0.0), np.copysign(math.inf, spread), otherwise)


def _active_rows(problem: Problem, x: Vector, result: Result) -> Any:
    """The gradients of equations and of rows that a multiplier holds."""
    if not problem.m:
        return np.zeros((0, x.size))
    active = (problem.cl == problem.cu) | (result.y != 0.0)
    return dense(problem.at(x).jac)[active]
