"""The plan of a solve as a table: how things stand, and what is done next."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from auglag import Status
from auglag.algorithm.formulas import UNBOUNDED_PENALTY
from auglag.strategy.plan import (
    DEGENERATE,
    SADDLE,
    AttemptOver,
    CheckUnbounded,
    Interior,
    Measure,
    Newton,
    Phase,
    Restore,
    Standing,
    Subproblem,
    adopts,
    better,
    checks_curvature,
    departs,
    effort_left,
    level,
    newton_verdict,
    next_phase,
    reported,
    suspicion,
)
from auglag.strategy.tuning import TUNING

START = Standing(error=1.0)  #: a small constrained problem with Hessians, before its first subproblem
LATER = replace(START, k=3, tried_at=1.0, ended="CONVERGED", iterations=10)
SPARSE = replace(START, sparse=True)
LOST = replace(SPARSE, arrived=True, lost=True)
FREE = replace(START, constrained=False)
BLOCKED = replace(START, sparse=True, error=1.0, inside=True, arrived=True, blocked=True)
DOUBT = replace(LATER, verdict=Status.INFEASIBLE, violated=True)
FALL = replace(LATER, verdict=Status.UNBOUNDED, ended="UNBOUNDED", depth=1e10)

TABLE: list[tuple[str, Standing, Phase]] = [
    # Algorithm 1 alone
    ("without Newton's method: the next subproblem", replace(START, newton=False, models=False), Subproblem(2000)),
    ("and no error is measured for it", replace(START, newton=False, models=False, error=None), Subproblem(2000)),
    # Newton's method
    ("the error is measured first", replace(START, error=None), Measure()),
    ("Newton's method before the first subproblem", START, Newton(2)),
    ("once between two subproblems", replace(START, tried=True), Subproblem(60)),
    ("less patience after a failure", replace(LATER, failures=1), Newton(1)),
    ("two failures: not before every subproblem", replace(LATER, failures=2, inside=True, steps=10), Subproblem(740)),
    ("but where the error fell", replace(LATER, failures=2, inside=True, error=0.05), Newton(0)),
    ("and at every third", replace(LATER, failures=2, inside=True, k=4), Newton(0)),
    ("without rows the inner solver's steps are Newton's", FREE, Subproblem(60)),
    ("unless it stalled", replace(FREE, k=2, ended="STALLED"), Newton(2)),
    ("or interior points came nearer", replace(FREE, sparse=True, arrived=True, nearer=True), Newton(2)),
    ("not where these led nowhere", replace(FREE, sparse=True, arrived=True, inside=True), Subproblem(1000)),
    # interior points
    ("first of all on large sparse problems", SPARSE, Interior(afresh=False)),
    ("then Newton's method, patient where they came nearer", replace(SPARSE, arrived=True, nearer=True), Newton(2)),
    ("step by step where they made no progress", LOST, Interior(afresh=True, safe=True)),
    ("not before L-BFGS-B", replace(LOST, models=False), Newton(2)),
    ("not near a solution", replace(SPARSE, error=1e-6), Newton(2)),
    ("not after failures of both", replace(SPARSE, failures=2, k=4), Newton(0)),
    ("not where they are switched off", replace(SPARSE, interior=False), Newton(2)),
    ("shorter, and once, before L-BFGS-B", replace(SPARSE, models=False), Interior(afresh=False, most=100)),
    ("once", replace(SPARSE, models=False, inside=True), Newton(2)),
    ("on small problems after two failures, from the start", replace(LATER, failures=2, k=4), Interior(afresh=True)),
    ("after four without Hessians", replace(LATER, failures=3, k=4, exact=False), Newton(0)),
    ("after a subproblem that was not solved", replace(LATER, ended="LIMIT"), Interior(afresh=True)),
    ("after 60 inner iterations", replace(LATER, iterations=60), Interior(afresh=True)),
    ("after 150 without Hessians", replace(LATER, iterations=149, exact=False), Newton(2)),
    ("once in an attempt", replace(LATER, iterations=60, inside=True), Newton(2)),
    # how long a subproblem may take
    ("until interior points are tried", replace(LATER, tried=True, iterations=45), Subproblem(15)),
    ("at least one iteration", replace(LATER, tried=True, iterations=70), Subproblem(1)),
    ("what the attempt has left", replace(LATER, tried=True, inside=True, iterations=400, steps=700), Subproblem(50)),
    ("the only attempt has no end", replace(LATER, tried=True, inside=True, restarts=0), Subproblem(1000)),
    ("what the budget allows", replace(LATER, tried=True, inner_limit=7), Subproblem(7)),
    ("the first is cut short", replace(START, newton=False, models=False, first_limit=10), Subproblem(10)),
    ("later ones are not", replace(START, newton=False, models=False, first_limit=10, k=2), Subproblem(2000)),
    # ends
    ("solved", replace(LATER, verdict=Status.SOLVED), AttemptOver(Status.SOLVED)),
    ("a limit", replace(LATER, verdict=Status.TIME_LIMIT, violated=True), AttemptOver(Status.TIME_LIMIT)),
    ("stuck at a feasible point", replace(LATER, verdict=Status.STUCK), AttemptOver(Status.STUCK)),
    # is there a feasible point?
    ("a suspicion is looked into", DOUBT, Restore()),
    ("but not after a solution was left", replace(DOUBT, departed=9), AttemptOver(Status.INFEASIBLE)),
    ("so are blocked interior points, before any subproblem", BLOCKED, Restore()),
    ("once in a run", replace(BLOCKED, restorations=1), Newton(2)),
    ("they go on where that is unclear", replace(BLOCKED, settled="unclear"), Newton(2)),
    ("and end where it is confirmed", replace(BLOCKED, settled="infeasible"), AttemptOver(Status.INFEASIBLE)),
    ("so is being stuck at a violated point", replace(DOUBT, verdict=Status.STUCK), Restore()),
    ("so is a violated point where functions are not defined", replace(DOUBT, verdict=Status.NON_FINITE), Restore()),
    ("not without restoration", replace(DOUBT, restoration=False), AttemptOver(Status.INFEASIBLE)),
    ("shown", replace(DOUBT, settled="infeasible"), AttemptOver(Status.INFEASIBLE)),
    ("shown where it was stuck", replace(DOUBT, verdict=Status.STUCK, settled="infeasible"),
     AttemptOver(Status.INFEASIBLE)),
    ("a suspicion refuted: Algorithm 1 goes on", replace(DOUBT, settled="feasible", tried=True), Subproblem(50)),
    ("a feasible point far away: it goes on there", replace(DOUBT, settled="elsewhere", tried=True), Subproblem(50)),
    ("nothing learnt: it goes on, too", replace(DOUBT, settled="unclear", tried=True), Subproblem(50)),
    ("stuck is stuck", replace(DOUBT, verdict=Status.STUCK, settled="feasible"), AttemptOver(Status.STUCK)),
    # does the objective fall without end?
    ("a fall is looked into", FALL, CheckUnbounded()),
    ("shown", replace(FALL, settled="unbounded"), AttemptOver(Status.UNBOUNDED)),
    ("refuted: it goes on, by interior points", replace(FALL, settled="bounded"), Interior(afresh=True)),
    ("refuted at a penalty beyond use", replace(FALL, settled="bounded", beta=UNBOUNDED_PENALTY),
     AttemptOver(Status.STUCK)),
    ("refuted there at a violated point: is it infeasible?",
     replace(FALL, settled="bounded", beta=UNBOUNDED_PENALTY, violated=True), Restore()),
    ("it is", replace(FALL, settled="infeasible", beta=UNBOUNDED_PENALTY, violated=True),
     AttemptOver(Status.INFEASIBLE)),
    ("it is not", replace(FALL, settled="feasible", beta=UNBOUNDED_PENALTY, violated=True), AttemptOver(Status.STUCK)),
    ("refuted too often", replace(FALL, settled="bounded", depth=1e31), AttemptOver(Status.STUCK)),
]  # fmt: skip


@pytest.mark.parametrize(("situation", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_is_done_next(situation: Standing, expected: Phase) -> None:
    assert next_phase(situation, TUNING) == expected


def test_each_part_can_be_switched_off() -> None:
    for situation in (START, LATER, SPARSE, DOUBT, FALL, replace(LATER, failures=2, k=4)):
        without = replace(situation, newton=False)
        assert not isinstance(next_phase(without, TUNING), Newton | Interior | Measure)
        assert not isinstance(next_phase(replace(situation, interior=False), TUNING), Interior)
        assert not isinstance(next_phase(replace(situation, restoration=False), TUNING), Restore)


def test_suspicions_are_raised_twice_and_then_no_more() -> None:
    raised = [suspicion(replace(START, restorations=count), TUNING) for count in range(3)]
    assert raised == [4, 8, None]
    assert suspicion(replace(START, restoration=False), TUNING) is None


def test_an_attempt_of_an_unconstrained_problem_or_without_models_has_no_end() -> None:
    assert effort_left(replace(START, steps=10), TUNING) == 740
    assert effort_left(replace(START, attempt=3, steps=10), TUNING) == 240
    assert effort_left(FREE, TUNING) == effort_left(replace(START, models=False), TUNING) == math.inf


@pytest.mark.parametrize(
    ("error", "before", "adopted"),
    [(1e-3, 1.0, True), (1e-3, 1.9e-3, False), (0.02, 1.0, False), (0.0, math.inf, True), (math.inf, math.inf, False)],
)
def test_a_candidate_is_adopted_if_the_error_halved_and_is_small(error: float, before: float, adopted: bool) -> None:
    assert adopts(error, before, TUNING) is adopted


@pytest.mark.parametrize(
    ("error", "in_vain", "solved", "end"),
    [
        (1e-12, 0, True, Status.SOLVED),
        (1e-12, 0, False, None),
        (1e-7, 1, True, None),
        (1e-7, 2, True, Status.SOLVED),
        (1.0, 2, False, Status.STUCK),
    ],
)
def test_the_end_is_at_the_target_or_where_calls_come_no_nearer(
    error: float, in_vain: int, solved: bool, end: Status | None
) -> None:
    assert newton_verdict(error, 1e-9, in_vain, TUNING, solved=solved) is end


def test_one_call_in_vain_is_enough_where_rounding_is_what_is_left() -> None:
    assert newton_verdict(1e-6, 1e-9, 0, TUNING, solved=False, limited=True) is None
    assert newton_verdict(1e-6, 1e-9, 1, TUNING, solved=False, limited=True) is Status.STUCK


SOLVED = replace(LATER, verdict=Status.SOLVED)


@pytest.mark.parametrize(
    ("situation", "known", "failures", "departures", "checked"),
    [
        (SOLVED, "not checked", 0, 0, True),
        (replace(SOLVED, newton=False), "not checked", 0, 0, False),  # Algorithm 1 alone
        (replace(SOLVED, restarts=0), "not checked", 0, 0, False),  # x0 alone
        (SOLVED, "minimum", 0, 0, False),
        (SOLVED, "saddle", 0, 1, False),
        (SOLVED, "saddle", 1, 1, True),  # leaving it led nowhere: once more, another way
        (SOLVED, "degenerate", 2, 2, True),
        (SOLVED, "degenerate", 3, 3, False),
        (SOLVED, "not checked", 0, 3, True),  # the last solution is checked, too
    ],
)
def test_when_the_curvature_at_a_solution_is_looked_at(
    situation: Standing, known: str, failures: int, departures: int, checked: bool
) -> None:
    assert checks_curvature(situation, known, failures, departures, TUNING) is checked


def test_a_valley_of_solutions_is_looked_at_once() -> None:
    assert level(2.0 + 1e-9, 2.0, TUNING)
    assert not level(2.0 + 1e-6, 2.0, TUNING)  # higher: another minimum, after which another way may lead lower
    assert not level(math.nan, 2.0, TUNING)
    assert not checks_curvature(SOLVED, "degenerate", 1, 1, TUNING, level=True)
    assert checks_curvature(SOLVED, "saddle", 1, 1, TUNING, level=True)  # lower points are known to be near


def test_what_a_result_says_of_the_solutions_that_were_left() -> None:
    assert reported("minimum", left=False) == "minimum"
    assert reported("minimum", left=True) == reported("probable minimum", left=True) == "saddle left"
    assert reported("saddle", left=True) == "saddle"


def test_another_solution_is_better_if_it_is_lower_by_more_than_tolerances_explain() -> None:
    assert better(-1.0, 0.0, TUNING)
    assert better(0.0, 1e-30, TUNING)
    assert better(1e6 - 1.0, 1e6, TUNING)
    assert not better(1.0 - 1e-9, 1.0, TUNING)
    assert not better(0.0, 0.0, TUNING)
    assert not better(math.nan, 0.0, TUNING)


def test_departures_share_an_effort_of_their_own() -> None:
    late = replace(FREE, found_in=400)
    assert effort_left(replace(late, departed=110, steps=10), TUNING) == 140
    assert departs(FREE, SADDLE, 0, 0, 9, TUNING)
    assert departs(late, DEGENERATE, 2, 249, 9, TUNING)
    assert not departs(late, SADDLE, 2, 250, 9, TUNING)
    assert not departs(late, SADDLE, 3, 10, 9, TUNING)
    assert not departs(FREE, SADDLE, 0, 0, 0, TUNING)


def test_flat_directions_of_large_problems_are_not_followed() -> None:
    large = replace(FREE, sparse=True)
    assert departs(large, SADDLE, 0, 0, 9, TUNING)
    assert not departs(large, DEGENERATE, 0, 0, 9, TUNING)


def test_departures_end_once_they_took_as_many_steps_as_the_solution_that_is_left() -> None:
    found = replace(FREE, found_in=80)
    assert departs(found, SADDLE, 0, 79, 9, TUNING)
    assert not departs(found, SADDLE, 0, 80, 9, TUNING)
    assert effort_left(replace(found, departed=70), TUNING) == 180
