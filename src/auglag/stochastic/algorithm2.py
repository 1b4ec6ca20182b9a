"""Algorithm 2 of the paper: T iterations of a stochastic method, a full-batch test, and more iterations if it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.inner.base import InnerResult, InnerStatus
from auglag.stochastic.controllers import Controller
from auglag.stochastic.fused import Backend
from auglag.stochastic.lagrangian import FullTest, StochasticLagrangian
from auglag.stochastic.limits import Meter
from auglag.stochastic.methods import Method
from auglag.stochastic.sampling import SampledLagrangian, Sampling
from auglag.stochastic.stage import T, Witness
from auglag.stochastic.tuning import TUNING


@final
@dataclass(slots=True)
class InnerState:
    """Where Algorithm 2 stands inside a subproblem, so that a run can be saved after every test."""

    p: int = 0  #: calls of the method made on this subproblem
    steps: int = 0  #: T of the next call; 0 before the first
    carried: int | None = None  #: the last T of the subproblem before
    v: Any = None  #: where the last call ended
    iterations: int = 0  #: of this subproblem so far


def call_until_accepted(
    controller: Controller,
    state: InnerState,
    start: T,
    last: T,
    tol: float,
    *,
    call: Callable[[Any, int], T],
    exhausted: Callable[[], str],
    witness: Witness[T],
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
        enough = test.value <= start.value + TUNING.rounding * max(1.0, abs(start.value))
        accepted = not controller.tested or (test.dist <= tol and enough)
        state.iterations += state.steps
        if not accepted:  # before the test is saved: a resumed run begins with the next call
            state.p, state.v, state.steps = state.p + 1, test.v, controller.next(state.steps)
        done = witness(test, p=state.p + accepted, steps=state.steps, accepted=accepted)
        if accepted or done:
            return test, InnerStatus.CONVERGED, ""


@final
class Algorithm2:
    """The inner loop for stochastic methods, in the shape the outer loop asks for."""

    saves = True

    def __init__(
        self,
        method: Method,
        controller: Controller,
        sampling: Sampling,
        backend: Backend,
        meter: Meter,
        seed: int,
        epoch: int,
    ) -> None:
        self.method, self.controller, self.sampling, self.backend = method, controller, sampling, backend
        self.meter, self.seed = meter, seed
        self.epoch = epoch  #: steps that sample as many rows as there are
        self.memory, self.k = InnerState(), 1

    def solve(self, subproblem: StochasticLagrangian, x: Vector, tol: float, *, limit: int) -> InnerResult:
        """Lines 1-8: calls of the method until a point passes both tests, or a limit of the run is reached."""
        oracle = SampledLagrangian(subproblem, self.sampling, self.meter)
        ledger, state = oracle.ledger, self.memory
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
            exhausted=lambda: self.meter.reached() or self._no_room() or oracle.refused,
            witness=subproblem.witness,
        )
        if status is InnerStatus.UNDEFINED:
            return InnerResult(x, start.value, start.dist, state.steps, 0, status)
        result = InnerResult(
            test.v, test.value, test.dist, state.iterations, ledger.gradients - gradients, status, limit=why
        )
        if status is InnerStatus.CONVERGED:
            self.memory = InnerState(carried=state.steps)
        return result

    def _call(self, oracle: SampledLagrangian, v: Vector) -> FullTest:
        """One call of the method with its own stream of random numbers, and the test."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.k, self.memory.p)))
        with np.errstate(over="ignore", invalid="ignore"):  # a method that diverged: the test says so
            found = self.method.run(oracle, v, self.memory.steps, rng, self.backend)
            if not np.isfinite(found).all():
                self._require_finite(oracle, v)
            if self.controller.exact_slacks:
                found = oracle.exact.polish(found)
            return oracle.test(found)

    def _require_finite(self, oracle: SampledLagrangian, v: Vector) -> None:
        """A call from v ended nowhere. Raise `InputError` if batches are not finite at v, where the whole is.

        Else the steps were too long. Rows of linear blocks have been looked at.
        """
        problem = oracle.exact.problem
        if problem.linear is not None:
            return
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.k, self.memory.p)))
        for z in oracle.samples(rng, min(self.memory.steps, self.epoch)):
            if np.isfinite(oracle.estimate(v, z)).all():
                continue
            bad = np.flatnonzero(~np.isfinite(oracle.constraint(v, z)))
            what = f"constraint {problem.names[bad[0]]!r}" if bad.size else "objective, constraints and their gradients"
            raise InputError(
                f"{what} must be finite on every batch, got NaN or inf on one of {max(self.sampling.sizes)} rows, "
                "at a point where the means over all rows are finite"
            )

    def _no_room(self) -> str:
        """A limit that leaves no room for one more step and its test."""
        return "epochs" if self.meter.ledger.rows + self.sampling.rows_per_step > self.meter.rows else ""

    def forget(self) -> None:
        self.memory = InnerState()
