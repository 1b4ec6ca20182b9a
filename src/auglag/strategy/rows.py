"""One row of the history: the subproblem that is posed, and what is recorded, kept, saved and decided after it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from auglag._norms import norm
from auglag._typing import Vector
from auglag.algorithm import algencan
from auglag.algorithm.history import Iteration
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.algorithm.outer import Ask
from auglag.algorithm.status import Status
from auglag.algorithm.trail import INNER
from auglag.certificate.incumbent import objective
from auglag.inner import InnerResult, InnerStatus
from auglag.kkt.linear import Analyses
from auglag.strategy import following, plan
from auglag.strategy.context import Context
from auglag.strategy.sqp import Candidate
from auglag.strategy.state import ACCELERATED, State
from auglag.strategy.task import Task


@final
@dataclass(frozen=True, slots=True)
class Posed:
    """What `outer.iteration` asks of a run: the subproblem, and the row of the history.

    `record` also notes where an unbounded subproblem went.
    """

    context: Context
    state: State

    def subproblem(self, y: Vector, beta: float) -> AugmentedLagrangian:
        """L_beta(., y) + g."""
        state, context = self.state, self.context
        left = context.task.budget.gradient_limit - sum(it.evaluations for it in state.iterations)
        return AugmentedLagrangian(
            context.form,
            y,
            beta,
            unbounded=state.doubts.depth,
            memory=state.memory,
            gradients_left=left,
            projected=context.task.settings.sup_norms,
            seen=self.seen,
        )

    def seen(self, subproblem: AugmentedLagrangian, z: Vector, residual: float) -> None:
        """An inner iteration was accepted at z, with this stationarity of the subproblem."""
        context, state = self.context, self.state
        y = subproblem.y
        if context.task.hooks.sees_steps and (point := context.form.known(z)) is not None:
            y = subproblem.estimate(point.c)
        following.step(context, state, INNER, z, y, residual / context.form.scaling.sf, subproblem.beta)

    def record(self, asked: Ask, found: InnerResult, c: Vector, y_hat: Vector) -> Iteration:
        """The row of the history, with R in the user's units."""
        context, state = self.context, self.state
        form = context.form
        residual, violation = form.user_residual(found.residual, c)
        x = form.user_x(found.x)
        if found.usable and (form.magnified or context.goal(state) > context.task.tol):
            check = context.task.judge.measure(x, form.user_y(y_hat))
            residual = context.compared(check, found.residual + norm(c))
            violation = math.hypot(check.violation, check.complementarity)
        state.doubts.diverged = x.copy() if found.status is InnerStatus.UNBOUNDED else None
        in_sup_norms = context.task.settings.sup_norms and found.usable
        return Iteration(
            k=asked.k,
            beta=asked.beta,
            eta=asked.eta,
            usable=found.usable,
            violation=norm(c),
            stationarity=found.residual,
            residual=residual,
            user_violation=violation,
            objective=objective(context.task.problem, x),
            multiplier_norm=norm(context.user_y(found.x, y_hat, known=found.usable)),
            inner_status=found.status.name,
            inner_iterations=found.iterations,
            evaluations=found.evaluations,
            undefined=found.undefined,
            acceleration_steps=state.newtons.steps,
            attempt=state.attempt,
            sup=algencan.sup_norms(form, found.x, c, y_hat) if in_sup_norms else None,
        )


def candidate_row(context: Context, state: State, found: Candidate) -> Iteration:
    """The row of the history of a candidate that ends an attempt."""
    check, form = context.task.judge.check(state.best), context.form
    return Iteration(
        k=state.history.k,
        beta=context.rules.penalty.next(state.history),
        eta=context.task.tol,
        usable=True,
        violation=norm(form.distance(found.x)),
        stationarity=check.stationarity * form.scaling.sf,
        residual=check.residual,
        user_violation=math.hypot(check.violation, check.complementarity),
        objective=check.objective,
        multiplier_norm=norm(check.multipliers),
        inner_status=ACCELERATED,
        inner_iterations=found.steps,
        evaluations=found.steps,
        acceleration_steps=found.steps,
        attempt=state.attempt,
    )


def watch(context: Context, state: State, y_hat: Vector) -> None:
    """After a row: keep the best point, refine differences, save a checkpoint, print, log, call the callback."""
    task, form, last = context.task, context.form, state.history.last
    if last.usable:
        task.judge.offer(state.best, last.residual, form.user_x(state.x), form.user_y(y_hat))
    state.accuracy = accuracy(context, state, y_hat)
    # Near the solution, or where the inner solver fails, differences have to be central.
    near = last.residual <= context.near(state)
    near |= last.inner_status == InnerStatus.STALLED.name
    state.refined_now = task.judge.refine(state.best, int(near))
    cut_short = last.inner_status in (InnerStatus.BUDGET.name, InnerStatus.INTERRUPTED.name)
    if not cut_short:  # such an iteration is done again on resuming
        save(task, state)
    following.outer(context, state, y_hat)


def accuracy(context: Context, state: State, y: Vector) -> float:
    """What errors of the functions beyond double precision make of the residual at x, with the multipliers y."""
    problem, form = context.task.problem, context.form
    return problem.at(form.user_x(state.x)).accuracy(form.user_y(y))


def save(task: Task, state: State) -> None:
    """A checkpoint, where one is wanted."""
    if task.hooks.checkpoint is not None:
        state.counts, state.seconds = task.meter.used(), task.meter.guard.seconds
        state.precision = task.original.workspace.precision
        state.memory.layout = Analyses()  # not saved; reset here too, so that a resumed run gives the same digits
        task.hooks.save("minimize", task.fingerprint(), state)


def stop(context: Context, state: State, status: InnerStatus, limit: str = "") -> Status | None:
    """The verdict on the last iteration; None to go on, also where finite differences were just made more accurate."""
    judge, best, standing = context.task.judge, state.best, context.standing(state)
    verdict = context.stopping(standing, state)(state.history, status, limit)
    spent = plan.effort_left(standing, context.task.tuning) <= 0 or context.rows_left(state) <= 0
    if verdict is None and spent:
        return Status.ITERATION_LIMIT
    if verdict is not None and verdict.no_further and (state.refined_now or judge.refine(best, 2)):
        return None  # with better derivatives the iteration deserves another look
    if verdict is Status.SOLVED and (state.refined_now or judge.refine(best, 2)):
        judge.refine(best, 2)
        return verdict if judge.solves(best) else None
    return verdict


def verdict_on_saved(context: Context, state: State) -> Status | None:
    """The verdict on the last iteration of a saved run, which was interrupted before it was known."""
    if not state.history.iterations:
        return None
    ended = state.history.last.inner_status
    if ended == ACCELERATED:
        verdict = plan.ended_by_newton(solved=context.task.judge.solves(state.best))
        context.task.meter.resumed(state.counts, state.seconds)  # it was known when the state was saved
        return verdict
    return stop(context, state, InnerStatus[ended])
