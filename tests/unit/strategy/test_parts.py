"""The parts of a run by themselves: the best point, restoration, the look for an endless fall, the last words."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint

import auglag
from auglag import Budget, Status
from auglag.budget import Meter
from auglag.certificate.incumbent import Best, Judge
from auglag.errors import OutOfBudget, StoppedByCallback
from auglag.problems.scaling import Scaling
from auglag.problems.standard_form import StandardForm
from auglag.problems.workspace import Counts
from auglag.report.messages import Ending, advice, message
from auglag.strategy import attempt, beginnings, plan
from auglag.strategy.context import Context
from auglag.strategy.hooks import Hooks, status_of
from auglag.strategy.newton import Watch
from auglag.strategy.restarts import defined_near, penalty_of, place
from auglag.strategy.restoration import least_violation, restore
from auglag.strategy.scales import scale
from auglag.strategy.settings import PRESETS, resolve
from auglag.strategy.state import State
from auglag.strategy.task import Task, WarmStart
from auglag.strategy.tuning import TUNING
from auglag.strategy.unboundedness import look


def circle(**options: Any) -> auglag.Problem:
    """min x0 + x1 on the unit circle: -sqrt 2 at (-1, -1) / sqrt 2, with the multiplier 1 / sqrt 2."""
    return auglag.Problem(
        lambda x: x[0] + x[1],
        [1.0, 0.5],
        jac=lambda x: np.ones(2),
        constraints=NonlinearConstraint(lambda x: x @ x, 1.0, 1.0, jac=lambda x: 2 * x[None, :]),
        **options,
    )


SOLUTION, MULTIPLIER = -np.ones(2) / np.sqrt(2), np.array([1 / np.sqrt(2)])


def no_point() -> auglag.Problem:
    """x'x = -1: the violation is least, 1, at 0."""
    return auglag.Problem(
        lambda x: x[0],
        [0.3, 0.4],
        jac=lambda x: np.array([1.0, 0.0]),
        constraints=NonlinearConstraint(lambda x: x @ x, -1.0, -1.0, jac=lambda x: 2 * x[None, :]),
    )


def form_of(problem: auglag.Problem) -> StandardForm:
    return StandardForm(problem, Scaling.none(problem.m))


def task_of(problem: auglag.Problem, **options: Any) -> Task:
    budget, hooks = Budget(), Hooks()
    meter = Meter(problem.counts, budget, Counts())
    return Task(problem, resolve(**options), WarmStart(problem.x0), 1e-8, budget, hooks, meter)


def begun(task: Task) -> tuple[Context, State]:
    state = State.at_start(task)
    scale(task, state, state.start_x)
    context = Context.of(task, state)
    beginnings.begin(context, state, context.form.start(state.start_x), np.zeros(context.form.m))
    return context, state


# -------------------------------------------------------------------------------- points on the way of Newton's method


def test_points_above_the_target_are_measured_only_if_the_call_does_not_end_at_a_solution() -> None:
    context, state = begun(task_of(circle()))
    watch = Watch(context, state, "newton")
    far, near = np.array([-0.6, -0.8]), np.array([-0.7, -0.714])
    y = context.form.own_y(MULTIPLIER)
    with patch.object(Judge, "measure", autospec=True, side_effect=Judge.measure) as measure:
        assert not watch(far, y, 0.3)
        assert not watch(near, y, 0.02)
        assert measure.call_count == 0
        watch.over()
        assert measure.call_count == 2
    assert state.best.x.tolist() == near.tolist()
    assert state.best.residual < 0.1
    with patch.object(Judge, "measure", autospec=True, side_effect=Judge.measure) as measure:
        assert not watch(far, y, 1e-3)
        assert watch(SOLUTION, y, 1e-16)
        watch.over()
        assert measure.call_count == 1
    assert state.best.x.tolist() == SOLUTION.tolist()


