"""Every constant that steers a stochastic run: what it is, in which unit, why this value, where it comes from.

"By trial" means: chosen on problems with data such as those of `benchmarks/`; no table of alternatives was kept. What
belongs to one method by name (its stepsize, its batch) is a field of that method, with its default there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """The constants, in the order in which a run meets them."""

    # ------------------------------------------------------------------------------------------- choice of the method
    #: Variables up to which "auto" takes Gauss-Newton, which solves one dense n x n system per iteration.
    gauss_newton_variables: int = 1500

    # ---------------------------------------------------------------------------- start on samples of the rows (nested)
    #: Rows per variable above which a run starts on samples: below, a sample is too noisy to save passes. By trial.
    nested_rows_per_variable: int = 500
    #: Shares of the rows that are sampled, smallest first: each costs an eighth of the next. By trial.
    nested_shares: tuple[float, ...] = (1 / 64, 1 / 8)
    #: Rows of every block in a sample, at least: fewer say nothing about the block.
    nested_least_rows: int = 32
    #: Rows per variable of a sample, at least: with fewer, minimising over the sample fits its noise.
    nested_least_rows_per_variable: int = 4
    #: Bytes of the largest sample that is copied to memory; a larger share is skipped.
    nested_bytes: int = 600 * 2**20
    #: Outer iterations on one sample, at most; more would fit its noise. By trial.
    nested_outer: int = 12
    #: Slices of a sample whose spread estimates its noise, where rows have no known variance: 15 degrees of freedom.
    nested_slices: int = 16
    #: Inner tolerance with which the next level goes on, at least: its problem is another one. By trial.
    nested_eta: float = 0.02

    # ------------------------------------------------------------------------------------------------ inner tolerances
    #: eta'_1 where nothing else is known, in units of the gradient (losses are means of order 1).
    first_eta: float = 0.1
    #: Smallest inner tolerance, in units of tol: R = dist + ||c|| has room for a violation of four times as much.
    least_eta: float = 0.2
    #: Values closer than this, relative to max(1, |value|), count as equal: the monotone test of Algorithm 2 must not
    #: fail by the rounding of a sum over rows (some hundred units in the last place).
    rounding: float = 1e-13

    # ------------------------------------------------------------------------------------------------------- the clock
    #: Seconds between two looks at the clock inside a call of a method, about; single steps that are slower aside.
    clock_interval: float = 0.2
    #: Steps before the first look; adapted from then on.
    first_stride: int = 16

    # ------------------------------------------------------------------------------------------------- sampled methods
    #: Steps whose row numbers are drawn at once. Part of what a seed means: another number makes other runs.
    steps_per_draw: int = 256
    #: Power iterations that estimate the Lipschitz constant of a sampled gradient; a rough size is all that is needed.
    lipschitz_rounds: int = 6
    #: Step of the differences in it, in units of 1 + ||v||: near eps^(1/3), where rounding and curvature balance.
    lipschitz_step: float = 1e-5

    # ----------------------------------------------------------------------------------------------------- single loop
    #: Sampled steps before full batches, with Gauss-Newton and with L-BFGS (which gains less from a pass), however many
    #: rows there are: what is left after so many steps is mostly noise. By trial, on 3,700 to 1,000,000 rows.
    steps_before_newton: int = 500
    steps_before_lbfgs: int = 1000
    #: Passes that those before Gauss-Newton take at most. By trial: with 4 the first 1e-2 comes later, 1e-6 no sooner.
    passes_before_newton: float = 2.0
    #: Share of a pass that their batches aim at, between the smallest and the largest of the single loop: where rows
    #: are many, less noise costs next to nothing.
    share_before_newton: float = 0.1
    #: Gauss-Newton begins with this share of the penalty that the steps had: multipliers are known by then, and a large
    #: penalty makes its steps short. By trial: 1/10 to 1/3 are alike, with 1 it takes half as many passes again.
    newton_penalty: float = 1.0 / 3.0
    #: Batches that tell whether a start is a solution for all they know: then no sampled steps lead away from it. Twice
    #: the standard error of their mean counts as noise.
    look_batches: int = 16
    look_noise: float = 2.0
    #: Where nothing follows the sampled steps, their point is tested with so small a share of the penalty that y + beta
    #: c is y, which was fitted.
    last_penalty: float = 1e-6

    # ---------------------------------------------------------------------------------------- full batches: L-BFGS
    #: Pairs that L-BFGS remembers: rows are dear here and vectors cheap. By trial.
    lbfgs_pairs: int = 60
    #: Points whose full-batch values are kept: x_k, the last one and the best one of a line search.
    cached_points: int = 3

    # ---------------------------------------------------------------------------------------------------- Gauss-Newton
    #: Iterations on one subproblem after which the outer loop takes over again. By trial.
    newton_iterations: int = 60
    #: Damping mu in (H + mu I) d = -grad is kept in this range; at the upper end the subproblem counts as stalled.
    least_damping: float = 1e-12
    largest_damping: float = 1e8
    #: Damping is multiplied so after a step with a ratio of actual to predicted decrease above `good_ratio`, below
    #: `poor_ratio`, and between (the usual trust-region numbers, Nocedal and Wright 2006, Algorithm 4.1).
    good_ratio: float = 0.75
    poor_ratio: float = 0.25
    damping_good: float = 0.2
    damping_poor: float = 2.0
    damping_fair: float = 0.7
    #: A step is taken from this ratio on; or without it, where dist falls by the factor `dist_halved`.
    accept_ratio: float = 1e-3
    dist_halved: float = 0.5
    #: After a rejected step the next is shorter by a factor between these, where a parabola has its minimum.
    shorten_least: float = 0.05
    shorten_most: float = 0.5
    #: Until it is that short, damping is multiplied by this, at least up to `damping_restart`, so many times at most.
    damping_growth: float = 3.0
    damping_restart: float = 1e-10
    damping_trials: int = 60
    #: Rows per variable of a curvature where the gradient has norm 1, and how many more for every decade that it has
    #: fallen: a rough curvature will do far from a solution. By trial.
    curvature_rows_first: float = 3.0
    curvature_rows_decade: float = 2.0
    #: Where there are very many rows, a curvature may use one in `curvature_share` of them, up to
    #: `curvature_rows_per_variable` times n: 5 % of a pass for a much better matrix. By trial.
    curvature_share: int = 20
    curvature_rows_per_variable: int = 200

    # ------------------------------------------------------------------------- samplers: certificates, growing samples
    #: Independent batches in which a fixed or fresh sample is drawn; their spread gives the intervals.
    sample_batches: int = 40
    #: Bootstrap resamples of these batches: 20 of them lie beyond the 95 % quantile. By trial.
    resamples: int = 400
    #: Level of the intervals of an `EstimatedCertificate`.
    confidence: float = 0.95
    #: The certificate's sample is so much larger than the one of the tests: half its standard error.
    certificate_rows: int = 4
    #: After a certificate that failed, the next one waits for R on the fixed sample to fall to this share: with many
    #: looks, luck would decide. By trial.
    look_again: float = 0.9
    #: R on the sample, in units of tol, at which the rest is left to the error of the sample itself. By trial.
    sample_aim: float = 0.3
    #: A sample grows until its error, which falls with the root of its rows, is expected to be this share of tol.
    growth_aim: float = 0.7
    #: The largest factor of growth at once; the error is known better after that.
    growth_most: int = 16
    #: A larger sample is taken only if the limits allow so many passes over it (and its certificate).
    growth_passes: int = 4
    #: Bytes of the largest sample that is taken.
    growth_bytes: int = 2**30

    # ----------------------------------------------------------------------------------------------------- data, files
    #: Bytes of a chunk of a streamed pass: small enough for any memory, large enough for BLAS.
    chunk_bytes: int = 2**23
    #: Bytes of the largest matrix that is copied with rows padded to whole cache lines, which kernels read faster.
    padded_bytes: int = 2**28
    #: Rows on which derivatives are compared with differences before a run.
    derivative_rows: int = 256
    #: Rows on which objective and constraints are compared with the mean over two parts of them: this share of a pass,
    #: between these numbers. A sum or a ratio shows on any rows; a count of a rare class needs some hundred.
    mean_rows: int = 256
    mean_least_rows: int = 16
    mean_share: float = 1 / 16
    #: The point lies so far from x0, relative to 1 + |x|: where all parameters are 0, a ratio may be that of all rows.
    mean_move: float = 0.01
    #: Two values are one value up to this part of the largest term they can be a mean of, about sqrt(rows) times the
    #: difference of the parts: some hundred rounding units of single precision, in which models are often evaluated.
    mean_rounding: float = 1e-5
    #: And up to so many rounding units of the parameters' own precision, for half precision.
    mean_roundings: float = 4.0
    #: Values that disagree are evaluated so many times more. It is a mistake, not noise, where the mean of all gaps
    #: exceeds so many of their standard deviations: a Student's t of 24 with six
    #: degrees of freedom, less than one in a million.
    mean_repeats: int = 6
    mean_deviations: float = 10.0
    #: Rows are split so many times in two. One split misses a variance or a ratio in 1 to 6 of 100 draws, two in fewer
    #: than 1.
    mean_splits: int = 2
    #: Rows of every block by which a checkpoint knows its data again.
    digest_rows: int = 64


TUNING = Tuning()
