"""Kinks are told from curvature, and from bounds."""

from __future__ import annotations

import numpy as np
import pytest

from auglag.derivatives.kinks import kinked

FREE = np.full(2, np.inf)


def found(fun, x, lower=-FREE, upper=FREE):
    return bool(kinked(lambda z: np.array([fun(z)]), np.array(x), lower, upper)[0])


@pytest.mark.parametrize("fun", [lambda x: abs(x[0] - 1) + x[1], lambda x: max(x[0], 2 - x[0]) + x[1] ** 2])
def test_a_kink_is_seen(fun):
    assert found(fun, [1.0, 3.0])


@pytest.mark.parametrize("fun", [lambda x: x @ x, lambda x: (x[0] - 1) ** 2 + x[1], lambda x: np.exp(x[0]) - x[1] ** 3])
def test_curvature_is_no_kink(fun):
    assert not found(fun, [1.0, 3.0])


def test_a_bound_is_no_kink():
    assert not found(lambda x: x[0] + 2 * x[1], [0.0, 3.0], lower=np.zeros(2))
    assert not found(lambda x: x[0] + 2 * x[1], [0.0, 3.0], lower=np.array([0.0, 3.0]))
