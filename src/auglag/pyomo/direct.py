"""auglag behind Pyomo's new solver interface, in this Python: no process, no files.

Pyomo writes its model as the text of a `.nl` file into memory; from there on everything is as for an AMPL solver.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import logging
import time
import warnings
from collections.abc import Sequence
from typing import Any, TextIO, cast, final

import numpy as np
from pyomo.common.errors import InfeasibleConstraintException
from pyomo.common.timing import HierarchicalTimer
from pyomo.contrib.solver.common.base import Availability, LegacySolverWrapper, SolverBase
from pyomo.contrib.solver.common.config import SolverConfig
from pyomo.contrib.solver.common.factory import SolverFactory
from pyomo.contrib.solver.common.results import Results, SolutionStatus, TerminationCondition
from pyomo.contrib.solver.common.solution_loader import NoSolutionSolutionLoader
from pyomo.contrib.solver.common.util import NoOptimalSolutionError, NoSolutionError
from pyomo.contrib.solver.solvers.asl_sol_reader import ASLSolFileData, ASLSolFileSolutionLoader
from pyomo.core.base.objective import maximize
from pyomo.core.expr import value
from pyomo.core.expr.visitor import replace_expressions
from pyomo.core.staleflag import StaleFlagManager
from pyomo.opt import SolverStatus
from pyomo.repn.plugins.nl_writer import NLWriter, NLWriterInfo

from auglag._version import __version__
from auglag.algorithm.status import Status
from auglag.ampl import RELAXED, answer, solve
from auglag.ampl.options import parsed, passed_over
from auglag.problems.nl import NlInfeasible, NlProblem
from auglag.problems.nl.reader import parse
from auglag.problems.nl.solution import Solution
from auglag.result import Result

_LOGGER = logging.getLogger("pyomo.contrib.solver")
_CONDITIONS = {
    Status.SOLVED: TerminationCondition.convergenceCriteriaSatisfied,
    Status.UNCERTIFIED: TerminationCondition.unknown,
    Status.PRECISION_LIMIT: TerminationCondition.convergenceCriteriaSatisfied,
    Status.INFEASIBLE: TerminationCondition.locallyInfeasible,
    Status.UNBOUNDED: TerminationCondition.unbounded,
    Status.ITERATION_LIMIT: TerminationCondition.iterationLimit,
    Status.EVALUATION_LIMIT: TerminationCondition.iterationLimit,
    Status.TIME_LIMIT: TerminationCondition.maxTimeLimit,
    Status.STOPPED: TerminationCondition.interrupted,
    Status.INTERRUPTED: TerminationCondition.interrupted,
    Status.STUCK: TerminationCondition.minStepLength,
    Status.PENALTY_LIMIT: TerminationCondition.unknown,
    Status.NON_FINITE: TerminationCondition.error,
    Status.WRONG_DERIVATIVES: TerminationCondition.error,
}


class AuglagConfig(SolverConfig):
    """Pyomo's options for every solver, and those of the writer of the model.

    Pyomo's own elimination of variables is off, unlike for its other solvers: auglag's presolve does as much, and duals
    and reduced costs stay those of the model as it was written.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.writer_config = self.declare("writer_config", NLWriter.CONFIG())
        self.writer_config.linear_presolve = False


@final
class _Streams(io.TextIOBase):
    """Output that goes to several places."""

    def __init__(self, streams: Sequence[TextIO]) -> None:
        self._streams = streams

    def write(self, text: str) -> int:
        for stream in self._streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        for stream in self._streams:
            stream.flush()


class Auglag(SolverBase):
    """`Auglag().solve(model, tee=True, time_limit=60, solver_options={"tol": 1e-8})`.

    Options are those of the AMPL protocol. `results.extra_info.result` is the `auglag.Result`.
    """

    CONFIG = AuglagConfig()

    def available(self) -> Any:
        """Always: it is part of what is imported."""
        return Availability.FullLicense

    def version(self) -> tuple[int, ...]:
        """That of auglag."""
        return tuple(int(part) for part in __version__.split(".")[:3] if part.isdigit())

    def solve(self, model: Any, **keywords: Any) -> Any:
        """Solve the model, load the solution into it (unless told not to), and return Pyomo's `Results`."""
        begin = time.perf_counter()
        results, config = Results(), self.config(value=keywords, preserve_implicit=True)
        results.timing_info.start_timestamp = datetime.datetime.now(datetime.UTC)
        results.solver_name, results.solver_version, results.solver_config = self.name, self.version(), config
        timer = results.timing_info.timer = config.timer = config.timer or HierarchicalTimer()
        StaleFlagManager.mark_all_as_stale()
        log = io.StringIO()
        with contextlib.redirect_stdout(cast(TextIO, _Streams([log, *config.tee]))):
            info = _run(model, config, timer, results)
        results.solver_log = log.getvalue()
        _finish(results, config, info)
        results.timing_info.wall_time = time.perf_counter() - begin
        return results


class AuglagLegacy(LegacySolverWrapper, Auglag):
    """`Auglag` behind Pyomo's old interface: message, warning and status are those of `SolverFactory("auglag")`."""

    def _map_results(self, model: Any, results: Any) -> Any:
        legacy, solution = super()._map_results(model, results)
        solver, message = legacy.solver, results.extra_info.solver_message
        solver.message = message
        if results.solution_status == SolutionStatus.optimal:
            return legacy, solution
        if solver.status == SolverStatus.error:  # an answer, though not the one that was hoped for
            solver.status = SolverStatus.warning
        if self.config.load_solutions:
            _LOGGER.warning(
                "Loading a result without a solution into %s: termination condition %s; message from solver: %s",
                model.name,
                solver.termination_condition,
                message,
            )
        return legacy, solution


