"""One run of `minimize`: begin, carry out the phases that `plan` names, finish with a certificate."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.algorithm.outer import Ask, iteration
from auglag.algorithm.rules import History, Iteration
from auglag.algorithm.status import Status
from auglag.certificate import Certificate
from auglag.certificate.incumbent import objective
from auglag.inner import InnerResult, InnerStatus
from auglag.inner import tuning as inner_tuning
from auglag.kkt import Memory
from auglag.kkt.linear import Analyses
from auglag.persist import checkpoint
from auglag.problems.jacobians import kind
from auglag.problems.standard_form import Scaling, StandardForm
from auglag.report.messages import Ending, result_of
from auglag.result import Result
from auglag.strategy import newton, plan, restarts, restoration, unboundedness
from auglag.strategy.hooks import result_of_run
from auglag.strategy.presolve import presolved
from auglag.strategy.restoration import Restoration
from auglag.strategy.sqp import Candidate
from auglag.strategy.state import ACCELERATED, CLASSES, Between, Context, Newtons, State, Task, restored, scaling_at


def solve(task: Task) -> Result:
    """From the start to the result, which Ctrl-C at any moment brings about earlier."""
    run = Run(task, State.at_start(task))
    try:
        return result_of_run(run.course, partial(_ended, run))
    except Exception as error:
        _give_best(error, run)
        raise


def _ended(run: Run, status: Status) -> Result:
    """The result of a run that ended so, with the certificate of its best point."""
    task, state = run.task, run.state
    task.original.workspace.guard = None
    if status is Status.INFEASIBLE and not task.conflict and _known_feasible(task, state):
        status = Status.STUCK  # so ended the first attempt, and a later one refuted it
    elif _shown_infeasible(task, state, status):
        status = Status.INFEASIBLE
    endless = state.doubts.endless if status is Status.UNBOUNDED else None
    if endless is not None:
        task.judge.replace(state.best, endless)
    check = task.judge.final(state.best, status)
    # Far out a gradient may be small; the objective is known to fall on there.
    result = _result(run, status if endless is not None else status.certified(check.meets(task.tol)), check)
    if task.hooks.say is not None:
        task.hooks.say(result.message)
    return result


def _give_best(error: Exception, run: Run) -> None:
    """Hang the result so far on an exception of user code as `best`, if there is a point to show.

    It is never called solved: a success would have to be certified with the best derivatives there are. Where the
    functions fail once more the certificate says NaN. Nothing that goes wrong here may hide the exception.
    """
    task, best = run.task, run.state.best
    task.original.workspace.guard = None
    if math.isnan(run.state.history.objective):  # nothing had begun
        return
    with contextlib.suppress(Exception):
        try:
            check = task.judge.check(best)
        except Exception:
            task.problem.at(best.x).give_up()
            check = task.judge.check(best)
        result = _result(run, Status.STOPPED, check)
        task.original.forget(best.x)  # another run may know more
        cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        result.message = result.message.replace(Status.STOPPED.message, f"Stopped by an exception ({cause}).")
        error.best = result  # type: ignore[attr-defined]


def _result(run: Run, status: Status, check: Certificate) -> Result:
    """Everything about the best point, with this certificate."""
    task, state = run.task, run.state
    return result_of(
        Ending(
            problem=task.original,
            settings=task.settings,
            tol=task.tol,
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
            evidence=state.doubts.evidence,
            traits=run.context.form.traits if run.context is not None else None,
            inner=run.context.inner.name if run.context is not None else str(task.settings.inner),
            tuning=task.tuning,
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
    """Whether the run has seen a point that satisfies the constraints up to tol."""
    seen = any(it.usable and it.user_violation <= task.tol for it in state.iterations)
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

    def course(self) -> Status:
        """Begin or resume, then attempt after attempt."""
        task = presolved(self.task)
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
            self.state.start_x, self.state.scaling = x, scaling_at(task, x)
            self.context = context = Context.of(task, self.state)
            z, given = context.form.start(x), task.start.y
            y = context.form.own_y(given) if given is not None else np.zeros(context.form.m)
            if starts_solved(context, self.state, z, y):
                return Status.SOLVED
            begin(context, self.state, z, y, task.settings.negligible * task.tol)
        task.original.workspace.guard = task.meter.guard
        return self.attempts(self.context)

    def defined_elsewhere(self, task: Task) -> Vector | None:
        """A feasible point where f is defined, if it is not at the start; if there is none, f does not matter."""
        problem, x = task.problem, task.start.x
        if not (problem.m and task.settings.restoration and np.isfinite(problem.at(x).c).all()):
            return None
        task.original.workspace.guard = task.meter.guard
        form = StandardForm(problem, Scaling.none(problem.m))
        form.jacobian = kind(problem.at(x).jac)
        found = feasible_point(task, form, self.state, [x])
        return restarts.defined_near(problem, found.x) if found.verdict in ("feasible", "elsewhere") else None

    def attempts(self, context: Context) -> Status:
        """From x0, and if that finds no solution from other starts, as many as the settings allow."""
        state, tuning, judge = self.state, self.task.tuning, self.task.judge
        while True:
            status = attempt(context, state)
            state.first_end = status if state.first_end is None else state.first_end
            if status not in plan.AVOIDABLE or judge.solves(state.best):
                return status
            following = plan.next_attempt(state.attempt, context.restarts, aftermath(context, state, status), tuning)
            if following is None or context.rows_left(state) <= 0:
                # How the attempt from x0 ended says most, unless it merely ran out of iterations.
                return state.first_end if state.first_end is not Status.ITERATION_LIMIT else status
            self.context = context = begin_again(context, state, following)
            if not math.isfinite(state.history.objective + state.history.violation):
                return Status.NON_FINITE  # functions that were defined at the start no longer are


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
    turn = iteration(context.rules, posed, context.inner, state.x, state.y, state.history, limit=limit, asked=asked)
    state.between = Between()
    state.x, state.y = turn.x, turn.y
    watch(context, state, turn.y_hat)
    state.between.verdict = stop(context, state, turn.found.status, turn.found.limit)


def measure(context: Context, state: State) -> None:
    """The KKT error at (x, y), on which the plan decides whether Newton's method or interior points are tried."""
    newtons = state.newtons
    state.between.asked = context.rules.ask(state.history)  # a rule that returns nonsense is named before all else
    newtons.steps = 0
    newtons.origin = state.x if newtons.origin is None else newtons.origin
    state.between.error = context.form.error(state.x, state.y)


