"""Every constant that steers a run of `minimize`: what it is, in which unit, why this value, where it comes from.

"Chosen by trial" means: on the CUTEst problems of `benchmarks/ablation.py`, whose table shows what a factor of ten each
way costs (`benchmarks/results/ablation.md`). Errors are KKT errors in the user's units (`StandardForm.error`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Start:
    """One way to begin again after an attempt that found no solution."""

    name: str
    near: bool = False  #: begin at the best point so far, if it is near a solution; else there is no such start
    spread: float = 0.0  #: standard deviation of the random displacement of x0, relative to max(1, |x0|)
    feasible: bool = False  #: begin at the least violated point near there
    penalty: float = 1.0  #: multiplies the first penalty


#: How starts are named that go on from where the run has come.
BEST = "the best point so far"

#: The starts after x0, in the order in which they are tried; the last of all goes on from the best point, near or not.
#: Order and numbers chosen by trial: what needs no new region comes first, what is random last.
STARTS = (
    Start(BEST, near=True),
    Start("the least violated point near x0", feasible=True),
    Start("x0 with a larger penalty", penalty=10.0),
    Start("a point near x0", spread=0.1),
    Start("the least violated point near a point around x0", spread=0.3, feasible=True, penalty=100.0),
)


@final
@dataclass(frozen=True, slots=True)
class Patience:
    """How much of the other ways is tried before interior points."""

    failures: int  #: calls of Newton's method in a row that did not halve the error
    iterations: int  #: inner iterations of the attempt in all


@final
@dataclass(frozen=True, slots=True)
class Tuning:
    """The constants of the strategy. Replace one by `dataclasses.replace` for an ablation."""

    # What the run aims at

    #: Newton's method and inner solvers by models aim at this fraction of tol: their last step gains many digits for
    #: the price of one. Chosen by trial.
    newton_aim: float = 4e-3
    #: Newton's method is not asked for an error below this (or below tol, if that is smaller): rounding begins there.
    newton_least: float = 1e-9
    #: The inner tolerance ends at this fraction of what the stopping test needs, so that both halves of R fit in it.
    tolerance_share: float = 0.5
    #: The first inner tolerance and its reduction per outer iteration, in units of the scaled gradient; as ALGENCAN's
    #: sequence (Birgin and Martinez 2014, section 12.8: tenfold each time).
    tolerance_first: float = 0.1
    tolerance_ratio: float = 0.1
    #: Points with a residual (or error) up to this multiple of tol count as near: differences become central there, and
    #: the certificate is looked at. Chosen by trial.
    near_tol: float = 1e3

    # Newton's method on the KKT conditions, between subproblems

    #: After so many failures in a row it is no longer called before every subproblem,
    newton_failures: int = 2
    #: but where the error has fallen to this part of the one it was last called with,
    newton_progress: float = 0.1
    #: and before every so many-th subproblem. All three chosen by trial.
    newton_period: int = 3
    #: A call succeeded if it left at most this part of the error.
    newton_success: float = 0.5
    #: Its point is taken for the next subproblem if it succeeded and the error is below this: further out a smaller
    #: error says little about the way to a solution. Chosen by trial.
    adopted_error: float = 1e-2
    #: So many calls may end near tol but not at their aim, without coming nearer to it, before the run ends there.
    newton_finishes: int = 2
    #: Far from tol a point is kept as the best so far only where the error fell to this part of the last one that was
    #: kept: each costs a certificate.
    kept_error: float = 0.1

    # A step of Newton's method (`sqp.py`)

    #: An error above this part of the best one so far is no progress.
    newton_less: float = 0.9
    #: An error this much above the first (and above 1) ends the call: the steps diverge.
    newton_blown_up: float = 1e4
    #: Below this error steps are Newton's alone; where they get no further, they go on without the model's proximal
    #: term, and a step that grows suddenly is suspect. Chosen by trial.
    newton_close: float = 1e-4
    #: No entry of a step is longer than this times max(1, |x|).
    newton_radius: float = 1e3
    #: A full step to where a function is not defined is cut by this factor, down to this length.
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

    #: On large sparse problems they go first, unless the error is already below this: Newton's method alone is then
    #: faster. Chosen by trial.
    interior_error: float = 1e-5
    #: Elsewhere they are tried once in an attempt, after this much of the other ways: with Hessians, and without, when
    #: steps of interior points are worth less. Chosen by trial.
    patience_exact: Patience = Patience(2, 60)
    patience_learnt: Patience = Patience(4, 150)
    #: Steps before an inner solver that is cheap (L-BFGS-B): by then they have shown whether they lead anywhere.
    interior_first_steps: int = 100
    #: No inner solve takes more iterations without another look at the KKT conditions.
    longest_solve: int = 1000

    # Attempts

    #: Inner iterations of the first attempt and of one from a point near a solution; of each other; of the last.
    #: Chosen by trial: most problems that are solved at all take fewer than 100.
    effort_first: int = 750
    effort_other: int = 250
    effort_last: int = 1000
    #: A residual up to which a point is near enough to a solution to go on from there.
    near_residual: float = 1e-3
    #: Up to this multiple of tol no start elsewhere is worth while.
    nearly_solved: float = 10.0
    #: Inner iterations spent on the least violated point near a start.
    start_search: int = 100
    #: Multipliers that go along to another start are cut off at this size, as Full.y_max.
    start_multipliers: float = 1e9
    starts: tuple[Start, ...] = STARTS

    # Restoration: is there a feasible point?

    #: A violation counts as one above this multiple of tol.
    violated: float = 10.0
    #: Penalty increases in a row without less violation that call for it: the first time, the second time.
    suspicions: tuple[int, ...] = (4, 8)
    #: Tolerance of the least-violation problem, in its scaled gradient (rows have gradients of size 1).
    restoration_tol: float = 1e-9
    #: The violation r counts as stationary where the projected ||J'r|| is at most this times ||r||.
    stationary: float = 1e-5
    #: Standard deviation, relative to max(1, |x|), of the displacement of one more start of restoration.
    restoration_spread: float = 0.3
    #: How far, relative to max(1, |x|), linearised constraints are trusted when infeasibility is to be confirmed,
    linear_reach: float = 1e6
    #: and the part of the violation that they must leave for it to be.
    linear_left: float = 0.9

    # Does the objective fall without end?

    #: Subproblems that fall below -depth * max(1, |value at the start|) have no lower bound; where the problem has, the
    #: depth is raised by `deeper`, up to `deepest`.
    depth: float = 1e10
    deeper: float = 1e3
    deepest: float = 1e30
    #: A feasible point shows it if its objective is below this part of that depth,
    depth_share: float = 0.1
    #: and goes on falling where the way from x0 is made `ahead`, `ahead`^2, ... times as long, so often.
    ahead: float = 4.0
    ahead_times: int = 8
    #: Constraints end the fall if feasible points near these multiples of the way are not lower by `lower`, relatively;
    #: each is looked for in so many inner iterations.
    further: tuple[float, ...] = (1e6, 1e7)
    lower: float = 1e-6
    further_search: int = 100
    #: The violation that rounding alone makes of a feasible point, relative to |x|.
    rounding: float = 1e-14

    def patience(self, *, exact: bool) -> Patience:
        """What interior points wait for, with Hessians and without."""
        return self.patience_exact if exact else self.patience_learnt

    @property
    def most_restarts(self) -> int:
        """Starts that there are beside x0: more are not made, whatever is asked for."""
        return len(self.starts) + 1

    def start_of(self, attempt: int, restarts: int) -> Start | None:
        """The start of attempt 1, 2, ...; None for the last one, which goes on from the best point."""
        return self.starts[attempt - 1] if attempt < restarts and attempt <= len(self.starts) else None

    def effort(self, attempt: int, restarts: int) -> float:
        """The inner iterations that an attempt may take: no limit for the only one."""
        if restarts == 0:
            return math.inf
        if attempt >= restarts:
            return self.effort_last
        return self.effort_first if attempt == 0 or self.starts[attempt - 1].near else self.effort_other


TUNING = Tuning()
