"""Where the CPU time of a call on a small problem goes, and what other uses of one cost: HS71.

Redo with: python benchmarks/small_budget.py (writes benchmarks/results/small_budget.md; half a minute)
The budget of the call with first derivatives is the time inside some functions of auglag, one of which at a time is
wrapped by a clock; of 60 runs the fastest counts. The table beside other solvers is that of `small_problems.py`.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import contextlib
import cProfile
import importlib
import pstats
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import scipy.optimize as so
from small_problems import TOL, load_of_machine, ours, rows_of, slsqp

import auglag
from auglag.kkt import lapack
from auglag.kkt.linear import dense
from auglag.problems.hock_schittkowski import PROBLEMS

#: label, module of auglag, function; an indented label is a part of the one above it that is less indented.
PARTS = [
    ("the arguments become a problem", "given", "problem_of"),
    ("derivatives at the start are checked", "problems.functions", "Problem.check_derivatives"),
    ("units, scaling, the scaled form, the first error", "strategy.driver", "Run.starts_solved"),
    ("Newton's method", "strategy.newton", "by_newton"),
    ("- the quadratic programmes", "kkt.solver", "solve"),
    ("-- factorisations", "kkt.active_set", "_Corrected.factor"),
    ("-- solves", "kkt.linear.dense", "DenseFactor.solve"),
    ("- the models", "algorithm.lagrangian", "AugmentedLagrangian.model"),
    ("-- Hessians from first derivatives", "kkt.curvature", "structured_sr1"),
    ("- KKT errors, with gradients and Jacobians", "problems.standard_form", "StandardForm.error"),
    ("- certificates on the way", "strategy.newton", "Watch.__call__"),
    ("is it a minimum?", "strategy.departures", "look"),
    ("values once more, derivatives at the end, result", "strategy.driver", "Run.keep"),
]


def fastest_calls(functions, repeats=200):
    """label -> CPU seconds of the fastest call; the functions take turns."""
    times = {label: [] for label in functions}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for _ in range(repeats):
            for label, function in functions.items():
                start = time.thread_time()
                function()
                times[label].append(time.thread_time() - start)
    return {label: min(found) for label, found in times.items()}


def other_uses(known):
    """Lines on what else is done with a small problem."""
    rows, bounds = rows_of(known, 1), so.Bounds(known.lower, known.upper)
    bare = [so.NonlinearConstraint(r.fun, r.lower, r.upper) for r in known.rows]
    first = {"jac": known.grad, "bounds": bounds, "constraints": rows}
    solution = auglag.minimize(known.fun, known.x0, tol=TOL, **first)
    values = {"x0": known.x0, "bounds": bounds, "constraints": bare}
    uses = {
        "`minimize`": ours(known, 1),
        "`minimize(..., check_derivatives=False)`": lambda: auglag.minimize(
            known.fun, known.x0, tol=TOL, check_derivatives=False, **first
        ),
        "`minimize(..., warm_start=result)`, solved already": lambda: auglag.minimize(
            known.fun, warm_start=solution, tol=TOL, **first
        ),
        "`certify(..., x)`, multipliers by least squares": lambda: auglag.certify(known.fun, solution.x, **first),
        "`scipy.optimize.minimize(method=scipy_method)`": lambda: so.minimize(
            known.fun, known.x0, method=auglag.scipy_method, **first
        ),
        "SLSQP": slsqp(known),
        "`minimize` without derivatives": lambda: auglag.minimize(known.fun, tol=TOL, **values),
        "SLSQP without derivatives": lambda: so.minimize(known.fun, method="SLSQP", tol=1e-12, **values),
    }
    lines = ["| call | milliseconds |", "|---|---|"]
    return lines + [f"| {label} | {1e3 * seconds:.2f} |" for label, seconds in fastest_calls(uses, 60).items()]


def clocked(function, clock):
    def call(*arguments, **options):
        if clock["inside"]:  # recursion, and a part inside of itself, count once
            return function(*arguments, **options)
        clock["inside"], start = True, time.thread_time()
        try:
            return function(*arguments, **options)
        finally:
            clock["inside"] = False
            clock["calls"], clock["seconds"] = clock["calls"] + 1, clock["seconds"] + time.thread_time() - start

    return call


def inside(run, module, path, repeats=60):
    """(seconds inside a function of auglag in the fastest of some runs, calls)."""
    owner, name = importlib.import_module(f"auglag.{module}"), path.rpartition(".")[2]
    for part in path.split(".")[:-1]:
        owner = getattr(owner, part)
    original, clock, found = getattr(owner, name), {"inside": False}, []
    owners = (
        [owner] if isinstance(owner, type) else [m for m in sys.modules.values() if m.__dict__.get(name) is original]
    )
    wrapped = clocked(original, clock)
    for place in owners:
        setattr(place, name, wrapped)
    try:
        for _ in range(repeats):
            clock["calls"], clock["seconds"] = 0, 0.0
            run()
            found.append((clock["seconds"], clock["calls"]))
    finally:
        for place in owners:
            setattr(place, name, original)
    return min(found)


def users_seconds(known):
    """(seconds inside the functions of the problem, calls), by a clock around each of them."""
    clock, found = {"inside": False}, []
    rows = [replace(r, fun=clocked(r.fun, clock), jac=clocked(r.jac, clock)) for r in known.rows]
    watched = replace(known, fun=clocked(known.fun, clock), grad=clocked(known.grad, clock), rows=tuple(rows))
    run = ours(watched, 1)
    for _ in range(60):
        clock["calls"], clock["seconds"] = 0, 0.0
        run()
        found.append((clock["seconds"], clock["calls"]))
    return min(found)


def budget(known):
    """Lines that say where the time of a call goes."""
    run = ours(known, 1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        total = fastest_calls({"all": run})["all"]
        parts = [(label, *inside(run, module, path)) for label, module, path in PARTS]
        parts.append(("the problem's own functions, in all of these", *users_seconds(known)))
    lines = ["| part | microseconds | calls |", "|---|---|---|", f"| all | {1e6 * total:.0f} | 1 |"]
    for label, seconds, calls in parts:
        depth = len(label) - len(label.lstrip("-"))
        lines.append(f"| {'&ensp;' * depth}{label.lstrip('- ')} | {1e6 * seconds:.0f} | {calls} |")
    return lines


def operations(known):
    """Lines on what a call consists of: how many functions are called, and what the smallest operations cost."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        profile = cProfile.Profile()
        profile.runcall(ours(known, 1))
    counts = {place: found[1] for place, found in pstats.Stats(profile).stats.items()}
    python = sum(count for place, count in counts.items() if not place[0].startswith(("~", "<")))
    x, matrix, mask = np.arange(4.0), np.eye(4), np.arange(4) > 1
    single = {
        "x - y": lambda: x - x,
        "x > 0.0": lambda: x > 0.0,
        "A.dot(x)": lambda: matrix.dot(x),
        "np.where(mask, x, y)": lambda: np.where(mask, x, x),
        "math.sqrt(x.dot(x))": lambda: auglag._norms.norm(x),
    }
    costs = ", ".join(f"`{label}` {1e6 * per_call(function):.2f}" for label, function in single.items())
    return [
        f"A call executes {python} Python functions and {sum(counts.values()) - python} functions in C; operators of",
        "arrays are not among them. One operation on four numbers, in a loop that does nothing else, takes, in",
        f"microseconds: {costs}.",
    ]


