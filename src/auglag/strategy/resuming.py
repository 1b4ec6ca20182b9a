"""What a run saves of itself, and how it takes that up again."""

from __future__ import annotations

import hashlib
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.errors import CheckpointError
from auglag.kkt import Memory
from auglag.problems.base import Counts
from auglag.strategy.old_checkpoint import State
from auglag.strategy.restoration import Restoration

if TYPE_CHECKING:
    from auglag.strategy.run import Run


def fingerprint(run: Run) -> dict[str, Any]:
    """What must be the same for a saved state to fit."""
    problem = run.original
    return {
        "n": problem.n,
        "m": problem.m,
        "tol": run.tol,
        "settings": re.sub(r" at 0x[0-9a-f]+", "", repr(run.settings)),
        "x0": problem.x0.tolist() if problem.n <= 10 else _digest(problem.x0),
        "bounds": _digest(problem.lower, problem.upper),
        "constraint sides": _digest(problem.cl, problem.cu),
    }


def state(run: Run, x: Vector, y: Vector) -> State:
    """All that evolves, with (x, y) as the next iteration gets them."""
    assert run.form is not None
    nowhere = np.zeros(0)
    return State(
        fingerprint=fingerprint(run),
        x=x,
        y=y,
        history=run.history,
        best_x=run.best.x,
        best_y=run.best.y,
        best_residual=run.best.residual,
        sf=run.form.scaling.sf,
        sc=run.form.scaling.sc,
        start_x=run.start_x,
        diverged=run.depth.diverged if run.depth.diverged is not None else nowhere,
        counts=run.used().as_dict(),
        seconds=run.guard.seconds,
        restorations=run.restorations,
        level=run.best.level,
        refined_now=run.refined_now,
        unbounded=run.depth.limit,
        finishes=run.accelerator.finishes,
        finish_error=run.accelerator.error,
        noted=run.accelerator.noted,
        inside=run.accelerator.inside,
        origin=run.accelerator.origin if run.accelerator.origin is not None else nowhere,
        attempt=run.attempt,
        first=None if run.first is None else run.first.name,
        earlier=run.earlier,
        finding=run.finding.violation if run.finding is not None else math.inf,
        least=run.finding.x if run.finding is not None else nowhere,
        memory=run.memory.arrays(),
    )


def resume(run: Run, saved: State) -> tuple[Vector, Vector]:
    """Put a saved state into a run that is set up; (x, y) to go on from."""
    assert run.form is not None
    if (saved.x.shape, saved.y.shape) != ((run.form.n,), (run.form.m,)):
        raise CheckpointError(
            f"{run.hooks.resume} is not a usable checkpoint of this run: it must hold {run.form.n} variables "
            f"and {run.form.m} multipliers, got {saved.x.size} and {saved.y.size}"
        )
    best = run.best
    run.history, run.restorations = saved.history, saved.restorations
    best.x, best.y, best.residual = saved.best_x, saved.best_y, saved.best_residual
    run.depth.diverged = saved.diverged if saved.diverged.size else None
    run.depth.limit = saved.unbounded
    run.accelerator.finishes, run.accelerator.error = saved.finishes, saved.finish_error
    run.accelerator.noted, run.accelerator.inside = saved.noted, saved.inside
    run.accelerator.origin = saved.origin if saved.origin.size else None
    run.attempt, run.earlier = saved.attempt, saved.earlier
    run.first = None if saved.first is None else Status[saved.first]
    run.finding = Restoration(saved.least, saved.finding, "infeasible") if saved.least.size else None
    run.memory = Memory.restored(saved.memory)
    run.problem.refine(saved.level)
    best.level, run.refined_now = saved.level, saved.refined_now
    best.point = run.problem.at(best.x)
    for point in (best.point, run.problem.at(run.form.user_x(saved.x))):  # known before: not counted again
        _ = point.f, point.c
        if not saved.refined_now:
            _ = point.grad, point.jac if run.problem.m else None
    run.spent(Counts(**saved.counts), saved.seconds)
    return saved.x, saved.y


def _digest(*arrays: Vector) -> str:
    """A short fingerprint of arrays."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:16]
