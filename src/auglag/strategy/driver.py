"""One run of `minimize`: begin, carry out the phases that `plan` names, finish with a certificate."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import final

import numpy as np

from auglag._norms import largest, norm
from auglag._typing import Vector
from auglag.algorithm import algencan, formulas
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.algorithm.outer import Ask, iteration
from auglag.algorithm.rules import History, Iteration
from auglag.algorithm.status import Status
from auglag.algorithm.trail import INNER
from auglag.certificate import Certificate
from auglag.certificate.incumbent import Best, objective
from auglag.errors import OutOfBudget, StoppedByCallback
from auglag.inner import InnerResult, InnerStatus
from auglag.inner import tuning as inner_tuning
from auglag.kkt import Memory
from auglag.kkt.linear import Analyses
from auglag.persist import checkpoint
from auglag.problems.jacobians import kind
from auglag.problems.standard_form import Scaling, StandardForm
from auglag.report import logger
from auglag.report.messages import Ending, result_of
from auglag.result import Result
from auglag.strategy import following, newton, plan, restarts, restoration, second_order, unboundedness
from auglag.strategy.hooks import give_best, note_interruption, result_of_run
from auglag.strategy.presolve import presolved
from auglag.strategy.restoration import Restoration
from auglag.strategy.solution import Solution
from auglag.strategy.sqp import Candidate
from auglag.strategy.state import (
    ACCELERATED,
    CLASSES,
    Between,
    Context,
    Newtons,
    State,
    Task,
    restored,
    scale,
    scaling_at,
    steps_of,
)


def solve(run: Run) -> Result:
    """From the start to the result, which Ctrl-C at any moment brings about earlier."""
    try:
        return result_of_run(run.course, partial(_kept, run))
    except Exception as error:
        give_best(error, partial(_so_far, run))
        raise


def _kept(run: Run, status: Status) -> Result:
    """The result, which from now on cannot be lost."""
    run.results.append(_ended(run, status))
    return run.results[0]


def _ended(run: Run, status: Status) -> Result:
    """The result of a run that ended so, with the certificate of its best point."""
    task, state = run.task, run.state
    task.original.workspace.guard = None
    if state.second.kept is not None:
        settle(task, state, cut_short=True)
    if status is Status.INFEASIBLE and not task.conflict and _known_feasible(task, state):
        status = Status.STUCK  # so ended the first attempt, and a later one refuted it
    elif _shown_infeasible(task, state, status):
        status = Status.INFEASIBLE
    endless = state.doubts.endless if status is Status.UNBOUNDED else None
    if endless is not None:
        task.judge.replace(state.best, endless)
    check = task.judge.final(state.best, status, task.meter.used().nfev)
    if status is Status.INFEASIBLE and not task.conflict:
        feasible = task.judge.excess(state.best.x, task.tol) <= 1.0
        status = Status.STUCK if feasible or not task.judge.trusts(check) else status
    if endless is not None:  # far out a gradient may be small; the objective is known to fall on there
        return _said(run, _result(run, status, check))
    if task.check_derivatives and task.judge.reached(check):
        known = task.original.workspace.precision
        wrong = task.original.wrong_derivatives(state.best.x, _negligible(run, check))
        if wrong:
            return _said(run, _result(run, Status.WRONG_DERIVATIVES, check, wrong))
        if task.original.workspace.precision is not known:  # there was a doubt: values may have changed since
            check = task.judge.again(state.best, check)
    judge = task.judge
    if not judge.accepts(check) and status not in (Status.TIME_LIMIT, Status.EVALUATION_LIMIT, Status.NON_FINITE):
        check = judge.with_sizes(check)
    limited = check.limited(judge.tolerance)
    # A user who states the errors knows them, and does not ask for more.
    consent = task.problem.precision.stated and judge.limited_by_consent(check)
    return _said(run, _result(run, status.certified(judge.accepts(check) or consent, limited=limited), check))


def _negligible(run: Run, check: Certificate) -> float:
    """The error of a derivative that matters neither for R nor for the scale-free test."""
    task, state = run.task, run.state
    if not state.iterations:  # the start was solved: nothing is known of the size of f elsewhere
        return task.tol
    size_f = max(abs(check.objective), abs(state.first_objective - check.objective))
    size_x = largest(state.best.x)
    if state.sizes is not None:
        size_x = max(size_x, largest(np.fmax(state.sizes, 0.0)))  # those that are not known are NaN
    return min(task.tol, task.scale_free * size_f / size_x) if size_f * size_x > 0.0 else task.tol


def _said(run: Run, result: Result) -> Result:
    """The result, after its message was printed, if that is wanted."""
    if run.task.hooks.say is not None:
        run.task.hooks.say(result.message)
    if not result.success:
        logger.failed(result.status.name, result.message, result.advice)
    return result


def _so_far(run: Run) -> Result | None:
    """The result of a run that an exception of user code ends, if there is a point to show.

    It is never called solved: a success would have to be certified with the best derivatives there are. Where the
    functions fail once more the certificate says NaN.
    """
    task, state = run.task, run.state
    task.original.workspace.guard = None
    if state.second.kept is not None:
        state.best, state.second.kept = state.second.kept, None
    best = state.best
    if math.isnan(run.state.history.objective):  # nothing had begun
        return None
    try:
        check = task.judge.check(best)
    except Exception:
        task.problem.at(best.x).give_up()
        check = task.judge.check(best)
    result = _result(run, Status.STOPPED, check)
    task.original.forget(best.x)  # another run may know more
    return result


def _result(run: Run, status: Status, check: Certificate, wrong: str = "") -> Result:
    """Everything about the best point, with this certificate."""
    task, state = run.task, run.state
    fall = abs(state.first_objective - check.objective)
    if fall > check.objective_size:
        check = replace(check, objective_size=fall)
    return result_of(
        Ending(
            problem=task.original,
            settings=task.settings,
            tol=task.tol,
            scale_free=task.scale_free,
            status=status,
            check=check,
            x=state.best.x,
            iterations=state.iterations,
            counts=task.meter.used(),
            seconds=task.meter.guard.seconds,
            penalty=_last_penalty(run),
            attempt=state.attempt,
            last=state.history.iterations,
            begun=bool(state.history.iterations) or state.newtons.origin is not None,
            conflict=task.conflict,
            wrong=wrong,
            evidence=state.doubts.evidence,
            traits=run.context.form.traits if run.context is not None else None,
            inner=run.context.inner.name if run.context is not None else str(task.settings.inner),
            tuning=task.tuning,
            trail=state.trail,
            second_order=plan.reported(state.second.verdict, left=state.second.left),
        )
    )


def _shown_infeasible(task: Task, state: State, status: Status) -> bool:
    """Local infeasibility that restoration found is reported if no restart found a solution, whatever ended it."""
    least = state.doubts.least
    if least is None or status not in (*plan.AVOIDABLE, Status.TIME_LIMIT, Status.EVALUATION_LIMIT):
        return False
    if _known_feasible(task, state) or task.judge.solves(state.best):
        return False
    task.judge.replace(state.best, least.x)
    return True


def _known_feasible(task: Task, state: State) -> bool:
    """Whether the run has seen a point that satisfies the constraints up to tol, also with rows in their own scales."""
    own = max(task.tol, task.scale_free)
    seen = any(it.usable and it.user_violation <= task.tol and it.violation <= own for it in state.iterations)
    return seen or state.doubts.feasible is not None


def _last_penalty(run: Run) -> float:
    state, beta = run.state, run.task.start.beta
    if state.iterations:
        return state.iterations[-1].beta
    if beta is not None:
        return beta
    if run.context is None or not math.isfinite(state.history.objective):
        return 1.0
    return run.context.rules.penalty.next(state.history)


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
            if task.problem.differenced or task.problem.precision.stated:
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
            y = context.form.own_y(task.judge.measure(x, None).multipliers) if context.form.m else y
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
            note_end(context, state)
            following = plan.next_attempt(state.attempt, context.restarts, aftermath(context, state, status), tuning)
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
            if not plan.checks_curvature(standing, second.verdict, second.failures, second.departures, task.tuning):
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


# ------------------------------------------------------------------------------------------------------- an attempt


def attempt(context: Context, state: State) -> Status:
    """One attempt: phase after phase, as the plan says, until it is over."""
    while True:
        match plan.next_phase(context.standing(state), context.task.tuning):
            case plan.AttemptOver(status):
                return status
            case plan.CheckUnbounded():
                check_unbounded(context, state)
            case plan.Restore():
                restore(context, state)
            case plan.Measure():
                measure(context, state)
            case plan.Interior() as phase:
                state.between.arrival = newton.by_interior_points(context, state, phase)
            case plan.Newton() as phase:
                consider(context, state, newton.by_newton(context, state, phase))
            case plan.Subproblem(limit):
                subproblem(context, state, limit)
            case phase:
                raise TypeError(f"driver.attempt has no case for {phase}")


def subproblem(context: Context, state: State, limit: int) -> None:
    """Algorithm 1's next iteration, and the stopping test."""
    posed, asked = Posed(context, state), state.between.asked
    try:
        turn = iteration(context.rules, posed, context.inner, state.x, state.y, state.history, limit=limit, asked=asked)
    except StoppedByCallback:
        raise
    except Exception as error:
        keep_reached(context, state, error)
        raise
    state.between = Between()
    state.x, state.y = turn.x, turn.y
    watch(context, state, turn.y_hat)
    state.between.verdict = stop(context, state, turn.found.status, turn.found.limit)


