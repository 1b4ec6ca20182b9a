"""Algorithm 1, line by line, with an inner solver that returns points from a script."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from auglag import Adaptive, Always, Full, InputError, PowerLaw, Short, Status
from auglag._typing import Vector
from auglag.algorithm.history import History, Iteration
from auglag.algorithm.outer import Algorithm1, Ask, augmented_lagrangian
from auglag.algorithm.rules import DualRule, PenaltyRule, ToleranceRule
from auglag.inner.base import InnerResult, InnerStatus


@dataclass
class Subproblem:
    """c(x) = x."""

    y: Vector
    beta: float

    def constraint(self, x: Vector) -> Vector:
        return x.copy()


class Problem:
    """Records what the loop tells it."""

    def subproblem(self, y: Vector, beta: float) -> Subproblem:
        return Subproblem(y.copy(), beta)

    def record(self, asked: Ask, found: InnerResult, c: Vector, y_hat: Vector) -> Iteration:
        violation = float(np.linalg.norm(c))
        return Iteration(
            k=asked.k,
            beta=asked.beta,
            eta=asked.eta,
            usable=found.usable,
            violation=violation,
            stationarity=found.residual,
            residual=found.residual + violation,
            user_violation=violation,
            objective=found.value,
            multiplier_norm=float(np.linalg.norm(y_hat)),
            inner_status=found.status.name,
            inner_iterations=found.iterations,
            evaluations=found.evaluations,
        )


@dataclass
class Script:
    """An inner solver that returns the next point of a list, whatever it is asked."""

    points: list[Vector]
    statuses: list[InnerStatus] = field(default_factory=list)
    asked: list[tuple[Vector, float, Vector, float, int]] = field(default_factory=list)  #: y, beta, x, eta, limit

    def solve(self, subproblem: Subproblem, x: Vector, tol: float, *, limit: int) -> InnerResult:
        number = len(self.asked)
        self.asked.append((subproblem.y, subproblem.beta, x.copy(), tol, limit))
        status = self.statuses[number] if self.statuses else InnerStatus.CONVERGED
        return InnerResult(self.points[number], 0.0, tol, 1, 2, status)


@dataclass
class Run:
    status: Status
    script: Script
    history: History
    seen: list[tuple[Vector, Vector, Vector]]  #: x, y, y_hat as `watch` saw them

    @property
    def x(self) -> Vector:
        return self.seen[-1][0]

    @property
    def y(self) -> Vector:
        return self.seen[-1][1]

    @property
    def y_hat(self) -> Vector:
        return self.seen[-1][2]

    @property
    def betas(self) -> list[float]:
        return [asked[1] for asked in self.script.asked]

    @property
    def etas(self) -> list[float]:
        return [asked[3] for asked in self.script.asked]

    @property
    def duals(self) -> list[float]:
        """y_1, ..., y_K, and the one for the subproblem that never was, first components."""
        return [float(asked[0][0]) for asked in self.script.asked] + [float(self.seen[-1][1][0])]


def run(
    points: list[list[float]],
    *,
    penalty: PenaltyRule,
    dual: DualRule,
    tolerance: ToleranceRule | None = None,
    statuses: list[InnerStatus] | None = None,
    start: float = 4.0,
    y: float = 0.0,
    eps: float = 0.0,
) -> Run:
    script, seen = Script([np.array(p) for p in points], statuses or []), []
    first = np.array([start, 0.0])
    history = History(0.0, start)

    def stop(history: History, found: InnerResult) -> Status | None:
        if found.usable and history.last.residual <= eps:
            return Status.SOLVED
        return Status.ITERATION_LIMIT if history.last.k == len(points) else None

    def watch(history: History, x: Vector, y: Vector, y_hat: Vector) -> None:
        seen.append((x.copy(), y.copy(), y_hat.copy()))

    rules = Algorithm1(penalty, dual, tolerance or PowerLaw())
    y1 = np.array([y, 0.0])
    status = augmented_lagrangian(rules, Problem(), script, first, y1, history, stop=stop, watch=watch, limit=77)
    return Run(status, script, history, seen)


#: ||c|| = 4, then 2 (halved: enough for tau = 1/2), 1.5 (not), 0.3 (enough).
POINTS = [[2.0, 0.0], [1.5, 0.0], [0.3, 0.0]]
A1, A2, A3 = 0.3980724, 2 / 9, 0.6182744  # the short steps; see tests/unit/test_rules.py


@pytest.mark.parametrize(
    ("penalty", "dual", "betas", "etas", "duals"),
    [
        pytest.param(
            Adaptive(initial=1.0, gamma=10.0, tau=0.5), Full(),
            [1, 1, 10], [1, 1 / 2, 1 / 10], [0, 2, 3.5, 6.5],
            id="adaptive-full",
        ),
        pytest.param(
            Always(initial=1.0, gamma=10.0), Full(),
            [1, 10, 100], [1, 1 / 10, 1 / 100], [0, 2, 17, 47],
            id="always-full",
        ),
        pytest.param(
            Adaptive(initial=1.0, gamma=10.0, tau=0.5), Short(),
            [1, 1, 10], [1, 1 / 2, 1 / 10], [0, 2 * A1, 2 * A1 + 1.5 * A2, 2 * A1 + 1.5 * A2 + 0.3 * A3],
            id="adaptive-short",
        ),
        pytest.param(
            Always(initial=1.0, gamma=10.0), Short(),
            [1, 10, 100], [1, 1 / 10, 1 / 100], [0, 2 * A1, 2 * A1 + 1.5 * A2, 2 * A1 + 1.5 * A2 + 0.3 * A3],
            id="always-short",
        ),
    ],
)  # fmt: skip
def test_the_four_variants_by_hand(
    penalty: PenaltyRule, dual: DualRule, betas: list[float], etas: list[float], duals: list[float]
) -> None:
    found = run(POINTS, penalty=penalty, dual=dual)
    assert found.betas == pytest.approx(betas)
    assert found.etas == pytest.approx(etas)
    assert found.duals == pytest.approx(duals, abs=1e-6)
    assert [row.beta for row in found.history.iterations] == pytest.approx(betas)
    assert [row.violation for row in found.history.iterations] == pytest.approx([2.0, 1.5, 0.3])
    # whatever the dual rule, the pair that is judged and returned has yhat = y_k + beta_k c(x_{k+1})
    for k, (_, _, y_hat) in enumerate(found.seen):
        assert y_hat[0] == pytest.approx(duals[k] + betas[k] * POINTS[k][0], abs=1e-5)
    np.testing.assert_array_equal(found.x, POINTS[-1])


def test_every_subproblem_starts_where_the_last_one_ended_and_knows_its_limit() -> None:
    found = run(POINTS, penalty=Always(initial=1.0, gamma=2.0), dual=Full())
    assert [asked[2].tolist() for asked in found.script.asked] == [[4.0, 0.0], [2.0, 0.0], [1.5, 0.0]]
    assert {asked[4] for asked in found.script.asked} == {77}


def test_the_inner_tolerance_is_the_smaller_of_the_rule_and_one_over_beta() -> None:
    found = run(POINTS, penalty=Always(initial=1.0, gamma=2.0), dual=Full(), tolerance=PowerLaw(1.0, 2.0))
    assert found.etas == pytest.approx([1, 1 / 4, 1 / 9])  # 1/k^2 below 1/2 and 1/4
    found = run(POINTS, penalty=Always(initial=1.0, gamma=2.0), dual=Full(), tolerance=PowerLaw(1e9, 1.0))
    assert found.etas == pytest.approx([1, 1 / 2, 1 / 4])


def test_it_quits_at_the_first_pair_within_the_tolerance_before_raising_beta() -> None:
    found = run(POINTS, penalty=Adaptive(initial=1.0, gamma=10.0, tau=0.5), dual=Full(), eps=2.0)
    assert found.status is Status.SOLVED
    assert len(found.script.asked) == 2  # R = 1/2 + 1.5
    assert found.history.k == 3
    np.testing.assert_array_equal(found.y_hat, [2 + 1 * 1.5, 0.0])


def test_the_kept_multipliers_are_clipped_and_the_returned_ones_are_not() -> None:
    found = run(POINTS, penalty=Adaptive(initial=1.0, gamma=10.0, tau=0.5), dual=Full(y_max=3.0))
    assert found.duals == pytest.approx([0, 2, 3, 3])
    assert found.y_hat[0] == pytest.approx(3 + 10 * 0.3)


def test_the_projection_on_a_ball_keeps_the_direction() -> None:
    points = [[3.0, 4.0], [0.0, 0.0]]
    found = run(points, penalty=Always(initial=1.0, gamma=2.0), dual=Full(y_max=1.0, ball="l2"))
    np.testing.assert_allclose(found.script.asked[1][0], [0.6, 0.8], rtol=1e-15)


def test_a_growing_cap_grows_with_k() -> None:
    found = run([[5.0, 0.0]] * 3, penalty=Always(initial=1.0, gamma=2.0), dual=Full(y_max=1.0, growing=True))
    assert found.duals == [0.0, 1.0, 2.0, 3.0]


def test_an_unusable_answer_leaves_x_and_y_alone_and_raises_beta() -> None:
    statuses = [InnerStatus.CONVERGED, InnerStatus.UNBOUNDED, InnerStatus.CONVERGED]
    points = [[2.0, 0.0], [1e9, 0.0], [0.9, 0.0], [0.9, 0.0]]
    found = run(
        points,
        penalty=Adaptive(initial=1.0, gamma=1.5, tau=0.5),
        dual=Full(),
        statuses=[*statuses, InnerStatus.CONVERGED],
    )
    assert found.betas == pytest.approx([1.0, 1.0, 1.5**6, 1.5**6])  # 0.9 <= 2 / 2, not compared with 1e9
    assert found.duals[:3] == [0.0, 2.0, 2.0]
    assert found.script.asked[2][2].tolist() == [2.0, 0.0]
    assert [row.usable for row in found.history.iterations] == [True, False, True, True]


@pytest.mark.parametrize("status", [InnerStatus.UNBOUNDED, InnerStatus.UNDEFINED, InnerStatus.EDGE, InnerStatus.WORSE])
def test_a_run_that_ends_on_an_unusable_answer_keeps_the_last_good_pair(status: InnerStatus) -> None:
    found = run(
        [[2.0, 0.0], [1e9, 0.0]],
        penalty=Always(initial=1.0, gamma=10.0),
        dual=Full(),
        statuses=[InnerStatus.CONVERGED, status],
    )
    np.testing.assert_array_equal(found.x, [2.0, 0.0])
    np.testing.assert_array_equal(found.y, [2.0, 0.0])


@pytest.mark.parametrize("status", [InnerStatus.STALLED, InnerStatus.LIMIT, InnerStatus.BUDGET])
def test_an_unfinished_answer_is_used_all_the_same(status: InnerStatus) -> None:
    found = run([[2.0, 0.0]], penalty=Always(initial=1.0, gamma=10.0), dual=Full(), statuses=[status])
    np.testing.assert_array_equal(found.x, [2.0, 0.0])
    np.testing.assert_array_equal(found.y_hat, [2.0, 0.0])


def test_a_run_goes_on_from_a_history_as_if_never_interrupted() -> None:
    penalty, dual = Adaptive(initial=1.0, gamma=10.0, tau=0.5), Short()
    whole = run(POINTS, penalty=penalty, dual=dual)
    half = run(POINTS[:2], penalty=penalty, dual=dual)
    script, history = Script([np.array(POINTS[2])]), half.history
    x, y, _ = half.seen[-1]
    rest = []
    augmented_lagrangian(
        Algorithm1(penalty, dual, PowerLaw()),
        Problem(),
        script,
        x,
        y,
        history,
        stop=lambda history, found: Status.STOPPED,
        watch=lambda history, x, y, y_hat: rest.append(y_hat),
        limit=1,
    )
    assert history.iterations == whole.history.iterations
    np.testing.assert_array_equal(rest[-1], whole.y_hat)


def test_a_loop_of_ones_own_asks_and_tells_and_gets_the_same_sequence() -> None:
    rules = Algorithm1(Adaptive(initial=1.0, gamma=10.0, tau=0.5), Full(), PowerLaw())
    whole = run(POINTS, penalty=rules.penalty, dual=rules.dual)
    history, y = History(0.0, 4.0), np.zeros(2)
    for point in POINTS:
        asked, c = rules.ask(history), np.array(point)
        found = InnerResult(c, 0.0, asked.eta, 1, 2, InnerStatus.CONVERGED)
        y = rules.tell(history, Problem().record(asked, found, c, y + asked.beta * c), y, c)
    assert history.iterations == whole.history.iterations
    np.testing.assert_array_equal(y, whole.y)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_users_rule_that_returns_nonsense_is_named(value: float) -> None:
    class Nonsense(PenaltyRule):
        def next(self, history: History) -> float:
            return value

    with pytest.raises(InputError, match=r"Nonsense\.next\(history\) must be positive and finite, got"):
        run(POINTS, penalty=Nonsense(), dual=Full())
