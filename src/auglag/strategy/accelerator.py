"""When a run is accelerated, what is adopted of it, and when it ends the run (the steps are in `acceleration.py`)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.rules import History, Iteration
from auglag.algorithm.status import Status
from auglag.inner import InnerStatus
from auglag.inner.qp import curvature_for
from auglag.interior import Arrival
from auglag.strategy.sqp import Attempt

if TYPE_CHECKING:
    from auglag.strategy.run import Run

#: The status of a row of the history that an acceleration ended.
ACCELERATED = "ACCELERATED"
#: The acceleration aims at this fraction of tol (relative to the gradient of f): its last step costs little.
AIM = 4e-3
#: Accelerations that met the tolerance but not their aim, and got no nearer to it, before it is let be.
EXTRA = 2
#: From an error above this large sparse problems are brought near by interior points.
NEAR = 1e-5
#: So many accelerations in a row without success, and so many inner iterations in all, call for interior points: with
#: Hessians, and without, when they are worth less.
EXACT, LEARNT = (2, 60), (4, 150)
#: A point far from the tolerance is kept, for a run that is stopped, if its error is this part of the last such one's.
NOTED = 0.1
#: Steps of interior points before an inner solver that is cheap: they tell soon whether they lead anywhere.
FIRST_STEPS = 100
#: More iterations than this no inner solve takes without another look at the KKT conditions.
LONGEST = 1000


@final
class Accelerator:
    """SQP before the first and after each iteration of one attempt; what it remembers goes into checkpoints."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.steps = 0  #: of the acceleration before the iteration to come
        self.finishes = 0  #: accelerations that came near the end but not to it, and no nearer than the one before
        self.error = math.inf  #: the smallest error of those
        self.inside = False  #: interior points were tried
        self.origin: Vector | None = None  #: where the attempt began
        self.noted = math.inf  #: the error of the last point that was kept though it is far from the tolerance

    def __call__(self, history: History, x: Vector, y: Vector) -> tuple[Vector, Vector, Status | None]:
        """SQP from (x, y) or where interior points end; adopted if the error halved, the end if it met its target."""
        run = self.run
        sqp, form, memory = run.settings.acceleration, run.form, run.memory
        assert sqp is not None
        assert form is not None
        self.steps = 0
        self.origin = x if self.origin is None else self.origin
        k, start = history.k, form.error(x, y)
        if not (memory.failures < 2 or start < 0.1 * memory.tried_at or k % 3 == 1):
            return x, y, None
        patience = max(0, sqp.patience - memory.failures)
        target = max(AIM * run.tol, min(run.tol, 1e-9))
        near, before = (x, y), 0
        arrival = self._from_inside(history, x, y, start, target)
        if arrival is None and not form.m and not _ended(history, InnerStatus.STALLED):
            return x, y, None  # the inner solver's steps are Newton's, too, and go down as long as values tell
        if arrival is not None:
            before = arrival.steps
            if arrival.error < start:
                near, memory.sets, patience = (arrival.x, arrival.y), arrival.sets, sqp.patience
        found = sqp.run(form, memory, *near, target=target, patience=patience, seen=self._seen)
        found = replace(found, steps=found.steps + before)
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

    def _from_inside(self, history: History, x: Vector, y: Vector, start: float, target: float) -> Arrival | None:
        """Interior points: first of all where matrices are large and sparse, once where other ways lead nowhere.

        Then they begin where the attempt began: what the other ways came to is no good.
        """
        run = self.run
        assert run.settings.acceleration is not None
        assert run.form is not None
        barrier, memory = run.settings.acceleration.barrier, run.memory
        if barrier is None:
            return None
        curvature = curvature_for(run.form.traits)
        vain = memory.failures >= (EXACT if curvature.exact else LEARNT)[0]
        if not curvature.dense:
            once = not run.by_models()
            if (self.inside if once else vain) or start <= NEAR:
                return None
            if once:
                barrier = replace(barrier, steps=min(barrier.steps, FIRST_STEPS))
        elif self.inside or not (vain or _astray(history) or self._left(history) <= 0):
            return None
        else:
            x, y, memory.last = self.origin if self.origin is not None else x, np.zeros(run.form.m), None
        self.inside = True
        arrival = barrier.run(run.form, memory, x, y, target=target, seen=self._seen)
        memory.last = None  # the way from here back is no step to learn curvature from
        return arrival

    def leash(self) -> float:
        """Iterations that one inner solve may take: few as long as there is another way to try."""
        acceleration = self.run.settings.acceleration
        if acceleration is None or not self.run.by_models():
            return math.inf
        if acceleration.barrier is None or self.inside:
            return LONGEST
        return max(1, self._left(self.run.history))

    def _left(self, history: History) -> int:
        """Inner iterations before interior points are tried."""
        return (EXACT if self.run.problem.has_hess else LEARNT)[1] - history.inner_iterations

    def _lower(self, new: Vector, x: Vector, y: Vector) -> bool:
        """Whether the first augmented Lagrangian is lower at a new starting point."""
        subproblem = self.run.subproblem(y, self.run.penalty().next(self.run.history))
        return subproblem.value(new) < subproblem.value(x)

    def _seen(self, x: Vector, y: Vector, error: float) -> bool:
        """Keep the best point of an acceleration; whether it meets the tolerance in the user's units."""
        run = self.run
        assert run.form is not None
        near = error <= 1e3 * run.tol
        if near and run.best.refine(1):
            return False
        if not (near or error <= NOTED * self.noted):
            return False
        self.noted = min(self.noted, error)
        user_x, user_y = run.form.user_x(x), run.form.user_y(y)
        check = run.best.measure(user_x, user_y)
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


def _astray(history: History) -> bool:
    """Whether the last subproblem was not solved, and may never be."""
    return _ended(history, InnerStatus.UNBOUNDED, InnerStatus.LIMIT, InnerStatus.EDGE)


def _ended(history: History, *ways: InnerStatus) -> bool:
    """Whether the last subproblem ended in one of these ways."""
    return bool(history.iterations) and history.last.inner_status in {way.name for way in ways}
