"""What every linear solver for KKT matrices must do, for all that are registered in `auglag.kkt.linear.SOLVERS`."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from auglag.errors import InputError
from auglag.kkt import Hessian, tuning
from auglag.kkt.linear import SOLVERS, Analyses, chosen, part, require_solver, system, using
from auglag.kkt.linear.refinement import accelerated, refined
from auglag.kkt.linear.superlu import exchangeable

INSTALLED = [solver for solver in SOLVERS.values() if solver.available]
EVERY = pytest.mark.parametrize("solver", INSTALLED, ids=lambda s: s.name)
SPARSE = pytest.mark.parametrize("solver", [s for s in INSTALLED if s.is_sparse], ids=lambda s: s.name)
SOFT = 1e-9


def stored(solver, h, j):
    """H and J as the solver takes them."""
    if solver.is_sparse:
        return Hessian(sparse.csc_array(h)), sparse.csr_array(j)
    return Hessian(h), j


def whole(h, j, first=0.0, second=0.0):
    """K as a dense array."""
    m, n = j.shape
    h = h + np.diag(np.broadcast_to(np.asarray(first, float), n))
    return np.block([[h, j.T], [j, -np.diag(np.broadcast_to(np.asarray(second, float), m))]])


def negatives(k):
    return int(np.count_nonzero(np.linalg.eigvalsh(k) < 0))


def random(rng, n, m, density=0.3, convex=True):
    h = np.where(rng.random((n, n)) < density, rng.standard_normal((n, n)), 0.0)
    h = h @ h.T + 0.1 * np.eye(n) if convex else h + h.T
    return h, np.where(rng.random((m, n)) < density, rng.standard_normal((m, n)), 0.0)


def factor_of(solver, h, j, first, second, **options):
    return solver.system(*stored(solver, h, j), solver.analysis()).factor(first, second, **options)


def holds_inertia(factor, k, m):
    """The number of negative eigenvalues; None is allowed only if it is not m."""
    true = negatives(k)
    return factor.negative == true or (factor.negative is None and true != m)


@EVERY
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), m=st.integers(0, 90), exponent=st.integers(-6, 3))
def test_quasi_definite_matrices_are_solved_and_have_m_negative_eigenvalues(solver, seed, n, m, exponent):
    rng = np.random.default_rng(seed)
    h, j = random(rng, n, m)
    second = 10.0**exponent * (0.5 + rng.random(m))
    k, b = whole(h, j, 0.5, second), rng.standard_normal(n + m)
    factor = factor_of(solver, h, j, 0.5, second)
    assert factor.negative == m
    assert factor.trusted()
    x = factor.solve(b)
    assert np.max(np.abs(k @ x - b)) <= 1e-9 * max(1.0, np.max(np.abs(x)))
    assert 0 <= factor.fill <= (n + m) * (n + m + 1) // 2


@EVERY
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), m=st.integers(0, 30))
def test_a_wrong_inertia_is_noticed(solver, seed, n, m):
    """H is indefinite and the rows are soft, so that often there are more than m negative eigenvalues."""
    rng = np.random.default_rng(seed)
    h, j = random(rng, n, m, convex=False)
    first, second = rng.random(n), 0.1 + rng.random(m)
    k = whole(h, j, first, second)
    if np.min(np.abs(np.linalg.eigvalsh(k))) < 1e-6:
        return
    factor = factor_of(solver, h, j, first, second)
    assert holds_inertia(factor, k, m)
    if factor.negative == m:
        b = rng.standard_normal(n + m)
        x = factor.solve(b)
        assert np.max(np.abs(k @ x - b)) <= 1e-7 * max(1.0, np.max(np.abs(x)))


@EVERY
def test_a_matrix_that_is_convex_on_the_rows_only_has_m_negative_eigenvalues(solver):
    """H = diag(1, 1, -1), and the row holds the third variable."""
    h, j = np.diag([1.0, 1.0, -1.0]), np.array([[0.0, 0.0, 1.0]])
    assert factor_of(solver, h, j, 0.0, 0.1).negative == 1
    assert factor_of(solver, h, j, 0.0, 10.0).negative != 1


@EVERY
@pytest.mark.parametrize("small", [0.0, 1e-12, 1e-10])
def test_nearly_dependent_rows_are_solved_to_what_the_right_side_allows(solver, small):
    """Two rows that are the same but for `small`: b in the range of K has a solution, whatever the pivots."""
    rng = np.random.default_rng(0)
    h, j = np.eye(6), rng.standard_normal((3, 6))
    j[2] = j[1]
    j[2, 0] += small
    k = whole(h, j, 0.0, 1e-9)
    b = k @ rng.standard_normal(9)
    factor = factor_of(solver, h, j, 0.0, 1e-9, soft=SOFT)
    assert factor.negative == 3
    assert np.max(np.abs(k @ factor.solve(b) - b)) <= 1e-7


@EVERY
def test_a_singular_matrix_is_not_taken_for_a_good_one(solver):
    """H has a zero eigenvalue that nothing else holds: no number, or numbers that do not pretend."""
    h, j = np.diag([1.0, 0.0, 2.0]), np.zeros((1, 3))
    factor = factor_of(solver, h, j, 0.0, 1.0)
    b = np.ones(4)
    assert factor.negative in (None, 1)
    with np.errstate(invalid="ignore"):
        residual = whole(h, j, 0.0, 1.0) @ factor.solve(b) - b
    assert not np.max(np.abs(residual)) <= 1e-6  # also if it is NaN


@EVERY
def test_what_is_not_finite_has_no_inertia(solver):
    factor = factor_of(solver, np.diag([1.0, np.nan]), np.ones((1, 2)), 0.0, 1.0)
    assert factor.negative is None


@EVERY
@pytest.mark.parametrize("shape", [(0, 5), (3, 3), (70, 4)])
def test_any_number_of_rows(solver, shape):
    rng = np.random.default_rng(3)
    h, j = np.eye(shape[1]), rng.standard_normal(shape)
    factor = factor_of(solver, h, j, 0.0, 1e-3)
    b = rng.standard_normal(sum(shape))
    assert factor.negative == shape[0]
    np.testing.assert_allclose(whole(h, j, 0.0, 1e-3) @ factor.solve(b), b, atol=1e-9)


@EVERY
@pytest.mark.parametrize("seed", range(5))
def test_one_system_is_factorised_with_one_diagonal_after_another(solver, seed):
    rng = np.random.default_rng(seed)
    h, j = random(rng, 9, 4, density=0.5)
    h[0, 0] = 0.0  # an entry of the diagonal that a sparse matrix does not store
    made, b = solver.system(*stored(solver, h, j), solver.analysis()), rng.standard_normal(13)
    for first, second in ((50.0, 1e-3), (rng.random(9) + 40.0, rng.random(4) + 0.1), (30.0, 1.0)):
        k = whole(h, j, first, second)
        for factor in filter(None, (made.factor(first, second), made.pivoted(first, second))):
            np.testing.assert_allclose(factor.solve(b), np.linalg.solve(k, b), rtol=1e-9, atol=1e-12)
        assert made.factor(first, second).negative == negatives(k)


@EVERY
@pytest.mark.parametrize("seed", range(5))
def test_an_analysis_serves_matrices_of_the_same_pattern_and_takes_on_others(solver, seed):
    rng = np.random.default_rng(seed)
    n, m, analysis = 30, 12, solver.analysis()
    patterns = [(rng.random((n, n)) < 0.1, rng.random((m, n)) < 0.2) for _ in range(2)]
    for which in (0, 0, 0, 1, 1, 0):
        h_at, j_at = patterns[which]
        h = np.where(h_at | h_at.T, rng.standard_normal((n, n)), 0.0)
        h, j = h + h.T + 20 * np.diag(np.arange(n) % 3 > 0), np.where(j_at, rng.standard_normal((m, n)), 0.0)
        made = solver.system(*stored(solver, h, j), analysis)
        first, second = rng.random(n) + 20.0, rng.random(m) + 0.1
        k = whole(h, j, first, second)
        for _ in range(2):  # the second time with what the first has found
            factor = made.factor(first, second, 1e-9)
            b = rng.standard_normal(n + m)
            np.testing.assert_allclose(k @ factor.solve(b), b, atol=1e-9)
            assert factor.negative == negatives(k)


@EVERY
@pytest.mark.parametrize("kept", [0.2, 0.7, 1.0])
def test_a_part_is_the_system_of_some_variables_and_rows(solver, kept):
    rng = np.random.default_rng(3)
    n, m, analysis = 40, 15, solver.analysis()
    h, j = random(rng, n, m, density=0.1, convex=False)
    h += np.eye(n)
    for vectors in (False, True):
        free, active = np.flatnonzero(rng.random(n) < kept), np.flatnonzero(rng.random(m) < kept)
        first, second = (rng.random(free.size) + 0.2, rng.random(active.size) + 0.1) if vectors else (0.5, 0.1)
        factor = solver.part(*stored(solver, h, j), free, active, analysis).factor(first, second)
        k = whole(h[np.ix_(free, free)], j[np.ix_(active, free)], first, second)
        b = rng.standard_normal(free.size + active.size)
        assert holds_inertia(factor, k, active.size)
        np.testing.assert_allclose(k @ factor.solve(b), b, atol=1e-9)
        np.testing.assert_allclose(k @ factor.roughly(b, 1e-8)[0], b, atol=1e-6)


@SPARSE
@pytest.mark.parametrize("seed", range(12))
def test_rank_one_terms_of_either_sign_give_the_solution_and_the_inertia_of_the_whole(solver, seed):
    rng = np.random.default_rng(seed)
    n, m, k = 30, 12, 10
    h = Hessian(sparse.diags_array(rng.uniform(0.01, 2.0, n), format="csc"))
    h = h.plus(rng.standard_normal((n, k)), rng.uniform(0.1, 3.0, k) * rng.choice([-1.0, 1.0], k))
    j = sparse.random_array((m, n), density=0.3, rng=rng, format="csr")
    made = solver.system(h, j, solver.analysis())
    for first in (0.1, rng.random(n)):
        factor, full = made.factor(first, 1e-3), whole(h.toarray(), j.toarray(), first, 1e-3)
        b = rng.standard_normal(n + m)
        np.testing.assert_allclose(full @ factor.solve(b), b, atol=1e-9)
        assert factor.negative == negatives(full)


@SPARSE
def test_rank_one_terms_of_a_part(solver):
    rng = np.random.default_rng(1)
    h = Hessian(sparse.csc_array(np.diag([1.0, 2.0, 3.0, 4.0]))).plus(
        rng.standard_normal((4, 2)), np.array([3.0, -0.2])
    )
    j, free, active = rng.standard_normal((2, 4)), np.array([0, 1, 3]), np.array([1])
    factor = solver.part(h, sparse.csr_array(j), free, active, solver.analysis()).factor(0.1, 0.01)
    k = whole(h.toarray()[np.ix_(free, free)], j[np.ix_(active, free)], 0.1, 0.01)
    np.testing.assert_allclose(k @ factor.solve(np.arange(4.0)), np.arange(4.0), atol=1e-8)
    assert factor.negative == negatives(k)


@SPARSE
def test_what_cancels_beyond_repair_is_not_a_solution(solver):
    """V'V / first = 1e20: nothing is left of the small part, and the answer must not be zeros that look like one."""
    n = 10
    v = 1e4 * np.random.default_rng(0).standard_normal((n, 3))
    h = Hessian(sparse.diags_array(np.full(n, 1e-12), format="csc")).plus(v, np.ones(3))
    factor = solver.system(h, sparse.csr_array((0, n)), solver.analysis()).factor(0.0, 1.0)
    x = factor.solve(np.ones(n))
    good = np.isfinite(x).all() and np.max(np.abs(h @ x - 1.0)) <= 1e-5
    assert good or (factor.negative is None and np.isnan(x).all())


