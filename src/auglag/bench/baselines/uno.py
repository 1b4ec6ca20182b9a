"""Uno, through its wheel `unopy`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.baselines.callbacks import Callbacks
from auglag.bench.baselines.sparsity import hessian_structure, jacobian_structure
from auglag.bench.counted import CountedProblem
from auglag.errors import EvaluationError


@final
class Uno(Baseline):
    """Uno with exact Hessians; `preset` "filtersqp" (trust-region filter SQP) or "ipopt" (interior point with MUMPS).

    `tol` is its primal and its dual tolerance. `stationarity`, `complementarity` and `violation` are the tolerances on
    the problem as stated, without Uno's scaling. Acceptable ends are switched off.
    """

    name = "uno"
    requires = ("unopy",)
    extra = "baselines"
    derivatives = 2
    defaults: Mapping[str, Any] = {
        "tol": 1e-8,
        "preset": "filtersqp",
        "violation": 1e-8,
        "stationarity": 1e-6,
        "complementarity": 1e-8,
        "max_iterations": 100_000,
    }

    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Run it; a limit ends it at the next iteration, and the last accepted iterate is the answer."""
        import unopy

        functions = _Functions(problem)
        solver = unopy.UnoSolver()
        solver.set_preset(options["preset"])
        for name, value in _settings(options).items():
            solver.set_option(name, value)
        solver.set_notify_acceptable_iterate_callback(functions.keep)
        solver.set_termination_callback(lambda *state: functions.callbacks.stop(problem))
        result = solver.optimize(functions.model(unopy))
        functions.callbacks.raise_error()
        limit = functions.callbacks.limit
        x, y = np.array(result.primal_solution, dtype=float), np.array(result.constraint_dual_solution, dtype=float)
        complete = not limit and bool(np.isfinite(x).all() and np.isfinite(y).all())
        ended, point = result.optimization_status, result.solution_status
        success = ended == unopy.OptimizationStatus.SUCCESS and point == unopy.SolutionStatus.FEASIBLE_KKT_POINT
        return Answer(
            x=x if complete else functions.x,
            claims_success=success and not limit,
            message=f"limit: {limit}" if limit else f"{_word(ended)}: {_word(point)}",
            y=y if complete else None,
            extra={
                "status": _word(ended),
                "point": _word(point),
                "outer": int(result.number_iterations),
                "subproblems": int(result.number_subproblems_solved),
            },
        )

    def version(self) -> str:
        """Uno's own version, and the wheel's."""
        import unopy

        return f"Uno {unopy.current_uno_version()} (unopy {importlib.metadata.version('unopy')})"


@final
class _Functions:
    """The callbacks of one solve; an exception in one is, to Uno, a point where the function is not defined."""

    def __init__(self, problem: CountedProblem) -> None:
        self.problem, self.callbacks = problem, Callbacks()
        self.x = np.clip(problem.x0, problem.lower, problem.upper)
        self._jacobian, self._hessian = jacobian_structure(problem), hessian_structure(problem)

    def model(self, unopy: Any) -> Any:
        """The problem as Uno sees it, with L = f + y'c."""
        p, jacobian, hessian = self.problem, self._jacobian, self._hessian
        lower, upper = p.lower.tolist(), p.upper.tolist()
        model = unopy.Model(unopy.PROBLEM_NONLINEAR, p.n, lower, upper, unopy.ZERO_BASED_INDEXING)
        model.set_objective(unopy.MINIMIZE, self._f, self._grad)
        if p.m:
            places = (jacobian.size, jacobian.rows.tolist(), jacobian.columns.tolist())
            model.set_constraints(p.m, self._c, p.cl.tolist(), p.cu.tolist(), *places, self._jac)
        triangle = (unopy.LOWER_TRIANGLE, hessian.rows.tolist(), hessian.columns.tolist())
        model.set_lagrangian_hessian(hessian.size, *triangle, self._hess)
        model.set_lagrangian_sign_convention(unopy.MULTIPLIER_POSITIVE)
        model.set_initial_primal_iterate(p.x0.tolist())
        return model

    def keep(self, x: Any, *state: Any) -> None:
        """Remember an iterate; not its multipliers, which have another sign and scale here than in the result."""
        point = np.array(x, dtype=float)[: self.problem.n]
        if np.isfinite(point).all():
            self.x = point

    def _f(self, x: Any) -> float:
        return float(self._evaluate(lambda: self.problem.f(np.array(x))))

    def _grad(self, x: Any, out: Any) -> None:
        out[:] = self._evaluate(lambda: self.problem.grad(np.array(x)))

    def _c(self, x: Any, out: Any) -> None:
        out[:] = self._evaluate(lambda: self.problem.c(np.array(x)))

    def _jac(self, x: Any, out: Any) -> None:
        out[:] = self._evaluate(lambda: self._jacobian.values(self.problem.jac(np.array(x))))

    def _hess(self, x: Any, weight: float, y: Any, out: Any) -> None:
        def values() -> Vector:
            return self._hessian.values(self.problem.weighted_hess(np.array(x), weight, np.array(y)))

        out[:] = self._evaluate(values)

    def _evaluate(self, function: Callable[[], Any]) -> Any:
        value = self.callbacks.evaluate(function)
        if value is None:
            raise EvaluationError("not defined here")
        return value


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "primal_tolerance": options["tol"],
        "dual_tolerance": options["tol"],
        "tight_unscaled_primal_infeasibility_tolerance": options["violation"],
        "tight_unscaled_stationarity_tolerance": options["stationarity"],
        "tight_unscaled_complementarity_tolerance": options["complementarity"],
        "acceptable_iteration_threshold": 2**30,
        "max_iterations": options["max_iterations"],
        "logger": "SILENT",
        "print_solution": False,
    }


def _word(status: Any) -> str:
    return str(status).rpartition(".")[2]
