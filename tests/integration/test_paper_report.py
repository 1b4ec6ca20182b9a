"""Verdicts, the report, Table 1 and the readings of PStorm, in small."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from auglag import InputError
from auglag.paper import complexity, neyman_pearson, pstorm_readings, report, table1
from auglag.paper.claims import VERDICTS, Claim, claims, markdown
from auglag.paper.jobs import Record
from auglag.paper.written import Grid, Heading, Words, blocks
from auglag.problems.hock_schittkowski import PROBLEMS

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "results" / "index.md"


# ------------------------------------------------------------------------------------------------------------ verdicts


def test_the_page_of_results_has_the_verdicts_of_the_report() -> None:
    page = INDEX.read_text(encoding="utf-8")
    table = page.partition("<!-- verdicts: written by auglag paper report -->\n")[2].partition("<!-- end -->")[0]
    assert table.strip() == markdown(claims()).strip(), "put the verdicts.md that `auglag paper report` writes there"


def test_every_verdict_has_a_page_and_a_command_that_exist() -> None:
    from auglag.cli.base import paper

    commands = {command.name or command.callback.__name__ for command in paper.registered_commands if command.callback}
    for claim in claims():
        assert (INDEX.parent / claim.page).resolve().exists(), claim.page
        kind, *rest = claim.command.split()
        assert kind in ("auglag", "pytest")
        assert rest[1] in commands if kind == "auglag" else (ROOT / rest[0]).exists()
        assert "|" not in claim.statement + claim.why  # it would end a cell of the table


def test_every_claim_is_in_a_section_of_the_report() -> None:
    shown = {where for section in report.SECTIONS for where in section.claims}
    assert {claim.where for claim in claims()} <= shown
    assert {claim.verdict for claim in claims()} == set(VERDICTS)


def test_a_verdict_is_one_of_three() -> None:
    with pytest.raises(InputError, match=r"Claim.verdict must be one of .*, got 'maybe'"):
        Claim("Figure 1", "x", "maybe", "y", "index.md", "auglag paper fig1")


# -------------------------------------------------------------------------------------------------------------- report


def test_markdown_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# Title\n\nSome **bold** words\nin two lines, and a [link](b.md).\n\n    code\n\n## fig2\n\n"
        "| a | b\\_c |\n|---|---|\n"
        "| 1 | x \\| y |\n\n![picture](p.png)\n\n## fig3\n\n| d |\n|---|\n| 2 |\n"
    )
    first = Grid(("a", "b_c"), (("1", "x | y"),))
    assert blocks(tmp_path / "a.md") == [
        Words("Some bold words in two lines, and a link."), Words("code", code=True), Heading("fig2"), first,
        Heading("fig3"), Grid(("d",), (("2",),)),
    ]  # fmt: skip
    assert blocks(tmp_path / "a.md", "fig2") == [first]
    assert blocks(tmp_path / "a.md", grids=1)[-1] == first
    assert blocks(tmp_path / "a.md", "fig9") == []


def test_the_report_has_figures_tables_and_verdicts_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neyman_pearson, "CHATS", (0.7,))
    neyman_pearson.run(tmp_path / "stochastic", quick=True, workers=1, figures=("fig2",))
    page, paper = report.write(tmp_path, quick=True)
    text = page.read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 1
    assert "Adaptive-Short" in text  # the table of figure 2
    assert "Not run: there is nothing of it in table1/table1.md." in text
    assert "fig3: not all of its runs were made." in text
    for claim in claims():
        assert claim.verdict in text
    assert (tmp_path / "verdicts.md").read_text(encoding="utf-8") == markdown(claims())
    content = paper.read_bytes()
    assert content.startswith(b"%PDF")
    pages = max(int(found) for found in re.findall(rb"/Count (\d+)", content))
    assert pages >= len(report.SECTIONS) + 2  # the verdicts, every section, and the figure
    assert b"/Subtype /Image" not in content  # figures are vectors


# ------------------------------------------------------------------------------------------------------------- Table 1


def fake_work(job: object) -> Record:
    if isinstance(job, table1.StocIALM):
        return {"key": job.key, "eps": list(table1.SAMPLED_EPS), "gradients": [100, 2000, None]}
    hard = isinstance(job, table1.FullBatch) and job.way == "iPPM" and job.eps < 1e-2
    uncertified = isinstance(job, table1.Known) and job.way == "iPPM" and job.problem == next(iter(PROBLEMS))
    return {"key": job.key, "gradients": None if hard or uncertified else 40, "residual": 0.5 * table1.HS_EPS}


def test_table_1_has_every_row_of_the_paper_and_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (table1.Known, table1.FullBatch, table1.StocIALM):
        monkeypatch.setattr(kind, "run", fake_work)
    text = " ".join(table1.run(tmp_path, quick=True, workers=1).read_text(encoding="utf-8").replace("\\", "").split())
    for row in table1.TABLE1:
        assert f"| {row.method} | {row.objective} | {row.constraint} | {row.assumptions} | {row.complexity} |" in text
    assert "| iPPM | 40 (2/2) | 40 (2/2) | none of 2 |" in text
    assert "| Stoc-iALM | 100 (2/2) | 2000 (2/2) | none of 2 |" in text
    known = len(list(PROBLEMS)[::8])
    assert f"| iPPM | {known - 1} | {known} | 40 | 40 |" in text  # certified, and R <= eps alone
    assert table1.remaining(tmp_path, quick=True) == 0


def test_levels_of_table_1_are_levels_of_the_complexity_study() -> None:
    for way in complexity.WAYS.values():
        assert set(table1.SAMPLED_EPS) <= set(way.levels)


@pytest.mark.parametrize("way", table1.DETERMINISTIC)
def test_each_deterministic_method_reaches_a_loose_accuracy(way: str) -> None:
    record = table1.FullBatch(way, 0, 1e-1, 1000).run()
    assert record["gradients"] is not None


# -------------------------------------------------------------------------------------------------------------- PStorm


def test_the_first_reading_of_pstorm_is_the_preset_and_looking_on_changes_nothing() -> None:
    reading = next(iter(pstorm_readings.READINGS))
    record = pstorm_readings.Job(reading, "adaptive-full", "adaptive", 0.7, 0, 40.0).run()
    config = neyman_pearson.Config("pstorm", "adaptive-full", "adaptive")
    trace = neyman_pearson.Job(config, 0.7, 0, 40.0).run()["trace"]
    last = int(np.flatnonzero(trace["iterate"])[-1])
    assert record["residual"] == trace["residual"][last]
    assert 0 < record["capped"] < record["calls"]


def test_wins_and_best_variants_are_counted_for_every_reading() -> None:
    records = {}
    for job in pstorm_readings._jobs(quick=True):
        better = job.variant == "adaptive-full" and (job.inner == "adaptive") == (job.trial == 0)
        records[job.key] = {
            "key": job.key, "residual": 0.1 if better else 0.2, "c_norm": 0.3, "calls": 10, "capped": 4, "steps": 1000,
            "capped_steps": 50,
        }  # fmt: skip
    table = pstorm_readings.table(records, quick=True)
    assert len(table.rows) == len(pstorm_readings.READINGS)
    for _, best, _, wins, _, calls, steps in table.rows:
        assert (best, wins, calls, steps) == ("2/2", "2/4", "40 %", "5 %")
