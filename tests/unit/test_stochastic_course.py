"""The pieces around a stochastic run, each by itself: limits, growing samples, stages, words for the end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.helpers.stochastic import two_classes

from auglag import InputError, Status
from auglag.algorithm.history import History
from auglag.algorithm.outer import Ask
from auglag.certificate import certificate
from auglag.inner.base import InnerResult, InnerStatus
from auglag.stochastic import FullBatchProblem, stage
from auglag.stochastic.full_batch import FullBatch
from auglag.stochastic.growing import growth
from auglag.stochastic.lagrangian import Geometry, StochasticLagrangian
from auglag.stochastic.limits import Ledger, Limits, Meter
from auglag.stochastic.reporting import Ending, advice, message
from auglag.stochastic.settings import DEFAULTS
from auglag.stochastic.tuning import TUNING


@pytest.mark.parametrize(
    ("spent", "reached"),
    [
        ({"rows": 199, "gradients": 6}, ""),
        ({"rows": 200, "gradients": 6}, "epochs"),
        ({"rows": 200, "gradients": 7}, "epochs"),
        ({"rows": 0, "gradients": 7}, "gradients"),
    ],
)
def test_a_meter_names_the_limit_that_is_reached(spent: dict, reached: str) -> None:
    meter = Meter(Limits(epochs=2.0, gradients=7, seconds=1e6), Ledger(**spent), pass_rows=100)
    assert meter.reached() == reached
    assert meter.epochs == spent["rows"] / 100


def test_time_before_a_resume_counts() -> None:
    meter = Meter(Limits(seconds=10.0), Ledger(), began=time.monotonic() - 11.0)
    assert meter.seconds >= 11.0
    assert meter.reached() == "seconds"
    assert Meter(Limits(), Ledger(rows=10**9)).reached() == ""


def test_slow_steps_are_timed_more_often_and_fast_ones_less() -> None:
    meter = Meter(Limits(), Ledger())
    meter.pace(2 * TUNING.clock_interval)
    assert meter.stride == TUNING.first_stride // 4
    meter.pace(0.0)
    assert meter.stride == TUNING.first_stride


def test_limits_must_be_positive() -> None:
    with pytest.raises(InputError, match="max_gradients must be positive and finite, got 0"):
        Limits.of(max_epochs=1.0, max_gradients=0, max_seconds=None, max_outer=None)
    with pytest.raises(InputError, match=r"max_outer must be a positive integer or None, got 2\.5"):
        Limits.of(max_epochs=1.0, max_gradients=None, max_seconds=None, max_outer=2.5)
    assert Limits.of(max_epochs=None, max_gradients=None, max_seconds=None, max_outer=1e4).outer == 10_000


@pytest.mark.parametrize(
    ("high", "left", "found"),
    [
        (0.07, 1e9, (2, "")),  # the error is what it may be already: but something has to change
        (0.139, 1e9, (4, "")),  # twice the error: four times the rows
        (7.0, 1e9, (TUNING.growth_most, "")),
        (7.0, 3.5 * 8 * 800, (3, "")),  # what the limits allow: passes over it, and its certificate
        (7.0, 1.5 * 8 * 800, (1, "epochs")),
    ],
)
def test_a_sample_grows_as_the_error_demands_and_the_limits_allow(high: float, left: float, found: tuple) -> None:
    assert growth(two_classes(rows=400), high, 0.1, left) == found


def test_a_stage_tests_where_its_subproblems_end() -> None:
    problem = two_classes(rows=60)
    full, geometry = FullBatch(problem, Ledger()), Geometry(problem, "closed")
    played: stage.Stage[Any, Any] = stage.Stage(lambda y, beta: StochasticLagrangian(geometry, full, y, beta))
    with pytest.raises(LookupError, match="no subproblem was asked for yet"):
        _ = played.current
    with pytest.raises(LookupError, match="no subproblem has ended yet"):
        _ = played.last
    subproblem, x = played.subproblem(np.array([0.3]), 2.0), np.linspace(-1, 1, 6)
    test = subproblem.test(x)
    found = InnerResult(x, test.value, test.dist, 3, 4, InnerStatus.CONVERGED)
    row = played.record(Ask(1, 2.0, 0.1), found, test.c, test.y_hat)
    assert row == stage.tested_row(Ask(1, 2.0, 0.1), found, test.c, test.y_hat, played.last)
    assert (row.residual, row.stationarity, row.objective) == (test.residual, test.dist, test.evaluation.f)
    assert played.current is subproblem


def ending(**changes: Any) -> Ending:
    problem, x = two_classes(rows=60), np.zeros(6)
    end = Ending(
        status=Status.EVALUATION_LIMIT,
        check=certificate(FullBatchProblem(problem, x), x, np.zeros(1)),
        tol=1e-3,
        settings=DEFAULTS["lbfgs"],
        history=History(1.0, 1.0),
        limits=Limits(epochs=7.0, gradients=5),
        limit="epochs",
        finite_data=True,
        grows=False,
        refuted=False,
        sample_rows=60,
        drawn_rows=60,
        rescued=False,
        checkpoint=None,
    )
    return replace(end, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Epoch limit reached before the tolerance: max_epochs = 7 passes over the data. Residual"),
        ({"limit": "gradients"}, "Gradient limit reached before the tolerance: max_gradients = 5. Residual"),
        ({"status": Status.STUCK}, Status.STUCK.message),
        ({"refuted": True}, "Solved on a sample of 60 rows only: max_epochs = 7.0 leaves no room for a larger one."),
        ({"refuted": True, "limit": "memory"}, "on a sample of 60 rows only: memory has no room for a larger one."),
        ({"rescued": True}, "lbfgs got stuck; L-BFGS began again at x0."),
    ],
)
def test_the_message_names_the_end(changes: dict, words: str) -> None:
    assert words in message(ending(**changes))


@pytest.mark.parametrize(
    ("changes", "tip"),
    [
        ({}, "a larger max_epochs, from x0=result.x, y0=result.multipliers."),
        ({"checkpoint": "run.npz"}, "a larger max_epochs, with resume='run.npz'."),
        ({"status": Status.ITERATION_LIMIT, "limit": ""}, "a larger max_outer, from x0=result.x"),
        ({"status": Status.STUCK}, "variables and constraints in units that make them of similar size"),
        ({"stuck": "cap"}, "another way to compute 'cap', or another x0: it is violated and its gradient is zero"),
        ({"settings": DEFAULTS["sgd"]}, "method='auto': on data with an end it needs fewer passes than 'sgd'."),
    ],
)
def test_the_advice_fits_the_end(changes: dict, tip: str) -> None:
    assert any(tip in line for line in advice(ending(**changes)))
