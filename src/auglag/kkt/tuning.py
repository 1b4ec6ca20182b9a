"""Every number that steers the models of one step, their solvers and the linear algebra behind them.

"By trial" means: chosen by trial; to be re-examined in benchmarks/ablation.py. Code reads `tuning.TUNING.name` when it
runs, so that an ablation can put another instance in its place:

    tuning.TUNING = dataclasses.replace(tuning.TUNING, flips=0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """The numbers of `auglag.kkt`. |H| stands for the largest entry of the Hessian (or of its diagonal)."""

    # The Hessian learnt from first derivatives (`curvature`)

    #: Pairs (step, change of derivatives) kept for it; a limit on memory and on the cost of the rank-one terms. By
    #: trial.
    pairs: int = 60
    #: A rank-one update whose denominator is below this multiple of |s| |u| is left out, since it would be huge
    #: (Nocedal and Wright, Numerical Optimization, 2nd ed., (6.26), r = 1e-8).
    skipped_update: float = 1e-8
    #: Steps shorter than this multiple of max(1, |x|) teach nothing: differences of derivatives are rounding errors.
    shortest_step: float = 1e-14
    #: Least and largest diagonal of the first approximation from a pair, |s'r| / s's; keeps it usable. By trial.
    least_curvature: float = 1e-6
    largest_curvature: float = 1e6
    #: Least diagonal where no pair is known and |grad f|, at most 1, is used; keeps the first step finite. By trial.
    first_curvature: float = 1e-3
    #: Differences of dense Jacobians with more entries than this, less than this part of which are not zero, are kept
    #: sparse, to save memory. By trial.
    packed_entries: int = 2000
    packed_density: float = 0.2

    # Which multiple of the identity is added to the Hessian (`solver`, `convexity`)

    #: Multiple of the identity that is always added, in units of |H|: decides between directions in which nothing else
    #: changes the model, at the price of that relative error in Newton's step. By trial.
    prox: float = 1e-9
    #: |H| is taken to lie between these there: huge multipliers make huge Hessians. By trial.
    prox_least_size: float = 1e-3
    prox_largest_size: float = 100.0
    #: A Hessian that needs a larger multiple begins with this part of what the step before needed. By trial.
    shift_again: float = 0.25
    #: The next multiple to try is the last one times `shift_growth_small` (at least `shift_first` |H|) while it is
    #: below `shift_small` |H|, then times `shift_growth`: as in Algorithm IC of Waechter and Biegler (2006), values by
    #: trial.
    shift_first: float = 1e-8
    shift_small: float = 1e-4
    shift_growth_small: float = 4.0
    shift_growth: float = 8.0
    #: A multiple of |H| beyond which the matrix is given up: nothing of H is left in the sum. By trial.
    shift_limit: float = 1e12

    # Negative eigenvalues replaced by their absolute values (`convexity`)

    #: Most free variables up to which eigenvalues are computed (O(n^3)), beside dense factors, and beside sparse ones,
    #: which cost less. Beyond, the identity is added. By trial.
    eigenvalues_dense: int = 700
    eigenvalues_sparse: int = 200
    #: How often this is done within one model before the identity is added instead. By trial.
    flips: int = 3
    #: Eigenvalues below this multiple of |H| count as not positive. By trial.
    flat: float = 1e-9
    #: Replaced eigenvalues are at least this multiple of |H|, which bounds the step. By trial.
    least_flipped: float = 1e-7
    #: Without rows each variable is measured in the root of its own diagonal entry, taken to be at least this multiple
    #: of the largest. By trial.
    least_unit: float = 1e-8
    #: Directions in which the penalty is this many times stiffer than |H| are held by the rows. By trial.
    held: float = 1e4
    #: Most variables up to which these directions are told apart by singular values; beyond, all have a smaller
    #: penalty, that many times stiffer than |H|, |H| at least `held_least_size`, |J|^2 at least `held_least_slope`. By
    #: trial.
    singular_values: int = 300
    held_least_size: float = 1e-2
    held_least_slope: float = 1e-8

    # The Hessian on the tangent space of active constraints (`tangent`)

    #: The penalty, times max(1, |H|), with which active rows are held: directions in which a row of gradient 1 changes
    #: are stiffer than |H| by this factor. The root of the precision, as with the rows of Newton's method (`SQP`).
    tangent_penalty: float = 1e8
    #: Solutions whose residual, relative to right side and solution, is at most this are accurate enough; others are
    #: made by factors with row exchanges. By trial: without that, points off the rows passed for lower ones.
    tangent_refined: float = 1e-10
    #: Most vectors of the Krylov space in which its lowest directions are looked for, one solve each. Eigenvalues at
    #: the end of the spectrum of an inverse are found within a few steps (Parlett, The Symmetric Eigenvalue Problem,
    #: chapter 12); the number by trial.
    tangent_solves: int = 8
    #: A vector of which orthogonalisation leaves less than this part adds nothing to the space: its rest would be what
    #: `tangent_penalty` lets leave the tangent space.
    tangent_new: float = 1e-4

    # The active-set method (`active_set`)

    #: Most changes of the sets in one solve, and in one that starts from sets that should be right. By trial.
    sweeps: int = 12
    sweeps_polish: int = 4
    #: After so many models in a row whose sets cycled they do so again in 19 of 20 cases (the problems of CUTEst), at
    #: half the price of interior points: these come first then, but for every so many-th model.
    cycles: int = 4
    cycles_period: int = 8
    #: A row becomes active when it leaves its interval by this multiple of max(1, |row|), above rounding errors. By
    #: trial.
    row_slack: float = 1e-11
    #: A variable is held when it leaves its bound by this multiple of max(1, |bound|), above rounding errors. By trial.
    bound_slack: float = 1e-13

    # The interior-point method for the model (`interior`; Mehrotra 1992, SIAM J. Optim. 2)

    #: Most iterations, and the error (relative to max(1, |gradient|)) that ends them. By trial.
    interior_steps: int = 60
    interior_error: float = 1e-9
    #: After `interior_long` iterations, `interior_idle` without an error below `interior_less` times the best end the
    #: solve. By trial.
    interior_long: int = 25
    interior_idle: int = 8
    interior_less: float = 0.9
    #: Steps go this part of the way to the nearest side: Mehrotra's choice is close to it.
    to_boundary: float = 0.995
    #: The start keeps `start_margin` max(1, |side|) off the sides, but at most `start_margin_width` of the width. By
    #: trial.
    start_margin: float = 1e-2
    start_margin_width: float = 0.1
    #: First multipliers of the sides: `first_multiplier_slope` |gradient|, at least `first_multiplier`. By trial.
    first_multiplier: float = 1e-2
    first_multiplier_slope: float = 0.1
    #: Centring is (mu after the predictor / mu) to this power (Mehrotra's 3), at least `least_centring` (by trial).
    centring_power: int = 3
    least_centring: float = 1e-8

    # Linear solvers (`linear`)

    #: Dense matrices with more rows than variables are condensed to the size of the variables from this n + m on;
    #: below, the factorisation costs less than what is around it. By trial.
    condensed_from: int = 60
    #: Condensed solutions are refined to this residual relative to the right side, in at most so many rounds; with a
    #: residual above `condensed_poor` times that the whole matrix is factorised. By trial.
    condensed_residual: float = 1e-12
    condensed_refinements: int = 4
    condensed_poor: float = 1e3
    #: Added to the diagonal of sparse matrices, with the sign that makes them more quasi-definite, before they are
    #: factorised without row exchanges, in the units of the matrix: about the square root of what it guards against
    #: (Vanderbei 1995, SIAM J. Optim. 5, "Symmetric quasidefinite matrices"; the value by trial).
    regularisation: float = 1e-9
    #: Most rounds of refinement of a sparse solution; they end at `refined_residual` relative to the right side, or
    #: when a round leaves more than `refinement_slow` of the residual. By trial.
    refinements: int = 8
    refined_residual: float = 1e-14
    refinement_slow: float = 0.5
    #: Residual of a right side of size 1 above which factors are not taken to tell the inertia. By trial.
    trusted_residual: float = 1e-5
    #: Residual, relative to the right side, above which minimal residuals, then row exchanges are tried. By trial.
    poor_residual: float = 1e-9
    #: Most rounds of minimal residuals where refinement leaves a poor solution: one for every direction in which the
    #: matrix that was factorised is far from the one asked for. By trial: one to five were enough.
    accelerations: int = 8
    #: Rows are exchanged only in matrices with at most this number of entries, zeros included (4,096 rows, 0.2 GB as
    #: full factors), or this many times as many as the factors without exchanges have: exchanges may fill all of it.
    exchanged_entries: int = 4096**2
    exchanged_growth: int = 10
    #: A part of a sparse system with at least this fraction of all variables and rows is factorised in the layout of
    #: the whole, which saves its analysis. By trial.
    part_of_layout: float = 0.4
    #: From this number of variables on a run without qdldl says that there is a faster way: below, a factorisation by
    #: SuperLU takes some hundredths of a second.
    large_problem: int = 5000
    #: Factors by qdldl that took more multiplications than this are left to Pardiso, where that is installed: it works
    #: on blocks, and orders by nested dissection. Seconds of one factorisation by qdldl and by Pardiso: a chain (4e6
    #: multiplications) .004 and .007, a mesh (1e8) .032 and .018, a larger one (5e8) .14 and .05, rows of three
    #: variables far apart (3e9) 2.2 and .05.
    large_work: float = 1e8
    #: Factors by qdldl that fill more than this part of the triangle are left to LAPACK, which does six times as many
    #: operations a second (1,024 rows: .10 s and .017 s): factors that fill this part take more than a sixth of those
    #: of a full triangle.
    nearly_full: float = 0.4
    #: How SuperLU groups columns (its `relax` and `panel_size`): hardly, since grouping fills the thin factors of KKT
    #: matrices. By trial.
    superlu_relax: int = 1
    superlu_panel: int = 4


TUNING = Tuning()
