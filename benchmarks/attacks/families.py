"""The families of problems. Each generator takes a random number generator and returns a `Case`.

All problems are tiny (1 to 6 variables, 0 to 4 rows), so that many can be tried; what is known of each (feasible,
bounded below, its natural units) is known by construction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from attacks.models import Case, Function, Model, Oracle, Product, model

Rng = np.random.Generator
CONVEX = ("exp", "quartic", "root", "softplus")
ANY = (*CONVEX, "sin", "cube", "arctan", "tanh", "bump")


# ------------------------------------------------------------------------------------------------------------ material


def symmetric(rng: Rng, n: int, low: float = 0.3, high: float = 5.0, negative: int = 0) -> Any:
    """A random symmetric matrix, eigenvalues spread evenly in the logarithm, some of them negative."""
    vectors = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.exp(rng.uniform(math.log(low), math.log(high), n)) * np.where(np.arange(n) < negative, -1.0, 1.0)
    return (vectors * values) @ vectors.T


def ridges(rng: Rng, n: int, shapes: tuple[str, ...], most: int = 2) -> tuple[Any, ...]:
    """Up to `most` shapes along random directions of moderate size."""
    return tuple(
        (str(rng.choice(shapes)), float(rng.uniform(0.2, 1.0)), rng.standard_normal(n) / math.sqrt(n), rng.normal() / 2)
        for _ in range(int(rng.integers(0, most + 1)))
    )


def known(rng: Rng, *, convex: bool, n: int | None = None, box: bool | None = None) -> tuple[Model, Any]:
    """(problem, x): x is a KKT point by construction, the only one and the minimum if the problem is convex."""
    n = int(rng.integers(1, 6)) if n is None else n
    m = int(rng.integers(0, min(n, 3) + 1))
    x = rng.standard_normal(n)
    f = Function(n, symmetric(rng, n, negative=0 if convex else int(rng.integers(0, n + 1))))
    f = replace(f, ridges=ridges(rng, n, CONVEX if convex else ANY))
    rows, cl, cu, y = [], [], [], []
    for _ in range(m):
        equal = rng.random() < 0.4
        if convex and equal:
            row = Function(n, linear=rng.standard_normal(n))
        else:
            curved = (
                None if rng.random() < 0.4 else symmetric(rng, n, negative=0 if convex else int(rng.integers(0, n)))
            )
            row = Function(n, curved, rng.standard_normal(n), ridges=ridges(rng, n, CONVEX if convex else ANY))
        active = equal or rng.random() < 0.6
        size = (0.1 + abs(rng.normal())) * active * (rng.choice([-1.0, 1.0]) if equal else 1.0)
        side = float(row.value(x)) + (0.0 if active else rng.uniform(0.1, 2.0))
        if rng.random() < 0.5:  # stated the other way round: -row >= -side
            row, side, size = replace(row, scale=-1.0), -side, -size
            cl.append(side)
            cu.append(side if equal else np.inf)
        else:
            cl.append(side if equal else -np.inf)
            cu.append(side)
        rows.append(row)
        y.append(size)
    lower, upper, z = np.full(n, -np.inf), np.full(n, np.inf), np.zeros(n)
    if box if box is not None else (not convex or rng.random() < 0.5):
        lower, upper = x - rng.uniform(0.5, 6.0, n), x + rng.uniform(0.5, 6.0, n)
        for j in np.flatnonzero(rng.random(n) < 0.25):
            z[j] = rng.choice([-1.0, 1.0]) * (0.1 + abs(rng.normal()))
            (upper if z[j] > 0 else lower)[j] = x[j]
    made = model(f, rows, cl, cu, lower, upper)
    f = replace(f, linear=-(f.grad(x) + made.jac(x).T @ np.array(y) + z))
    return replace(made, f=f), x


def around(rng: Rng, m: Model, x: Any) -> Any:
    """A start inside the bounds."""
    return np.clip(x + rng.choice([0.3, 1.0, 3.0]) * rng.standard_normal(m.n), m.lower, m.upper)


def exact(rng: Rng, m: Model, x0: Any, **facts: Any) -> Case:
    """A case with exact functions; which derivatives are given, and how the rows are stated, is drawn."""
    style = str(rng.choice(["nonlinear", "dict"]))
    return Case(m, x0, order=int(rng.choice([0, 1, 1, 2])), style=style, **facts)


def power(rng: Rng, low: float, high: float, size: int | None = None) -> Any:
    """Random whole powers of ten."""
    return 10.0 ** rng.integers(int(low), int(high) + 1, size)


# ----------------------------------------------------------------------------------------------------- exact functions


def convex(rng: Rng) -> Case:
    """Convex problems."""
    m, x = known(rng, convex=True)
    return exact(rng, m, around(rng, m, x))


def nonconvex(rng: Rng) -> Case:
    """Problems that are not convex, inside bounds."""
    m, x = known(rng, convex=False)
    return exact(rng, m, around(rng, m, x))


def degenerate(rng: Rng) -> Case:
    """Rows stated twice, squares of rows, complementarity, apexes of cones, more active rows than variables."""
    kind = rng.integers(5)
    n = int(rng.integers(2, 6))
    f = Function(n, symmetric(rng, n), rng.standard_normal(n))
    x = rng.standard_normal(n)
    a = rng.standard_normal(n)
    if kind == 0:
        m, x = known(rng, convex=bool(rng.random() < 0.5))
        copies = [i for i in range(len(m.rows)) for _ in range(int(rng.integers(1, 4)))]
        factor = np.where(rng.random(len(copies)) < 0.5, 1.0, rng.uniform(0.1, 10.0, len(copies)))
        rows = tuple(replace(m.rows[i], scale=m.rows[i].scale * k) for i, k in zip(copies, factor, strict=True))
        m = replace(m, rows=rows, cl=m.cl[copies] * factor, cu=m.cu[copies] * factor)
    elif kind == 1:
        line = Function(n, linear=a, constant=-float(a @ x))
        square = Function(n, 2 * np.outer(a, a), -2 * float(a @ x) * a, float(a @ x) ** 2)
        both = [line, square] if rng.random() < 0.5 else [square]
        m = model(f, both, [-np.inf] * len(both), [0.0] * len(both))
    elif kind == 2:
        pair = np.zeros((n, n))
        pair[0, 1] = pair[1, 0] = 1.0
        m = model(f, [Function(n, pair)], [-np.inf], [0.0], [0.0, 0.0] + [-10.0] * (n - 2), 10.0)
        x = np.abs(x)
    elif kind == 3:
        cone = np.diag([2.0] * (n - 1) + [-2.0])
        f = Function(n, np.diag([1.0] * (n - 1) + [0.0]), np.append(rng.standard_normal(n - 1) / (2 * n), 1.0))
        m = model(f, [Function(n, cone)], [-np.inf], [0.0], [-np.inf] * (n - 1) + [0.0])
    else:
        directions = rng.standard_normal((3 * n, n))
        rows = [Function(n, np.eye(n) * rng.uniform(0, 1), d) for d in directions]
        m = model(f, rows, -np.inf, [float(row.value(x)) for row in rows])
    return exact(rng, m, around(rng, m, x))


def saddles(rng: Rng) -> Case:
    """Starts at or next to saddles, maxima and points where all gradients vanish."""
    kind = rng.integers(5)
    n = int(rng.integers(2, 6))
    best = None
    if kind == 0:  # a rotated saddle with a quartic that bounds it
        turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
        values = np.where(np.arange(n) < rng.integers(1, n + 1), -1.0, 1.0) * rng.uniform(0.5, 2.0, n)
        f = Function(n, (turn * values) @ turn.T, ridges=tuple(("quartic", 1.0, turn[:, i], 0.0) for i in range(n)))
        m, x0 = model(f), np.zeros(n)
        best = float(-(np.minimum(values, 0.0) ** 2).sum() / 16)
    elif kind == 1:  # a concave function in a box, from its maximum
        f, x0 = Function(n, -symmetric(rng, n)), np.zeros(n)
        m = model(f, lower=-rng.uniform(1, 3, n), upper=rng.uniform(1, 3, n))
    elif kind == 2:  # the far point of a sphere
        centre, radius = rng.standard_normal(n), rng.uniform(0.5, 2.0)
        far = rng.standard_normal(n)
        f = Function(n, 2 * np.eye(n), -2 * far, float(far @ far))
        m = model(f, [Function(n, 2 * np.eye(n), -2 * centre, float(centre @ centre))], [radius**2], [radius**2])
        apart = (centre - far) / np.linalg.norm(centre - far)
        x0, best = centre + radius * apart, float((np.linalg.norm(centre - far) - radius) ** 2)
    elif kind == 3:  # -prod x on the sphere, from the worst points there are
        n = int(rng.integers(3, 8))
        m = model(Product(n, weight=-(float(n) ** (n / 2))), [Function(n, 2 * np.eye(n))], [1.0], [1.0], 0.0, 1.0)
        x0, best = rng.random(n) * (rng.random(n) < 0.7), -1.0
    else:  # a product of balances that vanishes with its gradient
        pair = np.zeros((n, n))
        pair[0, 1] = pair[1, 0] = 1.0
        f = Function(n, linear=np.append([0.0, -1.0], np.zeros(n - 2)), quadratic=np.diag([0.0, 0.0] + [1.0] * (n - 2)))
        rows = [Function(n, pair, np.eye(n)[1] - rng.uniform(0.5, 2.0) * np.eye(n)[0])]
        m, x0 = model(f, rows, [0.0], [0.0], [0.0, 0.0] + [-1.0] * (n - 2), 5.0), np.zeros(n)
    if rng.random() < 0.5:
        x0 = x0 + power(rng, -12, -3) * rng.standard_normal(m.n)
    return exact(rng, m, np.clip(x0, m.lower, m.upper), best=best)


def units(rng: Rng) -> Case:
    """Problems with a known solution, with x, f and each row multiplied by random powers of ten, 1e-8 to 1e8."""
    base, x = known(rng, convex=bool(rng.random() < 0.7))
    reach = int(rng.choice([3, 8]))
    unit = power(rng, -reach, reach, base.n)
    if rng.random() < 0.3:
        unit = np.full(base.n, unit[0])
    m = base.rescaled(float(power(rng, -reach, reach)), power(rng, -reach, reach, len(base.rows)), unit)
    return exact(rng, m, around(rng, base, x) * unit, base=base, unit=unit)


def radii(rng: Rng) -> Case:
    """Balls, ellipsoids and parabolas whose solution is up to 1e10 times farther away than the start."""
    far = 10.0 ** rng.uniform(1, 10)
    n = int(rng.integers(1, 5))
    slope = rng.standard_normal(n)
    kind = rng.integers(3)
    near = rng.uniform(0.05, 0.5, n)
    if kind == 0:  # linear over a ball or an ellipsoid
        shape = 2 * np.eye(n) if rng.random() < 0.5 else symmetric(rng, n)
        m = model(Function(n, linear=slope), [Function(n, shape)], [-np.inf], [far**2])
        base = model(Function(n, linear=slope), [Function(n, shape)], [-np.inf], [1.0])
    elif kind == 1:  # s * (-x + x^2 / (2 s^2)): f grows with s like x does
        shape, far = symmetric(rng, n), far**0.9
        m = model(Function(n, shape / far, far * slope))
        base, far = model(Function(n, shape, slope)), far**2
    else:  # a parabola that is nearly a line
        shape = symmetric(rng, n)
        m = model(Function(n, shape / far, slope))
        base = model(Function(n, shape, slope))
    return exact(rng, m, near, base=base, unit=np.full(n, far))


# ----------------------------------------------------------------------------------------------- verdicts, right or not


def equations(rng: Rng) -> Case:
    """Equations that have a solution by construction, from starts at which it is hard to see."""
    kind = rng.integers(6)
    n = 1 if kind < 2 else int(rng.integers(1, 4))
    reach = float(rng.choice([1.0, 3.0, 10.0, 30.0]))
    x = reach * rng.standard_normal(n)
    k = int(rng.integers(1, n + 1))
    rows = []
    for _ in range(k):
        a = rng.standard_normal(n)
        if kind == 0:  # x^3 - 3 w^2 x = t: a local minimum of the violation on the way
            w = rng.uniform(0.3, 2.0)
            rows.append(Function(n, linear=np.array([-3 * w**2]), ridges=(("cube", 1.0, np.ones(n), 0.0),)))
        elif kind == 1:  # a polynomial of degree 5
            b = 2 * rng.standard_normal(3)
            parts = (("quintic", 1.0, np.ones(n), 0.0), ("cube", 5 * b[0], np.ones(n), 0.0))
            rows.append(Function(n, 4 * b[1] * np.eye(n), np.full(n, 10 * b[2]), ridges=parts))
        elif kind == 2:  # waves on a slope
            parts = (("sin", rng.uniform(0.5, 3.0), rng.uniform(1, 5) * a, rng.normal()),)
            rows.append(Function(n, linear=0.3 * a + 0.1 * rng.standard_normal(n), ridges=parts))
        elif kind == 3:  # products and squares
            rows.append(Function(n, symmetric(rng, n, negative=int(rng.integers(0, n + 1)))))
        elif kind == 4:  # cubes along random directions
            parts = tuple(("cube", rng.normal(), rng.standard_normal(n), rng.normal()) for _ in range(2))
            rows.append(Function(n, linear=3 * rng.standard_normal(n), ridges=parts))
        else:  # flat far away: a bump, or a step
            x = 2 * rng.standard_normal(n)
            rows.append(Function(n, ridges=((str(rng.choice(["bump", "tanh"])), 2.0, a, -float(a @ x) + 0.3),)))
    values = np.array([float(row.value(x)) for row in rows])
    f = Function(n) if rng.random() < 0.4 else Function(n, symmetric(rng, n), rng.standard_normal(n))
    lower, upper = -np.inf, np.inf
    if rng.random() < 0.4:
        lower, upper = x - rng.uniform(0.5, 4 * reach, n), x + rng.uniform(0.5, 4 * reach, n)
    m = model(f, rows, values, values, lower, upper)
    x0 = np.zeros(n) if rng.random() < 0.25 else rng.choice([0.1, 1.0, 10.0]) * rng.standard_normal(n)
    return exact(rng, m, np.clip(x0, m.lower, m.upper))


def infeasible(rng: Rng) -> Case:
    """Constraints that exclude each other by at least 0.1, under objectives of every kind."""
    kind = rng.integers(6)
    n = int(rng.integers(1, 5))
    a = rng.standard_normal(n)
    a /= np.linalg.norm(a)
    gap = rng.uniform(0.1, 3.0)
    lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
    line = Function(n, linear=a)
    if kind == 0:  # two half spaces
        rows, cl, cu = [line, replace(line, scale=-1.0)], [-np.inf] * 2, [-gap, -gap]
    elif kind == 1:  # a sum of squares that is negative
        rows, cl, cu = [Function(n, symmetric(rng, n), rng.standard_normal(n))], [-np.inf], [0.0]
        least = rows[0].value(-np.linalg.solve(rows[0].quadratic, rows[0].linear))
        cu = [float(least) - gap]
    elif kind == 2:  # balls apart
        far = (2 + gap) * a
        rows = [Function(n, 2 * np.eye(n)), Function(n, 2 * np.eye(n), -2 * far, float(far @ far))]
        cl, cu = [-np.inf] * 2, [1.0, 1.0]
    elif kind == 3:  # a value outside the range of a function
        shape, value = [("sin", 1 + gap), ("exp", -gap), ("tanh", -1 - gap), ("bump", 1 + gap)][rng.integers(4)]
        rows, cl, cu = [Function(n, ridges=((shape, 1.0, a, rng.normal()),))], [value], [value]
    elif kind == 4:  # a row and bounds
        lower, upper = np.zeros(n), np.full(n, 2.0)
        rows, cl, cu = [Function(n, np.ones((n, n)))], [2.0 * n * n + gap], [np.inf]
    else:  # x = t and x^2 <= 1
        lower, upper = np.zeros(n), np.full(n, 8.0)
        rows = [Function(n, linear=np.eye(n)[0]), Function(n, 2 * np.diag(np.eye(n)[0]))]
        cl, cu = [1 + gap, -np.inf], [1 + gap, 1.0]
    wish = rng.integers(5)
    if wish == 0:
        f = Function(n)
    elif wish == 1:
        f = Function(n, symmetric(rng, n), rng.standard_normal(n))
    elif wish == 2:
        f = Function(n, linear=rng.standard_normal(n), ridges=ridges(rng, n, ANY))
    elif wish == 3:
        f = Function(n, symmetric(rng, n, negative=n))
    else:
        f = Function(n, np.eye(n), ridges=(("power", 1.0, np.eye(n)[0], 0.0),))
        lower[0] = max(lower[0], 0.0)
    m = model(f, rows, cl, cu, lower, upper)
    return exact(rng, m, np.clip(3 * rng.standard_normal(n), lower, upper), feasible=False)


def unbounded(rng: Rng) -> Case:
    """Objectives that fall without end on the feasible set."""
    n = int(rng.integers(1, 5))
    e = np.eye(n)[0]
    away = np.append(np.zeros(1), np.ones(n - 1))
    k = int(rng.integers(5))
    falls = () if k == 0 else ((("exp", "cube", "root", "log")[k - 1], -1.0, e, float(k == 4)),)
    f = Function(n, np.diag(away) * rng.uniform(0, 2), -e * (k == 0 or rng.random() < 0.5), ridges=falls)
    rows, cl, cu = [], [], []
    if n > 1 and rng.random() < 0.6:
        rows, cl, cu = [Function(n, linear=np.eye(n)[1])], [1.0], [1.0]
    elif n > 1 and rng.random() < 0.5:
        rows, cl, cu = [Function(n, 2 * np.diag(away))], [-np.inf], [rng.uniform(0.5, 4.0)]
    lower = np.where(e > 0, -0.5, -np.inf) if k == 4 or rng.random() < 0.3 else -np.inf
    m = model(f, rows, cl, cu, lower)
    return exact(rng, m, np.clip(rng.standard_normal(n), m.lower, m.upper), bounded=False)


def far_out(rng: Rng) -> Case:
    """Objectives that fall for very long and are bounded on the feasible set."""
    n = int(rng.integers(1, 4))
    e = np.eye(n)[0]
    rest = np.diag(1.0 - e)
    s = float(power(rng, 1, 8))
    kind = rng.integers(7)
    line, cube = Function(n, rest, -e), Function(n, rest, ridges=(("cube", -1.0, e, 0.0),))
    falls = line if rng.random() < 0.5 else cube
    rows, cl, cu, upper = [], [], [], np.inf
    if kind == 0:
        rows, cl, cu = [Function(n, ridges=(("exp", 1.0, -e, 0.0),))], [1 / s], [np.inf]
    elif kind == 1:
        rows, cl, cu = [Function(n, ridges=(("arctan", 1.0, e / s, 0.0),))], [-np.inf], [rng.uniform(0.5, 1.5)]
    elif kind == 2:
        rows, cl, cu = [Function(n, ridges=(("tanh", 1.0, e / s, 0.0),))], [-np.inf], [rng.uniform(0.5, 0.99)]
    elif kind == 3:
        rows, cl, cu = [Function(n, ridges=(("log", 1.0, e, 10.0),))], [-np.inf], [math.log(s)]
    elif kind == 4:
        upper = np.where(e > 0, s, np.inf)
    elif kind == 5:  # bounded, without a minimum
        shape = str(rng.choice(["arctan", "tanh"]))
        falls = Function(n, rest, ridges=((shape, -rng.uniform(1, 10), e / min(s, 1e4), 0.0),))
    else:
        falls = Function(n, rest + np.outer(e, e) / s, -e)
    m = model(falls, rows, cl, cu, -5.0 if kind == 3 else -np.inf, upper)
    return exact(rng, m, np.clip(rng.standard_normal(n), m.lower, m.upper))


# --------------------------------------------------------------------------------------------------- coarse functions


def ordinary(rng: Rng) -> tuple[Model, Any, Oracle]:
    """(problem, start, its exact functions): the material of the families that spoil functions."""
    m, x = known(rng, convex=bool(rng.random() < 0.7))
    return m, around(rng, m, x), Oracle.exact(m)


def single(rng: Rng, order: int) -> Case:
    m, x0, _ = ordinary(rng)
    o = Oracle.exact(m.cast(np.float32))

    def call(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, *more: function(x.astype(np.float32), *(np.asarray(v, dtype=np.float32) for v in more))

    low = Oracle(*(call(part) for part in (o.f, o.grad, o.hess, o.c, o.jac, o.hess_c)))
    return Case(m, x0, order=order, oracle=low, style=str(rng.choice(["nonlinear", "dict"])), coarse=True)


def single_differences(rng: Rng) -> Case:
    """Single precision, derivatives by differences."""
    return single(rng, 0)


def single_derivatives(rng: Rng) -> Case:
    """Single precision, derivatives given in single precision."""
    return single(rng, int(rng.integers(1, 3)))


def spoiled(rng: Rng, change: Callable[[Any], Any], **facts: Any) -> Case:
    """Values that pass through `change`; derivatives are exact or by differences."""
    m, x0, o = ordinary(rng)
    f, c = o.f, o.c
    o.f, o.c = lambda x: float(change(np.array([f(x)]))[0]), lambda x: change(c(x))
    return Case(m, x0, order=int(rng.integers(0, 3)), oracle=o, coarse=True, **facts)


def digits(rng: Rng) -> Case:
    """Values rounded to 4 to 9 digits, as text output has them."""
    places = int(rng.choice([4, 5, 6, 6, 6, 7, 8]))
    return spoiled(rng, lambda v: np.array([float(f"{entry:.{places}e}") for entry in v]))


def integers(rng: Rng) -> Case:
    """Values rounded to multiples of 1, 0.1 or 0.01."""
    step = float(rng.choice([1.0, 0.1, 0.01]))
    return spoiled(rng, lambda v: np.round(v / step) * step)


def noise(rng: Rng) -> Case:
    """Additive noise of size 1e-3 to 1e-9, another one at every call, or the same at the same values."""
    level = 10.0 ** rng.uniform(-9, -3)
    draws = np.random.default_rng(rng.integers(2**32))
    if rng.random() < 0.5:
        return spoiled(rng, lambda v: v + level * draws.standard_normal(v.shape))
    return spoiled(rng, lambda v: v + level * np.sin(1e7 * v) * math.sqrt(2))


def stated(rng: Rng) -> Case:
    """The same noise, or rounding, with its size stated."""
    level = 10.0 ** rng.uniform(-7, -2)
    draws = np.random.default_rng(rng.integers(2**32))
    if rng.random() < 0.5:
        return spoiled(rng, lambda v: v + level * draws.standard_normal(v.shape), stated=level)
    return spoiled(rng, lambda v: np.round(v / level) * level, stated=level)


# ------------------------------------------------------------------------------------- wrong derivatives, hidden state


def wrong(rng: Rng) -> Case:
    """Derivatives that are right near x0 and wrong elsewhere: sign, factor, a missing term, one entry, transposed."""
    m, x0, o = ordinary(rng)
    near = float(rng.choice([1e-6, 1e-3, 0.1, 0.3]))
    where = "jac" if m.rows and rng.random() < 0.5 else "grad"
    right = getattr(o, where)
    kinds = ["sign", "factor", "entry", "dropped", "missing", "old", "shifted"]
    if where == "jac" and len(m.rows) == m.n > 1:
        kinds += ["transposed"] * 3
    kind = str(rng.choice(kinds))
    factor = float(rng.choice([0.0, 0.5, 0.9, 0.99, 1.1, 2.0, 10.0]))
    spot = [int(rng.integers(size)) for size in right(x0).shape]
    curved = replace(m, f=replace(m.f, ridges=()), rows=tuple(replace(row, ridges=()) for row in m.rows))
    flat = replace(m, f=replace(m.f, quadratic=None), rows=tuple(replace(row, quadratic=None) for row in m.rows))
    bare = Oracle.exact(curved if m.f.ridges and where == "grad" else flat)
    offset = rng.choice([0.01, 0.1]) * rng.standard_normal(m.n)

    def derivative(x: Any) -> Any:
        value = right(x)
        if np.abs(x - x0).max() <= near:
            return value
        value = value.copy()
        if kind == "sign":
            value[tuple(spot)] *= -1
        elif kind == "factor":
            value *= factor
        elif kind == "entry":
            value[tuple(spot)] *= factor
        elif kind == "dropped":
            value[tuple(spot)] = 0.0
        elif kind == "missing":
            value = getattr(bare, where)(x)
        elif kind == "old":
            value = right(x0).copy()
        elif kind == "shifted":
            value = right(x + offset)
        else:
            value = value.T.copy()
        return value

    setattr(o, where, derivative)
    style = str(rng.choice(["nonlinear", "dict"]))
    return Case(m, x0, order=int(rng.integers(1, 3)), oracle=o, style=style, coarse=True, refusal=True)


def hidden(rng: Rng) -> Case:
    """Values that depend on the number of calls, on stale caches, or on what another function saw last."""
    m, x0, o = ordinary(rng)
    f, c = o.f, o.c
    calls = [0]
    size = float(10.0 ** rng.uniform(-4, 0)) * rng.choice([-1.0, 1.0])
    every, after = int(rng.integers(2, 6)), int(rng.integers(5, 60))
    kind = str(rng.choice(["sometimes", "switch", "drift", "stale", "grid", "shared"]))
    if not m.rows and kind in ("sometimes", "drift", "shared"):
        kind = "stale"
    moved = replace(m, rows=tuple(replace(row, constant=row.constant + size * row.scale) for row in m.rows))
    tilted = replace(m, f=replace(m.f, linear=m.f.linear + size))
    memory: dict[str, Any] = {"c": c(x0), "f": f(x0), "x": x0}
    truths: Callable[[], list[Model]] | None = None
    if kind == "sometimes":

        def rows(x: Any) -> Any:
            calls[0] += 1
            return c(x) + (size if calls[0] % every == 0 else 0.0)

        o.c, truths = rows, lambda: [m, moved]
    elif kind == "drift":

        def rows(x: Any) -> Any:
            calls[0] += 1
            return c(x) + 1e-2 * size * calls[0]

        def last() -> list[Model]:
            shift = 1e-2 * size * calls[0]
            return [replace(m, rows=tuple(replace(r, constant=r.constant + shift * r.scale) for r in m.rows))]

        o.c, truths = rows, last
    elif kind == "switch":

        def objective(x: Any) -> Any:
            calls[0] += 1
            return (tilted.f if calls[0] > after else m.f).value(x)

        o.f = objective
        o.grad = lambda x: (tilted.f if calls[0] > after else m.f).grad(x)
        truths = lambda: [tilted if calls[0] > after else m]  # noqa: E731
    elif kind == "stale":

        def objective(x: Any) -> Any:
            calls[0] += 1
            if calls[0] % every:
                memory["f"] = f(x)
            return memory["f"]

        o.f = objective
    elif kind == "grid":
        known_values: dict[bytes, Any] = {}
        step = float(power(rng, -6, -2))
        o.f = lambda x: known_values.setdefault((np.round(x / step) + 0.0).tobytes(), f(x))
    else:

        def objective(x: Any) -> Any:
            memory["x"] = x
            return f(x)

        o.f, o.c = objective, lambda x: c(memory["x"])
    style = str(rng.choice(["nonlinear", "dict"]))
    if kind in ("sometimes", "drift"):  # what is true is known of all rows together
        style = "nonlinear"
    return Case(m, x0, order=int(rng.integers(0, 3)), oracle=o, style=style, coarse=True, refusal=True, truths=truths)


#: name -> (generator, problems of the full run).
FAMILIES: dict[str, tuple[Callable[[Rng], Case], int]] = {
    "convex": (convex, 1200),
    "not convex": (nonconvex, 1800),
    "degenerate": (degenerate, 1200),
    "saddles": (saddles, 1000),
    "units": (units, 3000),
    "big radii": (radii, 1000),
    "equations": (equations, 2500),
    "infeasible": (infeasible, 1500),
    "unbounded": (unbounded, 700),
    "bounded far out": (far_out, 1000),
    "float32, differences": (single_differences, 700),
    "float32, derivatives": (single_derivatives, 700),
    "digits": (digits, 700),
    "integers": (integers, 600),
    "noise": (noise, 1000),
    "stated errors": (stated, 500),
    "wrong derivatives": (wrong, 2000),
    "hidden state": (hidden, 1200),
}


def case_of(family: str, seed: int) -> Case:
    """The problem number `seed` of a family."""
    return FAMILIES[family][0](np.random.default_rng([seed, *family.encode()]))
