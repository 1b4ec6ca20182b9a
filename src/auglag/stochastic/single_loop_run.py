"""The single loop with NumPy: steps on batches before the full batches, multipliers and penalties in every one of them.

`auglag.single_loop` has the method; here are the batches, the Jacobian, and the start that they lead to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Matrix, Vector
from auglag.prox import SquaredL2
from auglag.single_loop.multipliers import fitted_to
from auglag.single_loop.schedule import STEPS, Round, batch_rows, first_round, round_of, worth_full_batches
from auglag.stochastic.full_batch import FullBatch
from auglag.stochastic.limits import Meter
from auglag.stochastic.nested import Start
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.single_loop import SingleLoop
from auglag.stochastic.tuning import TUNING
from auglag.stochastic.walk import Walk, WalkState


@final
@dataclass(slots=True)
class SampledState:
    """Where the sampled steps stand, between two passes."""

    round: Round
    walk: WalkState
    passes: int = 0


@final
class Sampled:
    """Takes the steps, fewer where Gauss-Newton follows (`newton`). `rng(pass)` is the randomness of one pass."""

    def __init__(
        self,
        method: SingleLoop,
        problem: StochasticProblem,
        meter: Meter,
        rng: Callable[[int], np.random.Generator],
        save: Callable[[], None],
        *,
        newton: bool,
    ) -> None:
        self.method, self.problem, self.meter, self.rng, self.save = method, problem, meter, rng, save
        self.newton = newton

    def begin(self, start: Start, saved: SampledState | None) -> SampledState:
        """The state before the first step, or a saved one."""
        problem = self.problem
        if saved is None:
            this = self._round()
        else:
            this = saved.round
        blocks = [block for block in problem.blocks if block.in_constraints]
        exact = np.full(problem.m, all(block.exact for block in blocks))
        self.walk = Walk(
            self.method, start.x, start.y, problem.lower, problem.upper, g=problem.g, names=problem.names,
            pass_steps=this.pass_steps if problem.finite_data else None, exact=exact if exact.any() else None,
            saved=None if saved is None else saved.walk,
        )  # fmt: skip
        self.state = saved or SampledState(this, self.walk.state)
        return self.state

    def _round(self) -> Round:
        """How long the sampled steps last."""
        rows, blocks = self.meter.pass_rows, len(self.problem.blocks)
        budget = self.meter.rows / rows
        passes, full = first_round(budget, full=True), worth_full_batches(budget)
        most = TUNING.steps_before_newton if self.newton else TUNING.steps_before_lbfgs
        aim = passes
        if full and self.newton:
            passes, aim = min(passes, TUNING.passes_before_newton), TUNING.share_before_newton * STEPS / most
        batch = min(self.method.batch or batch_rows(rows, aim, blocks), rows)
        return round_of(min(passes, most * batch / rows) if full else passes, rows, batch)

    def far(self, x: Vector, y: Vector) -> bool:
        """Whether a few batches tell x from a solution, by the gradient of the Lagrangian or by a violation."""
        problem, ledger, found = self.problem, self.meter.ledger, []
        for batches, rows in itertools.islice(self._pass(self.rng(-1)), TUNING.look_batches):
            found.append(problem.estimate(x, batches))
            ledger.rows += rows
        c, jac = np.array([at.c for at in found]), np.array([at.jac for at in found])
        grad = np.array([at.grad for at in found]) + (problem.g.weight * x if isinstance(problem.g, SquaredL2) else 0.0)
        J, g = jac.mean(axis=0), grad.mean(axis=0) + y @ jac.mean(axis=0)
        y = fitted_to(J, g, y, c.mean(axis=0), problem.lower, problem.upper)
        slopes = grad + np.einsum("j,bjn->bn", y, jac)
        return _beyond_noise(slopes, slopes.mean(axis=0)) or _beyond_noise(c, problem.violation(c.mean(axis=0)))

    def run(self) -> None:
        """Steps until the round is over or a limit of the run is reached."""
        state, walk = self.state, self.walk.state
        while walk.done < state.round.steps:
            for batches, rows in self._pass(self.rng(state.passes)):
                if self.meter.reached():
                    return
                self._step(batches)
                self.meter.ledger.rows += rows
                self.meter.ledger.gradients += 1
                if walk.done >= state.round.steps:
                    break
            if state.passes == 0:
                self.walk.require_change()
            state.passes += 1
            if walk.done < state.round.steps:
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
        walk = self.walk
        x, w, jacobian = walk.state.x, walk.weights(), None
        if walk.wants_jacobian():
            at = self.problem.estimate(x, batches)
            c, jacobian, gradient = at.c, at.jac, at.grad + w @ at.jac
        else:
            gradient, c = np.zeros(self.problem.n), np.zeros(self.problem.m)
            for block, batch in zip(self.problem.blocks, batches, strict=True):
                gradient = gradient + block.gradient(x, batch, w)
                if block.in_constraints:
                    c = c + block.values(x, batch)[1]
        walk.move(gradient, c, jacobian, self.state.round.fall(walk.state.done))

    def end(self, full: FullBatch) -> Start:
        """Where full batches begin: the average of the last iterates, fitted multipliers, and the penalty's size."""
        problem, engine, x = self.problem, self.walk.engine, self.walk.settled
        if engine is None or engine.state.beta is None:
            return Start(x, np.zeros(problem.m), None)
        at, y = full.at(np.ascontiguousarray(x)), engine.weights()
        gradient = at.grad + y @ at.jac
        y = fitted_to(at.jac, gradient, y, at.c, problem.lower, problem.upper)
        beta = float(np.exp(np.mean(np.log(engine.state.beta))))
        if bool(self.meter.reached()) or not worth_full_batches(self.meter.rows / self.meter.pass_rows):
            return Start(x, y, TUNING.last_penalty * beta)
        return Start(x, y, TUNING.newton_penalty * beta, TUNING.nested_eta) if self.newton else Start(x, y, beta)


def _beyond_noise(values: Matrix, error: Vector) -> bool:
    """Whether `error` is more than the standard error of the mean of `values` explains."""
    noise = np.sqrt(np.var(values, axis=0, ddof=1).sum() / len(values))
    return bool(np.linalg.norm(error) > TUNING.look_noise * noise)


def _order(rng: np.random.Generator, rows: int, size: int, steps: int) -> NDArray[np.intp]:
    """Row numbers for so many batches: every row once before any comes again."""
    times = -(-steps * size // rows)
    return np.concatenate([rng.permutation(rows) for _ in range(times)])
