"""What the single loop does about constraints, in R^m; NumPy arrays and tensors alike, nothing leaves their device.

    min f(x) + g(x)  subject to  lower <= c(x) = E C(x; xi) <= upper

One batch xi_t per step, no inner loop, no dual rate. With x_{t+1} = x_t - A d_t, A the (diagonal) step matrix:

    cbar = D_t + mean of c(x_tau; xi_tau) - D_tau over the last steps,    D_{t+1} = D_t + J (x_{t+1} - x_t)      (track)
    w    = y + beta (cbar - s),   s = clip(cbar + y / beta, lower, upper)                                    (weights)
    d    = momentum of (grad f + J'w) + J'(w - momentum of w)                                                   (lead)
    beta_j = factor kappa / (G_jj lambda_max(corr G)),   G = J A J'                                         (calibrate)
    y   <- y + theta kappa fall (w - y)                                                                         (moved)

beta is such that one step is a Newton step on c: what the primal step can follow, whatever the units of f and c. Once a
pass, which is a virtual outer iteration, the paper's rule raises `factor` unless the tracked violation has fallen; it
never exceeds 1 / fall, by which the steps have become shorter. No bound of the paper is known to hold for this loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, final

from auglag.algorithm import formulas
from auglag.algorithm.rules import Adaptive, History, Iteration, PenaltyRule
from auglag.single_loop.tuning import TUNING

Array = Any


def default_rule() -> PenaltyRule:
    """The paper's rule for the factor of the penalties, once per pass."""
    return Adaptive(initial=1.0, gamma=TUNING.gamma, tau=TUNING.tau)


@final
@dataclass(slots=True)
class EngineState:
    """All that evolves about the constraints."""

    y: Array  #: multipliers
    drift: Array  #: D
    total: Array  #: sum of the c - D of the window, oldest at `head`
    ring: Array  #: these, one row per slot
    part: Array  #: sum of the newest ones that do not fill a slot yet
    last: Array  #: the newest c - D
    w_mean: Array  #: moving average of the weights, as the momentum of gradients has it
    step_vector: Array  #: where the power iteration stands
    gram: Array = None  #: average of J A J', or of its diagonal where m is large
    beta: Array = None  #: None before the first Jacobian
    reach: Array = None  #: the most that a step can change c by; None: no limit
    w_decay: float = 1.0  #: share of the start in w_mean
    kept: int = 0  #: slots of the window in use
    head: int = 0
    parts: int = 0  #: steps in `part`
    steps: int = 0
    factor: float = 1.0  #: the paper's: of all penalties
    history: History = field(default_factory=lambda: History(math.nan, math.inf))  #: virtual outer iterations


