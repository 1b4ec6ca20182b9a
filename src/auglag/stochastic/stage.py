"""What the outer loop needs to know of a stochastic problem, and what a run needs to know of its inner loop."""

from __future__ import annotations

from typing import Any, Protocol, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.rules import Iteration
from auglag.inner.base import InnerResult
from auglag.stochastic.algorithm2 import Witness
from auglag.stochastic.full_batch import FullBatch
from auglag.stochastic.lagrangian import FullTest, Geometry, StochasticLagrangian
from auglag.strategy.old_outer import OuterSubproblem


class InnerLoop(Protocol):
    """An inner loop with its state: what the outer loop calls, and what a checkpoint saves."""

    watch: Witness

    def solve(self, subproblem: OuterSubproblem, x: Vector, tol: float, *, limit: int) -> InnerResult:
        """As in `outer.Inner`."""
        ...

    def set_iteration(self, k: int) -> None:
        """Say which outer iteration comes next: part of the seed."""
        ...

    def begin_level(self) -> None:
        """The problem changes: forget what belongs to the old one."""
        ...

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(numbers, arrays) for a checkpoint."""
        ...

    def load(self, numbers: dict[str, Any], arrays: dict[str, Any]) -> None:
        """The state of a checkpoint."""
        ...


class Tested(Protocol):
    """What a full-batch test says of a point."""

    @property
    def dist(self) -> float:
        """The first half of R."""
        ...

    @property
    def residual(self) -> float:
        """R."""
        ...


def tested_row(
    k: int, beta: float, eta: float, found: InnerResult, c: Vector, y_hat: Vector, test: Tested, objective: float
) -> Iteration:
    """The row of the history of a subproblem whose end was tested over all rows, in the user's own units."""
    violation = float(np.linalg.norm(c))
    return Iteration(
        k=k,
        beta=beta,
        eta=eta,
        usable=found.usable,
        violation=violation,
        stationarity=test.dist,
        residual=test.residual,
        user_violation=violation,
        objective=objective,
        multiplier_norm=float(np.linalg.norm(y_hat)),
        inner_status=found.status.name,
        inner_iterations=found.iterations,
        evaluations=found.evaluations,
    )


@final
class Stage:
    """A problem (or a sample of it) as Algorithm 1 sees it."""

    def __init__(self, geometry: Geometry, full: FullBatch) -> None:
        self.geometry, self.full = geometry, full
        self.last: FullTest | None = None  #: at the end of the last subproblem
        self._current: StochasticLagrangian | None = None

    def subproblem(self, y: Vector, beta: float) -> StochasticLagrangian:
        """L_beta(., y) + g."""
        self._current = StochasticLagrangian(self.geometry, self.full, y, beta)
        return self._current

    def record(self, k: int, beta: float, eta: float, found: InnerResult, c: Vector, y_hat: Vector) -> Iteration:
        """The row of the history, with R over all rows."""
        assert self._current is not None
        self.last = test = self._current.test(found.x)
        objective = float(test.evaluation.f + self.geometry.problem.g.value(self.geometry.x(found.x)))
        return tested_row(k, beta, eta, found, c, y_hat, test, objective)
