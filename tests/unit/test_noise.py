"""The estimate of the errors of a function's values, and the differences that follow from it."""

from __future__ import annotations

import numpy as np
import pytest

from auglag.derivatives.differences import noisy_jacobian
from auglag.derivatives.extrapolation import extrapolated
from auglag.derivatives.noise import Noise, Precision, dtype_error, estimate, estimate_scale

X = np.array([3.0, 1.0, -0.7])
FREE = np.full(3, np.inf)

SMOOTH = {
    "a sum of squares": lambda x: x @ x,
    "a line": lambda x: x.sum() - 1.0,
    "an exponential": lambda x: np.exp(x[0]) + x[1] * x[2],
    "small values": lambda x: 1e-6 * (x @ x),
    "large values": lambda x: 1e8 * (x @ x),
    "a valley": lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2 + x[2] ** 2,
    "waves": lambda x: np.sin(1e4 * x[0]),
}
FLAT = {
    "a constant": lambda x: 2.0,
    "zero near x": lambda x: max(0.0, x[0] - 3.5),
    "kinks at x": lambda x: abs(x[0] - 3.0) + abs(x[1] - 1.0),
}


def estimated(fun, x=X, lower=-FREE, upper=FREE, relative=0.0):
    points = []

    def values(z):
        points.append(z)
        return np.array([float(fun(z))])

    found = estimate(values, x, np.array([float(fun(x))]), lower, upper, np.random.default_rng(0), np.full(1, relative))
    return found, points


@pytest.mark.parametrize("name", SMOOTH)
def test_rounding_in_double_precision_is_not_noise(name):
    found, points = estimated(SMOOTH[name])
    assert not found.coarse
    assert len(points) == 6


@pytest.mark.parametrize("name", FLAT)
def test_flat_functions_and_kinks_at_x_have_no_noise(name):
    found, points = estimated(FLAT[name])
    assert not found.coarse
    assert len(points) <= 11


@pytest.mark.parametrize("name", sorted(set(SMOOTH) - {"waves"}))
@pytest.mark.parametrize(
    ("rounded", "digits"), [(lambda v: float(f"{v:.6e}"), 6), (lambda v: 1.8 * float(f"{v:.6e}") / 1.8, 6)]
)
def test_seven_printed_digits_are_found(name, rounded, digits):
    fun = SMOOTH[name]
    unit = 10.0 ** (np.floor(np.log10(abs(fun(X)))) - digits)
    found, _ = estimated(lambda x: rounded(fun(x)))
    assert 0.2 * unit <= found.f <= 5 * unit


@pytest.mark.parametrize("name", sorted(set(SMOOTH) - {"waves"}))
def test_single_precision_is_found_from_the_values_alone(name):
    fun = SMOOTH[name]
    unit = float(np.spacing(np.float32(abs(fun(X)))))
    found, _ = estimated(lambda x: np.float32(fun(x)))
    assert 0.2 * unit <= found.f <= 5 * unit


@pytest.mark.parametrize("name", ["a sum of squares", "a line", "an exponential", "a valley"])
def test_whole_numbers_are_found(name):
    found, _ = estimated(lambda x: np.round(SMOOTH[name](x)))
    assert found.f == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("name", sorted(set(SMOOTH) - {"large values"}) + ["a constant"])
@pytest.mark.parametrize("size", [1e-3, 1e-6])
def test_noise_is_found_up_to_a_small_factor(name, size):
    fun, right = (SMOOTH | FLAT)[name], 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found, _ = estimated(lambda x, rng=rng: fun(x) + size * rng.standard_normal())
        right += size / 3 <= found.f <= 6 * size
    assert right >= 17


def test_values_are_asked_for_inside_the_bounds_only_and_fixed_variables_stay():
    lower, upper = np.array([3.0, 0.0, -0.7]), np.array([3.5, 1.0, -0.7])
    found, points = estimated(lambda x: np.round(x @ x), lower=lower, upper=upper)
    assert all(((lower <= z) & (z <= upper)).all() for z in points)
    assert found.f == 0.5
    _, points = estimated(lambda x: x @ x, lower=X, upper=X)
    assert not points


def test_undefined_values_say_nothing():
    assert not estimated(lambda x: np.nan)[0].coarse
    assert not estimated(lambda x: x @ x if (x == X).all() else np.nan)[0].coarse


def test_a_function_that_changes_fast_is_not_taken_for_a_noisy_one():
    found, points = estimated(lambda x: np.sin(3e8 * x[0]))
    assert not found.coarse
    assert len(points) <= 12


