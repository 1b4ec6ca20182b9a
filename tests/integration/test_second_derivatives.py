"""Hessians are used where they are given, and wrong ones found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import LinearConstraint, NonlinearConstraint
from scipy.sparse.linalg import aslinearoperator

import auglag
from auglag import minimize
from helpers.hs14 import EQ_HESS, START, assert_hs14, disc, disc_hess, disc_jac, fun, grad, hess


@pytest.mark.parametrize(
    "second",
    [
        {"hess": lambda x: np.diag([0.0, 2.0])},
        {"hess": lambda x: sparse.csr_array(np.diag([0.0, 2.0]))},
        {"hess": lambda x: aslinearoperator(np.diag([0.0, 2.0]))},
        {"hess": lambda x: [[0.0, 0.0], [0.0, 2.0]]},
        {"hessp": lambda x, p: np.array([0.0, 2.0]) * p},
    ],
    ids=["dense", "sparse", "operator", "list", "hessp"],
)
@pytest.mark.parametrize("inner", ["newton-cg", "auto"])
def test_second_derivatives_are_used_on_equality_problems(second, inner):
    res = minimize(
        lambda x: x[0] + x[1] ** 2,
        [-1.0, -0.5],
        jac=lambda x: np.array([1.0, 2 * x[1]]),
        constraints=EQ_HESS,
        inner=inner,
        **second,
    )
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, [-(2**0.5), 0.0], atol=1e-6)
    assert res.inner == ("newton-cg" if inner == "newton-cg" or "hessp" in second else "qp")
    assert res.nhev > 0
    assert res.constr_nhev > 0


def test_newton_takes_inequalities_with_explicit_slacks():
    con = NonlinearConstraint(disc, 0, np.inf, jac=disc_jac, hess=disc_hess)
    line_con = LinearConstraint([[1.0, -2.0]], -1, -1)
    res = minimize(fun, START, jac=grad, hess=hess, constraints=[line_con, con], slacks="explicit", inner="newton-cg")
    assert_hs14(res)


def test_a_wrong_hessian_is_found_at_the_start():
    with pytest.raises(auglag.DerivativeError, match=r"hess.*row \d, column \d of the Hessian"):
        minimize(fun, START, jac=grad, hess=lambda x: np.diag([2.0, 5.0]), constraints=EQ_HESS)
