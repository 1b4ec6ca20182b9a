"""Problems whose constraints, apart from bounds, are all linear."""

from __future__ import annotations

from math import inf, pi, sqrt

import numpy as np
from numpy import cos, log, sin

from auglag._typing import Matrix, Vector
from auglag.problems.hs.equality import POWERS
from auglag.problems.hs.model import Smooth, linear, problem, product, quadratic, squares


def _hs62_objective() -> Smooth:
    """-32.174 sum_k w_k log((a_k'x + 0.03) / (b_k'x + 0.03))."""
    forms = np.array([[1, 1, 1], [0.09, 1, 1], [0, 1, 1], [0, 0.07, 1], [0, 0, 1], [0, 0, 0.13]], dtype=np.float64)
    weights = -32.174 * np.array([255, -255, 280, -280, 290, -290], dtype=np.float64)

    def fun(*x: float) -> float:
        return float(weights @ log(forms @ np.asarray(x) + 0.03))

    def grad(*x: float) -> Vector:
        return np.asarray((weights / (forms @ np.asarray(x) + 0.03)) @ forms)

    def hess(*x: float) -> Matrix:
        return np.asarray(-(forms.T * (weights / (forms @ np.asarray(x) + 0.03) ** 2)) @ forms)

    return Smooth(fun, grad, hess)


def _hs86_objective() -> Smooth:
    """Colville's first problem: e'x + x'Cx + sum_j d_j x_j^3."""
    e = np.array([-15, -27, -36, -18, -12], dtype=np.float64)
    d = np.array([4, 8, 10, 6, 2], dtype=np.float64)
    c = np.array(
        [
            [30, -20, -10, 32, -10],
            [-20, 39, -6, -31, 32],
            [-10, -6, 10, -6, -10],
            [32, -31, -6, 39, -20],
            [-10, 32, -10, -20, 30],
        ],
        dtype=np.float64,
    )

    def fun(*x: float) -> float:
        v = np.asarray(x)
        return float(e @ v + v @ (c @ v) + d @ v**3)

    def grad(*x: float) -> Vector:
        v = np.asarray(x)
        return np.asarray(e + 2 * (c @ v) + 3 * d * v**2)

    return Smooth(fun, grad, lambda *x: 2 * c + np.diag(6 * d * np.asarray(x)))


def _hs118_differences() -> list[list[float]]:
    """x_j - x_{j-3} for j = 4, ..., 15."""
    return [[float(j == k + 3) - float(j == k) for j in range(15)] for k in range(12)]


