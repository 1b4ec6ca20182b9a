"""Is there a feasible point? Minimise the violation alone, with the same inner solver, from several points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.linalg import LinearOperator

from auglag._typing import Vector
from auglag.algorithm import formulas
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.errors import OutOfBudget
from auglag.inner import InnerSolver, InnerStatus, choose
from auglag.problems.base import AbstractProblem
from auglag.problems.jacobians import row_norms
from auglag.problems.standard_form import StandardForm
from auglag.prox import Zero
from auglag.strategy.tuning import Tuning


@final
@dataclass(frozen=True, slots=True)
class Restoration:
    """The least violated point found, and what it shows."""

    x: Vector  #: in the user's variables
    violation: float  #: ||c - clip(c, cl, cu)||, user's units
    verdict: str  #: "feasible", "infeasible" (stationary from every start) or "unclear"


@final
@dataclass(frozen=True, slots=True)
class LeastViolation:
    """Where the violation was minimised from one start."""

    x: Vector  #: in the user's variables
    violation: float  #: user's units
    stationary: bool


def restore(
    form: StandardForm, inner: InnerSolver | str, starts: Sequence[Vector], tol: float, limit: int, tuning: Tuning
) -> Restoration:
    """min 1/2 ||c(x) - clip(c(x), cl, cu)||^2 over dom g from each start, and once more from a perturbed one.

    This is the augmented Lagrangian with f = 0, y = 0 and beta = 1, its rows scaled to gradients of the same size.
    "infeasible" is only said if every start ends at a stationary point of the violation that is not small. A limit or
    an interruption passes through as an exception.
    """
    rng = np.random.default_rng(1)
    last = starts[-1]
    spread = last + tuning.restoration_spread * np.maximum(1.0, np.abs(last)) * rng.standard_normal(last.size)
    best = Restoration(last, np.inf, "unclear")
    stationary = True
    for x in [*starts, np.clip(spread, form.problem.lower, form.problem.upper)]:
        found = least_violation(form, inner, x, limit, tuning)
        if found is None:
            stationary = False
            continue
        stationary &= found.stationary
        if found.violation < best.violation:
            best = Restoration(found.x, found.violation, "unclear")
        if found.violation <= tol:
            return Restoration(found.x, found.violation, "feasible")
    large = formulas.clearly_violated(best.violation, tol)
    if stationary and large and not _linearly_reducible(form.problem, best.x, tuning):
        return Restoration(best.x, best.violation, "infeasible")
    return best


def _linearly_reducible(problem: AbstractProblem, x: Vector, tuning: Tuning) -> bool:
    """Whether a step d, as long as 1e6 max(1, |x|), takes a tenth off the violation of the linearised constraints.

    In badly scaled variables J'r is small long before the violation is stationary; this linear programme (minimise t
    subject to cl - t v <= c + J d <= cu + t v, v the violation) does not mind the units. Not asked where J is an
    operator or g restricts x beyond bounds.
    """
    point = problem.at(x)
    whole = problem.g is None or isinstance(problem.g.domain(), Zero)
    if not whole or isinstance(point.jac, LinearOperator):
        return False
    v = np.maximum(np.maximum(problem.cl - point.c, point.c - problem.cu), 0.0)
    reach = tuning.linear_reach * np.maximum(1.0, np.abs(x))
    jac = sparse.csr_array(point.jac) * reach
    unit = 1.0 / np.maximum(row_norms(jac), np.maximum(v, 1e-300))
    rows = sparse.csr_array(sparse.hstack([sparse.diags_array(unit) @ jac, -(v * unit)[:, None]]))
    back = sparse.csr_array(sparse.hstack([sparse.diags_array(-unit) @ jac, -(v * unit)[:, None]]))
    above, below = np.isfinite(problem.cu), np.isfinite(problem.cl)
    sides = np.concatenate([((problem.cu - point.c) * unit)[above], ((point.c - problem.cl) * unit)[below]])
    low, high = np.maximum((problem.lower - x) / reach, -1.0), np.minimum((problem.upper - x) / reach, 1.0)
    bounds = np.column_stack([np.append(np.minimum(low, 0.0), 0.0), np.append(np.maximum(high, 0.0), 1.0)])
    cost = np.append(np.zeros(problem.n), 1.0)
    matrix = sparse.vstack([rows[above], back[below]])
    found = linprog(cost, A_ub=sparse.csr_array(matrix), b_ub=sides, bounds=bounds, method="highs")
    return bool(found.status == 0 and found.fun < tuning.linear_left)


def least_violation(
    form: StandardForm, inner: InnerSolver | str, x: Vector, limit: int, tuning: Tuning
) -> LeastViolation | None:
    """A local minimiser of the violation near the user's x; None where c is not defined."""
    problem = form.problem
    view = form.feasibility(x)
    start = view.start(x)
    if not np.isfinite(view.at(start).c).all():
        return None
    solver = choose("auto" if isinstance(inner, str) else inner, view.traits)
    subproblem = AugmentedLagrangian(view, np.zeros(view.m), 1.0)
    found = solver.solve(subproblem, start, tuning.restoration_tol, limit=limit)
    if found.status is InnerStatus.BUDGET:
        raise OutOfBudget(found.limit)
    if found.status is InnerStatus.INTERRUPTED:
        raise KeyboardInterrupt
    scaled = view.distance(found.x)
    if not np.isfinite(scaled).all():
        return None
    point = view.user_x(found.x).copy()
    c = problem.at(point).c
    violation = float(np.linalg.norm(c - np.clip(c, problem.cl, problem.cu)))
    return LeastViolation(point, violation, found.residual <= tuning.stationary * float(np.linalg.norm(scaled)))
