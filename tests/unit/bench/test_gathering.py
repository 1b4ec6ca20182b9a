"""Records of several stores under labels that tell them apart, and problem by problem."""

from dataclasses import replace
from pathlib import Path

from auglag.bench.gathering import gather, latest
from auglag.bench.side_by_side import side_by_side
from auglag.bench.spec import Run
from auglag.bench.store import Store
from helpers.records import record


def test_one_label_for_different_options_becomes_several(tmp_path: Path) -> None:
    first = record("HS6", "auglag", 5)
    plain = replace(first, run=Run("HS6", "auglag", {"tol": 1e-3}, label="mine"))
    other = replace(first, run=Run("HS6", "auglag", {"tol": 1e-6}, label="mine"))
    with Store(tmp_path / "records.sqlite") as store:
        store.add(plain)
        store.add(other)
    assert {r.title for r in gather([tmp_path])} == {"mine [tol=0.001]", "mine [tol=1e-06]"}


def test_of_a_file_that_was_changed_the_last_record_counts() -> None:
    base = record("HS6", "auglag", 5)
    old, new = (replace(base, run=Run("a.nl", "auglag", source=f"file {digest}")) for digest in ("aa", "bb"))
    assert latest([old, new]) == [new]
    assert len(latest([record("HS6", "auglag", 5), record("HS7", "auglag", 5)])) == 2


def test_side_by_side_has_costs_reasons_and_worse_objectives() -> None:
    good = record("HS6", "a", 5, objective=1.0)
    worse = replace(record("HS6", "b", 7), objective=good.objective + 1.0)
    failed = replace(record("HS7", "a", 9), violation=1.0, ending="limit")
    table = side_by_side([good, worse, failed])
    rows = {row[0]: row for row in table.rows}
    assert rows["HS6"][3] == f"{good.gradients:.4g}"
    assert rows["HS6"][-1] == "b"
    assert rows["HS7"][3:5] == ("fails: limit", "no record")