@final
class Engine:
    """Tracked values, calibrated penalties, the paper's rule and multipliers; `xp` is `numpy` or `torch`."""

    def __init__(
        self,
        xp: Any,
        lower: Array,
        upper: Array,
        y: Array,
        *,
        pass_steps: int | None,
        exact: Array = None,
        penalty: PenaltyRule | None = None,
    ) -> None:
        self.xp, self.lower, self.upper, self.exact = xp, lower, upper, exact
        self.penalty = default_rule() if penalty is None else penalty
        self.pass_steps = TUNING.stream_window if pass_steps is None else max(1, pass_steps)
        self.stride = -(-self.pass_steps // TUNING.slots)  #: steps of a slot
        zero = xp.zeros_like(y)
        slots = -(-self.pass_steps // self.stride)
        self.state = EngineState(
            y=y, drift=zero, total=zero, ring=xp.stack([zero] * (slots + 1)), part=zero, last=zero, w_mean=zero,
            step_vector=zero + 1.0,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------------- before the gradient

    @property
    def tracked(self) -> Array:
        """cbar: the values of the constraints at the present x, from all batches of the window."""
        s = self.state
        count = s.kept * self.stride + s.parts
        mean = (s.total + s.part) / max(count, 1)
        if self.exact is not None:
            mean = self.xp.where(self.exact, s.last, mean)
        return s.drift + mean

    def weights(self) -> Array:
        """w for the next batch, from batches before it."""
        s = self.state
        if s.beta is None:
            return s.y
        cbar = self.tracked
        gap = cbar - formulas.slack(self.xp, cbar, self.lower, self.upper, s.y, s.beta)
        if s.reach is not None:
            gap = self.xp.clip(gap, -s.reach, s.reach)
        return formulas.shifted(s.y, s.beta, gap)

    @property
    def wants_jacobian(self) -> bool:
        """Whether the step to come should bring a Jacobian."""
        return self.state.steps < TUNING.dense_start or self.state.steps % TUNING.every == 0

    # ----------------------------------------------------------------------------------------------- after the gradient

    def used(self, w: Array, momentum: float) -> None:
        """These weights went into the gradient, which joined a moving average of this decay."""
        s = self.state
        s.w_mean = momentum * s.w_mean + (1.0 - momentum) * w
        s.w_decay *= momentum

    def share(self, least: float) -> float:
        """The weight of the newest in an average: that of a mean at first, then `least`."""
        return max(least, 1.0 / (self.state.steps + 2))

    @property
    def jacobian_share(self) -> float:
        """The weight of a new Jacobian in their average."""
        return self.share(TUNING.jacobian_share)

    def limit(self, longest: Array) -> None:
        """No step changes c by more than `longest`: weights that ask for much more only grow with the noise."""
        self.state.reach = TUNING.reach * longest

    def rescale(self, factor: Array) -> None:
        """A has changed since the last Jacobian, and the diagonal of J A J' by these factors: so does the average."""
        s = self.state
        root = self.xp.sqrt(factor)
        s.gram = s.gram * factor if len(s.gram.shape) == 1 else root[:, None] * s.gram * root

    def calibrate(self, gram: Array) -> None:
        """Penalties from J A J' on a batch, A the steps at their full rate."""
        s = self.state
        s.gram = gram if s.gram is None else s.gram + self.share(TUNING.gram_share) * (gram - s.gram)
        diagonal = s.gram.diagonal()
        size = self.xp.sqrt(self.xp.where(diagonal > 0.0, diagonal, 1.0))
        self._penalties(diagonal, self._top(lambda u: (s.gram @ (u / size)) / size))

    def calibrate_rows(self, rows: Array, values: Array, product: Any) -> None:
        """The same where G is too large: new entries of its diagonal, and `product(u)` = G u."""
        s = self.state
        if s.gram is None:
            s.gram = values
        else:
            s.gram[rows] = s.gram[rows] + TUNING.gram_share * (values - s.gram[rows])
        diagonal = s.gram
        size = self.xp.sqrt(self.xp.where(diagonal > 0.0, diagonal, 1.0))
        self._penalties(diagonal, self._top(lambda u: product(u / size) / size, rounds=1))

    def _top(self, product: Any, rounds: int = TUNING.power_rounds) -> Array:
        """The largest eigenvalue of the correlations, by power iteration."""
        s, xp = self.state, self.xp
        if s.y.shape[0] == 1:
            return 1.0
        u = s.step_vector
        found = u
        for _ in range(rounds):
            u = u / xp.sqrt((u * u).sum())
            found = product(u)
            u, before = found, u
        top = (found * before).sum()
        s.step_vector = xp.where(xp.isfinite(found), found, 0.0) + 1e-3
        return xp.where(top > 1.0, top, xp.ones_like(top))

    def _penalties(self, diagonal: Array, top: Array) -> None:
        xp, seen = self.xp, diagonal > 0.0
        full = TUNING.kappa / (xp.where(seen, diagonal, 1.0) * top)
        self.state.beta = self.state.factor * xp.where(seen, full, TUNING.no_penalty)

    def track(self, c: Array) -> None:
        """The values on this batch, at the x its gradient was taken at. What is not finite is left out."""
        s, xp = self.state, self.xp
        r = c - s.drift
        r = xp.where(xp.isfinite(r), r, self._mean_so_far())
        s.last = r
        s.part, s.parts = s.part + r, s.parts + 1
        if s.parts == self.stride:
            slots = s.ring.shape[0]
            s.ring[(s.head + s.kept) % slots] = s.part
            s.total, s.kept = s.total + s.part, s.kept + 1
            s.part, s.parts = xp.zeros_like(s.part), 0
            steps = min(self.pass_steps, max(TUNING.least_window, math.ceil(TUNING.window * (s.steps + 1))))
            while s.kept > max(1, steps // self.stride):
                s.total = s.total - s.ring[s.head]
                s.head, s.kept = (s.head + 1) % slots, s.kept - 1

    def _mean_so_far(self) -> Array:
        s = self.state
        return (s.total + s.part) / max(s.kept * self.stride + s.parts, 1)

    def lead(self) -> Array:
        """w now, less what the momentum of gradients has of it: J' times this takes out its delay."""
        s = self.state
        return self.weights() - s.w_mean / (1.0 - s.w_decay)

    def moved(self, change: Array, fall: float) -> None:
        """x moved, and J dx is `change`: the values move along, and the multipliers after the weights."""
        s = self.state
        s.drift = s.drift + change
        s.y = s.y + TUNING.theta * min(1.0, TUNING.kappa) * fall * (self.weights() - s.y)
        s.steps += 1

    # -------------------------------------------------------------------------------------- a pass: an outer iteration

    @property
    def pass_ended(self) -> bool:
        """Whether a virtual outer iteration is over."""
        return self.state.steps % self.pass_steps == 0

    def outer(self, fall: float) -> Iteration:
        """Line 5 of Algorithm 1 on the tracked violation: the factor of the penalties for the next pass."""
        s = self.state
        w = self.weights()
        gap = (w - s.y) / s.beta
        size = float(self.xp.sqrt((gap * gap).sum()))
        norm = float(self.xp.sqrt((w * w).sum()))
        row = Iteration(
            k=s.history.k, beta=s.factor, eta=math.nan, usable=math.isfinite(size), violation=size,
            stationarity=math.nan, residual=math.nan, user_violation=size, objective=math.nan, multiplier_norm=norm,
            inner_status="CONVERGED", inner_iterations=self.pass_steps, evaluations=self.pass_steps,
        )  # fmt: skip
        s.history.iterations.append(row)
        factor = min(self.penalty.next(s.history), 1.0 / fall)
        if factor > s.factor:
            s.beta, s.factor = s.beta * (factor / s.factor), factor
        return row

    def again(self, fall: float = 1.0) -> None:
        """The rate is back at `fall`: penalties that only a shorter step could follow come down with it."""
        s = self.state
        factor = min(s.factor, 1.0 / fall)
        if s.beta is not None:
            s.beta = s.beta * (factor / s.factor)
        s.factor = factor
