"""auglag as an algorithm of optimagic: `optimagic.minimize(..., algorithm=auglag.optimagic.Auglag(tol=1e-8))`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import Bounds

from auglag._names import suggesting
from auglag.budget import Budget
from auglag.minimize import minimize

try:
    from optimagic import mark
    from optimagic.optimization.algorithm import Algorithm, InternalOptimizeResult
    from optimagic.typing import AggregationLevel
except ImportError as error:  # pragma: no cover - seen only without the package
    raise ImportError(f"auglag.optimagic needs {error.name}: pip install 'auglag[optimagic]'") from None


@mark.minimizer(
    name="auglag",
    solver_type=AggregationLevel.SCALAR,
    is_available=True,
    is_global=False,
    needs_jac=True,
    needs_hess=False,
    needs_bounds=False,
    supports_parallelism=False,
    supports_bounds=True,
    supports_infinite_bounds=True,
    supports_linear_constraints=False,
    supports_nonlinear_constraints=True,
    disable_history=False,
)
@suggesting
@dataclass(frozen=True)
class Auglag(Algorithm):
    """The adaptive augmented Lagrangian method; options as in `auglag.minimize`."""

    tol: float = 1e-6
    stopping_maxiter: int = 200
    restarts: int | None = None

    def _solve_internal_problem(self, problem: Any, x0: Any) -> Any:
        rows = [{key: row[key] for key in ("type", "fun", "jac")} for row in problem.nonlinear_constraints or ()]
        result = minimize(
            problem.fun_and_jac,
            x0,
            jac=True,
            bounds=_bounds(problem.bounds),
            constraints=rows,
            tol=self.tol,
            restarts=self.restarts,
            budget=Budget(outer=self.stopping_maxiter),
        )
        return InternalOptimizeResult(
            x=result.x,
            fun=result.fun,
            success=result.success,
            message=result.message,
            n_fun_evals=result.nfev,
            n_jac_evals=result.njev,
            n_iterations=result.nit,
            status=int(result.status),
        )


def _bounds(given: Any) -> Bounds | None:
    """optimagic's bounds, of which either side may be missing, as SciPy's."""
    if given is None:
        return None
    lower = -np.inf if given.lower is None else given.lower
    upper = np.inf if given.upper is None else given.upper
    return Bounds(lower, upper)
