"""Bad input: every odd argument either works, or gets an error that names the argument, the demand and the value."""

from __future__ import annotations

import json
import re
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import auglag
from auglag import Budget, CheckpointError, EvaluationError, InputError, OptionError, Status, minimize
from auglag.algorithm.rules import PenaltyRule, ToleranceRule

X0 = [0.5, 0.2]
SOLUTION = [0.5, 0.5]  # of min x'x subject to x0 + x1 = 1, with multiplier -1


def square(x):
    return float(x @ x)


def square_grad(x):
    return 2 * x


def on_line(x):
    return x[0] + x[1] - 1


LINE = {"type": "eq", "fun": on_line, "jac": lambda x: np.ones(2)}


def solve(fun=square, x0=X0, **kwargs):
    kwargs = {"jac": square_grad, "constraints": LINE} | kwargs
    return minimize(fun, x0, **kwargs)


def assert_solved(res, x=SOLUTION, atol=1e-6):
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, x, atol=atol)
    assert auglag.Certificate is type(res.certificate)
    assert res.certificate.meets(res.tol)


def refused(match, *, error=InputError, **kwargs):
    with pytest.raises(error, match=match):
        solve(**kwargs)


# ------------------------------------------------------------------------------------------------------------------ x0


@pytest.mark.parametrize(
    ("x0", "match"),
    [
        (None, r"x0 must be given.*got None"),
        ([], r"x0 must have at least one entry, got an empty array"),
        ([[0.5, 0.2]], r"x0 must be a vector, got an array of shape \(1, 2\)"),
        (np.zeros((2, 1, 1)), r"x0 must be a vector, got an array of shape \(2, 1, 1\)"),
        ([0.5, np.nan], r"x0 must be finite, got nan in entry 1"),
        ([np.inf, 0.0], r"x0 must be finite, got inf in entry 0"),
        ([-np.inf, 0.0], r"x0 must be finite, got -inf in entry 0"),
        ([1j, 0.0], r"x0 must be real, got complex"),
        (["a", "b"], r"x0 must be an array of numbers, got"),
        ("start", r"x0 must be an array of numbers, got"),
        ([[1.0], [1.0, 2.0]], r"x0 must be an array of numbers, got"),
        ([None, 1.0], r"x0 must be (an array of numbers|finite), got"),
        ({"a": 1}, r"x0 must be an array of numbers, got"),
    ],
)
def test_a_bad_x0_is_named_with_its_value(x0, match):
    refused(match, x0=x0)


@pytest.mark.parametrize(
    "x0",
    [[1, 0], (1, 0), np.array([1, 0]), np.array([1, 0], dtype=np.int8), np.array([1, 0], dtype=np.float32), [True, 0]],
)
def test_integer_and_single_precision_starts_are_taken_as_floats(x0):
    seen = []
    res = solve(lambda x: seen.append(x.dtype) or square(x), x0)
    assert_solved(res)
    assert set(seen) == {np.dtype(np.float64)}
    assert res.x.dtype == np.float64


def test_a_fortran_or_strided_start_is_taken_and_left_alone():
    x0 = np.arange(8.0)[::4]
    kept = x0.copy()
    assert_solved(solve(x0=x0))
    np.testing.assert_array_equal(x0, kept)


@pytest.mark.parametrize("x0", [3.0, 3, np.float64(3), np.array(3.0), [3.0]])
def test_a_scalar_start_means_one_variable(x0):
    res = minimize(lambda x: (x[0] - 1) ** 2, x0, constraints={"type": "ineq", "fun": lambda x: x[0] - 2})
    assert_solved(res, [2.0])
    assert res.x.shape == (1,)


def test_functions_that_write_into_x_do_no_harm():
    def spoil(x):
        value = square(x)
        x[:] = np.nan
        return value

    def spoil_con(x):
        value = on_line(x)
        x[:] = 7.0
        return value

    assert_solved(minimize(spoil, X0, constraints={"type": "eq", "fun": spoil_con}))


# -------------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        ([(0, 1)], r"bounds must have 2 pairs, one per variable, got 1"),
        ([(0, 1)] * 3, r"bounds must have 2 pairs, one per variable, got 3"),
        ([(0, 1, 2), (0, 1, 2)], r"bounds must be a scipy.optimize.Bounds or a sequence of \(low, high\) pairs, got"),
        (5, r"bounds must be a scipy.optimize.Bounds or a sequence of \(low, high\) pairs, got 5"),
        ([1.0, 2.0], r"bounds must be a scipy.optimize.Bounds or a sequence of \(low, high\) pairs, got"),
        ([(0, np.nan), (0, 1)], r"bounds.ub must not contain NaN, got"),
        (Bounds([np.nan, 0], [1, 1]), r"bounds.lb must not contain NaN, got"),
        ([(2, 1), (0, 1)], r"bounds: lb must be at most ub.*got 2.0 > 1.0 in entry 0"),
        (Bounds([0, 3], [1, 2]), r"bounds: lb must be at most ub.*got 3.0 > 2.0 in entry 1"),
        ([(np.inf, None), (0, 1)], r"bounds: lb must be at most ub and both sides reachable, got inf"),
        ([(None, -np.inf), (0, 1)], r"bounds: lb must be at most ub and both sides reachable, got.*-inf"),
        (Bounds([0, 0, 0], [1, 1, 1]), r"bounds.lb must be a number or have 2 entries, got 3"),
        ([("a", 1), (0, 1)], r"bounds.lb must be an array of numbers, got"),
        ([(0j, 1), (0, 1)], r"bounds.lb must be real, got complex"),
    ],
)
def test_bad_bounds_are_named_with_their_value(bounds, match):
    refused(match, bounds=bounds)


