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
    assert ratios <= {1.0, 1.5, 1.5**6}
    assert res.inner == "lbfgsb"


@pytest.mark.parametrize("inner", ["lbfgsb", "panoc", "spectral", "proximal-point", auglag.LBFGSB(memory=3)])
def test_every_inner_solver_that_applies_solves_an_easy_problem(inner):
    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], inner=inner, tol=1e-4)
    assert_hs14(res, atol=1e-3)
    assert res.inner == (inner if isinstance(inner, str) else "lbfgsb")
