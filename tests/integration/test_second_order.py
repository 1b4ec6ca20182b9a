"""Saddle points, maxima and degenerate points that meet the KKT conditions are left for minima."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import NonlinearConstraint

import auglag
from auglag import Budget, Status, minimize
from auglag.strategy.plan import VERDICTS

ORDERS = (0, 1, 2)  #: derivatives that are given


def derivatives(order, jac, hess):
    return [{}, {"jac": jac}, {"jac": jac, "hess": hess}][order]


def sphere(order, n):
    """x'x = 1."""
    given = derivatives(order, lambda x: 2 * x[None, :], lambda x, v: 2 * v[0] * np.eye(n))
    return NonlinearConstraint(lambda x: [x @ x], 1.0, 1.0, **given)


def quartic(order):
    """x0^2 - x1^2 + x1^4, a saddle at 0 between two minima."""
    given = derivatives(
        order,
        lambda x: np.array([2 * x[0], -2 * x[1] + 4 * x[1] ** 3]),
        lambda x: np.diag([2.0, -2.0 + 12 * x[1] ** 2]),
    )
    return {"fun": lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4, **given}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("x0", [[0.0, 0.0], [3.0, 0.0]])
def test_a_saddle_is_left(order, x0):
    res = minimize(x0=x0, **quartic(order))
    assert res.success
    assert res.second_order == "saddle left"
    assert res.fun == pytest.approx(-0.25)
    assert "left on the way" in res.message
    assert "Second order: saddle left" in res.explain()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_the_maximum_in_a_box_is_left_for_a_corner(order, n):
    given = derivatives(order, lambda x: -2 * x, lambda x: -2 * np.eye(n))
    res = minimize(lambda x: -x @ x, np.zeros(n), bounds=[(-1, 1)] * n, **given)
    assert res.success
    assert res.fun == pytest.approx(-n)


@pytest.mark.parametrize("order", ORDERS)
def test_the_far_point_of_a_circle_is_left_for_the_near_one(order):
    given = derivatives(order, lambda x: 2 * (x - [2, 0]), lambda x: 2 * np.eye(2))
    res = minimize(lambda x: (x - [2, 0]) @ (x - [2, 0]), [-1.0, 0.0], constraints=sphere(order, 2), **given)
    assert res.success
    assert res.x == pytest.approx([1.0, 0.0], abs=1e-5)
    assert res.second_order == "saddle left"


@pytest.mark.parametrize("order", ORDERS)
def test_weak_bounds_are_left_inwards_only(order):
    swap = np.array([[0.0, -1.0], [-1.0, 0.0]])
    away = minimize(
        lambda x: -x[0] * x[1],
        [0.0, 0.0],
        bounds=[(0, 1)] * 2,
        **derivatives(order, lambda x: swap @ x, lambda x: swap),
    )
    assert away.success
    assert away.fun == pytest.approx(-1.0)
    stays = minimize(
        lambda x: x[0] * x[1],
        [0.0, 0.0],
        bounds=[(0, 1)] * 2,
        **derivatives(order, lambda x: -swap @ x, lambda x: -swap),
    )
    assert stays.success
    assert stays.fun == 0.0
    assert stays.second_order != "saddle left"


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_indefinite_quadratics_are_not_solved_at_their_symmetric_point(order, seed):
    """In a box and in a ball, from the centre, where the gradient vanishes."""
    rng = np.random.default_rng(seed)
    n = 3 + seed
    a = rng.standard_normal((n, n))
    a = a + a.T
    given = derivatives(order, lambda x: a @ x, lambda x: a)
    box = minimize(lambda x: x @ a @ x / 2, np.zeros(n), bounds=[(-1, 1)] * n, **given)
    assert box.success
    assert box.fun < -0.1
    assert box.second_order == "saddle left"
    inside = derivatives(order, lambda x: 2 * x[None, :], lambda x, v: 2 * v[0] * np.eye(n))
    ball = NonlinearConstraint(lambda x: [x @ x], -np.inf, 1.0, **inside)
    res = minimize(lambda x: x @ a @ x / 2, np.zeros(n), constraints=ball, **given)
    assert res.success
    assert res.fun == pytest.approx(np.linalg.eigvalsh(a)[0] / 2, rel=1e-6)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_every_eigenvector_but_the_lowest_is_a_saddle_on_the_sphere(order, seed):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((5, 5))
    a = a + a.T
    values, vectors = np.linalg.eigh(a)
    given = derivatives(order, lambda x: 2 * a @ x, lambda x: 2 * a)
    for k in (1, 3, 4):
        res = minimize(lambda x: x @ a @ x, vectors[:, k], constraints=sphere(order, 5), **given)
        assert res.success
        assert res.fun == pytest.approx(values[0], abs=1e-6)


