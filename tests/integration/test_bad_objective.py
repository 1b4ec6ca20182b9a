"""Odd objectives and derivatives work, or get an error that names the function, the demand and the value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import NonlinearConstraint

import auglag
from auglag import InputError, minimize
from helpers.line_problem import LINE, X0, assert_solved, on_line, refused, solve, square, square_grad


@pytest.mark.parametrize("fun", [5, "square", [square], object()])
def test_an_objective_that_cannot_be_called_is_refused(fun):
    refused(r"fun must be callable, None for a feasibility problem, or a problem, got", fun=fun, jac=None)


@pytest.mark.parametrize("constraints", [(), [], None])
def test_neither_objective_nor_constraints_is_refused(constraints):
    with pytest.raises(InputError, match=r"fun and constraints must not both be missing.*got fun=None"):
        minimize(None, X0, constraints=constraints)


def test_no_objective_is_a_feasibility_problem():
    cons = [LINE, {"type": "ineq", "fun": lambda x: x[0] - x[1] ** 2 - 0.6}]
    res = minimize(None, X0, constraints=cons)
    assert res.success, res.explain()
    assert abs(on_line(res.x)) <= 1e-6
    assert res.x[0] - res.x[1] ** 2 >= 0.6 - 1e-6
    assert res.fun == 0.0
    assert res.nfev == 0


def test_no_objective_from_a_feasible_start_stays_there():
    res = minimize(None, [0.25, 0.75], constraints=LINE)
    assert_solved(res, [0.25, 0.75], atol=0)
    assert res.nit == 0


def test_no_objective_with_a_nonsmooth_term_minimises_the_term():
    res = minimize(
        None, [0.3, 0.3], constraints={"type": "eq", "fun": lambda x: x[0] + 2 * x[1] - 1}, g=auglag.prox.L1()
    )
    assert_solved(res, [0.0, 0.5])


def test_no_objective_but_jac_true_is_refused():
    with pytest.raises(InputError, match=r"jac=True asks fun to return \(value, gradient\), but fun is None"):
        minimize(None, X0, jac=True, constraints=LINE)


@pytest.mark.parametrize("bounds", [None, [(1, 2), (None, -1)]])
def test_no_constraints_at_all_is_an_ordinary_minimisation(bounds):
    res = minimize(lambda x: square(x - [0.5, 3.0]), [1.0, -2.0], bounds=bounds)
    assert_solved(res, [0.5, 3.0] if bounds is None else [1.0, -1.0])


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (None, r"fun\(x\) must .*got None"),
        (np.zeros(2), r"fun\(x\) must return a number, got an array of shape \(2,\)"),
        ([], r"fun\(x\) must return a number, got an array of shape \(0,\)"),
        ("low", r"fun\(x\) must be an array of numbers, got 'low'"),
        (1 + 1j, r"fun\(x\) must be real, got complex"),
        ((1.0, np.zeros(2)), r"fun\(x\) must (return a number|be an array of numbers), got"),
    ],
)
@pytest.mark.parametrize("jac", [square_grad, None])
def test_an_objective_of_the_wrong_kind_is_named(value, match, jac):
    refused(match, fun=lambda x: value, jac=jac)


def test_an_objective_may_return_an_integer_or_an_array_of_one_entry():
    assert_solved(solve(lambda x: np.array([x @ x])))
    assert_solved(solve(lambda x: np.array([[x @ x]]), jac=None))
    res = minimize(lambda x: 7, X0, constraints=LINE)
    assert res.success
    assert res.fun == 7.0


@pytest.mark.parametrize("check", ["first", False])
@pytest.mark.parametrize(
    ("jac", "match"),
    [
        (lambda x: np.ones(3), r"jac\(x\) must have shape \(2,\), got \(3,\)"),
        (lambda x: 1.0, r"jac\(x\) must have shape \(2,\), got \(\)"),
        (lambda x: None, r"jac\(x\) must .*got"),
        (lambda x: [1j, 0], r"jac\(x\) must be real, got complex"),
        (lambda x: "up", r"jac\(x\) must be an array of numbers, got 'up'"),
    ],
)
def test_a_gradient_of_the_wrong_length_or_kind_is_named(jac, match, check):
    refused(match, jac=jac, check_derivatives=check)


@pytest.mark.parametrize("jac", ["4-point", 3, [1, 2], "true"])
def test_a_bad_jac_is_named(jac):
    refused(r"jac must be callable, True, or one of .*'2-point'.*got", jac=jac)


def test_jac_true_needs_a_pair():
    refused(r"fun\(x\) must return \(value, gradient\) when jac=True, got float", jac=True)


def test_jac_true_needs_a_gradient_of_the_right_length():
    refused(
        r"the gradient returned by fun\(x\) must have shape \(2,\), got \(3,\)",
        fun=lambda x: (1.0, np.zeros(3)),
        jac=True,
    )


def test_gradients_as_columns_rows_integers_or_sparse_rows_are_taken():
    for shape in (
        lambda g: g.reshape(2, 1),
        lambda g: g.reshape(1, 2),
        list,
        lambda g: sparse.csr_array(g.reshape(1, 2)),
    ):
        assert_solved(solve(jac=lambda x, shape=shape: shape(2 * x)))
    assert_solved(minimize(lambda x: 0 + x.sum(), X0, jac=lambda x: np.array([1, 1]), bounds=[(0, 1)] * 2), [0, 0])


def test_a_wrong_gradient_is_found_at_the_start_and_its_entry_named():
    with pytest.raises(auglag.DerivativeError, match=r"jac.*entry 1 of the gradient"):
        solve(jac=lambda x: np.array([2 * x[0], -2 * x[1]]))


def test_a_wrong_constraint_jacobian_is_found_and_its_constraint_named():
    with pytest.raises(auglag.DerivativeError, match=r"the line: jac.*row 0, column 1"):
        solve(constraints={**LINE, "jac": lambda x: np.array([1.0, 3.0]), "name": "the line"})


@pytest.mark.parametrize("hess", ["5-point", 3, np.eye(2), True])
def test_a_bad_hess_is_named(hess):
    refused(r"hess must be callable, one of .* or None, got", hess=hess)


def test_a_bad_hessp_is_named():
    refused(r"hessp must be callable, got 3", hessp=3)


LINE2 = NonlinearConstraint(on_line, 0, 0, jac=lambda x: np.ones((1, 2)), hess=lambda x, v: np.zeros((2, 2)))


@pytest.mark.parametrize("check", ["first", False])
@pytest.mark.parametrize(
    ("hess", "match"),
    [
        (lambda x: np.eye(3), r"hess\(x\).*must.*(2, 2|2,).*got"),
        (lambda x: np.ones(2), r"hess\(x\).*must.*(2, 2|2,).*got"),
        (lambda x: 2.0, r"hess\(x\).*must.*(2, 2|2,).*got"),
        (lambda x: np.ones((3, 2)), r"hess\(x\).*must.*(2, 2|2,).*got"),
        (lambda x: None, r"hess\(x\).*must.*got"),
    ],
)
def test_a_hessian_of_the_wrong_shape_is_named(hess, match, check):
    refused(match, hess=hess, constraints=LINE2, inner="newton-cg", check_derivatives=check)


@pytest.mark.parametrize("check", ["first", False])
def test_a_hessian_product_of_the_wrong_shape_is_named(check):
    refused(
        r"hessp\(x, p\) must have shape \(2,\), got \(3,\)",
        hessp=lambda x, p: np.ones(3),
        constraints=LINE2,
        inner="newton-cg",
        check_derivatives=check,
    )


@pytest.mark.parametrize("check", ["first", False])
@pytest.mark.parametrize("hess", [lambda x, v: np.eye(3), lambda x, v: np.ones((3, 2)), lambda x, v: 0.0])
def test_a_constraint_hessian_of_the_wrong_shape_is_named(hess, check):
    con = NonlinearConstraint(on_line, 0, 0, jac=lambda x: np.ones((1, 2)), hess=hess)
    refused(
        r"constraints\[0\]: hess\(x, v\).*must.*2.*got",
        hess=lambda x: 2 * np.eye(2),
        constraints=con,
        inner="newton-cg",
        check_derivatives=check,
    )
