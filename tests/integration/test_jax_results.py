"""What solutions of JAX show, and that structures of arrays are saved."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import auglag  # noqa: E402
import auglag.jax  # noqa: E402
from auglag.report.spread import percent  # noqa: E402


def test_a_batch_of_jax_shows_counts_and_shares():
    found = auglag.jax.solve_batch(lambda x, a: ((x - a) ** 2).sum(), np.zeros((200, 2)), (np.ones((200, 2)),))
    text = repr(found)
    assert text.startswith("Solution of 200 instances: 200 SOLVED (100 %)")
    assert "residual: median" in text
    assert "(200, 2)" in text
    assert len(text) < 800
    one = auglag.jax.solve(lambda x: (x**2).sum(), np.ones(2))
    assert repr(one).startswith("Solution: SOLVED, f = ")


def test_a_traced_solution_can_be_printed():
    shown = []

    @jax.jit
    def solve(x0):
        found = auglag.jax.solve(lambda x: (x**2).sum(), x0)
        shown.append(repr(found))
        return found.x

    solve(np.ones(2))
    assert shown[0].startswith("Solution(traced")


def test_shares_are_never_rounded_to_all_or_none():
    assert percent(99_999, 100_000) == "> 99.9 %"
    assert percent(1, 100_000) == "< 0.1 %"
    assert percent(1, 3) == "33.3 %"


def test_structures_of_jax_come_back(tmp_path):
    result = auglag.jax.minimize(lambda x: (x["a"] ** 2).sum() + x["b"][0] ** 2, {"a": np.ones((2, 2)), "b": (1.0,)})
    result.save(tmp_path / "result.json")
    again = auglag.load_result(tmp_path / "result.json")
    np.testing.assert_array_equal(again.x["a"], result.x["a"])
    assert again.x["a"].shape == (2, 2)
    assert isinstance(again.x["b"], tuple)
