"""An NLP of CasADi as a problem of auglag."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any, final

import casadi
import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.problems.base import AbstractProblem, Group, LinearRows
from auglag.problems.jacobians import FixedPattern
from auglag.sensitivity.directions import Parts


@final
class Compiled:
    """The functions of an NLP and their derivatives, made once for all starts, bounds and parameters."""

    def __init__(self, nlp: Mapping[str, Any]) -> None:
        x, parameters, f, g = _parts(nlp)
        self.n, self.m, self.parameters = x.numel(), g.numel(), parameters.numel()
        self.linear = _linear(x, parameters, g)
        y = type(x).sym("y", self.m)
        lagrangian = f + casadi.dot(y, g)
        jac, hessian = casadi.jacobian(g, x), casadi.hessian(lagrangian, x)[0]
        self.values = _Evaluated("values", [x, parameters], [f, g])
        self.gradient = _Evaluated("gradient", [x, parameters], [casadi.densify(casadi.gradient(f, x))])
        self.jacobian = _Evaluated("jacobian", [x, parameters], [jac])
        self.hessian = _Evaluated("hessian", [x, parameters, y], [hessian])
        by_parameter = casadi.densify(casadi.gradient(lagrangian, parameters))
        self.by_parameter = casadi.Function("by_parameter", [x, parameters, y], [by_parameter])
        self.jac_pattern, self.hess_pattern = _Pattern(jac.sparsity()), _Pattern(hessian.sparsity())
        self._expressions = (x, parameters, y, f, g, lagrangian)

    @cached_property
    def parts(self) -> Any:
        """Derivatives by the parameters of f, of the gradient of the Lagrangian and of g; made when first needed."""
        x, parameters, y, f, g, lagrangian = self._expressions
        by_p = [casadi.densify(casadi.jacobian(part, parameters)) for part in (f, casadi.gradient(lagrangian, x), g)]
        return casadi.Function("parts", [x, parameters, y], by_p)


@final
class CasadiProblem(AbstractProblem):
    """An NLP of CasADi as a problem of auglag."""

    has_hessp = has_hess = repeatable = True

    def __init__(
        self,
        nlp: Mapping[str, Any] | Compiled,
        *,
        x0: Any = 0.0,
        p: Any = 0.0,
        lbx: Any = -np.inf,
        ubx: Any = np.inf,
        lbg: Any = -np.inf,
        ubg: Any = np.inf,
    ) -> None:
        self._functions = functions = nlp if isinstance(nlp, Compiled) else Compiled(nlp)
        n, m = functions.n, functions.m
        super().__init__(
            column(x0, n, "x0"),
            lower=column(lbx, n, "lbx"),
            upper=column(ubx, n, "ubx"),
            cl=column(lbg, m, "lbg"),
            cu=column(ubg, m, "ubg"),
            groups=(Group("g", 0, m),) if m else (),
        )
        for low, high, what in ((self.lower, self.upper, "x"), (self.cl, self.cu, "g")):
            if not (low <= high).all():
                j = int(np.flatnonzero(~(low <= high))[0])
                raise InputError(f"lb{what} must be at most ub{what}, got {low[j]} and {high[j]} in entry {j}")
            if (unreachable := np.isposinf(low) | np.isneginf(high)).any():
                j = int(np.argmax(unreachable))
                raise InputError(
                    f"lb{what} must be below inf and ub{what} above -inf, got {low[j]} and {high[j]} in entry {j}"
                )
        self.p = column(p, functions.parameters, "p")

    def _both(self, x: Vector) -> tuple[float, Vector]:
        f, g = self.workspace.last("values", x.tobytes(), lambda: self._functions.values(x, self.p))
        return float(f[0]), g

    def linear(self) -> LinearRows | None:
        """The rows whose second derivatives are zero by their sparsity."""
        if not self._functions.linear.any():
            return None
        x = np.zeros(self.n)
        jac = self._functions.jac_pattern.matrix(self._functions.jacobian(x, self.p)[0])
        return LinearRows.among(self._functions.linear, self._functions.values(x, self.p)[1], jac)

    def f(self, x: Vector) -> float:
        self.counts.nfev += 1
        return self._both(x)[0]

    def c(self, x: Vector) -> Vector:
        self.counts.constr_nfev += 1
        return self._both(x)[1].copy()

    def grad(self, x: Vector) -> Vector:
        self.counts.njev += 1
        return self._functions.gradient(x, self.p)[0]

    def jac(self, x: Vector) -> Any:
        """The Jacobian of g, a csr_array of fixed pattern."""
        self.counts.constr_njev += 1
        return self._functions.jac_pattern.matrix(self._functions.jacobian(x, self.p)[0])

    def hess(self, x: Vector, y: Vector) -> Any:
        """The Hessian of f + y'g, a csr_array of fixed pattern with both triangles."""
        self.count_hessian()
        return self._functions.hess_pattern.matrix(self._functions.hessian(x, self.p, y)[0])

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        return np.asarray(self.hess(x, y) @ v)

    def parts(self, x: Vector, y: Vector) -> Parts:
        """Derivatives by the parameters p; sides and bounds do not depend on them."""
        k = self.p.size
        f, gradient, g = (part.full() for part in self._functions.parts(x, self.p, y))
        rows, bounds = np.zeros((self.m, k)), np.zeros((self.n, k))
        return Parts(f.reshape(k), gradient, g.reshape(self.m, k), bounds, bounds, rows, rows)

    def parameter_multipliers(self, x: Vector, y: Vector) -> Any:
        """CasADi's lam_p: minus the derivative of the optimal value by the parameters."""
        return -self._functions.by_parameter(x, self.p, y)


