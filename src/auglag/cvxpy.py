"""auglag for CVXPY's nonlinear problems: after `import auglag.cvxpy`, `problem.solve(nlp=True, solver="AUGLAG")`.

Values and derivatives come from CVXPY, exact and sparse. Further keywords of `solve` are those of `auglag.minimize`;
options of IPOPT are translated, or passed over with one warning.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.ampl.options import keywords, parsed, passed_over
from auglag.minimize import minimize
from auglag.problems.base import AbstractProblem, Group
from auglag.result import Result
from auglag.strategy.plan import SADDLE

try:
    from cvxpy import settings
    from cvxpy.error import SolverError
    from cvxpy.reductions.solution import Solution, failure_solution
    from cvxpy.reductions.solvers.defines import INSTALLED_SOLVERS, SOLVER_MAP_NLP
    from cvxpy.reductions.solvers.nlp_solvers.nlp_solver import NLPsolver, Oracles
except ImportError as error:  # pragma: no cover - seen only without the extra
    raise ImportError(f"auglag.cvxpy needs {error.name}: pip install 'auglag[cvxpy]'") from None

_STATUS = {
    Status.SOLVED: settings.OPTIMAL,
    Status.PRECISION_LIMIT: settings.OPTIMAL_INACCURATE,
    Status.UNCERTIFIED: settings.OPTIMAL_INACCURATE,
    Status.INFEASIBLE: settings.INFEASIBLE,
    Status.UNBOUNDED: settings.UNBOUNDED,
    Status.ITERATION_LIMIT: settings.USER_LIMIT,
    Status.EVALUATION_LIMIT: settings.USER_LIMIT,
    Status.TIME_LIMIT: settings.USER_LIMIT,
    Status.STOPPED: settings.USER_LIMIT,
    Status.INTERRUPTED: settings.USER_LIMIT,
}
_ARGUMENTS = set(inspect.signature(minimize).parameters)


class AUGLAG(NLPsolver):
    """The solver, as CVXPY calls it."""

    def name(self) -> str:
        """As `solve(solver=...)` wants it."""
        return "AUGLAG"

    def is_installed(self) -> bool:
        """Always: it is part of what is imported."""
        return True

    def import_solver(self) -> None:
        """Nothing is left to import."""

    def cite(self, data: Any) -> str:
        """auglag has no publication of its own."""
        return ""

    def solve_via_data(
        self, data: Mapping[str, Any], warm_start: bool, verbose: bool, solver_opts: Any, solver_cache: Any = None
    ) -> dict[str, Any]:
        """Solve; the values of the variables are the start."""
        problem = data["_bounds"].new_problem
        _require_continuous(problem)
        oracles = None if solver_cache is None else solver_cache.get("oracles")
        if oracles is None:
            oracles = Oracles(problem, verbose=False)
        elif problem.parameters():
            oracles.update_params(problem)
        if solver_cache is not None:
            solver_cache["oracles"] = oracles
        result = minimize(_OracleProblem(oracles, data), **_options(solver_opts or {}, verbose))
        return {"result": result}

    def invert(self, solution: Mapping[str, Any], inverse_data: Any) -> Any:
        """The solution in CVXPY's terms; `problem.solver_stats.extra_stats["result"]` is the `auglag.Result`."""
        result: Result = solution["result"]
        extra = {"result": result}
        if "all_objs_from_best_of" in solution:
            extra["all_objs_from_best_of"] = solution["all_objs_from_best_of"]
        attributes = {
            settings.NUM_ITERS: result.nit_inner,
            settings.SOLVE_TIME: result.seconds,
            settings.EXTRA_STATS: extra,
        }
        status = _STATUS.get(result.status, settings.SOLVER_ERROR)
        if result.success and result.second_order == SADDLE:  # lower points are near: CVXPY warns of such an optimum
            status = settings.OPTIMAL_INACCURATE
        if status not in settings.SOLUTION_PRESENT:
            return failure_solution(status, attributes)
        values = {}
        for key, offset in inverse_data.var_offsets.items():
            shape = inverse_data.var_shapes[key]
            size = int(np.prod(shape, dtype=int))
            values[key] = np.reshape(result.x[offset : offset + size], shape, order="F")
        return Solution(status, result.fun + inverse_data.offset, values, {}, attributes)


