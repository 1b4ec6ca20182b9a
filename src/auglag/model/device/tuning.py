"""Every number that steers the device loop.

"WB" is Waechter and Biegler (2006), "On the implementation of an interior-point filter line-search algorithm for
large-scale nonlinear programming", Mathematical Programming 106, 25-57, with their letter and equation or section. "By
trial" means chosen by trial on AC power flow and optimal control.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """The numbers of `auglag.model.device`. "Sides" are the bounds of variables and slacks."""

    # Scaling (`program`)

    #: f and rows are scaled down to gradients of at most this at the start (WB, section 3.8: g_max), by no less than
    #: `least_scale` (WB: 1e-8).
    largest_gradient: float = 100.0
    least_scale: float = 1e-8
    #: The barrier problem of a variable with one side is kept bounded by this multiple of mu times the gap (WB, section
    #: 3.7: kappa_d; IPOPT's default).
    damping: float = 1e-5

    # The barrier parameter mu

    #: First mu (WB, section 4: mu_0), and for a start with multipliers (by trial).
    first_mu: float = 0.1
    warm_mu: float = 1e-4
    #: A barrier problem is solved when its error is at most this multiple of mu (WB (7): kappa_epsilon).
    solved_barrier: float = 10.0
    #: The next mu is min(`mu_factor` mu, mu^`mu_power`) (WB (7): kappa_mu and theta_mu).
    mu_factor: float = 0.2
    mu_power: float = 1.5
    #: Most falls of mu between two steps. By trial: more than four in a row were not seen.
    falls: int = 4
    #: The last mu is the scaled tolerance divided by this (WB (7): epsilon_tol / 10, and a little less).
    last_mu: float = 11.0
    #: Where the residual in the user's units is above its tolerance although the scaled error is met, mu falls by
    #: `lower_mu` with every step, down to `least_mu`. Where gaps and multipliers go to zero together both are sqrt(mu),
    #: and a few hundred of them are in R: the rocket of COPS with 10,005 variables is left at 1.2e-6 with 1e-14. By
    #: trial.
    lower_mu: float = 0.1
    least_mu: float = 1e-17
    #: Free mode: every step has its own mu, by Mehrotra's predictor: (mean after it / mean)^3 of the mean of gaps times
    #: multipliers, at least `least_centring` of it, and at least `free_guard` times the violation and the dual error
    #: that a step with a shift leaves, so that it does not run ahead of them. Where a step makes no progress, barrier
    #: problems are solved as above, from `fixed_mu` times the mean (Nocedal, Waechter and Waltz 2009, "Adaptive
    #: barrier update strategies", section 4).
    least_centring: float = 1e-6
    free_guard: float = 1e-3
    fixed_mu: float = 0.8
    #: Steps go at least this part of the way to the sides, 1 - mu of it for smaller mu (WB (8): tau_min).
    to_sides: float = 0.99
    #: Residuals are scaled down where multipliers are larger than this on average (WB (6): s_max).
    large_multipliers: float = 100.0
    #: Multipliers of sides stay within this factor of mu / gap (WB (16): kappa_Sigma).
    side_multiplier_factor: float = 1e10
    #: First multipliers of sides: this part of the largest entry of the scaled gradient, which is what they have to
    #: balance, and no less than 1 (WB, section 3.6). On 16 grids, where 1 took 1.4 times the steps and 10 times more
    #: than this was unsafe.
    first_side: float = 0.1
    #: Least distance from the sides at the start, relative to max(1, |side|) and to the width (WB, section 3.6: kappa_1
    #: and kappa_2), and for a start with multipliers (by trial).
    push: float = 1e-2
    warm_push: float = 1e-4
    #: Multipliers by least squares are not taken where one is larger than this (WB (36): lambda_max).
    largest_first_multiplier: float = 1e3

    # Newton's equations

    #: Rows of inequalities with more variables than this stay in the matrix: the square of the number is listed before
    #: it is known whether taking the row out would pay, which it rarely does for long rows.
    most_condensed: int = 16
    #: The dual regularisation is `soft_mu` mu, between `soft_least` and `soft_most`: a fixed one stalls near the
    #: solution, and a smaller one loses the inertia without pivoting. By trial on seven networks.
    soft_mu: float = 1e-2
    soft_least: float = 1e-10
    soft_most: float = 1e-8
    #: Rows that were scaled down have less of it in proportion, by at most this: a violation of theirs weighs more in
    #: the user's units. As in `interior.large`; 8,387 buses take 103 steps with it and more than 200 without.
    least_row_unit: float = 1e-3
    #: It is multiplied by `soft_growth` where the linear system is not solved as well as asked for, up to
    #: `soft_factor_most` in all, and falls by `soft_fall` otherwise. By trial.
    soft_growth: float = 10.0
    soft_fall: float = 3.0
    soft_factor_most: float = 1e4
    #: Before a shift, and where a system was solved to `very_accurate` and yet the regularisation could not be taken
    #: out of its solution, it is made smaller as `interior.firmness` says. By trial on control problems, whose rows
    #: are stiff.
    very_accurate: float = 1e-9
    #: Where a factorisation breaks down or solves badly, `soft` grows and variables get a proximal term between
    #: `first_prox` and `largest_prox`, at most `softenings` times a step. By trial: without pivoting, soft times prox
    #: above 1e-14 were safe on 8,387 buses, as the theory of quasi-definite matrices lets expect.
    softenings: int = 3
    first_prox: float = 1e-8
    largest_prox: float = 1e-6
    #: Most steps of the minimal residual method that takes the regularisation out of a step. By trial.
    krylov: int = 8
    #: A step of it counts where its image is larger than this part of the error: rows that contradict each other have
    #: images that cancel to rounding. As `sharpening_gains` of `interior`.
    krylov_least: float = 5e-3
    #: Refinement of a solution ends at `accurate`, or at `accurate_far` while the scaled error is above `far`, or where
    #: a round leaves more than `refinement_leaves` of the error; most rounds `refinements`. The error of rows is to be
    #: at most `rows_accurate` of their violation, too, where that is above `rows_matter`: the right side has terms that
    #: are a million times larger, and with a step that does not see the violation no line search ends. A step is taken
    #: with errors of `usable` times these. By trial; with 1e-5 near the solution one of three runs on 30,000 buses was
    #: not certified, and far from it half of the rounds are saved.
    accurate: float = 1e-6
    accurate_far: float = 1e-5
    far: float = 1e-2
    rows_accurate: float = 0.1
    rows_matter: float = 1e-9
    usable: float = 100.0
    refinement_leaves: float = 0.5
    refinements: int = 8
    #: Slacks without sides have this weight instead of none: it only must not be zero.
    least_weight: float = 1e-14
    #: Shifts for a wrong inertia (WB, Algorithm IC: delta_w^0, bar kappa_w^+, kappa_w^+, kappa_w^-, delta_w^min; the
    #: largest by trial).
    first_shift: float = 1e-4
    shift_growth_first: float = 100.0
    shift_growth: float = 8.0
    shift_fall: float = 3.0
    least_shift: float = 1e-20
    largest_shift: float = 1e20
    #: A step after one with a larger shift than this begins with the part of it that `shift_fall` leaves, instead of
    #: with none: flat directions stay flat, and the factorisation that finds them out is saved. By trial.
    standing_shift: float = 1e-8

    # The filter and the line search

    #: WB (18): gamma_theta and gamma_phi (IPOPT's defaults); (21) theta_max and theta_min; (19) s_theta and s_phi; (20)
    #: eta_phi (IPOPT's default).
    less_violation: float = 1e-5
    less_value: float = 1e-8
    largest_violation: float = 1e4
    small_violation: float = 1e-4
    power_violation: float = 1.1
    power_value: float = 2.3
    decrease: float = 1e-8
    #: Rounding error of phi, in units of the machine precision times its size (WB, section 3.9).
    value_noise: float = 10.0
    #: Most second-order corrections a step, and the part of the violation that each may leave (WB, section 2.4).
    corrections: int = 4
    correction_leaves: float = 0.99
    #: Most step lengths tried, each half of the one before, and the least one (by trial; IPOPT: alpha_min).
    trials: int = 15
    least_length: float = 1e-9
    #: Steps below this, relative to max(1, |w|), are rounding errors and taken as they are (WB, section 3.9).
    tiny: float = 1e-13
    #: Where the violation is below `noisy`, changes of phi by as much of its size are noise: a step that leaves at most
    #: `noisy_violation` is taken in spite of them. By trial.
    noisy: float = 1e-6
    noisy_violation: float = 1e-4

    #: A step that the filter refuses is taken where it leaves less than this of the barrier problem's error, at most so
    #: many times in a row (IPOPT's soft restoration: soft_resto_pderror_reduction_factor, max_soft_resto_iters).
    soft_step_leaves: float = 0.9999
    soft_steps: int = 10

    # The elastic form: Algorithm 1

    #: First penalty (one over the violation, between these two), and its growth where the elastic variables did not
    #: shrink by `elastic_shrinks` (tau and gamma of Algorithm 1); above `largest_penalty` the problem is called
    #: infeasible. By trial; the paper has tau = 0.5, gamma = 10.
    first_penalty: float = 10.0
    largest_first_penalty: float = 1e6
    penalty_growth: float = 10.0
    elastic_shrinks: float = 0.5
    largest_penalty: float = 1e10
    #: With elastic variables below this (scaled rows) the form without them goes on. By trial.
    elastic_ends: float = 1e-6
    #: Most times that the elastic form is entered; the last time it is kept to the end. By trial.
    elastic_entries: int = 3
    #: It begins with a mu of the size of the violation, at most this, and multipliers of rows no larger than this. By
    #: trial.
    elastic_mu: float = 1e-3
    elastic_largest_multiplier: float = 1e4

    # Restoration

    #: It is entered where the filter takes no step, or where none of the last `jammed_steps` steps was longer than
    #: `jammed_length`. By trial.
    jammed_steps: int = 6
    jammed_length: float = 0.05
    #: Its mu is the largest violation, at least the mu of the run (WB, section 3.3.1); the weight of the squared
    #: violation is this over the largest violation (WB (30): rho = 1000, for the 1-norm), that of the distance to the
    #: first point is sqrt(mu) (WB (31): zeta).
    repair_weight: float = 1000.0
    #: Most steps, and the part of the violation that may be left (WB: kappa_resto = 0.9).
    repair_steps: int = 60
    repair_leaves: float = 0.9
    #: Part of the promised decrease of the merit function that is asked for, and most halvings. As usual.
    repair_decrease: float = 1e-4
    repair_halvings: int = 20
    #: Multipliers of sides begin anew with 1 where one is larger than this (WB, section 3.3.1).
    repair_largest_multiplier: float = 1e3
    #: Most restorations in a run; after that, the elastic form. By trial.
    repairs: int = 12

    # Compilation

    #: Contributions to the Jacobian and the Hessian up to which the CPU's programs are compiled with little
    #: optimisation. By trial: 2,869 buses (214,000) compile in 4 s instead of 10 and take 1.5 s a solve instead of .9.
    quickly_compiled: int = 100_000

    # Batches

    #: Most slots on a GPU and on the CPU. By trial: more do not make an H200 faster on a grid of 118 buses, and the CPU
    #: gains nothing from more.
    batch_slots: int = 1024
    batch_slots_cpu: int = 16
    #: Most steps of a slot before its problem is solved alone, unless the caller says otherwise. By trial.
    batch_steps: int = 150
    #: Pairs that a slot's filter remembers, and most halvings of a step.
    batch_filter: int = 24
    batch_trials: int = 8
    #: Solutions are refined once where more than `batch_refined` of the slots have errors above `batch_accurate`; a
    #: slot with such an error after that gets more dual regularisation.
    batch_accurate: float = 1e-6
    batch_refined: float = 0.02
    #: A shift above this ends a slot, and its problem is solved alone. By trial.
    batch_largest_shift: float = 1e6
    #: Least curvature along a step, relative to its square (Chiang and Zavala 2016; IPOPT's neg_curv_test_tol).
    curvature_along_step: float = 1e-12

    # When a run ends

    #: An objective below minus this may have no lower bound: it is asked whether it falls on, and again at `deeper`
    #: times the depth. As `unbounded` of `auglag.inner` and `deeper` of `auglag.strategy`.
    depth: float = 1e10
    deeper: float = 1e3
    #: Steps in a row below `tiny` that are taken while the barrier problem is not solved. After them there is no step:
    #: rows that no variable moves stay violated.
    tiny_steps: int = 2

    #: Most steps, unless a budget says otherwise. By trial: power flow takes at most 250.
    most_steps: int = 1000
    #: Newton steps on the sides that are active, as it seems, are tried once the error is at most
    #: `worth_a_look` times the scaled tolerance (with a large dual error there, mu is ahead of the rest, and steps tell
    #: nothing of active sides): at most `steps_on_sides`, each to leave at most `side_step_leaves` of
    #: the residual, and again once it has fallen by `landing_again`. Active sides are
    #: springs of the stiffness `stiff_side`, what is free has the curvature `side_prox` added, solutions are refined
    #: at most `side_refinements` times. As in `interior.large`.
    #: Active sides are told from the last iterate whose mean of gaps times multipliers was larger by `trail_falls`; of
    #: iterates whose means differ by less than `trail_thins` the last is kept. By trial.
    trail_falls: float = 0.3
    trail_thins: float = 0.9
    worth_a_look: float = 1e4
    steps_on_sides: int = 6
    side_step_leaves: float = 0.5
    landing_again: float = 0.5
    stiff_side: float = 1e8
    side_prox: float = 1e-7
    side_refinements: int = 4
    #: Steps after the scaled tolerance is met that may be spent on the residual in the user's units. By trial.
    extra_steps: int = 20
    #: They end where mu is at its least and a step leaves more than this part of the residual. By trial.
    extra_leaves: float = 0.7


TUNING = Tuning()
