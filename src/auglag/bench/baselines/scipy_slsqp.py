"""SciPy's SLSQP."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from scipy.optimize import Bounds, minimize

from auglag._typing import Vector
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.counted import CountedProblem
from auglag.problems.jacobians import dense


@final
class Slsqp(Baseline):
    """`scipy.optimize.minimize(method="SLSQP")` with gradients.

    Its only tolerance is `ftol`, on the change of f and on the sum of violations. Near a solution the change of f is of
    second order in the error of x, so None means tol squared.
    """

    name = "slsqp"
    requires = ("scipy",)
    derivatives = 1
    defaults: Mapping[str, Any] = {"tol": 1e-8, "ftol": None, "maxiter": 100_000}

    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Run it; a two-sided row is two inequalities, whose multipliers are added up again."""
        rows = _Rows(problem)
        ftol = options["tol"] ** 2 if options["ftol"] is None else options["ftol"]
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            found = minimize(
                problem.f,
                problem.x0,
                jac=problem.grad,
                method="SLSQP",
                bounds=Bounds(problem.lower, problem.upper),
                constraints=rows.constraints(),
                options={"ftol": ftol, "maxiter": options["maxiter"], "disp": False},
            )
        multipliers = found.get("multipliers")
        return Answer(
            x=np.asarray(found.x, dtype=float),
            claims_success=bool(found.success),
            message=f"{found.status}: {found.message}",
            y=None if multipliers is None else rows.multipliers(np.asarray(multipliers, dtype=float)),
            extra={"status": int(found.status), "outer": int(found.nit)},
        )


@final
class _Rows:
    """The rows as SLSQP wants them: c = 0 and c >= 0."""

    def __init__(self, problem: CountedProblem) -> None:
        self._problem = problem
        equal = problem.cl == problem.cu
        self._equal = np.flatnonzero(equal)
        self._above = np.flatnonzero(~equal & np.isfinite(problem.cl))
        self._below = np.flatnonzero(~equal & np.isfinite(problem.cu))

    def constraints(self) -> list[dict[str, Any]]:
        """Equalities, then c - cl >= 0, then cu - c >= 0; an empty kind is left out."""
        p = self._problem
        parts = [("eq", self._equal, 1.0, p.cl), ("ineq", self._above, 1.0, p.cl), ("ineq", self._below, -1.0, p.cu)]
        return [_constraint(p, kind, rows, sign, side) for kind, rows, sign, side in parts if rows.size]

    def multipliers(self, found: Vector) -> Vector:
        """SLSQP's multipliers (L = f - found'g) as one per row in the sign L = f + y'c."""
        y = np.zeros(self._problem.m)
        first, second = self._equal.size, self._equal.size + self._above.size
        y[self._equal] = -found[:first]
        y[self._above] = -found[first:second]
        y[self._below] += found[second : second + self._below.size]
        return y


def _constraint(p: CountedProblem, kind: str, rows: Any, sign: float, side: Vector) -> dict[str, Any]:
    def value(x: Vector) -> Vector:
        return np.asarray(sign * (p.c(x)[rows] - side[rows]))

    def jacobian(x: Vector) -> Any:
        return sign * dense(p.jac(x))[rows]

    return {"type": kind, "fun": value, "jac": jacobian}
