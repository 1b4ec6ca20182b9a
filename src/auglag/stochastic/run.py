"""One stochastic run: start, nested samples, Algorithm 1 with its inner loop, certificate, result."""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.rules import History
from auglag.algorithm.status import Status
from auglag.algorithm.stopping import Stopping
from auglag.budget import Budget
from auglag.certificate import Certificate, certificate
from auglag.errors import CheckpointError, InputError, StoppedByCallback
from auglag.inner.base import InnerResult, InnerStatus
from auglag.log import JsonLog
from auglag.result import row
from auglag.stochastic import checkpoint as checkpoints
from auglag.stochastic.algorithm2 import Algorithm2
from auglag.stochastic.estimate import (
    EstimatedCertificate,
    estimate_certificate,
    freeze,
)
from auglag.stochastic.full_batch import FullBatch, FullBatchProblem, Ledger, Limits
from auglag.stochastic.growing import AIM, CERTIFICATE, growth
from auglag.stochastic.lagrangian import FullTest, Geometry
from auglag.stochastic.nested import Start, begin_at, go_on, nested_start
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.reporting import advice, message
from auglag.stochastic.result import StochasticResult
from auglag.stochastic.settings import Settings
from auglag.stochastic.stage import InnerLoop, Stage
from auglag.strategy.old_checkpoint import require_same
from auglag.strategy.old_outer import augmented_lagrangian

#: After a certificate that failed, the next one is tried at this share of its R.
LOOK_AGAIN = 0.9


@final
@dataclass(frozen=True, slots=True)
class Caps:
    """What a run may spend: passes over the data, stochastic gradients, seconds, outer iterations; None: no limit."""

    epochs: float | None = 1000.0
    gradients: int | None = None
    seconds: float | None = None
    outer: int | None = 10_000


@final
@dataclass(frozen=True, slots=True)
class Hooks:
    """What the caller wants to see or save."""

    callback: Callable[[dict[str, Any]], Any] | None = None  #: with the row of the trace, after every test
    table: Callable[[dict[str, Any]], None] | None = None
    say: Callable[[str], None] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    resume: str | os.PathLike[str] | None = None
    log: JsonLog | None = None


