"""Counts and medians on the pages of the experiments can be made again from the runs that are published."""

import csv
import gzip
import math
import statistics
from collections import Counter
from pathlib import Path

import pytest
from scipy.stats import binomtest

from auglag.bench.setting import PAPER_SETTINGS, VARIANTS
from auglag.paper.deterministic import FULL, READINGS

PAGES = Path(__file__).parents[3] / "docs" / "results" / "deterministic"


def runs(name, folder=PAGES):
    with gzip.open(folder / f"{name}-runs.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


def cells(line):
    return [cell.strip() for cell in line.split("|")[1:-1]]


def median(values):
    """The ordinary one, written as on the pages."""
    return f"{statistics.median(values):.10g}"


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
    lines = [cells(line) for line in page.splitlines() if line.startswith("|")]
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


def test_the_sign_tests_of_the_page_are_those_of_the_runs():
    rows, page = runs("figure1"), (PAGES / "README.md").read_text(encoding="utf-8")
    found = []
    for setting in PAPER_SETTINGS:
        solved = {label: set() for label in VARIANTS.values()}
        for row in rows:
            at = (float(row["option_tol"]), float(row["option_gamma"]), float(row["option_tau"] or setting.tau))
            if at == (setting.eps, setting.gamma, setting.tau) and row["succeeded"] == "True":
                solved[row["label"]].add(row["problem"])
        adaptive, always = solved["Adaptive-Full"], solved["Always-Full"]
        found.append((len(adaptive - always), len(always - adaptive)))
    values = [binomtest(first, first + other).pvalue for first, other in found]
    counts = ", ".join(f"{first} and {other}" for first, other in found)
    shown = ", ".join("1" if p == 1 else f"{p:.2f}" for p in values)
    assert f"{counts}; sign tests p = {shown}" in " ".join(page.split())


def test_the_page_of_complexity_has_the_medians_of_the_runs():
    folder = PAGES.parent / "stochastic"
    work = {}
    for row in runs("complexity", folder):
        work.setdefault((row["method"], row["eps"]), []).append(float(row["work"]) if row["work"] else math.inf)
    assert {len(values) for values in work.values()} == {10}
    text = (folder / "complexity.md").read_text(encoding="utf-8").partition("**Work until")[2].partition("**Slopes")[0]
    lines = [cells(line) for line in text.splitlines() if line.startswith("|")][2:]
    assert len(lines) == len(work)
    shown = {(line[0], str(float(line[1]))): line[3] for line in lines}
    assert shown == {key: "limit" if math.isinf(statistics.median(v)) else median(v) for key, v in work.items()}


def test_the_page_of_table_1_has_the_counts_of_the_runs():
    rows = [row for row in runs("table1", PAGES.parent) if row["part"] == "HS"]
    text = (PAGES.parent / "table1.md").read_text(encoding="utf-8").partition("**Hock-Schittkowski problems**")[2]
    for line in [cells(line) for line in text.partition("Every 3rd")[0].splitlines() if line.startswith("|")][2:]:
        mine = [row for row in rows if row["method"] == line[0]]
        gradients = [int(row["gradients"]) for row in mine if row["gradients"]]
        small = sum(float(row["residual"]) <= float(row["eps"]) for row in mine)
        assert len(mine) == 25
        assert line[1:4] == [str(len(gradients)), str(small), median(gradients)]
