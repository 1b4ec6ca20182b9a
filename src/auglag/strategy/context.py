"""What holds during one attempt, and how things stand in it: what the phases and the plan are told."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm import algencan, formulas
from auglag.algorithm.history import Iteration
from auglag.algorithm.outer import Algorithm1
from auglag.algorithm.rules import Constant, Geometric, ToleranceRule
from auglag.algorithm.stopping import Stopping
from auglag.certificate import Certificate
from auglag.inner import LBFGSB, InnerSolver, QPModel, accelerated, choose
from auglag.inner import tuning as inner_tuning
from auglag.inner.qp import curvature_for
from auglag.interior import Barrier
from auglag.kkt import Curvature
from auglag.problems.jacobians import kind
from auglag.problems.presolved import Presolved
from auglag.problems.scaling import Scaling
from auglag.problems.standard_form import StandardForm
from auglag.strategy.plan import DOUBTFUL, Standing, suspicion
from auglag.strategy.restarts import penalty_of
from auglag.strategy.sqp import SQP
from auglag.strategy.state import State, steps_of
from auglag.strategy.task import Task
from auglag.strategy.tuning import Start


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
        arrival = between.arrival
        lost = arrival is not None and arrival.slow and arrival.error > task.tuning.interior_error
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
            arrived=arrival is not None,
            nearer=arrival is not None and between.error is not None and arrival.error < between.error,
            blocked=arrival is not None and arrival.blocked is not None,
            falls=arrival is not None and arrival.ray is not None,
            lost=lost,
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
