"""Back to the rows of a large problem: when the violation counts as stationary, and how steps are kept short."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import auglag
from auglag.interior.large.return_to_rows import blocked, damped
from auglag.interior.large.sides import Sides
from auglag.interior.large.values import Values
from auglag.interior.tuning import TUNING
from auglag.problems.functions import Problem
from auglag.problems.jacobians import kind
from auglag.problems.scaling import Scaling
from auglag.problems.standard_form import StandardForm


def at(x, matrix, target, *, bounds=None):
    """Sides and values at x for the rows matrix x = target, not scaled."""
    rows = LinearConstraint(sparse.csr_array(np.array(matrix)), target, target)
    problem = Problem(lambda x: 0.0, np.array(x), jac=np.zeros_like, constraints=rows, bounds=bounds)
    form = StandardForm(problem, Scaling(1.0, np.ones(problem.m)))
    form.jacobian = kind(problem.at(problem.x0).jac)
    sides = Sides(form)
    return sides, Values(sides, np.array(x, dtype=float))


@pytest.mark.parametrize(("slope", "expected"), [(0.9, True), (1.1, False)])
def test_the_violation_is_stationary_up_to_a_part_of_the_terms_of_its_gradient(slope, expected):
    """x = 1 and x = -1 contradict each other; at x = d the gradient of |r|^2/2 is 2 d, its terms are 2."""
    sides, values = at([slope * TUNING.blocked_slope], [[1.0], [1.0]], [1.0, -1.0])
    assert blocked(sides, values, 1e-8) is expected


def test_a_small_violation_is_never_called_stationary():
    sides, values = at([0.0], [[1.0], [1.0]], 0.9 * TUNING.blocked_violation * np.array([1.0, -1.0]))
    assert not blocked(sides, values, 1e-8)


@pytest.mark.parametrize(("gap", "expected"), [(0.9e-6, True), (1.1e-6, False)])
def test_a_side_takes_up_what_a_barrier_would(gap, expected):
    """x = -1 with x >= 0: the gradient is 1, a barrier with mu = 1e-6 pushes that much at the gap 1e-6."""
    sides, values = at([gap], [[1.0]], [-1.0], bounds=Bounds(0.0, np.inf))
    assert blocked(sides, values, 1e-6) is expected


def test_a_side_takes_up_nothing_that_points_inside():
    sides, values = at([1e-6], [[1.0]], [1.0], bounds=Bounds(0.0, np.inf))
    assert not blocked(sides, values, 1e-6)


def test_the_proximal_term_grows_while_line_searches_shorten_steps_and_goes_when_they_do_not():
    first = damped(0.0, 0.1)
    assert damped(0.0, 1.0) == 0.0
    assert damped(first, 0.1) > first > 0.0
    left = damped(first, 1.0)
    assert 0.0 < left < first
    for _ in range(20):
        left = damped(left, 1.0)
    assert left == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_a_large_problem_with_two_rows_that_contradict_each_other_is_called_infeasible_within_few_steps(seed):
    """Linear rows and squares of many variables, and x1^2 + x2^2 <= 1 beside x1 x2 >= 2."""
    n, m, rng = 600, 200, np.random.default_rng(seed)
    matrix = sparse.random_array((m, n), density=0.01, rng=rng, format="csr")
    matrix = sparse.csr_array(matrix + 0.1 * matrix.multiply(matrix))
    value = matrix @ rng.uniform(-0.5, 0.5, n)

    def rows(x):
        return np.concatenate([matrix @ (x + x**2), [x[0] ** 2 + x[1] ** 2, x[0] * x[1]]])

    def jacobian(x):
        pair = sparse.csr_array(
            (np.array([2 * x[0], 2 * x[1], x[1], x[0]]), ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(2, n)
        )
        return sparse.csr_array(sparse.vstack([matrix @ sparse.diags_array(1.0 + 2.0 * x), pair]))

    def hessian(x, y):
        diagonal = 2.0 * (matrix.T @ y[:m])
        diagonal[:2] += 2.0 * y[m]
        corner = sparse.csr_array((np.array([y[m + 1], y[m + 1]]), ([0, 1], [1, 0])), shape=(n, n))
        return sparse.csc_array(sparse.diags_array(diagonal) + corner)

    constraint = NonlinearConstraint(
        rows, np.append(value, [-np.inf, 2.0]), np.append(value, [1.0, np.inf]), jac=jacobian, hess=hessian
    )
    found = auglag.minimize(
        lambda x: float(x @ x) + float(np.sin(x).sum()),
        rng.uniform(-1.0, 1.0, n),
        jac=lambda x: 2.0 * x + np.cos(x),
        hess=lambda x: sparse.diags_array(2.0 - np.sin(x)),
        constraints=constraint,
    )
    assert found.status is auglag.Status.INFEASIBLE
    assert found.njev < 500