def test_integer_bounds_and_infinite_ones_work():
    assert_solved(solve(bounds=[(0, 1), (None, 3)]))
    assert_solved(solve(bounds=Bounds(np.array([0, -5]), np.array([1, 5]))))
    assert_solved(solve(bounds=Bounds(-np.inf, np.inf)))
    assert_solved(solve(bounds=np.array([[0.0, 1.0], [-np.inf, np.inf]])))


def test_a_start_outside_the_bounds_is_moved_inside_before_anything_is_evaluated():
    seen = []
    res = solve(lambda x: seen.append(x) or square(x), [50.0, -50.0], bounds=[(0, 1), (0, 1)])
    assert_solved(res)
    assert all(((x >= 0) & (x <= 1)).all() for x in seen)


@pytest.mark.parametrize("jac", [square_grad, None, "3-point", "cs"])
@pytest.mark.parametrize("slacks", ["closed", "explicit"])
def test_fixed_variables_stay_fixed(jac, slacks):
    seen = []
    res = minimize(
        lambda x: seen.append(x[1].real) or x @ x,
        [0.0, 0.0, 0.0],
        jac=jac,
        bounds=[(None, None), (0.25, 0.25), (None, None)],
        constraints={"type": "ineq", "fun": lambda x: x.sum() - 1},
        slacks=slacks,
    )
    assert_solved(res, [0.375, 0.25, 0.375])
    assert set(seen) == {0.25}
    assert res.multipliers[0] == pytest.approx(-0.75, abs=1e-5)


def test_fixed_variables_have_multipliers_where_derivatives_are_given():
    res = minimize(
        square,
        [0.0, 0.0, 0.0],
        jac=square_grad,
        bounds=[(None, None), (0.25, 0.25), (None, None)],
        constraints={"type": "ineq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
    )
    assert_solved(res, [0.375, 0.25, 0.375])
    np.testing.assert_allclose(res.bound_multipliers, [0, 0.25, 0], atol=1e-5)


@pytest.mark.parametrize("slacks", ["closed", "explicit"])
def test_all_variables_fixed_at_a_feasible_point_is_solved(slacks):
    cons = [LINE, {"type": "ineq", "fun": lambda x: x[0] + 4}]
    res = solve(bounds=[(0.25, 0.25), (0.75, 0.75)], constraints=cons, slacks=slacks)
    assert_solved(res, [0.25, 0.75], atol=0)
    assert res.fun == 0.625


def test_all_variables_fixed_at_an_infeasible_point_is_not_solved_and_names_the_row():
    res = solve(bounds=[(0.25, 0.25), (0.25, 0.25)], constraints={**LINE, "name": "budget line"})
    assert not res.success
    assert res.status is Status.INFEASIBLE
    assert res.violations == {"budget line": 0.5}
    assert "budget line" in res.message


def test_all_variables_fixed_without_constraints_is_solved():
    assert_solved(minimize(square, X0, jac=square_grad, bounds=[(3, 3), (4, 4)]), [3, 4], atol=0)


# --------------------------------------------------------------------------------------------------------- constraints


@pytest.mark.parametrize("empty", [(), [], None, {}.values(), iter(())])
def test_empty_constraints_mean_none(empty):
    res = minimize(lambda x: square(x - 3), X0, constraints=empty)
    assert_solved(res, [3, 3])
    assert res.multipliers == []
    assert res.y.shape == (0,)


def test_a_linear_constraint_without_rows_works_or_is_refused_by_name():
    res = solve(constraints=[LINE, LinearConstraint(np.zeros((0, 2)))])
    assert_solved(res)
    assert np.shape(res.multipliers[1]) == (0,)


@pytest.mark.parametrize(
    ("constraints", "match"),
    [
        (5, r"constraints must be a constraint .* or a list of them, got int"),
        ([5], r"constraints\[0\] must be a dict, a NonlinearConstraint or a LinearConstraint, got int"),
        (
            [LINE, on_line],
            r"constraints\[1\] must be a dict, a NonlinearConstraint or a LinearConstraint, got function",
        ),
        ([LINE, Bounds(0, 1)], r"constraints\[1\] is a Bounds object; pass it as bounds="),
        ({}, r"constraints\[0\]\['type'\] must be 'eq' or 'ineq', got None"),
        ({"type": "le", "fun": on_line}, r"constraints\[0\]\['type'\] must be 'eq' or 'ineq', got 'le'"),
        ({"type": 3, "fun": on_line}, r"constraints\[0\]\['type'\] must be 'eq' or 'ineq', got 3"),
        ({"type": "eq"}, r"constraints\[0\]\['fun'\] must be callable, got None"),
        ({"type": "eq", "fun": 3}, r"constraints\[0\]\['fun'\] must be callable, got 3"),
        ({**LINE, "jac": "4-point"}, r"constraints\[0\]\['jac'\] must be callable or one of .*got '4-point'"),
        ({**LINE, "jac": np.ones(2)}, r"constraints\[0\]\['jac'\] must be callable or one of .*got array"),
        ({**LINE, "jac": True}, r"constraints\[0\]\['jac'\] must be callable or one of .*got True"),
        ({**LINE, "hess": "BFGS"}, r"constraints\[0\]\['hess'\] must be callable.*got 'BFGS'"),
        ({**LINE, "hess": np.eye(2)}, r"constraints\[0\]\['hess'\] must be callable.*got array"),
        ([{**LINE, "name": "a"}, {**LINE, "name": "a"}], r"constraints\[1\]: the name 'a' is used twice"),
        (NonlinearConstraint(3, 0, 0), r"constraints\[0\].fun must be callable, got 3"),
        (NonlinearConstraint(on_line, 1, 0), r"constraints\[0\]: lb must be at most ub.*got 1.0 > 0.0 in entry 0"),
        (NonlinearConstraint(on_line, np.nan, 0), r"constraints\[0\].lb must not contain NaN, got nan"),
        (NonlinearConstraint(on_line, 0, np.nan), r"constraints\[0\].ub must not contain NaN, got nan"),
        (
            NonlinearConstraint(on_line, [0, 0], 1),
            r"constraints\[0\].lb must be a number or have 1 entries, got 2",
        ),
        (NonlinearConstraint(on_line, 0, 0, jac=np.ones((1, 2))), r"constraints\[0\].jac must be callable or one of"),
        (NonlinearConstraint(on_line, 0, 0, hess=np.eye(2)), r"constraints\[0\].hess must be callable"),
        (NonlinearConstraint(on_line, 0, 0, hess="6-point"), r"constraints\[0\].hess must be callable.*got '6-point'"),
        (LinearConstraint([[1, 1, 1]], 0, 1), r"constraints\[0\].A must have 2 columns.*got shape \(1, 3\)"),
        (LinearConstraint([[1, np.nan]], 0, 1), r"constraints\[0\].A must be finite, got NaN or infinite"),
        (LinearConstraint([[1, 1]], 2, 1), r"constraints\[0\]: lb must be at most ub.*got 2.0 > 1.0"),
    ],
)
def test_bad_constraints_are_named_with_their_place_and_value(constraints, match):
    refused(match, constraints=constraints)


def test_a_complex_sparse_matrix_in_a_linear_constraint_is_refused():
    refused(
        r"constraints\[0\].A must be real, got complex",
        constraints=LinearConstraint(sparse.csr_array([[1, 1j]]), 0, 1),
    )


@pytest.mark.parametrize(
    ("key", "hint"), [("function", "'fun'"), ("jacobian", "'jac'"), ("arg", "'args'"), ("typ", "'type'")]
)
def test_an_unknown_key_of_a_constraint_gets_the_nearest_as_a_hint(key, hint):
    refused(
        rf"constraints\[0\] has the unknown key '{key}'; did you mean {hint}\?",
        error=OptionError,
        constraints={**LINE, key: 1},
    )


@pytest.mark.parametrize(
    "constraint",
    [
        NonlinearConstraint(on_line, 0, 0, keep_feasible=True),
        LinearConstraint([[1, 1]], 1, 1, keep_feasible=True),
        LinearConstraint([[1, 1], [1, 1]], 1, 1, keep_feasible=[False, True]),
    ],
)
def test_keep_feasible_of_a_constraint_is_refused_with_the_reason(constraint):
    refused(r"constraints\[0\].keep_feasible must be False: .* visits infeasible points", constraints=constraint)


def test_keep_feasible_of_bounds_is_what_happens_anyway():
    seen = []
    bounds = Bounds([0.0, 0.6], [1, 1], keep_feasible=True)
    res = solve(lambda x: seen.append(x) or square(x), bounds=bounds)
    assert_solved(res, [0.4, 0.6])
    assert all((x >= bounds.lb).all() and (x <= bounds.ub).all() for x in seen)


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (np.zeros((2, 2)), r"constraints\[0\]: fun\(x\) must be a number or a vector, got an array of shape \(2, 2\)"),
        ([], r"constraints\[0\]: fun\(x\) must return at least one value, got an empty array"),
        ("x", r"constraints\[0\]: fun\(x\) must be an array of numbers, got 'x'"),
        (1j, r"constraints\[0\]: fun\(x\) must be real, got complex"),
        (None, r"constraints\[0\]: fun\(x\) must .*got None"),
    ],
)
def test_a_constraint_function_of_the_wrong_kind_is_named(value, match):
    refused(match, constraints={"type": "eq", "fun": lambda x: value})


