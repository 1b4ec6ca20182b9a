"""The Hessian of the Lagrangian for the model: the user's, or learnt from first derivatives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._norms import finite, largest, norm
from auglag._typing import Vector
from auglag.kkt import tuning
from auglag.kkt.hessian import Hessian
from auglag.kkt.linear import Analyses
from auglag.kkt.model import Sets, Step
from auglag.problems.jacobians import as_csr, transpose


@final
@dataclass(slots=True)
class Memory:
    """What one step of the method hands to the next, over subproblems: all explicit, so that it can be saved."""

    sets: Sets | None = None
    radius: float | None = None  #: of the trust region; None: from the size of x
    multipliers: Vector | None = None  #: of the last model; None: as the subproblem estimates them
    shift: float = 0.0  #: the multiple of the identity that the last model's Hessian needed
    cycles: int = 0  #: models in a row whose sets cycled
    pairs: list[tuple[Vector, Vector, Any]] = field(default_factory=list)  #: (s, difference of grad f, of J)
    last: tuple[Vector, Vector, Any] | None = None  #: x, grad f, J at the last point seen
    #: What linear solvers know of the pattern of the systems; not saved, since any system finds it anew.
    layout: Analyses = field(default_factory=Analyses, metadata={"saved": False})

    def keep(self, step: Step, sets: Sets) -> None:
        """Keep what the next model begins with: these sets, and what the step of the last one took."""
        self.sets, self.shift = sets, step.shift
        self.cycles = self.cycles + 1 if step.cycled else 0

    def see(self, x: Vector, gradient: Vector, jacobian: Any, known: Any = None) -> None:
        """Learn from a new point; of a Hessian of f of which a part is `known` the rest."""
        if self.last is not None:
            s, t = x - self.last[0], tuning.TUNING
            if norm(s) > t.shortest_step * max(1.0, norm(x)):
                change = gradient - self.last[1]
                change = change if known is None else change - known @ s
                self.pairs.append((s, change, _packed(jacobian - self.last[2])))
                del self.pairs[: -t.pairs]
        self.last = (x.copy(), gradient, jacobian)


def _packed(difference: Any) -> Any:
    """A difference of Jacobians as it is kept: sparse where that is much smaller, else row by row.

    The order matters: products with matrices that are stored otherwise differ in the last digit, and a matrix from a
    checkpoint is stored row by row.
    """
    if not isinstance(difference, np.ndarray):
        return difference
    t = tuning.TUNING
    if difference.size > t.packed_entries and np.count_nonzero(difference) < t.packed_density * difference.size:
        return sparse.csr_array(difference)
    return np.ascontiguousarray(difference)


def structured_sr1(memory: Memory, w: Vector, gradient: Vector, as_dense: bool, known: Any = None) -> Hessian:
    """A symmetric rank-one Hessian of f + w'c, rebuilt from all pairs with the multipliers of now.

    beta J'J is exact in the model, so that only the Lagrangian's curvature is learnt; and since (s, dg, dJ) are kept
    apart, dg + dJ'w is the right difference for any w. The start is a multiple of the identity from the newest pair, or
    the part of the Hessian of f that is `known` (then pairs are differences less that part).
    """
    n, t = gradient.size, tuning.TUNING
    pairs = [(s, dg + dj.T.dot(w) if w.size else dg) for s, dg, dj in memory.pairs]
    if known is not None:
        return _beside(known, pairs, n, as_dense)
    if not pairs:
        return _multiple(max(t.first_curvature, min(1.0, largest(gradient))), n, as_dense)
    s, r = pairs[-1]
    first = min(max(abs(float(s.dot(r))) / float(s.dot(s)), t.least_curvature), t.largest_curvature)
    v, c = _rank_one_terms(pairs, first, n)
    if not finite(v):
        return _multiple(1.0, n, as_dense)
    if not as_dense:
        return _multiple(first, n, as_dense).plus(np.ascontiguousarray(v), c)
    matrix = (v * c) @ v.T
    matrix.reshape(-1)[:: n + 1] += first
    return Hessian(matrix)


def _rank_one_terms(pairs: list[tuple[Vector, Vector]], first: float, n: int) -> tuple[Any, Vector]:
    """(V, c): V diag(c) V' is what symmetric rank-one updates by the pairs (s, r) add to `first` I."""
    t = tuning.TUNING
    vectors, signs = np.zeros((len(pairs), n)), np.zeros(len(pairs))
    steps = np.array([s for s, _ in pairs]).reshape(len(pairs), n)
    rest = np.array([r for _, r in pairs]).reshape(len(pairs), n) - first * steps
    used = 0
    for s, u in zip(steps, rest, strict=True):
        if used:
            known = vectors[:used]
            u -= known.T.dot(signs[:used] * known.dot(s))
        denominator = float(u.dot(s))
        if abs(denominator) > t.skipped_update * norm(s) * norm(u):
            vectors[used], signs[used] = u / math.sqrt(abs(denominator)), math.copysign(1.0, denominator)
            used += 1
    return vectors[:used].T, signs[:used]


def _beside(known: Any, pairs: list[tuple[Vector, Vector]], n: int, as_dense: bool) -> Hessian:
    """The known part, and what the pairs tell of the rest; nothing of it is assumed where they are silent."""
    if as_dense:
        part = Hessian(known.toarray() if sparse.issparse(known) else np.asarray(known))
    else:
        part = Hessian(sparse.csc_array(known))
    v, c = _rank_one_terms(pairs, 0.0, n)
    return part.plus(np.ascontiguousarray(v), c) if c.size and finite(v) else part


def _multiple(factor: float, n: int, as_dense: bool) -> Hessian:
    return Hessian(factor * np.eye(n) if as_dense else sparse.diags_array(np.full(n, factor), format="csc"))


@final
@dataclass(frozen=True, slots=True)
class Curvature:
    """Where Hessians come from."""

    exact: bool
    dense: bool  #: matrices are kept dense

    def hessian(self, point: Any, x: Vector, w: Vector, memory: Memory) -> Hessian:
        """The Hessian of f + w'c at the point, in the units of the form."""
        if not self.exact:
            known = point.known_curvature()
            memory.see(x, point.grad, self.jacobian(point), known)
            return structured_sr1(memory, w, point.grad, self.dense, known)
        h = point.hess(w)
        if self.dense:
            return Hessian(h.toarray() if sparse.issparse(h) else np.asarray(h))
        if type(h) is sparse.csr_array:
            return Hessian(transpose(h))  # it is symmetric
        return Hessian(sparse.csc_array(h))  # a dense one beside a sparse J, too

    def jacobian(self, point: Any) -> Any:
        """The Jacobian of c at the point."""
        j = point.jac
        if self.dense:
            return j if isinstance(j, np.ndarray) else j.toarray()
        return as_csr(j)
