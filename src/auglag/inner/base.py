"""The contract of an inner solver, and the oracle through which it sees the subproblem."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError, OutOfBudget
from auglag.inner import tuning
from auglag.prox.base import ProxTerm
from auglag.prox.transforms import ScaledSeparable, ScaledTerm


class Subproblem(Protocol):
    """min phi(x) + g(x): one smooth function plus one prox term. Solvers never see y or beta."""

    g: ProxTerm

    def value(self, x: Vector) -> float:
        """phi(x); not finite where phi is not defined."""

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """phi(x) and grad phi(x); the value is not finite where phi is not defined."""

    @property
    def has_hessp(self) -> bool:
        """Whether `hessp` may be called."""

    def hessp(self, x: Vector, v: Vector) -> Vector:
        """An element of the generalised Hessian of phi at x times v."""


@final
@dataclass(frozen=True, slots=True)
class Traits:
    """What a solver may want to know of the subproblems before it takes them on."""

    g: ProxTerm
    n: int
    has_hessp: bool = False
    smooth: bool = True  #: phi is twice differentiable; not so where slacks of inequalities are minimised out
    has_hess: bool = False  #: Hessian matrices of the Lagrangian are at hand
    m: int = 0  #: number of constraint rows
    matrices: bool = True  #: the Jacobian of c is a matrix, dense or sparse, not an operator
    sparse: bool = False  #: and a sparse one
    partly_curved: bool = False  #: first derivatives tell a good part of the Hessian of f (least squares)

    @property
    def term(self) -> str:
        """What the user calls g."""
        g: Any = self.g
        while isinstance(g, ScaledTerm | ScaledSeparable):
            g = g.term
        return type(g).__name__

    @property
    def is_box(self) -> bool:
        """Whether g is just bounds (or nothing)."""
        return self.g.box(self.n) is not None


class InnerStatus(Enum):
    """How an inner solve ended."""

    CONVERGED = "met the tolerance"
    STALLED = "no further progress possible at this precision"
    LIMIT = "inner iteration limit reached"
    BUDGET = "budget of the whole run reached"
    UNBOUNDED = "the subproblem has no lower bound"
    UNDEFINED = "the subproblem is not finite at the starting point"
    EDGE = "the subproblem runs against the edge of where the functions are defined"
    WORSE = "the subproblem leads to points with a larger objective and a larger violation"
    INTERRUPTED = "interrupted from the keyboard"


@dataclass(frozen=True, slots=True)
class InnerResult:
    """The point an inner solver hands back, with the measure of Algorithm 1, line 3, at that point."""

    x: Vector
    value: float  #: phi(x) + g(x)
    residual: float  #: dist(-grad phi(x), dg(x)), 2-norm
    iterations: int
    evaluations: int  #: gradients of phi asked for
    status: InnerStatus
    limit: str = ""  #: for BUDGET: which limit
    undefined: int = 0  #: evaluations at which phi was not finite

    @property
    def usable(self) -> bool:
        """Whether x is a sensible next iterate (not the trace of an unbounded or undefined subproblem)."""
        unusable = InnerStatus.UNBOUNDED, InnerStatus.UNDEFINED, InnerStatus.EDGE, InnerStatus.WORSE
        return self.status not in unusable


class Ended(Exception):
    """Internal signal: an evaluation has shown that the solve is over, and how."""

    def __init__(self, status: InnerStatus) -> None:
        self.status = status


class Oracle:
    """phi + g as an inner solver sees it: counts, remembers the best point, and ends the solve when it may end.

    `visit` evaluates value and gradient. `consider` is called with a point of dom g whose gradient is known; it
    measures the residual there, remembers the point, and ends the solve when dist(-grad phi, dg) <= tol and
    phi + g is not above its value at the start (the monotone condition of the theory, up to round-off).
    """

    def __init__(self, subproblem: Subproblem, tol: float, most: float = math.inf) -> None:
        self.subproblem = subproblem
        self.most = most  #: evaluations after which the solve is over
        #: ... and those that the budget of the run has left, if the subproblem says how many.
        self.left: float = getattr(subproblem, "gradients_left", math.inf)
        self.projected: bool = getattr(subproblem, "projected", False)  #: see `met`
        self.g = subproblem.g
        self.tol = tol
        self.evaluations = 0
        self.singular = 0  #: points below the start with a gradient as large as beside a singularity
        self.undefined = 0  #: evaluations at which phi was not finite
        #: Told of every accepted iteration, x and its residual, if the subproblem wants to know.
        self.seen: Callable[[Vector, float], None] | None = getattr(subproblem, "seen", None)
        self.fresh: tuple[Vector, float] | None = None  #: the point considered last, if it was not told of
        self._iterations = 0
        self.start_value = math.inf  #: phi + g at the starting point
        #: (x, phi + g, residual) with the smallest residual / the smallest value among the points considered that
        #: meet the monotone condition.
        self.best: tuple[Vector, float, float] | None = None
        self.lowest: tuple[Vector, float, float] | None = None

    @property
    def iterations(self) -> int:
        """Iterations so far. A solver that sets it has accepted the point that it showed to `consider` last."""
        return self._iterations

    @iterations.setter
    def iterations(self, count: int) -> None:
        self.tell()
        self._iterations = count

    def tell(self) -> None:
        """Tell of the point that was considered last, once."""
        if self.fresh is not None and self.seen is not None:
            (x, residual), self.fresh = self.fresh, None
            self.seen(x, residual)

    def value(self, x: Vector) -> float:
        """phi(x), +inf where it is not defined."""
        value = self.subproblem.value(x)
        if value == -math.inf:
            self.best = (x.copy(), value, math.inf)
            raise Ended(InnerStatus.UNBOUNDED)
        return value if math.isfinite(value) else math.inf

    def visit(self, x: Vector) -> tuple[float, Vector]:
        """phi(x) and its gradient; the value is +inf where either is not finite."""
        if self.evaluations >= self.left:
            raise OutOfBudget("gradients")
        if self.evaluations >= self.most:
            raise Ended(InnerStatus.LIMIT)
        self.evaluations += 1
        value, gradient = self.subproblem.value_and_gradient(x)
        if not math.isfinite(value) or not math.isfinite(float(gradient @ gradient)):
            if value == -math.inf:
                self.best = (x.copy(), value, math.inf)
                raise Ended(InnerStatus.UNBOUNDED)
            self.undefined += 1
            if self.undefined >= tuning.TUNING.undefined_points and 2 * self.undefined > self.evaluations:
                raise Ended(InnerStatus.EDGE)
            return math.inf, gradient
        return value, gradient

    def begin(self, x: Vector) -> tuple[float, Vector]:
        """Evaluate the starting point, which must lie in dom g; may already be accepted."""
        t = tuning.TUNING
        self.box = self.g.box(x.size)  # if g is just bounds, it is 0 wherever `consider` is called
        value, gradient = self.visit(x)
        if value < math.inf:
            self.start_value = value + self.g.value(x)
            self.noise = t.start_noise * max(1.0, abs(self.start_value))
            compact = self.box is not None and bool(np.isfinite(self.box).all())
            level = getattr(self.subproblem, "unbounded", t.unbounded)
            self.floor = -math.inf if compact else -level * max(1.0, abs(self.start_value))
            self.ceiling = math.inf
            self.ceiling = t.singular_growth * max(1.0, self.consider(x, value, gradient))
            self.fresh = None  # the start is no step
        return value, gradient

    def bounds(self) -> tuple[Vector, Vector]:
        """The bounds that g stands for; an error where it is more than bounds, which `refuses` should have said."""
        if self.box is None:
            raise InputError(f"this inner solver handles bounds but not g={type(self.g).__name__}")
        return self.box

    def consider(self, x: Vector, value: float, gradient: Vector) -> float:
        """Measure the residual at x in dom g (value and gradient of phi known there); return it, or end the solve."""
        total = value if self.box is not None else value + self.g.value(x)
        residual = self.g.subdiff_distance(x, -gradient)
        self.fresh = (x, residual)
        if residual > self.ceiling and total < self.start_value:
            self.singular += 1  # a single trial point beside a singularity proves nothing
        if total < self.floor or self.singular > tuning.TUNING.singular_points:
            self.best = (x.copy(), total, residual)
            raise Ended(InnerStatus.UNBOUNDED)
        if total <= self.start_value + self.noise:
            met = self.met(x, gradient, residual)
            if met or self.best is None or residual < self.best[2]:
                self.best = (x.copy(), total, residual)
                if met:
                    raise Ended(InnerStatus.CONVERGED)
            if self.lowest is None or total < self.lowest[1]:
                self.lowest = (x.copy(), total, residual)
        return residual

    def met(self, x: Vector, gradient: Vector, residual: float) -> bool:
        """Whether x meets the tolerance: by dist(-grad phi, dg), the residual; or, if the subproblem has the attribute
        `projected` and it is True, by the largest entry of prox_g(x - grad phi) - x, for bounds SciPy's `gtol`."""
        if not self.projected:
            return residual <= self.tol
        return bool(np.max(np.abs(self.g.prox(x - gradient, 1.0) - x), initial=0.0) <= self.tol)

    def stationary_at_start(self) -> bool:
        """Whether values fell clearly, and the most stationary point has come less than a hundredth of the way down."""
        if self.best is None or self.lowest is None:
            return False
        t, fallen = tuning.TUNING, self.start_value - self.lowest[1]
        clearly = fallen > t.clear_fall * max(1.0, abs(self.start_value))
        return clearly and self.start_value - self.best[1] < t.near_start * fallen

    def probe(self, old: Vector, new: Vector) -> None:
        """Look far ahead along new - old; end the solve if phi + g falls below every floor there.

        A smooth method needs thousands of steps to walk down a valley with no end. One look that does not fall ends the
        probe, so that it costs one evaluation where all is well.
        """
        t, domain, direction = tuning.TUNING, self.g.domain(), new - old
        last, reach = self.value(new) + self.g.value(new), 1.0
        for _ in range(t.probe_strides):
            reach *= t.probe_growth
            trial = domain.prox(new + reach * direction, 1.0)
            total = self.value(trial) + self.g.value(trial)
            if not total < last:
                return
            last = total
            if total < self.floor:
                self.best = (trial, total, math.inf)
                raise Ended(InnerStatus.UNBOUNDED)


