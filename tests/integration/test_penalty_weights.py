"""A penalty of its own for every row: what changes, what does not, what is refused."""

import numpy as np
import pytest

import auglag

CONSTRAINTS = [
    {"type": "eq", "fun": lambda x: x[0] * x[1] - 1, "jac": lambda x: np.array([x[1], x[0]])},
    {"type": "ineq", "fun": lambda x: x[0] - 0.5, "jac": lambda x: np.array([1.0, 0.0])},
]


def solve(**options):
    return auglag.minimize(
        lambda x: x @ x + x[0],
        [3.0, 1.0],
        jac=lambda x: 2 * x + np.array([1.0, 0.0]),
        constraints=CONSTRAINTS,
        variant="adaptive-full",
        tol=1e-8,
        **options,
    )


def test_weights_change_the_way_and_not_the_solution():
    plain, weighted = solve(), solve(penalty_weights=[100.0, 0.01])
    assert plain.success
    assert weighted.success
    assert [row["violation"] for row in plain.history] != [row["violation"] for row in weighted.history]
    np.testing.assert_allclose(weighted.x, plain.x, rtol=1e-7)
    np.testing.assert_allclose(weighted.multipliers[0], plain.multipliers[0], rtol=1e-6)


def test_a_weight_is_a_multiple_of_the_penalty():
    """Weights of 4 are a penalty four times as large: the same first subproblem."""

    def first(beta, weights):
        return auglag.minimize(
            lambda x: x @ x + x[0],
            [3.0, 1.0],
            jac=lambda x: 2 * x + np.array([1.0, 0.0]),
            constraints=CONSTRAINTS,
            penalty=auglag.algorithm.rules.Adaptive(initial=beta),
            tolerance=auglag.algorithm.rules.Constant(1e-10),
            penalty_weights=weights,
            acceleration=False,
            scaling=False,
            budget=auglag.Budget(outer=1),
        ).x

    np.testing.assert_allclose(first(5.0, [4.0, 4.0]), first(20.0, None), rtol=1e-7)
    assert np.linalg.norm(first(5.0, None) - first(20.0, None)) > 1e-2


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, np.nan], [[1.0, 1.0]], 3.0])
def test_weights_must_be_positive_numbers(weights):
    with pytest.raises(auglag.InputError, match="penalty_weights must be 2 positive numbers, one per constraint row"):
        solve(penalty_weights=weights)
