"""One run of the method on one problem: start, Algorithm 1, restoration, certificate, result."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag import checkpoint as checkpoints
from auglag import restarts, stopping
from auglag._typing import Vector
from auglag.acceleration import Attempt
from auglag.budget import Budget, Guard
from auglag.certificate import Certificate, certificate
from auglag.errors import CheckpointError, OutOfBudget, StoppedByCallback
from auglag.feasibility import Restoration, least_violation, restore
from auglag.inner import InnerResult, InnerSolver, InnerStatus, choose
from auglag.inner.base import UNBOUNDED
from auglag.inner.qp import QPModel
from auglag.lagrangian import AugmentedLagrangian
from auglag.log import JsonLog
from auglag.multipliers import best_multipliers
from auglag.outer import Outcome, augmented_lagrangian
from auglag.problems.base import AbstractProblem, Counts, Point
from auglag.problems.constraints import nearby
from auglag.problems.jacobians import kind
from auglag.problems.standard_form import Scaling, StandardForm
from auglag.reporting import advice, message
from auglag.result import Result, Status, row
from auglag.rules import Constant, Geometric, History, Iteration, PenaltyRule, ToleranceRule
from auglag.settings import Settings
from auglag.sqp import Memory
from auglag.stopping import MORE, UNBOUNDED_PENALTY, Stopping

#: A run turns to restoration at most this often.
RESTORATIONS = 2
#: The status of a row of the history that an acceleration ended.
ACCELERATED = "ACCELERATED"
#: The acceleration aims at this fraction of tol (relative to the gradient of f): its last step costs little.
AIM = 4e-3
#: Accelerations that met the tolerance but not their aim, and got no nearer to it, before it is let be.
EXTRA = 2
#: Least-squares multipliers are tried at the end only while their matrix has at most this many entries.
LARGEST_FIT = 100_000


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
    ) -> None:
        self.problem, self.settings, self.tol, self.budget, self.hooks = problem, settings, tol, budget, hooks
        self.start = start
        self.counts_before, self.counts_start = Counts(), counts_start
        self.guard = Guard(budget, self.used)
        self.restorations = 0
        self.level, self.refined_now = 0, False
        self.best_residual = math.inf
        self.best_x, self.best_y = start.x, np.zeros(problem.m)
        self.best_point: Point | None = None
        self.diverged: Vector | None = None  #: where the last subproblem fell below every bound
        self.unbounded = UNBOUNDED  #: relative depth at which a subproblem counts as unbounded
        self.evidence: tuple[float, float] | None = None  #: objective and violation of a point that shows unboundedness
        self.history = History(math.nan, math.nan)
        self.memory = Memory()
        self.steps_now = 0  #: steps of the acceleration before the iteration to come
        self.finishes = 0  #: accelerations that came near the end but not to it, and no nearer than the one before
        self.finish_error = math.inf  #: the smallest error of those
        self.attempt = 0  #: 0, then 1, 2, ... restarts
        self.earlier: list[Iteration] = []  #: the rows of earlier attempts
        self.finding: Restoration | None = None  #: the least violated point, where infeasibility was shown

    def used(self) -> Counts:
        """Calls made by this run, those before a resume included."""
        return self.counts_before.plus(self.problem.counts.since(self.counts_start))

    # ----------------------------------------------------------------------------------------------------- the course

    def solve(self) -> Result:
        """From the start to the result."""
        self.form: StandardForm | None = None
        try:
            status = self._solve()
        except OutOfBudget as signal:
            status = Status.TIME_LIMIT if signal.limit == "seconds" else Status.EVALUATION_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except StoppedByCallback:
            status = Status.STOPPED
        finally:
            self.problem.guard = None
        return self._finish(self._infeasible_after_all(status))

    def _infeasible_after_all(self, status: Status) -> Status:
        """A proof of local infeasibility stands if no restart found a solution, whatever ended the last one."""
        if self.finding is None or status not in (*restarts.AVOIDABLE, Status.TIME_LIMIT, Status.EVALUATION_LIMIT):
            return status
        if self._check_best().meets(self.tol):
            return status
        self._keep_least_infeasible(self.finding)
        return Status.INFEASIBLE

    def _solve(self) -> Status:
        saved = None
        if self.hooks.resume is not None:
            saved = checkpoints.load(self.hooks.resume)
            checkpoints.require_same(saved.fingerprint, self._fingerprint(), self.hooks.resume)
        x = self._defined_start(self.start.x) if saved is None else saved.start_x
        if x is None:
            return Status.NON_FINITE
        self.start_x = x
        self._set_up(x, saved)
        assert self.form is not None
        if saved is not None:
            z, y = self._resume(saved)
        else:
            z = self.form.start(x)
            y = self.form.own_y(self.start.y) if self.start.y is not None else np.zeros(self.form.m)
            if self._starts_solved(z, y):
                return Status.SOLVED
            violation = float(np.linalg.norm(self.form.distance(z)))
            self.history = History(self.form.at(z).f, violation, self.settings.negligible * self.tol)
        self.problem.guard = self.guard
        return self._attempts(z, y, self._verdict_on_saved() if saved is not None else None)

    def _set_up(self, x: Vector, saved: checkpoints.State | None) -> None:
        if saved is not None:
            scaling = Scaling(saved.sf, saved.sc)
        elif self.settings.scaling:
            scaling = Scaling.from_gradients(self.problem.at(x))
        else:
            scaling = Scaling.none(self.problem.m)
        self.form = StandardForm(self.problem, scaling, slacks=self.settings.slacks)
        if self.problem.m:
            self.form.jacobian = kind(self.problem.at(x).jac)
        self.inner: InnerSolver = choose(
            self.settings.inner, self.form.traits, models=self.settings.acceleration is not None
        )

    def _attempts(self, z: Vector, y: Vector, verdict: Status | None) -> Status:
        """From x0, and where that leads nowhere from other starts, as many as the settings allow."""
        first: Status | None = None
        while True:
            status = self._iterate(z, y, verdict)
            first, verdict = first if first is not None else status, None
            if status not in restarts.AVOIDABLE or self._check_best().meets(self.tol):
                return status
            following = restarts.following(self.attempt, status, self._restarts())
            if following is None or self._rows_left() <= 0:
                break
            z, y = self._begin_again(following)
            if not math.isfinite(self.history.objective + self.history.violation):
                return Status.NON_FINITE  # functions that were defined at the start no longer are
        return first if first is not Status.ITERATION_LIMIT else status

    def _restarts(self) -> int:
        """How many starts there may be beside x0."""
        return min(self.settings.restarts, restarts.MOST) if self._accelerates() else 0

    def _rows_left(self) -> float:
        """Outer iterations that the budget leaves."""
        return self.budget.outer_limit - len(self.earlier) - len(self.history.iterations)

    def effort_left(self) -> float:
        """Inner iterations that this attempt may still take."""
        spent = sum(it.inner_iterations for it in self.history.iterations)
        return restarts.effort(self.attempt, self._restarts()) - spent

    def _begin_again(self, attempt: int) -> tuple[Vector, Vector]:
        """The next start: x and multipliers, with nothing else kept from before but the best point."""
        assert self.form is not None
        self.attempt = attempt
        self.earlier += self.history.iterations
        start = restarts.start_of(self.attempt, self.settings.restarts)
        x = self.best_x if start is None else start.place(self, seed=self.attempt)
        point = self.problem.at(x)
        if not (point.finite() and np.isfinite(point.grad).all()):
            x = self.start_x
        y = np.zeros(self.form.m) if start is not None else np.clip(self.form.own_y(self.best_y), -1e9, 1e9)
        z = self.form.start(x)
        violation = float(np.linalg.norm(self.form.distance(z)))
        self.history = History(self.form.at(z).f, violation, self.history.negligible)
        self.memory, self.restorations = Memory(), 0
        self.finishes, self.finish_error, self.unbounded = 0, math.inf, UNBOUNDED
        return z, y

    def _penalty(self) -> PenaltyRule:
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
                if self._confirm_unbounded():
                    return Status.UNBOUNDED
                if self.history.last.beta >= UNBOUNDED_PENALTY or self.unbounded > 1e30:
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

    def _stop(self, history: History, status: InnerStatus, limit: str = "") -> Status | None:
        """The verdict on the last iteration; one that rests on poor derivatives is looked at again."""
        verdict = self._stopping()(history, status, limit)
        if verdict is None and (self.effort_left() <= 0 or self._rows_left() <= 0):
            return Status.ITERATION_LIMIT
        if verdict is Status.STUCK and (self.refined_now or self._refine(2)):
            return None  # with better derivatives the iteration deserves another look
        if verdict is Status.SOLVED and (self.refined_now or self._refine(2)):
            self._refine(2)
            return verdict if self._check_best().meets(self.tol) else None
        return verdict

    def _outer(self, z: Vector, y: Vector) -> Outcome:
        settings = self.settings
        return augmented_lagrangian(
            self,
            z,
            y,
            self.history,
            penalty=self._penalty(),
            dual=settings.dual,
            tolerance=self._tolerance(),
            inner=restarts.Capped(self.inner, self),
            stop=lambda history, found: self._stop(history, found.status, found.limit),
            watch=self.watch,
            inner_limit=self.budget.inner_limit,
            accelerate=self.accelerate if self._accelerates() else None,
        )

    def _stopping(self) -> Stopping:
        constrained = self.problem.m > 0
        aim, extra = self._aim(), MORE if self._accelerates() else stopping.EXTRA
        largest = self.settings.largest_penalty
        return Stopping(self.tol, self.budget, constrained, aim, largest, extra, self._suspicion())

    def _aim(self) -> float:
        """The fraction of tol that the loop aims at."""
        if not self.problem.m:  # the inner tolerance is the tolerance; Newton's last steps cost little
            return AIM if isinstance(self.inner, QPModel) else 1.0
        return min(self.settings.aim, AIM) if self._accelerates() else self.settings.aim

    def _suspicion(self) -> int | None:
        """Penalty increases in vain that call for a feasibility check; twice as many after the first, then no more."""
        if not self.settings.restoration or self.restorations >= RESTORATIONS:
            return None
        return 4 if self.restorations == 0 else 8

    def _tolerance(self) -> ToleranceRule:
        """The rule given, or a geometric sequence that ends where the stopping test is sure to be met."""
        assert self.form is not None
        scaled = self.tol * min(1.0, self.form.scaling.sf)
        if self.problem.m == 0:
            return Constant(0.5 * self._aim() * scaled)
        if self.settings.tolerance is not None:
            return self.settings.tolerance
        target = 0.5 * self._aim() * scaled
        return Geometric(first=max(0.1, target), ratio=0.1, floor=target)

    # ---------------------------------------------------------------------------------------- what the outer loop asks

    def subproblem(self, y: Vector, beta: float) -> AugmentedLagrangian:
        """L_beta(., y) + g."""
        assert self.form is not None
        return AugmentedLagrangian(self.form, y, beta, unbounded=self.unbounded, memory=self.memory)

    def record(self, k: int, beta: float, eta: float, found: InnerResult, c: Vector, y_hat: Vector) -> Iteration:
        """The row of the history, with R in the user's units."""
        assert self.form is not None
        residual, violation = self.form.user_residual(found.residual, c)
        x = self.form.user_x(found.x)
        self.diverged = x.copy() if found.status is InnerStatus.UNBOUNDED else None
        return Iteration(
            k=k,
            beta=beta,
            eta=eta,
            usable=found.usable,
            violation=float(np.linalg.norm(c)),
            stationarity=found.residual,
            residual=residual,
            user_violation=violation,
            objective=self._objective(x),
            multiplier_norm=float(np.linalg.norm(self.form.user_y(y_hat))),
            inner_status=found.status.name,
            inner_iterations=found.iterations,
            evaluations=found.evaluations,
            undefined=found.undefined,
            acceleration_steps=self.steps_now,
            attempt=self.attempt,
        )

    def _objective(self, x: Vector) -> float:
        g = self.problem.g
        return float(self.problem.at(x).f + (g.value(x) if g is not None else 0.0))

    # --------------------------------------------------------------------------------------------------- acceleration

    def _accelerates(self) -> bool:
        return self.settings.acceleration is not None and isinstance(self.inner, QPModel) and self.problem.m > 0

    def accelerate(self, history: History, x: Vector, y: Vector) -> tuple[Vector, Vector, Status | None]:
        """SQP from (x, y); adopted if it halved the error, and the end if it met the target."""
        sqp, form, memory = self.settings.acceleration, self.form, self.memory
        assert sqp is not None
        assert form is not None
        self.steps_now = 0
        k, start = history.k, form.error(x, y)
        if not (memory.failures < 2 or start < 0.1 * memory.tried_at or k % 3 == 1):
            return x, y, None
        patience = max(0, sqp.patience - memory.failures)
        target = max(AIM * self.tol, min(self.tol, 1e-9))
        found = sqp.run(form, memory, x, y, target=target, patience=patience, seen=self._seen)
        memory.tried_at, self.steps_now = start, found.steps
        memory.failures = 0 if found.error < 0.5 * start else memory.failures + 1
        if found.error <= target or self.best_residual <= self.tol:
            self.finishes += found.error > 0.5 * self.finish_error
            self.finish_error = min(self.finish_error, found.error)
            over = self._end(history, found, target)
            if over is not None:
                return found.x, found.y, over
        if found.error < 1e-2 and found.error < 0.5 * start:
            return found.x, found.y, None
        if not history.iterations and self._lower(found.x, x, y):
            return found.x, y, None
        return x, y, None

    def _lower(self, new: Vector, x: Vector, y: Vector) -> bool:
        """Whether the first augmented Lagrangian is lower at a new starting point."""
        subproblem = self.subproblem(y, self._penalty().next(self.history))
        return subproblem.value(new) < subproblem.value(x)

    def _seen(self, x: Vector, y: Vector, error: float) -> bool:
        """Keep the best point of an acceleration; whether it meets the tolerance in the user's units."""
        assert self.form is not None
        if not error <= 1e3 * self.tol:
            return False
        if self._refine(1):
            return False
        user_x, user_y = self.form.user_x(x), self.form.user_y(y)
        check = certificate(self.problem, user_x, user_y)
        if check.residual < self.best_residual:
            self.best_residual, self.best_x, self.best_y = check.residual, user_x.copy(), user_y
            self.best_point = self.problem.at(self.best_x)
        return check.meets(self.tol)

    def _end(self, history: History, found: Attempt, target: float) -> Status | None:
        """The verdict on an acceleration that came to an end; its point becomes a row of the history."""
        if self._refine(2) and not self._check_best().meets(self.tol):
            return None
        solved = self._check_best().meets(self.tol)
        if self.finishes < EXTRA and not (solved and found.error <= target):
            return None
        self._append_acceleration(history, found)
        self.watch(history, found.x, found.y, found.y)
        return Status.SOLVED if solved else Status.STUCK

    def _append_acceleration(self, history: History, found: Attempt) -> None:
        assert self.form is not None
        check = self._check_best()
        scaling = self.form.scaling
        history.iterations.append(
            Iteration(
                k=history.k,
                beta=self._penalty().next(history),
                eta=self.tol,
                usable=True,
                violation=float(np.linalg.norm(self.form.distance(found.x))),
                stationarity=check.stationarity * scaling.sf,
                residual=check.residual,
                user_violation=math.hypot(check.violation, check.complementarity),
                objective=check.objective,
                multiplier_norm=float(np.linalg.norm(check.multipliers)),
                inner_status=ACCELERATED,
                inner_iterations=found.steps,
                evaluations=found.steps,
                acceleration_steps=found.steps,
                attempt=self.attempt,
            )
        )

    def watch(self, history: History, x: Vector, y: Vector, y_hat: Vector) -> None:
        """Keep the best point, save, print, and let the caller look."""
        assert self.form is not None
        last = history.last
        if last.usable and last.residual < self.best_residual:
            self.best_residual = last.residual
            self.best_x, self.best_y = self.form.user_x(x).copy(), self.form.user_y(y_hat)
            self.best_point = self.problem.at(self.best_x)  # its values are kept for the certificate
        self.refined_now = self._refine(self._level_wanted(last))
        cut_short = last.inner_status in (InnerStatus.BUDGET.name, InnerStatus.INTERRUPTED.name)
        if self.hooks.checkpoint is not None and not cut_short:  # such an iteration is done again on resuming
            checkpoints.save(self.hooks.checkpoint, self._state(x, y))
        if self.hooks.table is not None:
            self.hooks.table(history)
        if self.hooks.log is not None:
            self.hooks.log.outer(last, self.form.user_y(y_hat), self.guard.seconds, self.used().as_dict())
        if self.hooks.callback is not None and last.usable:
            try:
                self.hooks.callback(history, self.form.user_x(x).copy(), self.form.user_y(y_hat))
            except StopIteration:
                raise StoppedByCallback from None

    def _level_wanted(self, last: Iteration) -> int:
        """Near the solution, or where the inner solver fails, differences have to be central."""
        return int(last.residual <= 1e3 * self.tol or last.inner_status == InnerStatus.STALLED.name)

    def _refine(self, level: int) -> bool:
        """Ask for more accurate derivatives; what was measured without them is not to stand in the way afterwards."""
        if level <= self.level or not self.problem.refine(level):
            return False
        self.level, self.best_residual = level, math.inf
        if self.best_point is not None:
            self.best_point.forget_derivatives()
        return True

    # ------------------------------------------------------------------------------------------------ start and resume

    def _defined_start(self, x: Vector) -> Vector | None:
        """x, or a point near it where f and c are finite, or None."""
        g = self.problem.g
        for trial in nearby(x, (self.problem.lower, self.problem.upper)):
            if g is not None:
                trial = np.clip(g.domain().prox(trial, 1.0), self.problem.lower, self.problem.upper)
            point = self.problem.at(trial)
            if point.finite() and np.isfinite(point.grad).all():
                return trial
        return None

    def _starts_solved(self, z: Vector, y: Vector) -> bool:
        """Whether the start already meets the tolerance: then there is nothing to do."""
        assert self.form is not None
        x, y_user = self.form.user_x(z), self.form.user_y(y)
        check = certificate(self.problem, x, y_user)
        if self.start.y is not None and not check.meets(self.tol) and self.problem.refine(2):
            check = certificate(self.problem, x, y_user)  # an earlier result was certified with the best differences
            self.problem.refine(self.level)
        if math.isfinite(check.residual):
            self.best_x, self.best_y, self.best_residual = x.copy(), y_user, check.residual
        return check.meets(self.tol)

    def _fingerprint(self) -> dict[str, Any]:
        return {
            "n": self.problem.n,
            "m": self.problem.m,
            "tol": self.tol,
            "settings": re.sub(r" at 0x[0-9a-f]+", "", repr(self.settings)),
            "x0": self.problem.x0.tolist() if self.problem.n <= 10 else _digest(self.problem.x0),
            "bounds": _digest(self.problem.lower, self.problem.upper),
            "constraint sides": _digest(self.problem.cl, self.problem.cu),
        }

    def _state(self, x: Vector, y: Vector) -> checkpoints.State:
        assert self.form is not None
        return checkpoints.State(
            fingerprint=self._fingerprint(),
            x=x,
            y=y,
            history=self.history,
            best_x=self.best_x,
            best_y=self.best_y,
            best_residual=self.best_residual,
            sf=self.form.scaling.sf,
            sc=self.form.scaling.sc,
            start_x=self.start_x,
            diverged=self.diverged if self.diverged is not None else np.zeros(0),
            counts=self.used().as_dict(),
            seconds=self.guard.seconds,
            restorations=self.restorations,
            level=self.level,
            refined_now=self.refined_now,
            unbounded=self.unbounded,
            finishes=self.finishes,
            finish_error=self.finish_error,
            attempt=self.attempt,
            earlier=self.earlier,
            finding=self.finding.violation if self.finding is not None else math.inf,
            least=self.finding.x if self.finding is not None else np.zeros(0),
            memory=self.memory.arrays(),
        )

    def _resume(self, saved: checkpoints.State) -> tuple[Vector, Vector]:
        assert self.form is not None
        if (saved.x.shape, saved.y.shape) != ((self.form.n,), (self.form.m,)):
            raise CheckpointError(
                f"{self.hooks.resume} is not a usable checkpoint of this run: it must hold {self.form.n} variables "
                f"and {self.form.m} multipliers, got {saved.x.size} and {saved.y.size}"
            )
        self.history, self.restorations = saved.history, saved.restorations
        self.best_x, self.best_y, self.best_residual = saved.best_x, saved.best_y, saved.best_residual
        self.diverged = saved.diverged if saved.diverged.size else None
        self.unbounded = saved.unbounded
        self.finishes, self.finish_error = saved.finishes, saved.finish_error
        self.attempt, self.earlier = saved.attempt, saved.earlier
        self.finding = Restoration(saved.least, saved.finding, "infeasible") if saved.least.size else None
        self.memory = Memory.restored(saved.memory)
        self.problem.refine(saved.level)
        self.level, self.refined_now = saved.level, saved.refined_now
        self.best_point = self.problem.at(self.best_x)
        for point in (self.best_point, self.problem.at(self.form.user_x(saved.x))):  # known before: not counted again
            _ = point.f, point.c
            if not saved.refined_now:
                _ = point.grad, point.jac if self.problem.m else None
        self.counts_before, self.counts_start = Counts(**saved.counts), self.problem.counts.copy()
        self.guard = Guard(self.budget, self.used, saved.seconds)
        return saved.x, saved.y

    def _verdict_on_saved(self) -> Status | None:
        """What the interrupted run was to say of its last iteration, had it lived."""
        if not self.history.iterations:
            return None
        if self.history.last.inner_status == ACCELERATED:
            return Status.SOLVED if self._check_best().meets(self.tol) else Status.STUCK
        return self._stop(self.history, InnerStatus[self.history.last.inner_status])

    # -------------------------------------------------------------------------------------------------------- the end

    def _violated(self) -> bool:
        last = self.history.last
        return self.problem.m > 0 and last.user_violation > 10 * self.tol and not self.guard.fired

    def _confirm_unbounded(self) -> bool:
        """Whether the objective falls without end at feasible points too; if not, subproblems may fall further.

        Asked for: a feasible point with an objective as low as in the unbounded subproblem, and an objective that goes
        on falling when the way there from the start is made 4, 16, ..., 4^8 times as long.
        """
        assert self.form is not None
        assert self.diverged is not None
        x, violation = self.diverged, 0.0
        if self.problem.m:
            found = least_violation(self.form, self.settings.inner, x, self.budget.inner_limit)
            if found is None:
                return False
            x, violation, _ = found
        objective, first = self._objective(x), self._objective(self.start_x)
        low = objective < -0.1 * self.unbounded * max(1.0, abs(first))
        self.evidence = (objective, violation)
        rounding = 1e-14 * float(np.max(np.abs(x)))
        if low and violation <= self.tol + rounding and self._falls_on(x, objective):
            return True
        self.unbounded *= 1e3
        return False

    def _falls_on(self, x: Vector, objective: float) -> bool:
        lower, upper = self.problem.lower, self.problem.upper
        for k in range(1, 9):
            ahead = self._objective(np.clip(self.start_x + 4.0**k * (x - self.start_x), lower, upper))
            if not (ahead < objective or ahead == objective == -math.inf):
                return False
            objective = ahead
        return True

    def _keep_least_infeasible(self, finding: Restoration) -> None:
        assert self.form is not None
        self.best_x, self.best_point = finding.x, None
        self.best_y = best_multipliers(self.problem.at(self.best_x))

    def _check_best(self) -> Certificate:
        """The certificate of the best point, from the values that are known there."""
        if self.best_point is not None:
            self.problem.remember(self.best_point)
        return certificate(self.problem, self.best_x, self.best_y)

    def _certify(self, status: Status) -> tuple[Status, Certificate]:
        """The certificate of the best point decides: success without it is not success, with it a failure is none."""
        check = self._check_best()
        out_of_budget = status in (Status.TIME_LIMIT, Status.EVALUATION_LIMIT)
        if out_of_budget and not check.meets(self.tol):
            return status, check  # nothing more is spent on a point that does not come near
        if self._refine(2):
            check = self._check_best()
        if check.meets(self.tol):
            return Status.SOLVED, check
        if self.problem.m and self.problem.n * self.problem.m <= LARGEST_FIT and status is not Status.NON_FINITE:
            fitted = certificate(self.problem, self.best_x, enough=self.tol)
            if fitted.meets(self.tol):
                return Status.SOLVED, fitted
            if not math.isfinite(check.residual) or fitted.residual < 0.5 * check.residual:
                check = fitted
        return (Status.UNCERTIFIED if status is Status.SOLVED else status), check

    def _finish(self, status: Status) -> Result:
        status, check = self._certify(status)
        text = message(status, check, self)
        if self.hooks.say is not None:
            self.hooks.say(text)
        point, counts = self.problem.at(self.best_x), self.used()
        iterations = self.earlier + self.history.iterations
        c = point.c
        row_excess = np.maximum(np.maximum(self.problem.cl - c, c - self.problem.cu), 0.0)
        return Result(
            x=self.best_x.copy(),
            fun=check.objective,
            success=status is Status.SOLVED,
            status=status,
            message=text,
            nit=len(iterations),
            nit_inner=sum(it.inner_iterations for it in iterations),
            **counts.as_dict(),
            jac=point.grad.copy(),
            maxcv=float(np.max(row_excess, initial=0.0)),
            multipliers=self._split(check.multipliers),
            bound_multipliers=check.bound_multipliers,
            certificate=check,
            penalty=iterations[-1].beta if iterations else self._first_penalty(),
            history=[row(it) for it in iterations],
            seconds=self.guard.seconds,
            tol=self.tol,
            inner=self.inner.name if self.form is not None else str(self.settings.inner),
            variant=self.settings.describe(),
            advice=() if status is Status.SOLVED else advice(status, check, self),
        )

    def _first_penalty(self) -> float:
        if self.start.beta is not None:
            return self.start.beta
        return self._penalty().next(self.history) if math.isfinite(self.history.objective) else 1.0

    def _split(self, y: Vector) -> list[Any]:
        """Multipliers per constraint, in the user's order; a number where the user's function returns one."""
        return [float(y[g.start]) if g.scalar else y[g.start : g.stop].copy() for g in self.problem.groups]


def _digest(*arrays: Vector) -> str:
    """A short fingerprint of arrays."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:16]
