"""The subproblem: values and derivatives of the augmented Lagrangian, with slacks minimised out or explicit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import NonlinearConstraint

import auglag
from auglag._typing import Matrix, Vector
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.problems.scaling import Scaling
from auglag.problems.standard_form import StandardForm

INF = np.inf
#: An equality, an upper side, a lower side, two sides, and no side at all.
CL = np.array([0.5, -INF, -1.0, -0.5, -INF])
CU = np.array([0.5, 0.3, INF, 0.25, INF])
A = np.array([[1.0, -2.0, 0.5], [0.3, 1.0, 1.0], [-1.0, 0.2, 0.7], [0.6, 0.6, -0.6], [1.0, 1.0, 1.0]])


def c(x: Vector) -> Vector:
    return A @ x + 0.3 * np.sin(A @ x)


def jac(x: Vector) -> Matrix:
    return (1.0 + 0.3 * np.cos(A @ x))[:, None] * A


def c_hess(x: Vector, v: Vector) -> Matrix:
    return (A.T * (-0.3 * np.sin(A @ x) * v)) @ A


def f(x: Vector) -> float:
    return float(np.sum(x**4) / 4 + x[0] * x[1] - x[2])


def grad(x: Vector) -> Vector:
    return x**3 + np.array([x[1], x[0], -1.0])


def hess(x: Vector) -> Matrix:
    return np.diag(3 * x**2) + np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])


def problem(rows: list[int] | None = None, **more: object) -> auglag.Problem:
    rows = list(range(5)) if rows is None else rows
    constraint = NonlinearConstraint(
        lambda x: c(x)[rows],
        CL[rows],
        CU[rows],
        jac=lambda x: jac(x)[rows],
        hess=lambda x, v: c_hess(x, np.eye(5)[rows].T @ v),
    )
    return auglag.Problem(f, [0.3, -0.2, 0.1], jac=grad, hess=hess, constraints=constraint, **more)


def form(
    *, scaled: bool = False, slacks: str = "closed", rows: list[int] | None = None, **more: object
) -> StandardForm:
    p = problem(rows, **more)
    scaling = Scaling(0.3, np.linspace(0.2, 1.0, p.m)) if scaled else Scaling.none(p.m)
    return StandardForm(p, scaling, slacks=slacks)


def central(fun: object, x: Vector, h: float = 1e-6) -> Vector:
    steps = h * np.eye(x.size)
    return np.array([(fun(x + step) - fun(x - step)) / (2 * h) for step in steps])


VECTORS = st.lists(st.floats(-2.0, 2.0), min_size=3, max_size=3).map(np.array)
DUALS = st.lists(st.floats(-5.0, 5.0), min_size=5, max_size=5).map(np.array)
BETAS = st.sampled_from([1e-3, 0.7, 10.0, 1e5])


@pytest.mark.parametrize("rows", [[0], [1], [2], [3], [4], [0, 1, 2, 3, 4], [1, 4], [2, 4], [0, 3]])
@pytest.mark.parametrize("scaled", [False, True])
@given(x=VECTORS, dual=DUALS, beta=BETAS)
def test_the_value_is_the_least_over_all_slacks(
    rows: list[int], scaled: bool, x: Vector, dual: Vector, beta: float
) -> None:
    """Brute force: f + y'(c - s) + beta/2 ||c - s||^2 at many slacks of the interval, in the units of the form."""
    standard = form(scaled=scaled, rows=rows)
    y = dual[rows]
    subproblem = AugmentedLagrangian(standard, y, beta)
    sf, sc = standard.scaling.sf, standard.scaling.sc
    cx, cl, cu = sc * c(x)[rows], sc * CL[rows], sc * CU[rows]
    reach = 3.0 * (1.0 + np.abs(cx) + np.abs(y) / beta)  # beyond it the quadratic only grows
    least = np.zeros(len(rows))
    for i in range(len(rows)):
        low, high = max(cl[i], cx[i] - reach[i]), min(cu[i], cx[i] + reach[i])
        s = np.linspace(low, max(low, high), 4001)
        least[i] = np.min(y[i] * (cx[i] - s) + 0.5 * beta * (cx[i] - s) ** 2)
    brute = sf * f(x) + least.sum()
    scale = 1e-9 * (1.0 + abs(brute) + beta * float(cx @ cx) + float(y @ y) / beta)
    assert subproblem.value(x) <= brute + scale
    assert subproblem.value(x) >= brute - len(rows) * beta * (reach.max() / 2000) ** 2 - scale


