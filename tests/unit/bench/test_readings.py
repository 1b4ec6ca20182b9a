"""The readings of the paper: which runs they are, and what is made of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from auglag.bench import baselines
from auglag.bench.record import Ending, Record, flat
from auglag.bench.tables import PAPER_ROWS
from auglag.paper import figure1
from auglag.paper.deterministic import (
    FULL,
    LIMITS,
    QUICK_LIMITS,
    READINGS,
    TABLE,
    problems,
    run_of,
    succeeded,
    variant_runs,
)
from auglag.paper.readings import with_test, write_variants


def record(run, evaluations, residual=1e-4):
    """A run of two outer iterations that ends with this residual."""
    rows = [
        {"k": 1.0, "evaluations": 2.0, "residual": 1.0},
        {"k": 2.0, "evaluations": evaluations, "residual": residual},
    ]
    return Record(run, Ending.RETURNED, n=2, m=1, residual=1e-4, gradients=3, extra={"beta": 8.0}, history=rows)


def test_readings_are_different_runs_and_every_option_is_one_of_the_solver():
    runs = [group[0] for group in variant_runs(["BT4"], LIMITS).values()]
    assert len({run.key for run in runs}) == len(READINGS)
    for reading, run in zip(READINGS, runs, strict=True):
        assert [other.title for other in READINGS if other.made(run)] == [reading.title]
        baselines.get("auglag").check(baselines.complete("auglag", run.options))


@pytest.mark.parametrize("what", ["table2", "variants"])
def test_the_papers_ten_problems_are_there_even_in_a_quick_run(what):
    names = problems(quick=True, what=what)
    printed = {row.problem for row in PAPER_ROWS}
    assert printed - set(names) == {"BROWNALE"}  # not in the collection
    assert len(printed) < len(names) < 60
    assert len(problems()) == 472


def test_a_success_meets_line_4_and_the_certificate_within_the_limit():
    run = run_of("BT4", "adaptive-full", TABLE, QUICK_LIMITS)
    assert succeeded(record(run, 10.0))
    assert not succeeded(record(run, 10.0, residual=2e-3))  # with its slacks the point is none
    assert not succeeded(replace(record(run, 10.0), residual=2e-3))
    assert not succeeded(record(run, 999.0))


def test_the_cost_that_is_plotted_is_a_column_of_the_published_runs():
    found = record(run_of("BT4", "adaptive-full", TABLE, LIMITS), 10.0)
    assert flat(found)["subproblem_gradients"] == 12 == figure1.COST(found)
    assert flat(found)["last_residual"] == found.history[-1]["residual"]
    assert with_test(found) == 14.0


def test_every_reading_has_a_line_and_a_profile(tmp_path):
    pytest.importorskip("matplotlib")
    records = []
    for reading, runs in variant_runs(["BT4", "BT6"], LIMITS).items():
        for run in runs:
            always = run.options["variant"] == FULL[1]
            wins = always == ("ftol" not in reading.options)
            records.append(record(run, 10.0 if wins else 20.0))
    lines = list(write_variants(records, tmp_path))
    table = (tmp_path / "variants.md").read_text()
    for reading in READINGS:
        lines_of = [[cell.strip() for cell in line.split("|")] for line in table.replace("\\", "").splitlines()]
        line = next(cells for cells in lines_of if reading.title in cells)
        assert ("Adaptive" in line) == ("ftol" in reading.options)
    assert (tmp_path / "variants.svg").exists()
    assert any("variants-runs.csv.gz" in line for line in lines)


def test_a_run_whose_budget_ends_in_the_first_subproblem_has_a_residual():
    """As on NUFFIELD: every gradient is one of the problem, so that the certificate asks for one beyond the limit."""
    from auglag.bench.worker import execute

    found = execute(run_of("HS71", "always-full", TABLE, replace(QUICK_LIMITS, gradients=2)))
    assert found.gradients == found.subproblem_gradients == 2
    assert math.isfinite(found.residual)
    assert found.ending == Ending.LIMIT
    assert "EVALUATION_LIMIT" in found.message


def test_a_stated_limit_on_gradients_holds():
    from auglag.bench.worker import execute

    limits = replace(QUICK_LIMITS, gradients=40)
    found = execute(run_of("HS71", "always-full", TABLE, limits))
    assert found.subproblem_gradients == 40
    assert found.ending == Ending.LIMIT
