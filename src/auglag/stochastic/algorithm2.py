"""Algorithm 2 of the paper: T iterations of a stochastic method, a full-batch test, and more iterations if it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, final

import numpy as np

from auglag._typing import Vector
from auglag.inner.base import InnerResult, InnerStatus
from auglag.stochastic.controllers import Controller
from auglag.stochastic.full_batch import Ledger, Limits
from auglag.stochastic.fused import Backend
from auglag.stochastic.lagrangian import ROUNDING, FullTest, StochasticLagrangian
from auglag.stochastic.methods import Method
from auglag.stochastic.sampling import SampledLagrangian, Sampling
from auglag.strategy.old_outer import OuterSubproblem


class Witness(Protocol):
    """Sees every full-batch test of a run."""

    def tested(self, test: FullTest, *, p: int, steps: int, accepted: bool) -> bool:
        """Record it; True if the run may end here because R <= tol."""
        ...


@dataclass(slots=True)
class InnerState:
    """Where Algorithm 2 stands inside a subproblem, so that a run can be saved after every test."""

    p: int = 0  #: calls of the method made on this subproblem
    steps: int = 0  #: T of the next call; 0 before the first
    carried: int | None = None  #: the last T of the subproblem before
    v: Any = None  #: where the last call ended
    iterations: int = 0  #: of this subproblem so far


class Tested(Protocol):
    """A full-batch test as the loop below sees it; v may live anywhere."""

    @property
    def v(self) -> Any:
        """The point."""
        ...

    @property
    def value(self) -> float:
        """L_beta + g there."""
        ...

    @property
    def dist(self) -> float:
        """dist(-grad L_beta, dg) there."""
        ...


T = TypeVar("T", bound=Tested)


def call_until_accepted(
    controller: Controller,
    state: InnerState,
    start: T,
    last: T,
    tol: float,
    *,
    call: Callable[[Any, int], T],
    exhausted: Callable[[], str],
    tested: Callable[..., bool],
) -> tuple[T, InnerStatus, str]:
    """Lines 1-8 of Algorithm 2: `call(v, T)` runs the method and tests; the test that ended it, how, and which limit.

    `start` is the test at x_k, `last` the one at the point where the method stands; `state` is kept up to date, so that
    a run can be saved at every test.
    """
    test = last
    while True:
        why = exhausted()
        if why:
            return (start if state.v is None else test), InnerStatus.BUDGET, why
        fresh = controller.restart or state.v is None or not np.isfinite(test.value)
        test = call(start.v if fresh else state.v, state.steps)
        if not controller.tested and not np.isfinite(test.value):
            return start, InnerStatus.UNDEFINED, ""
        enough = test.value <= start.value + ROUNDING * max(1.0, abs(start.value))
        accepted = not controller.tested or (test.dist <= tol and enough)
        state.iterations += state.steps
        if not accepted:  # before the test is saved: a resumed run begins with the next call
            state.p, state.v, state.steps = state.p + 1, test.v, controller.next(state.steps)
        done = tested(test, p=state.p + accepted, steps=state.steps, accepted=accepted)
        if accepted or done:
            return test, InnerStatus.CONVERGED, ""


@final
class Algorithm2:
    """The inner loop for stochastic methods, in the shape the outer loop asks for."""

    def __init__(
        self,
        method: Method,
        controller: Controller,
        sampling: Sampling,
        backend: Backend,
        limits: Limits,
        watch: Witness,
        seed: int,
        epoch: int,
    ) -> None:
        self.method, self.controller, self.sampling, self.backend = method, controller, sampling, backend
        self.limits, self.watch, self.seed = limits, watch, seed
        self.epoch = epoch  #: steps that sample as many rows as there are
        self.state = InnerState()
        self.k = 1  #: the outer iteration, for the seed; set by the run

    def solve(self, subproblem: OuterSubproblem, x: Vector, tol: float, *, limit: int) -> InnerResult:
        """Lines 1-8: calls of the method until a point passes both tests, or a limit of the run is reached."""
        assert isinstance(subproblem, StochasticLagrangian)
        oracle = SampledLagrangian(subproblem, self.sampling, self.limits)
        ledger, state = oracle.ledger, self.state
        gradients = ledger.gradients
        subproblem.full.pin(subproblem.geometry.x(x))  # restarts come back to x_k: paid for once, resumed or not
        start = subproblem.test(x)
        last = start if state.v is None else subproblem.test(state.v)  # the interrupted run had done it
        if state.steps == 0:
            state.steps = self.controller.first(state.carried, self.epoch)
        test, status, why = call_until_accepted(
            self.controller,
            state,
            start,
            last,
            tol,
            call=lambda v, steps: self._call(oracle, v),
            exhausted=lambda: self.limits.reached(ledger) or self._out_of_gradients(ledger) or oracle.refused,
            tested=self.watch.tested,
        )
        if status is InnerStatus.UNDEFINED:
            return InnerResult(x, start.value, start.dist, state.steps, 0, status)
        result = InnerResult(
            test.v, test.value, test.dist, state.iterations, ledger.gradients - gradients, status, limit=why
        )
        if status is InnerStatus.CONVERGED:
            self.state = InnerState(carried=state.steps)
        return result

    def _call(self, oracle: SampledLagrangian, v: Vector) -> FullTest:
        """One call of the method with its own stream of random numbers, and the test."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.k, self.state.p)))
        with np.errstate(over="ignore", invalid="ignore"):  # a method that diverged: the test says so
            found = self.method.run(oracle, v, self.state.steps, rng, self.backend)
            if self.controller.exact_slacks:
                found = oracle.exact.polish(found)
            return oracle.test(found)

    def _out_of_gradients(self, ledger: Ledger) -> str:
        """A limit that leaves no room for one more step and its test."""
        rows = self.sampling.rows_per_step
        return "epochs" if ledger.rows + rows > self.limits.rows else ""

    # What a run needs: see `stage.InnerLoop`.

    def set_iteration(self, k: int) -> None:
        """The outer iteration to come."""
        self.k = k

    def begin_level(self) -> None:
        """Start afresh."""
        self.state = InnerState()

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The state inside the subproblem."""
        s = self.state
        numbers = {"p": s.p, "steps": s.steps, "carried": s.carried, "iterations": s.iterations}
        return numbers, {} if s.v is None else {"v": s.v}

    def load(self, numbers: dict[str, Any], arrays: dict[str, Any]) -> None:
        """The state of a checkpoint."""
        self.state = InnerState(**numbers, v=np.asarray(arrays["v"], dtype=np.float64) if "v" in arrays else None)
