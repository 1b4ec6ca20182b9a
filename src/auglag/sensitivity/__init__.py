"""How a solution moves with the parameters of its problem: derivatives of x and the multipliers, without solving again.

At a solution where the gradients of the active constraints are independent, active inequalities have multipliers away
from zero and the second-order conditions hold, x and the multipliers are smooth functions of the parameters, and their
derivatives solve one linear system with the KKT matrix (Fiacco 1983, Theorem 2.4.4). Where one of these fails, the
derivatives may not exist: `reasons` says which and why, and `directional` has one-sided derivatives of x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from auglag._arrays import real_array
from auglag._typing import Vector
from auglag.certificate import certificate
from auglag.derivatives.extrapolation import extrapolated
from auglag.errors import InputError
from auglag.problems.base import AbstractProblem
from auglag.result import Result
from auglag.sensitivity.directions import Parts, Sensitivity
from auglag.sensitivity.kkt import sides_of
from auglag.sensitivity.tuning import TUNING

__all__ = ["Sensitivity", "sensitivity"]


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
            sides = (np.nan_to_num(side, posinf=0.0, neginf=0.0) for side in sides_of(moved))
            return np.concatenate([[point.f], point.lagrangian_gradient(y), point.c, *sides])

    free = np.full(p.size, np.inf)
    derivatives = np.asarray(extrapolated(stacked, p, stacked(p), lower=-free, upper=free)[0])
    f, *others = np.split(derivatives, np.cumsum(sizes)[:-1])
    return Parts(f[0], *others)
