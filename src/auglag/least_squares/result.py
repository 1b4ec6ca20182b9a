"""The result of least squares, with covariances."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.optimize import OptimizeResult

from auglag._typing import Vector
from auglag.problems.functions import Problem
from auglag.problems.jacobians import dense
from auglag.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from auglag.least_squares.residuals import Residuals


@final
class LeastSquaresResult(OptimizeResult):
    """What `least_squares` returns: SciPy's fields, and `result`, that of `minimize`."""

    result: Result

    @staticmethod
    def of(result: Result, residuals: Residuals, problem: Problem) -> LeastSquaresResult:
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
