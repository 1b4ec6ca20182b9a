"""One run of `minimize`: begin, attempt after attempt (`attempt`), finish with a certificate (`finish`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from auglag._norms import norm
from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.certificate.incumbent import objective
from auglag.persist import checkpoint
from auglag.problems.jacobians import kind
from auglag.problems.presolved import Presolved
from auglag.problems.scaling import Scaling
from auglag.problems.standard_form import StandardForm
from auglag.result import Result
from auglag.strategy import finish, further, plan, restarts
from auglag.strategy.attempt import attempt, feasible_point
from auglag.strategy.beginnings import aftermath, begin, begin_again, meets_tolerance, note_end
from auglag.strategy.context import Context
from auglag.strategy.departures import depart, look, settle
from auglag.strategy.hooks import give_best, note_interruption, result_of_run
from auglag.strategy.presolve import presolved
from auglag.strategy.resumed import restored
from auglag.strategy.rows import save, verdict_on_saved
from auglag.strategy.scales import scale
from auglag.strategy.state import CLASSES, State
from auglag.strategy.task import Task


def solve(run: Run) -> Result:
    """From the start to the result, which Ctrl-C at any moment brings about earlier."""
    try:
        return result_of_run(run.course, run.keep)
    except Exception as error:
        give_best(error, lambda: finish.so_far(run.task, run.state, run.context))
        raise


@final
@dataclass(slots=True)
class Run:
    """A run on its way: the task, the state, and the context of the attempt once the first point is known."""

    task: Task
    state: State
    context: Context | None = None
    begun: bool = False  #: from now on Ctrl-C leads to a result, and only a second one can stop that
    results: list[Result] = field(default_factory=list)  #: the first one counts

    @classmethod
    def of(cls, task: Task) -> Run:
        """A run that has not begun."""
        return cls(task, State.at_start(task))

    def keep(self, status: Status) -> Result:
        """The result, which from now on cannot be lost."""
        self.results.append(finish.ended(self.task, self.state, self.context, status))
        return self.results[0]

    def course(self) -> Status:
        """Begin or resume, then attempt after attempt."""
        self.begun = True
        task = presolved(self.task)
        if task is not self.task:
            self.task, self.state = task, State.at_start(task)
        if task.check_derivatives and task.hooks.resume is None:
            task.problem.check_derivatives(task.start.x)
        if task.conflict:
            return Status.INFEASIBLE
        if task.hooks.resume is not None:
            saved = checkpoint.load(task.hooks.resume, "minimize", task.fingerprint(), CLASSES, state=State)
            self.context, self.state = restored(task, saved)
            task.original.workspace.guard = task.meter.guard
            self.state.between.verdict = verdict_on_saved(self.context, self.state)
        else:
            x = restarts.defined_near(task.problem, task.start.x)
            if x is None:
                x = self.defined_elsewhere(task)
            if x is None:
                return Status.NON_FINITE
            task.original.workspace.guard = task.meter.guard
            if task.problem.differenced or task.problem.errors_stated:
                task.problem.learn_precision(x)
            if self.starts_solved(task, x):
                known = task.start.y is not None  # from an earlier run, which has checked its curvature
                return Status.SOLVED if known else self.minimum(self.on_the_way, Status.SOLVED)
            save(task, self.state)
        status = self.attempts(self.on_the_way)
        return self.minimum(self.on_the_way, status)

    @property
    def on_the_way(self) -> Context:
        """The context, once the first point is known."""
        assert self.context is not None
        return self.context

    def starts_solved(self, task: Task, x: Vector) -> bool:
        """Begin at x, and say whether there is nothing to do. It is begun farther away where that is far better."""
        state, given, last = self.state, task.start.y, task.tuning.far_starts
        for trial in range(last + 1):
            state.start_x, state.first_objective = x, objective(task.problem, x)
            state.first_rows = norm(task.problem.at(x).c)
            scale(task, state, x)
            state.accuracy = task.problem.at(x).accuracy(np.zeros(task.problem.m))
            self.context = context = Context.of(task, state)
            z = context.form.start(x)
            y = context.form.own_y(given) if given is not None else np.zeros(context.form.m)
            solved = meets_tolerance(context, state, z, y)
            begin(context, state, z, y)
            looks = task.settings.units and math.isfinite(task.scale_free)  # whether variables have another size
            if not solved or given is not None or not looks:
                return solved
            if context.form.m:
                measured = task.judge.measure(x, None).multipliers  # of all rows, and some may be none here
                own = task.problem.own_y(measured) if isinstance(task.problem, Presolved) else measured
                y = context.form.own_y(own)
            beta = context.rules.penalty.next(state.history)
            far = restarts.far_below(context.form, z, y, beta, task.scale_free, task.tuning)
            if far is None:
                return True
            if trial < last:
                x = context.form.user_x(far)
        return False

    def defined_elsewhere(self, task: Task) -> Vector | None:
        """A feasible point where f is defined, if it is not at the start; if there is none, f does not matter."""
        problem, x = task.problem, task.start.x
        if not (problem.m and task.settings.restoration and np.isfinite(problem.at(x).c).all()):
            return None
        task.original.workspace.guard = task.meter.guard
        form = StandardForm(problem, Scaling.none(problem.m))
        form.jacobian = kind(problem.at(x).jac)
        found = feasible_point(task, form, self.state, [x], task.tol)
        return restarts.defined_near(problem, found.x) if found.verdict in ("feasible", "elsewhere") else None

    def attempts(self, context: Context) -> Status:
        """From x0, and if that finds no solution from other starts, as many as the settings allow."""
        task, state, tuning, judge = self.task, self.state, self.task.tuning, self.task.judge
        while True:
            status = attempt(context, state).certified(judge.solves(state.best))
            state.first_end = status if state.first_end is None else state.first_end
            if status not in plan.AVOIDABLE or state.second.kept is not None:
                return status
            if not task.problem.differenced and not state.attempt and task.problem.learn_precision(state.best.x):
                state.accuracy = judge.check(state.best).accuracy
                if judge.solves(state.best):
                    return status
            note_end(context, state, status)
            following = further.next_attempt(state.attempt, context.restarts, aftermath(context, state, status), tuning)
            if following is None or context.rows_left(state) <= 0:
                # How the attempt from x0 ended says most, unless it merely ran out of iterations.
                return state.first_end if state.first_end is not Status.ITERATION_LIMIT else status
            self.context = context = begin_again(context, state, following)
            if not math.isfinite(state.history.objective + state.history.violation):
                return Status.NON_FINITE  # functions that were defined at the start no longer are

    def minimum(self, context: Context, status: Status) -> Status:
        """Check the second-order conditions of a solution; one at which they fail is left, for a better one."""
        state, task = self.state, self.task
        while True:
            if state.second.kept is not None:
                cut_short, falls = status in plan.CUT_SHORT, state.second.kept_verdict == plan.SADDLE
                settle(task, state, cut_short=cut_short)
                if falls and status is Status.UNBOUNDED:  # the way down from a saddle point has no end
                    return status
                if cut_short:
                    if status is Status.INTERRUPTED:
                        note_interruption()
                    return Status.SOLVED
                self.context = context = context.again(state)
            second, standing = state.second, context.standing(state)
            if not plan.checks_curvature(
                standing, second.verdict, second.failures, second.departures, task.tuning, level=second.level
            ):
                return status
            task.judge.refine(state.best, 2)
            if not task.judge.accepts(task.judge.check(state.best)):  # nor if errors of the functions stand in the way
                return status
            found, status = look(context, state), Status.SOLVED
            second.verdict = found.verdict
            leaves = plan.departs(
                standing, found.verdict, second.departures, second.steps, context.rows_left(state), task.tuning
            )
            if found.start is None or not leaves:
                return status
            self.context = context = depart(context, state, found)
            status = attempt(context, state)
