"""The quadratic model with all bounds, against SciPy's linear programs and the optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

jax = pytest.importorskip("jax")

from auglag.jax.quadratic import Model, solved  # noqa: E402
from auglag.model.precision import double  # noqa: E402

N, COUNT = 6, 3


def made(curvature: float) -> tuple[Model, list[np.ndarray]]:
    """min g'd + curvature/2 |d|^2 with sum d = 0, one inequality, and bounds; a new g for each instance."""
    rng = np.random.default_rng(0)
    g, a = rng.normal(size=(N, COUNT)), rng.normal(size=(N, COUNT))
    jac = np.stack([a, np.ones((N, COUNT))])
    c = np.stack([np.full(COUNT, -0.05), np.zeros(COUNT)])
    low = np.concatenate([np.full((N, COUNT), -0.1), np.full((1, COUNT), -np.inf), np.zeros((1, COUNT))])
    high = np.concatenate([np.full((N, COUNT), 0.3), np.zeros((2, COUNT))])
    q = curvature * np.repeat(np.eye(N)[:, :, None], COUNT, axis=2)
    parts = (q, g, jac, c, np.zeros((2, COUNT)), np.full(COUNT, 1e6), low, high)
    return Model(*parts), [g, jac, c]


def test_without_curvature_it_is_a_linear_program():
    with double():
        model, (g, jac, c) = made(0.0)
        d, _, good = map(np.asarray, solved(Model(*map(jax.numpy.asarray, model))))
    assert good.all()
    for k in range(COUNT):
        rows = {"A_ub": jac[:1, :, k], "b_ub": -c[:1, k], "A_eq": jac[1:, :, k], "b_eq": -c[1:, k]}
        exact = linprog(g[:, k], bounds=[(-0.1, 0.3)] * N, **rows)
        assert g[:, k] @ d[:, k] == pytest.approx(exact.fun, abs=1e-5)  # the rows hold up to 1 / penalty


def test_with_curvature_the_multipliers_balance_the_gradient_off_the_bounds():
    with double():
        model, (g, jac, _) = made(5.0)
        d, lam, good = map(np.asarray, solved(Model(*map(jax.numpy.asarray, model))))
    assert good.all()
    left = 5.0 * d + g + np.einsum("ijb,ib->jb", jac, lam)
    inside = (d > -0.1) & (d < 0.3)
    assert inside.any()
    assert np.abs(left[inside]).max() < 1e-6
    assert (left[d <= -0.1] >= -1e-6).all()
    assert (left[d >= 0.3] <= 1e-6).all()
    assert (lam[0] >= -1e-8).all()
