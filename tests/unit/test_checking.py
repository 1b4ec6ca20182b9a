"""Derivative checks: what is wrong is found and named, what is right never raises an alarm."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from auglag.derivatives.checking import check_gradient, check_hessian_product, check_jacobian, check_sparsity
from auglag.derivatives.colouring import colour
from auglag.derivatives.differences import jacobian
from auglag.errors import DerivativeError, EvaluationError

SIZES = [1, 2, 3, 10, 100]
seeds = st.integers(0, 2**32 - 1)


def smooth(rng, n):
    """A random smooth function of n variables and its gradient."""
    a = rng.standard_normal((n, n)) / np.sqrt(n)
    b, c = rng.standard_normal(n), rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4)

    def fun(x):
        return float(c @ x + np.sin(a @ x + b).sum() + 0.5 * x @ x)

    def grad(x):
        return c + a.T @ np.cos(a @ x + b) + x

    return fun, grad


def alarm(fun, grad, x, lower=-np.inf, upper=np.inf, *, check=check_gradient, seed=0, **names):
    """The message of the alarm, or None; fails if a point outside the bounds is evaluated."""

    def inside(function):
        def wrapped(z, *args):
            assert (lower <= z).all()
            assert (z <= upper).all()
            return function(z, *args)

        return wrapped

    try:
        check(inside(fun), inside(grad), x, lower, upper, rng=np.random.default_rng(seed), **names)
    except DerivativeError as error:
        return str(error)
    return None


class Counted:
    def __init__(self, fun):
        self.fun, self.calls = fun, 0

    def __call__(self, x):
        self.calls += 1
        return self.fun(x)


def bounds_around(rng, x):
    """Bounds on, near, and far from x; some variables fixed."""
    gaps = 10.0 ** rng.integers(-14, 3, (2, x.size)) * (rng.random((2, x.size)) < 0.7)
    return x - gaps[0], x + gaps[1]


# Right derivatives


@settings(max_examples=300, deadline=None)
@given(seeds, st.sampled_from(SIZES), st.booleans())
def test_right_gradients_pass_with_two_evaluations(seed, n, bounded):
    rng = np.random.default_rng(seed)
    fun, grad = smooth(rng, n)
    x = rng.standard_normal(n)
    lower, upper = bounds_around(rng, x) if bounded else (-np.inf, np.inf)
    counted, counted_grad = Counted(fun), Counted(grad)
    assert alarm(counted, counted_grad, x, lower, upper, seed=seed) is None
    if not bounded:
        assert (counted.calls, counted_grad.calls) == (2, 1)


def right_noisy(rng, fun, grad, x):
    return lambda z: fun(z) * (1 + 1e-6 * rng.standard_normal()), grad, x


def right_very_noisy(rng, fun, grad, x):
    return lambda z: fun(z) + 0.1 * rng.standard_normal(), grad, x


def right_single_precision(rng, fun, grad, x):
    return lambda z: float(np.float32(fun(z))), grad, x


def right_rounded(rng, fun, grad, x):
    return lambda z: round(fun(z), 5), grad, x


def right_under_a_huge_constant(rng, fun, grad, x):
    constant = rng.choice([1e6, 1e9, 1e12])
    return lambda z: fun(z) + constant, grad, x


def right_with_inner_cancellation(rng, fun, grad, x):
    constant = rng.choice([1e6, 1e9, 1e12])
    return lambda z: (fun(z) + constant) - constant, grad, x


def right_at_kinks(rng, fun, grad, x):
    x, slope = np.where(rng.random(x.size) < 0.7, 0.0, x), rng.choice([-1.0, 0.0, 1.0])
    return (lambda z: fun(z) + 100 * np.abs(z).sum(), lambda z: grad(z) + 100 * np.where(z == 0, slope, np.sign(z)), x)


def right_at_kinks_on_bounds(rng, fun, grad, x):
    fun, grad, x = right_at_kinks(rng, fun, grad, x)
    return fun, grad, np.abs(x), np.zeros(x.size)


def right_near_kinks(rng, fun, grad, x):
    a = rng.standard_normal((20, x.size))
    b = a @ x + 10.0 ** rng.integers(-9, -1, 20) * rng.standard_normal(20)
    return lambda z: np.maximum(a @ z - b, 0).sum(), lambda z: a.T @ (a @ z > b), x


def right_at_a_stationary_point(rng, fun, grad, x):
    x = x[:20]
    a = rng.standard_normal((x.size + 3, x.size))
    b = a @ x + rng.integers(0, 2) * rng.standard_normal(x.size + 3)
    best = np.linalg.lstsq(a, b, rcond=None)[0]
    start = best + 10.0 ** rng.integers(-20, -6) * rng.standard_normal(x.size)
    return (
        lambda z: 0.5 * np.sum((a @ z - b) ** 2) + np.cos(z - best).sum(),
        lambda z: a.T @ (a @ z - b) - np.sin(z - best),
        start,
    )


def right_where_defined(rng, fun, grad, x):
    normal, raises = rng.standard_normal(x.size), rng.random() < 0.5

    def half(z):
        if normal @ (z - x) <= 0:
            return fun(z)
        if raises:
            raise EvaluationError
        return np.nan

    return half, grad, x


def right_and_oscillating(rng, fun, grad, x):
    w, p = 10.0 ** rng.uniform(0, 7, x.size), rng.standard_normal(x.size)
    return lambda z: np.sin(w * z + p).sum(), lambda z: w * np.cos(w * z + p), x


def right_and_barely_differentiable(rng, fun, grad, x):
    p = rng.uniform(1.001, 3, x.size)
    x = np.where(rng.random(x.size) < 0.5, 0.0, np.abs(x))
    return lambda z: (np.abs(z) ** p).sum(), lambda z: p * np.abs(z) ** (p - 1), x, 0.0


def right_and_badly_scaled(rng, fun, grad, x):
    s = 10.0 ** rng.integers(-8, 9, x.size)
    return lambda z: fun(z / s), lambda z: grad(z / s) / s, x * s


RIGHT = [case for name, case in list(globals().items()) if name.startswith("right_")]


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.__name__)
def test_no_false_alarm_when_the_gradient_is(case):
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n = SIZES[seed % len(SIZES)]
        fun, grad = smooth(rng, n)
        assert alarm(*case(rng, fun, grad, rng.standard_normal(n)), seed=seed) is None, seed


@settings(max_examples=100, deadline=None)
@given(
    seeds,
    st.sampled_from(SIZES),
    st.integers(1, 20),
    st.sampled_from([np.array, sparse.csc_array, sparse.coo_matrix, aslinearoperator]),
)
def test_right_jacobians_pass(seed, n, m, kind):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, m, n))
    x = rng.standard_normal(n)
    lower, upper = bounds_around(rng, x)

    def jac(z):
        return kind(a + np.cos(b @ z)[:, None] * b)

    assert alarm(lambda z: a @ z + np.sin(b @ z), jac, x, lower, upper, check=check_jacobian, seed=seed) is None


def test_nothing_to_check_is_fine():
    assert alarm(lambda x: 0.0, lambda x: np.ones(1), np.zeros(1), np.zeros(1), np.zeros(1)) is None
    assert alarm(lambda x: np.empty(0), lambda x: np.empty((0, 2)), np.zeros(2), check=check_jacobian) is None
    assert alarm(lambda x: np.nan, lambda x: np.ones(1), np.zeros(1)) is None
    assert alarm(lambda x: x[0], lambda x: np.full(1, np.nan), np.zeros(1)) is None

    def undefined(x):
        raise EvaluationError

    assert alarm(undefined, lambda x: np.ones(1), np.zeros(1)) is None
    assert alarm(lambda x: x[0], undefined, np.zeros(1)) is None


def test_the_user_does_not_hear_warnings_of_probing_points():
    assert alarm(lambda x: np.log(x[0]), lambda x: 1 / x, np.array([1e-8])) is None


def test_the_function_may_keep_its_buffers():
    x, buffer = np.array([0.3, 0.4]), np.empty(2)

    def fun(z):
        buffer[:] = z**2
        z[:] = 0
        return buffer

    assert alarm(fun, lambda z: np.diag(2 * z), x, check=check_jacobian) is None
    assert x.tolist() == [0.3, 0.4]


# Wrong derivatives


def swapped(g):
    i, j = np.argmax(np.abs(g)), np.argmin(np.abs(g))
    g[[i, j]] = g[[j, i]]
    return g


WRONG = {
    "of the wrong sign": lambda g: -g,
    "twice too large": lambda g: 2 * g,
    "one per cent too large": lambda g: 1.01 * g,
    "zero": lambda g: 0 * g,
}


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("place", ["free", "bounds"])
def test_an_alarm_when_the_gradient_is(spoil, place):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = SIZES[seed % len(SIZES)]
        fun, grad = smooth(rng, n)
        x = rng.standard_normal(n)
        at = rng.random(n) < 0.4
        lower, upper = (np.where(at, x, x - 3), np.where(at, x + 1, x + 1e-3)) if place == "bounds" else (-9.0, 9.0)
        message = alarm(fun, lambda z, grad=grad: spoil(grad(z)), x, lower, upper, seed=seed)
        assert message is not None, seed
        assert message.startswith("jac: entry ")


def test_a_constant_added_to_all_entries_is_found_in_all_but_unlucky_directions():
    found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n = SIZES[seed % len(SIZES)]
        fun, grad = smooth(rng, n)
        found += (
            alarm(fun, lambda z, g=grad: g(z) + np.linalg.norm(g(z)) / 10, rng.standard_normal(n), seed=seed)
            is not None
        )
    assert found >= 98


def test_swapped_entries_are_found():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        a = rng.standard_normal(SIZES[1 + seed % 4])
        x = rng.standard_normal(a.size)
        assert alarm(lambda z, a=a: a @ z + z @ z / 2, lambda z, a=a: swapped(a + z), x, seed=seed), seed


@settings(max_examples=150, deadline=None)
@given(seeds, st.sampled_from(SIZES), st.sampled_from([2e-2, -0.3, 5.0]))
def test_one_wrong_entry_is_found_and_named(seed, n, size):
    rng = np.random.default_rng(seed)
    fun, grad = smooth(rng, n)
    k = int(rng.integers(n))

    def wrong(z):
        g = grad(z)
        g[k] += size * np.linalg.norm(g)
        return g

    x = rng.standard_normal(n)
    message = alarm(fun, wrong, x, seed=seed)
    assert message is not None
    i, given_value, estimate = re.search(
        r"entry (\d+) of the gradient is (\S+), but .* give (\S+) at x0", message
    ).groups()
    assert int(i) == k
    assert float(given_value) == pytest.approx(wrong(x)[k], rel=1e-4)
    assert float(estimate) == pytest.approx(grad(x)[k], rel=1e-3, abs=1e-4 * np.linalg.norm(grad(x)))


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array, sparse.csc_matrix, aslinearoperator])
def test_one_wrong_entry_of_a_jacobian_is_found_and_named(kind):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        m, n = rng.integers(1, 20), SIZES[seed % len(SIZES)]
        a, b = rng.standard_normal((2, m, n))
        i, j = rng.integers(m), rng.integers(n)

        def jac(z, a=a, b=b, i=i, j=j):
            entries = a + np.cos(b @ z)[:, None] * b
            entries[i, j] += 0.4
            return kind(entries)

        message = alarm(
            lambda z, a=a, b=b: a @ z + np.sin(b @ z), jac, rng.standard_normal(n), check=check_jacobian, name="'mass'"
        )
        assert message is not None
        assert message.startswith(f"'mass': row {i}, column {j} of the Jacobian is ")


@pytest.mark.parametrize("n", SIZES[1:])
def test_a_transposed_jacobian_is_found(n):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((n, n))
        assert alarm(lambda z, a=a: a @ z, lambda z, a=a: a.T, rng.standard_normal(n), check=check_jacobian, seed=seed)


def test_an_error_in_a_noisy_function_is_still_found():
    rng = np.random.default_rng(5)
    found = 0
    for seed in range(50):
        fun, grad = smooth(rng, 5)
        noisy = lambda z, fun=fun: fun(z) * (1 + 1e-9 * rng.standard_normal())  # noqa: E731
        found += alarm(noisy, lambda z, grad=grad: 2 * grad(z), rng.standard_normal(5), seed=seed) is not None
    assert found >= 45


def test_the_worst_of_very_many_variables_is_found_by_halving():
    n, k = 20_000, 7_770
    fun = Counted(lambda z: z**2)

    def jac(z):
        diagonal = 2 * z
        diagonal[k] += 3
        return sparse.diags_array(diagonal)

    message = alarm(fun, jac, np.random.default_rng(0).standard_normal(n), check=check_jacobian)
    assert f"row {k}, column {k} of the Jacobian" in message
    assert fun.calls < 1000


def test_hessian_products_are_checked_the_same_way():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = SIZES[seed % len(SIZES)]
        a = rng.standard_normal((n, n))
        a, x = a + a.T, rng.standard_normal(n)

        def grad(z, a=a):
            return a @ z + z**3

        def hessp(z, v, a=a):
            return a @ v + 3 * z**2 * v

        kw = {"check": check_hessian_product, "seed": seed}
        assert alarm(hessp, grad, x, **kw) is None
        message = alarm(lambda z, v, hessp=hessp: 2 * hessp(z, v), grad, x, **kw)
        assert re.match(
            r"hessp: row \d+, column \d+ of the Hessian is \S+, but finite differences of jac give", message
        )


def test_an_entry_for_a_variable_that_does_nothing_is_found():
    message = alarm(lambda x: x[0], lambda x: np.array([1.0, 2.0]), np.ones(2))
    assert "entry 1 of the gradient is 2, but finite differences of fun give 0 at x0" in message


# Messages


def test_the_message_says_it_all():
    message = alarm(lambda x: 4.2 * x[2] + x[0], lambda x: np.array([1, 0, 3.1]), np.ones(3), name="jac", of="fun")
    assert message == (
        "jac: entry 2 of the gradient is 3.1, but finite differences of fun give 4.2 at x0 (relative error 0.26); "
        "pass check_derivatives=False if you are sure"
    )


def test_a_wrong_shape_is_named():
    message = alarm(lambda x: x[0], lambda x: np.ones(2), np.ones(3))
    assert message == "jac: the gradient must have 3 columns, got shape (1, 2)"
    message = alarm(lambda x: x[:2], lambda x: np.ones((3, 3)), np.ones(3), check=check_jacobian)
    assert message == "jac: the Jacobian must have 2 rows, got shape (3, 3)"
    message = alarm(lambda x: x[:2], lambda x: np.ones((3, 2)), np.ones(3), check=check_jacobian)
    assert message == "jac: the Jacobian must have 3 columns, got shape (3, 2)"


def test_other_exceptions_propagate_untouched():
    def fun(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        check_gradient(fun, lambda x: np.ones(1), np.zeros(1), -1.0, 1.0, rng=np.random.default_rng(0))


def banded(n):
    """The rows of a boundary value problem, and the pattern of their Jacobian."""
    pattern = sparse.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1]).tocsr()
    matrix = sparse.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -2.0 * np.ones(n - 1)], offsets=[-1, 0, 1]).tocsr()
    return (lambda x: matrix @ x + np.exp(x)), matrix, pattern


def by_pattern(fun, pattern, x, **options):
    """What the check says of differences of this pattern."""
    box = {"lower": np.full(x.size, -np.inf), "upper": np.full(x.size, np.inf)}
    known = (sparse.csr_array(pattern), colour(pattern))
    counted = Counted(fun)

    def jac(z):
        return jacobian(fun, z, fun(z), sparsity=known, **box)

    return alarm(counted, jac, x, check=check_sparsity, name="flow", **options), counted.calls


@pytest.mark.parametrize("n", [3, 40, 700])
def test_a_right_sparsity_pattern_passes_with_two_evaluations(n):
    fun, _, pattern = banded(n)
    assert by_pattern(fun, pattern, np.linspace(-1, 1, n)) == (None, 2)


@pytest.mark.parametrize("n", [3, 40, 700])
@pytest.mark.parametrize("side", [-1, 1])
def test_an_entry_that_a_sparsity_pattern_lacks_is_named(n, side):
    fun, matrix, pattern = banded(n)
    i, j = n // 2, n // 2 + side
    pattern = pattern.tolil()
    pattern[i, j] = 0.0
    message, calls = by_pattern(fun, pattern.tocsr(), np.linspace(-1, 1, n))
    assert f"flow: finite_diff_jac_sparsity has no entry in row {i}, column {j}, " in message
    assert f"give {matrix[i, j]:.6g} at x0" in message
    assert calls < 200  # a few sweeps and a search by halving, not a difference for every variable


def test_a_few_of_many_missing_entries_are_named():
    fun, _, _ = banded(50)
    message, _ = by_pattern(fun, sparse.eye_array(50).tocsr(), np.linspace(-1, 1, 50))
    i = int(re.search(r"row (\d+)", message).group(1))
    assert f"columns {i - 1} and {i + 1}" in message


@pytest.mark.parametrize("noise", [1e-12, 1e-8, 1e-4])
def test_noise_is_not_taken_for_a_missing_entry(noise):
    fun, _, pattern = banded(60)
    rng = np.random.default_rng(0)
    message, _ = by_pattern(lambda x: fun(x) + noise * rng.standard_normal(60), pattern, np.linspace(-1, 1, 60))
    assert message is None
