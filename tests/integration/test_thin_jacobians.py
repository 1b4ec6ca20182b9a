"""Large dense Jacobians that are nearly all zeros are treated as the sparse ones that they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

from auglag import minimize
from auglag.problems.functions import Problem
from auglag.problems.thinning import Thinned, thin

STATES = 300  # and as many controls: 600 variables
SECOND = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(STATES, STATES)).tocsr()


def rows(z):
    return SECOND @ z[:STATES] + np.exp(z[:STATES]) - 1 - z[STATES:]


def jac(z):
    return sparse.hstack([SECOND + sparse.diags_array(np.exp(z[:STATES])), -sparse.eye_array(STATES)]).tocsr()


def control(made, **more):
    """The optimal control problem, its Jacobian made so."""
    return {
        "fun": lambda z: 0.5 * np.sum((z[:STATES] - 1) ** 2) + 0.005 * np.sum(z[STATES:] ** 2),
        "jac": lambda z: np.append(z[:STATES] - 1, 0.01 * z[STATES:]),
        "bounds": Bounds(-20.0, 20.0),
        "constraints": NonlinearConstraint(rows, 0, 0, jac=lambda z: made(jac(z)), **more),
    }


def problem(jac, x0, m, **more):
    """A problem of which only the Jacobian matters."""
    con = NonlinearConstraint(lambda x: np.zeros(m), 0, 0, jac=jac, **more)
    return Problem(lambda x: 0.0, x0, jac=np.zeros_like, constraints=con)


def test_a_dense_jacobian_of_nearly_all_zeros_runs_as_a_sparse_one():
    x0 = np.full(2 * STATES, 0.1)
    by_dense, by_sparse = (minimize(x0=x0, **control(made)) for made in (lambda j: j.toarray(), lambda j: j))
    assert by_dense.success
    assert by_dense.nit == by_sparse.nit
    assert by_dense.nfev == by_sparse.nfev
    np.testing.assert_allclose(by_dense.x, by_sparse.x, rtol=0, atol=1e-10)


def test_its_values_are_those_of_the_user_at_every_point():
    made = problem(lambda z: jac(z).toarray(), np.zeros(2 * STATES), STATES)
    for z in (np.zeros(2 * STATES), np.linspace(-1, 1, 2 * STATES)):
        found = made.jac(z)
        assert sparse.issparse(found)
        np.testing.assert_array_equal(found.toarray(), jac(z).toarray())


def test_entries_that_are_zero_at_the_start_are_not_lost():
    n, m = 600, 200

    def switched(x):
        matrix = np.eye(m, n)
        matrix[0] = x[0] > 1
        return matrix

    made = problem(switched, np.zeros(n), m)
    for x in (np.zeros(n), np.full(n, 2.0), np.zeros(n)):
        np.testing.assert_array_equal(made.jac(x).toarray(), switched(x))


def test_a_jacobian_that_is_full_away_from_a_special_start_stays_dense():
    n, m = 600, 200
    made = problem(lambda x: np.tile(x, (m, 1)), np.zeros(n), m)
    assert isinstance(made.jac(np.zeros(n)), np.ndarray)


@pytest.mark.parametrize(("n", "m"), [(400, 400), (1000, 50)])
def test_small_jacobians_stay_as_they_are(n, m):
    made = problem(lambda x: np.eye(m, n), np.zeros(n), m)
    assert isinstance(made.jac(np.zeros(n)), np.ndarray)


@pytest.mark.parametrize("full", [True, False])
def test_a_full_hessian_keeps_the_jacobian_dense(full):
    n, m = 600, 200
    hess = np.ones((n, n)) if full else np.eye(n)
    made = Problem(
        lambda x: 0.5 * x @ hess @ x,
        np.zeros(n),
        jac=lambda x: hess @ x,
        hess=lambda x: hess,
        constraints=LinearConstraint(np.eye(m, n), 0, 1),
    )
    assert isinstance(made.jac(np.zeros(n)), np.ndarray) == full


def test_a_jacobian_that_is_not_finite_stays_visible_and_spoils_nothing():
    first = np.eye(3, 4)
    thinned = Thinned([first])
    spoilt = np.full((3, 4), np.nan)
    np.testing.assert_array_equal(thinned.of(spoilt).toarray(), spoilt)
    assert thinned.of(first).nnz == 3
    assert not thin(spoilt)
