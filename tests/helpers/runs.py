"""Runs that several test modules start: known problems as arguments of `minimize`, fast or slow to solve."""

from __future__ import annotations

import math

import numpy as np
import scipy.optimize
from scipy.optimize import NonlinearConstraint

from auglag.problems import hock_schittkowski as hs


def rosenbrock(x):
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def known(name, exact=True, **kwargs):
    """Arguments of minimize for a Hock-Schittkowski problem."""
    p = hs.get(name)
    cons = [NonlinearConstraint(r.fun, r.lower, r.upper, **({"jac": r.jac} if exact else {})) for r in p.rows]
    bounds = scipy.optimize.Bounds(p.lower, p.upper)
    return {
        "fun": p.fun,
        "x0": p.x0,
        "bounds": bounds,
        "constraints": cons,
        **({"jac": p.grad} if exact else {}),
        **kwargs,
    }


def slowly(name, exact=True, **kwargs):
    """The same, solved by Algorithm 1 alone with a first-order inner solver, which takes a while."""
    return known(name, exact, acceleration=False, inner="lbfgsb", **kwargs)


def assert_best_of_history(res, slack=1e-6):
    """The point returned is not worse than any the run has recorded."""
    seen = [row["residual"] for row in res.history if row["usable"]]
    assert res.certificate.residual <= min(seen, default=math.inf) * (1 + slack) + 1e-12
