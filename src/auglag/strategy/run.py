"""One run of the method on one problem: start, Algorithm 1, restoration, certificate, result."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.algorithm.rules import History, Iteration, PenaltyRule
from auglag.algorithm.status import Status
from auglag.algorithm.stopping import UNBOUNDED_PENALTY
from auglag.certificate.incumbent import Incumbent
from auglag.errors import OutOfBudget, StoppedByCallback
from auglag.inner import LBFGSB, InnerResult, InnerSolver, InnerStatus, accelerated, choose
from auglag.inner.base import UNBOUNDED
from auglag.inner.qp import DENSE, QPModel
from auglag.kkt import Memory
from auglag.log import JsonLog
from auglag.problems.base import AbstractProblem, Counts
from auglag.problems.jacobians import kind
from auglag.problems.presolved import Presolved
from auglag.problems.standard_form import Scaling, StandardForm
from auglag.report.messages import report
from auglag.result import Result
from auglag.strategy import old_checkpoint as checkpoints
from auglag.strategy import restarts, resuming, targets
from auglag.strategy.accelerator import ACCELERATED, Accelerator
from auglag.strategy.budget import Budget, Guard
from auglag.strategy.old_outer import Outcome, augmented_lagrangian
from auglag.strategy.restoration import Restoration, restore
from auglag.strategy.settings import Settings
from auglag.strategy.unboundedness import DEEPEST, Depth, objective


@final
@dataclass(frozen=True, slots=True)
class WarmStart:
    """Where to start: x, multipliers in the user's units, and the first penalty (None: as the rule says)."""

    x: Vector
    y: Vector | None = None
    beta: float | None = None


@final
@dataclass(frozen=True, slots=True)
class Hooks:
    """What the caller wants to see or save while the run goes on."""

    callback: Callable[[History, Vector, Vector], None] | None = None  #: (history, user x, user multipliers)
    table: Callable[[History], None] | None = None
    say: Callable[[str], None] | None = None  #: the last word: how the run ended
    checkpoint: str | os.PathLike[str] | None = None
    resume: str | os.PathLike[str] | None = None
    log: JsonLog | None = None


