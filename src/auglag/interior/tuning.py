"""Every number that steers the interior-point method.

Most follow Waechter and Biegler (2006), "On the implementation of an interior-point filter line-search algorithm for
large-scale nonlinear programming", Mathematical Programming 106, 25-57: "WB" below, with their letter and the equation
or section it belongs to. "By trial" means: chosen by trial; to be re-examined in benchmarks/ablation.py. Code reads
`tuning.TUNING.name` when it runs, so that an ablation can put another instance in its place:

    tuning.TUNING = dataclasses.replace(tuning.TUNING, corrections=0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """The numbers of `auglag.interior`. "Sides" are the bounds of variables and slacks."""

    # The barrier parameter mu (`method`)

    #: First mu (WB, section 4: mu_0).
    first_mu: float = 0.1
    #: A start with multipliers whose error is below `first_mu` is taken to be near a solution: mu begins at `warm_mu`
    #: times that error, at least `least_first_mu`. By trial.
    warm_mu: float = 0.1
    least_first_mu: float = 1e-8
    #: A barrier problem is solved when its error is at most this multiple of mu (WB, before (7): kappa_epsilon).
    solved_barrier: float = 10.0
    #: The next mu is min(`mu_factor` mu, mu^`mu_power`) (WB (7): kappa_mu and theta_mu).
    mu_factor: float = 0.2
    mu_power: float = 1.5
    #: The last mu: `last_mu_target` times the target of the run (WB (7): epsilon_tol / 10), at most `last_mu`; it goes
    #: on falling by `last_mu_factor` down to `least_mu` while the error, which is not scaled by multipliers as that of
    #: the barrier problem, is above the target. By trial.
    last_mu: float = 1e-8
    last_mu_target: float = 0.1
    last_mu_factor: float = 0.1
    least_mu: float = 1e-15
    #: Steps go at least this part of the way to the sides, and 1 - mu of it for smaller mu (WB (8): tau_min).
    to_sides: float = 0.99

    # When a run ends (`method`)

    #: Steps without an error below `idle_less` times the best, once mu is at its end. By trial.
    idle_steps: int = 8
    idle_less: float = 0.9
    #: With an error below `close`, more than `slow_steps` steps for another factor `slow_factor` of the error are no
    #: longer Newton's method: there are no multipliers, as it seems. By trial.
    close: float = 1e-3
    slow_steps: int = 40
    slow_factor: float = 0.1
    #: On large problems, where what comes afterwards is dearer than more steps.
    slow_steps_large: int = 100
    #: f below -`diverging` max(1, |first f|), or a variable beyond it, means that there is no minimum (IPOPT's
    #: diverging_iterates_tol is 1e20; the value by trial).
    diverging: float = 1e15
    #: Steps below this, relative to max(1, |v_i|), are rounding errors (WB, section 3.9, has 10 eps_mach); mu is then
    #: lowered, and the `tiny_steps`-th one ends the run (by trial).
    tiny: float = 1e-14
    tiny_steps: int = 3

    # Variables, slacks and the multipliers of their sides (`space`)

    #: Least distance from the sides at the start, relative to max(1, |side|) and to the width (WB, section 3.6: kappa_1
    #: and kappa_2, both 1e-2).
    push: float = 1e-2
    #: Largest multipliers of sides at the start and after a restoration; on large problems all begin anew with 1 where
    #: one is larger after a restoration (WB, section 3.3.1).
    largest_side_multiplier: float = 1e3
    #: First multipliers of sides are this over the distance where the start is not near a solution. By trial (WB,
    #: section 3.6: z = 1).
    first_side_multiplier: float = 1.0
    #: The barrier problem of a variable with one side only is kept bounded by this multiple of mu times the distance
    #: (WB, section 3.7: kappa_d; the value is IPOPT's default).
    damping: float = 1e-5
    #: Multipliers of sides stay within this factor of mu / distance (WB (16): kappa_Sigma).
    side_multiplier_factor: float = 1e10
    #: Residuals are scaled down where multipliers are larger than this on average (WB (6): s_max).
    large_multipliers: float = 100.0

    # Newton's equations (`newton`)

    #: First multiple of the identity added to a Hessian of the wrong inertia (WB, Algorithm IC: delta_w^0).
    first_shift: float = 1e-4
    #: Growth of it while none was needed before, and after (WB, Algorithm IC: bar kappa_w^+ and kappa_w^+).
    shift_growth_first: float = 100.0
    shift_growth: float = 8.0
    #: The first one tried in a later step is the last one needed divided by this (WB, Algorithm IC: kappa_w^- = 1/3),
    #: at least `least_shift` (WB: delta_w^min).
    shift_fall: float = 3.0
    least_shift: float = 1e-20
    #: Largest multiple tried (WB, Algorithm IC, has bar delta_w^max = 1e40; the value by trial).
    largest_shift: float = 1e30
    #: Equations c(x) + J dx = 0 are satisfied up to this multiple of the multipliers' step: at first `soft`, which
    #: sparse factorisations without pivoting and condensed ones need; `hard` once a wrong inertia may come from it
    #: (compare WB, Algorithm IC: delta_c = 1e-8 mu^(1/4); the values by trial). `soft` is larger by `soft_mu`
    #: mu^`soft_power`, if that is above 1.
    soft: float = 1e-9
    hard: float = 1e-12
    soft_mu: float = 10.0
    soft_power: float = 0.25
    #: Equations that remain unsatisfied by more than this part of their violation contradict each other to first order.
    #: By trial.
    contradicting: float = 0.1
    #: Where the inertia is not known: least curvature along the step, relative to its square (Chiang and Zavala 2016,
    #: Comput. Optim. Appl. 64, inertia-free tests; IPOPT's neg_curv_test_tol; the value by trial).
    curvature_along_step: float = 1e-12
    #: Multipliers by least squares at the start and after a restoration are not taken where one is larger than this (WB
    #: (36): lambda_max). The normal equations have `least_squares_soft` on the diagonal (by trial).
    largest_first_multiplier: float = 1e3
    least_squares_soft: float = 1e-8

    # The filter and the line search (`filter`, `search`)

    #: A new point has a violation smaller by this fraction than a pair of the filter, or a barrier value smaller by
    #: this multiple of the violation (WB (18): gamma_theta and gamma_phi).
    less_violation: float = 1e-5
    less_value: float = 1e-5
    #: No violation above this multiple of max(1, first violation) is admitted (WB (21): theta_max).
    largest_violation: float = 1e4
    #: Below this multiple of max(1, first violation) a step that should lower the barrier value must do so (WB (19):
    #: theta_min).
    small_violation: float = 1e-4
    #: It should where length (-slope)^`power_value` > violation^`power_violation` (WB (19): s_phi and s_theta, with
    #: delta = 1).
    power_value: float = 2.3
    power_violation: float = 1.1
    #: Part of the decrease that the slope promises, to be asked for (WB (20): eta_phi).
    decrease: float = 1e-4
    #: Rounding error of the barrier value, in units of the machine precision times its size (WB, section 3.9).
    value_noise: int = 10
    #: Most second-order corrections a step, and the part of the violation that each may leave (WB, section 2.4: p_max
    #: and kappa_soc).
    corrections: int = 4
    correction_leaves: float = 0.99
    #: Most step lengths tried, each half of the one before; none below `least_length`, and no step below `least_move`
    #: in the largest entry. By trial.
    trials: int = 25
    least_length: float = 1e-14
    least_move: float = 1e-16

    # Large sparse problems (`large`, `directions`). "On grids" means: chosen by trial on AC power flow of 57 to 3,022
    # buses (benchmarks/power_flow_cpu.py), and checked on others.

    #: With an error below `close` the free mode ends where it makes the error larger by this factor. On grids.
    much_worse: float = 10.0
    #: Added to the diagonal of the variables at all times, times the largest entry of the Hessian, which counts as at
    #: least `least_hessian` and at most 1: without it every third factorisation of a Hessian with flat directions needs
    #: a shift. On grids.
    standing_prox: float = 1e-7
    least_hessian: float = 1e-6
    #: It is made smaller by `firmer`, down to `least_prox`, where after a step it alone makes more than this part of
    #: the gradient of the Lagrangian that was left before; the whole of it is taken again where a system then has the
    #: wrong inertia. By trial on optimal control of CUTEst, on COPS models and grids.
    left_by_prox: float = 0.5
    least_prox: float = 1e-13
    #: The diagonal of a row is measured in units of its own, its largest entry squared; that counts as at least this,
    #: and at most 1. By trial on random problems whose rows are in other units.
    least_row: float = 1e-5
    #: Far from a solution (an error above `close`) the next system begins with this part of the shift of the last one,
    #: as long as that is above `standing_prox`. By trial on models of optimal control and chains of 300 to 6,000
    #: variables: 0.3 is as good, 0.03 and less are not.
    shift_kept: float = 0.1
    #: After such a step multipliers by least squares are taken if the gradient of the Lagrangian is then at most this
    #: part of what it was. By trial on the same.
    fits_better: float = 0.1
    #: The diagonal of the rows, the inverse of a penalty: `soft_of_mu` mu, between the other two. The largest is what
    #: IPOPT adds to singular matrices (WB, section 3.1: bar delta_c); a smaller one makes pivots lose the inertia, a
    #: larger one than mu lets rows that are stiff by sides nearby lag behind. On grids.
    soft_of_mu: float = 1.0
    #: Rows that were scaled down have a diagonal that is smaller in proportion, by at most this: a violation of theirs
    #: weighs more in the user's units. Not far from the rows, where it makes steps short. On grids.
    least_row_unit: float = 1e-3
    soft_least: float = 1e-10
    soft_largest: float = 1e-8
    #: It is taken out of a solution where it leaves more than this part of the violation, or of `rows_matter` where
    #: that is less, by at most so many steps of a minimal residual method. As on devices (`auglag.model.device`). They
    #: end where a step takes away less than 0.5 % of the error, as the cosine `sharpening_gains` between them does, and
    #: where what it does is not known to that part (`enough_refined`): rows that contradict each other leave an error
    #: that nothing takes away, and a step against it is made of rounding errors.
    left_by_soft: float = 0.1
    rows_matter: float = 1e-9
    sharpenings: int = 8
    sharpening_gains: float = 0.1
    #: Before a shift, the diagonal is tried at `firmer` and `firmer`^2 of its size; after one was needed all the same,
    #: not again for so many systems. It is made smaller by `firmer`, down to `firmest`, too, where a step leaves more
    #: than `left_by_soft` all the same. By trial on the rocket of COPS, on random problems and on grids.
    firmer: float = 1e-2
    firmest: float = 1e-8
    firmer_rest: int = 5
    #: After so many systems in a row that needed a shift, rows have `soft_largest` beside one, those that were scaled
    #: down, too. By trial on grids.
    often_shifted: int = 20
    #: Solutions are refined until their residual, relative to the right side, is `enough_refined`: it is what Newton's
    #: method leaves of the residuals. One above `poorly_refined`, relative to right side and solution, means that the
    #: factors are not those of the matrix. On grids.
    enough_refined: float = 1e-7
    poorly_refined: float = 1e-4
    #: The KKT error as the caller measures it is looked at where violation and complementarity, scaled, are at most
    #: this multiple of the target.
    worth_a_look: float = 1e3
    #: Then up to `steps_on_sides` Newton steps on the sides that seem to be active are tried as well, each to leave at
    #: most `slow_factor` of the error; again where the guess changed or the error fell by that. Sides are springs of
    #: this stiffness in them, which leaves 1e-8 of what multipliers change as a gap. On grids.
    steps_on_sides: int = 3
    stiff_side: float = 1e8
    #: Interior points end after `finishing_steps` with a scaled error of at most `handed_over` that did not meet the
    #: caller's tolerance: what is missing then are active sets, which Newton's method on the KKT conditions often finds
    #: in a step or two, where mu would have to fall below rounding errors. On grids.
    handed_over: float = 1e-9
    finishing_steps: int = 4
    #: So they do where the best error is within this factor of the target and no larger than rounding errors make it.
    nearly: float = 10.0
    #: First multipliers of sides: 1 (WB, section 3.6), or less where the product with the distance would be larger than
    #: this: sides that are very far away say nothing. On grids.
    first_product: float = 100.0
    #: Free mode: centring is (mean after the predictor / mean)^3 (Mehrotra's choice), at least `least_centring`; and mu
    #: is at least `free_guard` times the violation, so that it does not run ahead of it. On grids.
    least_centring: float = 1e-6
    free_guard: float = 1e-3
    #: First mu of the fixed mode, relative to the mean of distance times multiplier (Nocedal, Waechter and Waltz 2009,
    #: SIAM J. Optim. 19, "Adaptive barrier update strategies", section 4: adaptive_mu_monotone_init_factor of IPOPT).
    fixed_mu: float = 0.8
    #: The last mu, relative to the target of the run; it goes on falling as above.
    last_mu_large: float = 1e-4
    #: Residuals below this multiple of the precision times the largest multiplier are rounding errors.
    multiplier_noise: float = 1e3
    #: As `decrease` and `less_value` (WB's own: eta_phi = 1e-8 in IPOPT, gamma_phi = 1e-8).
    decrease_large: float = 1e-8
    less_value_large: float = 1e-8
    #: Step lengths below this part of what theory asks for end the line search (WB (23): gamma_alpha).
    shortest_part: float = 0.05
    #: So many steps that are all shorter than `jammed_length` call for a restoration before the line search fails:
    #: sides or curved rows are in the way, and multipliers grow. Where no row is violated, and line searches leave
    #: less than `jammed_length` of so many steps, they call for a proximal term instead, which grows and falls as
    #: shifts do. Most restorations of this kind in a run. On grids.
    jammed_steps: int = 6
    jammed_length: float = 0.05
    most_restorations: int = 12

    # Convex quadratic programmes (`quadratic`)

    #: Most steps, and most of them without an error below `idle_less` times the best: after that the general method
    #: goes on. Ill-posed programmes (LISWET, YAO of CUTEst) take 20 to 120 steps, CVXQP1 9.
    quadratic_steps: int = 150
    quadratic_idle: int = 40
    #: Programmes begin at this distance from their sides, in units of their own and relative to the width, where errors
    #: are that many times the mean product of gap and multiplier (or 1). By trial on programmes in other units.
    quadratic_push: float = 0.5
    quadratic_off_centre: float = 1e2
    #: The diagonal of the rows. A step leaves this multiple of the change of the multipliers as a violation; those of
    #: ill-posed programmes are 1e7 and more (LISWET), so that a larger one lets the rows lag behind all else. Where
    #: pivots lose the inertia it grows by `quadratic_soft_growth` up to `quadratic_soft_largest`. By trial on LISWET,
    #: YAO, CVXQP.
    quadratic_soft: float = 1e-18
    quadratic_soft_growth: float = 100.0
    quadratic_soft_largest: float = 1e-6
    #: As `enough_refined`: there is no line search that would tell an inaccurate step.
    quadratic_refined: float = 1e-13
    #: Added to the diagonal of the variables; smaller than `standing_prox`, since a convex Hessian needs no shift.
    quadratic_prox: float = 1e-9
    #: Most further correctors a step. Each aims at products between `corrector_low` and `corrector_high` times mu after
    #: a step that is longer by `corrector_longer`, and is kept where both lengths gain `corrector_gain` together
    #: (Gondzio 1996, section 3: beta_min, beta_max, delta_alpha and gamma delta_alpha).
    quadratic_correctors: int = 2
    corrector_low: float = 0.1
    corrector_high: float = 10.0
    corrector_longer: float = 0.1
    corrector_gain: float = 0.01

    # Programmes without a solution (`rays`)

    #: The programmes that tell so are solved until `worth_a_look` times this bounds their errors in units of their own;
    #: `ray_error` is enough.
    ray_target: float = 1e-16
    ray_error: float = 1e-9
    #: That no point satisfies the rows is proved for all points no further than this, relative to max(1, |x_i|); the
    #: residuals of the proof, rounding errors, hide what is beyond.
    ray_reach: float = 1e6
    #: A direction is one if its largest entry is more than this part of the largest of the gradient: of a programme
    #: that has a solution it is an error of the projection. Nor is one looked for where errors fell below that.
    ray_least: float = 1e-6

    # Curvature from first derivatives, for large problems (`limited_memory`)

    #: Up to this number of variables the structured rank-one matrix of `kkt.curvature` is used instead, which knows
    #: more from its 60 triples than a limited memory, at a price per step that is small there. By trial.
    largest_rank_one: int = 400
    #: Pairs kept (IPOPT's limited_memory_max_history is 6; with one solve a pair and a half, 10 cost little more).
    pairs: int = 10
    #: The curvature along a step is at least this part of what was known (Powell 1978; Nocedal and Wright, Numerical
    #: Optimization, 2nd ed., Procedure 18.2: 0.2).
    damped: float = 0.2
    #: The multiple of the identity lies between these (IPOPT's limited_memory_init_val_min and _max).
    least_sigma: float = 1e-8
    largest_sigma: float = 1e8
    #: Terms whose eigenvalue is below this, relative to the largest, are rounding errors.
    negligible_term: float = 1e-14

    # Restoration (`restoration`)

    #: Restoration is not tried for a violation below this multiple of the run's target. By trial.
    restore_above: float = 1e-2
    #: Most steps, and the part of the violation that may be left (WB, section 3.3.1: kappa_resto = 0.9; steps by
    #: trial).
    restoration_steps: int = 40
    restoration_leaves: float = 0.9
    #: For large problems: most steps, and the part of the violation at which they end; what is left after the last one
    #: is taken, too, if `restoration_leaves` allows it. On grids.
    restoration_steps_large: int = 100
    restoration_aim: float = 0.1
    #: It ends a run where the largest violation is above `blocked_violation`, its gradient at most `blocked_slope` of
    #: the terms it consists of: then it is found out whether there is a feasible point at all. By trial on random
    #: problems with contradicting rows. With 1e-2 a slow way to the rows of a grid (6495_rte) is taken for none.
    blocked_violation: float = 1e-4
    blocked_slope: float = 1e-4
    #: Weight of the squared violation, divided by min(1, first violation)^2, beside the barrier and the distance to the
    #: start (which has the weight sqrt(mu), WB (31): zeta). By trial.
    restoration_weight: float = 1e4
    #: Part of the promised decrease asked for in its line search (as `decrease`), the shortest step length, and the
    #: move below which it gives up. By trial.
    restoration_decrease: float = 1e-4
    restoration_least_length: float = 1e-10
    restoration_least_move: float = 1e-12
    #: A line search that leaves less than this of a step calls for a proximal term, which grows and falls as shifts do.
    #: By trial on random problems without a feasible point.
    restoration_shortened: float = 0.25


TUNING = Tuning()
