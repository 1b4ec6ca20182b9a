"""Every constant of the adaptive single loop: what it is, in which unit, why this value, where it comes from.

"By trial" means: chosen on three trainings (Spambase with a linear model and with a network, logistic regression with
a parity constraint) with seeds of their own. `rate_gain`, `kappa`, `doubt` and `least_scale` were
chosen with a look at all tasks of `benchmarks/training.py`, on the seeds 100 to 102 and 200 to 202; `signal`, `growth`
and `most_boost` with a look at all but fairness, "8 means" and the autoencoder, on the seeds 200 to 203; the sizes of
batches, `jacobian_share` and `growth_between` with a look at all of them, on the seeds 100, 101 and 200, and so were
`certain` and `least_held`, for the sake of the boundary problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """The constants, in the order in which a run meets them."""

    # -------------------------------------------------------------------------------------------------- rounds, batches
    #: Passes of the first round where no other limit is given, and of the sampled part before full batches. By trial.
    first_passes: float = 20.0
    #: Full batches follow where the budget has at least so many passes, and get at least `full_share` of it. By trial.
    least_passes: float = 15.0
    full_share: float = 0.3
    #: Passes that a test of several multipliers and the certificate take at the end of steps, one each; of a small
    #: budget steps have at least this share all the same, and the end comes up to a pass and a half later.
    closing: float = 2.0
    least_share: float = 2.0 / 3.0
    #: Without an end in sight the next round is longer by this factor: at most half of all passes are not in the last.
    longer: float = 2.0
    #: Steps of a round of one pass that are aimed at by the size of a batch (rows), which lies between the other two.
    #: Longer rounds have sqrt(passes) times as many. By trial: fewer steps leave multipliers no time to settle, smaller
    #: batches have values of too much noise (500 steps in one pass cost 1.5 times the R; in five passes they gain a
    #: third of it).
    steps: int = 250
    least_batch: int = 8
    largest_batch: int = 128

    # --------------------------------------------------------------------------------------------------------- primal
    #: Rate of the scaled steps at the start (units of x). By trial.
    rate: float = 0.03
    #: By how much the logarithm of the rate changes in a step whose gradient points exactly where the last ones went,
    #: and the most that the rate changes by in all. By trial: with 0.05 a bad start costs more, with 0.2 noise does.
    #: A range of 10 lets the loop of constraints and multipliers swing, and gains nothing.
    rate_gain: float = 0.1
    rate_range: float = 3.0
    #: Decay of the moments of gradients. Momentum delays what weights do to the values by 1 / (1 - mu) steps: with
    #: Adam's 0.9 R is larger by a tenth. Squares forget sooner than with Adam's 0.999: weights change.
    momentum: float = 0.7
    squares: float = 0.99
    #: This share of the mean of all root mean squares is added to each: parameters that the objective hardly sees would
    #: have the longest steps, and make the penalties of what depends on them small. By trial.
    least_scale: float = 0.1
    #: Weight of the newest iterate in the average: power / (t + power - 1), which averages about the last fifth. By
    #: trial, with 10 (a tenth) R is larger by a twentieth, with 20 by a tenth.
    power: float = 5.0
    #: The rates fall linearly to this share of what they were.
    least_fall: float = 1e-3
    #: Without an end they fall as 1 / (1 + t / steps), down to this share, with which changes are still followed. By
    #: trial, on streams of 4,000 to 200,000 rows: with 1 / sqrt(1 + t / steps) the last constraint errors are larger.
    endless_least: float = 0.1

    # ------------------------------------------------------------------------------------------------ constraint values
    #: Values are averaged over the last so many of the steps made, at least `least_window`, at most a pass (after which
    #: rows repeat, and errors of sampling have cancelled). By trial.
    window: float = 0.33
    least_window: int = 4
    #: Steps of the window where data have no end: an average of them has 1/16 of the noise of one.
    stream_window: int = 256
    #: There the two halves of a window of at least so many steps are compared, every so many steps, and what they
    #: differ by counts as a trend as far as its square exceeds so many variances (three standard errors).
    trend_window: int = 32
    trend_every: int = 16
    trend_doubt: float = 9.0
    #: Values that are kept apart for the window; longer windows keep means of several steps.
    slots: int = 1024

    # --------------------------------------------------------------------------------------------- Jacobians, penalties
    #: Steps between two Jacobians, after the first `dense_start` steps with one each. By trial.
    every: int = 5
    dense_start: int = 4
    #: Weight of a new Jacobian in their average; 1 / (how many it has) where that is more. By trial: with 0.1 and 0.2
    #: the Gram matrix of the average still has much of the noise of batches, which makes penalties small, and tracked
    #: values drift by it; 0.025 follows x too slowly.
    jacobian_share: float = 0.05
    #: Power iterations for the largest eigenvalue at each Jacobian; they go on from the vector of the one before.
    power_rounds: int = 1
    #: Share of the constraint error that one step removes. 1 would be a Newton step on c, which the delay of the usual
    #: momentum, ten steps, turns into oscillations; by trial, 0.35 to 0.5 are alike.
    kappa: float = 0.5
    #: Part of the weights that becomes multipliers in a step, relative to kappa. Steps with momentum mu follow weights
    #: with a delay of 1 / (1 - mu), and the loop of c, steps and multipliers, (s^3 / (1 - mu) + s^2 + kappa s + theta
    #: kappa^2) c = 0, is stable where theta kappa < 1 - mu (Routh and Hurwitz). At a sixth of that, and with weights
    #: that look ahead (`coming`), its slowest mode decays by 0.95 a step. Twice as much is as good in the mean, but 24
    #: constraints, whose tracked values lag behind where Jacobians are noisy, begin to swing.
    theta: float = 0.1
    #: Weight of the newest in the variance of values from batch to batch: about the last 50 of them.
    variance_share: float = 0.02
    #: Variances of the tracked values that count as noise (1.5 standard errors). By trial: 1 to 4 are alike with few
    #: constraints, with 100 of them 1 is too few.
    doubt: float = 2.25
    #: Size of what the weights of errors of c add to gradients, relative to the root mean squares that steps are
    #: divided by: the noise of batches in it, which must stay below 1 (`limit.py`), and its mean. By trial: a `signal`
    #: of 1 leaves a boundary problem, whose objective is easily fitted, far from its constraints.
    noise: float = 0.75
    signal: float = 3.0
    #: What the mean may add to the moments in a step while these are plain means of all steps so far. By trial.
    growth: float = 1.0
    #: How many times harder than the objective multipliers may pull. By trial: in a boundary problem whose objective is
    #: fitted at once they need 5 for a while, with 3 its R is larger; without any limit, multipliers that belong to
    #: gradients of 1e40, after steps out of the domain, stay for good.
    most_pull: float = 10.0
    #: Penalty of a constraint whose gradient has been zero so far: positive, and without effect.
    no_penalty: float = 1e-30

    #: Constraints whose multipliers are fitted to a gradient at most: 1000 take about a second, 2000 twenty.
    most_fitted: int = 1000

    # ------------------------------------------------------------------------------- the paper's rule, between passes
    #: Cosine of the angle between two errors of c, five steps apart, from which on the error stays. By trial.
    same_way: float = 0.5
    #: Factor of the penalties where it does: twice is the least that is in time for a boundary problem in one pass.
    growth_between: float = 2.0
    #: Standard errors of sampling from which on errors of c are certain. By trial: errors below cannot be told from
    #: noise; where all of them counted, R of 24 groups after one pass was twice as large.
    certain: float = 5.0
    #: The share of the weights down to which penalties of certain errors still rise. By trial: with 0.1, and
    #: multipliers without a limit, single seeds of the boundary problem run away; with 1 penalties stop too early.
    #: Multipliers without any limit feed on their noise (a test), though they would take R there from 0.20 to 0.15.
    least_held: float = 0.25
    #: Penalties are raised by this factor at most; limits on weights (above) make it safe. An objective that is fitted
    #: at once has small gradients and so small penalties, in a boundary problem a hundred times less than it takes.
    most_boost: float = 1000.0

    # ---------------------------------------------------------------------------------- the paper's rule, once per pass
    #: Factor of the penalties, and the share to which the tracked violation has to fall. By trial (gamma as in the
    #: paper's stochastic experiments).
    gamma: float = 1.5
    tau: float = 0.8


TUNING = Tuning()