def random_problem(seed):
    """((f, grad, hess), x0, (row, its gradient, its Hessian), its sides, bounds): saddles, and symmetric starts."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    a, b = rng.standard_normal((n, n)), rng.standard_normal((n, n))
    a, b, q = a + a.T, b @ b.T, rng.random() / 2
    x0 = np.zeros(n) if rng.random() < 0.5 else np.round(rng.standard_normal(n))
    smooth = (
        lambda x: x @ a @ x / 2 + q * np.sum(x**4),
        lambda x: a @ x + 4 * q * x**3,
        lambda x: a + np.diag(12 * q * x**2),
    )
    row = (lambda x: [x @ b @ x], lambda x: 2 * (b @ x)[None, :], lambda x, v: 2 * v[0] * b)
    sides, bounds = [((1.0, 1.0), None), ((-np.inf, 4.0), [(0, None)] * n), ((1.0, 9.0), [(-3, 3)] * n)][seed % 3]
    return smooth, x0, row, sides, bounds


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(12))
def test_what_is_called_a_minimum_has_no_negative_eigenvalue_where_constraints_leave_room(order, seed):
    (f, grad, hess), x0, row, sides, bounds = random_problem(seed)
    constraint = NonlinearConstraint(row[0], *sides, **derivatives(order, row[1], row[2]))
    res = minimize(f, x0, bounds=bounds, constraints=constraint, **derivatives(order, grad, hess))
    assert res.success
    assert res.second_order in ("minimum", "probable minimum", "saddle left")
    held = [np.eye(x0.size)[[i]] for i in np.flatnonzero(np.abs(res.bound_multipliers) > 1e-5)]
    held += [row[1](res.x)] if abs(res.y[0]) > 1e-5 or sides[0] == sides[1] else []
    basis = null_space(np.vstack(held)) if held else np.eye(x0.size)
    reduced = basis.T @ (hess(res.x) + row[2](res.x, res.y)) @ basis
    assert np.linalg.eigvalsh(reduced).min(initial=np.inf) > -1e-5


def test_products_with_hessians_are_used_where_there_are_no_matrices():
    problem = quartic(2)
    hess = problem.pop("hess")
    res = minimize(x0=[0.0, 0.0], hessp=lambda x, v: hess(x) @ v, inner="qp", **problem)
    assert res.success
    assert res.second_order == "saddle left"
    assert res.nhev > 0


def product(order, n):
    """-n^(n/2) x1 ... xn, at least -1 on the sphere; without digits on most of the bounds."""
    scale = n ** (n / 2)

    def grad(x):
        return -scale * np.array([np.prod(np.delete(x, i)) for i in range(n)])

    def hess(x):
        h = np.array([[np.prod(np.delete(x, [i, j])) for j in range(n)] for i in range(n)])
        return -scale * (h - np.diag(np.diag(h)))

    return {"fun": lambda x: -scale * np.prod(x), **derivatives(order, grad, hess)}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(4))
def test_degenerate_vertices_of_a_product_are_left(order, seed):
    x0 = np.random.default_rng(seed).random(10)
    res = minimize(x0=x0, bounds=[(0, 1)] * 10, constraints=sphere(order, 10), **product(order, 10))
    assert res.success
    assert res.fun == pytest.approx(-1.0, abs=1e-5)


def reactor(order, caf):
    """The reactor of Pyomo's book: maximise cb over (sv, ca, cb, cc, cd) >= 0 subject to four balances."""
    k1, k2, k3 = 5 / 6, 5 / 3, 1 / 6000

    def balances(x):
        sv, ca, cb, cc, cd = x
        return [
            sv * caf - sv * ca - k1 * ca - 2 * k3 * ca**2,
            -sv * cb + k1 * ca - k2 * cb,
            -sv * cc + k2 * cb,
            -sv * cd + k3 * ca**2,
        ]

    def jac(x):
        sv, ca, cb, cc, cd = x
        return np.array(
            [
                [caf - ca, -sv - k1 - 4 * k3 * ca, 0, 0, 0],
                [-cb, k1, -sv - k2, 0, 0],
                [-cc, 0, k2, -sv, 0],
                [-cd, 2 * k3 * ca, 0, 0, -sv],
            ]
        )

    def hess(x, v):
        h = np.zeros((5, 5))
        h[0, 1:] = h[1:, 0] = -np.asarray(v)
        h[1, 1] = -4 * k3 * v[0] + 2 * k3 * v[3]
        return h

    down = np.array([0.0, 0.0, -1.0, 0.0, 0.0])
    return {
        "fun": lambda x: -x[2],
        "bounds": [(0, None)] * 5,
        "constraints": NonlinearConstraint(balances, 0.0, 0.0, **derivatives(order, jac, hess)),
        **derivatives(order, lambda x: down, lambda x: np.zeros((5, 5))),
    }


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("caf", [5000, 6000, 7000, 8000])
def test_the_reactor_does_not_end_where_nothing_flows(order, caf):
    for x0 in ([1, 2000, 2000, 2000, 2000], [1, caf, 1000, 1000, 1000], [1, 1, 1, 1, 1]):
        res = minimize(x0=np.array(x0, float), **reactor(order, caf))
        assert res.success
        assert res.fun < -600


