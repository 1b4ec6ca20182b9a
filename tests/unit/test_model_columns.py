"""Terms evaluated by NumPy: the same numbers as by XLA, or left to XLA."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from auglag.model import Model, columns  # noqa: E402
from auglag.model.expressions import OPERATIONS, TESTS  # noqa: E402

#: Functions of two numbers in (0.1, 0.9) and a parameter, which between them use every operation that NumPy does here.
FUNCTIONS = {
    "arithmetic": lambda x, p: (x[0] + 2.0) * x[1] / (1.5 - p[0] * x[0]) - (-x[1]) + 1.0 * x[0] - 0.0,
    "powers": lambda x, p: x[0] ** 3 + x[1] ** -2 + x[0] ** x[1] + x[0] ** 2.5 + jnp.square(x[1]) + x[0] ** 4.0,
    "exponentials": lambda x, p: jnp.exp(x[0]) + jnp.exp2(x[1]) + jnp.expm1(x[0] * x[1]) + jnp.log(x[0])
    * jnp.log1p(x[1]),
    "circular": lambda x, p: jnp.sin(x[0]) * jnp.cos(x[1]) + jnp.tan(x[0] * x[1]) + jnp.arctan2(x[0], x[1]),
    "inverses": lambda x, p: jnp.arcsin(x[0]) + jnp.arccos(x[1]) * x[0] + jnp.arctan(x[0] * x[1]),
    "hyperbolic": lambda x, p: jnp.sinh(x[0]) + jnp.cosh(x[1]) * x[0] + jnp.tanh(x[0] * x[1]),
    "areas": lambda x, p: jnp.arcsinh(x[0]) + jnp.arccosh(1.0 + x[1]) * x[0] + jnp.arctanh(x[0] * x[1]),
    "roots": lambda x, p: jnp.sqrt(x[0]) + jnp.cbrt(x[1]) * x[0] + jax.lax.rsqrt(x[0] + x[1]),
    "special": lambda x, p: jax.nn.sigmoid(x[0]) + jax.scipy.special.erf(x[1]) * jax.scipy.special.erfc(x[0])
    + jax.scipy.special.erfinv(x[0]) + jax.scipy.special.gammaln(x[1]) + jax.scipy.special.digamma(1.0),
    "kinks": lambda x, p: jnp.abs(x[0] - x[1]) + jnp.maximum(x[0], p[0] * x[1]) ** 2 + jnp.minimum(x[0], 0.5) * x[1]
    + jnp.clip(x[0], 0.3, 0.6) + jnp.fmod(x[0] + x[1], 0.4),
    "steps": lambda x, p: jnp.sign(x[0] - 0.5) * x[1] ** 2 + jnp.floor(3.0 * x[0]) * x[1] + jnp.ceil(x[1]) * x[0],
    "choices": lambda x, p: jnp.where(
        jnp.logical_and(x[0] < 0.7, jnp.logical_not(x[1] >= 0.6)) | (x[0] > 0.8) ^ (x[1] <= 0.2), x[0] ** 2, x[1] * x[0]
    )
    + jnp.where((x[0] == x[1]) | (x[0] != 0.5), jnp.isfinite(x[0]) * x[0], 0.0)
    + jnp.where(jnp.maximum(x[0] > 0.5, x[1] > 0.5), x[0], x[1] ** 2)
    + jnp.where(jnp.minimum(x[0] > 0.3, x[1] > 0.4), x[0] ** 3, x[1]),
    "arrays": lambda x, p: jnp.dot(jnp.stack([x[0], x[1]]), jnp.array([[1.0, 2.0], [3.0, 4.0]])) @ jnp.flip(x.array())
    + jnp.prod(x.array()) + jnp.max(x.array() ** 2) + jnp.sum(jnp.outer(x.array(), x.array())[:, 1:].T),
    "several outputs": lambda x, p: (x[0] * x[1], jnp.float64(2.0), x[0], jnp.sin(x[0]) / p[0]),
    "the same variable": lambda x, p: x[0] * x[1] * jnp.exp(x[0]),
}  # fmt: skip


def both(model):
    """The problem by NumPy, and by XLA."""
    here, there = model.problem(), model.problem()
    there.data = there.structure.data
    return here, there


def assert_equal(model, seed=0):
    here, there = both(model)
    assert here.structure.columns is not None
    rng = np.random.default_rng(seed)
    for _ in range(2):  # what is written once and for all must outlive a call
        x, y = rng.uniform(0.1, 0.9, model.n), rng.normal(size=model.m)
        assert here.f(x) == pytest.approx(there.f(x), rel=1e-12)
        np.testing.assert_allclose(here.c(x), there.c(x), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(here.grad(x), there.grad(x), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(here.jac(x).toarray(), there.jac(x).toarray(), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(here.hess(x, y).toarray(), there.hess(x, y).toarray(), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpy_and_xla_agree(name: str):
    model = Model()
    x, p = model.var(9, name="x"), model.parameter(np.linspace(0.5, 0.9, 8), name="p")
    left, right = (x[:-1], x[:-1]) if name == "the same variable" else (x[:-1], x[1:])
    rows = model.constraint(FUNCTIONS[name], left, right, par=p)
    model.constraint(FUNCTIONS[name], x[0], x[5], par=0.7)
    if rows.ndim == 1:
        model.add(rows[[0, 0, 3]], FUNCTIONS[name], x[[0, 1, 2]], x[[4, 4, 0]], par=p[0])
        model.objective(FUNCTIONS[name], left, right, par=(np.linspace(0.2, 0.9, 8),))
    assert_equal(model)


def test_every_operation_is_tried(monkeypatch):
    used = set()

    def noted(table):
        for name, function in list(table.items()):
            monkeypatch.setitem(table, name, lambda *a, name=name, f=function: (used.add(name), f(*a))[1])

    noted(OPERATIONS)
    noted(TESTS)
    for name, function in FUNCTIONS.items():
        model = Model()
        x = model.var(4)
        model.constraint(function, x[:2], x[2:], par=model.parameter(0.5), name=name)
        problem = model.problem()
        problem.c(np.full(4, 0.3)), problem.jac(np.full(4, 0.3)), problem.hess(np.full(4, 0.3), np.ones(model.m))
    assert set(OPERATIONS) | set(TESTS) == used


def test_long_columns_are_computed_in_blocks(monkeypatch):
    monkeypatch.setattr(columns, "BLOCK", 7)
    model = Model()
    x = model.var(51)
    model.objective(FUNCTIONS["circular"], x[::2], x[::2][::-1], par=0.5)
    model.constraint(FUNCTIONS["choices"], x[1:], x[:-1], par=(np.linspace(0.0, 1.0, 50),))
    assert_equal(model)


def test_what_numpy_has_no_operation_for_is_left_to_xla():
    model = Model()
    x = model.var(3, start=1.0)
    model.objective(lambda x: jax.lax.fori_loop(0, 3, lambda k, v: v * x[0], 1.0) - 3.0 * x[0], x)
    assert model.structure().columns is None
    np.testing.assert_allclose(model.solve().x, 1.0, rtol=1e-6)
    assert model.problem().grad(np.full(3, 2.0)) == pytest.approx([9.0] * 3)


def test_large_arrays_inside_a_function_are_left_to_xla():
    times = np.linspace(0.0, 1.0, 2_000)
    model = Model()
    x = model.var(2, start=1.0, name="x")
    model.objective(lambda v: jnp.sum((v[0] * jnp.exp(-v[1] * times) - 2.0 * np.exp(-3.0 * times)) ** 2), x[0], x[1])
    assert model.problem().structure.columns is None
    np.testing.assert_allclose(model.solve()["x"], [2.0, 3.0], rtol=1e-5)


def test_threads_do_not_share_arrays():
    model = Model()
    x = model.var(2000)
    model.objective(FUNCTIONS["circular"], x[:-1], x[1:], par=0.5)
    model.constraint(FUNCTIONS["exponentials"], x[:-1], x[1:], par=0.5)
    points = np.random.default_rng(0).uniform(0.1, 0.9, (40, 2000))

    def sums(point):
        problem = model.problem()
        return problem.grad(point).sum(), problem.jac(point).data.sum(), problem.hess(point, np.ones(1999)).data.sum()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(sums, points))
    assert found == [sums(point) for point in points]


def test_a_matrix_that_was_returned_is_not_overwritten():
    model = Model()
    x = model.var(3)
    model.objective(lambda x: x[0] ** 3, x)
    model.constraint(lambda x: x[0] ** 2, x)
    problem = model.problem()
    one, two = np.ones(3), np.full(3, 2.0)
    gradient, c, jac, hess = problem.grad(one), problem.c(one), problem.jac(one), problem.hess(one, one)
    problem.grad(two), problem.c(two), problem.jac(two), problem.hess(two, two)
    assert gradient.tolist() == [3.0] * 3
    assert c.tolist() == [1.0] * 3
    assert jac.data.tolist() == [2.0] * 3
    assert hess.data.tolist() == [8.0] * 3


def test_what_is_not_finite_says_nothing():
    """Points of a line search may be anywhere: no warnings (which are errors in these tests)."""
    model = Model()
    x = model.var(2)
    model.objective(lambda x: jnp.log(x[0]) + 1.0 / x[0] + jnp.exp(1e4 * x[0]), x)
    problem = model.problem()
    assert np.isnan(problem.f(np.array([-1.0, 0.0])))
    assert not np.isfinite(problem.grad(np.array([1.0, 0.0]))).any()
