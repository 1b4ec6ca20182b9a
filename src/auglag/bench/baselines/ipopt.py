"""IPOPT 3.14 through the C interface of the library in the CasADi wheel; nothing of CasADi itself is used."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.baselines.callbacks import Callbacks
from auglag.bench.baselines.sparsity import Structure, hessian_structure, jacobian_structure
from auglag.bench.counted import CountedProblem
from auglag.errors import OptionError

_INT, _REAL, _BOOL = ctypes.c_int, ctypes.c_double, ctypes.c_bool
_REALS, _INTS, _POINTER = ctypes.POINTER(_REAL), ctypes.POINTER(_INT), ctypes.c_void_p
_EVAL_F = ctypes.CFUNCTYPE(_BOOL, _INT, _REALS, _BOOL, _REALS, _POINTER)
_EVAL_G = ctypes.CFUNCTYPE(_BOOL, _INT, _REALS, _BOOL, _INT, _REALS, _POINTER)
_EVAL_JAC = ctypes.CFUNCTYPE(_BOOL, _INT, _REALS, _BOOL, _INT, _INT, _INTS, _INTS, _REALS, _POINTER)
_EVAL_H = ctypes.CFUNCTYPE(_BOOL, _INT, _REALS, _BOOL, _REAL, _INT, _REALS, _BOOL, _INT, _INTS, _INTS, _REALS, _POINTER)
_ITERATION = ctypes.CFUNCTYPE(_BOOL, _INT, _INT, _REAL, _REAL, _REAL, _REAL, _REAL, _REAL, _REAL, _REAL, _INT, _POINTER)

#: IPOPT's return codes; only the first is success, "acceptable" is not.
STATUS = {
    0: "Solve_Succeeded",
    1: "Solved_To_Acceptable_Level",
    2: "Infeasible_Problem_Detected",
    3: "Search_Direction_Becomes_Too_Small",
    4: "Diverging_Iterates",
    5: "User_Requested_Stop",
    6: "Feasible_Point_Found",
    -1: "Maximum_Iterations_Exceeded",
    -2: "Restoration_Failed",
    -3: "Error_In_Step_Computation",
    -4: "Maximum_CpuTime_Exceeded",
    -5: "Maximum_WallTime_Exceeded",
    -10: "Not_Enough_Degrees_Of_Freedom",
    -11: "Invalid_Problem_Definition",
    -12: "Invalid_Option",
    -13: "Invalid_Number_Detected",
    -100: "Unrecoverable_Exception",
    -101: "NonIpopt_Exception_Thrown",
    -102: "Insufficient_Memory",
    -199: "Internal_Error",
}

#: What IPOPT takes for infinite.
INFINITE = 1e20


class _Ipopt(Baseline):
    """IPOPT with MUMPS; a Python exception in a function ends the solve, and the last iterate is the answer."""

    requires = ("casadi",)
    _hessian: ClassVar[str]

    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Run it; multipliers have the sign of IPOPT, which is ours."""
        functions = _Functions(problem, exact=self._hessian == "exact")
        settings = {name: value for name, value in options.items() if value is not None}
        settings |= {"hessian_approximation": self._hessian, "print_level": 0, "sb": "yes"}
        x, y, status = functions.solve(settings)
        functions.callbacks.raise_error()
        limit = functions.callbacks.limit
        return Answer(
            x=x,
            claims_success=status == 0 and not limit,
            message=f"limit: {limit}" if limit else STATUS.get(status, f"return code {status}"),
            y=y,
            extra={"status": status, "outer": functions.iterations, "barrier": functions.barrier},
        )

    def version(self) -> str:
        """IPOPT's own version, asked of the library, and where it comes from."""
        return f"IPOPT {ipopt_version()} (MUMPS, casadi {importlib.metadata.version('casadi')})"


_DEFAULTS: dict[str, Any] = {
    "tol": 1e-8,  # on IPOPT's scaled problem
    "constr_viol_tol": 1e-8,  # the next three: on the problem as stated; IPOPT's own are 1e-4, 1, 1e-4
    "dual_inf_tol": 1e-6,
    "compl_inf_tol": 1e-8,
    "bound_relax_factor": 1e-8,
    "acceptable_iter": 0,  # no "acceptable" ends
    "max_iter": 100_000,
    "linear_solver": "mumps",
    "mu_strategy": "monotone",
}


