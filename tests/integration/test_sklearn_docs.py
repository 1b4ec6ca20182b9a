"""The code of docs/sklearn.md runs, and the page names what there is."""

import inspect
import re
from pathlib import Path

import pytest

from auglag import sklearn as package
from auglag.sklearn import FairLogisticRegression, NeymanPearsonClassifier

PAGE = (Path(__file__).parents[2] / "docs" / "sklearn.md").read_text(encoding="utf-8")


def test_the_code_on_the_page_runs_and_says_what_the_page_says():
    pytest.importorskip("pandas")
    space = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(blocks[0], "docs/sklearn.md", "exec"), space)
    kept = space["model"].calibration_
    assert (kept.negatives, kept.rank) == (836, 805)
    assert kept.failure_probability == pytest.approx(0.046, abs=5e-4)
    for block in blocks[1:]:
        exec(compile(block, "docs/sklearn.md", "exec"), space)
    (gap,) = space["model"].gaps_.values()
    assert abs(gap) == pytest.approx(0.05, abs=1e-4)
    assert abs(space["model"].multipliers_[0]) == pytest.approx(0.53, abs=0.005)


def test_the_page_names_every_public_name_and_every_parameter():
    for name in package.__all__:
        if name != "Calibration":
            assert f"`{name}" in PAGE or f"{name}(" in PAGE, name
    for kind in (NeymanPearsonClassifier, FairLogisticRegression):
        for name in inspect.signature(kind).parameters:
            if name not in ("verbose", "confidence"):
                assert re.search(rf"`[^`\n]*\b{name}\b", PAGE), name
