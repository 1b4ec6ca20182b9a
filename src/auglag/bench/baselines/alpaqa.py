"""alpaqa: an augmented Lagrangian method with PANOC inside."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.counted import CountedProblem
from auglag.errors import EvaluationError


@final
class Alpaqa(Baseline):
    """alpaqa's ALM with PANOC and L-BFGS; first derivatives only. `tol` is its primal and its dual tolerance.

    Its limits on iterations and time are lifted, since the harness has its own. The other parameters are alpaqa's.
    """

    name = "alpaqa"
    requires = ("alpaqa",)
    extra = "baselines"
    derivatives = 1
    defaults: Mapping[str, Any] = {
        "tol": 1e-8,
        "initial_penalty": 1.0,
        "penalty_update_factor": 10.0,
        "max_penalty": 1e9,
        "initial_tolerance": 1.0,
        "tolerance_update_factor": 0.1,
        "max_iter": 1000,
        "inner_max_iter": 20_000,
        "memory": 10,
    }

    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Run it; exceptions pass through it unharmed."""
        import alpaqa

        forever = datetime.timedelta(days=1)
        inner = alpaqa.PANOCSolver(
            {"max_iter": options["inner_max_iter"], "max_time": forever, "stop_crit": alpaqa.ApproxKKT},
            alpaqa.LBFGSDirection({"memory": options["memory"]}),
        )
        settings = {name: options[name] for name in _PARAMETERS}
        settings |= {"tolerance": options["tol"], "dual_tolerance": options["tol"], "max_time": forever}
        solver = alpaqa.ALMSolver(settings, inner)
        model = alpaqa.Problem(_model(alpaqa, problem))
        start = np.clip(problem.x0, problem.lower, problem.upper)
        with np.errstate(all="ignore"):
            # In this thread: a callback's exception then comes back as it was.
            x, y, stats = solver(model, start, np.zeros(problem.m), asynchronous=False)
        status = stats["status"]
        return Answer(
            x=np.asarray(x, dtype=float),
            claims_success=status == alpaqa.SolverStatus.Converged,
            message=status.name,
            y=np.asarray(y, dtype=float),
            extra={
                "status": status.name,
                "outer": int(stats["outer_iterations"]),
                "inner": int(stats["inner"]["iterations"]),
                "penalty_norm": float(stats["norm_penalty"]),
            },
        )


#: Options that go to alpaqa's ALM by their own names.
_PARAMETERS = (
    "initial_penalty",
    "penalty_update_factor",
    "max_penalty",
    "initial_tolerance",
    "tolerance_update_factor",
    "max_iter",
)


def _model(alpaqa: Any, p: CountedProblem) -> Any:
    """The problem as alpaqa sees it; where a function is not defined it returns NaN, as alpaqa expects."""

    class Model(alpaqa.BoxConstrProblem):
        """cl <= c(x) <= cu and lower <= x <= upper."""

        def __init__(self) -> None:
            super().__init__(p.n, p.m)
            self.variable_bounds = alpaqa.Box(lower=p.lower, upper=p.upper)
            self.general_bounds = alpaqa.Box(lower=p.cl, upper=p.cu)

        def eval_objective(self, x: Any) -> float:
            try:
                return float(p.f(np.array(x)))
            except EvaluationError:
                return float("nan")

        def eval_objective_gradient(self, x: Any, out: Any) -> None:
            try:
                out[:] = p.grad(np.array(x))
            except EvaluationError:
                out[:] = np.nan

        def eval_constraints(self, x: Any, out: Any) -> None:
            if not p.m:
                return
            try:
                out[:] = p.c(np.array(x))
            except EvaluationError:
                out[:] = np.nan

        def eval_constraints_gradient_product(self, x: Any, y: Any, out: Any) -> None:
            out[:] = _transposed_product(p, np.array(x), np.array(y)) if p.m else 0.0

    return Model()


def _transposed_product(p: CountedProblem, x: Vector, y: Vector) -> Vector:
    try:
        return np.asarray(p.jac(x).T @ y)
    except EvaluationError:
        return np.full(p.n, np.nan)