def keep_reached(context: Context, state: State, error: Exception) -> None:
    """Of a subproblem that an exception of user code ends, the lowest point is the best one so far."""
    reached = getattr(error, "reached", None)
    if reached is not None:
        near = state.best.residual <= context.task.tuning.near_tol * context.task.tol
        with contextlib.suppress(Exception):
            del error.reached  # type: ignore[attr-defined]
        if not near:
            x, y = context.form.user_x(reached).copy(), context.form.user_y(state.y)
            state.best = Best(x, y, level=state.best.level)


def measure(context: Context, state: State) -> None:
    """The KKT error at (x, y), on which the plan decides whether Newton's method or interior points are tried."""
    newtons = state.newtons
    state.between.asked = context.rules.ask(state.history)  # a rule that returns nonsense is named before all else
    newtons.steps = 0
    newtons.origin = state.x if newtons.origin is None else newtons.origin
    state.between.error = context.form.error(state.x, state.y)


def consider(context: Context, state: State, found: Candidate) -> None:
    """Decide what becomes of a candidate of Newton's method: the end of the attempt, the next iterate, or nothing."""
    tuning, newtons, between, target = context.task.tuning, state.newtons, state.between, context.target(state)
    before = math.inf if between.error is None else between.error
    between.tried = True
    newtons.tried_at, newtons.steps = before, found.steps
    newtons.failures = 0 if found.error < tuning.newton_success * before else newtons.failures + 1
    if found.error <= target or state.best.residual <= context.goal(state):
        newtons.in_vain += found.error > tuning.newton_success * newtons.nearest
        newtons.nearest = min(newtons.nearest, found.error)
        if finished(context, state, found):
            return
    if plan.adopts(found.error, before, tuning):
        state.x, state.y = found.x, found.y
    elif not state.history.iterations and _lower(context, state, found.x):
        state.x = found.x


