"""Finite differences: inside the bounds, of the promised order, and the same with and without colouring."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from auglag.derivatives import differences
from auglag.derivatives.colouring import colour
from auglag.derivatives.differences import SCHEMES, hessian_from_gradient, jacobian, steps
from auglag.derivatives.extrapolation import extrapolated
from auglag.errors import EvaluationError, InputError

REAL = ("2-point", "3-point")
FREE = {"lower": -np.inf, "upper": np.inf}
TOLERANCE = {"2-point": 1e-6, "3-point": 1e-8, "cs": 1e-13}


def smooth(x):
    return np.array([np.sin(x[0]) * x[1] ** 2, np.exp(x[1] - x[2]), x[0] * x[1] * x[2], x[2] ** 3])


def smooth_jac(x):
    a, b, c = x
    e = np.exp(b - c)
    return np.array(
        [[np.cos(a) * b**2, 2 * b * np.sin(a), 0], [0, e, -e], [b * c, a * c, a * b], [0, 0, 3 * c**2]], dtype=float
    )


def gradient(fun, x, f0, **options):
    return np.asarray(jacobian(fun, x, f0, **options))[0]


class Recorder:
    """A function that keeps every point it was asked for."""

    def __init__(self, fun):
        self.fun, self.points = fun, []

    def __call__(self, x):
        self.points.append(np.array(x))
        return self.fun(x)


@st.composite
def boxed(draw):
    """A point on, next to, or well inside random bounds of all widths."""
    n = draw(st.integers(1, 5))
    x, lower, upper = np.empty(n), np.empty(n), np.empty(n)
    room = st.one_of(
        st.just(0.0), st.just(np.inf), st.floats(0, 1e-300), st.floats(1e-18, 1e-12), st.floats(1e-9, 1e-4), st.just(1)
    )
    place = st.one_of(st.floats(-1e3, 1e3), st.floats(-1e-7, 1e-7), st.floats(-1e300, 1e300), st.just(0.0))
    for i in range(n):
        x[i] = draw(place)
        lower[i], upper[i] = x[i] - draw(room), x[i] + draw(room)
        if draw(st.booleans()):
            lower[i] = draw(st.sampled_from([lower[i], np.nextafter(x[i], -np.inf)]))
        if draw(st.booleans()):
            upper[i] = draw(st.sampled_from([upper[i], np.nextafter(x[i], np.inf)]))
    return x, lower, upper


@settings(max_examples=400, deadline=None)
@given(boxed(), st.sampled_from(REAL), st.sampled_from([None, 1e-3, 1e-9, 2.0]), st.booleans())
def test_no_evaluation_leaves_the_bounds(box, scheme, rel_step, undefined):
    x, lower, upper = box
    # Undefined for some points, so that the other nodes are tried too.
    f = Recorder(lambda z: np.array([np.nan if undefined and (z > x).any() else 1.0, 2.0]))
    jacobian(f, x, np.array([1.0, 2.0]), scheme=scheme, lower=lower, upper=upper, rel_step=rel_step)
    pattern = np.ones((2, x.size))
    jacobian(f, x, np.array([1.0, 2.0]), scheme=scheme, lower=lower, upper=upper, sparsity=pattern)
    for z in f.points:
        assert (lower <= z).all()
        assert (z <= upper).all()


@settings(max_examples=400, deadline=None)
@given(boxed(), st.sampled_from(REAL))
def test_steps_stay_inside_and_vanish_only_without_room(box, scheme):
    x, lower, upper = box
    h, one_sided = steps(x, lower, upper, scheme)
    second = x + np.where(one_sided, 2 * h, -h) if scheme == "3-point" else x
    for z in (x + h, second):
        assert (lower <= z).all()
        assert (z <= upper).all()
    with np.errstate(over="ignore"):
        spacing = np.spacing(np.maximum(np.abs(x), np.maximum(np.abs(x - lower), np.abs(x - upper))))
        room = np.maximum(x - lower, upper - x)
    assert (h[lower == upper] == 0).all()
    assert (h[room > 4 * np.where(np.isfinite(spacing), spacing, 0)] != 0).all()


def test_default_steps_are_those_of_scipy():
    x, eps = np.array([0.0, -3.0, 0.5, 100.0]), np.finfo(float).eps
    for scheme, power in (("2-point", 1 / 2), ("cs", 1 / 2)):
        h, one_sided = steps(x, -np.inf, np.inf, scheme)
        assert_allclose(h, eps**power * np.array([1, -3, 1, 100]), rtol=1e-6)
        assert not one_sided.any()
    assert_allclose(steps(x, -np.inf, np.inf, "3-point")[0], eps ** (1 / 3) * np.array([1, 3, 1, 100]), rtol=1e-6)


def test_a_given_relative_step_is_relative_to_x_and_falls_back_at_zero():
    h, _ = steps(np.array([0.0, -3.0, 0.5]), -np.inf, np.inf, "2-point", 1e-3)
    assert_allclose(h, [np.finfo(float).eps ** 0.5, -3e-3, 5e-4], rtol=1e-6)
    h, _ = steps(np.array([1.0, 1.0]), -np.inf, np.inf, "2-point", [1e-3, -1e-4])
    assert_allclose(h, [1e-3, -1e-4], rtol=1e-6)


def test_steps_are_exactly_representable():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(200) * 10.0 ** rng.integers(-3, 8, 200)
    h, _ = steps(x, -np.inf, np.inf, "2-point")
    assert_array_equal((x + h) - x, h)


def test_steps_that_are_shared_by_all_functions_at_one_x_cannot_be_written_to():
    x, lower, upper = np.array([1.0, 2.0]), np.zeros(2), np.full(2, 2.0)
    h, one_sided = steps(x, lower, upper, "3-point")
    with pytest.raises(ValueError, match="read-only"):
        h[0] = 1.0
    assert one_sided.tolist() == [False, True]
    x[1] = 1.5  # the same array with another number in it is another x
    assert not steps(x, lower, upper, "3-point")[1].any()


def test_steps_turn_round_at_a_bound_and_shrink_in_a_narrow_box():
    h, _ = steps(np.array([1.0]), np.array([0.0]), np.array([1.0]), "2-point")
    assert h[0] < 0
    h, one_sided = steps(np.array([1.0]), np.array([0.0]), np.array([1.0]), "3-point")
    assert h[0] < 0
    assert one_sided[0]
    h, _ = steps(np.array([1.0]), np.array([1 - 1e-10]), np.array([1 + 3e-10]), "2-point")
    assert_allclose(h, 3e-10, rtol=1e-5)
    h, one_sided = steps(np.array([1.0]), np.array([1 - 2e-10]), np.array([1 + 2e-10]), "3-point")
    assert_allclose(h, 2e-10, rtol=1e-5)
    assert not one_sided[0]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_jacobian_is_accurate_inside_and_at_bounds(scheme):
    x = np.array([0.3, 1.2, -0.7])
    tol = TOLERANCE[scheme]
    for lower, upper in ((-np.inf, np.inf), (x, np.inf), (-np.inf, x), (x - 1e-7, x + 1)):
        jac = jacobian(smooth, x, smooth(x), scheme=scheme, lower=lower, upper=upper)
        assert_allclose(jac, smooth_jac(x), rtol=tol, atol=tol)


@pytest.mark.parametrize(
    ("scheme", "lower", "order"), [("2-point", -np.inf, 1), ("3-point", -np.inf, 2), ("3-point", 1.0, 2)]
)
def test_the_error_falls_with_the_order_of_the_scheme(scheme, lower, order):
    def error(step):
        kw = {"scheme": scheme, "lower": lower, "upper": np.inf, "rel_step": step}
        return abs(gradient(lambda x: np.exp(x[0]), [1.0], np.e, **kw)[0] - np.e)

    assert error(1e-2) / error(1e-3) == pytest.approx(10**order, rel=0.1)


@pytest.mark.parametrize("scheme", REAL)
def test_linear_functions_are_exact_whatever_the_box(scheme):
    x = np.array([0.1, 1.0, 2.0, 3.0])
    lower, upper = np.array([0.1, 1 - 2e-6, -9.0, 3.0]), np.array([5.0, 1 + 1e-6, 2.0 + 1e-9, 3.0])
    slope = np.array([2.0, -3.0, 0.5, 7.0])
    g = gradient(lambda z: slope @ z, x, slope @ x, scheme=scheme, lower=lower, upper=upper)
    assert_allclose(g, [2.0, -3.0, 0.5, 0.0], rtol=1e-7)


def test_fixed_variables_cost_nothing_and_have_derivative_zero():
    f = Recorder(smooth)
    x = np.array([0.3, 1.2, -0.7])
    jac = jacobian(f, x, smooth(x), lower=np.array([0.3, -9, -9]), upper=np.array([0.3, 9, 9]))
    assert_array_equal(jac[:, 0], 0)
    assert len(f.points) == 4


def test_no_rows_means_no_evaluations():
    f = Recorder(lambda x: np.empty(0))
    assert jacobian(f, [1.0, 2.0], np.empty(0), **FREE).shape == (0, 2)
    assert jacobian(f, [1.0, 2.0], np.empty(0), sparsity=np.empty((0, 2)), **FREE).shape == (0, 2)
    assert not f.points


def test_x_and_values_may_be_reused_by_the_function():
    buffer = np.empty(4)

    def reuse(x):
        buffer[:] = smooth(x)
        x[:] = np.nan
        return buffer

    x = np.array([0.3, 1.2, -0.7])
    assert_allclose(jacobian(reuse, x, reuse(x.copy()), **FREE), smooth_jac(x), rtol=1e-8, atol=1e-8)
    assert_array_equal(x, [0.3, 1.2, -0.7])


# Undefined points


@pytest.mark.parametrize("scheme", REAL)
@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("sparsity", [None, np.eye(2)])
def test_a_function_undefined_on_one_side_is_differenced_on_the_other(scheme, side, raises, sparsity):
    x = np.array([1.0, 2.0])

    def f(z):
        if (z - x)[0] * side > 0:
            if raises:
                raise EvaluationError
            return np.array([np.nan, z[1] ** 2])
        return z**2

    jac = jacobian(f, x, x**2, scheme=scheme, sparsity=sparsity, **FREE)
    jac = jac if sparsity is None else jac.toarray()
    assert_allclose(jac, np.diag([2.0, 4.0]), rtol=1e-7)


def test_a_function_undefined_beyond_the_first_node_falls_back_to_two_points():
    g = gradient(lambda z: np.inf if z[0] > 1e-5 else np.sin(z[0]), [0.0], 0.0, lower=0.0, upper=1.0)
    assert_allclose(g, 1.0, rtol=1e-6)


@pytest.mark.parametrize("scheme", REAL)
def test_what_is_undefined_on_both_sides_is_nan_in_its_entries_alone(scheme):
    x = np.array([1.0, 2.0])

    def f(z):
        return np.array([z[0] + z[1], np.nan if z[0] != 1 else z[1]])

    for sparsity in (None, np.ones((2, 2))):
        jac = jacobian(f, x, f(x), scheme=scheme, sparsity=sparsity, **FREE)
        jac = jac if sparsity is None else jac.toarray()
        assert_allclose(jac, [[1, 1], [np.nan, 1]], rtol=1e-7)


def test_other_exceptions_propagate_untouched():
    def f(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        gradient(f, [1.0], 1.0, **FREE)


# Complex steps


def test_complex_steps_are_exact_to_rounding_even_at_a_bound():
    x = np.array([0.5, 2.0])
    g = gradient(lambda z: np.sum(np.exp(z) / z), x, 0.0, scheme="cs", lower=x, upper=3.0)
    assert_allclose(g, np.exp(x) / x - np.exp(x) / x**2, rtol=1e-12)


def test_complex_steps_demand_a_complex_function():
    import math

    for f in (lambda x: math.sin(x[0]), lambda x: abs(x[0]), lambda x: np.array([3.0])):
        with pytest.raises(InputError, match=r"scheme 'cs' demands a function that accepts complex x and returns"):
            gradient(f, [1.0], 1.0, scheme="cs", **FREE)


def test_complex_steps_notice_a_dropped_imaginary_part():
    def f(x):
        out = np.empty(1)
        out[0] = x[0]  # ComplexWarning, or TypeError
        return out

    with pytest.raises(InputError, match="'cs' demands"):
        jacobian(f, [1.0], [1.0], scheme="cs", **FREE)


def test_complex_steps_survive_an_undefined_column_of_a_group():
    def f(z):
        if z[0].imag:
            raise EvaluationError
        return z**2

    jac = jacobian(f, [1.0, 2.0], [1.0, 4.0], scheme="cs", sparsity=np.eye(2), **FREE).toarray()
    assert_allclose(jac, [[np.nan, 0], [0, 4]])


# Sparsity


@st.composite
def patterns(draw):
    m, n = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    bits = draw(st.lists(st.booleans(), min_size=m * n, max_size=m * n))
    return np.array(bits, dtype=float).reshape(m, n)


@settings(max_examples=200, deadline=None)
@given(patterns())
def test_columns_of_one_group_share_no_row(pattern):
    group = colour(pattern)
    assert group.shape == (pattern.shape[1],)
    for g in range(group.max(initial=0) + 1):
        assert (pattern[:, group == g].sum(axis=1) <= 1).all()
    assert_array_equal(colour(sparse.coo_array(pattern)), group)


@pytest.mark.parametrize("width", [0, 1, 2])
def test_a_band_needs_as_many_groups_as_it_is_wide(width):
    n = 1000
    band = sparse.diags_array([np.ones(n - abs(k)) for k in range(-width, width + 1)], offsets=range(-width, width + 1))
    assert colour(band).max() == 2 * width


def test_a_full_row_needs_a_group_for_every_column():
    assert sorted(colour(np.ones((1, 5)))) == [0, 1, 2, 3, 4]


@settings(max_examples=150, deadline=None)
@given(patterns(), st.sampled_from(SCHEMES), st.integers(0, 2**32 - 1))
def test_coloured_equals_dense(pattern, scheme, seed):
    rng = np.random.default_rng(seed)
    m, n = pattern.shape
    a = pattern * rng.standard_normal((m, n))

    def f(x):
        return a @ np.sin(x) + (a * a) @ x**2

    x = rng.standard_normal(n)
    lower = np.where(rng.random(n) < 0.4, x, x - rng.choice([1e-7, 1.0], n))
    upper = np.where(rng.random(n) < 0.4, x, x + rng.choice([1e-7, 1.0], n))
    kw = {"scheme": scheme, "lower": lower, "upper": upper}
    coloured = jacobian(f, x, f(x), sparsity=sparse.csc_array(pattern), **kw)
    assert isinstance(coloured, sparse.csr_array)
    assert coloured.nnz == pattern.sum()
    assert_allclose(coloured.toarray(), jacobian(f, x, f(x), **kw), rtol=1e-6, atol=1e-7)


def test_a_tridiagonal_jacobian_takes_six_evaluations():
    n = 500
    band = sparse.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])

    def f(x):
        y = x**3
        y[1:] += x[:-1] ** 2
        y[:-1] -= x[1:]
        return y

    x, record = np.linspace(-1, 1, n), Recorder(f)
    for sparsity in (band, (band, colour(band))):
        record.points.clear()
        jac = jacobian(record, x, f(x), sparsity=sparsity, lower=-1.0, upper=1.0)
        assert len(record.points) == 6
        exact = sparse.diags_array([2 * x[:-1], 3 * x**2, -np.ones(n - 1)], offsets=[-1, 0, 1])
        assert abs(jac - exact).max() < 1e-8


def test_a_wrong_structure_is_refused():
    with pytest.raises(InputError, match=r"sparsity must have the shape of the Jacobian, \(1, 2\), got \(2, 1\)"):
        jacobian(lambda x: x[:1], [1.0, 2.0], [1.0], sparsity=np.ones((2, 1)), **FREE)
    with pytest.raises(InputError, match="one group for each of 2 columns"):
        jacobian(lambda x: x[:1], [1.0, 2.0], [1.0], sparsity=(np.ones((1, 2)), [0]), **FREE)


# Hessians


def quartic_grad(x):
    return np.array([x[0] * x[1] ** 2 + x[0] ** 3, x[0] ** 2 * x[1], x[2] ** 3])


def quartic_hess(x):
    a, b, c = x
    return np.array([[b * b + 3 * a * a, 2 * a * b, 0], [2 * a * b, a * a, 0], [0, 0, 3 * c * c]])


@pytest.mark.parametrize("fixed", [None, 0, 1, 2])
def test_hessians_are_symmetric_and_blind_to_fixed_variables(fixed):
    x = np.array([0.7, -1.1, 2.0])
    lower, upper, exact = x - 1, x + 1, quartic_hess(x)
    if fixed is not None:
        lower[fixed] = upper[fixed] = x[fixed]
        exact[fixed] = exact[:, fixed] = 0
    hess = hessian_from_gradient(quartic_grad, x, quartic_grad(x), lower=lower, upper=upper)
    assert_array_equal(hess, hess.T)
    assert_allclose(hess, exact, atol=1e-8)


def test_a_hessian_column_that_is_undefined_is_taken_from_its_row():
    x = np.array([0.7, -1.1, 2.0])

    def grad(z):
        return quartic_grad(z) if z[0] == x[0] else np.full(3, np.nan)

    hess = hessian_from_gradient(grad, x, grad(x), **FREE)
    exact = quartic_hess(x)
    exact[0, 0] = np.nan
    assert_allclose(hess, exact, atol=1e-8)


# Arguments


def test_bad_arguments_are_named():
    with pytest.raises(InputError, match=r"scheme must be one of '2-point', '3-point', 'cs', got '4-point'"):
        gradient(lambda x: 0.0, [1.0], 0.0, scheme="4-point", **FREE)
    with pytest.raises(InputError, match=r"got x\[1\] = 3.0 outside \[0.0, 2.0\]"):
        gradient(lambda x: 0.0, [1.0, 3.0], 0.0, lower=0.0, upper=2.0)
    with pytest.raises(InputError, match="x must lie within its bounds"):
        gradient(lambda x: 0.0, [np.nan], 0.0, **FREE)
    with pytest.raises(InputError, match="rel_step must be a finite number or one for each of the 2 variables"):
        gradient(lambda x: 0.0, [1.0, 2.0], 0.0, rel_step=[1.0, 1.0, 1.0], **FREE)
    with pytest.raises(InputError, match="fun must return 1 values as it did at x, got 2"):
        gradient(lambda x: np.zeros(2), [1.0], 0.0, **FREE)


def test_extrapolated_differences_are_far_more_accurate_than_central_ones():
    def fun(x):
        return np.array([np.exp(x[0]) * np.sin(3 * x[1]), 1e4 * np.log(x[0] + x[1] ** 2), x[0] ** 3])

    x = np.array([0.7, 1.3])
    e, s, c, q = np.exp(0.7), np.sin(3.9), np.cos(3.9), 0.7 + 1.69
    exact = np.array([[e * s, 3 * e * c], [1e4 / q, 2.6e4 / q], [3 * 0.49, 0.0]])
    box = {"lower": np.full(2, -np.inf), "upper": np.full(2, np.inf)}
    central = np.abs(differences.jacobian(fun, x, fun(x), scheme="3-point", **box) - exact).max()
    jac, error = extrapolated(fun, x, fun(x), **box)
    better = np.abs(jac - exact)
    assert better.max() < 2e-8 < central
    assert (better <= 10 * error + 1e-12).all()


def test_extrapolated_differences_stay_inside_the_bounds_and_take_smaller_steps_where_the_function_asks_for_them():
    seen = []

    def fun(x):
        seen.append(x.copy())
        return np.array([np.log(x[0]), np.sqrt(x[1])])

    x, lower, upper = np.array([2e-5, 1.0]), np.array([1e-5, 0.0]), np.array([1.0, 1.0])
    jac, error = extrapolated(fun, x, fun(x), lower=lower, upper=upper)
    assert all((lower <= point).all() and (point <= upper).all() for point in seen)
    assert jac[0, 0] == pytest.approx(1 / 2e-5, rel=1e-8)  # the usual step, 6e-6, is a third of x there
    assert error.max() < 1e-3
    assert jac[1, 1] == pytest.approx(0.5, rel=1e-8)


def test_extrapolated_sparse_differences_equal_the_dense_ones():
    def fun(x):
        return np.array([x[0] ** 2 * x[1], np.sin(x[2]), x[1] * x[2]])

    x, box = np.array([1.0, 2.0, 3.0]), {"lower": np.full(3, -np.inf), "upper": np.full(3, np.inf)}
    pattern = sparse.csr_array(np.array([[1, 1, 0], [0, 0, 1], [0, 1, 1]]))
    coloured, errors = extrapolated(fun, x, fun(x), sparsity=pattern, **box)
    dense, _ = extrapolated(fun, x, fun(x), **box)
    np.testing.assert_allclose(coloured.toarray(), dense, atol=1e-9)
    assert errors.toarray().max() < 1e-8
