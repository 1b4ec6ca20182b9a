"""The families of examples/models: sizes, and optimal values that are known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "models"))

import control
import meshes

FAMILIES = {**control.FAMILIES, **meshes.FAMILIES}

#: Intervals, the value for fine meshes (COPS 3.0; electrons: Thomson's problem), and how near a coarse mesh comes.
KNOWN = {"particle": (40, 0.55457, 1e-3), "chain": (40, 5.0698, 1e-3), "torsion": (12, -0.4182, 2e-2)}
KNOWN |= {"catalyst": (40, -0.04806, 3e-3), "electrons": (12, 49.16525, 1e-6)}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_can_be_made_in_every_size(name):
    small, large = FAMILIES[name](5), FAMILIES[name](9)
    assert large.n > small.n
    assert small.m <= large.m
    assert small.problem().x0.size == small.n


@pytest.mark.parametrize("name", KNOWN)
def test_optimal_values_are_those_of_the_literature(name):
    n, value, error = KNOWN[name]
    solution = FAMILIES[name](n).solve()
    assert solution.success
    assert solution.fun == pytest.approx(value, rel=error)
