"""Large convex quadratic and linear programmes: recognised by their derivatives, solved without evaluating more."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog

import auglag
from auglag.interior.large import quadratic
from auglag.interior.large.quadratic import Quadratic, Units
from auglag.kkt import tuning as kkt_tuning
from auglag.kkt.linear import SOLVERS, chosen, system

N, M = 600, 200


def programme(seed, *, linear=False, hessians=True):
    """A random convex programme with bounds, equations and two-sided rows, feasible at a known point."""
    rng = np.random.default_rng(seed)
    root = sparse.random_array((N, N), density=3 / N, rng=rng, format="csr")
    h = (root.T @ root + 1e-3 * sparse.eye_array(N)).tocsr() if not linear else sparse.csr_array((N, N))
    g, a = rng.standard_normal(N), sparse.random_array((M, N), density=5 / N, rng=rng, format="csr")
    inside = rng.uniform(0.2, 0.8, N)
    low, high = a @ inside - 0.1, a @ inside + rng.uniform(0.0, 0.2, M)
    low[: M // 2] = high[: M // 2] = (a @ inside)[: M // 2]
    second = {"hess": lambda x: h} if hessians else {}
    calls = []

    def fun(x):
        calls.append(x)
        return float(0.5 * x @ (h @ x) + g @ x)

    stated = {
        "fun": fun,
        "x0": np.full(N, 0.5),
        "jac": lambda x: h @ x + g,
        "bounds": Bounds(np.zeros(N), np.ones(N)),
        "constraints": LinearConstraint(a, low, high),
        **second,
    }
    return stated, calls, (h, g, a, low, high)


def test_a_convex_quadratic_programme_takes_a_few_evaluations():
    stated, calls, _ = programme(0)
    result = auglag.minimize(**stated)
    assert result.success, result.message
    assert len(calls) < 16  # most are made by the checks before and after


@pytest.mark.parametrize("hessians", [True, False])
def test_a_linear_programme_has_the_optimum_of_linprog(hessians):
    stated, calls, (_, g, a, low, high) = programme(1, linear=True, hessians=hessians)
    result = auglag.minimize(**stated)
    assert result.success, result.message
    rows = sparse.vstack([a, -a])
    reference = linprog(g, A_ub=rows, b_ub=np.concatenate([high, -low]), bounds=(0, 1))
    assert result.fun == pytest.approx(reference.fun, rel=1e-7)
    assert len(calls) < 16


def test_factors_that_are_much_work_are_left_to_another_solver_on_the_way(monkeypatch):
    """SuperLU stands for Pardiso, which may not be installed."""
    if not SOLVERS["qdldl"].available:
        pytest.skip("needs qdldl")
    monkeypatch.setitem(SOLVERS, "pardiso", SOLVERS["superlu"])
    monkeypatch.setattr(kkt_tuning, "TUNING", replace(kkt_tuning.TUNING, large_work=0.0))
    made = []
    monkeypatch.setattr(quadratic.linear, "system", lambda h, j, a: made.append(chosen(h, a).name) or system(h, j, a))
    stated, calls, _ = programme(0)
    assert auglag.minimize(**stated).success
    assert made[-1] == "superlu"
    assert len(calls) < 20  # as above, and the last step may need another one


def test_multipliers_of_ten_millions_are_found():
    """The nearest sequence with third differences of one sign (LISWET12 of CUTEst): their inverse has norm 1e10."""
    n, calls = 2000, []
    i = np.arange(1, n + 4)
    target = np.cos(4 * np.pi * (i - 1) / (n + 2)) + 0.1 * np.sin(i)
    differences = sparse.diags_array([1.0, -3.0, 3.0, -1.0], offsets=[0, 1, 2, 3], shape=(n, n + 3)).tocsr()
    eye = sparse.eye_array(n + 3).tocsr()

    def fun(x):
        calls.append(x)
        return float(0.5 * x @ x - target @ x)

    rows = LinearConstraint(differences, 0.0, np.inf)
    result = auglag.minimize(
        fun, np.zeros(n + 3), jac=lambda x: x - target, hess=lambda x: eye, constraints=rows, tol=1e-6
    )
    assert result.success, result.message
    assert np.max(np.abs(result.multipliers[0])) > 1e6
    assert len(calls) < 100


def test_a_programme_with_bounds_alone():
    """The elastic torsion of a bar, on a line: min |u'|^2 / 2 - c u with |u| at most the distance to the ends."""
    n = 1500
    width = 1.0 / (n + 1)
    h = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr") / width
    t = np.arange(1, n + 1) * width
    reach = np.minimum(t, 1.0 - t)
    result = auglag.minimize(
        lambda x: float(0.5 * x @ (h @ x) - 5.0 * width * x.sum()),
        np.zeros(n),
        jac=lambda x: h @ x - 5.0 * width,
        hess=lambda x: h,
        bounds=Bounds(-reach, reach),
    )
    assert result.success, result.message
    middle = np.abs(t - 0.5) < 0.2 - 2 * width  # where 5 |t - 1/2| < 1 the string is free: a parabola
    np.testing.assert_allclose(np.diff(result.x[middle], 2), -5.0 * width**2, atol=1e-9)
    np.testing.assert_allclose(result.x[t < 0.3 - 2 * width], t[t < 0.3 - 2 * width], atol=1e-6)


