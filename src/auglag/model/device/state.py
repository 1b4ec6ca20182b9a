"""A run of the device loop: all that evolves in it, and what every room of the loop asks of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from auglag._typing import Vector
from auglag.interior.firmness import Firmness
from auglag.model.device.filter import Filter
from auglag.model.device.linear import Sparse
from auglag.model.device.on_sides import OnSides
from auglag.model.device.program import Program
from auglag.model.device.records import Elastic, Facts, Iterate, Local, Right, Step
from auglag.model.device.trail import Trail
from auglag.model.device.tuning import TUNING

Watch = Callable[[int, Facts], bool]
#: (x, depth) -> whether the objective, which has fallen below -depth, falls without end at feasible points.
Endless = Callable[[Vector, float], bool]
#: Whether the certificate of an iterate meets the tolerance.
Certifies = Callable[[Iterate], bool]
#: Why nothing satisfies all linear rows and bounds; empty where nothing is known against it.
Conflicts = Callable[[], str]


@final
@dataclass(slots=True)
class Times:
    """Seconds and counts of a run."""

    evaluation: float = 0.0
    factor: float = 0.0
    solve: float = 0.0
    total: float = 0.0
    met: float = math.nan  #: when the scaled tolerance was met
    factorisations: int = 0
    solves: int = 0
    trials: int = 0
    corrections: int = 0
    elastic: int = 0  #: how often the elastic form was entered
    log: list[str] = field(default_factory=list)


class System(NamedTuple):
    """Newton's equations at an iterate, as they were factorised."""

    it: Iterate
    at: Local
    values: Any
    right: Right
    shift: float
    soft: float


class Solved(NamedTuple):
    """A solution of Newton's equations, the error that it leaves, and the step that it gives."""

    solution: Any
    error: Any
    step: Iterate
    rows: Any  #: at the longest step
    facts: Step


@final
class NoStep(Exception):
    """No shift gives a matrix of the right inertia, or the linear system cannot be solved."""