def test_the_certificate_of_the_same_point_and_multipliers_is_made_once_and_again_where_something_changed() -> None:
    problem = circle()
    judge, best = Judge(problem, 1e-6), Best(SOLUTION, MULTIPLIER)
    first = judge.check(best)
    assert judge.measure(SOLUTION.copy(), MULTIPLIER.copy()) is first
    assert judge.measure(SOLUTION, 2.0 * MULTIPLIER).residual > 1.0
    problem.at(SOLUTION).forget_derivatives()
    assert judge.check(best) is not first
    before = judge.check(best)
    problem.measure_in(np.array([100.0, 100.0]), None)
    assert judge.check(best).rounding != before.rounding


# --------------------------------------------------------------------------------------------------- the best point


def test_a_better_residual_is_taken_and_a_worse_one_is_not() -> None:
    judge, best = Judge(circle(), 1e-6), Best(np.zeros(2), np.zeros(1))
    judge.offer(best, 1.0, np.ones(2), np.ones(1))
    judge.offer(best, 2.0, np.zeros(2), np.zeros(1))
    assert (best.residual, best.x.tolist()) == (1.0, [1.0, 1.0])


def test_without_rows_far_from_the_tolerance_the_objective_decides() -> None:
    problem = auglag.Problem(lambda x: x @ x, [1.0], jac=lambda x: 2 * x)
    judge, best = Judge(problem, 1e-6), Best(np.ones(1), np.zeros(0), residual=0.5)
    judge.offer(best, 0.1, np.array([3.0]), np.zeros(0))
    assert best.x.tolist() == [1.0]
    judge.offer(best, 0.9, np.array([0.5]), np.zeros(0))
    assert best.x.tolist() == [0.5]


def test_the_certificate_decides_what_a_run_may_say() -> None:
    judge = Judge(circle(), 1e-6)
    good, bad = Best(SOLUTION, MULTIPLIER), Best(np.array([0.6, 0.8]), MULTIPLIER)
    assert judge.solves(good)
    assert not judge.solves(bad)
    assert Status.STUCK.certified(judge.final(good, Status.STUCK, 0).meets(1e-6)) is Status.SOLVED
    assert Status.SOLVED.certified(judge.final(bad, Status.SOLVED, 0).meets(1e-6)) is Status.UNCERTIFIED


def test_multipliers_are_fitted_at_the_end_where_those_of_the_run_are_poor() -> None:
    assert Judge(circle(), 1e-6).final(Best(SOLUTION, np.zeros(1)), Status.STUCK, 0).meets(1e-6)


def test_after_a_limit_nothing_more_is_spent_on_a_point_that_does_not_come_near() -> None:
    problem = circle()
    judge, best = Judge(problem, 1e-6), Best(np.array([0.6, 0.8]), MULTIPLIER)
    judge.check(best)
    before = problem.counts.copy()
    judge.final(best, Status.TIME_LIMIT, 0)
    assert problem.counts == before


# ---------------------------------------------------------------------------------------------------- restoration


def test_restoration_finds_a_feasible_point() -> None:
    found = restore(
        form := form_of(circle()),
        "auto",
        [np.array([3.0, 1.0])],
        partial(Judge(form.problem, 1e-8).excess, tol=1e-8),
        500,
        TUNING,
    )
    assert found.verdict == "feasible"
    assert found.x @ found.x == pytest.approx(1.0)


def test_restoration_shows_that_there_is_none_and_returns_the_least_violation() -> None:
    found = restore(
        form := form_of(no_point()),
        "auto",
        [np.array([0.3, 0.4])],
        partial(Judge(form.problem, 1e-8).excess, tol=1e-8),
        500,
        TUNING,
    )
    assert found.verdict == "infeasible"
    assert found.violation == pytest.approx(1.0)
    np.testing.assert_allclose(found.x, 0.0, atol=1e-4)


def test_restoration_remembers_where_the_start_leads() -> None:
    form, known = form_of(no_point()), []
    excess = partial(Judge(form.problem, 1e-8).excess, tol=1e-8)
    start, calls, found = np.array([0.3, 0.4]), [], []
    for x in (np.array([0.1, 0.2]), np.array([0.2, 0.1])):
        before = form.problem.counts.constr_njev
        found.append(restore(form, "auto", [x, start], excess, 500, TUNING, known=known))
        calls.append(form.problem.counts.constr_njev - before)
    assert [one.verdict for one in found] == ["infeasible"] * 2
    assert len(known) == 2  # from the start, and from beside it
    assert calls[1] < calls[0]


