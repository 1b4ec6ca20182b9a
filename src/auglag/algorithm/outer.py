"""Algorithm 1 of the paper, line by line. Start reading here.

    min f(x) + g(x)  subject to  c(x) = 0,        L_beta(x, y) = f(x) + y'c(x) + beta/2 ||c(x)||^2

Inequalities reach these lines as equalities c(x) - s = 0 whose slacks s are minimised out inside the subproblem, or are
part of x. Nothing here looks inside x: it handles y, c and numbers. What the paper leaves open is an object of `rules`.

`Algorithm1` has the lines, `iteration` puts them in order around an inner solver, `augmented_lagrangian` is the loop
(of `stochastic` and `torch`; `minimize` calls `iteration` from `strategy/attempt.py`, with other phases in between).
A training loop of a user's own, which solves the subproblem step by step itself, calls `ask` and `tell` directly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm import formulas
from auglag.algorithm.history import History, Iteration
from auglag.algorithm.rules import DualRule, PenaltyRule, ToleranceRule
from auglag.algorithm.status import Status
from auglag.errors import require_positive
from auglag.inner.base import InnerResult


class OuterSubproblem(Protocol):
    """L_beta(., y) + g. An inner solver may need more of its methods; x may be a tensor."""

    def constraint(self, x: Any) -> Vector:
        """c(x) (less the minimising slack)."""
        ...


S = TypeVar("S", bound=OuterSubproblem)
S_co = TypeVar("S_co", bound=OuterSubproblem, covariant=True)
S_contra = TypeVar("S_contra", contravariant=True)


class OuterProblem(Protocol[S_co]):
    """What the loop needs to know of a problem."""

    def subproblem(self, y: Vector, beta: float) -> S_co:
        """L_beta(., y) + g as a function of x alone."""
        ...

    def record(self, asked: Ask, found: InnerResult, c: Vector, y_hat: Vector) -> Iteration:
        """The row of the history for this iteration, with R(x_{k+1}, yhat_{k+1})."""
        ...


class Inner(Protocol[S_contra]):
    """Line 3: anything that finds an approximate minimiser of a subproblem."""

    def solve(self, subproblem: S_contra, x: Any, tol: float, *, limit: int) -> InnerResult:
        """A point with dist(-grad phi, dg) <= tol, or the best point found; its `status` says which."""
        ...


#: (history, found): whether to quit after an iteration, and why; None to go on.
Stop = Callable[[History, InnerResult], Status | None]
#: (history, x_{k+1}, y for the next subproblem, yhat_{k+1}): sees every iteration, for progress and checkpoints.
Watch = Callable[[History, Any, Vector, Vector], None]


@final
@dataclass(frozen=True, slots=True)
class Ask:
    """What iteration k asks for: x with dist(-grad L_beta(x, y_k), dg(x)) <= eta, L_beta + g not above its start."""

    k: int
    beta: float
    eta: float


@final
@dataclass(frozen=True, slots=True)
class Algorithm1:
    """The lines of Algorithm 1 with the rules that fill them in. All that evolves is (x, y) and the history."""

    penalty: PenaltyRule
    dual: DualRule
    tolerance: ToleranceRule

    def ask(self, history: History) -> Ask:
        """Line 5 (of iteration k - 1; beta_1 at the start) and line 2: the penalty and the inner tolerance."""
        beta = require_positive(self.penalty.next(history), f"{type(self.penalty).__name__}.next(history)")
        eta = require_positive(self.tolerance.next(history), f"{type(self.tolerance).__name__}.next(history)")
        if self.tolerance.within_penalty:
            eta = float(formulas.inner_tolerance(np, beta, eta))
        return Ask(history.k, beta, eta)

    def tell(self, history: History, row: Iteration, y: Vector, c: Vector) -> Vector:
        """The row of iteration k joins the history; line 6: the multipliers for the next subproblem.

        After a subproblem without a usable end they stay as they are; the penalty rule must answer with a larger beta.
        """
        history.iterations.append(row)
        return self.dual.project(y + self.dual.step(history) * c, history) if row.usable else y

    def close(self, history: History, row: Iteration) -> None:
        """A point that was found by other means, and ends the run, joins the history."""
        history.iterations.append(row)


@final
@dataclass(frozen=True, slots=True)
class Turn:
    """The outcome of one iteration."""

    x: Vector  #: x_{k+1}
    y: Vector  #: the multipliers for the next subproblem
    y_hat: Vector  #: the multipliers that belong to x_{k+1}
    found: InnerResult  #: how the subproblem ended


def iteration(
    rules: Algorithm1,
    problem: OuterProblem[S],
    inner: Inner[S],
    x: Any,
    y: Vector,
    history: History,
    *,
    limit: int,
    asked: Ask | None = None,
) -> Turn:
    """One iteration of Algorithm 1 from (x_k, y_k), with at most `limit` inner iterations; `asked` if it is known."""
    asked = rules.ask(history) if asked is None else asked  # lines 5 and 2
    subproblem = problem.subproblem(y, asked.beta)
    found = inner.solve(subproblem, x, asked.eta, limit=limit)  # line 3
    c = subproblem.constraint(found.x)
    y_hat = y + asked.beta * c  # line 4
    row = problem.record(asked, found, c, y_hat)
    return Turn(found.x if found.usable else x, rules.tell(history, row, y, c), y_hat, found)  # line 6


def augmented_lagrangian(
    rules: Algorithm1,
    problem: OuterProblem[S],
    inner: Inner[S],
    x: Any,
    y: Vector,
    history: History,
    *,
    stop: Stop,
    watch: Watch,
    limit: int,
) -> Status:
    """Run Algorithm 1 from (x_k, y_k), k the length of the history, until `stop` says so."""
    while True:
        turn = iteration(rules, problem, inner, x, y, history, limit=limit)
        x, y = turn.x, turn.y
        watch(history, x, y, turn.y_hat)
        verdict = stop(history, turn.found)  # line 4: quit when R(x_{k+1}, yhat_{k+1}) <= eps
        if verdict is not None:
            return verdict
