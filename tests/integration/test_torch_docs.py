# ruff: noqa: E402 (without PyTorch the imports below fail: the line above them skips)
"""The code of docs/torch.md runs, and the page names every method."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")

import auglag.torch
from auglag.torch.settings import METHODS

PAGE = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", BLOCKS, ids=[block.split("from auglag")[1].split("import")[0] for block in BLOCKS])
def test_its_code_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "lightning" in block:
        pytest.importorskip("lightning", reason="needs Lightning: pip install lightning")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)
    space: dict = {"__name__": "example"}
    exec(compile(block, "docs/torch.md", "exec"), space)
    if "result" in space:
        assert space["result"].success


@pytest.mark.parametrize("name", METHODS)
def test_it_names_every_method(name: str) -> None:
    assert f'"{name}"' in PAGE


@pytest.mark.parametrize("name", auglag.torch.__all__)
def test_it_names_what_is_public(name: str) -> None:
    assert name in PAGE