def _hs118_sums() -> list[list[float]]:
    """x_{3k+1} + x_{3k+2} + x_{3k+3} for k = 0, ..., 4."""
    return [[float(j // 3 == k) for j in range(15)] for k in range(5)]


TABLE = (
    problem(
        "HS9",
        Smooth(
            lambda x1, x2: sin(pi * x1 / 12) * cos(pi * x2 / 16),
            lambda x1, x2: [
                pi / 12 * cos(pi * x1 / 12) * cos(pi * x2 / 16),
                -pi / 16 * sin(pi * x1 / 12) * sin(pi * x2 / 16),
            ],
            lambda x1, x2: {
                (1, 1): -((pi / 12) ** 2) * sin(pi * x1 / 12) * cos(pi * x2 / 16),
                (1, 2): -(pi**2 / 192) * cos(pi * x1 / 12) * sin(pi * x2 / 16),
                (2, 2): -((pi / 16) ** 2) * sin(pi * x1 / 12) * cos(pi * x2 / 16),
            },
        ),
        linear("line", [[4, -3]], equal=0),
        x0=[0, 0],
        unique=False,
        note="periodic: the same value at (12 k - 3, 16 k - 4) for every integer k",
    ),
    problem(
        "HS21",
        quadratic({(1, 1): 0.02, (2, 2): 2}, [0, 0], -100),
        linear("line", [[10, -1]], lower=10),
        x0=[-1, -1],
        lower=[2, -50],
        upper=50,
    ),
    problem(
        "HS24",
        Smooth(
            lambda x1, x2: ((x1 - 3) ** 2 - 9) * x2**3 / (27 * sqrt(3)),
            lambda x1, x2: [2 * (x1 - 3) * x2**3 / (27 * sqrt(3)), ((x1 - 3) ** 2 - 9) * x2**2 / (9 * sqrt(3))],
            lambda x1, x2: {
                (1, 1): 2 * x2**3 / (27 * sqrt(3)),
                (1, 2): 2 * (x1 - 3) * x2**2 / (9 * sqrt(3)),
                (2, 2): 2 * ((x1 - 3) ** 2 - 9) * x2 / (9 * sqrt(3)),
            },
        ),
        linear("wedge", [[1 / sqrt(3), -1], [1, sqrt(3)]], lower=0, upper=[inf, 6]),
        x0=[1, 0.5],
        lower=0,
    ),
    problem("HS28", squares([[1, 1, 0], [0, 1, 1]], [0, 0]), linear("plane", [[1, 2, 3]], equal=1), x0=[-4, 1, 1]),
    problem(
        "HS35",
        quadratic({(1, 1): 4, (2, 2): 4, (3, 3): 2, (1, 2): 2, (1, 3): 2}, [-8, -6, -4], 9),
        linear("plane", [[1, 1, 2]], upper=3),
        x0=[0.5, 0.5, 0.5],
        lower=0,
    ),
    problem(
        "HS36",
        product(-1),
        linear("girth", [[1, 2, 2]], upper=72),
        x0=[10, 10, 10],
        lower=0,
        upper=[20, 11, 42],
        unique=False,
        note="points with two variables zero are KKT points too (not minima); a small initial penalty may end there",
    ),
    problem(
        "HS37",
        product(-1),
        linear("girth", [[1, 2, 2]], lower=0, upper=72),
        x0=[10, 10, 10],
        lower=0,
        upper=42,
        unique=False,
        note="points with two variables zero are KKT points too (not minima); a small initial penalty may end there",
    ),
    problem(
        "HS41",
        Smooth(
            lambda x1, x2, x3, x4: 2 - x1 * x2 * x3,
            lambda x1, x2, x3, x4: [-x2 * x3, -x1 * x3, -x1 * x2, 0],
            lambda x1, x2, x3, x4: {(1, 2): -x3, (1, 3): -x2, (2, 3): -x1},
        ),
        linear("girth", [[1, 2, 2, -1]], equal=0),
        x0=[2, 2, 2, 2],
        lower=0,
        upper=[1, 1, 1, 2],
    ),
    problem(
        "HS44",
        quadratic({(1, 3): -1, (1, 4): 1, (2, 3): 1, (2, 4): -1}, [1, -1, -1, 0]),
        linear(
            "polytope",
            [[1, 2, 0, 0], [4, 1, 0, 0], [3, 4, 0, 0], [0, 0, 2, 1], [0, 0, 1, 2], [0, 0, 1, 1]],
            upper=[8, 12, 12, 8, 8, 5],
        ),
        x0=[0, 0, 0, 0],
        lower=0,
        unique=False,
        note="indefinite: a second local minimum, f = -13 at (3, 0, 4, 0)",
    ),
    problem(
        "HS48",
        squares([[1, 0, 0, 0, 0], [0, 1, -1, 0, 0], [0, 0, 0, 1, -1]], [1, 0, 0]),
        linear("planes", [[1, 1, 1, 1, 1], [0, 0, 1, -2, -2]], equal=[5, -3]),
        x0=[3, 5, -3, 2, -2],
    ),
    problem(
        "HS49",
        POWERS,
        linear("planes", [[1, 1, 1, 4, 0], [0, 0, 1, 0, 5]], equal=[7, 6]),
        x0=[10, 7, 2, -3, 0.8],
        unique=False,
        note="the Hessian is singular on the null space of the constraints: f grows with the fourth power",
    ),
    problem(
        "HS50",
        Smooth(
            lambda x1, x2, x3, x4, x5: (x1 - x2) ** 2 + (x2 - x3) ** 2 + (x3 - x4) ** 4 + (x4 - x5) ** 2,
            lambda x1, x2, x3, x4, x5: [
                2 * (x1 - x2),
                -2 * (x1 - x2) + 2 * (x2 - x3),
                -2 * (x2 - x3) + 4 * (x3 - x4) ** 3,
                -4 * (x3 - x4) ** 3 + 2 * (x4 - x5),
                -2 * (x4 - x5),
            ],
            lambda x1, x2, x3, x4, x5: {
                (1, 1): 2,
                (1, 2): -2,
                (2, 2): 4,
                (2, 3): -2,
                (3, 3): 2 + 12 * (x3 - x4) ** 2,
                (3, 4): -12 * (x3 - x4) ** 2,
                (4, 4): 2 + 12 * (x3 - x4) ** 2,
                (4, 5): -2,
                (5, 5): 2,
            },
        ),
        linear("planes", [[1, 2, 3, 0, 0], [0, 1, 2, 3, 0], [0, 0, 1, 2, 3]], equal=6),
        x0=[35, -31, 11, 5, -5],
    ),
    problem(
        "HS51",
        squares([[1, -1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], [0, 2, 1, 1]),
        linear("planes", [[1, 3, 0, 0, 0], [0, 0, 1, 1, -2], [0, 1, 0, 0, -1]], equal=[4, 0, 0]),
        x0=[2.5, 0.5, 2, -1, 0.5],
    ),
    problem(
        "HS52",
        squares([[4, -1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], [0, 2, 1, 1]),
        linear("planes", [[1, 3, 0, 0, 0], [0, 0, 1, 1, -2], [0, 1, 0, 0, -1]], equal=0),
        x0=[2, 2, 2, 2, 2],
    ),
    problem(
        "HS53",
        squares([[1, -1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], [0, 2, 1, 1]),
        linear("planes", [[1, 3, 0, 0, 0], [0, 0, 1, 1, -2], [0, 1, 0, 0, -1]], equal=0),
        x0=[2, 2, 2, 2, 2],
        lower=-10,
        upper=10,
    ),
    problem("HS62", _hs62_objective(), linear("simplex", [[1, 1, 1]], equal=1), x0=[0.7, 0.2, 0.1], lower=0, upper=1),
    problem(
        "HS76",
        quadratic({(1, 1): 2, (2, 2): 1, (3, 3): 2, (4, 4): 1, (1, 3): -1, (3, 4): 1}, [-1, -3, 1, -1]),
        linear("planes", [[1, 2, 1, 1], [3, 1, 2, -1], [0, 1, 4, 0]], lower=[-inf, -inf, 1.5], upper=[5, 4, inf]),
        x0=[0.5, 0.5, 0.5, 0.5],
        lower=0,
    ),
    problem(
        "HS86",
        _hs86_objective(),
        linear(
            "planes",
            [
                [-16, 2, 0, 1, 0],
                [0, -2, 0, 4, 2],
                [-3.5, 0, 2, 0, 0],
                [0, -2, 0, -4, -1],
                [0, -9, -2, 1, -2.8],
                [2, 0, -4, 0, 0],
                [-1, -1, -1, -1, -1],
                [-1, -2, -3, -2, -1],
                [1, 2, 3, 4, 5],
                [1, 1, 1, 1, 1],
            ],
            lower=[-40, -2, -0.25, -4, -4, -1, -40, -60, 5, 1],
        ),
        x0=[0, 0, 0, 0, 1],
        lower=0,
    ),
    problem(
        "HS118",
        quadratic({(j, j): (2e-4, 2e-4, 3e-4)[(j - 1) % 3] for j in range(1, 16)}, [2.3, 1.7, 2.2] * 5),
        linear("differences", _hs118_differences(), lower=-7, upper=[6, 7, 6] * 4),
        linear("sums", _hs118_sums(), lower=[60, 50, 70, 85, 100]),
        x0=[20, 55, 15, 20, 60, 20, 20, 60, 20, 20, 60, 20, 20, 60, 20],
        lower=[8, 43, 3] + [0] * 12,
        upper=[21, 57, 16] + [90, 120, 60] * 4,
    ),
)