@final
class Run:
    """The state of one run. Implements what the outer loop asks of a problem (`subproblem`, `record`) and `watch`."""

    def __init__(
        self,
        problem: AbstractProblem,
        settings: Settings,
        start: WarmStart,
        tol: float,
        budget: Budget,
        hooks: Hooks,
        counts_start: Counts,
        conflict: str = "",
    ) -> None:
        self.problem, self.settings, self.tol, self.budget, self.hooks = problem, settings, tol, budget, hooks
        self.original = problem.original if isinstance(problem, Presolved) else problem  #: with all of its rows
        self.conflict = conflict  #: why no point satisfies all rows, where that is obvious
        self.start = start
        self.counts_before, self.counts_start = Counts(), counts_start
        self.guard = Guard(budget, self.used)
        self.form: StandardForm | None = None
        self.best = Incumbent(problem, start.x, tol)
        self.depth = Depth()
        self.accelerator = Accelerator(self)
        self.memory = Memory()
        self.history = History(math.nan, math.nan)
        self.refined_now = False  #: the last iteration raised the accuracy of differences
        self.restorations = 0
        self.attempt = 0  #: 0, then 1, 2, ... restarts
        self.first: Status | None = None  #: how attempt 0 ended
        self.earlier: list[Iteration] = []  #: the rows of earlier attempts
        self.finding: Restoration | None = None  #: the least violated point, where infeasibility was shown

    def used(self) -> Counts:
        """Calls made by this run, those before a resume included."""
        return self.counts_before.plus(self.problem.counts.since(self.counts_start))

    def spent(self, counts: Counts, seconds: float) -> None:
        """Charge what an interrupted run had used."""
        self.counts_before, self.counts_start = counts, self.problem.counts.copy()
        self.guard = Guard(self.budget, self.used, seconds)

    # ----------------------------------------------------------------------------------------------------- the course

    def solve(self) -> Result:
        """From the start to the result."""
        try:
            status = self._solve()
        except OutOfBudget as signal:
            status = Status.TIME_LIMIT if signal.limit == "seconds" else Status.EVALUATION_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except StoppedByCallback:
            status = Status.STOPPED
        finally:
            self.original.guard = None
        status, check = self.best.certify(self._infeasible_after_all(status))
        result = report(status, check, self)
        if self.hooks.say is not None:
            self.hooks.say(result.message)
        return result

    def _infeasible_after_all(self, status: Status) -> Status:
        """A proof of local infeasibility stands if no restart found a solution, whatever ended the last one."""
        if self.finding is None or status not in (*restarts.AVOIDABLE, Status.TIME_LIMIT, Status.EVALUATION_LIMIT):
            return status
        if self.best.solves():
            return status
        self.best.replace(self.finding.x)
        return Status.INFEASIBLE

    def _solve(self) -> Status:
        if self.conflict:
            return Status.INFEASIBLE
        saved = None
        if self.hooks.resume is not None:
            saved = checkpoints.load(self.hooks.resume)
            checkpoints.require_same(saved.fingerprint, resuming.fingerprint(self), self.hooks.resume)
        x = restarts.defined_near(self.problem, self.start.x) if saved is None else saved.start_x
        if x is None:
            return Status.NON_FINITE
        self.start_x = x
        self._set_up(x, saved)
        assert self.form is not None
        if saved is not None:
            z, y = resuming.resume(self, saved)
        else:
            z = self.form.start(x)
            y = self.form.own_y(self.start.y) if self.start.y is not None else np.zeros(self.form.m)
            if self._starts_solved(z, y):
                return Status.SOLVED
            violation = float(np.linalg.norm(self.form.distance(z)))
            self.history = History(self.form.at(z).f, violation, self.settings.negligible * self.tol)
        self.original.guard = self.guard
        return self._attempts(z, y, self._verdict_on_saved() if saved is not None else None)

    def _set_up(self, x: Vector, saved: checkpoints.State | None) -> None:
        if saved is not None:
            self.form = StandardForm(self.problem, Scaling(saved.sf, saved.sc), slacks=self.settings.slacks)
        else:
            self.form = self._form(x)
        if self.problem.m:
            self.form.jacobian = kind(self.problem.at(x).jac)
        elif self.problem.has_hess and self.problem.n > DENSE:  # then the Hessian says whether matrices are sparse
            self.form.jacobian = kind(self.problem.at(x).hess(np.zeros(0)))
        self.inner: InnerSolver = choose(
            self.settings.inner, self.form.traits, models=self.settings.acceleration is not None
        )

    def _form(self, x: Vector) -> StandardForm:
        """The problem scaled at x, as the settings say."""
        settings, m = self.settings, self.problem.m
        scaling = Scaling.from_gradients(self.problem.at(x)) if settings.scaling else Scaling.none(m)
        if settings.weights:
            scaling = Scaling(scaling.sf, scaling.sc * np.sqrt(settings.weights))
        return StandardForm(self.problem, scaling, slacks=settings.slacks)

    def _attempts(self, z: Vector, y: Vector, verdict: Status | None) -> Status:
        """From x0, and where that leads nowhere from other starts, as many as the settings allow."""
        while True:
            status = self._iterate(z, y, verdict)
            self.first, verdict = self.first if self.first is not None else status, None
            if status not in restarts.AVOIDABLE or self.best.solves():
                return status
            following = restarts.following(self.attempt, self._restarts(), self._standing(status))
            if following is None or self._rows_left() <= 0:
                break
            z, y = self._begin_again(following)
            if not math.isfinite(self.history.objective + self.history.violation):
                return Status.NON_FINITE  # functions that were defined at the start no longer are
        return self.first if self.first is not Status.ITERATION_LIMIT else status

    def _standing(self, status: Status) -> restarts.Standing:
        """How an attempt left things."""
        problem, c = self.problem, self.problem.at(self.start_x).c
        feasible = bool(np.all(np.abs(c - np.clip(c, problem.cl, problem.cu)) <= self.tol))
        return restarts.Standing(status, self.best.residual, self.tol, feasible, constrained=problem.m > 0)

    def _restarts(self) -> int:
        """How many starts there may be beside x0."""
        return min(self.settings.restarts, restarts.MOST) if self.by_models() else 0

    def _rows_left(self) -> float:
        """Outer iterations that the budget leaves."""
        return self.budget.outer_limit - len(self.earlier) - len(self.history.iterations)

    def effort_left(self) -> float:
        """Inner iterations that this attempt may still take."""
        if not (self.problem.m and self.by_models()):
            return math.inf
        spent = self.history.inner_iterations
        return restarts.effort(self.attempt, self._restarts()) - spent

    def _begin_again(self, attempt: int) -> tuple[Vector, Vector]:
        """The next start: x and multipliers, with nothing else kept from before but the best point."""
        assert self.form is not None
        self.attempt = attempt
        self.earlier += self.history.iterations
        start = restarts.start_of(self.attempt, self.settings.restarts)
        onwards = start is None or start.near
        x = self.best.x if start is None or start.near else start.place(self, seed=self.attempt)
        point = self.problem.at(x)
        if not (point.finite() and np.isfinite(point.grad).all()):
            x = self.start_x
        if self.settings.scaling:  # where f has fallen far, its gradient at x0 says nothing any more
            jacobian, self.form = self.form.jacobian, self._form(x if onwards else self.start_x)
            self.form.jacobian = jacobian
        y = np.clip(self.form.own_y(self.best.y), -1e9, 1e9) if onwards else np.zeros(self.form.m)
        z = self.form.start(x)
        violation = float(np.linalg.norm(self.form.distance(z)))
        self.history = History(self.form.at(z).f, violation, self.history.negligible)
        self.memory, self.restorations = Memory(), 0
        self.accelerator, self.depth.limit = Accelerator(self), UNBOUNDED
        return z, y

    def accelerates(self) -> bool:
        """Whether other methods are tried between the iterations, and other starts after them."""
        if self.settings.acceleration is None or self.form is None:
            return False
        if isinstance(self.inner, LBFGSB) and self.settings.inner != "auto":
            return False  # who names it wants it alone
        return accelerated(self.inner, self.form.traits)

    def by_models(self) -> bool:
        """Whether inner steps are Newton's as well, so that high accuracy costs little."""
        return self.accelerates() and isinstance(self.inner, QPModel)

    def penalty(self) -> PenaltyRule:
        """The penalty rule of this attempt."""
        if self.attempt == 0:
            return self.settings.penalty
        return restarts.penalty_of(self.settings.penalty, restarts.start_of(self.attempt, self.settings.restarts))

    def _iterate(self, z: Vector, y: Vector, verdict: Status | None) -> Status:
        """Algorithm 1, with restoration where it suspects that there is no feasible point.

        A `verdict` on (z, y) is what the interrupted run would have come to before its next iteration.
        """
        assert self.form is not None
        while True:
            outcome = Outcome(z, y, y, verdict) if verdict is not None else self._outer(z, y)
            verdict = None
            if outcome.status is Status.UNBOUNDED:
                search = self.budget.inner_limit
                if self.depth.confirm(self.form, self.settings.inner, self.start_x, self.tol, search):
                    return Status.UNBOUNDED
                if self.history.last.beta >= UNBOUNDED_PENALTY or self.depth.limit > DEEPEST:
                    return Status.STUCK
                z, y = outcome.x, outcome.y
                continue
            doubtful = outcome.status in (Status.INFEASIBLE, Status.STUCK, Status.ITERATION_LIMIT)
            if not (doubtful and self.settings.restoration and self._violated()):
                return outcome.status
            starts = [self.form.user_x(outcome.x), self.start_x]
            finding = restore(self.form, self.settings.inner, starts, self.tol, self.budget.inner_limit)
            self.restorations += 1
            if finding.verdict == "infeasible":
                if self.finding is None or finding.violation < self.finding.violation:
                    self.finding = finding
                return Status.INFEASIBLE
            if outcome.status is not Status.INFEASIBLE:
                return outcome.status
            z, y = outcome.x, outcome.y
            if finding.verdict == "feasible":
                z, y = self.form.start(finding.x), np.zeros(self.form.m)

    def _violated(self) -> bool:
        last = self.history.last
        return self.problem.m > 0 and last.user_violation > 10 * self.tol and not self.guard.fired

    def _stop(self, history: History, status: InnerStatus, limit: str = "") -> Status | None:
        """The verdict on the last iteration; one that rests on poor derivatives is looked at again."""
        verdict = targets.stopping(self)(history, status, limit)
        if verdict is None and (self.effort_left() <= 0 or self._rows_left() <= 0):
            return Status.ITERATION_LIMIT
        if verdict is Status.STUCK and (self.refined_now or self.best.refine(2)):
            return None  # with better derivatives the iteration deserves another look
        if verdict is Status.SOLVED and (self.refined_now or self.best.refine(2)):
            self.best.refine(2)
            return verdict if self.best.solves() else None
        return verdict

    def _outer(self, z: Vector, y: Vector) -> Outcome:
        settings = self.settings
        return augmented_lagrangian(
            self,
            z,
            y,
            self.history,
            penalty=self.penalty(),
            dual=settings.dual,
            tolerance=targets.tolerance(self),
            inner=restarts.Capped(self.inner, self),
            stop=lambda history, found: self._stop(history, found.status, found.limit),
            watch=self.watch,
            inner_limit=self.budget.inner_limit,
            accelerate=self.accelerator if self.accelerates() else None,
        )

    # ---------------------------------------------------------------------------------------- what the outer loop asks

    def subproblem(self, y: Vector, beta: float) -> AugmentedLagrangian:
        """L_beta(., y) + g."""
        assert self.form is not None
        return AugmentedLagrangian(self.form, y, beta, unbounded=self.depth.limit, memory=self.memory)

    def record(self, k: int, beta: float, eta: float, found: InnerResult, c: Vector, y_hat: Vector) -> Iteration:
        """The row of the history, with R in the user's units."""
        assert self.form is not None
        residual, violation = self.form.user_residual(found.residual, c)
        x = self.form.user_x(found.x)
        self.depth.diverged = x.copy() if found.status is InnerStatus.UNBOUNDED else None
        return Iteration(
            k=k,
            beta=beta,
            eta=eta,
            usable=found.usable,
            violation=float(np.linalg.norm(c)),
            stationarity=found.residual,
            residual=residual,
            user_violation=violation,
            objective=objective(self.problem, x),
            multiplier_norm=float(np.linalg.norm(self._user_y(found.x, y_hat, known=found.usable))),
            inner_status=found.status.name,
            inner_iterations=found.iterations,
            evaluations=found.evaluations,
            undefined=found.undefined,
            acceleration_steps=self.accelerator.steps,
            attempt=self.attempt,
        )

    def _user_y(self, z: Vector, y: Vector, *, known: bool) -> Vector:
        """The user's multipliers of all rows; of those that are kept alone, where derivatives may not be known yet."""
        assert self.form is not None
        own = self.form.user_y(y)
        return self.problem.user_y(self.form.user_x(z), own) if known and isinstance(self.problem, Presolved) else own

    def watch(self, history: History, x: Vector, y: Vector, y_hat: Vector) -> None:
        """Keep the best point, save, print, and let the caller look."""
        assert self.form is not None
        last = history.last
        if last.usable:
            self.best.offer(last.residual, self.form.user_x(x), self.form.user_y(y_hat))
        self.refined_now = self.best.refine(self._level_wanted(last))
        cut_short = last.inner_status in (InnerStatus.BUDGET.name, InnerStatus.INTERRUPTED.name)
        if self.hooks.checkpoint is not None and not cut_short:  # such an iteration is done again on resuming
            checkpoints.save(self.hooks.checkpoint, resuming.state(self, x, y))
        if self.hooks.table is not None:
            self.hooks.table(history)
        if self.hooks.log is not None:
            every = self._user_y(x, y_hat, known=True)
            self.hooks.log.outer(last, every, self.guard.seconds, self.used().as_dict())
        if self.hooks.callback is not None and last.usable:
            try:
                self.hooks.callback(history, self.form.user_x(x).copy(), self._user_y(x, y_hat, known=True))
            except StopIteration:
                raise StoppedByCallback from None

    def _level_wanted(self, last: Iteration) -> int:
        """Near the solution, or where the inner solver fails, differences have to be central."""
        return int(last.residual <= 1e3 * self.tol or last.inner_status == InnerStatus.STALLED.name)

    # ------------------------------------------------------------------------------------------------ start and resume

    def _starts_solved(self, z: Vector, y: Vector) -> bool:
        """Whether the start already meets the tolerance: then there is nothing to do."""
        assert self.form is not None
        x, y_user = self.form.user_x(z), self.form.user_y(y)
        check = self.best.measure(x, y_user)
        if self.start.y is not None and not check.meets(self.tol) and self.problem.refine(2):
            check = self.best.measure(x, y_user)  # an earlier result was certified with the best differences
            self.problem.refine(self.best.level)
        if math.isfinite(check.residual):
            self.best.x, self.best.y, self.best.residual = x.copy(), y_user, check.residual
        return check.meets(self.tol)

    def _verdict_on_saved(self) -> Status | None:
        """What the interrupted run was to say of its last iteration, had it lived."""
        if not self.history.iterations:
            return None
        if self.history.last.inner_status == ACCELERATED:
            return Status.SOLVED if self.best.solves() else Status.STUCK
        return self._stop(self.history, InnerStatus[self.history.last.inner_status])
