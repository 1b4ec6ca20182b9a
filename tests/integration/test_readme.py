"""The code in the README runs, and says what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import auglag

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def code(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


BLOCKS = code(README)


def test_the_rule_of_the_contributing_page_works_as_it_stands():
    space: dict = {}
    (block,) = code((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    exec(compile(block, "CONTRIBUTING", "exec"), space)
    line = {"type": "eq", "fun": lambda x: x[0] + x[1] - 1}
    assert auglag.minimize(lambda x: x @ x, [1.0, 2.0], constraints=line, penalty=space["Patient"]()).success


def test_the_page_of_prox_terms_lists_them_all_and_its_code_runs(capsys):
    page = (ROOT / "docs" / "prox.md").read_text(encoding="utf-8")
    terms = [
        name for name in auglag.prox.__all__ if name[0].isupper() and name not in ("ProxTerm", "SeparableTerm", "TERMS")
    ]
    assert [name for name in terms if f"`{name}(" not in page] == []
    space: dict = {}
    (block,) = code(page)
    exec(compile(block, "docs/prox.md", "exec"), space)
    x = space["result"].x
    assert space["result"].success
    np.testing.assert_allclose([x[:3].sum(), x[3:].sum(), np.ptp(x[:3])], [1, 1, 0], atol=1e-6)


def test_every_block_runs_in_order_with_the_results_it_promises(capsys):
    space: dict = {}
    assert len(BLOCKS) == 3
    exec(compile(BLOCKS[0], "README block 1", "exec"), space)
    assert space["result"].success
    np.testing.assert_allclose(space["result"].x, [1, 4.74299964, 3.82114998, 1.37940829], atol=1e-6)
    np.testing.assert_allclose(space["result"].multipliers, [-0.5523, 0.1615], atol=1e-4)
    exec(compile(BLOCKS[1], "README block 2", "exec"), space)
    exec(compile(BLOCKS[2], "README block 3", "exec"), space)
    assert np.count_nonzero(space["result"].x) == 7
    assert space["result"].certificate.residual < 1e-6
    assert "Solved" in capsys.readouterr().out


@pytest.mark.parametrize("name", re.findall(r"\]\(([\w./]+)\)", README))
def test_every_link_points_at_a_file(name):
    assert (ROOT / name).exists()