@SPARSE
def test_solutions_are_accurate_where_pivots_without_exchanges_are_poor(solver):
    """Third differences are nearly dependent rows: what is added to keep pivots away from zero refines away slowly."""
    m, n = 400, 403
    j = sparse.csr_array(sparse.diags_array([-1.0, 3.0, -3.0, 1.0], offsets=[0, 1, 2, 3], shape=(m, n)))
    h = Hessian(sparse.diags_array(np.ones(n), format="csc"))
    factor = solver.system(h, j, solver.analysis()).factor(0.0, 1e-12, 1e-9)
    b = np.cos(np.arange(m + n))
    full = sparse.block_array([[h.matrix, j.T], [j, -1e-12 * sparse.eye_array(m)]])
    assert np.max(np.abs(full @ factor.solve(b) - b)) <= 1e-9 * np.max(np.abs(b))


@pytest.mark.parametrize("solver", [s for s in INSTALLED if s.is_sparse and s.name != "full"], ids=lambda s: s.name)
def test_sparse_factors_stay_sparse(solver):
    """A tridiagonal H with one row per pair of neighbours fills in by a constant per variable."""
    n = 2000
    h = Hessian(sparse.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(n, n), format="csc"))
    j = sparse.csr_array(sparse.diags_array([1.0, 1.0], offsets=[0, 1], shape=(n - 1, n)))
    assert solver.system(h, j, solver.analysis()).factor(0.0, 1e-3).fill <= 20 * n


