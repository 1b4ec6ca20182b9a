"""The code in the README runs, and says what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


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
    assert (Path(__file__).parents[2] / name).exists()
