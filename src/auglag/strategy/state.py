"""What a run is about (`Task`), what holds during one attempt (`Context`), and everything that evolves (`State`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from auglag._norms import norm
from auglag._typing import Vector
from auglag.algorithm import algencan, formulas
from auglag.algorithm.outer import Algorithm1, Ask
from auglag.algorithm.rules import Constant, Geometric, History, Iteration, SupNorms, ToleranceRule
from auglag.algorithm.status import Status
from auglag.algorithm.stopping import Stopping
from auglag.budget import Budget, Meter
from auglag.certificate import Certificate
from auglag.certificate.incumbent import Best, Judge, objective
from auglag.derivatives.noise import Precision
from auglag.errors import CheckpointError
from auglag.inner import LBFGSB, InnerSolver, InnerStatus, QPModel, accelerated, choose
from auglag.inner import tuning as inner_tuning
from auglag.inner.qp import curvature_for
from auglag.interior import Arrival, Barrier
from auglag.kkt import Curvature, Memory, Sets
from auglag.persist import checkpoint
from auglag.problems import units
from auglag.problems.base import AbstractProblem, Counts
from auglag.problems.jacobians import kind
from auglag.problems.presolved import Presolved
from auglag.problems.standard_form import Scaling, StandardForm
from auglag.strategy import tuning as tunings
from auglag.strategy.hooks import Hooks
from auglag.strategy.plan import DOUBTFUL, UNCHECKED, End, Standing, suspicion
from auglag.strategy.restarts import penalty_of
from auglag.strategy.restoration import LeastViolation, Restoration
from auglag.strategy.settings import Settings
from auglag.strategy.sqp import SQP
from auglag.strategy.tuning import Start, Tuning


@final
@dataclass(frozen=True, slots=True)
class WarmStart:
    """Where to start: x, multipliers in the user's units, and the first penalty (None: as the rule says)."""

    x: Vector
    y: Vector | None = None
    beta: float | None = None


@final
@dataclass(frozen=True, slots=True)
class Task:
    """One run: the problem, the method, and what it may spend."""

    problem: AbstractProblem  #: perhaps presolved
    settings: Settings
    start: WarmStart
    tol: float
    budget: Budget
    hooks: Hooks
    meter: Meter
    conflict: str = ""  #: why no point satisfies all rows, where that is obvious
    scale_free: float = math.inf  #: tolerance of the scale-free test
    x_scale: Vector | None = None  #: units of the variables that the user stated
    check_derivatives: bool = False  #: compare those that the user supplied with differences at the start
    tuning: Tuning = field(default_factory=lambda: tunings.TUNING)
    judge: Judge = field(init=False)  #: measures points on the original problem

    def __post_init__(self) -> None:
        object.__setattr__(self, "judge", Judge(self.problem, self.tol, self.scale_free))

    @property
    def original(self) -> AbstractProblem:
        """The user's problem, with all of its rows."""
        return self.judge.original

    def fingerprint(self) -> dict[str, Any]:
        """What must be the same for a saved state to fit."""
        problem = self.original
        return {
            "n": problem.n,
            "m": problem.m,
            "tol": self.tol,
            "scale_free": self.scale_free,
            "x_scale": None if self.x_scale is None else checkpoint.digest(self.x_scale),
            "settings": checkpoint.described(self.settings),
            "x0": problem.x0.tolist() if problem.n <= 10 else checkpoint.digest(problem.x0),
            "bounds": checkpoint.digest(problem.lower, problem.upper),
            "constraint sides": checkpoint.digest(problem.cl, problem.cu),
        }


@final
@dataclass(slots=True)
class Newtons:
    """What is remembered of Newton's method and interior points during one attempt."""

    origin: Vector | None = None  #: where the attempt began; None before the KKT error is first measured
    failures: int = 0  #: calls in a row that did not halve the error
    tried_at: float = math.inf  #: the error that the last call began with
    steps: int = 0  #: made since the last subproblem
    inside: bool = False  #: interior points were tried
    in_vain: int = 0  #: calls that reached tol and did not halve the smallest error of such calls
    nearest: float = math.inf  #: the smallest error of calls that reached tol
    kept: float = math.inf  #: the smallest error of a point that was offered as the best so far


