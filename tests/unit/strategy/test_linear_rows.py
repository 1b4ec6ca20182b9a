"""Linear rows and bounds in units of which no two are alike."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from auglag.problems.base import LinearRows
from auglag.strategy.restoration import linearly_infeasible


def planted(seed, apart=0.0):
    """A system with a solution, unless its last row, a copy of the first, is to have another value."""
    rng = np.random.default_rng(seed)
    m, n = 9, 15
    rows, variables = 10.0 ** rng.uniform(-6, 6, m), 10.0 ** rng.uniform(-6, 6, n)
    a = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.4)
    a[:, :m] += np.eye(m)
    a[-1] = a[0] if apart else a[-1]
    x = rng.normal(size=n)
    b = a @ x + apart * (np.arange(m) == m - 1)
    matrix = LinearRows(np.arange(m), rows[:, None] * a / variables, np.zeros(m))
    return SimpleNamespace(
        linear=lambda: matrix,
        g=None,
        cl=rows * b,
        cu=rows * b,
        lower=variables * (x - 1.0),
        upper=variables * (x + 1.0),
        n=n,
    )


@pytest.mark.parametrize("seed", [3, 4, 12, 13, 15, 16])
def test_units_do_not_make_a_contradiction_nor_hide_one(seed):
    assert not linearly_infeasible(planted(seed))
    assert linearly_infeasible(planted(seed, apart=0.1))
