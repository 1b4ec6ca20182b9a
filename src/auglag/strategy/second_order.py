"""Is a point that meets the tolerance a minimum? Curvature where the active constraints leave room, and ways to leave.

The KKT conditions hold at saddle points and maxima, too. At a minimum the Hessian of the Lagrangian is not negative on
any direction that the active constraints allow. With Hessians one factorisation decides; without, the curvature that
the run has learnt, and a few probes where that knows nothing. Where the curvature is negative or zero, values of the
augmented Lagrangian along such directions say whether there is a lower point nearby. Where gradients of constraints are
dependent the KKT conditions say little, and a random point nearby is the last resort. The driver goes on from what is
found here, and the better of the two solutions is the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._norms import largest, norm
from auglag._typing import Vector
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.kkt import Hessian, Tangent
from auglag.kkt.lapack import right_singular_vectors
from auglag.kkt.linear.base import block
from auglag.problems.jacobians import row_norms
from auglag.problems.presolved import Presolved
from auglag.strategy.plan import DEGENERATE, MINIMUM, PROBABLE, SADDLE, UNCHECKED
from auglag.strategy.probes import probed
from auglag.strategy.solution import Sides, Solution
from auglag.strategy.tuning import Tuning


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """What a solution is, and where to go on from if a better one may be near."""

    verdict: str  #: one of `plan.VERDICTS`
    start: Vector | None = None  #: in the form's variables
    y: Vector | None = None  #: multipliers to go on with, in the form's units; None: 0
    penalty: float = 1.0  #: multiplies the first penalty


def look(at: Solution, tuning: Tuning) -> Finding:
    """Whether a solution is a minimum, and if not, where to go on."""
    point = at.point
    jacobian = at.curvature.jacobian(point)
    sides = at.sides(jacobian, tuning)
    if at.failed:
        return Finding(at.failed, _perturbed(at, tuning), penalty=tuning.departure_penalty)
    if not sides.free.size:
        return Finding(MINIMUM)
    down, certain, measured = None, at.curvature.exact, False
    if at.curvature.exact:
        hessian = at.curvature.hessian(point, at.z, at.y, at.memory)
        if not hessian.finite():
            return Finding(UNCHECKED)
        tangent = Tangent(hessian, jacobian, sides.free, sides.rows, at.memory.layout)
        positive = tangent.positive(at.flat(tangent, tuning))
    else:
        found = probed(at, jacobian, sides, tuning, doubtful=lambda: _dependent(jacobian, sides.all_held(), tuning))
        if found.hessian is None:
            return Finding(UNCHECKED)
        hessian, positive, certain = found.hessian, found.positive, found.vertex
        down, measured = found.down, found.measured
    if positive:
        return Finding(MINIMUM if certain else PROBABLE)
    start = _lower(at, hessian, jacobian, sides, down, tuning)
    if start is not None:
        return Finding(SADDLE, start, at.y, tuning.departure_penalty)
    if measured:
        return Finding(PROBABLE)
    if _dependent(jacobian, sides.all_held(), tuning) and not _convex(at, hessian, jacobian, tuning):
        return Finding(DEGENERATE, _perturbed(at, tuning))
    return Finding(DEGENERATE)


def _lower(
    at: Solution, hessian: Hessian, jacobian: Any, sides: Sides, down: Vector | None, tuning: Tuning
) -> Vector | None:
    """A lower point along directions of negative curvature, or of none.

    First the one along which it was measured, then directions along which all stays touched that is: both ways are open
    there. Then those that leave weak sides.
    """
    if down is not None:
        tangent = Tangent(hessian, jacobian, sides.free, sides.rows, at.memory.layout)
        start = _lower_along(at, down, tuning.leave_trials, tangent, tuning)
        if start is not None:
            return start
    for held in [sides.all_held(), sides] if sides.any_weak else [sides]:
        tangent = Tangent(hessian, jacobian, held.free, held.rows, at.memory.layout)
        flat = at.flat(tangent, tuning)
        if at.curvature.exact and not at.curvature.dense and tangent.positive(-flat):
            continue  # on large problems directions of no curvature are not followed: there are many, at a high price
        factor = None if tangent.positive(flat) else tangent.shifted(flat)
        if factor is None:
            continue
        count = tuning.leave_directions if at.curvature.dense else 1  # each costs as much as many steps there
        for seed in np.random.default_rng(at.seed).standard_normal((count, at.z.size)):
            values, vectors = tangent.lowest(factor, seed)
            some, trials = values < -flat, tuning.leave_trials
            if not some.any():
                some, trials = values <= flat, tuning.leave_trials_flat
            if not (some.any() and at.curvature.exact):  # what was learnt may have missed the flat ones
                some[:] = True
            direction = vectors[:, some] @ (vectors[:, some].T @ seed)
            start = _lower_along(at, direction, trials, tangent, tuning)
            if start is not None:
                return start
    return None


def _lower_along(at: Solution, direction: Vector, trials: int, tangent: Tangent, tuning: Tuning) -> Vector | None:
    """The first point along the direction, both ways and ever nearer, at which the augmented Lagrangian is lower.

    Lower means by more than rounding errors and R explain. Values only.
    """
    length = largest(direction)
    if not length > 0.0:
        return None
    unit = direction / length
    merit = AugmentedLagrangian(at.form, at.y, at.beta)
    first = merit.value(at.z)
    step = tuning.leave_first * at.size
    for _ in range(trials):
        ends = [at.inside(at.z + step * unit), at.inside(at.z - step * unit)]
        if not np.array_equal(ends[0] - at.z, at.z - ends[1]):  # bounds are in the way: off all of them at once
            ends.append(at.reflected(at.z + step * unit))
        points = [_near_rows(at, end, tangent, tuning) for end in ends]
        values = [merit.value(point) for point in points]
        best = min(range(len(ends)), key=lambda i: values[i] if math.isfinite(values[i]) else math.inf)
        noise = tuning.leave_noise * max(1.0, abs(first))
        noise += at.form.scaling.sf * at.residual * norm(points[best] - at.z)
        if values[best] < first - noise:
            return points[best]
        step *= tuning.leave_shorter
    return None


def _near_rows(at: Solution, z: Vector, tangent: Tangent, tuning: Tuning) -> Vector:
    """z moved back to the rows by a few steps of Newton's method with the Jacobian of the solution."""
    for _ in range(tuning.leave_corrections if tangent.active.size else 0):
        off = at.form.distance(z)
        size = norm(off)
        if not at.tol < size < math.inf:
            break
        nearer = at.inside(z + tangent.back(off))
        if not norm(at.form.distance(nearer)) < size:
            break
        z = nearer
    return z


