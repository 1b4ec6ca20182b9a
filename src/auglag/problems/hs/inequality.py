"""Problems with nonlinear inequality constraints, and perhaps bounds, but no equations."""

from __future__ import annotations

from math import inf

from numpy import exp

from auglag.problems.hs.bounded import ROSENBROCK
from auglag.problems.hs.model import Smooth, linear, nonlinear, problem, product, quadratic

#: x2 >= x1^2; HS11 and HS22.
PARABOLA = nonlinear(
    "parabola", lambda x1, x2: [x2 - x1**2], lambda x1, x2: [[-2 * x1, 1]], lambda x1, x2: [{(1, 1): -2}], lower=0
)
#: x2 >= exp(x1) and x3 >= exp(x2); HS34 and HS66.
TOWERS = nonlinear(
    "towers",
    lambda x1, x2, x3: [x2 - exp(x1), x3 - exp(x2)],
    lambda x1, x2, x3: [[-exp(x1), 1, 0], [0, -exp(x2), 1]],
    lambda x1, x2, x3: [{(1, 1): -exp(x1)}, {(2, 2): -exp(x2)}],
    lower=0,
)

TABLE = (
    problem(
        "HS10",
        quadratic({}, [1, -1]),
        nonlinear(
            "ellipse",
            lambda x1, x2: [-3 * x1**2 + 2 * x1 * x2 - x2**2],
            lambda x1, x2: [[-6 * x1 + 2 * x2, 2 * x1 - 2 * x2]],
            lambda x1, x2: [{(1, 1): -6, (1, 2): 2, (2, 2): -2}],
            lower=-1,
        ),
        x0=[-10, 10],
    ),
    problem("HS11", quadratic({(1, 1): 2, (2, 2): 2}, [-10, 0]), PARABOLA, x0=[4.9, 0.1]),
    problem(
        "HS12",
        quadratic({(1, 1): 1, (2, 2): 2, (1, 2): -1}, [-7, -7]),
        nonlinear(
            "ellipse",
            lambda x1, x2: [4 * x1**2 + x2**2],
            lambda x1, x2: [[8 * x1, 2 * x2]],
            lambda x1, x2: [{(1, 1): 8, (2, 2): 2}],
            upper=25,
        ),
        x0=[0, 0],
    ),
    problem(
        "HS15",
        ROSENBROCK,
        nonlinear(
            "curves",
            lambda x1, x2: [x1 * x2, x1 + x2**2],
            lambda x1, x2: [[x2, x1], [1, 2 * x2]],
            lambda x1, x2: [{(1, 2): 1}, {(2, 2): 2}],
            lower=[1, 0],
        ),
        x0=[-2, 1],
        upper=[0.5, inf],
        unique=False,
        note="a second local minimum, f = 360.38 at (-0.7921, -1.2624)",
    ),
    problem(
        "HS16",
        ROSENBROCK,
        nonlinear(
            "parabolas",
            lambda x1, x2: [x1 + x2**2, x1**2 + x2],
            lambda x1, x2: [[1, 2 * x2], [2 * x1, 1]],
            lambda x1, x2: [{(2, 2): 2}, {(1, 1): 2}],
            lower=0,
        ),
        x0=[-2, 1],
        lower=[-0.5, -inf],
        upper=[0.5, 1],
        unique=False,
        note="a second local minimum, f = 23.145 at (-0.5, 0.7071), is nearer to x0",
    ),
    problem(
        "HS17",
        ROSENBROCK,
        nonlinear(
            "parabolas",
            lambda x1, x2: [x2**2 - x1, x1**2 - x2],
            lambda x1, x2: [[-1, 2 * x2], [2 * x1, -1]],
            lambda x1, x2: [{(2, 2): 2}, {(1, 1): 2}],
            lower=0,
        ),
        x0=[-2, 1],
        lower=[-0.5, -inf],
        upper=[0.5, 1],
        note="a constraint is active with multiplier zero at x",
    ),
    problem(
        "HS18",
        quadratic({(1, 1): 0.02, (2, 2): 2}, [0, 0]),
        nonlinear(
            "hyperbola and circle",
            lambda x1, x2: [x1 * x2, x1**2 + x2**2],
            lambda x1, x2: [[x2, x1], [2 * x1, 2 * x2]],
            lambda x1, x2: [{(1, 2): 1}, {(1, 1): 2, (2, 2): 2}],
            lower=25,
        ),
        x0=[2, 2],
        lower=[2, 0],
        upper=50,
    ),
    problem(
        "HS19",
        Smooth(
            lambda x1, x2: (x1 - 10) ** 3 + (x2 - 20) ** 3,
            lambda x1, x2: [3 * (x1 - 10) ** 2, 3 * (x2 - 20) ** 2],
            lambda x1, x2: {(1, 1): 6 * (x1 - 10), (2, 2): 6 * (x2 - 20)},
        ),
        nonlinear(
            "circles",
            lambda x1, x2: [(x1 - 5) ** 2 + (x2 - 5) ** 2, (x1 - 6) ** 2 + (x2 - 5) ** 2],
            lambda x1, x2: [[2 * (x1 - 5), 2 * (x2 - 5)], [2 * (x1 - 6), 2 * (x2 - 5)]],
            lambda x1, x2: [{(1, 1): 2, (2, 2): 2}, {(1, 1): 2, (2, 2): 2}],
            lower=[100, -inf],
            upper=[inf, 82.81],
        ),
        x0=[20.1, 5.84],
        lower=[13, 0],
        upper=100,
    ),
    problem(
        "HS20",
        ROSENBROCK,
        nonlinear(
            "curves",
            lambda x1, x2: [x1 + x2**2, x1**2 + x2, x1**2 + x2**2],
            lambda x1, x2: [[1, 2 * x2], [2 * x1, 1], [2 * x1, 2 * x2]],
            lambda x1, x2: [{(2, 2): 2}, {(1, 1): 2}, {(1, 1): 2, (2, 2): 2}],
            lower=[0, 0, 1],
        ),
        x0=[-2, 1],
        lower=[-0.5, -inf],
        upper=[0.5, inf],
        unique=False,
        note="a second local minimum, f = 40.199 at (-0.5, 0.8660), is nearer to x0",
    ),
    problem(
        "HS22", quadratic({(1, 1): 2, (2, 2): 2}, [-4, -2], 5), linear("line", [[1, 1]], upper=2), PARABOLA, x0=[2, 2]
    ),
    problem(
        "HS23",
        quadratic({(1, 1): 2, (2, 2): 2}, [0, 0]),
        linear("line", [[1, 1]], lower=1),
        nonlinear(
            "curves",
            lambda x1, x2: [x1**2 + x2**2, 9 * x1**2 + x2**2, x1**2 - x2, x2**2 - x1],
            lambda x1, x2: [[2 * x1, 2 * x2], [18 * x1, 2 * x2], [2 * x1, -1], [-1, 2 * x2]],
            lambda x1, x2: [{(1, 1): 2, (2, 2): 2}, {(1, 1): 18, (2, 2): 2}, {(1, 1): 2}, {(2, 2): 2}],
            lower=[1, 9, 0, 0],
        ),
        x0=[3, 1],
        lower=-50,
        upper=50,
        unique=False,
        note="a second local minimum, f = 9.4721 at (-1.6180, 2.6180), is found with a large initial penalty",
    ),
    problem(
        "HS29",
        product(-1),
        nonlinear(
            "ellipsoid",
            lambda x1, x2, x3: [x1**2 + 2 * x2**2 + 4 * x3**2],
            lambda x1, x2, x3: [[2 * x1, 4 * x2, 8 * x3]],
            lambda x1, x2, x3: [{(1, 1): 2, (2, 2): 4, (3, 3): 8}],
            upper=48,
        ),
        x0=[1, 1, 1],
    ),
    problem(
        "HS30",
        quadratic({(1, 1): 2, (2, 2): 2, (3, 3): 2}, [0, 0, 0]),
        nonlinear(
            "cylinder",
            lambda x1, x2, x3: [x1**2 + x2**2],
            lambda x1, x2, x3: [[2 * x1, 2 * x2, 0]],
            lambda x1, x2, x3: [{(1, 1): 2, (2, 2): 2}],
            lower=1,
        ),
        x0=[1, 1, 1],
        lower=[1, -10, -10],
        upper=10,
        unique=False,
        note="the cylinder and the bound x1 >= 1 touch at x: any y in [-1, 0] with z1 = -2 - 2 y will do",
    ),
    problem(
        "HS31",
        quadratic({(1, 1): 18, (2, 2): 2, (3, 3): 18}, [0, 0, 0]),
        nonlinear(
            "hyperbola",
            lambda x1, x2, x3: [x1 * x2],
            lambda x1, x2, x3: [[x2, x1, 0]],
            lambda x1, x2, x3: [{(1, 2): 1}],
            lower=1,
        ),
        x0=[1, 1, 1],
        lower=[-10, 1, -10],
        upper=[10, 10, 1],
    ),
    problem(
        "HS33",
        Smooth(
            lambda x1, x2, x3: (x1 - 1) * (x1 - 2) * (x1 - 3) + x3,
            lambda x1, x2, x3: [3 * x1**2 - 12 * x1 + 11, 0, 1],
            lambda x1, x2, x3: {(1, 1): 6 * x1 - 12},
        ),
        nonlinear(
            "cone and sphere",
            lambda x1, x2, x3: [x3**2 - x2**2 - x1**2, x1**2 + x2**2 + x3**2],
            lambda x1, x2, x3: [[-2 * x1, -2 * x2, 2 * x3], [2 * x1, 2 * x2, 2 * x3]],
            lambda x1, x2, x3: [{(1, 1): -2, (2, 2): -2, (3, 3): 2}, {(1, 1): 2, (2, 2): 2, (3, 3): 2}],
            lower=[0, 4],
        ),
        x0=[0, 0, 3],
        lower=0,
        upper=[inf, inf, 5],
        unique=False,
        note="a second KKT point, f = -4 at (0, 0, 2), attracts methods started at x0, where x2 is at its bound",
    ),
    problem("HS34", quadratic({}, [-1, 0, 0]), TOWERS, x0=[0, 1.05, 2.9], lower=0, upper=[100, 100, 10]),
    problem(
        "HS43",
        quadratic({(1, 1): 2, (2, 2): 2, (3, 3): 4, (4, 4): 2}, [-5, -5, -21, 7]),
        nonlinear(
            "ellipsoids",
            lambda x1, x2, x3, x4: [
                x1**2 + x2**2 + x3**2 + x4**2 + x1 - x2 + x3 - x4,
                x1**2 + 2 * x2**2 + x3**2 + 2 * x4**2 - x1 - x4,
                2 * x1**2 + x2**2 + x3**2 + 2 * x1 - x2 - x4,
            ],
            lambda x1, x2, x3, x4: [
                [2 * x1 + 1, 2 * x2 - 1, 2 * x3 + 1, 2 * x4 - 1],
                [2 * x1 - 1, 4 * x2, 2 * x3, 4 * x4 - 1],
                [4 * x1 + 2, 2 * x2 - 1, 2 * x3, -1],
            ],
            lambda x1, x2, x3, x4: [
                {(1, 1): 2, (2, 2): 2, (3, 3): 2, (4, 4): 2},
                {(1, 1): 2, (2, 2): 4, (3, 3): 2, (4, 4): 4},
                {(1, 1): 4, (2, 2): 2, (3, 3): 2},
            ],
            upper=[8, 10, 5],
        ),
        x0=[0, 0, 0, 0],
    ),
    problem(
        "HS64",
        Smooth(
            lambda x1, x2, x3: 5 * x1 + 50000 / x1 + 20 * x2 + 72000 / x2 + 10 * x3 + 144000 / x3,
            lambda x1, x2, x3: [5 - 50000 / x1**2, 20 - 72000 / x2**2, 10 - 144000 / x3**2],
            lambda x1, x2, x3: {(1, 1): 100000 / x1**3, (2, 2): 144000 / x2**3, (3, 3): 288000 / x3**3},
        ),
        nonlinear(
            "reciprocals",
            lambda x1, x2, x3: [4 / x1 + 32 / x2 + 120 / x3],
            lambda x1, x2, x3: [[-4 / x1**2, -32 / x2**2, -120 / x3**2]],
            lambda x1, x2, x3: [{(1, 1): 8 / x1**3, (2, 2): 64 / x2**3, (3, 3): 240 / x3**3}],
            upper=1,
        ),
        x0=[1, 1, 1],
        lower=1e-5,
    ),
    problem(
        "HS65",
        Smooth(
            lambda x1, x2, x3: (x1 - x2) ** 2 + (x1 + x2 - 10) ** 2 / 9 + (x3 - 5) ** 2,
            lambda x1, x2, x3: [
                2 * (x1 - x2) + 2 * (x1 + x2 - 10) / 9,
                -2 * (x1 - x2) + 2 * (x1 + x2 - 10) / 9,
                2 * (x3 - 5),
            ],
            lambda x1, x2, x3: {(1, 1): 20 / 9, (1, 2): -16 / 9, (2, 2): 20 / 9, (3, 3): 2},
        ),
        nonlinear(
            "ball",
            lambda x1, x2, x3: [x1**2 + x2**2 + x3**2],
            lambda x1, x2, x3: [[2 * x1, 2 * x2, 2 * x3]],
            lambda x1, x2, x3: [{(1, 1): 2, (2, 2): 2, (3, 3): 2}],
            upper=48,
        ),
        x0=[-5, 5, 0],
        lower=[-4.5, -4.5, -5],
        upper=[4.5, 4.5, 5],
    ),
    problem("HS66", quadratic({}, [-0.8, 0, 0.2]), TOWERS, x0=[0, 1.05, 2.9], lower=0, upper=[100, 100, 10]),
)
