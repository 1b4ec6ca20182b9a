"""Stepsizes and schedules, against numbers computed by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from auglag import InputError
from auglag.stochastic import (
    SGD,
    SVRG,
    ConstantStep,
    DistanceOverGradients,
    GaussNewton,
    InverseSqrt,
    LemmaStep,
    LocalLipschitz,
    PStorm,
    Scaled,
)
from auglag.stochastic.steps import Call
from auglag.theory import Constants, c_big, lipschitz

CALL = Call(steps=100, beta=2.0, value=3.0, lipschitz=lambda: 8.0)


def test_sizes() -> None:
    assert InverseSqrt(3.0).size(CALL) == pytest.approx(0.3)
    assert ConstantStep(0.7).size(CALL) == 0.7
    assert Scaled(3.0, 2.0).size(CALL) == pytest.approx(0.6)
    assert LocalLipschitz(2.0).size(CALL) == 0.25


def test_the_lemma() -> None:
    constants = Constants(gradient=1.0, jacobian=1.0, nu=0.5, ybar_max=2.0, lipschitz_f=1.0, lipschitz_jacobian=0.5)
    step = LemmaStep(constants, sigma_f=0.1, sigma_c=0.2, lowest=1.0, beta_1=1.0, violation_1=0.5)
    L = lipschitz(constants, 2.0, c_big(constants, 1.0, 0.5))
    variance = 3 * (0.01 + 0.04 * (4.0 + 4.0))
    assert step.size(CALL) == pytest.approx(min(0.5 / L, math.sqrt(2.0 / (L * variance * 100))))
    quiet = LemmaStep(constants, sigma_f=1e-9, lowest=1.0)
    assert quiet.size(CALL) == pytest.approx(0.5 / lipschitz(constants, 2.0, c_big(constants, 1.0, 0.0)))


def test_the_schedules_of_pstorm() -> None:
    a, b = PStorm(step=ConstantStep(0.1)).sizes(3, CALL, L=2.0)
    np.testing.assert_allclose(a, 0.1)
    assert b[0] == 1.0  # no past yet
    np.testing.assert_allclose(b[1:], 24 * 0.04 / (1 + 4 * 0.04))
    a, b = PStorm(schedule="cube-root").sizes(8, CALL, L=2.0)
    np.testing.assert_allclose(a, 1 / (8 * 2 * 2))  # the cube root of 8 is 2
    np.testing.assert_allclose(b[1:], 24 / 16**2 / (1 + 4 / 16**2))  # a L = 1/16
    a, b = PStorm(schedule="decreasing").sizes(4, CALL, L=2.0)
    first = 4 ** (1 / 3) / 16
    np.testing.assert_allclose(a, [first / (t + 4) ** (1 / 3) for t in range(4)])
    square = (a[1] * 2.0) ** 2
    assert b[2] == pytest.approx((1 + 24 * square - a[2] / a[1]) / (1 + 4 * square))
    assert np.all((b > 0) & (b <= 1))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: InverseSqrt(0.0), "InverseSqrt.scale must be positive and finite, got 0.0"),
        (lambda: ConstantStep(-1.0), "ConstantStep.value must be positive and finite, got -1.0"),
        (lambda: SGD(output="best"), "SGD.output must be one of"),
        (lambda: SGD(step=0.1), "SGD.step must be a StepRule such as InverseSqrt"),
        (lambda: PStorm(schedule="cosine"), "PStorm.schedule must be 'constant', 'decreasing' or 'cube-root', got"),
        (lambda: PStorm(first="all"), "PStorm.first must be 'batch' or 'enlarged', got 'all'"),
        (lambda: PStorm(momentum=1.5), r"PStorm.momentum must lie in \(0, 1\], got 1.5"),
        (lambda: PStorm(step=DistanceOverGradients()), "PStorm.step must be one size per call"),
        (lambda: SVRG(period=0), "SVRG.period must be a positive integer or None, got 0"),
        (lambda: GaussNewton(screen=1.0), r"GaussNewton.screen must lie in \(0, 1\), got 1.0"),
        (lambda: GaussNewton(damping=0.0), "GaussNewton.damping must be positive and finite, got 0.0"),
    ],
)
def test_bad_values_are_refused(make: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        make()
