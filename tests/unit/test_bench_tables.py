"""Tables of an experiment, counted by hand, and their rendering."""

from __future__ import annotations

import math
from html.parser import HTMLParser

import pytest

from auglag import InputError
from auglag.bench.profiles import residual_below
from auglag.bench.record import Ending
from auglag.bench.rendering import Table, shown
from auglag.bench.setting import PAPER_SETTINGS
from auglag.bench.tables import (
    PAPER_ROWS,
    failures,
    last_beta,
    pairs,
    profile_values,
    reason,
    solved_at,
    table2,
    table2_here,
)
from helpers.records import experiment, paper_profile, record

ROUGH = {"violation": 0.0, "stationarity": (1e-4, 1e-4, 1e-4)}
RECORDS = [
    record("P1", "A", 10, cpu=1.0, environment={"solver": "a 1.2"}),
    record("P2", "A", 30, cpu=2.0),
    record("P3", "A", 7, cpu=0.26, claims_success=True, **ROUGH),
    record("P4", "A", 0, solved=False, ending=Ending.TIMEOUT, claims_success=None, message="killed after 60 s"),
    record("P1", "B", 5, **(ROUGH | {"stationarity": (0.0, 0.0, 1e-7)})),
    record("P2", "B", 9, solved=False, ending=Ending.LIMIT, message="20000 gradients used up"),
    record("P3", "B", 9, solved=False, message="Restoration failed. See 3.5e-2"),
]


def test_solved_at_counts_what_was_counted_by_hand() -> None:
    table = solved_at(RECORDS)
    assert table.columns == (
        *("Solver", "1e-3", "1e-6", "1e-8", "median gradients", "common", "CPU s"),
        *("returned", "limit", "timeout", "false claims", "no record"),
    )
    assert table.rows == (("A", 3, 2, 2, 20.0, 10.0, 3.3, 3, 0, 1, 1, 0), ("B", 1, 1, 0, 5.0, 5.0, 0.0, 2, 1, 0, 0, 1))
    assert table.notes[0].startswith("4 problems; medians over those solved at 1e-6, 'common' over the 1 that all 2")
    assert table.notes[-1] == "Versions: A: a 1.2."


def test_false_claims_are_judged_at_the_tolerance_that_was_asked_for() -> None:
    assert [row[-2] for row in solved_at(RECORDS, claims_at=1e-3).rows] == [0, 0]
    assert "false claims" not in solved_at(RECORDS, claims_at=None).columns


def test_solvers_without_success_have_no_median() -> None:
    table = solved_at([record("P", "A", 3, solved=False)])
    assert table.rows[0][4:6] == (None, None)


def test_failures_are_grouped_by_ending_and_class_of_message() -> None:
    assert failures(RECORDS).rows == (
        ("A", "returned", "", 1, "P3"),
        ("A", "timeout", "killed after # s", 1, "P4"),
        ("B", "limit", "# gradients used up", 1, "P2"),
        ("B", "no record", "", 1, "P4"),
        ("B", "returned", "Restoration failed", 1, "P3"),
    )
    assert failures(RECORDS, solved=lambda r: r.claims_success is True).rows[0] == (
        "A",
        "timeout",
        "killed after # s",
        1,
        "P4",
    )
    many = [record(f"P{i}", "A", 1, solved=False, message=f"step {i}") for i in range(5)]
    assert failures(many).rows == (("A", "returned", "step #", 5, "P0, P1, P2, ..."),)


@pytest.mark.parametrize(
    ("message", "extra", "expected"),
    [
        ("whatever", {"status": "STUCK"}, "STUCK"),
        ("ITERATION_LIMIT: too many", {}, "ITERATION_LIMIT"),
        ("ValueError: x is 3", {}, "ValueError"),
        ("numpy.linalg.LinAlgError: singular", {}, "numpy.linalg.LinAlgError"),
        ("EXIT: Converged to a point", {}, "EXIT"),
        ("Residual 1.2e-05 above 1e-6; stop", {}, "Residual # above #"),
        ("a" * 70, {}, "a" * 57 + "..."),
        ("", {}, ""),
    ],
)
def test_messages_are_classed_without_their_numbers(message: str, extra: dict[str, str], expected: str) -> None:
    assert reason(record("P", "A", 1, message=message, extra=extra)) == expected


def test_the_printed_rows_agree_with_themselves_and_with_beta_1() -> None:
    assert len(PAPER_ROWS) == 10
    for row in PAPER_ROWS:
        assert row.always_beta / row.adaptive_beta == pytest.approx(row.ratio, rel=2e-5)
        for beta in (row.always_beta, row.adaptive_beta):
            steps = math.log(beta / 1e-3) / math.log(1.5)
            assert steps == pytest.approx(round(steps), abs=2e-5)