@final
class Run:
    """The problem, its linear solver and its limits, and all that evolves."""

    def __init__(
        self,
        program: Program,
        on_sides: OnSides,
        data: dict[str, Any],
        linear: Sparse,
        *,
        tol: float,
        scaled_tol: float,
        steps: int,
        seconds: float = math.inf,
        watch: Watch | None = None,
        endless: Endless | None = None,
        certifies: Certifies | None = None,
        conflicts: Conflicts | None = None,
    ) -> None:
        self.program, self.on_sides, self.linear, self.watch = program, on_sides, linear, watch
        self.endless, self.depth, self.certifies = endless, TUNING.depth, certifies
        self._conflicts = conflicts
        self.near = data  #: the data for iterates near the rows
        self.far = {**data, "units": program.ones(program.m)}  #: and for others: all rows are regularised alike
        self.d = self.far
        self.tol, self.scaled_tol, self.steps, self.seconds = tol, scaled_tol, steps, seconds
        self.times = Times()
        self.least_mu = scaled_tol / TUNING.last_mu
        self.free, self.fraction = False, TUNING.to_sides
        self.free_points: list[tuple[float, float]] = []
        self.mu, self.shift, self.last_shift = TUNING.first_mu, 0.0, 0.0
        self.soft_factor, self.firmness = 1.0, Firmness()
        self.left = 0.0  #: the part of the violation or dual error that regularisation leaves in the last step
        self.prox = 0.0  #: on the diagonal of variables, where factorisations break down without it
        self.refused: tuple[Iterate, tuple[float, float]] | None = None  #: a step that the filter did not take
        self.soft_steps = 0  #: steps in a row that were taken in spite of the filter
        self.filter = Filter()
        self.lengths: list[float] = []
        self.repairs, self.hopeless = 0, False
        self.tiny_steps = 0  #: steps in a row that only rounding errors would make
        self.entries, self.elastic_before = 0, math.inf
        self.met_at = self.sharpened_at = -1
        self.last_residual = math.inf
        self.elastic, self.is_elastic = Elastic.off(program.m, program.device), False
        self.rho = TUNING.first_penalty
        self.zero = program.still()
        self.count, self.begun = 0, 0.0
        self.now: tuple[Iterate, Any] = (self.zero, None)
        self.best: tuple[Iterate, Any] | None = None  #: of least residual among those that meet the scaled tolerance
        self.origin: Any = None  #: the start, while it may be gone back to
        self.trail = Trail()  #: the iterates before
        self.next_landing = math.inf  #: the residual with which steps on sides are tried next

    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self.begun

    def factor(self, values: Any) -> tuple[int, int] | None:
        """Factorise; the inertia."""
        begun = time.perf_counter()
        inertia = self.linear.factor(values)
        self.times.factor += time.perf_counter() - begun
        self.times.factorisations += 1
        return inertia

    def solve(self, right: Any) -> Any:
        """Solve with the last factors."""
        begun = time.perf_counter()
        solution = self.linear.solve(right)
        self.times.solve += time.perf_counter() - begun
        self.times.solves += 1
        return solution

    def rows(self, it: Iterate, at: Local) -> Any:
        """c - s + r."""
        return self.program.longer(float(self.elastic.on), it.r, at.c)

    def advance(self, it: Iterate, step: Iterate, lengths: Any) -> Any:
        """The iterate after a step: (iterate, derivatives, matrix, right side, facts)."""
        begun = time.perf_counter()
        least = self.mu if self.free else self.least_mu  # in the free mode the predictor chooses
        control = np.array([self.mu, least, self.shift, self.soft_factor * self.firmness.part, self.prox])
        *out, facts = self.program.advance(self.d, it, step, np.array(lengths), self.elastic, control)
        numbers = Facts(*np.asarray(facts).tolist())
        self.times.evaluation += time.perf_counter() - begun
        return (*out, numbers)

    def fitted(self, it: Iterate) -> Any:
        """Multipliers by least squares; zero where they are large or cannot be found."""
        zero = self.zero.y
        if not self.program.m:
            return zero
        values, right = self.program.least_squares(self.d, it)
        return zero if self.factor(values) is None else self.program.fitted(self.solve(right))

    def fix(self, mu: float) -> bool:
        """Solve a barrier problem for a given mu next."""
        self.free, self.mu = False, max(self.least_mu, mu)
        self.filter.clear()
        return True

    def restart(self) -> None:
        """Forget what was learnt of another form of the problem."""
        self.filter = Filter()
        self.lengths = []
        self.shift, self.last_shift, self.soft_factor = 0.0, 0.0, 1.0
        self.firmness = Firmness()
        self.soft_steps = 0

    def falls(self, it: Iterate, facts: Facts) -> bool:
        """Whether the objective is very low and falls without end; if it does not, it may go lower."""
        if self.endless is None or self.is_elastic or not facts.f < -self.depth:
            return False
        found = self.endless(np.asarray(it.w[: self.program.n]), self.depth)
        self.depth *= TUNING.deeper
        return found

    @cached_property
    def conflict(self) -> str:
        """Which linear rows and bounds exclude each other: presolve, asked where a run meets difficulties."""
        return "" if self._conflicts is None else self._conflicts()

    def solved(self, it: Iterate, facts: Facts) -> bool:
        """Whether an iterate that meets the scaled tolerance is a solution in the user's units, too.

        What a device says of that is within a small factor of the certificate, which has the last word.
        """
        return facts.residual <= self.tol and (self.certifies is None or self.certifies(it))

    def met(self, it: Iterate, facts: Facts) -> bool:
        """Whether an iterate meets the scaled tolerance; the best of these is kept."""
        feasible = not self.is_elastic or facts.elastic <= self.scaled_tol
        if not (facts.error <= self.scaled_tol and facts.violation <= self.tol and feasible):
            return False
        if self.met_at < 0:
            self.met_at, self.times.met = self.count, self.elapsed()
        if self.best is None or facts.residual < self.best[1].residual:
            self.best = (it, facts)
        return True
