"""When a run is accelerated, what is adopted of it, and when it ends the run (the steps are in `acceleration.py`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, final

import numpy as np

from auglag._typing import Vector
from auglag.acceleration import Attempt
from auglag.certificate import certificate
from auglag.result import Status
from auglag.rules import History, Iteration

if TYPE_CHECKING:
    from auglag.run import Run

#: The status of a row of the history that an acceleration ended.
ACCELERATED = "ACCELERATED"
#: The acceleration aims at this fraction of tol (relative to the gradient of f): its last step costs little.
AIM = 4e-3
#: Accelerations that met the tolerance but not their aim, and got no nearer to it, before it is let be.
EXTRA = 2


@final
class Accelerator:
    """SQP before the first and after each iteration of one attempt; what it remembers goes into checkpoints."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.steps = 0  #: of the acceleration before the iteration to come
        self.finishes = 0  #: accelerations that came near the end but not to it, and no nearer than the one before
        self.error = math.inf  #: the smallest error of those

    def __call__(self, history: History, x: Vector, y: Vector) -> tuple[Vector, Vector, Status | None]:
        """SQP from (x, y); adopted if it halved the error, and the end if it met the target."""
        run = self.run
        sqp, form, memory = run.settings.acceleration, run.form, run.memory
        assert sqp is not None
        assert form is not None
        self.steps = 0
        k, start = history.k, form.error(x, y)
        if not (memory.failures < 2 or start < 0.1 * memory.tried_at or k % 3 == 1):
            return x, y, None
        patience = max(0, sqp.patience - memory.failures)
        target = max(AIM * run.tol, min(run.tol, 1e-9))
        found = sqp.run(form, memory, x, y, target=target, patience=patience, seen=self._seen)
        memory.tried_at, self.steps = start, found.steps
        memory.failures = 0 if found.error < 0.5 * start else memory.failures + 1
        if found.error <= target or run.best.residual <= run.tol:
            self.finishes += found.error > 0.5 * self.error
            self.error = min(self.error, found.error)
            over = self._end(history, found, target)
            if over is not None:
                return found.x, found.y, over
        if found.error < 1e-2 and found.error < 0.5 * start:
            return found.x, found.y, None
        if not history.iterations and self._lower(found.x, x, y):
            return found.x, y, None
        return x, y, None

    def _lower(self, new: Vector, x: Vector, y: Vector) -> bool:
        """Whether the first augmented Lagrangian is lower at a new starting point."""
        subproblem = self.run.subproblem(y, self.run.penalty().next(self.run.history))
        return subproblem.value(new) < subproblem.value(x)

    def _seen(self, x: Vector, y: Vector, error: float) -> bool:
        """Keep the best point of an acceleration; whether it meets the tolerance in the user's units."""
        run = self.run
        assert run.form is not None
        if not error <= 1e3 * run.tol:
            return False
        if run.best.refine(1):
            return False
        user_x, user_y = run.form.user_x(x), run.form.user_y(y)
        check = certificate(run.problem, user_x, user_y)
        run.best.offer(check.residual, user_x, user_y)
        return check.meets(run.tol)

    def _end(self, history: History, found: Attempt, target: float) -> Status | None:
        """The verdict on an acceleration that came to an end; its point becomes a row of the history."""
        best = self.run.best
        if best.refine(2) and not best.solves():
            return None
        solved = best.solves()
        if self.finishes < EXTRA and not (solved and found.error <= target):
            return None
        history.iterations.append(self._row(history, found))
        self.run.watch(history, found.x, found.y, found.y)
        return Status.SOLVED if solved else Status.STUCK

    def _row(self, history: History, found: Attempt) -> Iteration:
        run = self.run
        assert run.form is not None
        check = run.best.check()
        return Iteration(
            k=history.k,
            beta=run.penalty().next(history),
            eta=run.tol,
            usable=True,
            violation=float(np.linalg.norm(run.form.distance(found.x))),
            stationarity=check.stationarity * run.form.scaling.sf,
            residual=check.residual,
            user_violation=math.hypot(check.violation, check.complementarity),
            objective=check.objective,
            multiplier_norm=float(np.linalg.norm(check.multipliers)),
            inner_status=ACCELERATED,
            inner_iterations=found.steps,
            evaluations=found.steps,
            acceleration_steps=found.steps,
            attempt=run.attempt,
        )
