"""The numbers of the certificate and of the best point of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """All of them were chosen by trial."""

    #: A row or variable this near to a side may carry a multiplier of that side's sign, in the units of R. Ascending:
    #: a larger one is tried only where R is above the one before, as then multipliers with R <= that do not exist.
    activity: tuple[float, ...] = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4)
    #: So many values between the last two are tried where R consists of gaps: each halves the ratio's logarithm.
    halvings: int = 3
    #: R this near to the violation, which no multipliers change, is as good as the best.
    only_violation: float = 1.01
    #: Violated rows that a certificate names, the worst ones: more would only fill the memory.
    most_named: int = 1000
    #: Sparse Jacobians with more entries than this, zeros included, are factored as sparse matrices.
    largest_dense: int = 40_000
    #: A fit this part of what is enough is not improved.
    negligible: float = 1e-3
    #: Most Newton steps of a least-squares fit, ...
    newton_steps: int = 60
    #: ... which has ended where a step promises less than this part of the square; ...
    settled: float = 1e-4
    #: ... a step is taken if it brings this part of its promise, else made shorter, by this factor, down to this part.
    armijo: float = 1e-4
    shorter: float = 0.3
    shortest: float = 1e-6
    #: An excess below this part of its terms is rounding.
    rounding: float = 1e-14
    #: Norms whose squares would not be numbers.
    overflow: float = 1e150
    #: Singular values below this part of the largest are taken as zero, ...
    rank: float = 1e-13
    #: ... and sparse matrices regularised by this, so many times at most.
    delta: float = 1e-12
    refinements: int = 5
    #: Diagonal pivots of the factor down to this part of the largest are kept, which keeps it sparse.
    pivot: float = 1e-3
    #: The linear program is tried with these (tolerance, presolve) one after the other, ...
    programs: tuple[tuple[float, bool], ...] = ((1e-10, True), (1e-7, True), (1e-7, False))
    #: ... and given so many iterations times entries of its matrix each time: 5 seconds, at the 0.01 to 0.03
    #: microseconds an entry that HiGHS took on seven random programmes with 50 to 20,000 variables.
    program_work: float = 2.5e8
    #: With a g that is not separable, y and the subgradient are improved in turn: so many times at most, ...
    alternations: int = 50
    #: ... and until y changes by no more than this, relative to max(1, |y|).
    alternations_end: float = 1e-12
    #: Multipliers are fitted to the best point of a run at its end only while their matrix has at most this many
    #: entries: beyond, the fit takes longer than a step of the method.
    largest_fit: int = 100_000
    #: R counts as no larger than the errors of the functions make it up to this multiple of their estimate, which may
    #: be wrong by such a factor.
    reached: float = 3.0
    #: Without rows, residuals above this multiple of tol say less than the objective: at a kink they say nothing.
    nearly: float = 1e3
    #: INFEASIBLE is said only where the errors of c are at most this part of the violation.
    unsteady: float = 0.1
    #: So many calls more of f and c at the solution, where derivatives are given, but at most this part of the run's
    #: calls: with the fresh evaluation and the check of the derivatives they are five in a row, which show values that
    #: are wrong in every fifth call or more often.
    repeats: int = 2
    repeats_share: float = 0.1
    #: The default of the scale-free tolerance is this times sqrt(tol).
    scale_free: float = 0.1
    #: ... or this times tol, if that is larger: a user who asks for little wants little.
    scale_free_least: float = 10.0
    #: No point with a larger scale_free is said to be as good as the errors of the functions allow; ...
    rough: float = 0.3
    #: ... or solved, where the user has stated these errors.
    rough_success: float = 1e-2
    #: Where no tolerance is stated, scale_free is measured as for this one.
    exactly: float = 1e-12
    #: x0 is no point of comparison for x if no variable moved by more than this part of its size.
    too_near: float = 0.1
    #: Over half a distance a polynomial of degree 6 changes by 2^6 times less, ...
    polynomial: float = 64.0
    #: ... and one of a higher degree by the same factor again over the next half; exponents that differ by more than
    #: this factor are none of a polynomial (2 for an exponential).
    degree: float = 1.5
    #: Fitted multipliers take the place of the run's own where R is at most this part of theirs.
    fitted_better: float = 0.5


TUNING = Tuning()