@final
class Run:
    """The state of one run."""

    def __init__(
        self,
        problem: StochasticProblem,
        settings: Settings,
        x0: Vector,
        y0: Vector,
        *,
        tol: float,
        seed: int,
        caps: Caps,
        hooks: Hooks,
        test_rows: int,
        nested: bool,
        inner: Callable[[Run], InnerLoop],
        rescue: Callable[[Run], InnerLoop] | None = None,
    ) -> None:
        self.problem, self.settings, self.tol, self.seed = problem, settings, tol, seed
        self.caps, self.hooks, self.test_rows, self.nested = caps, hooks, test_rows, nested
        self.x0, self.y0 = x0, y0
        self.ledger = Ledger()
        self._take_sample(1)
        self.rows = self.tests_on.rows or 1
        self.seconds_before = 0.0
        self.started = time.monotonic()
        self.limits = Limits(
            rows=math.inf if caps.epochs is None else caps.epochs * self.rows,
            gradients=math.inf if caps.gradients is None else caps.gradients,
            deadline=math.inf if caps.seconds is None else self.started + caps.seconds,
        )
        self.history = History(math.nan, math.nan)
        self.trace: list[dict[str, Any]] = []
        self.best: FullTest | None = None
        self.best_v, self.best_y, self.best_residual = np.zeros(0), y0, math.inf
        self.v, self.y = np.zeros(0), y0  #: where the current outer iteration began
        self.start = Start(x0, y0, None, None)
        self.limit = ""  #: the one that the last subproblem ended at
        self.check: EstimatedCertificate | None = None  #: that ended a run on sampled data
        self.failed: EstimatedCertificate | None = None  #: that ended the work on one sample, where samples grow
        self.look_at = math.inf  #: R on the fixed sample at which the next certificate is tried
        self.inner: InnerLoop = inner(self)
        self.grows = not problem.finite_data and not isinstance(self.inner, Algorithm2)
        self.rescue, self.rescued = rescue, False  #: the inner loop that starts afresh if this one gets stuck
        self._data = checkpoints.digest(problem) if hooks.checkpoint is not None or hooks.resume is not None else ""
        self.inner_saves = isinstance(self.inner, Algorithm2)  #: others are saved between subproblems only

    def rng(self, purpose: str) -> np.random.Generator:
        """A stream of its own for a purpose outside the inner loop."""
        key = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:4], "little")
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(0, key)))

    def _take_sample(self, times: int) -> None:
        """Fix the rows of the tests: all there are, or a sample of about `times * test_rows` of data without an end."""
        self.times = times
        self.tests_on = self.problem
        if not self.problem.finite_data:
            purpose = "tests" if times == 1 else f"tests {times}"
            self.tests_on = freeze(self.problem, times * self.test_rows, self.rng(purpose))
        self.full = FullBatch(self.tests_on, self.ledger)
        self.geometry = Geometry(self.tests_on, self.settings.slacks)
        self.stage = Stage(self.geometry, self.full)

    @property
    def seconds(self) -> float:
        """Wall-clock time, that before a resume included."""
        return self.seconds_before + time.monotonic() - self.started

    # ------------------------------------------------------------------------------------------------------ the course

    def solve(self) -> StochasticResult:
        """From the start to the result."""
        try:
            status = self._solve()
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except StoppedByCallback:
            status = Status.STOPPED
        return self._finish(status)

    def _solve(self) -> Status:
        if self.hooks.resume is not None:
            self._resume()
        else:
            self._begin()
        status = self._algorithm1()
        if status is Status.STUCK and self.rescue is not None and not self.rescued:
            self._change_over()
            self.start = Start(self.x0, self.y0, None, None)
            self.stage = Stage(self.geometry, self.full)
            self._begin()
            status = self._algorithm1()
        while self.failed is not None:
            factor = growth(self)
            if factor == 1:
                return Status.EVALUATION_LIMIT if self.limit == "epochs" else status
            self._enlarge(factor)
            status = self._algorithm1()
        return status

    def _enlarge(self, factor: int) -> None:
        """Go on from the best point on a larger sample, by which it is measured anew."""
        assert self.failed is not None
        beta, eta = self.history.last.beta if self.history.iterations else None, self.failed.residual_interval[1]
        self.start = Start(self.failed.x, self.failed.multipliers, beta, eta)
        self.failed, self.look_at, self.best_residual = None, math.inf, math.inf
        self._take_sample(self.times * factor)
        self.inner.begin_level()
        if self.hooks.say is not None:
            self.hooks.say(f"sample of {self.tests_on.rows} rows after {self.ledger.rows / self.rows:.1f} passes")
        self._begin()

    def _change_over(self) -> None:
        """Another inner loop; what was spent and the best point stay."""
        assert self.rescue is not None
        self.inner, self.rescued, self.nested = self.rescue(self), True, False

    def _algorithm1(self) -> Status:
        tolerance = go_on(self.settings.tolerance, self.start.eta, AIM * self.tol if self.grows else self.tol)
        budget, largest = Budget(outer=self.caps.outer), self.settings.largest_penalty
        finite = self.problem.finite_data
        # With sampled data no R on the fixed sample ends the run: `tested` does, with a certificate.
        stopping = Stopping(
            self.tol if finite else 1e-300, budget, self.problem.m > 0, largest_penalty=largest, suspicion=None
        )
        if self.history.iterations:
            verdict = stopping(self.history, _status(self.history), "")
            if verdict is not None:
                return verdict
        elif self.check is not None or (finite and self.best_residual <= self.tol):
            return Status.SOLVED
        if self.failed is not None:
            return Status.UNCERTIFIED
        self.inner.set_iteration(self.history.k)
        outcome = augmented_lagrangian(
            self.stage,
            self.v,
            self.y,
            self.history,
            penalty=begin_at(self.settings.penalty, self.start.beta),
            dual=self.settings.dual,
            tolerance=tolerance,
            inner=self.inner,
            stop=lambda history, found: self._stop(stopping, history, found),
            watch=self._watch,
            inner_limit=10**9,
        )
        return outcome.status

    def _stop(self, stopping: Stopping, history: History, found: InnerResult) -> Status | None:
        self.limit = found.limit
        if self.check is not None:
            return Status.SOLVED
        return Status.UNCERTIFIED if self.failed is not None else stopping(history, found.status, found.limit)

    def _begin(self) -> None:
        """x_1, by way of samples where that pays, and the first test."""
        if self.nested:
            rng = self.rng("nested")
            self.start = nested_start(
                self.problem, self.settings, self.start, self.inner, self.ledger, self.tol, rng, self.hooks.say
            )
            self.inner.begin_level()
        first = self.full.at(self.start.x)
        if not first.finite:
            raise InputError("f, c and their gradients must be finite at x0, got NaN or inf")
        self.v, self.y = self.geometry.start(self.start.x, first.c), self.start.y
        beta = begin_at(self.settings.penalty, self.start.beta).next(History(first.f, 1.0))
        subproblem = self.stage.subproblem(self.y, beta)
        test = subproblem.test(self.v)
        violation = float(np.linalg.norm(test.c if self.start.beta is not None else self.problem.violation(first.c)))
        self.history = History(first.f, violation, self.settings.negligible * self.tol)
        self.tested(test, p=0, steps=0, accepted=False, k=0)

    # ------------------------------------------------------------------------------------------- what the loops call

    def tested(self, test: FullTest, *, p: int, steps: int, accepted: bool, k: int | None = None) -> bool:
        """Keep the best point, record, save, show; True if R <= tol, or if the sample has told what it can."""
        residual = test.residual
        if residual < self.best_residual:
            self.best, self.best_residual = test, residual
            self.best_v, self.best_y = test.v, test.y_hat
        g = self.problem.g.value(self.geometry.x(test.v))
        entry = {
            "k": self.history.k if k is None else k,
            "p": p,
            "steps": steps,
            "epochs": self.ledger.rows / self.rows,
            "gradients": self.ledger.gradients,
            "seconds": self.seconds,
            "residual": residual,
            "dist": test.dist,
            "violation": test.violation,
            "objective": test.evaluation.f + g,
            "accepted": bool(accepted),
        }
        self.trace.append(entry)
        enough = AIM * self.tol if self.grows else self.tol
        done = bool(residual <= enough) and (self.problem.finite_data or self._certified(test))
        if self.hooks.checkpoint is not None and self.inner_saves and not accepted and not done and k is None:
            self._save()
        if self.hooks.table is not None:
            self.hooks.table(entry)
        if self.hooks.log is not None:
            self.hooks.log.test(entry)
        if self.hooks.callback is not None:
            try:
                stop = self.hooks.callback(dict(entry))
            except StopIteration:
                raise StoppedByCallback from None
            if stop is True:
                raise StoppedByCallback
        return done

    def _certified(self, test: FullTest) -> bool:
        """Whether a fresh sample bears out R <= tol on the fixed one, which says nothing of its own error.

        After a failure the next look waits for a smaller R: few looks, or luck would decide.
        """
        cost = CERTIFICATE * (self.tests_on.rows or 0)
        if test.residual > self.look_at or (self.grows and self.ledger.rows + cost > self.limits.rows):
            return False  # the certificate at the end will do
        x, rows = self.geometry.x(test.v).copy(), CERTIFICATE * self.times * self.test_rows
        check = estimate_certificate(
            self.problem, x, test.y_hat, rows=rows, rng=self.rng(f"certificate {test.residual!r}")
        )
        self.ledger.rows += cost
        self.look_at = LOOK_AGAIN * test.residual
        if check.meets(self.tol):  # this is the point to return, although another may have a smaller R
            self.check = check
            self.best, self.best_residual, self.best_v, self.best_y = test, test.residual, test.v, test.y_hat
        elif self.grows:
            self.failed = check
        return self.check is not None or self.failed is not None

    def _watch(self, history: History, x: Vector, y: Vector, y_hat: Vector) -> None:
        if self.stage.last is not None and self.stage.last.residual < self.best_residual:
            self.best, self.best_residual = self.stage.last, self.stage.last.residual
            self.best_v, self.best_y = self.stage.last.v, self.stage.last.y_hat
        self.v, self.y = x, y
        if history.last.inner_iterations == 0 and history.last.usable and self.stage.last is not None:
            # Known values, new multipliers: no test was made, but R is another one.
            self.tested(self.stage.last, p=0, steps=0, accepted=True, k=history.last.k)
        if self.hooks.log is not None:
            work = {"epochs": self.ledger.rows / self.rows, "gradients": self.ledger.gradients}
            self.hooks.log.outer(replace(history.last, attempt=int(self.rescued)), y_hat, self.seconds, work)
        self.inner.set_iteration(history.k)
        cut_short = history.last.inner_status in ("BUDGET", "INTERRUPTED")
        if self.hooks.checkpoint is not None and not (cut_short or self.failed):  # these are gone on with, or redone
            self._save()

    # ------------------------------------------------------------------------------------------------- save and resume

    def _fingerprint(self) -> dict[str, Any]:
        digest = hashlib.sha256(np.ascontiguousarray(self.x0).tobytes() + self.y0.tobytes()).hexdigest()[:16]
        return {
            "n": self.problem.n,
            "m": self.problem.m,
            "rows": self.rows,
            "data": self._data,
            "backend": self.inner.backend.kind if isinstance(self.inner, Algorithm2) else "numpy",
            "tol": self.tol,
            "seed": self.seed,
            "settings": re.sub(r" at 0x[0-9a-f]+", "", repr(self.settings)),
            "x0": digest,
            "sides": [*self.problem.lower.tolist(), *self.problem.upper.tolist()],
        }

    def _save(self) -> None:
        assert self.hooks.checkpoint is not None
        numbers, arrays = self.inner.save()
        numbers = {**numbers, "start_beta": self.start.beta, "start_eta": self.start.eta, "look_at": self.look_at}
        numbers |= {"rescued": self.rescued, "times": self.times}
        checkpoints.save(
            self.hooks.checkpoint,
            checkpoints.State(
                self._fingerprint(), self.v, self.y, self.history, self.trace, self.best_v, self.best_y,
                self.best_residual, self.ledger.as_dict(), self.seconds, numbers, arrays,
            ),
        )  # fmt: skip

    def _resume(self) -> None:
        assert self.hooks.resume is not None
        if any(getattr(block, "batches", None) is not None for block in self.problem.blocks):
            raise CheckpointError(
                "a run on an iterator of batches cannot be resumed: the iterator cannot be wound back"
            )
        saved = checkpoints.load(self.hooks.resume)
        require_same(saved.fingerprint, self._fingerprint(), self.hooks.resume)
        self.v, self.y, self.history, self.trace = saved.v, saved.y, saved.history, saved.trace
        self.best_v, self.best_y, self.best_residual = saved.best_v, saved.best_y, saved.best_residual
        self.start = Start(self.x0, self.y0, saved.numbers.pop("start_beta"), saved.numbers.pop("start_eta"))
        self.look_at = float(saved.numbers.pop("look_at"))
        if saved.numbers.pop("rescued"):
            self._change_over()
        if (times := int(saved.numbers.pop("times"))) != self.times:
            self._take_sample(times)
        self.inner.load(saved.numbers, saved.arrays)
        points = [self.geometry.x(self.v)]
        if "v" in saved.arrays and saved.arrays["v"].size:
            points.append(self.geometry.x(saved.arrays["v"]))
        for x in points:  # the interrupted run knew their values: not counted again
            self.full.remember(self.tests_on.evaluate(np.ascontiguousarray(x)))
        for name, value in saved.ledger.items():
            setattr(self.ledger, name, value)
        self.seconds_before = saved.seconds
        if self.caps.seconds is not None:
            self.limits.deadline = self.started + self.caps.seconds - saved.seconds

    # --------------------------------------------------------------------------------------------------------- the end

    def _finish(self, status: Status) -> StochasticResult:
        x = self.geometry.x(self.best_v).copy() if self.best_v.size else self.x0.copy()
        check: Certificate | EstimatedCertificate
        if self.problem.finite_data:
            at = self.best.evaluation if self.best is not None else self.problem.evaluate(x)
            check = certificate(FullBatchProblem.from_evaluation(self.problem, at), x, self.best_y)
        elif self.check is not None:
            check = self.check
        elif self.failed is not None:
            x, check = self.failed.x, self.failed
        else:
            rows = CERTIFICATE * self.times * self.test_rows
            check = estimate_certificate(self.problem, x, self.best_y, rows=rows, rng=self.rng("certificate"))
        success = check.meets(self.tol)
        status = status.certified(success)
        text = message(status, check, self)
        if self.hooks.say is not None:
            self.hooks.say(text)
        iterations = self.history.iterations
        held = None
        if self.problem.holdout is not None:
            held = certificate(FullBatchProblem(self.problem.holdout, x), x, self.best_y)
        return StochasticResult(
            x=x,
            fun=check.objective,
            success=success,
            status=status,
            message=text,
            multipliers=self.best_y.copy(),
            certificate=check,
            estimated=not self.problem.finite_data,
            holdout=held,
            rates={} if self.problem.report is None else self.problem.report(x),
            epochs=self.ledger.rows / self.rows,
            gradients=self.ledger.gradients,
            tests=self.ledger.tests,
            nit=len(iterations),
            nit_inner=self.history.inner_iterations,
            penalty=iterations[-1].beta if iterations else math.nan,
            history=[row(it) for it in iterations],
            trace=self.trace,
            seconds=self.seconds,
            seed=self.seed,
            tol=self.tol,
            method=self.settings.method.name,
            variant=self.settings.describe(),
            advice=() if success else advice(status, check, self),
        )


def _status(history: History) -> InnerStatus:
    return InnerStatus[history.last.inner_status]