@final
@dataclass(slots=True)
class Doubts:
    """What is known about two doubts: whether the objective falls without end, whether there is a feasible point."""

    depth: float  #: relative depth below which a subproblem counts as unbounded
    diverged: Vector | None = None  #: where the last subproblem fell below it, in the user's variables
    evidence: tuple[float, float] | None = (
        None  #: objective and violation of a very low point that `CheckUnbounded` found
    )
    endless: Vector | None = None  #: that point, where the objective was shown to fall without end
    restorations: int = 0  #: made in this attempt
    least: Restoration | None = None  #: the least violated point, where infeasibility was shown
    widened: bool = False  #: feasible points were looked for far away, which is done once in a run
    feasible: Vector | None = None  #: a feasible point that restoration found, in the user's variables
    #: Where minimising the violation leads from x_1 and from beside it, as far as restoration has asked.
    from_start: list[LeastViolation] = field(default_factory=list)


@final
@dataclass(slots=True)
class SecondOrder:
    """What is known about the curvature at a solution, and the solution that was left for a better one."""

    verdict: str = UNCHECKED  #: on the best point: one of `plan.VERDICTS`
    departures: int = 0  #: solutions left so far
    failures: int = 0  #: departures in a row that found nothing better
    left: bool = False  #: a solution was left for a better one
    steps: int = 0  #: made after departures before the last, inner and accelerating ones
    kept: Best | None = None  #: the one left last, as long as no better one was found
    kept_verdict: str = UNCHECKED
    penalty: float = 1.0  #: multiplies the first penalty after the last departure


@final
@dataclass(slots=True)
class Between:
    """What was found since the last subproblem."""

    verdict: Status | None = None  #: of the stopping test
    settled: str = ""  #: what `Restore` or `CheckUnbounded` found
    error: float | None = None  #: the KKT error at (x, y), once it was measured
    arrival: Arrival | None = None  #: where interior points ended
    tried: bool = False  #: Newton's method was called
    asked: Ask | None = None  #: penalty and tolerance of the subproblem to come, once they were asked for


@final
@dataclass(slots=True)
class State:
    """Everything that evolves. A checkpoint is this, field by field, right after an outer iteration."""

    x: Vector  #: in the variables of the form: the free ones, then explicit slacks
    y: Vector  #: for the next subproblem, scaled
    best: Best
    start_x: Vector  #: the user's x_1
    scaling: Scaling
    history: History  #: of this attempt
    doubts: Doubts
    newtons: Newtons = field(default_factory=Newtons)
    memory: Memory = field(default_factory=Memory)  #: curvature and active sets, which one step hands to the next
    second: SecondOrder = field(default_factory=SecondOrder)
    attempt: int = 0  #: 0 from x0, then the number of the restart
    earlier: list[Iteration] = field(default_factory=list)  #: the rows of earlier attempts
    first_end: Status | None = None  #: how attempt 0 ended
    ends: list[End] = field(default_factory=list)  #: of all attempts so far, none of which found a solution
    repeats: int = 0  #: of those that began elsewhere, the ones that ended where an earlier one did
    sizes: Vector | None = None  #: of the variables, at x_1 (`units.typical`)
    first_objective: float = math.nan  #: f + g at x_1
    first_rows: float = 0.0  #: ||c|| at x_1
    accuracy: float = 0.0  #: what errors of the functions beyond double precision make of the residual at x
    precision: Precision | None = None  #: of the functions, as far as it was estimated
    refined_now: bool = False  #: the last iteration raised the accuracy of differences
    counts: Counts = field(default_factory=Counts)  #: calls so far; only updated when a checkpoint is saved
    seconds: float = 0.0  #: time so far; only updated when a checkpoint is saved
    steps: int = 0  #: steps of all kinds, outer iterations not counted
    #: All steps and outer iterations: the fields of `Step`.
    trail: list[tuple[str, int, int, float]] = field(default_factory=list, metadata={"saved": False})
    between: Between = field(default_factory=Between, metadata={"saved": False})

    @staticmethod
    def at_start(task: Task) -> State:
        """Before anything was evaluated."""
        x, m = task.start.x, task.problem.m
        best, nothing = Best(x, np.zeros(m)), History(math.nan, math.nan)
        return State(x, np.zeros(m), best, x, Scaling.none(m), nothing, Doubts(inner_tuning.TUNING.unbounded))

    @property
    def iterations(self) -> list[Iteration]:
        """The rows of all attempts."""
        return self.earlier + self.history.iterations


