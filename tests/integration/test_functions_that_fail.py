"""Functions that raise, or return NaN or Inf, at x0, on the way or everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize as so
from scipy.optimize import NonlinearConstraint

import auglag
from auglag import EvaluationError, Status, minimize
from auglag.problems.constraints import nearby
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


@pytest.mark.parametrize("n", [1, 4, 40])
@pytest.mark.parametrize("bound", [(0, None), (0, 3), (0, 1 + 1e-3)])
def test_a_start_in_a_corner_of_the_bounds_where_the_objective_is_undefined_is_left_for_the_inside(n, bound):
    with np.errstate(all="ignore"):
        res = minimize(lambda x: (x - np.log(x)).sum(), np.zeros(n), bounds=[bound] * n)
    assert_solved(res, np.ones(n))


def test_a_start_in_a_corner_of_lower_and_upper_bounds_is_left_for_the_inside():
    lower, upper = np.array([0.0, -np.inf, 0.0, 2.0, -np.inf]), np.array([np.inf, 0.0, 1e-3, 2.0, np.inf])

    def fun(x):
        inside = (x[0] > 0) & (x[1] < 0) & (0 < x[2] < 1e-3)
        return 1 + np.log(x[0]) ** 2 + np.log(-x[1]) ** 2 + (1e3 * x[2] - 0.5) ** 2 + x[4] ** 2 if inside else np.nan

    res = minimize(fun, [0.0, 0.0, 1e-3, 2.0, 0.0], bounds=so.Bounds(lower, upper))
    assert_solved(res, [1.0, -1.0, 5e-4, 2.0, 0.0])


def test_points_tried_near_a_start_stay_inside_the_bounds_and_off_them():
    lower, upper = np.array([0.0, -np.inf, 0.0, 2.0]), np.array([np.inf, 0.0, 1e-3, 2.0])
    start = np.array([0.0, 0.0, 1e-3, 2.0])
    points = np.array(list(nearby(start, (lower, upper))))
    assert ((lower <= points) & (points <= upper)).all()
    assert (points[0] == start).all()
    assert ((lower < points) & (points < upper))[1:, :3].all()
    np.testing.assert_allclose(points[1], [1e-2, -1e-2, 0.99e-3, 2.0])


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


# ------------------------------------------------------------ what such an exception carries


def failing_after(calls, error, fun):
    """`fun`, which raises from some call on."""
    count = [0]

    def wrapped(x):
        count[0] += 1
        if count[0] > calls:
            raise error
        return fun(x)

    return wrapped


@pytest.mark.parametrize("jac", [None, "cs", lambda x: 2 * (x - 3)], ids=["differences", "complex step", "exact"])
@pytest.mark.parametrize("calls", [0, 1, 3, 5])
def test_a_note_says_at_which_x_and_what_to_do(jac, calls):
    seen = []
    error = HomeMade("no solution of the inner model")

    def fun(x):
        seen.append(x.copy())
        if len(seen) == calls + 1:
            raise error
        return ((x - 3) ** 2).sum()

    with pytest.raises(HomeMade) as caught:
        minimize(fun, X0, jac=jac, constraints=LINE, acceleration=False)
    assert caught.value is error
    (note,) = error.__notes__
    assert note.startswith(f"raised by a function at x = {seen[calls]!r};")
    assert "return NaN or raise auglag.EvaluationError" in note


@pytest.mark.parametrize("where", ["fun", "jac", "con", "con jac", "hess"])
def test_a_note_is_left_by_every_function(where):
    def fails(name, fun):
        return failing_after(2, HomeMade(name), fun) if name == where else fun

    con = NonlinearConstraint(
        fails("con", lambda x: x[0] ** 2 + x[1] - 1), 0, 0, jac=fails("con jac", lambda x: np.array([[2 * x[0], 1.0]])),
        hess=lambda x, v: v[0] * np.diag([2.0, 0.0]),
    )  # fmt: skip
    with pytest.raises(HomeMade) as caught:
        minimize(fails("fun", lambda x: square(x - 3)), X0, jac=fails("jac", lambda x: 2 * (x - 3)),
                 hess=fails("hess", lambda x: 2 * np.eye(2)), constraints=con)  # fmt: skip
    assert sum(note.startswith("raised by a function at x = array([") for note in caught.value.__notes__) == 1


def quartic(x):
    return (x[0] - 3) ** 4 + x[1] ** 2


def test_the_best_point_so_far_comes_with_the_exception():
    whole = minimize(quartic, X0, constraints=LINE, acceleration=False)
    error = HomeMade("out of licences")
    with pytest.raises(HomeMade) as caught:
        minimize(failing_after(whole.nfev // 2, error, quartic), X0, constraints=LINE, acceleration=False)
    best = caught.value.best
    assert best.status is Status.STOPPED
    assert not best.success
    assert best.message.startswith("Stopped by an exception (HomeMade: out of licences).")
    assert np.isfinite(best.x).all()
    assert 0 < best.nit < whole.nit
    assert best.fun == pytest.approx(quartic(best.x))
    assert best.nfev == whole.nfev // 2 + 1
    again = minimize(quartic, warm_start=best, constraints=LINE)
    assert again.success


def test_the_best_point_is_measured_where_the_functions_still_work():
    """Undefined for x0 > 1, which the way to (3, 0) needs; around the best point all is well."""

    def fun(x):
        if x[0] > 1:
            raise HomeMade("x0 > 1")
        return quartic(x)

    row = {"type": "ineq", "fun": lambda x: 20 - x @ x}
    with pytest.raises(HomeMade) as caught:
        minimize(fun, [0.0, 2.0], constraints=row, acceleration=False)
    best = caught.value.best
    assert best.x[0] <= 1
    assert best.certificate.residual > 0
    assert best.fun == quartic(best.x)


def test_without_a_point_there_is_no_best_one():
    with pytest.raises(HomeMade) as caught:
        minimize(failing_after(0, HomeMade(), square), X0, constraints=LINE)
    assert not hasattr(caught.value, "best")


def test_a_problem_is_not_spoilt_by_a_run_that_failed():
    broken = [True]

    def fun(x):
        if broken and len(broken) > 12:
            raise HomeMade("down")
        broken.append(True)
        return quartic(x)

    problem = auglag.Problem(fun, X0, constraints=LINE)
    with pytest.raises(HomeMade):
        minimize(problem, acceleration=False)
    broken.clear()
    broken_since = problem.at(np.array(X0, dtype=float)).f
    assert np.isfinite(broken_since)


def test_errors_of_the_library_get_no_note():
    calls = []

    def fun(x):
        calls.append(1)
        return square(x) if len(calls) < 6 else np.ones(3)

    with pytest.raises(auglag.InputError) as caught:
        minimize(fun, X0, constraints=LINE, acceleration=False)
    assert not getattr(caught.value, "__notes__", [])
    assert caught.value.best.x.size == 2


def test_an_exception_that_takes_no_attributes_propagates_all_the_same():
    class Frozen(Exception):
        def __setattr__(self, name, value):
            raise TypeError("frozen")

    with pytest.raises(Frozen):
        minimize(failing_after(8, Frozen(), quartic), X0, constraints=LINE, acceleration=False)
