"""Random problems whose verdict is known: feasible ones that look infeasible, infeasible ones, bounded and unbounded.

Rows and objectives are written with NumPy's functions of x[0], x[1], ..., so that CasADi's symbols can be put in for x,
and a judge can evaluate them in another precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Scalar = Callable[[Any], Any]  #: a function of x


@dataclass(frozen=True)
class Verdict:
    """min f subject to cl <= rows <= cu, lower <= x <= upper, from x0, and what is true of it."""

    name: str
    f: Scalar
    rows: tuple[Scalar, ...]
    cl: np.ndarray
    cu: np.ndarray
    x0: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    known: np.ndarray | None = None  #: a feasible point
    truth: str = ""  #: "infeasible", "unbounded" or "" for neither
    least: float = 0.0  #: f is not below this at feasible points, where it is bounded
    extra: dict[str, Any] = field(default_factory=dict)

    def c(self, x: np.ndarray) -> np.ndarray:
        """The rows as one vector."""
        return np.array([row(x) for row in self.rows], dtype=float)

    def violation(self, x: np.ndarray) -> float:
        """||c - clip(c, cl, cu)||."""
        c = self.c(x)
        return float(np.linalg.norm(c - np.clip(c, self.cl, self.cu)))

    def arguments(self) -> dict[str, Any]:
        """For `auglag.minimize`."""
        from scipy.optimize import Bounds, NonlinearConstraint

        said: dict[str, Any] = {"fun": lambda x: float(self.f(x)), "x0": self.x0}
        if self.rows:
            said["constraints"] = NonlinearConstraint(self.c, self.cl, self.cu)
        if self.lower is not None:
            said["bounds"] = Bounds(self.lower, self.upper)
        return said


# ------------------------------------------------------------------------------- feasible, but the violation has traps


def cubic(rng: np.random.Generator) -> Verdict:
    """x^3 - 3x = t, 2 < |t| <= 10: one solution, and a local minimum of the violation at 1 or -1."""
    t, x0 = float(rng.choice([-1, 1]) * rng.uniform(2.0, 10.0)), rng.uniform(-3, 3, 1)
    root = np.real(next(r for r in np.roots([1, 0, -3, -t]) if abs(r.imag) < 1e-9))
    return Verdict("cubic", lambda x: x[0] ** 2, (lambda x: x[0] ** 3 - 3 * x[0] - t,), np.zeros(1), np.zeros(1),
                   x0, known=np.array([root]))  # fmt: skip


def _monomials(n: int, degree: int, rng: np.random.Generator, count: int) -> list[tuple[float, tuple[int, ...]]]:
    terms = []
    for _ in range(count):
        powers = np.bincount(rng.integers(0, n, rng.integers(1, degree + 1)), minlength=n)
        terms.append((float(rng.normal()), tuple(int(p) for p in powers)))
    return terms


def _value(terms: list[tuple[float, tuple[int, ...]]], x: Any) -> Any:
    total: Any = 0.0
    for factor, powers in terms:
        product: Any = factor
        for i, p in enumerate(powers):
            if p:
                product = product * x[i] ** p
        total = total + product
    return total


def _equations(rng: np.random.Generator, name: str, n: int, functions: list[Scalar]) -> Verdict:
    """Equations (and some inequalities) that hold at a known point."""
    known = rng.uniform(-2, 2, n)
    sides = np.array([float(g(known)) for g in functions])
    open_below = rng.random(len(functions)) < 0.2
    goal, x0 = rng.normal(size=n), rng.normal(size=n) * rng.choice([1.0, 3.0])
    return Verdict(
        name,
        lambda x: sum((x[i] - goal[i]) ** 2 for i in range(n)),
        tuple(functions),
        np.where(open_below, -np.inf, sides),
        sides,
        x0,
        known=known,
    )


def polynomials(rng: np.random.Generator) -> Verdict:
    """Polynomial equations of degree 2 to 4, n = 1..5."""
    n = int(rng.integers(1, 6))
    degree = int(rng.integers(2, 5))
    rows: list[Scalar] = []
    for _ in range(int(rng.integers(1, n + 1))):
        terms = _monomials(n, degree, rng, int(rng.integers(2, 5)))
        rows.append(lambda x, terms=terms: _value(terms, x))
    return _equations(rng, "polynomials", n, rows)


def waves(rng: np.random.Generator) -> Verdict:
    """Sums of sines and linear or quadratic terms, n = 1..5."""
    n = int(rng.integers(1, 6))
    rows: list[Scalar] = []
    for _ in range(int(rng.integers(1, n + 1))):
        a, w, p = rng.normal(size=n), rng.uniform(0.5, 3.0, n), rng.uniform(0, 2 * np.pi, n)
        slope, bend = rng.normal(size=n) * rng.choice([0.1, 1.0]), float(rng.choice([0.0, 0.3]))

        def row(x: Any, a: Any = a, w: Any = w, p: Any = p, slope: Any = slope, bend: float = bend) -> Any:
            waves = sum(2 * a[i] * np.sin(w[i] * x[i] + p[i]) + slope[i] * x[i] for i in range(n))
            return waves + bend * x[0] ** 2

        rows.append(row)
    return _equations(rng, "waves", n, rows)


def bumps(rng: np.random.Generator) -> Verdict:
    """exp(-|x - b|^2 / w) = h, which is flat far from b; x0 is up to a few widths away."""
    n = int(rng.integers(1, 4))
    b, width, height = rng.uniform(-2, 2, n), float(rng.uniform(0.5, 4.0)), float(rng.uniform(0.2, 0.8))
    radius = np.sqrt(-width * np.log(height))
    x0 = b + rng.normal(size=n) * rng.choice([1.0, 5.0])
    return Verdict(
        "bumps",
        lambda x: sum(x[i] ** 2 for i in range(n)),
        (lambda x: np.exp(-sum((x[i] - b[i]) ** 2 for i in range(n)) / width),),
        np.array([height]),
        np.array([height]),
        x0,
        known=b + radius * np.eye(n)[0],
    )


#: Families of feasible problems; those that a solver calls infeasible are counted.
FEASIBLE = {"cubic": cubic, "polynomials": polynomials, "waves": waves, "bumps": bumps}


# ----------------------------------------------------------------------------------------------------------- infeasible


def conflict(rng: np.random.Generator) -> Verdict:
    """A halfspace (or hyperplane) that misses a ball, and more halfspaces, each row in units of its own.

    The violation is convex, so that there is one least value.
    """
    n = int(rng.integers(1, 5))
    p, radius, a = rng.normal(size=n), float(rng.uniform(0.5, 2.0)), rng.normal(size=n)
    a /= np.linalg.norm(a)
    units = 10.0 ** rng.uniform(-2, 2, 4)
    gap = float(rng.uniform(0.1, 3.0))
    side = float(a @ p) + radius + gap
    others = rng.normal(size=(int(rng.integers(0, 3)), n))
    rows: list[Scalar] = [
        lambda x: units[0] * sum((x[i] - p[i]) ** 2 for i in range(n)),
        lambda x: units[1] * sum(a[i] * x[i] for i in range(n)),
    ]
    for k, b in enumerate(others):
        rows.append(lambda x, b=b, k=k: units[2 + k] * sum(b[i] * x[i] for i in range(n)))
    high = np.array(
        [units[0] * radius**2, units[1] * side if rng.random() < 0.5 else np.inf, *units[2 : 2 + len(others)]]
    )
    low = np.array([-np.inf, units[1] * side, *[-np.inf] * len(others)])
    x0, goal = 3 * rng.normal(size=n), rng.normal(size=n)
    lower, upper = (np.full(n, -10.0), np.full(n, 10.0)) if rng.random() < 0.5 else (None, None)
    return Verdict(
        "conflict",
        lambda x: sum((x[i] - goal[i]) ** 2 for i in range(n)),
        tuple(rows),
        low,
        high,
        x0,
        lower,
        upper,
        truth="infeasible",
    )


def above_zero(rng: np.random.Generator) -> Verdict:
    """Equations g(x)^2 + gap = 0 beside other rows, in units of their own; the violation has several minima."""
    base = (polynomials, waves)[int(rng.integers(0, 2))](rng)
    units = 10.0 ** rng.uniform(-2, 2, len(base.rows) + 1)
    gap, first, side = float(rng.uniform(0.1, 3.0)), base.rows[0], float(base.cu[0])
    rows: list[Scalar] = [lambda x: units[-1] * ((first(x) - side) ** 2 + gap)]
    for k, row in enumerate(base.rows):
        rows.append(lambda x, row=row, k=k: units[k] * row(x))
    return Verdict(
        "above zero",
        base.f,
        tuple(rows),
        np.append(0.0, units[:-1] * base.cl),
        np.append(0.0, units[:-1] * base.cu),
        base.x0,
        truth="infeasible",
    )


#: Families of infeasible problems.
INFEASIBLE = {"conflict": conflict, "above zero": above_zero}


def least_violation(case: Verdict, rng: np.random.Generator, starts: int, scale: float = 3.0) -> float:
    """The least violation in the user's units, by SciPy's least squares from many starts."""
    from scipy.optimize import least_squares

    n, best = case.x0.size, np.inf
    lower = np.full(n, -np.inf) if case.lower is None else case.lower
    upper = np.full(n, np.inf) if case.upper is None else case.upper
    for _ in range(starts):
        start = np.clip(scale * rng.normal(size=n), lower + 1e-3, upper - 1e-3)

        def distance(x: np.ndarray) -> np.ndarray:
            c = case.c(x)
            return c - np.clip(c, case.cl, case.cu)

        found = least_squares(distance, start, bounds=(lower, upper), xtol=1e-14, ftol=1e-14, gtol=1e-14)
        best = min(best, case.violation(found.x))
    return best


# --------------------------------------------------------------------------------- bounded far out, and truly unbounded


def _direction(rng: np.random.Generator, n: int) -> np.ndarray:
    """A unit vector, along an axis or not."""
    d = np.eye(n)[0] if rng.random() < 0.5 else rng.normal(size=n)
    return np.asarray(d / np.linalg.norm(d))


def _beside(rng: np.random.Generator, n: int, d: np.ndarray) -> Scalar:
    """A convex quadratic of what is orthogonal to d."""
    basis = np.linalg.svd(d[None, :])[2][1:]
    centre = rng.normal(size=n - 1)

    def value(x: Any) -> Any:
        return sum((sum(b[i] * x[i] for i in range(n)) - centre[k]) ** 2 for k, b in enumerate(basis))

    return value


def bends_back(rng: np.random.Generator) -> Verdict:
    """f falls like -t^p along a line, until a higher power of t stops it at 10^k, k up to 12."""
    n = int(rng.integers(1, 4))
    d, far, p = _direction(rng, n), 10.0 ** rng.uniform(2, 12), float(rng.choice([1, 2, 3]))
    q = p + float(rng.choice([1, 2]))
    beside = _beside(rng, n, d) if n > 1 else lambda x: 0.0

    def f(x: Any) -> Any:
        t = sum(d[i] * x[i] for i in range(n))
        up = far * abs(t / far) ** q if q % 2 else far * (t / far) ** q
        return beside(x) + far ** (p - 1) * (up - far * (t / far) ** p if p % 2 else up - far * (t / far) ** 2)

    return Verdict("bends back", f, (), np.zeros(0), np.zeros(0), rng.normal(size=n))


#: Rows g(t) >= 0 (t >= 0) that stop t at about `far`, many of them flat beyond.
_STOPS: dict[str, Callable[[Any, float], Any]] = {
    "exp": lambda t, far: np.exp(-t / far) - 1e-6,
    "arctan": lambda t, far: 1.4 - np.arctan(t / far),
    "tanh": lambda t, far: 0.99 - np.tanh(t / far),
    "lorentz": lambda t, far: 1.0 / (1.0 + (t / far) ** 2) - 1e-4,
    "bump": lambda t, far: np.exp(-((t / far) ** 2)) - 1e-3,
    "square": lambda t, far: far**2 - t**2,
    "relative square": lambda t, far: 1.0 - (t / far) ** 2,
    "line": lambda t, far: far - t,
    "root": lambda t, far: 10.0 - np.sqrt(1.0 + (t / far) ** 2),
    "log": lambda t, far: 3.0 - np.log(1.0 + (t / far) ** 2),
}


def stopped(rng: np.random.Generator) -> Verdict:
    """f falls along a line and a row stops it at 10^k, k up to 12; equations may hold the other variables."""
    n = int(rng.integers(1, 4))
    d, far, p = _direction(rng, n), 10.0 ** rng.uniform(0, 12), int(rng.choice([1, 2, 3]))
    kind = str(rng.choice(list(_STOPS)))
    beside = _beside(rng, n, d) if n > 1 else lambda x: 0.0

    def along(x: Any) -> Any:
        return sum(d[i] * x[i] for i in range(n))

    rows: list[Scalar] = [lambda x: _STOPS[kind](along(x), far)]
    low, high = [0.0], [np.inf]
    if n > 1 and rng.random() < 0.4:
        b = np.linalg.svd(d[None, :])[2][1]
        rows.append(lambda x: sum(b[i] * x[i] for i in range(n)))
        low, high = [*low, 1.0], [*high, 1.0]
    if p == 2:  # t^2 falls both ways, and so do most of the rows
        rows.append(along)
        low, high = [*low, -1.0], [*high, np.inf]
    x0 = rng.normal(size=n)
    return Verdict(
        f"stopped by {kind}", lambda x: beside(x) - along(x) ** p, tuple(rows), np.array(low), np.array(high), x0
    )


def endless(rng: np.random.Generator) -> Verdict:
    """f falls without end at feasible points: along a line, along an equation or beside a curve."""
    n = int(rng.integers(2, 5))
    d = _direction(rng, n)
    beside = _beside(rng, n, d)
    kind = str(rng.choice(["line", "square", "cubic", "exp", "wavy"]))
    falls: dict[str, Callable[[Any], Any]] = {
        "line": lambda t: -t,
        "square": lambda t: -(t**2),
        "cubic": lambda t: -(t**3),
        "exp": lambda t: -np.exp(t),
        "wavy": lambda t: -t + 3.0 * np.sin(t),
    }

    def along(x: Any) -> Any:
        return sum(d[i] * x[i] for i in range(n))

    rows: list[Scalar] = []
    low: list[float] = []
    high: list[float] = []
    if rng.random() < 0.7:
        b = np.linalg.svd(d[None, :])[2][1]
        rows.append(lambda x: sum(b[i] * x[i] for i in range(n)))
        low, high = [1.0], [1.0] if rng.random() < 0.5 else [4.0]
    if rng.random() < 0.3:
        rows.append(along)
        low, high = [*low, -2.0], [*high, np.inf]
    return Verdict(
        f"endless {kind}",
        lambda x: beside(x) + falls[kind](along(x)),
        tuple(rows),
        np.array(low),
        np.array(high),
        rng.normal(size=n),
        truth="unbounded",
    )


#: Families of bounded problems, and those without a lower bound.
BOUNDED = {"bends back": bends_back, "stopped": stopped}
UNBOUNDED = {"endless": endless}
