"""Algorithm 2, line by line, with a method that returns points from a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from auglag import InputError, PowerLaw, Status
from auglag.stochastic import AdaptiveEpochs, FixedEpochs, Method, StochasticProblem, minimize
from auglag.stochastic.settings import Tracking


def quadratic() -> StochasticProblem:
    """min mean (x - a)^2 / 2 without constraints: the gradient is x - mean(a), and mean(a) = 0."""
    rows = np.array([-1.0, 1.0])[:, None]
    return StochasticProblem.from_functions(
        1, lambda x, z: 0.5 * np.mean((x - z) ** 2), lambda x, z: np.mean(x - z, axis=0), data=rows
    )


@dataclass
class Script(Method):
    """Returns the next point of a list, whatever it is asked."""

    points: list[float]
    batch: int | Sequence[int] = 1
    replacement: bool = True
    asked: list[tuple[float, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "script"

    def run(self, oracle: Any, v: Any, steps: int, rng: Any, backend: Any) -> Any:
        self.asked.append((float(v[0]), steps))
        if not self.points:
            raise KeyboardInterrupt
        return np.array([self.points.pop(0)])


def solve(method: Script, epochs: object, **options: object) -> Any:
    settings: dict = {"tol": 1e-12, "tolerance": PowerLaw(0.5, 1.0), "max_epochs": None} | options
    settings["check_derivatives"] = False  # its rows would be counted, too
    return minimize(quadratic(), [2.0], method=method, epochs=epochs, **settings)


def test_t_doubles_until_both_tests_are_met_and_calls_restart_at_x_k() -> None:
    # eta_1 = 0.5: 1.0 is not stationary enough, 0.9 neither, 0.4 is; then eta_2 = 0.25.
    script = Script([1.0, 0.9, 0.4, 0.3, 0.2])
    solve(script, AdaptiveEpochs(initial=3, r=2.0, carry=True))
    assert script.asked[:5] == [(2.0, 3), (2.0, 6), (2.0, 12), (0.4, 12), (0.4, 24)]


def test_going_on_from_the_last_point_and_not_carrying_t_are_options() -> None:
    script = Script([1.0, 0.9, 0.4, 0.3, 0.2])
    solve(script, AdaptiveEpochs(initial=3, r=1.5, carry=False, restart=False))
    assert script.asked[:5] == [(2.0, 3), (1.0, 5), (0.9, 8), (0.4, 3), (0.3, 5)]


def test_a_stationary_point_that_is_higher_than_x_k_is_refused() -> None:
    # From x_1 = 0.1 the point -0.3 meets dist <= 0.5 but is higher.
    script = Script([-0.3, 0.05])
    result = minimize(
        quadratic(), [0.1], method=script, epochs=AdaptiveEpochs(), tol=1e-12, tolerance=PowerLaw(0.5, 0.01),
        max_epochs=None,
    )  # fmt: skip
    assert [row["accepted"] for row in result.trace[1:]] == [False, True]


def test_a_fixed_number_of_epochs_takes_whatever_comes() -> None:
    script = Script([1.9, 3.0, 1.0])
    solve(script, FixedEpochs(5, unit="iterations"))
    assert script.asked == [(2.0, 5), (1.9, 5), (3.0, 5), (1.0, 5)]


def test_an_epoch_is_a_pass_over_the_rows() -> None:
    script = Script([1.0])
    solve(script, FixedEpochs(5))
    assert script.asked[0] == (2.0, 10)  # two rows, one per step


def test_any_full_batch_test_below_tol_ends_the_run() -> None:
    script = Script([1.0, 1e-3])
    result = solve(script, AdaptiveEpochs(), tol=1e-2)
    assert result.success
    assert result.status is Status.SOLVED
    assert result.certificate.residual == pytest.approx(1e-3)


def test_a_point_that_is_not_finite_is_not_gone_on_from() -> None:
    script = Script([np.nan, 0.3])
    solve(script, AdaptiveEpochs(restart=False))
    assert script.asked[1][0] == 2.0
    script = Script([np.inf])
    result = solve(script, FixedEpochs(1))
    assert result.status is Status.NON_FINITE
    np.testing.assert_array_equal(result.x, [2.0])


def test_the_best_point_is_returned_and_a_run_cut_short_says_so() -> None:
    script = Script([1.0, 1.5, 1.7, 1.8, 1.9, 1.9, 1.9])
    result = solve(script, AdaptiveEpochs(), max_epochs=3.9)
    assert result.status is Status.EVALUATION_LIMIT
    np.testing.assert_array_equal(result.x, [1.0])
    assert "ended inside subproblem 1, whose test dist <= 5.0e-01 was not met" in result.message


def test_a_run_cut_short_at_a_stationary_point_does_not_call_it_unmet() -> None:
    result = minimize(
        quadratic(), [0.1], method=Script([]), epochs=AdaptiveEpochs(), tol=1e-12, tolerance=PowerLaw(0.5, 1.0),
        max_epochs=1.0,
    )  # fmt: skip
    assert result.status is Status.EVALUATION_LIMIT
    assert "inside subproblem 1, before a point of it was accepted (after 0 iterations)" in result.message


def test_tracking_tolerances_follow_the_residual() -> None:
    from auglag.algorithm.history import History, Iteration

    def iteration(k: int, residual: float) -> Iteration:
        return Iteration(k, 1.0, 0.1, True, 0.0, residual, residual, 0.0, 0.0, 0.0, "CONVERGED", 1, 1)

    rule = Tracking(first=0.1, ratio=0.5, follow=0.5, floor=1e-4)
    history = History(0.0, 0.0)
    assert rule.next(history) == 0.1
    history.iterations.append(iteration(1, 1.0))
    assert rule.next(history) == 0.05
    history.iterations.append(iteration(2, 0.01))
    assert rule.next(history) == pytest.approx(0.005)
    history.iterations.append(iteration(3, 1e-9))
    assert rule.next(history) == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: AdaptiveEpochs(initial=0), "AdaptiveEpochs.initial must be a positive integer, got 0"),
        (lambda: AdaptiveEpochs(r=1.0), "AdaptiveEpochs.r must be finite and greater than 1, got 1.0"),
        (lambda: FixedEpochs(2.5), "FixedEpochs.n must be a positive integer, got 2.5"),
        (lambda: FixedEpochs(2, unit="days"), "FixedEpochs.unit must be 'iterations' or 'epochs', got 'days'"),
    ],
)
def test_bad_controllers_are_refused(make: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        make()
