"""Points at which functions are not defined or raise, and the best point of all that were seen."""

from __future__ import annotations

import math

import numpy as np
import pytest

import auglag
from auglag import Budget, EvaluationError, Status, minimize
from auglag.algorithm.rules import DualRule, PenaltyRule
from helpers.runs import assert_best_of_history, known, rosenbrock

# ------------------------------------------------------------------------------------------------------- holes, errors


class TestUndefined:
    @pytest.mark.parametrize("how", ["nan", "inf", "raise"])
    @pytest.mark.parametrize("inner", ["lbfgsb", "panoc", "spectral"])
    def test_a_search_that_steps_outside_the_domain_steps_back(self, how, inner):
        outside = []

        def fun(x):
            if x[0] <= 0:
                outside.append(1)
                if how == "raise":
                    raise EvaluationError("log")
                return math.nan if how == "nan" else math.inf
            return -math.log(x[0]) + 1e3 * x[0] + x[1] ** 2

        def grad(x):
            return np.array([-1 / x[0] + 1e3, 2 * x[1]])

        con = {"type": "eq", "fun": lambda x: x[1] - 2, "jac": lambda x: np.array([0.0, 1.0])}
        res = minimize(fun, [1.0, 0.0], jac=grad, constraints=con, inner=inner, scaling=False)
        assert res.success, res.explain()
        np.testing.assert_allclose(res.x, [1e-3, 2], atol=1e-6)
        assert outside, "the premise: the first step leaves the domain"

    def test_an_evaluation_error_in_a_constraint_steps_back_too(self):
        def con(x):
            if x[0] <= 0:
                raise EvaluationError("sqrt")
            return math.sqrt(x[0]) - 0.01

        res = minimize(lambda x: 100 * x[0], [4.0], constraints={"type": "ineq", "fun": con})
        assert res.success, res.explain()
        assert res.x[0] == pytest.approx(1e-4, abs=1e-6)

    def test_a_run_into_a_singularity_is_not_success(self):
        with np.errstate(all="ignore"):
            res = minimize(lambda x: np.log(x[0]) if x[0] > 0 else np.nan, [1.0])
        assert not res.success
        assert res.status in (Status.UNBOUNDED, Status.NON_FINITE, Status.STUCK)
        assert np.isfinite(res.x).all()
        assert res.x[0] > 0

    def test_a_minimum_that_hides_in_a_hole_is_not_success(self):
        res = minimize(lambda x: np.nan if abs(x[0]) < 0.5 else x[0] ** 2, [2.0])
        assert not res.success
        assert abs(res.x[0]) >= 0.5
        assert np.isfinite(res.fun)

    def test_other_exceptions_propagate_untouched(self):
        class Broken(RuntimeError):
            pass

        calls = []

        def fun(x):
            calls.append(1)
            if len(calls) == 30:
                raise Broken("the mesh generator failed")
            return rosenbrock(x)

        with pytest.raises(Broken, match="the mesh generator failed"):
            minimize(fun, [-1.2, 1.0], constraints={"type": "eq", "fun": lambda x: x @ x - 1})

    def test_after_an_exception_the_same_problem_object_can_be_used_again(self):
        calls = []

        def fun(x):
            calls.append(1)
            if len(calls) == 30:
                raise RuntimeError("once")
            return rosenbrock(x)

        problem = auglag.Problem(fun, [-1.2, 1.0], constraints={"type": "eq", "fun": lambda x: x @ x - 2})
        with pytest.raises(RuntimeError, match="once"):
            minimize(problem, budget=Budget(evaluations=100))
        assert minimize(problem).success  # and the budget of the run that failed is forgotten


# -------------------------------------------------------------------------------------------------- the best point seen


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", ["HS14", "HS26", "HS40", "HS71", "HS78", "HS113"])
def test_the_point_returned_is_never_worse_than_any_seen(name, exact):
    for outer in (1, 2, 3, 5, 8):
        res = minimize(**known(name, exact), budget=Budget(outer=outer))
        # with differences, residuals of the history were measured by the derivatives of their time
        assert_best_of_history(res, slack=1e-6 if exact else 0.5)


def test_rules_that_spoil_the_iterates_do_not_spoil_the_result():
    class Spoiler(PenaltyRule):
        def next(self, history):
            return 1e4 if history.k <= 4 else 1.0

    class Never(DualRule):
        def step(self, history):
            return 0.0

    res = minimize(
        lambda x: x @ x,
        [3.0, -1.0],
        jac=lambda x: 2 * x,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
        penalty=Spoiler(),
        dual=Never(),
        acceleration=False,
        budget=Budget(outer=8),
    )
    residuals = [row["residual"] for row in res.history if row["usable"]]
    assert residuals[-1] > 10 * min(residuals), "the premise: later iterates are worse"
    assert_best_of_history(res)
