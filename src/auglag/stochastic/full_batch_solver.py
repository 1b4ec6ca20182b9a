"""The deterministic inner solvers of the package on the streamed full batch, every evaluation a test."""

from __future__ import annotations

import math
from typing import Any, final

from auglag._typing import Vector
from auglag.errors import OutOfBudget
from auglag.inner import LBFGSB, InnerResult, InnerSolver, InnerStatus, Traits, choose
from auglag.stochastic.algorithm2 import Witness
from auglag.stochastic.curvature import FullBatchSolver
from auglag.stochastic.full_batch import Limits
from auglag.stochastic.lagrangian import FullTest, StochasticLagrangian
from auglag.strategy.old_outer import OuterSubproblem

#: Pairs that L-BFGS remembers: rows are dear here and vectors cheap.
MEMORY = 60


class _Solved(Exception):
    """Internal signal: a test with R <= tol."""

    def __init__(self, test: FullTest) -> None:
        super().__init__()
        self.test = test


@final
class _Watched:
    """The subproblem, with every evaluation shown to the run."""

    def __init__(self, subproblem: StochasticLagrangian, limits: Limits, watch: Witness) -> None:
        self.subproblem, self.limits, self.watch = subproblem, limits, watch
        self.g = subproblem.g
        self.has_hessp = False
        self.tests = 0

    def value(self, x: Vector) -> float:
        return self.value_and_gradient(x)[0]

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        why = self.limits.reached(self.subproblem.full.ledger)
        if why:
            raise OutOfBudget(why)
        value, gradient = self.subproblem.value_and_gradient(x)
        if math.isfinite(value) and math.isfinite(self.g.value(x)):
            test = self.subproblem.test(x)
            self.tests += 1
            if self.watch.tested(test, p=self.tests, steps=1, accepted=False):
                raise _Solved(test)
        return value, gradient

    def hessp(self, x: Vector, v: Vector) -> Vector:
        return self.subproblem.hessp(x, v)


@final
class FullBatchInner:
    """An inner solver of `auglag.inner` that ends at the first full-batch evaluation with R <= tol."""

    def __init__(self, config: FullBatchSolver, limits: Limits, watch: Witness) -> None:
        self.config, self.limits, self.watch = config, limits, watch
        self.k = 1

    def solve(self, subproblem: OuterSubproblem, x: Vector, tol: float, *, limit: int) -> InnerResult:
        """As `InnerSolver.solve`."""
        assert isinstance(subproblem, StochasticLagrangian)
        watched = _Watched(subproblem, self.limits, self.watch)
        traits = Traits(subproblem.g, subproblem.geometry.size, smooth=False, matrices=False)
        solver: InnerSolver = choose(self.config.inner, traits)
        if self.config.inner == "auto" and isinstance(solver, LBFGSB):
            solver = LBFGSB(memory=MEMORY)
        try:
            return solver.solve(watched, x, tol, limit=limit)
        except _Solved as signal:
            test = signal.test
            return InnerResult(test.v, test.value, test.dist, watched.tests, watched.tests, InnerStatus.CONVERGED)

    # What a run needs: see `stage.InnerLoop`. Nothing is carried from one subproblem to the next.

    def set_iteration(self, k: int) -> None:
        """The outer iteration to come."""
        self.k = k

    def begin_level(self) -> None:
        """Nothing to forget."""

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Nothing."""
        return {}, {}

    def load(self, numbers: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Nothing."""