def test_a_constraint_that_changes_its_length_is_named():
    calls = []

    def moody(x):
        calls.append(1)
        return np.zeros(2 if len(calls) == 1 else 3)

    refused(
        r"moods: fun\(x\) must return 2 values as it did at x0, got 3",
        constraints={"type": "eq", "fun": moody, "name": "moods"},
    )


@pytest.mark.parametrize("check", ["first", False])
@pytest.mark.parametrize(
    ("jac", "match"),
    [
        (lambda x: np.ones(3), r"constraints\[0\]: jac\(x\) must have shape \(1, 2\), got \(3,\)"),
        (lambda x: np.ones((2, 2)), r"constraints\[0\]: jac\(x\) must have shape \(1, 2\), got \(2, 2\)"),
        (
            lambda x: sparse.csr_array(np.ones((1, 3))),
            r"constraints\[0\]: jac\(x\) must have shape \(1, 2\), got \(1, 3\)",
        ),
        (lambda x: [1, 1j], r"constraints\[0\]: jac\(x\) must be real, got complex"),
        (lambda x: "no", r"constraints\[0\]: jac\(x\) must be an array of numbers, got 'no'"),
    ],
)
def test_a_constraint_jacobian_of_the_wrong_shape_is_named(jac, match, check):
    refused(match, constraints={**LINE, "jac": jac}, check_derivatives=check)


def test_a_sparsity_of_the_wrong_shape_is_named():
    con = NonlinearConstraint(lambda x: x, 0, 1, finite_diff_jac_sparsity=np.eye(3))
    refused(r"constraints\[0\].finite_diff_jac_sparsity must have shape \(2, 2\), got \(3, 3\)", constraints=con)


