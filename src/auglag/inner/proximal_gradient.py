"""The proximal gradient method of the theory, and its spectral (Barzilai-Borwein) version."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError, require_integer, require_positive
from auglag.inner import tuning
from auglag.inner.base import InnerSolver, InnerStatus, Oracle
from auglag.inner.first_order import Point, Progress, Trial, initial_lipschitz, raised, try_bound, visit


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

    name: ClassVar[str] = "proximal-gradient"
    lipschitz: float | None = None

    def __post_init__(self) -> None:
        if self.lipschitz is not None:
            require_positive(self.lipschitz, "ProximalGradient.lipschitz")

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        here = Point(x, value, gradient)
        lipschitz = self.lipschitz or initial_lipschitz(oracle, here)
        progress, calm, t = Progress(oracle), 0, tuning.TUNING
        for iteration in range(1, limit + 1):
            oracle.iterations = iteration
            if self.lipschitz is None:
                there, lipschitz = _backtracked_step(oracle, here, lipschitz)
            else:
                there = _fixed_step(oracle, here, self.lipschitz)
            if there is None or progress.at_rest():
                if self.lipschitz is not None or not progress.begins_again():
                    return InnerStatus.STALLED
                lipschitz, calm = initial_lipschitz(oracle, here), 0
                continue
            oracle.consider(there.x, there.value, there.gradient)
            if self.lipschitz is None:
                curvature = here.curvature(there)
                calm = calm + 1 if curvature < t.calm * lipschitz else 0
                if calm >= t.calm_steps or curvature <= 0.0:
                    lipschitz, calm = t.calm_factor * lipschitz, 0
            here = there
        return InnerStatus.LIMIT


def _fixed_step(oracle: Oracle, here: Point, lipschitz: float) -> Point | None:
    """The step 1/L, halved while phi is not defined at its end; None if it does not move x."""
    for _ in range(tuning.TUNING.shrinks):
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
    t = tuning.TUNING
    for number in range(t.shrinks):
        u = oracle.g.prox(here.x - here.gradient / lipschitz, 1.0 / lipschitz)
        if np.array_equal(u, here.x):
            return None, lipschitz
        trial = try_bound(oracle, here, u, lipschitz) if number else Trial(-math.inf, 0.0, None)
        curvature = trial.curvature
        if curvature <= lipschitz:
            there = trial.there or visit(oracle, u)
            curvature = here.curvature(there) if there.value < math.inf else math.inf
            if curvature <= lipschitz * (1.0 + t.bound_noise):
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

    name: ClassVar[str] = "spectral"
    memory: int = 10
    sufficient_decrease: float = field(default=1e-2, kw_only=True)
    short_steps: int = field(default=5, kw_only=True)

    def __post_init__(self) -> None:
        require_integer(self.memory, "SpectralProximalGradient.memory")
        require_integer(self.short_steps, "SpectralProximalGradient.short_steps")
        if not 0.0 < self.sufficient_decrease < 1.0:
            raise InputError(
                f"SpectralProximalGradient.sufficient_decrease must lie in (0, 1), got {self.sufficient_decrease!r}"
            )

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        here = Point(x, value, gradient)
        step = scale = 1.0 / initial_lipschitz(oracle, here)
        recent: deque[float] = deque([oracle.start_value], self.memory)
        short: deque[float] = deque(maxlen=self.short_steps)
        progress, t = Progress(oracle), tuning.TUNING
        for iteration in range(1, limit + 1):
            oracle.iterations = iteration
            there, step = self._search(oracle, here, step, max(recent))
            if there is None or progress.at_rest():
                if not progress.begins_again():
                    return InnerStatus.STALLED
                step = 1.0 / initial_lipschitz(oracle, here)
                short.clear()
                continue
            oracle.consider(there.x, there.value, there.gradient)
            recent.append(there.value + oracle.g.value(there.x))
            step = max(_spectral_step(here, there, step, short), t.spectral_least * scale)
            step = min(step, t.spectral_largest * scale)
            here = there
        return InnerStatus.LIMIT

    def _search(self, oracle: Oracle, here: Point, step: float, reference: float) -> tuple[Point | None, float]:
        """The prox step with the first length, from `step` down, that gives sufficient decrease; and that length."""
        at_here, t = oracle.g.value(here.x), tuning.TUNING
        for number in range(t.shrinks):
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
            wanted = 1.0 / curvature if curvature > 0.0 else 0.0
            step = min(max(wanted, t.spectral_least_cut * step), t.spectral_most_cut * step)
        return None, step


def _spectral_step(here: Point, there: Point, step: float, short: deque[float]) -> float:
    """The next step length; `short` holds the last short steps and is brought up to date."""
    s, r = there.x - here.x, there.gradient - here.gradient
    sr, ss, rr = float(s @ r), float(s @ s), float(r @ r)
    t = tuning.TUNING
    if not sr > t.spectral_flat * math.sqrt(ss * rr):
        short.clear()
        return t.spectral_growth * step
    short.append(sr / rr)
    return min(short) if sr * sr < t.spectral_short * ss * rr else ss / sr
