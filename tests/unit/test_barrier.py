"""The interior-point acceleration: its points, its filter, its restoration, and large problems solved by it."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, NonlinearConstraint

import auglag
from auglag.inner.qp import curvature_for
from auglag.interior import Barrier
from auglag.interior.filter import Filter
from auglag.interior.restoration import restore
from auglag.interior.space import Iterate, Space
from auglag.kkt import Memory
from auglag.problems import hock_schittkowski as hs
from auglag.problems.functions import Problem
from auglag.problems.jacobians import kind
from auglag.problems.scaling import Scaling
from auglag.problems.standard_form import StandardForm
from auglag.strategy.sqp import SQP


def form_of(problem):
    form = StandardForm(problem, Scaling.from_gradients(problem.at(problem.x0)))
    form.jacobian = kind(problem.at(problem.x0).jac)
    return form


def run(problem, **settings):
    form = form_of(problem)
    arguments = {"target": 1e-7, "seen": lambda x, y, error: True}
    found = Barrier(**settings).run(form, Memory(), form.start(problem.x0), np.zeros(form.m), **arguments)
    return form.user_x(found.x), form.user_y(found.y), found


def known(name):
    p = hs.get(name)
    rows = [NonlinearConstraint(row.fun, row.lower, row.upper, jac=row.jac, hess=row.hess) for row in p.rows]
    return Problem(p.fun, p.x0, jac=p.grad, hess=p.hess, bounds=Bounds(p.lower, p.upper), constraints=rows), p


def chain(n, as_sparse=True):
    """min sum (x_i - 2)^2 with x_i x_{i+1} <= 1 and 0 <= x <= 3."""
    made = sparse.csr_array if as_sparse else np.asarray
    i = np.arange(n - 1)

    def jac(x):
        full = sparse.csr_array(
            (np.concatenate([x[1:], x[:-1]]), (np.tile(i, 2), np.concatenate([i, i + 1]))), (n - 1, n)
        )
        return made(full if as_sparse else full.toarray())

    def hess(x, v):
        full = sparse.csr_array((np.tile(v, 2), (np.concatenate([i, i + 1]), np.concatenate([i + 1, i]))), (n, n))
        return made(full if as_sparse else full.toarray())

    return {
        "fun": lambda x: float((x - 2) @ (x - 2)),
        "x0": np.linspace(0.1, 2.9, n),
        "jac": lambda x: 2 * (x - 2),
        "hess": lambda x: made(2 * sparse.eye_array(n, format="csr") if as_sparse else 2 * np.eye(n)),
        "bounds": Bounds(0, 3),
        "constraints": NonlinearConstraint(lambda x: x[1:] * x[:-1], -np.inf, 1.0, jac=jac, hess=hess),
    }


@pytest.mark.parametrize(
    "name", ["HS6", "HS14", "HS26", "HS35", "HS43", "HS64", "HS65", "HS71", "HS76", "HS100", "HS113"]
)
def test_it_finds_known_solutions_and_their_multipliers(name):
    problem, p = known(name)
    x, y, found = run(problem)
    assert problem.at(x).f == pytest.approx(p.f, rel=1e-5, abs=1e-5)
    assert found.error <= 1e-4
    gradient = problem.at(x).lagrangian_gradient(y)
    free = (x > problem.lower + 1e-3) & (x < problem.upper - 1e-3)
    assert np.abs(gradient[free]).max(initial=0.0) <= 1e-4 * max(1.0, np.abs(problem.at(x).grad).max())


def test_sparse_and_dense_matrices_give_the_same_points():
    problem = Problem(**chain(500))
    results = [run(Problem(**chain(500, as_sparse=as_sparse))) for as_sparse in (True, False)]
    values = [problem.at(x).f for x, _, _ in results]
    assert values[0] == pytest.approx(values[1], rel=1e-7)
    np.testing.assert_allclose(results[0][0], results[1][0], atol=2e-3)  # the solution is nearly not unique


def test_sides_that_hold_are_told_from_those_that_do_not():
    problem, _ = known("HS76")
    x, _, found = run(problem)
    on_bound = np.abs(x - problem.lower) < 1e-6
    np.testing.assert_array_equal(found.sets.variables == -1, on_bound)


def test_a_large_problem_is_solved_by_default_and_also_without_it():
    arguments = chain(600)
    with_it = auglag.minimize(**arguments)
    plain = auglag.minimize(**arguments, acceleration=SQP(barrier=None))
    assert with_it.success
    assert plain.success
    assert with_it.njev <= 60
    assert with_it.fun <= plain.fun * (1 + 1e-6)


def test_points_where_functions_are_not_defined_shorten_steps():
    problem = Problem(
        lambda x: -math.log(x[0]) + x[1] ** 2 if x[0] > 0 else math.nan,
        [0.1, 4.0],
        jac=lambda x: np.array([-1 / x[0], 2 * x[1]]),
        hess=lambda x: np.diag([1 / x[0] ** 2, 2.0]),
        constraints=NonlinearConstraint(
            lambda x: x @ x, -np.inf, 25.0, jac=lambda x: 2 * x[None], hess=lambda x, v: 2 * v[0] * np.eye(2)
        ),
    )
    x, _, _ = run(problem)
    np.testing.assert_allclose(x, [5.0, 0.0], atol=1e-5)


def test_an_unbounded_problem_comes_to_an_end():
    problem = Problem(
        lambda x: -x[0],
        [0.0, 0.0],
        jac=lambda x: np.array([-1.0, 0.0]),
        hess=lambda x: np.zeros((2, 2)),
        constraints=NonlinearConstraint(
            lambda x: x[1:], 0, 1, jac=lambda x: np.array([[0.0, 1.0]]), hess=lambda x, v: np.zeros((2, 2))
        ),
    )
    assert run(problem)[2].steps < 300


def test_restoration_reduces_the_violation_inside_the_sides():
    problem = Problem(
        lambda x: x[0],
        [3.0, 1.0],
        jac=lambda x: np.array([1.0, 0.0]),
        hess=lambda x: np.zeros((2, 2)),
        bounds=Bounds(0.5, 4.0),
        constraints=NonlinearConstraint(
            lambda x: x @ x, 2.0, 2.0, jac=lambda x: 2 * x[None], hess=lambda x, v: 2 * v[0] * np.eye(2)
        ),
    )
    form = form_of(problem)
    space = Space(form)
    start = space.start(problem.x0, np.zeros(1), 0.1, 1e-2)
    found = restore(space, start, Filter(1e6), curvature_for(form.traits), 1e-3)
    assert found is not None
    assert np.abs(space.primal(found.v)).sum() <= 0.9 * np.abs(space.primal(start.v)).sum()
    assert (found.v[:2] > 0.5).all()
    assert (found.v[:2] < 4.0).all()


def test_a_filter_refuses_what_is_worse_in_both():
    seen = Filter(10.0)
    seen.add(1.0, 5.0)
    assert not seen.admits(1.0, 5.0)
    assert not seen.admits(2.0, 6.0)
    assert seen.admits(0.5, 50.0)
    assert seen.admits(9.0, 4.0)
    assert not seen.admits(11.0, -100.0)
    seen.add(0.5, 4.0)  # better than the first in both, which is then of no use
    assert len(seen.pairs) == 1


def test_multipliers_of_sides_stay_near_the_central_path():
    space = Space(form_of(known("HS76")[0]))
    it = space.start(known("HS76")[0].x0, np.zeros(3), 1e-3, 1e-2)
    wild = Iterate(it.v, it.y, it.z * 1e30, it.u * 1e30)
    p, _ = space.gaps(it.v)
    tamed = space.safeguarded(wild, 1e-3)
    assert (tamed.z[space.has_low] * p[space.has_low] <= 1.0001e7).all()


@pytest.mark.parametrize("side", [(1.0, math.nextafter(1.0, 2.0)), (0.0, 1e-310), (-1e300, 1e300)])
def test_sides_without_room_and_sides_beyond_measure_end_the_walk_without_a_warning(side):
    """Warnings are errors here."""
    row = NonlinearConstraint(lambda x: x @ x, *side, jac=lambda x: 2 * x[None], hess=lambda x, v: 2 * v[0] * np.eye(2))
    problem = Problem(
        lambda x: x[0] ** 2 - x[1],
        [0.5, 0.5],
        jac=lambda x: np.array([2 * x[0], -1.0]),
        hess=lambda x: np.diag([2.0, 0.0]),
        bounds=[side, (-2.0, 2.0)],
        constraints=row,
    )
    form = form_of(problem)
    arrival = Barrier().run(form, Memory(), form.start(problem.x0), np.zeros(1), target=1e-8, seen=lambda *_: True)
    assert np.isfinite(arrival.x).all()
    assert arrival.steps < 100


def test_a_number_of_steps_that_is_none_is_refused():
    with pytest.raises(auglag.InputError, match=r"Barrier\.steps must be"):
        Barrier(steps=0)


@pytest.mark.parametrize("lower", [-np.inf, 0.5])
def test_a_large_problem_without_rows_is_solved_with_sparse_matrices(lower, monkeypatch):
    n = 3000

    def never(self, *args, **kwargs):
        raise AssertionError("a sparse matrix was made dense")

    def grad(x):
        out = np.zeros(n)
        out[1:] = 20 * (x[1:] - x[:-1] ** 2)
        out[:-1] += -40 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
        return out

    def hess(x):
        main = np.full(n, 20.0)
        main[0] = 0.0
        main[:-1] += 2 - 40 * (x[1:] - 3 * x[:-1] ** 2)
        return sparse.diags_array([-40 * x[:-1], main, -40 * x[:-1]], offsets=[-1, 0, 1], format="csr")

    for kind_of in (sparse.csr_array, sparse.csc_array):
        monkeypatch.setattr(kind_of, "toarray", never)
    res = auglag.minimize(
        lambda x: float(10 * ((x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x[:-1]) ** 2).sum()),
        np.full(n, 0.7),
        jac=grad,
        hess=hess,
        bounds=Bounds(lower, np.linspace(0.9, 1.5, n)),
        check_derivatives=False,
    )
    assert res.success, res.message
    assert res.njev <= 60


def test_a_large_run_that_is_resumed_ends_at_the_same_point_to_the_last_digit(tmp_path):
    arguments = {**chain(500), "acceleration": SQP(barrier=None, steps=2)}
    rows = []

    def stop(intermediate_result):
        if intermediate_result.kind == "outer":
            rows.append(1)
            if len(rows) == 2:
                raise StopIteration

    whole = auglag.minimize(**arguments, checkpoint=tmp_path / "whole.npz")
    assert whole.nit > 2
    auglag.minimize(**arguments, checkpoint=tmp_path / "part.npz", callback=stop)
    resumed = auglag.minimize(**arguments, resume=tmp_path / "part.npz", checkpoint=tmp_path / "part.npz")
    np.testing.assert_array_equal(resumed.x, whole.x)
    np.testing.assert_array_equal(resumed.y, whole.y)
