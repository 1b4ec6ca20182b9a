"""Every constant that steers a PyTorch run beyond `stochastic.tuning`: what, in which unit, why this value, its source.

"By trial" means: on trainings such as those of `benchmarks/training.py`; no table of alternatives was kept.
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
    #: "auto" takes the single loop for budgets of up to so many passes, whatever the model: R is a tenth of that of the
    #: double loop after 5 passes and half of it after 200 (benchmarks/results/training_default.md).
    short_budget: float = 200.0
    #: Fewer rows than these are hardly more than a batch: steps on some of them are not cheaper than steps on all.
    few_rows: int = 128
    #: Without such a budget it does so for models of so many parameters: with up to 4,700 of them full batches come to
    #: tol = 1e-3 in 1.3 times the passes, but in a third of the time, as a step takes 1 ms whatever the model; with
    #: 85,000 the single loop is ahead in time, too (same page). This is the middle of the two.
    large_model: int = 20_000
    #: "auto" takes full batches where rows x parameters, about a sixth of the operations of a pass, are at most this: a
    #: pass then takes about a second. A GPU does a hundred times as much.
    affordable: float = 2e10
    affordable_cuda: float = 2e12
    #: Sampled Adam comes first where a pass is at least `warm_up_steps` steps of two batches of this size. By trial.
    warm_up_batch: int = 32
    warm_up_steps: int = 16
    #: Rows of such a batch for every process, at least: fewer do not use it.
    warm_up_share: int = 4

    # --------------------------------------------------------------------------------------------------------- warm-up
    #: Calls of 1/2, 1, 2, ... passes, at most; each has to shrink dist to `warm_up_gain` of what it was, and they end
    #: where dist is at most `warm_up_enough`, which is the first inner tolerance. By trial.
    warm_up_calls: int = 5
    warm_up_gain: float = 0.7
    warm_up_enough: float = 0.1
    #: Learning rate of method="adam"; ten times PyTorch's default, because `anneal` takes it down in every call.
    adam_rate: float = 1e-2

    # ------------------------------------------------------------------------------------------------ inner tolerances
    #: Next inner tolerance of full-batch and SVRG runs, in units of the last R. By trial.
    follow: float = 0.2

    # ------------------------------------------------------------------------------------------------- sampled methods
    #: Learning rates fall linearly over a call by this share: to a hundredth. By trial.
    annealed: float = 0.99
    #: Slacks follow a running mean of what minimises L_beta batch by batch: a gradient step of this size / beta.
    slack_rate: float = 0.1
    #: Limits are looked at every so many steps, in calls of at least `few_steps`; in shorter ones at every step.
    look_every: int = 16
    few_steps: int = 64
    #: Pairs of `Batches` per seed. Part of what a seed means.
    pairs_per_seed: int = 256

    # ----------------------------------------------------------------------------------------------------- single loop
    #: Numbers of a Jacobian (rows x parameters) that a step computes, at least one row; with more constraints, rows
    #: take turns. Up to so many, rows cost little beside the calls that compute them; beyond, each costs half a step.
    jacobian_numbers: int = 2**18
    #: In models with more parameters than that, Jacobians and averages of the iterates come so many times less often.
    pause: int = 2
    #: The first Jacobian is computed whole, so many numbers at a time: 64 MB in single precision.
    jacobian_memory: int = 2**24
    #: Entries of a parameter that stand for all of it: at least so many, and one of `longest_stride`. The error of an
    #: inner product of such vectors is about 1 / sqrt(1024) of the product of their lengths.
    least_entries: int = 1024
    longest_stride: int = 63
    #: Numbers of the averaged Jacobian (rows x entries): 1 MB in single precision. Every step multiplies it by the
    #: change of x, in about 0.05 ms then. With more constraints rows are shorter, down to `least_entries`.
    kept_numbers: int = 2**18
    #: The longest step of SGD, in units of its first one, that weights of constraints count on. Without a limit a bound
    #: that a step cannot reach makes weights grow until the parameters are NaN; by trial on four trainings at three
    #: rates, 5 delays constraints at small rates, with 20 nothing changes any more.
    first_steps: float = 10.0

    # ------------------------------------------------------------------------------------------- full batches: L-BFGS
    #: Numbers that all pairs of vectors may take: 2 GB in double precision.
    pair_numbers: int = 2**28
    #: Pairs that are kept, where these are not too many numbers: as many as there are iterations in 200 passes. By
    #: trial: networks whose subproblems take that long end lower the more are kept (5, 20, 60, 300 were tried), and the
    #: recursion of 200 takes about as long as a pass over 1,500 rows of a small model.
    most_pairs: int = 200
    #: Pairs that are kept even so.
    least_pairs: int = 5
    #: A pair is dropped unless s'y > this * |s| |y|: its curvature may be rounding.
    least_curvature: float = 1e-10
    #: Differences of values below this many rounding units of max(1, |value|) are rounding. By trial.
    value_roundings: float = 20.0
    #: Wolfe conditions: sufficient decrease and curvature (Nocedal and Wright 2006, section 3.1: 1e-4 and 0.9).
    decrease: float = 1e-4
    flattening: float = 0.9
    #: Wrong multipliers show where the objective has grown, and the violation by this factor, to more than the
    #: tolerance of the subproblem: a sound subproblem trades one for the other.
    worse: float = 10.0
    #: Points per line search, at most.
    line_trials: int = 25
    #: A step that is too short is multiplied by 2 at least and by this at most.
    longest_growth: float = 10.0
    #: Between two steps, the next stays this share of their distance away from both; with no slope known at the upper
    #: one it lies `blind_share` of the way. By trial.
    end_margin: float = 0.1
    blind_share: float = 0.3
    #: A bracket narrower than this, relative to its upper end, is a point.
    bracket_width: float = 1e-12

    # -------------------------------------------------------------------------------- single loop: passes that did harm
    #: A pass did harm where the violation has grown by this factor, and the mean of f by so many standard deviations of
    #: the values of batches: noise does neither. The rate comes down by `retreat` then; with less than `least_retreat`
    #: of it left, the loop gives up.
    harm: float = 2.0
    retreat: float = 0.3
    least_retreat: float = 1e-4

    # ------------------------------------------------------------------------------------------ full batches: PANOC
    #: Shares of the quasi-Newton step that are tried before the proximal step is taken alone (Stella et al. 2017).
    panoc_shares: tuple[float, ...] = (1.0, 0.5, 0.25)
    #: Decrease of the envelope that a step must bring, in units of step * |residual|^2.
    panoc_decrease: float = 0.05
    #: First step, in units of 1 / L, and the share of the quadratic bound that has to hold for it.
    panoc_step: float = 0.9
    panoc_bound: float = 0.95
    #: Length of the look along the gradient that estimates L.
    panoc_look: float = 1e-3
    #: Halvings of the step, at most.
    panoc_halvings: int = 60

    # -------------------------------------------------------------------------------------------------- tests, accuracy
    #: Whether functions are means over rows is looked at on at most so many chunks of a full-batch pass: without
    #: gradients they need no more memory than a training step.
    mean_chunks: int = 8
    #: Points whose f and c are kept: x_k, the last, the best and one more of a line search.
    cached_points: int = 4
    #: Tests that a subproblem keeps with their gradients: those of x_k and of the last point.
    cached_tests: int = 2
    #: A violation has fallen in the second half of the tests if it came to at most this share of the least one in the
    #: first half: the share tau that the paper's penalty rule asks for. Else the advice asks whether bounds can be met.
    fallen: float = 0.8
    #: So many tests, two in each half, are taken to tell of violations that do not fall where most of R is something
    #: else: multipliers that grow without end make stationarity large, too.
    telling_tests: int = 4
    #: Violated constraints whose gradients are looked at after a run that did not succeed, the worst first: each costs
    #: one backward pass over one chunk.
    looked_at: int = 5
    #: A loop of the user's own that made so many times the steps of its first T, and no test, is told of it: a choice,
    #: long enough for loops that test at the end of short passes.
    forgotten_tests: int = 10
    #: Rounding in a gradient, in rounding units of its size: sums over rows and layers. By trial.
    gradient_roundings: float = 8.0


TUNING = Tuning()