@pytest.mark.parametrize("as_sparse", [False, True])
def test_the_choice_takes_what_it_is_given(as_sparse):
    rng = np.random.default_rng(0)
    h, j = random(rng, 8, 3)
    name = next(solver for solver in SOLVERS.values() if solver.is_sparse == as_sparse)
    h_given, j_given = stored(name, h, j)
    assert chosen(h_given).is_sparse == as_sparse
    analyses, b = Analyses(), rng.standard_normal(11)
    everything = np.arange(8), np.arange(3)
    for made in (
        system(h_given, j_given),
        system(h_given, j_given, analyses),
        part(h_given, j_given, *everything, analyses),
    ):
        np.testing.assert_allclose(whole(h, j, 1.0, 0.1) @ made.factor(1.0, 0.1).solve(b), b, atol=1e-9)


@SPARSE
def test_factors_stay_valid_when_others_of_the_same_pattern_are_made(solver):
    rng = np.random.default_rng(7)
    h, j = random(rng, 20, 8)
    made, b = solver.system(*stored(solver, h, j), solver.analysis()), rng.standard_normal(28)
    one, two = made.factor(0.5, 1e-2), made.factor(3.0, 1.0)
    for factor, k in ((one, whole(h, j, 0.5, 1e-2)), (two, whole(h, j, 3.0, 1.0)), (one, whole(h, j, 0.5, 1e-2))):
        np.testing.assert_allclose(k @ factor.solve(b), b, atol=1e-9)


