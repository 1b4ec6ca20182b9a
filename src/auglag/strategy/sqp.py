"""Newton's method on the KKT conditions, tried before the first and after every iteration of Algorithm 1.

Algorithm 1 makes progress from anywhere; near a solution, sequential quadratic programming converges quadratically.
Full steps are taken as long as the KKT error falls. The point they lead to is used only if the error is smaller there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import numpy as np

from auglag._norms import largest
from auglag._typing import Vector
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.errors import InputError, require_positive
from auglag.inner.qp import curvature_for, free_of_radius, landing
from auglag.interior import Barrier
from auglag.kkt import Curvature, Memory, Model, Sets, Step, solve
from auglag.kkt import tuning as kkt_tuning
from auglag.problems.standard_form import StandardForm
from auglag.strategy import tuning as tunings
from auglag.strategy.tuning import Tuning


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """The best point of one call."""

    x: Vector
    y: Vector
    error: float  #: `StandardForm.error` there
    steps: int  #: of the whole call


@final
@dataclass(frozen=True, slots=True)
class SQP:
    """Sequential quadratic programming with a watchdog on the KKT error in the user's units.

    Each step solves the model of the augmented Lagrangian with a very large penalty, which is the usual quadratic
    programme except that it always has a solution. An error that does not fall below 0.9 times the best is tolerated
    `patience` times in a row: a watchdog (Chamberlain, Powell, Lemarechal and Pedersen 1982).
    """

    penalty: float = 1e8
    steps: int = 40
    patience: int = 2
    #: Interior points: first on large sparse problems, on others if Newton's method fails. None: never.
    barrier: Barrier | None = field(default_factory=Barrier)

    def __post_init__(self) -> None:
        require_positive(self.penalty, "SQP.penalty")
        for name in ("steps", "patience"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= (name == "steps")):
                raise InputError(f"SQP.{name} must be a whole number, got {value!r}")

    def run(
        self,
        form: StandardForm,
        memory: Memory,
        x: Vector,
        y: Vector,
        *,
        target: float,
        patience: int,
        error: float | None = None,
        most: int | None = None,
        seen: Callable[[Vector, Vector, float], bool],
        tuning: Tuning | None = None,
    ) -> Candidate:
        """Steps from (x, y) until the error is at most `target` and `seen` agrees, or no longer falls.

        `error` is that at (x, y), where it is known. No step begins after `most` factorisations.
        """
        tuning = tunings.TUNING if tuning is None else tuning
        curvature = curvature_for(form.traits)
        first = form.error(x, y) if error is None else error
        best = Candidate(x, y, first, 0)
        bad, last_length, prox = 0, np.inf, kkt_tuning.TUNING.prox
        spent = math.inf if most is None else memory.layout.factorisations + most
        if seen(x, y, first) and first <= target:
            return best
        for count in range(1, self.steps + 1):
            if memory.layout.factorisations > spent:
                count -= 1
                break
            known_length = last_length if best.error < tuning.newton_close else np.inf
            found = self._step(form, memory, curvature, x, y, known_length, prox, tuning)
            if found is None:
                break
            x, y, last_length = found
            error = form.error(x, y)
            bad = 0 if error <= tuning.newton_less * best.error else bad + 1
            if error < best.error:
                best = Candidate(x, y, error, count)
            if (seen(x, y, error) and error <= target) or not error <= tuning.newton_blown_up * max(1.0, first):
                break
            if bad > patience:
                if best.error > tuning.newton_close or prox == 0.0:
                    break
                x, y, bad, prox = best.x, best.y, 0, 0.0
        return Candidate(best.x, best.y, best.error, count)

    def _step(
        self,
        form: StandardForm,
        memory: Memory,
        curvature: Curvature,
        x: Vector,
        y: Vector,
        last_length: float,
        prox: float,
        tuning: Tuning,
    ) -> tuple[Vector, Vector, float] | None:
        """(x, y, length of the step): a full step, shorter only where functions are not defined at its end."""
        radius = tuning.newton_radius * max(1.0, largest(x))
        subproblem = AugmentedLagrangian(form, y, self.penalty, memory=memory)
        model = subproblem.model(x, y, curvature, radius)
        if model is None:
            return None
        step = self._solve(subproblem, model, radius, last_length, prox, tuning)
        if step is None:
            return None
        most = tuning.newton_multipliers
        w = np.minimum(np.maximum(step.w, -most), most)
        fraction = 1.0
        while fraction > tuning.newton_shortest:
            trial = landing(x, fraction, model, step, *form.bounds)
            point = form.at(trial)
            if point.finite():
                return trial, w if fraction == 1.0 else y + fraction * (w - y), largest(step.d)
            fraction *= tuning.newton_shorter
        return None

    def _solve(
        self,
        subproblem: AugmentedLagrangian,
        model: Model,
        radius: float,
        last_length: float,
        prox: float,
        tuning: Tuning,
    ) -> Step | None:
        """The model's step; with more regularisation or a smaller penalty where it looks degenerate."""
        memory, y = subproblem.memory, subproblem.y
        sets = memory.sets if memory.sets is not None else Sets.none(model.n, model.m)
        step = solve(model, sets, prox=prox, last=memory.shift, cycles=memory.cycles)
        leap = tuning.newton_leap * last_length
        if step is not None and prox and leap < np.inf and largest(step.d) > leap:
            step = solve(model, sets, prox=tuning.newton_leap_prox) or step
        penalty = self.penalty
        while step is not None and (jump := largest(step.w)) > tuning.newton_sudden and penalty > 1.0:
            if jump <= tuning.newton_sudden * max(1.0, largest(y)):
                break
            penalty *= tuning.newton_softer
            step = solve(subproblem.restated(model, penalty), step.sets)
        if step is not None:
            memory.keep(step, free_of_radius(step.sets, model, radius))
        return step
