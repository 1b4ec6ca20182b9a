"""Slacks, variants, presets and inner solvers: all solve an easy problem."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import Bounds, NonlinearConstraint

import auglag
from auglag import Budget, minimize
from auglag.problems import hock_schittkowski as hs
from helpers.hs14 import EQ, INEQ, START, assert_hs14, fun, grad


@pytest.mark.parametrize("name", ["HS10", "HS43", "HS71", "HS76", "HS35", "HS113"])
def test_closed_and_explicit_slacks_give_the_same_answer(name):
    p = hs.get(name)
    cons = [NonlinearConstraint(r.fun, r.lower, r.upper, jac=r.jac) for r in p.rows]
    closed, explicit = (
        minimize(p.fun, p.x0, jac=p.grad, bounds=Bounds(p.lower, p.upper), constraints=cons, slacks=slacks, tol=1e-7)
        for slacks in ("closed", "explicit")
    )
    assert closed.success, closed.explain()
    assert explicit.success, explicit.explain()
    np.testing.assert_allclose(closed.x, explicit.x, atol=1e-5)
    np.testing.assert_allclose(closed.y, explicit.y, atol=1e-4)
    assert closed.x.shape == explicit.x.shape == p.x0.shape


@pytest.mark.parametrize("slacks", ["closed", "explicit"])
@pytest.mark.parametrize("variant", auglag.VARIANTS)
def test_the_four_variants_solve_an_easy_problem(variant, slacks):
    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], variant=variant, slacks=slacks)
    assert_hs14(res, atol=1e-5)
    kind, step = variant.split("-")
    assert kind.capitalize() in res.variant
    assert step.capitalize() in res.variant
    betas = [row["beta"] for row in res.history]
    assert all(b >= a for a, b in pairwise(betas))
    if kind == "always":
        assert all(b > a for a, b in pairwise(betas))


@pytest.mark.parametrize("variant", [None, *auglag.VARIANTS])
@pytest.mark.parametrize("preset", auglag.PRESETS)
def test_all_presets_solve_an_easy_problem(preset, variant):
    res = minimize(
        fun,
        START,
        jac=grad,
        constraints=[EQ, INEQ],
        preset=preset,
        variant=variant,
        tol=1e-4,
        budget=Budget(seconds=20),
    )
    assert_hs14(res, atol=1e-3)


def test_the_paper_preset_is_what_the_paper_says():
    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], preset="paper", tol=1e-4)
    assert res.history[0]["beta"] == 1e-3
    ratios = {round(b["beta"] / a["beta"], 9) for a, b in pairwise(res.history)}
    assert ratios <= {1.0, 1.5}
    assert res.inner == "lbfgsb"


def test_the_papers_preset_goes_on_until_a_limit_and_the_default_gives_up():
    """x^2 = -1 has no solution: the paper's loop raises beta as long as it may."""
    rows = {"type": "eq", "fun": lambda x: x[0] ** 2 + 1.0, "jac": lambda x: np.array([2.0 * x[0]])}
    problem = {"fun": lambda x: x[0], "x0": [1.0], "jac": lambda x: np.ones(1), "constraints": rows}
    on = minimize(**problem, preset="paper", budget=Budget(outer=120))
    assert on.status is auglag.Status.ITERATION_LIMIT
    assert on.nit == 120
    beyond = minimize(**problem, preset="paper", budget=Budget(outer=500))
    assert beyond.status is auglag.Status.PENALTY_LIMIT
    assert beyond.message.startswith("Penalty limit: beta grew beyond the largest that is allowed")
    assert 1e60 < beyond.penalty < 2e60
    stuck = minimize(**problem, preset="paper", budget=Budget(outer=120), gives_up=True)
    assert stuck.status is auglag.Status.STUCK
    assert stuck.nit < 120
    with pytest.raises(auglag.InputError, match="gives_up must be True or False, got 1"):
        minimize(**problem, gives_up=1)


def test_without_constraints_a_run_ends_where_its_one_subproblem_fails():
    """What `gives_up=False` says of constraints only."""
    for gives_up in (True, False):
        res = minimize(lambda x: x[0], [1.0], jac=lambda x: np.ones(1), preset="paper", gives_up=gives_up)
        assert res.status is auglag.Status.UNBOUNDED


def test_an_unbounded_subproblem_raises_the_papers_penalty_by_gamma_alone():
    """f = -x^2 under x = 0: L_beta has no lower bound as long as beta < 2."""
    rows = {"type": "eq", "fun": lambda x: x[0], "jac": lambda x: np.ones(1)}
    res = minimize(lambda x: -(x[0] ** 2), [1.0], jac=lambda x: -2 * x, constraints=rows, preset="paper", tol=1e-4)
    betas = [row["beta"] for row in res.history]
    assert not res.history[0]["usable"]
    np.testing.assert_allclose([b / a for a, b in pairwise(betas[:5])], 1.5)
    assert res.success


@pytest.mark.parametrize("preset", ["paper", "ialm", "ippm", "algencan"])
def test_presets_of_papers_switch_off_all_that_is_not_in_them(preset):
    settings = auglag.PRESETS[preset]
    assert settings.acceleration is None
    assert not any((settings.presolve, settings.units, settings.restoration, settings.gives_up, settings.restarts))
    assert settings.aim == 1.0
    assert settings.scaling == (preset == "algencan")
    assert settings.slacks == ("closed" if preset == "algencan" else "explicit")
    assert getattr(settings.penalty, "leap", 1.0) == 1.0


def test_a_budget_of_gradients_is_kept_to_the_last_one():
    problem = {"fun": fun, "x0": START, "jac": grad, "constraints": [EQ, INEQ]}
    for limit in (1, 17, 40):
        res = minimize(**problem, preset="paper", budget=Budget(gradients=limit))
        assert res.status is auglag.Status.EVALUATION_LIMIT
        assert sum(row["evaluations"] for row in res.history) == limit
    with pytest.raises(auglag.InputError, match=r"Budget\.gradients must be a positive integer or None, got 0"):
        Budget(gradients=0)


@pytest.mark.parametrize("name", ["HS71", "HS39"])
def test_the_algencan_preset_has_neither_newtons_method_nor_models(name):
    p = hs.get(name)
    cons = [NonlinearConstraint(r.fun, r.lower, r.upper, jac=r.jac, hess=r.hess) for r in p.rows]
    bounds = Bounds(p.lower, p.upper)
    res = minimize(p.fun, p.x0, jac=p.grad, hess=p.hess, bounds=bounds, constraints=cons, preset="algencan")
    assert res.success
    assert res.inner == "newton-cg"
    assert len(res.history) > 2
    assert res.history[0]["inner_iterations"] <= 10
    assert not any(row["acceleration_steps"] or row["inner_status"] == "ACCELERATED" for row in res.history)
    factors = {round(b["beta"] / a["beta"], 9) for a, b in pairwise(res.history[1:])}
    assert factors <= {1.0, 10.0}


@pytest.mark.parametrize("inner", ["lbfgsb", "panoc", "spectral", "proximal-point", auglag.LBFGSB(memory=3)])
def test_every_inner_solver_that_applies_solves_an_easy_problem(inner):
    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], inner=inner, tol=1e-4)
    assert_hs14(res, atol=1e-3)
    assert res.inner == (inner if isinstance(inner, str) else "lbfgsb")
