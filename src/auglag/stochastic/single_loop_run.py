"""The single loop with NumPy: steps on batches before the full batches, multipliers and penalties in every one of them.

`auglag.single_loop` has the method; here are the batches, the Jacobian, and the start that they lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Matrix, Vector
from auglag.errors import InputError
from auglag.prox import Box, Zero
from auglag.single_loop.engine import Engine, EngineState
from auglag.single_loop.multipliers import fitted
from auglag.single_loop.schedule import Round, batch_rows, first_round, round_of, worth_full_batches
from auglag.single_loop.steps import ScaledState, ScaledSteps, newest_share
from auglag.stochastic.full_batch import FullBatch
from auglag.stochastic.limits import Meter
from auglag.stochastic.nested import Start
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.single_loop import SingleLoop
from auglag.stochastic.tuning import TUNING


@final
@dataclass(slots=True)
class SampledState:
    """Where the sampled steps stand, between two passes."""

    round: Round
    x: Vector
    average: Vector
    engine: EngineState | None  #: None without constraints
    moments: ScaledState
    jacobian: Matrix | None = None  #: averaged
    jacobians: int = 0  #: in the average
    flat: Any = False  #: constraints that had a value other than zero, and a gradient of zeros, on some batch
    done: int = 0
    passes: int = 0


@final
class Sampled:
    """Takes the steps, at most `most` where full batches follow. `rng(pass)` is the randomness of one pass."""

    def __init__(
        self,
        method: SingleLoop,
        problem: StochasticProblem,
        meter: Meter,
        rng: Callable[[int], np.random.Generator],
        save: Callable[[], None],
        most: int,
    ) -> None:
        self.method, self.problem, self.meter, self.rng, self.save = method, problem, meter, rng, save
        self.most = most
        self.boxed = isinstance(problem.g, Zero | Box)
        self.engine: Engine | None = None

    def begin(self, start: Start, saved: SampledState | None) -> SampledState:
        """The state before the first step, or a saved one."""
        problem, rows = self.problem, self.meter.pass_rows
        if saved is None:
            budget = self.meter.rows / rows
            passes = first_round(budget, full=True)
            batch = min(self.method.batch or batch_rows(rows, passes, len(problem.blocks)), rows)
            if worth_full_batches(budget):
                passes = min(passes, self.most * batch / rows)
            this = round_of(passes, rows, batch)
        else:
            this = saved.round
        shared = [] if self.boxed else [slice(0, problem.n)]
        self.steps = ScaledSteps(np, start.x, self.method.rate, shared, adapt=self.method.adapt)
        if problem.m:
            blocks = [block for block in problem.blocks if block.in_constraints]
            exact = np.full(problem.m, all(block.exact for block in blocks))
            self.engine = Engine(
                np, problem.lower, problem.upper, start.y, exact=exact if exact.any() else None,
                pass_steps=this.pass_steps if problem.finite_data else None, penalty=self.method.rule,
            )  # fmt: skip
        if saved is None:
            engine = None if self.engine is None else self.engine.state
            saved = SampledState(this, start.x.copy(), start.x.copy(), engine, self.steps.state)
        elif self.engine is not None and saved.engine is not None:
            self.engine.state = saved.engine
        self.state, self.steps.state = saved, saved.moments
        return saved

    def run(self) -> None:
        """Steps until the round is over or a limit of the run is reached."""
        state = self.state
        while state.done < state.round.steps:
            for batches, rows in self._pass(self.rng(state.passes)):
                if self.meter.reached():
                    return
                self._step(batches)
                self.meter.ledger.rows += rows
                self.meter.ledger.gradients += 1
                state.done += 1
                if state.done >= state.round.steps:
                    break
            if state.passes == 0:
                self._check()
            state.passes += 1
            if state.done < state.round.steps:
                self.save()

    def _pass(self, rng: np.random.Generator) -> Iterator[tuple[list[Any], int]]:
        """One pass: a batch of every block at a time, without replacement; endless blocks draw afresh."""
        blocks, steps = self.problem.blocks, self.state.round.pass_steps
        sizes = self._sizes()
        rows = sum(size for block, size in zip(blocks, sizes, strict=True) if not block.exact)
        orders = [
            None if block.exact or block.rows is None else _order(rng, block.rows, size, steps)
            for block, size in zip(blocks, sizes, strict=True)
        ]
        for i in range(steps):
            found = []
            for block, order, size in zip(blocks, orders, sizes, strict=True):
                if order is not None:
                    found.append(block.take(order[i * size : (i + 1) * size]))
                else:
                    found.append(block.take(slice(0, 0)) if block.exact else block.draw(rng, size))
            yield found, rows

    def _sizes(self) -> list[int]:
        """Rows of every block in a batch: in proportion, but all rows of the smallest, as far as one batch goes.

        A term of a few rows, such as a square of every variable, has no noise then.
        """
        blocks, total, batch = self.problem.blocks, self.meter.pass_rows, self.state.round.batch
        sizes = [max(1, round(batch * (block.rows or total) / total)) for block in blocks]
        spent = 0
        for i in sorted(range(len(blocks)), key=lambda i: blocks[i].rows or total):
            spent += blocks[i].rows or total
            if spent > batch:
                break
            sizes[i] = blocks[i].rows or sizes[i]
        return sizes

    def _step(self, batches: list[Any]) -> None:
        state, steps, engine = self.state, self.steps, self.engine
        steps.factor = state.round.fall(state.done)
        x = state.x
        w = np.zeros(0) if engine is None else engine.weights()
        jacobian = None
        if engine is not None and engine.wants_jacobian():
            at = self.problem.estimate(x, batches)
            c, jacobian, gradient = at.c, at.jac, at.grad + w @ at.jac
        else:
            gradient, c = np.zeros(self.problem.n), np.zeros(self.problem.m)
            for block, batch in zip(self.problem.blocks, batches, strict=True):
                gradient = gradient + block.gradient(x, batch, w)
                if block.in_constraints:
                    c = c + block.values(x, batch)[1]
        self._finite(gradient, c)
        after = steps.take(x, gradient)
        if not isinstance(self.problem.g, Zero):
            after = self.problem.g.prox(after, 1.0 if self.boxed else float(steps.matrix()[0]))
        if engine is not None:
            if jacobian is not None:
                self._calibrate(engine, jacobian, c)
            engine.track(c)
            engine.moved(state.jacobian @ (after - x), steps.fall())
            if engine.pass_ended:
                engine.outer(steps.fall())
        state.x = after
        state.average = state.average + newest_share(state.done + 1) * (after - state.average)

    def _calibrate(self, engine: Engine, found: Matrix, c: Vector) -> None:
        """The Jacobian of a batch joins the average, and the penalties follow; c are the values of the batch."""
        state, matrix = self.state, self.steps.matrix() / self.steps.fall()
        before = found if state.jacobian is None else state.jacobian
        J = before + engine.newest(state.jacobians) * (found - before)
        state.jacobian, state.jacobians = J, state.jacobians + 1
        state.flat = state.flat | (~found.any(axis=1) & (c != 0.0))
        engine.limit(self.steps.longest() * np.abs(J).sum(axis=1))
        engine.calibrate((J * J) @ matrix, lambda u: J @ (matrix * (u @ J)))

    def _finite(self, gradient: Vector, c: Vector) -> None:
        if np.isfinite(gradient).all() and np.isfinite(c).all():
            return
        bad = np.flatnonzero(~np.isfinite(c))
        what = f"constraint {self.problem.names[bad[0]]!r}" if bad.size else "objective, constraints and gradients"
        raise InputError(
            f"{what} must be finite on every batch, got NaN or inf at step {self.state.done + 1} of the single loop "
            f"(rate {self.method.rate:g})"
        )

    def _check(self) -> None:
        """After a pass: a constraint whose gradient was zero on every batch is named.

        Not where the batches that were looked at may have had no row that it is about: its value was zero there.
        """
        if self.engine is None or self.engine.state.diagonal is None:
            return
        constant = self.state.flat | (self.engine.tracked == 0.0)
        zero = np.flatnonzero((self.engine.state.diagonal == 0.0) & constant)
        if zero.size:
            raise InputError(
                f"constraint {self.problem.names[zero[0]]!r} must change with x, got a gradient of zeros on every "
                "batch of the first pass"
            )

    def end(self, full: FullBatch) -> Start:
        """Where full batches begin: the average of the last iterates, fitted multipliers, and the penalty's size."""
        state, problem = self.state, self.problem
        x = state.average if isinstance(problem.g, Zero) else state.x
        engine = self.engine
        if engine is None or engine.state.beta is None or state.jacobian is None:
            return Start(x, np.zeros(problem.m), None)
        at, y = full.at(np.ascontiguousarray(x)), engine.weights()
        gradient = at.grad + y @ at.jac
        y = fitted(at.jac @ at.jac.T, at.jac @ gradient, y, at.c, problem.lower, problem.upper)
        beta = float(np.exp(np.mean(np.log(engine.state.beta))))
        over = bool(self.meter.reached()) or not worth_full_batches(self.meter.rows / self.meter.pass_rows)
        return Start(x, y, TUNING.last_penalty * beta if over else beta)


def _order(rng: np.random.Generator, rows: int, size: int, steps: int) -> NDArray[np.intp]:
    """Row numbers for so many batches: every row once before any comes again."""
    times = -(-steps * size // rows)
    return np.concatenate([rng.permutation(rows) for _ in range(times)])
