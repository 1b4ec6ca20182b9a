"""Solutions that may be left for a better one: a look at their curvature, the way away, and the better one of two."""

from __future__ import annotations

import numpy as np

from auglag._norms import norm
from auglag.certificate.incumbent import Best
from auglag.errors import attempted
from auglag.inner import tuning as inner_tuning
from auglag.kkt import Memory
from auglag.strategy import plan, second_order
from auglag.strategy.beginnings import fresh_history
from auglag.strategy.context import Context
from auglag.strategy.solution import Solution
from auglag.strategy.state import Between, Newtons, State, steps_of
from auglag.strategy.task import Task


def look(context: Context, state: State) -> second_order.Finding:
    """Whether the best point, which meets the tolerance, is a minimum."""
    task, form, best = context.task, context.form, state.best
    z = form.start(best.x)
    at = Solution(
        form=form,
        curvature=context.curvature,
        memory=state.memory,
        z=z,
        y=form.own_y(best.y),
        residual=task.judge.check(best).residual,
        tol=task.tol,
        beta=task.tuning.departure_penalty * context.rules.penalty.next(fresh_history(context, z)),
        seed=state.second.departures,
        failed=state.second.verdict if state.second.failures else "",
    )
    # None after an exception of a user's function beside the solution, or of eigenvalues that do not converge.
    return attempted(lambda: second_order.look(at, task.tuning)) or second_order.Finding(plan.UNCHECKED)


def depart(context: Context, state: State, found: second_order.Finding) -> Context:
    """Leave the best point, which is kept. The next subproblem comes first: it falls further from where it begins."""
    form, second, best, z = context.form, state.second, state.best, found.start
    assert z is not None
    second.kept, second.kept_verdict, second.verdict = best, second.verdict, plan.UNCHECKED
    second.departures, second.penalty = second.departures + 1, found.penalty
    state.earlier += state.history.iterations
    state.history = fresh_history(context, form.start(best.x))
    context = context.again(state)
    state.x, state.y = z, np.zeros(form.m) if found.y is None else found.y
    state.best = Best(form.user_x(z).copy(), form.user_y(state.y), level=best.level)
    state.memory = Memory(pairs=state.memory.pairs)
    state.newtons, state.between = Newtons(), Between(tried=True)
    state.doubts.restorations, state.doubts.depth = 0, inner_tuning.TUNING.unbounded
    return context


def settle(task: Task, state: State, *, cut_short: bool = False) -> None:
    """Of a solution that was left and the best point since, take the better one.

    Where a limit cut the search short, nothing more is spent on a point that is not known to meet the tolerance.
    """
    second, judge, found = state.second, task.judge, state.best
    kept, better, second.level = second.kept, False, False
    assert kept is not None
    if found.level > kept.level:  # derivatives have become more accurate since
        kept.level = found.level
        if kept.point is not None:
            kept.point.forget_derivatives()
    if found.residual <= task.tol or (state.history.iterations and not cut_short):
        check, before = judge.check(found), judge.check(kept)
        worth = check.objective + norm(check.multipliers) * check.violation
        accepted = judge.accepts(check)
        better = accepted and plan.better(worth, before.objective, task.tuning)
        second.level = accepted and plan.level(check.objective, before.objective, task.tuning)
    second.steps += steps_of(state.history.iterations)
    if better:
        second.left, second.failures = True, 0
    else:
        state.best, second.verdict, second.failures = kept, second.kept_verdict, second.failures + 1
    second.kept = None
