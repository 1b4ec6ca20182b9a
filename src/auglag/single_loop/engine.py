"""What the single loop does about constraints, in R^m; NumPy arrays and tensors alike, nothing leaves their device.

    min f(x) + g(x)  subject to  lower <= c(x) = E C(x; xi) <= upper

One batch xi_t per step, no inner loop, no dual rate. With x_{t+1} = x_t - A d_t, A the (diagonal) step matrix, d_t the
optimiser's average of the gradients grad f + J'w, and J an average of the Jacobians of batches:

    cbar = D_t + mean of c(x_tau; xi_tau) - D_tau over the last steps,    D_{t+1} = D_t + J (x_{t+1} - x_t)      (track)
           (on streams with what the mean lags behind by, where that is more than noise)
    w    = y + held trust beta (chat - s),   s = clip(chat + y / beta, lower, upper),   chat = cbar + coming  (weights)
    beta_j = boost factor kappa / (G_jj lambda_max(corr G)),   G = J A J'                                   (calibrate)
    y   <- y + theta kappa fall (w - y),   held up to four times as large where errors are certain              (moved)

beta is such that one step removes the share kappa of the error of c: what the primal step can follow, whatever the
units of f and c. `coming` is what momentum will still change c by if nothing new is asked for, mu / (1 - mu) times the
last change. `trust` in (0, 1] says how much of chat - s can be more than sampling error; `held` in (0, 1] keeps
gradients of the weights within what the scale of steps can follow (`limit.py`). Once a pass, a virtual outer iteration,
the paper's rule raises `factor` unless the tracked violation has fallen; it never exceeds 1 / fall, by which the steps
have become shorter. Between passes `boost` does the same where G says too much of what steps do: nearly dependent
constraints, or an f so stiff that steps along J are taken back. It grows while the error of c stays and points the same
way, and comes down where the error turns round. No bound of the paper is known to hold for this loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from auglag.algorithm import formulas
from auglag.algorithm.history import History, Iteration
from auglag.algorithm.rules import Adaptive, PenaltyRule
from auglag.single_loop import limit, raising
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
    coming: Array  #: what the momentum of the steps will still change c by
    trend: Array  #: what the mean of the window lags behind by, where data have no end and drift
    variance: Array  #: of c - D from batch to batch
    step_vector: Array  #: where the power iteration stands
    diagonal: Array = None  #: of J A J'
    beta: Array = None  #: None before the first Jacobian
    boost: Array = None  #: of all penalties, between passes
    gap: Array = None  #: cbar - s when penalties were calibrated last
    recent: Array = None  #: cbar - s after the last step
    turns: Array = None  #: sum over the steps since the last Jacobian of cbar - s times that of the step before
    sizes: Array = None  #: sum over these of its square
    reach: float = 0.0  #: what they could do about an error: kappa times the sum of their rates
    power: Array = None  #: of a step, see `limit.py`; None: weights have no limit
    strain: Array = None  #: |J'e|^2, as far as it counts, over what was expected of it
    strains: int = 0  #: batches that it was measured on
    batches: int = 0  #: whose values the variance knows
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
        self.endless = pass_steps is None
        self.pass_steps = TUNING.stream_window if pass_steps is None else max(1, pass_steps)
        self.stride = -(-self.pass_steps // TUNING.slots)  #: steps of a slot
        self._zero = zero = xp.zeros_like(y)
        self._known: tuple[Array, Array, Array] | None = None  #: (last, mean, error) of the present window
        slots = -(-self.pass_steps // self.stride)
        self.state = EngineState(
            y=y, drift=zero, total=zero, ring=xp.stack([zero] * (slots + 1)), part=zero, last=zero, coming=zero,
            trend=zero, variance=zero, step_vector=zero + 1.0,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------------- before the gradient

    @property
    def tracked(self) -> Array:
        """cbar: the values of the constraints at the present x, from all batches of the window."""
        s, mean = self.state, self._window()[0]
        if self.exact is not None:
            mean = self.xp.where(self.exact, s.last, mean)
        return s.drift + mean

    @property
    def window(self) -> int:
        """Steps whose values are averaged at present."""
        return max(self.state.kept * self.stride + self.state.parts, 1)

    def weights(self) -> Array:
        """w for the next batch, from batches before it."""
        s = self.state
        if s.beta is None:
            return s.y
        return formulas.shifted(s.y, s.beta, self._trusted())

    def _trusted(self) -> Array:
        """The error of c to act on: what is no noise, and what the scale of steps can follow."""
        gap = self._errors()
        return self._held(gap) * gap

    def _followed(self, gap: Array) -> Array:
        """The part of the error of c that multipliers follow: certain errors beyond what weights may show at once."""
        s = self.state
        errors = self._trust(self.tracked, gap) * gap
        sure = raising.certain(self._pooled(s.beta * gap * gap), self._pooled(s.beta * self._window()[1]))
        return raising.followed(self.xp, self._held(errors), sure) * errors

    def _errors(self) -> Array:
        """The error of c that is no noise, where the momentum of the steps will take it."""
        ahead = self.tracked + self.state.coming
        gap = self._gap(ahead)
        return self._trust(ahead, gap) * gap

    def _held(self, gap: Array) -> Array:
        s = self.state
        return 1.0 + 0.0 * gap if s.power is None else limit.held(self.xp, s.power, s.strain * self._expected(gap))

    def _expected(self, gap: Array, index: Any = slice(None)) -> Array:
        """|J'e|^2 in the norm of A with e = beta gap, if all correlations were those of the largest eigenvalue."""
        s = self.state
        return TUNING.kappa * (s.boost * s.factor * s.beta * gap * gap)[index].sum() + TUNING.no_penalty

    def _gap(self, cbar: Array) -> Array:
        """The error of c: cbar - s."""
        s = self.state
        return cbar - formulas.slack(self.xp, cbar, self.lower, self.upper, s.y, s.beta)

    def _trust(self, cbar: Array, gap: Array) -> Array:
        """How much of the errors `gap` of c to act on: signal / (signal + noise), as in Wiener's filter.

        Both are sums over the constraints in units that beta makes alike: noise in all of them moves x, and errors that
        go together are seen together. A multiplier may come down by what its own constraint says, too: there the signal
        is the distance to the side that it pulls to. Values that do not depend on the batch have no noise.
        """
        s, xp, error, tiny = self.state, self.xp, self._window()[1], TUNING.no_penalty
        noise, signal = s.beta @ error + tiny, (s.beta * gap) @ gap + tiny
        common = signal / (signal + noise)
        if self.exact is not None:
            common = xp.where(self.exact, 1.0, common)
        room = cbar - xp.where(s.y > 0.0, self.upper, self.lower)
        own = 1.0 / (1.0 + error / (room * room + tiny))
        return xp.where(gap * s.y < 0.0, xp.maximum(own, common), common)

    def _window(self) -> tuple[Array, Array]:
        """The mean over the window, and what counts as noise in it: the same until the next values come."""
        last = self.state.last
        if self._known is None or self._known[0] is not last:
            mean = (self.state.total + self.state.part) / self.window
            self._known = (last, mean + self.state.trend if self.endless else mean, self._error())
        return self._known[1:]

    def _error(self) -> Array:
        """What counts as noise in the tracked values, squared.

        The variance of a mean over part of a pass is smaller than that of independent rows: rows do not repeat. Where
        the window is a whole pass, which has a share q of one order of rows and 1 - q of the next, 2 q (1 - q) of it is
        left, a third in the mean.
        """
        repeated = 0.0 if self.endless else (2.0 / 3.0) * min(self.window / self.pass_steps, 1.0)
        error = self.state.variance * (TUNING.doubt * (1.0 - repeated) / self.window)
        return error if self.exact is None else self.xp.where(self.exact, 0.0, error)

    def wants_jacobian(self, pause: int = 1) -> bool:
        """Whether the step to come should bring a Jacobian; `pause`: so many times less often than usual."""
        return self.state.steps < TUNING.dense_start or self.state.steps % (pause * TUNING.every) == 0

    # ----------------------------------------------------------------------------------------------- after the gradient

    @staticmethod
    def newest(visits: int) -> float:
        """The weight of a new row of a Jacobian in the average of those before: that of a mean at first."""
        return max(TUNING.jacobian_share, 1.0 / (visits + 1))

    def limit(self, power: Array, strain: Callable[[Array], Array], rows: Any = slice(None)) -> None:
        """After `calibrate`: no weights whose gradients the scale of steps could not follow (`limit.py`).

        `power` is |g|^2 in the norm of A for a g of the size that steps are scaled by; `strain(e)` that of J'e on the
        last batch, as far as it counts, from the part e of the weights that belongs to the constraints `rows`.
        """
        s, gap = self.state, self._errors()
        found = limit.ratio(self.xp, strain((s.beta * gap)[rows]), self._expected(gap, rows))
        s.strain = found if s.strain is None else s.strain + self.newest(s.strains) * (found - s.strain)
        s.power, s.strains = power, s.strains + 1

    def calibrate(self, diagonal: Array, product: Callable[[Array], Array]) -> None:
        """Penalties from G = J A J', A the steps at their full rate: its diagonal, and `product(u)` = G u."""
        s, xp = self.state, self.xp
        seen = diagonal > 0.0
        size = xp.sqrt(xp.where(seen, diagonal, 1.0))
        top = self._top(lambda u: product(u / size) / size)
        s.diagonal = diagonal
        if s.beta is not None:
            self._boost()
        plain = xp.where(seen, TUNING.kappa / (size * size * top), TUNING.no_penalty)
        s.boost = xp.ones_like(plain) if s.boost is None else s.boost
        s.beta = (s.boost * s.factor) * plain

    def bound(self, own: Array, pull: Array) -> None:
        """Multipliers come down whose J'y has a norm `pull` many times that of grad f on a batch, `own`, in that of A.

        At a solution the one is minus the mean of the other.
        """
        s, most = self.state, TUNING.most_pull * own
        s.y = s.y * self.xp.where(pull > most, most / (pull + TUNING.no_penalty), self.xp.ones_like(pull))

    def _boost(self) -> None:
        """The paper's rule between passes, on what cannot be noise; see `raising.py`."""
        s = self.state
        before, turns, sizes, reach = s.gap, s.turns, s.sizes, s.reach
        gap = self._gap(self.tracked)
        s.gap, s.turns, s.sizes, s.reach = gap, None, None, 0.0
        if before is None or turns is None or s.steps <= TUNING.dense_start or self.endless:
            return
        products = (gap * gap, before * before, gap * before, turns, sizes, self._window()[1])
        now, then, both, turns, sizes, noise = (self._pooled(s.beta * v) for v in products)
        stays = raising.stays(self.xp, now, then, both, reach) & (turns > TUNING.same_way * sizes)
        turned = (both < 0.0) | (turns < 0.0)
        s.boost = raising.boosted(self.xp, s.boost, stays, turned, now, noise, self._held(self._errors()))

    def _turned(self, gap: Array, fall: float) -> None:
        """How the error of c went from step to step."""
        s = self.state
        if s.recent is not None:
            turns, size = s.recent * gap, gap * gap
            s.turns, s.sizes = (turns, size) if s.turns is None else (s.turns + turns, s.sizes + size)
        s.recent, s.reach = gap, s.reach + TUNING.kappa * fall

    def _pooled(self, values: Array) -> Array:
        """Sums over the constraints that depend on the batch, and over those that do not: these have no noise."""
        if self.exact is None:
            return values.sum() + 0.0 * values
        exact, rest = self.xp.where(self.exact, values, 0.0), self.xp.where(self.exact, 0.0, values)
        return self.xp.where(self.exact, exact.sum(), rest.sum())

    def _top(self, product: Callable[[Array], Array]) -> Array:
        """The largest eigenvalue of the correlations, by power iteration."""
        s, xp = self.state, self.xp
        if s.y.shape[0] == 1:
            return 1.0
        u = s.step_vector
        found = u
        for _ in range(TUNING.power_rounds):
            u = u / xp.sqrt((u * u).sum())
            found = product(u)
            u, before = found, u
        top = (found * before).sum()
        s.step_vector = xp.where(xp.isfinite(found), found, 0.0) + 1e-3
        return xp.where(top > 1.0, top, xp.ones_like(top))

    def track(self, c: Array) -> None:
        """The values on this batch, at the x its gradient was taken at. What is not finite is left out."""
        s, xp = self.state, self.xp
        r, mean = c - s.drift, self._window()[0]
        r = xp.where(xp.isfinite(r), r, mean)
        s.last = r
        if s.kept or s.parts:
            s.batches += 1
            share = max(TUNING.variance_share, 1.0 / s.batches)
            s.variance = s.variance + share * ((r - mean) ** 2 - s.variance)
        s.part, s.parts = s.part + r if s.parts else r, s.parts + 1
        if s.parts == self.stride:
            slots = s.ring.shape[0]
            s.ring[(s.head + s.kept) % slots] = s.part
            s.total, s.kept = s.total + s.part, s.kept + 1
            s.part, s.parts = self._zero, 0
            steps = min(self.pass_steps, max(TUNING.least_window, math.ceil(TUNING.window * (s.steps + 1))))
            while s.kept > max(1, steps // self.stride):
                s.total = s.total - s.ring[s.head]
                s.head, s.kept = (s.head + 1) % slots, s.kept - 1
            if self.endless and s.kept >= TUNING.trend_window and s.batches % TUNING.trend_every == 0:
                s.trend = self._trend()

    def _trend(self) -> Array:
        """How much the values of now differ from the mean of the window, if its halves differ by more than noise.

        With a linear trend that is the difference of the means of the two halves, whose middles are half a window
        apart. It has four times the variance of the mean, and is trusted as far as it is larger than that.
        """
        s = self.state
        half, slots = s.kept // 2, s.ring.shape[0]
        newest = [(s.head + i) % slots for i in range(s.kept - half, s.kept)]
        new = s.ring[newest].sum(0)
        change = new / half - (s.total - new) / (s.kept - half)
        noise = s.variance * (TUNING.trend_doubt * (1.0 / half + 1.0 / (s.kept - half)))
        return change * (change * change / (change * change + noise + TUNING.no_penalty))

    def moved(self, change: Array, fall: float, coast: float = 0.0) -> None:
        """x moved, and J dx is `change`: the values move along, and the multipliers after the weights.

        `coast`: how many times this step's length the momentum will still go.
        """
        s = self.state
        s.drift, s.coming = s.drift + change, coast * change
        if s.beta is not None:
            gap = self._gap(self.tracked)
            s.y = s.y + TUNING.theta * TUNING.kappa * fall * s.beta * self._followed(gap)
            self._turned(gap, fall)
        s.steps += 1

    # -------------------------------------------------------------------------------------- a pass: an outer iteration

    def violation(self) -> Array:
        """The distance of the tracked values to their bounds."""
        c = self.tracked
        outside = c - self.xp.clip(c, self.lower, self.upper)
        return self.xp.sqrt((outside * outside).sum())

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
