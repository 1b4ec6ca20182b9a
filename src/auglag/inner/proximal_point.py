"""The inexact proximal point method, with accelerated proximal gradient steps inside."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError, require_positive
from auglag.inner import tuning
from auglag.inner.base import InnerSolver, InnerStatus, Oracle
from auglag.inner.first_order import Point, Progress, Trial, initial_lipschitz, raised, try_bound, visit


@final
@dataclass(frozen=True, slots=True)
class ProximalPoint(InnerSolver):
    """Inexact proximal point steps z+ ~ argmin phi(x) + g(x) + rho ||x - z||^2 (iPPM of Li, Chen, Liu, Lu and Xu 2021).

    phi is rho-weakly convex (phi + rho/2 ||.||^2 is convex), so each step minimises a rho-strongly convex function,
    by accelerated proximal gradient steps with a backtracked Lipschitz constant (`_Accelerated`). A step ends, at a
    point not above z, when its own residual is at most `fraction` times the larger of tol and 2 rho ||z+ - z||: the
    theory's absolute tolerance near the end, a relative one (Rockafellar 1976) while z still moves.

    weak_convexity: rho, or None to find it: a small multiple of the local Lipschitz constant at the start, raised (at
        least doubled) when two points a, b of the path show phi(a) < phi(b) + grad phi(b)'(a - b) - rho/2 ||a - b||^2
        beyond round-off, halved after each step that showed no such thing. A given rho is never lowered.
    fraction: in (0, 1).
    """

    name: ClassVar[str] = "proximal-point"
    weak_convexity: float | None = None
    fraction: float = field(default=0.25, kw_only=True)

    def __post_init__(self) -> None:
        if self.weak_convexity is not None:
            require_positive(self.weak_convexity, "ProximalPoint.weak_convexity")
        if not 0.0 < self.fraction < 1.0:
            raise InputError(f"ProximalPoint.fraction must lie in (0, 1), got {self.fraction!r}")

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        """Proximal point steps until the oracle ends the solve; an iteration is one accelerated gradient step."""
        centre = Point(x, value, gradient)
        lipschitz = initial_lipschitz(oracle, centre)
        rho = self.weak_convexity or tuning.TUNING.rho_first * lipschitz
        progress, fresh = Progress(oracle, tuning.TUNING.proximal_point_patience), True
        while oracle.iterations < limit:
            inner = _Accelerated(oracle, centre, rho=rho, lipschitz=lipschitz)
            moved = self._minimise(inner, limit, progress)
            rho, lipschitz = self._next_rho(inner), inner.next_lipschitz()
            there = visit(oracle, inner.x) if moved else None
            if there is None or there.value == math.inf or progress.resting:
                if inner.nonconvex:
                    continue
                if fresh:
                    return InnerStatus.LIMIT if oracle.iterations >= limit else InnerStatus.STALLED
                lipschitz, fresh = initial_lipschitz(oracle, centre), True
                progress.idle = 0
                continue
            oracle.consider(there.x, there.value, there.gradient)
            centre, fresh = there, fresh and progress.idle > 0
        return InnerStatus.LIMIT

    def _minimise(self, inner: _Accelerated, limit: int, progress: Progress) -> bool:
        """Accelerated steps until the proximal subproblem is solved well enough; whether inner.x is a new centre."""
        oracle = inner.oracle
        while oracle.iterations < limit:
            oracle.iterations += 1
            if not inner.step() or progress.at_rest():
                break
            pull = 2.0 * inner.rho * float(np.linalg.norm(inner.x - inner.centre.x))
            enough = max(self.fraction * max(oracle.tol, pull), oracle.tol - pull)
            if inner.nonconvex or (inner.residual <= enough and inner.gain() >= -inner.centre.noise):
                break
        return inner.gain() >= (0.0 if inner.nonconvex else -inner.centre.noise) and inner.moved()

    def _next_rho(self, inner: _Accelerated) -> float:
        """rho for the next proximal point step."""
        t = tuning.TUNING
        if inner.nonconvex:
            return max(t.rho_growth * inner.rho, t.rho_margin * inner.concavity)
        if self.weak_convexity is not None:
            return inner.rho
        return max(t.rho_fall * inner.rho, t.rho_least * inner.lipschitz)


class _Accelerated:
    """Accelerated proximal gradient steps on psi + g, psi(x) = phi(x) + rho ||x - z||^2 with modulus mu = rho.

    With M the Lipschitz constant of grad psi, a in (0, 1) the root of M a^2 = w+ with w+ = (1 - a) w + a mu:
        y  = (a w v + w+ x) / (w + a mu)                                  a convex combination of v and x
        x+ = prox_{g/M}(y - grad psi(y) / M)
        v+ = prox_{(a/w+) g}(((1 - a) w v + a mu y - a grad psi(y)) / w+)
    which gives  F(x+) - F* + w+/2 ||v+ - x*||^2 <= (1 - a) (F(x) - F* + w/2 ||v - x*||^2)  for F = psi + g. This is
    Nesterov's general scheme (2004, 2.2) with the prox of g in both sequences as in Auslender and Teboulle (2006) and
    Tseng (2008), so that no evaluation is outside dom g. v is set back to x, and w to M, when the last step turns back
    on the one before (the gradient restart of O'Donoghue and Candes 2015).
    """

    def __init__(self, oracle: Oracle, centre: Point, *, rho: float, lipschitz: float) -> None:
        self.oracle = oracle
        self.centre = centre
        self.rho = rho
        self.lipschitz = lipschitz  #: of grad phi
        self.x = self.v = centre.x
        self.value = centre.value  #: phi(x)
        self.weight = lipschitz + 2.0 * rho
        self.residual = math.inf  #: an upper bound of dist(-grad psi(x), dg(x))
        self.concavity = 0.0  #: the largest -curvature of phi met
        self.measured = False  #: whether the last step was long enough for values of phi to tell L

    @property
    def nonconvex(self) -> bool:
        """Whether phi has been seen not to be rho-weakly convex."""
        return self.concavity > self.rho

    def moved(self) -> bool:
        """Whether x differs from the centre."""
        return not np.array_equal(self.x, self.centre.x)

    def gain(self) -> float:
        """By how much phi + g is lower at x than at the centre (for the subproblem's value, less rho ||x - z||^2)."""
        g = self.oracle.g
        return self.centre.value - self.value + g.value(self.centre.x) - g.value(self.x)

    def next_lipschitz(self) -> float:
        """L to start the next subproblem from: less than this one, unless round-off would hide that it is too small."""
        return tuning.TUNING.lipschitz_again * self.lipschitz if self.measured else self.lipschitz

    def step(self) -> bool:
        """One accelerated step; False if none can be made."""
        for _ in range(tuning.TUNING.shrinks):
            if self.v is self.x:
                self.weight = self.lipschitz + 2.0 * self.rho
            a, weight, y = self._momentum()
            at = self.centre if y is self.centre.x else visit(self.oracle, y)
            if at.value == math.inf:
                if self.v is self.x:
                    return False
                self.v = self.x
                continue
            if at is not self.centre:
                self.oracle.consider(at.x, at.value, at.gradient)
            if self._advance(at, a, weight):
                return True
            if self.v is self.x:
                return False
        return False

    def _momentum(self) -> tuple[float, float, Vector]:
        """(a, w+, y) for the present L."""
        big, mu, w = self.lipschitz + 2.0 * self.rho, self.rho, self.weight
        a = (mu - w + math.sqrt((mu - w) ** 2 + 4.0 * big * w)) / (2.0 * big)
        weight = big * a * a
        if self.v is self.x:
            return a, weight, self.x
        y = self.x + (a * w / (w + a * mu)) * (self.v - self.x)
        return a, weight, self.oracle.g.domain().prox(y, 1.0)

    def _advance(self, at: Point, a: float, weight: float) -> bool:
        """x+ and v+ from y = at; False, with a larger L, if the upper bound fails at x+ and y would have to change."""
        g, rho = self.oracle.g, self.rho
        slope = at.gradient + 2.0 * rho * (at.x - self.centre.x)
        for _ in range(tuning.TUNING.shrinks):
            big = self.lipschitz + 2.0 * rho
            u = g.prox(at.x - slope / big, 1.0 / big)
            d = u - at.x
            trial = try_bound(self.oracle, at, u, self.lipschitz) if d.any() else Trial(0.0, at.value, at)
            if trial.curvature <= self.lipschitz:
                break
            self.lipschitz = raised(self.lipschitz, trial.curvature)
            if self.v is not self.x:
                return False
            self.weight = self.lipschitz + 2.0 * rho
            a, weight, _ = self._momentum()
        else:
            return False
        self._look_for_concavity(at, u, trial.value)
        self.measured = self.lipschitz * float(d @ d) > at.doubt
        mixed = ((1.0 - a) * self.weight * self.v + a * rho * at.x - a * slope) / weight
        turned = float((at.x - u) @ (u - self.x)) > 0.0
        self.residual = 2.0 * big * float(np.linalg.norm(d))
        self.v = u if turned else g.prox(mixed, a / weight)
        self.x, self.value, self.weight = u, trial.value, weight
        return True

    def _look_for_concavity(self, at: Point, u: Vector, value: float) -> None:
        """Take note of negative curvature of phi between y and x+, and between y and x."""
        for x, known in ((u, value), (self.x, self.value)):
            d = x - at.x
            square = float(d @ d)
            if self.lipschitz * square > at.doubt:
                slack = known - at.value - float(at.gradient @ d) + 2.0 * at.noise
                self.concavity = max(self.concavity, -2.0 * slack / square)
