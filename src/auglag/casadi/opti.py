"""Problems of `casadi.Opti`, one's own or those that rockit and others make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import casadi
import numpy as np

from auglag.casadi.solver import NlpSolver
from auglag.errors import InputError

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


def solve_opti(opti: Any, *, error_on_fail: bool = True, **options: Any) -> OptiSolution:
    """Solve from the initial values and multipliers that the Opti object holds.

    As `opti.solve()` does, raises `RuntimeError` where no solution is found, unless `error_on_fail` is False.
    """
    solver, p = _solver(opti, options), _values(opti, opti.p)
    start = opti.initial()
    found = solver(
        x0=_values(opti, opti.x, start),
        p=p,
        lbg=_values(opti, opti.lbg),
        ubg=_values(opti, opti.ubg),
        lam_g0=_values(opti, opti.lam_g, start),
    )
    solution = OptiSolution(opti, found, p, solver)
    if error_on_fail and not solution.result.success:
        raise RuntimeError(
            f"auglag found no solution of the Opti problem: {solution.result.message} error_on_fail=False returns the "
            f"point"
        )
    return solution


@final
class opti_solver:
    """In a `with` block, `opti.solve()` of any Opti object is auglag's: for packages that call it themselves.

        with auglag.casadi.opti_solver(tol=1e-8):
            solution = ocp.solve()  # of rockit

    It changes the class `casadi.Opti` for that time, so other threads see it, too.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    def __enter__(self) -> None:
        self._theirs, options = _OPTI.solve, self._options
        _OPTI.solve = lambda opti: solve_opti(opti, **options)

    def __exit__(self, *error: object) -> None:
        _OPTI.solve = self._theirs


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