@given(x=VECTORS, y=DUALS, beta=BETAS)
def test_the_constraint_is_c_less_a_slack_that_lies_in_its_interval(x: Vector, y: Vector, beta: float) -> None:
    subproblem = AugmentedLagrangian(form(), y, beta)
    r = subproblem.constraint(x)
    s = c(x) - r
    room = 1e-9 * (1.0 + np.abs(s) + np.abs(y) / beta)
    assert (s >= CL - room).all()
    assert (s <= CU + room).all()
    np.testing.assert_allclose(s, np.clip(c(x) + y / beta, CL, CU), rtol=1e-9, atol=1e-9 * (1 + np.abs(y).max() / beta))
    np.testing.assert_allclose(y + beta * r, subproblem.estimate(c(x)), atol=1e-9 * (1 + np.abs(y).max() + beta))


@given(x=VECTORS, y=DUALS, beta=BETAS)
def test_the_estimate_has_the_signs_of_multipliers(x: Vector, y: Vector, beta: float) -> None:
    estimate = AugmentedLagrangian(form(), y, beta).estimate(c(x))
    assert estimate[1] >= 0.0
    assert estimate[2] <= 0.0
    assert estimate[4] == 0.0


@given(x=VECTORS, y=DUALS, beta=st.sampled_from([1e-3, 0.7, 10.0]), scaled=st.booleans(), explicit=st.booleans())
def test_the_gradient_agrees_with_differences(x: Vector, y: Vector, beta: float, scaled: bool, explicit: bool) -> None:
    standard = form(scaled=scaled, slacks="explicit" if explicit else "closed")
    subproblem = AugmentedLagrangian(standard, y, beta)
    z = np.concatenate([x, np.linspace(-0.4, 0.2, standard.n - 3)])
    value, gradient = subproblem.value_and_gradient(z)
    assert value == subproblem.value(z)
    scale = 1.0 + beta + np.abs(y).max() + 1 / beta
    np.testing.assert_allclose(gradient, central(subproblem.value, z), atol=1e-6 * scale, rtol=1e-6)


@given(x=VECTORS, y=DUALS, beta=st.sampled_from([0.7, 10.0]), explicit=st.booleans(), scaled=st.booleans())
def test_hessian_products_agree_with_differences_of_the_gradient(
    x: Vector, y: Vector, beta: float, explicit: bool, scaled: bool
) -> None:
    standard = form(slacks="explicit" if explicit else "closed", scaled=scaled)
    subproblem = AugmentedLagrangian(standard, y, beta)
    z = np.concatenate([x, np.linspace(-0.4, 0.2, standard.n - 3)])
    distance = [y + beta * (standard.at(z).c - side) for side in (standard.cl, standard.cu)]
    if not explicit and (np.abs(distance) < 1e-2).any():
        return  # beside a kink of the gradient differences mean nothing
    v = np.linspace(1.0, -0.5, standard.n)
    h = 1e-6
    _, up = subproblem.value_and_gradient(z + h * v)
    _, down = subproblem.value_and_gradient(z - h * v)
    np.testing.assert_allclose(subproblem.hessp(z, v), (up - down) / (2 * h), atol=1e-4, rtol=1e-5)


def test_the_gradient_is_that_of_the_lagrangian_at_the_estimate() -> None:
    x, y, beta = np.array([0.4, -1.0, 2.0]), np.array([1.0, -2.0, 0.5, 3.0, 1.0]), 7.0
    subproblem = AugmentedLagrangian(form(), y, beta)
    _, gradient = subproblem.value_and_gradient(x)
    np.testing.assert_allclose(gradient, grad(x) + subproblem.estimate(c(x)) @ jac(x), rtol=1e-14)


def test_for_equalities_the_value_is_the_textbook_formula() -> None:
    x, y, beta = np.array([0.4, -1.0, 2.0]), np.array([1.5]), 7.0
    subproblem = AugmentedLagrangian(form(rows=[0]), y, beta)
    r = c(x)[0] - 0.5
    assert subproblem.value(x) == pytest.approx(f(x) + 1.5 * r + 3.5 * r**2, rel=1e-14)
    np.testing.assert_allclose(subproblem.constraint(x), [r])


