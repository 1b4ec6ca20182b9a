"""Odd constraints work, or get an error that names the constraint, the demand and the value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

from auglag import DerivativeError, OptionError, Status, minimize
from helpers.line_problem import LINE, X0, assert_solved, on_line, refused, solve, square


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
        (NonlinearConstraint(on_line, [0, 0], 1), r"constraints\[0\].lb must be a number or have 1 entries, got 2"),
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
        r"constraints\[0\].A must be real, got complex", constraints=LinearConstraint(sparse.csr_array([[1, 1j]]), 0, 1)
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


def test_a_constraint_whose_length_changes_within_differences_is_named():
    refused(
        r"constraints\[0\]: fun\(x\) must return 1 values as it did at x0, got 2",
        constraints={"type": "eq", "fun": lambda x: np.ones(1 + (x[0] != X0[0]))},
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


def short_of_one() -> NonlinearConstraint:
    return NonlinearConstraint(lambda x: [x[0] + x[1], x[1]], 0, 1, finite_diff_jac_sparsity=np.eye(2))


def test_an_entry_that_a_sparsity_lacks_is_named():
    with pytest.raises(DerivativeError, match="finite_diff_jac_sparsity has no entry in row 0, column 1, "):
        minimize(lambda x: x @ x, [0.5, 0.5], constraints=short_of_one())


def test_a_sparsity_is_not_checked_where_derivatives_are_not():
    minimize(lambda x: x @ x, [0.5, 0.5], constraints=short_of_one(), check_derivatives=False)


def test_an_entry_that_a_sparsity_lacks_and_that_is_zero_at_the_start_keeps_a_run_from_success():
    con = NonlinearConstraint(
        lambda x: [x[0] + x[0] * x[1] ** 2, x[1]], [2, -9], [2, 9], finite_diff_jac_sparsity=np.eye(2)
    )
    res = minimize(lambda x: (x[0] - 1) ** 2 + (x[1] - 2) ** 2, [0.0, 1.0], constraints=con)
    assert not res.success
    assert "has no entry in row 0, column 1, but finite differences of fun give" in res.message
