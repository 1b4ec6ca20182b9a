"""The worker process: one run per line of JSON on stdin, one record per line of JSON on the original stdout.

Started by `auglag.bench.isolated`; never imported by a parent that wants to survive what solvers do. Whatever a solver
prints goes to stderr, so that it cannot get between the lines.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
import traceback
from dataclasses import replace
from typing import IO, Any

import numpy as np

from auglag._typing import Vector
from auglag.bench import baselines
from auglag.bench.baselines import Answer
from auglag.bench.counted import CountedProblem, LimitReached
from auglag.bench.environment import environment
from auglag.bench.judge import judge
from auglag.bench.record import Ending, Record
from auglag.bench.spec import Run
from auglag.certificate import certificate
from auglag.problems import named
from auglag.problems.base import AbstractProblem


def execute(run: Run) -> Record:
    """Solve, judge, and report; anything a solver raises or returns costs this one record."""
    inner = problem_of(run.problem, run.source, json.dumps(run.params))
    baseline = baselines.get(run.solver)
    options = baselines.complete(run.solver, run.options)
    problem = CountedProblem(inner, run.limits)
    answer, ending, message = None, Ending.RETURNED, ""
    started, cpu = time.perf_counter(), time.process_time()
    try:
        with np.errstate(all="ignore"):
            answer = baseline.solve(problem, options, run.seed)
    except LimitReached as limit:
        message = f"{limit} used up"
    except Exception as error:
        ending, message = Ending.EXCEPTION, _short(error)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    if problem.exhausted:
        ending = Ending.LIMIT
    record = Record(
        run=run,
        ending=ending,
        message=message,
        n=inner.n,
        m=inner.m,
        values=problem.values,
        gradients=problem.gradients,
        hessians=problem.hessians,
        products=problem.products,
        seconds=seconds,
        cpu=cpu,
        environment=environment(run.solver),
    )
    if answer is not None:
        try:
            return _answered(record, answer, inner)
        except Exception as error:  # what it returned is no answer
            record = replace(record, ending=Ending.EXCEPTION, message=f"unusable answer: {_short(error)}")
    return judged(record, inner, problem.last_x)


def _answered(record: Record, answer: Answer, inner: AbstractProblem) -> Record:
    """The record with what the solver returned, and the judge's numbers."""
    y = None if answer.y is None else np.array(answer.y, dtype=float).ravel()
    extra, history = json.loads(json.dumps([answer.extra, answer.history]))
    record = replace(
        record,
        message=record.message or str(answer.message),
        claims_success=bool(answer.claims_success),
        extra=extra,
        history=history,
    )
    return judged(record, inner, np.array(answer.x, dtype=float).ravel(), y)


def judged(record: Record, inner: AbstractProblem, x: Vector, y: Vector | None = None) -> Record:
    """The record with the verdict on x."""
    verdict = judge(inner, x, y)
    return replace(
        record,
        objective=verdict.objective,
        violation=verdict.violation,
        stationarity=verdict.stationarity,
        residual=_residual(inner, x, y) if y is not None else record.residual,
        x=tuple(x.tolist()),
    )


@functools.lru_cache(maxsize=1)
def problem_of(name: str, source: str, params: str) -> AbstractProblem:
    """The problem, with its parameters as JSON; runs of several solvers on one problem come in a row."""
    return named.load(name, source, json.loads(params))


def _residual(problem: AbstractProblem, x: Vector, y: Vector) -> float:
    """The paper's R with the solver's own multipliers."""
    fits = x.shape == (problem.n,) and y.shape == (problem.m,)
    if not (fits and np.isfinite(x).all() and np.isfinite(y).all()):
        return float("nan")
    with np.errstate(all="ignore"):
        return float(certificate(problem, x, y).residual)


def _short(error: BaseException) -> str:
    """The error in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}{place}"


def _end_with_parent() -> None:
    """A worker whose parent was killed has nobody to report to."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def serve(source: IO[str], sink: IO[str]) -> None:
    """Answer every line until there are no more."""
    print(json.dumps({"ready": True}), file=sink, flush=True)
    for line in source:
        try:
            answer: dict[str, Any] = {"record": execute(Run.from_dict(json.loads(line))).as_dict()}
        except Exception as error:  # the run itself could not be set up: an unknown problem, a wrong option
            answer = {"error": str(error), "kind": type(error).__name__}
        print(json.dumps(answer), file=sink, flush=True)


def main() -> None:
    """Keep stdout for ourselves and give solvers stderr instead."""
    sink = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    if hasattr(os, "getppid"):
        threading.Thread(target=_end_with_parent, daemon=True).start()
    serve(sys.stdin, sink)


if __name__ == "__main__":
    main()