def test_rows_without_any_side_get_the_multiplier_zero():
    free = NonlinearConstraint(lambda x: x[0] ** 3, -np.inf, np.inf)
    for slacks in ("closed", "explicit"):
        res = solve(constraints=[free, LINE], slacks=slacks)
        assert_solved(res)
        assert res.multipliers[0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("slacks", ["closed", "explicit"])
def test_more_equalities_than_variables_are_solved_when_consistent(slacks):
    rows = np.array([[1.0, 1.0], [1.0, -1.0], [2.0, 1.0], [0.0, 3.0]])
    con = NonlinearConstraint(lambda x: rows @ x, rows @ [0.3, 0.7], rows @ [0.3, 0.7], jac=lambda x: rows)
    assert_solved(solve(constraints=con, slacks=slacks), [0.3, 0.7])


def test_more_equalities_than_variables_are_called_infeasible_when_inconsistent():
    res = solve(constraints=[{"type": "eq", "fun": lambda x: [x[0], x[1], x[0] + x[1] - 1], "name": "three"}])
    assert res.status is Status.INFEASIBLE
    assert "three[" in res.message


@pytest.mark.parametrize("times", [2, 10])
def test_duplicated_equalities_give_the_same_point_and_share_the_multiplier(times):
    res = solve(constraints=[LINE] * times)
    assert_solved(res)
    assert sum(res.multipliers) == pytest.approx(-1.0, abs=1e-5)


def test_duplicated_inequalities_and_duplicated_bounds_give_the_same_point():
    above = {"type": "ineq", "fun": lambda x: x[0] - 0.8, "jac": lambda x: np.array([1.0, 0.0])}
    res = solve(constraints=[LINE, above, above, LINE], bounds=[(0.8, None), (None, 0.2)])
    assert_solved(res, [0.8, 0.2])


# ----------------------------------------------------------------------------------------------------------- objective


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


# ---------------------------------------------------------------------------------------- functions that fail or raise


class HomeMade(Exception):
    pass


@pytest.mark.parametrize("where", ["fun", "jac", "con", "con jac", "hess", "callback"])
@pytest.mark.parametrize("call", [1, 4])
def test_an_exception_of_user_code_propagates_untouched(where, call):
    calls = []
    error = HomeMade("line 17 of the model")

    def fails(name, fun):
        def wrapped(*args):
            if name == where:
                calls.append(1)
                if len(calls) >= call:
                    raise error
            return fun(*args)

        return wrapped

    con = NonlinearConstraint(
        fails("con", lambda x: x[0] ** 2 + x[1] - 1),
        0,
        0,
        jac=fails("con jac", lambda x: np.array([[2 * x[0], 1.0]])),
        hess=lambda x, v: v[0] * np.diag([2.0, 0.0]),
    )
    with pytest.raises(HomeMade) as caught:
        minimize(
            fails("fun", lambda x: square(x - 3)),
            X0,
            jac=fails("jac", lambda x: 2 * (x - 3)),
            hess=fails("hess", lambda x: 2 * np.eye(2)),
            constraints=con,
            inner="newton-cg",
            callback=fails("callback", lambda xk: None),
        )
    assert caught.value is error


@pytest.mark.parametrize(
    "error", [ZeroDivisionError, ValueError, TypeError, FloatingPointError, RuntimeError, KeyError]
)
def test_common_exceptions_inside_finite_differences_propagate_too(error):
    calls = []

    def fun(x):
        calls.append(1)
        if len(calls) == 3:
            raise error("inside a difference")
        return square(x)

    with pytest.raises(error, match="inside a difference"):
        minimize(fun, X0, constraints={"type": "eq", "fun": on_line})


def test_a_stop_iteration_of_the_objective_is_not_taken_for_the_callbacks():
    calls = []

    def fun(x):
        calls.append(1)
        if len(calls) == 12:
            next(iter(()))  # a bug of the user's
        return square(x)

    with pytest.raises(StopIteration):
        minimize(fun, X0, constraints={"type": "eq", "fun": on_line})


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["fun", "con"])
def test_a_function_that_is_never_finite_is_reported_as_such(bad, where):
    res = minimize(
        (lambda x: bad) if where == "fun" else square,
        X0,
        jac=square_grad,
        constraints={**LINE, "fun": (lambda x: bad) if where == "con" else on_line, "name": "the line"},
        check_derivatives=False,
    )
    assert not res.success
    assert res.status in (Status.NON_FINITE, Status.UNBOUNDED)
    assert "fun" in res.message if where == "fun" else "the line" in res.message
    np.testing.assert_array_equal(res.x, X0)


def test_a_gradient_that_is_never_finite_is_reported_as_such():
    res = solve(jac=lambda x: np.array([np.nan, 1.0]))
    assert res.status is Status.NON_FINITE
    assert "gradient" in res.message


def test_a_constraint_jacobian_that_is_never_finite_is_no_success_and_no_crash():
    res = solve(constraints={**LINE, "jac": lambda x: np.array([np.nan, 1.0])})
    assert not res.success


def test_a_start_where_the_objective_is_nan_is_left_for_one_nearby():
    def fun(x):
        return np.nan if x[0] == 0.5 else square(x)

    assert_solved(solve(fun))


@pytest.mark.parametrize("con", [np.nan, EvaluationError("not here")])
def test_a_start_where_a_scalar_constraint_is_undefined_is_left_for_one_nearby(con):
    def fun(x):
        if x[0] != 0.5:
            return on_line(x)
        if isinstance(con, Exception):
            raise con
        return con

    assert_solved(solve(constraints={"type": "eq", "fun": fun}))


def test_a_start_where_a_vector_constraint_raises_evaluation_error_is_left_for_one_nearby():
    def fun(x):
        if x[0] == 0.5:
            raise EvaluationError("not here")
        return np.array([on_line(x), x[0] - x[1]])

    assert_solved(minimize(square, X0, constraints={"type": "eq", "fun": fun}))


def test_a_start_where_the_objective_raises_evaluation_error_is_left_for_one_nearby():
    def fun(x):
        if x[0] == 0.5:
            raise EvaluationError("not here")
        return square(x)

    assert_solved(solve(fun))


@pytest.mark.parametrize("bad", [np.nan, np.inf, "raise"])
@pytest.mark.parametrize("where", ["fun", "con"])
def test_holes_met_on_the_way_are_stepped_around(bad, where):
    holes = []

    def undefined():
        holes.append(1)
        if bad == "raise":
            raise EvaluationError("log of a negative number")
        return bad

    def fun(x):
        if where == "fun" and x[0] <= 0:
            return undefined()
        return float(-50 * np.log(max(x[0], 1e-300)) + 30 * x[0] + (x[1] - 1) ** 2)

    def con(x):
        if where == "con" and x[0] <= 0:
            return undefined()
        return np.sqrt(max(x[0], 0.0)) * x[1] - 1

    res = minimize(fun, [0.01, 3.0], constraints={"type": "ineq", "fun": con})
    assert res.success, res.explain()
    assert res.x[0] > 0
    assert con(res.x) >= -1e-6


