"""Functions as users have them: hidden state, few digits, noise, wrong derivatives. No false success with any."""

from __future__ import annotations

import numpy as np
import pytest

import auglag
from auglag import Status

# --------------------------------------------------------------------------------------------------------- hidden state


@pytest.mark.parametrize("parity", [0, 1])
@pytest.mark.parametrize("check", [True, False])
def test_a_constraint_that_is_another_on_every_second_call_is_never_solved(parity, check):
    calls = [parity]

    def line(x):
        calls[0] += 1
        return x[0] + x[1] - 1 + 1e-2 * (calls[0] % 2)

    row = {"type": "eq", "fun": line, "jac": lambda x: np.ones((1, 2))}
    res = auglag.minimize(lambda x: x @ x, [3.0, 1.0], jac=lambda x: 2 * x, constraints=row, check_derivatives=check)
    assert res.status in (Status.UNCERTIFIED, Status.PRECISION_LIMIT)
    assert not res.success


def test_the_values_of_the_result_are_computed_afresh_and_counted():
    seen = []

    def fun(x):
        seen.append(x.copy())
        return x @ x

    res = auglag.minimize(fun, [3.0, 1.0], jac=lambda x: 2 * x)
    assert res.success
    assert res.nfev == len(seen)
    assert sum((x == res.x).all() for x in seen) == 2


def test_the_last_evaluation_is_made_though_the_budget_is_used_up():
    free = auglag.minimize(lambda x: x @ x, [3.0, 1.0], jac=lambda x: 2 * x, check_derivatives=False)
    budget = auglag.Budget(evaluations=free.nfev - 1)
    res = auglag.minimize(lambda x: x @ x, [3.0, 1.0], jac=lambda x: 2 * x, check_derivatives=False, budget=budget)
    assert res.success
    assert res.nfev == free.nfev


def test_differences_are_not_taken_again_for_the_last_evaluation():
    points = []

    def fun(x):
        points.append(x.tobytes())
        return np.sum((x - 1) ** 4)

    res = auglag.minimize(fun, [3.0, 1.0])
    assert res.success
    assert points[-1] == res.x.tobytes()
    assert points.count(res.x.tobytes()) == 2
