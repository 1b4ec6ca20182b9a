"""Problem objects, sources of problems, and the names of constraints."""

from __future__ import annotations

import numpy as np
from scipy.optimize import NonlinearConstraint

import auglag
from auglag import Problem, Status, minimize
from helpers.hs14 import EQ, INEQ, START, Y_EQ, Y_IN, X, assert_hs14, both, both_jac, fun, grad


def test_a_problem_object_brings_everything_along():
    problem = Problem(fun, START, jac=grad, constraints=[EQ, INEQ], bounds=[(0, 5)] * 2)
    assert_hs14(minimize(problem))
    assert_hs14(minimize(problem, [0.0, 0.0], tol=1e-8))
    assert auglag.certify(problem, X).meets(1e-6)


def test_a_source_of_problems_of_ones_own_is_one_small_class():
    class HS14(auglag.AbstractProblem):
        def __init__(self):
            z = np.zeros(2)
            super().__init__(np.array(START), lower=z - 10, upper=z + 10, cl=z, cu=np.array([0, np.inf]))

        def f(self, x):
            return fun(x)

        def grad(self, x):
            return grad(x)

        def c(self, x):
            return both(x)

        def jac(self, x):
            return both_jac(x)

    res = minimize(HS14())
    assert_hs14(res)
    np.testing.assert_allclose(res.multipliers[0], [Y_EQ, -Y_IN], atol=1e-5)


def test_names_of_constraints_appear_in_violations_and_messages():
    named = NonlinearConstraint(lambda x: np.array([x[0], x[1]]), [5, 0], [6, 1])
    named.name = "box"
    cons = [{"type": "eq", "fun": lambda x: x[0] + x[1] - 2, "name": "mass balance"}, named]
    res = minimize(fun, START, constraints=cons)
    assert res.status is Status.INFEASIBLE
    assert set(res.violations) <= {"mass balance", "box[0]", "box[1]"}
    assert {"mass balance", "box[0]"} <= set(res.violations)
    sizes = list(res.violations.values())
    assert sizes == sorted(sizes, reverse=True)
    assert next(iter(res.violations)) in res.message
    assert next(iter(res.violations)) in res.explain()


def test_constraints_without_a_name_are_named_by_their_place():
    res = minimize(fun, START, constraints=[EQ, {"type": "eq", "fun": lambda x: [x[0] - 1, x[0] - 3]}])
    assert res.status is Status.INFEASIBLE
    assert {"constraints[1][0]", "constraints[1][1]"} <= set(res.violations)
