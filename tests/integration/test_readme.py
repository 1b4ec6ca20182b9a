"""The code in the README runs, and says what the README says."""

from __future__ import annotations

import itertools
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


def test_the_table_of_solvers_has_the_numbers_of_the_results():
    """Their one source is docs/results/solvers/tables.md, which the benchmark writes."""
    tables = (ROOT / "docs" / "results" / "solvers" / "tables.md").read_text(encoding="utf-8")
    measured = rows(tables[tables.index("**Solved at**") :])
    shown = rows(README[README.index("| solver | solved at 1e-3") :])
    assert sorted(row["solver"] for row in shown) == sorted(row["Solver"] for row in measured)
    by_name = {row["Solver"]: row for row in measured}
    for row in shown:
        found = by_name[row["solver"]]
        for mine, theirs in (("solved at 1e-3", "1e-3"), ("1e-6", "1e-6"), ("1e-8", "1e-8")):
            assert row[mine] == found[theirs], row
        assert (row["median gradients"], row["false claims"]) == (found["median gradients"], found["false claims"]), row


def rows(text: str) -> list[dict[str, str]]:
    """The first table of a text, header -> cell."""
    lines = itertools.takewhile(lambda line: line.startswith("|"), text[text.index("|") :].splitlines())
    cells = [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


@pytest.mark.parametrize("name", re.findall(r"\]\(([\w./-]+)\)", README))
def test_every_link_points_at_a_file(name):
    assert (ROOT / name).exists()