# ----------------------------------------------------------------------------------------------- arguments of minimize


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("constraint", "constraints"),
        ("bound", "bounds"),
        ("toll", "tol"),
        ("call_back", "callback"),
        ("penalties", "penalty"),
        ("warmstart", "warm_start"),
        ("check_derivative", "check_derivatives"),
        ("presets", "preset"),
        ("inner_solver", "inner"),
    ],
)
def test_an_unknown_argument_gets_the_nearest_name_as_a_hint(name, hint):
    refused(rf"minimize\(\) has no argument '{name}'; did you mean '{hint}'\?", error=OptionError, **{name: 1})


def test_an_unknown_argument_with_no_near_name_gets_the_list():
    refused(r"minimize\(\) has no argument 'zzzzzz'; known: .*bounds.*warm_start", error=OptionError, zzzzzz=1)


@pytest.mark.parametrize("tol", [0, 0.0, -1e-6, np.nan, np.inf, "1e-6", 1e-6j, [1e-6], True])
def test_a_tolerance_that_is_no_positive_number_is_refused(tol):
    refused(rf"tol must be positive and finite, got {re.escape(repr(tol))}", tol=tol)


@pytest.mark.parametrize("tol", [1, 1e-3, np.float64(1e-6), np.float32(1e-4), np.int64(1)])
def test_any_positive_number_is_a_tolerance(tol):
    res = solve(tol=tol)
    assert res.success
    assert res.certificate.residual <= tol


def test_a_tolerance_below_rounding_is_no_false_success():
    res = minimize(lambda x: np.exp(x[0]) + square(x), [0.3, 0.2], constraints=LINE, tol=1e-30)
    assert res.success == (res.certificate.residual <= 1e-30)
    assert res.certificate.residual < 1e-5


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        ({"variant": "adaptive"}, OptionError, r"variant must be one of the known names, got 'adaptive'; did you mean"),
        ({"variant": 3}, OptionError, r"variant must be one of the known names, got 3; known: adaptive-full"),
        (
            {"preset": "papers"},
            OptionError,
            r"preset must be one of the known names, got 'papers'; did you mean 'paper'",
        ),
        ({"preset": 1}, OptionError, r"preset must be one of the known names, got 1; known: "),
        ({"preset": ""}, OptionError, r"preset must be one of the known names, got ''"),
        ({"penalty": "adaptiv"}, OptionError, r"penalty must be .*got 'adaptiv'; did you mean 'adaptive'\?"),
        ({"penalty": 10.0}, InputError, r"penalty must be .*got 10.0"),
        ({"penalty": auglag.Adaptive}, InputError, r"penalty must be .*got the class Adaptive: write Adaptive\(\)"),
        ({"dual": "ful"}, OptionError, r"dual must be .*got 'ful'; did you mean 'full'\?"),
        ({"dual": auglag.Short}, InputError, r"dual must be .*got the class Short"),
        ({"tolerance": 1e-3}, InputError, r"tolerance must be a ToleranceRule object .*got 0.001"),
        ({"inner": "l-bfgs-b"}, OptionError, r"inner must be .*got 'l-bfgs-b'; did you mean 'lbfgsb'\?"),
        ({"inner": auglag.LBFGSB}, OptionError, r"inner must be .*got <class"),
        ({"slacks": "open"}, InputError, r"slacks must be 'closed' or 'explicit', got 'open'"),
        ({"scaling": 1}, InputError, r"scaling must be True or False, got 1"),
        ({"scaling": "yes"}, InputError, r"scaling must be True or False, got 'yes'"),
        ({"restoration": "no"}, InputError, r"restoration must be True or False, got 'no'"),
        ({"budget": 100}, InputError, r"budget must be an auglag.Budget, got 100"),
        ({"budget": {"outer": 3}}, InputError, r"budget must be an auglag.Budget, got \{'outer': 3\}"),
        ({"callback": 3}, InputError, r"callback must be callable, got 3"),
        ({"check_derivatives": "always"}, InputError, r"check_derivatives must be 'first' or False, got 'always'"),
        ({"check_derivatives": None}, InputError, r"check_derivatives must be 'first' or False, got None"),
        ({"progress": "yes"}, InputError, r"progress must be True or False, got 'yes'"),
        ({"g": 3}, InputError, r"g must be a prox term or have methods value\(x\) and prox\(x, step\), got 3"),
        ({"g": auglag.prox.L1}, InputError, r"g must be an instance of a prox term, got the class L1"),
        ({"checkpoint": 3}, (InputError, CheckpointError), r"checkpoint must be a path.*got 3"),
        ({"resume": 3}, (InputError, CheckpointError), r"resume must .*got 3"),
        (
            {"checkpoint": "/no/such/folder/run.npz"},
            (InputError, CheckpointError),
            r"checkpoint must .*'?/no/such/folder",
        ),
        ({"jac": None, "finite_diff_rel_step": [1e-6] * 3}, InputError, r"rel_step must be a finite number or one for"),
        ({"jac": None, "finite_diff_rel_step": np.nan}, InputError, r"rel_step must be a finite number or one for"),
    ],
)
def test_a_keyword_of_the_wrong_type_is_named_with_its_value(kwargs, error, match):
    refused(match, error=error, **kwargs)


