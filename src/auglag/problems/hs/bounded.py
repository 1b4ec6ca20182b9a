"""Problems whose only constraints are bounds on the variables."""

from __future__ import annotations

from math import inf

from numpy import cos, sin

from auglag.problems.hs.model import Smooth, problem, product

#: Rosenbrock's function; also the objective of HS15, HS16, HS17 and HS20.
ROSENBROCK = Smooth(
    lambda x1, x2: 100 * (x2 - x1**2) ** 2 + (1 - x1) ** 2,
    lambda x1, x2: [-400 * x1 * (x2 - x1**2) - 2 * (1 - x1), 200 * (x2 - x1**2)],
    lambda x1, x2: {(1, 1): 1200 * x1**2 - 400 * x2 + 2, (1, 2): -400 * x1, (2, 2): 200},
)

TABLE = (
    problem("HS1", ROSENBROCK, x0=[-2, 1], lower=[-inf, -1.5]),
    problem(
        "HS2",
        ROSENBROCK,
        x0=[-2, 1],
        lower=[-inf, 1.5],
        unique=False,
        note="a second local minimum, f = 4.9412 at (-1.2210, 1.5), is nearer to x0",
    ),
    problem(
        "HS3",
        Smooth(
            lambda x1, x2: x2 + 1e-5 * (x2 - x1) ** 2,
            lambda x1, x2: [-2e-5 * (x2 - x1), 1 + 2e-5 * (x2 - x1)],
            lambda x1, x2: {(1, 1): 2e-5, (1, 2): -2e-5, (2, 2): 2e-5},
        ),
        x0=[10, 1],
        lower=[-inf, 0],
    ),
    problem(
        "HS4",
        Smooth(
            lambda x1, x2: (x1 + 1) ** 3 / 3 + x2,
            lambda x1, x2: [(x1 + 1) ** 2, 1],
            lambda x1, x2: {(1, 1): 2 * (x1 + 1)},
        ),
        x0=[1.125, 0.125],
        lower=[1, 0],
    ),
    problem(
        "HS5",
        Smooth(
            lambda x1, x2: sin(x1 + x2) + (x1 - x2) ** 2 - 1.5 * x1 + 2.5 * x2 + 1,
            lambda x1, x2: [cos(x1 + x2) + 2 * (x1 - x2) - 1.5, cos(x1 + x2) - 2 * (x1 - x2) + 2.5],
            lambda x1, x2: {(1, 1): 2 - sin(x1 + x2), (1, 2): -2 - sin(x1 + x2), (2, 2): 2 - sin(x1 + x2)},
        ),
        x0=[0, 0],
        lower=[-1.5, -3],
        upper=[4, 3],
    ),
    problem(
        "HS38",
        Smooth(
            lambda x1, x2, x3, x4: (
                100 * (x2 - x1**2) ** 2
                + (1 - x1) ** 2
                + 90 * (x4 - x3**2) ** 2
                + (1 - x3) ** 2
                + 10.1 * ((x2 - 1) ** 2 + (x4 - 1) ** 2)
                + 19.8 * (x2 - 1) * (x4 - 1)
            ),
            lambda x1, x2, x3, x4: [
                -400 * x1 * (x2 - x1**2) - 2 * (1 - x1),
                200 * (x2 - x1**2) + 20.2 * (x2 - 1) + 19.8 * (x4 - 1),
                -360 * x3 * (x4 - x3**2) - 2 * (1 - x3),
                180 * (x4 - x3**2) + 20.2 * (x4 - 1) + 19.8 * (x2 - 1),
            ],
            lambda x1, x2, x3, x4: {
                (1, 1): 1200 * x1**2 - 400 * x2 + 2,
                (1, 2): -400 * x1,
                (2, 2): 220.2,
                (2, 4): 19.8,
                (3, 3): 1080 * x3**2 - 360 * x4 + 2,
                (3, 4): -360 * x3,
                (4, 4): 200.2,
            },
        ),
        x0=[-3, -1, -3, -1],
        lower=-10,
        upper=10,
    ),
    problem("HS45", product(-1 / 120, 2), x0=[2, 2, 2, 2, 2], lower=0, upper=[1, 2, 3, 4, 5]),
)
