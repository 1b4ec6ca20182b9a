"""IPOPT through its C interface: 3.14 from the CasADi wheel and 3.12 from the ipyopt wheel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.bench.baselines import ipopt_library as api
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.baselines.callbacks import Callbacks
from auglag.bench.baselines.sparsity import Structure, hessian_structure, jacobian_structure
from auglag.bench.counted import CountedProblem
from auglag.errors import OptionError

#: IPOPT's return codes; only the first is success, "acceptable" is not.
STATUS = {
    **{0: "Solve_Succeeded", 1: "Solved_To_Acceptable_Level", 2: "Infeasible_Problem_Detected"},
    **{3: "Search_Direction_Becomes_Too_Small", 4: "Diverging_Iterates", 5: "User_Requested_Stop"},
    **{6: "Feasible_Point_Found", -1: "Maximum_Iterations_Exceeded", -2: "Restoration_Failed"},
    **{-3: "Error_In_Step_Computation", -4: "Maximum_CpuTime_Exceeded", -5: "Maximum_WallTime_Exceeded"},
    **{-10: "Not_Enough_Degrees_Of_Freedom", -11: "Invalid_Problem_Definition", -12: "Invalid_Option"},
    **{-13: "Invalid_Number_Detected", -100: "Unrecoverable_Exception", -101: "NonIpopt_Exception_Thrown"},
    **{-102: "Insufficient_Memory", -199: "Internal_Error"},
}

#: What IPOPT takes for infinite.
INFINITE = 1e20

_DEFAULTS: dict[str, Any] = {
    "tol": 1e-8,  # on IPOPT's scaled problem
    "constr_viol_tol": 1e-8,  # the next three: on the problem as stated; IPOPT's own are 1e-4, 1, 1e-4
    "dual_inf_tol": 1e-6,
    "compl_inf_tol": 1e-8,
    "bound_relax_factor": 1e-10,  # IPOPT's own, 1e-8, moves bounds by more than the tolerance where they are large
    "acceptable_iter": 0,  # no "acceptable" ends
    "max_iter": 100_000,
    "linear_solver": "mumps",
    "mu_strategy": "monotone",
}


class _Ipopt(Baseline):
    """IPOPT with MUMPS; a Python exception in a function ends the solve, and the last iterate is the answer."""

    requires: tuple[str, ...] = ("casadi",)
    extra = "baselines"
    derivatives = 2
    defaults: Mapping[str, Any] = _DEFAULTS
    _hessian: ClassVar[str] = "exact"
    _build: ClassVar[staticmethod[[], api.Library]] = staticmethod(api.from_casadi)  #: loads the build of IPOPT it uses

    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Run it; multipliers have the sign of IPOPT, which is ours."""
        functions = _Functions(self._build(), problem, exact=self._hessian == "exact")
        settings = {name: value for name, value in options.items() if value is not None}
        settings |= {"hessian_approximation": self._hessian, "print_level": 0, "sb": "yes"}
        settings |= {"option_file_name": ""}  # else a file ipopt.opt in the working directory would change the run
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
        ipopt = self._build()
        return f"IPOPT {ipopt.version} (MUMPS, {ipopt.wheel})"


@final
class Ipopt(_Ipopt):
    """IPOPT with exact Hessians."""

    name = "ipopt"


@final
class IpoptLimitedMemory(_Ipopt):
    """IPOPT with its limited-memory BFGS approximation of the Hessian: first derivatives only."""

    name = "ipopt-lm"
    derivatives = 1
    defaults: Mapping[str, Any] = {**_DEFAULTS, "limited_memory_max_history": 6}
    _hessian = "limited-memory"


@final
class OldIpopt(_Ipopt):
    """IPOPT 3.12 with exact Hessians, as the ipyopt wheel bundles it: the version makes a difference."""

    name = "ipopt-3.12"
    requires = ("ipyopt",)
    _build = staticmethod(api.from_ipyopt)


class _Functions:
    """The callbacks of one solve. ctypes needs them alive as long as IPOPT runs, so they are kept here."""

    def __init__(self, ipopt: api.Library, problem: CountedProblem, *, exact: bool) -> None:
        self.ipopt, self.problem, self.callbacks = ipopt, problem, Callbacks()
        self.iterations, self.barrier = 0, 0.0
        self._jacobian = jacobian_structure(problem)
        self._hessian = hessian_structure(problem) if exact else None
        self._handle: Any = None
        self._x = np.clip(problem.x0, problem.lower, problem.upper)
        self._y: Vector | None = None

    def solve(self, settings: Mapping[str, Any]) -> tuple[Vector, Vector | None, int]:
        """(x, y, return code)."""
        problem, library = self.problem, self.ipopt.functions
        kinds = (api.EVAL_F, api.EVAL_G, api.EVAL_F, api.EVAL_JAC, api.EVAL_H)
        callbacks: list[Callable[..., Any]] = [self._f, self._g, self._grad, self._jac, self._hess]
        functions = [kind(callback) for kind, callback in zip(kinds, callbacks, strict=True)]
        iteration = api.ITERATION(self._iteration)
        hessian_entries = self._hessian.size if self._hessian is not None else 0
        bounds = [_finite(side) for side in (problem.lower, problem.upper, problem.cl, problem.cu)]
        sides = [_reals(side) for side in bounds]
        sizes = (self._jacobian.size, hessian_entries, 0)
        handle = library.CreateIpoptProblem(
            problem.n, sides[0], sides[1], problem.m, sides[2], sides[3], *sizes, *functions
        )
        if not handle:
            raise RuntimeError(f"CreateIpoptProblem refused {problem.name}: n = {problem.n}, m = {problem.m}")
        self._handle = api.POINTER(handle)
        try:
            for name, value in settings.items():
                _set_option(library, self._handle, name, value)
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
        self, n: int, x: Any, new: bool, weight: float, m: int, y: Any, new_y: bool, size: int, *rest: Any
    ) -> bool:
        rows, columns, out, _ = rest
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
        if self.ipopt.tells_iterates:
            ask = self.ipopt.functions.GetIpoptCurrentIterate
            x, y, n, m = self._x.copy(), np.zeros(self.problem.m), self.problem.n, self.problem.m
            if ask(self._handle, False, n, _reals(x), None, None, m, None, _reals(y)):
                self._x, self._y = x, y
        else:
            self._x = self.problem.last_x
        return not self.callbacks.stop(self.problem)


def _put_structure(structure: Structure, rows: Any, columns: Any) -> bool:
    if structure.size:
        _array(rows, structure.size)[:] = structure.rows
        _array(columns, structure.size)[:] = structure.columns
    return True


def _array(pointer: Any, size: int) -> Any:
    return np.ctypeslib.as_array(pointer, (size,))


def _reals(array: Vector) -> Any:
    return array.ctypes.data_as(api.REALS)


def _finite(side: Vector) -> Vector:
    return np.clip(side, -INFINITE, INFINITE).astype(float)


def _set_option(library: Any, handle: Any, name: str, value: Any) -> None:
    if isinstance(value, str):
        accepted = library.AddIpoptStrOption(handle, name.encode(), value.encode())
    elif isinstance(value, int):
        accepted = library.AddIpoptIntOption(handle, name.encode(), value)
    else:
        accepted = library.AddIpoptNumOption(handle, name.encode(), api.REAL(value))
    if not accepted:
        raise OptionError(f"IPOPT does not take {name} = {value!r}")