@pytest.mark.parametrize(
    "kwargs", [{"penalty": "always"}, {"dual": "short"}, {"penalty": auglag.Adaptive(), "dual": auglag.Full()}]
)
def test_a_variant_beside_a_rule_of_its_own_is_a_conflict(kwargs):
    refused(r"variant already names the penalty and the dual rule", variant="adaptive-full", **kwargs)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: auglag.Adaptive(tau=1.5), r"Adaptive.tau must lie in \(0, 1\), got 1.5"),
        (lambda: auglag.Adaptive(tau=np.nan), r"Adaptive.tau must lie in \(0, 1\), got nan"),
        (lambda: auglag.Adaptive(gamma=1), r"Adaptive.gamma must be finite and greater than 1, got 1"),
        (lambda: auglag.Adaptive(initial=0), r"Adaptive.initial must be positive and finite, got 0"),
        (lambda: auglag.Adaptive(initial="big"), r"Adaptive.initial must be .*got '?big"),
        (lambda: auglag.Always(gamma=np.inf), r"Always.gamma must be finite and greater than 1, got inf"),
        (lambda: auglag.Always(initial=-1), r"Always.initial must be positive and finite, got -1"),
        (lambda: auglag.FromScale(lowest=2, highest=1), r"FromScale.highest must be finite and at least lowest, got 1"),
        (lambda: auglag.Full(y_max=0), r"Full.y_max must be positive and finite, got 0"),
        (lambda: auglag.Full(ball="l1"), r"Full.ball must be 'box' or 'l2', got 'l1'"),
        (lambda: auglag.Geometric(ratio=1), r"Geometric.ratio must lie in \(0, 1\), got 1"),
        (lambda: auglag.PowerLaw(power=0), r"PowerLaw.power must be positive and finite, got 0"),
        (lambda: auglag.LBFGSB(memory=0), r"LBFGSB.memory must be a positive integer, got 0"),
        (lambda: auglag.NewtonCG(max_cg=1.5), r"NewtonCG.max_cg must be a positive integer, got 1.5"),
        (lambda: Budget(seconds=0), r"Budget.seconds must be positive or None, got 0"),
        (lambda: Budget(seconds=-1.0), r"Budget.seconds must be positive or None, got -1.0"),
        (lambda: Budget(seconds=np.nan), r"Budget.seconds must be positive or None, got nan"),
        (lambda: Budget(seconds="a minute"), r"Budget.seconds must be .*got 'a minute'"),
        (lambda: Budget(evaluations=0), r"Budget.evaluations must be a positive integer or None, got 0"),
        (lambda: Budget(evaluations=1e3), r"Budget.evaluations must be a positive integer or None, got 1000.0"),
        (lambda: Budget(outer=-1), r"Budget.outer must be a positive integer or None, got -1"),
        (lambda: Budget(outer=True), r"Budget.outer must be a positive integer or None, got True"),
        (lambda: Budget(inner="many"), r"Budget.inner must be a positive integer or None, got 'many'"),
    ],
)
def test_rules_solvers_and_budgets_are_checked_when_they_are_made(make, match):
    with pytest.raises(InputError, match=match):
        make()


def test_a_budget_without_limits_is_a_budget():
    assert_solved(solve(budget=Budget(seconds=None, evaluations=None, outer=None, inner=None)))


@pytest.mark.parametrize("beta", [0.0, -1.0, np.nan, np.inf, None, "ten"])
def test_a_users_rule_with_a_senseless_penalty_is_named(beta):
    class Senseless(PenaltyRule):
        def next(self, history):
            return beta

    refused(r"Senseless.*must.*positive.*got", penalty=Senseless())


@pytest.mark.parametrize("eta", [-1.0, np.nan])
def test_a_users_tolerance_rule_with_a_senseless_value_is_named(eta):
    class Senseless(ToleranceRule):
        def next(self, history):
            return eta

    refused(r"Senseless.*must.*positive.*got", tolerance=Senseless())


# ---------------------------------------------------------------------------------------------- g, bounds, inner solver


@pytest.mark.parametrize(
    "g", [auglag.prox.L2Ball(), auglag.prox.Simplex(), auglag.prox.GroupL2([[0, 1]], 1.0), auglag.prox.LinfNorm()]
)
def test_bounds_beside_a_term_that_is_not_separable_are_refused_with_the_reason(g):
    refused(
        rf"bounds and g={type(g).__name__} cannot be combined: .* only when g is separable", g=g, bounds=[(0, 1)] * 2
    )


def test_bounds_beside_a_separable_term_combine():
    res = minimize(lambda x: square(x - [2, -0.1]), X0, g=auglag.prox.L1(1.0), bounds=[(None, 1.2), (None, None)])
    assert_solved(res, [1.2, 0.0])
    np.testing.assert_allclose(res.bound_multipliers, [0.6, 0.0], atol=1e-5)


def test_bounds_and_a_term_that_have_no_point_in_common_are_refused():
    refused(r"(?s)(bounds|Box|lower|upper).*", g=auglag.prox.NonNegative(), bounds=[(-2, -1), (0, 1)])


