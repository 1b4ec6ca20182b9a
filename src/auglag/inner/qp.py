"""Newton's method on models that keep the kinks of the augmented Lagrangian: the default for smooth problems."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.inner.base import InnerSolver, InnerStatus, Oracle, Traits
from auglag.kkt import Curvature, Hessian, Memory, Model, Sets, Step, solve

#: Iterations in a row that change neither value nor residual before the solve is called stalled.
PATIENCE = 4
#: How often a solve may shrink its trust region because no step was found.
CUTS = 10
#: Up to n + m = DENSE matrices are dense, whatever the problem returns; and with few variables and many rows up to so
#: many entries, since only a matrix of the size of the variables is factorised then.
DENSE, FEW, ENTRIES = 450, 150, 100_000
#: Beside a dense Jacobian the Hessian learnt from first derivatives is a dense matrix, so n is limited.
LARGEST_LEARNT = 1500


def curvature_for(traits: Traits) -> Curvature:
    """Exact Hessians where there are any; sparse matrices where the problem is large and has them."""
    small = traits.n + traits.m <= DENSE or (traits.n <= FEW and traits.n * traits.m <= ENTRIES)
    return Curvature(traits.has_hess, dense=small or not traits.sparse)


@final
@dataclass(frozen=True, slots=True)
class QPModel(InnerSolver):
    """Steps from piecewise quadratic models of phi on the bounds, with a line search and a trust region.

    The model (`auglag.kkt.Model`) expands f and c but keeps the penalties, so that constraints switch inside it. With
    Hessians it is a semismooth Newton method that knows the next kinks; without, the Lagrangian's curvature is learnt
    from first derivatives by a structured rank-one update.
    """

    @property
    def name(self) -> str:
        """The name users pass."""
        return "qp"

    def refuses(self, traits: Traits) -> str | None:
        """Bounds only, matrices, and few variables unless there are Hessians or the Jacobian is sparse."""
        if not traits.is_box:
            name = traits.term
            return f"inner='qp' handles bounds but not g={name}; inner='panoc' handles any prox term"
        if not traits.matrices:
            return "inner='qp' needs Jacobians that are matrices, dense or sparse; inner='lbfgsb' takes operators"
        if not (traits.has_hess or traits.sparse) and traits.n > LARGEST_LEARNT:
            return (
                f"inner='qp' without hess keeps a dense Hessian beside a dense Jacobian, so that n must be at most "
                f"{LARGEST_LEARNT}, got {traits.n}; a sparse Jacobian and inner='lbfgsb' have no such limit"
            )
        return None

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        """Steps until the oracle accepts."""
        walk = _Walk(oracle, x, value, gradient)
        try:
            while oracle.iterations < limit:
                oracle.iterations += 1
                end = walk.step()
                if end is not None:
                    return end
            return InnerStatus.LIMIT
        finally:
            walk.memory.radius = walk.radius
            walk.memory.multipliers = walk.w


class _Walk:
    """The iterate of one solve."""

    def __init__(self, oracle: Oracle, x: Vector, value: float, gradient: Vector) -> None:
        self.oracle, self.x, self.value, self.gradient = oracle, x, value, gradient
        self.subproblem = cast("Any", oracle.subproblem)  # an AugmentedLagrangian: see `refuses`
        self.memory: Memory = self.subproblem.memory
        self.curvature = curvature_for(self.subproblem.form.traits)
        assert oracle.box is not None
        self.lower, self.upper = oracle.box
        self.size = max(1.0, float(np.max(np.abs(x), initial=0.0)))
        self.radius = self.memory.radius if self.memory.radius is not None else 10.0 * self.size
        self.w: Vector | None = self.memory.multipliers
        self.cuts = self.idle = 0
        self.best = math.inf

    def step(self) -> InnerStatus | None:
        """One iteration: model, step, line search, trust region."""
        oracle, memory = self.oracle, self.memory
        estimate = self.subproblem.multipliers(self.x)
        model = self.subproblem.model(self.x, estimate if self.w is None else self.w, self.curvature, self.radius)
        if model is None:
            return self._retry()
        sets = memory.sets if memory.sets is not None else Sets.none(model.n, model.m)
        step = solve(model, sets, last=memory.shift) or solve(diagonal(model), sets)
        if step is None:
            return InnerStatus.STALLED
        memory.sets, memory.shift = free_of_radius(step.sets, model, self.radius), step.shift
        length_of_step = float(np.max(np.abs(step.d), initial=0.0))
        if length_of_step <= 1e-15 * self.size:
            return self._retry()  # x is where the model wants it, to the last digit
        found = self._search(model, step)
        if found is None:
            if self.w is not None:
                return self._retry()
            if self.cuts < CUTS and self.radius > 1e-6 * self.size and length_of_step > 1e-8:
                self.radius, self.cuts = 0.1 * min(length_of_step, self.radius), self.cuts + 1
                return None
            return InnerStatus.STALLED
        trial, w, length = found
        new_value, new_gradient = oracle.visit(trial)
        if new_value == math.inf:
            self.radius, self.cuts, self.w = 0.1 * length_of_step, self.cuts + 1, None
            return None if self.cuts <= CUTS else InnerStatus.STALLED
        residual = oracle.consider(trial, new_value, new_gradient)
        self._new_radius(length, length_of_step)
        noise = 1e-14 * max(1.0, abs(self.value))
        self.idle = self.idle + 1 if self.value - new_value <= noise and residual > 0.7 * self.best else 0
        self.best = min(self.best, residual)
        self.x, self.value, self.gradient = trial, new_value, new_gradient
        self.w = w if length == 1.0 else None
        return InnerStatus.STALLED if self.idle >= PATIENCE else None

    def _retry(self) -> InnerStatus | None:
        """Next time the Hessian is taken at the multipliers that the subproblem itself estimates, if it was not."""
        if self.w is None:
            return InnerStatus.STALLED
        self.w = None
        return None

    def _new_radius(self, length: float, size: float) -> None:
        if length < 0.2:
            self.radius = max(2.0 * length * size, 1e-8)
        elif length == 1.0 and size >= 0.99 * self.radius:
            self.radius *= 4.0
        elif length == 1.0:
            self.radius = max(self.radius, 10.0 * size)

    def _search(self, model: Model, step: Step) -> tuple[Vector, Vector, float] | None:
        """(trial point, multipliers of its model, length) with sufficient decrease; values only, no gradients."""
        oracle = self.oracle
        slope = min(float(self.gradient @ step.d), 0.0)
        noise = 1e-14 * max(1.0, abs(self.value))
        length = 1.0
        for attempt in range(30):
            trial = landing(self.x, length, model, step, self.lower, self.upper)
            value = oracle.value(trial)
            if value <= self.value + 1e-4 * length * slope + (noise if slope < 0 else 0.0):
                return trial, step.w, length
            if attempt == 0 and value < math.inf and model.m:
                better = self._correction(model, step, trial, slope)
                if better is not None:
                    return better
            length *= 0.5 if attempt < 3 else 0.25
        return None

    def _correction(self, model: Model, step: Step, trial: Vector, slope: float) -> tuple[Vector, Vector, float] | None:
        """A second-order correction of the full step, if it helps."""
        model = self.subproblem.corrected(model, trial, trial - self.x)
        step2 = solve(model, step.sets)
        if step2 is None:
            return None
        trial = landing(self.x, 1.0, model, step2, self.lower, self.upper)
        if self.oracle.value(trial) <= self.value + 1e-4 * slope:
            return trial, step2.w, 1.0
        return None


def landing(x: Vector, length: float, model: Model, step: Step, lower: Vector, upper: Vector) -> Vector:
    """x + length d, inside the bounds; a variable that a full step takes to a bound is set to it exactly."""
    trial = np.minimum(np.maximum(x + length * step.d, lower), upper)
    if length == 1.0:
        trial = np.where((step.sets.variables < 0) & (step.d == lower - x), lower, trial)
        trial = np.where((step.sets.variables > 0) & (step.d == upper - x), upper, trial)
    return trial


def free_of_radius(sets: Sets, model: Model, radius: float) -> Sets:
    """The sets without variables that only the trust region holds."""
    v = sets.variables
    held = ((v < 0) & (model.lower > -radius)) | ((v > 0) & (model.upper < radius))
    return Sets(sets.rows, np.where(held, v, 0).astype(np.int8))


def diagonal(model: Model) -> Model:
    """The model with a positive diagonal for a Hessian: the last resort."""
    entries = np.nan_to_num(np.abs(model.hessian.diagonal())) + 1e-3
    matrix: Any = sparse.diags_array(entries, format="csc") if model.is_sparse else np.diag(entries)
    return replace(model, hessian=Hessian(matrix))
