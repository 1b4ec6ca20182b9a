"""What a result says about how its run ended."""

from __future__ import annotations

import numpy as np
import pytest

from auglag import Budget, Status, minimize
from helpers.runs import known, slowly


def test_the_explanation_of_a_success_has_the_numbers():
    res = minimize(**known("HS71"))
    text = res.explain()
    assert text.startswith("Solved: the certificate meets the tolerance. Residual ")
    assert f"After {res.nit} outer and {res.nit_inner} inner iterations ({res.nfev} calls of fun" in text
    assert "inner solver qp" in text
    assert f"f + g = {res.fun:.10g}" in text
    assert "stationarity" in text
    assert "Try:" not in text
    assert "Most violated" not in text
    assert res.diagnose() == text


def test_the_explanation_of_a_limit_says_how_far_it_came_and_what_to_try():
    res = minimize(**slowly("HS71"), budget=Budget(outer=1))
    text = res.explain()
    assert "Iteration limit reached" in text
    assert "> tol 1e-06" in text
    assert "Try: a larger Budget, going on with warm_start=result." in text
    assert res.advice


def test_the_message_of_an_undefined_start_names_what_is_undefined():
    cons = [
        {"type": "eq", "fun": lambda x: x[0], "name": "fine"},
        {"type": "eq", "fun": lambda x: np.nan * x[0], "name": "broken"},
    ]
    res = minimize(lambda x: x @ x, [1.0], constraints=cons)
    assert res.status is Status.NON_FINITE
    assert "broken is not finite" in res.message
    assert "fine is" not in res.message
    assert "an x0 at which fun and all constraints are finite" in res.explain()


@pytest.mark.parametrize("status", Status)
def test_every_status_carries_a_message_that_is_a_sentence(status):
    assert status.message[0].isupper()
    assert status.message.endswith(".")
    assert isinstance(status, int)


def test_a_limit_spent_on_dense_differences_advises_derivatives_or_sparsity():
    rows = {"type": "eq", "fun": lambda x: x[1:] ** 2 - x[:-1]}
    long = minimize(lambda x: x @ x, np.full(30, 2.0), constraints=rows, budget=Budget(evaluations=200))
    assert long.status is Status.EVALUATION_LIMIT
    assert "jac=" in long.explain()
    assert "finite_diff_jac_sparsity" in long.explain()
    alone = minimize(lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum(), np.full(30, 2.0), budget=Budget(evaluations=50))
    assert "jac=" in alone.explain()
    assert "sparsity" not in alone.explain()


@pytest.mark.parametrize(
    ("fun", "x0"),
    [
        (lambda x: abs(x[0] - 1) + abs(x[1] + 2) + 0.1 * x[0] * x[1], [3.0, 3.0]),
        (lambda x: max(x[0] ** 2 + x[1] - 1, 2 - x[0]) + x[1] ** 2, [0.0, 1.0]),
    ],
)
def test_a_run_that_is_stuck_at_a_kink_says_so(fun, x0):
    res = minimize(fun, x0)
    assert res.status is Status.STUCK
    assert "fun has one at result.x" in res.advice[0]


def test_a_slow_fall_without_end_says_that_the_problem_may_be_unbounded():
    res = minimize(lambda x: -np.log(x[0]), [1.0], bounds=[(1e-3, None)])
    assert not res.success
    assert "may be unbounded" in res.advice[0]
