"""The full-batch view of a stochastic problem: what tests and certificates are made of, with every row counted."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.problems.base import AbstractProblem, Group, Point
from auglag.prox import SeparableTerm
from auglag.stochastic.limits import Ledger
from auglag.stochastic.problem import Evaluation, StochasticProblem
from auglag.stochastic.tuning import TUNING


@final
class FullBatch:
    """Full-batch evaluations of a run: counted, and remembered for the last few points."""

    def __init__(self, problem: StochasticProblem, ledger: Ledger) -> None:
        self.problem, self.ledger = problem, ledger
        self._known: dict[bytes, Evaluation] = {}
        self._pinned: tuple[bytes, Evaluation] | None = None

    def pin(self, x: Vector) -> None:
        """Keep the values at x until another point is pinned, however many points come between."""
        self._pinned = x.tobytes(), self.at(x)

    def at(self, x: Vector) -> Evaluation:
        """f, c and derivatives at x over all rows; at a point just evaluated, from memory."""
        key = x.tobytes()
        if self._pinned is not None and self._pinned[0] == key:
            return self._pinned[1]
        found = self._known.pop(key, None)
        if found is None:
            with np.errstate(over="ignore", invalid="ignore"):  # a method that diverged: not finite is an answer
                found = self.problem.evaluate(x)
            self.ledger.rows += self.problem.rows or 0
            self.ledger.tests += 1
            if len(self._known) >= TUNING.cached_points:
                del self._known[next(iter(self._known))]
        self._known[key] = found
        return found

    def remember(self, evaluation: Evaluation) -> None:
        """Keep an evaluation that was paid for elsewhere (before a resume)."""
        self._known[evaluation.x.tobytes()] = evaluation


@final
class FullBatchProblem(AbstractProblem):
    """A stochastic problem with data of finite length, as a deterministic one, for `auglag.minimize`."""

    repeatable = True  # a pass over the data is dear, and the same samples give the same means

    def __init__(self, problem: StochasticProblem, x0: Vector) -> None:
        n = problem.n
        free = np.full(n, math.inf)
        groups = tuple(Group(name, i, i + 1, scalar=True) for i, name in enumerate(problem.names))
        super().__init__(x0, lower=-free, upper=free, cl=problem.lower, cu=problem.upper, groups=groups, g=problem.g)
        if isinstance(problem.g, SeparableTerm):
            box = problem.g.box(n)
            if box is not None:
                self.lower, self.upper, self.g = box[0], box[1], None
        self.stochastic = problem

    @classmethod
    def from_evaluation(cls, problem: StochasticProblem, evaluation: Evaluation) -> FullBatchProblem:
        """The problem with the values at one point already known."""
        view = cls(problem, evaluation.x)
        point = Point(view, evaluation.x.copy())
        point._f, point._grad, point._c, point._jac = evaluation.f, evaluation.grad, evaluation.c, evaluation.jac
        view.remember(point)
        return view

    def fill_f(self, point: Point) -> None:
        """All at once: one pass over the rows."""
        found = self.stochastic.evaluate(point.x)
        point._f, point._grad, point._c, point._jac = found.f, found.grad, found.c, found.jac
        self.counts.nfev += 1
        self.counts.njev += 1
        self.counts.constr_nfev += 1
        self.counts.constr_njev += 1

    fill_grad = fill_c = fill_jac = fill_f

    def f(self, x: Vector) -> float:
        return self.stochastic.evaluate(x).f

    def grad(self, x: Vector) -> Vector:
        return self.stochastic.evaluate(x).grad

    def c(self, x: Vector) -> Vector:
        return self.stochastic.evaluate(x).c

    def jac(self, x: Vector) -> Vector:
        return self.stochastic.evaluate(x).jac