@final
class Ipopt(_Ipopt):
    """IPOPT with exact Hessians."""

    name = "ipopt"
    derivatives = 2
    defaults: Mapping[str, Any] = _DEFAULTS
    _hessian = "exact"


@final
class IpoptLimitedMemory(_Ipopt):
    """IPOPT with its limited-memory BFGS approximation of the Hessian: first derivatives only."""

    name = "ipopt-lm"
    derivatives = 1
    defaults: Mapping[str, Any] = {**_DEFAULTS, "limited_memory_max_history": 6}
    _hessian = "limited-memory"


class _Functions:
    """The callbacks of one solve. ctypes needs them alive as long as IPOPT runs, so they are kept here."""

    def __init__(self, problem: CountedProblem, *, exact: bool) -> None:
        self.problem, self.callbacks = problem, Callbacks()
        self.iterations, self.barrier = 0, 0.0
        self._jacobian = jacobian_structure(problem)
        self._hessian = hessian_structure(problem) if exact else None
        self._handle: Any = None
        self._x, self._y = np.clip(problem.x0, problem.lower, problem.upper), np.zeros(problem.m)

    def solve(self, settings: Mapping[str, Any]) -> tuple[Vector, Vector, int]:
        """(x, y, return code)."""
        problem, library = self.problem, _library()
        functions = (
            _EVAL_F(self._f),
            _EVAL_G(self._g),
            _EVAL_F(self._grad),
            _EVAL_JAC(self._jac),
            _EVAL_H(self._hess),
        )
        iteration = _ITERATION(self._iteration)
        hessian_entries = self._hessian.size if self._hessian is not None else 0
        bounds = [_finite(side) for side in (problem.lower, problem.upper, problem.cl, problem.cu)]
        sides = [_reals(side) for side in bounds]
        sizes = (self._jacobian.size, hessian_entries, 0)
        handle = library.CreateIpoptProblem(
            problem.n, sides[0], sides[1], problem.m, sides[2], sides[3], *sizes, *functions
        )
        if not handle:
            raise RuntimeError(f"CreateIpoptProblem refused {problem.name}: n = {problem.n}, m = {problem.m}")
        self._handle = _POINTER(handle)
        try:
            for name, value in settings.items():
                _set_option(self._handle, name, value)
            library.SetIntermediateCallback(self._handle, iteration)
            x, y = problem.x0.astype(float), np.zeros(problem.m)
            status = int(library.IpoptSolve(self._handle, _reals(x), None, None, _reals(y), None, None, None))
        finally:
            library.FreeIpoptProblem(self._handle)
            self._handle = None
        if self.callbacks.error is not None or not (np.isfinite(x).all() and np.isfinite(y).all()):
            return self._x, self._y, status
        return x, y, status

    # ------------------------------------------------------------------------------------------------------- callbacks

    def _f(self, n: int, x: Any, new: bool, out: Any, data: Any) -> bool:
        return self._put(lambda: self.problem.f(_array(x, n).copy()), out, 1)

    def _grad(self, n: int, x: Any, new: bool, out: Any, data: Any) -> bool:
        return self._put(lambda: self.problem.grad(_array(x, n).copy()), out, n)

    def _g(self, n: int, x: Any, new: bool, m: int, out: Any, data: Any) -> bool:
        return not m or self._put(lambda: self.problem.c(_array(x, n).copy()), out, m)

    def _jac(self, n: int, x: Any, new: bool, m: int, size: int, rows: Any, columns: Any, out: Any, data: Any) -> bool:
        if not out:
            return _put_structure(self._jacobian, rows, columns)
        return not size or self._put(lambda: self._jacobian.values(self.problem.jac(_array(x, n).copy())), out, size)

    def _hess(
        self,
        n: int,
        x: Any,
        new: bool,
        weight: float,
        m: int,
        y: Any,
        new_y: bool,
        size: int,
        rows: Any,
        columns: Any,
        out: Any,
        data: Any,
    ) -> bool:
        structure = self._hessian
        if structure is None:
            return False
        if not out:
            return _put_structure(structure, rows, columns)

        def values() -> Vector:
            multipliers = _array(y, m).copy() if m else np.zeros(0)
            return structure.values(self.problem.weighted_hess(_array(x, n).copy(), weight, multipliers))

        return not size or self._put(values, out, size)

    def _put(self, function: Callable[[], Any], out: Any, size: int) -> bool:
        value = self.callbacks.evaluate(function)
        if value is None:
            return False
        _array(out, size)[:] = value
        return True

    def _iteration(self, mode: int, count: int, f: float, violation: float, dual: float, mu: float, *rest: Any) -> bool:
        """Keep the iterate, for the case that the solve ends early."""
        self.iterations, self.barrier = count, mu
        x, y, n, m = self._x.copy(), self._y.copy(), self.problem.n, self.problem.m
        if _library().GetIpoptCurrentIterate(self._handle, False, n, _reals(x), None, None, m, None, _reals(y)):
            self._x, self._y = x, y
        return self.callbacks.error is None