@given(x=VECTORS, y=DUALS, beta=st.sampled_from([0.7, 10.0, 1e3]))
def test_closed_slacks_are_explicit_slacks_minimised_out(x: Vector, y: Vector, beta: float) -> None:
    """At the best slack both forms have the same value, and the explicit one is stationary in the slack."""
    closed, explicit = AugmentedLagrangian(form(), y, beta), AugmentedLagrangian(form(slacks="explicit"), y, beta)
    s = np.clip(c(x) + y / beta, CL, CU)[explicit.form.slack_rows]
    z = np.concatenate([x, s])
    scale = 1.0 + beta + float(y @ y) / beta
    assert explicit.value(z) == pytest.approx(closed.value(x), abs=1e-9 * scale)
    _, gradient = explicit.value_and_gradient(z)
    np.testing.assert_allclose(gradient[:3], closed.value_and_gradient(x)[1], atol=1e-9 * scale)
    assert np.linalg.norm(explicit.g.project_subdiff(z, -gradient)[3:] + gradient[3:]) <= 1e-8 * scale
    rng = np.random.default_rng(0)
    for _ in range(5):
        other = explicit.g.domain().prox(np.concatenate([x, s + rng.standard_normal(s.size)]), 1.0)
        assert explicit.value(other) >= closed.value(x) - 1e-9 * scale


def test_nothing_is_evaluated_twice_at_one_point() -> None:
    p = problem()
    subproblem = AugmentedLagrangian(StandardForm(p, Scaling.none(p.m)), np.zeros(5), 1.0)
    x = np.array([0.4, -1.0, 2.0])
    before = p.counts.copy()
    subproblem.value(x)
    subproblem.value_and_gradient(x)
    subproblem.constraint(x)
    after = p.counts.since(before)
    assert (after.nfev, after.njev, after.constr_nfev, after.constr_njev) == (1, 1, 1, 1)


@pytest.mark.parametrize("hole", ["f", "c"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_where_a_function_is_not_finite_the_subproblem_is_not_either(hole: str, value: float) -> None:
    jacobians = []

    def con(x: Vector) -> Vector:
        return np.array([value if hole == "c" and x[0] > 1 else x[0]])

    def con_jac(x: Vector) -> Matrix:
        jacobians.append(x)
        return np.array([[1.0]])

    p = auglag.Problem(
        lambda x: value if hole == "f" and x[0] > 1 else x[0],
        [0.0],
        jac=lambda x: np.ones(1),
        constraints=NonlinearConstraint(con, -INF, 0.5, jac=con_jac),
    )
    jacobians.clear()
    subproblem = AugmentedLagrangian(StandardForm(p, Scaling.none(1)), np.zeros(1), 1.0)
    assert not np.isfinite(subproblem.value(np.array([2.0])))
    assert not np.isfinite(subproblem.value_and_gradient(np.array([2.0]))[0])
    assert not jacobians


def test_fixed_variables_are_no_variables_of_the_subproblem() -> None:
    standard = form(bounds=[(None, None), (0.25, 0.25), (-1, 1)])
    assert standard.n == 2
    subproblem = AugmentedLagrangian(standard, np.zeros(5), 2.0)
    full = AugmentedLagrangian(form(), np.zeros(5), 2.0)
    x = np.array([0.4, 0.25, 0.6])
    assert subproblem.value(x[[0, 2]]) == full.value(x)
    np.testing.assert_array_equal(subproblem.value_and_gradient(x[[0, 2]])[1], full.value_and_gradient(x)[1][[0, 2]])
    np.testing.assert_array_equal(standard.user_x(x[[0, 2]]), x)
    v = np.array([1.0, -2.0])
    np.testing.assert_allclose(subproblem.hessp(x[[0, 2]], v), full.hessp(x, np.array([1.0, 0.0, -2.0]))[[0, 2]])


def test_multipliers_change_units_back_and_forth() -> None:
    standard = form(scaled=True)
    y = np.array([1.0, -2.0, 0.5, 3.0, 1.0])
    np.testing.assert_allclose(standard.own_y(standard.user_y(y)), y, rtol=1e-15)
    # grad (sf f + y'(sc c)) = sf (grad f + user_y' grad c)
    x = np.array([0.4, -1.0, 2.0])
    gradient = standard.at(x).lagrangian_gradient(y)
    np.testing.assert_allclose(gradient, 0.3 * (grad(x) + standard.user_y(y) @ jac(x)), rtol=1e-13)