def _require_continuous(problem: Any) -> None:
    """Refuse integer variables: CVXPY would report whatever is found as their optimum."""
    for variable in problem.variables():
        if variable.attributes["integer"] or variable.attributes["boolean"]:
            kind = "integer" if variable.attributes["integer"] else "boolean"
            raise SolverError(f"AUGLAG needs continuous variables, got {variable.name()!r}, which is {kind}")


def _options(given: Mapping[str, Any], verbose: bool) -> dict[str, Any]:
    """Keywords of `minimize`; what is none of them is taken for an option of the AMPL protocol or of IPOPT."""
    ours = {name: value for name, value in given.items() if name in _ARGUMENTS}
    words = [f"{name}={value}" for name, value in given.items() if name not in _ARGUMENTS]
    if warning := passed_over(words):
        warnings.warn(warning, stacklevel=5)
    return keywords(parsed(words)) | {"progress": verbose} | ours


@final
class _OracleProblem(AbstractProblem):
    """CVXPY's oracles as a problem. They know the last point only, so each is asked for its values first."""

    has_hessp = has_hess = repeatable = True

    def __init__(self, oracles: Any, data: Mapping[str, Any]) -> None:
        m = len(data["cl"])
        super().__init__(
            np.asarray(data["x0"], dtype=float),
            lower=data["lb"],
            upper=data["ub"],
            cl=np.asarray(data["cl"], dtype=float),
            cu=np.asarray(data["cu"], dtype=float),
            groups=(Group("constraints", 0, m),) if m else (),
        )
        self._oracles = oracles
        self._f_at: Vector | None = None
        self._c_at: Vector | None = None
        self._jac_places = oracles.jacobianstructure()
        rows, columns = (np.asarray(side, dtype=np.intp) for side in oracles.hessianstructure())
        below = rows != columns
        self._hess_places = np.concatenate([rows, columns[below]]), np.concatenate([columns, rows[below]])
        self._below = below

    def f(self, x: Vector) -> float:
        self.counts.nfev += 1
        return self._forward_f(x)

    def c(self, x: Vector) -> Vector:
        self.counts.constr_nfev += 1
        return self._forward_c(x)

    def _forward_f(self, x: Vector) -> float:
        self._f_at = x.copy()
        return float(self._oracles.objective(x))

    def _forward_c(self, x: Vector) -> Vector:
        self._c_at = x.copy()
        return np.array(self._oracles.constraints(x), dtype=float).ravel() if self.m else np.zeros(0)

    def grad(self, x: Vector) -> Vector:
        self.counts.njev += 1
        self._be_at(x)
        return np.array(self._oracles.gradient(x), dtype=float).ravel()

    def jac(self, x: Vector) -> Any:
        self.counts.constr_njev += 1
        self._be_at(x)
        values = np.array(self._oracles.jacobian(x), dtype=float)
        return sparse.csr_array(sparse.coo_array((values, self._jac_places), shape=(self.m, self.n)))

    def hess(self, x: Vector, y: Vector) -> Any:
        self.count_hessian()
        self._be_at(x)
        if self.m:  # it needs the Jacobian of the point as well
            self._oracles.gradient(x)
            self._oracles.jacobian(x)
        values = np.array(self._oracles.hessian(x, y, 1.0), dtype=float)
        values = np.concatenate([values, values[self._below]])
        return sparse.csr_array(sparse.coo_array((values, self._hess_places), shape=(self.n, self.n)))

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        return np.asarray(self.hess(x, y) @ v)

    def _be_at(self, x: Vector) -> None:
        if self._f_at is None or not np.array_equal(self._f_at, x):
            self._forward_f(x)
        if self.m and (self._c_at is None or not np.array_equal(self._c_at, x)):
            self._forward_c(x)


SOLVER_MAP_NLP["AUGLAG"] = AUGLAG()
if "AUGLAG" not in INSTALLED_SOLVERS:
    INSTALLED_SOLVERS.append("AUGLAG")
