"""Small stochastic problems for the tests."""

from __future__ import annotations

import numpy as np

from auglag.stochastic import LinearBlock, StochasticProblem


def two_classes(
    *, rows: int = 300, n: int = 6, chat: float = 0.55, seed: int = 0, g: object = None, dtype: type = np.float64
) -> StochasticProblem:
    """A Neyman-Pearson problem with an intercept, so that its constraint is active."""
    rng = np.random.default_rng(seed)
    plus = np.hstack([rng.standard_normal((rows, n - 1)) + 0.7, np.ones((rows, 1))]).astype(dtype)
    minus = np.hstack([rng.standard_normal((rows + 50, n - 1)) - 0.4, np.ones((rows + 50, 1))]).astype(dtype)
    blocks = [LinearBlock(plus, 1.0, objective=1.0, constraints=[0.0]), LinearBlock(minus, -1.0, constraints=[1.0])]
    return StochasticProblem(blocks, lower=[-np.inf], upper=[chat], names=["false positives"], g=g)


def least_squares_on_a_plane(*, rows: int = 400, n: int = 5, seed: int = 1) -> tuple[StochasticProblem, np.ndarray]:
    """min mean (a'x - b)^2 / 2 s.t. mean(d)'x = 1, with its exact solution."""
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((rows, n)), rng.standard_normal(rows)
    d = 1.0 + 0.3 * rng.standard_normal((rows, n))
    problem = StochasticProblem.from_functions(
        n,
        lambda x, z: 0.5 * np.mean((z[0] @ x - z[1]) ** 2),
        lambda x, z: z[0].T @ (z[0] @ x - z[1]) / len(z[1]),
        constraints=lambda x, z: [np.mean(z[2] @ x) - 1.0],
        jacobian=lambda x, z: z[2].mean(axis=0)[None, :],
        lower=[0.0],
        upper=[0.0],
        data=(A, b, d),
    )
    H, q, a = A.T @ A / rows, A.T @ b / rows, d.mean(axis=0)
    kkt = np.block([[H, a[:, None]], [a[None, :], np.zeros((1, 1))]])
    return problem, np.linalg.solve(kkt, np.append(q, 1.0))