#: Operations whose derivatives CasADi takes for constant although they jump, and calls, which may contain them.
_JUMPS = (
    *(casadi.OP_FLOOR, casadi.OP_CEIL, casadi.OP_SIGN, casadi.OP_LT, casadi.OP_LE, casadi.OP_EQ, casadi.OP_NE),
    *(casadi.OP_NOT, casadi.OP_AND, casadi.OP_OR, casadi.OP_FMOD, casadi.OP_COPYSIGN, casadi.OP_IF_ELSE_ZERO),
    *([casadi.OP_REMAINDER] if hasattr(casadi, "OP_REMAINDER") else []),  # not in older versions
    casadi.OP_CALL,
)


def _linear(x: Any, parameters: Any, g: Any) -> NDArray[np.bool_]:
    """Which rows of g are linear; none where that cannot be told from their second derivatives."""
    if not g.numel():
        return np.zeros(0, dtype=bool)
    function = casadi.Function("g", [x, parameters], [g])
    if any(function.instruction_id(k) in _JUMPS for k in range(function.n_instructions())):
        return np.zeros(g.numel(), dtype=bool)
    return ~np.array(casadi.which_depends(g, x, 2, True), dtype=bool)


@final
class _Evaluated:
    """A function of CasADi that works on NumPy's memory; it returns the nonzeros of its outputs."""

    def __init__(self, name: str, inputs: list[Any], outputs: list[Any]) -> None:
        self._function = casadi.Function(name, inputs, outputs)
        buffer: tuple[Any, Any] = self._function.buffer()
        self._buffer, self._run = buffer
        self._lock = threading.Lock()  # of the arrays, which runs in several threads would otherwise share
        self._in = [np.zeros(self._function.nnz_in(i)) for i in range(len(inputs))]
        self._out = [np.zeros(self._function.nnz_out(i)) for i in range(len(outputs))]
        for i, array in enumerate(self._in):
            if array.size:
                self._buffer.set_arg(i, array.data)
        for i, array in enumerate(self._out):
            if array.size:
                self._buffer.set_res(i, array.data)

    def __call__(self, *arguments: Vector) -> list[Vector]:
        with self._lock:
            for array, argument in zip(self._in, arguments, strict=True):
                array[:] = argument
            self._run()
            if self._buffer.ret():
                raise RuntimeError(f"CasADi could not evaluate {self._function.name()}: error {self._buffer.ret()}")
            return [array.copy() for array in self._out]


@final
class _Pattern:
    """CasADi's columns to SciPy's rows, sorted out once."""

    def __init__(self, pattern: Any) -> None:
        rows, columns = np.array(pattern.row(), dtype=np.int32), np.array(pattern.get_col(), dtype=np.int32)
        self._order = np.lexsort((columns, rows))
        indptr = np.searchsorted(rows[self._order], np.arange(pattern.shape[0] + 1)).astype(np.int32)
        self._pattern = FixedPattern(columns[self._order], indptr, pattern.shape)

    def matrix(self, values: Vector) -> Any:
        """A csr_array with these entries, which are in CasADi's order."""
        return self._pattern.matrix(values[self._order])


def _parts(nlp: Mapping[str, Any]) -> tuple[Any, Any, Any, Any]:
    """x, p, f and g of the dictionary, with empty p and g where there are none."""
    if not isinstance(nlp, Mapping) or "x" not in nlp or not set(nlp) <= {"x", "p", "f", "g"}:
        got = sorted(map(str, nlp)) if isinstance(nlp, Mapping) else type(nlp).__name__
        raise InputError(f"nlp must be a dictionary with 'x' and some of 'f', 'g', 'p', got {got}")
    nlp = {name: getattr(part, "cat", part) for name, part in nlp.items()}  # structures of casadi.tools have a `cat`
    x = nlp["x"]
    if not isinstance(x, casadi.SX | casadi.MX) or not x.is_valid_input() or x.shape[1] != 1 or x.numel() < 1:
        raise InputError(f"nlp['x'] must be a column of SX or MX symbols, got {x!r:.80}")
    kind = type(x)
    parameters = nlp.get("p", kind.sym("p", 0))
    f, g = kind(nlp.get("f", 0.0)), kind(nlp.get("g", kind(0, 1)))
    if f.numel() != 1:
        raise InputError(f"nlp['f'] must be a scalar, got shape {f.shape}")
    if g.numel() and g.shape[1] != 1:
        raise InputError(f"nlp['g'] must be a column, got shape {g.shape}")
    return x, parameters, casadi.densify(f), casadi.densify(g) if g.numel() else kind(0, 1)


def column(value: Any, size: int, what: str) -> Vector:
    """A vector of this size; a number is spread."""
    try:
        array = np.asarray(casadi.DM(getattr(value, "cat", value)).full(), dtype=np.float64).ravel()
    except (NotImplementedError, TypeError, ValueError, RuntimeError):
        raise InputError(f"{what} must be a number or {size} numbers, got {value!r:.80}") from None
    if array.size == 1:
        array = np.full(size, array[0])
    if array.size != size:
        raise InputError(f"{what} must be a number or {size} numbers, got {array.size}")
    if np.isnan(array).any():
        raise InputError(f"{what} must not contain NaN, got {value!r:.80}")
    return array.copy()
