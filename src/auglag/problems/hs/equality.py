"""Problems with nonlinear equality constraints and no bounds."""

from __future__ import annotations

from math import asin, sqrt

from numpy import cos, log, sin

from auglag.problems.hs.model import Row, Smooth, linear, nonlinear, problem, product, quadratic

#: The constraints of HS78, HS80 and HS81.
TRIPLE: Row = nonlinear(
    "triple",
    lambda x1, x2, x3, x4, x5: [x1**2 + x2**2 + x3**2 + x4**2 + x5**2, x2 * x3 - 5 * x4 * x5, x1**3 + x2**3],
    lambda x1, x2, x3, x4, x5: [
        [2 * x1, 2 * x2, 2 * x3, 2 * x4, 2 * x5],
        [0, x3, x2, -5 * x5, -5 * x4],
        [3 * x1**2, 3 * x2**2, 0, 0, 0],
    ],
    lambda x1, x2, x3, x4, x5: [
        {(j, j): 2 for j in range(1, 6)},
        {(2, 3): 1, (4, 5): -5},
        {(1, 1): 6 * x1, (2, 2): 6 * x2},
    ],
    equal=[10, 0, -1],
)

#: The objective of HS46 and HS49.
POWERS = Smooth(
    lambda x1, x2, x3, x4, x5: (x1 - x2) ** 2 + (x3 - 1) ** 2 + (x4 - 1) ** 4 + (x5 - 1) ** 6,
    lambda x1, x2, x3, x4, x5: [2 * (x1 - x2), -2 * (x1 - x2), 2 * (x3 - 1), 4 * (x4 - 1) ** 3, 6 * (x5 - 1) ** 5],
    lambda x1, x2, x3, x4, x5: {
        (1, 1): 2,
        (1, 2): -2,
        (2, 2): 2,
        (3, 3): 2,
        (4, 4): 12 * (x4 - 1) ** 2,
        (5, 5): 30 * (x5 - 1) ** 4,
    },
)


def _sine(level1: float, level2: float) -> Row:
    """x1^2 x4 + sin(x4 - x5) = level1 and x2 + x3^4 x4^2 = level2; HS46 and HS77."""
    return nonlinear(
        "sine",
        lambda x1, x2, x3, x4, x5: [x1**2 * x4 + sin(x4 - x5), x2 + x3**4 * x4**2],
        lambda x1, x2, x3, x4, x5: [
            [2 * x1 * x4, 0, 0, x1**2 + cos(x4 - x5), -cos(x4 - x5)],
            [0, 1, 4 * x3**3 * x4**2, 2 * x3**4 * x4, 0],
        ],
        lambda x1, x2, x3, x4, x5: [
            {(1, 1): 2 * x4, (1, 4): 2 * x1, (4, 4): -sin(x4 - x5), (4, 5): sin(x4 - x5), (5, 5): -sin(x4 - x5)},
            {(3, 3): 12 * x3**2 * x4**2, (3, 4): 8 * x3**3 * x4, (4, 4): 2 * x3**4},
        ],
        equal=[level1, level2],
    )


def quartic(level: float) -> Row:
    """(1 + x2^2) x1 + x3^4 = level; HS26 and HS60."""
    return nonlinear(
        "quartic",
        lambda x1, x2, x3: [(1 + x2**2) * x1 + x3**4],
        lambda x1, x2, x3: [[1 + x2**2, 2 * x1 * x2, 4 * x3**3]],
        lambda x1, x2, x3: [{(1, 2): 2 * x2, (2, 2): 2 * x1, (3, 3): 12 * x3**2}],
        equal=level,
    )