def finished(context: Context, state: State, found: Candidate) -> bool:
    """Whether a candidate that reached tol ends the attempt; it then becomes a row of the history."""
    judge, best, newtons = context.task.judge, state.best, state.newtons
    if judge.refine(best, 2) and not judge.solves(best):
        return False
    solved = judge.solves(best)
    if (
        state.accuracy > 0.0
    ):  # where derivatives have errors, a candidate with a smaller error may have a larger residual
        best.residual = judge.check(best).weighed(context.task.tol)
    target = context.target(state)
    verdict = plan.newton_verdict(found.error, target, newtons.in_vain, context.task.tuning, solved=solved)
    if verdict is None:
        return False
    context.rules.close(state.history, _row(context, state, found))
    state.x, state.y, state.between = found.x, found.y, Between()
    watch(context, state, found.y)
    state.between.verdict = verdict
    return True


def _lower(context: Context, state: State, x: Vector) -> bool:
    """Whether the first augmented Lagrangian is lower at a new starting point."""
    beta = context.rules.penalty.next(state.history)
    first = Posed(context, state).subproblem(state.y, beta)
    return first.value(x) < first.value(state.x)


def _row(context: Context, state: State, found: Candidate) -> Iteration:
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


def check_unbounded(context: Context, state: State) -> None:
    """Find out whether the objective falls without end; if it does not, subproblems may fall deeper."""
    task, doubts = context.task, state.doubts
    state.between.settled = "bounded"
    if doubts.diverged is None:
        return
    fall = unboundedness.look(
        context.form,
        task.settings.inner,
        start=state.start_x,
        diverged=doubts.diverged,
        depth=doubts.depth,
        tol=task.tol,
        limit=task.budget.inner_limit,
        tuning=task.tuning,
    )
    doubts.evidence = fall.evidence if fall.low else doubts.evidence
    if fall.endless:
        state.between.settled, doubts.endless = "unbounded", fall.x
    elif fall.evidence is not None:
        doubts.depth *= task.tuning.deeper


