"""Problems of `casadi.Opti`, one's own or those that rockit and others make."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, final

import casadi
import numpy as np

from auglag.casadi.solver import LIMITED, NlpSolver
from auglag.errors import InputError
from auglag.minimize import require_options

#: Attribute of an Opti object that keeps its solver as long as its expressions stay the same.
_KEPT = "_auglag_solver"
_OPTI: Any = casadi.Opti


@final
class OptiSolution:
    """What `opti.solve()` returns, with the same methods; `result` is the `auglag.Result`.

    It keeps the numbers, so that changes of the Opti object do not touch it.
    """

    def __init__(self, opti: Any, found: dict[str, Any], p: Any, solver: NlpSolver) -> None:
        assert solver.result is not None
        self.opti, self.result = opti, solver.result
        known = ((opti.x, found["x"]), (opti.p, p), (opti.lam_g, found["lam_g"]))
        self._symbols, self._numbers = zip(*[pair for pair in known if pair[0].numel()], strict=True)
        self._stats = solver.stats()

    def value(self, expression: Any, values: Sequence[Any] = ()) -> Any:
        """The value of an expression at the solution: a number, or an array of one or two dimensions.

        `values` are assignments `x == 3` of variables and parameters that are taken instead of those of the solution.
        """
        expression = casadi.MX(expression)
        for assignment in values:
            expression = casadi.substitute(expression, assignment.dep(1), assignment.dep(0))
        matrix = casadi.Function("value", list(self._symbols), [expression])(*self._numbers)
        if matrix.numel() == 1:
            return float(matrix)
        full = matrix.full()
        return full.ravel() if 1 in full.shape else full

    def value_variables(self) -> list[Any]:
        """Assignments for `opti.set_initial`, with which the next solve starts here."""
        return self._assignments(self.opti.x)

    def value_parameters(self) -> list[Any]:
        """Assignments for `opti.set_value`."""
        return self._assignments(self.opti.p)

    def stats(self) -> dict[str, Any]:
        """As `NlpSolver.stats`."""
        return dict(self._stats)

    def _assignments(self, symbols: Any) -> list[Any]:
        parts = casadi.symvar(symbols)
        numbers = casadi.Function("parts", list(self._symbols), parts).call(list(self._numbers)) if parts else []
        return [casadi.MX(number) == part for part, number in zip(parts, numbers, strict=True)]

    def __repr__(self) -> str:
        result = self.result
        return (
            f"OptiSolution({result.status.name}, f = {result.fun:.6g}, {result.x.size} variables, {result.y.size} rows)"
        )


def solve_opti(opti: Any, *, error_on_fail: bool = True, **options: Any) -> OptiSolution:
    """Solve from the initial values and multipliers that the Opti object holds.

    As `opti.solve()` does, raises `RuntimeError` where no solution is found, unless `error_on_fail` is False.
    """
    solution = _found(opti, options)
    if error_on_fail:
        _require(solution, limits=False)
    return solution


def solve_opti_limited(opti: Any, **options: Any) -> OptiSolution:
    """As `opti.solve_limited()`: an iteration, evaluation or time limit is no failure."""
    solution = _found(opti, options)
    _require(solution, limits=True)
    return solution


def _require(solution: OptiSolution, *, limits: bool) -> None:
    """Raise where no solution was found, unless `limits` may end a run and one did."""
    if solution.result.success or (limits and solution.stats()["unified_return_status"] == LIMITED):
        return
    raise RuntimeError(
        f"auglag found no solution of the Opti problem: {solution.result.message} error_on_fail=False returns the point"
    )


def _found(opti: Any, options: dict[str, Any]) -> OptiSolution:
    if getattr(opti, "_fh", None) is not None:  # where CasADi keeps it
        warnings.warn(
            "the function of opti.callback is not called: inside it opti.debug knows CasADi's own solvers only. Pass "
            "callback=, as in auglag.minimize, to auglag.casadi.solve or opti_solver",
            stacklevel=4,
        )
    solver, p = _solver(opti, options), _values(opti, opti.p)
    start = opti.initial()
    found = solver(
        x0=_values(opti, opti.x, start),
        p=p,
        lbg=_values(opti, opti.lbg),
        ubg=_values(opti, opti.ubg),
        lam_g0=_values(opti, opti.lam_g, start),
    )
    return OptiSolution(opti, found, p, solver)


@final
class opti_solver:
    """In a `with` block, `solve()` and `solve_limited()` of any Opti object are auglag's: for packages that call them.

        with auglag.casadi.opti_solver(tol=1e-8):
            solution = ocp.solve()  # of rockit

    `options` are keywords of `auglag.minimize`. It changes the class `casadi.Opti` for that time, so other threads see
    it, too.
    """

    def __init__(self, **options: Any) -> None:
        require_options(options, "opti_solver()", ("error_on_fail",))
        self._options = options

    def __enter__(self) -> None:
        self._theirs = _OPTI.solve, _OPTI.solve_limited
        options = self._options
        limited = {name: value for name, value in options.items() if name != "error_on_fail"}
        _OPTI.solve = lambda opti: solve_opti(opti, **options)
        _OPTI.solve_limited = lambda opti: solve_opti_limited(opti, **limited)

    def __exit__(self, *error: object) -> None:
        _OPTI.solve, _OPTI.solve_limited = self._theirs


def _solver(opti: Any, options: dict[str, Any]) -> NlpSolver:
    """The solver of these expressions; derivatives are made again only after they have changed."""
    opti.advanced.bake()
    parts = {"x": opti.x, "p": opti.p, "f": opti.f, "g": opti.g}
    parts = {name: part for name, part in parts.items() if part.numel()}
    kept = getattr(opti, _KEPT, None)
    if (
        kept is None
        or kept[0].keys() != parts.keys()
        or not all(map(casadi.is_equal, kept[0].values(), parts.values()))
    ):
        kept = (parts, NlpSolver("opti", parts))
        setattr(opti, _KEPT, kept)
    solver: NlpSolver = kept[1]
    return solver.having(options)


def _values(opti: Any, expression: Any, start: Any = ()) -> Any:
    """The value of what depends on parameters and, if `start` is given, on the initial values."""
    if not expression.numel():
        return casadi.DM(0, 1)
    try:
        found = opti.value(expression, start) if start else opti.value(expression)
    except RuntimeError as error:
        if "parameter" in str(error):
            raise InputError(f"every parameter of the Opti problem must have a value, got {error!s:.200}") from None
        raise
    return casadi.DM(np.atleast_1d(found))