#: The status of a row of the history that Newton's method ended.
ACCELERATED = "ACCELERATED"
#: What a checkpoint may hold.
CLASSES = (
    Best, Counts, Doubts, End, History, Iteration, LeastViolation, Memory, Newtons, Precision, Restoration, Scaling,
    SecondOrder, Sets, State, Status, SupNorms,
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class Context:
    """What holds during one attempt: the task, its scaled form, the inner solver, and the rules of Algorithm 1."""

    task: Task
    form: StandardForm
    inner: InnerSolver
    rules: Algorithm1
    newton: bool  #: Newton's method is tried between subproblems
    models: bool  #: the inner solver is "qp": high accuracy costs little, and restarts are allowed
    curvature: Curvature
    aim: float  #: the fraction of tol that the loop aims at

    @staticmethod
    def of(task: Task, state: State) -> Context:
        """The context of the state's attempt. The Jacobian at x0 says whether matrices are dense or sparse."""
        problem, settings, x = task.problem, task.settings, state.start_x
        form = StandardForm(problem, state.scaling, slacks=settings.slacks)
        if problem.m:
            form.jacobian = kind(problem.at(x).jac)
        elif (
            problem.has_hess and problem.n > inner_tuning.TUNING.dense_size
        ):  # then the Hessian says whether matrices are sparse
            form.jacobian = kind(problem.at(x).hess(np.zeros(0)))
        elif problem.partly_curved and problem.n > inner_tuning.TUNING.dense_size:
            form.jacobian = kind(problem.known_curvature(x))
        traits = form.traits
        inner = choose(settings.inner, traits, models=settings.acceleration is not None)
        named = isinstance(inner, LBFGSB) and settings.inner != "auto"  # a user who names it wants it alone
        newton = settings.acceleration is not None and not named and accelerated(inner, traits)
        models = newton and isinstance(inner, QPModel)
        aim = min(settings.aim, task.tuning.newton_aim) if models else settings.aim
        if not problem.m:  # the inner tolerance is the tolerance; Newton's last steps cost little
            aim = task.tuning.newton_aim if isinstance(inner, QPModel) else 1.0
        rules = _rules(task, state, aim)
        return Context(task, form, inner, rules, newton, models, curvature_for(traits), aim)

    def again(self, state: State) -> Context:
        """For another attempt, whose scaling and first penalty may be others."""
        form = self.form
        if state.scaling is not form.scaling:
            form = StandardForm(self.task.problem, state.scaling, slacks=self.task.settings.slacks)
            form.jacobian = self.form.jacobian
        return replace(self, form=form, rules=_rules(self.task, state, self.aim))

    @property
    def sqp(self) -> SQP:
        """Newton's method on the KKT conditions, used where `newton` says so."""
        return self.task.settings.acceleration or SQP()

    @property
    def barrier(self) -> Barrier:
        """Interior points, used where the plan says so."""
        return self.sqp.barrier or Barrier()

    @property
    def restarts(self) -> int:
        """How many starts there may be beside x0."""
        return min(self.task.settings.restarts, self.task.tuning.most_restarts) if self.models else 0

    def goal(self, state: State) -> float:
        """The residual that can be reached: tol, or what the errors of the functions make of it."""
        return max(self.task.tol, state.accuracy)

    def near(self, state: State) -> float:
        """The residual from which on a point may be a solution, and differences have to be central."""
        return max(self.task.tuning.near_tol * self.task.tol, state.accuracy)

    @property
    def newton_first(self) -> bool:
        """Whether an attempt begins with Newton's method, which offers its start as the best point so far."""
        return self.newton and self.curvature.dense and self.form.m > 0 and self.task.start.y is None

    def target(self, state: State) -> float:
        """The error that Newton's method aims at."""
        tol, tuning = self.task.tol, self.task.tuning
        return max(tuning.newton_aim * tol, min(tol, tuning.newton_least), state.accuracy)

    def compared(self, check: Certificate, own: float) -> float:
        """What points are compared by, and the stopping test looks at: R in the user's units; or the error in the units
        of the form, `own`, if these are smaller than the user's and it is larger."""
        residual = check.weighed(self.task.tol)
        return max(residual, own) if self.form.magnified else residual

    @property
    def demands(self) -> tuple[float, float]:
        """`History.negligible` and `History.optimal`."""
        task, form = self.task, self.form
        if task.settings.sup_norms:
            return algencan.tolerances(task.tol, form.n, form.m, form.scaling.sf)
        return task.settings.negligible * task.tol, 0.0

    def rows_left(self, state: State) -> float:
        """Outer iterations that the budget leaves."""
        return self.task.budget.outer_limit - len(state.iterations)

    def user_y(self, z: Vector, y: Vector, *, known: bool = True) -> Vector:
        """The user's multipliers of all rows; with `known=False` of those presolve kept (others need derivatives)."""
        own, problem = self.form.user_y(y), self.task.problem
        return problem.user_y(self.form.user_x(z), own) if known and isinstance(problem, Presolved) else own

    def standing(self, state: State) -> Standing:
        """How things stand, for `plan.next_phase`."""
        task, between, newtons = self.task, state.between, state.newtons
        history = state.history
        last = history.last if history.iterations else None
        constrained, steps = task.problem.m > 0, steps_of(history.iterations)
        departed = state.second.steps + (steps if state.second.kept is not None else 0)
        violated = constrained and last is not None and not task.meter.guard.fired and self._violated(state, last)
        return Standing(
            constrained=constrained,
            sparse=not self.curvature.dense,
            exact=self.curvature.exact,
            newton=self.newton,
            patience=self.sqp.patience,
            models=self.models,
            interior=self.sqp.barrier is not None,
            restoration=task.settings.restoration,
            restarts=self.restarts,
            attempt=state.attempt,
            departed=departed if state.second.kept is not None else None,
            found_in=steps_of(state.iterations) - departed,
            inner_limit=task.budget.inner_limit,
            first_limit=task.settings.first_limit,
            k=history.k,
            verdict=between.verdict,
            ended=last.inner_status if last is not None else "",
            beta=last.beta if last is not None else 0.0,
            violated=violated,
            depth=state.doubts.depth,
            restorations=state.doubts.restorations,
            settled=between.settled,
            iterations=history.inner_iterations,
            steps=steps,
            error=between.error,
            failures=newtons.failures,
            tried_at=newtons.tried_at,
            tried=between.tried,
            inside=newtons.inside,
            arrived=between.arrival is not None,
            nearer=between.arrival is not None and between.error is not None and between.arrival.error < between.error,
            blocked=between.arrival is not None and between.arrival.blocked is not None,
        )

    def _violated(self, state: State, last: Iteration) -> bool:
        """Whether the last point, or the best one where the last is of no use, violates the constraints by much."""
        goal, known = self.goal(state), math.isfinite(state.best.residual)
        times = last.user_violation / goal
        if state.between.settled not in ("", "bounded", "unbounded"):  # restoration was asked, and may have moved x
            return True
        if state.between.verdict in DOUBTFUL and (known or last.usable):
            times = self.task.judge.excess(self.form.user_x(state.x) if last.usable else state.best.x, goal)
        return bool(formulas.clearly_violated(times, 1.0))

    def stopping(self, standing: Standing, state: State) -> Stopping:
        """The test after every iteration."""
        task, goal = self.task, self.goal(state)
        doubt, largest = suspicion(standing, task.tuning), task.settings.largest_penalty
        aim = self.aim if goal == task.tol else 1.0
        settings = task.settings
        return Stopping(
            goal,
            task.budget,
            standing.constrained,
            aim,
            largest,
            self.models,
            doubt,
            gives_up=settings.gives_up,
            sup_norms=settings.sup_norms,
        )


def scale(task: Task, state: State, x: Vector, *, closely: bool = False) -> None:
    """Scale variables, f and rows as the settings say, from what is known at the user's x."""
    if state.sizes is None:
        sizes = units.typical(task.problem.at(x), closely=True)
        state.sizes = sizes if task.x_scale is None else np.fmax(sizes, task.x_scale)
    found = scaling_at(task, x, closely=closely)
    measure_in(task, state.sizes, found.sx)  # finite differences may become better by it
    changed = task.problem.differenced or found.sx is not None
    state.scaling = scaling_at(task, x, closely=closely, sx=found.sx) if changed else found


def scaling_at(task: Task, x: Vector, *, closely: bool = False, sx: Vector | None = None) -> Scaling:
    """The scaling that follows from values and derivatives at x; `closely`: with an eye for sizes a bit unusual."""
    settings, problem, point = task.settings, task.problem, task.problem.at(x)
    sx = task.x_scale if sx is None else sx
    if sx is None and settings.scaling and settings.units and problem.g is None:
        sx = units.factors(units.typical(point, closely=closely), closely=closely)
    sx = None if sx is None or (sx == 1.0).all() else sx
    if settings.scaling:
        scaling = Scaling.from_gradients(
            point, sx, closely=closely, at_most=settings.largest_gradient, enlarge=settings.units
        )
    else:
        scaling = Scaling(1.0, np.ones(problem.m), sx)
    return replace(scaling, sc=scaling.sc * np.sqrt(settings.weights)) if settings.weights else scaling


def measure_in(task: Task, sizes: Vector, unit: Vector | None) -> None:
    """Tell the problem, and the one behind it, how large the variables are."""
    task.problem.measure_in(sizes, unit)
    if task.original is not task.problem:
        task.original.measure_in(sizes, unit)


def steps_of(rows: Sequence[Iteration]) -> int:
    """Inner iterations and accelerating steps."""
    return sum(row.inner_iterations + row.acceleration_steps * (row.inner_status != ACCELERATED) for row in rows)


def _rules(task: Task, state: State, aim: float) -> Algorithm1:
    """The rules of an attempt: the settings', with a larger first penalty where its start asks for one."""
    settings = task.settings
    start = task.tuning.start_of(state.attempt, settings.restarts) if state.attempt else None
    if state.second.kept is not None:
        start = Start("", penalty=state.second.penalty)
    tolerance = _tolerance(task, aim, state.scaling, state.accuracy)
    return Algorithm1(penalty_of(settings.penalty, start), settings.dual, tolerance)


def _tolerance(task: Task, aim: float, scaling: Scaling, accuracy: float) -> ToleranceRule:
    """The rule given, or a geometric sequence that ends where the stopping test is sure to be met."""
    tuning, unit = task.tuning, scaling.sf
    if scaling.sx is not None:
        unit *= float(np.min(scaling.sx))
    target = tuning.tolerance_share * max(aim * (task.tol * min(1.0, unit)), tuning.refined_accuracy * accuracy * unit)
    if task.problem.m == 0:
        return Constant(target)
    if task.settings.tolerance is not None:
        return task.settings.tolerance
    return Geometric(first=max(formulas.FIRST_TOLERANCE, target), ratio=formulas.TOLERANCE_RATIO, floor=target)


def _require_size(task: Task, name: str, values: Vector, size: int) -> None:
    if values.shape != (size,):
        path = task.hooks.resume
        raise CheckpointError(
            f"{path} is not a usable checkpoint of this run: {name} must have {size} entries, got shape {values.shape}"
        )


def _require_same_functions(task: Task, saved: State) -> None:
    """The values at x_1 are those of the run that was saved, but for errors of the functions."""
    problem, x = task.problem, saved.start_x
    known, found = (saved.first_objective, saved.first_rows), (objective(problem, x), norm(problem.at(x).c))
    noise = (0.0, 0.0) if saved.precision is None else (saved.precision.f, norm(saved.precision.c))
    for what, before, now, error in zip(("fun", "the norm of the constraints"), known, found, noise, strict=True):
        if not abs(now - before) <= task.tuning.same_values * abs(before) + task.tuning.same_errors * error:
            raise CheckpointError(
                f"{task.hooks.resume} belongs to another problem: {what} was {before:.6g} at its start and is {now:.6g}"
            )


def restored(task: Task, saved: State) -> tuple[Context, State]:
    """The context of a state from a checkpoint, with everything in place to go on."""
    n, m = task.problem.n, task.problem.m
    sizes = (("start_x", saved.start_x, n), ("best.x", saved.best.x, n), ("scaling", saved.scaling.sc, m))
    for name, values, size in sizes:
        _require_size(task, name, values, size)
    sx = saved.scaling.sx
    if sx is not None:
        _require_size(task, "scaling.sx", sx, n)
    if not (saved.scaling.sf > 0.0 and (saved.scaling.sc > 0.0).all() and (sx is None or (sx > 0.0).all())):
        raise CheckpointError(f"{task.hooks.resume} is not a usable checkpoint: scaling must be positive")
    for it in saved.iterations:
        if not 0.0 < it.beta < math.inf or it.inner_status not in (ACCELERATED, *InnerStatus.__members__):
            raise CheckpointError(f"{task.hooks.resume} is not a usable checkpoint: its history has {it!r:.200}")
    if saved.sizes is None:
        raise CheckpointError(f"{task.hooks.resume} is not a usable checkpoint: it has no sizes of the variables")
    _require_size(task, "sizes", saved.sizes, n)
    measure_in(task, saved.sizes, sx)
    context = Context.of(task, saved)
    form, problem, best = context.form, task.problem, saved.best
    own = [("x", saved.x, form.n), ("y", saved.y, form.m), ("best.y", best.y, form.m)]
    if saved.second.kept is not None:
        own += [("kept.x", saved.second.kept.x, n), ("kept.y", saved.second.kept.y, form.m)]
    for name, values, size in own:
        _require_size(task, name, values, size)
    task.original.workspace.precision = saved.precision
    _require_same_functions(task, saved)
    problem.refine(best.level)
    best.point = problem.at(best.x)
    points = [best.point, problem.at(form.user_x(saved.x))]
    if saved.second.kept is not None:
        saved.second.kept.point = problem.at(saved.second.kept.x)
        points.append(saved.second.kept.point)
    for point in points:  # known before: not counted again
        _ = point.f, point.c
        if not saved.refined_now:
            _ = point.grad, point.jac if problem.m else None
    task.meter.resumed(saved.counts, saved.seconds)
    return context, saved
