"""Functions with analytic derivatives in any precision, problems made of them, and the arguments of `minimize`.

Every function is

    s * (1/2 u'Qu + q'u + r + sum_k w_k phi_k(a_k'u + b_k)),    u = x / unit,

with phi_k from `SHAPES`. The same formulas are evaluated in double (what the solver sees), in single (coarse functions)
and in 80-bit arithmetic (what the judge sees).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import NonlinearConstraint

import auglag

#: name -> (value, first and second derivative).
SHAPES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sin": (np.sin, np.cos, lambda t: -np.sin(t)),
    "exp": (np.exp, np.exp, np.exp),
    "cube": (lambda t: t * t * t, lambda t: 3 * t * t, lambda t: 6 * t),
    "quartic": (lambda t: (t * t) ** 2, lambda t: 4 * t * t * t, lambda t: 12 * t * t),
    "quintic": (lambda t: (t * t) ** 2 * t, lambda t: 5 * (t * t) ** 2, lambda t: 20 * t * t * t),
    "root": (lambda t: np.sqrt(1 + t * t), lambda t: t / np.sqrt(1 + t * t), lambda t: (1 + t * t) ** -1.5),
    "arctan": (np.arctan, lambda t: 1 / (1 + t * t), lambda t: -2 * t / (1 + t * t) ** 2),
    "tanh": (np.tanh, lambda t: 1 - np.tanh(t) ** 2, lambda t: -2 * np.tanh(t) * (1 - np.tanh(t) ** 2)),
    "bump": (lambda t: np.exp(-t * t), lambda t: -2 * t * np.exp(-t * t), lambda t: (4 * t * t - 2) * np.exp(-t * t)),
    "softplus": (
        lambda t: np.logaddexp(0 * t, t),
        lambda t: 0.5 * (1 + np.tanh(t / 2)),
        lambda t: 0.25 * (1 - np.tanh(t / 2) ** 2),
    ),
    "power": (lambda t: t * np.sqrt(t), lambda t: 1.5 * np.sqrt(t), lambda t: 0.75 / np.sqrt(t)),  # NaN below 0
    "log": (np.log, lambda t: 1 / t, lambda t: -1 / (t * t)),  # NaN below 0
}


@dataclass(frozen=True)
class Function:
    """One function as in the docstring above; `ridges` are tuples (name, w, a, b)."""

    n: int
    quadratic: Any = None
    linear: Any = None
    constant: float = 0.0
    ridges: tuple[tuple[str, float, Any, float], ...] = ()
    scale: float = 1.0
    unit: Any = 1.0

    def __post_init__(self) -> None:
        if self.quadratic is None:
            object.__setattr__(self, "quadratic", np.zeros((self.n, self.n)))
        if self.linear is None:
            object.__setattr__(self, "linear", np.zeros(self.n))

    def value(self, x: Any) -> Any:
        u = x / self.unit
        total = u @ self.quadratic @ u / 2 + self.linear @ u + self.constant
        for name, w, a, b in self.ridges:
            total = total + w * SHAPES[name][0](a @ u + b)
        return self.scale * total

    def grad(self, x: Any) -> Any:
        u = x / self.unit
        total = self.quadratic @ u + self.linear
        for name, w, a, b in self.ridges:
            total = total + w * SHAPES[name][1](a @ u + b) * a
        return self.scale * total / self.unit

    def hess(self, x: Any) -> Any:
        u = x / self.unit
        total = self.quadratic
        for name, w, a, b in self.ridges:
            total = total + (w * SHAPES[name][2](a @ u + b)) * a[:, None] * a
        unit = self.unit + np.zeros_like(u)
        return self.scale * total / unit[:, None] / unit

    def sizes(self, x: Any) -> tuple[Any, Any]:
        """The sums of the sizes of all terms in the value and in each entry of the gradient: what rounding acts on."""
        u = np.abs(x / self.unit)
        value = u @ np.abs(self.quadratic) @ u + np.abs(self.linear) @ u + abs(self.constant)
        grad = np.abs(self.quadratic) @ u + np.abs(self.linear)
        for name, w, a, b in self.ridges:
            t, reach = a @ (x / self.unit) + b, np.abs(a) @ u + abs(b)
            slope, bend = np.abs(SHAPES[name][1](t)), np.abs(SHAPES[name][2](t))
            value = value + abs(w) * (np.abs(SHAPES[name][0](t)) + slope * reach)
            grad = grad + abs(w) * (slope + bend * reach) * np.abs(a)
        return abs(self.scale) * value, abs(self.scale) * grad / self.unit

    def rescaled(self, scale: float, unit: Any) -> Function:
        return replace(self, scale=self.scale * scale, unit=self.unit * unit)

    def cast(self, dtype: Any) -> Function:
        """The same function with its numbers, and so its arithmetic, in this precision."""
        ridges = tuple((name, dtype(w), a.astype(dtype), dtype(b)) for name, w, a, b in self.ridges)
        return Function(
            self.n,
            self.quadratic.astype(dtype),
            self.linear.astype(dtype),
            dtype(self.constant),
            ridges,
            dtype(self.scale),
            np.asarray(self.unit).astype(dtype),
        )


@dataclass(frozen=True)
class Product(Function):
    """weight times the product of all entries of x / unit."""

    weight: float = 1.0

    def value(self, x: Any) -> Any:
        return self.scale * self.weight * np.prod(x / self.unit)

    def _without(self, u: Any, *out: int) -> Any:
        return self.scale * self.weight * np.prod(np.delete(u, out))

    def grad(self, x: Any) -> Any:
        u = x / self.unit
        return np.array([self._without(u, i) for i in range(self.n)]) / self.unit

    def hess(self, x: Any) -> Any:
        u, unit = x / self.unit, self.unit + np.zeros_like(x)
        rows = [[self._without(u, i, j) if i != j else 0 * u[0] for j in range(self.n)] for i in range(self.n)]
        return np.array(rows) / unit[:, None] / unit

    def sizes(self, x: Any) -> tuple[Any, Any]:
        return np.abs(self.value(x)), np.abs(self.grad(x))


@dataclass(frozen=True)
class Model:
    """min f subject to cl <= rows <= cu and bounds."""

    f: Function
    rows: tuple[Function, ...]
    cl: Any
    cu: Any
    lower: Any
    upper: Any

    @property
    def n(self) -> int:
        return self.f.n

    def c(self, x: Any) -> Any:
        return np.array([row.value(x) for row in self.rows], dtype=x.dtype)

    def jac(self, x: Any) -> Any:
        return np.array([row.grad(x) for row in self.rows], dtype=x.dtype).reshape(len(self.rows), self.n)

    def lagrangian_hess(self, x: Any, y: Any, weight: float = 1.0) -> Any:
        total = weight * self.f.hess(x)
        for row, factor in zip(self.rows, y, strict=True):
            total = total + factor * row.hess(x)
        return total

    def rescaled(self, f: float, rows: Any, unit: Any) -> Model:
        """The problem in other units: x * unit, f times a factor, each row times its own."""
        return Model(
            self.f.rescaled(f, unit),
            tuple(row.rescaled(factor, unit) for row, factor in zip(self.rows, rows, strict=True)),
            self.cl * rows,
            self.cu * rows,
            self.lower * unit,
            self.upper * unit,
        )

    def cast(self, dtype: Any) -> Model:
        return replace(self, f=self.f.cast(dtype), rows=tuple(row.cast(dtype) for row in self.rows))


def model(f: Function, rows: Any = (), cl: Any = (), cu: Any = (), lower: Any = -np.inf, upper: Any = np.inf) -> Model:
    """A `Model` from lists and numbers."""
    sides = [np.array(np.broadcast_to(np.asarray(v, dtype=float), len(rows))) for v in (cl, cu)]
    bounds = [np.array(np.broadcast_to(np.asarray(v, dtype=float), f.n)) for v in (lower, upper)]
    return Model(f, tuple(rows), *sides, *bounds)


@dataclass
class Oracle:
    """What the user writes: values and derivatives, exact unless a family spoils them."""

    f: Callable[[Any], Any]
    grad: Callable[[Any], Any]
    hess: Callable[[Any], Any]
    c: Callable[[Any], Any]
    jac: Callable[[Any], Any]
    hess_c: Callable[[Any, Any], Any]

    @classmethod
    def exact(cls, m: Model) -> Oracle:
        return cls(m.f.value, m.f.grad, m.f.hess, m.c, m.jac, lambda x, y: m.lagrangian_hess(x, y, 0.0))


@dataclass
class Case:
    """A problem of a family: how `minimize` is called, and what is known to be true."""

    model: Model
    x0: Any
    order: int = 1  #: derivatives given: 0 none, 1 first, 2 Hessians too
    oracle: Oracle | None = None
    style: str = "nonlinear"  #: or "dict": how the constraints are stated
    options: dict[str, Any] = field(default_factory=dict)  #: further arguments of `minimize`
    feasible: bool = True  #: a feasible point is known by construction; False: there is none
    bounded: bool = True  #: the objective has a lower bound on the feasible set (also where that is empty)
    refusal: bool = False  #: a `DerivativeError` is a good answer
    coarse: bool = False  #: values or derivatives are not exact
    stated: float = 0.0  #: the absolute error of all values, where `minimize` is told of it
    truths: Callable[[], list[Model]] | None = (
        None  #: what success is judged by, after the run; the model itself if None
    )
    base: Model | None = None  #: the problem in its natural units
    unit: Any = 1.0  #: x = unit * x of the base problem
    best: float | None = None  #: the least value of f there is

    def arguments(self) -> dict[str, Any]:
        """The arguments that `auglag.minimize` and `auglag.Problem` share."""
        m, o = self.model, self.oracle or Oracle.exact(self.model)
        given: dict[str, Any] = {"fun": o.f, "x0": np.array(self.x0, dtype=float)}
        if self.order:
            given["jac"] = o.grad
        if self.order == 2:
            given["hess"] = o.hess
        if np.isfinite(m.lower).any() or np.isfinite(m.upper).any():
            given["bounds"] = list(zip(m.lower, m.upper, strict=True))
        if m.rows:
            given["constraints"] = self._constraints(o)
        return given

    def with_options(self) -> dict[str, Any]:
        """The arguments of `auglag.minimize`, with the error of the values if it is stated and the library takes it."""
        told = self.stated and "noise" in inspect.signature(auglag.minimize).parameters
        return {**self.arguments(), **self.options, **({"noise": self.stated} if told else {})}

    def _constraints(self, o: Oracle) -> list[Any]:
        m, more = self.model, {}
        one_sided = all(lo == hi or np.isinf(hi) for lo, hi in zip(m.cl, m.cu, strict=True))
        if self.style == "dict" and one_sided and self.order < 2:
            rows = []
            for i, (lo, hi) in enumerate(zip(m.cl, m.cu, strict=True)):
                row = {"type": "eq" if lo == hi else "ineq", "fun": lambda x, i=i, lo=lo: o.c(x)[i] - lo}
                if self.order:
                    row["jac"] = lambda x, i=i: o.jac(x)[i]
                rows.append(row)
            return rows
        if self.order:
            more["jac"] = o.jac
        if self.order == 2:
            more["hess"] = o.hess_c
        return [NonlinearConstraint(o.c, m.cl, m.cu, **more)]
