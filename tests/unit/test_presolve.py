"""Which rows presolve takes off, what it makes of them, and how multipliers find back to them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import auglag
from auglag.problems.presolve import reduction
from auglag.problems.presolved import Presolved
from auglag.prox import Box, GroupL2
from auglag.strategy.settings import PRESETS, resolve

INF = np.inf
TOL = 1e-6


def problem(rows: Any, lb: Any, ub: Any, **options: Any) -> auglag.Problem:
    """The sum of x^2 / 2 with these linear rows."""
    n = np.shape(rows)[1]
    options.setdefault("x0", np.zeros(n))
    return auglag.Problem(
        lambda x: 0.5 * float(x @ x), jac=lambda x: x, constraints=LinearConstraint(rows, lb, ub), **options
    )


def reduced(*args: Any, **options: Any) -> Presolved:
    """The problem after presolve, which must have found something but no conflict."""
    original = problem(*args, **options)
    found = reduction(original, TOL)
    assert found is not None
    assert not found.conflict
    return Presolved(original, found)


def conflict(*args: Any, **options: Any) -> str:
    """Why there is no feasible point; empty where presolve does not say so."""
    found = reduction(problem(*args, **options), TOL)
    return "" if found is None else found.conflict


def test_nothing_to_take_off_leaves_the_problem_alone() -> None:
    assert reduction(problem([[1.0, 1.0], [1.0, 2.0]], -1.0, 1.0), TOL) is None
    nonlinear = NonlinearConstraint(lambda x: x, -1.0, 1.0)
    assert reduction(auglag.Problem(lambda x: x @ x, np.zeros(2), constraints=nonlinear), TOL) is None
    assert reduction(auglag.Problem(lambda x: x @ x, np.zeros(2)), TOL) is None


def test_empty_and_free_rows_go() -> None:
    rows = [[0.0, 0.0], [1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]
    small = reduced(rows, [-1.0, 0.0, -INF, 0.0], [INF, 3.0, INF, 0.0])
    assert small.keep.tolist() == [1]
    assert (small.cl.tolist(), small.cu.tolist()) == ([0.0], [3.0])
    assert small.row_name(0) == "constraints[0][1]"
    assert small.user_y(np.ones(2), np.array([5.0])).tolist() == [0.0, 5.0, 0.0, 0.0]


def test_singleton_rows_become_bounds() -> None:
    rows = [[2.0, 0.0, 0.0], [0.0, -4.0, 0.0], [0.0, 0.0, 3.0], [1.0, 0.0, 0.0]]
    small = reduced(rows, [1.0, -8.0, 6.0, -INF], [INF, 4.0, 6.0, 7.0], bounds=[(0, 5), (None, 1.5), (None, None)])
    assert small.m == 0
    assert small.lower.tolist() == [0.5, -1.0, 2.0]
    assert small.upper.tolist() == [5.0, 1.5, 2.0]  # 7 and 2 are no news beside 5 and 1.5
    # x = 0.5, -1, 2: the gradient x is balanced by 2 y0, -4 y1, 3 y2.
    y = small.user_y(np.array([0.5, -1.0, 2.0]), np.zeros(0))
    np.testing.assert_allclose(y, [-0.25, 0.0, -2 / 3, 0.0])


def test_a_bound_takes_a_multiplier_only_from_the_side_that_holds() -> None:
    small = reduced([[-4.0]], [-8.0], [4.0])  # x in [-1, 2]
    assert (small.lower[0], small.upper[0]) == (-1.0, 2.0)
    up = auglag.Problem(lambda x: -float(x[0]), np.zeros(1), jac=lambda x: -np.ones(1), constraints=_row(-4.0, -8, 4))
    found = reduction(up, TOL)
    assert found is not None
    falling = Presolved(up, found)
    assert falling.user_y(np.array([2.0]), np.zeros(0)).tolist() == [-0.25]  # the row's lower side holds
    assert falling.user_y(np.array([-1.0]), np.zeros(0)).tolist() == [0.0]  # nothing excuses this gradient
    assert falling.user_y(np.array([1.0]), np.zeros(0)).tolist() == [0.0]


def _row(entry: float, low: float, high: float) -> LinearConstraint:
    return LinearConstraint([[entry]], low, high)


@pytest.mark.parametrize("factor", [1.0, -1.0, 3.0, -0.1, 7e5])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_multiples_become_one_row(factor: float, kind: str) -> None:
    a = np.array([0.3, -1.7, 0.0, 2.1])
    rows = np.vstack([a, [1.0, 1.0, 1.0, 1.0], factor * a])
    low, high = sorted([factor * -1.0, factor * 0.5])
    lb, ub = np.array([-2.0, -9.0, low]), np.array([0.25, 9.0, high])
    small = reduced(rows if kind == "dense" else sparse.csr_array(rows), lb, ub)
    kept = 2 if abs(factor) > 1.0 else 0
    assert small.keep.tolist() == sorted([kept, 1])
    place = small.keep.tolist().index(kept)
    unit = factor if kept == 2 else 1.0
    sides = sorted([-1.0 * unit, 0.25 * unit])
    np.testing.assert_allclose([small.cl[place], small.cu[place]], sides, rtol=1e-15)
    x = np.array([1.0, 2.0, 3.0, 4.0])
    for wanted in (1.5, -2.5):  # J'y stays the same, and each side's multiplier goes to the row with that side
        own = np.zeros(2)
        own[place] = wanted / unit
        y = small.user_y(x, own)
        np.testing.assert_allclose(rows.T @ y, wanted * a, rtol=1e-14)
        assert np.count_nonzero(y) == 1
        assert (y[0] != 0.0) == (wanted > 0.0)
        np.testing.assert_allclose(small.own_y(y), own, rtol=1e-14)


def test_values_and_derivatives_are_those_of_the_kept_rows() -> None:
    rows = np.array([[1.0, 2.0], [0.0, 0.0], [3.0, -1.0], [2.0, 4.0]])
    nonlinear = NonlinearConstraint(lambda x: x[0] * x[1], 0, 1, jac=lambda x: [x[1], x[0]], hess=_hess)
    options = {"jac": lambda x: 2 * x, "hess": lambda x: 2 * np.eye(2)}
    original = auglag.Problem(
        lambda x: float(x @ x), np.ones(2), constraints=[nonlinear, LinearConstraint(rows, -1, 1)], **options
    )
    found = reduction(original, TOL)
    assert found is not None
    small, x, w = Presolved(original, found), np.array([2.0, 5.0]), np.array([1.0, -2.0, 0.5])
    assert small.keep.tolist() == [0, 3, 4]
    assert [small.row_name(i) for i in range(3)] == ["constraints[0]", "constraints[1][2]", "constraints[1][3]"]
    np.testing.assert_array_equal(small.at(x).c, [10.0, 1.0, 24.0])
    jac = np.array([[5.0, 2.0], [3.0, -1.0], [2.0, 4.0]])
    np.testing.assert_array_equal(small.at(x).jac, jac)
    np.testing.assert_allclose(small.at(x).vjp(w), jac.T @ w)
    np.testing.assert_allclose(small.hess(x, w), [[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(small.hessp(x, w, np.array([1.0, 0.0])), [2.0, 1.0])
    assert small.counts is original.counts


def _hess(x: Any, v: Any) -> Any:
    return np.asarray(v).ravel()[0] * np.array([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("rows", "lb", "ub", "bounds", "named"),
    [
        ([[0.0, 0.0]], [1.0], [1.0], None, r"constraints\[0\]\ contains no variable: it is 0"),
        ([[2.0, 0.0], [4.0, 0.0]], [2.0, -INF], [INF, 3.0], None, r"\[0\]\[1\] and constraints\[0\]\[0\] exclude"),
        ([[0.0, -1.0]], [3.0], [INF], [(0, 1), (0, 1)], r"constraints\[0\] and the bounds exclude each other: x\[1\]"),
        ([[1.0, 1.0], [-2.0, -2.0]], [1.0, -INF], [1.0, -3.0], None, r"exclude each other: the row constraints"),
    ],
)
def test_rows_that_exclude_each_other_are_named(rows: Any, lb: Any, ub: Any, bounds: Any, named: str) -> None:
    assert re.search(named, conflict(rows, lb, ub, bounds=bounds))


def test_sides_that_cross_by_rounding_meet() -> None:
    small = reduced([[0.1]], [-INF], [0.3], bounds=[(3.0, None)], x0=[4.0])  # 0.3 / 0.1 < 3 in floating point
    assert small.lower[0] == small.upper[0] == 3.0
    a, side = np.array([0.1, 0.7, 1.3]), 0.37
    for factor in np.random.default_rng(0).uniform(-5, 5, 50):
        both = reduced(np.vstack([a, factor * a]), [side, factor * side], [side, factor * side])
        assert both.m == 1
        assert both.cl[0] == both.cu[0]


def test_a_conflict_that_the_tolerance_forgives_stays_with_the_run() -> None:
    assert reduction(problem([[1.0, 1.0], [1.0, 1.0]], [1.0, -INF], [INF, 1.0 - 1e-7]), TOL) is None
    assert reduction(problem([[0.0, 0.0]], [1e-7], [1.0]), TOL) is None
    assert reduction(problem([[1.0]], [1.0 + 1e-7], [INF], bounds=[(None, 1.0)]), TOL) is None
    assert conflict([[1.0]], [1.0 + 1e-4], [INF], bounds=[(None, 1.0)])
    assert conflict([[1e-6]], [1e-6 + 1e-10], [INF], bounds=[(None, 1.0)]) == ""  # the row is violated by 1e-10 only


def test_rows_nearly_alike_stay() -> None:
    a = np.array([1.0, 1.0, 1.0])
    assert reduction(problem(np.vstack([a, a + [0.0, 0.0, 1e-12]]), -1.0, 1.0), TOL) is None
    assert reduction(problem(np.vstack([a, [1.0, 1.0, 0.0]]), -1.0, 1.0), TOL) is None


def test_bounds_beside_g() -> None:
    rows, lb, ub = [[1.0, 0.0], [0.0, 0.0]], [0.5, 0.0], [INF, 0.0]
    assert reduced(rows, lb, ub, g=GroupL2([[0, 1]], 1.0)).keep.tolist() == [
        0
    ]  # no bounds beside a g that is not separable
    assert reduced(rows, lb, ub, g=Box(0.0, 1.0)).keep.tolist() == []
    assert "the bounds exclude" in conflict([[1.0, 0.0]], [2.0], [INF], g=Box(0.0, 1.0))


def test_many_rows_of_every_kind_stay_sparse() -> None:
    n = 2_000
    chain = sparse.diags_array([np.ones(n - 1), np.linspace(1, 2, n - 1)], offsets=[0, 1], shape=(n - 1, n))
    chain = sparse.csr_array(chain)
    rows = sparse.vstack([chain, 2.0 * sparse.eye_array(n), 3.0 * chain[::2], sparse.csr_array((50, n))])
    m = rows.shape[0]
    small = reduced(rows, np.full(m, -1.0), np.full(m, 1.0))
    assert small.m == n - 1
    assert (small.lower == -0.5).all()
    assert small.keep[-1] == m - 51  # of a row and three times it the larger stays
    assert sparse.issparse(small.at(np.zeros(n)).jac)


def test_the_switch_is_checked_and_off_where_the_paper_is_meant() -> None:
    with pytest.raises(auglag.InputError, match="presolve must be True or False, got 1"):
        auglag.minimize(lambda x: x @ x, [1.0], presolve=1)  # type: ignore[arg-type]
    assert [name for name, settings in PRESETS.items() if settings.presolve] == ["default"]
    assert not resolve(variant="adaptive-full").presolve
    assert resolve(variant="adaptive-full", presolve=True).presolve
    assert not resolve(presolve=False).presolve


def test_bounds_object_and_unbounded_sides() -> None:
    small = reduced([[1.0, 0.0], [1e-320, 1.0]], [-INF, -1.0], [INF, 1.0], bounds=Bounds([-1, -1], [1, 1]))
    assert small.keep.tolist() == [1]
    assert (small.lower == -1).all()


def test_a_start_that_is_a_solution_may_have_rows_that_are_bounds():
    rows = np.array([[0.0, 0.0, 0.88, 1.2], [0.2, 0.0, 0.0, 0.0]])
    result = auglag.minimize(
        lambda x: x.sum(),
        np.zeros(4),
        jac=lambda x: np.ones(4),
        bounds=[(0.0, np.inf)] * 4,
        constraints=LinearConstraint(rows, [-0.02, -0.5], [np.inf, 0.0]),
    )
    assert result.success
    assert result.fun == 0.0
