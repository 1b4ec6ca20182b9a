"""Is there a feasible point? Minimise the violation alone, with the same inner solver, from several points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.inner import InnerSolver, choose
from auglag.lagrangian import AugmentedLagrangian
from auglag.problems.standard_form import StandardForm

#: The violation counts as stationary when ||J'r|| (projected) is at most this times ||r||.
STATIONARY = 1e-5


@final
@dataclass(frozen=True, slots=True)
class Restoration:
    """The least violated point found, and what it shows."""

    z: Vector
    violation: float  #: ||c - clip(c, cl, cu)||, user's units
    verdict: str  #: "feasible", "infeasible" (stationary from every start) or "unclear"


def restore(
    form: StandardForm, inner: InnerSolver | str, starts: Sequence[Vector], tol: float, limit: int
) -> Restoration:
    """min 1/2 ||c(z) - clip(c(z), cl, cu)||^2 over dom g from each start, and once more from a perturbed one.

    This is the augmented Lagrangian with f = 0, y = 0 and beta = 1. "infeasible" is only said if every start ends at a
    stationary point of the violation that is not small.
    """
    view = form.feasibility()
    subproblem = AugmentedLagrangian(view, np.zeros(form.m), 1.0)
    solver = choose("auto" if isinstance(inner, str) else inner, view.traits)
    rng = np.random.default_rng(1)
    last = starts[-1]
    spread = last + 0.3 * np.maximum(1.0, np.abs(last)) * rng.standard_normal(last.size)
    best: Restoration | None = None
    stationary = True
    for start in [*starts, view.g.prox(spread, 1.0)]:
        found = solver.solve(subproblem, start, 1e-9, limit=limit)
        distance = form.distance(found.x)
        if not np.isfinite(distance).all():
            stationary = False
            continue
        violation = float(np.linalg.norm(distance / form.scaling.sc))
        stationary &= found.residual <= STATIONARY * float(np.linalg.norm(distance))
        if best is None or violation < best.violation:
            best = Restoration(found.x, violation, "unclear")
        if violation <= tol:
            return Restoration(found.x, violation, "feasible")
    if best is None:
        return Restoration(last, np.inf, "unclear")
    verdict = "infeasible" if stationary and best.violation > 10 * tol else "unclear"
    return Restoration(best.z, best.violation, verdict)
