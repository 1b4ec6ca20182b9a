"""Derivatives of solutions by parameters, against solving again, and what is said where there are none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import LinearConstraint, NonlinearConstraint

import auglag
from auglag.errors import InputError
from auglag.prox import L1


def hs71(p, *, exact=True):
    """Parameters in the objective, in a constraint, in a side and in a bound that is active."""

    def f(x):
        return x[0] * x[3] * (x[0] + x[1] + x[2]) + p[0] * x[2]

    def grad(x):
        s = x[0] + x[1] + x[2]
        return np.array([x[3] * (x[0] + s), x[0] * x[3], x[0] * x[3] + p[0], x[0] * s])

    rows = NonlinearConstraint(
        lambda x: np.array([np.prod(x), p[1] * x[0] ** 2 + x[1:] @ x[1:]]),
        [25.0, p[2]],
        [np.inf, p[2]],
        jac=(lambda x: np.array([np.prod(x) / x, 2 * x * [p[1], 1, 1, 1]])) if exact else "2-point",
    )
    bounds = [(p[3], 5), (1, 5), (1, 5), (1, 5)]
    return auglag.Problem(f, [1, 5, 5, 1], jac=grad if exact else None, bounds=bounds, constraints=rows)


HERE = np.array([1.0, 1.0, 40.0, 1.0])


@pytest.mark.parametrize("exact", [True, False])
def test_derivatives_are_those_of_solutions_for_other_parameters(exact):
    def solved(p):
        result = auglag.minimize(hs71(p), tol=1e-9, x0=[1, 4.7, 3.8, 1.4])
        assert result.success
        return result

    result = solved(HERE)
    found = auglag.sensitivity(lambda p: hs71(p, exact=exact), HERE, result)
    assert found.differentiable
    digits = 1e-5 if exact else 1e-3
    for k in range(HERE.size):
        h = 1e-3 * np.eye(HERE.size)[k]
        up, down = solved(HERE + h), solved(HERE - h)
        for derivative, name in ((found.dx, "x"), (found.dy, "y"), (found.dz, "bound_multipliers")):
            expected = (getattr(up, name) - getattr(down, name)) / 2e-3
            np.testing.assert_allclose(derivative[:, k], expected, atol=digits * (1 + np.abs(expected).max()))
        assert found.dfun[k] == pytest.approx((up.fun - down.fun) / 2e-3, rel=10 * digits)
        np.testing.assert_allclose(found.directional(h), found.dx @ h, atol=1e-6)


def test_a_prediction_is_good_to_second_order_and_a_better_start():
    result = auglag.minimize(hs71(HERE), tol=1e-9)
    found = auglag.sensitivity(hs71, HERE, result)
    moved = HERE + [0.02, 0.01, 0.3, 0.01]
    true = auglag.minimize(hs71(moved), tol=1e-9)
    x, y = found.predict(moved)
    assert np.linalg.norm(x - true.x) < 0.1 * np.linalg.norm(result.x - true.x)
    assert np.linalg.norm(y - true.y) < 0.1 * np.linalg.norm(result.y - true.y)
    warm = auglag.minimize(hs71(moved), tol=1e-9, warm_start=(x, y))
    assert warm.nit_inner < auglag.minimize(hs71(moved), tol=1e-9).nit_inner


def test_a_sparse_problem_with_a_number_as_parameter():
    n = 300
    h = sparse.diags_array([np.full(n, 2.0), np.full(n - 1, -1.0), np.full(n - 1, -1.0)], offsets=[0, 1, -1]).tocsr()

    def chain(load):
        push = 0.01 + load * np.linspace(-1, 1, n)
        return auglag.Problem(
            lambda x: 0.5 * x @ (h @ x) - push @ x,
            np.zeros(n),
            jac=lambda x: h @ x - push,
            hess=lambda x: h,
            bounds=[(None, 20.0)] * n,
            constraints=LinearConstraint(sparse.csr_array(np.ones((1, n)) / n), -np.inf, 15.0),
        )

    result, step = auglag.minimize(chain(0.002), tol=1e-9), 1e-7
    assert result.success
    found = auglag.sensitivity(chain, 0.002, result)
    assert found.differentiable
    assert (result.bound_multipliers > 1e-6).any()  # the premise: bounds and the row are active
    assert result.y[0] > 1e-6
    expected = (auglag.minimize(chain(0.002 + step), tol=1e-9).x - auglag.minimize(chain(0.002 - step), tol=1e-9).x) / (
        2 * step
    )
    np.testing.assert_allclose(found.dx[:, 0], expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("row", [True, False])
def test_an_active_inequality_without_multiplier_has_one_sided_derivatives(row):
    def problem(p):
        limits = {"constraints": LinearConstraint([[1.0, 0.0]], 0.0, np.inf)} if row else {"bounds": [(0, None)] * 2}
        return auglag.Problem(lambda x: (x[0] - p) ** 2 + (x[1] - 1) ** 2, [1, 1], **limits)

    result = auglag.minimize(problem(0.0))
    found = auglag.sensitivity(problem, 0.0, result)
    assert not found.differentiable
    assert "one-sided" in found.reasons[0]
    assert ("constraints[0]" if row else "the bound of x[0]") in found.reasons[0]
    np.testing.assert_allclose(found.directional(1.0), [1.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(found.directional(-1.0), [0.0, 0.0], atol=1e-6)


def test_dependent_rows_leave_x_differentiable_but_not_the_multipliers():
    def problem(p, second=1.0):
        rows = LinearConstraint([[1.0, 1.0], [2.0, 2.0]], [p, 2 * p * second], [p, 2 * p * second])
        return auglag.Problem(lambda x: x[0] ** 2 + 2 * x[1] ** 2, [1, 1], constraints=rows)

    result = auglag.minimize(problem(1.0))
    found = auglag.sensitivity(problem, 1.0, result)
    assert "multipliers are not unique" in found.reasons[0]
    np.testing.assert_allclose(found.dx[:, 0], [2 / 3, 1 / 3], atol=1e-6)
    assert np.isnan(found.dy).all()
    apart = auglag.sensitivity(lambda p: problem(p, 1.0 + (p - 1.0)), 1.0, result)
    assert "no solutions on one side" in apart.reasons[0]
    assert np.isnan(apart.dx).all()


def test_a_valley_of_solutions_is_told():
    def problem(p):
        return auglag.Problem(
            lambda x: (x[0] + x[1] - p) ** 2, [1, 1], jac=lambda x: 2 * (x[0] + x[1] - p) * np.ones(2)
        )

    found = auglag.sensitivity(problem, 1.0, auglag.minimize(problem(1.0)))
    assert "not isolated" in found.reasons[0]
    assert "2 variables by 1 parameters: the curvature is zero" in repr(found)
    assert np.isnan(found.dx).all()
    np.testing.assert_allclose(found.dfun, 0.0, atol=1e-6)


def test_what_cannot_be_done_is_said():
    failed = auglag.minimize(hs71(HERE), budget=auglag.Budget(evaluations=2))
    with pytest.raises(InputError, match="result must be a solution"):
        auglag.sensitivity(hs71, HERE, failed)
    result = auglag.minimize(hs71(HERE))
    with pytest.raises(InputError, match="must have the 4 variables and 2 rows of the result, got 2 and 0"):
        auglag.sensitivity(lambda p: auglag.Problem(lambda x: x @ x, [1, 1]), HERE, result)
    with pytest.raises(InputError, match="p must be a finite number or vector"):
        auglag.sensitivity(hs71, [np.nan, 1, 1, 1], result)
    with pytest.raises(InputError, match="p must have 4 entries, got 1"):
        auglag.sensitivity(hs71, HERE, result).predict(1.0)
    with pytest.raises(InputError, match=r"result must solve problem\(p\) for the p that is given, got a KKT residual"):
        auglag.sensitivity(hs71, HERE + [0, 0, 0.01, 0], result)
    with pytest.raises(InputError, match=r"got Problem: pass problem, not problem\(p\)"):
        auglag.sensitivity(hs71(HERE), HERE, result)
    with pytest.raises(
        InputError, match=r"problem\(p\) must return a problem object, such as auglag.Problem, got None"
    ):
        auglag.sensitivity(lambda p: None, HERE, result)
    with pytest.raises(AttributeError, match=r"write auglag\.sensitivity\(problem, p, result\)"):
        result.sensitivity(HERE)
    rough = auglag.Problem(lambda x: x @ x, [1, 1], g=L1(0.1))
    with pytest.raises(InputError, match="need a smooth problem, got g=L1"):
        auglag.sensitivity(lambda p: rough, 1.0, auglag.minimize(rough))


@pytest.mark.parametrize("unit", [1e-3, 1e-6, 1e-9])
def test_small_variables_without_second_derivatives(unit):
    def problem(p):
        return auglag.Problem(
            lambda x: float(np.cosh(np.clip(x[0] / unit - p[0], -300.0, 300.0))),
            [unit],
            jac=lambda x: np.sinh(np.clip(x / unit - p[0], -300.0, 300.0)) / unit,
        )

    p = np.array([2.0])
    result = auglag.minimize(problem(p))
    np.testing.assert_allclose(auglag.sensitivity(problem, p, result).dx, [[unit]], rtol=1e-5)


def test_a_fixed_variable_that_moves_without_derivatives():
    def problem(p):
        return auglag.Problem(
            lambda x: float((x[0] * x[1] - 1) ** 2 + x[1] ** 2), [p[0], 0.0], bounds=[(p[0], p[0]), (None, None)]
        )

    p = np.array([2.0])
    result = auglag.minimize(problem(p))
    np.testing.assert_allclose(auglag.sensitivity(problem, p, result).dx, [[1.0], [-0.12]], atol=1e-5)
