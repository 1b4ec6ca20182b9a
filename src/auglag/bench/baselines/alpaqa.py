"""alpaqa: an augmented Lagrangian method with PANOC inside."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
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
        own = ("tol", "inner_max_iter", "memory")  # the others go to alpaqa's ALM by their own names
        settings = {name: value for name, value in options.items() if name not in own}
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


def _model(alpaqa: Any, p: CountedProblem) -> Any:
    """The problem as alpaqa sees it; where a function is not defined it returns NaN, as alpaqa expects."""

    def value(function: Callable[[Vector], Any], x: Any) -> Any:
        try:
            return function(np.array(x))
        except EvaluationError:
            return np.nan

    class Model(alpaqa.BoxConstrProblem):
        """cl <= c(x) <= cu and lower <= x <= upper."""

        def __init__(self) -> None:
            super().__init__(p.n, p.m)
            self.variable_bounds = alpaqa.Box(lower=p.lower, upper=p.upper)
            self.general_bounds = alpaqa.Box(lower=p.cl, upper=p.cu)

        def eval_objective(self, x: Any) -> float:
            return float(value(p.f, x))

        def eval_objective_gradient(self, x: Any, out: Any) -> None:
            out[:] = value(p.grad, x)

        def eval_constraints(self, x: Any, out: Any) -> None:
            out[:] = value(p.c, x) if p.m else 0.0

        def eval_constraints_gradient_product(self, x: Any, y: Any, out: Any) -> None:
            out[:] = value(lambda x: p.jac(x).T @ np.array(y), x) if p.m else 0.0

    return Model()