def test_a_term_for_another_number_of_variables_is_refused():
    refused(r"L1\.\w+ must have 2 entries, one per variable, got 3", g=auglag.prox.L1([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("inner", ["lbfgsb", "newton-cg", auglag.LBFGSB(memory=5)])
def test_an_inner_solver_that_cannot_take_g_refuses_and_names_one_that_can(inner):
    refused(r"handles bounds but not g=L1; inner='panoc' handles any prox term", g=auglag.prox.L1(), inner=inner)


def test_newton_refuses_without_second_derivatives_and_with_kinks():
    refused(r"inner='newton-cg' needs hess or hessp for fun and hess for every nonlinear constraint", inner="newton-cg")
    refused(
        r"inner='newton-cg' needs a twice differentiable subproblem.*slacks='explicit'",
        inner="newton-cg",
        hess=lambda x: 2 * np.eye(2),
        constraints=LinearConstraint([[1, 1]], 1, np.inf),
    )


def test_a_prox_of_the_wrong_shape_is_named():
    class Bent:
        def value(self, x):
            return 0.0

        def prox(self, x, step):
            return np.zeros(3)

    refused(r"Custom.prox must return an array of shape \(2,\), got shape \(3,\)", g=Bent())


# ---------------------------------------------------------------------------------------------------- problem objects


def test_a_problem_object_takes_no_second_statement_beside_it():
    problem = auglag.Problem(square, X0, constraints=LINE)
    for name, value in {
        "jac": square_grad,
        "hess": lambda x: np.eye(2),
        "hessp": lambda x, p: p,
        "bounds": [(0, 1)] * 2,
        "constraints": LINE,
        "g": auglag.prox.L1(),
    }.items():
        with pytest.raises(InputError, match=rf"{name} must not be given beside a problem object"):
            minimize(problem, **{name: value})


@pytest.mark.parametrize(("name", "value"), [("args", (1.0,)), ("finite_diff_rel_step", 1e-3)])
def test_what_a_problem_object_cannot_take_is_not_silently_ignored(name, value):
    problem = auglag.Problem(square, X0, constraints=LINE)
    with pytest.raises(InputError, match=rf"{name} must not be given beside a problem object"):
        minimize(problem, **{name: value})


@pytest.mark.parametrize("x0", [range(3, 5), np.array([3.0, 4.0]), [3, 4], (3.0, 4.0)])
def test_a_start_beside_a_problem_object_is_used(x0):
    seen = []
    problem = auglag.Problem(lambda x: seen.append(x) or square(x), X0, constraints=LINE)
    seen.clear()
    assert_solved(minimize(problem, x0))
    np.testing.assert_array_equal(seen[0], [3, 4])


def test_a_start_of_the_wrong_length_beside_a_problem_object_is_refused():
    with pytest.raises(InputError, match=r"x0 must have 2 entries, got 3"):
        minimize(auglag.Problem(square, X0, constraints=LINE), [1, 2, 3])


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"fun_and_con": 3}, r"fun_and_con must be callable, got 3"),
        ({"fun_and_con": lambda x: 3.0}, r"fun_and_con\(x\) must return \(f, c\), got float"),
        ({"fun_and_con": lambda x: ([1, 2], 0)}, r"fun_and_con\(x\)\[0\] must return a number, got an array of shape"),
        ({"fun_and_con": lambda x: (1, 1j)}, r"fun_and_con\(x\)\[1\] must be real, got complex"),
        ({"fun_and_con": lambda x: (1, x), "fun": square}, r"fun_and_con replaces fun and constraints"),
        ({"fun_and_con": lambda x: (1, x), "constraints": LINE}, r"fun_and_con replaces fun and constraints"),
        ({"fun_and_con": lambda x: (1, x), "con_lower": [1, 2, 3]}, r"con_lower.* must be a number or have 2 entries"),
        ({"fun_and_con": lambda x: (1, x), "con_lower": 2.0}, r"con_lower.*lb must be at most ub.*got 2.0 > 0.0"),
        ({"fun_and_con": lambda x: (1, x), "jac": lambda x: x}, r"jac\(x\) must return \(grad f, Jacobian of c\), got"),
        (
            {"fun_and_con": lambda x: (1, x), "jac": lambda x: (x, np.ones((3, 2)))},
            r"jac\(x\)\[1\] must have shape \(2, 2\), got \(3, 2\)",
        ),
    ],
)
def test_a_bad_simulation_is_named(kwargs, match):
    with pytest.raises(InputError, match=match):
        minimize(auglag.Problem(x0=X0, **kwargs))


# ---------------------------------------------------------------------------------------------------------- warm start


@pytest.mark.parametrize(
    ("warm", "match"),
    [
        (
            5,
            r"warm_start must be a Result, a mapping with x, multipliers and penalty, or a tuple of .*three, got int",
        ),
        ([0.5, 0.5], r"warm_start must be a Result, a mapping .* got list"),
        ((np.zeros(2),), r"warm_start must be a Result, a mapping .* got tuple"),
        ({"multipliers": [1.0]}, r"warm_start must have an 'x', got the keys \['multipliers'\]"),
        ({"x": [1.0, 2.0, 3.0]}, r"warm_start: x must have 2 entries, got 3"),
        ({"x": [1.0, np.nan]}, r"(x0|warm_start: x) must be finite, got nan in entry 1"),
        (
            {"x": [1.0, 2.0], "multipliers": [1.0, 2.0]},
            r"multipliers must have 1 entries, one per constraint row, got 2",
        ),
        ({"x": [1.0, 2.0], "multipliers": [np.nan]}, r"multipliers must be finite, got NaN"),
        ({"x": [1.0, 2.0], "multipliers": ["a"]}, r"multipliers must be an array of numbers, got 'a'"),
        ({"x": [1.0, 2.0], "penalty": 0}, r"warm_start: penalty must be positive and finite, got 0"),
        ({"x": [1.0, 2.0], "penalty": np.nan}, r"warm_start: penalty must be positive and finite, got nan"),
        ({"x": [1.0, 2.0], "penalty": "big"}, r"warm_start: penalty must be .*got '?big"),
    ],
)
def test_a_warm_start_of_the_wrong_kind_or_shape_is_named(warm, match):
    refused(match, warm_start=warm)


def test_a_warm_start_from_another_solvers_result_works():
    from scipy.optimize import minimize as scipy_minimize

    other = scipy_minimize(square, X0, constraints=LINE, method="SLSQP")
    assert_solved(solve(warm_start={"x": other.x}))
    assert_solved(solve(warm_start=(other.x, None, None)))


# ---------------------------------------------------------------------------------------------------------- checkpoints


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.npz"
    solve(checkpoint=path)
    return path


def test_a_checkpoint_that_does_not_exist_is_named(tmp_path):
    refused(
        r"resume must name an existing checkpoint, got '.*missing.npz', which does not exist",
        error=CheckpointError,
        resume=tmp_path / "missing.npz",
    )


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.7, 0.99])
def test_a_truncated_checkpoint_is_refused(saved, part):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(part * len(data))])
    refused(r"run.npz is not a usable checkpoint \(", error=CheckpointError, resume=saved)


