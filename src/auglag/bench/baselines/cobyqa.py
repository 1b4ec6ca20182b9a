"""COBYQA, as SciPy has it: values only."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, minimize

from auglag._typing import Vector
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.counted import CountedProblem
from auglag.problems.jacobians import dense


@final
class Cobyqa(Baseline):
    """`scipy.optimize.minimize(method="COBYQA")`: a trust-region SQP method on interpolation models, no derivatives.

    `tol` is the final radius and the feasibility tolerance. Rows known to be linear are given as such: their
    coefficients are read once, uncounted. Made for few variables; a large problem ends at the CPU limit.
    """

    name = "cobyqa"
    requires = ("scipy",)
    derivatives = 0
    defaults: Mapping[str, Any] = {"tol": 1e-8, "initial_tr_radius": 1.0, "maxfev": 20_000}

    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Run it; it gives no multipliers."""
        values = _Free(problem)
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            found = minimize(
                values.f,
                values.restrict(problem.x0),
                method="COBYQA",
                bounds=Bounds(values.restrict(problem.lower), values.restrict(problem.upper)),
                constraints=values.constraints(),
                options={
                    "final_tr_radius": options["tol"],
                    "feasibility_tol": options["tol"],
                    "initial_tr_radius": options["initial_tr_radius"],
                    "maxfev": options["maxfev"],
                    "maxiter": options["maxfev"],
                    "disp": False,
                },
            )
        return Answer(
            x=values.extend(np.asarray(found.x, dtype=float)),
            claims_success=bool(found.success),
            message=f"{found.status}: {found.message}",
            extra={"status": int(found.status), "outer": int(found.nit), "maxcv": float(found.maxcv)},
        )


@final
class _Free:
    """f and c as functions of the variables that are not fixed, with their values kept.

    SciPy's COBYQA calls rows with the wrong number of variables where some are fixed, and asks for c again and again at
    points where it knows it.
    """

    def __init__(self, problem: CountedProblem) -> None:
        self._problem = problem
        self._free = problem.lower != problem.upper
        self._x = np.clip(problem.x0, problem.lower, problem.upper)
        self._f: dict[bytes, float] = {}
        self._c: dict[bytes, Vector] = {}

    def restrict(self, x: Vector) -> Vector:
        """The free variables of x."""
        return np.array(x[self._free])

    def extend(self, free: Vector) -> Vector:
        """All variables."""
        x = self._x.copy()
        x[self._free] = free
        return x

    def f(self, free: Vector) -> float:
        key = free.tobytes()
        if key not in self._f:
            self._f[key] = self._problem.f(self.extend(free))
        return self._f[key]

    def c(self, free: Vector) -> Vector:
        key = free.tobytes()
        if key not in self._c:
            self._c[key] = self._problem.c(self.extend(free)).copy()
        return self._c[key]

    def constraints(self) -> list[Any]:
        """Linear rows as such, and the others."""
        p = self._problem
        linear = np.asarray(p.linear_rows, dtype=bool)
        curved = np.flatnonzero(~linear)
        found: list[Any] = []
        if linear.any():
            inner: Any = p.inner
            rows = dense(inner.jac(self._x))[linear][:, self._free]
            constant = inner.c(self._x)[linear] - rows @ self.restrict(self._x)
            found.append(LinearConstraint(rows, p.cl[linear] - constant, p.cu[linear] - constant))
        if curved.size:
            found.append(NonlinearConstraint(lambda free: self.c(free)[curved], p.cl[curved], p.cu[curved]))
        return found
