"""A CUTEst problem in S2MPJ's form, as a problem of auglag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.problems.base import AbstractProblem, LinearRows, Point
from auglag.problems.cutest.compilation import NoCompiler
from auglag.problems.cutest.evaluation import Evaluator, Values
from auglag.problems.cutest.hessian import HessianPattern
from auglag.problems.cutest.native import NativeEvaluator
from auglag.problems.cutest.structure import Structure, extract
from auglag.problems.cutest.vectorised import NumpyEvaluator
from auglag.problems.jacobians import FixedPattern, vector

#: CUTEst's infinity.
INFINITY = 1e20

_FLOAT = np.dtype(np.float64)


class Evaluation(NamedTuple):
    """f, its gradient, c and the Jacobian at one x."""

    f: float
    grad: Vector
    c: Vector
    jac: Any


@final
class S2mpjProblem(AbstractProblem):
    """A problem of S2MPJ, evaluated through its structure instead of S2MPJ's own loops.

    Rows keep S2MPJ's order (<=, ==, >=) and names; bounds of 1e20 and more are infinite; a fixed variable is one with
    lower = upper. Where a function is not defined, the values it touches are NaN or infinite, and nothing is raised:
    S2MPJ itself raises at some of these points, and returns a gradient of NaN only at others.

    `backend` is "c" or "numpy"; `backend_reason` says why. Values are fresh arrays at each call, except for the
    indices of Jacobians, which are shared and read-only. One problem may be solved in several threads at once;
    evaluations wait for each other.
    """

    has_hessp = has_hess = repeatable = True

    def __init__(self, raw: Any, *, compiled: bool | None = None) -> None:
        self.name = str(raw.name)
        self.structure: Structure = extract(raw)
        n, m = self.structure.n, self.structure.m
        super().__init__(
            np.asarray(raw.x0, dtype=float).ravel().copy(),
            lower=bounds(getattr(raw, "xlower", None), n, 0.0),
            upper=bounds(getattr(raw, "xupper", None), n, np.inf),
            cl=bounds(getattr(raw, "clower", None), m, -np.inf),
            cu=bounds(getattr(raw, "cupper", None), m, np.inf),
        )
        self.classification = str(getattr(raw, "pbclass", ""))
        self.row_names = names(getattr(raw, "cnames", None), m, "c")
        self.variable_names = names(getattr(raw, "xnames", None), n, "x")
        self.linear_rows = self.structure.linear_rows  # S2MPJ's own list has a curved row of ALSOTAME, too
        self._evaluator, self.backend_reason = _evaluator(raw, self.structure, compiled)
        self.backend = self._evaluator.backend
        self._pattern: HessianPattern | None = None
        self._last: tuple[bytes, Values] = (b"", (0.0, self.x0, self.x0, self.x0))
        s = self.structure
        column, start = s.column[s.objective_entries :].copy(), s.start[s.objective_rows :] - s.objective_entries
        self._jacobian = FixedPattern(column, start, (m, n))
        self._shape = (n,)

    def row_name(self, i: int) -> str:
        return self.row_names[i]

    def variable_name(self, j: int) -> str:
        return self.variable_names[j]

    def evaluate(self, x: Vector) -> Evaluation:
        """f, gradient, c and J at once, which costs as much as one of them; not counted."""
        f, grad, c, data = self._values(x)
        return Evaluation(f, grad, c, self._jacobian.matrix(data))

    def linear(self) -> LinearRows | None:
        return linear_rows(self.linear_rows, self.evaluate, self.n)

    def f(self, x: Vector) -> float:
        """The objective; 0 where the problem has none."""
        self.counts.nfev += 1
        return self._values(x)[0]

    def grad(self, x: Vector) -> Vector:
        self.counts.njev += 1
        return self._values(x)[1]

    def c(self, x: Vector) -> Vector:
        self.counts.constr_nfev += 1
        return self._values(x)[2]

    def jac(self, x: Vector) -> Any:
        """Their Jacobian, a csr_array whose pattern is the same at every x."""
        self.counts.constr_njev += 1
        return self._jacobian.matrix(self._values(x)[3])

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        self.count_hessian()
        return self._evaluator.product(vector(x, self.n, "x"), vector(y, self.m, "y"), vector(v, self.n, "v"))

    def hess(self, x: Vector, y: Vector) -> Any:
        """The Hessian of f + y'c at x, a csr_array (both triangles) whose pattern is the same at every x and y."""
        self.count_hessian()
        if self._pattern is None:
            self._pattern = HessianPattern(self.structure)
        return self._pattern.matrix(self._evaluator.second_order(vector(x, self.n, "x")), vector(y, self.m, "y"))

    def vjp(self, point: Point, w: Vector) -> Vector:
        return np.asarray(point.jac.T @ w)

    def _values(self, x: Vector) -> Values:
        if type(x) is not np.ndarray or x.dtype is not _FLOAT or x.shape != self._shape:
            x = vector(x, self.n, "x")
        key, (last, values) = x.tobytes(), self._last
        if key != last:
            values = self._evaluator.values(x, key)
            self._last = (key, values)
        return values


def linear_rows(known: NDArray[np.bool_], evaluate: Callable[[Vector], Evaluation], n: int) -> LinearRows | None:
    """The rows known to be linear, from their values at 0; None where there are none.

    Where a curved function is not defined at 0, CUTEst itself may refuse: presolve does without, then.
    """
    if not known.any():
        return None
    try:
        at_zero = evaluate(np.zeros(n))
    except Exception:
        return None
    return LinearRows.among(known, at_zero.c, at_zero.jac)


def _evaluator(raw: Any, structure: Structure, compiled: bool | None) -> tuple[Evaluator, str]:
    if compiled is None or compiled:
        try:
            native = NativeEvaluator(raw, structure)
            python = ", ".join(native.in_python)
            return native, f"compiled; in Python: {python}" if python else "compiled"
        except NoCompiler as error:
            if compiled:
                raise InputError(f"cutest.load: compiled=True needs a C compiler, but {error}") from None
            return NumpyEvaluator(raw, structure), str(error)
    return NumpyEvaluator(raw, structure), "compiled=False was asked for"


def bounds(given: Any, size: int, default: float) -> Vector:
    """A vector of bounds in which CUTEst's infinity has become infinite; `default` where S2MPJ gives none."""
    bound = np.full(size, default) if given is None else np.asarray(given, dtype=float).ravel().copy()
    bound[bound >= INFINITY] = np.inf
    bound[bound <= -INFINITY] = -np.inf
    return bound


def names(given: Any, size: int, letter: str) -> tuple[str, ...]:
    """Names of rows or variables; `letter[i]` where there is none."""
    listed = [] if given is None else list(given)
    listed += [None] * (size - len(listed))
    return tuple(f"{letter}[{i}]" if name is None else str(name) for i, name in enumerate(listed[:size]))
