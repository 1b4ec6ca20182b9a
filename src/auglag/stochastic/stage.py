"""Between Algorithm 1 and a problem that is tested on all its rows: NumPy or PyTorch, points may live anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.history import Iteration
from auglag.algorithm.outer import Ask, Inner, OuterSubproblem
from auglag.inner.base import InnerResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """A full-batch test of a point of a subproblem: the two numbers Algorithm 2 compares, and R(v, yhat)."""

    v: Any  #: the point: a vector or a tensor
    value: float  #: L_beta(v, y) + g(v)
    dist: float  #: dist(-grad L_beta(v, y), dg(v)), the first half of R
    c: Vector  #: r(v), the c of the paper
    y_hat: Vector  #: the multipliers that belong to v
    violation: float  #: distance of c(x) to its sides, 2-norm
    objective: float  #: f + g

    @property
    def residual(self) -> float:
        """R = dist + ||c||."""
        return self.dist + self.c_norm

    @property
    def c_norm(self) -> float:
        """||c(x, s)||, the second half of R: with the slacks, so a constraint that has room counts, too."""
        return float(np.linalg.norm(self.c))


T_contra = TypeVar("T_contra", contravariant=True)
S_contra = TypeVar("S_contra", contravariant=True)


class Witness(Protocol[T_contra]):
    """Sees the full-batch tests that an inner loop makes."""

    def __call__(self, test: T_contra, *, p: int, steps: int, accepted: bool) -> bool:
        """Record it; True if the run may end here."""
        ...


def unseen(test: Any, *, p: int, steps: int, accepted: bool) -> bool:
    """The witness of tests that are not tests of the problem, such as those on a sample of it: never ends a run."""
    return False


class InnerLoop(Inner[S_contra], Protocol[S_contra]):
    """Line 3 of Algorithm 1, with what it carries from one subproblem to the next."""

    saves: bool  #: whether a run can be saved inside a subproblem, after a test that was not accepted
    memory: Any  #: numbers, arrays and dataclasses that a checkpoint holds
    k: int  #: the outer iteration to come: part of the seed

    def forget(self) -> None:
        """The problem changes: drop what belongs to the old one."""
        ...


class Measurable(OuterSubproblem, Protocol):
    """L_beta(., y) + g, whose points can be tested."""

    def test(self, v: Any) -> Any:
        """The full-batch test at v."""
        ...


S = TypeVar("S", bound=Measurable)
T = TypeVar("T", bound=Tested)


@final
class Stage(Generic[S, T]):
    """A problem as Algorithm 1 sees it: `make(y, beta)` is a subproblem; where it ends, the point is tested."""

    def __init__(self, make: Callable[[Vector, float], S]) -> None:
        self._make = make
        self._current: S | None = None
        self._last: T | None = None

    @property
    def current(self) -> S:
        """The subproblem that was asked for last."""
        if self._current is None:
            raise LookupError("no subproblem was asked for yet")
        return self._current

    @property
    def last(self) -> T:
        """The test at the end of the last subproblem."""
        if self._last is None:
            raise LookupError("no subproblem has ended yet")
        return self._last

    def subproblem(self, y: Vector, beta: float) -> S:
        """L_beta(., y) + g."""
        self._current = self._make(y, beta)
        return self._current

    def record(self, asked: Ask, found: InnerResult, c: Vector, y_hat: Vector) -> Iteration:
        """The row of the history, with R over all rows."""
        self._last = test = self.current.test(found.x)
        return tested_row(asked, found, c, y_hat, test)


def tested_row(asked: Ask, found: InnerResult, c: Vector, y_hat: Vector, test: Tested) -> Iteration:
    """The row of the history of a subproblem whose end was tested over all rows, in the user's own units."""
    violation = float(np.linalg.norm(c))
    return Iteration(
        k=asked.k,
        beta=asked.beta,
        eta=asked.eta,
        usable=found.usable,
        violation=violation,
        stationarity=test.dist,
        residual=test.residual,
        user_violation=test.c_norm,
        objective=test.objective,
        multiplier_norm=float(np.linalg.norm(y_hat)),
        inner_status=found.status.name,
        inner_iterations=found.iterations,
        evaluations=found.evaluations,
    )