def _perturbed(at: Solution, tuning: Tuning) -> Vector:
    """A random point near the solution, off the bounds."""
    noise = np.random.default_rng(at.seed).standard_normal(at.z.size)
    return at.reflected(at.z + tuning.perturbation * np.maximum(1.0, np.abs(at.z)) * noise)


def _dependent(jacobian: Any, held: Sides, tuning: Tuning) -> bool:
    """Whether the gradients of all that is touched are dependent; matrices that are too large count as not."""
    rows, free = held.rows, held.free
    if rows.size > free.size:
        return True
    if not rows.size or rows.size * free.size > tuning.rank_entries:
        return False
    part = block(jacobian, rows, free)
    part = part if isinstance(part, np.ndarray) else part.toarray()
    part = part / np.maximum(row_norms(part), 1e-300)[:, None]
    sigma, _ = right_singular_vectors(part, complete=False)
    return bool(sigma[-1] <= tuning.rank * sigma[0])


def _convex(at: Solution, hessian: Hessian, jacobian: Any, tuning: Tuning) -> bool:
    """Whether the problem is known to be convex: linear rows, and a Hessian without negative eigenvalues."""
    problem = at.form.problem
    original = problem.original if isinstance(problem, Presolved) else problem
    linear = original.linear()
    if original.m and (linear is None or linear.rows.size < original.m):
        return False
    whole = Tangent(hessian, jacobian, np.arange(at.z.size), np.zeros(0, np.intp))
    return whole.factor(at.flat(whole, tuning)) is not None
