"""`auglag.least_squares` beside SciPy's, and what SciPy's cannot state: constraints, covariances under them."""

import numpy as np
import pytest
import scipy.optimize as so
from scipy import sparse

import auglag

T = np.linspace(0.0, 10.0, 60)


def decay(p, t=T):
    return p[0] * np.exp(-p[1] * t) + p[2]


def decay_jac(p, t=T):
    e = np.exp(-p[1] * t)
    return np.column_stack([e, -p[0] * t * e, np.ones_like(t)])


def data(outliers=False):
    rng = np.random.default_rng(0)
    y = decay([3.0, 0.5, 1.0]) + 0.05 * rng.standard_normal(T.size)
    if outliers:
        y[::7] += 1.5
    return y


def fit(**options):
    y = data(options.pop("outliers", False))
    return auglag.least_squares(lambda p: decay(p) - y, [1.0, 1.0, 0.0], options.pop("jac", decay_jac), **options)


def rosenbrock(x):
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


@pytest.mark.parametrize("form", [list, tuple, np.array, lambda sides: so.Bounds(*sides)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_two_sides_are_lower_and_upper_as_in_scipy_however_many_variables(form, n):
    bounds, target = form([[0.0, 1.0, 0.0][:n], [2.0, 3.0, 0.1][:n]]), np.array([0.5, 0.2, 0.4])[:n]
    reference = so.least_squares(lambda x: x - target, [1.0, 2.0, 0.05][:n], bounds=bounds)
    result = auglag.least_squares(lambda x: x - target, [1.0, 2.0, 0.05][:n], bounds=bounds)
    np.testing.assert_allclose(result.x, reference.x, atol=1e-5)


def test_pairs_for_two_variables_with_a_side_left_out_are_refused():
    with pytest.raises(auglag.InputError, match="the lower side of bounds must be an array of numbers"):
        auglag.least_squares(lambda x: x, [1.0, 2.0], bounds=[(0, None), (0, None)])


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy"])
def test_losses_have_the_minimum_of_scipy(loss):
    y = data(outliers=True)
    reference = so.least_squares(
        lambda p: decay(p) - y, [1.0, 1.0, 0.0], decay_jac, loss=loss, f_scale=0.1, xtol=1e-12, ftol=1e-12, gtol=1e-10
    )
    result = fit(outliers=True, loss=loss, f_scale=0.1)
    assert result.success, result.message
    assert result.cost == pytest.approx(reference.cost, rel=1e-9)
    np.testing.assert_allclose(result.x, reference.x, atol=1e-4)
    np.testing.assert_allclose(result.fun, decay(result.x) - y)
    np.testing.assert_allclose(result.grad, reference.grad, atol=1e-5)


def test_a_loss_of_ones_own_is_the_one_of_that_name():
    def loss(z):
        return np.array([np.log1p(z), 1 / (1 + z), -1 / (1 + z) ** 2])

    own, named = fit(outliers=True, loss=loss, f_scale=0.1), fit(outliers=True, loss="cauchy", f_scale=0.1)
    np.testing.assert_allclose(own.x, named.x)


@pytest.mark.parametrize("jac", ["2-point", "3-point", "cs"])
def test_jacobians_by_differences(jac):
    result = fit(jac=jac)
    assert result.success, result.message
    np.testing.assert_allclose(result.x, fit().x, atol=1e-6)


def test_bounds_are_met_and_named():
    result = auglag.least_squares(rosenbrock, [-1.2, 1.0], bounds=([-2.0, -2.0], [0.5, 2.0]))
    reference = so.least_squares(rosenbrock, [-1.2, 1.0], bounds=([-2.0, -2.0], [0.5, 2.0]))
    assert result.success, result.message
    np.testing.assert_allclose(result.x, reference.x, atol=1e-6)
    np.testing.assert_array_equal(result.active_mask, [1, 0])


def test_constraints_hold_and_have_multipliers():
    y = data()
    row = {"type": "eq", "fun": lambda p: p[0] + p[2] - 3.5, "jac": lambda p: np.array([1.0, 0.0, 1.0])}
    result = fit(constraints=row)
    assert result.success, result.message
    eliminated = so.least_squares(lambda q: decay([q[0], q[1], 3.5 - q[0]]) - y, [1.0, 1.0], xtol=1e-14, gtol=1e-12)
    np.testing.assert_allclose(result.x, [*eliminated.x, 3.5 - eliminated.x[0]], atol=1e-6)
    np.testing.assert_allclose(result.grad + result.multipliers[0] * np.array([1.0, 0.0, 1.0]), 0.0, atol=1e-6)


def test_the_covariance_is_that_of_curve_fit_and_respects_constraints():
    y, result = data(), fit()
    _, reference = so.curve_fit(lambda t, *p: decay(p, t), T, y, p0=[1.0, 1.0, 0.0])
    np.testing.assert_allclose(result.covariance(), reference, rtol=1e-3)
    np.testing.assert_allclose(
        result.covariance(absolute=True) * 2 * result.cost / (T.size - 3), result.covariance(), rtol=1e-12
    )
    row = {"type": "eq", "fun": lambda p: p[0] + p[2] - 3.5, "jac": lambda p: np.array([1.0, 0.0, 1.0])}
    under = fit(constraints=row).covariance()
    np.testing.assert_allclose(under @ [1.0, 0.0, 1.0], 0.0, atol=1e-12)
    held = auglag.least_squares(rosenbrock, [-1.2, 1.0], bounds=([-2.0, -2.0], [0.5, 2.0])).covariance(absolute=True)
    np.testing.assert_allclose(held, [[0.0, 0.0], [0.0, 0.01]], atol=1e-12)


def test_what_the_residuals_do_not_tell_has_an_infinite_covariance():
    result = auglag.least_squares(lambda x: np.array([x[0] + x[1] - 1.0, 2 * (x[0] + x[1]) - 2.0]), [0.0, 0.0])
    assert np.isinf(result.covariance()).all()
    line = 2.0 * T + np.sin(T)
    alone = auglag.least_squares(lambda q: q[0] * T - line, [0.0]).covariance()
    unused = auglag.least_squares(lambda q: q[0] * T - line, [0.0, 0.0, 0.0]).covariance()
    np.testing.assert_allclose(unused, np.diag([alone[0, 0], np.inf, np.inf]), rtol=1e-6)
    exact = auglag.least_squares(lambda q: q - 1, [0.0, 0.0])  # nothing is left to estimate errors from
    np.testing.assert_array_equal(exact.covariance(), np.diag([np.inf, np.inf]))
    np.testing.assert_allclose(exact.covariance(absolute=True), np.eye(2), atol=1e-12)


def test_a_fit_is_shown_explained_and_saved_as_other_results(tmp_path):
    result = fit(constraints={"type": "ineq", "fun": lambda p: 3.9 - p[0] - p[2], "name": "sum"})
    text = str(result)
    assert len(text.splitlines()) <= 15
    assert "SOLVED (0)" in text
    assert "sum" in text
    assert "SOLVED" in result._repr_html_()
    assert result.explain() == result.result.explain()
    result.save(tmp_path / "fit.json")
    np.testing.assert_array_equal(auglag.load_result(tmp_path / "fit.json").x, result.x)
    assert {"covariance", "explain", "x"} <= set(dir(result))


@pytest.mark.parametrize("given", [True, False])
def test_a_large_sparse_jacobian_stays_sparse(given):
    n = 2000 if given else 500

    def fun(x):
        return (3 - 2 * x) * x - np.append(0.0, x[:-1]) - 2 * np.append(x[1:], 0.0) + 1

    def jac(x):
        diagonals = [np.full(n - 1, -1.0), 3 - 4 * x, np.full(n - 1, -2.0)]
        return sparse.diags_array(diagonals, offsets=[-1, 0, 1], format="csr")

    more = {"jac": jac} if given else {"jac_sparsity": jac(np.ones(n)) != 0}
    result = auglag.least_squares(fun, -np.ones(n), **more)
    assert result.success, result.message
    assert result.cost < 1e-12
    assert sparse.issparse(result.jac)
    assert result.njev < 25


def test_curvature_beyond_gauss_newton_is_learnt_where_residuals_are_large():
    """Freudenstein and Roth: at the local minimum |f|^2 = 48.98, where Gauss-Newton steps alone are slow."""

    def fun(x):
        return np.array([-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1], -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]])

    def jac(x):
        return np.array([[1.0, 10 * x[1] - 3 * x[1] ** 2 - 2], [1.0, 3 * x[1] ** 2 + 2 * x[1] - 14]])

    result = auglag.least_squares(fun, [0.5, -2.0], jac)
    assert result.success, result.message
    assert result.cost == pytest.approx(48.98425 / 2, rel=1e-6)
    assert result.njev < 40


