"""Is there a feasible point? Minimise the violation alone, with the same inner solver, from several points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.linalg import LinearOperator

from auglag._norms import norm
from auglag._typing import Vector
from auglag.algorithm import formulas
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.errors import OutOfBudget
from auglag.inner import InnerSolver, InnerStatus, choose
from auglag.inner.qp import curvature_for
from auglag.problems.base import AbstractProblem
from auglag.problems.jacobians import equilibrating, row_norms
from auglag.problems.standard_form import StandardForm
from auglag.prox import Zero
from auglag.strategy.tuning import Tuning

#: x -> how many times its violation is what a solution may have (`certificate.incumbent.Judge.excess`)
Excess = Callable[[Vector], float]


@final
@dataclass(frozen=True, slots=True)
class Restoration:
    """The least violated point found, and what it shows."""

    x: Vector  #: in the user's variables
    violation: float  #: ||c - clip(c, cl, cu)||, user's units
    #: "feasible", "elsewhere" (feasible, but only starts far away lead there), "infeasible" (stationary from every
    #: start) or "unclear"
    verdict: str
    wide: bool = False  #: starts far away were tried


@final
@dataclass(frozen=True, slots=True)
class LeastViolation:
    """Where the violation was minimised from one start."""

    x: Vector  #: in the user's variables
    violation: float  #: user's units
    stationary: bool
    iterations: int = 0


def restore(
    form: StandardForm,
    inner: InnerSolver | str,
    starts: Sequence[Vector],
    excess: Excess,
    limit: int,
    tuning: Tuning,
    *,
    effort: int = 0,
    known: list[LeastViolation] | None = None,
) -> Restoration:
    """min 1/2 ||c(x) - clip(c(x), cl, cu)||^2 over dom g from each start, and once more from beside the last one.

    This is the augmented Lagrangian with f = 0, y = 0 and beta = 1, its rows scaled to gradients of the same size.
    "infeasible" is only said if every start ends at a stationary point of the violation that is not small (on sparse
    problems: if the least violated one does), if then minimising in the user's units does not help, and if starts far
    away, on which at most about `effort` inner iterations are spent, find no feasible point either. A limit or an
    interruption passes through as an exception.
    `known` is what the last start and the point beside it led to; what is found out about them is added.
    """
    problem, last, known = form.problem, starts[-1], [] if known is None else known
    rng = np.random.default_rng(1)
    spread = last + tuning.restoration_spread * np.maximum(1.0, np.abs(last)) * rng.standard_normal(last.size)
    best, stationary = LeastViolation(last, np.inf, False), True
    for k, x in enumerate([*starts, np.clip(spread, problem.lower, problem.upper)], start=1 - len(starts)):
        found = known[k] if 0 <= k < len(known) else least_violation(form, inner, x, limit, tuning)
        if found is None:
            stationary = False
            continue
        if k == len(known) and not problem.differenced:  # differences become more accurate later
            known.append(found)
        stationary &= found.stationary
        best = found if found.violation < best.violation else best
        if excess(found.x) <= 1.0:
            return Restoration(found.x, found.violation, "feasible")
    if not curvature_for(form.traits).dense:  # a minimisation may have been cut short in a valley
        stationary = best.stationary
    large = best.violation < np.inf and formulas.clearly_violated(excess(best.x), 1.0)
    if not (stationary and large) or _linearly_reducible(problem, best.x, tuning):
        return Restoration(best.x, best.violation, "unclear")
    best = _in_units(form, inner, best, limit, tuning)
    if excess(best.x) <= 1.0:
        return Restoration(best.x, best.violation, "feasible")
    wide = effort > 0 and bool(tuning.wide_spreads) and not linearly_infeasible(problem)
    if wide:
        best = _further(form, inner, last, best, excess, effort, tuning)
        if excess(best.x) <= 1.0:
            return Restoration(best.x, best.violation, "elsewhere", wide)
    shown = best.stationary and formulas.clearly_violated(excess(best.x), 1.0)
    return Restoration(best.x, best.violation, "infeasible" if shown else "unclear", wide)


def _in_units(
    form: StandardForm, inner: InnerSolver | str, found: LeastViolation, limit: int, tuning: Tuning
) -> LeastViolation:
    """The least violation in the user's units: minimised again from there without scaling the rows.

    Where rows of very different size keep that from becoming stationary, scaled rows have to show that nothing lower is
    near.
    """
    again = least_violation(form, inner, found.x, limit, tuning, units=True)
    if again is None or not again.violation < found.violation:
        return found
    if again.stationary:
        return again
    scaled = least_violation(form, inner, again.x, limit, tuning)
    if scaled is None or scaled.violation < again.violation:
        return scaled or again
    return replace(again, stationary=scaled.stationary)


def _further(
    form: StandardForm,
    inner: InnerSolver | str,
    x0: Vector,
    best: LeastViolation,
    excess: Excess,
    effort: int,
    tuning: Tuning,
) -> LeastViolation:
    """The least violated point from starts far away; the first that is feasible."""
    spent = 0
    for x in wide_starts(form.problem, [best.x, x0], tuning):
        found = least_violation(form, inner, x, tuning.start_search, tuning)
        if found is None:
            continue
        spent += found.iterations
        if found.violation < best.violation:  # rows were scaled at x, which may be far from here
            best = _in_units(form, inner, _again(form, inner, found, tuning), tuning.start_search, tuning)
            spent += best.iterations
        if excess(best.x) <= 1.0 or spent >= effort:
            break
    return best


def _again(form: StandardForm, inner: InnerSolver | str, found: LeastViolation, tuning: Tuning) -> LeastViolation:
    again = least_violation(form, inner, found.x, tuning.start_search, tuning)
    return again if again is not None and again.violation < found.violation else found


def wide_starts(problem: AbstractProblem, centres: Sequence[Vector], tuning: Tuning) -> Iterator[Vector]:
    """Points around the centres and around 0, at ever larger distances, in pairs on opposite sides.

    A coordinate that leaves its bounds is put back: between two bounds at random, beyond one bound by reflection. So
    the points that lie far out fill a box evenly.
    """
    rng = np.random.default_rng(2)
    lower, upper = problem.lower, problem.upper
    boxed = np.isfinite(lower) & np.isfinite(upper)
    for spread in tuning.wide_spreads:
        for centre in [*centres, np.zeros(problem.n)]:
            step = spread * np.maximum(1.0, np.abs(centre)) * rng.standard_normal(problem.n)
            for x in (centre + step, centre - step):
                x = np.where((x < lower) & ~boxed, 2.0 * lower - x, np.where((x > upper) & ~boxed, 2.0 * upper - x, x))
                if boxed.any():
                    inside = lower[boxed] + rng.random(int(boxed.sum())) * (upper - lower)[boxed]
                    x[boxed] = np.where((x < lower)[boxed] | (x > upper)[boxed], inside, x[boxed])
                yield np.clip(x, lower, upper)


def linearly_infeasible(problem: AbstractProblem) -> bool:
    """Whether the rows known to be linear and the bounds alone have no solution, which a linear programme proves."""
    linear = problem.linear()
    if linear is None or (problem.g is not None and not isinstance(problem.g.domain(), Zero)):
        return False
    matrix = sparse.csr_array(linear.matrix)
    unit, per = equilibrating(matrix)  # tolerances of a linear programme are absolute
    matrix = sparse.csr_array(sparse.diags_array(unit) @ matrix @ sparse.diags_array(per))
    low, high = (unit * (sides[linear.rows] - linear.constant) for sides in (problem.cl, problem.cu))
    above, below = np.isfinite(high), np.isfinite(low)
    found = linprog(
        np.zeros(problem.n),
        A_ub=sparse.csr_array(sparse.vstack([matrix[above], -matrix[below]])),
        b_ub=np.concatenate([high[above], -low[below]]),
        bounds=np.column_stack([problem.lower / per, problem.upper / per]),
        method="highs",
    )
    return bool(found.status == 2)


def only_linear(problem: AbstractProblem) -> bool:
    """Whether all rows are known to be linear, and g is nothing but bounds."""
    linear = problem.linear()
    whole = problem.g is None or isinstance(problem.g.domain(), Zero)
    return whole and linear is not None and linear.rows.size == problem.m


def proved(problem: AbstractProblem, x: Vector) -> Restoration:
    """What is known where a proof says that there is no feasible point."""
    c = problem.at(x).c
    return Restoration(x, norm(c - np.clip(c, problem.cl, problem.cu)), "infeasible", wide=True)


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
    form: StandardForm, inner: InnerSolver | str, x: Vector, limit: int, tuning: Tuning, *, units: bool = False
) -> LeastViolation | None:
    """A local minimiser of the violation near the user's x; None where c is not defined.

    What is minimised has rows scaled to gradients of size 1 at x; with `units=True` as they are, in the user's units.
    """
    problem = form.problem
    view = form.feasibility(x, units=units)
    start = view.start(x)
    if not np.isfinite(view.at(start).c).all():
        return None
    solver = choose("auto" if isinstance(inner, str) else inner, view.traits)
    subproblem = AugmentedLagrangian(view, np.zeros(view.m), 1.0)
    dense = curvature_for(view.traits).dense
    limit = limit if dense else min(limit, tuning.sparse_search)
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
    violation = norm(c - np.clip(c, problem.cl, problem.cu))
    stationary = found.residual <= (tuning.stationary if dense else tuning.stationary_sparse) * norm(scaled)
    return LeastViolation(point, violation, stationary, found.iterations)
