"""SciPy's trust-constr, as it is and with one more condition to stop."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
from scipy.optimize import BFGS, Bounds, NonlinearConstraint, minimize

from auglag._typing import Vector
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.counted import CountedProblem

_DEFAULTS: dict[str, Any] = {
    "tol": 1e-8,
    "xtol": 1e-8,
    "derivatives": 2,
    "initial_tr_radius": 1.0,
    "initial_barrier_parameter": 0.1,
    "maxiter": 100_000,
}


class _TrustConstr(Baseline):
    """`scipy.optimize.minimize(method="trust-constr")`.

    `tol` is its `gtol` (and `barrier_tol`). `derivatives`: 2 exact Hessians, 1 BFGS approximations.
    """

    requires = ("scipy",)
    derivatives = 2
    _asks_for_barrier: ClassVar[bool]

    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Run it; its multipliers have our sign."""
        exact = options["derivatives"] > 1
        # With the barrier in question, the method's own test of the gradient is off and the callback's takes its place;
        # its test of the trust region stays: it ends the barrier's subproblems, too.
        ask = _SmallBarrier(options) if self._asks_for_barrier else None

        def after_each(x: Vector, state: Any) -> bool:
            problem.check_time()  # it may iterate without evaluations
            return ask is not None and ask(x, state)

        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            found = minimize(
                problem.f,
                problem.x0,
                jac=problem.grad,
                hess=(lambda x: problem.hess(x, np.zeros(problem.m))) if exact else BFGS(),
                method="trust-constr",
                bounds=Bounds(problem.lower, problem.upper),
                constraints=_constraints(problem, exact=exact),
                callback=after_each,
                options={
                    "gtol": options["tol"] if ask is None else 0.0,
                    "xtol": options["xtol"],
                    "barrier_tol": options["tol"],
                    "initial_tr_radius": options["initial_tr_radius"],
                    "initial_barrier_parameter": options["initial_barrier_parameter"],
                    "maxiter": options["maxiter"],
                    "verbose": 0,
                },
            )
        return Answer(
            x=np.asarray(found.x, dtype=float),
            claims_success=bool(found.success) or (ask is not None and ask.satisfied),
            message=(ask.message if ask else "") or f"{found.status}: {found.message}",
            y=np.asarray(found.v[0], dtype=float) if problem.m else np.zeros(0),
            extra={
                "status": int(found.status),
                "outer": int(found.nit),
                "barrier": float(found.get("barrier_parameter", 0.0)),
                "optimality": float(found.optimality),
                "constr_violation": float(found.constr_violation),
            },
        )


@final
class TrustConstr(_TrustConstr):
    """As it is: it may stop at a large barrier parameter."""

    name = "trust-constr"
    defaults: Mapping[str, Any] = _DEFAULTS
    _asks_for_barrier = False


@final
class TrustConstrBarrier(_TrustConstr):
    """With a callback that stops only when the barrier parameter is at most `barrier`, too."""

    name = "trust-constr-barrier"
    defaults: Mapping[str, Any] = {**_DEFAULTS, "barrier": 1e-8}
    _asks_for_barrier = True


@final
class _SmallBarrier:
    """Stop when gradient, violation and barrier parameter are small."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._tol, self._barrier = options["tol"], options["barrier"]
        self.satisfied, self.message = False, ""

    def __call__(self, x: Vector, state: Any) -> bool:
        if state.get("barrier_parameter", 0.0) > self._barrier:
            return False
        if state.optimality <= self._tol and state.constr_violation <= self._tol:
            self.satisfied, self.message = True, "gradient, violation and barrier parameter are small"
        return self.satisfied


def _constraints(p: CountedProblem, *, exact: bool) -> list[Any]:
    if not p.m:
        return []

    def hessian(x: Vector, y: Vector) -> Any:
        return p.weighted_hess(x, 0.0, y)

    return [NonlinearConstraint(p.c, p.cl, p.cu, jac=p.jac, hess=hessian if exact else BFGS())]
