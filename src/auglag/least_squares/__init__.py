"""Nonlinear least squares with bounds and constraints: `scipy.optimize.least_squares`, and what it cannot state.

The run is one of `minimize`, with the Gauss-Newton part J'J of the Hessian taken from the Jacobian of the residuals and
only the rest of the curvature learnt (compare Dennis, Gay and Welsch 1981, ACM Trans. Math. Softw. 7). A sparse
Jacobian gives a sparse J'J.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import Bounds

from auglag._arrays import real_array
from auglag._typing import Vector
from auglag.budget import Budget
from auglag.derivatives import differences
from auglag.errors import InputError, OptionError, require_positive
from auglag.least_squares.losses import loss_of
from auglag.least_squares.residuals import Residuals
from auglag.least_squares.result import LeastSquaresResult
from auglag.minimize import minimize, require_options
from auglag.problems.arguments import check_x0, parse_bounds
from auglag.problems.constraints import with_args
from auglag.problems.functions import Problem

if TYPE_CHECKING:
    pass

__all__ = ["LeastSquaresResult", "least_squares"]


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
        (lower, upper), each a number or an array, as in SciPy: a tuple, a list or an array of two is always that, also
        where there are two variables. Otherwise anything that `minimize` takes.
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
    if not isinstance(bounds, Bounds) and hasattr(bounds, "__len__") and len(bounds) == 2:
        lower, upper = bounds
        bounds = Bounds(_side(lower, "lower", start.size), _side(upper, "upper", start.size))
    if max_nfev is not None:
        if options.get("budget") is not None:
            raise InputError("budget already limits the run; leave out max_nfev")
        options["budget"] = Budget(evaluations=max_nfev)
    more = tuple(args) if isinstance(args, list | tuple) else (args,)
    residuals = Residuals(
        with_args(_with_keywords(fun, kwargs, "fun"), more),
        jac if isinstance(jac, str) else with_args(_with_keywords(jac, kwargs, "jac"), more),
        loss_of(loss),
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


def _side(side: Any, name: str, n: int) -> Vector:
    """One of (lower, upper): a number for all variables or one for each."""
    values = real_array(side, f"the {name} side of bounds")
    if values.ndim and values.shape != (n,):
        raise InputError(f"the {name} side of bounds must be a number or {n} numbers, got shape {values.shape}")
    return np.array(np.broadcast_to(values, (n,)))


def _with_keywords(function: Any, kwargs: dict[str, Any] | None, name: str) -> Any:
    if not callable(function):
        schemes = f", or one of {differences.SCHEMES}" if name == "jac" else ""
        raise InputError(f"{name} must be callable{schemes}, got {function!r:.80}")
    return function if not kwargs else lambda x, *args: function(x, *args, **kwargs)