def restore(context: Context, state: State) -> None:
    """Find out whether there is a feasible point; if the attempt was only suspected to be infeasible, x moves there."""
    task, form, doubts = context.task, context.form, state.doubts
    found = feasible_point(task, form, state, [form.user_x(state.x), state.start_x], context.goal(state))
    doubts.restorations += 1
    state.between.settled = found.verdict
    if found.verdict in ("feasible", "elsewhere") and state.between.verdict is Status.INFEASIBLE:
        state.x, state.y = form.start(found.x), np.zeros(form.m)


# ------------------------------------------------------------------------------------------------------ second order


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
        beta=task.tuning.departure_penalty * context.rules.penalty.next(_fresh_history(context, z)),
        seed=state.second.departures,
        failed=state.second.verdict if state.second.failures else "",
    )
    try:
        return second_order.look(at, task.tuning)
    except OutOfBudget:
        raise
    except Exception:  # of a user's function beside the solution, or eigenvalues that do not converge
        return second_order.Finding(plan.UNCHECKED)


def _fresh_history(context: Context, z: Vector) -> History:
    """A history that begins at z."""
    form = context.form
    violation = norm(form.distance(z))
    negligible, optimal = context.demands
    return History(form.at(z).f, violation, negligible, optimal=optimal)


def depart(context: Context, state: State, found: second_order.Finding) -> Context:
    """Leave the best point, which is kept. The next subproblem comes first: it falls further from where it begins."""
    form, second, best, z = context.form, state.second, state.best, found.start
    assert z is not None
    second.kept, second.kept_verdict, second.verdict = best, second.verdict, plan.UNCHECKED
    second.departures, second.penalty = second.departures + 1, found.penalty
    state.earlier += state.history.iterations
    state.history = _fresh_history(context, form.start(best.x))
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
    kept, better = second.kept, False
    assert kept is not None
    if found.level > kept.level:  # derivatives have become more accurate since
        kept.level = found.level
        if kept.point is not None:
            kept.point.forget_derivatives()
    if found.residual <= task.tol or (state.history.iterations and not cut_short):
        check, before = judge.check(found), judge.check(kept)
        worth = check.objective + norm(check.multipliers) * check.violation
        better = judge.accepts(check) and plan.better(worth, before.objective, task.tuning)
    second.steps += steps_of(state.history.iterations)
    if better:
        second.left, second.failures = True, 0
    else:
        state.best, second.verdict, second.failures = kept, second.kept_verdict, second.failures + 1
    second.kept = None


def feasible_point(task: Task, form: StandardForm, state: State, starts: list[Vector], tol: float) -> Restoration:
    """What restoration finds from these starts, noted in the state. Starts far away are tried once in a run."""
    doubts, tuning = state.doubts, task.tuning
    effort = 0 if doubts.widened else max(tuning.wide_effort, sum(it.inner_iterations for it in state.iterations))
    inner, limit = task.settings.inner, task.budget.inner_limit
    excess = partial(task.judge.excess, tol=tol)
    found = restoration.restore(
        form, inner, starts, excess, limit, tuning, effort=effort, known=doubts.from_start if starts[1:] else None
    )
    doubts.widened |= found.wide
    if found.verdict in ("feasible", "elsewhere"):
        doubts.feasible = found.x
    elif found.verdict == "infeasible" and doubts.feasible is not None:  # it is known that there are feasible points
        return replace(found, x=doubts.feasible, verdict="elsewhere")
    elif found.verdict == "infeasible" and (doubts.least is None or found.violation < doubts.least.violation):
        doubts.least = found
    return found


# ------------------------------------------------------------------------------------------- what the outer loop asks


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


# ------------------------------------------------------------------------------------------------ starts and restarts


def meets_tolerance(context: Context, state: State, z: Vector, y: Vector) -> bool:
    """Whether the start already does: then it is the best point so far."""
    task, judge, best = context.task, context.task.judge, state.best
    x, y_user = context.form.user_x(z), context.form.user_y(y)
    if context.newton_first and context.form.error(z, y) > context.near(state):
        best.x, best.y = x.copy(), y_user  # it is measured with the other points that Newton's method sees
        return False
    check = judge.measure(x, y_user)
    if task.start.y is not None and not judge.accepts(check) and task.problem.refine(2):
        check = judge.measure(x, y_user)  # an earlier result was certified with the best differences
        task.problem.refine(best.level)
    if math.isfinite(check.residual):
        own = context.form.error(z, y) if context.form.magnified else 0.0
        best.x, best.y, best.residual = x.copy(), y_user, context.compared(check, own)
    return judge.accepts(check)


