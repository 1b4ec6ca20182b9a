"""The model of one step and its solvers: against brute force, optimality conditions and each other."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from auglag.kkt import Hessian, Memory, Model, Sets, again, solve
from auglag.kkt import active_set as active_set_module
from auglag.kkt.active_set import active_set
from auglag.kkt.convexity import flipped
from auglag.kkt.curvature import structured_sr1
from auglag.kkt.interior import interior_point
from auglag.persist import checkpoint

INF = np.inf


def model(h, g, j, t, beta, cl, cu, lower, upper, as_sparse=False):
    h, j = np.asarray(h, float), np.asarray(j, float)
    matrix, jacobian = (sparse.csc_array(h), sparse.csr_array(j)) if as_sparse else (h, j)
    cl, cu = np.asarray(cl, float), np.asarray(cu, float)
    vectors = (np.asarray(v, float) for v in (lower, upper))
    return Model(
        Hessian(matrix), np.asarray(g, float), jacobian, np.asarray(t, float), beta, cl, cu, *vectors, cl == cu
    )


def random_model(rng, n, m, *, beta=10.0, convex=True, equal=0.3, as_sparse=False, duplicated=False):
    a = rng.standard_normal((n, n))
    h = a @ a.T / n + 0.1 * np.eye(n) if convex else a + a.T
    j = rng.standard_normal((m, n))
    if duplicated and m > 1:
        j[m // 2 :] = j[: m - m // 2]
    cl = rng.standard_normal(m)
    cu = cl + np.where(rng.random(m) < equal, 0.0, rng.random(m))
    cl, cu = (
        np.where((cl != cu) & (rng.random(m) < 0.3), -INF, cl),
        np.where((cl != cu) & (rng.random(m) < 0.2), INF, cu),
    )
    lower, upper = -rng.random(n), rng.random(n)
    t = rng.standard_normal(m)
    return model(h, rng.standard_normal(n), j, t, beta, cl, cu, lower, upper, as_sparse)


def value(qp, d):
    """The model at d."""
    t = qp.t + qp.jacobian @ d
    gap = t - np.clip(t, qp.cl, qp.cu)
    return qp.gradient @ d + 0.5 * (d @ (qp.hessian @ d)) + 0.5 * qp.beta * (gap @ gap)


def residual(qp, step):
    """How far d is from minimising the model with `step.shift` added, by its projected gradient; and of w."""
    t = qp.t + qp.jacobian @ step.d
    w = qp.beta * (t - np.clip(t, qp.cl, qp.cu))
    slope = qp.gradient + qp.hessian @ step.d + qp.jacobian.T @ w + step.shift * step.d
    moved = step.d - np.clip(step.d - slope, qp.lower, qp.upper)
    return np.max(np.abs(moved), initial=0.0), np.max(np.abs(w - step.w), initial=0.0)


def brute_force(qp):
    """The least value over all guesses of active sets, from which every stationary point in the box is had."""
    best = INF
    n, m = qp.n, qp.m
    for variables in itertools.product((-1, 0, 1), repeat=n):
        for rows in itertools.product((-1, 0, 1), repeat=m):
            free, active = np.flatnonzero(np.array(variables) == 0), np.flatnonzero(rows)
            d = np.where(np.array(variables) < 0, qp.lower, np.where(np.array(variables) > 0, qp.upper, 0.0))
            side = np.where(np.array(rows) > 0, qp.cu, qp.cl)[active]
            if not np.isfinite(side).all():
                continue
            j = qp.jacobian[active]
            matrix = qp.hessian.toarray() + qp.beta * j.T @ j
            slope = qp.gradient + matrix @ d + qp.beta * j.T @ (qp.t[active] - side)
            if free.size:
                d[free] = -np.linalg.lstsq(matrix[np.ix_(free, free)], slope[free], rcond=None)[0]
            if (d >= qp.lower - 1e-9).all() and (d <= qp.upper + 1e-9).all():
                best = min(best, value(qp, d))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_step_is_the_minimiser_found_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    qp = random_model(rng, int(rng.integers(1, 4)), int(rng.integers(0, 4)), beta=10.0 ** int(rng.integers(-1, 4)))
    step = solve(qp, Sets.none(qp.n, qp.m), prox=0.0)
    assert step is not None
    assert value(qp, step.d) <= brute_force(qp) + 1e-9


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    m=st.integers(0, 25),
    exponent=st.integers(-1, 8),
    duplicated=st.booleans(),
    as_sparse=st.booleans(),
)
def test_convex_models_are_solved_to_optimality(seed, n, m, exponent, duplicated, as_sparse):
    """Also with more rows than variables, with dependent rows, from any guess of the sets, dense and sparse."""
    rng = np.random.default_rng(seed)
    qp = random_model(rng, n, m, beta=10.0**exponent, as_sparse=as_sparse, duplicated=duplicated)
    guess = Sets(rng.integers(-1, 2, m).astype(np.int8), rng.integers(-1, 2, n).astype(np.int8))
    guess.rows[(guess.rows < 0) & np.isinf(qp.cl)] = 0
    guess.rows[(guess.rows > 0) & np.isinf(qp.cu)] = 0
    step = solve(qp, guess)
    assert step is not None
    stationarity, of_w = residual(qp, step)
    scale = max(1.0, float(np.max(np.abs(step.w), initial=0.0)))
    assert stationarity <= 1e-6 * scale
    assert of_w <= 1e-6 * scale + 1e-9 * qp.beta
    assert (step.d >= qp.lower).all()
    assert (step.d <= qp.upper).all()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("as_sparse", [False, True])
def test_steps_of_indefinite_models_descend(seed, as_sparse):
    rng = np.random.default_rng(seed)
    qp = random_model(rng, 6, 4, convex=False, as_sparse=as_sparse)
    step = solve(qp, Sets.none(6, 4))
    assert step is not None
    at_zero = qp.t - np.clip(qp.t, qp.cl, qp.cu)
    slope = qp.gradient + qp.beta * (qp.jacobian.T @ at_zero)
    projected = np.max(np.abs(np.clip(-slope, qp.lower, qp.upper)))
    assert slope @ step.d < -1e-8 * projected**2


@pytest.mark.parametrize("seed", range(6))
def test_interior_points_agree_with_active_sets(seed):
    rng = np.random.default_rng(seed)
    qp = random_model(rng, 8, 12)
    found = interior_point(qp, 0.0)
    exact = active_set(qp, found[0].sets, 0.0)
    assert exact is not None
    np.testing.assert_allclose(found[0].d, exact.d, atol=1e-6)


def test_interior_points_come_first_where_sets_kept_cycling():
    qp = random_model(np.random.default_rng(0), 8, 5)
    memory = Memory()
    for cycles, cycled in ((0, False), (3, False), (4, True), (7, True), (8, False), (9, True)):
        step = solve(qp, Sets.none(8, 5), cycles=cycles)
        assert step.cycled is cycled
        assert max(residual(qp, step)) < 1e-8
        memory.keep(step, step.sets)
    memory.keep(step, step.sets)
    assert memory.cycles == 2


@pytest.mark.parametrize("seed", range(6))
def test_a_corrected_model_is_solved_with_the_hessian_of_the_step(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    qp = random_model(rng, 8, 5, convex=False)
    step = solve(qp, Sets.none(8, 5))
    qp = replace(qp, t=qp.t + 1e-4 * rng.standard_normal(5))
    monkeypatch.setattr(active_set_module, "flipped", None)  # it is corrected once
    found = again(qp, step)
    assert found is not None
    assert max(residual(replace(qp, hessian=step.hessian), found)) < 1e-8
    assert not np.array_equal(found.d, step.d)


def test_a_corrected_model_with_other_sets_has_no_step():
    qp = random_model(np.random.default_rng(0), 30, 40)
    step = solve(qp, Sets.none(30, 40))
    assert again(replace(qp, t=qp.t + 10.0 * np.random.default_rng(1).standard_normal(40)), step) is None


def test_a_very_large_penalty_costs_no_accuracy():
    """min (d1 - 1)^2 + (d2 - 2)^2 subject to d1 + d2 = 1: d = (0, 1) with multiplier 2."""
    qp = model(2 * np.eye(2), [-2, -4], [[1, 1]], [-1], 1e14, [0], [0], [-INF] * 2, [INF] * 2)
    step = solve(qp, Sets.none(2, 1), prox=0.0)
    np.testing.assert_allclose(step.d, [0, 1], atol=1e-13)
    np.testing.assert_allclose(step.w, [2], atol=1e-12)


def test_bounds_are_met_to_the_last_digit():
    qp = model(np.eye(2), [5.0, 0.3], np.zeros((0, 2)), [], 1.0, [], [], [-0.1, -1.0], [1.0, 1.0])
    step = solve(qp, Sets.none(2, 0), prox=0.0)
    assert step.d[0] == -0.1
    assert step.sets.variables.tolist() == [-1, 0]
    assert step.d[1] == pytest.approx(-0.3)


def test_negative_curvature_is_turned_around_not_shifted():
    """H = diag(-2, 1e4): the step along the second axis stays Newton's."""
    h = Hessian(np.diag([-2.0, 1e4]))
    fixed = flipped(h, np.zeros((0, 2)), 1.0, np.arange(2), np.arange(0))
    np.testing.assert_allclose(fixed.toarray(), np.diag([2.0, 1e4]))