def bare(known):
    """Lines on what is left if only the problem's functions and LAPACK are called, with the arguments of a run."""
    calls = []

    def noted(function):
        def call(*arguments, **options):
            calls.append((function, arguments, options))
            return function(*arguments, **options)

        return call

    rows = [replace(r, fun=noted(r.fun), jac=noted(r.jac)) for r in known.rows]
    watched = replace(known, fun=noted(known.fun), grad=noted(known.grad), rows=tuple(rows))
    places = [(dense, name) for name in ("dsytrf", "dsytrs")] + [(lapack, name) for name in ("dsyevr", "dgesdd")]
    with contextlib.ExitStack() as patches, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for module, name in places:
            patches.enter_context(patch.object(module, name, noted(getattr(module, name))))
        ours(watched, 1)()

    def again():
        for function, arguments, options in calls:
            function(*arguments, **options)

    return [
        f"The problem's functions and LAPACK alone, {len(calls)} calls with the arguments of a run and nothing between",
        f"them, take {1e6 * fastest_calls({'bare': again})['bare']:.0f} microseconds. That is the part no other way of",
        "writing the same steps and checks can save; the rest is vectors of four numbers on their way between these",
        "calls, and the checks of them.",
    ]


def per_call(function, calls=2000):
    """Seconds of one call in a loop, less those of an empty one."""
    return min(_loop(function, calls) for _ in range(20)) - min(_loop(lambda: None, calls) for _ in range(20))


def _loop(function, calls):
    start = time.thread_time()
    for _ in range(calls):
        function()
    return (time.thread_time() - start) / calls


#: What the table means. Instructions were counted by Valgrind: all of a call by cachegrind (130 calls less 30), the
#: shares by callgrind.
WHY = """\
The profile is flat, and much of it is what is promised: derivatives are checked at both ends, values at the solution
are computed twice, the certificate and the look at the curvature come after the last step. A call executes 18 to 19
million instructions: 27 % of them in NumPy's elementwise functions, 7 % in its products, 18 % in the loop of Python's
interpreter itself, the rest in making arrays, calls and lookups. An operation on four numbers costs what is said above,
whatever is computed. A sweep of the active sets (factorisation, solve, new sets) consists of dozens of them: 23
microseconds where it is repeated alone, 35 in its place between all the others, probably because a whole call does not
stay in the fastest caches.

Tried, on the condition that all digits stay the same: no new sets where they did not change, constants of a problem
kept, arguments checked in one pass, scaling without the case of small units. Together this saves 2 % of the
instructions (18.9 to 18.5 million), which clocks beside other work do not show. 4.5 times SLSQP would need almost a
third of all operations to go. The quadratic programmes and the Hessians, the obvious candidates for compiled code, are
a third of the time together.

Without derivatives there was more to find: the steps of differences at one x are made once for f and all constraints,
and the nodes once for all columns. That took a call from 7.6 to 5.8 milliseconds, measured side by side.

Most of the time of `import auglag` beyond NumPy and SciPy (0.06 of 0.09 s) is the making of 139 dataclasses, with
Python 3.11."""


def main():
    known = PROBLEMS["HS71"]
    lines = [
        "# Where the time of a small problem goes",
        "",
        "HS71: n = 4, one equation, one inequality, bounds; tol 1e-6. Redo with `python benchmarks/small_budget.py`.",
        f"CPU time, the fastest of many runs. {load_of_machine()}",
        "Beside other solvers: [small_problems.md](small_problems.md).",
        "",
        "## With first derivatives",
        "",
        *budget(known),
        "",
        *operations(known),
        "",
        *bare(known),
        "",
        "## Why it is not less",
        "",
        WHY,
        "",
        "## Other uses",
        "",
        "First derivatives where nothing else is said. Calls take turns, so that none has the caches to itself.",
        "",
        *other_uses(known),
    ]
    print("\n".join(lines))
    (Path(__file__).parent / "results" / "small_budget.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
