"""The AMPL protocol: `auglag STUB -AMPL key=value ...` reads STUB.nl and writes STUB.sol.

AMPL and Pyomo (`SolverFactory("asl:auglag")`) call solvers like this. Options come from the environment variable
`auglag_options` and from the command line, which goes first. `-v` prints the version, `-=` the options. NumPy and SciPy
are all this needs. See docs/ampl.md.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag._version import __version__, described
from auglag.algorithm.status import Status
from auglag.ampl.options import OPTIONS, keywords, parsed, passed_over
from auglag.errors import AuglagError, InputError
from auglag.minimize import minimize
from auglag.problems.nl import NlInfeasible, NlProblem, load
from auglag.problems.nl.reader import read
from auglag.problems.nl.solution import Solution, write
from auglag.result import Result

#: AMPL's solve_result_num: 0 solved, 100 solved?, 200 infeasible, 300 unbounded, 400 limit, 500 failure.
CODES = {
    Status.SOLVED: 0,
    Status.UNCERTIFIED: 100,
    Status.PRECISION_LIMIT: 102,
    Status.INFEASIBLE: 200,
    Status.UNBOUNDED: 300,
    Status.ITERATION_LIMIT: 400,
    Status.EVALUATION_LIMIT: 401,
    Status.TIME_LIMIT: 402,
    Status.STOPPED: 403,
    Status.INTERRUPTED: 404,
    Status.STUCK: 410,  # a limit of precision; after a failure Pyomo would show neither point nor message
    Status.PENALTY_LIMIT: 411,
    Status.NON_FINITE: 500,
    Status.WRONG_DERIVATIVES: 502,
}
#: Solved, but as a continuous problem, and the answer is not integer.
RELAXED = 101
#: No point can meet the bounds, as the file alone shows.
CROSSED_BOUNDS = 201

#: A variable counts as integer if it is this near to one.
INTEGRAL = 1e-6


@final
@dataclass(frozen=True, slots=True)
class Call:
    """A command line, understood."""

    stub: Path
    ampl: bool
    options: dict[str, Any] = field(default_factory=dict)
    warning: str = ""  #: on options that are passed over

    @property
    def writes(self) -> bool:
        """Whether a `.sol` file is asked for."""
        return self.ampl or bool(self.options.get("wantsol", 0) & 1)


def is_call(arguments: Sequence[str]) -> bool:
    """Whether a command line of `auglag` is one of AMPL's rather than one of its commands."""
    if not arguments:
        return False
    if arguments[0] in ("-v", "-=", "-s", "-AMPL"):
        return True
    return len(arguments) > 1 and (arguments[1] == "-AMPL" or (arguments[1] == "-s" and _is_stub(arguments[0])))


def _is_stub(word: str) -> bool:
    return word.endswith(".nl") or Path(word + ".nl").is_file()


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; 0 if an answer was written, whatever it is, 1 for an error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["-v"]:
        print(described())
        return 0
    if words[:1] == ["-="]:
        print("\n".join(f"{name:16} {option.meaning}" for name, option in OPTIONS.items()))
        return 0
    try:
        return _answer(understand(words, os.environ))
    except AuglagError as error:
        print(f"auglag: {error}", file=sys.stderr)
        return 1


def understand(words: Sequence[str], environment: Mapping[str, str]) -> Call:
    """The stub and the options; the command line goes before the environment."""
    flags = {word for word in words if word in ("-AMPL", "-s", "-e", "-f")}
    rest = [word for word in words if word not in flags]
    if not rest or "=" in rest[0] or rest[0].startswith("-"):
        raise InputError("usage: auglag STUB -AMPL [key=value ...], or -s instead of -AMPL; auglag -= lists the keys")
    stub = Path(rest[0])
    if stub.suffix != ".nl":
        stub = stub.with_name(stub.name + ".nl")
    words = [*shlex.split(environment.get("auglag_options", "")), *rest[1:]]
    options = parsed(words)
    if "-s" in flags:
        options["wantsol"] = options.get("wantsol", 0) | 1
    return Call(stub, "-AMPL" in flags, options, passed_over(words))


