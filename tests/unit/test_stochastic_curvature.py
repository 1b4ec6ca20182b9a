"""Gauss-Newton curvature from few rows, and the noise that nested samples stop at."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers.stochastic import two_classes

from auglag import InputError
from auglag.stochastic import FunctionBlock, GaussNewton, LinearBlock, StochasticProblem, minimize
from auglag.stochastic.curvature import curvature
from auglag.stochastic.full_batch import FullBatch
from auglag.stochastic.gauss_newton import _Step
from auglag.stochastic.lagrangian import Geometry, StochasticLagrangian
from auglag.stochastic.limits import Ledger
from auglag.stochastic.nested import noise


def exact(problem: StochasticProblem, x: np.ndarray, b: int) -> np.ndarray:
    block = problem.linear[b]
    w = block.loss.curvature(block.A @ x, block.t)
    return (block.A * w[:, None]).T @ block.A / len(w)


def test_all_rows_give_the_hessian_and_are_counted() -> None:
    problem, x, ledger = two_classes(), np.linspace(-1, 1, 6), Ledger()
    found = curvature(problem, problem.evaluate(x), 0.0, 10**6, np.random.default_rng(0), ledger)
    for b in range(2):
        np.testing.assert_allclose(found.matrices[b], exact(problem, x, b), rtol=1e-12)
    assert ledger.rows == ledger.curvature_rows == problem.rows
    w = np.array([0.3])
    np.testing.assert_allclose(found.combined(w), exact(problem, x, 0) + 0.3 * exact(problem, x, 1), rtol=1e-12)
    np.testing.assert_allclose(found.combined(np.array([-0.3])), exact(problem, x, 0), rtol=1e-12)


def test_screening_keeps_the_trace_with_fewer_rows() -> None:
    problem, x, ledger = two_classes(), np.full(6, 2.0), Ledger()
    found = curvature(problem, problem.evaluate(x), 0.1, 10**6, np.random.default_rng(0), ledger)
    assert ledger.rows < 0.6 * problem.rows
    for b in range(2):
        assert np.trace(found.matrices[b]) == pytest.approx(np.trace(exact(problem, x, b)), rel=1e-12)
        assert np.linalg.norm(found.matrices[b] - exact(problem, x, b), 2) <= 0.1 * np.trace(exact(problem, x, b))


def test_a_weighted_sample_is_right_on_average() -> None:
    problem, x = two_classes(rows=3000), np.full(6, 0.5)
    at, total, draws = problem.evaluate(x), np.zeros((6, 6)), 400
    for seed in range(draws):
        ledger = Ledger()
        total += curvature(problem, at, 1e-9, 200, np.random.default_rng(seed), ledger).matrices[0] / draws
        assert ledger.curvature_rows == 2 * 200
    reference = exact(problem, x, 0)
    assert np.linalg.norm(total - reference) <= 0.03 * np.linalg.norm(reference)


def test_the_noise_of_a_sample_is_the_size_of_its_residual_at_the_optimum_of_the_whole() -> None:
    whole = two_classes(rows=20_000, chat=0.5, seed=3)
    optimum = minimize(whole, tol=1e-8)
    found, expected = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sample = whole.subset([rng.choice(block.rows, 500, replace=False) for block in whole.blocks])
        lagrangian = StochasticLagrangian(
            Geometry(sample, "closed"), FullBatch(sample, Ledger()), optimum.multipliers, 1.0
        )
        test = lagrangian.test(optimum.x)
        at = test.evaluation
        found.append(np.linalg.norm(at.grad + optimum.multipliers @ at.jac) + abs(at.c[0] - 0.5))
        expected.append(noise(sample, test, Ledger()))
    assert 0.5 < math.sqrt(np.mean(np.square(found))) / np.mean(expected) < 2.0


def test_a_users_curvature_drives_gauss_newton() -> None:
    rng = np.random.default_rng(0)
    A, t = rng.standard_normal((500, 4)), rng.standard_normal(500)
    block = FunctionBlock(
        4,
        1,
        data=(A, t),
        objective=lambda x, z: 0.5 * np.mean((np.tanh(z[0] @ x) - z[1]) ** 2),
        gradient=lambda x, z: z[0].T @ ((np.tanh(z[0] @ x) - z[1]) * (1 - np.tanh(z[0] @ x) ** 2)) / len(z[1]),
        constraints=lambda x, z: [np.mean(z[0] @ x + (z[0] @ x) ** 2)],
        jacobian=lambda x, z: (z[0].T @ (1 + 2 * z[0] @ x) / len(z[1]))[None, :],
        curvature=lambda x, z: np.stack(
            [(z[0] * ((1 - np.tanh(z[0] @ x) ** 2) ** 2)[:, None]).T @ z[0] / len(z[1]), 2 * z[0].T @ z[0] / len(z[1])]
        ),
    )
    problem = StochasticProblem([block], lower=[0.5], upper=[0.5])
    result = minimize(problem, np.full(4, 0.3), method=GaussNewton(), tol=1e-7)
    assert result.success, result.message
    assert problem.evaluate(result.x).c[0] == pytest.approx(0.5, abs=1e-6)


def test_gauss_newton_refuses_what_it_cannot_do() -> None:
    from auglag import prox

    with pytest.raises(InputError, match="needs g = 0 or SquaredL2"):
        minimize(two_classes(g=prox.L1(0.1)), method="gauss-newton")
    plain = StochasticProblem([LinearBlock(np.ones((3, 2)), 1.0, objective=1.0)])
    assert plain.m == 0
    block = FunctionBlock(1, data=np.ones(3), objective=lambda x, z: x[0], gradient=lambda x, z: x)
    with pytest.raises(InputError, match="needs the curvature of every block"):
        minimize(StochasticProblem([block]), method="gauss-newton")


def test_an_inactive_row_with_a_multiplier_does_not_stiffen_the_step() -> None:
    problem, x = two_classes(chat=5.0), np.linspace(-1, 1, 6)
    bend = curvature(problem, problem.evaluate(x), 0.0, 10**6, np.random.default_rng(0), Ledger())
    newton = -np.linalg.solve(bend.matrices[0], problem.evaluate(x).grad)
    for y in np.linspace(0.1, 0.9, 17):  # y + beta (c - s) is 0, but for rounding
        subproblem = StochasticLagrangian(Geometry(problem, "closed"), FullBatch(problem, Ledger()), np.array([y]), 1e3)
        step = _Step.of(subproblem, subproblem.test(x), bend, 0.0)
        np.testing.assert_allclose(step.d, newton, rtol=1e-9)
