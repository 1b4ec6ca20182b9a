"""Algorithm 1 of the paper, line by line. Start reading here.

    min f(x) + g(x)  subject to  c(x) = 0,        L_beta(x, y) = f(x) + y'c(x) + beta/2 ||c(x)||^2

Inequalities reach this loop as equalities c(x) - s = 0 whose slacks s are minimised out inside the subproblem, or are
part of x. The loop never looks inside x: it handles y, c and numbers. Everything the paper leaves open is an object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from auglag._typing import Vector
from auglag.algorithm.rules import DualRule, History, Iteration, PenaltyRule, ToleranceRule
from auglag.algorithm.status import Status
from auglag.errors import require_positive
from auglag.inner.base import InnerResult, Subproblem


class OuterSubproblem(Subproblem, Protocol):
    """L_beta(., y) + g, which also knows the c of the paper at its points."""

    def constraint(self, x: Vector) -> Vector:
        """c(x) (less the minimising slack)."""
        ...


class OuterProblem(Protocol):
    """What the loop needs to know of a problem."""

    def subproblem(self, y: Vector, beta: float) -> OuterSubproblem:
        """L_beta(., y) + g as a function of x alone."""
        ...

    def record(self, k: int, beta: float, eta: float, found: InnerResult, c: Vector, y_hat: Vector) -> Iteration:
        """The row of the history for this iteration, with R(x_{k+1}, yhat_{k+1})."""
        ...


class Inner(Protocol):
    """Line 3: anything that finds an approximate minimiser of a subproblem."""

    def solve(self, subproblem: OuterSubproblem, x: Vector, tol: float, *, limit: int) -> InnerResult:
        """A point with dist(-grad phi, dg) <= tol, or the best there is, and which of them it is."""
        ...


class Stop(Protocol):
    """Decides after each iteration whether to quit, and why."""

    def __call__(self, history: History, found: InnerResult) -> Status | None:
        """None to go on."""
        ...


class Watch(Protocol):
    """Sees every iteration: the one hook for progress, checkpoints, callbacks and the best point."""

    def __call__(self, history: History, x: Vector, y: Vector, y_hat: Vector) -> None:
        """x = x_{k+1}, y = the multipliers for the next subproblem, y_hat = the estimate that belongs to x."""
        ...


class Accelerate(Protocol):
    """Looks for a better (x_k, y_k) by other means; Algorithm 1 goes on from what it returns."""

    def __call__(self, history: History, x: Vector, y: Vector) -> tuple[Vector, Vector, Status | None]:
        """(x, y, None), or with a status if the search is over."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where Algorithm 1 ended, and why."""

    x: Vector  #: x_{k+1}
    y_hat: Vector  #: the multipliers that belong to it
    y: Vector  #: the multipliers for the next subproblem
    status: Status


def augmented_lagrangian(
    problem: OuterProblem,
    x: Vector,
    y: Vector,
    history: History,
    *,
    penalty: PenaltyRule,
    dual: DualRule,
    tolerance: ToleranceRule,
    inner: Inner,
    stop: Stop,
    watch: Watch,
    inner_limit: int,
    accelerate: Accelerate | None = None,
) -> Outcome:
    """Run Algorithm 1 from (x_k, y_k), k the length of the history, until `stop` says so."""
    while True:
        k = history.k
        beta = checked(penalty.next(history), penalty)  # line 5 (of iteration k - 1; beta_1 at the start)
        eta = min(1.0 / beta, checked(tolerance.next(history), tolerance))  # line 2
        if accelerate is not None:  # not in the paper: before the first and after every iteration
            x, y, over = accelerate(history, x, y)
            if over is not None:
                return Outcome(x, y, y, over)
        subproblem = problem.subproblem(y, beta)
        found = inner.solve(subproblem, x, eta, limit=inner_limit)  # line 3
        c = subproblem.constraint(found.x)
        y_hat = y + beta * c  # line 4
        history.iterations.append(problem.record(k, beta, eta, found, c, y_hat))
        if found.usable:  # else: x and y stay, and the penalty rule answers with a larger beta
            x = found.x
            y = dual.project(y + dual.step(history) * c, history)  # line 6
        watch(history, x, y, y_hat)
        verdict = stop(history, found)  # line 4: quit when R(x_{k+1}, yhat_{k+1}) <= eps
        if verdict is not None:
            return Outcome(x, y_hat if found.usable else y, y, verdict)


def checked(value: float, rule: PenaltyRule | ToleranceRule) -> float:
    """What a rule returned, if it is usable."""
    return require_positive(value, f"{type(rule).__name__}.next(history)")
