"""The entry point `certify`: any point of any solver, checked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from auglag._names import suggesting
from auglag.certificate import Certificate, certificate
from auglag.errors import InputError
from auglag.given import flat_multipliers, problem_of
from auglag.problems.arguments import check_x0
from auglag.problems.base import AbstractProblem


@suggesting
def certify(
    fun: Callable[..., Any] | AbstractProblem | None,
    x: Any,
    multipliers: Any = None,
    args: Any = (),
    *,
    jac: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    g: Any = None,
) -> Certificate:
    """Check any point of any solver: KKT residuals in the user's units, with the given or the best multipliers.

    Parameters
    ----------
    fun : callable, None or problem
        The objective, as in `auglag.minimize`, or a problem object.
    x : array_like or result
        The point, or a whole result of SciPy.
    multipliers : array_like or list
        With the sign L = f + y'c, flat or one entry per constraint. None: those with nearly the smallest residual are
        found.
    args : tuple
        Further arguments of fun and jac.
    jac : callable, bool or str
        The gradient, as in `auglag.minimize`.
    bounds : Bounds or sequence of pairs
        As in `auglag.minimize`.
    constraints : dict, NonlinearConstraint, LinearConstraint or list of these
        As in `auglag.minimize`.
    g : prox term
        As in `auglag.minimize`.

    Returns
    -------
    Certificate
        `.meets(tol)` says whether the point is a solution, `.residual` and `.worst` what is wrong with it.

    Examples
    --------
    >>> import auglag
    >>> line = {"type": "eq", "fun": lambda x: x[0] + x[1] - 1, "name": "line"}
    >>> auglag.certify(lambda x: x @ x, [0.5, 0.5], constraints=line).meets(1e-6)
    True
    >>> auglag.certify(lambda x: x @ x, [0.9, 0.0], constraints=line).meets(1e-6)
    False
    """
    given = {"jac": jac, "hess": None, "hessp": None, "bounds": bounds, "g": g}
    point = check_x0(x["x"] if isinstance(x, Mapping) and "x" in x else x, "x")
    problem = problem_of(fun, None if isinstance(fun, AbstractProblem) else point, args, given, constraints, None)
    if point.size != problem.n:
        raise InputError(f"x must have {problem.n} entries, got {point.size}")
    y = None if multipliers is None else flat_multipliers(multipliers, problem.m)
    with problem.running():
        if problem.differenced:
            problem.learn_precision(point)
        problem.refine(2)  # a certificate deserves the best derivatives there are
        check = certificate(problem, point, y)
        other_sign = y is not None and certificate(problem, point, -y).residual < 0.1 * check.residual
    if other_sign:
        warnings.warn(
            "the multipliers look like those of L = f - y'c, the sign of SciPy's SLSQP; here L = f + y'c: pass "
            "-multipliers, or leave them out",
            stacklevel=3,
        )
    return check
