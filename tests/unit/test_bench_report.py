"""The report: one valid file, nothing from outside, data that can be read back, and text that stays text."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from auglag import InputError
from auglag.bench import report
from auglag.bench.embedded import COLUMNS, POINTS, history_data, kept
from auglag.bench.profiles import residual_below, subproblem_gradients
from auglag.bench.record import Record
from auglag.bench.report import Section
from auglag.bench.setting import PAPER_SETTINGS
from auglag.bench.tables import table2
from auglag.paper.deterministic import succeeded
from helpers.records import experiment, paper_profile, record

RECORDS = experiment(14)
SECTIONS = report.paper_sections(RECORDS)
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \u2028 ]]> <!-- \"quoted\" 'too'"
VOID = {"meta", "link", "br", "img", "input"}


class Reader(HTMLParser):
    """Checks that elements are closed in order, and remembers attributes and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def embedded(text: str) -> dict[str, Any]:
    """The data of the page, as a browser finds them."""
    reader = Reader(text)
    assert len(reader.scripts) == 2
    content: dict[str, Any] = json.loads(reader.scripts[0], parse_constant=lambda name: pytest.fail(name))
    return content


def undone(differences: list[int | None]) -> list[int | None]:
    """As the page's script does it."""
    last, values = 0, []
    for d in differences:
        last += d or 0
        values.append(None if d is None else last)
    return values


def test_the_page_is_one_well_formed_file_without_references() -> None:
    table = table2(PAPER_SETTINGS[1].select(RECORDS), solved=residual_below(1e-3))
    text = report.html(SECTIONS, title="Experiment", tables=[table], notes=["auglag paper fig1"])
    reader = Reader(text)
    assert reader.seen.count("script") == 2
    for name, value in reader.attributes:
        if name in ("src", "href", "action", "data", "srcset"):
            assert value is not None
            assert value.startswith(("#", "data:")), (name, value)
    assert not re.search(r"https?://|@import|url\(|\bfetch\(|XMLHttpRequest|\bimport\b", text)
    for place in ("profiles", "solved", "failures", "problems", "panels", "runs", "data", "space", "kinds", "controls"):
        assert ("id", place) in reader.attributes
    assert "auglag paper fig1" in text
    assert "3.41376e22" in text
    assert "@@" not in text


def test_every_element_the_script_asks_for_is_on_the_page() -> None:
    text = report.html(SECTIONS, title="T")
    ids = {value for name, value in Reader(text).attributes if name == "id"}
    script = Reader(text).scripts[1]
    asked = set(re.findall(r"""(?:byId|getElementById)\("([\w-]+)"\)""", script)) | set(
        re.findall(r'querySelector\("#([\w-]+)', script)
    )
    assert asked
    assert asked <= ids


def test_text_from_records_cannot_become_markup() -> None:
    bad = record("P", "A <b>", 3, solved=False, message=EVIL)
    bad = replace(bad, run=replace(bad.run, problem=EVIL, label=EVIL))
    text = report.html([Section(EVIL, [bad, record("Q", "B", 1)], test=EVIL)], title=EVIL, notes=[EVIL])
    content = embedded(text)
    assert "img" not in Reader(text).seen
    assert "b" not in Reader(text).seen
    assert EVIL in content["strings"]
    assert content["sections"][0]["title"] == EVIL
    assert content["solvers"][0]["name"] == EVIL
    assert [row[0] for row in content["sections"][0]["problems"]] == [EVIL, "Q"]


def test_the_script_makes_no_markup_from_text() -> None:
    script = Reader(report.html(SECTIONS, title="T")).scripts[1]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script)


def test_solved_means_the_same_in_the_report_and_in_figure_1() -> None:
    late = replace(RECORDS[0], residual=0.0, gradients=10**6, history=None)
    records = [late, *RECORDS[1:]]
    for section in report.paper_sections(records):
        assert [section.solved(held) for held in section.records] == [succeeded(held) for held in section.records]
    assert not succeeded(late)


def test_the_data_are_those_of_the_records() -> None:
    content = embedded(report.html(SECTIONS, title="T"))
    names = [solver["name"] for solver in content["solvers"]]
    assert names == ["Adaptive-Full", "Always-Full", "Adaptive-Short", "Always-Short"]
    assert [section["title"] for section in content["sections"]] == [setting.title for setting in PAPER_SETTINGS]
    for setting, section in zip(PAPER_SETTINGS, content["sections"], strict=True):
        profile = paper_profile(setting.select(RECORDS), eps=setting.eps)
        total = len(section["problems"])
        for name, (_, counts) in zip(names, section["profiles"]["paper"], strict=True):
            assert counts[-1] / total == profile.value(name, 99.999)
        by_problem = {(r.run.problem, r.title): r for r in setting.select(RECORDS)}
        for (problem, n, _), runs in zip(section["problems"], section["runs"], strict=True):
            assert n == max(by_problem[problem, name].n for name in names)
            for name, run in zip(names, runs, strict=True):
                source = by_problem[problem, name]
                assert run[:2] == [int(source.residual <= setting.eps), source.gradients]
                assert content["strings"][run[2]] == source.ending
                assert content["strings"][run[3]] == source.message


