"""The code of docs/stochastic.md runs, and the page names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auglag.stochastic.settings import NAMES, PRESETS

PAGE = (Path(__file__).parents[2] / "docs" / "stochastic.md").read_text(encoding="utf-8")


def test_its_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        space: dict = {}
        exec(compile(block, "docs/stochastic.md", "exec"), space)
        results = [space["result"]] if "result" in space else space["results"]
        assert all(result.success for result in results)
    assert "Solved" in capsys.readouterr().out


@pytest.mark.parametrize("name", [*NAMES, *PRESETS])
def test_it_names_every_method_and_preset(name: str) -> None:
    assert f'"{name}"' in PAGE