def test_a_run_can_name_its_solver():
    h = Hessian(sparse.eye_array(3, format="csc"))
    with using("superlu"):
        assert chosen(h).name == "superlu"
        assert chosen(Hessian(np.eye(3))).name == "dense"
    assert chosen(h).name in ("qdldl", "superlu")


def test_an_unknown_solver_is_refused_by_name():
    with pytest.raises(InputError, match=r"linear_solver must be one of 'auto', .*'superlu', got 'ma57'"):
        require_solver("ma57")


@pytest.mark.parametrize(
    ("name", "demand"),
    [("pardiso", "pypardiso: pip install pypardiso"), ("qdldl", "qdldl: pip install 'auglag[sparse]'")],
)
def test_a_solver_that_is_not_installed_says_what_to_install(monkeypatch, name, demand):
    monkeypatch.setattr(type(SOLVERS[name]), "available", False)
    with pytest.raises(InputError) as caught:
        require_solver(name)
    assert str(caught.value) == f"linear_solver={name!r} needs the package {demand}"


def test_without_qdldl_a_large_problem_says_so_once(monkeypatch):
    from auglag.kkt import linear

    monkeypatch.setattr(type(SOLVERS["qdldl"]), "available", False)
    linear._recommend.cache_clear()
    large = Hessian(sparse.eye_array(5000, format="csc"))
    with pytest.warns(UserWarning, match=r"pip install 'auglag\[sparse\]'"):
        assert chosen(large).name == "superlu"
    assert chosen(large).name == "superlu"  # warnings are errors here