_REGISTER = SolverFactory.register("auglag", legacy_name="auglag_v2", doc="The adaptive augmented Lagrangian method")
_REGISTER(Auglag, AuglagLegacy)


def _run(model: Any, config: Any, timer: Any, results: Any) -> Any:
    """Write, solve, and put the outcome into the results; returns what Pyomo knows of the order of the file."""
    text = io.StringIO()
    timer.start("write_nl_file")
    try:
        info = NLWriter().write(
            model, text, None, None, config=config.writer_config, symbolic_solver_labels=config.symbolic_solver_labels
        )
    except InfeasibleConstraintException as error:
        return _without_solution(model, results, TerminationCondition.provenInfeasible, str(error))
    finally:
        timer.stop("write_nl_file")
    if not info.variables:
        if not info.eliminated_vars:
            return _without_solution(model, results, TerminationCondition.emptyModel, "the model has no variables")
        results.termination_condition = TerminationCondition.convergenceCriteriaSatisfied
        results.solution_status = SolutionStatus.optimal
        results.solution_loader = ASLSolFileSolutionLoader(ASLSolFileData(), info, model)
        return info
    options = _options(config)
    timer.start("solve")
    try:
        problem = _problem(text.getvalue(), model, info, config.symbolic_solver_labels)
        result = solve(problem, options)
    except NlInfeasible as error:
        return _without_solution(model, results, TerminationCondition.provenInfeasible, str(error))
    finally:
        timer.stop("solve")
    solution = answer(problem, result)
    print(solution.message)
    _translate(results, result, solution)
    results.solution_loader = ASLSolFileSolutionLoader(_as_read(solution), info, model)
    return info


def _options(config: Any) -> dict[str, Any]:
    words = [f"{name}={value}" for name, value in config.solver_options.value().items()]
    if config.time_limit is not None:
        words.append(f"max_seconds={config.time_limit}")
    if warning := passed_over(words):
        warnings.warn(warning, stacklevel=5)
    if config.threads and config.threads != 1:
        warnings.warn(f"threads={config.threads} is passed over: auglag uses one", stacklevel=5)
    return {"outlev": int(bool(config.tee))} | parsed(words)


def _problem(text: str, model: Any, info: Any, labelled: bool) -> NlProblem:
    read = parse(text.encode(), model.name)
    rows, columns = tuple(info.row_labels[: len(info.constraints)]), tuple(info.column_labels)
    names = (rows, columns) if labelled else (None, None)
    return NlProblem(read, objective=0 if info.objectives else None, name=model.name, names=names)


def _translate(results: Any, result: Result, solution: Solution) -> None:
    """Status, counts and messages in Pyomo's terms."""
    results.termination_condition = _CONDITIONS[result.status]
    feasible = result.certificate.violation <= result.tol and solution.code != RELAXED
    if result.status in (Status.NON_FINITE, Status.WRONG_DERIVATIVES):
        results.solution_status = SolutionStatus.noSolution
    elif not feasible:
        results.solution_status = SolutionStatus.infeasible
    else:
        results.solution_status = SolutionStatus.optimal if result.success else SolutionStatus.feasible
    results.extra_info.solver_message = solution.message
    results.extra_info.iteration_count = result.nit
    results.extra_info.result = result


def _as_read(solution: Solution) -> Any:
    """What Pyomo's reader would have found in the `.sol` file."""
    data = ASLSolFileData()
    data.message, data.solve_code, data.objno = solution.message, solution.code, solution.objective
    data.primals, data.duals = solution.x.tolist(), solution.duals.tolist()
    suffixes = {name: values.tolist() for name, values in solution.suffixes.items()}
    suffixes["rc"] = (solution.suffixes["auglag_zL_out"] + solution.suffixes["auglag_zU_out"]).tolist()
    data.var_suffixes = {name: dict(enumerate(values)) for name, values in suffixes.items()}
    return data


def _without_solution(model: Any, results: Any, condition: Any, reason: str) -> Any:
    results.termination_condition, results.solution_status = condition, SolutionStatus.noSolution
    results.solution_loader = NoSolutionSolutionLoader(model, reason)
    results.extra_info.solver_message, results.extra_info.iteration_count = reason, 0
    return NLWriterInfo()


def _finish(results: Any, config: Any, info: Any) -> None:
    """Raise what Pyomo's solvers raise, load the solution, and state the objective in the units of the model."""
    if config.raise_exception_on_nonoptimal_result and results.solution_status != SolutionStatus.optimal:
        raise NoOptimalSolutionError(results.extra_info.solver_message)
    if config.load_solutions:
        if results.solution_status == SolutionStatus.noSolution:
            raise NoSolutionError(results.extra_info.solver_message)
        results.solution_loader.load_solution()
    if info.objectives:
        objective = info.objectives[0]
        results.objective_bound = np.inf if objective.sense == maximize else -np.inf
        if results.solution_status in (SolutionStatus.feasible, SolutionStatus.optimal):
            found = {} if config.load_solutions else results.solution_loader.get_vars()
            values = {id(variable): number for variable, number in found.items()}
            results.incumbent_objective = value(replace_expressions(objective.expr, values, True, True))