def test_where_the_constraints_are_not_defined_nothing_is_learnt() -> None:
    problem = auglag.Problem(
        lambda x: x[0], [1.0], constraints=NonlinearConstraint(lambda x: np.log(x), 0.0, 0.0), bounds=[(-5, 5)]
    )
    with np.errstate(invalid="ignore"):
        assert least_violation(form_of(problem), "auto", np.array([-1.0]), 50, TUNING) is None
        found = restore(
            form := form_of(problem),
            "auto",
            [np.array([-1.0])],
            partial(Judge(form.problem, 1e-8).excess, tol=1e-8),
            50,
            TUNING,
        )
    assert found.verdict != "infeasible"


# -------------------------------------------------------------------------------------------------- an endless fall


def fall(problem: auglag.Problem, diverged: list[float], depth: float = 1e10) -> bool:
    found = look(
        form_of(problem),
        "auto",
        start=problem.x0,
        diverged=np.array(diverged),
        depth=depth,
        tol=1e-8,
        limit=200,
        tuning=TUNING,
    )
    return found.endless


def test_a_fall_without_end_is_told_from_a_deep_minimum() -> None:
    assert fall(auglag.Problem(lambda x: -x[0], [0.0], jac=lambda x: -np.ones(1)), [1e11])
    deep = auglag.Problem(lambda x: -x[0] + 1e-13 * x[0] ** 2, [0.0], jac=lambda x: -np.ones(1) + 2e-13 * x)
    assert not fall(deep, [2e12])


def test_constraints_that_end_a_fall_further_on_are_seen() -> None:
    row = NonlinearConstraint(lambda x: x, -np.inf, 1e15, jac=lambda x: np.eye(1))
    problem = auglag.Problem(lambda x: -x[0], [0.0], jac=lambda x: -np.ones(1), constraints=row)
    assert not fall(problem, [1e11])


# ------------------------------------------------------------------------------------------------- starts, contexts


def test_a_start_away_from_x0_is_random_but_the_same_every_time() -> None:
    form, start = form_of(circle()), TUNING.starts[4]
    first, again = (place(start, form, "auto", np.ones(2), 4, TUNING) for _ in range(2))
    assert first.tolist() == again.tolist() != [1.0, 1.0]
    feasible = place(TUNING.starts[2], form, "auto", np.array([2.0, 1.0]), 2, TUNING)
    assert feasible @ feasible == pytest.approx(1.0)


def test_a_start_with_a_larger_penalty_multiplies_the_first_one_only() -> None:
    rule = auglag.Adaptive(initial=2.0)
    raised = penalty_of(rule, TUNING.starts[3])
    history = auglag.History(1.0, 1.0)
    assert raised.next(history) == 20.0
    assert penalty_of(rule, None) is rule


def test_a_start_where_nothing_is_defined_has_no_point_near_it() -> None:
    assert defined_near(auglag.Problem(lambda x: np.nan, [1.0]), np.ones(1)) is None
    assert defined_near(circle(), np.ones(2)).tolist() == [1.0, 1.0]


def test_what_holds_in_an_attempt_follows_from_problem_and_settings() -> None:
    context, state = begun(task_of(circle()))
    assert context.newton
    assert context.models
    assert context.restarts == 7
    assert context.aim == TUNING.newton_aim
    alone, _ = begun(task_of(circle(), preset="paper"))
    assert not alone.newton
    assert alone.restarts == 0
    assert alone.aim == 1.0
    again = context.again(replace(state, attempt=4))
    assert again.form is context.form
    assert again.rules.penalty.next(state.history) == 10 * context.rules.penalty.next(state.history)


def test_the_first_things_a_run_does_are_those_of_the_plan() -> None:
    context, state = begun(task_of(circle()))
    assert plan.next_phase(context.standing(state), TUNING) == plan.Measure()
    attempt.measure(context, state)
    assert plan.next_phase(context.standing(state), TUNING) == plan.Newton(2)
    attempt.subproblem(context, state, 50)
    assert len(state.history.iterations) == 1
    assert state.between.error is None  # it belongs to the point before


