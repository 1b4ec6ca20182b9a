"""CasADi's dictionaries: the answer of its own IPOPT, in its shapes and signs."""

from __future__ import annotations

import numpy as np
import pytest

casadi = pytest.importorskip("casadi")

import auglag.casadi  # noqa: E402
from auglag.casadi import CasadiProblem, solve  # noqa: E402
from auglag.errors import InputError, OptionError  # noqa: E402
from auglag.problems.presolve import reduction  # noqa: E402


def hs71(kind):
    x, p = kind.sym("x", 4), kind.sym("p", 2)
    g = casadi.vertcat(x[0] * x[1] * x[2] * x[3], casadi.sumsqr(x) - p[0])
    return {"x": x, "p": p, "f": x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2] * p[1], "g": g}


COLUMN = casadi.SX.sym("x", 2)
ARGUMENTS = {"x0": [1, 5, 5, 1], "lbx": 1, "ubx": 5, "lbg": [25, 0], "ubg": [np.inf, 0], "p": [40, 1]}


@pytest.mark.parametrize("kind", [casadi.SX, casadi.MX])
def test_outputs_have_the_values_shapes_and_signs_of_ipopt(kind):
    ours = solve(hs71(kind), **ARGUMENTS, tol=1e-8)
    quiet = {"ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": False, "ipopt.tol": 1e-10}
    theirs = casadi.nlpsol("solver", "ipopt", hs71(kind), quiet)(**ARGUMENTS)
    assert ours["result"].success
    for name, value in theirs.items():
        assert ours[name].shape == value.shape
        np.testing.assert_allclose(ours[name].full(), value.full(), atol=1e-6)


