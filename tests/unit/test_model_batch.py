"""Batches of one sparse structure: the matrices without rows of inequalities, and cuDSS's batch on an imitation."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from auglag.model import Model, batch
from auglag.model.device import cudss
from auglag.model.device.batch import Flat
from auglag.model.device.condensed import Condensation
from auglag.model.device.tuning import TUNING
from auglag.model.precision import double
from auglag.model.structure import Pattern
from helpers.fake_cudss import FakeCuDSS, FakeRuntime


def upper(dense):
    """The pattern and the values of the upper triangle of a symmetric matrix."""
    row, column = np.nonzero(np.triu(dense))
    pattern = Pattern(row.astype(np.int64), column.astype(np.int64), dense.shape)
    return pattern, pattern.entries(dense[row, column])


def kkt(rows, n=6, seed=0):
    """[[H, J'], [J, -E]] with a tridiagonal H and the given variables in every row of J."""
    rng = np.random.default_rng(seed)
    dense = np.diag(np.r_[rng.uniform(2, 3, n), -rng.uniform(1e-3, 1.0, len(rows))])
    for k, variables in enumerate(rows):
        dense[variables, n + k] = rng.normal(size=len(variables))
    dense[np.arange(n - 1), np.arange(1, n)] = rng.uniform(0.1, 0.4, n - 1)
    return np.triu(dense) + np.triu(dense, 1).T


def test_a_system_without_rows_of_inequalities_has_the_same_solution():
    dense = kkt([[0, 1], [1, 2], [3], [4, 5], [0, 5]])
    pattern, values = upper(dense)
    right = np.random.default_rng(1).normal(size=11)
    with double():
        c = Condensation(pattern, np.array([6, 7, 8, 9]))  # the last row is an equality
        assert c.pattern.shape == (7, 7)
        assert c.pattern.nnz < pattern.nnz
        smaller = np.zeros((7, 7))
        smaller[c.pattern.row, c.pattern.column] = c.values(c.maps, jnp.asarray(values))
        b = c.right(c.maps, jnp.asarray(values), jnp.asarray(right))
        solution = np.linalg.solve(smaller + np.triu(smaller, 1).T, b)
        whole = c.whole(c.maps, jnp.asarray(values), jnp.asarray(right), jnp.asarray(solution))
    np.testing.assert_allclose(dense @ np.asarray(whole), right, atol=1e-12)


def test_rows_stay_where_taking_them_out_would_add_entries_or_where_they_are_long():
    n = TUNING.most_condensed + 5
    far_apart, long = [0, 4, 8, 12, 16], list(range(TUNING.most_condensed + 1))
    pattern, _ = upper(kkt([far_apart, long, [2, 3]], n=n))
    with double():
        c = Condensation(pattern, np.arange(n, n + 3))
    assert c.pattern.shape == (n + 2, n + 2)


def test_without_rows_of_inequalities_nothing_is_taken_out():
    pattern, values = upper(kkt([[0, 1]]))
    with double():
        c = Condensation(pattern, np.zeros(0, dtype=np.int64))
        np.testing.assert_array_equal(c.values(c.maps, jnp.asarray(values)), values)


@pytest.mark.parametrize("deterministic", [False, True])
def test_cudss_solves_for_several_right_sides_of_every_member(deterministic):
    dense = kkt([[0, 1], [1, 2]])
    pattern, values = upper(dense)
    right = np.random.default_rng(0).standard_normal((3, 2, 8))
    scales = np.array([1.0, 2.0, 5.0])
    with double():
        library = cudss.Library(FakeCuDSS(), FakeRuntime(0))
        solver = cudss.CuDSS(pattern, batch=3, library=library, deterministic=deterministic)
        solver.factor(jnp.asarray((scales[:, None] * values).ravel()))
        x = np.asarray(solver.solve(jnp.asarray(right.ravel()))).reshape(right.shape)
    np.testing.assert_allclose(scales[:, None, None] * (x @ dense), right, atol=1e-10)


def portfolio():
    """Weights on a simplex with a risk limit and limits on pairs: equalities, inequalities and bounds."""
    m = Model("portfolio")
    x = m.var(6, name="x", lb=0.0, ub=0.5, start=1 / 6)
    gain = m.parameter(np.linspace(1.0, 2.0, 6), name="gain")
    budget = m.constraint(lambda x: x[0], x[0], eq=1.0, name="budget")
    m.add(np.repeat(np.asarray(budget).ravel(), 5), lambda x: x[0], x[1:])
    m.constraint(lambda x: x[0] ** 2 + x[1] ** 2 + x[0] * x[1], x[:5], x[1:], ub=0.15, name="pairs")
    m.objective(lambda x, p: -p[0] * x[0], x, par=(gain,))
    return m


def test_the_batch_of_a_gpu_finds_what_the_batch_of_the_cpu_finds(monkeypatch):
    gains = np.random.default_rng(0).uniform(1.0, 2.0, (7, 6))
    plain = portfolio().solve_batch(par={"gain": gains}, slots=3)
    assert plain.success.all()
    assert not plain.alone.any()
    monkeypatch.setattr(cudss.Library, "_loaded", cudss.Library(FakeCuDSS(), FakeRuntime(0)))
    made = []

    def one_by_one(pattern, slots, name):
        program = made[0]
        made.append(Flat(program, slots, deterministic=False))
        return made[-1]

    real = batch.Batches.of

    def of(self, program, *rest):
        made[:] = [program]
        return real(self, program, *rest)

    monkeypatch.setattr(batch.Batches, "of", of)
    monkeypatch.setattr(batch.device_batch, "OneByOne", one_by_one)
    found = portfolio().solve_batch(par={"gain": gains}, slots=3)
    assert isinstance(made[-1], Flat)
    assert found.success.all()
    assert not found.alone.any()
    np.testing.assert_allclose(found.x, plain.x, atol=1e-6)
    np.testing.assert_array_equal(found.steps, plain.steps)


def test_warm_batches_take_fewer_steps():
    m = portfolio()
    near = m.solve(device="cpu")
    gains = np.linspace(1.0, 2.0, 6) + np.random.default_rng(1).uniform(-0.02, 0.02, (8, 6))
    cold, warm = (m.solve_batch(par={"gain": gains}, slots=8, warm_start=s) for s in (None, near))
    assert warm.success.all()
    np.testing.assert_allclose(warm.fun, cold.fun, rtol=1e-6)
    assert warm.steps.mean() < cold.steps.mean()


def test_batches_of_nearby_sizes_share_what_is_compiled_and_have_no_members_that_nobody_asked_for(monkeypatch):
    made = []

    class Counted(batch.device_batch.Batch):
        def __init__(self, program, slots, *rest, **named):
            made.append(slots)
            super().__init__(program, slots, *rest, **named)

    gains = np.random.default_rng(2).uniform(1.0, 2.0, (11, 6))
    alone = portfolio().solve_batch(par={"gain": gains[:5]}, slots=5)
    monkeypatch.setattr(batch.device_batch, "Batch", Counted)
    m = portfolio()
    found = [m.solve_batch(par={"gain": gains[:count]}) for count in (10, 9, 11, 6)]
    assert made == [12]
    assert [f.x.shape for f in found] == [(10, 6), (9, 6), (11, 6), (6, 6)]
    assert all(f.success.all() and not f.alone.any() for f in found)
    np.testing.assert_allclose(found[-1].x[:5], alone.x, atol=1e-7)
    m.solve_batch(par={"gain": gains[:5]})
    assert made == [12, 6]  # more than half of the members would be idle


def test_jax_is_left_as_it_was():
    before = jax.config.jax_enable_x64
    portfolio().solve_batch(par={"gain": np.ones((2, 6))}, slots=2)
    assert jax.config.jax_enable_x64 == before
