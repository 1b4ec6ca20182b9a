"""A projected truncated Newton method for users who have second derivatives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import require_integer
from auglag.inner import tuning
from auglag.inner.base import InnerSolver, InnerStatus, Oracle, Traits


@final
@dataclass(frozen=True, slots=True)
class NewtonCG(InnerSolver):
    """Bound-constrained Newton with conjugate gradients (in the manner of TRON, Lin and More 1999).

    Variables at a bound that the gradient pushes against are held; on the others the Newton system with the
    generalised Hessian of phi is solved by truncated CG within a trust region, which follows a direction of negative
    curvature to the edge. The step is cut where bounds block it, then searched along the projection arc.

    With `kinks=True` it also takes subproblems whose gradient has kinks, those of inequalities with closed slacks, with
    an element of the generalised Hessian; steps across a kink are shortened by the search.
    """

    name: ClassVar[str] = "newton-cg"
    max_cg: int = 500
    kinks: bool = False

    def __post_init__(self) -> None:
        require_integer(self.max_cg, "NewtonCG.max_cg")

    def refuses(self, traits: Traits) -> str | None:
        if not traits.is_box:
            return f"inner='newton-cg' handles bounds but not g={traits.term}; inner='panoc' handles any prox term"
        if not traits.smooth and not self.kinks:
            return (
                "inner='newton-cg' needs a twice differentiable subproblem, which inequalities have only with "
                "slacks='explicit'; inner='lbfgsb' does without"
            )
        if not traits.has_hessp:
            return (
                "inner='newton-cg' needs hess or hessp for fun and hess for every nonlinear constraint; "
                "inner='lbfgsb' needs first derivatives only"
            )
        return None

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        box, t = oracle.bounds(), tuning.TUNING
        lower, upper = box
        radius = max(1.0, float(np.linalg.norm(x)))
        best, idle = math.inf, 0
        while oracle.iterations < limit:
            oracle.iterations += 1
            free = ~(((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0)))
            step, at_edge = self._step(oracle, x, gradient, free, radius)
            found = self._search(oracle, x, value, gradient, step, box)
            if found is None:
                radius = t.cg_cut * min(radius, float(np.linalg.norm(step)))
                if radius <= t.cg_least_radius * max(1.0, float(np.linalg.norm(x))):
                    return InnerStatus.STALLED
                continue
            new_x, new_value, new_gradient, length = found
            residual = oracle.consider(new_x, new_value, new_gradient)
            if length == 1.0 and at_edge:
                radius *= t.cg_grow
            elif length < t.cg_short:
                radius = max(t.cg_after_short * length * float(np.linalg.norm(step)), t.cg_radius_floor)
            idle = 0 if value - new_value > oracle.noise or residual < t.cg_less * best else idle + 1
            best = min(best, residual)
            if idle >= t.cg_patience:
                return InnerStatus.STALLED
            x, value, gradient = new_x, new_value, new_gradient
        return InnerStatus.LIMIT

    def _step(
        self, oracle: Oracle, x: Vector, gradient: Vector, free: NDArray[np.bool_], radius: float
    ) -> tuple[Vector, bool]:
        """Steihaug's CG on the free variables: (step, whether it ends at the edge)."""
        hessp, t = oracle.subproblem.hessp, tuning.TUNING
        residual = np.where(free, -gradient, 0.0)
        norm0 = float(np.linalg.norm(residual))
        tolerance = min(t.cg_forcing, norm0) * norm0
        step, direction, rr = np.zeros_like(x), residual.copy(), norm0**2
        for _ in range(min(self.max_cg, 2 * int(free.sum()) + t.cg_extra)):
            product = np.where(free, hessp(x, direction), 0.0)
            curvature = float(direction @ product)
            alpha = rr / curvature if curvature > t.cg_flat * float(direction @ direction) else math.inf
            if alpha == math.inf or np.linalg.norm(step + alpha * direction) >= radius:
                return step + _to_edge(step, direction, radius) * direction, True
            step = step + alpha * direction
            residual = residual - alpha * product
            new = float(residual @ residual)
            if math.sqrt(new) <= tolerance:
                break
            direction = residual + (new / rr) * direction
            rr = new
        return step, False

    @staticmethod
    def _search(
        oracle: Oracle, x: Vector, value: float, gradient: Vector, step: Vector, box: tuple[Vector, Vector]
    ) -> tuple[Vector, float, Vector, float] | None:
        """Sufficient decrease along the projection arc; where values are noise, a smaller residual will do."""
        t = tuning.TUNING
        length, noise = 1.0, t.cg_noise * max(1.0, abs(value))
        start = oracle.g.subdiff_distance(x, -gradient)
        for _ in range(t.cg_trials):
            trial = np.minimum(np.maximum(x + length * step, box[0]), box[1])
            decrease = t.cg_decrease * float(gradient @ (trial - x))
            new_value = oracle.value(trial)
            if new_value < math.inf and new_value <= value + min(decrease, 0.0) + t.cg_tolerated * noise:
                if new_value > value - t.cg_doubtful * noise:  # too close to call by values
                    new_value, new_gradient = oracle.visit(trial)
                    if oracle.g.subdiff_distance(trial, -new_gradient) < start or new_value < value:
                        return trial, new_value, new_gradient, length
                else:
                    new_value, new_gradient = oracle.visit(trial)
                    if new_value < math.inf:
                        return trial, new_value, new_gradient, length
            length *= 0.5 if length > t.cg_halve_above else 0.25
        return None


def _to_edge(step: Vector, direction: Vector, radius: float) -> float:
    """t >= 0 with ||step + t direction|| = radius."""
    a, b, c = float(direction @ direction), float(step @ direction), float(step @ step) - radius**2
    root = math.sqrt(max(b * b - a * c, 0.0))
    return (root - b) / a if b <= 0 else -c / (b + root)