TABLE = (
    problem(
        "HS6",
        Smooth(lambda x1, x2: (1 - x1) ** 2, lambda x1, x2: [-2 * (1 - x1), 0], lambda x1, x2: {(1, 1): 2}),
        nonlinear(
            "parabola",
            lambda x1, x2: [10 * (x2 - x1**2)],
            lambda x1, x2: [[-20 * x1, 10]],
            lambda x1, x2: [{(1, 1): -20}],
            equal=0,
        ),
        x0=[-1.2, 1],
    ),
    problem(
        "HS7",
        Smooth(
            lambda x1, x2: log(1 + x1**2) - x2,
            lambda x1, x2: [2 * x1 / (1 + x1**2), -1],
            lambda x1, x2: {(1, 1): 2 * (1 - x1**2) / (1 + x1**2) ** 2},
        ),
        nonlinear(
            "oval",
            lambda x1, x2: [(1 + x1**2) ** 2 + x2**2],
            lambda x1, x2: [[4 * x1 * (1 + x1**2), 2 * x2]],
            lambda x1, x2: [{(1, 1): 4 + 12 * x1**2, (2, 2): 2}],
            equal=4,
        ),
        x0=[2, 2],
    ),
    problem(
        "HS8",
        Smooth(lambda x1, x2: -1, lambda x1, x2: [0, 0], lambda x1, x2: {}),
        nonlinear(
            "circle and hyperbola",
            lambda x1, x2: [x1**2 + x2**2, x1 * x2],
            lambda x1, x2: [[2 * x1, 2 * x2], [x2, x1]],
            lambda x1, x2: [{(1, 1): 2, (2, 2): 2}, {(1, 2): 1}],
            equal=[25, 9],
        ),
        x0=[2, 1],
    ),
    problem(
        "HS26",
        Smooth(
            lambda x1, x2, x3: (x1 - x2) ** 2 + (x2 - x3) ** 4,
            lambda x1, x2, x3: [2 * (x1 - x2), -2 * (x1 - x2) + 4 * (x2 - x3) ** 3, -4 * (x2 - x3) ** 3],
            lambda x1, x2, x3: {
                (1, 1): 2,
                (1, 2): -2,
                (2, 2): 2 + 12 * (x2 - x3) ** 2,
                (2, 3): -12 * (x2 - x3) ** 2,
                (3, 3): 12 * (x2 - x3) ** 2,
            },
        ),
        quartic(3),
        x0=[-2.6, 2, 2],
        unique=False,
        note="the Hessian of L is singular on the tangent space: f grows with the fourth power; a second zero exists",
    ),
    problem(
        "HS27",
        Smooth(
            lambda x1, x2, x3: 0.01 * (x1 - 1) ** 2 + (x2 - x1**2) ** 2,
            lambda x1, x2, x3: [0.02 * (x1 - 1) - 4 * x1 * (x2 - x1**2), 2 * (x2 - x1**2), 0],
            lambda x1, x2, x3: {(1, 1): 0.02 + 12 * x1**2 - 4 * x2, (1, 2): -4 * x1, (2, 2): 2},
        ),
        nonlinear(
            "parabola",
            lambda x1, x2, x3: [x1 + x3**2],
            lambda x1, x2, x3: [[1, 0, 2 * x3]],
            lambda x1, x2, x3: [{(3, 3): 2}],
            equal=-1,
        ),
        x0=[2, 2, 2],
    ),
    problem(
        "HS39",
        quadratic({}, [-1, 0, 0, 0]),
        nonlinear(
            "surfaces",
            lambda x1, x2, x3, x4: [x2 - x1**3 - x3**2, x1**2 - x2 - x4**2],
            lambda x1, x2, x3, x4: [[-3 * x1**2, 1, -2 * x3, 0], [2 * x1, -1, 0, -2 * x4]],
            lambda x1, x2, x3, x4: [{(1, 1): -6 * x1, (3, 3): -2}, {(1, 1): 2, (4, 4): -2}],
            equal=0,
        ),
        x0=[2, 2, 2, 2],
    ),
    problem(
        "HS40",
        product(-1),
        nonlinear(
            "surfaces",
            lambda x1, x2, x3, x4: [x1**3 + x2**2, x1**2 * x4 - x3, x4**2 - x2],
            lambda x1, x2, x3, x4: [[3 * x1**2, 2 * x2, 0, 0], [2 * x1 * x4, 0, -1, x1**2], [0, -1, 0, 2 * x4]],
            lambda x1, x2, x3, x4: [{(1, 1): 6 * x1, (2, 2): 2}, {(1, 1): 2 * x4, (1, 4): 2 * x1}, {(4, 4): 2}],
            equal=[1, 0, 0],
        ),
        x0=[0.8, 0.8, 0.8, 0.8],
    ),
    problem(
        "HS42",
        quadratic({(j, j): 2 for j in range(1, 5)}, [-2, -4, -6, -8], 30),
        linear("fixed", [[1, 0, 0, 0]], equal=2),
        nonlinear(
            "circle",
            lambda x1, x2, x3, x4: [x3**2 + x4**2],
            lambda x1, x2, x3, x4: [[0, 0, 2 * x3, 2 * x4]],
            lambda x1, x2, x3, x4: [{(3, 3): 2, (4, 4): 2}],
            equal=2,
        ),
        x0=[1, 1, 1, 1],
    ),
    problem(
        "HS46",
        POWERS,
        _sine(1, 2),
        x0=[sqrt(2) / 2, 1.75, 0.5, 2, 2],
        unique=False,
        note="the Hessian of L is singular on the tangent space: f grows with the fourth power",
    ),
    problem(
        "HS56",
        Smooth(
            lambda x1, x2, x3, x4, x5, x6, x7: -x1 * x2 * x3,
            lambda x1, x2, x3, x4, x5, x6, x7: [-x2 * x3, -x1 * x3, -x1 * x2, 0, 0, 0, 0],
            lambda x1, x2, x3, x4, x5, x6, x7: {(1, 2): -x3, (1, 3): -x2, (2, 3): -x1},
        ),
        nonlinear(
            "sines",
            lambda x1, x2, x3, x4, x5, x6, x7: [
                x1 - 4.2 * sin(x4) ** 2,
                x2 - 4.2 * sin(x5) ** 2,
                x3 - 4.2 * sin(x6) ** 2,
                x1 + 2 * x2 + 2 * x3 - 7.2 * sin(x7) ** 2,
            ],
            lambda x1, x2, x3, x4, x5, x6, x7: [
                [1, 0, 0, -4.2 * sin(2 * x4), 0, 0, 0],
                [0, 1, 0, 0, -4.2 * sin(2 * x5), 0, 0],
                [0, 0, 1, 0, 0, -4.2 * sin(2 * x6), 0],
                [1, 2, 2, 0, 0, 0, -7.2 * sin(2 * x7)],
            ],
            lambda x1, x2, x3, x4, x5, x6, x7: [
                {(4, 4): -8.4 * cos(2 * x4)},
                {(5, 5): -8.4 * cos(2 * x5)},
                {(6, 6): -8.4 * cos(2 * x6)},
                {(7, 7): -14.4 * cos(2 * x7)},
            ],
            equal=0,
        ),
        x0=[1, 1, 1, *[asin(sqrt(1 / 4.2))] * 3, asin(sqrt(5 / 7.2))],
        unique=False,
        note="periodic in x4, ..., x7: the same value at infinitely many points",
    ),
    problem(
        "HS61",
        quadratic({(1, 1): 8, (2, 2): 4, (3, 3): 4}, [-33, 16, -24]),
        nonlinear(
            "parabolas",
            lambda x1, x2, x3: [3 * x1 - 2 * x2**2, 4 * x1 - x3**2],
            lambda x1, x2, x3: [[3, -4 * x2, 0], [4, 0, -2 * x3]],
            lambda x1, x2, x3: [{(2, 2): -4}, {(3, 3): -2}],
            equal=[7, 11],
        ),
        x0=[0, 0, 0],
        note="the Jacobian of the constraints is rank-deficient at x0",
    ),
    problem(
        "HS77",
        Smooth(
            lambda x1, x2, x3, x4, x5: (x1 - 1) ** 2 + (x1 - x2) ** 2 + (x3 - 1) ** 2 + (x4 - 1) ** 4 + (x5 - 1) ** 6,
            lambda x1, x2, x3, x4, x5: [
                2 * (x1 - 1) + 2 * (x1 - x2),
                -2 * (x1 - x2),
                2 * (x3 - 1),
                4 * (x4 - 1) ** 3,
                6 * (x5 - 1) ** 5,
            ],
            lambda x1, x2, x3, x4, x5: {
                (1, 1): 4,
                (1, 2): -2,
                (2, 2): 2,
                (3, 3): 2,
                (4, 4): 12 * (x4 - 1) ** 2,
                (5, 5): 30 * (x5 - 1) ** 4,
            },
        ),
        _sine(2 * sqrt(2), 8 + sqrt(2)),
        x0=[2, 2, 2, 2, 2],
    ),
    problem("HS78", product(), TRIPLE, x0=[-2, 1.5, 2, -1, -1]),
    problem(
        "HS79",
        Smooth(
            lambda x1, x2, x3, x4, x5: (
                (x1 - 1) ** 2 + (x1 - x2) ** 2 + (x2 - x3) ** 2 + (x3 - x4) ** 4 + (x4 - x5) ** 4
            ),
            lambda x1, x2, x3, x4, x5: [
                2 * (x1 - 1) + 2 * (x1 - x2),
                -2 * (x1 - x2) + 2 * (x2 - x3),
                -2 * (x2 - x3) + 4 * (x3 - x4) ** 3,
                -4 * (x3 - x4) ** 3 + 4 * (x4 - x5) ** 3,
                -4 * (x4 - x5) ** 3,
            ],
            lambda x1, x2, x3, x4, x5: {
                (1, 1): 4,
                (1, 2): -2,
                (2, 2): 4,
                (2, 3): -2,
                (3, 3): 2 + 12 * (x3 - x4) ** 2,
                (3, 4): -12 * (x3 - x4) ** 2,
                (4, 4): 12 * (x3 - x4) ** 2 + 12 * (x4 - x5) ** 2,
                (4, 5): -12 * (x4 - x5) ** 2,
                (5, 5): 12 * (x4 - x5) ** 2,
            },
        ),
        nonlinear(
            "surfaces",
            lambda x1, x2, x3, x4, x5: [x1 + x2**2 + x3**3, x2 - x3**2 + x4, x1 * x5],
            lambda x1, x2, x3, x4, x5: [[1, 2 * x2, 3 * x3**2, 0, 0], [0, 1, -2 * x3, 1, 0], [x5, 0, 0, 0, x1]],
            lambda x1, x2, x3, x4, x5: [{(2, 2): 2, (3, 3): 6 * x3}, {(3, 3): -2}, {(1, 5): 1}],
            equal=[2 + 3 * sqrt(2), -2 + 2 * sqrt(2), 2],
        ),
        x0=[2, 2, 2, 2, 2],
    ),
)
