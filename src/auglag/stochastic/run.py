"""One stochastic run: start, nested samples, Algorithm 1 with its inner loop, certificate, result."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.history import History
from auglag.algorithm.outer import Algorithm1
from auglag.algorithm.status import Status
from auglag.certificate import Certificate, certificate
from auglag.errors import CheckpointError, InputError
from auglag.prox import SquaredL2, Zero
from auglag.single_loop.engine import EngineState
from auglag.single_loop.multipliers import fitted_to
from auglag.single_loop.schedule import Round
from auglag.single_loop.steps import ScaledState
from auglag.stochastic.algorithm2 import InnerState
from auglag.stochastic.context import Context, State
from auglag.stochastic.course import Best, Driver
from auglag.stochastic.data import chunk_rows, finite_rows, note_rows
from auglag.stochastic.estimate import EstimatedCertificate, estimate_certificate
from auglag.stochastic.full_batch import FullBatch, FullBatchProblem
from auglag.stochastic.gauss_newton import GaussNewtonInner, Memory
from auglag.stochastic.growing import growth
from auglag.stochastic.lagrangian import FullTest, Geometry, StochasticLagrangian
from auglag.stochastic.limits import Ledger, Meter
from auglag.stochastic.method import Method
from auglag.stochastic.nested import Start, begin_at, go_on, nested_start
from auglag.stochastic.problem import Evaluation, StochasticProblem
from auglag.stochastic.reporting import Ending, advice, message
from auglag.stochastic.result import StochasticResult
from auglag.stochastic.single_loop import SingleLoop
from auglag.stochastic.single_loop_run import Sampled, SampledState
from auglag.stochastic.stage import Stage
from auglag.stochastic.tuning import TUNING
from auglag.stochastic.walk import WalkState
from auglag.strategy.hooks import give_best, result_of_run


@final
class Run(Driver[StochasticLagrangian, FullTest]):
    """The course of one run."""

    state: State

    def __init__(self, context: Context) -> None:
        self.context, frame, began = context, context.frame(), time.monotonic()
        if context.hooks.resume is not None:
            if any(getattr(block, "batches", None) is not None for block in context.problem.blocks):
                raise CheckpointError(
                    "a run on an iterator of batches cannot be resumed: the iterator cannot be wound back"
                )
            kinds = (State, Start, InnerState, Memory, SampledState, WalkState, EngineState, ScaledState, Round)
            state = frame.load(context.hooks.resume, *kinds)
            tests_on = context.sample(state.times)
        else:
            tests_on, start = context.sample(1), context.start
            state = State(
                v=start.x, y=start.y, history=History(math.nan, math.nan), best=Best(start.x, start.y),
                ledger=Ledger(), pass_rows=tests_on.rows or 1, start=start,
            )  # fmt: skip
        self.take(tests_on, state.ledger)
        meter = Meter(context.limits, state.ledger, state.pass_rows, began - state.seconds)
        super().__init__(frame, state, meter, self.stage, context.inner(state, meter))
        if context.hooks.resume is not None:
            self._go_on()

    def take(self, tests_on: StochasticProblem, ledger: Ledger) -> None:
        """Make tests on these rows from now on."""
        self.full, self.geometry = FullBatch(tests_on, ledger), Geometry(tests_on, self.context.settings.slacks)
        self.stage = Stage(self._subproblem)

    def _subproblem(self, y: Vector, beta: float) -> StochasticLagrangian:
        return StochasticLagrangian(self.geometry, self.full, y, beta, self.tested)

    def _go_on(self) -> None:
        """Where a saved state stood; the values that the interrupted run knew are not counted again."""
        state = self.state
        if state.sampled is not None:
            return
        if state.inner is not None:
            self.inner.memory = state.inner
        inside = state.inner.v if isinstance(state.inner, InnerState) else None
        for v in (state.v, inside):
            if v is not None:
                self.full.remember(self.full.problem.evaluate(np.ascontiguousarray(self.geometry.x(v))))

    # ------------------------------------------------------------------------------------------------------ the course

    def solve(self) -> StochasticResult:
        """From the start to the result. An exception of user code carries the result so far as `best`."""
        try:
            return result_of_run(self._course, self._finish)
        except Exception as error:
            give_best(error, self._so_far)
            for block in self.context.problem.blocks:
                if (data := getattr(block, "data", None)) is not None:
                    note_rows(error, block.rows or 0, partial(finite_rows, data), chunk_rows(data))
            raise

    def _course(self) -> Status:
        context, state = self.context, self.state
        if context.hooks.resume is None or state.sampled is not None:
            self._begin()
        status = self._algorithm1()
        if status.no_further and context.rescue and not state.attempt:
            state.attempt, state.start = 1, context.start
            self.inner = context.inner(state, self.meter)
            self._begin()
            status = self._algorithm1()
        while state.refuted is not None:
            left = self.meter.rows - state.ledger.rows
            high = state.refuted.residual_interval[1]
            factor, state.limit = growth(self.full.problem, high, context.tol, left)
            if factor == 1:
                return Status.EVALUATION_LIMIT if state.limit == "epochs" else status
            self._enlarge(state.refuted, factor)
            status = self._algorithm1()
        return status

    def _begin(self) -> None:
        """x_1, by way of samples where that pays, and the first test."""
        context, state, settings = self.context, self.state, self.context.settings
        if context.nested and not state.attempt:
            state.start = nested_start(
                context.problem, settings, state.start, self.inner, state.ledger, context.tol, context.rng("nested"),
                context.hooks.say,
            )  # fmt: skip
            self.inner.forget()
        if not state.attempt and state.times == 1:
            if isinstance(settings.method, SingleLoop):
                self._single_loop(settings.method)
            elif context.sampled:
                self._single_loop(SingleLoop(), only_if_far=True)
        start, first = state.start, self.full.at(state.start.x)
        if not first.finite:
            raise InputError(f"{first.broken(context.problem.names)} must be finite at x0, got NaN or inf")
        state.v, state.y = self.geometry.start(start.x, first.c), start.y
        beta = begin_at(settings.penalty, start.beta).next(History(first.f, 1.0))
        test = self.stage.subproblem(state.y, beta).test(state.v)
        violation = float(np.linalg.norm(test.c if start.beta is not None else context.problem.violation(first.c)))
        state.history = History(first.f, violation, settings.negligible * context.tol)
        self.tested(test, p=0, steps=0, accepted=False, k=0)

    def _single_loop(self, method: SingleLoop, *, only_if_far: bool = False) -> None:
        """Sampled steps; they lead to another start."""
        context, state, newton = self.context, self.state, isinstance(self.inner, GaussNewtonInner)
        steps = Sampled(
            method, context.problem, self.meter, lambda i: context.rng(f"single loop {i}"), self.save, newton=newton
        )
        resumed, start = state.sampled is not None, state.start
        state.sampled = steps.begin(start, state.sampled)
        if resumed or not only_if_far or steps.far(start.x, start.y):
            steps.run()
            state.start = steps.end(self.full)
        state.sampled = None

    def _algorithm1(self) -> Status:
        context, settings, start = self.context, self.context.settings, self.state.start
        return self.algorithm1(
            Algorithm1(
                begin_at(settings.penalty, start.beta), settings.dual, go_on(settings.tolerance, start.eta, context.aim)
            ),
            # With sampled data no R on the fixed sample ends the run: a certificate does, see `enough`.
            tol=context.tol if context.problem.finite_data else 1e-300,
            constrained=context.problem.m > 0,
            largest_penalty=settings.largest_penalty,
        )

    def _enlarge(self, refuted: EstimatedCertificate, factor: int) -> None:
        """Go on from the best point on a larger sample, by which it is measured anew."""
        context, state = self.context, self.state
        beta = state.history.last.beta if state.history.iterations else None
        state.start = Start(refuted.x, refuted.multipliers, beta, refuted.residual_interval[1])
        state.refuted, state.look_at, state.best = None, math.inf, replace(state.best, residual=math.inf)
        state.times *= factor
        self.take(context.sample(state.times), state.ledger)
        self.inner.forget()
        if context.hooks.say is not None:
            context.hooks.say(f"sample of {self.full.problem.rows} rows after {self.meter.epochs:.1f} passes")
        self._begin()

    # ------------------------------------------------------------------------------------------ what the driver asks

    def best_at(self, test: FullTest, y: Vector, residual: float) -> Best:
        return Best(self.geometry.x(test.v), y, residual, evaluation=test.evaluation)

    def measured(self, test: FullTest) -> tuple[Vector, float]:
        """With multipliers fitted to the gradient, where R is smaller: full batches tell them for nothing.

        Those of Algorithm 1 need some outer iterations to settle. Sampled methods and presets are left as they are
        published.
        """
        context, at, g = self.context, test.evaluation, self.context.problem.g
        full = not isinstance(context.settings.method, Method) and context.problem.finite_data
        if not (full and at.c.size and at.finite and isinstance(g, Zero | SquaredL2)):
            return test.y_hat, test.residual
        slope = at.grad + test.y_hat @ at.jac + (g.weight * at.x if isinstance(g, SquaredL2) else 0.0)
        y = fitted_to(at.jac, slope, test.y_hat, at.c, context.problem.lower, context.problem.upper)
        check = certificate(FullBatchProblem.from_evaluation(context.problem, at), at.x, y, scale_free=False)
        return (y, check.residual) if check.residual < test.residual else (test.y_hat, test.residual)

    def enough(self, test: FullTest, residual: float) -> bool:
        """R <= tol over all rows; or, where rows have no end, whether the sample has told what it can."""
        return bool(residual <= self.context.aim) and (self.context.problem.finite_data or self._judged(test))

    def _judged(self, test: FullTest) -> bool:
        """Whether a fresh sample has borne out R <= tol, or shown that this one is too small for it.

        R on the fixed sample says nothing of its own error. After a failure the next look waits for a smaller R.
        """
        context, state = self.context, self.state
        cost = TUNING.certificate_rows * (self.full.problem.rows or 0)
        if test.residual > state.look_at or (context.grows and state.ledger.rows + cost > self.meter.rows):
            return False  # the certificate at the end will do
        check = self._estimate(self.geometry.x(test.v).copy(), test.y_hat, f"certificate {test.residual!r}")
        state.ledger.rows += cost
        state.look_at = TUNING.look_again * test.residual
        if check.meets(context.tol):  # this is the point to return, although another may have a smaller R
            state.certified, state.best = check, self.best_at(test, test.y_hat, test.residual)
        elif context.grows:
            state.refuted = check
        return self.verdict() is not None

    def _estimate(self, x: Vector, y: Vector, purpose: str) -> EstimatedCertificate:
        rows = TUNING.certificate_rows * self.state.times * self.context.test_rows
        return estimate_certificate(self.context.problem, x, y, rows=rows, rng=self.context.rng(purpose))

    def verdict(self) -> Status | None:
        """What a certificate of sampled data has decided, or a test with other multipliers than Algorithm 1's."""
        met = self.context.problem.finite_data and self.state.best.residual <= self.context.aim
        if met or self.state.certified is not None:
            return Status.SOLVED
        return None if self.state.refuted is None else Status.UNCERTIFIED

    def ended_at(self, last: FullTest) -> None:
        """A subproblem may end at a point that no witness has seen with its new multipliers."""
        if last.residual < self.state.best.residual:
            self.state.best = self.best_at(last, last.y_hat, last.residual)

    def save(self) -> None:
        """As it is; but not at a point that was refuted: a resumed run has to come to that, too."""
        if self.state.refuted is None:
            super().save()

    # --------------------------------------------------------------------------------------------------------- the end

    def _finish(self, status: Status) -> StochasticResult:
        check = self._check()
        result = self._result(status.certified(check.meets(self.context.tol)), check)
        if self.context.hooks.say is not None:
            self.context.hooks.say(result.message)
        return result

    def _so_far(self) -> StochasticResult | None:
        """The best point of a run that an exception ends, never called solved; None before the first test.

        Where the functions fail once more the certificate says NaN, and there is nothing about a holdout.
        """
        if math.isnan(self.state.history.objective):
            return None
        try:
            return self._result(Status.STOPPED, self._check())
        except Exception:
            problem, best = self.context.problem, self.state.best
            nan = np.full((problem.m, problem.n), math.nan)
            at = Evaluation(best.x, math.nan, np.full(problem.n, math.nan), np.full(problem.m, math.nan), nan, ())
            unknown = certificate(
                FullBatchProblem.from_evaluation(problem, at), best.x.copy(), best.y, scale_free=False
            )
            return self._result(Status.STOPPED, unknown, beside=False)

    def _check(self) -> Certificate | EstimatedCertificate:
        """The certificate of the best point."""
        state, problem, best = self.state, self.context.problem, self.state.best
        x = best.x.copy()
        if not problem.finite_data:
            return state.certified or state.refuted or self._estimate(x, best.y, "certificate")
        at = best.evaluation if best.evaluation is not None else problem.evaluate(x)
        return certificate(FullBatchProblem.from_evaluation(problem, at), x, best.y, scale_free=False)

    def _result(
        self, status: Status, check: Certificate | EstimatedCertificate, *, beside: bool = True
    ) -> StochasticResult:
        """Everything about the best point; with `beside`, also the holdout and the user's report."""
        context, state, problem = self.context, self.state, self.context.problem
        x, y, success = check.x, state.best.y, status is Status.SOLVED
        end = Ending(
            status=status,
            check=check,
            tol=context.tol,
            settings=context.settings,
            history=state.history,
            limits=context.limits,
            limit=state.limit,
            finite_data=problem.finite_data,
            grows=context.grows,
            refuted=state.refuted is not None,
            sample_rows=self.full.problem.rows or 0,
            drawn_rows=state.times * context.test_rows,
            rescued=state.attempt > 0,
            checkpoint=context.hooks.checkpoint,
            stuck=_stuck(state.best.evaluation, problem),
        )
        held = None
        if beside and problem.holdout is not None:
            held = certificate(FullBatchProblem(problem.holdout, x), x, y, scale_free=False)
        return StochasticResult(
            x=x,
            fun=check.objective,
            success=success,
            status=status,
            message=message(end),
            multipliers=y.copy(),
            certificate=check,
            estimated=not problem.finite_data,
            holdout=held,
            rates={} if not beside or problem.report is None else problem.report(x),
            method=context.settings.method.name,
            variant=context.settings.describe(),
            advice=() if success else advice(end),
            **self.summary(),
        )


def _stuck(at: Evaluation | None, problem: StochasticProblem) -> str:
    """A constraint that is violated and whose gradient is zero, or nothing."""
    if at is None:
        return ""
    flat = (problem.violation(at.c) != 0.0) & ~at.jac.any(axis=1)
    return problem.names[int(np.argmax(flat))] if flat.any() else ""
