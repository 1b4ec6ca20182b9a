"""min x'x on the line x0 + x1 = 1, solved or refused with arguments changed one at a time."""

from __future__ import annotations

import numpy as np
import pytest

import auglag
from auglag import InputError, minimize

X0 = [0.5, 0.2]
SOLUTION = [0.5, 0.5]  # of min x'x subject to x0 + x1 = 1, with multiplier -1


def square(x):
    return float(x @ x)


def square_grad(x):
    return 2 * x


def on_line(x):
    return x[0] + x[1] - 1


LINE = {"type": "eq", "fun": on_line, "jac": lambda x: np.ones(2)}


def solve(fun=square, x0=X0, **kwargs):
    kwargs = {"jac": square_grad, "constraints": LINE} | kwargs
    return minimize(fun, x0, **kwargs)


def assert_solved(res, x=SOLUTION, atol=1e-6):
    assert res.success, res.explain()
    np.testing.assert_allclose(res.x, x, atol=atol)
    assert auglag.Certificate is type(res.certificate)
    assert res.certificate.meets(res.tol)


def refused(match, *, error=InputError, **kwargs):
    with pytest.raises(error, match=match):
        solve(**kwargs)
