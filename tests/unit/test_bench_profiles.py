"""Profiles and comparisons: cases computed by hand, and what every profile must satisfy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auglag import InputError
from auglag.bench.comparison import compare, pairwise, sign_test
from auglag.bench.profiles import (
    FAILURE_RATIO,
    Profile,
    cpu,
    data_profile,
    instance,
    judged,
    performance_profile,
    residual_below,
    subproblem_gradients,
)
from auglag.bench.record import Record
from auglag.bench.setting import PAPER_SETTINGS, Setting
from auglag.bench.spec import Run
from helpers.records import experiment, paper_profile, record

#: Three solvers on four problems. Gradients, None for a failure:
#:      A    B    C
#: P1  10   20   10     ratios 1, 2, 1 (a tie)
#: P2  30   10    -     ratios 3, 1, -
#: P3   -    -    -     nobody
#: P4   5  800  (no record)    ratios 1, 160, -
HAND = [
    record("P1", "A", 10),
    record("P1", "B", 20),
    record("P1", "C", 10),
    record("P2", "A", 30),
    record("P2", "B", 10),
    record("P2", "C", 10, solved=False),
    record("P3", "A", 1, solved=False),
    record("P3", "B", 1, solved=False),
    record("P3", "C", 1, solved=False),
    record("P4", "A", 5),
    record("P4", "B", 800),
]


def test_ratios_are_those_computed_by_hand() -> None:
    profile = performance_profile(HAND)
    inf = math.inf
    assert profile.solvers == ("A", "B", "C")
    assert profile.problems == ("P1", "P2", "P3", "P4")
    np.testing.assert_array_equal(profile.positions, [[1, 2, 1], [3, 1, inf], [inf, inf, inf], [1, 160, inf]])
    assert profile.missing == (("C", "P4"),)


def test_values_count_ties_for_both_and_keep_unsolved_problems_in_the_denominator() -> None:
    profile = performance_profile(HAND)
    assert [profile.value(s, 1.0) for s in "ABC"] == [0.5, 0.25, 0.25]
    assert [profile.value(s, 2.0) for s in "ABC"] == [0.5, 0.5, 0.25]
    assert [profile.value(s, 3.0) for s in "ABC"] == [0.75, 0.5, 0.25]
    assert [profile.value(s, math.inf) for s in "ABC"] == [0.75, 0.75, 0.25]


def test_the_papers_form_gives_failures_ratio_100_and_shows_the_same_curves_below_it() -> None:
    capped = performance_profile(HAND, failure_ratio=FAILURE_RATIO)
    np.testing.assert_array_equal(capped.positions, [[1, 2, 1], [3, 1, 100], [100, 100, 100], [1, 160, 100]])
    assert capped.value("B", 99.9) == 0.5
    assert capped.solved_fraction("B") == 0.75
    with pytest.raises(InputError, match=r"alpha must lie in \[1, 100\), got 100"):
        capped.value("B", 100.0)
    with pytest.raises(InputError, match=r"alpha must lie in \[1, inf\), got 0.5"):
        performance_profile(HAND).value("A", 0.5)


def test_a_curve_starts_at_one_and_lists_the_jumps() -> None:
    profile = performance_profile(HAND)
    for solver, jumps, values in (("A", [1, 3], [0.5, 0.75]), ("B", [1, 2, 160], [0.25, 0.5, 0.75])):
        np.testing.assert_array_equal(profile.curve(solver), [jumps, values])
    np.testing.assert_array_equal(performance_profile(HAND, failure_ratio=100.0).curve("B"), [[1, 2], [0.25, 0.5]])
    np.testing.assert_array_equal(performance_profile(HAND, problems=["P3"]).curve("B"), [[1], [0]])


def test_problems_without_any_record_count_when_they_are_named() -> None:
    profile = performance_profile(HAND, problems=["P1", "P2", "P3", "P4", "P5"])
    assert profile.value("A", math.inf) == 0.6
    assert ("A", "P5") in profile.missing


def test_the_best_is_taken_among_the_solvers_that_are_shown() -> None:
    profile = performance_profile(HAND, solvers=["B"])
    assert profile.value("B", 1.0) == 0.75
    with pytest.raises(InputError, match=r"solvers must be titles of records, one of .*'A'.* got 'D'"):
        performance_profile(HAND, solvers=["D"])
    with pytest.raises(InputError, match="solvers must be different"):
        performance_profile(HAND, solvers=["A", "A"])


def test_a_run_at_no_cost_counts_as_one_at_the_floor() -> None:
    records = [record("P", "A", 0), record("P", "B", 3)]
    np.testing.assert_array_equal(performance_profile(records).positions, [[1, 3]])
    timed = [replace(r, cpu=seconds) for r, seconds in zip(records, (0.0, 0.05), strict=True)]
    np.testing.assert_allclose(performance_profile(timed, cost=cpu, floor=0.01).positions, [[1, 5]])
    with pytest.raises(InputError, match="floor must be positive and finite, got 0"):
        performance_profile(records, floor=0.0)


def test_costs_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="cost must be finite and not negative"):
        performance_profile([replace(record("P", "A", 1), cpu=math.nan)], cost=cpu)


def test_two_records_of_one_solver_on_one_problem_are_refused() -> None:
    with pytest.raises(InputError, match="one run of each solver on each problem, got two of 'A' on P1: select one"):
        performance_profile([*HAND, HAND[0]])
    with pytest.raises(InputError, match="at least one run"):
        performance_profile([])


def test_instances_tell_parameters_and_seeds_apart() -> None:
    base = record("P", "A", 1)
    assert instance(base) == "P"
    assert instance(replace(base, run=Run("P", "A", params=(10, 0.5), seed=3))) == "P(10, 0.5) #3"


def test_predicates_are_the_judge_and_the_papers_test() -> None:
    near = replace(record("P", "A", 1), stationarity=(1e-4, 1e-4, 1e-4), residual=5e-3, claims_success=None)
    assert judged(1e-3)(near)
    assert not judged(1e-6)(near)
    assert residual_below(1e-2)(near)
    assert not residual_below(1e-3)(near)
    assert not residual_below(1e-2)(replace(near, residual=math.nan))
    with pytest.raises(InputError, match="tolerance must be one of"):
        judged(1e-2)
    with pytest.raises(InputError, match="eps must be positive"):
        residual_below(-1.0)


def test_gradients_of_the_subproblems_are_counted_from_the_history() -> None:
    known = replace(record("P", "A", 7), history=[{"evaluations": 4.0}, {"evaluations": 5.0}])
    assert subproblem_gradients(known) == 9.0
    for history in (None, [], [{"beta": 1.0}], [{"evaluations": math.nan}]):
        assert subproblem_gradients(replace(known, history=history)) == 7.0
    profile = paper_profile([known, record("P", "B", 18)], eps=1e-3, cost=subproblem_gradients)
    np.testing.assert_array_equal(profile.positions, [[1, 2]])


def test_data_profiles_count_units_of_n_plus_one_gradients() -> None:
    records = [record("P1", "A", 6, n=2), record("P2", "A", 10, n=9), record("P3", "A", 1, n=9, solved=False)]
    profile = data_profile([*records, record("P1", "B", 0, n=2)])
    np.testing.assert_array_equal(profile.positions[:, 0], [2, 1, math.inf])
    assert [profile.value("A", kappa) for kappa in (0, 0.99, 1, 2, 1e9)] == [0, 0, 1 / 3, 2 / 3, 2 / 3]
    assert profile.value("B", 0.0) == 1 / 3
    np.testing.assert_array_equal(profile.curve("A"), [[0, 1, 2], [0, 1 / 3, 2 / 3]])
    with pytest.raises(InputError, match="records of solved problems must have n > 0, got 0 for P"):
        data_profile([record("P", "A", 1, n=0)])


def test_a_killed_run_without_a_size_does_not_hide_the_size_of_the_problem() -> None:
    killed = replace(record("P", "A", 0, solved=False), n=0)
    assert data_profile([killed, record("P", "B", 4, n=3)]).value("B", 1.0) == 1.0


# ----------------------------------------------------------------------------------------------------------- properties


@st.composite
def results(draw: st.DrawFn) -> list[Record]:
    cells = st.one_of(st.none(), st.tuples(st.integers(0, 2000), st.booleans()))
    table = draw(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=12))
    found = [
        record(f"P{i}", solver, cell[0], solved=cell[1], n=1 + i)
        for i, row in enumerate(table)
        for solver, cell in zip("ABC", row, strict=True)
        if cell is not None
    ]
    return found or [record("P0", "A", 1)]


def _check(profile: Profile) -> None:
    for j, solver in enumerate(profile.solvers):
        at, values = profile.curve(solver)
        assert at[0] == profile.start
        assert np.all(np.diff(at) > 0)
        assert np.all(np.diff(values) >= 0)
        assert np.all((values >= 0) & (values <= 1))
        assert values == pytest.approx([profile.value(solver, alpha) for alpha in at])
        assert profile.solved_fraction(solver) == np.mean(profile.solved[:, j])
        if profile.limit == math.inf:
            assert profile.value(solver, math.inf) == profile.solved_fraction(solver)
            assert values[-1] == pytest.approx(profile.solved_fraction(solver))


@given(results())
def test_profiles_rise_within_zero_and_one_to_the_fraction_solved(records: list[Record]) -> None:
    for profile in (performance_profile(records), data_profile(records), paper_profile(records, eps=1e-3)):
        _check(profile)


@given(results())
def test_somebody_is_best_on_every_problem_that_somebody_solves(records: list[Record]) -> None:
    profile = performance_profile(records)
    best = sum(profile.value(solver, 1.0) for solver in profile.solvers)
    assert best >= np.mean(profile.solved.any(axis=1)) - 1e-12
    assert np.all(profile.positions >= 1.0)


@given(results())
def test_both_forms_agree_where_the_papers_is_defined(records: list[Record]) -> None:
    free, capped = performance_profile(records), performance_profile(records, failure_ratio=FAILURE_RATIO)
    for solver in free.solvers:
        for alpha in (1.0, 1.5, 7.0, 99.0, 99.999):
            assert free.value(solver, alpha) == capped.value(solver, alpha)


@given(results())
def test_a_comparison_is_antisymmetric_and_accounts_for_every_problem(records: list[Record]) -> None:
    for one in pairwise(records):
        problems = len({instance(r) for r in records})
        assert len(one.both) + len(one.only_a) + len(one.only_b) + len(one.neither) == problems
        assert one.cheaper_a + one.cheaper_b + one.ties == len(one.both)
        other = compare(records, one.b, one.a)
        assert (one.wins_a, one.wins_b, one.p_value) == (other.wins_b, other.wins_a, other.p_value)
        if one.both:
            assert one.geometric_mean_ratio * other.geometric_mean_ratio == pytest.approx(1.0)


# ---------------------------------------------------------------------------------------------------------- comparisons


def test_a_comparison_is_the_one_computed_by_hand() -> None:
    found = compare(HAND, "A", "B")
    assert (found.both, found.only_a, found.only_b, found.neither) == (("P1", "P2", "P4"), (), (), ("P3",))
    assert (found.cheaper_a, found.cheaper_b, found.ties) == (2, 1, 0)
    assert found.median_ratio == 0.5
    assert found.geometric_mean_ratio == pytest.approx((0.5 * 3 * 5 / 800) ** (1 / 3))
    assert found.p_value == 1.0
    other = compare(HAND, "A", "C")
    assert (other.both, other.only_a, other.ties, other.wins_a, other.wins_b) == (("P1",), ("P2", "P4"), 1, 2, 0)
    assert other.p_value == 0.5


def test_nothing_solved_in_common_gives_no_ratio() -> None:
    found = compare([record("P", "A", 1), record("P", "B", 1, solved=False)], "A", "B")
    assert math.isnan(found.median_ratio)
    assert math.isnan(found.geometric_mean_ratio)
    assert found.p_value == 1.0


def test_the_sign_test_is_the_exact_binomial_one() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(5, 5) == 1.0
    assert sign_test(10, 0) == 2 / 1024
    assert sign_test(1, 9) == 2 * 11 / 1024
    assert 0.0 < sign_test(900, 700) < 1e-5


def test_pairs_cover_every_two_solvers() -> None:
    assert [(one.a, one.b) for one in pairwise(HAND)] == [("A", "B"), ("A", "C"), ("B", "C")]


# ------------------------------------------------------------------------------------------------------------- settings


def test_settings_select_their_records_and_say_their_title() -> None:
    records = experiment(5)
    for setting in PAPER_SETTINGS:
        chosen = setting.select(records)
        assert len(chosen) == 20
        assert {r.run.options["gamma"] for r in chosen} == {setting.gamma}
    assert PAPER_SETTINGS[0].title == "ε = 10⁻², τ = 0.8, γ = 1.5"
    assert PAPER_SETTINGS[3].tex == r"$\varepsilon = 10^{-3}$, $\tau = 0.8$, $\gamma = 2$"
    assert Setting(2.5e-4, 0.5, 2).title == "ε = 2.5·10⁻⁴, τ = 0.5, γ = 2"


def test_an_always_variant_without_a_run_at_this_tau_lends_its_other_one() -> None:
    def run(variant: str, tau: float | None) -> Record:
        options = {"tol": 1e-3, "tau": tau, "gamma": 1.5, "variant": variant}
        return replace(record("P", "A", 1), run=Run("P", "auglag", options=options, label=variant))

    setting = Setting(1e-3, 0.5, 1.5)
    shared, own, adaptive = run("always-full", None), run("always-full", 0.5), run("adaptive-full", 0.8)
    assert setting.select([shared, adaptive]) == [shared]
    assert setting.select([shared, own, adaptive]) == [own]
