"""Natural units: sizes of variables, scaling of small problems, and the scale-free test of the certificate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import LinearConstraint, NonlinearConstraint

import auglag
from auglag.certificate import Tolerance, certificate
from auglag.errors import InputError
from auglag.problems import hock_schittkowski, units
from auglag.problems.scaling import Scaling
from helpers.rescaled import Rescaled


def problem(fun, x0, **more):
    return auglag.Problem(fun, x0, **more)


class TestSizes:
    @pytest.mark.parametrize(
        ("fun", "x0", "bounds", "expected"),
        [
            (lambda x: x @ x, [2.0, 5e8], None, [2.0, 5e8]),  # the start says it
            (lambda x: (x[0] - 3.0) ** 2, [0.0], None, [1.5]),  # |f| / |f'| at 0
            (lambda x: (1e8 * x[0] - 3.0) ** 2, [0.0], None, [1.5e-8]),
            (lambda x: (1e8 * x[0] - 3.0) ** 2, [1e-9], None, [1.45e-8]),
            (lambda x: (x[0] - 3.0) ** 2, [1e-30], None, [1.5]),  # a start that is 0 but for rounding
            (lambda x: (x[0] - 3e6) ** 2, [0.0], [(0.0, 10.0)], [10.0]),  # no larger than the bounds are apart
            (lambda x: np.sin(x[0]), [0.0], None, [math.nan]),  # nothing is known
            (lambda x: 1e8 * x[0] + x[1], [0.0, 4.0], None, [4e-8, 4.0]),  # as large as the other one, for f
        ],
    )
    def test_are_judged_from_the_start_the_values_and_the_bounds(self, fun, x0, bounds, expected):
        given = problem(fun, x0, bounds=bounds, jac="3-point")
        np.testing.assert_allclose(units.typical(given.at(given.x0)), expected, rtol=1e-3)

    def test_differences_that_are_errors_of_values_say_nothing(self):
        """At 0 the derivative along x1 vanishes; forward differences give 1e-8 or so, not a variable of size 1e8."""
        given = problem(lambda x: x[0] ** 2 - x[1] ** 2 / 2, [1.0, 0.0])
        np.testing.assert_array_equal(units.typical(given.at(given.x0)), [1.0, math.nan])

    def test_units_are_powers_of_two_and_none_where_all_sizes_are_usual(self):
        assert units.factors(np.array([1e-6, 1.0, 1e6, math.nan])) is None
        assert units.factors(np.array([1e-3, 1.0, 1e3, math.nan]), closely=True) is None
        np.testing.assert_array_equal(units.factors(np.array([3.0, 2e6])), [4.0, 2.0**21])
        np.testing.assert_array_equal(units.factors(np.array([3.0, 2e4]), closely=True), [4.0, 2.0**14])

    def test_small_objectives_and_rows_are_scaled_up_large_ones_down(self):
        row = NonlinearConstraint(lambda x: np.array([1e-9 * x[0], 1e5 * x[0], x[0]]), 0.0, [1e-9, 1e5, 1.0])
        given = problem(lambda x: 1e-8 * (x[0] - 1.0) ** 2, [3.0], constraints=row, jac="3-point")
        scaling = Scaling.from_gradients(given.at(given.x0))
        assert scaling.sf == pytest.approx(1e8 / 4.0)
        np.testing.assert_allclose(scaling.sc, [1e9 / 2.0, 1e-3, 1.0], rtol=1e-5)

    def test_rows_without_a_gradient_at_the_start_are_scaled_by_the_distance_to_their_side(self):
        slopes = lambda x: np.array([[2 * x[0]], [2 * x[0]], [1.0]])  # noqa: E731
        rows = NonlinearConstraint(
            lambda x: np.array([x[0] ** 2, x[0] ** 2, x[0]]), -np.inf, [1e-4, 1e4, 5.0], jac=slopes
        )
        given = problem(lambda x: x[0], [0.0], constraints=rows, jac=lambda x: np.ones(1))
        np.testing.assert_allclose(Scaling.from_gradients(given.at(given.x0)).sc, [1e4, 1e-4, 1.0])


class TestExamples:
    def test_large_variables_and_a_tiny_objective(self):
        row = {"type": "ineq", "fun": lambda x: x[0] + x[1] - 6e8}
        fun = lambda x: 1e-9 * (2 * x[0] + 1.5 * x[1])  # noqa: E731
        result = auglag.minimize(fun, [5e8, 5e8], bounds=[(0, 2e9)] * 2, constraints=row)
        assert result.success
        assert result.fun == pytest.approx(0.9)

    def test_tiny_variables(self):
        row = {"type": "ineq", "fun": lambda x: x[0] * x[1] - 1e-14}
        result = auglag.minimize(lambda x: x[0] + x[1], [1e-9, 1e-9], bounds=[(0, None)] * 2, constraints=row)
        assert result.success
        np.testing.assert_allclose(result.x, 1e-7, rtol=1e-3)

    def test_a_tiny_objective(self):
        result = auglag.minimize(lambda x: 1e-8 * ((x - 1) @ (x - 1)), [0.0, 0.0])
        assert result.success
        np.testing.assert_allclose(result.x, 1.0, rtol=1e-4)

    @pytest.mark.parametrize("fun", [None, lambda x: x @ x])
    def test_a_tiny_row(self, fun):
        row = {"type": "eq", "fun": lambda x: 1e-8 * (x[0] - 1)}
        result = auglag.minimize(fun, [0.0, 0.0], constraints=row)
        assert result.success
        assert result.x[0] == pytest.approx(1.0, rel=1e-4)

    @pytest.mark.parametrize("r", [1e1, 1e3, 1e5, 1e8])
    @pytest.mark.parametrize("exact", [False, True])
    def test_a_large_disc(self, r, exact):
        more = {"jac": lambda x: 2 * x[None], "hess": lambda x, v: 2 * v[0] * np.eye(2)} if exact else {}
        own = {"jac": lambda x: -np.ones(2), "hess": lambda x: np.zeros((2, 2))} if exact else {}
        row = NonlinearConstraint(lambda x: x @ x, -np.inf, r * r, **more)
        result = auglag.minimize(lambda x: -(x[0] + x[1]), [0.1, 0.2], constraints=row, **own)
        assert result.fun == pytest.approx(-math.sqrt(2) * r, rel=1e-9)
        # R <= 1e-6 may be below one rounding error.
        assert result.status in (auglag.Status.SOLVED, auglag.Status.STUCK, auglag.Status.PRECISION_LIMIT)

    def test_a_start_that_is_good_in_absolute_numbers_only_is_no_solution(self):
        check = auglag.certify(lambda x: 1e-8 * ((x - 1) @ (x - 1)), [3.0, 3.0])
        assert check.residual < 1e-6
        assert check.scale_free > 0.1
        assert not check.meets(1e-6)
        assert check.meets((1e-6, math.inf))


class TestCertificate:
    @pytest.mark.parametrize("name", list(hock_schittkowski.PROBLEMS))
    def test_scale_free_is_small_at_known_solutions(self, name):
        known = hock_schittkowski.get(name)
        check = auglag.certify(Rescaled.of(known), known.x)
        assert check.scale_free <= 1e-4

    @pytest.mark.parametrize("name", ["HS7", "HS26", "HS35", "HS43", "HS71", "HS76"])
    @pytest.mark.parametrize("seed", range(3))
    def test_scale_free_does_not_depend_on_units(self, name, seed):
        known = hock_schittkowski.get(name)
        rng = np.random.default_rng([seed, int(name[2:])])
        x = np.where(known.x0 == 0.0, 1.0, known.x0) * (1.0 + 0.1 * rng.standard_normal(known.x0.size))
        x = np.clip(x, known.lower, known.upper)
        base, other = Rescaled.of(known), Rescaled.randomly(known, rng, least=-6)  # 1e-8 may be a hair off 0
        y = rng.standard_normal(base.m)
        here = certificate(base, x, y).scale_free
        there = certificate(other, x * other.dx, y * other.df / other.dc).scale_free
        assert there == pytest.approx(here, rel=1e-6)

    def test_a_zero_residual_is_compared_with_the_values_nearby(self):
        fun = lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2  # noqa: E731
        assert auglag.certify(fun, [1.0 + 1e-10, 1.0]).meets(1e-6)
        assert not auglag.certify(lambda x: 1e-9 * fun(x), [1.1, 1.0]).meets(1e-6)


class TestTolerance:
    def test_the_default_of_the_second_is_a_tenth_of_the_root(self):
        assert Tolerance.of(1e-6) == Tolerance(1e-6, 1e-4)
        assert Tolerance.of(None) == Tolerance(1e-6, 1e-4)
        assert Tolerance.of((1e-3, 1e-2)).scale_free == 1e-2

    @pytest.mark.parametrize("tol", [0.0, -1.0, math.inf, "1e-6", (1e-6,), (1e-6, 1e-4, 1.0), (1e-6, -1.0), True])
    def test_nonsense_is_refused(self, tol):
        with pytest.raises(InputError, match="tol"):
            auglag.minimize(lambda x: x @ x, [1.0], tol=tol)

    def test_a_tighter_scale_free_tolerance_is_met(self):
        result = auglag.minimize(lambda x: 1e-8 * np.cosh(x[0] - 1.0), [0.0], tol=(1e-6, 1e-7))
        assert result.success
        assert result.certificate.scale_free <= 1e-7


class TestXScale:
    def test_sizes_of_the_user_are_used(self):
        row = {"type": "eq", "fun": lambda x: x[0] / 1e-12 + x[1] / 1e7 - 2.0}
        fun = lambda x: (x[0] / 1e-12) ** 2 + (x[1] / 1e7) ** 2  # noqa: E731
        result = auglag.minimize(fun, [0.0, 0.0], constraints=row, x_scale=[1e-12, 1e7])
        np.testing.assert_allclose(result.x, [1e-12, 1e7], rtol=1e-3)

    @pytest.mark.parametrize("x_scale", [0.0, -1.0, [1.0, 2.0, 3.0], math.nan, "jac"])
    def test_nonsense_is_refused(self, x_scale):
        with pytest.raises(InputError, match="x_scale"):
            auglag.minimize(lambda x: x @ x, [1.0, 1.0], x_scale=x_scale)

    def test_a_term_g_has_the_units_of_x(self):
        with pytest.raises(InputError, match="x_scale"):
            auglag.minimize(lambda x: x @ x, [1.0, 1.0], g=auglag.prox.L1(0.1), x_scale=10.0)


@pytest.mark.parametrize("unit", [1.0, 1e-12])
@pytest.mark.parametrize("near", [1e-17, 1e-15, 1e-13, 1e-12, 1e-9])
def test_a_start_at_the_minimum_of_f_says_nothing_of_its_units(near, unit):
    """Gradient and value are rounding errors there; to scale f up by them drowns the constraint."""
    result = auglag.minimize(
        lambda x: unit * float(x @ x),
        [near, 0.0],
        jac=lambda x: 2 * unit * x,
        constraints={"type": "ineq", "fun": lambda x: -0.5 - x.sum(), "jac": lambda x: -np.ones(2)},
    )
    assert result.success, result.message
    np.testing.assert_allclose(result.x, [-0.25, -0.25], atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_sizes_are_the_same_to_the_last_bit_with_a_sparse_jacobian(seed):
    rng, n, m = np.random.default_rng(seed), 12, 9
    matrix = np.where(rng.random((m, n)) < 0.3, 10.0 ** rng.uniform(-9, 9, (m, n)), 0.0)
    matrix[:, 3] = matrix[4] = 0.0
    x0 = np.where(rng.random(n) < 0.5, 0.0, 1e-6 * rng.random(n))
    dense, entries = (
        problem(
            lambda x: float(x @ x) + 1.0,
            x0,
            jac=lambda x: 2 * x,
            constraints=LinearConstraint(made(matrix), np.arange(m), np.inf),
        )
        for made in (np.asarray, sparse.csr_array)
    )
    assert sparse.issparse(entries.at(x0).jac)
    for closely in (True, False):
        expected = units.typical(dense.at(x0), closely=closely)
        assert np.isfinite(expected).any()
        np.testing.assert_array_equal(units.typical(entries.at(x0), closely=closely), expected)
