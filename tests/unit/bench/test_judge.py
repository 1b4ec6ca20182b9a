import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import NonlinearConstraint

import auglag
from auglag.bench.judge import judge
from auglag.bench.record import TOLERANCES
from auglag.problems import cutest
from auglag.problems import hock_schittkowski as hs


def known(name):
    """A Hock-Schittkowski problem, with its solution."""
    data = hs.get(name)
    rows = [NonlinearConstraint(row.fun, row.lower, row.upper, jac=row.jac) for row in data.rows]
    bounds = np.column_stack([data.lower, data.upper])
    return auglag.Problem(data.fun, data.x0, jac=data.grad, bounds=bounds, constraints=rows), data


def linear(gradient, x0, *, bounds=None, rows=(), lower=(), upper=()):
    """min g'x subject to rows."""
    g = np.asarray(gradient, dtype=float)
    constraints = [NonlinearConstraint(lambda x: np.asarray(rows) @ x, lower, upper, jac=lambda x: np.asarray(rows))]
    return auglag.Problem(lambda x: g @ x, x0, jac=lambda x: g, bounds=bounds, constraints=constraints if rows else ())


@pytest.mark.parametrize("name", ["HS6", "HS21", "HS35", "HS43", "HS71", "HS76", "HS100", "HS113"])
def test_a_solution_passes_and_a_point_beside_it_does_not(name):
    problem, _ = known(name)
    x = auglag.minimize(problem, tol=1e-10).x
    good = judge(problem, x)
    assert good.violation <= 1e-8
    assert good.stationarity[2] <= 1e-8
    bad = judge(problem, np.clip(x + 0.01, problem.lower, problem.upper))
    assert max(bad.violation, bad.stationarity[0]) > 1e-3


def test_the_violation_counts_rows_and_bounds():
    problem = linear([1.0, 1.0], [0.0, 0.0], bounds=[(0, 1), (0, 1)], rows=[[1.0, 1.0]], lower=0.5, upper=0.5)
    assert judge(problem, np.array([0.0, 0.2])).violation == pytest.approx(0.3)
    assert judge(problem, np.array([-0.7, 1.2])).violation == pytest.approx(0.7)


def test_a_multiplier_of_the_wrong_sign_is_not_allowed():
    # min -x with x >= 0: at x = 0 the bound pushes the wrong way.
    problem = linear([-1.0], [0.0], bounds=[(0, None)])
    assert judge(problem, np.zeros(1)).stationarity == (1.0, 1.0, 1.0)
    assert judge(linear([1.0], [0.0], bounds=[(0, None)]), np.zeros(1)).stationarity == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("gap", [1e-4, 1e-7, 1e-9])
def test_near_a_side_a_multiplier_is_allowed_as_far_as_its_product_with_the_distance(gap):
    # min x with x >= 0 at x = gap needs the multiplier 1, whose product with the distance is the gap.
    for problem in (
        linear([1.0], [1.0], bounds=[(0, None)]),
        linear([1.0], [1.0], rows=[[1.0]], lower=0.0, upper=np.inf),
    ):
        found = judge(problem, np.array([gap])).stationarity
        assert [s <= 1e-12 for s in found] == [gap <= eps for eps in TOLERANCES]


def test_the_part_of_a_multiplier_that_is_not_allowed_remains():
    problem = linear([1.0], [1.0], bounds=[(0, None)])
    assert judge(problem, np.array([2e-3])).stationarity[0] == pytest.approx(0.5)


def test_stationarity_is_relative_to_a_large_gradient_and_absolute_below_one():
    assert judge(linear([1e4, 1.0], [0.0, 0.0]), np.zeros(2)).stationarity[0] == pytest.approx(1.0)
    held = linear([1e4, 1.0], [0.0, 0.0], bounds=[(0, None), (None, None)])
    assert judge(held, np.zeros(2)).stationarity[0] == pytest.approx(1e-4)
    fixed = linear([1e4, 1.0], [0.0, 0.0], bounds=[(0, 0), (None, None)])
    assert judge(fixed, np.zeros(2)).stationarity[0] == pytest.approx(1.0)
    assert judge(linear([0.25], [0.0]), np.zeros(1)).stationarity[0] == pytest.approx(0.25)


