"""What a known problem is, and the small constructors that the tables of this package are written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, NonlinearConstraint

from auglag._typing import Matrix, Vector
from auglag.problems.functions import Problem
from auglag.problems.hs.solutions import SOLUTIONS

#: The upper triangle of a symmetric matrix, with the book's one-based indices: {(1, 2): value, ...}; the rest is zero.
Entries: TypeAlias = Mapping[tuple[int, int], float]
#: A number for all components, or one number for each.
Level: TypeAlias = float | Sequence[float]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One block of m constraints, lower <= c(x) <= upper.

    `fun(x)` has shape (m,), `jac(x)` shape (m, n), and `hess(x, v)` is the n x n matrix sum_i v_i Hess c_i(x).
    """

    name: str
    fun: Callable[[Vector], Vector]
    jac: Callable[[Vector], Matrix]
    hess: Callable[[Vector, Vector], Matrix]
    lower: float | Vector
    upper: float | Vector
    linear: bool


@final
@dataclass(frozen=True, slots=True, eq=False)
class KnownProblem:
    """min f(x) subject to `rows` and lower <= x <= upper, with a KKT point known to rounding error.

    Signs: L = f + sum_rows y'c + z'x, so that grad f + sum_rows J'y + z = 0, with y or z >= 0 at an active upper
    bound, <= 0 at an active lower bound, and 0 where neither is active. The functions return NaN or Inf, without a
    warning, where they are not defined. All arrays are read-only.
    """

    name: str
    fun: Callable[[Vector], float]
    grad: Callable[[Vector], Vector]
    hess: Callable[[Vector], Matrix]
    x0: Vector
    lower: Vector
    upper: Vector
    rows: tuple[Row, ...]
    x: Vector
    f: float
    multipliers: tuple[Vector, ...]
    bound_multipliers: Vector
    #: True if a solver started at x0 can be held to x AND the multipliers: the active gradients at x are linearly
    #: independent (LICQ), the Hessian of L is positive definite on the critical cone, and no other KKT point is known
    #: to attract solvers from x0 (SLSQP, trust-constr, and plain augmented Lagrangian methods with an initial penalty
    #: of 1 to 1000 were tried). Otherwise `note` says which of these fails; x is a KKT point all the same.
    unique: bool
    #: What is worth knowing about the solution; never empty where `unique` is False.
    note: str

    def problem(self, *, hessians: bool = True) -> Problem:
        """The problem with its derivatives, the second ones only if `hessians`, for `auglag.minimize`."""
        rows = [
            NonlinearConstraint(row.fun, row.lower, row.upper, jac=row.jac, **({"hess": row.hess} if hessians else {}))
            for row in self.rows
        ]
        return Problem(
            self.fun,
            self.x0,
            jac=self.grad,
            hess=self.hess if hessians else None,
            bounds=Bounds(self.lower, self.upper),
            constraints=rows,
            name=self.name,
        )


class Smooth(NamedTuple):
    """A function of the variables x1, ..., xn (passed one by one), its gradient and its Hessian."""

    fun: Callable[..., float]
    grad: Callable[..., Sequence[float] | Vector]
    hess: Callable[..., Entries | Matrix]


def problem(
    name: str,
    objective: Smooth,
    *rows: Row,
    x0: Sequence[float],
    lower: Level = -inf,
    upper: Level = inf,
    unique: bool = True,
    note: str = "",
) -> KnownProblem:
    """A known problem from its statement; the solution comes from the table in `solutions.py`."""
    start, n = _frozen(x0), len(x0)
    solution = SOLUTIONS[name]

    def fun(x: Vector) -> float:
        with np.errstate(all="ignore"):
            return float(objective.fun(*_vector(x)))

    def grad(x: Vector) -> Vector:
        with np.errstate(all="ignore"):
            return _vector(objective.grad(*_vector(x)))

    def hess(x: Vector) -> Matrix:
        with np.errstate(all="ignore"):
            return _symmetric(n, objective.hess(*_vector(x)))

    return KnownProblem(
        name=name,
        fun=fun,
        grad=grad,
        hess=hess,
        x0=start,
        lower=_frozen(np.broadcast_to(lower, start.shape)),
        upper=_frozen(np.broadcast_to(upper, start.shape)),
        rows=rows,
        x=_frozen(solution.x),
        f=solution.f,
        multipliers=tuple(_frozen(y) for y in solution.y),
        bound_multipliers=_frozen(solution.z or (0.0,) * n),
        unique=unique,
        note=note,
    )


