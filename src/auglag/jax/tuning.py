"""Every number that steers `auglag.jax`, in one place. What it shares with the rest is in `algorithm.formulas`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """Constants of the compiled method: what, in which unit, why. Where no source is named they were chosen by hand."""

    # Choosing the method
    newton_variables: int = 128  #: variables up to which inner="auto" takes Newton steps, each one n x n factorisation
    memory: int = 10  #: pairs of the limited-memory method, as in the paper's experiments with L-BFGS-B
    newton_steps: int = 500  #: default of max_steps, the inner steps of all subproblems together
    memory_steps: int = 5000  #: the same for limited-memory steps, which are cheaper and gain less each
    tol: float = 1e-6  #: default tolerance in float64, that of `auglag.minimize`
    tol_single: float = 1e-3  #: the same in float32
    smallest_tol: float = 1e-12  #: smallest tolerance allowed in float64: rounding in R hides less
    smallest_tol_single: float = 1e-5  #: the same in float32
    programs_kept: int = 32  #: compiled programs kept for the next call with the same functions

    # Inner tolerances and ends of the outer loop
    target: float = 0.05  #: smallest inner tolerance, in units of tol: half of the tenth that `auglag.minimize` aims at
    target_unconstrained: float = 0.5  #: the same without constraints, where the one subproblem is the problem
    stationary: float = (
        1e-5  #: ||J'r|| / ||r|| (rows in units of their gradients at x0) at which r counts as stationary
    )

    # Line search
    trial_lengths: tuple[float, ...] = (1.0, 0.25, 0.05)  #: trials beside the full step, in units of the step length
    sufficient_decrease: float = 1e-4  #: fraction of the predicted decrease asked for (Nocedal & Wright 2006, eq. 3.4)
    lengthen: float = 4.0  #: factor of the step length after a full or longest trial; it never exceeds 1
    shorten: float = 0.25  #: the same after the shortest trial
    retreat: float = 0.02  #: the same where no trial was taken
    shortest: float = 1e-10  #: step length at which a subproblem has stalled
    farthest: float = 10.0  #: longest step in units of max(1, ||x||): without curvature a Newton step knows no length
    noise: float = 5.0  #: rounding in a value phi, in units of eps * max(1, |phi|)
    idle_newton: int = 4  #: steps in a row that change phi by noise only after which a subproblem has stalled
    idle_memory: int = 40  #: the same for limited-memory steps, which gain little at a time
    near_bound: float = (
        1e-6  #: largest distance at which a bound may hold a variable (less, if the gradient is smaller)
    )

    # The Newton step on the KKT system: the full step of the subproblem with a large penalty
    stiffer: float = 10.0  #: penalty of that step, at least, in units of beta
    stiffest: float = 1e6  #: largest penalty of that step
    rounding: float = 100.0  #: how much larger than rounding in c, times the penalty, tol has to stay
    improvement: float = 0.5  #: the step is taken where it brings the smallest residual so far down by this factor

    # Linear systems
    unrolled: int = 8  #: variables up to which systems are written out number by number; the code grows as n^3
    unrolled_jacobian: int = 64  #: entries m * n of the Jacobian up to which a problem is written out
    unrolled_operations: int = 4000  #: single operations of a function beyond which it is not written out
    pivot: float = 10.0  #: smallest pivot, in units of eps * (largest entry of the matrix)
    smallest_pivot: float = 1e4  #: smallest pivot, in units of eps, where all entries are small
    first_shift: float = 1e-8  #: first multiple of I added to an indefinite matrix, in units of its largest diagonal
    shift_growth: float = 10.0  #: factor from one shift to the next
    shift_decay: float = 3.0  #: the first shift is at least the last one by this (Waechter & Biegler 2006, Alg. IC)
    shift_attempts: int = 14  #: shifts tried: the last is 1e5 times the largest diagonal entry

    # The quadratic model with all bounds and rows (`quadratic`)
    lagging: int = 3  #: steps in a row that were not accelerated after which it is solved: most problems never lag
    model_penalty: float = 1e6  #: its penalty: so large that the rows hold as in a quadratic program
    model_firmer: float = 1e3  #: its factor after a step that left most of the violation: multipliers were too small
    model_poor: float = 0.5  #: part of the linear rows' violation, or of tol, that a step may leave: as in bisection
    model_patience: int = 20  #: steps by it in a row that may be taken without an accelerated one among them
    model_steps: int = 30  #: most steps of interior points; 8 to 15 are usual
    model_accuracy: float = 1e-9  #: largest residuals and mean of gaps times multipliers, relative to the gradient
    model_convex: float = 1e-8  #: most negative eigenvalue of a convex one, in units of the largest entry: rounding
    model_usable: float = 1e-6  #: the same with which a solution is still tried
    model_settling: float = 1e-8  #: weight of the distance from interior points' solution, in units of the gradient
    model_settlings: int = 8  #: most sets of active sides tried from there
    model_to_sides: float = 0.995  #: part of the way to the nearest side that a step goes
    model_push: float = 0.1  #: distance from the sides at the start, in units of min(1, width)
    model_least_weight: float = 1e-12  #: weight of a row's slack that has no sides
    model_prox: float = 1e-15  #: added to the diagonal, in units of the largest entry: rounding of flat directions

    # Derivatives of the solution
    zero: float = 7.0  #: multipliers up to this, in units of sqrt(eps), count as 0, sides this near as touched
    regularisation: float = 0.75  #: power of eps on the lower diagonal of the KKT matrix: above rounding, below notice

    # Batches
    thinning: int = 16  #: when one in so many instances is still running, those go on in a batch of their own
    thinned_batch: int = 10_000  #: instances from which that is worth the time it takes to compile it
    thinned: int = 32  #: smallest batch that is worth such a separate program
    thinnings: int = 1  #: how often a batch is thinned out: each time is one more program to compile
    cpu_numbers: int = 1 << 20  #: numbers of working memory per chunk on a CPU: 8 MB, what the caches of a core hold
    gpu_numbers: int = 1 << 29  #: the same on a GPU: 4 GB

    # `auglag.jax.minimize`
    largest_jacobian: int = 4_000_000  #: entries of a Jacobian beyond which it is used through products only


TUNING = Tuning()
