"""Every count on the pages of the deterministic experiments can be made again from the runs that are published."""

import csv
import gzip
from collections import Counter
from pathlib import Path

import pytest

from auglag.bench.setting import PAPER_SETTINGS, VARIANTS
from auglag.paper.deterministic import FULL, READINGS

PAGES = Path(__file__).parents[3] / "docs" / "results" / "deterministic"


def runs(name):
    with gzip.open(PAGES / f"{name}-runs.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


def below(row, column):
    return float(row[column]) <= float(row["option_tol"])


@pytest.mark.parametrize(("name", "count"), [("figure1", 6608), ("variants", 2412)])
def test_success_is_what_the_columns_say(name, count):
    found = runs(name)
    assert len(found) == count
    for row in found:
        in_time = int(row["subproblem_gradients"]) <= int(row["limit_gradients"])
        last = row["last_residual"] == "" or below(row, "last_residual")  # solved at x0, before the first iteration
        met = below(row, "residual") and last and in_time
        assert row["succeeded"] == str(met), row["problem"]
        assert in_time
        assert row["residual"] not in ("", "nan"), row["problem"]


def test_the_page_has_the_counts_of_the_runs():
    rows, tables = runs("figure1"), (PAGES / "figure1.md").read_text(encoding="utf-8")
    page = (PAGES / "README.md").read_text(encoding="utf-8")
    for setting in PAPER_SETTINGS:
        counts = Counter[tuple[str, str]]()
        for row in rows:
            at = (float(row["option_tol"]), float(row["option_gamma"]), float(row["option_tau"] or setting.tau))
            if at == (setting.eps, setting.gamma, setting.tau):
                for column in ("succeeded", "claims_success"):
                    counts[row["label"], column] += row[column] == "True"
        line = next(text for text in tables.splitlines() if setting.title in text)
        shown = [cell.split(" (")[0].strip() for cell in line.split("|")[2:6]]
        assert shown == [f"{counts[v, 'succeeded']}, {counts[v, 'claims_success']}" for v in VARIANTS.values()]
        assert line in page, "copy the first table of figure1.md to the page"


def test_the_page_of_readings_has_the_counts_of_the_runs():
    rows, varied = runs("variants"), {name for reading in READINGS for name in reading.options}
    page = (PAGES / "always-or-adaptive.md").read_text(encoding="utf-8").split("## Every reading")[1]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    certified = lines[0].index("certified: Adaptive, Always")
    for reading, line in zip(READINGS, lines[2:], strict=False):
        options = {name: str(value) for name, value in reading.options.items()}
        mine = [
            row
            for row in rows
            if {name: row[f"option_{name}"] for name in varied if row[f"option_{name}"]} == options
            and float(row["option_tol"]) == reading.eps
        ]
        counts = Counter(row["option_variant"] for row in mine if row["claims_success"] == "True")
        assert line[certified] == f"{counts[FULL[0]]}, {counts[FULL[1]]}", reading.title
