"""The AMPL protocol: `auglag STUB -AMPL key=value ...` reads STUB.nl and writes STUB.sol.

AMPL and Pyomo (`SolverFactory("asl:auglag")`) call solvers like this. Options come from the environment variable
`auglag_options` and from the command line, which goes first. `-v` prints the version, `-=` the options. NumPy and SciPy
are all this needs. See docs/ampl.md.
"""

from __future__ import annotations

import math
import os
import platform
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag._version import __version__
from auglag.algorithm.status import Status
from auglag.budget import Budget
from auglag.errors import AuglagError, InputError, OptionError
from auglag.inner import SOLVERS
from auglag.log import JsonLog
from auglag.minimize import minimize
from auglag.problems.constraints import nearest
from auglag.problems.nl import NlInfeasible, NlProblem, load
from auglag.problems.nl.reader import read
from auglag.problems.nl.solution import Solution, write
from auglag.result import Result
from auglag.strategy.settings import PRESETS, VARIANTS

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
class Option:
    """One keyword of the protocol: how to read its value, and what it means."""

    read: Callable[[str, str], Any]
    meaning: str


def _real(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise InputError(f"{name} must be a positive number, got {value!r}")
    return number


def _whole(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 12:
        raise InputError(f"{name} must be an integer of at least 0, got {value!r}")
    return int(value)


def _flag(name: str, value: str) -> bool:
    words = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}
    if value.lower() not in words:
        raise InputError(f"{name} must be yes or no (or 1 or 0), got {value!r}")
    return words[value.lower()]


def _word(name: str, value: str) -> str:
    return value


OPTIONS: dict[str, Option] = {
    "tol": Option(_real, "success means a certified residual of at most this (1e-6)"),
    "max_iter": Option(_whole, "limit on outer iterations (200)"),
    "max_inner": Option(_whole, "limit on inner iterations of one subproblem (2000)"),
    "max_evaluations": Option(_whole, "limit on evaluations (none)"),
    "max_seconds": Option(_real, "limit on wall-clock time (none); also timelimit, max_wall_time"),
    "variant": Option(_word, ", ".join(VARIANTS)),
    "preset": Option(_word, ", ".join(PRESETS)),
    "inner": Option(_word, "inner solver: auto, " + ", ".join(SOLVERS)),
    "slacks": Option(_word, "closed, explicit"),
    "scaling": Option(_flag, "yes: scale f and c by their gradients at the start"),
    "presolve": Option(_flag, "yes: rows that are empty, bounds or multiples of others are taken off first"),
    "restoration": Option(_flag, "yes: check for infeasibility on suspicion"),
    "warm_start": Option(_flag, "yes: start from the duals in the .nl file (no)"),
    "objno": Option(_whole, "which objective, from 1; 0 for none (1)"),
    "outlev": Option(_whole, "1: a line for each outer iteration (0); also print_level"),
    "log": Option(_word, "a file for a line of JSON per outer iteration, which `auglag watch` shows (none)"),
    "wantsol": Option(_whole, "sum of 1: write STUB.sol without -AMPL, 2: print x, 4: print duals, 8: no message"),
}
ALIASES = {"timelimit": "max_seconds", "max_wall_time": "max_seconds", "print_level": "outlev"}


@final
@dataclass(frozen=True, slots=True)
class Call:
    """A command line, understood."""

    stub: Path
    ampl: bool
    options: dict[str, Any] = field(default_factory=dict)

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
        print(f"auglag {__version__} ({platform.system()} {platform.machine()}), Python {platform.python_version()}")
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
    options = _options(shlex.split(environment.get("auglag_options", ""))) | _options(rest[1:])
    if "-s" in flags:
        options["wantsol"] = options.get("wantsol", 0) | 1
    return Call(stub, "-AMPL" in flags, options)


def _options(words: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        name = ALIASES.get(key, key)
        if name not in OPTIONS:
            raise OptionError(f"there is no option {key!r}{nearest(key, OPTIONS)}")
        if not equals:
            raise InputError(f"an option must be written key=value, got {word!r}")
        found[name] = OPTIONS[name].read(key, value)
    return found


def _answer(call: Call) -> int:
    """Load, solve, write, say."""
    target = call.stub.with_suffix(".sol")
    if call.writes:
        target.unlink(missing_ok=True)  # an old answer must not be taken for one to this problem
    objno = call.options.get("objno", 1)
    echo = " ".join(f"{name}={value}" for name, value in call.options.items())
    print(f"auglag {__version__}: {echo}".rstrip(": "), flush=True)
    try:
        problem = load(call.stub, objective=objno - 1 if objno else None)
    except NlInfeasible as error:
        solution, header = _crossed(call.stub, error), read(call.stub).header
    else:
        solution, header = answer(problem, _solve(problem, call.options)), problem.header
    if call.writes:
        try:
            write(target, header, solution)
        except OSError as error:
            raise InputError(f"the .sol file must be writable, got {str(target)!r} ({error.strerror})") from None
    _say(call, solution)
    return 0


def _solve(problem: NlProblem, options: Mapping[str, Any]) -> Result:
    limits = {"max_iter": "outer", "max_inner": "inner", "max_evaluations": "evaluations", "max_seconds": "seconds"}
    rules = ("tol", "variant", "preset", "inner", "slacks", "scaling", "presolve", "restoration")
    run: Any = minimize
    return run(  # type: ignore[no-any-return]
        problem,
        budget=Budget(**{limits[name]: value for name, value in options.items() if name in limits}),
        warm_start=(problem.x0, problem.y0) if options.get("warm_start", False) else None,
        progress=options.get("outlev", 0) > 0,
        callback=JsonLog(options["log"]) if "log" in options else None,
        **{name: options[name] for name in rules if name in options},
    )


def answer(problem: NlProblem, result: Result) -> Solution:
    """The result in AMPL's terms.

    Duals are derivatives of the optimal value by the right-hand side, -y, or y where the file maximises. The suffixes
    are those by the lower and the upper bound, as IPOPT's, under its names and ours.
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


if __name__ == "__main__":
    sys.exit(main())
