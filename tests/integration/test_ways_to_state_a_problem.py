"""Every kind of constraint, gradient, bounds and args gives the same, certified answer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import BFGS, SR1, Bounds, LinearConstraint, NonlinearConstraint
from scipy.sparse.linalg import aslinearoperator

from auglag import minimize
from helpers.hs14 import (
    EQ,
    INEQ,
    START,
    Y_EQ,
    Y_IN,
    Counted,
    assert_hs14,
    both,
    both_jac,
    disc,
    disc_jac,
    fun,
    grad,
    line,
    line_jac,
)

# -------------------------------------------------------------------------------------------------- kinds of constraint

SPARSE_LINE = sparse.csr_array([[1.0, -2.0]])
KINDS = {
    "dictionaries": ([EQ, INEQ], (1, -1)),
    "dictionaries in the other order": ([INEQ, EQ], None),
    "dictionaries without jacobians": ([{"type": "eq", "fun": line}, {"type": "ineq", "fun": disc}], (1, -1)),
    "upper-case types": ([EQ | {"type": "EQ"}, INEQ | {"type": "Ineq"}], (1, -1)),
    "nonlinear objects": (
        [NonlinearConstraint(line, 0, 0, jac=line_jac), NonlinearConstraint(disc, 0, np.inf, jac=disc_jac)],
        (1, -1),
    ),
    "nonlinear objects with the disc from above": (
        [
            NonlinearConstraint(line, 0, 0),
            NonlinearConstraint(lambda x: x[0] ** 2 / 4 + x[1] ** 2, -np.inf, 1, jac="3-point"),
        ],
        (1, 1),
    ),
    "two sides, one of them out of reach": (
        [EQ, NonlinearConstraint(lambda x: x[0] ** 2 / 4 + x[1] ** 2, 0.1, 1, jac="cs")],
        (1, 1),
    ),
    "linear, dense": ([LinearConstraint([[1.0, -2.0]], -1, -1), INEQ], (1, -1)),
    "linear, a plain row": ([LinearConstraint([1.0, -2.0], -1, -1), INEQ], (1, -1)),
    "linear, sparse array": ([LinearConstraint(SPARSE_LINE, -1, -1), INEQ], (1, -1)),
    "linear, sparse matrix": ([LinearConstraint(sparse.csc_matrix(SPARSE_LINE), -1, -1), INEQ], (1, -1)),
    "dense jacobian of shape (1, 2)": (
        [EQ | {"jac": lambda x: line_jac(x).reshape(1, 2)}, INEQ | {"jac": lambda x: disc_jac(x).reshape(1, 2)}],
        (1, -1),
    ),
    "sparse jacobian": (
        [EQ | {"jac": lambda x: SPARSE_LINE}, INEQ | {"jac": lambda x: sparse.csr_array(disc_jac(x).reshape(1, 2))}],
        (1, -1),
    ),
    "coo and lil jacobians": (
        [
            EQ | {"jac": lambda x: sparse.coo_array(line_jac(x).reshape(1, 2))},
            INEQ | {"jac": lambda x: sparse.lil_array(disc_jac(x).reshape(1, 2))},
        ],
        (1, -1),
    ),
    "operator jacobian": (
        [
            EQ | {"jac": lambda x: aslinearoperator(line_jac(x).reshape(1, 2))},
            INEQ | {"jac": lambda x: aslinearoperator(disc_jac(x).reshape(1, 2))},
        ],
        (1, -1),
    ),
    "dense beside sparse": ([EQ | {"jac": lambda x: SPARSE_LINE}, INEQ], (1, -1)),
    "dense beside operator": ([EQ, INEQ | {"jac": lambda x: aslinearoperator(disc_jac(x).reshape(1, 2))}], (1, -1)),
    "sparse linear beside operator": (
        [LinearConstraint(SPARSE_LINE, -1, -1), INEQ | {"jac": lambda x: aslinearoperator(disc_jac(x).reshape(1, 2))}],
        (1, -1),
    ),
    "one block with an equality row": (NonlinearConstraint(both, [0, 0], [0, np.inf], jac=both_jac), (1, -1)),
    "one sparse block": (
        NonlinearConstraint(both, [0, 0], [0, np.inf], jac=lambda x: sparse.csr_array(both_jac(x))),
        (1, -1),
    ),
    "one operator block": (
        NonlinearConstraint(both, [0, 0], [0, np.inf], jac=lambda x: aslinearoperator(both_jac(x))),
        (1, -1),
    ),
    "one differenced sparse block": (
        NonlinearConstraint(both, [0, 0], [0, np.inf], finite_diff_jac_sparsity=np.ones((2, 2))),
        (1, -1),
    ),
    "quasi-Newton hessians, which are the inner solver's business": (
        [NonlinearConstraint(line, 0, 0, jac=line_jac, hess=BFGS()), NonlinearConstraint(disc, 0, np.inf, hess=SR1())],
        (1, -1),
    ),
    "a tuple": ((EQ, INEQ), (1, -1)),
}


@pytest.mark.parametrize("slacks", ["closed", "explicit"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_constraint_gives_the_same_point_and_multipliers(kind, slacks):
    constraints, signs = KINDS[kind]
    res = minimize(fun, START, jac=grad, constraints=constraints, slacks=slacks)
    assert_hs14(res)
    if signs is None:
        np.testing.assert_allclose(np.ravel(res.multipliers), [-Y_IN, Y_EQ], atol=1e-5)
    else:
        np.testing.assert_allclose(res.y, [Y_EQ * signs[0], Y_IN * signs[1]], atol=1e-5)


def test_a_generator_of_constraints_is_read_once():
    assert_hs14(minimize(fun, START, jac=grad, constraints=(c for c in (EQ, INEQ))))


@pytest.mark.parametrize("jac", [None, False, "2-point", "3-point", "cs", grad])
def test_every_kind_of_gradient_gives_the_same_point(jac):
    assert_hs14(minimize(fun, START, jac=jac, constraints=[EQ, INEQ]))


def test_jac_true_takes_value_and_gradient_from_one_call():
    pair = Counted(lambda x: (fun(x), grad(x)))
    res = minimize(pair, START, jac=True, constraints=[EQ, INEQ])
    assert_hs14(res)
    assert res.nfev == pair.calls
    assert len({x.tobytes() for x in pair.points}) == pair.calls - 1  # the returned point is evaluated afresh


def test_a_two_sided_row_holds_on_either_side():
    for target, x, sign in ((-3.0, -1.0, -1), (0.5, 0.5, 0), (3.0, 2.0, 1)):
        res = minimize(lambda x, t=target: (x[0] - t) ** 2, [0.0], constraints=NonlinearConstraint(lambda x: x, -1, 2))
        assert res.success
        assert res.x[0] == pytest.approx(x, abs=1e-6)
        assert np.shape(res.multipliers[0]) == (1,)
        assert np.sign(np.round(res.multipliers[0][0], 5)) == sign


# -------------------------------------------------------------------------------------------------------- bounds, args


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds([-np.inf, 0.95], [0.7, np.inf]),
        [(None, 0.7), (0.95, None)],
        ((-np.inf, 0.7), (0.95, np.inf)),
        np.array([[-np.inf, 0.7], [0.95, np.inf]]),
    ],
)
@pytest.mark.parametrize("slacks", ["closed", "explicit"])
def test_bounds_as_an_object_or_pairs_give_the_same_point_and_multipliers(bounds, slacks):
    res = minimize(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 0.5) ** 2,
        START,
        bounds=bounds,
        constraints={"type": "ineq", "fun": lambda x: x[0] + x[1] - 1},
        slacks=slacks,
    )
    assert res.success
    np.testing.assert_allclose(res.x, [0.7, 0.95], atol=1e-6)
    np.testing.assert_allclose(res.bound_multipliers, [2.6, -0.9], atol=1e-5)
    assert res.multipliers[0] == pytest.approx(0.0, abs=1e-6)


def test_args_reach_fun_jac_hess_and_hessp_and_those_of_a_dictionary_its_own_functions():
    def target(x, a, b):
        return (x[0] - a) ** 2 + (x[1] - b) ** 2

    def target_grad(x, a, b):
        return np.array([2 * (x[0] - a), 2 * (x[1] - b)])

    eq = {"type": "eq", "fun": lambda x, k: x[0] - k * x[1] + 1, "jac": lambda x, k: np.array([1, -k]), "args": (2.0,)}
    assert_hs14(minimize(target, START, (2.0, 1.0), jac=target_grad, constraints=[eq, INEQ]))
    assert_hs14(minimize(lambda x, a: target(x, a, 1.0), START, args=2.0, constraints=[eq | {"args": 2.0}, INEQ]))
    for extra in ({"hess": lambda x, a, b: 2 * np.eye(2)}, {"hessp": lambda x, p, a, b: 2 * p}):
        equality = NonlinearConstraint(line, 0, 0, jac=line_jac, hess=lambda x, v: np.zeros((2, 2)))
        res = minimize(target, START, (2.0, 1.0), jac=target_grad, constraints=equality, inner="newton-cg", **extra)
        assert res.success
        np.testing.assert_allclose(res.x, [1.8, 1.4], atol=1e-6)