def test_extra_arguments_reach_fun_and_jac():
    y = data()
    result = auglag.least_squares(
        lambda p, t, y, *, shift: decay(p, t) + shift - y,
        [1.0, 1.0, 0.0],
        lambda p, t, y, *, shift: decay_jac(p, t),
        args=(T, y),
        kwargs={"shift": 0.0},
    )
    np.testing.assert_allclose(result.x, fit().x, atol=1e-7)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "squared"}, "loss must be one of 'linear'"),
        ({"f_scale": -1.0}, "f_scale must be positive"),
        ({"jac": "4-point"}, "jac must be callable or one of"),
        ({"hess": lambda x: 0}, "takes no hess"),
        ({"max_nfev": 5, "budget": auglag.Budget()}, "leave out max_nfev"),
        ({"bounds": (0, [1, 1, 1])}, r"the upper side of bounds must be a number or 2 numbers, got shape \(3,\)"),
        ({"bounds": (None, 1)}, "the lower side of bounds must be an array of numbers, got None"),
        ({"jac_sparsity": np.ones((2, 3))}, r"jac_sparsity must have shape \(2, 2\), got \(2, 3\)"),
        ({"method": "lm"}, r"least_squares\(\) has no argument 'method'"),
        ({"losss": "huber"}, r"least_squares\(\) has no argument 'losss'; did you mean 'loss'"),
    ],
)
def test_wrong_arguments_are_named(options, words):
    with pytest.raises(auglag.AuglagError, match=words):
        auglag.least_squares(rosenbrock, [0.0, 0.0], **options)


def test_a_wrong_jacobian_is_found():
    with pytest.raises(auglag.DerivativeError):
        fit(jac=lambda p: 1.01 * decay_jac(p))


def test_no_residuals_are_no_problem_to_solve():
    with pytest.raises(auglag.InputError, match="fun\\(x\\) must return at least one residual, got an empty array"):
        auglag.least_squares(lambda x: [], [1.0])