def _put_structure(structure: Structure, rows: Any, columns: Any) -> bool:
    if structure.size:
        _array(rows, structure.size)[:] = structure.rows
        _array(columns, structure.size)[:] = structure.columns
    return True


def _array(pointer: Any, size: int) -> Any:
    return np.ctypeslib.as_array(pointer, (size,))


def _reals(array: Vector) -> Any:
    return array.ctypes.data_as(_REALS)


def _finite(side: Vector) -> Vector:
    return np.clip(side, -INFINITE, INFINITE).astype(float)


def _set_option(handle: Any, name: str, value: Any) -> None:
    library = _library()
    if isinstance(value, str):
        accepted = library.AddIpoptStrOption(handle, name.encode(), value.encode())
    elif isinstance(value, int):
        accepted = library.AddIpoptIntOption(handle, name.encode(), value)
    else:
        accepted = library.AddIpoptNumOption(handle, name.encode(), _REAL(value))
    if not accepted:
        raise OptionError(f"IPOPT does not take {name} = {value!r}")


# ------------------------------------------------------------------------------------------------------- the library


def ipopt_version() -> str:
    """As the library says; older ones do not, then as its header says."""
    library = _library()
    if hasattr(library, "GetIpoptVersion"):
        numbers = _INT(), _INT(), _INT()
        library.GetIpoptVersion(*(ctypes.byref(number) for number in numbers))
        return ".".join(str(number.value) for number in numbers)
    header = next(_folder().glob("include/coin-or/IpoptConfig.h"), None)
    found = re.search(r'IPOPT_VERSION\s+"([^"]+)"', header.read_text()) if header else None
    return found.group(1) if found else "3.14"


def _folder() -> Path:
    """Of the CasADi wheel, without importing it."""
    spec = importlib.util.find_spec("casadi")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@functools.cache
def _library() -> Any:
    names = ("libipopt.so.3", "libipopt.so", "libipopt.3.dylib", "libipopt.dylib", "libipopt-3.dll")
    path = next((_folder() / name for name in names if (_folder() / name).exists()), None)
    if path is None:
        raise RuntimeError(f"no IPOPT library in {_folder()}; looked for {', '.join(names)}")
    library = ctypes.CDLL(str(path))
    sides: list[Any] = [_INT, _REALS, _REALS, _INT, _REALS, _REALS, _INT, _INT, _INT]
    library.CreateIpoptProblem.restype = _POINTER
    library.CreateIpoptProblem.argtypes = [*sides, _EVAL_F, _EVAL_G, _EVAL_F, _EVAL_JAC, _EVAL_H]
    library.FreeIpoptProblem.restype = None
    library.FreeIpoptProblem.argtypes = [_POINTER]
    for kind, value in (("Str", ctypes.c_char_p), ("Int", _INT), ("Num", _REAL)):
        add = getattr(library, f"AddIpopt{kind}Option")
        add.restype, add.argtypes = _BOOL, [_POINTER, ctypes.c_char_p, value]
    library.SetIntermediateCallback.restype = _BOOL
    library.SetIntermediateCallback.argtypes = [_POINTER, _ITERATION]
    library.IpoptSolve.restype = _INT
    library.IpoptSolve.argtypes = [_POINTER, _REALS, _REALS, _REALS, _REALS, _REALS, _REALS, _POINTER]
    library.GetIpoptCurrentIterate.restype = _BOOL
    library.GetIpoptCurrentIterate.argtypes = [_POINTER, _BOOL, _INT, _REALS, _REALS, _REALS, _INT, _REALS, _REALS]
    return library
