"""Pyomo's interface to AMPL solvers: a `.nl` file, another Python, a `.sol` file."""

from __future__ import annotations

import sys
import warnings
from typing import Any, final

from pyomo.opt import SolverFactory, SolverStatus, TerminationCondition
from pyomo.solvers.plugins.solvers.ASL import ASL

from auglag._version import __version__
from auglag.algorithm.status import Status
from auglag.ampl import CODES
from auglag.ampl.options import of_ipopt_alone, passed_over
from auglag.errors import InputError

#: What Pyomo's reader of `.sol` files cannot tell from the range of a code alone.
_CONDITIONS = {
    CODES[Status.EVALUATION_LIMIT]: TerminationCondition.maxEvaluations,
    CODES[Status.TIME_LIMIT]: TerminationCondition.maxTimeLimit,
    CODES[Status.STOPPED]: TerminationCondition.userInterrupt,
    CODES[Status.INTERRUPTED]: TerminationCondition.userInterrupt,
    CODES[Status.STUCK]: TerminationCondition.other,
    CODES[Status.PENALTY_LIMIT]: TerminationCondition.other,
    CODES[Status.NON_FINITE]: TerminationCondition.invalidProblem,
}
#: Seconds beyond its time limit after which a run is killed.
GRACE = 60.0


@SolverFactory.register("auglag", doc="The adaptive augmented Lagrangian method")
@final
class AuglagSolver(ASL):
    """Pyomo's interface to AMPL solvers, which calls `python -m auglag.ampl` with the Python that runs now."""

    _timelimit: Any

    def __init__(self, **keywords: Any) -> None:
        keywords["type"] = "auglag"
        super().__init__(**keywords)
        self._metasolver = False
        self.options.solver = "auglag"

    def _default_executable(self) -> str:
        return sys.executable

    def _get_version(self) -> tuple[int, ...]:
        return tuple(int(part) for part in __version__.split(".")[:3] if part.isdigit())

    def create_command_line(self, executable: str, problem_files: list[str]) -> Any:
        """`python -m auglag.ampl MODEL.nl -AMPL key=value ...`; Pyomo's `timelimit` becomes an option."""
        command = super().create_command_line(executable, problem_files)
        command.env.setdefault("OPENBLAS_NUM_THREADS", "1")  # for vectors, threads cost more than they bring
        first = command.cmd.index(executable)
        if executable == sys.executable:
            command.cmd[first + 1 : first + 1] = ["-m", "auglag.ampl"]
        if self._timelimit is not None:
            if not self._timelimit > 0:
                raise InputError(f"timelimit must be positive, got {self._timelimit!r}")
            command.cmd.append(f"max_seconds={self._timelimit}")
        first_option = command.cmd.index("-AMPL") + 1
        given = command.cmd[first_option:]
        if warning := passed_over(given):
            warnings.warn(warning, stacklevel=2)
        # Who was told here is not told again by the other process; Pyomo states all options in the environment, too.
        command.cmd[first_option:] = [word for word in given if not of_ipopt_alone(word)]
        command.env["auglag_options"] = ""
        return command

    def _execute_command(self, command: Any) -> Any:
        """Run it. auglag keeps the limit itself, from the time when it has started; Pyomo kills only what hangs."""
        limit = self._timelimit
        if limit is not None:
            self._timelimit = limit + GRACE
        try:
            return super()._execute_command(command)
        finally:
            self._timelimit = limit

    def process_output(self, rc: Any) -> Any:
        """What Pyomo makes of the `.sol` file, with the limits told apart."""
        results = super().process_output(rc)
        code = results.solver.id
        if isinstance(code, int) and code in _CONDITIONS:
            results.solver.termination_condition = _CONDITIONS[code]
            results.solver.status = SolverStatus.warning  # an error would keep Pyomo from showing the message
        return results