# ------------------------------------------------------------------------------ runs that are confined to a subspace


def weighted_sphere(order, w):
    """sum w_i x_i^2 on the sphere: all axes are solutions, the lowest weight the minimum."""
    given = derivatives(order, lambda x: 2 * w * x, lambda x: 2 * np.diag(w))
    return {"fun": lambda x: w @ x**2, "constraints": sphere(order, w.size), **given}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("weight", [1.0, 4.9])
def test_an_axis_of_a_weighted_sphere_is_left_for_the_lowest(order, weight):
    res = minimize(x0=[1.0, 0.0, 0.0], **weighted_sphere(order, np.array([5.0, weight, 40.0])))
    assert res.success
    assert res.fun == pytest.approx(weight)
    assert res.second_order == "saddle left"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("h", "x0"), [([[2.0, 4.0], [4.0, 2.0]], [1.0, 1.0]), ([[20.0, 0.0], [0.0, -2.0]], [1.0, 0.0])]
)
def test_a_start_among_positive_eigenvectors_of_two_variables_does_not_end_at_the_saddle(order, h, x0):
    res = minimize(x0=x0, **double_well(order, np.array(h)))
    assert res.fun == pytest.approx(-0.25)
    assert res.second_order == "saddle left"


def double_well(order, h):
    """x'Hx / 2 + (x'x)^2, at least -v^2 / 16 for the lowest eigenvalue v of H."""
    n = len(h)
    given = derivatives(
        order, lambda x: h @ x + 4 * (x @ x) * x, lambda x: h + 4 * (x @ x) * np.eye(n) + 8 * np.outer(x, x)
    )
    return {"fun": lambda x: x @ h @ x / 2 + (x @ x) ** 2, **given}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("seed", range(5))
