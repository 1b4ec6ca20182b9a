"""The rules map a history to one number; every number here is worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auglag import Adaptive, Always, FromScale, Full, Geometric, InputError, PowerLaw, Short
from auglag.algorithm.history import History, Iteration
from auglag.algorithm.rules import Constant, DualRule, PenaltyRule, after_failure


def row(
    k: int, beta: float, violation: float, *, usable: bool = True, user_violation: float | None = None
) -> Iteration:
    return Iteration(
        k=k,
        beta=beta,
        eta=0.1,
        usable=usable,
        violation=violation,
        stationarity=0.0,
        residual=violation,
        user_violation=violation if user_violation is None else user_violation,
        objective=0.0,
        multiplier_norm=0.0,
        inner_status="CONVERGED" if usable else "UNBOUNDED",
        inner_iterations=1,
        evaluations=1,
    )


def history(first: float, *rows: Iteration, objective: float = 0.0, negligible: float = 0.0) -> History:
    return History(objective, first, negligible, list(rows))


# ------------------------------------------------------------------------------------------------------------- history


def test_a_new_history_is_about_to_start_iteration_one() -> None:
    assert history(4.0).k == 1
    assert history(4.0).violations() == [4.0]


def test_violations_leave_out_iterations_whose_point_was_not_taken() -> None:
    h = history(4.0, row(1, 1.0, 3.0), row(2, 1.0, 1e9, usable=False), row(3, 10.0, 2.0))
    assert h.violations() == [4.0, 3.0, 2.0]
    assert h.k == 4
    assert h.last.beta == 10.0


# ------------------------------------------------------------------------------------------------------------- penalty


@pytest.mark.parametrize(
    ("objective", "violation", "beta"),
    [
        (0.0, 0.0, 10.0),  # 10 max(1, 0) / max(1, 0)
        (5.0, 1.0, 50.0),  # 10 * 5 / max(1, 1/2)
        (-5.0, 2.0, 25.0),  # |f|; 10 * 5 / (4 / 2)
        (1.0, 1e3, 0.5),  # 10 / 5e5 = 2e-5, below lowest
        (1e9, 0.0, 700.0),  # above highest
    ],
)
def test_the_first_penalty_weighs_f_against_c(objective: float, violation: float, beta: float) -> None:
    rule = FromScale(factor=10.0, lowest=0.5, highest=700.0)
    assert rule.value(history(violation, objective=objective)) == pytest.approx(beta)


@pytest.mark.parametrize("rule", [Always, Adaptive])
def test_the_first_penalty_is_a_number_or_a_rule(rule: type[Always] | type[Adaptive]) -> None:
    assert rule(initial=3.0).next(history(4.0)) == 3.0
    assert rule(initial=FromScale(2.0, 0.1, 100.0)).next(history(0.0, objective=7.0)) == pytest.approx(14.0)


def test_always_multiplies_by_gamma_whatever_happened() -> None:
    rule = Always(initial=1.0, gamma=1.5)
    assert rule.next(history(4.0, row(1, 1.0, 0.0))) == 1.5
    assert rule.next(history(4.0, row(1, 1.0, 1.0), row(2, 1.5, 9.0))) == 2.25


@pytest.mark.parametrize(
    ("before", "now", "beta"),
    [
        (4.0, 2.0, 3.0),  # exactly tau: enough
        (4.0, 2.0000001, 30.0),
        (4.0, 4.0, 30.0),
        (4.0, 0.0, 3.0),
        (0.0, 0.0, 3.0),  # 0 <= tau 0
        (0.0, 1e-300, 30.0),
    ],
)
def test_adaptive_raises_beta_only_where_the_violation_failed_to_shrink(before: float, now: float, beta: float) -> None:
    assert Adaptive(initial=1.0, gamma=10.0, tau=0.5).next(history(before, row(1, 3.0, now))) == beta


def test_adaptive_compares_with_the_last_point_taken() -> None:
    rule = Adaptive(initial=1.0, gamma=10.0, tau=0.5)
    h = history(9.0, row(1, 1.0, 4.0), row(2, 1.0, 1e9, usable=False), row(3, 10.0, 1.9))
    assert rule.next(h) == 10.0  # 1.9 <= 4 / 2
    h = history(9.0, row(1, 1.0, 4.0), row(2, 1.0, 1e-9, usable=False), row(3, 10.0, 2.1))
    assert rule.next(h) == 100.0


def test_adaptive_does_not_chase_a_negligible_violation() -> None:
    rule = Adaptive(initial=1.0, gamma=10.0, tau=0.5)
    assert rule.next(history(1e-12, row(1, 3.0, 1e-12), negligible=1e-8)) == 3.0
    assert rule.next(history(1e-12, row(1, 3.0, 1e-12), negligible=0.0)) == 30.0
    # judged in the user's units: a violation that scaling made small is not
    assert rule.next(history(1e-12, row(1, 3.0, 1e-12, user_violation=1e-3), negligible=1e-8)) == 30.0


@pytest.mark.parametrize(("gamma", "factor"), [(10.0, 10.0), (1.5, 1.5**6), (2.0, 16.0), (100.0, 100.0), (3.0, 27.0)])
@pytest.mark.parametrize("rule", [Always, Adaptive])
def test_an_unbounded_subproblem_is_answered_by_a_power_of_gamma_of_at_least_ten(
    rule: type[Always] | type[Adaptive], gamma: float, factor: float
) -> None:
    h = history(4.0, row(1, 2.0, 5.0, usable=False))
    assert rule(initial=1.0, gamma=gamma).next(h) == pytest.approx(2.0 * factor)


@pytest.mark.parametrize("rule", [Always, Adaptive])
def test_without_a_leap_an_unbounded_subproblem_raises_the_penalty_as_ever(rule: type[Always] | type[Adaptive]) -> None:
    h = history(4.0, row(1, 2.0, 5.0, usable=False))
    assert rule(initial=1.0, gamma=1.5, leap=1.0).next(h) == 3.0
    with pytest.raises(InputError, match=r"leap must be finite and at least 1, got 0\.5"):
        rule(leap=0.5)


@given(gamma=st.floats(1.001, 1e6))
def test_the_answer_to_an_unbounded_subproblem_is_the_least_such_power(gamma: float) -> None:
    factor = after_failure(history(4.0, row(1, 1.0, 5.0, usable=False)), gamma)
    assert factor >= 10.0 * (1 - 1e-6)
    assert factor < 10.0 * gamma * (1 + 1e-6)
    power = math.log(factor) / math.log(gamma)
    assert power == pytest.approx(round(power), abs=1e-6)


@given(
    violations=st.lists(st.floats(1e-10, 1e3), min_size=1, max_size=15),
    gamma=st.floats(1.01, 100.0),
    tau=st.floats(0.01, 0.99),
)
def test_adaptive_is_never_above_always(violations: list[float], gamma: float, tau: float) -> None:
    penalties = {}
    for rule in (Adaptive(initial=1.0, gamma=gamma, tau=tau), Always(initial=1.0, gamma=gamma)):
        h = history(1.0)
        for k, violation in enumerate(violations, start=1):
            h.iterations.append(row(k, rule.next(h), violation))
        penalties[type(rule)] = [it.beta for it in h.iterations]
        assert all(b2 in (b1, gamma * b1) for b1, b2 in itertools.pairwise(penalties[type(rule)]))
    assert all(a <= b for a, b in zip(penalties[Adaptive], penalties[Always], strict=True))


# ---------------------------------------------------------------------------------------------------------------- dual


def test_the_full_step_is_beta() -> None:
    assert Full().step(history(4.0, row(1, 7.0, 1.0))) == 7.0


def test_full_clips_every_component_to_the_box() -> None:
    y = Full(y_max=3.0).project(np.array([5.0, -4.0, 2.0]), history(1.0, row(1, 1.0, 1.0)))
    np.testing.assert_array_equal(y, [3.0, -3.0, 2.0])


def test_full_scales_the_vector_down_to_the_ball() -> None:
    rule, h = Full(y_max=2.5, ball="l2"), history(1.0, row(1, 1.0, 1.0))
    np.testing.assert_allclose(rule.project(np.array([3.0, -4.0]), h), [1.5, -2.0], rtol=1e-15)
    inside = np.array([1.0, 2.0])
    np.testing.assert_array_equal(rule.project(inside, h), inside)


@pytest.mark.parametrize("ball", ["box", "l2"])
def test_a_growing_cap_is_k_times_y_max(ball: str) -> None:
    rule = Full(y_max=2.0, ball=ball, growing=True)
    rows = [row(k, 1.0, 1.0) for k in (1, 2, 3)]
    for k in (1, 2, 3):
        assert rule.project(np.array([100.0]), history(1.0, *rows[:k])) == pytest.approx([2.0 * k])


def test_the_short_step_by_hand() -> None:
    """||c(x_1)|| = 4; then ||c|| = 2, 1.5 and 0.3 (log 2 = 0.693147, log 3 = 1.098612, log 5 = 1.609438)."""
    rows = [row(1, 1.0, 2.0), row(2, 10.0, 1.5), row(3, 10.0, 0.3)]
    steps = [Short().step(history(4.0, *rows[:k])) for k in (1, 2, 3)]
    assert steps[0] == pytest.approx(0.398072, abs=1e-6)  # 4 (0.480453) / (2 * 2 * 1.206949)
    assert steps[1] == pytest.approx(2 / 9, abs=1e-12)  # 4 log^2 2 / (1.5 * 3 * 4 log^2 2)
    assert steps[2] == pytest.approx(0.618274, abs=1e-6)  # 4 (0.480453) / (0.3 * 4 * 2.590290)


def test_the_short_step_is_at_most_one_and_one_where_c_vanishes() -> None:
    assert Short().step(history(4.0, row(1, 1.0, 1e-9))) == 1.0
    assert Short().step(history(4.0, row(1, 1.0, 0.0))) == 1.0
    assert Short().step(history(0.0, row(1, 1.0, 0.0))) == 1.0
    assert Short().step(history(0.0, row(1, 1.0, 1.0))) == 0.0


@given(first=st.floats(0.0, 1e6), violations=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=60))
def test_short_steps_keep_the_multipliers_bounded(first: float, violations: list[float]) -> None:
    """sum_k log^2 2 / ((k + 1) log^2(k + 2)) < 2.5, so that ||y|| < 2.5 ||c(x_1)||."""
    h, total = history(first), 0.0
    for k, violation in enumerate(violations, start=1):
        h.iterations.append(row(k, 1.0, violation))
        total += Short().step(h) * violation
    assert total <= 2.5 * first + 1e-9


def test_a_users_own_rules_are_one_small_class_each() -> None:
    class Doubling(PenaltyRule):
        def next(self, history: History) -> float:
            return 2.0**history.k

    class Half(DualRule):
        def step(self, history: History) -> float:
            return 0.5 * history.last.beta

    h = history(1.0, row(1, 2.0, 1.0))
    assert Doubling().next(h) == 4.0
    assert Half().step(h) == 1.0
    np.testing.assert_array_equal(Half().project(np.array([1e12]), h), [1e12])


# ----------------------------------------------------------------------------------------------------- inner tolerance


def test_inner_tolerance_sequences_by_hand() -> None:
    histories = [history(1.0, *[row(j, 1.0, 1.0) for j in range(1, k)]) for k in (1, 2, 3, 4)]
    assert [PowerLaw().next(h) for h in histories] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
    assert [PowerLaw(2.0, 0.5).next(h) for h in histories] == pytest.approx([2, 2 / 2**0.5, 2 / 3**0.5, 1])
    assert [Geometric(0.1, 0.1, 5e-4).next(h) for h in histories] == pytest.approx([0.1, 0.01, 1e-3, 5e-4])
    assert [Constant(0.3).next(h) for h in histories] == [0.3] * 4


# ---------------------------------------------------------------------------------------------------------- validation


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda v: Always(initial=v), r"Always\.initial must be .*positive"),
        (lambda v: Adaptive(initial=v), r"Adaptive\.initial must be .*positive"),
        (lambda v: FromScale(factor=v), r"FromScale\.factor must be .*positive"),
        (lambda v: FromScale(lowest=v), r"FromScale\.lowest must be .*positive"),
        (lambda v: Full(y_max=v), r"Full\.y_max must be .*positive"),
        (lambda v: PowerLaw(scale=v), r"PowerLaw\.scale must be .*positive"),
        (lambda v: PowerLaw(power=v), r"PowerLaw\.power must be .*positive"),
        (lambda v: Geometric(first=v), r"Geometric\.first must be .*positive"),
        (Constant, r"Constant\.value must be .*positive"),
    ],
)
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_numbers_that_must_be_positive(make: object, said: str, value: float) -> None:
    with pytest.raises(InputError, match=said):
        make(value)


@pytest.mark.parametrize("rule", [Always, Adaptive])
@pytest.mark.parametrize("gamma", [1.0, 0.5, math.inf, math.nan])
def test_gamma_must_exceed_one(rule: type[Always] | type[Adaptive], gamma: float) -> None:
    with pytest.raises(InputError, match=rf"{rule.__name__}\.gamma must be finite and greater than 1, got {gamma}"):
        rule(gamma=gamma)


@pytest.mark.parametrize("tau", [0.0, 1.0, 1.5, -0.1, math.nan])
def test_tau_must_lie_between_zero_and_one(tau: float) -> None:
    with pytest.raises(InputError, match=rf"Adaptive\.tau must lie in \(0, 1\), got {tau}"):
        Adaptive(tau=tau)


def test_other_demands() -> None:
    with pytest.raises(InputError, match=r"Full\.ball must be 'box' or 'l2', got 'l1'"):
        Full(ball="l1")
    with pytest.raises(InputError, match=r"FromScale\.highest must be finite and at least lowest, got 0\.5"):
        FromScale(lowest=1.0, highest=0.5)
    with pytest.raises(InputError, match=r"Geometric\.ratio must lie in \(0, 1\), got 1\.0"):
        Geometric(ratio=1.0)
    with pytest.raises(InputError, match=r"Geometric\.floor must be nonnegative and finite, got -1\.0"):
        Geometric(floor=-1.0)


def test_a_subproblem_that_was_cut_short_but_gets_on_raises_no_penalty() -> None:
    from dataclasses import replace

    rows = [replace(row(k, 10.0, 1.0), inner_status="LIMIT", residual=0.5**k) for k in range(1, 9)]
    assert Adaptive(10.0).next(history(1.0, *rows, negligible=1e-8)) == 10.0
    assert Adaptive(10.0).next(history(1.0, *rows)) == 100.0  # the paper's rule
    stuck = [replace(one, residual=1.0) for one in rows]
    assert Adaptive(10.0).next(history(1.0, *stuck, negligible=1e-8)) == 100.0
