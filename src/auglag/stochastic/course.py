"""The course of a run on data, with NumPy or PyTorch: Algorithm 1, and what happens after every full-batch test.

After a test the best point is kept, a row joins the trace, the state is saved, and the table, the log and the callback
see the row. After an outer iteration the log sees it, and the state is saved.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, final

from auglag._typing import Vector
from auglag.algorithm.history import History, Iteration
from auglag.algorithm.outer import Algorithm1, augmented_lagrangian
from auglag.algorithm.status import Status
from auglag.algorithm.stopping import Stopping
from auglag.budget import Budget
from auglag.errors import CheckpointError
from auglag.inner.base import InnerResult, InnerStatus
from auglag.persist import checkpoint
from auglag.result import row
from auglag.stochastic.limits import Ledger, Limits, Meter
from auglag.stochastic.stage import InnerLoop, S, Stage, T
from auglag.strategy.hooks import Hooks

#: A subproblem that ended so is gone on with after a resume, from the state before it.
CUT_SHORT = (InnerStatus.BUDGET.name, InnerStatus.INTERRUPTED.name)
#: Inner iterations have no limit of their own: passes, gradients and seconds limit the run.
NO_LIMIT = 10**9
UNSAVED = {"saved": False}
A = TypeVar("A", bound="RunState")


@final
@dataclass(frozen=True, slots=True)
class Frame:
    """What stays the same during a run, whatever it is a run of."""

    kind: str  #: the front door, which a checkpoint names
    tol: float
    seed: int
    limits: Limits
    hooks: Hooks
    fingerprint: Mapping[str, Any]  #: what must be the same for a checkpoint to fit

    def load(self, path: str | os.PathLike[str], state: type[A], *classes: type, device: Any = None) -> A:
        """The state that was saved there; `classes` are those it has beside the common ones."""
        known = (*classes, Best, History, Iteration, Ledger)
        found: A = checkpoint.load(path, self.kind, self.fingerprint, (state, *known), state=state, device=device)
        for it in found.history.iterations:
            if not 0.0 < it.beta < math.inf or it.inner_status not in InnerStatus.__members__:
                raise CheckpointError(f"{path} is not a usable checkpoint: its history has {it!r:.200}")
        return found


@final
@dataclass(frozen=True, slots=True)
class Best:
    """The point with the smallest R so far."""

    x: Any
    y: Vector  #: the multipliers that belong to it
    residual: float = math.inf  #: R there; infinite before the first test of the problem
    buffers: tuple[Any, ...] = ()  #: of a PyTorch model when it was tested: what batch norm had seen
    evaluation: Any = field(default=None, metadata=UNSAVED)  #: full-batch values there, where they are at hand


@dataclass(slots=True, kw_only=True)
class RunState:
    """What evolves in every run on data. A checkpoint is this, with what a kind of run adds."""

    v: Any  #: x_k, with its slacks where these are variables: where the current outer iteration began
    y: Vector  #: y_k
    history: History
    best: Best
    ledger: Ledger
    trace: list[dict[str, Any]] = field(default_factory=list)  #: a row per full-batch test
    attempt: int = 0  #: 1 after the first method got stuck and another began again
    inner: Any = None  #: what the inner loop carries, as of the last save
    seconds: float = 0.0  #: wall-clock time, as of the last save
    limit: str = field(default="", metadata=UNSAVED)  #: the one that the last subproblem ended at


class Driver(ABC, Generic[S, T]):
    """Runs Algorithm 1 with an inner loop and keeps the state. A leaf says how it begins and what it returns."""

    def __init__(self, frame: Frame, state: RunState, meter: Meter, stage: Stage[S, T], inner: InnerLoop[S]) -> None:
        self.frame, self.state, self.meter, self.stage, self.inner = frame, state, meter, stage, inner

    # ----------------------------------------------------------------------------------------- what a leaf fills in

    @abstractmethod
    def best_at(self, test: T, y: Vector, residual: float) -> Best:
        """What is kept of a test that has the smallest R, with the multipliers y."""

    @abstractmethod
    def enough(self, test: T, residual: float) -> bool:
        """Whether the run may end at this test."""

    def measured(self, test: T) -> tuple[Vector, float]:
        """(multipliers, R) by which a test counts: those of Algorithm 1, or others with a smaller R."""
        return test.y_hat, test.residual

    def verdict(self) -> Status | None:
        """A reason to end that the stopping test does not know of."""
        return None

    def extra(self, test: T) -> dict[str, Any]:
        """What the row of the trace has beyond the common entries."""
        return {}

    def ended_at(self, last: T) -> None:
        """An outer iteration ended at this test."""

    # ---------------------------------------------------------------------------------------------------- Algorithm 1

    def algorithm1(self, rules: Algorithm1, *, tol: float, constrained: bool, largest_penalty: float) -> Status:
        """From where the state stands, until R <= tol, a limit, or an end of another kind."""
        state, budget = self.state, Budget(outer=self.frame.limits.outer)
        stopping = Stopping(tol, budget, constrained, largest_penalty=largest_penalty, suspicion=None)
        verdict = self.verdict()
        if verdict is None and state.history.iterations:  # a run that is resumed may have ended
            verdict = stopping(state.history, InnerStatus[state.history.last.inner_status])
        elif verdict is None and state.best.residual <= tol:
            verdict = Status.SOLVED
        if verdict is not None:
            return verdict

        def stop(history: History, found: InnerResult) -> Status | None:
            state.limit, verdict = found.limit, self.verdict()
            return verdict if verdict is not None else stopping(history, found.status, found.limit)

        self.inner.k = state.history.k
        if not state.history.iterations and self.frame.hooks.resume is None:
            self.save()  # a limit or a crash may come before the first test
        return augmented_lagrangian(
            rules, self.stage, self.inner, state.v, state.y, state.history,
            stop=stop, watch=self._watch, limit=NO_LIMIT,
        )  # fmt: skip

    def _watch(self, history: History, x: Any, y: Vector, y_hat: Vector) -> None:
        state, last, log = self.state, history.last, self.frame.hooks.log
        state.v, state.y = x, y
        self.ended_at(self.stage.last)
        if last.inner_iterations == 0 and last.usable:
            # Known values, new multipliers: no test was made, but R is another one.
            self.tested(self.stage.last, p=0, steps=0, accepted=True, k=last.k)
        if log is not None:
            work = {"epochs": self.meter.epochs, "gradients": state.ledger.gradients}
            log.outer(replace(last, attempt=state.attempt), y_hat, self.meter.seconds, work)
        self.inner.k = history.k
        if last.inner_status not in CUT_SHORT:
            self.save()

    # ------------------------------------------------------------------------------------------------ full-batch tests

    def tested(self, test: T, *, p: int, steps: int, accepted: bool, k: int | None = None) -> bool:
        """Keep the best point, record, save, show; True if the run may end here. The witness of inner loops."""
        state, (y, residual) = self.state, self.measured(test)
        if residual < state.best.residual:
            state.best = self.best_at(test, y, residual)
        entry = {
            "k": state.history.k if k is None else k,
            "p": p,
            "steps": steps,
            "epochs": self.meter.epochs,
            "gradients": state.ledger.gradients,
            "seconds": self.meter.seconds,
            "residual": residual,
            "dist": test.dist,
            "c_norm": test.c_norm,
            "violation": test.violation,
            "objective": test.objective,
            "accepted": bool(accepted),
            **self.extra(test),
        }
        state.trace.append(entry)
        done = self.enough(test, residual)
        if self.inner.saves and not accepted and not done and k is None:
            self.save()
        self.show(entry)
        return done

    def show(self, entry: dict[str, Any]) -> None:
        """The row in the table and the log, and the callback, which may end the run."""
        hooks = self.frame.hooks
        if hooks.table is not None:
            hooks.table(entry)
        if hooks.log is not None:
            hooks.log.test(entry)
        hooks.call(dict(entry))

    def save(self) -> None:
        """The state to the checkpoint, where one is wanted."""
        hooks, state = self.frame.hooks, self.state
        if hooks.checkpoint is not None:
            state.inner, state.seconds = self.inner.memory, self.meter.seconds
            hooks.save(self.frame.kind, self.frame.fingerprint, state)

    # -------------------------------------------------------------------------------------------------------- the end

    def summary(self) -> dict[str, Any]:
        """The fields of a result that say what the run did and what it took."""
        state, iterations = self.state, self.state.history.iterations
        return {
            "epochs": self.meter.epochs,
            "gradients": state.ledger.gradients,
            "tests": state.ledger.tests,
            "nit": len(iterations),
            "nit_inner": state.history.inner_iterations,
            "penalty": iterations[-1].beta if iterations else math.nan,
            "history": [row(it) for it in iterations],
            "trace": state.trace,
            "seconds": self.meter.seconds,
            "seed": self.frame.seed,
            "tol": self.frame.tol,
        }
