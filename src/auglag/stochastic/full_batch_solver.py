"""The deterministic inner solvers of the package on the streamed full batch, every evaluation a test."""

from __future__ import annotations

import math
from typing import final

from auglag._typing import Vector
from auglag.errors import OutOfBudget
from auglag.inner import LBFGSB, InnerResult, InnerSolver, InnerStatus, Traits, choose
from auglag.stochastic.curvature import FullBatchSolver
from auglag.stochastic.lagrangian import FullTest, StochasticLagrangian
from auglag.stochastic.limits import Meter
from auglag.stochastic.tuning import TUNING


class _Solved(Exception):
    """Internal signal: a test with R <= tol."""

    def __init__(self, test: FullTest) -> None:
        super().__init__()
        self.test = test


@final
class _Watched:
    """The subproblem, with every evaluation shown to the run."""

    def __init__(self, subproblem: StochasticLagrangian, meter: Meter) -> None:
        self.subproblem, self.meter = subproblem, meter
        self.g = subproblem.g
        self.has_hessp = False
        self.tests = 0

    def value(self, x: Vector) -> float:
        return self.value_and_gradient(x)[0]

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        why = self.meter.reached()
        if why:
            raise OutOfBudget(why)
        value, gradient = self.subproblem.value_and_gradient(x)
        if math.isfinite(value) and math.isfinite(self.g.value(x)):
            test = self.subproblem.test(x)
            self.tests += 1
            if self.subproblem.witness(test, p=self.tests, steps=1, accepted=False):
                raise _Solved(test)
        return value, gradient

    def hessp(self, x: Vector, v: Vector) -> Vector:
        return self.subproblem.hessp(x, v)


@final
class FullBatchInner:
    """An inner solver of `auglag.inner` that ends at the first full-batch evaluation with R <= tol."""

    saves = False

    def __init__(self, config: FullBatchSolver, meter: Meter) -> None:
        self.config, self.meter = config, meter
        self.memory, self.k = None, 1  # nothing is carried from one subproblem to the next

    def solve(self, subproblem: StochasticLagrangian, x: Vector, tol: float, *, limit: int) -> InnerResult:
        """As `InnerSolver.solve`."""
        watched = _Watched(subproblem, self.meter)
        traits = Traits(subproblem.g, subproblem.geometry.size, smooth=False, matrices=False)
        solver: InnerSolver = choose(self.config.inner, traits)
        if self.config.inner == "auto" and isinstance(solver, LBFGSB):
            solver = LBFGSB(memory=TUNING.lbfgs_pairs)
        try:
            return solver.solve(watched, x, tol, limit=limit)
        except _Solved as signal:
            test = signal.test
            return InnerResult(test.v, test.value, test.dist, watched.tests, watched.tests, InnerStatus.CONVERGED)

    def forget(self) -> None:
        """Nothing to forget."""
