"""Newton's method on models that keep the kinks of the augmented Lagrangian: the default for smooth problems."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from scipy import sparse

from auglag._norms import largest, some
from auglag._typing import Vector
from auglag.errors import InputError
from auglag.inner import tuning
from auglag.inner.base import InnerSolver, InnerStatus, Oracle, Traits
from auglag.inner.modelled import ModelledSubproblem
from auglag.kkt import Curvature, Hessian, Model, Sets, Step, again, solve


def curvature_for(traits: Traits) -> Curvature:
    """Exact Hessians where there are any; sparse matrices where the problem is large and has them."""
    t = tuning.TUNING
    few = traits.n <= t.dense_variables and traits.n * traits.m <= t.dense_entries
    small = traits.n + traits.m <= t.dense_size or few
    return Curvature(traits.has_hess, dense=small or not traits.sparse)


@final
@dataclass(frozen=True, slots=True)
class QPModel(InnerSolver):
    """Steps from piecewise quadratic models of phi on the bounds, with a line search and a trust region.

    The model (`auglag.kkt.Model`) expands f and c but keeps the penalties, so that constraints switch inside it. With
    Hessians it is a semismooth Newton method that knows the next kinks; without, the Lagrangian's curvature is learnt
    from first derivatives by a structured rank-one update.
    """

    name: ClassVar[str] = "qp"

    def refuses(self, traits: Traits) -> str | None:
        """Bounds only, matrices, and few variables unless there are Hessians or the Jacobian is sparse."""
        if not traits.is_box:
            return f"inner='qp' handles bounds but not g={traits.term}; inner='panoc' handles any prox term"
        if not traits.matrices:
            return "inner='qp' needs Jacobians that are matrices, dense or sparse; inner='lbfgsb' takes operators"
        largest = tuning.TUNING.largest_learnt
        if not (traits.has_hess or traits.partly_curved or traits.sparse) and traits.n > largest:
            return (
                f"inner='qp' without hess keeps a dense Hessian beside a dense Jacobian, so that n must be at most "
                f"{largest}, got {traits.n}; a sparse Jacobian and inner='lbfgsb' have no such limit"
            )
        return None

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        subproblem = oracle.subproblem
        if not isinstance(subproblem, ModelledSubproblem):
            raise InputError(
                f"inner='qp' needs a subproblem that has models (auglag.inner.modelled.ModelledSubproblem), got "
                f"{type(subproblem).__name__}; inner='lbfgsb' needs values and gradients only"
            )
        state = _Solve(oracle, subproblem, x, value, gradient)
        try:
            while oracle.iterations < limit:
                oracle.iterations += 1
                end = state.step()
                if end is not None:
                    return end
            return InnerStatus.LIMIT
        finally:
            state.memory.radius = state.radius
            state.memory.multipliers = state.w


class _Solve:
    """The iterate of one solve."""

    def __init__(
        self, oracle: Oracle, subproblem: ModelledSubproblem, x: Vector, value: float, gradient: Vector
    ) -> None:
        self.oracle, self.x, self.value, self.gradient = oracle, x, value, gradient
        self.subproblem, self.memory, self.tuning = subproblem, subproblem.memory, tuning.TUNING
        self.curvature = curvature_for(subproblem.form.traits)
        self.lower, self.upper = oracle.bounds()
        self.size = max(1.0, largest(x))
        first_radius = self.tuning.qp_first_radius * self.size
        self.radius = self.memory.radius if self.memory.radius is not None else first_radius
        self.w: Vector | None = self.memory.multipliers
        self.cuts = self.idle = 0
        self.best = math.inf

    def step(self) -> InnerStatus | None:
        """One iteration: model, step, line search, trust region."""
        oracle, memory, t = self.oracle, self.memory, self.tuning
        estimate = self.subproblem.multipliers(self.x)
        model = self.subproblem.model(self.x, estimate if self.w is None else self.w, self.curvature, self.radius)
        if model is None:
            return self._retry()
        sets = memory.sets if memory.sets is not None else Sets.none(model.n, model.m)
        step = solve(model, sets, last=memory.shift, cycles=memory.cycles) or solve(diagonal(model), sets)
        if step is None:
            return InnerStatus.STALLED
        memory.keep(step, free_of_radius(step.sets, model, self.radius))
        length_of_step = largest(step.d)
        if length_of_step <= t.qp_no_step * self.size:
            return self._retry()  # x is where the model wants it, to the last digit
        found = self._search(model, step)
        if found is None:
            if self.w is not None:
                return self._retry()
            large = self.radius > t.qp_least_radius * self.size and length_of_step > t.qp_least_step
            if self.cuts < t.qp_cuts and large:
                self.radius, self.cuts = t.qp_cut * min(length_of_step, self.radius), self.cuts + 1
                return None
            return InnerStatus.STALLED
        trial, w, length = found
        new_value, new_gradient = oracle.visit(trial)
        if new_value == math.inf:
            self.radius, self.cuts, self.w = t.qp_cut * length_of_step, self.cuts + 1, None
            return None if self.cuts <= t.qp_cuts else InnerStatus.STALLED
        residual = oracle.consider(trial, new_value, new_gradient)
        self._new_radius(length, length_of_step)
        noise = self._noise()
        self.idle = self.idle + 1 if self.value - new_value <= noise and residual > t.qp_less * self.best else 0
        self.best = min(self.best, residual)
        self.x, self.value, self.gradient = trial, new_value, new_gradient
        self.w = w if length == 1.0 else None
        return InnerStatus.STALLED if self.idle >= t.qp_patience else None

    def _noise(self) -> float:
        """The error of a difference of two values."""
        return max(self.tuning.qp_noise * max(1.0, abs(self.value)), 2.0 * self.subproblem.error(self.x))

    def _retry(self) -> InnerStatus | None:
        """Next time the Hessian is taken at the multipliers that the subproblem itself estimates, if it was not."""
        if self.w is None:
            return InnerStatus.STALLED
        self.w = None
        return None

    def _new_radius(self, length: float, size: float) -> None:
        t = self.tuning
        if length < t.qp_short:
            self.radius = max(t.qp_after_short * length * size, t.qp_radius_floor)
        elif length == 1.0 and size >= t.qp_at_edge * self.radius:
            self.radius *= t.qp_grow
        elif length == 1.0:
            self.radius = max(self.radius, t.qp_after_full * size)

    def _search(self, model: Model, step: Step) -> tuple[Vector, Vector, float] | None:
        """(trial point, multipliers of its model, length) with sufficient decrease; values only, no gradients."""
        oracle, t = self.oracle, self.tuning
        slope = min(float(self.gradient @ step.d), 0.0)
        noise = self._noise()
        length = 1.0
        for trials in range(t.qp_trials):
            trial = landing(self.x, length, model, step, self.lower, self.upper)
            value = oracle.value(trial)
            if value <= self.value + t.qp_decrease * length * slope + (noise if slope < 0 else 0.0):
                return trial, step.w, length
            if trials == 0 and value < math.inf and model.m:
                better = self._correction(model, step, trial, slope)
                if better is not None:
                    return better
            length *= 0.5 if trials < t.qp_halvings else 0.25
        return None

    def _correction(self, model: Model, step: Step, trial: Vector, slope: float) -> tuple[Vector, Vector, float] | None:
        """A second-order correction of the full step, if it helps."""
        model = self.subproblem.corrected(model, trial, trial - self.x)
        step2 = again(model, step)
        if step2 is None:
            return None
        trial = landing(self.x, 1.0, model, step2, self.lower, self.upper)
        if self.oracle.value(trial) <= self.value + self.tuning.qp_decrease * slope:
            return trial, step2.w, 1.0
        return None


def landing(x: Vector, length: float, model: Model, step: Step, lower: Vector, upper: Vector) -> Vector:
    """x + length d, inside the bounds; a variable that a full step takes to a bound is set to it exactly."""
    trial: Vector = np.minimum(np.maximum(x + length * step.d, lower), upper)
    held = step.sets.variables
    if length == 1.0 and some(held):
        bound = np.where(held < 0, lower, upper)
        np.copyto(trial, bound, where=(step.d == bound - x) & (held != 0))
    return trial


def free_of_radius(sets: Sets, model: Model, radius: float) -> Sets:
    """The sets without variables that only the trust region holds."""
    v = sets.variables
    if not some(v):
        return sets
    held = ((v < 0) & (model.lower > -radius)) | ((v > 0) & (model.upper < radius))
    return Sets(sets.rows, v * held)


def diagonal(model: Model) -> Model:
    """The model with a positive diagonal for a Hessian: the last resort."""
    entries = np.nan_to_num(np.abs(model.hessian.diagonal())) + tuning.TUNING.qp_diagonal
    matrix: Any = sparse.diags_array(entries, format="csc") if model.is_sparse else np.diag(entries)
    return replace(model, hessian=Hessian(matrix))
