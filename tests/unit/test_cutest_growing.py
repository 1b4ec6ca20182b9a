"""Arrays that grow an entry at a time have the values and types that NumPy's own functions give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from auglag.problems.cutest import growing


def _same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert_array_equal(found, expected)


@pytest.mark.parametrize("values", [[3.5], np.full(3, None), 7, ["name"], [1 + 2j], [[1.0, 2.0]]])
@pytest.mark.parametrize(
    "first", [np.array([]), np.array([], dtype=int), np.full(4, None), np.ones((2, 1)), np.ones(70)]
)
def test_appending_is_numpys(first: Any, values: Any) -> None:
    found = expected = first
    for _ in range(200):
        found, expected = growing.append(found, values), np.append(expected, values)
    _same(found, expected)


def test_an_array_that_was_appended_to_twice_has_two_continuations() -> None:
    trunk = growing.append(np.zeros(100), 1.0)
    first, second = growing.append(trunk, 2.0), growing.append(trunk, 3.0)
    assert (first[-1], second[-1], trunk.size) == (2.0, 3.0, 101)


def test_appending_does_not_copy_what_is_there() -> None:
    found = growing.append(np.zeros(100), 1.0)
    assert np.shares_memory(found, growing.append(found, 2.0))


@pytest.mark.parametrize("order", ["rising", "falling", "any"])
def test_sets_that_grow_are_numpys(order: str) -> None:
    values = np.random.default_rng(0).integers(0, 150, size=400)
    values = {"rising": np.sort(values), "falling": np.sort(values)[::-1], "any": values}[order]
    found = expected = np.array([])
    for value in values:
        found, expected = growing.union1d(found, np.array([value])), np.union1d(expected, np.array([value]))
    _same(found, expected)


def test_a_set_is_not_taken_for_another_one() -> None:
    growing.union1d(np.array([]), np.array([1]))
    assert_array_equal(growing.union1d(np.array([5.0, 2.0]), np.array([3])), [2.0, 3.0, 5.0])
