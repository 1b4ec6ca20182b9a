"""Odd starting points and bounds work, or get an error that names the argument, the demand and the value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds

from auglag import Status, minimize
from helpers.line_problem import LINE, X0, assert_solved, on_line, refused, solve, square, square_grad

# ------------------------------------------------------------------------------------------------------------------ x0


class Guarded:
    """Refuses to become an array, as a tensor of PyTorch does that requires gradients or is on a GPU."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error("use tensor.detach().numpy()")


@pytest.mark.parametrize("error", [RuntimeError, TypeError])
def test_what_refuses_to_become_an_array_is_named(error):
    refused(r"x0 must be an array of numbers, got Guarded \(use tensor.detach", x0=Guarded(error))
    refused(r"fun\(x\) must be an array of numbers, got Guarded", fun=lambda x: Guarded(error))
    refused(r"jac\(x\) must be an array of numbers, got Guarded", jac=lambda x: Guarded(error))


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
        ((np.zeros(3), np.ones(3)), r"bounds must be a .* got a tuple of two: write Bounds\(lower, upper\)"),
        ((np.zeros(2), np.ones(2)), r"bounds must be a .* got a tuple of two: write Bounds\(lower, upper\)"),
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
