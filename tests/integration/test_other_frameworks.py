"""CVXPY's nonlinear problems, optimagic, and code that calls SciPy's SLSQP."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.optimize

import auglag
from helpers.frameworks import acquisition


def packages(*names, reason):
    """The modules, or a skip; other people's warnings at import are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [pytest.importorskip(name, reason=reason) for name in names]


@pytest.fixture
def cp():
    (module,) = packages("cvxpy", reason="needs CVXPY: pip install 'auglag[cvxpy]'")
    import auglag.cvxpy  # noqa: F401

    return module


def test_cvxpy_has_auglag_among_its_nonlinear_solvers(cp):
    x = cp.Variable(4, bounds=[1, 5])
    x.value = np.array([1.0, 5.0, 5.0, 1.0])
    rows = [x[0] * x[1] * x[2] * x[3] >= 25, cp.sum(cp.square(x)) == 40]
    problem = cp.Problem(cp.Minimize(x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]), rows)
    with pytest.warns(UserWarning, match="passed over: mu_strategy=adaptive"):
        problem.solve(nlp=True, solver="AUGLAG", tol=1e-8, max_iter=100, mu_strategy="adaptive")
    assert problem.status == cp.OPTIMAL
    assert problem.value == pytest.approx(17.0140173, abs=1e-6)
    result = problem.solver_stats.extra_stats["result"]
    assert result.certificate.meets(1e-8)
    assert problem.solver_stats.num_iters == result.nit_inner


@pytest.mark.parametrize(
    ("rows", "status"), [(lambda x: [x[0] * x[1] >= 9, cp_norm(x) <= 2], "infeasible"), (lambda x: [], "unbounded")]
)
def test_ends_in_the_words_of_cvxpy(cp, rows, status):
    x = cp.Variable(2)
    x.value = np.array([1.0, 2.0])
    problem = cp.Problem(cp.Minimize(-cp.exp(x[0]) if status == "unbounded" else cp.sum(x)), rows(x))
    problem.solve(nlp=True, solver="AUGLAG")
    assert problem.status == status


@pytest.mark.parametrize("kind", ["integer", "boolean"])
def test_integers_of_cvxpy_are_refused(cp, kind):
    x = cp.Variable(2, **{kind: True})
    with pytest.raises(cp.error.SolverError, match=f"AUGLAG needs continuous variables, .* which is {kind}"):
        cp.Problem(cp.Minimize(cp.sum_squares(x - 0.4))).solve(nlp=True, solver="AUGLAG")


def test_cvxpy_is_told_of_a_saddle_point(cp):
    x = cp.Variable(2)
    x.value = np.array([1.0, 1.0])
    problem = cp.Problem(cp.Minimize(x[0] * x[1]), [cp.power(x[0], 3) <= 9, cp.power(x[1], 3) <= 9])
    with pytest.warns(UserWarning, match="may be inaccurate"):
        problem.solve(nlp=True, solver="AUGLAG")
    assert problem.status == cp.OPTIMAL_INACCURATE
    assert problem.solver_stats.extra_stats["result"].second_order == "saddle"


def cp_norm(x):
    import cvxpy

    return cvxpy.sum(cvxpy.square(x))


def test_parameters_and_maxima_of_cvxpy(cp):
    x, p = cp.Variable(2, nonneg=True), cp.Parameter(nonneg=True, value=1.0)
    problem = cp.Problem(cp.Maximize(x[0] * x[1]), [cp.sum(cp.square(x)) <= p])
    for value in (1.0, 4.0):
        p.value, x.value = value, np.array([0.9, 0.3])
        problem.solve(nlp=True, solver="AUGLAG")
        assert problem.value == pytest.approx(value / 2, abs=1e-6)


def test_optimagic_takes_auglag_for_an_algorithm():
    (om,) = packages("optimagic", reason="needs optimagic: pip install optimagic")
    from auglag.optimagic import Auglag

    found = om.minimize(
        lambda x: (x["a"] - 1) ** 2 + (x["b"] - 2.5) ** 2,
        params={"a": 2.0, "b": 0.0},
        algorithm=Auglag(tol=1e-8),
        bounds=om.Bounds(lower={"a": 0.0, "b": 0.0}, upper={"a": 5.0, "b": 5.0}),
        constraints=om.NonlinearConstraint(func=lambda x: x["a"] ** 2 + x["b"] ** 2, upper_bound=4.0),
    )
    expected = 2 * np.array([1.0, 2.5]) / np.hypot(1.0, 2.5)
    assert [found.params["a"], found.params["b"]] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("sides", [{}, {"lower": np.full(3, 0.5)}, {"upper": np.full(3, 0.8)}])
