"""CUTEst problems go through the front door like any other problem."""

from __future__ import annotations

import pytest

import auglag
from auglag.problems import cutest
from auglag.problems import hock_schittkowski as hs
from helpers.s2mpj import needs_s2mpj


@needs_s2mpj
@pytest.mark.parametrize("name", ["HS6", "HS43", "HS71", "HS76"])
@pytest.mark.parametrize("compiled", [None, False], ids=["default", "numpy"])
def test_a_cutest_problem_is_solved_to_the_value_of_the_book(name: str, compiled: bool | None) -> None:
    result = auglag.minimize(cutest.load(name, compiled=compiled), tol=1e-6)
    assert result.success, result.message
    assert result.fun == pytest.approx(hs.get(name).f, rel=1e-5, abs=1e-6)
