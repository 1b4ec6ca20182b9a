"""The parts of `benchmarks/attack.py`: derivatives, known solutions, and a judge that finds what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
from attacks.families import FAMILIES, case_of, known  # noqa: E402
from attacks.judge import EXTENDED, judge, residual, saddle  # noqa: E402
from attacks.models import Case, Function, model  # noqa: E402

sys.path.remove(BENCHMARKS)
pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="needs 80-bit arithmetic")


@pytest.mark.parametrize("family", FAMILIES)
def test_derivatives_are_those_of_the_functions(family):
    h = EXTENDED(1e-6)
    for seed in range(8):
        m, x0 = case_of(family, seed).model, case_of(family, seed).x0
        unit = np.asarray(case_of(family, seed).unit, dtype=EXTENDED) * np.ones(m.n, dtype=EXTENDED)
        x = np.asarray(x0, dtype=EXTENDED) + 0.01 * unit
        d = np.random.default_rng(seed).uniform(0.5, 1.5, m.n) * unit
        for function in (m.f, *m.rows):
            with np.errstate(all="ignore"):
                slope = (function.value(x + h * d) - function.value(x - h * d)) / (2 * h)
                bend = (function.grad(x + h * d) - function.grad(x - h * d)) @ d / (2 * h)
                size = function.sizes(x)
            if np.isfinite(bend):
                assert abs(slope - function.grad(x) @ d) <= 1e-6 * (size[1] @ d) + 1e-9 * size[0]
                assert abs(bend - d @ function.hess(x) @ d) <= 1e-6 * (abs(d @ function.hess(x) @ d) + size[1] @ d)


@pytest.mark.parametrize("convex", [True, False])
def test_known_solutions_have_no_residual_and_points_beside_them_do(convex):
    for seed in range(30):
        m, x = known(np.random.default_rng(seed), convex=convex)
        assert residual(m, x)[0] < 1e-12
        assert residual(m, x + 1e-3)[0] > 1e-5
        assert not judge(Case(m, x), x, None, 1e-6)["false"]
        assert judge(Case(m, x), x + 1e-3, None, 1e-6)["false"]


def test_units_do_not_hide_a_point_that_is_far_from_stationary():
    base, x = known(np.random.default_rng(1), convex=True)
    tiny = base.rescaled(1e-9, np.full(len(base.rows), 1e-9), np.ones(base.n))
    far = np.clip(x + 0.5, base.lower, base.upper)
    assert residual(tiny, far)[0] < 1e-6
    assert not judge(Case(tiny, x), far, None, 1e-6)["false"]
    assert judge(Case(tiny, x, base=base), far, None, 1e-6)["false"]
    assert not judge(Case(tiny, x, base=base), x, None, 1e-6)["false"]


def test_a_saddle_is_told_from_a_minimum():
    valley = Function(2, np.diag([2.0, -2.0]), ridges=(("quartic", 1.0, np.array([0.0, 1.0]), 0.0),))
    assert saddle(model(valley), np.zeros(2), np.zeros(0))
    assert not saddle(model(valley), np.array([0.0, np.sqrt(0.5)]), np.zeros(0))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_problem_follows_from_its_seed(family):
    one, other = case_of(family, 5), case_of(family, 5)
    np.testing.assert_array_equal(one.x0, other.x0)
    assert one.order == other.order
    assert one.model.f.value(np.asarray(one.x0)) == other.model.f.value(np.asarray(one.x0))