def test_a_checkpoint_with_a_flipped_byte_is_refused(saved):
    data = bytearray(saved.read_bytes())
    data[len(data) // 2] ^= 0xFF
    saved.write_bytes(bytes(data))
    refused(r"run.npz is not a usable checkpoint \(", error=CheckpointError, resume=saved)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x80\x04K\x03.", b"\x00" * 1000])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "other.bin"
    path.write_bytes(content)
    refused(r"other.bin is not a usable checkpoint \(", error=CheckpointError, resume=path)


def test_a_folder_a_bare_array_and_a_foreign_npz_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "foreign.npz", x=np.zeros(2))
    for name in ("", "array.npy", "foreign.npz"):
        refused(r"is not a usable checkpoint \(", error=CheckpointError, resume=tmp_path / name)


def rewritten(path, change):
    with np.load(path, allow_pickle=False) as data:
        arrays = dict(data)
    meta = json.loads(str(arrays.pop("meta")))
    change(meta, arrays)
    np.savez(path, meta=np.array(json.dumps(meta)), **arrays)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda meta, arrays: meta.update(format=99), r"must have checkpoint format 6, got 99"),
        (lambda meta, arrays: meta.pop("format"), r"must have checkpoint format 6, got None"),
        (lambda meta, arrays: meta.pop("iterations"), r"is not a usable checkpoint"),
        (lambda meta, arrays: meta["iterations"][0].pop("beta"), r"is not a usable checkpoint"),
        (lambda meta, arrays: meta["iterations"][0].update(colour="red"), r"is not a usable checkpoint"),
        (lambda meta, arrays: meta.update(counts={"nfev": 1, "zebra": 2}), r"is not a usable checkpoint"),
        (lambda meta, arrays: arrays.pop("best_y"), r"is not a usable checkpoint"),
        (lambda meta, arrays: arrays.update(x=np.zeros(7)), r"is not a usable checkpoint"),
    ],
)
def test_a_checkpoint_with_parts_missing_or_strange_is_refused(saved, change, match):
    rewritten(saved, change)
    refused(match, error=CheckpointError, resume=saved)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"x0": [0.5, 0.3]}, r"belongs to another run: x0 must be \[0.5, 0.2\] as saved, got \[0.5, 0.3\]"),
        ({"tol": 1e-8}, r"belongs to another run: tol must be 1e-06 as saved, got 1e-08"),
        ({"variant": "always-short"}, r"belongs to another run: settings must be "),
        ({"constraints": [LINE, LINE]}, r"belongs to another run: m must be 1 as saved, got 2"),
        ({"constraints": ()}, r"belongs to another run: m must be 1 as saved, got 0"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_the_difference_named(saved, kwargs, match):
    refused(match, error=CheckpointError, resume=saved, **kwargs)


def test_a_checkpoint_of_a_problem_of_another_size_is_refused(saved):
    with pytest.raises(CheckpointError, match=r"belongs to another run: n must be 2 as saved, got 3"):
        minimize(square, [1.0, 2.0, 3.0], constraints={"type": "eq", "fun": on_line}, resume=saved)


def test_a_checkpoint_holds_no_pickle(saved):
    with np.load(saved, allow_pickle=False) as data:
        assert all(data[name].dtype.kind in "fU" for name in data.files)


# ------------------------------------------------------------------------------------------------------------- certify


class TestCertify:
    arguments: ClassVar = {"jac": square_grad, "constraints": LINE}

    @pytest.mark.parametrize(
        ("x", "match"),
        [
            (None, r"^x must be given"),
            ([], r"^x must have at least one entry"),
            ([0.5, np.nan], r"^x must be finite, got nan in entry 1"),
            ([[0.5, 0.5]], r"^x must be a vector"),
        ],
    )
    def test_a_bad_point_is_named_x(self, x, match):
        with pytest.raises(InputError, match=match):
            auglag.certify(square, x, **self.arguments)

    def test_a_point_of_the_wrong_length_for_a_problem_object_is_named_x(self):
        with pytest.raises(InputError, match=r"^x must have 2 entries, got 3"):
            auglag.certify(auglag.Problem(square, X0, **self.arguments), [1, 2, 3])

    def test_multipliers_of_the_wrong_length_are_named(self):
        with pytest.raises(InputError, match=r"multipliers must have 1 entries, one per constraint row, got 3"):
            auglag.certify(square, SOLUTION, [1, 2, 3], **self.arguments)

    @pytest.mark.parametrize("tol", [0, -1, np.nan, np.inf])
    def test_meets_takes_positive_tolerances_only(self, tol):
        with pytest.raises(InputError, match=r"tol must be positive and finite, got"):
            auglag.certify(square, SOLUTION, **self.arguments).meets(tol)

    def test_a_point_with_an_infinite_jacobian_is_judged_and_not_crashed_on(self):
        con = {
            "type": "ineq",
            "fun": lambda x: np.sqrt(x[0]),
            "jac": lambda x: np.array([np.inf if x[0] == 0 else 0.5 / np.sqrt(x[0]), 0.0]),
        }
        assert not auglag.certify(square, [0.0, 0.5], jac=square_grad, constraints=con).meets(1e-6)

    def test_a_point_where_the_objective_is_nan_meets_nothing(self):
        assert not auglag.certify(lambda x: np.nan, SOLUTION, jac=square_grad, constraints=LINE).meets(1e6)

    @pytest.mark.parametrize("jac", [square_grad, None, "3-point"])
    def test_a_point_outside_the_bounds_is_judged_by_how_far(self, jac):
        check = auglag.certify(square, [-1.0, 0.5], jac=jac, bounds=[(0, 1), (0, 1)])
        assert check.violation == pytest.approx(1.0)
        assert check.row_violations == {"bounds": pytest.approx(1.0)}
        assert not check.meets(0.5)
