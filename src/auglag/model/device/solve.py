"""`Model.solve(device=...)`: the device loop from a problem to a solution with its certificate."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.budget import Budget
from auglag.certificate import Certificate, Tolerance, certificate
from auglag.certificate.multipliers import cheap_fit
from auglag.errors import InputError
from auglag.model.device import loop
from auglag.model.device.linear import Sparse, chosen, require_device
from auglag.model.device.on_sides import OnSides
from auglag.model.device.program import Program
from auglag.model.device.records import Iterate
from auglag.model.device.state import Run, Watch
from auglag.model.device.tuning import TUNING
from auglag.model.precision import double
from auglag.model.problem import ModelProblem
from auglag.problems.presolve import reduction
from auglag.problems.scaling import Scaling
from auglag.problems.standard_form import StandardForm
from auglag.strategy import tuning as strategy
from auglag.strategy.unboundedness import look


class Found(NamedTuple):
    """What a run on a device found, in the user's units."""

    x: Vector
    y: Vector
    certificate: Certificate
    status: Status
    steps: int
    seconds: float
    details: Mapping[str, Any]


class Prepared(NamedTuple):
    """What is kept from one solve to the next of the same structure: the program and the analysed pattern."""

    program: Program
    on_sides: OnSides
    linear: Sparse
    key: tuple[Any, ...]


def prepared(
    problem: ModelProblem, before: Prepared | None, device: Any, linear_solver: str | None, *, deterministic: bool
) -> Prepared:
    """The program and the linear solver for a problem, those of before if they fit."""
    fixed, equal = problem.lower >= problem.upper, problem.cl == problem.cu
    key = (id(problem.structure), device, linear_solver, deterministic, fixed.tobytes(), equal.tobytes())
    if before is not None and before.key == key:
        return before
    program = Program(problem.structure, problem, device, deterministic=deterministic)
    linear = chosen(program.pattern, device.platform, linear_solver, deterministic=deterministic)
    return Prepared(program, OnSides(program), linear, key)


def solve(
    problem: ModelProblem,
    before: Prepared | None,
    *,
    device: str,
    tol: Any = 1e-6,
    scaled_tol: float = 1e-8,
    budget: Budget | None = None,
    warm_start: Any = None,
    linear_solver: str | None = None,
    deterministic: bool = False,
    watch: Watch | None = None,
) -> tuple[Found, Prepared]:
    """Run the device loop on a problem.

    `tol` is that of `auglag.minimize`: it is compared with the certificate, in the user's units. The loop goes on until
    the scaled error, as IPOPT measures it, is at most `scaled_tol`, too. Of a `Budget` inner iterations (steps) and
    seconds count.
    """
    tolerance = Tolerance.of(tol)
    if not 0.0 < scaled_tol < 1.0:
        raise InputError(f"scaled_tol must lie in (0, 1), got {scaled_tol!r}")
    if not isinstance(deterministic, bool):
        raise InputError(f"deterministic must be True or False, got {deterministic!r}")
    if budget is not None and not isinstance(budget, Budget):
        raise InputError(f"budget must be an auglag.Budget, got {budget!r:.80}")
    if watch is not None and not callable(watch):
        raise InputError(f"watch must be callable as watch(step, facts), got {watch!r:.80}")
    begun = time.perf_counter()
    place = require_device(device)
    with double(), jax.default_device(place):
        ready = prepared(problem, before, place, linear_solver, deterministic=deterministic)
        problem.data = ready.program.elsewhere
        data = ready.program.data(problem)
        if ready is not before and place.platform == "gpu":
            ready.program.compile_all(data, ready.on_sides.calls)
        made = time.perf_counter() - begun
        run = Run(
            ready.program,
            ready.on_sides,
            data,
            ready.linear,
            tol=tolerance.residual,
            scaled_tol=scaled_tol,
            steps=TUNING.most_steps if budget is None else budget.inner_limit,
            seconds=math.inf if budget is None or budget.seconds is None else budget.seconds,
            watch=watch,
            endless=partial(_endless, problem, tolerance.residual),
            conflicts=lambda: _conflict(problem, tolerance.residual),
            certifies=lambda it: _certificate(problem, *_point(ready.program, data, problem, it)).meets(tolerance),
        )
        x, y = (problem.x0, None) if warm_start is None else warm_start
        ended = loop.go(run, loop.start(run, x, y))
        x, y = _point(ready.program, data, problem, ended.it)
        check = _certificate(problem, x, y)
        if ended.status is Status.SOLVED and not check.meets(tolerance):
            check = _fitted(problem, x, check, tolerance)
            y = check.multipliers
    status = ended.status.certified(check.meets(tolerance), limited=check.limited(tolerance))
    times = ended.times
    details = {
        "device": device,
        "linear solver": ready.linear.name,
        "preparation": made,
        "analysis": ready.linear.analysis,
        "loop": times.total,
        "to scaled_tol": times.met,
        "evaluation": times.evaluation,
        "factor": times.factor,
        "solve": times.solve,
        "factorisations": times.factorisations,
        "solves": times.solves,
        "corrections": times.corrections,
        "restorations": run.repairs,
        "elastic": times.elastic,
        "error": ended.facts.error,
        "size": ready.program.pattern.shape[0],
        "conflict": run.conflict if status is Status.INFEASIBLE else "",
        "log": tuple(times.log),
    }
    return Found(x, y, check, status, ended.steps, time.perf_counter() - begun, details), ready


def _point(program: Program, data: Mapping[str, Any], problem: ModelProblem, it: Iterate) -> tuple[Vector, Vector]:
    """x and y of an iterate, in the user's units and within the bounds."""
    x, y, _ = (np.asarray(part) for part in program.last(data, it))
    return np.clip(np.where(program.fixed, problem.lower, x), problem.lower, problem.upper), y


def _certificate(problem: ModelProblem, x: Vector, y: Vector) -> Certificate:
    with np.errstate(over="ignore"):  # where the objective fell without end
        return certificate(problem, x, y)


def _fitted(problem: ModelProblem, x: Vector, check: Certificate, tolerance: Tolerance) -> Certificate:
    """The certificate with other multipliers, where that meets the tolerance: fitted ones, or none.

    Without an objective, say, those of a run are rounding errors.
    """
    other = certificate(problem, x, None if cheap_fit(problem) else np.zeros(problem.m), enough=tolerance.residual)
    return other if other.meets(tolerance) else check


def _conflict(problem: ModelProblem, tol: float) -> str:
    found = reduction(problem, tol)
    return "" if found is None else found.conflict


def _endless(problem: ModelProblem, tol: float, x: Vector, depth: float) -> bool:
    """Whether the objective falls without end at feasible points, as `auglag.minimize` finds out."""
    form = StandardForm(problem, Scaling.none(problem.m))
    tuning, start = strategy.TUNING, problem.x0
    depth /= max(1.0, abs(problem.f(start)))
    limit = tuning.further_search
    return look(form, "auto", start=start, diverged=x, depth=depth, tol=tol, limit=limit, tuning=tuning).endless
