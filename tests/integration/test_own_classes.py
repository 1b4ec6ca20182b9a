"""Rules, inner solvers and prox terms of one's own are one small class each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import auglag
from auglag import minimize
from auglag.algorithm.rules import DualRule, PenaltyRule, ToleranceRule
from auglag.inner import InnerSolver, InnerStatus
from helpers.hs14 import EQ, INEQ, START, assert_hs14, fun, grad


def test_a_penalty_rule_of_ones_own_is_one_small_class():
    class Steady(PenaltyRule):
        def next(self, history):
            return 50.0

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], penalty=Steady())
    assert_hs14(res)
    assert {row["beta"] for row in res.history} == {50.0}
    assert res.penalty == 50.0


def test_a_dual_rule_of_ones_own_is_one_small_class():
    class Half(DualRule):
        def step(self, history):
            return 0.5 * history.last.beta

    assert_hs14(minimize(fun, START, jac=grad, constraints=[EQ, INEQ], dual=Half()))


def test_a_dual_rule_that_never_moves_is_the_penalty_method():
    class Never(DualRule):
        def step(self, history):
            return 0.0

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], dual=Never(), tol=1e-3)
    assert_hs14(res, atol=1e-2)


def test_a_tolerance_rule_of_ones_own_is_one_small_class():
    class Tight(ToleranceRule):
        def next(self, history):
            return 1e-9

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], tolerance=Tight(), acceleration=False)
    assert_hs14(res)
    assert {row["eta"] for row in res.history} == {1e-9}


def test_an_inner_solver_of_ones_own_is_one_small_class():
    @dataclass(frozen=True)
    class Descent(InnerSolver):
        name: str = "descent"

        def refuses(self, traits):
            return None if traits.is_box else "descent takes bounds only; panoc takes anything"

        def run(self, oracle, x, value, gradient, limit):
            step = 1.0
            while oracle.iterations < limit:
                oracle.iterations += 1
                trial = oracle.g.prox(x - step * gradient, step)
                new, new_gradient = oracle.visit(trial)
                if new <= value - 0.25 / step * float((trial - x) @ (trial - x)):
                    oracle.consider(trial, new, new_gradient)
                    x, value, gradient = trial, new, new_gradient
                    step *= 1.5
                else:
                    step *= 0.5
            return InnerStatus.LIMIT

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], inner=Descent(), tol=1e-4)
    assert_hs14(res, atol=1e-3)
    assert res.inner == "descent"
    with pytest.raises(auglag.InputError, match="descent takes bounds only"):
        minimize(fun, START, jac=grad, constraints=[EQ], inner=Descent(), g=auglag.prox.L1())


def test_a_prox_term_of_ones_own_is_two_functions_and_the_certificate_says_that_it_estimates():
    class MyL1:
        def value(self, x):
            return float(np.abs(x).sum())

        def prox(self, x, step):
            return np.sign(x) * np.maximum(np.abs(x) - step, 0.0)

    mine, ours = (minimize(fun, START, jac=grad, constraints=[EQ], g=g) for g in (MyL1(), auglag.prox.L1()))
    for res in (mine, ours):
        assert res.success, res.explain()
        np.testing.assert_allclose(res.x, [1.2, 1.1], atol=1e-6)  # f + |x|_1 on the line: 10 x1 - 11 = 0
        assert res.fun == pytest.approx(fun(res.x) + np.abs(res.x).sum())
    assert ours.certificate.exact
    assert not mine.certificate.exact
    assert "estimated by the prox residual" in mine.explain()


def test_a_nonsmooth_objective_with_a_nonlinear_equality_is_solved():
    res = minimize(
        lambda x: float((x[2] - 3) ** 2),
        [0.5, 0.4, 0.3],
        constraints={"type": "eq", "fun": lambda x: x @ x - 1},
        g=auglag.prox.L1(0.1),
    )
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, [0, 0, 1], atol=1e-6)