def consider(context: Context, state: State, found: Candidate) -> None:
    """Decide what becomes of a candidate of Newton's method: the end of the attempt, the next iterate, or nothing."""
    task, tuning, newtons, between = context.task, context.task.tuning, state.newtons, state.between
    before = math.inf if between.error is None else between.error
    between.tried = True
    newtons.tried_at, newtons.steps = before, found.steps
    newtons.failures = 0 if found.error < tuning.newton_success * before else newtons.failures + 1
    if found.error <= context.target or state.best.residual <= task.tol:
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
    verdict = plan.newton_verdict(found.error, context.target, newtons.in_vain, context.task.tuning, solved=solved)
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
        violation=float(np.linalg.norm(form.distance(found.x))),
        stationarity=check.stationarity * form.scaling.sf,
        residual=check.residual,
        user_violation=math.hypot(check.violation, check.complementarity),
        objective=check.objective,
        multiplier_norm=float(np.linalg.norm(check.multipliers)),
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
    found = feasible_point(task, form, state, [form.user_x(state.x), state.start_x])
    doubts.restorations += 1
    state.between.settled = found.verdict
    if found.verdict in ("feasible", "elsewhere") and state.between.verdict is Status.INFEASIBLE:
        state.x, state.y = form.start(found.x), np.zeros(form.m)


def feasible_point(task: Task, form: StandardForm, state: State, starts: list[Vector]) -> Restoration:
    """What restoration finds from these starts, noted in the state. Starts far away are tried once in a run."""
    doubts, tuning = state.doubts, task.tuning
    effort = 0 if doubts.widened else max(tuning.wide_effort, sum(it.inner_iterations for it in state.iterations))
    inner, limit = task.settings.inner, task.budget.inner_limit
    found = restoration.restore(form, inner, starts, task.tol, limit, tuning, effort=effort)
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
        state = self.state
        return AugmentedLagrangian(self.context.form, y, beta, unbounded=state.doubts.depth, memory=state.memory)

    def record(self, asked: Ask, found: InnerResult, c: Vector, y_hat: Vector) -> Iteration:
        """The row of the history, with R in the user's units."""
        context, state = self.context, self.state
        residual, violation = context.form.user_residual(found.residual, c)
        x = context.form.user_x(found.x)
        state.doubts.diverged = x.copy() if found.status is InnerStatus.UNBOUNDED else None
        return Iteration(
            k=asked.k,
            beta=asked.beta,
            eta=asked.eta,
            usable=found.usable,
            violation=float(np.linalg.norm(c)),
            stationarity=found.residual,
            residual=residual,
            user_violation=violation,
            objective=objective(context.task.problem, x),
            multiplier_norm=float(np.linalg.norm(context.user_y(found.x, y_hat, known=found.usable))),
            inner_status=found.status.name,
            inner_iterations=found.iterations,
            evaluations=found.evaluations,
            undefined=found.undefined,
            acceleration_steps=state.newtons.steps,
            attempt=state.attempt,
        )


