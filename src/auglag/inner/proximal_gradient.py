"""The proximal gradient method of the theory, and its spectral (Barzilai-Borwein) version.

Also here: what every first-order solver needs to compare values of phi that differ by little more than round-off.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.inner.base import InnerSolver, InnerStatus, Oracle, Traits

#: The round-off assumed in a computed value of phi, relative to max(1, |phi|).
ROUND_OFF = 1e-13
#: Differences of phi below this, relative to max(1, |phi|), are only believed as far as the gradients confirm them.
DOUBT = 1e-11
#: How often a step may be shrunk within one iteration.
SHRINKS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A point of dom g with phi and grad phi there; the value is +inf where phi is not defined."""

    x: Vector
    value: float
    gradient: Vector

    @property
    def noise(self) -> float:
        """The round-off in `value`."""
        return ROUND_OFF * max(1.0, abs(self.value))

    @property
    def doubt(self) -> float:
        """The size of the differences of values that may be more round-off than `noise` allows for."""
        return DOUBT * max(1.0, abs(self.value))

    def change(self, there: Point) -> float:
        """phi(there) - phi(here), to the accuracy that values and gradients together allow.

        Where the trapezoidal rule (grad phi(here) + grad phi(there))'d / 2 agrees with the difference of the values up
        to what may be round-off it replaces it: it has no cancellation, so that descent can be told from ascent down
        to residuals far below the square root of the machine precision.
        """
        raw = there.value - self.value
        smooth = 0.5 * float((self.gradient + there.gradient) @ (there.x - self.x))
        return smooth if abs(raw - smooth) <= self.doubt else raw

    def curvature(self, there: Point) -> float:
        """The smallest L with phi(there) <= phi(here) + grad phi(here)'d + L/2 ||d||^2."""
        d = there.x - self.x
        return 2.0 * (self.change(there) - float(self.gradient @ d)) / max(float(d @ d), 1e-300)


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """The curvature of phi met from one point to another, and what was evaluated to find it."""

    curvature: float  #: +inf where phi is not defined
    value: float
    there: Point | None  #: if the gradient was asked for


def visit(oracle: Oracle, x: Vector) -> Point:
    """Evaluate phi and its gradient at x."""
    value, gradient = oracle.visit(x)
    return Point(x, value, gradient)


def try_bound(oracle: Oracle, here: Point, x: Vector, lipschitz: float) -> Trial:
    """Whether phi(x) <= phi(here) + grad phi(here)'d + L/2 ||d||^2: it is if the curvature returned is at most L.

    From the value of phi alone, round-off taken in favour of the bound; where that fails by no more than values can
    tell, the gradient at x decides.
    """
    value = oracle.value(x)
    d = x - here.x
    square = max(float(d @ d), 1e-300)
    excess = value - here.value - float(here.gradient @ d) - 0.5 * lipschitz * square
    if here.noise < excess <= here.doubt:
        there = visit(oracle, x)
        return Trial(here.curvature(there) if there.value < math.inf else math.inf, there.value, there)
    return Trial(lipschitz + 2.0 * (excess - here.noise) / square, value, None)


def initial_lipschitz(oracle: Oracle, here: Point) -> float:
    """A first estimate of the Lipschitz constant of grad phi near x, from values of phi alone.

    The modulus of the second difference of phi along the projected steepest descent direction, over a length of
    1e-3 max(1, ||x||). Not below 1e-6 ||grad phi|| / max(1, ||x||), so that no first step is longer than a million
    times the scale of x; usually an underestimate, which backtracking then corrects.
    """
    scale, slope = max(1.0, float(np.linalg.norm(here.x))), float(np.linalg.norm(here.gradient))
    least = max(1e-6 * slope / scale, 1e-300)
    length = 1e-3 * scale
    for _ in range(8):
        u = oracle.g.domain().prox(here.x - (length / max(slope, 1e-300)) * here.gradient, 1.0)
        d = u - here.x
        if not d.any():
            break
        value = oracle.value(u)
        if value < math.inf:
            return max(abs(2.0 * (value - here.value - float(here.gradient @ d)) / max(float(d @ d), 1e-300)), least)
        length *= 0.1
    return max(slope / scale, least)


def raised(lipschitz: float, curvature: float) -> float:
    """The next L to try when the curvature met on a step was above L: at least twice, at most ten times as large."""
    return 4.0 * lipschitz if curvature == math.inf else min(max(2.0 * lipschitz, 1.05 * curvature), 10.0 * lipschitz)


