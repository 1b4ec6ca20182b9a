"""auglag as a driver of OpenMDAO: `problem.driver = auglag.openmdao.AuglagDriver(tol=1e-6)`.

Design variables, responses and total derivatives are OpenMDAO's, in the scaling that the model asks for (ref, scaler,
...). After a run `driver.solution` is the `auglag.Result`, whose multipliers carry the names of the constraints.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

from auglag._typing import Matrix, Vector
from auglag.budget import Budget
from auglag.errors import EvaluationError, InputError
from auglag.minimize import minimize
from auglag.result import Result

try:
    from openmdao.core.analysis_error import AnalysisError
    from openmdao.core.driver import Driver, RecordingDebugging
except ImportError as error:  # pragma: no cover - seen only without the extra
    raise ImportError(f"auglag.openmdao needs {error.name}: pip install 'auglag[openmdao]'") from None


class AuglagDriver(Driver):
    """Minimises the objective of a model subject to its constraints and the bounds of its design variables.

    Options: `tol` (of the certificate, in the driver's scaling), `maxiter` (outer iterations), `disp` (print a table).
    `opt_settings` has further keywords of `auglag.minimize`: `driver.opt_settings["starts"] = 5`. A model that raises
    AnalysisError at a point counts as undefined there.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name in ("optimization", "gradients", "linear_constraints", "simultaneous_derivatives"):
            self.supports[name] = True
        for name in ("inequality_constraints", "equality_constraints", "two_sided_constraints"):
            self.supports[name] = True
        for name in ("multiple_objectives", "active_set", "integer_design_vars", "distributed_design_vars"):
            self.supports[name] = False
        self.supports._read_only = True
        self.opt_settings: dict[str, Any] = {}  #: further keywords of `auglag.minimize`
        self.solution: Result | None = None  #: of the last run
        self.iter_count = 0

    def _declare_options(self) -> None:
        self.options.declare("tol", 1e-6, lower=0.0, desc="Tolerance of the certificate, in the driver's scaling")
        self.options.declare("maxiter", 200, lower=1, desc="Limit on outer iterations")
        self.options.declare("disp", False, types=bool, desc="Print a table of the run")

    def _get_name(self) -> str:
        return "auglag"

    def run(self) -> bool:
        """Optimise; True means failure, as OpenMDAO has it."""
        self.result.reset()
        self._check_for_missing_objective()
        self._check_for_invalid_desvar_values()
        if len(self._objs) > 1:
            raise InputError(f"the model must have one objective, got {', '.join(self._objs)}")
        if not self._designvars:
            raise InputError("the model must have design variables (add_design_var), got none")
        self.iter_count, self._total_jac, self._total_jac_linear = 0, None, None
        model = _Model(self)
        settings = {"tol": self.options["tol"], "progress": self.options["disp"]} | self.opt_settings
        settings.setdefault("budget", Budget(outer=int(self.options["maxiter"])))
        solution = self.solution = minimize(
            lambda x: model.at(x)[0],
            model.start,
            jac=lambda x: model.totals(x)[0],
            bounds=Bounds(model.lower, model.upper),
            constraints=model.constraints(),
            **settings,
        )
        model.at(solution.x)  # what the user looks at afterwards is the solution
        if not solution.success or self.options["disp"]:
            print(solution.message)
        return not solution.success

    def get_exit_status(self) -> str:
        """The status in one word, as `driver.result.exit_status` has it."""
        return self.solution.status.name if self.solution is not None else "NOT_RUN"

    def get_driver_objective_calls(self) -> int:
        """How often fun was asked for in the last run."""
        return int(self.solution.nfev) if self.solution is not None else 0

    def get_driver_derivative_calls(self) -> int:
        """How often derivatives were asked for in the last run."""
        return int(self.solution.njev) if self.solution is not None else 0


class _Model:
    """The model as functions of one vector: it runs once for each new x, whichever responses are asked for."""

    def __init__(self, driver: AuglagDriver) -> None:
        self._driver: Any = driver
        self._variables = list(driver._designvars)
        self._linear = [name for name, meta in driver._cons.items() if meta["linear"]]
        self._nonlinear = [name for name in driver._cons if name not in self._linear]
        self._x: Vector | None = None
        self._totals: Any = None
        start = driver.get_design_var_values()
        self.start = np.concatenate([np.ravel(start[name]) for name in self._variables]).astype(float)
        limits = driver.autoscaler.get_bounds_scaling("design_var")
        sides = [_sides(limits[name], np.size(start[name])) for name in self._variables]
        self.lower, self.upper = (np.concatenate(side) for side in zip(*sides, strict=True))
        self.at(self.start)
        driver._problem().get_total_coloring(driver._coloring_info, run_model=False)

    def at(self, x: Vector) -> tuple[float, dict[str, Vector]]:
        """Objective and constraints; the model has these values afterwards."""
        if self._x is None or not np.array_equal(x, self._x):
            self._x = None  # nothing is known of the model if it fails
            driver = self._driver
            driver._vectors["design_var"].set_data(x, driver_scaling=True)
            driver._set_design_vars(driver_scaling=True)
            try:
                with (
                    RecordingDebugging(driver._get_name(), driver.iter_count, driver),
                    driver._problem().model._relevance.nonlinear_active("iter"),
                ):
                    driver.iter_count += 1
                    driver._run_solve_nonlinear()
            except AnalysisError as error:
                raise EvaluationError(str(error)) from error
            objective = float(np.ravel(next(iter(driver.get_objective_values().values())))[0])
            values = {name: np.ravel(value).copy() for name, value in driver.get_constraint_values().items()}
            self._x, self._known, self._totals = np.array(x), (objective, values), None
        return self._known

    def totals(self, x: Vector) -> Matrix:
        """Derivatives of the objective, the first row, and of the nonlinear constraints."""
        self.at(x)
        if self._totals is None:
            driver = self._driver
            responses = [*driver._objs, *self._nonlinear]
            self._totals = driver._compute_totals(of=responses, wrt=self._variables, return_format="array").copy()
        totals: Matrix = self._totals
        return totals

    def constraints(self) -> list[Any]:
        """Those of the model, under their names."""
        limits = self._driver.autoscaler.get_bounds_scaling("constraint")
        values, found, first = self.at(self.start)[1], [], 1
        for name in self._nonlinear:
            rows = slice(first, first + values[name].size)
            first = rows.stop
            lower, upper = _sides(limits[name], values[name].size)
            found.append(_named(name, NonlinearConstraint(self._values(name), lower, upper, jac=self._part(rows))))
        if self._linear:
            found += self._linear_constraints(limits, values)
        return found

    def _linear_constraints(self, limits: Any, values: dict[str, Vector]) -> list[Any]:
        """Those that the model declares linear: their derivatives are asked for once."""
        totals = self._driver._compute_totals(of=self._linear, wrt=self._variables, return_format="array")
        found, first = [], 0
        for name in self._linear:
            matrix = totals[first : first + values[name].size].copy()
            first += values[name].size
            constant = values[name] - matrix @ self.start
            lower, upper = _sides(limits[name], values[name].size)
            found.append(_named(name, LinearConstraint(matrix, lower - constant, upper - constant)))
        return found

    def _values(self, name: str) -> Any:
        return lambda x: self.at(x)[1][name]

    def _part(self, rows: slice) -> Any:
        return lambda x: self.totals(x)[rows]


def _sides(limits: Any, size: int) -> tuple[Vector, Vector]:
    """Lower and upper sides as vectors; both are `equals` where that is given."""
    if getattr(limits, "equals", None) is not None:
        lower = upper = limits.equals
    else:
        lower = -np.inf if limits.lower is None else limits.lower
        upper = np.inf if limits.upper is None else limits.upper
    return np.broadcast_to(lower, (size,)).astype(float), np.broadcast_to(upper, (size,)).astype(float)


def _named(name: str, constraint: Any) -> Any:
    constraint.name = name
    return constraint