def test_a_programme_that_is_not_convex_is_left_to_the_general_method():
    stated, _, (h, g, *_) = programme(2)
    bent = (h - 0.5 * sparse.eye_array(N)).tocsr()
    stated.update(
        fun=lambda x: float(0.5 * x @ (bent @ x) + g @ x), jac=lambda x: bent @ x + g, hess=lambda x: bent, restarts=0
    )
    result = auglag.minimize(**stated)
    assert result.success, result.message
    assert result.second_order != "saddle"


def test_an_objective_that_only_looks_quadratic_does_not_deceive(monkeypatch):
    """Far from the start f has another term: the solution of the programme is none of the problem."""
    stated, _, (h, g, a, *_) = programme(3)
    found = []
    run = quadratic.Programme.run
    monkeypatch.setattr(quadratic.Programme, "run", lambda *given: found.append(run(*given)) or found[-1])

    def beyond(x):
        return np.maximum(x - 1.3, 0.0)

    stated.update(
        fun=lambda x: float(0.5 * x @ (h @ x) + g @ x + 100 * np.sum(beyond(x) ** 3)),
        jac=lambda x: h @ x + g + 300 * beyond(x) ** 2,
        hess=lambda x: (h + sparse.diags_array(600 * beyond(x))).tocsr(),
    )
    stated["bounds"] = Bounds(np.zeros(N), np.full(N, 3.0))
    stated["constraints"] = LinearConstraint(a, -np.inf, a @ np.full(N, 2.0))
    result = auglag.minimize(**stated)
    assert found  # it was tried
    assert result.success, result.message
    slope = stated["jac"](result.x) + a.T @ result.multipliers[0]
    free = (result.x > 1e-6) & (result.x < 3 - 1e-6)
    assert (result.x > 1.3).any()
    assert np.abs(slope[free]).max() < 1e-5


def test_units_bring_rows_and_columns_to_the_size_of_one():
    _, _, (h, g, a, *_) = programme(4)
    rng = np.random.default_rng(0)
    odd = sparse.diags_array(10.0 ** rng.uniform(-4, 4, N))
    problem = Quadratic(
        quadratic.Hessian(sparse.csc_array(odd @ h @ odd)), sparse.csr_array(a @ odd), odd @ g, np.zeros(M)
    )
    units = Units.of(problem)
    scaled = problem.in_units(units)
    columns = np.maximum(abs(scaled.h.matrix).max(axis=0).toarray() / units.f, abs(scaled.j).max(axis=0).toarray())
    rows = abs(scaled.j).max(axis=1).toarray()
    assert columns.min() > 0.05
    assert columns.max() < 4.0
    assert rows[rows > 0].min() > 0.2