def test_another_count_of_gradients_goes_through_the_whole_page() -> None:
    known = record("P", "A", 7, history=[{"evaluations": 4.0, **dict.fromkeys(COLUMNS, 1.0)}])
    content = embedded(report.html([Section("T", [known, record("P", "B", 8)], cost=subproblem_gradients)], title="T"))
    assert [run[1] for run in content["sections"][0]["runs"][0]] == [4, 8]
    assert content["sections"][0]["profiles"]["paper"][1] == [[1.0, 2.0], [0, 1]]


def test_solvers_and_problems_without_a_record_are_shown_as_such() -> None:
    sections = [Section("one", [record("P", "A", 1), record("Q", "B", 2)]), Section("two", [record("P", "B", 1)])]
    content = embedded(report.html(sections, title="T"))
    first, second = content["sections"]
    assert first["runs"][0][1] is None
    assert second["profiles"]["paper"] == [None, [[1.0], [1]]]
    assert second["runs"][0][0] is None


def test_histories_are_kept_to_a_hundredth_of_a_decade_with_first_and_last() -> None:
    source = max((r for r in RECORDS if r.history), key=lambda r: len(r.history or []))
    history = source.history
    assert history is not None
    assert len(history) > POINTS
    coded = history_data(history)
    assert coded is not None
    rows = kept(len(history))
    assert rows[0] == 0
    assert rows[-1] == len(history) - 1
    assert len(rows) == POINTS == len(set(rows))
    assert undone(coded[0])[-1] == sum(row["evaluations"] for row in history)
    for name, column in zip(COLUMNS, coded[1:], strict=True):
        for i, value in zip(rows, undone(column), strict=True):
            assert value is not None
            assert value / 100 == pytest.approx(math.log10(history[i][name]), abs=0.00501)


def test_values_without_a_logarithm_are_gaps() -> None:
    rows = [dict.fromkeys(("evaluations", *COLUMNS), v) for v in (1.0, 0.0, 100.0)]
    rows[1] |= {"evaluations": 1.0, "beta": math.nan, "violation": math.inf}
    coded = history_data(rows)
    assert coded is not None
    assert [undone(column) for column in coded[1:]] == [[0, None, 200]] * 3
    assert history_data([]) is None
    assert history_data([{"beta": 1.0}]) is None
    assert history_data([{"evaluations": 5.0, "beta": 1.0}]) == [[5], [None], [None], [0]]


def test_numbers_that_are_not_finite_are_left_out() -> None:
    lost = record("P", "A", 0, solved=False, residual=math.nan, cpu=math.inf)
    row = embedded(report.html([Section("T", [lost])], title="T"))["sections"][0]["runs"][0][0]
    assert row[4:9] == [None] * 5


def test_the_file_of_a_full_experiment_stays_small() -> None:
    records: list[Record] = [replace(r, message=f"{r.message} {i}") for i, r in enumerate(RECORDS)]
    full = [
        replace(r, history=(r.history or [{"evaluations": 3.0, **dict.fromkeys(COLUMNS, 0.123)}]) * 3) for r in records
    ]
    page = len(report.html([Section("one", [record("P", "A", 1)])], title="T"))
    size = len(report.html(report.paper_sections(full), title="T").encode()) - page
    assert page + size / len(full) * 472 * 16 < 15e6


def test_writing_replaces_the_file_and_gives_the_same_bytes(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "report.html"
    assert report.write(target, SECTIONS, title="T") == target
    before = target.read_bytes()
    report.write(target, SECTIONS, title="T")
    assert target.read_bytes() == before
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_a_report_without_runs_is_refused() -> None:
    for sections in ([], [Section("empty", [])]):
        with pytest.raises(InputError, match="sections must be at least one, each with records"):
            report.html(sections, title="T")
    assert report.paper_sections([record("P", "A", 1)]) == []


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_script_is_javascript(tmp_path: Path) -> None:
    file = tmp_path / "report.js"
    file.write_text(Reader(report.html(SECTIONS, title="T")).scripts[1], encoding="utf-8")
    done = subprocess.run(["node", "--check", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
