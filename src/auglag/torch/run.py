"""One training run: start, Algorithm 1 with its inner loop, checkpoint, certificate, result."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import torch

from auglag._typing import Vector
from auglag.algorithm.history import History
from auglag.algorithm.outer import Algorithm1
from auglag.algorithm.status import Status
from auglag.certificate import Certificate
from auglag.errors import CheckpointError, InputError, StoppedByCallback
from auglag.result import row
from auglag.single_loop.engine import EngineState
from auglag.single_loop.schedule import FIRST_LOOK, Round, before_closing, first_round, next_round, worth_full_batches
from auglag.single_loop.steps import ScaledState
from auglag.stochastic.algorithm2 import InnerState
from auglag.stochastic.course import Best, Driver, Frame
from auglag.stochastic.data import note_rows
from auglag.stochastic.limits import Ledger, Meter
from auglag.stochastic.reporting import ending
from auglag.stochastic.stage import InnerLoop, Stage
from auglag.strategy.hooks import give_best, result_of_run
from auglag.torch.certify import certify_point, tested_point
from auglag.torch.context import Context, State
from auglag.torch.data import TensorSource
from auglag.torch.full_batch import FullBatch, Values
from auglag.torch.full_batch_methods import LBFGS, FullBatchInner, Pairs
from auglag.torch.functions import Functions
from auglag.torch.lagrangian import Subproblem, Test
from auglag.torch.means import check_means
from auglag.torch.methods import Optimizer
from auglag.torch.reporting import advice
from auglag.torch.result import TrainingResult
from auglag.torch.round_end import tests_at_end
from auglag.torch.sampled import SampledInner
from auglag.torch.settings import adam, affordable, following, noisy
from auglag.torch.single_loop import CoreState
from auglag.torch.single_loop_run import Sampled, SampledState, SingleLoopMethod
from auglag.torch.single_loop_safe import Safe
from auglag.torch.tuning import TUNING

Tensor = Any
WHY = ("", "epochs", "gradients", "seconds")


def train(context: Context) -> TrainingResult:
    """From the start to the result; the model is left at the best point, or as it was if anything raises."""
    source = context.source
    try:
        with untouched(context.functions):
            return Run(context).solve()
    except InputError as error:
        if isinstance(source, TensorSource):
            note_rows(error, source.rows, source.finite_rows, source.chunk)
        raise


@contextmanager
def untouched(functions: Functions) -> Iterator[None]:
    """Inside, gradients of parameters are free to use; if anything raises, the model is as it was."""
    variables, x = functions.variables, functions.variables.read()
    buffers = [(b, b.detach().clone()) for b in functions.model.buffers()]
    gradients = [p.grad for p in variables.params]
    try:
        yield
    except BaseException:
        variables.write(x)
        for buffer, old in buffers:
            buffer.copy_(old)
        raise
    finally:
        for p, g in zip(variables.params, gradients, strict=True):
            p.grad = g


@final
class Run(Driver[Subproblem, Test]):
    """The course of one run."""

    state: State

    def __init__(self, context: Context) -> None:
        self.context, frame, began = context, context.frame(), time.monotonic()
        if context.hooks.resume is None:
            self.full = self._full(Ledger())
            state = self._first()
        else:
            state = self._saved(frame, context.hooks.resume)
            self.full = self._full(state.ledger)
        meter = Meter(context.limits, state.ledger, self.full.rows or 1, began - state.seconds)
        super().__init__(frame, state, meter, Stage(self._subproblem), self._inner(state.ledger))
        if context.hooks.resume is not None:
            self._go_on()

    def _full(self, ledger: Ledger) -> FullBatch:
        functions = self.context.functions
        found = FullBatch(functions.variables, functions, self.context.source, self.context.team, ledger)
        found.keep = isinstance(self.context.settings.method, SingleLoopMethod)
        return found

    def _subproblem(self, y: Vector, beta: float) -> Subproblem:
        return Subproblem(self.full, self.context.prox, y, beta, self.tested)

    def _inner(self, ledger: Ledger) -> InnerLoop[Subproblem]:
        context, method = self.context, self.context.settings.method
        if isinstance(method, SingleLoopMethod):
            method = LBFGS()
        if isinstance(method, LBFGS):
            return FullBatchInner(method, context.functions.variables.n, self.exhausted)
        controller = context.settings.controller
        return SampledInner(method, controller, context.source, ledger, context.seed, self.exhausted)

    def exhausted(self) -> str:
        """Which limit is reached, or ''; the same in every process."""
        why = WHY.index(self.meter.reached())
        if self.meter.deadline < math.inf:
            why = round(self.context.team.agree([why])[0])
        return WHY[why]

    # ------------------------------------------------------------------------------------------------ begin, or go on

    def _first(self) -> State:
        """x_1 in the domain of g, with f and c there."""
        context, layout = self.context, self.context.functions.layout
        x = context.team.from_first_(context.functions.variables.read())
        x = context.prox.into_domain(x)
        single = isinstance(context.settings.method, SingleLoopMethod) and context.source.rows is not None
        first = self._look(x) if single else self.full.values(x)
        if not first.finite:
            what = "objective" if not math.isfinite(first.f) else "constraints"
            got = first.f if what == "objective" else dict(layout.by_name(first.c))
            raise InputError(f"{what} must be finite at the start, over all rows, got {got}")
        if context.check_means:
            sampled = not isinstance(context.settings.method, LBFGS)
            self.full.ledger.rows += check_means(
                context.functions, context.source, context.prox, x, context.seed, sampled=sampled
            )
        y = layout.multipliers(context.y0)
        violation = float(np.linalg.norm(first.c - np.clip(first.c, layout.lower, layout.upper)))
        history = History(first.f, violation, context.settings.negligible * context.tol)
        return State(
            v=x,
            y=y,
            history=history,
            best=Best(x, y),
            ledger=self.full.ledger,
            f=first.f,
            c=first.c,
            sizes=layout.sizes,
            scalar=layout.scalar,
        )

    def _look(self, x: Tensor) -> Values:
        """f and c on a few rows: all that a single loop has to know before its first step."""
        functions, size = self.context.functions, max(FIRST_LOOK, self.context.team.size)
        with functions.testing(), torch.no_grad():
            functions.variables.write(x)
            f, c = functions.both(next(iter(self.context.source.shuffled(self.context.seed, size))))
        self.full.ledger.rows += size
        # Functions may ask for gradients themselves, or hand out a view of a parameter.
        return Values(x, float(f.detach()), np.zeros(0) if c is None else c.detach().double().cpu().numpy())

    def _saved(self, frame: Frame, resume: Any) -> State:
        """The state of a checkpoint, with the model and its constraints as they were."""
        functions = self.context.functions
        if not self.context.source.resumable:
            raise CheckpointError("a run on a stream of batches cannot be resumed: where it stood cannot be known")
        state: State = frame.load(
            resume, State, InnerState, Pairs, SampledState, CoreState, ScaledState, EngineState, Round, Safe,
            device=functions.variables.device,
        )  # fmt: skip
        functions.layout.scalar = state.scalar
        if state.sizes is not None:
            functions.layout.settle(state.sizes)
        for buffer, old in zip(functions.model.buffers(), state.buffers, strict=True):
            buffer.copy_(old)
        return state

    def _go_on(self) -> None:
        """Where a saved state stood; the values that the interrupted run knew are not counted again."""
        state = self.state
        self.inner.memory = state.inner
        if state.sampled is not None and not state.sampled.finished:
            return
        self.full.remember(Values(state.v, state.f, state.c))
        if self.full.keep:
            self.full.free.add(id(state.v))
        if isinstance(state.inner, InnerState) and state.inner.v is not None and state.inside is not None:
            self.full.remember(Values(state.inner.v, *state.inside))
            self.full.free |= {id(state.v), id(state.inner.v)}

    # ------------------------------------------------------------------------------------------------------ the course

    def solve(self) -> TrainingResult:
        """From the first test to the result. An exception of user code carries the result so far as `best`."""
        try:
            return result_of_run(self._course, self._finish)
        except Exception as error:
            give_best(error, self._so_far)
            raise

    def _course(self) -> Status:
        context, settings = self.context, self.context.settings
        if context.hooks.log is not None:  # only now are the lengths of all constraints known
            context.hooks.log.start(**context.header(self.full.rows))
        if isinstance(settings.method, SingleLoopMethod):
            state = self.state
            state.limit = self._single_loop(settings.method)
            if state.limit and state.best.residual > context.tol:
                return Status.TIME_LIMIT if state.limit == "seconds" else Status.EVALUATION_LIMIT
            self.meter.rows -= self.full.rows or 1  # for the certificate
        elif context.hooks.resume is None:
            self._begin()
        sampled = self.state.sampled
        begun = math.inf if sampled is None else sampled.residual
        return self.algorithm1(
            Algorithm1(settings.penalty, settings.dual, settings.tolerance or following(context.tol, begun)),
            tol=context.tol,
            constrained=context.functions.layout.m > 0,
            largest_penalty=settings.largest_penalty,
        )

    def _begin(self) -> None:
        """The first test, and sampled steps before full batches where they pay."""
        context, state, method = self.context, self.state, self.context.settings.method
        test = self.stage.subproblem(state.y, context.settings.penalty.next(state.history)).test(state.v)
        if not math.isfinite(test.dist):
            raise InputError("gradients of objective and constraints must be finite at the start, got NaN or inf")
        if context.team.alone:  # of many processes, one may have no rows that a constraint looks at
            context.functions.layout.require_graphs()
        self.tested(test, p=0, steps=0, accepted=False, k=0)
        if isinstance(method, LBFGS) and method.warm_up and state.best.residual > context.tol:
            self._warm_up(test)

    def _warm_up(self, start: Test) -> None:
        """A better x_1: sampled Adam on the first subproblem for 1, 2, 4, ... passes, while every call helps much."""
        context, batch = self.context, TUNING.warm_up_batch
        method = Optimizer(adam, batch=batch, label="adam")
        calls = SampledInner(
            method, context.settings.controller, context.source, self.state.ledger, context.seed, self.exhausted
        )
        steps, best, last = (self.full.rows or 1) // (2 * batch), start, start
        for p in range(TUNING.warm_up_calls):
            if self.exhausted():
                break
            test = calls.one(self.stage.current, last, steps, p)
            self.tested(test, p=p + 1, steps=steps, accepted=False, k=0)
            if test.value < best.value:
                best = test
            if not test.dist <= TUNING.warm_up_gain * last.dist or test.dist <= TUNING.warm_up_enough:
                break
            last, steps = test, 2 * steps
        self._stand_at(best)

    def _single_loop(self, method: SingleLoopMethod) -> str:
        """Steps on batches: one round before full batches where these pay, else rounds until R <= tol or a limit.

        The limit that was reached, or ''. The closing tests and the certificate are part of the budget.
        """
        context, state, functions = self.context, self.state, self.context.functions
        if state.sampled is not None and state.sampled.finished:
            return ""
        full = method.full
        if full is None:
            full = (
                not noisy(functions) and context.source.rows is not None and affordable(functions, self.full.rows or 1)
            )
        sampled = Sampled(
            method, self.full, context.source, context.prox, state.ledger, context.seed, self.exhausted, self.save
        )
        budget = self.meter.rows / (self.full.rows or 1)
        full = full and worth_full_batches(budget)
        budget = budget if full else before_closing(budget)
        if state.sampled is None:
            functions.variables.write(state.v)
            state.sampled = sampled.begin(first_round(budget, full=full), functions.layout.multipliers(context.y0))
        else:
            sampled.restore(state.sampled)
        while True:
            why = sampled.run()
            left = budget - self.meter.epochs
            if not full and left * sampled.state.round.pass_steps < 1.0:
                why = why or "epochs"
            if self._rest_at(sampled, full) <= context.tol or why or full:
                break
            sampled.again(next_round(state.sampled.round.passes, left))
            self.save()
        sampled.finish()
        self.save()
        return why

    def _rest_at(self, sampled: Sampled, full: bool) -> float:
        """The smallest R of the point of a round, among several multipliers. If `full`, Algorithm 1 goes on from there.

        Penalties stay behind: they suit the length of a step on a batch, and may be thousands of times too large.
        Where R is smallest without any multipliers, they stay behind, too, and so does the metric of their steps.
        """
        state, x = self.state, sampled.end()
        w, beta = sampled.penalties()
        tests = tests_at_end(self.full, self.context.prox, sampled.core, x, w, beta)
        at = tests[-1].values
        if not math.isfinite(tests[-1].dist):
            raise InputError(
                "objective, constraints and gradients must be finite where a round of the single loop ends, got NaN or "
                f"inf: take SingleLoopMethod(rate=...) smaller than {sampled.method.rate:g}"
            )
        self._stand_at(tests[0])
        state.history = History(at.f, tests[0].violation, self.context.settings.negligible * self.context.tol)
        best = min(tests, key=lambda test: test.residual)
        state.y, sampled.state.residual = best.y_hat, best.residual
        self.stage.subproblem(w, float(np.exp(np.mean(np.log(beta)))) if beta.size else 1.0)  # for the trace
        self.tested(best, p=sampled.state.rounds + 1, steps=sampled.state.done, accepted=False, k=0)
        if isinstance(self.inner, FullBatchInner) and (best is not tests[0] or not w.size):
            self.inner.memory.scales = sampled.scales()
        return best.residual

    def _stand_at(self, test: Test) -> None:
        self.state.v, self.state.f, self.state.c = test.v, test.values.f, test.values.c

    # ------------------------------------------------------------------------------------------ what the driver asks

    def best_at(self, test: Test, y: Vector, residual: float) -> Best:
        """The point, with the buffers of the model, which batch norm changes beside x."""
        buffers = tuple(b.detach().clone() for b in self.context.functions.model.buffers())
        return Best(test.v, y, residual, buffers)

    def enough(self, test: Test, residual: float) -> bool:
        return bool(residual <= self.context.tol)

    def extra(self, test: Test) -> dict[str, Any]:
        self.state.inside = test.values.f, test.values.c
        return {"beta": self.stage.current.beta, "multipliers": test.y_hat.tolist()}

    def ended_at(self, last: Test) -> None:
        if self.state.v is last.v:
            self._stand_at(last)

    def show(self, entry: dict[str, Any]) -> None:
        """On the first process; whether the callback ends the run, all have to agree."""
        hooks, team, stopped = self.context.hooks, self.context.team, False
        if team.rank == 0:
            try:
                super().show(entry)
            except StoppedByCallback:
                stopped = True
        if hooks.callback is not None and team.agree([float(stopped)])[0]:
            raise StoppedByCallback

    def save(self) -> None:
        self.state.buffers = tuple(b.detach() for b in self.context.functions.model.buffers())
        super().save()

    # --------------------------------------------------------------------------------------------------------- the end

    def _finish(self, status: Status) -> TrainingResult:
        context, best, functions = self.context, self.state.best, self.context.functions
        variables = functions.variables
        variables.write(best.x)
        x = variables.read()  # as parameters of half precision hold it
        for buffer, old in zip(functions.model.buffers(), best.buffers, strict=False):
            buffer.copy_(old)
        check = certify_point(self.full, context.prox, x, best.y)
        c, solved = self.full.values(x).c, check.meets(context.tol)
        stuck = self.full.stuck(x) if not solved and check.violation > context.tol else ""
        result = self._result(status.certified(solved), check, c, stuck)
        if context.hooks.say is not None:
            context.hooks.say(result.message)
        variables.write(x)
        return result

    def _so_far(self) -> TrainingResult | None:
        """The best point of a run that an exception ends, never called solved; None before the first test.

        Nothing is evaluated again, so that no process waits for another: the numbers are those of the test.
        """
        best = self.state.best
        row = next((row for row in self.state.trace if row["residual"] == best.residual), None)
        if row is None:
            return None
        known, m = self.full.known(best.x), self.context.functions.layout.m
        check = tested_point(best.x.clone(), best.y, row)
        return self._result(Status.STOPPED, check, np.full(m, math.nan) if known is None else known.c)

    def _result(self, status: Status, check: Certificate, c: Vector, stuck: str = "") -> TrainingResult:
        """Everything about a point with this certificate and these values of the constraints."""
        context, layout, variables = self.context, self.context.functions.layout, self.context.functions.variables
        relation = "<=" if check.residual <= context.tol else ">"
        text = f"{ending(status, context.limits, self.state.limit)} Residual {check.residual:.2e} {relation} "
        text += f"tol {context.tol:.0e}; violation {check.violation:.2e}."
        if self.state.sampled is not None:
            text += (
                f" Of {self.meter.epochs:.3g} passes {self.state.sampled.rows / self.meter.pass_rows:.3g} were steps."
            )
        if check.residual <= context.tol < check.derivative_error:
            text += f" Rounding in {variables.dtype} may hide {check.derivative_error:.0e}: use double."
        return TrainingResult(
            x=check.x, fun=check.objective, success=status is Status.SOLVED, status=status, message=text,
            multipliers=layout.by_name(check.multipliers), constraints=layout.by_name(c), certificate=check,
            method=context.settings.method.name, variant=context.settings.describe(),
            advice=advice(
                status, self.state.limit, context.hooks.checkpoint, context.tol, check,
                [entry["violation"] for entry in self.state.trace], stuck,
            ),
            **self.summary() | self._virtual(),
        )  # fmt: skip

    def _virtual(self) -> dict[str, Any]:
        """The outer iterations of a single loop, one per pass, before those with subproblems."""
        sampled = self.state.sampled
        if sampled is None:
            return {}
        engine = None if sampled.core is None else sampled.core.engine
        rows = sampled.virtual if engine is None else engine.history.iterations
        both = [*rows, *self.state.history.iterations]
        inner = sum(it.inner_iterations for it in both)
        return {"history": [row(it) for it in both], "nit": len(both), "nit_inner": inner}
