"""Inner methods that evaluate full batches only: L-BFGS, and PANOC where there is a prox term. Nothing is sampled.

Every evaluation is a test, and any point that passes both conditions of Algorithm 1, line 3, ends the solve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import torch

from auglag._names import suggesting
from auglag.errors import require_integer
from auglag.inner import tuning
from auglag.inner.base import InnerResult, InnerStatus
from auglag.torch.lagrangian import Subproblem, Test
from auglag.torch.tuning import TUNING

Tensor = Any


@suggesting
@final
@dataclass(frozen=True, slots=True)
class LBFGS:
    """Full-batch L-BFGS on the augmented Lagrangian without slacks (PANOC where a prox term is given).

    It needs the fewest passes over the data where those are affordable, no stepsize, and no batches. `memory` pairs are
    kept, fewer where the model is so large that they would fill the memory.
    """

    memory: int = TUNING.most_pairs
    carry: bool = True  #: pairs of the subproblem before start the next one
    warm_up: bool = False  #: begin with a few passes of sampled Adam on the first subproblem (method="auto" does)

    def __post_init__(self) -> None:
        require_integer(self.memory, "LBFGS.memory")

    @property
    def name(self) -> str:
        """How results call it."""
        return "adam, then lbfgs" if self.warm_up else "lbfgs"


class _Ended(Exception):
    """Internal signal: the solve is over at this test."""

    def __init__(self, test: Test, status: InnerStatus, why: str = "") -> None:
        super().__init__()
        self.test, self.status, self.why = test, status, why


@final
class Probe:
    """The subproblem as these methods see it: evaluations counted, tested, and ended when they may end."""

    def __init__(self, subproblem: Subproblem, start: Test, tol: float, exhausted: Callable[[], str]) -> None:
        self.subproblem, self.start, self.tol, self.exhausted = subproblem, start, tol, exhausted
        self.evaluations, self.iterations = 0, 0
        self.lowest = self.best = start
        eps = subproblem.full.variables.eps
        #: Differences of values below this are rounding.
        self.noise = TUNING.value_roundings * eps * max(1.0, abs(start.value))

    def close(self, test: Test) -> bool:
        """Whether dist is small enough to accept a point."""
        return bool(test.dist <= self.tol)

    def leads_away(self, test: Test) -> bool:
        """Whether a step came to a larger objective and a much larger violation than the subproblem began with.

        No multipliers make such a point better: those of this subproblem are wrong, and its penalty does not outweigh
        them. A larger one has to.
        """
        if not test.violation > max(TUNING.worse * self.start.violation, self.tol):
            return False
        return bool(test.objective > self.start.objective + self.noise)

    def visit(self, x: Tensor) -> Test:
        """The test at x."""
        why = self.exhausted()
        if why:
            raise _Ended(self.lowest, InnerStatus.BUDGET, why)
        test = self.subproblem.test(x)
        self.evaluations += 1
        inside = math.isfinite(test.value)
        if test.value < -tuning.TUNING.unbounded * max(1.0, abs(self.start.value)):
            raise _Ended(test, InnerStatus.UNBOUNDED)
        enough = test.value <= self.start.value + self.noise
        accepted = inside and enough and self.close(test)
        if inside and (self.subproblem.witness(test, p=self.evaluations, steps=1, accepted=accepted) or accepted):
            raise _Ended(test, InnerStatus.CONVERGED)
        if enough and test.dist < self.best.dist:
            self.best = test
        if test.value < self.lowest.value:
            self.lowest = test
        return test


@final
@dataclass(slots=True)
class Pairs:
    """The L-BFGS approximation of an inverse Hessian (or of the Jacobian of a residual map).

    They stay when y and beta change: other multipliers change the curvature little, and another beta changes it in the
    directions J'u alone, of which there are as many as constraints; the next steps along those set it right.
    """

    most: int  #: pairs that are kept
    kept: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)  #: (s, y, s'y), oldest first
    scales: Tensor = None  #: the diagonal of the first matrix, up to a factor; None: all ones

    def add(self, s: Tensor, y: Tensor) -> None:
        """Remember a step and the change of the gradient, if their curvature is positive beyond rounding."""
        sy, yy, ss = (float(v) for v in torch.stack([s @ y, y @ y, s @ s]))
        if sy > TUNING.least_curvature * math.sqrt(yy * ss) and yy > 0.0:
            self.kept.append((s, y, s @ y))
            del self.kept[: -self.most]

    def direction(self, gradient: Tensor) -> Tensor:
        """-H gradient, by the two loops; nothing leaves the device."""
        q = -gradient
        alphas = []
        for s, y, sy in reversed(self.kept):
            alpha = (s @ q) / sy
            q = q - alpha * y
            alphas.append(alpha)
        if self.kept:
            _, y, sy = self.kept[-1]
            q = q * (sy / (y @ y)) if self.scales is None else (self.scales * q) * (sy / (y @ (self.scales * y)))
        elif self.scales is not None:
            q = self.scales * q
        for (s, y, sy), alpha in zip(self.kept, reversed(alphas), strict=True):
            q = q + (alpha - (y @ q) / sy) * s
        return q


@final
class FullBatchInner:
    """The inner loop around these methods, in the shape the outer loop asks for."""

    saves = False

    def __init__(self, config: LBFGS, n: int, exhausted: Callable[[], str]) -> None:
        self.config, self.exhausted = config, exhausted
        most = max(TUNING.least_pairs, min(config.memory, TUNING.pair_numbers // (2 * n)))
        self.memory, self.k = Pairs(most), 1

    def solve(self, subproblem: Subproblem, x: Tensor, tol: float, *, limit: int) -> InnerResult:
        start = subproblem.test(x)
        probe = Probe(subproblem, start, tol, self.exhausted)
        if not self.config.carry:
            self.memory = Pairs(self.memory.most, scales=self.memory.scales)
        test, status, why = start, InnerStatus.CONVERGED, ""
        try:
            if not math.isfinite(start.value):
                status = InnerStatus.UNDEFINED
            elif not probe.close(start):
                method = _lbfgs if subproblem.prox.empty else _panoc
                method(probe, self.memory, limit)
                test, status = probe.best, InnerStatus.STALLED
        except _Ended as end:
            test, status, why = end.test, end.status, end.why
        return InnerResult(test.v, test.value, test.dist, probe.iterations, probe.evaluations, status, limit=why)

    def forget(self) -> None:
        self.memory = Pairs(self.memory.most)


def _lbfgs(probe: Probe, pairs: Pairs, limit: int) -> None:
    """Iterations until a signal ends them; returning means that no step makes progress."""
    here = probe.start
    failed = False
    while probe.iterations < limit:
        d = pairs.direction(here.gradient)
        slope = float(d @ here.gradient)
        if not (math.isfinite(slope) and slope < 0.0):
            pairs.kept.clear()
            d, slope = -here.gradient, -float(here.gradient @ here.gradient)
        known = pairs.kept or pairs.scales is not None  # how long a step is
        first = 1.0 if known else min(1.0, 1.0 / math.sqrt(-slope)) if slope < 0.0 else 1.0
        found = _search(probe, here, d, slope, first)
        probe.iterations += 1
        if found is None:
            if failed or not pairs.kept:
                return
            pairs.kept.clear()
            failed = True
            continue
        failed = False
        pairs.add(found.v - here.v, found.gradient - here.gradient)
        here = found
        if probe.leads_away(here):
            raise _Ended(here, InnerStatus.WORSE)


def _search(probe: Probe, here: Test, d: Tensor, slope: float, step: float) -> Test | None:
    """A point along d that meets the (approximate) Wolfe conditions, or else lies lower; None if there is none.

    Where values differ by rounding only, slopes decide: in single precision they are the ones that can be trusted.
    """
    low, low_slope, high = 0.0, slope, math.inf
    fallback: Test | None = None
    for _ in range(TUNING.line_trials):
        test = probe.visit(here.v + step * d)
        now = float(test.gradient @ d) if math.isfinite(test.value) else math.nan
        falls = test.value <= here.value + TUNING.decrease * step * slope
        flat = test.value <= here.value + probe.noise and now <= (2.0 * TUNING.decrease - 1.0) * slope
        if not math.isfinite(now) or not (falls or flat):
            high = step
        elif now < TUNING.flattening * slope:
            low, low_slope, fallback = step, now, test
        else:
            return test
        if high < math.inf:
            step = _between(low, low_slope, high, now if high == step else math.nan)
        else:
            # A secant step on the slope, within bounds.
            ratio = slope / (slope - now) if now > slope else TUNING.longest_growth
            step = low * min(TUNING.longest_growth, max(2.0, ratio))
        if high - low <= TUNING.bracket_width * high:
            break
    return fallback


def _between(low: float, low_slope: float, high: float, high_slope: float) -> float:
    """A trial between two steps: where the slope seems to vanish, kept away from the ends."""
    width = high - low
    if math.isfinite(high_slope) and high_slope > 0.0:
        guess = low + width * (-low_slope) / (high_slope - low_slope)
    else:
        guess = low + TUNING.blind_share * width
    return min(max(guess, low + TUNING.end_margin * width), low + (1.0 - TUNING.end_margin) * width)


def _panoc(probe: Probe, pairs: Pairs, limit: int) -> None:
    """PANOC: quasi-Newton steps on the fixed-point residual of the proximal gradient step, safeguarded by its envelope.

    The candidates are the points after a prox, where dist(-grad, dg) is measured.
    """
    prox = probe.subproblem.prox
    x = prox.prox(probe.start.v, 0.0) if prox.value(probe.start.v) == math.inf else probe.start.v
    here = probe.start if x is probe.start.v else probe.visit(x)
    step = _first_step(probe, here)
    pairs.kept.clear()
    while probe.iterations < limit:
        probe.iterations += 1
        ahead, step = _forward(probe, here, step, pairs)
        if ahead is None:
            return
        z, envelope = ahead
        residual = (here.v - z.v) / step
        d = pairs.direction(residual)
        length = float(residual @ residual)
        if length == 0.0:
            return
        taken: Test | None = None
        for tau in TUNING.panoc_shares:
            if not pairs.kept:
                break
            trial = probe.visit((1.0 - tau) * z.v + tau * (here.v + d))
            if not math.isfinite(trial.value):
                continue
            w = prox.prox(trial.v - step * trial.gradient, step)
            low = _envelope(probe, trial, w, step)
            if low <= envelope - TUNING.panoc_decrease * step * length + probe.noise:
                taken = trial
                break
        following = z if taken is None else taken
        w = prox.prox(following.v - step * following.gradient, step)
        pairs.add(following.v - here.v, (following.v - w) / step - residual)
        here = following
        if probe.leads_away(here):
            raise _Ended(here, InnerStatus.WORSE)


def _first_step(probe: Probe, here: Test) -> float:
    """0.9 / L with L from one look along the gradient."""
    size = float(torch.linalg.vector_norm(here.gradient))
    h = TUNING.panoc_look / max(size, 1e-12)
    other = probe.subproblem.test(here.v - h * here.gradient)
    probe.evaluations += 1
    change = float(torch.linalg.vector_norm(other.gradient - here.gradient))
    return TUNING.panoc_step * h * size / change if math.isfinite(change) and change > 0.0 else 1.0


def _envelope(probe: Probe, at: Test, z: Tensor, step: float) -> float:
    """The forward-backward envelope at a point with prox point z."""
    prox = probe.subproblem.prox
    smooth = at.value - prox.value(at.v) if math.isfinite(prox.value(at.v)) else math.nan
    if math.isnan(smooth):
        return math.inf
    move = z - at.v
    return float(smooth + float(at.gradient @ move) + float(move @ move) / (2.0 * step) + prox.value(z))


def _forward(probe: Probe, here: Test, step: float, pairs: Pairs) -> tuple[tuple[Test, float] | None, float]:
    """The proximal gradient step, with a stepsize for which the quadratic bound holds."""
    prox = probe.subproblem.prox
    smooth = here.value - prox.value(here.v)
    for _ in range(TUNING.panoc_halvings):
        z = probe.visit(prox.prox(here.v - step * here.gradient, step))
        move = z.v - here.v
        bound = smooth + float(here.gradient @ move) + TUNING.panoc_bound * float(move @ move) / (2.0 * step)
        if math.isfinite(z.value) and z.value - prox.value(z.v) <= bound + probe.noise:
            return (z, _envelope(probe, here, z.v, step)), step
        step *= 0.5
        pairs.kept.clear()
    return None, step
