"""The curvature at a solution where no Hessian is given: what the run has learnt, and probes where that knows nothing.

A product with the Hessian of the Lagrangian is a difference of its gradients; where gradients are differences
themselves, values along the direction give its curvature alone, which is much cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._random import normal
from auglag._typing import Vector
from auglag.kkt import Hessian, Memory, Tangent
from auglag.kkt.curvature import structured_sr1
from auglag.kkt.linear import Factor
from auglag.kkt.linear.base import block
from auglag.strategy.solution import Sides, Solution
from auglag.strategy.tuning import Tuning


@final
@dataclass(frozen=True, slots=True)
class Probed:
    """What probes have shown."""

    hessian: Hessian | None  #: learnt, with what the probes taught; None where functions are not defined nearby
    positive: bool = False  #: it is positive on the tangent space
    complete: bool = False  #: and there is no direction of which nothing is known
    measured: bool = False  #: it was positive wherever it was measured, which is less
    down: Vector | None = None  #: a direction along which it was measured to be negative


def probed(at: Solution, jacobian: Any, sides: Sides, tuning: Tuning, *, doubtful: bool = False) -> Probed:
    """The learnt curvature on the tangent space of what holds the solution, after a few probes.

    Each probe joins what is known, so that the next direction is better chosen: one along which the learnt curvature is
    not positive, else one at right angles to all that is known. Where the KKT conditions say little (`doubtful`) the
    lowest learnt curvature is measured first, positive or not.
    """
    known, point = Memory(pairs=list(at.memory.pairs)), at.point
    enough = tuning.probes_after_steps if known.pairs else tuning.probes
    newest: Vector | None = None
    curved = 0
    values_only = at.form.problem.differenced and not at.form.has_hessp
    ritz = _Ritz(at)
    part = point.known_curvature()
    for count in range(tuning.probes + 1):
        hessian = structured_sr1(known, at.y, point.grad, at.curvature.dense, part)
        tangent = Tangent(hessian, jacobian, sides.free, sides.rows)
        if not count and tangent.empty(normal(0, at.z.size)):
            return Probed(hessian, positive=True, complete=True)
        flat = at.flat(tangent, tuning)
        positive = tangent.positive(flat)
        factor = tangent.shifted(0.0 if positive else flat)
        if factor is None:
            return Probed(None)
        if positive and not (doubtful and count == 0):
            direction = _unknown(known, jacobian, sides, tangent, factor, newest, count, tuning)
        else:
            lowest = tangent.lowest(factor, normal(count, at.z.size))[1].T
            direction = lowest[0] if len(lowest) else None
        if direction is None or count >= (enough if positive else tuning.probes):
            measured = count > 0 and curved == count
            whole = positive and direction is None and not (values_only and count and at.memory.pairs)
            return Probed(hessian, positive, complete=whole, measured=measured)
        probes = [s for s, _, _ in known.pairs[len(at.memory.pairs) :]]
        pair = ritz.pair(hessian, direction, tuning) if values_only else _pair(at, direction, probes, tuning)
        if pair is None:
            return Probed(None)
        rest = pair[1] if part is None else pair[1] - part @ pair[0]
        known.pairs.append((pair[0], rest, pair[2]))
        newest = pair[1] + (pair[2].T @ at.y if at.y.size else 0.0)
        curvature = float(pair[0] @ newest) / float(pair[0] @ pair[0])
        down = pair[0]
        if values_only:
            curvature, down = ritz.lowest()
        curved += curvature > flat
        if curvature < -flat:
            return Probed(structured_sr1(known, at.y, point.grad, at.curvature.dense, part), down=down)
    raise AssertionError("the last probe returns")


def _unknown(
    known: Memory,
    jacobian: Any,
    sides: Sides,
    tangent: Tangent,
    factor: Factor,
    newest: Vector | None,
    seed: int,
    tuning: Tuning,
) -> Vector | None:
    """A direction of the tangent space at right angles to all whose curvature is known; None where there is none.

    The newest product, which makes the directions a Krylov space, shows eigenvalues at the ends of the spectrum sooner
    than random directions do. Where matrices are too large to tell what is known, any direction of the tangent space.
    """
    n, free = sides.weak.size, sides.free
    any_one = normal(seed, n)
    direction = np.zeros(n)
    if (sides.rows.size + len(known.pairs)) * free.size > tuning.rank_entries:
        direction = tangent.onto(factor, any_one)
        return direction / max(float(np.linalg.norm(direction)), 1e-300)
    rows = block(jacobian, sides.rows, free)
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
    spanned = np.vstack([rows, *[s[free] for s, _, _ in known.pairs]])
    norms = np.linalg.norm(spanned, axis=1)
    spanned = spanned[norms > 0] / norms[norms > 0][:, None]
    sigma, basis = np.zeros(0), np.zeros((0, free.size))
    if spanned.size:
        _, sigma, basis = np.linalg.svd(spanned, full_matrices=False)
        basis = basis[sigma > tuning.rank * sigma[0]]
    if len(basis) >= free.size:
        return None
    for seen in (newest, any_one):
        v = np.zeros(free.size) if seen is None else seen[free] / max(float(np.linalg.norm(seen[free])), 1e-300)
        for _ in range(2):
            v = v - basis.T @ (basis @ v)
        length = float(np.linalg.norm(v))
        if length > tuning.rank_new:
            direction[free] = v / length
            return direction
    return None


def _pair(
    at: Solution, direction: Vector, probes: Sequence[Vector], tuning: Tuning
) -> tuple[Vector, Vector, Any] | None:
    """(s, change of grad f along s, change of J) for an s along the direction; None where functions are not defined.

    Only the sum of the second and the third times y is used: a product with the Hessian, which the problem may have.
    """
    form = at.form
    if form.has_hessp:
        return direction, at.point.hessp(at.y, direction), np.zeros((form.m, at.z.size))
    s = _inside(at, at.size * tuning.probe_step * direction / float(np.max(np.abs(direction))), probes)
    if not float(np.linalg.norm(s)) > 0.0:
        return None
    here, there = at.point, form.at(at.z + s)
    before, slope = at.curvature.jacobian(here), here.grad
    if not (math.isfinite(there.f) and np.isfinite(there.c).all()):
        return None
    change, bend = there.grad - slope, at.curvature.jacobian(there) - before
    finite = np.isfinite(change).all() and np.isfinite(bend.data if sparse.issparse(bend) else bend).all()
    return (s, change, bend) if finite else None


@final
class _Ritz:
    """The Hessian on the span of a few directions, from values alone: 2 for each pair of directions."""

    def __init__(self, at: Solution) -> None:
        self.at = at
        self.steps: list[Vector] = []
        self.matrix = np.zeros((0, 0))  #: s_i'Hs_j

    def pair(self, hessian: Hessian, direction: Vector, tuning: Tuning) -> tuple[Vector, Vector, Any] | None:
        """One direction more: as `_pair`, the learnt product with the curvature along the direction put right."""
        at = self.at
        s = _inside(at, at.size * tuning.probe_step_values * direction / float(np.max(np.abs(direction))), self.steps)
        length = float(np.linalg.norm(s))
        own = _bend(at, s)
        across = [(_bend(at, s + t) - own - self.matrix[i, i]) / 2 for i, t in enumerate(self.steps)]
        if not (length > 0.0 and math.isfinite(own)):
            return None
        across = [value if math.isfinite(value) else 0.0 for value in across]
        self.matrix = np.block([[self.matrix, np.array(across)[:, None]], [np.array(across), np.array([own])]])
        self.steps.append(s)
        unit = s / length
        image = hessian @ unit
        return unit, image + (own / length**2 - unit @ image) * unit, np.zeros((at.form.m, at.z.size))

    def lowest(self) -> tuple[float, Vector]:
        """The lowest curvature in the span, and the direction, of length 1, that has it."""
        q, r = np.linalg.qr(np.column_stack(self.steps))
        inverse = np.linalg.pinv(r)
        values, vectors = np.linalg.eigh(inverse.T @ self.matrix @ inverse)
        return float(values[0]), q @ vectors[:, 0]


def _bend(at: Solution, s: Vector) -> float:
    """s'Hs from values of the Lagrangian; NaN where it is not defined, or bounds are in the way."""

    def value(z: Vector) -> float:
        point = at.form.at(z)
        return point.f + float(at.y @ point.c)

    if not np.array_equal(at.inside(at.z + s), at.z + s):
        return math.nan
    if np.array_equal(at.inside(at.z - s), at.z - s):
        change = (value(at.z + s) + value(at.z - s)) / 2 - value(at.z)
    else:  # there is no room on one side
        change = value(at.z + s) - value(at.z) - float(at.point.lagrangian_gradient(at.y) @ s)
    return 2.0 * change


def _inside(at: Solution, s: Vector, probes: Sequence[Vector]) -> Vector:
    """s or -s, as the bounds let it; where they cut both, whichever way shows most that earlier probes did not."""
    ways = [at.inside(at.z + s) - at.z, at.inside(at.z - s) - at.z]
    for way, wanted in zip(ways, (s, -s), strict=True):
        if np.allclose(way, wanted, rtol=1e-6, atol=0.0):
            return way
    ways.append(at.reflected(at.z + s) - at.z)
    basis = np.linalg.qr(np.column_stack(probes))[0] if probes else np.zeros((s.size, 0))

    def new(way: Vector) -> float:
        rest = way - basis @ (basis.T @ way)
        return float(np.linalg.norm(rest)) / max(float(np.linalg.norm(way)), 1e-300)

    return max(ways, key=new)
