"""Everything that evolves during a run, and nothing else: a checkpoint is the `State`, field by field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.history import History, Iteration, SupNorms
from auglag.algorithm.outer import Ask
from auglag.algorithm.status import Status
from auglag.certificate.incumbent import Best
from auglag.derivatives.noise import Precision
from auglag.inner import tuning as inner_tuning
from auglag.interior import Arrival
from auglag.kkt import Memory, Sets
from auglag.problems.scaling import Scaling
from auglag.problems.workspace import Counts
from auglag.strategy.further import End
from auglag.strategy.plan import UNCHECKED
from auglag.strategy.restoration import LeastViolation, Restoration
from auglag.strategy.task import Task


@final
@dataclass(slots=True)
class Newtons:
    """What is remembered of Newton's method and interior points during one attempt."""

    origin: Vector | None = None  #: where the attempt began; None before the KKT error is first measured
    failures: int = 0  #: calls in a row that did not halve the error
    tried_at: float = math.inf  #: the error that the last call began with
    steps: int = 0  #: made since the last subproblem
    inside: bool = False  #: interior points were tried
    in_vain: int = 0  #: calls that reached tol and did not halve the smallest error of such calls
    nearest: float = math.inf  #: the smallest error of calls that reached tol
    kept: float = math.inf  #: the smallest error of a point that was offered as the best so far


@final
@dataclass(slots=True)
class Doubts:
    """What is known about two doubts: whether the objective falls without end, whether there is a feasible point."""

    depth: float  #: relative depth below which a subproblem counts as unbounded
    diverged: Vector | None = None  #: where the last subproblem fell below it, in the user's variables
    evidence: tuple[float, float] | None = (
        None  #: objective and violation of a very low point that `CheckUnbounded` found
    )
    endless: Vector | None = None  #: that point, where the objective was shown to fall without end
    restorations: int = 0  #: made in this attempt
    least: Restoration | None = None  #: the least violated point, where infeasibility was shown
    widened: bool = False  #: feasible points were looked for far away, which is done once in a run
    proof: str = ""  #: why no point satisfies all rows, where that was proved
    feasible: Vector | None = None  #: a feasible point that restoration found, in the user's variables
    #: Where minimising the violation leads from x_1 and from beside it, as far as restoration has asked.
    from_start: list[LeastViolation] = field(default_factory=list)


@final
@dataclass(slots=True)
class SecondOrder:
    """What is known about the curvature at a solution, and the solution that was left for a better one."""

    verdict: str = UNCHECKED  #: on the best point: one of `plan.VERDICTS`
    departures: int = 0  #: solutions left so far
    failures: int = 0  #: departures in a row that found nothing better
    level: bool = False  #: the last departure led to a solution with the same objective
    left: bool = False  #: a solution was left for a better one
    steps: int = 0  #: made after departures before the last, inner and accelerating ones
    kept: Best | None = None  #: the one left last, as long as no better one was found
    kept_verdict: str = UNCHECKED
    penalty: float = 1.0  #: multiplies the first penalty after the last departure


@final
@dataclass(slots=True)
class Between:
    """What was found since the last subproblem."""

    verdict: Status | None = None  #: of the stopping test
    settled: str = ""  #: what `Restore` or `CheckUnbounded` found
    error: float | None = None  #: the KKT error at (x, y), once it was measured
    arrival: Arrival | None = None  #: where interior points ended
    tried: bool = False  #: Newton's method was called
    asked: Ask | None = None  #: penalty and tolerance of the subproblem to come, once they were asked for


@final
@dataclass(slots=True)
class State:
    """Everything that evolves. A checkpoint is this, field by field, right after an outer iteration."""

    x: Vector  #: in the variables of the form: the free ones, then explicit slacks
    y: Vector  #: for the next subproblem, scaled
    best: Best
    start_x: Vector  #: the user's x_1
    scaling: Scaling
    history: History  #: of this attempt
    doubts: Doubts
    newtons: Newtons = field(default_factory=Newtons)
    memory: Memory = field(default_factory=Memory)  #: curvature and active sets, which one step hands to the next
    second: SecondOrder = field(default_factory=SecondOrder)
    attempt: int = 0  #: 0 from x0, then the number of the restart
    earlier: list[Iteration] = field(default_factory=list)  #: the rows of earlier attempts
    first_end: Status | None = None  #: how attempt 0 ended
    ends: list[End] = field(default_factory=list)  #: of all attempts so far, none of which found a solution
    repeats: int = 0  #: of those that began elsewhere, the ones that ended where an earlier one did
    sizes: Vector | None = None  #: of the variables, at x_1 (`units.typical`)
    first_objective: float = math.nan  #: f + g at x_1
    first_rows: float = 0.0  #: ||c|| at x_1
    accuracy: float = 0.0  #: what errors of the functions beyond double precision make of the residual at x
    precision: Precision | None = None  #: of the functions, as far as it was estimated
    refined_now: bool = False  #: the last iteration raised the accuracy of differences
    counts: Counts = field(default_factory=Counts)  #: calls so far; only updated when a checkpoint is saved
    seconds: float = 0.0  #: time so far; only updated when a checkpoint is saved
    steps: int = 0  #: steps of all kinds, outer iterations not counted
    #: All steps and outer iterations: the fields of `Step`.
    trail: list[tuple[str, int, int, float]] = field(default_factory=list, metadata={"saved": False})
    between: Between = field(default_factory=Between, metadata={"saved": False})

    @staticmethod
    def at_start(task: Task) -> State:
        """Before anything was evaluated."""
        x, m = task.start.x, task.problem.m
        best, nothing = Best(x, np.zeros(m)), History(math.nan, math.nan)
        return State(x, np.zeros(m), best, x, Scaling.none(m), nothing, Doubts(inner_tuning.TUNING.unbounded))

    @property
    def iterations(self) -> list[Iteration]:
        """The rows of all attempts."""
        return self.earlier + self.history.iterations


#: The status of a row of the history that Newton's method ended.
ACCELERATED = "ACCELERATED"
#: What a checkpoint may hold.
CLASSES = (
    Best, Counts, Doubts, End, History, Iteration, LeastViolation, Memory, Newtons, Precision, Restoration, Scaling,
    SecondOrder, Sets, State, Status, SupNorms,
)  # fmt: skip


def steps_of(rows: Sequence[Iteration]) -> int:
    """Inner iterations and accelerating steps."""
    return sum(row.inner_iterations + row.acceleration_steps * (row.inner_status != ACCELERATED) for row in rows)
