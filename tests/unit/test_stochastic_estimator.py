"""The estimator D(x, y, z): unbiased, with the variance that the paper's lemma bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers.stochastic import least_squares_on_a_plane, two_classes

from auglag._typing import Vector
from auglag.stochastic.full_batch import FullBatch
from auglag.stochastic.lagrangian import Geometry, StochasticLagrangian
from auglag.stochastic.limits import Ledger, Limits, Meter
from auglag.stochastic.sampling import Sample, SampledLagrangian, Sampling
from auglag.stochastic.svrg import svrg_estimate

DRAWS = 6000


def oracle(beta: float = 5.0, batch: int = 4, limits: Limits | None = None) -> tuple[SampledLagrangian, Vector]:
    problem, ledger = two_classes(rows=60, chat=0.55), Ledger()
    exact = StochasticLagrangian(Geometry(problem, "explicit"), FullBatch(problem, ledger), np.array([0.3]), beta)
    meter = Meter(limits or Limits(), ledger)
    return SampledLagrangian(exact, Sampling(problem.blocks, batch), meter), np.append(np.full(6, 0.4), 0.5)


def spread(estimates: np.ndarray) -> float:
    return float(np.mean(np.sum((estimates - estimates.mean(axis=0)) ** 2, axis=1)))


def test_two_samples_make_it_unbiased_and_one_does_not() -> None:
    sampled, v = oracle()
    exact = sampled.exact.gradient(sampled.test(v).evaluation, sampled.test(v).y_hat)
    samples = list(sampled.samples(np.random.default_rng(0), DRAWS))
    two = np.array([sampled.estimate(v, z) for z in samples])
    error = two.mean(axis=0) - exact
    standard = two.std(axis=0) / math.sqrt(DRAWS)
    assert np.all(np.abs(error) <= 4.5 * standard)
    one = np.array([sampled.estimate(v, Sample(z.first, (None, z.first[1]))) for z in samples])
    bias = np.abs(one.mean(axis=0) - exact)
    assert np.any(bias > 8.0 * one.std(axis=0) / math.sqrt(DRAWS))


@pytest.mark.parametrize("beta", [0.1, 1.0, 20.0])
def test_its_variance_is_below_the_bound_of_the_lemma(beta: float) -> None:
    sampled, v = oracle(beta)
    y = float(np.linalg.norm(sampled.y))
    at = sampled.test(v).evaluation
    grads, jacs, products, estimates = [], [], [], []
    for z in sampled.samples(np.random.default_rng(1), DRAWS):
        f_part = sampled.blocks[0].part(v[:6], z.first[0])
        c_part = sampled.blocks[1].part(v[:6], z.first[1])
        J = np.append(c_part.jac[0], -1.0)
        grads.append(np.append(f_part.grad, 0.0))
        jacs.append(J)
        products.append(J * sampled.constraint(v, z)[0])
        estimates.append(sampled.estimate(v, z))
    sigma_f = math.sqrt(spread(np.array(grads)))
    sigma_c = math.sqrt(max(spread(np.array(jacs)), spread(np.array(products))))
    bound = 3.0 * (sigma_f**2 + sigma_c**2 * y**2 + beta**2 * sigma_c**2)
    assert at.finite
    assert spread(np.array(estimates)) <= bound


def test_an_estimate_over_all_rows_is_the_gradient() -> None:
    problem, _ = least_squares_on_a_plane(rows=50)
    ledger = Ledger()
    exact = StochasticLagrangian(Geometry(problem, "explicit"), FullBatch(problem, ledger), np.array([0.7]), 3.0)
    sampled = SampledLagrangian(exact, Sampling(problem.blocks, 50, replacement=False), Meter(Limits(), ledger))
    v = np.linspace(0, 1, 5)
    z = next(iter(sampled.samples(np.random.default_rng(0), 1)))
    test = sampled.test(v)
    np.testing.assert_allclose(sampled.estimate(v, z), exact.gradient(test.evaluation, test.y_hat), rtol=1e-12)


def test_the_svrg_estimator_is_unbiased_and_its_noise_vanishes_at_the_snapshot() -> None:
    sampled, v = oracle()
    there = v + 0.01 * np.ones(7)
    snapshot = sampled.test(v).evaluation
    exact = sampled.exact.gradient(sampled.test(there).evaluation, sampled.test(there).y_hat)
    samples = list(sampled.samples(np.random.default_rng(2), 3000))
    found = np.array([svrg_estimate(sampled, snapshot, v, there, z) for z in samples])
    standard = found.std(axis=0) / math.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - exact) <= 4.5 * standard + 1e-12)
    plain = np.array([sampled.estimate(there, z) for z in samples])
    assert spread(found) < 1e-2 * spread(plain)
    at_snapshot = np.array([svrg_estimate(sampled, snapshot, v, v, z) for z in samples[:20]])
    assert spread(at_snapshot) < 1e-25


def test_without_replacement_a_batch_has_no_row_twice() -> None:
    problem = two_classes(rows=40)
    for draw in Sampling(problem.blocks, 30, replacement=False).draws(np.random.default_rng(0), 5):
        assert all(len(set(row)) == 30 for index in draw.first if index is not None for row in index)


def test_the_limits_of_a_run_end_the_samples() -> None:
    sampled, v = oracle(limits=Limits(gradients=10))
    assert sum(1 for z in sampled.samples(np.random.default_rng(0), 1000) if sampled.estimate(v, z) is not None) == 10
