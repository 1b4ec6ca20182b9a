"""Inner methods that evaluate full batches only: L-BFGS, and PANOC where there is a prox term. Nothing is sampled.

Every evaluation is a test, and any point that passes both conditions of Algorithm 1, line 3, ends the solve.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

import torch

from auglag.errors import InputError
from auglag.inner.base import InnerResult, InnerStatus
from auglag.torch.lagrangian import Subproblem, Test

Tensor = Any
#: A subproblem whose value falls below -UNBOUNDED * max(1, |value at the start|) is taken to have no lower bound.
UNBOUNDED = 1e10
#: Pairs of vectors take at most about this many numbers.
PAIR_NUMBERS = 2**28
MOST_TRIALS = 25


class Witness(Protocol):
    """Sees every full-batch test of a run."""

    def tested(self, test: Test, *, p: int, steps: int, accepted: bool) -> bool:
        """Record it; True if the run may end here because R <= tol."""
        ...


@final
@dataclass(frozen=True, slots=True)
class LBFGS:
    """Full-batch L-BFGS on the augmented Lagrangian without slacks (PANOC where a prox term is given).

    It needs the fewest passes over the data where those are affordable, no stepsize, and no batches. `memory` pairs are
    kept, fewer where the model is so large that they would fill the memory.
    """

    memory: int = 60
    carry: bool = True  #: pairs of the subproblem before start the next one where beta has not changed
    warm_up: bool = False  #: begin with a few passes of sampled Adam on the first subproblem (method="auto" does)

    def __post_init__(self) -> None:
        if not (isinstance(self.memory, int) and self.memory >= 1):
            raise InputError(f"LBFGS.memory must be a positive integer, got {self.memory!r}")

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

    def __init__(
        self, subproblem: Subproblem, start: Test, tol: float, exhausted: Callable[[], str], watch: Witness
    ) -> None:
        self.subproblem, self.start, self.tol = subproblem, start, tol
        self.exhausted, self.watch = exhausted, watch
        self.evaluations, self.iterations = 0, 0
        self.lowest = self.best = start
        eps = subproblem.full.variables.eps
        #: Differences of values below this are rounding.
        self.noise = 20.0 * eps * max(1.0, abs(start.value))

    def visit(self, x: Tensor) -> Test:
        """The test at x."""
        why = self.exhausted()
        if why:
            raise _Ended(self.lowest, InnerStatus.BUDGET, why)
        test = self.subproblem.test(x)
        self.evaluations += 1
        inside = math.isfinite(test.value)
        if test.value < -UNBOUNDED * max(1.0, abs(self.start.value)):
            raise _Ended(test, InnerStatus.UNBOUNDED)
        enough = test.value <= self.start.value + self.noise
        accepted = inside and enough and test.dist <= self.tol
        if inside and self.watch.tested(test, p=self.evaluations, steps=1, accepted=accepted):
            raise _Ended(test, InnerStatus.CONVERGED)
        if accepted:
            raise _Ended(test, InnerStatus.CONVERGED)
        if enough and test.dist < self.best.dist:
            self.best = test
        if test.value < self.lowest.value:
            self.lowest = test
        return test


@final
class Pairs:
    """The L-BFGS approximation of an inverse Hessian (or of the Jacobian of a residual map)."""

    def __init__(self, memory: int) -> None:
        self.kept: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=memory)

    def add(self, s: Tensor, y: Tensor) -> None:
        """Remember a step and the change of the gradient, if their curvature is positive beyond rounding."""
        sy, yy, ss = (float(v) for v in torch.stack([s @ y, y @ y, s @ s]))
        if sy > 1e-10 * math.sqrt(yy * ss) and yy > 0.0:
            self.kept.append((s, y, s @ y))

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
            q = q * (sy / (y @ y))
        for (s, y, sy), alpha in zip(self.kept, reversed(alphas), strict=True):
            q = q + (alpha - (y @ q) / sy) * s
        return q


@final
class FullBatchInner:
    """The inner loop around these methods, in the shape the outer loop asks for."""

    saves = False  #: whether a run can be saved inside a subproblem

    def __init__(self, config: LBFGS, n: int, exhausted: Callable[[], str], watch: Witness) -> None:
        self.config, self.exhausted, self.watch = config, exhausted, watch
        self.memory = max(5, min(config.memory, PAIR_NUMBERS // (2 * n)))
        self.pairs, self.beta = Pairs(self.memory), math.nan

    def solve(self, subproblem: Subproblem, x: Tensor, tol: float, *, limit: int) -> InnerResult:
        """As `outer.Inner`."""
        start = subproblem.test(x)
        probe = Probe(subproblem, start, tol, self.exhausted, self.watch)
        if not (self.config.carry and subproblem.beta == self.beta):
            self.pairs, self.beta = Pairs(self.memory), subproblem.beta
        test, status, why = start, InnerStatus.CONVERGED, ""
        try:
            if not math.isfinite(start.value):
                status = InnerStatus.UNDEFINED
            elif start.dist > tol:
                method = _lbfgs if subproblem.prox.empty else _panoc
                method(probe, self.pairs, limit)
                test, status = probe.best, InnerStatus.STALLED
        except _Ended as end:
            test, status, why = end.test, end.status, end.why
        return InnerResult(test.v, test.value, test.dist, probe.iterations, probe.evaluations, status, limit=why)

    def set_iteration(self, k: int) -> None:
        """Nothing depends on it."""

    def begin_level(self) -> None:
        """Forget the pairs of another problem."""
        self.pairs, self.beta = Pairs(self.memory), math.nan

    def save(self) -> dict[str, Any]:
        """The pairs: a run that goes on has to go on with them."""
        return {"beta": self.beta, "pairs": [list(pair) for pair in self.pairs.kept]}

    def load(self, state: dict[str, Any]) -> None:
        """The state of a checkpoint."""
        self.beta = state["beta"]
        self.pairs = Pairs(self.memory)
        self.pairs.kept.extend((s, y, sy) for s, y, sy in state["pairs"])


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
        first = 1.0 if pairs.kept else min(1.0, 1.0 / math.sqrt(-slope)) if slope < 0.0 else 1.0
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


def _search(probe: Probe, here: Test, d: Tensor, slope: float, step: float) -> Test | None:
    """A point along d that meets the (approximate) Wolfe conditions, or else lies lower; None if there is none.

    Where values differ by rounding only, slopes decide: in single precision they are the ones that can be trusted.
    """
    low, low_slope, high = 0.0, slope, math.inf
    fallback: Test | None = None
    for _ in range(MOST_TRIALS):
        test = probe.visit(here.v + step * d)
        now = float(test.gradient @ d) if math.isfinite(test.value) else math.nan
        falls = test.value <= here.value + 1e-4 * step * slope
        flat = test.value <= here.value + probe.noise and now <= (2e-4 - 1.0) * slope
        if not math.isfinite(now) or not (falls or flat):
            high = step
        elif now < 0.9 * slope:
            low, low_slope, fallback = step, now, test
        else:
            return test
        if high < math.inf:
            step = _between(low, low_slope, high, now if high == step else math.nan)
        else:
            # A secant step on the slope, but no more than a tenfold one.
            ratio = slope / (slope - now) if now > slope else 10.0
            step = low * min(10.0, max(2.0, ratio))
        if high - low <= 1e-12 * high:
            break
    return fallback


def _between(low: float, low_slope: float, high: float, high_slope: float) -> float:
    """A trial between two steps: where the slope seems to vanish, kept away from the ends."""
    width = high - low
    guess = low + 0.5 * width
    if math.isfinite(high_slope) and high_slope > 0.0:
        guess = low + width * (-low_slope) / (high_slope - low_slope)
    elif not math.isfinite(high_slope) or high_slope <= 0.0:
        guess = low + 0.3 * width
    return min(max(guess, low + 0.1 * width), low + 0.9 * width)


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
        for tau in (1.0, 0.5, 0.25):
            if not pairs.kept:
                break
            trial = probe.visit((1.0 - tau) * z.v + tau * (here.v + d))
            if not math.isfinite(trial.value):
                continue
            w = prox.prox(trial.v - step * trial.gradient, step)
            low = _envelope(probe, trial, w, step)
            if low <= envelope - 0.05 * step * length + probe.noise:
                taken = trial
                break
        following = z if taken is None else taken
        w = prox.prox(following.v - step * following.gradient, step)
        pairs.add(following.v - here.v, (following.v - w) / step - residual)
        here = following


def _first_step(probe: Probe, here: Test) -> float:
    """0.9 / L with L from one look along the gradient."""
    size = float(torch.linalg.vector_norm(here.gradient))
    h = 1e-3 / max(size, 1e-12)
    other = probe.subproblem.test(here.v - h * here.gradient)
    probe.evaluations += 1
    change = float(torch.linalg.vector_norm(other.gradient - here.gradient))
    return 0.9 * h * size / change if math.isfinite(change) and change > 0.0 else 1.0


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
    for _ in range(60):
        z = probe.visit(prox.prox(here.v - step * here.gradient, step))
        move = z.v - here.v
        bound = smooth + float(here.gradient @ move) + 0.95 * float(move @ move) / (2.0 * step)
        if math.isfinite(z.value) and z.value - prox.value(z.v) <= bound + probe.noise:
            return (z, _envelope(probe, here, z.v, step)), step
        step *= 0.5
        pairs.kept.clear()
    return None, step
