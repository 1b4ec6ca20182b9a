"""The format of a log, version 1: which lines there are, and what each field holds.

A line is a JSON object with an `event`: first "start", then "iteration" (one per outer iteration), before each of them
"step" (one per accepted step) and, for sampled data, "test" (one per full-batch test), last "end". A number that is not
finite, or not known, is null. Readers ignore fields and events they do not know; a change that they could not ignore
raises `VERSION`.
"""

from __future__ import annotations

import math
from typing import Any

from auglag.errors import AuglagError

VERSION = 1
#: What `start` calls the format, so that a file can be told from other JSON lines.
FORMAT = "auglag-log"

#: event -> field -> what it holds.
FIELDS: dict[str, dict[str, str]] = {
    "start": {
        "event": '"start"',
        "format": f'"{FORMAT}"',
        "version": f"{VERSION}: of this format",
        "time": "when the run began, UTC, ISO 8601",
        "problem": "the problem's name, or an empty string",
        "n": "variables",
        "m": "constraint rows",
        "rows": "names of the rows whose multipliers are logged, in order",
        "tol": "the tolerance on the residual R",
        "options": "what was asked for: an object of strings, numbers and booleans",
        "resumed": "true if the run goes on from a checkpoint; its lines follow those of the run before",
        "versions": "of auglag, Python, NumPy and SciPy",
        "pid": "the process",
        "host": "the machine",
    },
    "iteration": {
        "event": '"iteration"',
        "k": "the outer iteration, from 1, in this attempt",
        "attempt": "0 from x0, then the number of the restart",
        "seconds": "since the run began, time before a resume included",
        "objective": "f + g",
        "residual": "R = stationarity + violation, in the user's units",
        "violation": "of the constraints, 2-norm, in the user's units",
        "stationarity": "residual - violation",
        "beta": "the penalty of the subproblem",
        "eta": "the tolerance of the subproblem",
        "multiplier_norm": "|y|, 2-norm, of the multipliers that belong to x",
        "multipliers": "y itself where there are at most 50 rows (`JsonLog.multipliers`), else null",
        "usable": "false if the subproblem was unbounded or undefined; x and y stayed",
        "inner_status": "how the inner solver ended",
        "inner_iterations": "of this outer iteration",
        "evaluations": "gradients of the augmented Lagrangian in this outer iteration",
        "work": "an object of totals so far: nfev, njev, ... or, for sampled data, epochs and gradients",
    },
    "step": {
        "event": '"step"',
        "kind": '"inner", "newton" or "interior": a step of the inner solver, of Newton\'s method, of interior points',
        "step": "steps of all kinds so far, in this run",
        "k": "the outer iteration that the step is a part of",
        "attempt": "0 from x0, then the number of the restart",
        "seconds": "since the run began, time before a resume included",
        "objective": "f + g",
        "residual": "inner: stationarity of the subproblem + violation; newton, interior: the largest KKT error",
        "violation": "of the constraints, 2-norm, in the user's units",
        "beta": "the penalty of the subproblem, or of the last one",
    },
    "test": {
        "event": '"test"',
        "k": "the outer iteration; 0 for the start",
        "p": "the round of Algorithm 2",
        "steps": "of the sampled method in this round",
        "seconds": "since the run began",
        "objective": "f + g over all rows",
        "residual": "R over all rows",
        "violation": "over all rows",
        "stationarity": "dist(-grad L, dg) over all rows",
        "accepted": "whether the subproblem ended here",
        "work": "epochs and gradients so far",
    },
    "end": {
        "event": '"end"',
        "time": "when the run ended, UTC, ISO 8601",
        "status": "a name of auglag.Status, or EXCEPTION",
        "success": "true only if the certificate meets tol",
        "message": "the status in words",
        "advice": "what to try, a list of sentences",
        "objective": "f + g at the returned point",
        "residual": "R of the certificate, recomputed on the original problem",
        "violation": "of the certificate",
        "stationarity": "of the certificate",
        "penalty": "beta of the last subproblem",
        "nit": "outer iterations",
        "nit_inner": "inner iterations, all together",
        "seconds": "wall-clock time",
        "work": "totals, as in the iterations",
        "x": "the point, where it has at most 1000 entries, else null",
        "multipliers": "y, where there are at most 1000 rows, else null",
    },
}


class LogError(AuglagError):
    """A file is no log of auglag, or one of a newer version."""


def plain(value: Any) -> Any:
    """A value as JSON takes it: numbers that are not finite as null, anything unknown as its text."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def clock(seconds: float) -> str:
    """1:05, or 2:03:04."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def duration(seconds: float) -> str:
    """Seconds in words: 3.2 s, 4:05, 1:02:03."""
    return f"{seconds:.1f} s" if seconds < 60 else clock(seconds)
