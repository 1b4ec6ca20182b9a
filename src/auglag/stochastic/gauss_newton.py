"""Damped Gauss-Newton steps for the subproblem without slacks, as an inner solver of Algorithm 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Matrix, Vector
from auglag.inner.base import InnerResult, InnerStatus
from auglag.prox import SquaredL2
from auglag.stochastic.curvature import Curvature, GaussNewton, curvature
from auglag.stochastic.lagrangian import FullTest, StochasticLagrangian
from auglag.stochastic.limits import Meter
from auglag.stochastic.tuning import TUNING


@final
@dataclass(slots=True)
class Memory:
    """What one subproblem hands on to the next."""

    damping: float = 0.0  #: 0 before the first subproblem
    matrices: list[Matrix] | None = None  #: of the last curvature; None if it has to be formed anew
    fresh: bool = False  #: the curvature was formed at the current point


@final
class GaussNewtonInner:
    """(H + mu I) d = -grad, tested on the full batch; mu follows the ratio of actual to predicted decrease."""

    saves = False

    def __init__(self, config: GaussNewton, meter: Meter, seed: int) -> None:
        self.config, self.meter, self.seed = config, meter, seed
        self.memory, self.k = Memory(), 1

    def solve(self, subproblem: StochasticLagrangian, x: Vector, tol: float, *, limit: int) -> InnerResult:
        """Iterate until dist <= tol at a point not above the start, or R <= the tolerance of the run."""
        memory = self.memory
        start = test = subproblem.test(x)
        memory.fresh = False
        if not memory.damping:
            memory.damping = max(self.config.damping * min(1.0, test.dist), TUNING.least_damping)
        status, why, iterations = InnerStatus.LIMIT, "", 0
        floor = TUNING.rounding * max(1.0, abs(start.value))
        while True:
            if test.dist <= tol and test.value <= start.value + floor:
                status = InnerStatus.CONVERGED
                break
            why = self.meter.reached()
            if why:
                status = InnerStatus.BUDGET
                break
            if iterations >= min(limit, TUNING.newton_iterations):
                break
            if memory.damping >= TUNING.largest_damping:
                memory.damping, status = self.config.damping, InnerStatus.STALLED
                break
            step = self._step(subproblem, test, iterations)
            trial = subproblem.test(test.v + step.d)
            iterations += 1
            if self._accept(test, trial, step, floor):
                test = trial
                if subproblem.witness(test, p=iterations, steps=1, accepted=test.dist <= tol):
                    status = InnerStatus.CONVERGED
                    break
            else:
                self._reject(subproblem, test, trial, step)
        return InnerResult(test.v, test.value, test.dist, iterations, iterations, status, limit=why)

    def _step(self, subproblem: StochasticLagrangian, test: FullTest, iterations: int) -> _Step:
        memory, config = self.memory, self.config
        if memory.matrices is None:
            rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.k, iterations)))
            share = 0.0 if iterations > config.patience else min(config.screen, test.dist)
            cap = math.ceil(config.rows(test.dist) * subproblem.problem.n)
            ledger = subproblem.full.ledger
            memory.matrices = curvature(subproblem.problem, test.evaluation, share, cap, rng, ledger).matrices
            memory.fresh = True
        return _Step.of(subproblem, test, Curvature(subproblem.problem, memory.matrices), memory.damping)

    def _accept(self, test: FullTest, trial: FullTest, step: _Step, floor: float) -> bool:
        """Whether the trial point is taken, with the damping and the curvature for the step to come."""
        memory = self.memory
        gain = test.value - trial.value
        ratio = gain / max(step.predicted, 1e-300)
        if not (ratio > TUNING.accept_ratio or (trial.dist < TUNING.dist_halved * test.dist and gain >= -floor)):
            return False
        if not trial.dist <= self.config.lazy * test.dist:
            memory.matrices = None
        memory.fresh = False
        factor = TUNING.damping_fair
        if ratio > TUNING.good_ratio:
            factor = TUNING.damping_good
        elif ratio < TUNING.poor_ratio:
            factor = TUNING.damping_poor
        memory.damping = min(max(memory.damping * factor, TUNING.least_damping), TUNING.largest_damping)
        return True

    def _reject(self, subproblem: StochasticLagrangian, test: FullTest, trial: FullTest, step: _Step) -> None:
        """A curvature from elsewhere is formed anew; else the damping grows until the step is as short as it must be.

        How short: where a parabola through value, slope and trial value has its minimum. No rows are needed for that.
        """
        memory = self.memory
        if not memory.fresh or memory.matrices is None:
            memory.matrices = None
            return
        bend = Curvature(subproblem.problem, memory.matrices)
        rise = trial.value - test.value - step.slope
        t = -0.5 * step.slope / rise if np.isfinite(rise) and rise > 0.0 else TUNING.shorten_least
        aim = min(TUNING.shorten_most, max(TUNING.shorten_least, t)) * float(np.linalg.norm(step.d))
        for _ in range(TUNING.damping_trials):
            memory.damping = max(TUNING.damping_growth * memory.damping, TUNING.damping_restart)
            shorter = _Step.of(subproblem, test, bend, memory.damping)
            if np.linalg.norm(shorter.d) <= aim or memory.damping >= TUNING.largest_damping:
                break

    def forget(self) -> None:
        """Another problem: the damping stays, the curvature does not."""
        self.memory = Memory(self.memory.damping)


@final
@dataclass(frozen=True, slots=True)
class _Step:
    d: Vector
    slope: float  #: grad'd
    predicted: float  #: decrease of the model

    @staticmethod
    def of(subproblem: StochasticLagrangian, test: FullTest, bend: Curvature, damping: float) -> _Step:
        """The damped step and what the model (quadratic f and c inside the square) promises for it."""
        at, w = test.evaluation, test.y_hat
        ridge = subproblem.g.weight if isinstance(subproblem.g, SquaredL2) else 0.0
        gradient = subproblem.gradient(at, w) + ridge * test.v
        H = bend.combined(w)
        # By the sides and not by w: where a row is inactive, w is 0 only up to rounding.
        shifted = at.c + subproblem.y / subproblem.beta
        active = (shifted <= subproblem.problem.lower) | (shifted >= subproblem.problem.upper)
        if active.any():
            H += subproblem.beta * at.jac[active].T @ at.jac[active]
        d = -_solve(H, gradient, damping + ridge)
        qf, qc = bend.second_order(d)
        c = at.c + at.jac @ d + qc
        r = c - np.clip(c + subproblem.y / subproblem.beta, subproblem.problem.lower, subproblem.problem.upper)
        f = at.f + float(at.grad @ d) + qf + 0.5 * ridge * float((test.v + d) @ (test.v + d))
        model = f + float(subproblem.y @ r) + 0.5 * subproblem.beta * float(r @ r)
        return _Step(d, float(gradient @ d), test.value - model)


def _solve(H: Matrix, gradient: Vector, shift: float) -> Vector:
    """(H + shift I)^-1 gradient; H symmetric and (nearly) semidefinite, so a larger shift always helps."""
    identity = np.eye(len(gradient))
    for _ in range(40):
        try:
            factor = np.linalg.cholesky(H + shift * identity)
        except np.linalg.LinAlgError:
            shift = max(10.0 * shift, 1e-14 * float(np.trace(np.abs(H))))
            continue
        return np.asarray(np.linalg.solve(factor.T, np.linalg.solve(factor, gradient)))
    return gradient / max(shift, 1.0)
