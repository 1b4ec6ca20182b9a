"""The multipliers that a certificate finds for a bare x: as good as the solver's own, or as any there are."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

import auglag
from auglag import certify
from auglag.certificate.multipliers import Fit
from auglag.problems import cutest
from auglag.problems.hock_schittkowski import PROBLEMS
from auglag.prox import L1
from helpers import as_problem


@pytest.mark.parametrize("name", ["NCVXQP8", "ACOPR14", "LUKVLE14", "LISWET6", "AVGASB", "HS99"])
def test_a_point_of_the_solver_passes_without_its_multipliers(name: str) -> None:
    problem = cutest.load(name)
    result = auglag.minimize(problem, tol=1e-8)
    own = certify(problem, result.x, result.y).residual
    assert certify(problem, result.x).residual <= 3 * own + 1e-12


@pytest.mark.parametrize("name", ["NCVXQP4", "DNIEPER", "HS114", "SYNTHES3", "LISWET6", "AVGASB"])
@pytest.mark.parametrize("noise", [1e-9, 1e-6, 1e-3])
def test_beside_a_solution_no_multipliers_are_much_better(name: str, noise: float) -> None:
    problem = cutest.load(name)
    result = auglag.minimize(problem, tol=1e-8)
    x = result.x + noise * np.random.default_rng(0).standard_normal(problem.n)
    x = np.clip(x, problem.lower, problem.upper)
    assert certify(problem, x).residual <= 2 * certify(problem, x, result.y).residual + 1e-12


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_at_a_known_solution_with_errors_in_x(name: str) -> None:
    p = PROBLEMS[name]
    problem = as_problem(p)
    y = np.concatenate([np.zeros(0), *[np.ravel(part) for part in p.multipliers]])
    for noise in (0.0, 1e-7, 1e-4):
        x = np.clip(p.x + noise * np.random.default_rng(1).standard_normal(p.x.size), p.lower, p.upper)
        assert certify(problem, x).residual <= 2 * certify(problem, x, y).residual + 1e-9


def linear(slope: np.ndarray, x: np.ndarray, rows: LinearConstraint, **more: object) -> auglag.Problem:
    return auglag.Problem(lambda x: slope @ x, x, jac=lambda x: slope, constraints=rows, **more)


def planted(seed: int, n: int, m: int, repeat: int, *, noise: float = 0.0, weight: float = 0.0, density: float = 0.0):
    """(problem, x, y): a KKT point with active and inactive rows, each repeated, and bounds; then errors in x."""
    rng = np.random.default_rng(seed)
    if density:
        a = sparse.random_array((m, n), density=density, rng=rng, format="csr")
        a = sparse.vstack([a] * repeat, format="csr")
    else:
        a = np.vstack([rng.standard_normal((m, n))] * repeat)
    x, at = rng.uniform(0.1, 1, n), rng.random(n)
    x[at < 0.4] = 0.0
    held = at < 0.2  # of the others at 0 the kink of g takes what it can
    z = np.where(held, -rng.uniform(0, 2, n), 0.0)
    kink = weight * np.where(x > 0, 1.0, rng.uniform(-1, 1, n))
    lower = np.where(held | (x > 0), 0.0, -1.0)
    equal, active = rng.random(m * repeat) < 0.3, rng.random(m * repeat) < 0.5
    y = rng.standard_normal(m * repeat)
    y = np.where(equal, y, np.where(active, -np.abs(y), 0.0))
    c = a @ x
    rows = LinearConstraint(a, np.where(equal | active, c, c - 0.5), np.where(equal, c, np.inf))
    slope = -(a.T @ y + z + kink)
    g = L1(weight) if weight else None
    problem = linear(slope, x, rows, bounds=Bounds(lower, np.full(n, np.inf)), g=g)
    moved = x + noise * np.abs(rng.standard_normal(n)) * ((x > 0) | held)
    return problem, moved, y


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("weight", [0.0, 0.7], ids=["smooth", "L1"])
@pytest.mark.parametrize("repeat", [1, 5], ids=["few rows", "many multipliers"])
@pytest.mark.parametrize("noise", [0.0, 1e-8, 1e-4])
def test_planted_multipliers_are_matched(seed: int, weight: float, repeat: int, noise: float) -> None:
    problem, x, y = planted(seed, 12, 5, repeat, noise=noise, weight=weight)
    assert certify(problem, x).residual <= 2 * certify(problem, x, y).residual + 1e-12


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-5])
@pytest.mark.parametrize("repeat", [1, 2])
def test_a_large_sparse_problem_takes_seconds(noise: float, repeat: int) -> None:
    problem, x, y = planted(3, 5000, 2500 // repeat, repeat, noise=noise, density=5e-4)
    begin = time.process_time()
    found = certify(problem, x).residual
    assert time.process_time() - begin < 30  # a few where nothing else runs
    assert found <= 2 * certify(problem, x, y).residual + 1e-10


def test_a_sparse_jacobian_gives_the_multipliers_of_a_dense_one(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, x, _ = planted(5, 300, 200, 1, density=0.02)
    matrix = problem.linear().matrix
    rows = LinearConstraint(matrix.toarray(), problem.cl, problem.cu)
    slope = problem.at(x).grad
    same = linear(slope, x, rows, bounds=Bounds(problem.lower, problem.upper))
    assert certify(problem, x).residual <= 1e-11
    assert certify(same, x).residual <= 1e-11


def test_scales_of_rows_do_no_harm() -> None:
    """Rows of size 1e-6 to 1e6 with multipliers of the inverse size."""
    rng = np.random.default_rng(0)
    scale = 10.0 ** np.linspace(-6, 6, 13)
    a, y = rng.standard_normal((13, 20)), rng.standard_normal(13)
    x = rng.standard_normal(20)
    rows = LinearConstraint(scale[:, None] * a, scale * (a @ x), scale * (a @ x))
    check = certify(linear(-(a.T @ y), x, rows), x)
    assert check.stationarity <= 1e-12
    np.testing.assert_allclose(check.multipliers * scale, y, rtol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_least_squares_fit_is_a_minimiser(seed: int) -> None:
    """Its slope vanishes at multipliers inside their box and points outwards at the others."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 12, size=2)
    jac, gradient = rng.standard_normal((m, n)), rng.standard_normal(n)
    low, high = np.where(rng.random(m) < 0.5, 0.0, -np.inf), np.where(rng.random(m) < 0.3, 1.0, np.inf)
    z_low, z_high = -rng.random(n) * (rng.random(n) < 0.5), rng.random(n) * (rng.random(n) < 0.5)
    prices = rng.random(n), rng.random(n)
    fit = Fit(gradient, jac, (low, high), (z_low, z_high), prices)
    y, settled = fit.least_squares(np.clip(np.zeros(m), low, high))
    assert settled
    v = -(gradient + y @ jac)
    out = v - np.clip(v, z_low, z_high)
    slope = -jac @ (out * np.where(out < 0, *prices) ** 2)
    inside = (y > low) & (y < high)
    assert np.abs(slope[inside]).max(initial=0.0) <= 1e-7
    assert (slope[y <= low] >= -1e-7).all()
    assert (slope[y >= high] <= 1e-7).all()


def test_the_linear_program_helps_where_least_squares_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, x, _ = planted(2, 12, 5, 2)
    monkeypatch.setattr(Fit, "least_squares", lambda fit, y: (y, False))
    assert certify(problem, x).residual <= 1e-8


def test_a_factor_that_fails_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    def singular(*args: object, **options: object) -> None:
        raise RuntimeError("Factor is exactly singular")

    monkeypatch.setattr(auglag.certificate.multipliers, "splu", singular)
    problem, x, _ = planted(5, 300, 200, 1, density=0.02)
    assert certify(problem, x).residual <= 1e-7
