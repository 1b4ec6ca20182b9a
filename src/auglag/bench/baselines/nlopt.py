"""NLopt's augmented Lagrangian method with L-BFGS inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.counted import CountedProblem
from auglag.errors import EvaluationError
from auglag.problems.jacobians import dense


@final
class NloptAuglag(Baseline):
    """NLopt AUGLAG + LD_LBFGS. `tol` is the tolerance on rows; the others are relative changes of x and f.

    It often ends by an exception (round-off, or a failure of L-BFGS); its best point is then not known, and the last
    one at which it asked for derivatives is the answer. It gives no multipliers.
    """

    name = "nlopt-auglag"
    requires = ("nlopt",)
    extra = "baselines"
    derivatives = 1
    defaults: Mapping[str, Any] = {
        "tol": 1e-8,
        "xtol_rel": 1e-10,
        "ftol_rel": 1e-14,
        "inner_xtol_rel": 1e-10,
        "inner_ftol_rel": 1e-14,
        "inner_maxeval": 20_000,
        "memory": 10,
    }

    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Run it from x0, moved into its bounds."""
        import nlopt

        inner = nlopt.opt(nlopt.LD_LBFGS, problem.n)
        inner.set_xtol_rel(options["inner_xtol_rel"])
        inner.set_ftol_rel(options["inner_ftol_rel"])
        inner.set_maxeval(options["inner_maxeval"])
        inner.set_vector_storage(options["memory"])
        solver = nlopt.opt(nlopt.AUGLAG, problem.n)
        solver.set_local_optimizer(inner)
        functions = _Functions(problem, nlopt.ForcedStop)
        solver.set_min_objective(functions.objective)
        solver.set_lower_bounds(problem.lower)
        solver.set_upper_bounds(problem.upper)
        solver.set_xtol_rel(options["xtol_rel"])
        solver.set_ftol_rel(options["ftol_rel"])
        functions.add_rows(solver, options["tol"])
        try:
            x = np.asarray(solver.optimize(np.clip(problem.x0, problem.lower, problem.upper)), dtype=float)
        except Exception as error:  # of many types, which differ between versions of NLopt
            if functions.error is not None:
                raise functions.error from None
            return Answer(problem.last_x, claims_success=False, message=f"NLopt raised {type(error).__name__}: {error}")
        status = int(solver.last_optimize_result())
        message = STATUS.get(status, f"code {status}")
        return Answer(x, claims_success=status in (1, 3, 4), message=message, extra={"status": status})


#: NLopt's return codes; the negative ones arrive as exceptions.
STATUS = {
    **{1: "success", 2: "stopval reached", 3: "ftol reached"},
    **{4: "xtol reached", 5: "maxeval reached", 6: "maxtime reached"},
}


@final
class _Functions:
    """The callbacks of one solve; NLopt loses exceptions raised in rows, so the first one is kept here."""

    def __init__(self, problem: CountedProblem, stop: type[Exception]) -> None:
        self.error: BaseException | None = None
        self._problem, self._stop = problem, stop

    def objective(self, x: Vector, gradient: Vector) -> float:
        """f, and its gradient where asked for."""
        p, point = self._problem, np.array(x)
        if gradient.size:
            gradient[:] = self._call(lambda: p.grad(point))
        return float(self._call(lambda: p.f(point)))

    def add_rows(self, solver: Any, tol: float) -> None:
        """h(x) = 0 and h(x) <= 0, as NLopt wants them; a two-sided row is two."""
        p = self._problem
        equal = p.cl == p.cu
        above, below = ~equal & np.isfinite(p.cl), ~equal & np.isfinite(p.cu)
        for chosen, sign, side, add in (
            (equal, 1.0, p.cl, solver.add_equality_mconstraint),
            (above, -1.0, p.cl, solver.add_inequality_mconstraint),
            (below, 1.0, p.cu, solver.add_inequality_mconstraint),
        ):
            rows = np.flatnonzero(chosen)
            if rows.size:
                add(self._rows(rows, sign, side), np.full(rows.size, tol))

    def _rows(self, rows: Any, sign: float, side: Vector) -> Callable[[Vector, Vector, Vector], None]:
        p = self._problem

        def function(result: Vector, x: Vector, gradient: Vector) -> None:
            point = np.array(x)
            if gradient.size:
                gradient[:] = self._call(lambda: sign * dense(p.jac(point))[rows])
            result[:] = self._call(lambda: sign * (p.c(point)[rows] - side[rows]))

        return function

    def _call(self, function: Callable[[], Any]) -> Any:
        if self.error is not None:
            raise self._stop
        try:
            return function()
        except EvaluationError:
            return np.nan
        except BaseException as error:
            self.error = error
            raise self._stop from error
