"""The numbers that steer finite differences and the check of derivatives; every one is used in this package only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._constants import Constants

#: The distance from 1 to the next larger floating-point number.
EPS = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """Steps are relative to max(1, |x_j|) unless said otherwise; errors are relative."""

    # ---------------------------------------------------------------------------------------------- `differences`
    #: Step of a forward difference: it balances truncation, of the order h, with rounding, of the order eps / h
    #: (Nocedal and Wright, Numerical Optimization, 2nd ed., section 8.1; SciPy's default too).
    forward_step: float = EPS**0.5
    #: Step of a central difference, whose truncation error is of the order h^2 (same section; SciPy's default too).
    central_step: float = EPS ** (1 / 3)
    #: Step of the complex-step derivative: its error is of the order h^2, here eps, and nothing cancels.
    complex_step: float = EPS**0.5

    # -------------------------------------------------------------------------------------------- `extrapolation`
    #: The two steps that Richardson's extrapolation combines, as multiples of `central_step`: wide enough for rounding
    #: errors far below those of the usual step. Chosen by trial; their ratio 2 is the usual one.
    wide: float = 32.0
    half: float = 16.0
    #: An entry that the extrapolation changes by more than this is not in the range where extrapolation is trusted.
    #: Chosen by trial: the extrapolated error is about the square of the change.
    trusted_change: float = 1e-6
    #: ... nor is one that it changes by more than this multiple of the rounding error. Chosen by trial.
    trusted_roundings: float = 100.0
    #: Ridders' method starts from this part of |x_j|: a step over which the function changes much (Ridders 1982), ...
    ridders_first: float = 0.1
    #: ... or, where x_j is 0, from this step.
    ridders_first_at_zero: float = 1e-2
    #: Differences are central where both sides have room for at least this part of the first step; chosen by trial.
    ridders_central_room: float = 0.25
    #: The most steps it takes for a column; each is half of the one before, so the last is 1/2048 of the first.
    ridders_levels: int = 12
    #: It ends early when the estimated error is at most this part of the derivative. Chosen by trial.
    ridders_enough: float = 1e-10

    # ------------------------------------------------------------------------------------------------ `detection`
    #: Jacobians with fewer columns are made column by column: there is too little to save.
    detected_columns: int = 30
    #: Zeros are believed after so many different points: one is often special (all variables 0, or equal).
    detected_points: int = 2
    #: Columns are moved together if there are at least so many times fewer groups than columns; each Jacobian costs one
    #: evaluation more, for the check.
    detected_gain: int = 3
    #: The change of a row along the direction of the check may differ from what the Jacobian says by this part of the
    #: sum of its terms. Its curvature over steps of `central_step` makes less; a missing entry, of the size of the
    #: others, more, in rows of up to a hundred entries.
    detected_mismatch: float = 1e-3
    #: ... or by so many roundings of the row's value.
    detected_roundings: float = 100.0

    # ---------------------------------------------------------------------------------------------------- `kinks`
    #: Distance, relative to max(1, |x_j|), at which both sides of a possible kink are looked at: a run that is stuck at
    #: one is nearer.
    kink_step: float = 1e-4
    #: The slopes of both sides differ by at least this part of themselves, and at half the distance by this part of
    #: what they did (1 at a kink, 1/2 for smooth functions).
    kink_share: float = 0.1
    kink_stays: float = 0.8

    # ---------------------------------------------------------------------------------------------------- `noise`
    #: Values of the difference table; More and Wild use 7 or 9.
    noise_points: int = 7
    #: Their distance along the line, relative to max(1, |x_j|): there the second difference of a function of moderate
    #: curvature is of the size of its rounding error.
    noise_spacing: float = 1e-8
    #: Levels of the table whose estimates differ by no more than this factor agree (More and Wild).
    noise_agreement: float = 4.0
    #: The table gives a standard deviation; errors are taken as this multiple of it.
    noise_spread: float = 2.0
    #: Errors up to this multiple of eps, relative to the function or to its change over max(1, |x|), are what sums of
    #: many terms in double precision have. By trial.
    full_precision: float = 100.0
    #: A function that changes by more than this part over the table (More and Wild) is looked at once more, with points
    #: at this distance, before its changes are called noise.
    noise_wild: float = 0.1
    noise_nearer: float = 1e-12
    #: Where a function stands still, values at these distances are looked at, until it moves.
    noise_wider: tuple[float, ...] = (1e-6, 1e-4, 1e-2, 1.0, 10.0)
    #: The differences of rounded values are whole multiples of one number. In units of eps |f|: a remainder below the
    #: first is rounding, and a number below the second may be an accident.
    noise_zero: float = 1e3
    noise_unit: float = 1e6
    #: On suspicion more tables have values so far from one another: about the steps of the checks that mismatched.
    noise_doubt: tuple[float, ...] = (1e-6, 1e-5, 1e-4)
    #: Halvings of a distance after which what still changes by the second number above is a jump: 1e-2 becomes 1e-14.
    noise_halvings: int = 40
    #: Distance from which x is come back to, to see whether a function remembers.
    noise_far: float = 0.1
    #: The change of a function over max(1, |x|) is estimated at this part of the distance.
    noise_slope: float = 1e-2
    #: Steps from the relative noise e: the powers of e for a forward, a central and an extrapolated difference, which
    #: balance noise and truncation (More and Wild, "Estimating derivatives of noisy simulations", ACM TOMS 38, 2012,
    #: for the first; the others likewise), ...
    noise_forward: float = 1 / 2
    noise_central: float = 1 / 3
    noise_extrapolated: float = 1 / 5
    #: ... and the largest step, relative to max(1, |x_j|).
    noise_longest: float = 0.25
    #: The error of a difference by noise and truncation together, in units of noise / step: forward, central and
    #: extrapolated. The noise alone makes 2, 1 and 1.5; where steps balance both, truncation makes as much.
    noise_errors: tuple[float, float, float] = (4.0, 2.0, 2.0)

    # ---------------------------------------------------------------------------------- `checking`, `box`, `comparison`
    #: The error of J d that is tolerated, relative to the norm of the terms of J d. Chosen by trial: far above what
    #: differences get wrong, far below what a wrong formula does.
    tolerance: float = 1e-3
    #: The same where a run has ended: a smaller error of a derivative moves the point, and four evaluations are nothing
    #: against a run.
    tolerance_end: float = 1e-5
    #: The error of a wrong derivative changes by no more than this part of itself over three neighbouring step sizes.
    steady: float = 0.1
    #: Largest and smallest step size that are tried when the first test finds a disagreement, a factor 10 apart.
    largest_step: float = 1e-2
    smallest_step: float = 1e-9
    #: Both sides of x are used if each has room for this multiple of the smallest step: four step sizes at least.
    two_sided_room: float = 1e4
    #: The step of the first test where only one side has room; the other step of it is `central_step`.
    one_sided_step: float = 4 * EPS**0.5
    #: Moves are of the length sqrt(|x_j|) for large x_j, but of at least this part of |x_j|. Chosen by trial.
    least_relative_move: float = 1e-4
    #: Directions of which the one with the least cancellation in J d is taken. Chosen by trial.
    directions: int = 4
    #: Rounding errors of a difference in units of eps |f| / h: in the first test, and when step sizes are compared.
    rounding_quick: float = 2.0
    rounding_sweep: float = 8.0
    #: Distances, relative to the moves, of the second point at which a derivative has to be wrong as well.
    nearby: tuple[float, ...] = (1e-3, 1e-4, 1e-5)
    #: With more variables than this the wrong entry is searched for by halving.
    many_variables: int = 256
    #: How many suspicious entries are looked at one by one before the check gives up.
    suspects: int = 5
    #: So many entries that a sparsity pattern lacks are named: enough to see which neighbour was forgotten.
    missing_named: int = 3
    #: An estimate below this part of the given entry is shown as 0.
    shown_as_zero: float = 1e-9


TUNING = Tuning()