def test_optimagic_without_bounds_or_with_one_side(sides):
    (om,) = packages("optimagic", reason="needs optimagic: pip install optimagic")
    from auglag.optimagic import Auglag

    with pytest.raises(TypeError, match="did you mean 'tol'"):
        Auglag(toll=1e-8)
    bounds = om.Bounds(**sides) if sides else None
    found = om.minimize(lambda x: x @ x, np.ones(3), algorithm=Auglag(), algo_options={"tol": 1e-8}, bounds=bounds)
    assert found.params == pytest.approx(np.full(3, 0.5 if "lower" in sides else 0.0), abs=1e-6)
    row = om.NonlinearConstraint(func=lambda x: x.sum(), lower_bound=3.0)
    found = om.maximize(lambda x: -x @ x, 2 * np.ones(3), algorithm=Auglag(), constraints=row)
    assert found.params == pytest.approx(np.ones(3), abs=1e-5)


def library_code(x0):
    """As other people write it: the method is theirs to choose, not ours."""
    rows = {"type": "ineq", "fun": lambda x: 2 - x @ x}
    return scipy.optimize.minimize(lambda x: (x[0] - 3) ** 2 + x[1] ** 4, x0, method="SLSQP", constraints=rows)


def test_code_that_calls_slsqp_gets_auglag_within_a_block():
    before = library_code([1.0, 1.0])
    with auglag.instead_of_slsqp(tol=1e-8):
        found = library_code([1.0, 1.0])
    assert isinstance(found.result, auglag.Result)
    assert found.fun == pytest.approx(before.fun, abs=1e-5)
    assert "result" not in library_code([1.0, 1.0])


def two_kinds(**options):
    """An equation after an inequality of two rows: SLSQP lists its multiplier first."""
    rows = [
        {"type": "ineq", "fun": lambda x: np.array([2 - x @ x, x[1] + 5])},
        {"type": "eq", "fun": lambda x: x[0] + x[2] - 1},
    ]
    return scipy.optimize.minimize(
        lambda x: (x[0] - 3) ** 2 + (x[1] - 1) ** 2 + x[2] ** 2,
        [1.0, 0.5, 0.0],
        method="SLSQP",
        constraints=rows,
        **options,
    )


def test_slsqp_is_stood_for_in_its_own_terms():
    theirs = two_kinds(options={"ftol": 1e-12})
    short = two_kinds(options={"maxiter": 1})
    with auglag.instead_of_slsqp(tol=1e-8):
        ours, cut = two_kinds(), two_kinds(options={"maxiter": 1})
        stopped = two_kinds(callback=lambda intermediate_result: np.True_)
    assert isinstance(ours.multipliers, np.ndarray)
    np.testing.assert_allclose(ours.multipliers, theirs.multipliers, atol=1e-4)
    assert (ours.status, ours.success) == (theirs.status, True)
    assert cut.success or cut.status == short.status == 9
    assert stopped.status == 99


def test_fmin_slsqp_and_wrong_options():
    def solve():
        return scipy.optimize.fmin_slsqp(
            lambda x: (x[0] - 3) ** 2 + x[1] ** 2,
            [1.0, 1.0],
            eqcons=[lambda x: x[0] + x[1] - 1],
            iprint=0,
            full_output=1,
        )

    theirs = solve()
    with auglag.instead_of_slsqp(tol=1e-8):
        ours = solve()
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-3)
    assert ours[3] == theirs[3] == 0
    assert ours[4] != theirs[4]  # the message tells who solved it
    with pytest.raises(TypeError, match=r"instead_of_slsqp\(\) has no option 'toll'; did you mean 'tol'\?"):
        auglag.instead_of_slsqp(toll=1)


@pytest.mark.filterwarnings("ignore")
def test_botorch_maximises_an_acquisition_under_a_constraint():
    torch, _ = packages("torch", "botorch", reason="needs BoTorch: pip install botorch")
    from botorch.optim import optimize_acqf

    results = []

    def method(*arguments, **options):
        results.append(auglag.scipy_method(*arguments, **options))
        return results[-1]

    arguments = acquisition(0)
    torch.manual_seed(1)
    ours, value = optimize_acqf(**arguments, options={"method": method})
    torch.manual_seed(1)
    _, theirs = optimize_acqf(**arguments)
    assert ours.sum() <= 0.5 + 1e-6
    assert value >= theirs - 1e-4
    assert results
    assert all(result.success for result in results)


def test_callbacks_see_points_where_slsqp_is_stood_for():
    points, values = [], []
    with auglag.instead_of_slsqp():
        found = two_kinds(callback=lambda xk: points.append(np.copy(xk)))
        two_kinds(callback=lambda intermediate_result: values.append(intermediate_result.fun))
        scipy.optimize.fmin_slsqp(lambda x: x @ x, [1.0, 1.0], callback=points.append, iprint=0)
    assert points
    assert all(point.shape in ((3,), (2,)) for point in points)
    assert values[-1] == pytest.approx(found.fun, abs=1e-5)
