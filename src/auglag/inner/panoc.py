"""PANOC: quasi-Newton directions globalised by the forward-backward envelope."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import require_integer
from auglag.inner import tuning
from auglag.inner.base import InnerSolver, InnerStatus, Oracle
from auglag.inner.first_order import Point, Progress, initial_lipschitz, raised, try_bound, visit
from auglag.prox.base import ProxTerm, SeparableTerm


@dataclass(frozen=True, slots=True, eq=False)
class _ForwardBackward:
    """The forward-backward step xbar = prox_{gamma g}(x - gamma grad phi(x)) from a point, and what belongs to it.

    The envelope is  phi(x) + model,  model = grad phi(x)'(xbar - x) + ||xbar - x||^2 / (2 gamma) + g(xbar), and
    satisfies  phi(xbar) + g(xbar) + (1 - a) / (2 gamma) ||x - xbar||^2 <= envelope <= phi(x) + g(x)  where the
    quadratic upper bound with L = a / gamma holds between x and xbar; a is `Tuning.panoc_fraction`.
    """

    here: Point
    gamma: float
    bar: Vector
    model: float
    there: Point | None  #: phi and grad phi at xbar, where the gradient had to be asked for

    @property
    def residual(self) -> Vector:
        """R(x) = (x - xbar) / gamma, zero exactly at stationary points."""
        return (self.here.x - self.bar) / self.gamma


def _forward_backward(oracle: Oracle, here: Point, gamma: float) -> _ForwardBackward:
    """The forward-backward step from `here` for the first step size, from gamma down, with the quadratic upper bound.

    Only values of phi are asked for, as long as they can tell.
    """
    there, t = None, tuning.TUNING
    for _ in range(t.shrinks):
        bar = oracle.g.prox(here.x - gamma * here.gradient, gamma)
        d = bar - here.x
        if not d.any():
            break
        trial = try_bound(oracle, here, bar, t.panoc_fraction / gamma)
        there = trial.there
        if trial.curvature <= t.panoc_fraction / gamma:
            break
        gamma = t.panoc_fraction / raised(t.panoc_fraction / gamma, trial.curvature)
    model = float(here.gradient @ d) + 0.5 * float(d @ d) / gamma + oracle.g.value(bar)
    return _ForwardBackward(here, gamma, bar, model, there)


def _first(oracle: Oracle, here: Point) -> _ForwardBackward:
    """The forward-backward step with a step size estimated from phi near the point."""
    return _forward_backward(oracle, here, tuning.TUNING.panoc_fraction / initial_lipschitz(oracle, here))


class _Memory:
    """Pairs of differences of x and of a gradient, and the quasi-Newton point they give.

    For a separable g the gradient is that of phi and the point minimises grad phi(x)'d + d'Bd/2 + g(x + d), with the
    kinks of g (bounds that are met, zeros of the 1-norm) in their exact places: the direction of Pas, Schuller and
    Patrinos (2022), with the set of kinks corrected. Otherwise the pairs are differences of R and the point is
    x - B^-1 R(x), projected on dom g (Stella, Themelis, Sopasakis and Patrinos 2017); R depends on gamma, so that they
    are dropped when it changes.
    """

    def __init__(self, g: ProxTerm, size: int) -> None:
        self.g = g
        self.pairs: deque[tuple[Vector, Vector]] = deque(maxlen=size)

    def update(self, old: _ForwardBackward, new: _ForwardBackward) -> None:
        """Add the pair of two successive iterates where it shows positive curvature (a cautious update)."""
        separable = isinstance(self.g, SeparableTerm)
        if new.gamma != old.gamma and not separable:
            self.pairs.clear()
            return
        s = new.here.x - old.here.x
        r = new.here.gradient - old.here.gradient if separable else new.residual - old.residual
        length = float(np.linalg.norm(s))
        if float(s @ r) > tuning.TUNING.panoc_cautious * length * float(np.linalg.norm(r)):
            self.pairs.append((s / length, r / length))

    def target(self, at: _ForwardBackward) -> Vector | None:
        """The quasi-Newton point, in dom g; None if there is none."""
        while self.pairs:
            try:
                hessian = _Compact(self.pairs)
                if hessian.sound(*self.pairs[-1]):
                    found = self._solve(hessian, at)
                    return found if bool(np.isfinite(found).all()) else None
            except np.linalg.LinAlgError:
                pass
            self.pairs.popleft()
        return None

    def _solve(self, hessian: _Compact, at: _ForwardBackward) -> Vector:
        if isinstance(self.g, SeparableTerm):
            found = _minimise_model(hessian, self.g, at)
        else:
            everywhere, none = np.ones(len(at.bar), dtype=np.bool_), np.zeros(len(at.bar))
            found = at.here.x + hessian.solve(everywhere, -at.residual, none)
        return self.g.domain().prox(found, 1.0)


class _Compact:
    """The L-BFGS matrix B in the compact form of Byrd, Nocedal and Schnabel (1994).

    B = theta I - W M W', W = [Y, theta S], M^-1 = [[-D, L'], [L, theta S'S]], where D is the diagonal and L the part
    below it of S'Y.
    """

    def __init__(self, pairs: deque[tuple[Vector, Vector]]) -> None:
        s, r = (np.column_stack(part) for part in zip(*pairs, strict=True))
        sr = s.T @ r
        self.theta = float(r[:, -1] @ r[:, -1]) / float(sr[-1, -1])
        self.wide = np.hstack([r, self.theta * s])
        lower = np.tril(sr, -1)
        self.middle = np.block([[-np.diag(np.diag(sr)), lower.T], [lower, self.theta * (s.T @ s)]])
        self.inverse = np.linalg.inv(self.middle)

    def sound(self, s: Vector, r: Vector) -> bool:
        """Whether the secant equation B s = r of the last pair holds in spite of round-off."""
        return float(np.linalg.norm(self.times(s) - r)) <= tuning.TUNING.panoc_secant_error * float(np.linalg.norm(r))

    def times(self, d: Vector) -> Vector:
        """B d."""
        return self.theta * d - self.wide @ (self.inverse @ (self.wide.T @ d))

    def solve(self, free: NDArray[np.bool_], rhs: Vector, diagonal: Vector) -> Vector:
        """The free part of d with (B + diag(diagonal)) d = rhs there and d = 0 elsewhere."""
        wide, base = self.wide[free], self.theta + diagonal[free]
        scaled = wide / base[:, None]
        first = rhs[free] / base
        return np.asarray(first + scaled @ np.linalg.solve(self.middle - wide.T @ scaled, wide.T @ first))


def _minimise_model(hessian: _Compact, g: SeparableTerm, at: _ForwardBackward) -> Vector:
    """A minimiser of grad phi(x)'d + d'Bd/2 + g(x + d), by a few semismooth Newton steps from xbar.

    Each step holds the coordinates that have a kink at p = prox_{g/theta}(z - q/theta), q = grad phi(x) + B (z - x),
    where they are, and solves q + g' = 0 for the others with g' linear about p. A primal-dual active set method, not
    globalised: if the kinks have not settled after a few steps the last p, in dom g, must do.
    """
    x, gradient, theta = at.here.x, at.here.gradient, hessian.theta
    u, step = x - at.gamma * gradient, at.gamma
    p, z, kept = at.bar, at.bar, np.empty(0, dtype=np.bool_)
    t = tuning.TUNING
    for _ in range(t.panoc_rounds):
        lo, hi = g.subdiff_interval(p)
        free = lo == hi
        if np.array_equal(free, kept) and np.allclose(p, z, rtol=t.panoc_settled, atol=0.0):
            return z
        slope, bend = np.where(free, lo, 0.0), _bend(g, u, step)
        rhs = -(gradient + slope + bend * (x - p)) - hessian.times(np.where(free, 0.0, p - x))
        kept, z = free, p.copy()
        z[free] = x[free] + hessian.solve(free, rhs, bend)
        u, step = z - (gradient + hessian.times(z - x)) / theta, 1.0 / theta
        p = g.prox(u, step)
    return p


def _bend(g: SeparableTerm, u: Vector, step: float) -> Vector:
    """g'' at prox(u), from the slope 1 / (1 + step g'') of the prox; of no use at kinks."""
    least = tuning.TUNING.panoc_least_slope
    shift = tuning.TUNING.panoc_bend_length * (1.0 + np.abs(u))
    rate = np.clip((g.prox(u + shift, step) - g.prox(u, step)) / shift, least, 1.0)
    return np.asarray(np.where(rate > 1.0 - least, 0.0, (1.0 / rate - 1.0) / step))


@final
@dataclass(frozen=True, slots=True)
class Panoc(InnerSolver):
    """L-BFGS directions for R(x) = (x - xbar) / gamma = 0, where xbar = prox_{gamma g}(x - gamma grad phi(x)).

    The next iterate is P((1 - t) xbar + t (x + d)), d the L-BFGS direction and P the projection on dom g, with the
    first t in {1, 1/2, ..., 0} for which the forward-backward envelope decreases by 0.01 ||x - xbar||^2 / gamma; at
    t = 0 it is xbar and the decrease is certain (Stella, Themelis, Sopasakis and Patrinos, "A simple and efficient
    algorithm for nonlinear model predictive control", 2017; Themelis, Stella and Patrinos, SIAM J. Optim. 28, 2018).
    The envelope at a trial point is only believed with a gamma whose quadratic upper bound has been checked there (De
    Marchi and Themelis, "PANOC+", 2022), so that the envelope decreases through changes of gamma too. Trials with
    t < 1 are screened by phi + g, an upper bound of the envelope, and cost no gradient unless taken: an iteration
    takes one gradient, at most two. phi is never evaluated outside dom g.

    gamma is halved, or more, where the quadratic upper bound fails; it is doubled when the curvature met in ten
    successive steps stayed below a quarter of the bound (and where a step met next to none).

    memory: number of L-BFGS pairs.
    """

    name: ClassVar[str] = "panoc"
    memory: int = 20

    def __post_init__(self) -> None:
        require_integer(self.memory, "Panoc.memory")

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        t = tuning.TUNING
        at = _first(oracle, Point(x, value, gradient))
        memory, progress = _Memory(oracle.g, self.memory), Progress(oracle)
        curvatures: deque[float] = deque(maxlen=t.panoc_calm_steps)
        gate = oracle.tol
        for iteration in range(1, limit + 1):
            oracle.iterations = iteration
            bar = at.there
            if np.linalg.norm(at.residual) <= gate:
                bar, gate = _consider_bar(oracle, at), t.panoc_gate * oracle.tol
            new = _search(oracle, at, memory, bar)
            if new is None or progress.at_rest():
                if not progress.begins_again():
                    _consider_bar(oracle, at)
                    return InnerStatus.STALLED
                memory.pairs.clear()
                at = _first(oracle, at.here)
                continue
            oracle.consider(new.here.x, new.here.value, new.here.gradient)
            memory.update(at, new)
            curvatures.append(_steepness(at.here, new.here))
            at = _relaxed(oracle, new, curvatures, memory)
        _consider_bar(oracle, at)
        return InnerStatus.LIMIT


def _consider_bar(oracle: Oracle, at: _ForwardBackward) -> Point | None:
    """Offer xbar to the oracle; None if phi is not defined there."""
    bar = at.there or visit(oracle, at.bar)
    if bar.value == math.inf:
        return None
    oracle.consider(bar.x, bar.value, bar.gradient)
    return bar


def _steepness(here: Point, there: Point) -> float:
    """||grad phi(there) - grad phi(here)|| / ||there - here||."""
    length = float(np.linalg.norm(there.x - here.x))
    return float(np.linalg.norm(there.gradient - here.gradient)) / max(length, 1e-300)


def _relaxed(oracle: Oracle, at: _ForwardBackward, curvatures: deque[float], memory: _Memory) -> _ForwardBackward:
    """The same point with a doubled gamma where the curvature met of late allows it and can be measured."""
    t = tuning.TUNING
    lipschitz = t.panoc_fraction / at.gamma
    d = at.bar - at.here.x
    calm = len(curvatures) == curvatures.maxlen and max(curvatures) < t.panoc_calm * lipschitz
    if not (calm or curvatures[-1] < t.panoc_flat * lipschitz) or lipschitz * float(d @ d) < at.here.doubt:
        return at
    curvatures.clear()
    relaxed = _forward_backward(oracle, at.here, t.panoc_growth * at.gamma)
    if relaxed.gamma > at.gamma and not isinstance(oracle.g, SeparableTerm):
        memory.pairs.clear()
    return relaxed if relaxed.gamma > at.gamma else at


def _search(oracle: Oracle, at: _ForwardBackward, memory: _Memory, bar: Point | None) -> _ForwardBackward | None:
    """The line search from xbar to x + d; None if even the forward-backward step cannot be taken."""
    here, d = at.here, at.bar - at.here.x
    bound = at.model - tuning.TUNING.panoc_decrease / at.gamma * float(d @ d)
    for number, u in enumerate(_candidates(oracle.g, at.bar, memory.target(at))):
        if np.array_equal(u, here.x):
            break
        if number and oracle.value(u) - here.value + oracle.g.value(u) > bound + here.doubt:
            continue
        there = visit(oracle, u)
        if there.value == math.inf:
            continue
        new = _forward_backward(oracle, there, at.gamma)
        excess = here.change(there) + new.model - bound
        if excess <= 0.0 or (excess <= here.noise and _nearer(new, at)):
            return new
    if not d.any():
        return None
    there = bar or visit(oracle, at.bar)
    return _forward_backward(oracle, there, at.gamma) if there.value < math.inf else None


def _candidates(g: ProxTerm, bar: Vector, target: Vector | None) -> Iterator[Vector]:
    """(1 - t) xbar + t target for t = 1, 1/2, ..., in dom g in spite of round-off."""
    if target is not None:
        yield target
        for k in range(1, tuning.TUNING.panoc_halvings + 1):
            yield g.domain().prox(bar + 0.5**k * (target - bar), 1.0)


def _nearer(new: _ForwardBackward, old: _ForwardBackward) -> bool:
    """Whether the residual fell, which is what counts where values no longer tell points apart."""
    return float(np.linalg.norm(new.residual)) <= tuning.TUNING.panoc_nearer * float(np.linalg.norm(old.residual))