def test_negative_curvature_that_a_constraint_excludes_is_left_alone():
    h = Hessian(np.diag([-1.0, 1.0]))
    assert flipped(h, np.array([[1.0, 0.0]]), 1e6, np.arange(2), np.arange(1)) is None


def test_rank_one_terms_beside_a_sparse_matrix_count_as_part_of_it():
    rng = np.random.default_rng(1)
    v, c = rng.standard_normal((4, 2)), np.array([3.0, -0.2])
    h = Hessian(sparse.csc_array(np.diag([1.0, 2.0, 3.0, 4.0]))).plus(v, c)
    full, b = np.diag([1.0, 2.0, 3.0, 4.0]) + (v * c) @ v.T, rng.standard_normal(4)
    np.testing.assert_allclose(h @ b, full @ b)
    np.testing.assert_allclose(h.diagonal(), full.diagonal())


@pytest.mark.parametrize("as_dense", [True, False])
def test_the_learnt_hessian_is_exact_for_quadratics_whatever_the_multipliers(as_dense):
    """f and c quadratic: after n independent steps SR1 knows Hess f + w Hess c for every w."""
    rng = np.random.default_rng(2)
    a, b = (m + m.T for m in rng.standard_normal((2, 5, 5)))
    memory, x = Memory(), np.zeros(5)
    for _ in range(7):
        memory.see(x, a @ x, (b @ x)[None, :])
        x = x + rng.standard_normal(5)
    for w in (0.0, 2.0, -7.0):
        h = structured_sr1(memory, np.array([w]), a @ x, as_dense)
        np.testing.assert_allclose(h.toarray(), a + w * b, atol=1e-6)


