"""Functions that raise, or return NaN or Inf, at x0, on the way or everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint

from auglag import EvaluationError, Status, minimize
from helpers.line_problem import LINE, X0, assert_solved, on_line, solve, square, square_grad


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
