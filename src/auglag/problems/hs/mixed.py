"""Problems that mix equations with bounds or with inequality constraints."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy import cos, exp, sin
from numpy import sqrt as root

from auglag._typing import Matrix, Vector
from auglag.problems.hs.equality import TRIPLE, quartic
from auglag.problems.hs.model import KnownProblem, Row, Smooth, linear, nonlinear, problem, product, quadratic


def _hs73_nutrients() -> Row:
    """12 x1 + 11.9 x2 + 41.8 x3 + 52.1 x4 - 1.645 s >= 21, s^2 = 0.28 x1^2 + 0.19 x2^2 + 20.5 x3^2 + 0.62 x4^2."""
    w = (0.28, 0.19, 20.5, 0.62)

    def deviation(*x: float) -> float:
        return float(root(w[0] * x[0] ** 2 + w[1] * x[1] ** 2 + w[2] * x[2] ** 2 + w[3] * x[3] ** 2))

    def jac(*x: float) -> list[list[float]]:
        s = deviation(*x)
        return [[a - 1.645 * w[j] * x[j] / s for j, a in enumerate((12, 11.9, 41.8, 52.1))]]

    def hess(*x: float) -> list[dict[tuple[int, int], float]]:
        s = deviation(*x)
        return [
            {
                (i + 1, j + 1): -1.645 * (w[i] * (i == j) / s - w[i] * x[i] * w[j] * x[j] / s**3)
                for i in range(4)
                for j in range(i, 4)
            }
        ]

    return nonlinear(
        "nutrients",
        lambda *x: [12 * x[0] + 11.9 * x[1] + 41.8 * x[2] + 52.1 * x[3] - 1.645 * deviation(*x)],
        jac,
        hess,
        lower=21,
    )


def _generators(name: str, angle: float) -> KnownProblem:
    """Two generators on a network, with the angle between them at most `angle`; HS74 and HS75."""
    return problem(
        name,
        Smooth(
            lambda x1, x2, x3, x4: 3 * x1 + 1e-6 * x1**3 + 2 * x2 + 2e-6 / 3 * x2**3,
            lambda x1, x2, x3, x4: [3 + 3e-6 * x1**2, 2 + 2e-6 * x2**2, 0, 0],
            lambda x1, x2, x3, x4: {(1, 1): 6e-6 * x1, (2, 2): 4e-6 * x2},
        ),
        linear("angle", [[0, 0, -1, 1]], lower=-angle, upper=angle),
        nonlinear(
            "flows",
            lambda x1, x2, x3, x4: [
                1000 * sin(-x3 - 0.25) + 1000 * sin(-x4 - 0.25) - x1,
                1000 * sin(x3 - 0.25) + 1000 * sin(x3 - x4 - 0.25) - x2,
                1000 * sin(x4 - 0.25) + 1000 * sin(x4 - x3 - 0.25),
            ],
            lambda x1, x2, x3, x4: [
                [-1, 0, -1000 * cos(-x3 - 0.25), -1000 * cos(-x4 - 0.25)],
                [0, -1, 1000 * cos(x3 - 0.25) + 1000 * cos(x3 - x4 - 0.25), -1000 * cos(x3 - x4 - 0.25)],
                [0, 0, -1000 * cos(x4 - x3 - 0.25), 1000 * cos(x4 - 0.25) + 1000 * cos(x4 - x3 - 0.25)],
            ],
            lambda x1, x2, x3, x4: [
                {(3, 3): -1000 * sin(-x3 - 0.25), (4, 4): -1000 * sin(-x4 - 0.25)},
                {
                    (3, 3): -1000 * sin(x3 - 0.25) - 1000 * sin(x3 - x4 - 0.25),
                    (3, 4): 1000 * sin(x3 - x4 - 0.25),
                    (4, 4): -1000 * sin(x3 - x4 - 0.25),
                },
                {
                    (3, 3): -1000 * sin(x4 - x3 - 0.25),
                    (3, 4): 1000 * sin(x4 - x3 - 0.25),
                    (4, 4): -1000 * sin(x4 - 0.25) - 1000 * sin(x4 - x3 - 0.25),
                },
            ],
            equal=[-894.8, -894.8, -1294.8],
        ),
        x0=[0, 0, 0, 0],
        lower=[0, 0, -angle, -angle],
        upper=[1200, 1200, angle, angle],
    )


def _exp_of_product() -> Smooth:
    """exp(x1 x2 x3 x4 x5), the objective of HS80."""
    p = product()

    def grad(*x: float) -> Vector:
        return np.asarray(exp(p.fun(*x)) * np.asarray(p.grad(*x)))

    def hess(*x: float) -> Matrix:
        g = np.asarray(p.grad(*x))
        return np.asarray(exp(p.fun(*x)) * (p.hess(*x) + np.outer(g, g)))

    return Smooth(lambda *x: exp(p.fun(*x)), grad, hess)


def _hs81_objective() -> Smooth:
    """exp(x1 x2 x3 x4 x5) - (x1^3 + x2^3 + 1)^2 / 2."""
    base = _exp_of_product()

    def grad(*x: float) -> Vector:
        cubes = x[0] ** 3 + x[1] ** 3 + 1
        return np.asarray(base.grad(*x)) - cubes * np.array([3 * x[0] ** 2, 3 * x[1] ** 2, 0, 0, 0])

    def hess(*x: float) -> Matrix:
        cubes = x[0] ** 3 + x[1] ** 3 + 1
        g = np.array([3 * x[0] ** 2, 3 * x[1] ** 2, 0, 0, 0])
        return np.asarray(base.hess(*x) - np.outer(g, g) - cubes * np.diag([6 * x[0], 6 * x[1], 0, 0, 0]))

    return Smooth(lambda *x: base.fun(*x) - (x[0] ** 3 + x[1] ** 3 + 1) ** 2 / 2, grad, hess)


TABLE = (
    problem(
        "HS14",
        quadratic({(1, 1): 2, (2, 2): 2}, [-4, -2], 5),
        linear("line", [[1, -2]], equal=-1),
        nonlinear(
            "ellipse",
            lambda x1, x2: [0.25 * x1**2 + x2**2],
            lambda x1, x2: [[0.5 * x1, 2 * x2]],
            lambda x1, x2: [{(1, 1): 0.5, (2, 2): 2}],
            upper=1,
        ),
        x0=[2, 2],
    ),
    problem(
        "HS32",
        Smooth(
            lambda x1, x2, x3: (x1 + 3 * x2 + x3) ** 2 + 4 * (x1 - x2) ** 2,
            lambda x1, x2, x3: [
                2 * (x1 + 3 * x2 + x3) + 8 * (x1 - x2),
                6 * (x1 + 3 * x2 + x3) - 8 * (x1 - x2),
                2 * (x1 + 3 * x2 + x3),
            ],
            lambda x1, x2, x3: {(1, 1): 10, (1, 2): -2, (1, 3): 2, (2, 2): 26, (2, 3): 6, (3, 3): 2},
        ),
        linear("simplex", [[1, 1, 1]], equal=1),
        nonlinear(
            "cubic",
            lambda x1, x2, x3: [6 * x2 + 4 * x3 - x1**3],
            lambda x1, x2, x3: [[-3 * x1**2, 6, 4]],
            lambda x1, x2, x3: [{(1, 1): -6 * x1}],
            lower=3,
        ),
        x0=[0.1, 0.7, 0.2],
        lower=0,
        note="the bound on x1 is active with multiplier zero at x",
    ),
    problem(
        "HS60",
        Smooth(
            lambda x1, x2, x3: (x1 - 1) ** 2 + (x1 - x2) ** 2 + (x2 - x3) ** 4,
            lambda x1, x2, x3: [2 * (x1 - 1) + 2 * (x1 - x2), -2 * (x1 - x2) + 4 * (x2 - x3) ** 3, -4 * (x2 - x3) ** 3],
            lambda x1, x2, x3: {
                (1, 1): 4,
                (1, 2): -2,
                (2, 2): 2 + 12 * (x2 - x3) ** 2,
                (2, 3): -12 * (x2 - x3) ** 2,
                (3, 3): 12 * (x2 - x3) ** 2,
            },
        ),
        quartic(4 + 3 * sqrt(2)),
        x0=[2, 2, 2],
        lower=-10,
        upper=10,
        unique=False,
        note="a second local minimum, f = 2.1897 at (0.0986, -0.8955, -1.6852)",
    ),
    problem(
        "HS63",
        quadratic({(1, 1): -2, (2, 2): -4, (3, 3): -2, (1, 2): -1, (1, 3): -1}, [0, 0, 0], 1000),
        linear("plane", [[8, 14, 7]], equal=56),
        nonlinear(
            "sphere",
            lambda x1, x2, x3: [x1**2 + x2**2 + x3**2],
            lambda x1, x2, x3: [[2 * x1, 2 * x2, 2 * x3]],
            lambda x1, x2, x3: [{(1, 1): 2, (2, 2): 2, (3, 3): 2}],
            equal=25,
        ),
        x0=[2, 2, 2],
        lower=0,
    ),
    problem(
        "HS71",
        Smooth(
            lambda x1, x2, x3, x4: x1 * x4 * (x1 + x2 + x3) + x3,
            lambda x1, x2, x3, x4: [x4 * (2 * x1 + x2 + x3), x1 * x4, x1 * x4 + 1, x1 * (x1 + x2 + x3)],
            lambda x1, x2, x3, x4: {
                (1, 1): 2 * x4,
                (1, 2): x4,
                (1, 3): x4,
                (1, 4): 2 * x1 + x2 + x3,
                (2, 4): x1,
                (3, 4): x1,
            },
        ),
        nonlinear(
            "product",
            lambda x1, x2, x3, x4: [x1 * x2 * x3 * x4],
            lambda x1, x2, x3, x4: [[x2 * x3 * x4, x1 * x3 * x4, x1 * x2 * x4, x1 * x2 * x3]],
            lambda x1, x2, x3, x4: [
                {(1, 2): x3 * x4, (1, 3): x2 * x4, (1, 4): x2 * x3, (2, 3): x1 * x4, (2, 4): x1 * x3, (3, 4): x1 * x2}
            ],
            lower=25,
        ),
        nonlinear(
            "sphere",
            lambda x1, x2, x3, x4: [x1**2 + x2**2 + x3**2 + x4**2],
            lambda x1, x2, x3, x4: [[2 * x1, 2 * x2, 2 * x3, 2 * x4]],
            lambda x1, x2, x3, x4: [{(j, j): 2 for j in range(1, 5)}],
            equal=40,
        ),
        x0=[1, 5, 5, 1],
        lower=1,
        upper=5,
    ),
    problem(
        "HS73",
        quadratic({}, [24.55, 26.75, 39, 40.5]),
        linear("blend", [[2.3, 5.6, 11.1, 1.3], [1, 1, 1, 1]], lower=[5, 1], upper=[np.inf, 1]),
        _hs73_nutrients(),
        x0=[1, 1, 1, 1],
        lower=0,
    ),
    _generators("HS74", 0.55),
    _generators("HS75", 0.48),
    problem(
        "HS80",
        _exp_of_product(),
        TRIPLE,
        x0=[-2, 2, 2, -1, -1],
        lower=[-2.3, -2.3, -3.2, -3.2, -3.2],
        upper=[2.3, 2.3, 3.2, 3.2, 3.2],
    ),
    problem(
        "HS81",
        _hs81_objective(),
        TRIPLE,
        x0=[-2, 2, 2, -1, -1],
        lower=[-2.3, -2.3, -3.2, -3.2, -3.2],
        upper=[2.3, 2.3, 3.2, 3.2, 3.2],
        unique=False,
        note="points with three variables zero are KKT points too (not minima), f = 1",
    ),
)