def test_table_2_puts_our_numbers_beside_the_papers() -> None:
    records = [
        record("BT4", "Always-Full", 1000, solved=False, extra={"beta": 1e20}),
        record("BT4", "Adaptive-Full", 200, extra={"beta": 100.0}),
        record("CB2", "Always-Full", 70, extra={"beta": 3.0}),
        record("CB2", "Adaptive-Full", 60, solved=False, history=[{"beta": 1.0}, {"beta": 6.0}]),
        record("AAA", "Always-Full", 0, solved=False, ending=Ending.CRASH),
        record("AAA", "Adaptive-Full", 60, extra={"beta": 6.0}),
    ]
    table = table2(records)
    rows = {row[0]: row[1:] for row in table.rows}
    assert len(rows) == 10
    assert rows["BT4"] == (*(1000, 1287, 1e20, 4.49548e21, 200, 275, 100.0, 127.834, 1e18, 3.51665e19), *("yes", "no"))
    assert rows["CB2"][8] == 0.5
    assert rows["CB2"][-2:] == ("no", "yes")
    assert rows["CB3"][-2:] == ("no record", "no record")
    assert "4.49548e21" in table.text()
    here = table2_here(records)
    assert here.rows == (("AAA", 0, None, 60, 6.0, None), ("BT4", 1000, 1e20, 200, 100.0, 1e18))
    assert here.notes == ("2 of 2 such problems, by name; on 1 it is the other way round (3 problems).",)
    with pytest.raises(InputError, match=r"solvers must be titles of records, one of .* got 'Always-Full'"):
        table2([record("BT4", "Adaptive-Full", 1)])


def test_the_last_beta_is_found_or_not_there() -> None:
    assert last_beta(None) is None
    assert last_beta(record("P", "A", 1)) is None
    assert last_beta(record("P", "A", 1, extra={"beta": math.inf})) is None


def test_profile_values_mark_the_best_of_each_panel() -> None:
    records = [record("P", "A", 10), record("P", "B", 20), record("Q", "A", 1, solved=False), record("Q", "B", 3)]
    table = profile_values({"panel": paper_profile(records, eps=1e-3)}, alphas=(1, 2))
    assert table.columns == ("Panel", "Solver", "rho(1)", "rho(2)", "solved")
    assert table.rows == (("panel", "A", "0.500*", "0.500 ", "0.500 "), ("panel", "B", "0.500*", "1.000*", "1.000*"))


def test_pairs_are_the_comparisons() -> None:
    assert pairs(RECORDS).rows[0][:6] == ("A", "B", 1, 1, 0, 2)


def test_cells_are_shown_plainly() -> None:
    cells = (None, math.nan, True, False, 12345, 3.41376e22, 0.25, math.inf, 1e-7, "x")
    assert [shown(cell) for cell in cells] == ["-", "-", "yes", "no", "12345", "3.414e22", "0.25", "inf", "1e-7", "x"]


def test_markdown_and_text_align_numbers_and_escape_markup() -> None:
    table = Table("T", ("name", "count"), (("a|b <i>", 5), ("c", None)), ("note",))
    assert table.markdown() == (
        "**T**\n\n| name       | count |\n| ---------- | ----: |\n"
        "| a\\|b \\<i\\> |     5 |\n| c          |     - |\n\nnote\n"
    )
    assert table.text() == "T\n\nname     count\n-------  -----\na|b <i>      5\nc            -\nnote\n"
    with pytest.raises(InputError, match=r"Table.rows must have 2 cells each"):
        Table("T", ("a", "b"), ((1,),))


def test_html_escapes_every_cell() -> None:
    class Reader(HTMLParser):
        tags: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.tags.append(tag)

    text = Table("<T>", ("<a>",), (("</td><script>x</script>",),), ("<b>note",)).html()
    reader = Reader()
    reader.feed(text)
    assert set(reader.tags) == {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


def test_a_whole_experiment_goes_through_every_table() -> None:
    records = PAPER_SETTINGS[1].select(experiment(30))
    test = residual_below(1e-3)
    failed = sum(not test(r) for r in records)
    assert sum(int(row[3] or 0) for row in failures(records, solved=test).rows) == failed > 0
    assert sum(sum(int(cell or 0) for cell in row[7:-1]) for row in solved_at(records).rows) == len(records)