class InnerSolver(ABC):
    """Minimises phi + g until dist(-grad phi(x), dg(x)) <= tol at an x with phi + g not above the start.

    To add one: subclass, give it a `name`, implement `run` and, if there are subproblems it cannot solve, `refuses`,
    and register it in `auglag.inner`; the contract tests pick it up from there. Solvers are frozen and stateless.
    """

    name: ClassVar[str]  #: what users pass as `inner=`

    def refuses(self, traits: Traits) -> str | None:
        """None if it can solve such subproblems, else a sentence saying why not and what to use instead."""
        return None

    def resolved(self, traits: Traits) -> InnerSolver:
        """The solver that takes such subproblems on: itself, or one of those that it stands for."""
        return self

    @abstractmethod
    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        """Iterate from x in dom g, with phi(x) and its gradient given, for at most `limit` iterations.

        Every evaluation goes through `oracle.visit` (or `oracle.value`), every candidate through `oracle.consider`,
        which ends the solve by a signal that this method must let pass; so returning at all means it was not met.
        Set `oracle.iterations` as you go.
        """

    @final
    def solve(self, subproblem: Subproblem, x: Vector, tol: float, *, limit: int = 10_000) -> InnerResult:
        """Find x with dist(-grad phi(x), dg(x)) <= tol, or the best point there is, and say which."""
        t = tuning.TUNING
        oracle = Oracle(subproblem, tol, t.evaluations_per_iteration * limit + t.evaluations_extra)
        why = ""
        try:
            x = subproblem.g.domain().prox(x, 1.0)
            value, gradient = oracle.begin(x)
            defined = value < math.inf
            status = self.run(oracle, x, value, gradient, limit) if defined else InnerStatus.UNDEFINED
        except Ended as signal:
            status = signal.status
        except OutOfBudget as signal:
            status, why = InnerStatus.BUDGET, signal.limit
        except KeyboardInterrupt:
            status = InnerStatus.INTERRUPTED
        except Exception as error:  # of the user's code: what was reached goes along with it
            with contextlib.suppress(Exception):
                error.reached = oracle.lowest[0] if oracle.lowest is not None else None  # type: ignore[attr-defined]
            raise
        if status in (InnerStatus.CONVERGED, InnerStatus.STALLED, InnerStatus.LIMIT):
            oracle.tell()
        # A solve cut short hands back the lowest point, which has come furthest; any other the most stationary one,
        # unless that is near the start: where large numbers cancel, rounding makes the lowest one look worse.
        cut_short = status in (InnerStatus.LIMIT, InnerStatus.BUDGET, InnerStatus.INTERRUPTED)
        if cut_short or (status is InnerStatus.STALLED and oracle.stationary_at_start()):
            oracle.best = oracle.lowest
        x, total, residual = oracle.best or (np.array(x), math.inf, math.inf)
        return InnerResult(x, total, residual, oracle.iterations, oracle.evaluations, status, why, oracle.undefined)


@final
@dataclass(frozen=True, slots=True)
class FirstOf(InnerSolver):
    """The first of several solvers that takes the problem; the last one must take any."""

    name: ClassVar[str] = "first-of"
    solvers: tuple[InnerSolver, ...]

    def resolved(self, traits: Traits) -> InnerSolver:
        return next((solver for solver in self.solvers if solver.refuses(traits) is None), self.solvers[-1])

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        return self.solvers[-1].run(oracle, x, value, gradient, limit)