# --------------------------------------------------------------------------------------------------- hooks and words


@pytest.mark.parametrize(
    ("signal", "status"),
    [
        (OutOfBudget("seconds"), Status.TIME_LIMIT),
        (OutOfBudget("evaluations"), Status.EVALUATION_LIMIT),
        (KeyboardInterrupt(), Status.INTERRUPTED),
        (StoppedByCallback(), Status.STOPPED),
    ],
)
def test_a_run_that_is_cut_short_says_by_what(signal: BaseException, status: Status) -> None:
    def course() -> Status:
        raise signal

    assert status_of(course) is status


def test_a_callback_stops_a_run_by_true_or_by_stop_iteration() -> None:
    def raises(_: int) -> None:
        raise StopIteration

    Hooks(callback=lambda _: None).call(1)
    for callback in (lambda _: True, raises):
        with pytest.raises(StoppedByCallback):
            Hooks(callback=callback).call(1)


def test_a_resumed_run_is_charged_what_was_spent_before() -> None:
    problem = circle()
    meter = Meter(problem.counts, Budget(evaluations=10), Counts())
    problem.at(np.ones(2)).f
    meter.resumed(Counts(nfev=9), seconds=2.0)
    assert meter.used().nfev == 9
    assert meter.guard.seconds >= 2.0
    problem.at(np.zeros(2)).f
    with pytest.raises(OutOfBudget):
        meter.guard()


def ending(status: Status, **changes: Any) -> Ending:
    problem = no_point()
    check = Judge(problem, 1e-6).measure(np.zeros(2), np.zeros(1))
    base = Ending(
        problem=problem, settings=PRESETS["default"], tuning=TUNING, tol=1e-6, scale_free=math.inf, status=status,
        check=check,
        x=np.zeros(2), iterations=(), last=(), attempt=0, begun=True, conflict="", evidence=None, inner="qp",
        traits=None, penalty=1.0, counts=Counts(), seconds=0.0,
    )  # fmt: skip
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("end", "words", "tip"),
    [
        (ending(Status.INFEASIBLE), "The least violation found is 1; most violated", "infeasibility was only shown"),
        (ending(Status.INFEASIBLE, conflict="Row 1 wants more."), "no x satisfies all constraints. Row 1", "check the"),
        (
            ending(Status.UNBOUNDED, evidence=(-1e12, 0.0)),
            "f + g is -1e+12 and the violation 0",
            "check the sign of fun",
        ),
        (ending(Status.TIME_LIMIT), "Residual 2.00e+00 > tol 1e-06", "a larger Budget"),
        (ending(Status.NON_FINITE), "At x0: the gradient is not finite", "an x0 at which fun"),
        (ending(Status.UNCERTIFIED), "Residual", "return the same values when called twice"),
        (ending(Status.STUCK, begun=False), "Residual", ""),
    ],
)
def test_the_last_words_name_what_matters_and_what_to_try(end: Ending, words: str, tip: str) -> None:
    assert words in message(end)
    assert tip in " ".join(advice(end))


def test_rows_are_there_once_when_the_budget_ends_while_a_start_is_looked_for() -> None:
    rows = [
        NonlinearConstraint(lambda x: x @ x, 1.0, 1.0, jac=lambda x: 2 * x[None, :]),
        NonlinearConstraint(lambda x: x[0] * x[1], 2.0, 2.0, jac=lambda x: x[None, ::-1]),
    ]
    for limit in range(30, 60, 3):
        result = auglag.minimize(
            lambda x: x[0] + x[1],
            [1.0, 1.0],
            jac=lambda x: np.ones(2),
            constraints=rows,
            budget=Budget(evaluations=limit),
        )
        numbers = [(row["attempt"], row["k"]) for row in result.history]
        assert len(numbers) == len(set(numbers)) == result.nit


def test_a_rule_is_asked_once_for_each_subproblem() -> None:
    class Counting(auglag.PenaltyRule):
        calls = 0

        def next(self, history: auglag.History) -> float:
            Counting.calls += 1
            return 10.0

    result = auglag.minimize(circle(), penalty=Counting(), acceleration=False, tol=1e-6)
    assert Counting.calls == result.nit
