"""Batches with a linear objective: vertices, feasible sets with tiny interiors, and sets that are empty by a hair."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

from auglag import Status  # noqa: E402
from auglag.jax import solve_batch  # noqa: E402

N = 8


def _lens(x, p):
    """Two balls of one radius."""
    return jnp.stack([jnp.sum((x - p["a"]) ** 2) - p["r"] ** 2, jnp.sum((x - p["b"]) ** 2) - p["r"] ** 2])


def _lenses(count, seed, gaps):
    rng = np.random.default_rng(seed)
    a, u = rng.uniform(0.3, 0.7, (count, N)), rng.normal(size=(count, N))
    u /= np.linalg.norm(u, axis=1)[:, None]
    apart = rng.uniform(0.2, 0.4, count)
    return {"c": rng.normal(size=(count, N)), "a": a, "b": a + apart[:, None] * u, "r": 0.5 * (apart + gaps)}


def test_the_intersection_of_two_balls_may_be_tiny_or_empty_by_little():
    gaps = np.tile([1e-4, 1e-3, 1e-2, -1e-4, -1e-3, -1e-2], 10)
    p = _lenses(len(gaps), 0, gaps)
    found = solve_batch(
        lambda x, p: p["c"] @ x, np.full(N, 0.5), (p,), constraints=(_lens, -np.inf, 0.0), bounds=(-1.0, 2.0),
        in_axes=(None, 0),
    )  # fmt: skip
    expected = np.where(gaps > 0.0, int(Status.SOLVED), int(Status.INFEASIBLE))
    np.testing.assert_array_equal(np.asarray(found.status), expected)
    # The solution in closed form: a disc of the plane between the balls, moved along the part of -c inside it.
    feasible = gaps > 0.0
    middle, across = 0.5 * (p["a"] + p["b"]), p["b"] - p["a"]
    apart = np.linalg.norm(across, axis=1, keepdims=True)
    inside = p["c"] - np.sum(p["c"] * across, axis=1, keepdims=True) * across / apart**2
    radius = np.sqrt(np.maximum(p["r"][:, None] ** 2 - 0.25 * apart**2, 0.0))
    rim = middle - radius * inside / np.linalg.norm(inside, axis=1, keepdims=True)
    value = np.sum(p["c"] * rim, axis=1)
    # The rim is the solution wherever both balls are active there; a cap of one ball may be lower than the rim.
    assert (np.asarray(found.fun)[feasible] <= value[feasible] + 1e-5).all()


def test_linear_programs_with_one_nonlinear_row_and_tied_vertices():
    """Transport with whole costs, whose vertices are degenerate and tied, and a cap on an exponential sum."""
    rng = np.random.default_rng(3)
    count, size = 60, 3
    supply, demand = (rng.integers(1, 4, (count, size)).astype(float) for _ in range(2))
    supply, demand = supply / supply.sum(1, keepdims=True), demand / demand.sum(1, keepdims=True)
    even = np.einsum("ki,kj->kij", supply, demand).reshape(count, -1)
    cap = np.expm1(2.0 * even).sum(axis=1) * (1.0 + rng.uniform(0.0, 1.0, count))
    p = {"cost": rng.integers(1, 5, (count, size * size)).astype(float), "s": supply, "d": demand, "cap": cap}
    square = lambda x: x.reshape(size, size)  # noqa: E731
    rows = [
        (lambda x, p: square(x).sum(1) - p["s"], 0.0, 0.0),
        (lambda x, p: square(x).sum(0) - p["d"], 0.0, 0.0),
        (lambda x, p: jnp.sum(jnp.expm1(2.0 * x)) - p["cap"], -np.inf, 0.0),
    ]
    start = np.full(size * size, 1.0 / size**2)
    found = solve_batch(lambda x, p: p["cost"] @ x, start, (p,), constraints=rows, bounds=(0.0, 1.0), in_axes=(None, 0))
    assert (np.asarray(found.status) == int(Status.SOLVED)).all()
    assert (np.asarray(found.steps) <= 50).all()


def test_a_cap_on_the_risk_may_leave_little_or_nothing():
    """The least risk of uncorrelated assets is known: caps a little above it and below it."""
    rng, n = np.random.default_rng(5), 12
    margin = np.tile([3e-3, -3e-3, 0.03, -0.03, 0.3, -0.3], 20)
    variance = rng.uniform(0.01, 0.05, (len(margin), n))
    p = {"gain": rng.normal(0.1, 0.05, variance.shape), "v": variance, "cap": (1.0 + margin) / (1.0 / variance).sum(1)}
    rows = [(lambda x, p: p["v"] @ x**2 - p["cap"], -np.inf, 0.0), (lambda x, p: jnp.sum(x) - 1.0, 0.0, 0.0)]
    found = solve_batch(
        lambda x, p: -p["gain"] @ x, np.full(n, 1.0 / n), (p,), constraints=rows, bounds=(0.0, 1.0), in_axes=(None, 0)
    )
    expected = np.where(margin > 0.0, int(Status.SOLVED), int(Status.INFEASIBLE))
    np.testing.assert_array_equal(np.asarray(found.status), expected)
    assert (np.asarray(found.steps) <= 30).all()


def test_a_vertex_that_meets_the_rows_is_not_called_infeasible():
    """Complementarity that is left there is no violation."""
    s, mu = np.array([[303.7416, 1.93], [1.93, 0.2887]]), np.array([0.1929, -0.0168])
    caps = np.array([0.28873, 0.289, 0.29, 0.3])
    found = solve_batch(
        lambda x, p: -mu @ x, np.full(2, 0.5), (caps,), in_axes=(None, 0), bounds=(0.0, 1.0),
        constraints=(lambda x, p: jnp.stack([x.sum() - 1.0, x @ s @ x - p]), np.array([0.0, -np.inf]), np.zeros(2)),
    )  # fmt: skip
    assert np.asarray(found.success).all()