def test_starts_in_the_positive_eigenspace_of_random_matrices_end_at_minima(order, n, seed):
    rng = np.random.default_rng(100 * n + seed)
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.append(-rng.uniform(0.2, 2.0), rng.uniform(0.5, 5.0, n - 1))
    res = minimize(x0=q[:, 1:] @ rng.standard_normal(n - 1), **double_well(order, (q * values) @ q.T))
    assert res.success
    assert res.fun == pytest.approx(-(values[0] ** 2) / 16, abs=1e-6)
    assert res.second_order in ("probable minimum", "saddle left", "minimum")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(8))
def test_middle_eigenvectors_on_and_off_the_sphere_are_left_for_the_lowest(order, seed):
    rng = np.random.default_rng(seed)
    n = 3 + seed % 4
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.sort(rng.uniform(1.0, 40.0, n))
    h = (q * values) @ q.T
    given = derivatives(order, lambda x: 2 * h @ x, lambda x: 2 * h)
    x0 = q[:, 1 + seed % (n - 2)] * (1.3 if seed % 2 else 1.0)
    res = minimize(lambda x: x @ h @ x, x0, constraints=sphere(order, n), **given)
    assert res.success
    assert res.fun == pytest.approx(values[0], rel=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_a_flat_direction_that_falls_one_way_is_found(order):
    """x0^3 + x1^2 from (0, 1): the curvature along x0 is 0, and differences of gradients give a small positive one."""
    given = derivatives(order, lambda x: np.array([3 * x[0] ** 2, 2 * x[1]]), lambda x: np.diag([6 * x[0], 2.0]))
    res = minimize(lambda x: x[0] ** 3 + x[1] ** 2, [0.0, 1.0], bounds=[(-1, 1)] * 2, **given)
    assert res.success
    assert res.fun == pytest.approx(-1.0)


@pytest.mark.parametrize("order", ORDERS)
def test_a_minimum_beside_a_saddle_is_not_called_degenerate(order):
    given = derivatives(
        order, lambda x: np.array([2 * x[0], -x[1] + 2 * x[1] ** 3]), lambda x: np.diag([2.0, -1.0 + 6 * x[1] ** 2])
    )
    res = minimize(lambda x: x[0] ** 2 - x[1] ** 2 / 2 + x[1] ** 4 / 2, [1.0, 0.0], **given)
    assert res.fun == pytest.approx(-0.125)
    assert res.second_order == "saddle left"


def test_a_symmetric_start_of_a_convex_function_takes_one_probe():
    """All gradients are multiples of one vector; a product with a random one shows the only other eigenvalue."""
    given = {"jac": lambda x: 2 * (x - 1)}
    res = minimize(lambda x: (x - 1) @ (x - 1), np.zeros(30), **given)
    alone = minimize(lambda x: (x - 1) @ (x - 1), np.zeros(30), restarts=0, **given)
    assert res.second_order == "probable minimum"
    assert res.njev <= alone.njev + 1


# ------------------------------------------------------------------------------------------ where no direction is left


@pytest.mark.parametrize("order", ORDERS)
def test_a_row_with_a_small_gradient_holds_its_minimum(order):
    """exp(-x) >= 1e-4 leaves no direction at -log(1e-4), where its gradient is 1e-4."""
    given = derivatives(order, lambda x: -np.exp(-x)[None, :], lambda x, v: v[0] * np.exp(-x)[None, :])
    row = NonlinearConstraint(lambda x: np.exp(-x), 1e-4, np.inf, **given)
    slope = derivatives(order, lambda x: np.array([-1.0]), lambda x: np.zeros((1, 1)))
    res = minimize(lambda x: -x[0], [0.0], constraints=row, **slope)
    assert res.success
    assert res.x == pytest.approx([-np.log(1e-4)], rel=1e-6)
    assert res.second_order == "minimum"


@pytest.mark.parametrize("order", ORDERS)
def test_a_vertex_is_a_minimum_without_any_curvature(order):
    given = derivatives(order, lambda x: np.ones(2), lambda x: np.zeros((2, 2)))
    box = minimize(lambda x: x[0] + x[1], [0.5, 0.5], bounds=[(0, 1)] * 2, **given)
    assert box.second_order == "minimum"


# ------------------------------------------------------------------------------------------ what must stay as it is


def test_a_convex_problem_costs_one_hessian_more_and_no_other_evaluation():
    given = {"jac": lambda x: 2 * (x - 1), "hess": lambda x: 2 * np.eye(4)}
    res = minimize(lambda x: (x - 1) @ (x - 1), np.zeros(4), **given)
    alone = minimize(lambda x: (x - 1) @ (x - 1), np.zeros(4), restarts=0, **given)
    assert res.second_order == "minimum"
    assert alone.second_order == "not checked"
    assert (res.nfev, res.njev, res.nhev) == (alone.nfev, alone.njev, alone.nhev + 1)
    assert (res.x == alone.x).all()


@pytest.mark.parametrize(
    "options", [{"restarts": 0}, {"variant": "adaptive-full"}, {"preset": "paper"}, {"acceleration": False}]
)
def test_the_method_alone_stays_at_a_saddle(options):
    res = minimize(x0=[0.0, 0.0], **quartic(2), **options)
    assert res.success
    assert res.fun == 0.0
    assert res.second_order == "not checked"


def test_a_flat_minimum_is_called_degenerate_and_kept():
    res = minimize(
        lambda x: x[0] ** 2, [1.0, 2.0], jac=lambda x: np.array([2 * x[0], 0.0]), hess=lambda x: np.diag([2.0, 0.0])
    )
    assert res.success
    assert res.second_order == "degenerate"
    assert res.x[1] == 2.0


def test_a_saddle_from_which_the_objective_falls_without_end_shows_that_it_does():
    """x0^2 - x1^2 falls without end along x1; the saddle is no answer."""
    given = {"jac": lambda x: np.array([2 * x[0], -2 * x[1]]), "hess": lambda x: np.diag([2.0, -2.0])}
    res = minimize(lambda x: x[0] ** 2 - x[1] ** 2, [0.0, 0.0], **given)
    assert res.status is auglag.Status.UNBOUNDED
    assert res.fun < -1e6


@pytest.mark.parametrize("limit", [3, 5, 7, 9])
def test_a_limit_on_the_way_from_a_saddle_leaves_it_solved(limit):
    res = minimize(x0=[0.0, 0.0], **quartic(1), budget=Budget(evaluations=limit))
    assert res.status is Status.SOLVED


def test_ctrl_c_on_the_way_from_a_saddle_leaves_it_solved():
    problem, calls = quartic(1), []

    def fun(x):
        calls.append(x)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return problem["fun"](x)

    res = minimize(fun, [0.0, 0.0], jac=problem["jac"])
    assert res.status is Status.SOLVED
    assert len(calls) >= 9


@pytest.mark.parametrize("order", ORDERS)
def test_a_run_that_left_a_saddle_goes_on_from_any_checkpoint_bit_for_bit(tmp_path, order):
    path, kept = tmp_path / "run.npz", []
    x0 = np.random.default_rng(2).random(10)
    options = {"x0": x0, "bounds": [(0, 1)] * 10, "constraints": sphere(order, 10), **product(order, 10)}

    def keep(intermediate_result):
        if intermediate_result.kind == "outer":
            kept.append(path.read_bytes())

    whole = minimize(**options, checkpoint=path, callback=keep)
    assert whole.second_order == "saddle left"
    assert len(kept) > 2
    for saved in kept:
        path.write_bytes(saved)
        again = minimize(**options, resume=path)
        assert (again.x == whole.x).all()
        assert (again.y == whole.y).all()
        assert (again.njev, again.nit, again.second_order) == (whole.njev, whole.nit, whole.second_order)
        # Points aside that the run remembered at the checkpoint are evaluated again: two for each of two certificates.
        assert whole.nfev <= again.nfev <= whole.nfev + 4


def test_every_verdict_is_documented():
    text = auglag.result.SCHEMA["second_order"]
    assert all(f"'{verdict}'" in text for verdict in VERDICTS)