@pytest.mark.parametrize("kind", [casadi.SX, casadi.MX])
def test_derivatives_are_sparse_and_exact(kind):
    n = 30
    x = kind.sym("x", n)
    f = casadi.sum1((x[1:] - x[:-1] ** 2) ** 2)
    given = CasadiProblem({"x": x, "f": f, "g": x[1:] * x[:-1]}, x0=0.5)
    rng = np.random.default_rng(0)
    at, y, v = rng.standard_normal(n), rng.standard_normal(n - 1), rng.standard_normal(n)
    expected = np.zeros((n - 1, n))
    expected[np.arange(n - 1), np.arange(n - 1)], expected[np.arange(n - 1), np.arange(1, n)] = at[1:], at[:-1]
    np.testing.assert_allclose(given.jac(at).toarray(), expected)
    assert given.jac(at).nnz == 2 * (n - 1)
    assert given.has_hess
    hessian = given.hess(at, y)
    assert hessian.nnz == 3 * n - 2
    h = 1e-6

    def slope(x):
        return given.grad(x) + given.jac(x).T @ y

    difference = (slope(at + h * v) - slope(at - h * v)) / (2 * h)
    np.testing.assert_allclose(hessian @ v, difference, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(given.hessp(at, y, v), hessian @ v)


def test_a_problem_without_constraints_and_parameters_and_one_without_objective():
    x = casadi.SX.sym("x", 2)
    found = solve({"x": x, "f": casadi.sumsqr(x - 1)}, ubx=0.5)
    np.testing.assert_allclose(found["x"].full().ravel(), 0.5)
    np.testing.assert_allclose(found["lam_x"].full().ravel(), 1.0)
    assert found["g"].shape == found["lam_g"].shape == found["lam_p"].shape == (0, 1)
    found = solve({"x": x, "g": x[0] * x[1]}, x0=[1, 2], lbg=6, ubg=6)
    assert float(found["g"]) == pytest.approx(6, abs=1e-6)


def test_a_warm_start_from_the_answer_takes_no_iteration():
    first = solve(hs71(casadi.SX), **ARGUMENTS)
    again = solve(hs71(casadi.SX), **(ARGUMENTS | {"x0": first["x"]}), lam_g0=first["lam_g"])
    assert again["result"].nit == 0
    assert again["result"].success


@pytest.mark.parametrize(
    ("nlp", "arguments", "message"),
    [
        ({"f": 1}, {}, r"nlp must be a dictionary with 'x' and some of 'f', 'g', 'p', got \['f'\]"),
        ({"x": 3.0}, {}, r"nlp\['x'\] must be a column of SX or MX symbols"),
        ({"x": casadi.SX.sym("x", 2, 2)}, {}, r"nlp\['x'\] must be a column"),
        ({"x": COLUMN, "f": COLUMN}, {}, r"nlp\['f'\] must be a scalar"),
        (hs71(casadi.SX), {"x0": [1, 2]}, "x0 must be a number or 4 numbers, got 2"),
        (hs71(casadi.SX), {"lbx": "a"}, "lbx must be a number or 4 numbers, got 'a'"),
        (hs71(casadi.SX), {"lbg": np.nan}, "lbg must not contain NaN"),
        (hs71(casadi.SX), {"lbx": np.inf}, r"lbx must be below inf and ubx above -inf, got inf and inf in entry 0"),
        (hs71(casadi.SX), {"ubg": -np.inf, "lbg": -np.inf}, "lbg must be below inf and ubg above -inf"),
        (hs71(casadi.SX), {"lbx": 2, "ubx": 1}, r"lbx must be at most ubx, got 2.0 and 1.0 in entry 0"),
    ],
)
def test_bad_arguments_are_named(nlp, arguments, message):
    with pytest.raises(InputError, match=message):
        solve(nlp, **arguments)


def test_an_unknown_option_is_named():
    with pytest.raises(OptionError, match="'toll'; did you mean 'tol'"):
        auglag.casadi.solve(hs71(casadi.SX), **ARGUMENTS, toll=1)


@pytest.mark.parametrize("kind", [casadi.SX, casadi.MX])
def test_linear_rows_are_presolved_and_keep_their_multipliers(kind):
    """x0 >= p is a bound, 2 x0 + 2 x1 <= 6 is the row above it again, and only the last row is curved."""
    x, p = kind.sym("x", 2), kind.sym("p")
    g = casadi.vertcat(x[0] - p, x[0] + x[1], 2 * x[0] + 2 * x[1] + 4, x[0] * x[1])
    nlp = {"x": x, "p": p, "f": casadi.sumsqr(x - 3), "g": g}
    bounds = {"lbg": [0, -np.inf, -np.inf, 0.5], "ubg": [np.inf, 4, 7, 9], "p": 0.25, "x0": [1.0, 1.0]}
    given = CasadiProblem(nlp, **bounds)
    linear = given.linear()
    assert linear.rows.tolist() == [0, 1, 2]
    np.testing.assert_allclose(linear.matrix.toarray(), [[1, 0], [1, 1], [2, 2]])
    np.testing.assert_allclose(linear.constant, [-0.25, 0, 4])
    assert reduction(given, 1e-6).keep.size == 2
    found = solve(nlp, **bounds)
    assert found["result"].success
    np.testing.assert_allclose(found["x"].full().ravel(), [0.75, 0.75], atol=1e-6)
    np.testing.assert_allclose(found["lam_g"].full().ravel(), [0, 0, 2.25, 0], atol=1e-5)


def test_a_problem_without_linear_rows_has_none():
    x = casadi.SX.sym("x", 2)
    assert CasadiProblem({"x": x, "f": x[0], "g": x[0] * x[1]}).linear() is None
    assert CasadiProblem({"x": x, "f": x[0]}).linear() is None


@pytest.mark.parametrize("kind", [casadi.SX, casadi.MX])
@pytest.mark.parametrize("row", [casadi.floor, casadi.sign, lambda x: x > 0.5, lambda x: casadi.fmod(x, 5)])
def test_rows_that_jump_are_not_taken_for_linear(kind, row):
    """Their derivatives are constant by CasADi's reckoning; presolve must not conclude anything from that."""
    x = kind.sym("x", 2)
    nlp = {"x": x, "f": casadi.sumsqr(x - 3), "g": casadi.vertcat(row(x[0]), x[0] + x[1])}
    assert CasadiProblem(nlp, x0=2.5).linear() is None
    found = solve(nlp, lbg=[1, 0], ubg=[3, 10], x0=2.5)["result"]
    assert found.success
    np.testing.assert_allclose(found.x, [3.0, 3.0], atol=1e-6)


def test_rows_behind_a_call_are_not_taken_for_linear():
    inside, x = casadi.SX.sym("x"), casadi.MX.sym("x", 2)
    step = casadi.Function("step", [inside], [casadi.floor(inside)])
    assert CasadiProblem({"x": x, "f": x[0], "g": step(x[0])}).linear() is None