def test_a_huge_gradient_of_a_fixed_variable_excuses_nothing():
    problem = cutest.load("EQC")
    assert judge(problem, np.clip(problem.x0, problem.lower, problem.upper)).stationarity[1] > 0.1


def test_what_passes_at_a_small_tolerance_passes_at_a_larger_one():
    rng = np.random.default_rng(4)
    for _ in range(40):
        n, m = rng.integers(2, 8, size=2)
        rows = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-8, 8, (m, 1))
        y, x = rng.standard_normal(m), rng.standard_normal(n)
        problem = linear(-rows.T @ y, x, rows=rows.tolist(), lower=rows @ x, upper=rows @ x)
        found = judge(problem, x).stationarity
        assert found[0] <= found[1] * (1 + 1e-9) + 1e-12
        assert found[1] <= found[2] * (1 + 1e-9) + 1e-12


def test_absurd_multipliers_as_a_guess_do_no_harm():
    problem = linear([1.0, 2.0], [0.0, 0.0], rows=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], lower=0, upper=0)
    assert max(judge(problem, np.zeros(2), np.array([1e308, -1e308, 1e308])).stationarity) <= 1e-12


def test_dependent_rows_and_more_rows_than_variables_are_no_obstacle():
    problem = linear([1.0, 2.0], [0.0, 0.0], rows=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], lower=0, upper=0)
    assert max(judge(problem, np.zeros(2)).stationarity) <= 1e-12


@pytest.mark.parametrize("seed", range(30))
def test_no_allowed_multipliers_do_better(seed):
    """Against brute force: random multipliers inside their intervals never beat the judge's by more than sqrt(n)."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 6, size=2)
    rows = rng.standard_normal((m, n))
    x = rng.uniform(0, 1, n) * (rng.random(n) < 0.5)
    c = rows @ x
    lower = np.where(rng.random(m) < 0.5, c, c - 10.0 ** rng.uniform(-6, 0, m))
    upper = np.where(rng.random(m) < 0.3, lower, np.inf)
    gradient = rng.standard_normal(n)
    problem = linear(gradient, x, bounds=[(0, None)] * n, rows=rows.tolist(), lower=lower, upper=upper)
    found = judge(problem, x)
    scale = max(1.0, np.abs(gradient).max())
    for eps, best in zip(TOLERANCES, found.stationarity, strict=True):
        gap = c - lower
        reach = np.where(gap > 0, eps / np.where(gap > 0, gap, 1), 1e3)
        y = np.where(
            lower == upper, rng.uniform(-5, 5, (2000, m)), -rng.uniform(0, 1, (2000, m)) * np.minimum(reach, 5)
        )
        v = gradient / scale + y @ rows
        room = np.where(x > 0, eps / np.where(x > 0, x, 1), np.inf)
        rest = np.maximum(v - np.minimum(np.maximum(v, 0), room), 0) + np.maximum(-v, 0)
        assert best <= np.abs(rest).max(axis=1).min() * math.sqrt(n) + 1e-12


def test_given_multipliers_only_speed_it_up():
    problem, _ = known("HS71")
    result = auglag.minimize(problem, tol=1e-9)
    for y in (result.y, -100 * result.y, np.full(2, np.nan), np.zeros(5)):
        assert judge(problem, result.x, y).stationarity[2] <= 1e-8


def test_what_is_not_finite_is_not_solved():
    problem = auglag.Problem(lambda x: math.nan if x[0] < 0 else x[0], [1.0], jac=lambda x: np.ones(1))
    for x in (np.array([-1.0]), np.array([np.nan]), np.zeros(3)):
        found = judge(problem, x)
        assert found.violation == math.inf
        assert found.stationarity == (math.inf,) * 3


def test_a_large_sparse_problem_takes_the_iterative_way():
    n = 3000
    matrix = sparse.diags_array([np.ones(n), -np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n), format="csr")
    row = NonlinearConstraint(lambda x: matrix @ x, 0, 0, jac=lambda x: matrix)
    problem = auglag.Problem(lambda x: 0.5 * (x - 1) @ (x - 1), np.zeros(n), jac=lambda x: x - 1, constraints=row)
    assert max(judge(problem, np.ones(n)).stationarity) <= 1e-8
    assert judge(problem, np.zeros(n)).stationarity[0] > 0.9
