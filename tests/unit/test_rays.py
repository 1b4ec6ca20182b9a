"""Large programmes without a solution: rows that contradict each other, objectives that fall without end."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import auglag

N, M = 800, 400


def programme(seed, *, unit, curved=False, ray=False, contradiction=False):
    """A random programme with nonnegative variables; variables and rows are measured in units from 1/unit to unit."""
    rng = np.random.default_rng(seed)
    a = sparse.random_array((M, N), density=4 / N, rng=rng, format="csr") + sparse.eye_array(M, N)
    inside, y = rng.random(N), rng.standard_normal(M)
    low, g = a @ inside, rng.random(N) - a.T @ y
    high = low + np.where(np.arange(M) < M // 2, 0.0, 1.0)
    if ray:  # one more variable, and with it a direction in which rows stay and the objective falls
        d = rng.random(N)
        a = sparse.hstack([a, -(a @ d)[:, None]], format="csr")
        g = np.append(g, -(g @ d) - 1.0)
    if contradiction:  # one more row, which asks for more than a combination of the others allows
        w = rng.random(M) * (rng.random(M) < 0.2)
        a = sparse.vstack([a, sparse.csr_array((a.T @ w)[None, :])], format="csr")
        low, high = np.append(low, w @ high + 1.0), np.append(high, np.inf)
    rows, columns = unit ** rng.uniform(-1, 1, a.shape[0]), unit ** rng.uniform(-1, 1, a.shape[1])
    a = sparse.csr_array(sparse.diags_array(rows) @ a @ sparse.diags_array(1.0 / columns))
    g = g / columns
    diagonal = np.where(np.arange(g.size) < g.size // 2, 1.0, 0.0) / columns**2 if curved else np.zeros(g.size)
    return {
        "fun": lambda x: float(g @ x + 0.5 * x @ (diagonal * x)),
        "x0": np.zeros(g.size),
        "jac": lambda x: g + diagonal * x,
        "hess": lambda x: sparse.diags_array(diagonal, format="csc"),
        "bounds": Bounds(np.zeros(g.size), np.full(g.size, np.inf)),
        "constraints": LinearConstraint(a, rows * low, rows * high),
    }


@pytest.mark.parametrize("unit", [1.0, 1e3])
@pytest.mark.parametrize("curved", [False, True])
def test_linear_rows_that_contradict_each_other_are_proved_to(unit, curved):
    found = auglag.minimize(**programme(1, unit=unit, curved=curved, contradiction=True))
    assert found.status is auglag.Status.INFEASIBLE
    assert "no x satisfies all constraints" in found.message
    assert found.nit_inner <= 2


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_a_ray_along_which_a_linear_programme_falls_is_found(unit):
    stated = programme(1, unit=unit, ray=True)
    found = auglag.minimize(**stated)
    assert found.status is auglag.Status.UNBOUNDED
    assert found.certificate.violation <= 1e-6
    assert found.nit_inner <= 2
    assert auglag.minimize(**programme(1, unit=unit)).success


def test_rows_that_are_linear_only_as_far_as_was_seen_prove_nothing():
    """x_0 + x_1 >= 1 cannot be met below a bend in which the rows become larger."""
    n = 800
    rng = np.random.default_rng(1)
    slopes = sparse.eye_array(n, format="csr") * (1.0 + rng.random(n))

    def bend(x):
        return np.maximum(x - 2.0, 0.0) ** 2

    def rows(x):
        return slopes @ x - np.roll(x, 1) * 0.1 + 100.0 * bend(x) - 5.0

    def jacobian(x):
        back = sparse.csr_array((np.full(n, -0.1), (np.arange(n), np.roll(np.arange(n), 1))), shape=(n, n))
        return sparse.csr_array(slopes + back + sparse.diags_array(200.0 * np.maximum(x - 2.0, 0.0)))

    found = auglag.minimize(
        lambda x: float(x.sum()),
        np.zeros(n),
        jac=lambda x: np.ones(n),
        hess=lambda x: sparse.csc_array((n, n)),
        bounds=Bounds(np.zeros(n), np.full(n, 3.0)),
        constraints=NonlinearConstraint(
            rows, 0.0, np.inf, jac=jacobian, hess=lambda x, v: sparse.diags_array(200.0 * v * (x > 2.0), format="csc")
        ),
    )
    assert found.success
