"""Interior points for large sparse problems: sides, directions, curvature that is learnt, and restoration."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import auglag
from auglag.interior.large.damping import Damping
from auglag.interior.large.directions import Equations
from auglag.interior.large.iterate import Iterate
from auglag.interior.large.limited_memory import LimitedMemory
from auglag.interior.large.onto_sides import OntoSides
from auglag.interior.large.sides import Sides, reach
from auglag.interior.large.softness import Softness
from auglag.interior.tuning import TUNING
from auglag.kkt import Hessian
from auglag.kkt.linear import Analyses
from auglag.problems.functions import Problem
from auglag.problems.jacobians import Selection, kind
from auglag.problems.scaling import Scaling
from auglag.problems.standard_form import StandardForm


def form_of(problem):
    form = StandardForm(problem, Scaling.from_gradients(problem.at(problem.x0)))
    form.jacobian = kind(problem.at(problem.x0).jac)
    return form


def small_form():
    """Two variables with three sides, one equation, one row with an upper side."""
    matrix = sparse.csr_array(np.array([[1.0, 2.0], [3.0, -1.0]]))
    return form_of(
        Problem(
            lambda x: float(x @ x),
            [0.5, 0.5],
            jac=lambda x: 2 * x,
            bounds=Bounds([0.0, -np.inf], [1.0, 2.0]),
            constraints=LinearConstraint(matrix, [1.0, -np.inf], [1.0, 4.0]),
        )
    )


def test_sides_are_lists_of_those_that_exist():
    sides = Sides(small_form())
    np.testing.assert_array_equal(sides.at_low, [0])
    np.testing.assert_array_equal(sides.at_high, [0, 1, 2])  # the third is the slack of the second row
    np.testing.assert_array_equal(sides.high, [1.0, 2.0, 4.0])
    p, q = sides.gaps(np.array([0.25, 1.5, 3.0]))
    np.testing.assert_allclose(p, [0.25])
    np.testing.assert_allclose(q, [0.75, 0.5, 1.0])
    np.testing.assert_allclose(sides.spread(np.array([1.0]), np.array([10.0, 20.0, 30.0])), [11.0, 20.0, 30.0])


def test_a_variable_that_rounding_put_on_its_side_has_a_gap():
    sides = Sides(small_form())
    p, q = sides.gaps(np.array([1e-30, 2.0, 4.0]))
    assert p[0] == 1e-30  # nothing is rounded at a side of 0
    assert (q[1:] > 0.0).all()
    assert q[1:].max() < 1e-14
    assert sides.gaps(np.array([-1e-6, 0.0, 0.0]))[0] == -1e-6  # but not one that is outside


def test_the_diagonal_of_the_rows_is_taken_out_of_steps_where_it_matters():
    """With a small violation and a long way of the multipliers, soft dy would be all that a step leaves of it."""
    form = small_form()
    sides = Sides(form)
    h = Hessian(sparse.csc_array(2.0 * np.eye(2)))
    matrix, weights, soft = form.at(np.array([0.5, 0.5])).jac, np.full(3, 0.1), 1e-3
    rows, dual = np.array([1e-5, -2e-5]), np.array([3.0, -1.0, 2.0])
    newton, (dv, dy) = Equations(sides, Analyses()).newton(h, matrix, weights, soft, (dual, rows))
    assert newton.shift == 0.0
    left = matrix @ dv[:2] + rows
    left[1] -= dv[2]
    assert np.abs(left).max() <= 0.11 * 2e-5 < 0.1 * soft * np.abs(dy).max()
    lagrangian = (2.0 + 0.1 + 1e-7) * dv[:2] + matrix.T @ dy + dual[:2]
    np.testing.assert_allclose(lagrangian, 0.0, atol=1e-9)


def square_with_x1_zero():
    """min x1^2 + x2^2 in a box, x1 = 0."""
    return form_of(
        Problem(
            lambda x: float(x @ x),
            [0.5, 0.5],
            jac=lambda x: 2 * x,
            bounds=Bounds([-1.0, -1.0], [1.0, 1.0]),
            constraints=LinearConstraint(sparse.csr_array(np.array([[1.0, 0.0]])), 0.0, 0.0),
        )
    )


@pytest.mark.parametrize("unit", [1.0, 1e-4])
def test_the_diagonal_of_a_row_is_measured_in_its_units(unit):
    """x1 = 0 up to soft dy: what is left of the violation, in units of the row, does not depend on them."""
    form = square_with_x1_zero()
    h, row = Hessian(sparse.csc_array(2.0 * np.eye(2))), sparse.csr_array(np.array([[unit, 0.0]]))
    residuals = np.array([3.0, 1.0]), np.array([0.5 * unit])
    newton, (dv, dy) = Equations(Sides(form), Analyses()).newton(h, row, np.full(2, 0.1), 1e-3, residuals)
    assert newton.shift == 0.0
    assert abs(dv[0] + 0.5) <= 2e-3 * abs(unit * dy[0])


def test_a_smaller_diagonal_of_the_rows_is_tried_before_a_shift():
    """The curvature -1e10 is no match for the row x1 = 0, but for a penalty of 1e8 it is."""
    form = square_with_x1_zero()
    h = Hessian(sparse.csc_array(np.diag([-1e10, 2.0])))
    residuals = np.array([1.0, 1.0]), np.array([0.1])
    equations = Equations(Sides(form), Analyses())
    newton, (dv, _) = equations.newton(h, form.at(form.problem.x0).jac, np.full(2, 0.1), 1e-8, residuals)
    assert newton.shift == 0.0
    assert dv[0] == pytest.approx(-0.1, rel=1e-3)


def test_what_is_left_of_a_shift_does_not_count_as_one():
    """A Hessian that needs a shift, then convex ones far from a solution: they keep a part of it, and need none."""
    form = form_of(Problem(lambda x: float(x @ x), [0.5, 0.5], jac=lambda x: 2 * x, bounds=Bounds([-1, -1], [1, 1])))
    rows, residuals = sparse.csr_array((0, 2)), (np.array([1.0, 1.0]), np.zeros(0))
    equations, seen = Equations(Sides(form), Analyses()), []
    for curvature in (-1.0, 2.0, -1.0):
        h = Hessian(sparse.csc_array(curvature * np.eye(2)))
        newton, _ = equations.newton(h, rows, np.full(2, 0.1), 1e-8, residuals, far=True)
        seen.append((newton.shift > 0.0, equations.shifted))
    assert seen == [(True, True), (True, False), (True, True)]


def test_the_slope_of_the_barrier_is_its_gradient():
    sides, mu = Sides(small_form()), 0.3
    v = np.array([0.25, 1.5, 3.0])
    slope = sides.slope(*sides.gaps(v), mu)
    for i in range(3):
        e = 1e-6 * np.eye(3)[i]
        assert slope[i] == pytest.approx((sides.barrier(v + e, mu) - sides.barrier(v - e, mu)) / 2e-6, rel=1e-6)


def test_steps_stop_at_a_fraction_of_the_way_to_the_nearest_side():
    assert reach(np.array([1.0, 2.0]), np.array([-4.0, 1.0]), 0.9) == pytest.approx(0.9 / 4)
    assert reach(np.array([1.0]), np.array([-0.5]), 0.9) == 1.0
    assert reach(np.zeros(0), np.zeros(0), 0.9) == 1.0


@pytest.mark.parametrize("negative", [False, True])
def test_learnt_curvature_is_positive_and_exact_along_the_last_step(negative):
    """The secant equation holds for a convex function; a concave one is damped, and leaves the matrix positive."""
    rng, n = np.random.default_rng(0), 30
    true = np.diag(rng.uniform(0.5, 3.0, n)) * (-1.0 if negative else 1.0)
    learnt = LimitedMemory(n)
    for _ in range(15):
        s = rng.standard_normal(n)
        learnt.learn(s, true @ s)
    full = learnt.hessian().toarray()
    assert np.linalg.eigvalsh(full).min() > 0.0
    if not negative:
        np.testing.assert_allclose(full @ s, true @ s, atol=1e-8)


def test_a_part_of_a_sparse_matrix_is_found_once_and_follows_a_new_pattern():
    rng = np.random.default_rng(0)
    rows, columns = np.array([0, 3, 4]), np.array([1, 2, 5])
    part = Selection(rows, columns)
    one = sparse.random_array((6, 7), density=0.4, rng=rng, format="csr")
    two = sparse.csr_array((2.0 * one.data, one.indices, one.indptr), shape=one.shape)
    for matrix in (one, two, sparse.random_array((6, 7), density=0.6, rng=rng, format="csc"), one):
        np.testing.assert_array_equal(part.of(matrix).toarray(), matrix.toarray()[np.ix_(rows, columns)])


def transport(n, hessians):
    """A chain of n tanks: nonlinear balances, bounded flows, one fixed variable; sparse derivatives."""
    i = np.arange(n - 1)

    def c(x):
        return x[1:] - x[:-1] + 0.1 * np.sin(x[:-1]) - 0.05

    def jac(x):
        values = np.concatenate([np.ones(n - 1), -1.0 + 0.1 * np.cos(x[:-1])])
        return sparse.csr_array((values, (np.tile(i, 2), np.concatenate([i + 1, i]))), shape=(n - 1, n))

    def hess(x, v):
        return sparse.diags_array(np.append(-0.1 * np.sin(x[:-1]) * v, 0.0), format="csr")

    row = NonlinearConstraint(c, -0.02, 0.02, jac=jac, **({"hess": hess} if hessians else {}))
    lower, upper = np.full(n, -1.0), np.full(n, 2.0)
    lower[0] = upper[0] = 0.3
    more = {"hess": lambda x: sparse.diags_array(np.full(n, 2.0), format="csr")} if hessians else {}
    target = np.linspace(0.0, 3.0, n)
    return {
        "fun": lambda x: float((x - target) @ (x - target)),
        "x0": np.full(n, 0.3),
        "jac": lambda x: 2 * (x - target),
        "bounds": Bounds(lower, upper),
        "constraints": row,
        **more,
    }


@pytest.mark.parametrize("solver", ["auto", "superlu"])
def test_with_and_without_hessians_the_same_solution_is_found(solver):
    with_them = auglag.minimize(**transport(700, True), linear_solver=solver)
    without = auglag.minimize(**transport(700, False), linear_solver=solver)
    assert with_them.success, with_them.message
    assert without.success, without.message
    assert with_them.fun == pytest.approx(without.fun, rel=1e-7)
    assert with_them.nhev <= 40
    assert with_them.x[0] == 0.3


def test_rows_without_a_common_point_end_without_success():
    n = 600
    arguments = transport(n, True)
    arguments["bounds"] = Bounds(np.full(n, -1.0), np.full(n, -0.9))
    arguments["x0"] = np.full(n, -0.95)
    assert not auglag.minimize(**arguments, budget=auglag.Budget(seconds=20)).success


def test_weak_sides_take_few_steps_at_the_end():
    """At x = 0 multiplier and gap vanish together: by mu alone the error would halve with every step."""
    n = 60
    link = sparse.diags_array([np.ones(n), -np.ones(n - 1)], offsets=[0, 1], format="csr")[: n - 1]
    found = auglag.minimize(
        lambda x: float(x @ x + 0.25 * np.sum(x**4)),
        np.ones(n),
        jac=lambda x: 2 * x + x**3,
        hess=lambda x: sparse.diags_array(2 + 3 * x**2, format="csr"),
        bounds=Bounds(np.zeros(n), np.full(n, 3.0)),
        constraints=LinearConstraint(link, np.full(n - 1, -np.inf), np.zeros(n - 1)),
        tol=1e-10,
    )
    assert found.success
    assert np.max(np.abs(found.x)) <= 1e-10
    assert sum(row["inner_iterations"] for row in found.history) <= 12


def test_a_shift_is_given_up_bit_by_bit_far_from_a_solution():
    """The next system, convex by itself, still has a part of it; near a solution it has none."""
    form = small_form()
    concave, convex = (Hessian(sparse.csc_array(k * np.eye(2))) for k in (-3.0, 3.0))
    arguments = form.at(np.array([0.5, 0.5])).jac, np.full(3, 0.1), 1e-8, (np.ones(3), np.ones(2))
    for far, kept in ((True, True), (False, False)):
        equations = Equations(Sides(form), Analyses())
        first, second = (equations.newton(h, *arguments, far=far)[0].shift for h in (concave, convex))
        assert first > 0.0
        assert (0.0 < second < first) is kept


def test_a_smooth_problem_without_sides_is_not_left_for_a_lower_value_far_from_the_rows():
    """A hanging chain; f falls without end away from its length, and free steps would follow it there."""
    n = 752  # heights, then slopes; the first and last height are fixed
    h, half = 1.0 / (n - 1), np.r_[0.5, np.ones(n - 2), 0.5] / (n - 1)
    t = np.linspace(0.0, 1.0, n)
    link = sparse.diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
    mean = sparse.diags_array([np.full(n - 1, -h / 2)] * 2, offsets=[0, 1], shape=(n - 1, n))
    rows = sparse.csr_array(sparse.hstack([link, mean]))
    arc = lambda u: np.sqrt(1.0 + u**2)  # noqa: E731

    def hess(x, weights, y):
        u = x[n:]
        across = sparse.diags_array(weights * u / arc(u))
        second = sparse.diags_array((weights * x[:n] + y * half) / arc(u) ** 3)
        return sparse.block_array([[None, across], [across, second]], format="csr")

    found = auglag.minimize(
        lambda x: float(half @ (x[:n] * arc(x[n:]))),
        np.r_[8.0 * t * (0.5 * t - 0.25) + 1.0, 8.0 * (t - 0.25)],
        jac=lambda x: np.r_[half * arc(x[n:]), half * x[:n] * x[n:] / arc(x[n:])],
        hess=lambda x: hess(x, half, 0.0),
        bounds=Bounds(
            np.r_[1.0, np.full(n - 2, -np.inf), 3.0, np.full(n, -np.inf)],
            np.r_[1.0, np.full(n - 2, np.inf), 3.0, np.full(n, np.inf)],
        ),
        constraints=[
            LinearConstraint(rows, 0.0, 0.0),
            NonlinearConstraint(
                lambda x: [half @ arc(x[n:])],
                4.0,
                4.0,
                jac=lambda x: sparse.csr_array(np.r_[np.zeros(n), half * x[n:] / arc(x[n:])][None]),
                hess=lambda x, y: hess(x, np.zeros(n), y[0]),
            ),
        ],
        tol=1e-6,
    )
    assert found.success
    assert found.fun == pytest.approx(5.06853, abs=1e-4)
    assert found.nfev <= 100


def test_active_sides_are_told_by_how_gaps_and_multipliers_change():
    sides = Sides(small_form())
    before = (np.array([1e-3]), np.array([1e-3, 1e-3, 0.5]), np.array([0.4]), np.array([1e-2, 1e-4, 1e-3]))
    now = (np.array([1e-5]), np.array([9e-4, 8e-4, 1e-2]), np.array([0.4]), np.array([1e-4, 1e-6, 9e-4]))
    onto = OntoSides(Equations(sides, Analyses()), before, now)
    np.testing.assert_array_equal(onto.low, [True])
    np.testing.assert_array_equal(onto.high, [False, False, True])


@pytest.mark.parametrize("soft", [1e-8, 1e-10])
def test_the_regularisation_stays_in_steps_for_rows_that_contradict_each_other(soft):
    """No step satisfies them; minimal residuals beyond least squares would be rounding errors, magnified."""
    rng, n = np.random.default_rng(0), 40
    rows = sparse.random_array((15, n), density=0.2, rng=rng, format="csr") + sparse.eye_array(15, n)
    matrix = sparse.vstack([rows, rows[:1]], format="csr")
    form = form_of(
        Problem(lambda x: float(x @ x), np.zeros(n), jac=lambda x: 2 * x, constraints=LinearConstraint(matrix, 1, 1))
    )
    h = Hessian(sparse.csc_array(2.0 * sparse.eye_array(n)))
    wanted = np.r_[np.ones(15), 3.0]
    made = Equations(Sides(form), Analyses()).newton(h, matrix, np.zeros(n), soft, (rng.standard_normal(n), wanted))
    assert made is not None
    dv, dy = made[1]
    assert np.abs(dy).max() < 2.0 / soft
    assert np.abs(matrix @ dv + wanted).max() == pytest.approx(1.0, abs=1e-3)


def test_steps_that_line_searches_keep_shortening_get_a_proximal_term() -> None:
    """A minimal surface that is far from one at the start: Newton's steps are thousands of times too long at first."""
    p = 25
    t, index = np.linspace(0.0, 1.0, p), np.arange(p * p).reshape(p, p)
    size, k = (p - 1) ** 2, np.arange((p - 1) ** 2)

    def slopes(one, other):
        values = np.repeat([1.0, -1.0], size) * (p - 1) / np.sqrt(2.0)
        places = np.concatenate([one.ravel(), other.ravel()])
        return sparse.csr_array((values, (np.tile(k, 2), places)), shape=(size, p * p))

    d, e = slopes(index[:-1, :-1], index[1:, 1:]), slopes(index[1:, :-1], index[:-1, 1:])
    middle = np.zeros(p * p)
    middle[index[p // 2, p // 2]] = 1.0 / p

    def root(x):
        return np.sqrt(1.0 + (d @ x) ** 2 + (e @ x) ** 2)

    def jac(x):
        r = root(x) * size
        return d.T @ (d @ x / r) + e.T @ (e @ x / r) + 2.0 * middle * (middle @ x)

    def hess(x):
        r, u, v = size * root(x) ** 3, d @ x, e @ x
        mixed = d.T @ sparse.diags_array(-u * v / r) @ e
        straight = d.T @ sparse.diags_array((1.0 + v**2) / r) @ d + e.T @ sparse.diags_array((1.0 + u**2) / r) @ e
        return sparse.csc_array(straight + mixed + mixed.T + sparse.diags_array(2.0 * middle**2))

    start = np.zeros((p, p))
    start[:, 0], start[:, -1], start[0], start[-1] = 1 + 8 * t, 5 + 8 * t, 1 + 4 * t, 9 + 4 * t
    found = auglag.minimize(
        lambda x: float(root(x).sum() / size + (middle @ x) ** 2), start.ravel(), jac=jac, hess=hess
    )
    assert found.success
    assert abs(found.fun - 1.0) <= 1e-6
    assert found.nit_inner <= 25  # 37 without it


def test_the_safe_mode_damps_the_multipliers_where_line_searches_shorten_steps_to_violated_rows():
    damping = Damping(safe=True)
    damping.after(1.0, 1.0, violated=True)
    assert damping.rows == 0.0
    damping.after(0.01, 0.01, violated=True)
    damping.after(0.01, 0.01, violated=True)
    assert damping.rows == pytest.approx(TUNING.shift_growth * TUNING.soft_largest)
    for _ in range(20):
        damping.after(1.0, 1.0, violated=True)
    assert damping.rows == damping.weight == 0.0
    free = Damping()
    free.after(0.01, 0.01, violated=True)
    assert free.rows == 0.0


def test_after_many_shifted_systems_scaled_rows_have_the_largest_diagonal_beside_a_shift():
    softness, larger, largest = Softness(), np.array([1e-11]), np.array([1e-8])
    for k in range(2 * TUNING.often_shifted):
        assert softness.beside(larger, largest) is (largest if k >= TUNING.often_shifted else larger)
        softness.worked(larger, 1.0, larger, 0.0, shifted=True)
    softness.worked(larger, 1.0, larger, 0.0, shifted=False)
    assert softness.beside(larger, largest) is larger


def test_steps_that_a_limit_cuts_short_are_counted():
    """The first row of the history comes after interior points: a run that ends among them has made steps, too."""
    whole = auglag.minimize(**transport(700, True))
    cut = auglag.minimize(**transport(700, True), budget=auglag.Budget(evaluations=6))
    assert cut.status.name == "EVALUATION_LIMIT"
    assert not cut.history
    assert 0 < cut.nit_inner < whole.nit_inner


@pytest.mark.parametrize(("copies", "unit"), [(1, 1.0), (10_000, 1.0), (1, 1e3)])
def test_rounding_errors_are_in_the_units_of_the_error_that_they_are_compared_with(copies, unit):
    """That is a max norm relative to the gradient of f: more variables of one kind, and units of f, change nothing."""
    at = SimpleNamespace(
        gradient=unit * np.tile([2.0, -1.0], copies),
        sides=SimpleNamespace(m=1),
        j=sparse.csr_array(np.tile([[3.0, 0.0]], copies)),
        y=unit * np.array([50.0]),
    )
    expected = TUNING.multiplier_noise * np.finfo(float).eps * (2.0 + 150.0) / 2.0
    assert Iterate.gradient_rounding(at) == pytest.approx(expected)


@pytest.mark.parametrize(("curvature", "diagonal"), [(3.0, 1e-7), (1e-3, 1e-10), (1e-9, 1e-13)])
def test_the_diagonal_of_the_variables_is_measured_in_units_of_the_hessian(curvature: float, diagonal: float) -> None:
    """H = curvature I without sides: the step is -gradient / (curvature + diagonal)."""
    form = form_of(Problem(lambda x: float(x @ x), [0.5, 0.5], jac=lambda x: 2 * x))
    equations, rows = Equations(Sides(form), Analyses()), sparse.csr_array((0, 2))
    h = Hessian(sparse.csc_array(curvature * np.eye(2)))
    newton, (dv, _) = equations.newton(h, rows, np.zeros(2), 0.0, (np.array([1.0, 0.0]), np.zeros(0)))
    assert newton.shift == 0.0
    assert -1.0 / dv[0] == pytest.approx(curvature + diagonal, rel=1e-12)


@pytest.mark.parametrize("negative", [False, True])
def test_the_diagonal_of_the_variables_falls_where_it_makes_the_gradient_that_is_left(negative: bool) -> None:
    """After a step of 1e3 it alone leaves 1e-4; not where a shift was needed before, nor where more was left anyway."""
    form = form_of(Problem(lambda x: float(x @ x), [0.5, 0.5], jac=lambda x: 2 * x))
    equations, rows = Equations(Sides(form), Analyses()), sparse.csr_array((0, 2))
    residuals = np.array([1.0, 0.0]), np.zeros(0)

    def diagonal() -> float:
        h = Hessian(sparse.csc_array(np.eye(2)))
        return -1.0 / equations.newton(h, rows, np.zeros(2), 0.0, residuals)[1][0][0] - 1.0

    if negative:
        equations.newton(Hessian(sparse.csc_array(-np.eye(2))), rows, np.zeros(2), 0.0, residuals)
    before = diagonal()
    equations.after(np.array([1e3, 0.0]), np.array([1e-2, 0.0]))
    assert diagonal() == before
    equations.after(np.array([1e3, 0.0]), np.array([1e-4, 0.0]))
    assert diagonal() == pytest.approx(before if negative else TUNING.firmer * before, rel=1e-6)


@pytest.mark.parametrize(("upper", "kept"), [(0.02, False), (np.inf, True)])
def test_short_steps_end_a_run_that_has_sides_but_no_rows(monkeypatch, upper, kept):
    """A subproblem of Algorithm 1 is the problem itself then, and its solver moves along sides; a run without sides
    has its proximal term."""
    n = 3000
    second = sparse.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1]).tocsr()
    monkeypatch.setattr(Damping, "jammed", lambda self: True)
    result = auglag.minimize(
        lambda x: float(0.5 * x @ (second @ x) - 1e-3 * x.sum() + 0.25 * (x**4).sum()),
        np.full(n, 0.01),
        jac=lambda x: second @ x - 1e-3 + x**3,
        hess=lambda x: second + sparse.diags_array(3.0 * x**2),
        bounds=Bounds(np.full(n, -np.inf), np.full(n, upper)),
    )
    assert result.success
    assert any(step.kind == "interior" for step in result.steps) == kept


@pytest.mark.parametrize(("n", "far"), [(499, 1e5), (600, 1e6)])
def test_a_linear_programme_whose_solution_is_far_away(n, far):
    """Its Hessian has no size that the standing diagonal could be measured by."""
    result = auglag.minimize(
        lambda x: -x.sum(),
        np.zeros(n),
        jac=lambda x: -np.ones(n),
        hess=lambda x: sparse.csr_array((n, n)),
        constraints=LinearConstraint(sparse.eye_array(n).tocsr(), -np.inf, np.full(n, far)),
    )
    assert result.success
    assert result.fun == pytest.approx(-n * far, rel=1e-6)