@pytest.mark.parametrize(("dense_block", "name"), [(30, "full"), (5, "qdldl")])
def test_nearly_full_factors_are_left_to_lapack(dense_block, name):
    if not SOLVERS["qdldl"].available:
        pytest.skip("needs qdldl")
    h = np.eye(40)
    h[:dense_block, :dense_block] += 1.0
    h, j, analyses = Hessian(sparse.csc_array(h)), sparse.csr_array((0, 40)), Analyses()
    assert system(h, j, analyses).factor(0.0, np.zeros(0)).negative == 0
    assert chosen(h, analyses).name == name
    assert chosen(Hessian(sparse.eye_array(3, format="csc")), analyses).name == "qdldl"


def test_factors_that_are_much_work_are_left_to_pardiso(monkeypatch):
    monkeypatch.setattr(type(SOLVERS["qdldl"]), "available", True)
    monkeypatch.setattr(type(SOLVERS["pardiso"]), "available", True)
    h, analyses = Hessian(sparse.eye_array(3, format="csc")), Analyses()
    assert chosen(h, analyses).name == "qdldl"
    with mock.patch.object(tuning, "TUNING", replace(tuning.TUNING, large_work=2.0)):
        analyses.of(SOLVERS["qdldl"]).known = mock.Mock(fill=3, work=3.0)
        assert chosen(h, analyses).name == "pardiso"


def chain(n, columns, rows):
    """A trajectory of n points with one control, `columns` variables that are in every row, and `rows` rows that have
    every variable; no curvature but that of the controls: K is quasi-definite only with what solvers add."""
    rng = np.random.default_rng(7)
    diagonals = sparse.diags_array([np.full(n, -1.0), np.full(n - 1, 1.0)], offsets=[0, -1])
    control = sparse.diags_array(rng.random(n) / n)
    across = sparse.csr_array(rng.standard_normal((n, columns)) / n)
    j = sparse.hstack([diagonals, control, across], format="csr")
    j = sparse.vstack([j, sparse.csr_array(rng.standard_normal((rows, j.shape[1])) / n)], format="csr")
    h = np.concatenate([np.full(n, 1e-8), np.full(n, 1e-4), np.full(columns, 1e-8)])
    return Hessian(sparse.csc_array(sparse.diags_array(h))), j


#: All but LAPACK, whose factors are full by design.
THIN = pytest.mark.parametrize(
    "solver", [s for s in INSTALLED if s.is_sparse and s.name != "full"], ids=lambda s: s.name
)


@THIN
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("rows", [0, 3])
def test_long_columns_and_rows_leave_factors_small_and_solutions_accurate(solver, columns, rows):
    h, j = chain(5000, columns, rows)
    factor = solver.system(h, j, solver.analysis()).factor(0.0, 0.0)
    assert factor.fill <= 4 * (1 + columns + rows) * sum(j.shape)
    with mock.patch("auglag.kkt.linear.superlu.splu", side_effect=AssertionError("the matrix is factorised again")):
        b = np.random.default_rng(8).standard_normal(sum(j.shape))
        x = factor.solve(b)
    residual = np.concatenate([h.matrix @ x[: j.shape[1]] + j.T @ x[j.shape[1] :], j @ x[: j.shape[1]]]) - b
    assert np.max(np.abs(residual)) <= 1e-9 * max(1.0, np.max(np.abs(x)))


def test_rows_are_exchanged_where_factors_stay_small_and_nowhere_else():
    assert exchangeable(4096, fill=0)
    assert not exchangeable(4097, fill=1_000_000)
    assert exchangeable(4097, fill=2_000_000)


@THIN
def test_a_large_matrix_gets_no_factors_with_row_exchanges(solver):
    h, j = chain(2500, 1, 0)
    made = solver.system(h, j, solver.analysis())
    assert made.factor(0.0, 1e-6).fill < 20 * sum(j.shape)
    assert made.pivoted(1.0, 1e-6) is None


def test_minimal_residuals_finish_what_refinement_leaves():
    """The preconditioner is off by a factor of 100 in three directions, in which refinement diverges."""
    d = np.linspace(1.0, 2.0, 50)
    changed = d.copy()
    changed[[3, 17, 40]] *= [0.01, 0.02, -0.05]
    b = np.ones(50)
    x, error = refined(b, lambda r: r / changed, lambda x: d * x)
    assert error > 0.1
    x, error = accelerated(b, x, lambda r: r / changed, lambda x: d * x, 1e-14)
    assert error <= 1e-12
    np.testing.assert_allclose(x, b / d, rtol=1e-12)
