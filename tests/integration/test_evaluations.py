"""Where functions are evaluated, how often, and that the counts of a result are these calls."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint
from scipy.sparse.linalg import LinearOperator

from auglag import Budget, Problem, minimize
from auglag.problems import hock_schittkowski as hs
from helpers.hs14 import (
    EQ,
    INEQ,
    START,
    Y_EQ,
    Y_IN,
    Counted,
    assert_hs14,
    both,
    both_jac,
    disc,
    disc_jac,
    fun,
    grad,
    hess,
    line,
    line_jac,
)

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
    assert few * 5 < many  # which finds zeros by itself after two Jacobians


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
    cons = [{"type": "eq", "fun": eq, "jac": eq_jac}, {"type": "ineq", "fun": ineq}, LinearConstraint([[1, 0]], -9, 9)]
    res = minimize(f, START, constraints=cons)
    assert_hs14(res)
    assert (res.nfev, res.constr_nfev, res.constr_njev) == (f.calls, eq.calls + ineq.calls, eq_jac.calls)


def test_a_jacobian_is_evaluated_once_at_every_point_and_once_more_at_the_solution():
    seen = Counter()

    def jac(x):
        seen[x.tobytes()] += 1
        return disc_jac(x)

    res = minimize(fun, START, jac=grad, constraints=[EQ, {**INEQ, "jac": jac}])
    assert_hs14(res)
    assert seen.pop(res.x.tobytes()) == 2  # success is claimed for values that were computed twice
    assert set(seen.values()) == {1}


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
    # At the returned point success is claimed for values that were computed twice.
    assert len(twice) <= (1 if jac == "exact" else 3), f"{len(twice)} of {run.calls} points were simulated again"


def test_the_same_point_is_not_evaluated_twice_in_a_row_but_at_the_end():
    f, c = Counted(fun), Counted(both)
    con = NonlinearConstraint(c, [0, 0], [0, np.inf], jac=both_jac)
    res = minimize(f, START, jac=grad, constraints=con)
    assert_hs14(res)
    for points in (f.points, c.points):
        again = [a for a, b in pairwise(points) if (a == b).all()]
        assert all((x == res.x).all() for x in again)
        assert len(again) <= 1


def test_a_linear_constraint_is_never_called():
    res = minimize(fun, START, jac=grad, constraints=[LinearConstraint([[1.0, -2.0]], -1, -1)])
    assert res.success
    assert (res.constr_nfev, res.constr_njev) == (0, 0)


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
