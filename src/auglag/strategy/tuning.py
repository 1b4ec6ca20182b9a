"""Every constant that steers a run of `minimize`: what it is, in which unit, why this value, where it comes from.

"Chosen by trial" means: on problems of CUTEst; `benchmarks/ablation.py` varies the ones that matter most, and
`benchmarks/results/ablation.md` is what it found. Errors are KKT errors in the user's units (`StandardForm.error`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True)
class Start:
    """One way to begin again after an attempt that found no solution."""

    name: str
    near: bool = False  #: begin at the best point so far; skipped if its residual is above `near_residual`
    spread: float = 0.0  #: standard deviation of the random displacement of x0, relative to max(1, |x0|)
    feasible: bool = False  #: begin at the least violated point near there
    penalty: float = 1.0  #: multiplies the first penalty
    units: bool = False  #: measure variables, f and rows in units of their size; skipped if they are already


#: The name of the starts that go on from the best point.
BEST = "the best point so far"

#: The starts after x0, in the order in which they are tried; the last of all goes on from the best point, if near.
#: Order and numbers chosen by trial: what needs no new region comes first, what is random last.
STARTS = (
    Start(BEST, near=True),
    Start("x0 in units of the variables' sizes", units=True),
    Start("the least violated point near x0", feasible=True),
    Start("x0 with a larger penalty", penalty=10.0),
    Start("a point near x0", spread=0.1),
    Start("the least violated point near a point around x0", spread=0.3, feasible=True, penalty=100.0),
)


@final
@dataclass(frozen=True, slots=True)
class Patience:
    """What is tried before interior points."""

    failures: int  #: calls of Newton's method in a row that did not halve the error
    iterations: int  #: inner iterations of the attempt in all


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """The constants of the strategy. Replace one by `dataclasses.replace` for an ablation."""

    # What is said of a run

    #: A variable that went this many times as far as those at the start (or 1) may have gone without end.
    gone_far: float = 1e8
    #: A checkpoint belongs to functions whose values at its start are the same but for this part, which sums in another
    #: order do not reach, and so many times their errors.
    same_values: float = 1e-6
    same_errors: float = 10.0
    #: Variables from which on derivatives are advised where a limit ended a run on finite differences: they take n of
    #: every n + 1 calls, so that from ten on nine tenths of the budget went there.
    advise_derivatives: int = 10

    # What is kept of a run

    #: Steps in `Result.steps`; of a longer trail every second one is forgotten. Two megabytes.
    longest_trail: int = 20_000

    # What the run aims at

    #: Newton's method and the inner solver "qp" aim at this fraction of tol: near a solution one more step gains many
    #: digits. Chosen by trial.
    newton_aim: float = 4e-3
    #: Newton's method aims at no error below this (or below tol, if tol is smaller): rounding errors are of that size.
    newton_least: float = 1e-9
    #: Where errors of the functions limit what can be reached, inner tolerances end at this part of the limit at x0: a
    #: limit by differences falls by about so much when they become central and are extrapolated.
    refined_accuracy: float = 0.01
    #: The inner tolerance ends at this fraction of what the stopping test needs, so that both halves of R fit in it.
    tolerance_share: float = 0.5
    #: Points with a residual (or error) up to this multiple of tol count as near: differences become central there, and
    #: the certificate is looked at. Chosen by trial.
    near_tol: float = 1e3

    # Newton's method on the KKT conditions, between subproblems

    #: Failures in a row after which it is no longer called before every subproblem. Chosen by trial, as the next two.
    newton_failures: int = 2
    #: It is then still called where the error has fallen to this part of the error at the last call,
    newton_progress: float = 0.1
    #: and before every third subproblem (k = 1, 4, 7, ...).
    newton_period: int = 3
    #: A call succeeded if it left at most this part of the error.
    newton_success: float = 0.5
    #: The next subproblem starts from its point if it succeeded and the error is below this: far from a solution a
    #: smaller error says little. Chosen by trial.
    adopted_error: float = 1e-2
    #: Calls that reach tol without halving the smallest error of such calls, after which the attempt ends there.
    newton_finishes: int = 2
    #: A point far from tol is compared with the best so far only if the error fell to this part of that of the last
    #: point compared: each comparison costs a certificate.
    kept_error: float = 0.1

    # A step of Newton's method (`sqp.py`)

    #: A step whose error is above this part of the best error so far counts as one without progress.
    newton_less: float = 0.9
    #: An error this much above the first (and above 1) ends the call: the steps diverge.
    newton_blown_up: float = 1e4
    #: Below this error the point is close to a solution. Steps without progress are then followed by steps without the
    #: model's proximal term, and a step much longer than the last one is suspect. Chosen by trial.
    newton_close: float = 1e-4
    #: No entry of a step is larger than this times max(1, |x|).
    newton_radius: float = 1e3
    #: Where a function is not defined at the end of a step, the step is shortened by this factor, down to this length
    #: (relative to the full step).
    newton_shorter: float = 0.25
    newton_shortest: float = 1e-3
    #: A step this much longer than the last one, close to a solution, comes from a nearly singular system: it is solved
    #: again with this proximal term, relative to the Hessian.
    newton_leap: float = 10.0
    newton_leap_prox: float = 1e-4
    #: Multipliers beyond this multiple of the last ones come from dependent rows: the model's penalty is then lowered
    #: by this factor, which bounds them.
    newton_sudden: float = 1e5
    newton_softer: float = 1e-4
    #: No multiplier handed to the next step is larger.
    newton_multipliers: float = 1e10

    # Interior points

    #: On large sparse problems interior points come first, unless the error is already below this: Newton's method
    #: alone is then faster. Chosen by trial.
    interior_error: float = 1e-5
    #: On other problems they are tried once in an attempt, after this many failures or iterations: with Hessians, and
    #: without, when steps of interior points are worth less. Chosen by trial.
    patience_exact: Patience = Patience(2, 60)
    patience_learnt: Patience = Patience(4, 150)
    #: Most steps of interior points before L-BFGS-B, which is cheap: by then it is clear whether they make progress.
    interior_first_steps: int = 100
    #: No inner solve takes more iterations without another look at the KKT conditions.
    longest_solve: int = 1000

    # Attempts

    #: Most steps (inner iterations, those of Newton's method and of interior points) of the first attempt and of one
    #: from a point near a solution; of any other; of the last. Chosen by trial: most problems that are solved at all
    #: take fewer than 100.
    effort_first: int = 750
    effort_other: int = 250
    effort_last: int = 1000
    #: A residual up to which a point is near enough to a solution to go on from there.
    near_residual: float = 1e-3
    #: If the residual is at most this multiple of tol, no start at another place is tried.
    nearly_solved: float = 10.0
    #: Inner iterations spent on the least violated point near a start.
    start_search: int = 100
    #: Multipliers that go along to another start are cut off at this size, as Full.y_max.
    start_multipliers: float = 1e9
    starts: tuple[Start, ...] = STARTS
    #: A start that is solved is looked beyond: by so many steps downhill, each ten times as long as the one before (the
    #: sizes of variables in SI units span as many powers of ten), along so many single variables, so many times.
    far_steps: int = 12
    far_entries: int = 3
    far_starts: int = 5
    #: So many starts elsewhere that ended where an earlier attempt did are enough: no other is tried. One may be
    #: chance; of the problems of CUTEst that a restart solves, none has two before it.
    repeated_ends: int = 2
    #: After INFEASIBLE one is, if restoration has looked from starts far away, too.
    repeated_infeasible: int = 1
    #: Two ends are the same if no variable differs by more than this, relative to max(1, |x|): far above what the
    #: tolerance explains, far below the distance of different minima; ...
    same_end: float = 1e-3
    #: ... or if both violate the constraints by the same, up to this part: a least violation may be attained at many
    #: points, and is known to few digits; or if most subproblems of both had no lower bound; or if restoration found
    #: no feasible point from either.
    same_violation: float = 1e-2

    # Restoration: is there a feasible point?

    #: Iterations in a row without less violation, though the penalty grew, that call for restoration: the first and the
    #: second time.
    suspicions: tuple[int, ...] = (4, 8)
    #: Tolerance of the least-violation problem, in its scaled gradient (rows have gradients of size 1).
    restoration_tol: float = 1e-9
    #: The violation r counts as stationary where the projected ||J'r|| is at most this times ||r||.
    stationary: float = 1e-5
    #: Standard deviation, relative to max(1, |x|), of the displacement of one more start of restoration.
    restoration_spread: float = 0.3
    #: Infeasibility is confirmed if no step up to this length, relative to max(1, |x|), brings the violation of the
    #: linearised constraints below the part `linear_left` of what it is.
    linear_reach: float = 1e6
    linear_left: float = 0.9

    #: Before infeasibility is claimed, starts around x0, the least violated point and 0 are tried, at these distances
    #: relative to max(1, |x|): the first only leaves a point that is stationary by accident, as 0 for x^2 = 1.
    wide_spreads: tuple[float, ...] = (0.01, 1.0, 10.0, 100.0)
    #: They are over after so many inner iterations, or as many as the run has made so far if that is more. Chosen by
    #: trial: about as much as the starts take on small problems.
    wide_effort: int = 300
    #: The least where matrices are kept sparse: an iteration is dear there, and three starts take about as much.
    wide_effort_sparse: int = 100
    #: There a minimisation of the violation is given so many iterations, and one that needs more ends at a stationary
    #: point where the projected gradient is below this part of the violation: least squares have valleys that are
    #: followed for hundreds of steps and a thousandth of the violation. By trial on random problems with rows that
    #: contradict each other, on grids and COPS models, all of which have solutions.
    sparse_search: int = 100
    stationary_sparse: float = 1e-4

    # Does the objective fall without end?

    #: Subproblems count as unbounded below a depth that is `unbounded` of `inner/tuning.py` at first. If the problem is
    #: not, the depth is multiplied by `deeper`, up to `deepest`.
    deeper: float = 1e3
    deepest: float = 1e30
    #: The problem is unbounded if a feasible point has an objective below this part of that depth,
    depth_share: float = 0.1
    #: and if it falls on from there at feasible points whose distance from x0 is `stride` times as large each, until
    #: that has been multiplied by `reach` or values overflow: what stops the fall of a real model lies nearer.
    #: Where a function is not defined so far out, strides are shortened to their square roots, down to `least_stride`.
    stride: float = 100.0
    reach: float = 1e24
    least_stride: float = 1.5
    #: Each time the fall grows at least by this factor: a function that tends to a value fails, -x^0.03 does not.
    growth: float = 1.15
    #: Variables that have gone at most this part of the way of the one that has gone furthest may stay where they are.
    settled: float = 1e-3
    #: A feasible point far out is searched for with at most so many inner iterations, and so many steps of Gauss and
    #: Newton afterwards.
    further_search: int = 100
    mending_steps: int = 4
    #: A point far out is feasible if rows hold up to `own_size` times their own size (of their side, or of their terms
    #: J_ij x_j), and never worse than tol, ...
    own_size: float = 1e-10
    #: ... and up to the rounding errors of their terms: some 50 units in the last place.
    rounding: float = 1e-14
    #: Along a ray of a quadratic programme values are looked at up to this multiple of the size of the variables, and
    #: rows may be off by this part of their terms: a proof from derivatives is confirmed, not replaced.
    ray_reach: float = 1e12
    ray_digits: float = 1e-9
    #: A fall counts if it is so many times what rounding errors make of the objective.
    told: float = 1e3

    # Is a solution a minimum? (`second_order.py`)

    #: R is taken to lie between these where its root says which sides a solution touches: rounding errors keep gaps of
    #: about 1e-6, and a gap above 1e-3 is none that a poor tolerance explains.
    activity_least: float = 1e-12
    activity_largest: float = 1e-6
    #: Curvature counts as zero up to this multiple of |H|: the root of the precision, since the Hessian is taken at a
    #: point that is only known to about that.
    curved: float = 1e-8
    #: A lower point is looked for along a direction of negative or no curvature at this distance, relative to
    #: max(1, |x|), then `leave_shorter` times as far, at most so many times (for directions of no curvature, so
    #: many), for so many random combinations of such directions. By trial.
    leave_first: float = 0.1
    leave_shorter: float = 0.25
    leave_trials: int = 6
    leave_directions: int = 3
    leave_trials_flat: int = 3
    #: Values that differ by less than this, relative to max(1, |value|), are equal: some digits above rounding errors.
    leave_noise: float = 1e-12
    #: Most steps back to the rows from such a point. Each halves the digits that are missing, at least.
    leave_corrections: int = 3
    #: Gradients of constraints are dependent if their singular values, relative to the largest, are not above this:
    #: the root of the precision.
    rank: float = 1e-8
    #: Singular values are computed of matrices with at most so many entries: a tenth of a second.
    rank_entries: int = 250_000
    #: A direction is new if more than this part of it is at right angles to all known ones, and steps have seen it if
    #: it is more than this part of them: errors of gradients, and curvature that changes along a step, hide less.
    rank_new: float = 1e-2
    #: Such a point is left by a random displacement with this standard deviation, relative to max(1, |x|): as `STARTS`.
    perturbation: float = 0.1
    #: Most products with the Hessian, as differences of gradients, where none is given: while the curvature learnt is
    #: not positive; after a run that may have been confined to a subspace; and after any other run. A Krylov space of 5
    #: shows an eigenvalue at the wrong end of the spectrum, one of 10 all of a small problem; by trial.
    probes: int = 5
    probes_confined: int = 10
    probes_after_steps: int = 1
    #: The step of such a difference, relative to max(1, |x|): the cube root of the precision, which balances rounding
    #: errors and third derivatives; with values only, the fourth root of it.
    probe_step: float = 6e-6
    probe_step_values: float = 1e-4
    #: Curvature is clear of what third derivatives make of a step if it is above this multiple of the step times |H|.
    probe_clear: float = 100.0
    #: Most times that a run leaves a solution for a better one, and the steps that may take in all: those of another
    #: start (`effort_other`).
    departures: int = 3
    departure_steps: int = 250
    #: No other departure follows where those so far took as many steps as the first solution, and at least so many: it
    #: may be where the run began. Half of what most problems take.
    departure_least: int = 50
    #: The first penalty is this many times larger after a departure to a lower point, or after one that led nowhere:
    #: the augmented Lagrangian is to fall along the constraints, not away from them. As in `STARTS`.
    departure_penalty: float = 100.0
    #: Another solution is better if its objective is lower by this, relatively: above what tolerances explain.
    better: float = 1e-8

    def patience(self, *, exact: bool) -> Patience:
        """What is tried before interior points, with Hessians and without."""
        return self.patience_exact if exact else self.patience_learnt

    @property
    def most_restarts(self) -> int:
        """The number of starts beside x0; a larger number of restarts has no effect."""
        return len(self.starts) + 1

    def start_of(self, attempt: int, restarts: int) -> Start | None:
        """The start of attempt 1, 2, ...; None for the last one, which goes on from the best point."""
        return self.starts[attempt - 1] if attempt < restarts and attempt <= len(self.starts) else None

    def effort(self, attempt: int, restarts: int) -> float:
        """The steps that an attempt may take: no limit for the only one."""
        if restarts == 0:
            return math.inf
        if attempt >= restarts:
            return self.effort_last
        return self.effort_first if attempt == 0 or self._whole(self.starts[attempt - 1]) else self.effort_other

    @staticmethod
    def _whole(start: Start) -> bool:
        """Whether a start deserves the effort of the first attempt."""
        return start.near or start.units


TUNING = Tuning()