class Progress:
    """Notices that a solve has come to rest: neither a smaller residual nor a lower value for many iterations."""

    def __init__(self, oracle: Oracle, patience: int = 200) -> None:
        self.oracle = oracle
        self.patience = patience
        self.residual = math.inf
        self.value = math.inf
        self.idle = 0

    def at_rest(self) -> bool:
        """To be called once an iteration."""
        best, lowest = self.oracle.best, self.oracle.lowest
        residual = best[2] if best else math.inf
        value = lowest[1] if lowest else math.inf
        if residual < 0.999 * self.residual or value < self.value - self.oracle.noise:
            self.residual, self.value, self.idle = min(residual, self.residual), min(value, self.value), 0
        else:
            self.idle += 1
        return self.resting

    @property
    def resting(self) -> bool:
        """What the last call found."""
        return self.idle >= self.patience

    def restart(self) -> None:
        """Begin to count anew."""
        self.idle = 0


def require_positive(owner: object, name: str, value: float | None) -> None:
    """Raise unless `value` is None or a positive finite number."""
    if value is not None and not 0.0 < value < math.inf:
        raise InputError(f"{type(owner).__name__}.{name} must be a positive number, got {value!r}")


def require_count(owner: object, name: str, value: int) -> None:
    """Raise unless `value` is a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{type(owner).__name__}.{name} must be a positive integer, got {value!r}")


@final
@dataclass(frozen=True, slots=True)
class ProximalGradient(InnerSolver):
    """x+ = prox_{g/L}(x - grad phi(x) / L): the method whose complexity the paper proves.

    With L a Lipschitz constant of grad phi and G = L (x - x+), its lemma on the gradient mapping gives
    phi(x+) + g(x+) <= phi(x) + g(x) - ||G||^2 / (2 L)  and  dist(-grad phi(x+), dg(x+)) <= 2 ||G||.

    lipschitz: L. The step is then exactly 1/L throughout (shorter only where phi is not defined at x+); nothing
        checks that L is large enough. None: L is found by backtracking on the quadratic upper bound
        phi(x+) <= phi(x) + grad phi(x)'d + L/2 ||d||^2, d = x+ - x, from a local estimate. L does not go down
        again, except for a mild re-try: it is halved when the curvature met was below L/4 in five successive steps
        (or, in any step, not positive). The decrease above then holds with the L of the step, the second bound with
        1 + (local Lipschitz constant) / L in place of 2.
    """

    lipschitz: float | None = None

    def __post_init__(self) -> None:
        require_positive(self, "lipschitz", self.lipschitz)

    @property
    def name(self) -> str:
        """The name users pass as `inner=`."""
        return "proximal-gradient"

    def refuses(self, traits: Traits) -> str | None:
        """Accepts every g."""
        return None

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        """Proximal gradient steps until the oracle ends the solve."""
        here = Point(x, value, gradient)
        lipschitz = self.lipschitz or initial_lipschitz(oracle, here)
        progress, quiet, fresh = Progress(oracle), 0, True
        for iteration in range(1, limit + 1):
            oracle.iterations = iteration
            if self.lipschitz is None:
                there, lipschitz = _backtracked_step(oracle, here, lipschitz)
            else:
                there = _fixed_step(oracle, here, self.lipschitz)
            if there is None or progress.at_rest():
                if fresh or self.lipschitz is not None:
                    return InnerStatus.STALLED
                lipschitz, quiet, fresh = initial_lipschitz(oracle, here), 0, True
                progress.restart()
                continue
            oracle.consider(there.x, there.value, there.gradient)
            if self.lipschitz is None:
                curvature = here.curvature(there)
                quiet = quiet + 1 if curvature < 0.25 * lipschitz else 0
                if quiet >= 5 or curvature <= 0.0:
                    lipschitz, quiet = 0.5 * lipschitz, 0
            here, fresh = there, fresh and progress.idle > 0
        return InnerStatus.LIMIT


def _fixed_step(oracle: Oracle, here: Point, lipschitz: float) -> Point | None:
    """The step 1/L, halved while phi is not defined at its end; None if it does not move x."""
    for _ in range(SHRINKS):
        u = oracle.g.prox(here.x - here.gradient / lipschitz, 1.0 / lipschitz)
        if np.array_equal(u, here.x):
            return None
        there = visit(oracle, u)
        if there.value < math.inf:
            return there
        lipschitz *= 2.0
    return None


def _backtracked_step(oracle: Oracle, here: Point, lipschitz: float) -> tuple[Point | None, float]:
    """The step 1/L for the first L tried, from `lipschitz` on, for which the quadratic upper bound holds; and that L.

    Only the first trial costs a gradient that may be lost; later ones are screened by the value of phi.
    """
    for number in range(SHRINKS):
        u = oracle.g.prox(here.x - here.gradient / lipschitz, 1.0 / lipschitz)
        if np.array_equal(u, here.x):
            return None, lipschitz
        trial = try_bound(oracle, here, u, lipschitz) if number else Trial(-math.inf, 0.0, None)
        curvature = trial.curvature
        if curvature <= lipschitz:
            there = trial.there or visit(oracle, u)
            curvature = here.curvature(there) if there.value < math.inf else math.inf
            if curvature <= lipschitz * (1.0 + 1e-10):
                return there, lipschitz
        lipschitz = raised(lipschitz, curvature)
    return None, lipschitz


@final
@dataclass(frozen=True, slots=True)
class SpectralProximalGradient(InnerSolver):
    """Proximal gradient steps with Barzilai-Borwein lengths and a nonmonotone sufficient decrease condition.

    x+ = prox_{a g}(x - a grad phi(x)), taken when
        phi(x+) + g(x+) <= max over the last `memory` points of phi + g  -  sufficient_decrease / (2 a) ||x+ - x||^2,
    and a is shrunk otherwise (Grippo, Lampariello and Lucidi 1986; Birgin, Martinez and Raydan 2000; SpaRSA: Wright,
    Nowak and Figueiredo 2009). The first a tried is, with s = x+ - x and r = grad phi(x+) - grad phi(x), the long
    step s's / s'r, or the least of the last `short_steps` short ones s'r / r'r when those are much shorter (the
    alternation ABBmin of Frassoldati, Zanghirati and Zanni 2008); ten times the last where s'r <= 0; always within
    [1e-12, 1e12] times the first step. All iterates are prox images, so that kinks and bounds are met exactly, and
    phi + g never exceeds its value at the start.
    """

    memory: int = 10
    sufficient_decrease: float = field(default=1e-2, kw_only=True)
    short_steps: int = field(default=5, kw_only=True)

    def __post_init__(self) -> None:
        require_count(self, "memory", self.memory)
        require_count(self, "short_steps", self.short_steps)
        if not 0.0 < self.sufficient_decrease < 1.0:
            raise InputError(
                f"SpectralProximalGradient.sufficient_decrease must lie in (0, 1), got {self.sufficient_decrease!r}"
            )

    @property
    def name(self) -> str:
        """The name users pass as `inner=`."""
        return "spectral"

    def refuses(self, traits: Traits) -> str | None:
        """Accepts every g."""
        return None

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        """Spectral steps until the oracle ends the solve."""
        here = Point(x, value, gradient)
        step = scale = 1.0 / initial_lipschitz(oracle, here)
        recent: deque[float] = deque([oracle.start_value], self.memory)
        short: deque[float] = deque(maxlen=self.short_steps)
        progress, fresh = Progress(oracle), True
        for iteration in range(1, limit + 1):
            oracle.iterations = iteration
            there, step = self._search(oracle, here, step, max(recent))
            if there is None or progress.at_rest():
                if fresh:
                    return InnerStatus.STALLED
                step, fresh = 1.0 / initial_lipschitz(oracle, here), True
                short.clear()
                progress.restart()
                continue
            oracle.consider(there.x, there.value, there.gradient)
            recent.append(there.value + oracle.g.value(there.x))
            step = min(max(_spectral_step(here, there, step, short), 1e-12 * scale), 1e12 * scale)
            here, fresh = there, fresh and progress.idle > 0
        return InnerStatus.LIMIT

    def _search(self, oracle: Oracle, here: Point, step: float, reference: float) -> tuple[Point | None, float]:
        """The prox step with the first length, from `step` down, that gives sufficient decrease; and that length."""
        at_here = oracle.g.value(here.x)
        for number in range(SHRINKS):
            u = oracle.g.prox(here.x - step * here.gradient, step)
            d = u - here.x
            if not d.any():
                break
            at_u, square = oracle.g.value(u), max(float(d @ d), 1e-300)
            decrease = 0.5 * self.sufficient_decrease / step * square
            bound = reference - at_u - decrease + here.noise
            value = oracle.value(u) if number else -math.inf
            if value <= bound + here.doubt:
                there = visit(oracle, u)
                value = there.value
                if value <= bound or (value < math.inf and here.change(there) + at_u - at_here <= -decrease):
                    return there, step
            curvature = 2.0 * (value - here.value - float(here.gradient @ d)) / square
            step = min(max(1.0 / curvature if curvature > 0.0 else 0.0, 0.1 * step), 0.5 * step)
        return None, step


def _spectral_step(here: Point, there: Point, step: float, short: deque[float]) -> float:
    """The next step length; `short` holds the last short steps and is brought up to date."""
    s, r = there.x - here.x, there.gradient - here.gradient
    sr, ss, rr = float(s @ r), float(s @ s), float(r @ r)
    if not sr > 1e-16 * math.sqrt(ss * rr):
        short.clear()
        return 10.0 * step
    short.append(sr / rr)
    return min(short) if sr * sr < 0.8 * ss * rr else ss / sr
