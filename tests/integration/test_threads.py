"""Runs in several threads, on one problem and on separate ones: each is what it would be alone."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, NonlinearConstraint

import auglag
from auglag import Budget, Problem, Status, minimize
from helpers.hs14 import START, both, both_jac, fun, grad

THREADS = 8
#: One start for each thread, some of them twice.
STARTS = [
    np.array(x) for x in ([2.0, 2.0], [0.5, 0.4], [3.0, -1.0], [2.0, 2.0], [1.5, 0.2], [0.5, 0.4], [-1, 1], [4, 4])
]


def hs14(jac):
    given = {"exact": grad, "2-point": None, "joint": None}[jac]
    if jac == "joint":
        return Problem(x0=START, fun_and_con=lambda x: (fun(x), both(x)), con_lower=[0, 0], con_upper=[0, np.inf])
    con = NonlinearConstraint(both, [0, 0], [0, np.inf], jac=both_jac if jac == "exact" else "2-point")
    return Problem(fun, START, jac=given, constraints=[con, LinearConstraint([[1.0, 0.0]], -50, 50)])


def with_hessians():
    curved = NonlinearConstraint(
        lambda x: x @ x, 1.0, 1.0, jac=lambda x: 2 * x[None], hess=lambda x, v: 2 * v[0] * np.eye(2)
    )
    return Problem(
        lambda x: x[0] ** 4 + x[1], START, jac=lambda x: np.array([4 * x[0] ** 3, 1.0]),
        hess=lambda x: np.diag([12 * x[0] ** 2, 0.0]), constraints=curved,
    )  # fmt: skip


MAKERS = {
    "exact": lambda: hs14("exact"),
    "2-point": lambda: hs14("2-point"),
    "joint": lambda: hs14("joint"),
    "hessians": with_hessians,
}


@pytest.fixture(autouse=True)
def switching():
    """Threads take turns every 5 microseconds instead of every 5 milliseconds: what can meet, meets."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def together(jobs):
    """The results of these functions, begun at the same moment in a thread each."""
    gate = Barrier(len(jobs))

    def begin(job):
        gate.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(begin, jobs))


def facts(res):
    """Everything of a result but its seconds."""
    counts = tuple(res[name] for name in ("nfev", "njev", "nhev", "constr_nfev", "constr_njev", "constr_nhev"))
    return res.x.tobytes(), res.y.tobytes(), res.status, counts, res.message, repr(res.history)


@pytest.mark.parametrize("kind", MAKERS)
def test_eight_threads_on_one_problem_do_what_they_would_do_alone(kind):
    alone = [facts(minimize(MAKERS[kind](), x0)) for x0 in STARTS]
    problem = MAKERS[kind]()
    shared = together([lambda x0=x0: minimize(problem, x0) for x0 in STARTS])
    assert [facts(res) for res in shared] == alone


@pytest.mark.parametrize("kind", MAKERS)
def test_eight_threads_on_problems_of_their_own_do_what_they_would_do_alone(kind):
    alone = [facts(minimize(MAKERS[kind](), x0)) for x0 in STARTS]
    assert [facts(r) for r in together([lambda x0=x0: minimize(MAKERS[kind](), x0) for x0 in STARTS])] == alone


@pytest.mark.parametrize("kind", MAKERS)
def test_runs_one_after_the_other_on_one_problem_do_what_they_would_do_alone(kind):
    problem = MAKERS[kind]()
    for x0 in STARTS[:4]:
        assert facts(minimize(problem, x0)) == facts(minimize(MAKERS[kind](), x0))


@pytest.mark.parametrize("kind", ["2-point", "joint"])
def test_budgets_are_those_of_each_run(kind):
    limits = [5, 12, None, 20, 9, None, 15, 7]

    def jobs(problems):
        each = zip(problems, STARTS, limits, strict=True)
        return [
            lambda p=p, x0=x0, limit=limit: minimize(p, x0, budget=Budget(evaluations=limit)) for p, x0, limit in each
        ]

    alone = [job() for job in jobs([MAKERS[kind]() for _ in STARTS])]
    shared = together(jobs([MAKERS[kind]()] * THREADS))
    assert [facts(res) for res in shared] == [facts(res) for res in alone]
    for res, limit in zip(shared, limits, strict=True):
        assert (res.status is Status.EVALUATION_LIMIT) == (limit is not None)


def test_the_counts_of_a_problem_are_those_of_all_its_runs():
    problem = hs14("2-point")
    made = problem.counts.copy()
    shared = together([lambda x0=x0: minimize(problem, x0) for x0 in STARTS])
    assert problem.counts.since(made).nfev == sum(res.nfev for res in shared)
    assert problem.counts.since(made).constr_nfev == sum(res.constr_nfev for res in shared)


def test_a_run_inside_the_callback_of_another_on_the_same_problem_leaves_that_alone():
    problem, inside = hs14("2-point"), []

    def callback(xk):
        inside.append(minimize(problem, [0.5, 0.4], budget=Budget(evaluations=5)))

    outer = minimize(problem, callback=callback)
    plain = minimize(hs14("2-point"))
    assert outer.x.tobytes() == plain.x.tobytes()
    assert {res.status for res in inside} == {Status.EVALUATION_LIMIT}


def test_a_run_leaves_the_accuracy_of_differences_as_it_was():
    problem = hs14("2-point")
    before = problem.at(np.array([0.7, 0.8])).grad.copy()
    minimize(problem, tol=1e-8)
    auglag.certify(problem, [0.8, 0.9])
    np.testing.assert_array_equal(hs14("2-point").at(np.array([0.3, 0.4])).grad, problem.at(np.array([0.3, 0.4])).grad)
    np.testing.assert_array_equal(before, problem.at(np.array([0.7, 0.8])).grad)


def test_certificates_in_threads_are_those_made_alone():
    problem, points = hs14("2-point"), [np.array([0.82 + 0.01 * i, 0.91]) for i in range(THREADS)]
    alone = [auglag.certify(hs14("2-point"), x).residual for x in points]
    assert [check.residual for check in together([lambda x=x: auglag.certify(problem, x) for x in points])] == alone
