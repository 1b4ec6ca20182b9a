"""auglag for code that calls SciPy's SLSQP and cannot be changed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from scipy.optimize import OptimizeResult

from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.minimize import require_options, scipy_method
from auglag.result import Result

_NAME = "_minimize_slsqp"
#: Where SciPy looks it up: for `minimize(method="SLSQP")` and for `fmin_slsqp`.
_MODULES = ("scipy.optimize._minimize", "scipy.optimize._slsqp_py")
#: The numbers of SLSQP's ends; 99 is SciPy's for a callback that stops a run.
_MODES = {
    Status.SOLVED: 0,
    Status.INFEASIBLE: 4,
    Status.ITERATION_LIMIT: 9,
    Status.EVALUATION_LIMIT: 9,
    Status.TIME_LIMIT: 9,
    Status.STOPPED: 99,
}
#: SLSQP's number where it finds no way down, for all other ends.
_NO_WAY_DOWN = 8


@final
class instead_of_slsqp:
    """In a `with` block, SciPy's SLSQP is auglag, whoever calls it: statsmodels, BoTorch, one's own old code.

        with auglag.instead_of_slsqp(tol=1e-8):
            result = library.fit(...)

    `options` are those of `auglag.scipy_method`. Of what the code asks of SLSQP, `maxiter` and `disp` are kept to;
    `ftol` is not, as auglag tests the KKT residual (`tol`) instead. The code gets SLSQP's fields in SLSQP's terms:
    `status` (0, 4, 8, 9), and `multipliers`, one array with equations first, nonnegative for fun(x) >= 0; besides
    `result`, the `auglag.Result`. `fmin_slsqp` is covered, too. A function inside SciPy is replaced for that time,
    which other threads see, too.
    """

    def __init__(self, **options: Any) -> None:
        require_options(options, "instead_of_slsqp()", what="option")
        self._options = options

    def __enter__(self) -> None:
        self._theirs: list[tuple[Any, Any]] = []
        for module in map(importlib.import_module, _MODULES):
            self._theirs.append((module, getattr(module, _NAME)))
            setattr(module, _NAME, self._solve)

    def __exit__(self, *error: object) -> None:
        for module, function in self._theirs:
            setattr(module, _NAME, function)

    def _solve(
        self,
        fun: Any,
        x0: Any,
        args: Any = (),
        jac: Any = None,
        bounds: Any = None,
        constraints: Any = (),
        *,
        callback: Any = None,
        maxiter: Any = None,
        disp: bool = False,
        finite_diff_rel_step: Any = None,
        **_: Any,
    ) -> OptimizeResult:
        def told(intermediate_result: OptimizeResult) -> Any:  # SciPy has made its users' callbacks to be called so
            return callback(intermediate_result)

        given = {"maxiter": maxiter, "disp": disp, "finite_diff_rel_step": finite_diff_rel_step}
        given["callback"] = None if callback is None else told
        rows = [constraints] if isinstance(constraints, Mapping) else list(constraints)
        if isinstance(bounds, tuple | list) and not bounds:  # how `fmin_slsqp` says that there are none
            bounds = None
        result = scipy_method(fun, x0, args, jac=jac, bounds=bounds, constraints=rows, **(given | self._options))
        return OptimizeResult(
            x=result.x,
            fun=result.fun,
            jac=result.jac,
            nit=result.nit,
            nfev=result.nfev,
            njev=result.njev,
            status=_MODES.get(result.status, _NO_WAY_DOWN),
            message=result.message,
            success=result.success,
            multipliers=_multipliers(result, rows),
            result=result,
        )


def _multipliers(result: Result, rows: list[Any]) -> Vector:
    """Those of SLSQP, which wants dictionaries and puts equations first."""
    kinds = [str(row["type"]).lower() for row in rows]
    order = sorted(range(len(rows)), key=lambda i: kinds[i] != "eq")
    parts = result.multipliers_as("slsqp")
    return np.concatenate([np.zeros(0), *(np.atleast_1d(parts[i]).ravel() for i in order)])