def watch(context: Context, state: State, y_hat: Vector) -> None:
    """After a row: keep the best point, refine differences, save a checkpoint, print, log, call the callback."""
    task, form, hooks, last = context.task, context.form, context.task.hooks, state.history.last
    if last.usable:
        task.judge.offer(state.best, last.residual, form.user_x(state.x), form.user_y(y_hat))
    # Near the solution, or where the inner solver fails, differences have to be central.
    near = last.residual <= task.tuning.near_tol * task.tol or last.inner_status == InnerStatus.STALLED.name
    state.refined_now = task.judge.refine(state.best, int(near))
    cut_short = last.inner_status in (InnerStatus.BUDGET.name, InnerStatus.INTERRUPTED.name)
    if hooks.checkpoint is not None and not cut_short:  # such an iteration is done again on resuming
        state.counts, state.seconds = task.meter.used(), task.meter.guard.seconds
        state.memory.layout = Analyses()  # not saved; reset here too, so that a resumed run gives the same digits
        hooks.save("minimize", task.fingerprint(), state)
    if hooks.table is not None:
        hooks.table(state.history)
    if hooks.log is not None:
        every = context.user_y(state.x, y_hat)
        hooks.log.outer(last, every, task.meter.guard.seconds, task.meter.used().as_dict())
    if last.usable and hooks.callback is not None:
        hooks.call(state.history, form.user_x(state.x).copy(), context.user_y(state.x, y_hat))


def stop(context: Context, state: State, status: InnerStatus, limit: str = "") -> Status | None:
    """The verdict on the last iteration; None to go on, also where finite differences were just made more accurate."""
    judge, best, standing = context.task.judge, state.best, context.standing(state)
    verdict = context.stopping(standing)(state.history, status, limit)
    spent = plan.effort_left(standing, context.task.tuning) <= 0 or context.rows_left(state) <= 0
    if verdict is None and spent:
        return Status.ITERATION_LIMIT
    if verdict is Status.STUCK and (state.refined_now or judge.refine(best, 2)):
        return None  # with better derivatives the iteration deserves another look
    if verdict is Status.SOLVED and (state.refined_now or judge.refine(best, 2)):
        judge.refine(best, 2)
        return verdict if judge.solves(best) else None
    return verdict


# ------------------------------------------------------------------------------------------------ starts and restarts


def starts_solved(context: Context, state: State, z: Vector, y: Vector) -> bool:
    """Whether the start already meets the tolerance: then there is nothing to do."""
    task, judge, best = context.task, context.task.judge, state.best
    x, y_user = context.form.user_x(z), context.form.user_y(y)
    check = judge.measure(x, y_user)
    if task.start.y is not None and not check.meets(task.tol) and task.problem.refine(2):
        check = judge.measure(x, y_user)  # an earlier result was certified with the best differences
        task.problem.refine(best.level)
    if math.isfinite(check.residual):
        best.x, best.y, best.residual = x.copy(), y_user, check.residual
    return check.meets(task.tol)


def begin(context: Context, state: State, z: Vector, y: Vector, negligible: float) -> None:
    """Put the iterate at (z, y), in the form's variables and units, with nothing in the history."""
    form = context.form
    state.x, state.y = z, y
    violation = float(np.linalg.norm(form.distance(state.x)))
    state.history = History(form.at(state.x).f, violation, negligible)


def verdict_on_saved(context: Context, state: State) -> Status | None:
    """The verdict on the last iteration of a saved run, which was interrupted before it was known."""
    if not state.history.iterations:
        return None
    ended = state.history.last.inner_status
    if ended == ACCELERATED:
        return plan.ended_by_newton(solved=context.task.judge.solves(state.best))
    return stop(context, state, InnerStatus[ended])


def aftermath(context: Context, state: State, status: Status) -> plan.Aftermath:
    """How things stand when an attempt has ended."""
    problem, tol = context.task.problem, context.task.tol
    c = problem.at(state.start_x).c
    feasible = bool(np.all(np.abs(c - np.clip(c, problem.cl, problem.cu)) <= tol))
    return plan.Aftermath(status, state.best.residual, tol, feasible, constrained=problem.m > 0)


def begin_again(context: Context, state: State, attempt: int) -> Context:
    """Begin the next attempt: x, multipliers and scaling. Of the attempts before only the best point is kept."""
    task, tuning, settings = context.task, context.task.tuning, context.task.settings
    start = tuning.start_of(attempt, settings.restarts)
    if start is None or start.near:
        x, onwards = state.best.x, True
    else:
        x, onwards = restarts.place(start, context.form, settings.inner, state.start_x, attempt, tuning), False
    if start is not None and start.feasible and state.doubts.widened and state.doubts.feasible is not None:
        x = state.doubts.feasible  # minimising the violation near x0 leads to a point that is not feasible
    if not restarts.defined(task.problem, x):
        x = state.start_x
    state.earlier += state.history.iterations  # only now: a limit may end the run while a start is looked for
    state.attempt, history = attempt, state.history
    state.history = History(history.objective, history.violation, history.negligible)
    if settings.scaling:  # where f has fallen far, its gradient at x0 says nothing any more
        state.scaling = scaling_at(task, x if onwards else state.start_x)
    context = context.again(state)
    largest = tuning.start_multipliers
    y = np.clip(context.form.own_y(state.best.y), -largest, largest) if onwards else np.zeros(context.form.m)
    begin(context, state, context.form.start(x), y, state.history.negligible)
    state.memory, state.newtons, state.between = Memory(), Newtons(), Between()
    state.doubts.restorations, state.doubts.depth = 0, inner_tuning.TUNING.unbounded
    return context