def nonlinear(
    name: str,
    fun: Callable[..., Sequence[float]],
    jac: Callable[..., Sequence[Sequence[float]]],
    hess: Callable[..., Sequence[Entries]],
    *,
    lower: Level = -inf,
    upper: Level = inf,
    equal: Level | None = None,
) -> Row:
    """The block lower <= c(x) <= upper, or c(x) = equal; the functions list values, gradients, Hessians of the c_i."""

    def values(x: Vector) -> Vector:
        with np.errstate(all="ignore"):
            return _vector(fun(*_vector(x)))

    def jacobian(x: Vector) -> Matrix:
        with np.errstate(all="ignore"):
            return np.array(jac(*_vector(x)), dtype=np.float64)

    def hessian(x: Vector, v: Vector) -> Matrix:
        total = np.zeros((len(x), len(x)))
        with np.errstate(all="ignore"):
            for weight, entries in zip(v, hess(*_vector(x)), strict=True):
                total += weight * _symmetric(len(x), entries)
        return total

    return Row(name, values, jacobian, hessian, *_sides(lower, upper, equal), linear=False)


def linear(
    name: str, matrix: Sequence[Sequence[float]], *, lower: Level = -inf, upper: Level = inf, equal: Level | None = None
) -> Row:
    """The block lower <= A x <= upper, or A x = equal."""
    a = _frozen(matrix)
    return Row(
        name,
        lambda x: a @ _vector(x),
        lambda x: a.copy(),
        lambda x, v: np.zeros((a.shape[1], a.shape[1])),
        *_sides(lower, upper, equal),
        linear=True,
    )


def quadratic(q: Entries, g: Sequence[float], constant: float = 0.0) -> Smooth:
    """x'Qx/2 + g'x + constant, with the entries of the Hessian Q."""
    h, b = _symmetric(len(g), q), np.array(g, dtype=np.float64)

    def fun(*x: float) -> float:
        v = np.asarray(x)
        return float(v @ (h @ v) / 2 + b @ v + constant)

    return Smooth(fun, lambda *x: h @ np.asarray(x) + b, lambda *x: h)


def squares(matrix: Sequence[Sequence[float]], target: Sequence[float]) -> Smooth:
    """||A x - b||^2."""
    a, b = np.array(matrix, dtype=np.float64), np.array(target, dtype=np.float64)

    def fun(*x: float) -> float:
        r = a @ np.asarray(x) - b
        return float(r @ r)

    return Smooth(fun, lambda *x: 2 * (a @ np.asarray(x) - b) @ a, lambda *x: 2 * a.T @ a)


def product(scale: float = 1.0, constant: float = 0.0) -> Smooth:
    """scale x1 x2 ... xn + constant, correct at zeros too."""

    def without(x: tuple[float, ...], *dropped: int) -> float:
        return scale * prod(t for i, t in enumerate(x) if i not in dropped)

    return Smooth(
        lambda *x: without(x) + constant,
        lambda *x: np.array([without(x, i) for i in range(len(x))]),
        lambda *x: np.array([[0 if i == j else without(x, i, j) for j in range(len(x))] for i in range(len(x))]),
    )


def _vector(values: ArrayLike) -> Vector:
    return np.asarray(values, dtype=np.float64)


def _frozen(values: ArrayLike) -> Vector:
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def _sides(lower: Level, upper: Level, equal: Level | None) -> tuple[float | Vector, float | Vector]:
    return (_level(lower), _level(upper)) if equal is None else (_level(equal), _level(equal))


def _level(value: Level) -> float | Vector:
    return float(value) if isinstance(value, int | float) else _frozen(value)


def _symmetric(n: int, entries: Entries | Matrix) -> Matrix:
    if isinstance(entries, np.ndarray):
        return np.asarray((entries + entries.T) / 2, dtype=np.float64)
    full = np.zeros((n, n))
    for (i, j), value in entries.items():
        full[i - 1, j - 1] = full[j - 1, i - 1] = value
    return full
