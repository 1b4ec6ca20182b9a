"""Random small problems of many kinds, and a certificate for them that shares no code with the library.

Every function is a polynomial of degree 4 with separable cubic and quartic parts, plus logarithms and square roots that
are NaN on half-spaces; so values, derivatives and changes of scale are a few lines of NumPy each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, NonlinearConstraint

import auglag

Array = NDArray[np.float64]
INF = np.inf


@dataclass(frozen=True)
class Function:
    """x'Qx/2 + b'x + k + t'x^3 + q'x^4 - sum_j w_j log(A_j x + s_j) + sum_j r_j sqrt(B_j x + u_j)."""

    Q: Array
    b: Array
    k: float = 0.0
    t: Array | float = 0.0
    q: Array | float = 0.0
    logs: tuple[tuple[Array, float, float], ...] = ()  #: (A_j, s_j, w_j)
    roots: tuple[tuple[Array, float, float], ...] = ()  #: (B_j, u_j, r_j)

    def value(self, x: Array) -> float:
        with np.errstate(all="ignore"):
            total = 0.5 * x @ self.Q @ x + self.b @ x + self.k + np.sum(self.t * x**3) + np.sum(self.q * x**4)
            total -= sum(w * np.log(a @ x + s) for a, s, w in self.logs)
            total += sum(r * np.sqrt(a @ x + u) for a, u, r in self.roots)
        return float(total)

    def gradient(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            total = self.Q @ x + self.b + 3 * self.t * x**2 + 4 * self.q * x**3
            for a, s, w in self.logs:
                total = total - (w / (a @ x + s) if a @ x + s > 0 else np.nan) * a
            for a, u, r in self.roots:
                total = total + (0.5 * r / np.sqrt(a @ x + u)) * a
        return np.asarray(total)

    def hessian(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            total = self.Q + np.diag(6 * self.t * x + 12 * self.q * x**2)
            for a, s, w in self.logs:
                total = total + w / (a @ x + s) ** 2 * np.outer(a, a)
            for a, u, r in self.roots:
                total = total - 0.25 * r * (a @ x + u) ** -1.5 * np.outer(a, a)
        return np.asarray(total)

    def scaled(self, factor: float, d: Array) -> Function:
        """factor times this function of x = d u, as a function of u."""
        return Function(
            factor * d[:, None] * self.Q * d,
            factor * d * self.b,
            factor * self.k,
            factor * d**3 * self.t,
            factor * d**4 * self.q,
            tuple((a * d, s, factor * w) for a, s, w in self.logs),
            tuple((a * d, u, factor * r) for a, u, r in self.roots),
        )


@dataclass(frozen=True)
class Term:
    """A prox term of the library beside its subdifferential distance in plain NumPy."""

    term: Any
    distance: Callable[[Array, Array], float]  #: dist(v, dg(x))
    value: Callable[[Array], float]


@dataclass(frozen=True)
class Case:
    """min f + g subject to cl <= c <= cu and lower <= x <= upper, from x0, with what is known of it."""

    f: Function
    rows: tuple[Function, ...]
    cl: Array
    cu: Array
    lower: Array
    upper: Array
    x0: Array
    feasible: bool = True  #: by construction; else infeasible by construction
    bounded: bool = True
    g: Term | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return self.x0.size

    def c(self, x: Array) -> Array:
        return np.array([row.value(x) for row in self.rows])

    def jac(self, x: Array) -> Array:
        return np.array([row.gradient(x) for row in self.rows]).reshape(len(self.rows), self.n)

    def hess(self, x: Array, v: Array) -> Array:
        return np.asarray(sum(w * row.hessian(x) for w, row in zip(v, self.rows, strict=True)))

    def solve(self, *, derivatives: bool = True, hessians: bool = False, **more: Any) -> auglag.Result:
        constraints: Any = ()
        if self.rows:
            given: dict[str, Any] = {"jac": self.jac} if derivatives else {}
            given["hess"] = self.hess if hessians else None
            constraints = NonlinearConstraint(self.c, self.cl, self.cu, **given)
        bounded = np.isfinite(self.lower).any() or np.isfinite(self.upper).any()
        return auglag.minimize(
            self.f.value,
            self.x0,
            jac=self.f.gradient if derivatives else None,
            hess=self.f.hessian if hessians else None,
            bounds=Bounds(self.lower, self.upper) if bounded else None,
            constraints=constraints,
            g=None if self.g is None else self.g.term,
            **{**self.options, **more},
        )

    def scaled(self, factor: float, row_factors: Array, d: Array) -> Case:
        """The same problem in other units of f, of every row and of every variable (x = d u)."""
        return replace(
            self,
            f=self.f.scaled(factor, d),
            rows=tuple(row.scaled(s, d) for row, s in zip(self.rows, row_factors, strict=True)),
            cl=row_factors * self.cl,
            cu=row_factors * self.cu,
            lower=self.lower / d,
            upper=self.upper / d,
            x0=self.x0 / d,
        )


# ------------------------------------------------------------------------------------------ the independent certificate


def residual(case: Case, x: Array, y: Array, z: Array) -> float:
    """R(x, y): stationarity + ||(violation, complementarity)||, infinite where anything is not defined.

    z are the multipliers of the bounds. A multiplier whose side is not touched costs the gap to that side; a row may
    pay |y| as stationarity of its slack instead, where that is less (the smaller of the two sums counts).
    """
    c, jac = case.c(x), case.jac(x)
    gradient = case.f.gradient(x) + y @ jac + z
    if not (np.isfinite(case.f.value(x)) and np.isfinite(c).all() and np.isfinite(gradient).all()):
        return INF
    distance = np.linalg.norm(gradient) if case.g is None else case.g.distance(x, -gradient)
    violation = np.concatenate(
        [
            np.maximum(case.cl - c, 0.0),
            np.maximum(c - case.cu, 0.0),
            np.maximum(case.lower - x, 0.0),
            np.maximum(x - case.upper, 0.0),
        ]
    )
    bound_gap = np.where(z > 0, case.upper - x, np.where(z < 0, x - case.lower, 0.0))
    free = case.cl < case.cu
    gap = np.where(free, np.maximum(np.where(y > 0, case.cu - c, np.where(y < 0, c - case.cl, 0.0)), 0.0), 0.0)
    size = np.where(free, np.abs(y), 0.0)

    def total(dropped: NDArray[np.bool_]) -> float:
        first = np.hypot(distance, np.linalg.norm(size[dropped]))
        return float(first + np.linalg.norm(np.concatenate([violation, bound_gap, gap[~dropped]])))

    return min(total(size < gap), total(np.zeros(size.size, dtype=bool)))


# --------------------------------------------------------------------------------------------------------- the families


def _rng_int(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def _linear(row: Array, k: float = 0.0) -> Function:
    return Function(np.zeros((row.size, row.size)), row, k)


def _symmetric(rng: np.random.Generator, n: int, low: float, high: float) -> Array:
    basis, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return np.asarray(basis * rng.uniform(low, high, n) @ basis.T)


def _sides(rng: np.random.Generator, c: Array) -> tuple[Array, Array]:
    """Equalities, one-sided and two-sided rows that hold where the rows have the values c, some of them just."""
    kind = rng.integers(0, 4, c.size)
    slack = rng.exponential(1.0, c.size) * rng.integers(0, 2, c.size)
    width = rng.exponential(1.0, c.size)
    low, high = c - slack, c - slack + np.maximum(slack, width)
    low = np.where(kind == 0, c, np.where(kind == 1, -INF, low))
    high = np.where(kind == 0, c, np.where(kind == 2, INF, high))
    return low, high


def _bounds(rng: np.random.Generator, x: Array) -> tuple[Array, Array]:
    """Bounds of every kind around x, some of them touching it, some with lower = upper."""
    kind = rng.integers(0, 6, x.size)
    lower = np.where((kind == 1) | (kind == 3), x - rng.exponential(1.0, x.size), -INF)
    upper = np.where((kind == 2) | (kind == 3), x + rng.exponential(1.0, x.size), INF)
    lower = np.where(kind == 4, x, lower)
    if rng.random() < 0.2:
        lower, upper = np.where(kind == 5, x, lower), np.where(kind == 5, x, upper)
    return lower, upper


def _assemble(rng: np.random.Generator, f: Function, rows: list[Function], x: Array, **known: Any) -> Case:
    """A problem that x satisfies, from a random start."""
    c = np.array([row.value(x) for row in rows])
    cl, cu = _sides(rng, c)
    lower, upper = _bounds(rng, x)
    x0 = x + rng.choice([0.1, 1.0, 10.0]) * rng.standard_normal(x.size)
    return Case(f, tuple(rows), cl, cu, lower, upper, x0, **known)


def convex_qp(rng: np.random.Generator) -> Case:
    """Strictly convex objective, linear rows."""
    n = _rng_int(rng, 1, 6)
    m = _rng_int(rng, 0, n)
    f = Function(_symmetric(rng, n, 0.1, 10.0), rng.standard_normal(n))
    rows = [_linear(rng.standard_normal(n)) for _ in range(m)]
    return _assemble(rng, f, rows, rng.standard_normal(n))


def qcqp(rng: np.random.Generator) -> Case:
    """Strictly convex objective, quadratic rows of any curvature: the feasible set is not convex."""
    n = _rng_int(rng, 1, 5)
    m = _rng_int(rng, 1, n)
    f = Function(_symmetric(rng, n, 0.1, 10.0), rng.standard_normal(n))
    rows = [Function(_symmetric(rng, n, -2.0, 2.0), rng.standard_normal(n)) for _ in range(m)]
    return _assemble(rng, f, rows, rng.standard_normal(n))


def polynomial(rng: np.random.Generator) -> Case:
    """Nonconvex quartic objective that grows at infinity, cubic rows."""
    n = _rng_int(rng, 1, 5)
    m = _rng_int(rng, 0, n)
    f = Function(
        _symmetric(rng, n, -5.0, 5.0), rng.standard_normal(n), t=rng.standard_normal(n), q=rng.uniform(0.2, 1.0, n)
    )
    rows = [
        Function(_symmetric(rng, n, -1.0, 1.0), rng.standard_normal(n), t=0.3 * rng.standard_normal(n))
        for _ in range(m)
    ]
    return _assemble(rng, f, rows, rng.standard_normal(n))


def redundant(rng: np.random.Generator) -> Case:
    """Linear rows, some of them multiples or sums of others; often more rows than variables."""
    n = _rng_int(rng, 1, 5)
    f = Function(_symmetric(rng, n, 0.1, 10.0), rng.standard_normal(n))
    base = rng.standard_normal((_rng_int(rng, 1, n), n))
    mixed = rng.integers(-2, 3, (_rng_int(rng, 1, 6), base.shape[0])) @ base
    case = _assemble(rng, f, [_linear(row) for row in np.vstack([base, base, mixed])], rng.standard_normal(n))
    return replace(case, cl=np.round(case.cl, 14), cu=np.round(case.cu, 14)) if rng.random() < 0.2 else case


def nan_holes(rng: np.random.Generator) -> Case:
    """Logarithms and square roots in objective and rows; x0 often lies where they are not defined."""
    n = _rng_int(rng, 1, 5)
    x = rng.standard_normal(n)
    f = Function(_symmetric(rng, n, 0.1, 5.0), rng.standard_normal(n))
    logs, roots = [], []
    for _ in range(_rng_int(rng, 1, 3)):
        a = rng.standard_normal(n)
        logs.append((a, float(rng.exponential(1.0) + 0.1 - a @ x), float(rng.exponential(1.0))))
    for _ in range(_rng_int(rng, 0, 2)):
        a = rng.standard_normal(n)
        # -sqrt pushes away from the edge of its domain; +sqrt pulls there, where no stationary point can be
        roots.append((a, float(rng.exponential(1.0) + 0.1 - a @ x), float(rng.choice([-1.0, -1.0, -1.0, 1.0]))))
    f = replace(f, logs=tuple(logs), roots=tuple(roots))
    rows = [
        replace(_linear(rng.standard_normal(n)), logs=tuple(logs[:1]) if rng.random() < 0.3 else ())
        for _ in range(_rng_int(rng, 0, n))
    ]
    return _assemble(rng, f, rows, x)


def badly_scaled(rng: np.random.Generator) -> Case:
    """One of the families above with f, the rows and the variables in units of 1e-6 to 1e6."""
    family = (convex_qp, qcqp, polynomial, redundant)[_rng_int(rng, 0, 3)]
    case = family(rng)
    which = rng.integers(0, 2, 3)
    factor = 10.0 ** (which[0] * rng.uniform(-6, 6))
    row_factors = 10.0 ** (which[1] * rng.uniform(-6, 6, len(case.rows)))
    d = 10.0 ** (which[2] * rng.uniform(-6, 6, case.n))
    return case.scaled(factor, row_factors, d)


def infeasible(rng: np.random.Generator) -> Case:
    """Rows that contradict each other, the bounds, or themselves, by at least 0.05."""
    n = _rng_int(rng, 1, 5)
    f = Function(_symmetric(rng, n, 0.1, 10.0), rng.standard_normal(n))
    x = rng.standard_normal(n)
    rows = [_linear(rng.standard_normal(n)) for _ in range(_rng_int(rng, 0, n - 1))]
    case = _assemble(rng, f, rows, x)
    gap = float(rng.uniform(0.05, 3.0))
    a = rng.standard_normal(n)
    a /= np.linalg.norm(a)
    kind = _rng_int(rng, 0, 3)
    if kind == 0:  # a'x <= t and a'x >= t + gap
        more, low, high = [_linear(a), _linear(a)], [-INF, a @ x + gap], [a @ x, INF]
    elif kind == 1:  # ||x - x*||^2 <= -gap
        more = [Function(2 * np.eye(n), -2 * x, float(x @ x))]
        low, high = [-INF], [-gap]
    elif kind == 2:  # equalities that differ
        more, low, high = [_linear(a), _linear(2 * a)], [a @ x, 2 * a @ x + gap], [a @ x, 2 * a @ x + gap]
    else:  # a ball that misses the bounds
        more = [Function(2 * np.eye(n), -2 * x, float(x @ x))]
        low, high = [-INF], [1.0]
        lower = case.lower.copy()
        lower[0] = x[0] + 1.0 + gap
        case = replace(case, lower=lower, upper=np.maximum(case.upper, lower))
    return replace(
        case,
        rows=case.rows + tuple(more),
        cl=np.append(case.cl, low),
        cu=np.append(case.cu, high),
        x0=np.clip(case.x0, case.lower, case.upper),
        feasible=False,
    )


def unbounded(rng: np.random.Generator) -> Case:
    """f falls without limit along the first variable and has no stationary point; rows on the others, or a curve."""
    n = _rng_int(rng, 2, 5)
    inner = convex_qp(rng)
    while inner.n != n - 1:
        inner = convex_qp(rng)

    def lift(function: Function) -> Function:
        Q = np.zeros((n, n))
        Q[1:, 1:] = function.Q
        return Function(Q, np.append(0.0, function.b), function.k)

    slope = float(rng.uniform(0.1, 3.0))
    cubic = np.zeros(n)
    kind = _rng_int(rng, 0, 2)
    if kind == 1:
        cubic[0] = -0.5
    f = lift(inner.f)
    f = replace(f, b=f.b + np.append(-slope, np.zeros(n - 1)), t=cubic)
    rows, cl, cu = [lift(row) for row in inner.rows], inner.cl, inner.cu
    if kind == 2 and not rows:  # x1 = x2^2: a feasible curve, linear objective
        f = _linear(np.append(-slope, np.zeros(n - 1)))
        Q = np.zeros((n, n))
        Q[1, 1] = -2.0
        rows, cl, cu = [Function(Q, np.eye(n)[0])], np.zeros(1), np.zeros(1)
    lower, upper = np.append(-INF, inner.lower), np.append(INF, inner.upper)
    if not len(inner.rows) and kind == 2:
        lower, upper = np.full(n, -INF), np.full(n, INF)
    return Case(f, tuple(rows), cl, cu, lower, upper, rng.standard_normal(n), bounded=False)


# ---------------------------------------------------------------------------------------------------- nonsmooth terms


def l1(weight: float) -> Term:
    def distance(x: Array, v: Array) -> float:
        apart = np.where(x > 0, v - weight, np.where(x < 0, v + weight, np.maximum(np.abs(v) - weight, 0.0)))
        return float(np.linalg.norm(apart))

    return Term(auglag.prox.L1(weight), distance, lambda x: weight * float(np.abs(x).sum()))


def box(lower: Array, upper: Array) -> Term:
    def distance(x: Array, v: Array) -> float:
        if (x < lower).any() or (x > upper).any():
            return INF
        allowed = ((x == lower) & (v < 0)) | ((x == upper) & (v > 0))
        return float(np.linalg.norm(v[~allowed]))

    return Term(auglag.prox.Box(lower, upper), distance, lambda x: 0.0)


def l2(weight: float) -> Term:
    def distance(x: Array, v: Array) -> float:
        norm = float(np.linalg.norm(x))
        if norm == 0.0:
            return max(float(np.linalg.norm(v)) - weight, 0.0)
        return float(np.linalg.norm(v - weight * x / norm))

    return Term(auglag.prox.L2Norm(weight), distance, lambda x: weight * float(np.linalg.norm(x)))


def simplex() -> Term:
    def distance(x: Array, v: Array) -> float:
        """The normal cone is {s + t 1: s = 0 where x > 0, s <= 0 where x = 0}: a convex problem in t."""
        if (x < 0).any() or abs(x.sum() - 1.0) > 1e-12:
            return INF
        low, high = float(v.min()), float(v.max())
        for _ in range(200):
            t = 0.5 * (low + high)
            slope = np.sum(np.where((x > 0) | (v > t), t - v, 0.0))
            low, high = (low, t) if slope > 0 else (t, high)
        t = 0.5 * (low + high)
        return float(np.linalg.norm(np.where((x > 0) | (v > t), v - t, 0.0)))

    return Term(auglag.prox.Simplex(), distance, lambda x: 0.0)


def nonsmooth(rng: np.random.Generator) -> Case:
    """Convex quadratic plus g, linear or sphere-like equalities that some point of dom g satisfies."""
    n = _rng_int(rng, 2, 6)
    m = _rng_int(rng, 1, max(1, n // 2))
    x = rng.standard_normal(n) * rng.integers(0, 2, n)
    kind = _rng_int(rng, 0, 3)
    if kind == 0:
        g = l1(float(rng.uniform(0.05, 2.0)))
    elif kind == 1:
        lower = x - rng.exponential(0.5, n) * rng.integers(0, 2, n)
        g = box(lower, lower + rng.exponential(1.0, n) + np.abs(x - lower))
    elif kind == 2:
        g = l2(float(rng.uniform(0.05, 2.0)))
    else:
        x = np.abs(x) + (0.1 if not x.any() else 0.0)
        x = x / x.sum()
        g = simplex()
    f = Function(_symmetric(rng, n, 0.1, 5.0), rng.standard_normal(n))
    curvature = 0.5 * _rng_int(rng, 0, 1)
    rows = [Function(_symmetric(rng, n, -curvature, curvature), rng.standard_normal(n)) for _ in range(m)]
    c = np.array([row.value(x) for row in rows])
    lower, upper = np.full(n, -INF), np.full(n, INF)
    if kind == 0 and rng.random() < 0.5:
        lower, upper = _bounds(rng, x)
    return Case(f, tuple(rows), c, c.copy(), lower, upper, rng.standard_normal(n), g=g)


FAMILIES: dict[str, Callable[[np.random.Generator], Case]] = {
    family.__name__: family
    for family in (convex_qp, qcqp, polynomial, redundant, nan_holes, badly_scaled, infeasible, unbounded, nonsmooth)
}


def make_nonsmooth_example() -> auglag.Problem:
    """L1 beside a nonlinear equality: min ||x - a||^2 / 2 + 0.3 ||x||_1 on the sphere of radius 2 about 0."""
    a = np.array([2.0, -0.1, 0.5, 1.0])
    return auglag.Problem(
        lambda x: 0.5 * float((x - a) @ (x - a)),
        np.ones(4),
        jac=lambda x: x - a,
        constraints=NonlinearConstraint(lambda x: x @ x, 4.0, 4.0, jac=lambda x: 2 * x[None, :]),
        g=auglag.prox.L1(0.3),
    )
