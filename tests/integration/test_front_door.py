"""The front door means what SciPy means: every way to state a problem gives the same, certified answer."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
from scipy import sparse
from scipy.optimize import BFGS, SR1, Bounds, LinearConstraint, NonlinearConstraint
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import auglag
from auglag import Budget, Problem, Status, minimize
from auglag.algorithm.rules import DualRule, PenaltyRule, ToleranceRule
from auglag.inner import InnerSolver, InnerStatus
from auglag.problems import hock_schittkowski as hs
from auglag.result import SCHEMA

# HS14: min (x0 - 2)^2 + (x1 - 1)^2 subject to x0 - 2 x1 + 1 = 0 and x0^2/4 + x1^2 <= 1.
ROOT = 7**0.5
X = np.array([(ROOT - 1) / 2, (ROOT + 1) / 4])
F = 9 - 2.875 * ROOT
START = [2.0, 2.0]
# grad f + Y_EQ (1, -2) + Y_IN (x0/2, 2 x1) = 0
Y_EQ, Y_IN = np.linalg.solve([[1.0, X[0] / 2], [-2.0, 2 * X[1]]], [4 - 2 * X[0], 2 - 2 * X[1]])


def fun(x):
    return (x[0] - 2) ** 2 + (x[1] - 1) ** 2


def grad(x):
    return np.array([2 * (x[0] - 2), 2 * (x[1] - 1)])


def hess(x):
    return 2 * np.eye(2)


def line(x):
    return x[0] - 2 * x[1] + 1


def line_jac(x):
    return np.array([1.0, -2.0])


def disc(x):
    return 1 - x[0] ** 2 / 4 - x[1] ** 2


def disc_jac(x):
    return np.array([-x[0] / 2, -2 * x[1]])


def disc_hess(x, v):
    return v[0] * np.diag([-0.5, -2.0])


EQ = {"type": "eq", "fun": line, "jac": line_jac}
INEQ = {"type": "ineq", "fun": disc, "jac": disc_jac}


def both(x):
    return np.array([line(x), disc(x)])


def both_jac(x):
    return np.vstack([line_jac(x), disc_jac(x)])


class Counted:
    """A function that counts its calls and keeps the points."""

    def __init__(self, function):
        self.function, self.points = function, []

    def __call__(self, x, *args):
        self.points.append(np.array(x).real)
        return self.function(x, *args)

    @property
    def calls(self):
        return len(self.points)


def assert_hs14(res, atol=1e-6):
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, X, atol=atol)
    assert res.fun == pytest.approx(F, abs=10 * atol)
    assert res.certificate.meets(res.tol)


# -------------------------------------------------------------------------------------------------- kinds of constraint

SPARSE_LINE = sparse.csr_array([[1.0, -2.0]])
KINDS = {
    "dictionaries": ([EQ, INEQ], (1, -1)),
    "dictionaries in the other order": ([INEQ, EQ], None),
    "dictionaries without jacobians": ([{"type": "eq", "fun": line}, {"type": "ineq", "fun": disc}], (1, -1)),
    "upper-case types": ([EQ | {"type": "EQ"}, INEQ | {"type": "Ineq"}], (1, -1)),
    "nonlinear objects": (
        [NonlinearConstraint(line, 0, 0, jac=line_jac), NonlinearConstraint(disc, 0, np.inf, jac=disc_jac)],
        (1, -1),
    ),
    "nonlinear objects with the disc from above": (
        [
            NonlinearConstraint(line, 0, 0),
            NonlinearConstraint(lambda x: x[0] ** 2 / 4 + x[1] ** 2, -np.inf, 1, jac="3-point"),
        ],
        (1, 1),
    ),
    "two sides, one of them out of reach": (
        [EQ, NonlinearConstraint(lambda x: x[0] ** 2 / 4 + x[1] ** 2, 0.1, 1, jac="cs")],
        (1, 1),
    ),
    "linear, dense": ([LinearConstraint([[1.0, -2.0]], -1, -1), INEQ], (1, -1)),
    "linear, a plain row": ([LinearConstraint([1.0, -2.0], -1, -1), INEQ], (1, -1)),
    "linear, sparse array": ([LinearConstraint(SPARSE_LINE, -1, -1), INEQ], (1, -1)),
    "linear, sparse matrix": ([LinearConstraint(sparse.csc_matrix(SPARSE_LINE), -1, -1), INEQ], (1, -1)),
    "dense jacobian of shape (1, 2)": (
        [EQ | {"jac": lambda x: line_jac(x).reshape(1, 2)}, INEQ | {"jac": lambda x: disc_jac(x).reshape(1, 2)}],
        (1, -1),
    ),
    "sparse jacobian": (
        [EQ | {"jac": lambda x: SPARSE_LINE}, INEQ | {"jac": lambda x: sparse.csr_array(disc_jac(x).reshape(1, 2))}],
        (1, -1),
    ),
    "coo and lil jacobians": (
        [
            EQ | {"jac": lambda x: sparse.coo_array(line_jac(x).reshape(1, 2))},
            INEQ | {"jac": lambda x: sparse.lil_array(disc_jac(x).reshape(1, 2))},
        ],
        (1, -1),
    ),
    "operator jacobian": (
        [
            EQ | {"jac": lambda x: aslinearoperator(line_jac(x).reshape(1, 2))},
            INEQ | {"jac": lambda x: aslinearoperator(disc_jac(x).reshape(1, 2))},
        ],
        (1, -1),
    ),
    "dense beside sparse": ([EQ | {"jac": lambda x: SPARSE_LINE}, INEQ], (1, -1)),
    "dense beside operator": ([EQ, INEQ | {"jac": lambda x: aslinearoperator(disc_jac(x).reshape(1, 2))}], (1, -1)),
    "sparse linear beside operator": (
        [LinearConstraint(SPARSE_LINE, -1, -1), INEQ | {"jac": lambda x: aslinearoperator(disc_jac(x).reshape(1, 2))}],
        (1, -1),
    ),
    "one block with an equality row": (NonlinearConstraint(both, [0, 0], [0, np.inf], jac=both_jac), (1, -1)),
    "one sparse block": (
        NonlinearConstraint(both, [0, 0], [0, np.inf], jac=lambda x: sparse.csr_array(both_jac(x))),
        (1, -1),
    ),
    "one operator block": (
        NonlinearConstraint(both, [0, 0], [0, np.inf], jac=lambda x: aslinearoperator(both_jac(x))),
        (1, -1),
    ),
    "one differenced sparse block": (
        NonlinearConstraint(both, [0, 0], [0, np.inf], finite_diff_jac_sparsity=np.ones((2, 2))),
        (1, -1),
    ),
    "quasi-Newton hessians, which are the inner solver's business": (
        [NonlinearConstraint(line, 0, 0, jac=line_jac, hess=BFGS()), NonlinearConstraint(disc, 0, np.inf, hess=SR1())],
        (1, -1),
    ),
    "a tuple": ((EQ, INEQ), (1, -1)),
}


@pytest.mark.parametrize("slacks", ["closed", "explicit"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_constraint_gives_the_same_point_and_multipliers(kind, slacks):
    constraints, signs = KINDS[kind]
    res = minimize(fun, START, jac=grad, constraints=constraints, slacks=slacks)
    assert_hs14(res)
    if signs is None:
        np.testing.assert_allclose(np.ravel(res.multipliers), [-Y_IN, Y_EQ], atol=1e-5)
    else:
        np.testing.assert_allclose(res.y, [Y_EQ * signs[0], Y_IN * signs[1]], atol=1e-5)


def test_a_generator_of_constraints_is_read_once():
    assert_hs14(minimize(fun, START, jac=grad, constraints=(c for c in (EQ, INEQ))))


@pytest.mark.parametrize("jac", [None, False, "2-point", "3-point", "cs", grad])
def test_every_kind_of_gradient_gives_the_same_point(jac):
    assert_hs14(minimize(fun, START, jac=jac, constraints=[EQ, INEQ]))


def test_jac_true_takes_value_and_gradient_from_one_call():
    pair = Counted(lambda x: (fun(x), grad(x)))
    res = minimize(pair, START, jac=True, constraints=[EQ, INEQ])
    assert_hs14(res)
    assert res.nfev == pair.calls
    assert len({x.tobytes() for x in pair.points}) == pair.calls


def test_a_two_sided_row_holds_on_either_side():
    for target, x, sign in ((-3.0, -1.0, -1), (0.5, 0.5, 0), (3.0, 2.0, 1)):
        res = minimize(lambda x, t=target: (x[0] - t) ** 2, [0.0], constraints=NonlinearConstraint(lambda x: x, -1, 2))
        assert res.success
        assert res.x[0] == pytest.approx(x, abs=1e-6)
        assert np.shape(res.multipliers[0]) == (1,)
        assert np.sign(np.round(res.multipliers[0][0], 5)) == sign


# -------------------------------------------------------------------------------------------------------- bounds, args


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds([-np.inf, 0.95], [0.7, np.inf]),
        [(None, 0.7), (0.95, None)],
        ((-np.inf, 0.7), (0.95, np.inf)),
        np.array([[-np.inf, 0.7], [0.95, np.inf]]),
    ],
)
@pytest.mark.parametrize("slacks", ["closed", "explicit"])
def test_bounds_as_an_object_or_pairs_give_the_same_point_and_multipliers(bounds, slacks):
    res = minimize(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 0.5) ** 2,
        START,
        bounds=bounds,
        constraints={"type": "ineq", "fun": lambda x: x[0] + x[1] - 1},
        slacks=slacks,
    )
    assert res.success
    np.testing.assert_allclose(res.x, [0.7, 0.95], atol=1e-6)
    np.testing.assert_allclose(res.bound_multipliers, [2.6, -0.9], atol=1e-5)
    assert res.multipliers[0] == pytest.approx(0.0, abs=1e-6)


def test_args_reach_fun_jac_hess_and_hessp_and_those_of_a_dictionary_its_own_functions():
    def target(x, a, b):
        return (x[0] - a) ** 2 + (x[1] - b) ** 2

    def target_grad(x, a, b):
        return np.array([2 * (x[0] - a), 2 * (x[1] - b)])

    eq = {"type": "eq", "fun": lambda x, k: x[0] - k * x[1] + 1, "jac": lambda x, k: np.array([1, -k]), "args": (2.0,)}
    assert_hs14(minimize(target, START, (2.0, 1.0), jac=target_grad, constraints=[eq, INEQ]))
    assert_hs14(minimize(lambda x, a: target(x, a, 1.0), START, args=2.0, constraints=[eq | {"args": 2.0}, INEQ]))
    for extra in ({"hess": lambda x, a, b: 2 * np.eye(2)}, {"hessp": lambda x, p, a, b: 2 * p}):
        equality = NonlinearConstraint(line, 0, 0, jac=line_jac, hess=lambda x, v: np.zeros((2, 2)))
        res = minimize(target, START, (2.0, 1.0), jac=target_grad, constraints=equality, inner="newton-cg", **extra)
        assert res.success
        np.testing.assert_allclose(res.x, [1.8, 1.4], atol=1e-6)


# ------------------------------------------------------------------------------------------------- finite differences


@pytest.mark.parametrize("scheme", ["2-point", "3-point", "cs", None])
@pytest.mark.parametrize("slacks", ["closed", "explicit"])
def test_nothing_is_ever_evaluated_outside_the_bounds(scheme, slacks):
    p = hs.get("HS71")
    lower, upper = p.lower, np.minimum(p.upper, 4.8)  # cuts the solution off, so that upper bounds are active too

    def inside(function):
        def wrapped(x):
            x = np.asarray(x)
            assert (lower <= x.real).all()
            assert (x.real <= upper).all()
            return function(x)

        return wrapped

    def objective(x):
        return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]

    cons = [
        NonlinearConstraint(inside(lambda x: x[0] * x[1] * x[2] * x[3]), 25, np.inf, jac=scheme),
        NonlinearConstraint(inside(lambda x: (x**2).sum()), 40, 40, jac=scheme),
    ]
    res = minimize(
        inside(objective), [1, 5, 5, 1], jac=scheme, bounds=Bounds(lower, upper), constraints=cons, slacks=slacks
    )
    assert res.success, res.explain()
    assert ((res.x >= lower) & (res.x <= upper)).all()
    assert res.fun == pytest.approx(17.014, abs=0.2)


def test_a_domain_given_by_bounds_is_never_left_even_by_a_rounding_error():
    def entropy(x):
        assert (x >= 0).all()
        with np.errstate(divide="raise", invalid="raise"):
            return float(sum(v * np.log(v) if v > 0 else 0.0 for v in x) - x[0])

    cons = {"type": "eq", "fun": lambda x: x.sum() - 1}
    res = minimize(entropy, np.full(4, 0.1), bounds=Bounds(0, 1), constraints=cons)
    assert res.success, res.explain()
    expected = np.exp([1.0, 0, 0, 0])
    np.testing.assert_allclose(res.x, expected / expected.sum(), atol=1e-6)


def test_a_sparse_structure_saves_calls_of_the_constraints():
    n = 60
    structure = sparse.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))

    def chain(x):
        return x[:-1] ** 2 + x[1:] - 1.5

    def solve(**kwargs):
        con = Counted(chain)
        res = minimize(
            lambda x: float(x @ x),
            np.ones(n),
            jac=lambda x: 2 * x,
            constraints=NonlinearConstraint(con, 0, 0, **kwargs),
        )
        assert res.success, res.explain()
        return res, con.calls

    sparse_res, few = solve(finite_diff_jac_sparsity=structure)
    dense_res, many = solve()
    np.testing.assert_allclose(sparse_res.x, dense_res.x, atol=1e-6)
    assert few * 8 < many


def test_finite_diff_rel_step_is_used():
    points = Counted(fun)
    minimize(points, [2.0, 2.0], finite_diff_rel_step=1e-2, constraints=[EQ, INEQ], budget=Budget(outer=1))
    steps = np.abs(np.array(points.points[1:3]) - START).max(axis=1)
    np.testing.assert_allclose(steps, 2e-2)


# -------------------------------------------------------------------------------------------------------------- counts


@pytest.mark.parametrize("check", ["first", False])
@pytest.mark.parametrize("derivatives", ["exact", "2-point", "3-point", "pair"])
def test_counts_are_the_calls_that_were_made(derivatives, check):
    f, g, c, j = Counted(fun), Counted(grad), Counted(both), Counted(both_jac)
    pair = Counted(lambda x: (f(x), grad(x)))
    exact = derivatives == "exact"
    scheme = "2-point" if derivatives == "pair" else derivatives
    res = minimize(
        pair if derivatives == "pair" else f,
        START,
        jac=g if exact else True if derivatives == "pair" else derivatives,
        constraints=NonlinearConstraint(c, [0, 0], [0, np.inf], jac=j if exact else scheme),
        check_derivatives=check,
    )
    assert_hs14(res)
    assert (res.nfev, res.constr_nfev, res.constr_njev) == (f.calls, c.calls, j.calls)
    assert res.njev == (pair.calls if derivatives == "pair" else g.calls)


def test_counts_of_several_blocks_add_up():
    f, eq, ineq, eq_jac = Counted(fun), Counted(line), Counted(disc), Counted(line_jac)
    cons = [
        {"type": "eq", "fun": eq, "jac": eq_jac},
        {"type": "ineq", "fun": ineq},
        LinearConstraint([[1, 0]], -9, 9),
    ]
    res = minimize(f, START, constraints=cons)
    assert_hs14(res)
    assert (res.nfev, res.constr_nfev, res.constr_njev) == (f.calls, eq.calls + ineq.calls, eq_jac.calls)


def test_counts_of_hessians_are_the_calls_that_were_made():
    h, ch = Counted(hess), Counted(lambda x, v: np.zeros((2, 2)))
    con = NonlinearConstraint(line, 0, 0, jac=line_jac, hess=ch)
    res = minimize(fun, START, jac=grad, hess=h, constraints=con, inner="newton-cg")
    assert res.success
    assert (res.nhev, res.constr_nhev) == (h.calls, ch.calls)
    assert h.calls > 0


def test_counts_of_a_second_run_on_the_same_problem_object_start_at_zero():
    f, c = Counted(fun), Counted(both)
    problem = Problem(f, START, jac=grad, constraints=NonlinearConstraint(c, [0, 0], [0, np.inf], jac=both_jac))
    minimize(problem)
    before = f.calls, c.calls
    res = minimize(problem, [1.0, 1.0])
    assert_hs14(res)
    assert (res.nfev, res.constr_nfev) == (f.calls - before[0], c.calls - before[1])


@pytest.mark.parametrize("jac", ["exact", "2-point", "3-point"])
def test_a_simulation_that_gives_f_and_c_together_is_called_once_per_point(jac):
    run = Counted(lambda x: (fun(x), both(x)))
    derivatives = (lambda x: (grad(x), both_jac(x))) if jac == "exact" else jac
    problem = Problem(x0=START, fun_and_con=run, con_lower=[0, 0], con_upper=[0, np.inf], jac=derivatives)
    made = run.calls  # one call at x0, to learn how many rows there are
    assert made == 1
    res = minimize(problem, check_derivatives=False)
    assert_hs14(res)
    np.testing.assert_allclose(res.y, [Y_EQ, -Y_IN], atol=1e-5)
    assert res.nfev == res.constr_nfev == run.calls - made
    twice = [key for key, times in Counter(x.tobytes() for x in run.points).items() if times > 1]
    assert len(twice) <= (0 if jac == "exact" else 2), f"{len(twice)} of {run.calls} points were simulated again"


def test_the_same_point_is_not_evaluated_twice_in_a_row():
    f, c = Counted(fun), Counted(both)
    con = NonlinearConstraint(c, [0, 0], [0, np.inf], jac=both_jac)
    assert_hs14(minimize(f, START, jac=grad, constraints=con))
    for points in (f.points, c.points):
        assert all((a != b).any() for a, b in pairwise(points))


def test_a_linear_constraint_is_never_called():
    res = minimize(fun, START, jac=grad, constraints=[LinearConstraint([[1.0, -2.0]], -1, -1)])
    assert res.success
    assert (res.constr_nfev, res.constr_njev) == (0, 0)


# --------------------------------------------------------------------------------------------------- second derivatives

EQ_HESS = NonlinearConstraint(
    lambda x: x[0] ** 2 + x[1] ** 2 - 2, 0, 0, jac=lambda x: 2 * x, hess=lambda x, v: 2 * v[0] * np.eye(2)
)


@pytest.mark.parametrize(
    "second",
    [
        {"hess": lambda x: np.diag([0.0, 2.0])},
        {"hess": lambda x: sparse.csr_array(np.diag([0.0, 2.0]))},
        {"hess": lambda x: aslinearoperator(np.diag([0.0, 2.0]))},
        {"hess": lambda x: [[0.0, 0.0], [0.0, 2.0]]},
        {"hessp": lambda x, p: np.array([0.0, 2.0]) * p},
    ],
    ids=["dense", "sparse", "operator", "list", "hessp"],
)
@pytest.mark.parametrize("inner", ["newton-cg", "auto"])
def test_second_derivatives_are_used_on_equality_problems(second, inner):
    res = minimize(
        lambda x: x[0] + x[1] ** 2,
        [-1.0, -0.5],
        jac=lambda x: np.array([1.0, 2 * x[1]]),
        constraints=EQ_HESS,
        inner=inner,
        **second,
    )
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, [-(2**0.5), 0.0], atol=1e-6)
    assert res.inner == ("newton-cg" if inner == "newton-cg" or "hessp" in second else "qp")
    assert res.nhev > 0
    assert res.constr_nhev > 0


def test_newton_takes_inequalities_with_explicit_slacks():
    con = NonlinearConstraint(disc, 0, np.inf, jac=disc_jac, hess=disc_hess)
    line_con = LinearConstraint([[1.0, -2.0]], -1, -1)
    res = minimize(fun, START, jac=grad, hess=hess, constraints=[line_con, con], slacks="explicit", inner="newton-cg")
    assert_hs14(res)


def test_a_wrong_hessian_is_found_at_the_start():
    with pytest.raises(auglag.DerivativeError, match=r"hess.*row \d, column \d of the Hessian"):
        minimize(fun, START, jac=grad, hess=lambda x: np.diag([2.0, 5.0]), constraints=EQ_HESS)


# --------------------------------------------------------------------------------------------- scipy.optimize.minimize


def through_scipy(*args, **kwargs):
    return scipy.optimize.minimize(*args, method=auglag.scipy_method, **kwargs)


def test_scipy_takes_the_method_with_everything_it_passes():
    res = through_scipy(
        lambda x, a, b: (x[0] - a) ** 2 + (x[1] - b) ** 2,
        START,
        args=(2.0, 1.0),
        jac=lambda x, a, b: np.array([2 * (x[0] - a), 2 * (x[1] - b)]),
        hess=lambda x, a, b: 2 * np.eye(2),
        bounds=Bounds(-10, 10),
        constraints=[EQ, INEQ],
        tol=1e-8,
        callback=lambda xk: None,
        options={"maxiter": 50, "maxfev": 5000, "disp": False, "variant": "always-full", "slacks": "explicit"},
    )
    assert isinstance(res, auglag.Result)
    assert_hs14(res)
    assert res.tol == 1e-8
    assert "Always" in res.variant


@pytest.mark.parametrize("jac", [None, True, False, "2-point", "3-point", "cs", grad])
def test_scipy_passes_every_kind_of_jac(jac):
    objective = (lambda x: (fun(x), grad(x))) if jac is True else fun
    assert_hs14(through_scipy(objective, START, jac=jac, constraints=[EQ, INEQ]))


@pytest.mark.parametrize("bounds", [[(-5, 5), (None, 9)], Bounds([-5, -np.inf], [5, 9]), None])
def test_scipy_passes_every_kind_of_bounds(bounds):
    assert_hs14(through_scipy(fun, START, bounds=bounds, constraints=[EQ, INEQ]))


def test_scipy_passes_hessp():
    res = through_scipy(
        fun, START, jac=grad, hessp=lambda x, p: 2 * p, constraints=EQ_HESS, options={"inner": "newton-cg"}
    )
    assert res.success
    assert res.nhev > 0


def test_scipy_with_default_tolerance_and_without_constraints():
    res = through_scipy(fun, START)
    assert res.success
    assert res.tol == 1e-6
    np.testing.assert_allclose(res.x, [2, 1], atol=1e-6)


def test_scipy_passes_both_callback_signatures():
    points, results = [], []

    def intermediate(intermediate_result):
        results.append(intermediate_result)

    plain = through_scipy(fun, START, constraints=[EQ, INEQ], callback=points.append)
    assert_hs14(plain)
    assert len(points) == plain.nit
    assert all(isinstance(x, np.ndarray) and x.shape == (2,) for x in points)
    full = through_scipy(fun, START, constraints=[EQ, INEQ], callback=intermediate)
    assert [r.nit for r in results] == list(range(1, full.nit + 1))
    assert all(isinstance(r, scipy.optimize.OptimizeResult) for r in results)
    np.testing.assert_array_equal([r.x for r in results], points)


def test_scipy_options_limit_the_run():
    options = {"maxiter": 1, "acceleration": False}
    assert through_scipy(fun, START, constraints=[EQ, INEQ], options=options).status is Status.ITERATION_LIMIT
    res = through_scipy(fun, START, constraints=[EQ, INEQ], options={"maxfev": 10})
    assert res.status is Status.EVALUATION_LIMIT


def test_scipy_options_print_on_demand(capsys):
    through_scipy(fun, START, constraints=[EQ, INEQ], options={"disp": True})
    assert "violation" in capsys.readouterr().out


def test_unknown_scipy_options_raise_with_a_hint():
    with pytest.raises(auglag.OptionError, match=r"no option 'maxitr'; did you mean 'maxiter'\?"):
        through_scipy(fun, START, options={"maxitr": 5})
    with pytest.raises(auglag.OptionError, match=r"no option 'gtol': write tol="):
        through_scipy(fun, START, options={"gtol": 1e-5})
    with pytest.raises(auglag.OptionError, match=r"no option 'variants'; did you mean 'variant'\?"):
        through_scipy(fun, START, options={"variants": "adaptive-full"})


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ({"options": {"maxiter": 5}}, r"no argument 'options': pass each option as a keyword, maxiter=5 as budget="),
        ({"method": "SLSQP"}, r"no argument 'method': there is one method"),
        ({"maxiter": 5}, r"no argument 'maxiter': write budget=Budget\(outer="),
        ({"disp": True}, r"no argument 'disp': write progress=True"),
    ],
)
def test_arguments_of_scipy_that_do_not_exist_here_are_translated(argument, hint):
    with pytest.raises(auglag.OptionError, match=hint):
        minimize(fun, START, **argument)


def test_tol_none_and_callbacks_of_trust_constr_work_as_in_scipy():
    seen = []

    def callback(xk, state):
        seen.append((xk.copy(), state.nit))
        return len(seen) == 3

    res = minimize(fun, START, constraints=[EQ, INEQ], tol=None, callback=callback, acceleration=False)
    assert res.status is auglag.Status.STOPPED
    assert [nit for _, nit in seen] == [1, 2, 3]
    assert minimize(fun, START, constraints=[EQ, INEQ], tol=None).tol == 1e-6


def test_a_scipy_result_warm_starts_by_its_point_alone_and_can_be_certified_whole():
    from scipy.optimize import minimize as scipy_minimize

    slsqp = scipy_minimize(fun, START, jac=grad, constraints=[EQ, INEQ], method="SLSQP", options={"ftol": 1e-14})
    assert auglag.certify(fun, slsqp, jac=grad, constraints=[EQ, INEQ]).meets(1e-5)
    res = minimize(fun, warm_start=slsqp, jac=grad, constraints=[EQ, INEQ])
    assert res.success
    with pytest.warns(UserWarning, match="pass -multipliers"):
        auglag.certify(fun, res.x, [-y for y in res.multipliers], jac=grad, constraints=[EQ, INEQ])


def test_certify_without_derivatives_confirms_what_minimize_certified():
    denied = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b, c = rng.standard_normal((4, 4)), rng.standard_normal(4), rng.standard_normal(4)

        def objective(x, a=a, b=b):
            return np.exp(0.3 * np.sin(a @ x).sum()) + (x - b) @ (x - b)

        con = {"type": "eq", "fun": lambda x, c=c: c @ x + 0.1 * x @ x - 1}
        res = minimize(objective, np.zeros(4), constraints=con)
        denied += res.success and not auglag.certify(objective, res.x, constraints=con).meets(1e-6)
    assert denied == 0


def test_a_result_shows_its_methods_and_prints_in_a_screen():
    res = minimize(fun, START, constraints=[EQ, INEQ])
    assert {"explain", "multipliers_as", "violations", "x", "certificate"} <= set(dir(res))
    assert len(str(res)) < 4000
    assert max(map(len, str(res).splitlines())) < 300


def test_comparisons_instead_of_differences_are_refused():
    with pytest.raises(auglag.InputError, match="got booleans: return a difference, not a comparison"):
        minimize(fun, START, constraints={"type": "ineq", "fun": lambda x: x @ x < 1.5})


def test_a_prox_that_is_not_the_prox_of_its_value_is_refused():
    class Forgetful:
        def value(self, x):
            return np.abs(x).sum()

        def prox(self, x, step):
            return np.sign(x) * np.maximum(np.abs(x) - 1.0, 0.0)  # the step is missing

    with pytest.raises(auglag.InputError, match="does prox use its step"):
        minimize(fun, START, g=Forgetful(), constraints=[EQ])


def test_a_gradient_that_is_wrong_away_from_x0_is_found_when_the_run_is_stuck():
    res = minimize(
        lambda x: np.sum((x - 1) ** 2),
        [1.0, 3.0],
        jac=lambda x: np.array([3 * (x[0] - 1), 2 * (x[1] - 1)]),
        constraints={"type": "ineq", "fun": lambda x: 1.5 - x @ x, "jac": lambda x: -2 * x},
        inner="lbfgsb",  # by models the run ends where the wrong gradient meets the conditions
    )
    assert not res.success
    assert "entry 0 of the gradient" in res.explain()


def test_a_budget_beside_maxiter_is_a_conflict():
    with pytest.raises(auglag.InputError, match=r"options\['budget'\] already limits the run"):
        through_scipy(fun, START, options={"maxiter": 5, "budget": Budget(outer=3)})


# ------------------------------------------------------------------------------------------------------------ callbacks


def test_the_callback_sees_each_accepted_iteration_once_with_its_numbers():
    rows = []

    def callback(intermediate_result):
        rows.append(intermediate_result)

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], callback=callback)
    assert len(rows) == res.nit
    for row, history in zip(rows, res.history, strict=True):
        assert row.fun == pytest.approx(fun(row.x))
        assert row.residual == history["residual"]
        assert row.penalty == history["beta"]
        assert row.multipliers.shape == (2,)
        check = auglag.certify(fun, row.x, row.multipliers, jac=grad, constraints=[EQ, INEQ])
        assert check.residual <= history["residual"] * (1 + 1e-6) + 1e-12


def test_a_callback_that_writes_into_its_point_does_no_harm():
    def vandal(xk):
        xk[:] = np.nan

    assert_hs14(minimize(fun, START, jac=grad, constraints=[EQ, INEQ], callback=vandal))


# ------------------------------------------------------------------------------------------- problem objects and names


def test_a_problem_object_brings_everything_along():
    problem = Problem(fun, START, jac=grad, constraints=[EQ, INEQ], bounds=[(0, 5)] * 2)
    assert_hs14(minimize(problem))
    assert_hs14(minimize(problem, [0.0, 0.0], tol=1e-8))
    assert auglag.certify(problem, X).meets(1e-6)


def test_a_source_of_problems_of_ones_own_is_one_small_class():
    class HS14(auglag.AbstractProblem):
        def __init__(self):
            z = np.zeros(2)
            super().__init__(np.array(START), lower=z - 10, upper=z + 10, cl=z, cu=np.array([0, np.inf]))

        def f(self, x):
            return fun(x)

        def grad(self, x):
            return grad(x)

        def c(self, x):
            return both(x)

        def jac(self, x):
            return both_jac(x)

    res = minimize(HS14())
    assert_hs14(res)
    np.testing.assert_allclose(res.multipliers[0], [Y_EQ, -Y_IN], atol=1e-5)


def test_names_of_constraints_appear_in_violations_and_messages():
    named = NonlinearConstraint(lambda x: np.array([x[0], x[1]]), [5, 0], [6, 1])
    named.name = "box"
    cons = [{"type": "eq", "fun": lambda x: x[0] + x[1] - 2, "name": "mass balance"}, named]
    res = minimize(fun, START, constraints=cons)
    assert res.status is Status.INFEASIBLE
    assert set(res.violations) <= {"mass balance", "box[0]", "box[1]"}
    assert {"mass balance", "box[0]"} <= set(res.violations)
    sizes = list(res.violations.values())
    assert sizes == sorted(sizes, reverse=True)
    assert next(iter(res.violations)) in res.message
    assert next(iter(res.violations)) in res.explain()


def test_constraints_without_a_name_are_named_by_their_place():
    res = minimize(fun, START, constraints=[EQ, {"type": "eq", "fun": lambda x: [x[0] - 1, x[0] - 3]}])
    assert res.status is Status.INFEASIBLE
    assert {"constraints[1][0]", "constraints[1][1]"} <= set(res.violations)


# ---------------------------------------------------------------------------------------------------------- multipliers


@pytest.mark.parametrize("name", ["HS71", "HS14", "HS43", "HS65", "HS76"])
@pytest.mark.parametrize("slacks", ["closed", "explicit"])
def test_multipliers_come_in_the_users_order_shape_and_sign(name, slacks):
    p = hs.get(name)
    cons = [NonlinearConstraint(r.fun, r.lower, r.upper, jac=r.jac) for r in p.rows]
    res = minimize(p.fun, p.x0, jac=p.grad, bounds=Bounds(p.lower, p.upper), constraints=cons, slacks=slacks)
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, p.x, atol=1e-5)
    assert len(res.multipliers) == len(p.rows)
    for mine, theirs in zip(res.multipliers, p.multipliers, strict=True):
        assert np.shape(mine) == np.shape(theirs)
        np.testing.assert_allclose(mine, theirs, atol=1e-4)
    np.testing.assert_allclose(res.bound_multipliers, p.bound_multipliers, atol=1e-4)


def test_a_scalar_function_has_a_number_as_its_multiplier_and_a_vector_an_array():
    vector = {"type": "ineq", "fun": lambda x: np.array([disc(x)])}
    res = minimize(fun, START, constraints=[EQ, vector, LinearConstraint([[1, 0], [0, 1]], -9, 9)])
    assert isinstance(res.multipliers[0], float)
    assert [np.shape(y) for y in res.multipliers] == [(), (1,), (2,)]


def test_the_multiplier_is_minus_the_derivative_of_the_optimal_value_by_the_right_hand_side():
    def value(shift):
        con = {"type": "eq", "fun": lambda x: line(x) - shift}
        return minimize(fun, START, jac=grad, constraints=[con, INEQ], tol=1e-9)

    slope = (value(1e-3).fun - value(-1e-3).fun) / 2e-3
    res = value(0.0)
    assert slope == pytest.approx(-res.multipliers[0], abs=1e-3)
    assert res.multipliers_as("ampl")[0] == -res.multipliers[0]


def test_multipliers_in_other_conventions_agree_with_those_solvers():
    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], tol=1e-8)
    slsqp = scipy.optimize.minimize(fun, START, jac=grad, constraints=[EQ, INEQ], method="SLSQP", tol=1e-12)
    if "multipliers" in slsqp:
        np.testing.assert_allclose(np.ravel(res.multipliers_as("slsqp")), slsqp.multipliers, atol=1e-5)
    cons = [
        LinearConstraint([[1.0, -2.0]], -1, -1),
        NonlinearConstraint(disc, 0, np.inf, jac=disc_jac, hess=disc_hess),
    ]
    trust = scipy.optimize.minimize(
        fun, START, jac=grad, hess=hess, constraints=cons, method="trust-constr", options={"gtol": 1e-9, "xtol": 1e-12}
    )
    np.testing.assert_allclose(np.ravel(res.multipliers_as("trust-constr")), np.ravel(trust.v), atol=1e-3)
    for convention in ("auglag", "ipopt", "casadi"):
        np.testing.assert_array_equal(np.ravel(res.multipliers_as(convention)), np.ravel(res.multipliers))
    np.testing.assert_array_equal(np.ravel(res.multipliers_as("pyomo")), -np.ravel(res.multipliers))


def test_an_unknown_convention_is_named():
    res = minimize(fun, START, constraints=[EQ, INEQ])
    with pytest.raises(auglag.InputError, match=r"convention must be one of .*'ipopt'.*got 'gurobi'"):
        res.multipliers_as("gurobi")


@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_multipliers_are_in_the_users_units_whatever_the_scaling(factor):
    cons = [
        {"type": "eq", "fun": lambda x: factor * line(x), "jac": lambda x: factor * line_jac(x)},
        INEQ,
    ]
    scaled = minimize(fun, START, jac=grad, constraints=cons, tol=1e-7, scaling=True)
    plain = minimize(fun, START, jac=grad, constraints=cons, tol=1e-7, scaling=False)
    for res in (scaled, plain):
        assert res.success, res.explain()
        np.testing.assert_allclose(np.ravel(res.multipliers), [Y_EQ / factor, -Y_IN], rtol=1e-3)


# ------------------------------------------------------------------------------------------- slacks, variants, presets


@pytest.mark.parametrize("name", ["HS10", "HS43", "HS71", "HS76", "HS35", "HS113"])
def test_closed_and_explicit_slacks_give_the_same_answer(name):
    p = hs.get(name)
    cons = [NonlinearConstraint(r.fun, r.lower, r.upper, jac=r.jac) for r in p.rows]
    closed, explicit = (
        minimize(p.fun, p.x0, jac=p.grad, bounds=Bounds(p.lower, p.upper), constraints=cons, slacks=slacks, tol=1e-7)
        for slacks in ("closed", "explicit")
    )
    assert closed.success, closed.explain()
    assert explicit.success, explicit.explain()
    np.testing.assert_allclose(closed.x, explicit.x, atol=1e-5)
    np.testing.assert_allclose(closed.y, explicit.y, atol=1e-4)
    assert closed.x.shape == explicit.x.shape == p.x0.shape


@pytest.mark.parametrize("slacks", ["closed", "explicit"])
@pytest.mark.parametrize("variant", auglag.VARIANTS)
def test_the_four_variants_solve_an_easy_problem(variant, slacks):
    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], variant=variant, slacks=slacks)
    assert_hs14(res, atol=1e-5)
    kind, step = variant.split("-")
    assert kind.capitalize() in res.variant
    assert step.capitalize() in res.variant
    betas = [row["beta"] for row in res.history]
    assert all(b >= a for a, b in pairwise(betas))
    if kind == "always":
        assert all(b > a for a, b in pairwise(betas))


@pytest.mark.parametrize("variant", [None, *auglag.VARIANTS])
@pytest.mark.parametrize("preset", auglag.PRESETS)
def test_all_presets_solve_an_easy_problem(preset, variant):
    res = minimize(
        fun,
        START,
        jac=grad,
        constraints=[EQ, INEQ],
        preset=preset,
        variant=variant,
        tol=1e-4,
        budget=Budget(seconds=20),
    )
    assert_hs14(res, atol=1e-3)


def test_the_paper_preset_is_what_the_paper_says():
    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], preset="paper", tol=1e-4)
    assert res.history[0]["beta"] == 1e-3
    ratios = {round(b["beta"] / a["beta"], 9) for a, b in pairwise(res.history)}
    assert ratios <= {1.0, 1.5, 1.5**6}
    assert res.inner == "lbfgsb"


@pytest.mark.parametrize("inner", ["lbfgsb", "panoc", "spectral", "proximal-point", auglag.LBFGSB(memory=3)])
def test_every_inner_solver_that_applies_solves_an_easy_problem(inner):
    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], inner=inner, tol=1e-4)
    assert_hs14(res, atol=1e-3)
    assert res.inner == (inner if isinstance(inner, str) else "lbfgsb")


# ----------------------------------------------------------------------------------------------------- extensions


def test_a_penalty_rule_of_ones_own_is_one_small_class():
    class Steady(PenaltyRule):
        def next(self, history):
            return 50.0

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], penalty=Steady())
    assert_hs14(res)
    assert {row["beta"] for row in res.history} == {50.0}
    assert res.penalty == 50.0


def test_a_dual_rule_of_ones_own_is_one_small_class():
    class Half(DualRule):
        def step(self, history):
            return 0.5 * history.last.beta

    assert_hs14(minimize(fun, START, jac=grad, constraints=[EQ, INEQ], dual=Half()))


def test_a_dual_rule_that_never_moves_is_the_penalty_method():
    class Never(DualRule):
        def step(self, history):
            return 0.0

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], dual=Never(), tol=1e-3)
    assert_hs14(res, atol=1e-2)


def test_a_tolerance_rule_of_ones_own_is_one_small_class():
    class Tight(ToleranceRule):
        def next(self, history):
            return 1e-9

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], tolerance=Tight(), acceleration=False)
    assert_hs14(res)
    assert {row["eta"] for row in res.history} == {1e-9}


def test_an_inner_solver_of_ones_own_is_one_small_class():
    @dataclass(frozen=True)
    class Descent(InnerSolver):
        name: str = "descent"

        def refuses(self, traits):
            return None if traits.is_box else "descent takes bounds only; panoc takes anything"

        def run(self, oracle, x, value, gradient, limit):
            step = 1.0
            while oracle.iterations < limit:
                oracle.iterations += 1
                trial = oracle.g.prox(x - step * gradient, step)
                new, new_gradient = oracle.visit(trial)
                if new <= value - 0.25 / step * float((trial - x) @ (trial - x)):
                    oracle.consider(trial, new, new_gradient)
                    x, value, gradient = trial, new, new_gradient
                    step *= 1.5
                else:
                    step *= 0.5
            return InnerStatus.LIMIT

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], inner=Descent(), tol=1e-4)
    assert_hs14(res, atol=1e-3)
    assert res.inner == "descent"
    with pytest.raises(auglag.InputError, match="descent takes bounds only"):
        minimize(fun, START, jac=grad, constraints=[EQ], inner=Descent(), g=auglag.prox.L1())


def test_a_prox_term_of_ones_own_is_two_functions_and_the_certificate_says_that_it_estimates():
    class MyL1:
        def value(self, x):
            return float(np.abs(x).sum())

        def prox(self, x, step):
            return np.sign(x) * np.maximum(np.abs(x) - step, 0.0)

    mine, ours = (minimize(fun, START, jac=grad, constraints=[EQ], g=g) for g in (MyL1(), auglag.prox.L1()))
    for res in (mine, ours):
        assert res.success, res.explain()
        np.testing.assert_allclose(res.x, [1.2, 1.1], atol=1e-6)  # f + |x|_1 on the line: 10 x1 - 11 = 0
        assert res.fun == pytest.approx(fun(res.x) + np.abs(res.x).sum())
    assert ours.certificate.exact
    assert not mine.certificate.exact
    assert "estimated by the prox residual" in mine.explain()


def test_a_nonsmooth_objective_with_a_nonlinear_equality_is_solved():
    res = minimize(
        lambda x: float((x[2] - 3) ** 2),
        [0.5, 0.4, 0.3],
        constraints={"type": "eq", "fun": lambda x: x @ x - 1},
        g=auglag.prox.L1(0.1),
    )
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, [0, 0, 1], atol=1e-6)


# -------------------------------------------------------------------------------------------- results, printing, import


def test_a_result_has_exactly_the_fields_of_its_schema():
    res = minimize(fun, START, constraints=[EQ, INEQ])
    assert set(res) == set(SCHEMA)
    assert isinstance(res, scipy.optimize.OptimizeResult)
    assert res.status is Status.SOLVED
    assert res.status == 0
    assert res.message.startswith(Status.SOLVED.message)
    assert res.nit == len(res.history) > 0
    assert res.nit_inner == sum(row["inner_iterations"] for row in res.history)
    assert res.maxcv <= 1e-6
    np.testing.assert_allclose(res.jac, grad(res.x), atol=1e-6)
    assert res.advice == ()
    assert "residual" in repr(res)


def test_a_result_survives_copying_and_sending():
    res = minimize(fun, START, constraints=[EQ, INEQ])
    again = pickle.loads(pickle.dumps(res))
    assert again.status is Status.SOLVED
    np.testing.assert_array_equal(again.x, res.x)
    assert again.explain() == res.explain()


def test_nothing_is_printed_by_default(capfd):
    minimize(fun, START, constraints=[EQ, INEQ])
    minimize(fun, START, constraints=[EQ, {"type": "eq", "fun": lambda x: line(x) - 1}])
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""


def test_progress_prints_a_line_per_outer_iteration(capsys):
    res = minimize(fun, START, constraints=[EQ, INEQ], progress=True)
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split()[:1] == ["k"]
    for word in ("residual", "violation", "penalty", "status"):
        assert word in lines[0]
    assert [int(row.split()[0]) for row in lines[1:-1]] == list(range(1, res.nit + 1))
    assert lines[-1] == res.message
    assert err == ""


def test_the_same_call_gives_the_same_bits():
    first, second = (minimize(fun, START, constraints=[EQ, INEQ]) for _ in range(2))
    assert first.x.tobytes() == second.x.tobytes()
    assert first.history == second.history
    assert first.nfev == second.nfev


def test_importing_auglag_imports_no_optional_package():
    code = (
        "import sys, auglag; "
        "bad = {'jax', 'torch', 'matplotlib', 'sklearn', 'pandas', 'pycutest', 'cyipopt'} & set(sys.modules); "
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_auglag_prints_and_warns_nothing():
    done = subprocess.run([sys.executable, "-W", "error", "-c", "import auglag"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_operator_jacobian_is_never_made_dense_while_solving():
    products = []

    def operator(x):
        j = disc_jac(x)

        def matvec(v):
            products.append("Jv")
            return np.array([j @ v.ravel()])

        def rmatvec(w):
            products.append("J'w")
            return j * w.ravel()[0]

        return LinearOperator((1, 2), matvec=matvec, rmatvec=rmatvec, dtype=float)

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ | {"jac": operator}], check_derivatives=False)
    assert_hs14(res)
    assert products.count("Jv") <= 4
