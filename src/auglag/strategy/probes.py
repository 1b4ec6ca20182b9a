"""The curvature at a solution where no Hessian is given: what the run has learnt, and probes where that knows nothing.

A run that begins in a subspace which its gradients never leave (a symmetric start) learns nothing of the curvature
beyond it, and ends at saddle points. Products with random vectors are what shows them. A product with the Hessian of
the Lagrangian is a difference of its gradients; where gradients are differences themselves, values along the direction
give its curvature alone, which is much cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._norms import largest, norm
from auglag._random import normal
from auglag._typing import Vector
from auglag.kkt import Hessian, Memory, Tangent
from auglag.kkt.curvature import structured_sr1
from auglag.kkt.lapack import right_singular_vectors
from auglag.kkt.linear.base import block
from auglag.strategy.solution import Sides, Solution
from auglag.strategy.tuning import Tuning

Pair = tuple[Vector, Vector, Any]  #: (s, change of grad f along s, change of J), as in `Memory.pairs`


@final
@dataclass(frozen=True, slots=True)
class Probed:
    """What probes have shown."""

    hessian: Hessian | None  #: learnt, with what the probes taught; None where functions are not defined nearby
    positive: bool = False  #: it is positive on the tangent space
    vertex: bool = False  #: which has no direction
    measured: bool = False  #: it was positive wherever it was measured, which is less
    down: Vector | None = None  #: a direction along which it was measured to be negative


def probed(at: Solution, jacobian: Any, sides: Sides, tuning: Tuning, *, doubtful: Callable[[], bool]) -> Probed:
    """The learnt curvature on the tangent space of what holds the solution, after a few probes.

    Each probe joins what is known, so that the next direction is better chosen: one along which the learnt curvature is
    not positive, else one at right angles to all that is known. Where the KKT conditions say little (`doubtful`) the
    lowest learnt curvature is measured first, positive or not.
    """
    by_values = at.form.problem.differenced and not at.form.has_hessp
    learnt = _ByValues(at, tuning) if by_values else _ByGradients(at, tuning)
    space = _Space(jacobian, sides, tuning)
    enough = tuning.probes_confined if space.closed(learnt.pairs, at.y) else tuning.probes_after_steps
    most = max(enough, tuning.probes)
    curved, product = False, None
    for count in range(most + 1):
        hessian, random = learnt.hessian(), normal(count, at.z.size)
        tangent = Tangent(hessian, jacobian, sides.free, sides.rows)
        if count == 0 and tangent.empty(random):
            return Probed(hessian, positive=True, vertex=True)
        flat = at.flat(tangent, tuning)
        positive = tangent.positive(flat)
        chosen = positive and not (count == 0 and doubtful())
        if chosen:
            direction = space.beyond(learnt.steps, tangent, product, random)
        else:
            factor = tangent.shifted(0.0 if positive else flat)
            if factor is None:
                return Probed(None)
            lowest = tangent.lowest(factor, random)[1].T
            direction = lowest[0] if len(lowest) and _new(lowest[0], learnt.probes, tuning) else None
        if direction is None or count >= (enough if positive else most):
            return Probed(hessian, positive, measured=curved)
        probe = learnt.probe(direction, tangent.size)
        if probe is None:
            return Probed(None)
        curved = probe.curvature > flat
        if probe.curvature < -flat:
            return Probed(learnt.hessian(), down=probe.direction)
        product = probe.product if chosen else None  # a Krylov space begins with a random vector
    raise AssertionError("the last probe returns")


@final
class _Space:
    """The directions of the tangent space, and which of them steps and probes have seen."""

    def __init__(self, jacobian: Any, sides: Sides, tuning: Tuning) -> None:
        self._free, self._tuning = sides.free, tuning
        self._rows = block(jacobian, sides.rows, sides.free)
        self._held: Vector | None = None  #: orthonormal rows that span the gradients of what holds the solution
        self._known: tuple[int, Vector] | None = None  #: how many steps there were, and `_seen` of these

    def _too_large(self, steps: Sequence[Vector]) -> bool:
        """Whether matrices are too large to tell what is known."""
        entries: int = (self._rows.shape[0] + len(steps)) * self._free.size
        return entries > self._tuning.rank_entries

    def closed(self, pairs: Sequence[Pair], y: Vector) -> bool:
        """Whether the run may have been confined: the changes of gradients along its steps are among these steps.

        What it has learnt is then the curvature of a subspace that it could not leave. A run that was not confined
        finds that a few steps do not span the changes of its gradients, if they do not span all directions.
        """
        steps = [s for s, _, _ in pairs]
        if not steps or self._too_large(steps):
            return not steps
        seen = self._seen(steps)
        if len(seen) >= self._free.size:
            return True
        beyond = _off(np.array([_product(pair, y)[self._free] for pair in pairs]), seen)
        sizes = np.array([norm(dg) + norm(dj.T @ y) for _, dg, dj in pairs])
        return bool((np.linalg.norm(beyond, axis=1) <= self._tuning.rank_new * sizes).all())

    def beyond(
        self, steps: Sequence[Vector], tangent: Tangent, product: Vector | None, random: Vector
    ) -> Vector | None:
        """A direction of the tangent space at right angles to all whose curvature is known; None where there is none.

        The product with the last one makes the directions a Krylov space, which shows eigenvalues at the ends of the
        spectrum sooner than random directions do. Where it brings nothing new the space is invariant, and since it
        began at random it has seen all there is. Where matrices are too large to tell what is known, any direction.
        """
        direction = np.zeros(random.size)
        if self._too_large(steps):
            factor = tangent.shifted(0.0)
            if factor is None:
                return None
            direction = tangent.onto(factor, random)
            return direction / max(norm(direction), 1e-300)
        seen = self._seen(steps)
        if len(seen) >= self._free.size:
            return None
        v = _off(_unit((random if product is None else product)[None, self._free]), seen)[0]
        length = norm(v)
        if not length > self._tuning.rank_new:
            return None
        direction[self._free] = v / length
        return direction

    def _seen(self, steps: Sequence[Vector]) -> Vector:
        """Orthonormal rows that span the gradients of what holds the solution, and the steps."""
        if self._known is not None and self._known[0] == len(steps):
            return self._known[1]
        if self._held is None:
            rows = self._rows if isinstance(self._rows, np.ndarray) else self._rows.toarray()
            self._held = _span(_unit(rows), self._tuning.rank)
        seen = np.array([s[self._free] for s in steps]).reshape(len(steps), self._free.size)
        found = np.vstack([self._held, _span(_off(_unit(seen), self._held), self._tuning.rank_new)])
        self._known = (len(steps), found)
        return found


def _unit(rows: Vector) -> Vector:
    """Rows divided by their lengths."""
    units: Vector = rows / np.maximum(np.sqrt(np.add.reduce(rows * rows, axis=1)), 1e-300)[:, None]
    return units


def _span(rows: Vector, least: float) -> Vector:
    """Orthonormal rows that span all directions of which there is more than `least` in some rows."""
    if not rows.size:
        return rows[:0]
    sigma, basis = right_singular_vectors(rows, complete=False)
    spanned: Vector = basis[sigma > least]
    return spanned


def _off(rows: Vector, basis: Vector) -> Vector:
    """Rows less their parts in the span of orthonormal rows; twice is enough (Kahan)."""
    for _ in range(2):
        rows = rows - (rows @ basis.T) @ basis
    return rows


def _new(direction: Vector, probes: Sequence[Vector], tuning: Tuning) -> bool:
    """Whether another probe along the direction would show anything."""
    if not probes:
        return True
    rest = _off(_unit(direction[None, :]), _span(_unit(np.array(probes)), tuning.rank))
    return float(np.linalg.norm(rest)) > tuning.rank_new


@final
@dataclass(frozen=True, slots=True)
class _Probe:
    """What the probes have shown after one more."""

    curvature: float  #: the lowest on their span
    direction: Vector  #: which has it
    product: Vector | None  #: of the newest with the Hessian of the Lagrangian; None where values do not show it


@final
class _ByGradients:
    """The curvature that the run has learnt, and products with the Hessian: given, or differences of gradients."""

    def __init__(self, at: Solution, tuning: Tuning) -> None:
        self._at, self._tuning, self._step = at, tuning, tuning.probe_step * at.size
        self.pairs = _long(at, self._step)
        self.steps = [s for s, _, _ in self.pairs]  #: along which the curvature is known
        self.probes: list[Vector] = []
        self._products: list[Vector] = []

    def hessian(self) -> Hessian:
        """The Hessian of the Lagrangian, as far as it is known."""
        return _learnt(self._at, self.pairs)

    def probe(self, direction: Vector, size: float) -> _Probe | None:
        """One product more; None where functions are not defined.

        Third derivatives make an error of the size of the step. Curvature that is not clear of it, compared with
        |H| = `size`, is measured on both sides.
        """
        at = self._at
        if at.form.has_hessp:
            pair: Pair | None = (direction, at.point.hessp(at.y, direction), np.zeros((at.form.m, at.z.size)))
        else:
            s = _inside(at, self._step * direction / largest(direction), self.probes)
            pair = _difference(at, s)
            if pair is not None and _along(pair, at.y) <= self._tuning.probe_clear * self._step * size:
                other = _difference(at, at.inside(at.z - s) - at.z)
                if other is not None and np.array_equal(other[0], -s):
                    pair = s, (pair[1] - other[1]) / 2, (pair[2] - other[2]) / 2
        if pair is None:
            return None
        self.pairs.append(pair)
        self.steps.append(pair[0])
        self.probes.append(pair[0])
        self._products.append(_product(pair, at.y))
        matrix = np.array(self.probes) @ np.array(self._products).T
        return _Probe(*_lowest(self.probes, (matrix + matrix.T) / 2), self._products[-1])


@final
class _ByValues:
    """The curvature that the run has learnt, put right on the span of a few directions: 2 values for each two of them.

    Gradients are differences, so that a product would take several values for each variable.
    """

    def __init__(self, at: Solution, tuning: Tuning) -> None:
        self._at, self._step = at, tuning.probe_step_values * at.size
        self.pairs = _long(at, self._step)
        self.steps = [s for s, _, _ in self.pairs]  #: along which the curvature is known
        self._learnt = _learnt(at, self.pairs)
        self.probes: list[Vector] = []
        self._matrix = np.zeros((0, 0))  #: s_i'Hs_j

    def hessian(self) -> Hessian:
        """The Hessian of the Lagrangian, as far as it is known."""
        if not self.probes:
            return self._learnt
        q, known = _on_span(self.probes, self._matrix)
        values, vectors = np.linalg.eigh(known - q.T @ np.column_stack([self._learnt @ column for column in q.T]))
        return self._learnt.plus(np.ascontiguousarray(q @ vectors), values)

    def probe(self, direction: Vector, size: float) -> _Probe | None:
        """One direction more; None where functions are not defined, or bounds leave no room."""
        at = self._at
        s = _inside(at, self._step * direction / largest(direction), self.probes)
        own = _bend(at, s)
        if not math.isfinite(own):
            return None
        across = [(_bend(at, s + t) - own - self._matrix[i, i]) / 2 for i, t in enumerate(self.probes)]
        across = [value if math.isfinite(value) else 0.0 for value in across]
        self._matrix = np.block([[self._matrix, np.array(across)[:, None]], [np.array(across), np.array([own])]])
        self.steps.append(s)
        self.probes.append(s)
        return _Probe(*_lowest(self.probes, self._matrix), None)


def _on_span(steps: Sequence[Vector], matrix: Vector) -> tuple[Vector, Vector]:
    """(Q, Q'HQ) for an orthonormal basis Q of the steps, from the numbers s_i'Hs_j."""
    q, r = np.linalg.qr(np.column_stack(steps))
    inverse = np.linalg.pinv(r)
    return q, inverse.T @ matrix @ inverse


def _lowest(steps: Sequence[Vector], matrix: Vector) -> tuple[float, Vector]:
    """The lowest curvature on the span of the steps, and the direction, of length 1, that has it."""
    q, known = _on_span(steps, matrix)
    values, vectors = np.linalg.eigh(known)
    return float(values[0]), q @ vectors[:, 0]


def _long(at: Solution, least: float) -> list[Pair]:
    """What the run has learnt from steps as long as a probe; shorter ones show the errors of gradients as well."""
    pairs = [pair for pair in at.memory.pairs if norm(pair[0]) >= least]
    known = at.point.known_curvature()
    return pairs if known is None else [(s, change + known @ s, bend) for s, change, bend in pairs]


def _learnt(at: Solution, pairs: Sequence[Pair]) -> Hessian:
    """The Hessian of the Lagrangian from pairs; a part that is known was taken off those of the run."""
    known = at.point.known_curvature()
    rest = list(pairs) if known is None else [(s, change - known @ s, bend) for s, change, bend in pairs]
    return structured_sr1(Memory(pairs=rest), at.y, at.point.grad, at.curvature.dense, known)


def _product(pair: Pair, y: Vector) -> Vector:
    """The change of the Lagrangian's gradient along s."""
    _, change, bend = pair
    product: Vector = change + bend.T @ y if y.size else change
    return product


def _along(pair: Pair, y: Vector) -> float:
    """The curvature along s."""
    return float(pair[0] @ _product(pair, y)) / float(pair[0] @ pair[0])


def _difference(at: Solution, s: Vector) -> Pair | None:
    """The pair of a step s from the solution; None where functions are not defined."""
    if not norm(s) > 0.0:
        return None
    here, there = at.point, at.form.at(at.z + s)
    before, slope = at.curvature.jacobian(here), here.grad
    if not (math.isfinite(there.f) and np.isfinite(there.c).all()):
        return None
    change, bend = there.grad - slope, at.curvature.jacobian(there) - before
    finite = np.isfinite(change).all() and np.isfinite(bend.data if sparse.issparse(bend) else bend).all()
    return (s, change, bend) if finite else None


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
        return norm(rest) / max(norm(way), 1e-300)

    return max(ways, key=new)
