"""An object that is called as what `casadi.nlpsol` returns."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any, final

import casadi
import numpy as np

from auglag.algorithm.status import Status
from auglag.casadi.problem import CasadiProblem, Compiled, column
from auglag.errors import InputError, OptionError
from auglag.minimize import minimize, require_options
from auglag.result import Result
from auglag.sensitivity.directions import Sensitivity

LIMITED = "SOLVER_RET_LIMITED"
#: CasADi's words for the ends of all its solvers; others are SOLVER_RET_UNKNOWN.
_UNIFIED = {
    Status.SOLVED: "SOLVER_RET_SUCCESS",
    Status.INFEASIBLE: "SOLVER_RET_INFEASIBLE",
    Status.NON_FINITE: "SOLVER_RET_NAN",
    Status.ITERATION_LIMIT: LIMITED,
    Status.EVALUATION_LIMIT: LIMITED,
    Status.TIME_LIMIT: LIMITED,
}
INPUTS = ("x0", "p", "lbx", "ubx", "lbg", "ubg", "lam_x0", "lam_g0")
OUTPUTS = ("x", "f", "g", "lam_x", "lam_g", "lam_p")


def nlpsol(name: str, nlp: Any, /, *more: Any, **options: Any) -> NlpSolver:
    """A solver for an NLP of CasADi: `solver = nlpsol("solver", {"x": x, "f": f, "g": g, "p": p}, tol=1e-8)`.

    It stands for `casadi.nlpsol("solver", "ipopt", nlp, ...)`: derivatives are made once, here. `options` are keywords
    of `auglag.minimize`: tol, budget, inner, ... They may stand in a dictionary after the NLP, as CasADi has it.
    """
    if isinstance(nlp, str):
        raise InputError(
            f'nlp must follow the name, as in nlpsol("{name}", nlp, tol=1e-8): there is no plugin, got {nlp!r}'
        )
    if len(more) > 1 or not all(isinstance(given, Mapping) for given in more):
        raise InputError(f"after the NLP there may be one dictionary of options, got {more!r:.80}")
    return NlpSolver(name, nlp, **(dict(*more) | options))


@final
class NlpSolver:
    """`solver(x0=..., p=..., lbx=..., ubx=..., lbg=..., ubg=..., lam_g0=...)` returns a dictionary of DM columns.

    Arguments in CasADi's order without their names return a tuple, as CasADi's functions do. `stats()` is about the
    last call and `result` its `auglag.Result`. A call with `lam_g0` starts from these multipliers; `lam_x0` may be
    given, but is not needed: the multipliers of bounds follow from the others.
    """

    def __init__(self, name: str, nlp: Mapping[str, Any], **options: Any) -> None:
        if theirs := [option for option in options if option.startswith("ipopt")]:
            raise OptionError(
                f"nlpsol() has no argument {theirs[0]!r}: options are keywords of auglag.minimize, such as tol=1e-8, "
                "budget=auglag.Budget(outer=50), progress=True; leave out those of IPOPT"
            )
        require_options(options, "nlpsol()")
        self._name, self._options = name, options
        self._compiled = Compiled(nlp)
        self._problem: CasadiProblem | None = None
        self.result: Result | None = None
        self._seconds = self._cpu_seconds = 0.0

    def __call__(self, *values: Any, **named: Any) -> Any:
        if len(values) > len(INPUTS) or (values and named):
            raise InputError(f"arguments must be at most {', '.join(INPUTS)}, all by name or none, got {len(values)}")
        if unknown := named.keys() - set(INPUTS):
            raise InputError(f"an argument must be one of {', '.join(INPUTS)}, got {min(unknown)!r}")
        found = self.solve(**(named or dict(zip(INPUTS, values, strict=False))))
        return tuple(found[name] for name in OUTPUTS) if values else found

    def __repr__(self) -> str:
        last = "not called yet" if self.result is None else f"last call {self.result.status.name}"
        n, p, m = (self._sizes[name] for name in ("x", "p", "g"))
        return f"NlpSolver({self._name!r}, {n} variables, {m} rows, {p} parameters, {last})"

    def call(self, given: Mapping[str, Any] | Sequence[Any]) -> Any:
        """The same with a dictionary of arguments, or with a list of them in CasADi's order, which returns a list."""
        return self(**given) if isinstance(given, Mapping) else list(self(*given))

    @property
    def _sizes(self) -> dict[str, int]:
        return {"x": self._compiled.n, "f": 1, "g": self._compiled.m, "p": self._compiled.parameters}

    def n_in(self) -> int:
        """How many arguments there are."""
        return len(INPUTS)

    def n_out(self) -> int:
        """How many outputs there are."""
        return len(OUTPUTS)

    def name_in(self, i: int | None = None) -> Any:
        """The name of an argument, or all of them."""
        return list(INPUTS) if i is None else INPUTS[i]

    def name_out(self, i: int | None = None) -> Any:
        """The name of an output, or all of them."""
        return list(OUTPUTS) if i is None else OUTPUTS[i]

    def size_in(self, which: int | str) -> tuple[int, int]:
        """Rows and columns of an argument, by its place or its name."""
        return self._size(which, INPUTS, "an argument")

    def size_out(self, which: int | str) -> tuple[int, int]:
        """Rows and columns of an output, by its place or its name."""
        return self._size(which, OUTPUTS, "an output")

    def _size(self, which: int | str, names: tuple[str, ...], what: str) -> tuple[int, int]:
        name = which if isinstance(which, str) else names[which]
        if name not in names:
            raise InputError(f"{what} must be one of {', '.join(names)}, got {name!r}")
        return self._sizes[name.removesuffix("0")[-1]], 1  # lam_x0, lbx and x0 are as long as x

    def solve(
        self,
        *,
        x0: Any = 0.0,
        p: Any = 0.0,
        lbx: Any = -np.inf,
        ubx: Any = np.inf,
        lbg: Any = -np.inf,
        ubg: Any = np.inf,
        lam_x0: Any = None,
        lam_g0: Any = None,
    ) -> dict[str, Any]:
        """x, f, g, lam_x, lam_g and lam_p by name."""
        problem = self._problem = CasadiProblem(self._compiled, x0=x0, p=p, lbx=lbx, ubx=ubx, lbg=lbg, ubg=ubg)
        options = self._options
        if lam_g0 is not None and (start := column(lam_g0, problem.m, "lam_g0")).any():
            options = options | {"warm_start": (problem.x0, start)}
        wall, cpu = time.perf_counter(), time.process_time()
        result = self.result = minimize(problem, **options)
        self._seconds, self._cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
        return {
            "x": casadi.DM(result.x),
            "f": casadi.DM(result.fun),
            "g": casadi.DM(problem.c(result.x)) if problem.m else casadi.DM(0, 1),
            "lam_x": casadi.DM(result.bound_multipliers),
            "lam_g": casadi.DM(result.y) if problem.m else casadi.DM(0, 1),
            "lam_p": problem.parameter_multipliers(result.x, result.y),
        }

    def sensitivity(self) -> Sensitivity:
        """Derivatives of the last solution by the parameters p, exact: `dx`, `dy`, `predict(p)`, ..."""
        if self._problem is None or self.result is None or not self.result.success:
            raise InputError(f"{self._name} must have found a solution before it is asked for sensitivities")
        return Sensitivity(
            self._problem, self.result, self._problem.p, self._problem.parts(self.result.x, self.result.y)
        )

    def having(self, options: Mapping[str, Any]) -> NlpSolver:
        """The same problem, with its derivatives as they are, under other options."""
        twin = copy.copy(self)
        twin._options, twin.result = dict(options), None
        return twin

    def name(self) -> str:
        """The name it was given."""
        return self._name

    def stats(self) -> dict[str, Any]:
        """About the last call, under CasADi's names; empty before the first one."""
        result = self.result
        if result is None:
            return {}
        return {
            "success": bool(result.success),
            "return_status": result.status.name,
            "unified_return_status": _UNIFIED.get(result.status, "SOLVER_RET_UNKNOWN"),
            "iter_count": result.nit_inner,
            "t_wall_total": self._seconds,
            "t_proc_total": self._cpu_seconds,
            "n_call_nlp_f": result.nfev,
            "n_call_nlp_g": result.constr_nfev,
            "n_call_nlp_grad_f": result.njev,
            "n_call_nlp_jac_g": result.constr_njev,
            "n_call_nlp_hess_l": result.nhev,
        }