def _answer(call: Call) -> int:
    """Load, solve, write, say."""
    target = call.stub.with_suffix(".sol")
    if call.writes:
        target.unlink(missing_ok=True)  # an old answer must not be taken for one to this problem
    objno = call.options.get("objno", 1)
    echo = " ".join(f"{name}={value}" for name, value in call.options.items())
    print(f"auglag {__version__}: {echo}".rstrip(": "), flush=True)
    if call.warning:
        print(f"auglag: {call.warning}", file=sys.stderr)
    try:
        problem = load(call.stub, objective=objno - 1 if objno else None)
    except NlInfeasible as error:
        solution, header = _crossed(call.stub, error), read(call.stub).header
    else:
        solution, header = answer(problem, solve(problem, call.options)), problem.header
    if call.writes:
        try:
            write(target, header, solution)
        except OSError as error:
            raise InputError(f"the .sol file must be writable, got {str(target)!r} ({error.strerror})") from None
    _say(call, solution)
    return 0


def solve(problem: NlProblem, options: Mapping[str, Any]) -> Result:
    """The result of `auglag.minimize` under options of the protocol."""
    start = (problem.x0, problem.y0) if options.get("warm_start", False) else None
    return minimize(problem, warm_start=start, **keywords(options))


def answer(problem: NlProblem, result: Result) -> Solution:
    """The result in AMPL's terms.

    Duals are derivatives of the optimal value by the right-hand side, -y, or y where the file maximises. The suffixes
    are those by the lower and the upper bound, as IPOPT's, under its names and ours, for all variables, zeros too: who
    starts from them later looks each one up.
    """
    sign = -1.0 if problem.maximise else 1.0
    z = sign * result.bound_multipliers
    by_lower, by_upper = np.where(sign * z < 0.0, -z, 0.0), np.where(sign * z > 0.0, -z, 0.0)
    suffixes: dict[str, Vector] = {}
    for owner in ("auglag", "ipopt"):
        suffixes |= {f"{owner}_zL_out": by_lower, f"{owner}_zU_out": by_upper}
    code, lines = CODES[result.status], [f"auglag {__version__}: {result.message}"]
    objective = f"Objective {sign * result.fun + 0.0:.10g}; " if problem.objective is not None else ""
    calls = max(result.nfev, result.constr_nfev)
    lines.append(f"{objective}{result.nit} outer and {result.nit_inner} inner iterations, {calls} evaluations.")
    relaxed = problem.integer_variables
    if relaxed.size:
        lines.append(f"Ignored the integrality of {relaxed.size} variables.")
        fractional = np.abs(result.x[relaxed] - np.round(result.x[relaxed])) > INTEGRAL
        if code == 0 and fractional.any():
            code = RELAXED
            name = problem.variable_name(int(relaxed[np.flatnonzero(fractional)[0]]))
            lines.append(f"{int(fractional.sum())} of them are not integer in the solution, {name} among them.")
    lines += [f"Try: {advice}" for advice in result.advice]
    index = -1 if problem.objective is None else problem.objective
    return Solution("\n".join(lines), result.x, 0.0 - sign * result.y, code, max(index, 0), suffixes)


def _crossed(stub: Path, error: NlInfeasible) -> Solution:
    model = read(stub)
    x: Vector = model.x0
    return Solution(f"auglag {__version__}: Infeasible: {error}", x, np.zeros(model.cl.size), CROSSED_BOUNDS, 0)


def _say(call: Call, solution: Solution) -> None:
    wanted = call.options.get("wantsol", 0)
    if not (call.ampl or wanted & 8):
        print(solution.message)
    for bit, name, values in ((2, "x", solution.x), (4, "dual", solution.duals)):
        if wanted & bit:
            print("\n".join(f"{name}[{i}] = {value!r}" for i, value in enumerate(values.tolist())))
