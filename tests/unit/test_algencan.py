"""ALGENCAN's rules, on sequences computed by hand."""

from __future__ import annotations

import math

import pytest

from auglag.algorithm import algencan
from auglag.algorithm.algencan import AlgencanPenalty, AlgencanTolerance
from auglag.algorithm.history import History, Iteration, SupNorms
from auglag.errors import InputError


def row(k, beta, eta, progress, stationarity, *, objective=0.0, violation=None, infeasibility=1.0, usable=True):
    sup = SupNorms(objective, progress, progress if violation is None else violation, stationarity, infeasibility)
    return Iteration(
        k, beta, eta, usable, progress, stationarity, 1.0, progress, objective, 0.0, "CONVERGED", 1, 1,
        sup=sup if usable else None,
    )  # fmt: skip


def history(*rows, objective=0.0, violation=0.0, feas=1e-6, opt=1e-6):
    return History(objective, violation, feas, list(rows), opt)


def test_the_first_two_penalties_come_from_the_sizes_of_f_and_c():
    rule = AlgencanPenalty()
    assert rule.next(history(objective=50.0, violation=4.0)) == 10.0 * 50.0 / 8.0
    second = rule.next(history(row(1, 62.5, 1e-3, 2.0, 1.0, objective=-30.0), objective=50.0, violation=4.0))
    assert second == 10.0 * 30.0 / 2.0
    assert AlgencanPenalty(initial=5.0).next(history(row(1, 5.0, 1e-3, 2.0, 1.0))) == 5.0


@pytest.mark.parametrize(
    ("before", "now", "violation", "factor"),
    [(1.0, 0.5, 0.5, 1.0), (1.0, 0.51, 0.51, 10.0), (1e-7, 1e-7, 1e-7, 1.0), (1e-7, 1e-7, 1e-3, 10.0)],
    ids=["half", "more than half", "feasible and complementary", "feasible in scaled units only"],
)
def test_the_penalty_grows_tenfold_where_progress_is_too_slow(before, now, violation, factor):
    rows = row(1, 3.0, 1e-3, before, 1.0), row(2, 3.0, 1e-3, now, 1.0, violation=violation)
    assert AlgencanPenalty().next(history(*rows)) == 3.0 * factor


def test_a_subproblem_without_a_lower_bound_raises_the_penalty():
    assert AlgencanPenalty().next(history(row(1, 3.0, 1e-3, 1.0, 1.0, usable=False))) == 30.0


def test_inner_tolerances_fall_only_near_a_solution():
    rule = AlgencanTolerance()
    assert rule.next(history()) == pytest.approx(1e-3)
    assert rule.next(history(row(1, 1.0, 1e-3, 1.0, 1e-4))) == 1e-3  # not feasible within sqrt(eps)
    assert rule.next(history(row(1, 1.0, 1e-3, 1e-4, 1.0))) == 1e-3  # not stationary
    assert rule.next(history(row(1, 1.0, 1e-3, 1e-4, 9e-4))) == pytest.approx(1e-4)
    assert rule.next(history(row(1, 1.0, 1e-3, 1e-4, 1e-5))) == pytest.approx(5e-6)  # half of what was reached
    assert rule.next(history(row(1, 1.0, 1e-6, 1e-4, 1e-8))) == 1e-6  # never below eps_opt
    assert not rule.within_penalty


def test_the_tests_are_made_entry_by_entry():
    assert algencan.solved(history(row(1, 1.0, 1e-3, 1e-7, 1e-7)))
    assert not algencan.solved(history(row(1, 1.0, 1e-3, 1e-7, 1e-5)))
    assert not algencan.solved(history(row(1, 1.0, 1e-3, 1e-7, 1e-7, violation=1e-5)))
    assert algencan.infeasible(history(row(1, 1.0, 1e-3, 1.0, 1.0, infeasibility=1e-10)))
    assert not algencan.infeasible(history(row(1, 1.0, 1e-3, 1.0, 1.0, infeasibility=1e-8)))
    assert not algencan.infeasible(history(row(1, 1.0, 1e-3, 1e-4, 1.0, infeasibility=0.0)))


def test_entries_within_their_tolerances_make_r_at_most_tol():
    n, m, tol, sf = 7, 3, 1e-4, 0.25
    feas, opt = algencan.tolerances(tol, n, m, sf)
    assert math.sqrt(m) * feas + math.sqrt(n) * opt / sf == pytest.approx(tol)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: AlgencanPenalty(gamma=1.0), r"AlgencanPenalty\.gamma must be finite and greater than 1, got 1\.0"),
        (lambda: AlgencanPenalty(tau=1.0), r"AlgencanPenalty\.tau must lie in \(0, 1\), got 1\.0"),
        (lambda: AlgencanPenalty(initial=-1.0), r"AlgencanPenalty\.initial must be positive"),
        (lambda: AlgencanTolerance(ratio=0.0), r"AlgencanTolerance\.ratio must lie in \(0, 1\), got 0\.0"),
    ],
)
def test_bad_numbers_are_refused(make, text):
    with pytest.raises(InputError, match=text):
        make()