def test_a_type_of_few_digits_counts_where_the_value_is_zero():
    found, _ = estimated(lambda x: x @ x - X @ X, relative=6e-8)
    assert found.f >= 6e-8


def test_types_have_their_rounding_errors():
    assert dtype_error(np.float32(1)) == 2.0**-24
    assert dtype_error(np.ones(2, np.float16)) == 2.0**-11
    for value in (1.0, 1, np.float64(1), np.ones(2), np.int32(1), [1.0], np.longdouble(1)):
        assert dtype_error(value) == 0.0


def test_coming_back_from_afar_shows_a_simulation_that_remembers():
    last = [np.zeros(3)]

    def lazy(x):  # converged only if x has moved by more than 0.01
        if np.linalg.norm(x - last[0]) > 1e-2:
            last[0] = x.copy()
        return np.array([last[0] @ last[0] + x[0]])

    f0 = lazy(X)
    far = estimate(lazy, X, f0, -FREE, FREE, np.random.default_rng(0), np.zeros(1), moving=np.ones(1, dtype=bool))
    assert not far.coarse  # it remembers, and comes back to the same state

    count = [0]

    def worn(x):
        count[0] += 1
        return np.array([x @ x + 1e-3 * (count[0] > 7)])

    count[0], f0 = 0, worn(X)
    assert estimate(
        worn, X, f0, -FREE, FREE, np.random.default_rng(0), np.zeros(1), moving=np.ones(1, dtype=bool)
    ).f == pytest.approx(1e-3)


def test_a_whole_number_that_should_move_is_a_rounded_one_and_another_is_a_constant():
    for moving, noise in ((True, 0.5), (False, 0.0)):
        asked = np.array([moving])
        found = estimate(
            lambda x: np.array([2.0]),
            X,
            np.array([2.0]),
            -FREE,
            FREE,
            np.random.default_rng(0),
            np.zeros(1),
            moving=asked,
        )
        assert found.f == noise


def test_functions_that_fail_at_some_distance_are_asked_no_further():
    def fun(x):
        if np.linalg.norm(x - X) > 1e-3:
            raise ZeroDivisionError
        return np.array([float(np.float32(x @ x))])

    found = estimate(fun, X, fun(X), -FREE, FREE, np.random.default_rng(0), np.zeros(1))
    assert 1e-8 < found.f < 1e-5


def test_stated_errors_get_their_scale_by_one_evaluation():
    points = []

    def fun(x):
        points.append(x)
        return np.array([x @ x])

    found = estimate_scale(fun, np.array([1e-4]), X, np.array([X @ X]), -FREE, FREE)
    assert found.f == 1e-4
    assert 5.0 <= found.scale[0] <= 100.0
    assert len(points) == 1


def test_rows_are_taken_together_with_the_objective():
    found = Precision(np.array([1.0, 0.0, 3.0]), np.array([10.0, 1.0, 6.0]))
    assert found.rows([1]).noise.tolist() == [1.0, 3.0]
    assert found.part(1, 2) is None
    assert found.part(0, 3).relative == 0.5


@pytest.mark.parametrize("size", [1e-8, 1e-5, 1e-3])
@pytest.mark.parametrize("scheme", ["2-point", "3-point", "extrapolated"])
def test_differences_of_noisy_values_are_as_good_as_their_error_estimate(size, scheme):
    rng, within, errors = np.random.default_rng(3), 0, []
    for _ in range(40):
        x = rng.uniform(-2, 2, 3)

        def fun(z, rng=rng):
            return np.array([np.exp(0.5 * z[0]) + z[1] ** 2 * z[2] + 3.0]) + size * rng.uniform(-1, 1)

        true = np.array([0.5 * np.exp(0.5 * x[0]), 2 * x[1] * x[2], x[1] ** 2])
        noise = Noise(np.array([size]), size / 5.0)
        sides = {"lower": -FREE, "upper": FREE}
        if scheme == "extrapolated":
            jac, error = extrapolated(fun, x, fun(x), noise=noise, **sides)
        else:
            jac, error = noisy_jacobian(fun, x, fun(x), noise, scheme=scheme, **sides)
        within += bool((np.abs(jac[0] - true) <= 3 * error[0]).all())
        errors.append(float(np.max(error)))
    assert within >= 37
    power = {"2-point": 1 / 2, "3-point": 2 / 3, "extrapolated": 4 / 5}[scheme]
    assert np.median(errors) <= 60 * size**power
