"""Models: derivatives against dense automatic differentiation, shapes, names, parameters and errors."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import auglag  # noqa: E402
from auglag.model import Model  # noqa: E402
from auglag.model.local import dependencies  # noqa: E402
from auglag.model.precision import double  # noqa: E402


def product(x, p):
    return p[0] * x[0] * jnp.sin(x[1]) + x[2] ** 2


def pair(x, p):
    return jnp.stack([x[0] * x[1], p[0] * x[0] - x[2]])


def whole(x):
    """A function that takes its variables as one array."""
    return jnp.sum(x**2) + x[:2] @ x[1:]


FUNCTIONS = {"product": (product, 1, ()), "pair": (pair, 1, (2,)), "whole": (whole, 0, ())}


def dense(model, parts):
    """f and c of a model as plain functions of x, one element after the other."""

    def f(x):
        return sum(fn(x[jnp.asarray(i)], p) if q else fn(x[jnp.asarray(i)]) for fn, q, i, p in parts["f"])

    def c(x):
        rows = jnp.zeros(model.m)
        for fn, q, i, p, r in parts["c"]:
            v = fn(x[jnp.asarray(i)], p) if q else fn(x[jnp.asarray(i)])
            rows = rows.at[jnp.asarray(r)].add(v)
        return rows

    return f, c


def random_model(seed):
    """A model with random terms, whose index arrays repeat variables within and between elements."""
    rng = np.random.default_rng(seed)
    m, parts = Model(), {"f": [], "c": []}
    n = int(rng.integers(1, 6))
    m.var(n)
    for name in rng.choice(list(FUNCTIONS), 4):
        fn, q, output = FUNCTIONS[name]
        size = int(rng.integers(0, 4))
        index = rng.integers(0, n, (3, size))
        values = rng.normal(size=size)
        par = (values,) * q
        kind = rng.integers(3) if m.m else rng.integers(2)
        if output and kind == 0:
            kind = 1
        if kind == 0:
            m.objective(fn, *index, par=par)
            parts["f"] += [(fn, q, index[:, e], values[e : e + 1]) for e in range(size)]
            continue
        if kind == 1:
            rows = np.asarray(m.constraint(fn, *index, par=par))
        else:
            rows = rng.integers(0, m.m, (size, *output))
            m.add(rows, fn, *index, par=par)
        parts["c"] += [(fn, q, index[:, e], values[e : e + 1], rows[e]) for e in range(size)]
    return m, parts, rng


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_derivatives_are_those_of_dense_automatic_differentiation(seed):
    m, parts, rng = random_model(seed)
    problem = m.problem()
    x, y = rng.normal(size=m.n), rng.normal(size=m.m)
    with double():
        f, c = dense(m, parts)
        assert problem.f(x) == pytest.approx(float(f(x)), abs=1e-12)
        np.testing.assert_allclose(problem.c(x), c(x), atol=1e-12)
        if parts["f"]:
            np.testing.assert_allclose(problem.grad(x), jax.grad(f)(x), atol=1e-12)
        np.testing.assert_allclose(problem.jac(x).toarray(), jax.jacfwd(c)(x), atol=1e-12)
        lagrangian = lambda x: f(x) + y @ c(x)  # noqa: E731
        np.testing.assert_allclose(problem.hess(x, y).toarray(), jax.hessian(lagrangian)(x), atol=1e-11)
        v = rng.normal(size=m.n)
        np.testing.assert_allclose(problem.hessp(x, y, v), jax.hessian(lagrangian)(x) @ v, atol=1e-11)


def test_patterns_are_the_same_at_every_point():
    m = Model()
    x = m.var(4)
    m.constraint(lambda x: jnp.where(x[0] > 100.0, x[0] ** 3, jnp.maximum(x[1], 50.0)), x[:-1], x[1:])
    problem = m.problem()
    y = np.ones(3)
    near, far = problem.jac(np.zeros(4)), problem.jac(np.full(4, 200.0))
    assert near.nnz == far.nnz == 6
    np.testing.assert_array_equal(near.indices, far.indices)
    assert problem.hess(np.zeros(4), y).nnz == problem.hess(np.full(4, 200.0), y).nnz == 3
    assert problem.hess(np.full(4, 200.0), y)[0, 0] == pytest.approx(6 * 200.0)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a, b, c: jnp.stack([a + b, c]), [[1, 1, 0], [0, 0, 1]]),
        (lambda a, b, c: jnp.concatenate([jnp.stack([a, b])[::-1], c[None]]), [[0, 1, 0], [1, 0, 0], [0, 0, 1]]),
        (lambda a, b, c: jnp.sum(jnp.stack([a, b])) + jnp.sign(c), [[1, 1, 0]]),
        (lambda a, b, c: jnp.where(c > 0, a, b), [[1, 1, 0]]),
        (lambda a, b, c: jax.nn.relu(b) * jax.nn.sigmoid(c), [[0, 1, 1]]),
        (lambda a, b, c: jnp.linalg.norm(jnp.stack([a, b])), [[1, 1, 0]]),
    ],
)
def test_dependencies_are_found_from_the_operations(function, expected):
    found = dependencies(function, 3, 0)
    wanted = np.array(expected, dtype=bool)
    assert (found | ~wanted).all(), "a dependency was missed"
    if function.__code__.co_names[-1:] != ("None",):
        assert (found >= wanted).all()


def test_linear_rows_are_known_and_terms_added_to_them_count():
    m = Model()
    x = m.var(3)
    rows = m.constraint(lambda x: 2.0 * x[0] - 1.0, x)
    m.add(rows[:2], lambda x: x[0] ** 2, x[1:])
    linear = m.problem().linear()
    np.testing.assert_array_equal(linear.rows, [2])
    np.testing.assert_allclose(linear.matrix.toarray(), [[0, 0, 2]])
    np.testing.assert_allclose(linear.constant, [-1])


KINKED = {
    "the larger": lambda x, p: jnp.maximum(x[0], 2.0 * x[0]),
    "a size": lambda x, p: jnp.abs(x[0] + x[1]),
    "two slopes": lambda x, p: jnp.where(x[0] > 1.0, 2.0 * x[0] - 1.0, x[0]),
    "a jump": lambda x, p: x[0] + jnp.floor(x[1]),
    "a remainder": lambda x, p: x[0] + jnp.fmod(x[1], 1.0),
    "a branch": lambda x, p: jax.lax.cond(x[0] > 1.0, lambda a: 2.0 * a, lambda a: a, x[0]),
    "inside a call": lambda x, p: jax.nn.relu(x[0]),
}
SMOOTH = {
    "a sum": lambda x, p: x[0] - 2.0 * x[1],
    "an array": lambda x, p: jnp.array([1.0, 2.0]) @ x.array(),
    "a parameter's size": lambda x, p: jnp.abs(p[0]) * x[0] + jnp.maximum(p[0], 1.0) * x[1],
    "a parameter's choice": lambda x, p: jnp.where(p[0] > 0.0, x[0], 3.0 * x[1]),
    "inside a call": lambda x, p: jax.jit(lambda a: 2.0 * a)(x[0]) + x[1],
}


@pytest.mark.parametrize(("fn", "linear"), [(f, 0) for f in KINKED.values()] + [(f, 1) for f in SMOOTH.values()])
def test_rows_with_kinks_are_not_linear(fn, linear):
    model = Model()
    x = model.var(2, name="x")
    model.constraint(fn, x[0], x[1], par=1.0)
    assert model.problem().structure.linear_rows().tolist() == [bool(linear)]


def test_a_row_of_two_slopes_is_no_bound():
    model = Model()
    x = model.var(1, ub=1.0, start=0.5, name="x")
    model.objective(lambda x: x[0] ** 2, x)
    model.constraint(lambda x: jnp.where(x[0] > 0.0, 2.0 * x[0] + 1.0, x[0]), x, lb=2.5, ub=9.0)
    solution = model.solve()
    assert solution.success
    np.testing.assert_allclose(solution["x"], [0.75], rtol=1e-6)


def test_shapes_broadcast_and_results_come_back_in_them():
    m = Model()
    x = m.var((3, 2), name="x", lb=0.0, start=0.5)
    t = m.var(name="t", lb=-10.0)
    m.objective(lambda x: x[0], t)
    rows = m.constraint(lambda x, p: x[1] - p[0] * x[0], x, t, par=(np.array([1.0, 2.0]),), lb=0.0, name="above")
    total = m.constraint(lambda x: x[0] - 3.0, x[0, 0], name="total")
    m.add(np.broadcast_to(total, x.ravel()[1:].shape), lambda x: x[0], x.ravel()[1:])
    assert rows.shape == (3, 2)
    assert total.shape == ()
    s = m.solve()
    assert s.success
    assert s["x"].shape == s["above"].shape == (3, 2)
    assert s["t"].shape == ()
    assert s["x"].sum() == pytest.approx(3.0)
    assert s.values["x"][:, 1] * 2 == pytest.approx(float(s["t"]), abs=1e-5)
    assert s.multipliers["above"].sum() == pytest.approx(-1.0, abs=1e-5)  # an active lower side
    np.testing.assert_allclose(s[x[:, 0]], s["x"][:, 0])
    assert s.bound_multipliers["x"].shape == (3, 2)


def test_a_parameter_changes_between_solves_and_a_warm_start_helps():
    m = Model()
    x = m.var(5, name="x")
    target = m.parameter(np.arange(5.0), name="target")
    m.objective(lambda x, p: (x[0] - p[0]) ** 4 + (x[0] - p[0]) ** 2, x, par=(target,))
    m.constraint(lambda x, p: x[0] + x[1] - p[0], x[:1], x[1:2], par=(target[3],))
    first = m.solve()
    assert first["x"][2:] == pytest.approx([2, 3, 4], abs=1e-4)
    assert first["x"][:2].sum() == pytest.approx(3.0)
    again = m.solve(warm_start=first)
    assert again.result.nit_inner == 0
    second = m.solve(par={"target": np.zeros(5)})
    assert np.abs(second["x"]).max() < 1e-4
    m.set(target[4:], [7.0])
    assert m.solve()["x"][4] == pytest.approx(7.0, abs=1e-4)


def test_bounds_starts_and_sides_can_be_changed():
    m = Model()
    x = m.var(2, name="x", lb=0.0)
    rows = m.constraint(lambda x: x[0] + x[1], x[:1], x[1:], lb=1.0, name="sum")
    m.objective(lambda x, p: p[0] * x[0], x, par=([1.0, 2.0],))
    assert m.solve().fun == pytest.approx(1.0)
    m.set("x", ub=[0.25, np.inf])
    assert m.solve().fun == pytest.approx(0.25 + 1.5)
    m.set(rows, lb=2.0, ub=5.0)
    assert m.solve().fun == pytest.approx(0.25 + 3.5)
    m.set(x, start=[0.1, 0.2])
    np.testing.assert_allclose(m.problem().x0, [0.1, 0.2])
    with pytest.raises(auglag.InputError, match=r"lb of 'x' must be at most ub, got 9.0 and 0.25 in entry \(0,\)"):
        m.set(x, lb=9.0)


def test_double_precision_does_not_depend_on_the_setting_of_jax():
    before = jax.config.jax_enable_x64
    m = Model()
    x = m.var(1)
    m.constraint(lambda x: x[0] - 1.0 - 1e-12, x)
    assert m.problem().c(np.ones(1))[0] == pytest.approx(-1e-12, rel=1e-3)
    assert jax.config.jax_enable_x64 == before


def a_model():
    m = Model()
    return m, m.var(4, name="x"), m.parameter(np.ones(4), name="p")


ERRORS = [
    (lambda m, x, p: m.var(4, name="x"), "names must differ, and 'x' is taken"),
    (lambda m, x, p: m.var(-1), "shape must be a nonnegative integer or a tuple of them, got -1"),
    (lambda m, x, p: m.var(3, lb=[1, 2]), r"lb of .* must broadcast to the shape \(3,\), got \(2,\)"),
    (
        lambda m, x, p: m.var(2, lb=1, ub=[2, 0], name="v"),
        r"lb of 'v' must be at most ub, got 1.0 and 0.0 in entry \(1,\)",
    ),
    (lambda m, x, p: m.var(2, start=np.nan), "start of .* must be finite"),
    (
        lambda m, x, p: m.parameter([1.0, np.nan], name="load"),
        "value of parameter 'load' must be finite, got nan in entry 1",
    ),
    (lambda m, x, p: m.set(p, [1.0, 1.0, np.inf, 1.0]), "value of parameter 'p' must be finite, got inf in entry 2"),
    (
        lambda m, x, p: m.var((2, 2), lb=[[0, 0], [np.nan, 0]]),
        r"lb of 'x2' must not contain NaN, got nan in entry \(1, 0\)",
    ),
    (lambda m, x, p: m.objective(lambda z: z["x"], x), r"have numbers, not names, got \['x'\]: x\[0\] is of the first"),
    (lambda m, x, p: m.objective(lambda x: x[0]), "objective 0 needs at least one index array"),
    (lambda m, x, p: m.objective(lambda x: x[0], [4]), r"index array 0 of objective 0 must lie in 0 .. 3, got 4"),
    (
        lambda m, x, p: m.objective(lambda x: x[0], [0.5]),
        "index array 0 of objective 0 must hold integers, got float64",
    ),
    (lambda m, x, p: m.objective(lambda x: x[0], p), "must hold variables, got parameter 'p': pass it in par="),
    (lambda m, x, p: m.objective(lambda x: [x[0], 1.0], x), r"must return a number, got shape \(2,\)"),
    (lambda m, x, p: m.objective(lambda x: "no", x), "must return a number, an array or a tuple of numbers, got 'no'"),
    (lambda m, x, p: m.objective(lambda x: None, x), "must return a number, an array or a tuple of numbers, got None"),
    (lambda m, x, p: m.objective(lambda x: x[0] * 1j, x), "of numbers, got complex numbers"),
    (
        lambda m, x, p: m.objective(lambda x: x[0], x, par=p),
        r"must take the arguments fn\(x, p\), .*too many positional",
    ),
    (lambda m, x, p: m.objective(lambda a, b, c: a, x, x, x), r"must take the arguments fn\(x, p\), .*argument: 'c'"),
    (
        lambda m, x, p: m.objective(lambda x: jax.lax.while_loop(lambda v: v < 9, lambda v: v + x[0], x[0]), x),
        "function of objective 0 must have derivatives of first and second order. JAX says: Reverse-mode",
    ),
    (lambda m, x, p: m.var(2, lb=np.inf, name="v"), "lb of 'v' must leave a finite value, got inf"),
    (lambda m, x, p: m.constraint(lambda x: x[0], x, eq=np.inf, name="r"), "lb of constraint 'r' must leave a finite"),
    (lambda m, x, p: m.set(x, ub=-np.inf), "ub of 'x' must leave a finite value, got -inf"),
    (lambda m, x, p: Model().objective(lambda x: x[0], x), "index array 0 of objective 0 must be of this model"),
    (lambda m, x, p: a_model()[0].objective(lambda x: x[0], x[1:]), "index array 0 of objective 0 must be of this"),
    (lambda m, x, p: m.objective(lambda x, p: x[0], x, par=a_model()[2]), "par 0 of objective 0 must be of this model"),
    (lambda m, x, p: a_model()[0].set(p, 2.0), "what is set must be of this model, got one of another model"),
    (
        lambda m, x, p: m.add(a_model()[0].constraint(lambda x: x[0], [0]), lambda x: x[0], x[:1]),
        "rows of term 0 must be of this model, got one of another model",
    ),
    (lambda m, x, p: m.add(x, lambda x: x[0], x), "rows of term 0 must be what constraint returned, .* got variables"),
    (
        lambda m, x, p: m.objective(lambda x, p: x[0] * p[0], x, par=(x,)),
        r"par\[0\] of objective 0 must be numbers or a parameter, got variables: pass them as an index array",
    ),
    (
        lambda m, x, p: m.constraint(lambda x: x[0] + x[1], x[:2], x[:3], name="s"),
        r"of constraint 's' must have shapes that broadcast, got \(2,\), \(3,\)",
    ),
    (lambda m, x, p: m.constraint(lambda x: x[0], x, lb=1, eq=1), "takes either eq or lb and ub, got both"),
    (lambda m, x, p: m.constraint(lambda x, p: x[0], x, par=(np.inf,)), r"par\[0\] of .* must be finite, got inf"),
    (lambda m, x, p: m.add([0], lambda x: x[0], x[:1]), r"rows of term 0 must be those of a constraint .* got 0"),
    (
        lambda m, x, p: m.add(m.constraint(lambda x: x[0], x), lambda x: x[0], x[:1]),
        r"must have the shape \(1,\) of its index arrays, got \(4,\)",
    ),
    (lambda m, x, p: m.objective(lambda x: x[0], m.constraint(lambda x: x[0], x)), "must hold variables, got rows"),
    (lambda m, x, p: np.asarray(p), "parameter 'p' may change"),
    (lambda m, x, p: m.set("q", 1.0), "the model has no 'q'; it has p, x"),
    (lambda m, x, p: m.set(p), "a parameter takes a value and nothing else"),
    (lambda m, x, p: Model().problem(), "a model needs variables"),
    (lambda m, x, p: m.solve()["nothing"], "no variables or rows 'nothing'; it has x"),
    (lambda m, x, p: m.var(2, lb="0"), "lb of 'x2' must be numbers, got '0'"),
    (lambda m, x, p: m.parameter(["1", "2"]), "value of parameter .* must be numbers, got"),
    (
        lambda m, x, p: m.objective(lambda x, p: x[0], x, par="3"),
        r"par\[0\] of .* must be numbers or a parameter, got '3'",
    ),
    (lambda m, x, p: m.var(2, lower=0.0), r"var\(\) has no argument 'lower'; known: lb, name, shape, start, ub"),
    (lambda m, x, p: m.constraint(lambda x: x[0], x, nme="r"), "no argument .nme.; did you mean .name."),
    (lambda m, x, p: m.solve_batch(par={}, warmstart=1), "batch.. has no argument .* mean .warm_start."),
    (lambda m, x, p: m.solve(device="cpu", warmstart=1), "has no argument 'warmstart'; did you mean 'warm_start'"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[message[:40] for _, message in ERRORS])
def test_errors_name_the_term_the_demand_and_the_value(call, message):
    with pytest.raises((auglag.InputError, auglag.OptionError, TypeError), match=message):
        call(*a_model())


def test_entries_have_the_names_that_a_user_writes():
    m = Model()
    charge, t = m.var((3, 2), lb=0.0, ub=10.0, name="charge"), m.var(name="t")
    m.constraint(lambda x: x[0], charge, ub=20.0, name="cap")
    m.constraint(lambda x: x[0], charge[1], eq=[5.0, 50.0], name="end")
    m.objective(lambda x: x[0] ** 2, t)
    problem = m.problem()
    assert [problem.variable_name(j) for j in (0, 5, 6)] == ["charge[0, 0]", "charge[2, 1]", "t"]
    assert [problem.row_name(i) for i in (3, 7)] == ["cap[1, 1]", "end[1]"]
    found = m.solve()
    assert found.status is auglag.Status.INFEASIBLE
    assert "end[1] and the bounds exclude each other: charge[1, 1] >= 50 and <= 10" in found.message


def test_an_exception_of_a_function_names_its_term():
    m, x, _ = a_model()
    with pytest.raises(ValueError, match="unpack") as caught:
        m.constraint(lambda x: sum(a * b for a, b in [x]), x, name="next")
    assert "constraint 'next', called with 1 variables" in " ".join(caught.value.__notes__)


def test_a_function_of_two_variables_is_told_how_it_is_called():
    m, x, _ = a_model()
    with pytest.raises(TypeError, match="incompatible shapes") as caught:
        m.objective(lambda a, b: a * b, x, x)
    assert "as fn(x, p), where x[0], x[1], ... are the variables" in " ".join(caught.value.__notes__)


def test_local_variables_go_into_functions_of_arrays():
    m = Model()
    x = m.var((3, 2), start=[0.5, 0.25])
    m.objective(lambda x: jnp.sum(x) ** 2 + jnp.linalg.norm(jnp.asarray(x)) ** 2, *x.T)
    assert m.problem().f(m.problem().x0) == pytest.approx(3 * (0.75**2 + 0.25 + 0.0625))


def test_no_bound_may_be_said_as_none():
    m = Model()
    x = m.var(2, lb=None, ub=None, start=3.0)
    m.objective(lambda x: (x[0] - 1.0) ** 2, x)
    np.testing.assert_allclose(m.solve().x, 1.0)


def test_a_copy_of_a_model_takes_the_variables_of_its_original():
    m, x, p = a_model()
    other = copy.deepcopy(m)
    other.objective(lambda x, p: (x[0] - p[0]) ** 2, x, par=p)
    other.set(p, 2.0)
    np.testing.assert_allclose(other.solve().x, 2.0)
    assert m.problem().par.tolist() == [1.0] * 4


@pytest.mark.parametrize("device", [None, "cpu"])
def test_parameters_of_a_solve_are_for_that_solve_alone(device):
    m, x, p = a_model()
    m.objective(lambda x, p: (x[0] - p[0]) ** 2, x, par=p)
    np.testing.assert_allclose(m.solve(device=device, par={"p": 3.0}).x, 3.0)
    np.testing.assert_allclose(m.solve(device=device).x, 1.0)
    with pytest.raises(auglag.InputError, match="has no 'q'"):
        m.solve(device=device, par={"p": 3.0, "q": 1.0})
    assert m.problem().par.tolist() == [1.0] * 4


def test_functions_of_numpy_are_named_with_what_to_write():
    m = Model()
    x = m.var(2)
    functions = [
        lambda v: np.sin(v[0]),
        lambda v: np.sin(v),
        lambda v: math.sin(v[0]),
        lambda v: v[0] if v[0] > 0 else 0.0,
        lambda v: max(v[0], 0.0),
        lambda v: v[0] * float(v[0]),
        lambda v: jnp.sum(jnp.stack(v)[jnp.stack(v) > 0.0]),
    ]
    for fn in functions:
        with pytest.raises(auglag.InputError) as caught:
            m.objective(fn, x, name="bowl")
        for part in ("objective 'bowl', called with 1 variables", "use jax.numpy (jnp.sin)", "jnp.where instead of if"):
            assert part in str(caught.value)
        assert caught.value.__cause__ is not None  # which has the line of the function


def test_entries_that_are_not_there_are_named():
    m, x, p = a_model()
    for fn in (lambda x, p: x[5], lambda x, p: x[0] + x[1] + p[1]):
        message = "constraint 'pair', called with 2 variables and 1 parameters, must take entries that are there"
        with pytest.raises(auglag.InputError, match=message):
            m.constraint(fn, x, x, par=(p,), name="pair")


def two_goals():
    m = Model()
    x = m.var(2, name="x")
    goal = m.parameter([1.0, 2.0], name="goal")
    m.objective(lambda x, p: (x[0] - p[0]) ** 2, x, par=(goal,))
    return m, goal


@pytest.mark.parametrize("value", [[[3.0], [4.0]], [3.0], [[3.0, 4.0]], [3.0, 4.0, 5.0]])
def test_values_of_parameters_have_their_shape(value):
    m, goal = two_goals()
    before = m.problem().par
    message = r"parameter 'goal' must have the shape \(2,\), got " + re.escape(str(np.shape(value)))
    for call in (lambda: m.set(goal, value), lambda: m.set("goal", value), lambda: m.solve(par={"goal": value})):
        with pytest.raises(auglag.InputError, match=message):
            call()
    np.testing.assert_array_equal(m.problem().par, before)


@pytest.mark.parametrize("value", [[[0.1], [0.2]], [0.1, 0.2], [[[0.1, 0.2]], [[0.3, 0.4]]]])
def test_batches_of_parameters_have_their_shape(value):
    m, _ = two_goals()
    shapes = r"must have the shape \(2, 2\), got " + re.escape(str(np.shape(value)))
    with pytest.raises(auglag.InputError, match="batch of values of parameter 'goal' " + shapes):
        m.solve_batch(par={"goal": value})


def test_one_number_is_for_all_entries_and_ragged_lists_are_no_numbers():
    m, goal = two_goals()
    m.set(goal, 3.0)
    np.testing.assert_array_equal(m.problem().par, [3.0, 3.0])
    m.set(goal[1], 4.0)
    np.testing.assert_array_equal(m.problem().par, [3.0, 4.0])
    for call in (lambda: m.set(goal, [[1.0], [1.0, 2.0]]), lambda: m.parameter([[1.0], [1.0, 2.0]])):
        with pytest.raises(auglag.InputError, match="must be numbers"):
            call()


def test_a_solution_explains_itself():
    m, _ = two_goals()
    solution = m.solve()
    assert solution.explain() == solution.result.explain()
    assert "inner solver" in solution.explain()


def test_parameters_that_are_no_mapping_are_refused():
    m = Model()
    m.objective(lambda x, p: (x[0] - p[0]) ** 2, m.var(2), par=(m.parameter(1.0, name="goal"),))
    for call in (m.solve, m.solve_batch):
        with pytest.raises(auglag.InputError, match="par must be a mapping of names to values, got list"):
            call(par=[1.0])


def test_a_printed_solution_is_a_summary():
    m = Model()
    x = m.var(2000, name="x", lb=1.0)
    m.constraint(lambda v: v[0] + v[1], x[:-1], x[1:], lb=1.0, name="pairs")
    m.objective(lambda v: v[0] ** 2, x)
    text = str(m.solve())
    for part in ("SOLVED (0)", "x (2000,)", "pairs (1999,)"):
        assert part in text
    assert len(text.splitlines()) == 7


def test_a_printed_batch_is_a_summary():
    m = Model()
    p = m.parameter(np.zeros(100), name="goal")
    m.objective(lambda x, p: (x[0] - p[0]) ** 2, m.var(100, name="x", ub=1.0), par=(p,))
    text = str(m.solve_batch(par={"goal": np.linspace(0.0, 2.0, 300).reshape(3, 100)}))
    for part in ("3 members", "3 SOLVED (100 %)", "steps: median", "alone: 0", "x (3, 100)"):
        assert part in text
    assert len(text.splitlines()) == 7


@pytest.mark.parametrize("n", [4, 20])
def test_a_model_that_starts_in_a_corner_of_its_bounds_where_it_is_undefined_is_solved(n):
    m = Model()
    x = m.var(n, lb=0)
    m.objective(lambda x: x[0] - jnp.log(x[0]), x)
    solution = m.solve()
    assert solution.success, solution.explain()
    np.testing.assert_allclose(solution.x, 1.0, atol=1e-5)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda x: x[1:] - x[:-1],
        lambda x: x[1] - x[0],
        lambda x: 2 * x[:2],
        lambda x: x[0] + 1,
        lambda x: x**2,
        lambda x: x / 2,
        lambda x: -x,
        lambda x: sum(x),
        lambda x: np.sum(x),
        lambda x: x @ x,
        lambda x: np.sin(x),
        lambda x: np.diff(x),
        lambda x: x <= 1.0,
        lambda x: x[0] > x[1],
    ],
)
def test_positions_are_not_taken_for_values(mistake: Callable[..., object]) -> None:
    _, x, _ = a_model()
    with pytest.raises(
        auglag.InputError, match=r"holds positions of variables, not values, .* compute inside the function"
    ):
        mistake(x)


def test_positions_can_be_picked_joined_and_told_apart() -> None:
    m, x, _ = a_model()
    k = np.arange(3)
    picked = [
        x[k + 1],
        x[::-1],
        np.roll(x, 1),
        np.append(x, x),
        x[x != x[2]],
        np.unique(x[[1, 1, 0]]),
        x.reshape(2, -1).T,
    ]
    assert [np.asarray(part).ravel().tolist() for part in picked] == [
        [1, 2, 3], [3, 2, 1, 0], [3, 0, 1, 2], [0, 1, 2, 3] * 2, [0, 1, 3], [0, 1], [0, 2, 1, 3]
    ]  # fmt: skip
    assert x.max() == 3
    assert np.isin(x, x[:2]).tolist() == [True, True, False, False]
    assert {part: int(part) for part in x} == {0: 0, 1: 1, 2: 2, 3: 3}
    assert "abcd"[x[2]] == "c"
    rows = m.constraint(lambda x: x[0] - x[1], list(x)[1:], x[0], name="steps")
    assert rows.shape == (3,)
    assert rows[1].owner == x.owner
    with pytest.raises(auglag.InputError, match="'steps' holds positions of rows"):
        rows + 1
