"""Values and derivatives of `.nl` files: every operator, both forms, shared and deep expressions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from auglag.problems.nl import NlProblem, load
from auglag.problems.nl.reader import parse
from helpers.nl import binary, nl_text


def problem(text: bytes) -> NlProblem:
    return NlProblem(parse(text, "test.nl"), name="test")


def square(x: float) -> float:
    return x * x


# lines, the same in Python, a point
UNARY = {
    "o13": math.floor,
    "o14": math.ceil,
    "o15": abs,
    "o16": lambda x: -x,
    "o37": math.tanh,
    "o38": math.tan,
    "o39": math.sqrt,
    "o40": math.sinh,
    "o41": math.sin,
    "o42": math.log10,
    "o43": math.log,
    "o44": math.exp,
    "o45": math.cosh,
    "o46": math.cos,
    "o47": math.atanh,
    "o49": math.atan,
    "o50": math.asinh,
    "o51": math.asin,
    "o53": math.acos,
    "o77": square,
}
V, W, X = "v0", "v1", "v2"
EXPRESSIONS = {
    **{code: ([code, V], lambda x, f=f: f(x[0])) for code, f in UNARY.items()},
    "acosh": (["o52", "o0", "n1", V], lambda x: math.acosh(1 + x[0])),
    "plus": (["o0", V, W], lambda x: x[0] + x[1]),
    "minus": (["o1", V, W], lambda x: x[0] - x[1]),
    "times": (["o2", V, W], lambda x: x[0] * x[1]),
    "times twice": (["o2", "o2", "n3", V, "o2", V, "o0", W, "n1"], lambda x: 3 * x[0] ** 2 * (x[1] + 1)),
    "divide": (["o3", V, W], lambda x: x[0] / x[1]),
    "constant over": (["o3", "n2", W], lambda x: 2 / x[1]),
    "over constant": (["o3", V, "n4"], lambda x: x[0] / 4),
    "mod": (["o4", V, "n0.4"], lambda x: math.fmod(x[0], 0.4)),
    "power": (["o5", V, W], lambda x: x[0] ** x[1]),
    "constant power": (["o5", V, "n2.5"], lambda x: x[0] ** 2.5),
    "cube": (["o76", V, "n3"], lambda x: x[0] ** 3),
    "root": (["o5", V, "n0.5"], lambda x: x[0] ** 0.5),
    "inverse": (["o5", V, "n-1"], lambda x: 1 / x[0]),
    "constant base": (["o78", "n3", V], lambda x: 3 ** x[0]),
    "less": (["o6", W, V], lambda x: max(x[1] - x[0], 0)),
    "min": (["o11", "3", V, W, "n0.9"], lambda x: min(x[0], x[1], 0.9)),
    "max": (["o12", "4", V, "o2", V, W, X, "n-9"], lambda x: max(x[0], x[0] * x[1], x[2])),
    "atan2": (["o48", V, W], lambda x: math.atan2(x[0], x[1])),
    "sum": (["o54", "3", V, "o2", V, X, "s-7"], lambda x: x[0] + x[0] * x[2] - 7),
    "if": (["o35", "o22", V, W, "o2", V, V, "o44", W], lambda x: x[0] ** 2 if x[0] < x[1] else math.exp(x[1])),
    "if not": (["o35", "o34", "o22", V, W, V, "o44", W], lambda x: x[0] if not x[0] < x[1] else math.exp(x[1])),
    "and": (["o35", "o21", "o23", V, W, "o28", V, X, V, W], lambda x: x[0] if x[2] <= x[0] <= x[1] else x[1]),
    "all": (["o35", "o70", "3", "o29", V, "n0", "o30", V, W, "o24", X, X, V, W], lambda x: x[0]),
    "any": (["o35", "o71", "3", "o29", "n0", V, "o20", "o22", W, V, "n0", "n0", V, W], lambda x: x[1]),
    "count": (["o2", V, "o59", "3", "o22", V, W, "o29", V, W, "o29", V, "n0"], lambda x: 2 * x[0]),
    "div": (["o55", W, V], lambda x: math.trunc(x[1] / x[0])),
    "round": (["o57", V, "n1"], lambda x: round(x[0], 1)),
    "piecewise": (["o64", "3", "n-1", "n0.25", "n2", "n0.5", "n3", V], lambda x: -0.25 + 2 * 0.25 + 3 * (x[0] - 0.5)),
    "piecewise left of 0": (["o64", "2", "n-1", "n-5", "n2", "o16", V], lambda x: -2 * x[0]),
    "nested": (
        ["o41", "o2", "o0", V, "o44", "o2", W, X, "o5", "o1", X, V, "n2"],
        lambda x: math.sin((x[0] + math.exp(x[1] * x[2])) * (x[2] - x[0]) ** 2),
    ),
}
POINT = np.array([0.61, 1.37, 0.28])


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("form", ["text", "little", "big"])
def test_an_expression_has_the_value_and_the_derivatives_of_its_function(name, form):
    lines, function = EXPRESSIONS[name]
    text = nl_text(3, objective=lines, gradient=[(2, 0.5)], rows=[lines], jacobian=[[(0, 2.0)]])
    given = problem(text if form == "text" else binary(text, "<" if form == "little" else ">"))
    assert given.f(POINT) == pytest.approx(function(POINT) + 0.5 * POINT[2], rel=1e-14)
    assert given.c(POINT) == pytest.approx([function(POINT) + 2 * POINT[0]], rel=1e-14)
    gradient = approx_fprime(POINT, lambda x: np.array([given.f(x), given.c(x)[0]]), 1e-7)
    np.testing.assert_allclose(given.grad(POINT), gradient[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(given.jac(POINT).toarray(), gradient[1:], rtol=1e-5, atol=1e-5)
    y = np.array([-0.7])
    hessian = approx_fprime(POINT, lambda x: given.grad(x) + given.jac(x).T @ y, 1e-7)
    np.testing.assert_allclose(given.hess(POINT, y).toarray(), hessian, rtol=1e-5, atol=2e-5)
    v = np.array([0.3, -1.0, 2.0])
    np.testing.assert_allclose(given.hessp(POINT, y, v), given.hess(POINT, y) @ v, rtol=1e-12, atol=1e-12)
    second, at, weights = given._weighted(POINT, y)  # the way that needs no entries of the Hessian
    np.testing.assert_allclose(second.product(at.arguments, weights, v), hessian @ v, rtol=1e-4, atol=1e-4)


def test_defined_variables_are_shared_and_evaluated_once():
    shared = [([(0, 2.0)], ["o2", "v0", "v1"]), ([], ["o44", "v3"]), ([], ["o2", "v4", "v3"])]
    text = nl_text(3, objective=["o5", "v4", "n2"], rows=[["o41", "v5"], ["o2", "v2", "v4"], ["v3"]], defined=shared)
    given = problem(text)
    x = np.array([0.3, -0.5, 1.2])
    v3 = 0.3 * -0.5 + 0.6
    v4 = math.exp(v3)
    assert given.f(x) == pytest.approx(v4**2)
    assert given.c(x) == pytest.approx([math.sin(v4 * v3), 1.2 * v4, v3])
    assert sum(group.stop - group.start for group in given._tape.groups) == 3 + 1 + 3 + 4  # V: 4, others 3, roots 4
    y = np.array([1.0, -2.0, 0.5])
    both = approx_fprime(x, lambda x: np.append(given.c(x), given.f(x)), 1e-7)
    np.testing.assert_allclose(given.jac(x).toarray(), both[:3], atol=1e-5)
    np.testing.assert_allclose(given.grad(x), both[3], atol=1e-5)
    hessian = approx_fprime(x, lambda x: given.grad(x) + given.jac(x).T @ y, 1e-7)
    np.testing.assert_allclose(given.hess(x, y).toarray(), hessian, atol=1e-5)


def test_a_chain_of_defined_variables_that_doubles_costs_no_more_than_its_length():
    chain = [([], ["o0", "v0", "v1"])] + [([], ["o0", f"v{k}", f"v{k}"]) for k in range(2, 62)]
    given = problem(nl_text(2, objective=["o41", "v62"], defined=chain))
    x = np.array([1e-18, 2e-19])
    assert given.f(x) == pytest.approx(math.sin(2.0**60 * 1.2e-18), rel=1e-12)
    np.testing.assert_allclose(given.grad(x), 2.0**60 * math.cos(2.0**60 * 1.2e-18), rtol=1e-12)
    assert given.has_hessp


@pytest.mark.parametrize("lines", [["o0", "v0"], ["o41"], ["o2", "n0.5", "o0", "v1"], ["o5", "v0"]])
def test_depth_is_no_limit(lines):
    depth = 3000
    given = problem(nl_text(2, objective=lines * depth + ["v1"]))
    x = np.array([0.999, 0.5])
    assert np.isfinite(given.f(x))
    assert np.isfinite(given.grad(x)).all()
    expected = {1: None, 2: 0.5 + depth * 0.999, 4: 1.0}[len(lines)]
    if expected is not None and lines[0] != "o5":
        assert given.f(x) == pytest.approx(expected if lines[0] == "o0" else 0.5)


def test_a_branch_that_is_not_taken_may_be_undefined():
    given = problem(nl_text(1, objective=["o35", "o29", "v0", "n0", "o43", "v0", "o2", "v0", "v0"]))
    x = np.array([-2.0])
    assert given.f(x) == 4.0
    assert given.grad(x) == pytest.approx([-4.0])
    assert given.hess(x, np.zeros(0)).toarray() == pytest.approx(2.0)
    second, at, weights = given._weighted(x, np.zeros(0))
    assert second.product(at.arguments, weights, np.ones(1)) == pytest.approx(2.0)


def test_a_branch_that_is_not_taken_may_be_undefined_below_another_function():
    root = ["o35", "o29", "v0", "n0", "o2", "o39", "v0", "o44", "o43", "v0", "o5", "v0", "n3"]
    given = problem(nl_text(2, objective=["o41", *root], rows=[["o2", "v1", *root]]))
    x, y, v = np.array([-0.5, 2.0]), np.array([1.5]), np.array([1.0, -1.0])
    inside, slope, bend = -0.125, 0.75, -3.0
    first = math.cos(inside) * slope + y[0] * 2.0 * slope
    second = -math.sin(inside) * slope**2 + math.cos(inside) * bend + y[0] * 2.0 * bend
    assert (given.grad(x) + given.jac(x).T @ y)[0] == pytest.approx(first)
    expected = np.array([[second, y[0] * slope], [y[0] * slope, 0.0]])
    np.testing.assert_allclose(given.hess(x, y).toarray(), expected, rtol=1e-12)
    parts = given._weighted(x, y)
    np.testing.assert_allclose(parts[0].product(parts[1].arguments, parts[2], v), expected @ v, rtol=1e-12)


def test_a_function_that_is_not_defined_is_not_a_number_and_raises_nothing():
    given = problem(nl_text(1, objective=["o43", "v0"], rows=[["o39", "v0"], ["o3", "n1", "v0"]]))
    assert math.isnan(given.f(np.array([-1.0])))
    assert math.isnan(given.c(np.array([-1.0]))[0])
    assert np.isinf(given.c(np.array([0.0]))[1])


def test_patterns_do_not_change_and_have_no_more_than_what_can_be_nonzero():
    n = 50
    rows = [["o2", f"v{i}", f"v{i + 1}"] for i in range(n - 1)]
    given = problem(nl_text(n, objective=["o5", "v0", "n4"], rows=rows))
    rng = np.random.default_rng(0)
    first, zero = rng.standard_normal(n), np.zeros(n)
    y = rng.standard_normal(n - 1)
    for x, w in ((first, y), (zero, 0 * y)):
        assert given.jac(x).nnz == 2 * (n - 1)
        assert given.hess(x, w).nnz == 2 * (n - 1) + 1
        np.testing.assert_array_equal(given.hess(x, w).indices, given.hess(first, y).indices)


def test_a_dense_hessian_that_is_too_large_to_assemble_still_has_products():
    n = 6000
    given = problem(nl_text(n, objective=["o5", "o54", str(n), *[f"v{j}" for j in range(n)], "n2"]))
    assert given.has_hessp
    assert not given.has_hess
    v = np.linspace(0, 1, n)
    np.testing.assert_allclose(given.hessp(np.ones(n), np.zeros(0), v), 2 * v.sum(), rtol=1e-12)
    with pytest.raises(ValueError, match=r"a Hessian must need at most \d+ products .* use hessp"):
        given.hess(np.ones(n), np.zeros(0))


def test_a_hessian_beyond_what_is_kept_is_assembled_in_chunks(monkeypatch):
    monkeypatch.setattr("auglag.problems.nl.second_order.KEPT", 7)
    lines = ["o5", "o54", "3", "v0", "v1", "v2", "n3"]
    given = problem(nl_text(3, objective=lines, rows=[["o2", "v0", "v2"]]))
    expected = 6 * 3.0 * np.ones((3, 3))
    expected[0, 2] += 5
    expected[2, 0] += 5
    np.testing.assert_allclose(given.hess(np.ones(3), np.array([5.0])).toarray(), expected)


def test_a_linear_model_and_an_empty_row_have_derivatives_too():
    given = problem(nl_text(2, gradient=[(0, 3.0)], rows=[["n2"], ["n0"]], jacobian=[[], [(0, 1.0), (1, -1.0)]]))
    x, y = np.array([5.0, 7.0]), np.array([2.0, 3.0])
    assert given.f(x) == 15.0
    np.testing.assert_array_equal(given.c(x), [2.0, -2.0])
    np.testing.assert_array_equal(given.jac(x).toarray(), [[0, 0], [1, -1]])
    np.testing.assert_array_equal(given.at(x).vjp(y), [3, -3])
    np.testing.assert_array_equal(given.hessp(x, y, x), [0, 0])
    assert given.hess(x, y).nnz == 0
    empty = problem(nl_text(1, rows=[["n2"]]))
    np.testing.assert_array_equal(empty.at(x[:1]).vjp(y[:1]), [0.0])
    np.testing.assert_array_equal(empty.grad(x[:1]), [0.0])


def test_a_maximisation_is_the_minimisation_of_its_negative(tmp_path):
    path = tmp_path / "max.nl"
    path.write_bytes(nl_text(2, objective=["o2", "v0", "v1"], gradient=[(0, 3.0)], sense=1))
    given = load(path)
    assert given.maximise
    assert given.f(np.array([2.0, 5.0])) == -16.0
    assert given.grad(np.array([2.0, 5.0])) == pytest.approx([-8.0, -2.0])
    assert load(path, objective=None).f(np.array([2.0, 5.0])) == 0.0


def test_bounds_sides_start_and_names_are_read(tmp_path):
    path = tmp_path / "model.nl"
    path.write_bytes(
        nl_text(
            5,
            rows=[["v0"]] * 3,
            sides=["0 -1 2", "4 7", "1 3e20"],
            bounds=["0 -1 1", "1 2", "2 3", "4 5", "2 -1e25"],
            x0=[1.5, 2, 3, 4, 5],
            integer=2,
        )
    )
    (tmp_path / "model.row").write_text("mass\nheat\npower\n")
    given = load(path)
    np.testing.assert_array_equal(given.lower, [-1, -np.inf, 3, 5, -np.inf])
    np.testing.assert_array_equal(given.upper, [1, 2, np.inf, 5, np.inf])
    np.testing.assert_array_equal(given.cl, [-1, 7, -np.inf])
    np.testing.assert_array_equal(given.cu, [2, 7, np.inf])
    np.testing.assert_array_equal(given.x0, [1.5, 2, 3, 4, 5])
    np.testing.assert_array_equal(given.integer_variables, [3, 4])
    assert (given.row_name(1), given.variable_name(1)) == ("heat", "x[1]")


def test_casadi_reads_the_same_values_and_derivatives_from_a_file(tmp_path):
    casadi = pytest.importorskip("casadi")
    path = tmp_path / "model.nl"
    lines = ["o0", "o2", "v3", "o41", "v1", "o3", "o44", "v2", "o0", "v3", "n3"]
    rows = [["o2", "o2", "v0", "v1", "v2"], ["o5", "v3", "n3"], ["o39", "o0", "o5", "v3", "n2", "n1"]]
    path.write_bytes(nl_text(3, objective=lines, rows=rows, defined=[([(2, 1.5)], ["o2", "v0", "v2"])]))
    builder = casadi.NlpBuilder()
    builder.import_nl(str(path))
    x, f, g = casadi.vertcat(*builder.x), builder.f, casadi.vertcat(*builder.g)
    y = type(x).sym("y", 3)
    hessian = casadi.hessian(f + casadi.dot(y, g), x)[0]
    theirs = casadi.Function("all", [x, y], [f, g, casadi.gradient(f, x), casadi.jacobian(g, x), hessian])
    ours, rng = load(path), np.random.default_rng(1)
    for _ in range(5):
        at, w = rng.uniform(0.2, 2, 3), rng.standard_normal(3)
        mine = [ours.f(at), ours.c(at), ours.grad(at), ours.jac(at).toarray(), ours.hess(at, w).toarray()]
        for a, b in zip(mine, theirs(at, w), strict=True):
            np.testing.assert_allclose(a, np.squeeze(casadi.DM(b).full()), rtol=1e-12, atol=1e-12)
