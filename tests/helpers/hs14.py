"""HS14 with its derivatives and its solution: the easy problem with an equality and an inequality of many tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint

# HS14: min (x0 - 2)^2 + (x1 - 1)^2 subject to x0 - 2 x1 + 1 = 0 and x0^2/4 + x1^2 <= 1.
ROOT = 7**0.5
X = np.array([(ROOT - 1) / 2, (ROOT + 1) / 4])
F = 9 - 2.875 * ROOT
START = [2.0, 2.0]
# grad f + Y_EQ (1, -2) + Y_IN (x0/2, 2 x1) = 0
Y_EQ, Y_IN = np.linalg.solve([[1.0, X[0] / 2], [-2.0, 2 * X[1]]], [4 - 2 * X[0], 2 - 2 * X[1]])


def fun(x):
    return (x[0] - 2) ** 2 + (x[1] - 1) ** 2


def grad(x):
    return np.array([2 * (x[0] - 2), 2 * (x[1] - 1)])


def hess(x):
    return 2 * np.eye(2)


def line(x):
    return x[0] - 2 * x[1] + 1


def line_jac(x):
    return np.array([1.0, -2.0])


def disc(x):
    return 1 - x[0] ** 2 / 4 - x[1] ** 2


def disc_jac(x):
    return np.array([-x[0] / 2, -2 * x[1]])


def disc_hess(x, v):
    return v[0] * np.diag([-0.5, -2.0])


EQ = {"type": "eq", "fun": line, "jac": line_jac}
INEQ = {"type": "ineq", "fun": disc, "jac": disc_jac}
EQ_HESS = NonlinearConstraint(
    lambda x: x[0] ** 2 + x[1] ** 2 - 2, 0, 0, jac=lambda x: 2 * x, hess=lambda x, v: 2 * v[0] * np.eye(2)
)


def both(x):
    return np.array([line(x), disc(x)])


def both_jac(x):
    return np.vstack([line_jac(x), disc_jac(x)])


class Counted:
    """A function that counts its calls and keeps the points."""

    def __init__(self, function):
        self.function, self.points = function, []

    def __call__(self, x, *args):
        self.points.append(np.array(x).real)
        return self.function(x, *args)

    @property
    def calls(self):
        return len(self.points)


def assert_hs14(res, atol=1e-6):
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, X, atol=atol)
    assert res.fun == pytest.approx(F, abs=10 * atol)
    assert res.certificate.meets(res.tol)
