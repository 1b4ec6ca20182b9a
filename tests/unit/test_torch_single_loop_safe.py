# ruff: noqa: E402 (without PyTorch the imports below fail: the line above them skips)
"""The point that a single loop goes back to."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")

from auglag.torch.single_loop_safe import Safe
from auglag.torch.tuning import TUNING

X, Y = torch.zeros(2), np.zeros(1)


def at(mean: float, violation: float, spread: float = 0.1) -> Safe:
    """After one pass."""
    safe = Safe(X, Y)
    safe.reach(X, Y, mean, spread, violation)
    return safe


def test_a_pass_did_harm_where_both_values_are_worse_by_more_than_noise() -> None:
    safe = at(1.0, 0.5)
    assert safe.harmed(5.0, 2.0)
    assert not safe.harmed(5.0, 0.6)  # the constraints cost objective
    assert not safe.harmed(0.5, 2.0)
    assert not safe.harmed(1.0 + 0.9 * TUNING.harm * 0.1, 2.0)
    assert safe.harmed(math.nan, 0.1)
    assert safe.harmed(0.1, math.inf)
    assert not Safe(X, Y).harmed(1e9, 1e9)  # nothing to compare with


def test_a_point_that_is_worse_in_both_never_becomes_the_one_to_go_back_to() -> None:
    safe, other = at(1.0, 0.5), torch.ones(2)
    safe.reach(other, Y, 1.01, 0.1, 0.51)  # or a loop could creep away
    assert safe.x is X
    safe.reach(other, Y, 2.0, 0.1, 0.4)
    assert safe.x is other


def test_means_and_spreads_are_those_of_the_pass() -> None:
    safe, values = Safe(X, Y), [1e6 + v for v in (1.0, 2.0, 4.0, 9.0)]
    for v in values:
        safe.add(torch.tensor(v, dtype=torch.float64))
    assert safe.values() == (pytest.approx(np.mean(values)), pytest.approx(np.std(values)))
    safe.add(torch.tensor(3.0))
    safe.retreat()
    assert (safe.rate, safe.count) == (TUNING.retreat, 0)
