"""The Hessian of the Lagrangian for the model: the user's, or learnt from first derivatives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.sqp.model import Sets

#: Pairs kept for the quasi-Newton Hessian.
PAIRS = 60
#: An update whose denominator is below this (relative) is left out.
SKIP = 1e-8


@final
@dataclass(slots=True)
class Memory:
    """What one step of the method hands to the next, over subproblems: all explicit, so that it can be saved."""

    sets: Sets | None = None
    radius: float | None = None  #: of the trust region; None: from the size of x
    multipliers: Vector | None = None  #: of the last model; None: as the subproblem estimates them
    failures: int = 0  #: accelerations in a row that did not help
    tried_at: float = math.inf  #: the error at the last acceleration
    pairs: list[tuple[Vector, Vector, Any]] = field(default_factory=list)  #: (s, difference of grad f, of J)
    last: tuple[Vector, Vector, Any] | None = None  #: x, grad f, J at the last point seen

    def see(self, x: Vector, gradient: Vector, jacobian: Any) -> None:
        """Learn from a new point."""
        if self.last is not None:
            s = x - self.last[0]
            if float(np.linalg.norm(s)) > 1e-14 * max(1.0, float(np.linalg.norm(x))):
                self.pairs.append((s, gradient - self.last[1], jacobian - self.last[2]))
                del self.pairs[:-PAIRS]
        self.last = (x.copy(), gradient, jacobian)

    def forget(self) -> None:
        """Drop what was learnt of the curvature (its units have changed)."""
        self.pairs, self.last = [], None

    def rescale(self, factor: float) -> None:
        """f is multiplied by `factor` from here on."""
        self.pairs = [(s, factor * dg, dj) for s, dg, dj in self.pairs]
        if self.last is not None:
            self.last = (self.last[0], factor * self.last[1], self.last[2])


def structured_sr1(memory: Memory, w: Vector, gradient: Vector) -> Any:
    """A symmetric rank-one Hessian of f + w'c, rebuilt from all pairs with the multipliers of now.

    beta J'J is exact in the model, so that only the Lagrangian's curvature is learnt; and since (s, dg, dJ) are kept
    apart, dg + dJ'w is the right difference for any w. The start is a multiple of the identity from the newest pair.
    """
    n = gradient.size
    pairs = [(s, dg + (dj.T @ w if w.size else 0.0)) for s, dg, dj in memory.pairs]
    if not pairs:
        return max(1e-3, min(1.0, float(np.max(np.abs(gradient), initial=0.0)))) * np.eye(n)
    s, r = pairs[-1]
    h = min(max(abs(float(s @ r)) / float(s @ s), 1e-6), 1e6) * np.eye(n)
    for s, r in pairs:
        u = r - h @ s
        denominator = float(u @ s)
        if abs(denominator) > SKIP * float(np.linalg.norm(s)) * float(np.linalg.norm(u)):
            h += np.outer(u, u / denominator)
    return h if np.isfinite(h).all() else np.eye(n)


@final
@dataclass(frozen=True, slots=True)
class Curvature:
    """Where Hessians come from."""

    exact: bool
    dense: bool  #: matrices are kept dense

    def hessian(self, point: Any, x: Vector, w: Vector, memory: Memory) -> Any:
        """The Hessian of f + w'c at the point, in the units of the form."""
        if not self.exact:
            memory.see(x, point.grad, self.jacobian(point))
            return structured_sr1(memory, w, point.grad)
        h = point.hess(w)
        if self.dense:
            return h.toarray() if sparse.issparse(h) else np.asarray(h)
        return sparse.csc_array(h)

    def jacobian(self, point: Any) -> Any:
        """The Jacobian of c at the point."""
        j = point.jac
        if self.dense:
            return j.toarray() if sparse.issparse(j) else np.asarray(j)
        return sparse.csr_array(j)