def begin(context: Context, state: State, z: Vector, y: Vector) -> None:
    """Put the iterate at (z, y), in the form's variables and units, with nothing in the history."""
    state.x, state.y = z, y
    state.history = _fresh_history(context, z)


def accuracy(context: Context, state: State, y: Vector) -> float:
    """What errors of the functions beyond double precision make of the residual at x, with the multipliers y."""
    problem, form = context.task.problem, context.form
    return problem.at(form.user_x(state.x)).accuracy(form.user_y(y))


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


def note_end(context: Context, state: State) -> None:
    """Note where an attempt without a solution ended, and whether that is nothing new."""
    rows = state.history.iterations
    violation = rows[-1].user_violation if rows else math.nan
    violated = bool(formulas.clearly_violated(violation, context.goal(state)))
    endless = sum(row.inner_status == InnerStatus.UNBOUNDED.name for row in rows)
    x = context.form.user_x(state.x).copy()
    state.ends.append(plan.End(x, violation, violated, 2 * endless > len(rows)))
    start = context.task.tuning.start_of(state.attempt, context.restarts) if state.attempt else None
    if start is not None and not start.near:  # one that goes on from the best point ends there
        state.repeats += plan.repeated(state.ends, context.task.tuning)


def aftermath(context: Context, state: State, status: Status) -> plan.Aftermath:
    """How things stand when an attempt has ended."""
    problem, tol = context.task.problem, context.goal(state)
    c = problem.at(state.start_x).c
    feasible = bool(np.all(np.abs(c - np.clip(c, problem.cl, problem.cu)) <= tol))
    usual, other = (scaling_at(context.task, state.start_x, closely=closely) for closely in (False, True))
    unusual = context.task.settings.scaling and not other.same_as(usual)
    judge = context.task.judge
    nearly = state.best.residual <= context.task.tuning.nearly_solved * tol
    if not nearly:
        check = judge.check(state.best)
        if check.residual <= check.rounding_reach:
            nearly = judge.with_sizes(check).rounding_limits(judge.tolerance)
    return plan.Aftermath(
        status,
        state.best.residual,
        feasible,
        nearly,
        constrained=problem.m > 0,
        repeats=state.repeats,
        widened=state.doubts.widened,
        unusual=unusual,
    )


def begin_again(context: Context, state: State, attempt: int) -> Context:
    """Begin the next attempt: x, multipliers and scaling. Of the attempts before only the best point is kept."""
    task, tuning, settings = context.task, context.task.tuning, context.task.settings
    start = tuning.start_of(attempt, settings.restarts)
    if start is None or start.near:
        x, onwards = state.best.x, True
    else:
        x, onwards = restarts.place(start, context.form, settings.inner, state.start_x, attempt - 1, tuning), False
    if start is not None and start.feasible and state.doubts.widened and state.doubts.feasible is not None:
        x = state.doubts.feasible  # minimising the violation near x0 leads to a point that is not feasible
    if not restarts.defined(task.problem, x):
        x = state.start_x
    state.earlier += state.history.iterations  # only now: a limit may end the run while a start is looked for
    state.attempt, history = attempt, state.history
    state.history = History(history.objective, history.violation, history.negligible)
    if settings.scaling:  # where f has fallen far, its gradient at x0 says nothing any more
        # Units of the variables' sizes are also needed where R met tol, and the scale-free test was not met.
        closely = (start is not None and start.units) or (onwards and state.best.residual <= task.tol)
        scale(task, state, x if onwards else state.start_x, closely=closely)
    context = context.again(state)
    if context.form.magnified and math.isfinite(state.best.residual):  # points are compared in other units from here on
        own = context.form.error(context.form.start(state.best.x), context.form.own_y(state.best.y))
        state.best.residual = context.compared(task.judge.check(state.best), own)
    most = tuning.start_multipliers
    y = np.clip(context.form.own_y(state.best.y), -most, most) if onwards else np.zeros(context.form.m)
    begin(context, state, context.form.start(x), y)
    state.memory, state.newtons, state.between = Memory(), Newtons(), Between()
    state.doubts.restorations, state.doubts.depth = 0, inner_tuning.TUNING.unbounded
    return context
