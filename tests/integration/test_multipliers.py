"""Multipliers: order, shape, sign, units and the conventions of other solvers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import auglag
from auglag import minimize
from auglag.problems import hock_schittkowski as hs
from helpers.hs14 import EQ, INEQ, START, Y_EQ, Y_IN, disc, disc_hess, disc_jac, fun, grad, hess, line, line_jac


@pytest.mark.parametrize("name", ["HS71", "HS14", "HS43", "HS65", "HS76"])
@pytest.mark.parametrize("slacks", ["closed", "explicit"])
def test_multipliers_come_in_the_users_order_shape_and_sign(name, slacks):
    p = hs.get(name)
    cons = [NonlinearConstraint(r.fun, r.lower, r.upper, jac=r.jac) for r in p.rows]
    res = minimize(p.fun, p.x0, jac=p.grad, bounds=Bounds(p.lower, p.upper), constraints=cons, slacks=slacks)
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, p.x, atol=1e-5)
    assert len(res.multipliers) == len(p.rows)
    for mine, theirs in zip(res.multipliers, p.multipliers, strict=True):
        assert np.shape(mine) == np.shape(theirs)
        np.testing.assert_allclose(mine, theirs, atol=1e-4)
    np.testing.assert_allclose(res.bound_multipliers, p.bound_multipliers, atol=1e-4)


def test_a_scalar_function_has_a_number_as_its_multiplier_and_a_vector_an_array():
    vector = {"type": "ineq", "fun": lambda x: np.array([disc(x)])}
    res = minimize(fun, START, constraints=[EQ, vector, LinearConstraint([[1, 0], [0, 1]], -9, 9)])
    assert isinstance(res.multipliers[0], float)
    assert [np.shape(y) for y in res.multipliers] == [(), (1,), (2,)]


def test_the_multiplier_is_minus_the_derivative_of_the_optimal_value_by_the_right_hand_side():
    def value(shift):
        con = {"type": "eq", "fun": lambda x: line(x) - shift}
        return minimize(fun, START, jac=grad, constraints=[con, INEQ], tol=1e-9)

    slope = (value(1e-3).fun - value(-1e-3).fun) / 2e-3
    res = value(0.0)
    assert slope == pytest.approx(-res.multipliers[0], abs=1e-3)
    assert res.multipliers_as("ampl")[0] == -res.multipliers[0]


def test_multipliers_in_other_conventions_agree_with_those_solvers():
    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], tol=1e-8)
    slsqp = scipy.optimize.minimize(fun, START, jac=grad, constraints=[EQ, INEQ], method="SLSQP", tol=1e-12)
    if "multipliers" in slsqp:
        np.testing.assert_allclose(np.ravel(res.multipliers_as("slsqp")), slsqp.multipliers, atol=1e-5)
    cons = [LinearConstraint([[1.0, -2.0]], -1, -1), NonlinearConstraint(disc, 0, np.inf, jac=disc_jac, hess=disc_hess)]
    trust = scipy.optimize.minimize(
        fun, START, jac=grad, hess=hess, constraints=cons, method="trust-constr", options={"gtol": 1e-9, "xtol": 1e-12}
    )
    np.testing.assert_allclose(np.ravel(res.multipliers_as("trust-constr")), np.ravel(trust.v), atol=1e-3)
    for convention in ("auglag", "ipopt", "casadi"):
        np.testing.assert_array_equal(np.ravel(res.multipliers_as(convention)), np.ravel(res.multipliers))
    np.testing.assert_array_equal(np.ravel(res.multipliers_as("pyomo")), -np.ravel(res.multipliers))


def test_an_unknown_convention_is_named():
    res = minimize(fun, START, constraints=[EQ, INEQ])
    with pytest.raises(auglag.InputError, match=r"convention must be one of .*'ipopt'.*got 'gurobi'"):
        res.multipliers_as("gurobi")


@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_multipliers_are_in_the_users_units_whatever_the_scaling(factor):
    cons = [{"type": "eq", "fun": lambda x: factor * line(x), "jac": lambda x: factor * line_jac(x)}, INEQ]
    scaled = minimize(fun, START, jac=grad, constraints=cons, tol=1e-7, scaling=True)
    plain = minimize(fun, START, jac=grad, constraints=cons, tol=1e-7, scaling=False)
    for res in (scaled, plain):
        assert res.success, res.explain()
        np.testing.assert_allclose(np.ravel(res.multipliers), [Y_EQ / factor, -Y_IN], rtol=1e-3)