def saved(memory, path):
    """The memory as a resumed run gets it."""
    checkpoint.save(path, "test", {}, memory)
    return checkpoint.load(path, "test", {}, (Memory, Sets))


def test_a_memory_survives_being_saved(tmp_path):
    rng = np.random.default_rng(3)
    memory = Memory(sets=Sets(np.array([1, -1], np.int8), np.array([0, 1, -1], np.int8)), radius=2.5)
    memory.multipliers = rng.standard_normal(2)
    for _ in range(4):
        memory.see(rng.standard_normal(3), rng.standard_normal(3), rng.standard_normal((2, 3)))
    again = saved(memory, tmp_path / "memory.npz")
    w, g = rng.standard_normal(2), rng.standard_normal(3)
    one, two = structured_sr1(memory, w, g, True), structured_sr1(again, w, g, True)
    assert np.array_equal(one.matrix, two.matrix)
    assert again.radius == 2.5
    assert np.array_equal(again.sets.variables, memory.sets.variables)


def test_a_saved_memory_is_as_sparse_as_the_jacobian(tmp_path):
    n = 2000
    jacobian = sparse.csr_array(sparse.diags_array(np.arange(1.0, n + 1.0)))
    memory = Memory()
    memory.see(np.zeros(n), np.ones(n), jacobian)
    memory.see(np.ones(n), np.zeros(n), 2.0 * jacobian)
    back = saved(memory, tmp_path / "memory.npz")
    assert (tmp_path / "memory.npz").stat().st_size < 40 * 8 * n
    assert (abs(back.last[2] - memory.last[2])).max() == 0.0
    assert (abs(back.pairs[0][2] - memory.pairs[0][2])).max() == 0.0


@pytest.mark.parametrize("kind", [np.ascontiguousarray, np.asfortranarray, sparse.csr_array])
def test_what_was_learnt_survives_without_a_last_point_and_goes_on_to_the_last_digit(kind, tmp_path):
    rng = np.random.default_rng(5)
    points = [(rng.standard_normal(40), rng.standard_normal(40), kind(rng.random((30, 40)))) for _ in range(8)]
    memory = Memory()
    for point in points[:4]:
        memory.see(*point)
    again = saved(memory, tmp_path / "memory.npz")
    for each in (memory, again):
        each.see(*points[4])
        each.last = None  # interior points began elsewhere
    third = saved(again, tmp_path / "memory.npz")
    for each in (memory, again, third):
        for point in points[5:]:
            each.see(*point)
    w, g = rng.standard_normal(30), rng.standard_normal(40)
    learnt = [structured_sr1(each, w, g, True).matrix for each in (memory, again, third)]
    assert np.array_equal(learnt[0], learnt[1])
    assert np.array_equal(learnt[0], learnt[2])


def test_a_hint_saves_trials_but_shifts_no_convex_hessian():
    rng = np.random.default_rng(5)
    convex = random_model(rng, 6, 2)
    plain, hinted = (active_set(convex, Sets.none(6, 2), 1e-9, hint=hint) for hint in (0.0, 10.0))
    np.testing.assert_array_equal(plain.d, hinted.d)
    assert hinted.shift == 1e-9
