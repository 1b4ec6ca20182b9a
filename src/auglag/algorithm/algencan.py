"""The rules of ALGENCAN: its penalty, its inner tolerances and its tests, all in sup norms.

Algorithm 4.1 of Birgin and Martinez (2014), whose complexity Birgin and Martinez (2020) study, with the numbers of
ALGENCAN 3.1.1. Progress is measured by the largest entry of c - s, s the slack that minimises the augmented Lagrangian:
for an equality |h_i|, for an inequality g_i <= 0 |min(-g_i, mu_i / rho)|, so that complementarity counts as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.history import History, Iteration, SupNorms
from auglag.algorithm.rules import (
    FromScale,
    InitialPenalty,
    PenaltyRule,
    ToleranceRule,
    first_penalty,
    require_above_one,
    require_fraction,
    require_initial,
)
from auglag.problems.standard_form import StandardForm


def _usable(history: History) -> list[tuple[Iteration, SupNorms]]:
    """The iterations whose sup norms are known."""
    return [(it, it.sup) for it in history.iterations if it.usable and it.sup is not None]


@final
@dataclass(frozen=True, slots=True)
class AlgencanPenalty(PenaltyRule):
    """rho_1 and rho_2 from the sizes of f and c at x_1 and x_2; then `gamma` times as large where progress is too slow.

    Too slow: the largest entry of c - s is above `tau` times the one before, and the point is not feasible and
    complementary up to the tolerance. rho is computed anew after the first subproblem, which is cut short.
    """

    initial: float | InitialPenalty = field(default_factory=lambda: FromScale(10.0, 1e-8, 1e8))
    gamma: float = 10.0
    tau: float = 0.5

    def __post_init__(self) -> None:
        require_initial(self)
        require_above_one(self, "gamma")
        require_fraction(self, "tau")

    def next(self, history: History) -> float:
        """rho for the iteration to come."""
        if not history.iterations:
            return first_penalty(self.initial, history)
        rows, last = _usable(history), history.last
        if not last.usable:
            return self.gamma * last.beta
        if len(rows) < 2:
            return first_penalty(self.initial, History(rows[0][1].objective, last.violation)) if rows else last.beta
        before, now = rows[-2][1], rows[-1][1]
        enough = max(now.progress, now.violation) <= history.negligible or now.progress <= self.tau * before.progress
        return last.beta if enough else self.gamma * last.beta


@final
@dataclass(frozen=True, slots=True)
class AlgencanTolerance(ToleranceRule):
    """eps_1 = sqrt(eps_opt); later `ratio` times the last one, where the point is within sqrt(eps) of a solution.

    Then it is also at most `share` times the stationarity reached, and never below eps_opt. It is not compared with
    1 / rho, as eta_k of Algorithm 1 is.
    """

    within_penalty: ClassVar[bool] = False
    ratio: float = 0.1
    share: float = 0.5

    def __post_init__(self) -> None:
        require_fraction(self, "ratio")
        require_fraction(self, "share")

    def next(self, history: History) -> float:
        """eps_k."""
        rows = _usable(history)
        if not rows:
            return math.sqrt(history.optimal)
        last, sup = rows[-1]
        near = sup.progress <= math.sqrt(history.negligible) and sup.stationarity <= math.sqrt(history.optimal)
        return max(history.optimal, min(self.share * sup.stationarity, self.ratio * last.eta)) if near else last.eta


def tolerances(tol: float, n: int, m: int, sf: float) -> tuple[float, float]:
    """(eps_feas, eps_opt), for f scaled by sf: if every entry meets them, R, a sum of 2-norms, is at most tol."""
    return 0.5 * tol / math.sqrt(max(m, 1)), 0.5 * tol * sf / math.sqrt(max(n, 1))


def solved(history: History) -> bool:
    """ALGENCAN's stopping test: feasible, complementary and stationary, entry by entry."""
    sup = history.last.sup
    if sup is None or not history.last.usable:
        return False
    return max(sup.progress, sup.violation) <= history.negligible and sup.stationarity <= history.optimal


def infeasible(history: History) -> bool:
    """ALGENCAN's test for a point that is not feasible, and stationary for the squared violation."""
    sup = history.last.sup
    if sup is None or not history.last.usable:
        return False
    return sup.violation > math.sqrt(history.negligible) and sup.infeasibility <= history.optimal**1.5


def sup_norms(form: StandardForm, z: Vector, c: Vector, y_hat: Vector) -> SupNorms:
    """What the rules look at, at the end z of a subproblem; c is c(z) - s."""
    point, distance = form.at(z), form.distance(z)

    def projected(gradient: Vector) -> float:
        return _largest(form.g.prox(z - gradient, 1.0) - z)

    return SupNorms(
        objective=point.f,
        progress=_largest(c),
        violation=_largest(distance / form.scaling.sc),
        stationarity=projected(point.lagrangian_gradient(y_hat)),
        infeasibility=projected(point.vjp(distance)) if form.m else 0.0,
    )


def _largest(values: Vector) -> float:
    return float(np.max(np.abs(values), initial=0.0))
