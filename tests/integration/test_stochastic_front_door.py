"""auglag.stochastic.minimize on Neyman-Pearson problems, on samplers, with presets, with a method of one's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.stochastic import two_classes

import auglag
from auglag import Status, prox
from auglag.datasets import load_spambase
from auglag.stochastic import (
    PRESETS,
    EstimatedCertificate,
    FullBatchProblem,
    GaussNewton,
    Method,
    StochasticProblem,
    minimize,
    neyman_pearson,
)
from auglag.stochastic.minimize import choose


@pytest.fixture(scope="module")
def spam() -> StochasticProblem:
    data = load_spambase()
    return neyman_pearson(data.X, data.y, chat=0.6, seed=11)


def test_the_default_solves_neyman_pearson_and_agrees_with_the_deterministic_solver(spam: StochasticProblem) -> None:
    result = minimize(spam, np.random.default_rng(0).standard_normal(57), tol=1e-6)
    assert result.success
    assert result.method == "gauss-newton"
    assert result.epochs < 60
    exact = auglag.minimize(FullBatchProblem(spam, result.x), tol=1e-6)
    assert result.fun == pytest.approx(exact.fun, abs=1e-5)
    assert result.multipliers[0] == pytest.approx(exact.y[0], abs=1e-3)
    assert 0.05 < result.multipliers[0] < 0.3
    assert spam.evaluate(result.x).c[0] == pytest.approx(0.6, abs=1e-5)  # the constraint is active


def test_the_result_says_how_it_does_on_held_out_data(spam: StochasticProblem) -> None:
    result = minimize(spam, tol=1e-4)
    kinds = [f"{part} false {kind}" for part in ("training", "test") for kind in ("negatives", "positives")]
    assert list(result.rates) == kinds
    assert all(0.0 <= rate < 0.5 for rate in result.rates.values())
    assert result.holdout.objective > 0
    assert result.holdout.residual > result.certificate.residual
    assert not result.estimated
    assert "residual" in repr(result)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", ["sgd", "pstorm"])
def test_presets_lower_the_residual(spam: StochasticProblem, preset: str, method: str) -> None:
    x0 = np.random.default_rng(1).standard_normal(57)
    result = minimize(spam, x0, preset=preset, method=method, tol=1e-6, max_epochs=160, seed=2)
    assert result.status is Status.EVALUATION_LIMIT
    assert result.certificate.residual < 0.5 * result.trace[0]["residual"]


def test_the_four_variants_change_the_rules() -> None:
    names = {variant: minimize(two_classes(), variant=variant, tol=1e-3).variant for variant in auglag.VARIANTS}
    assert "Always" in names["always-full"]
    assert "Short" in names["adaptive-short"]
    assert len(set(names.values())) == 4


def test_a_callback_sees_every_test_and_may_stop(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[dict[str, Any]] = []

    def callback(row: dict[str, Any]) -> bool:
        seen.append(row)
        return len(seen) == 3

    result = minimize(two_classes(), method="sgd", tol=1e-9, callback=callback, progress=True)
    assert result.status is Status.STOPPED
    assert len(result.trace) == len(seen) == 3
    assert "violation" in capsys.readouterr().out


def test_nested_samples_give_the_same_solution_with_fewer_passes() -> None:
    problem = two_classes(rows=20_000, n=8, chat=0.5, seed=4)
    assert choose(problem) == "gauss-newton"
    nested = minimize(problem, tol=1e-6)
    plain = minimize(problem, tol=1e-6, method=GaussNewton(nested=False))
    assert nested.success
    assert plain.success
    np.testing.assert_allclose(nested.x, plain.x, atol=1e-3)
    assert nested.epochs < plain.epochs


def test_where_gauss_newton_gets_stuck_the_default_begins_again_with_lbfgs(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).standard_normal((200, 3)), np.arange(200) % 2
    problem = neyman_pearson(X, y, chat=0.35, loss="sigmoid", intercept=True)  # flat far out, not convex
    stuck = minimize(problem, method="gauss-newton")
    assert stuck.status is Status.STUCK
    plain: dict[str, Any] = {"y0": [0.0]}  # no sampled steps first: they lead to a solution here
    result = minimize(problem, **plain)
    assert result.success, result.message
    assert "gauss-newton got stuck; L-BFGS began again at x0" in result.message
    assert result.epochs > stuck.epochs  # nothing is forgotten
    assert [row["epochs"] for row in result.trace] == sorted(row["epochs"] for row in result.trace)

    path, half = tmp_path / "run.npz", 0.5 * (stuck.epochs + result.epochs)
    minimize(problem, **plain, checkpoint=path, callback=lambda row: row["epochs"] > half)
    np.testing.assert_array_equal(minimize(problem, **plain, resume=path).x, result.x)


def test_the_default_begins_with_sampled_steps_but_not_at_a_solution() -> None:
    data, passes = auglag.datasets.load_spambase(), {"gauss-newton": 0.0, "auto": 0.0}
    for seed in range(4):
        problem = neyman_pearson(data.X, data.y, chat=0.7, seed=seed)
        x0 = np.random.default_rng(seed).standard_normal(57)
        found = {method: minimize(problem, x0, method=method, tol=1e-2) for method in passes}
        passes = {method: passes[method] + found[method].epochs for method in passes}
    assert passes["auto"] < 0.85 * passes["gauss-newton"]
    again = minimize(problem, found["auto"].x, tol=2e-2)
    assert again.epochs < 1.5  # a few batches, and the test of all rows


def test_multipliers_are_fitted_where_residuals_are_smaller_with_them() -> None:
    result = minimize(two_classes(), tol=1e-3, y0=[50.0])
    assert result.success
    assert any(row["residual"] < 0.9 * (row["dist"] + row["c_norm"]) for row in result.trace)


def test_a_checkpoint_in_a_folder_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(auglag.InputError, match="checkpoint must lie in an existing folder, got"):
        minimize(two_classes(), checkpoint=tmp_path / "none" / "run.npz")


def test_a_limit_before_the_first_outer_iteration_leaves_a_checkpoint_to_go_on_from(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    few = minimize(two_classes(), tol=1e-6, method="lbfgs", max_epochs=1, checkpoint=path)
    assert few.status is Status.EVALUATION_LIMIT
    assert str(path) in few.advice[0]
    more = minimize(two_classes(), tol=1e-6, method="lbfgs", resume=path)
    assert more.success
    np.testing.assert_array_equal(more.x, minimize(two_classes(), tol=1e-6, method="lbfgs").x)


def test_a_prox_term_is_part_of_the_problem() -> None:
    problem = two_classes(g=prox.L1(0.4), chat=0.72)
    assert choose(problem) == "lbfgs"
    result = minimize(problem, tol=1e-6)
    assert result.success
    assert np.count_nonzero(result.x) < 6
    ridge = minimize(two_classes(g=prox.SquaredL2(0.3)), tol=1e-8)
    assert ridge.method == "gauss-newton"
    assert ridge.success


def test_a_method_of_ones_own_is_one_small_class() -> None:
    @dataclass(frozen=True)
    class Momentum(Method):
        batch: int | Sequence[int] = 32
        replacement: bool = True

        @property
        def name(self) -> str:
            return "momentum"

        def run(self, oracle: Any, v: Any, steps: int, rng: Any, backend: Any) -> Any:
            d = np.zeros_like(v)
            for z in oracle.samples(rng, steps):
                d = 0.8 * d + 0.2 * oracle.estimate(v, z)
                v = oracle.prox(v - 0.3 * d, 0.3)
            return v

    result = minimize(two_classes(), method=Momentum(), tol=0.05, max_epochs=500)
    assert result.success, result.message
    assert result.method == "momentum"


# ---------------------------------------------------------------------------------------------------- sampled data


def sampled_problem() -> StochasticProblem:
    """min E (x - a)^2 / 2, a ~ N(1, I), s.t. E b'x <= 0.5, b ~ N((1, 1), I): x = (1, 1) - y (1, 1), y = 0.75."""

    def draw(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        return 1.0 + rng.standard_normal((size, 2)), 1.0 + rng.standard_normal((size, 2))

    return StochasticProblem.from_functions(
        2,
        lambda x, z: 0.5 * np.mean(np.sum((x - z[0]) ** 2, axis=1)),
        lambda x, z: x - z[0].mean(axis=0),
        constraints=lambda x, z: [np.mean(z[1] @ x)],
        vjp=lambda x, z, w: w[0] * z[1].mean(axis=0),
        sampler=draw,
        lower=[-np.inf],
        upper=[0.5],
    )


def test_a_sampler_gets_an_estimate_with_intervals_that_hold_the_truth() -> None:
    problem = sampled_problem()
    assert choose(problem) == "lbfgs"
    held, trials = 0, 12
    for seed in range(trials):
        result = minimize(problem, [0.0, 0.0], tol=0.2, seed=seed, test_rows=2000, max_epochs=30)
        check = result.certificate
        assert isinstance(check, EstimatedCertificate)
        assert result.estimated
        assert "Estimated residual" in result.message
        truth = float(np.sum(result.x))  # E b'x
        low, high = check.constraint_intervals[0]
        held += low <= truth <= high
        gradient = np.linalg.norm(result.x - 1.0 + result.multipliers[0])
        assert check.residual_interval[0] <= gradient + abs(truth - 0.5) + 0.05
    assert held >= trials - 3


def test_success_on_a_sampler_needs_the_whole_interval_below_the_tolerance() -> None:
    result = minimize(sampled_problem(), [0.0, 0.0], tol=0.2, seed=1, test_rows=4000, max_epochs=400)
    assert result.success is (result.certificate.residual_interval[1] <= 0.2)
    np.testing.assert_allclose(result.x, [0.25, 0.25], atol=0.2)


def test_a_sampled_run_ends_with_a_certificate_or_goes_on_to_its_limit() -> None:
    ends = [
        minimize(sampled_problem(), [0.0, 0.0], method="sgd", tol=0.3, seed=seed, test_rows=2000, max_epochs=200)
        for seed in range(6)
    ]
    for result in ends:
        assert result.status is (Status.SOLVED if result.success else Status.EVALUATION_LIMIT)
        high = result.certificate.residual_interval[1]
        assert f"upper end {high:.2e} {'<=' if result.success else '>'} tol 3e-01" in result.message
        assert result.success or result.epochs >= 199
    assert sum(result.success for result in ends) >= 2


def test_a_tolerance_below_the_radius_is_called_unattainable() -> None:
    result = minimize(sampled_problem(), [0.0, 0.0], method="pstorm", tol=1e-4, test_rows=400, max_epochs=30)
    assert not result.success
    assert "tol is below the radius of the interval, so that no point can meet it: take more than" in result.message


def test_a_sampler_is_solved_on_samples_that_grow_until_a_fresh_one_certifies_it(tmp_path: Path) -> None:
    passes = []
    for tol in (0.1, 0.03):
        result = minimize(sampled_problem(), [0.0, 0.0], tol=tol, test_rows=2000)
        assert result.success
        assert result.method == "lbfgs"
        assert result.certificate.residual_interval[1] <= tol
        # The truth: E b'x = x1 + x2, E a = (1, 1).
        x, y = result.x, result.multipliers[0]
        truth = np.hypot(*(x - 1.0 + y)) + abs(max(x.sum() - 0.5, 0.0))
        assert truth <= tol
        passes.append(result.epochs)
    assert passes[0] < 40 < passes[1]


def test_growing_samples_resume_bit_for_bit(tmp_path: Path) -> None:
    state = tmp_path / "state.npz"

    def run(**options: Any) -> Any:
        return minimize(sampled_problem(), [0.0, 0.0], tol=0.03, test_rows=2000, checkpoint=state, **options)

    whole = run()
    assert whole.certificate.rows > 4 * 2000
    calls = 0

    def interrupt(row: dict) -> None:
        nonlocal calls
        calls += 1
        if calls == len(whole.trace) - 1:
            raise KeyboardInterrupt

    run(callback=interrupt)
    assert calls >= len(whole.trace) - 1  # a point that was not tested yet is, at the end
    with np.load(state) as saved:
        assert json.loads(str(saved["meta"]))["state"]["class"][1]["times"] > 1
    again = run(resume=state)
    np.testing.assert_array_equal(again.x, whole.x)
    assert again.epochs == whole.epochs


def test_limits_leave_no_room_for_a_larger_sample() -> None:
    result = minimize(sampled_problem(), [0.0, 0.0], tol=0.02, test_rows=1000, max_epochs=30)
    assert result.status is Status.EVALUATION_LIMIT
    assert "max_epochs = 30 leaves no room for a larger one" in result.message
    assert "it takes a sample of about" in result.message
    assert result.epochs <= 30
    assert result.advice[0].startswith("a larger max_epochs")


def test_gauss_newton_is_refused_on_a_sampler() -> None:
    with pytest.raises(auglag.InputError, match="needs data with an end; a sampler takes"):
        minimize(sampled_problem(), method="gauss-newton")


def test_an_iterator_of_batches_gets_a_sampled_method() -> None:
    rng = np.random.default_rng(0)
    problem = StochasticProblem.from_functions(
        2,
        lambda x, z: 0.5 * np.mean(np.sum((x - z) ** 2, axis=1)),
        lambda x, z: x - z.mean(axis=0),
        batches=iter(lambda: rng.standard_normal((64, 2)), None),
    )
    assert choose(problem) == "pstorm"
    with pytest.raises(auglag.InputError, match=r"method='lbfgs' needs data= or sampler="):
        minimize(problem, method="lbfgs")


def mean_of_squares(gradient_factor: float = 1.0, vjp_factor: float = 1.0, jac_factor: float | None = None, **data):
    extra = {} if jac_factor is None else {"jacobian": lambda x, z: jac_factor * 2 * (z[:, :1] * x).mean(axis=0)[None]}
    return StochasticProblem.from_functions(
        3,
        lambda x, z: 0.5 * np.mean(np.sum((x - z) ** 2, axis=1)),
        lambda x, z: gradient_factor * (x - z.mean(axis=0)),
        constraints=lambda x, z: [np.mean(z[:, 0] * np.sum(x**2))],
        vjp=lambda x, z, w: vjp_factor * w[0] * 2 * z[:, 0].mean() * x,
        lower=[-np.inf],
        upper=[4.0],
        **(data or {"data": 1.0 + np.random.default_rng(0).random((500, 3))}),
        **extra,
    )


@pytest.mark.parametrize(
    ("factors", "words"),
    [((1.1, 1.0), "gradient: entry"), ((1.0, 0.9), "vjp: entry"), ((1.0, 1.0, 2.0), "jacobian: row 0, column")],
)
def test_wrong_derivatives_are_found_at_x0(factors: tuple[float, ...], words: str) -> None:
    with pytest.raises(auglag.DerivativeError, match=words):
        minimize(mean_of_squares(*factors), np.ones(3))


def test_the_check_of_derivatives_counts_its_rows_and_can_be_left_out() -> None:
    checked, plain = (
        minimize(mean_of_squares(), np.ones(3), tol=1e-6, check_derivatives=wanted) for wanted in ("first", False)
    )
    assert checked.success
    np.testing.assert_array_equal(checked.x, plain.x)
    assert checked.epochs - plain.epochs == pytest.approx(5 * 256 / 500)  # x0, and two points for each of f and c
    rng = np.random.default_rng(1)
    with pytest.raises(auglag.DerivativeError, match="gradient"):
        minimize(mean_of_squares(1.5, sampler=lambda _, size: 1.0 + rng.random((size, 3))), np.ones(3))


def test_explain_says_what_happened_and_what_to_try() -> None:
    solved = minimize(mean_of_squares(), np.ones(3), tol=1e-6)
    assert solved.advice == ()
    assert "passes over the data" in solved.explain()
    assert "method lbfgs, Adaptive(gamma=3, tau=0.5) penalty" in solved.explain()
    short = minimize(mean_of_squares(), np.ones(3), method="sgd", tol=1e-9, max_epochs=20)
    assert short.message.startswith("Epoch limit reached before the tolerance: max_epochs = 20 passes over the data.")
    assert "Try: a larger max_epochs, from x0=result.x, y0=result.multipliers." in short.explain()
    few = minimize(mean_of_squares(), np.ones(3), method="sgd", tol=1e-9, max_gradients=20)
    assert few.message.startswith("Gradient limit reached before the tolerance: max_gradients = 20.")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"upper": None}, "upper must be an array of numbers, got None"),
        ({"lower": (), "upper": ()}, "lower and upper .* must have an entry for each, got none"),
        ({"sampler": lambda rng, size: rng.random((size, 2))}, "one of data, sampler or batches, got data and another"),
    ],
)
def test_what_is_wrong_with_a_problem_of_functions_is_named(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"lower": [-np.inf], "upper": [1.0], "data": np.ones((9, 2))} | change
    with pytest.raises(auglag.InputError, match=words):
        StochasticProblem.from_functions(
            2,
            lambda x, z: x @ x,
            lambda x, z: 2 * x,
            constraints=lambda x, z: [x @ z.mean(axis=0)],
            vjp=lambda x, z, w: w[0] * z.mean(axis=0),
            **arguments,
        )


def test_a_data_frame_is_named() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame(np.ones((9, 2)))
    with pytest.raises(auglag.InputError, match=r"data must be arrays, got a DataFrame: pass its to_numpy\(\)"):
        StochasticProblem.from_functions(2, lambda x, z: x @ x, lambda x, z: 2 * x, data=frame)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_epoch": 3}, "has no argument 'max_epoch'; did you mean 'max_epochs'"),
        ({"batch_size": 3}, r"has no argument 'batch_size': write method=SGD\(batch=...\)"),
        ({"method": "sdg"}, "got 'sdg'; did you mean 'sgd'"),
        ({"preset": "papr"}, "got 'papr'; did you mean 'paper'"),
        ({"variant": "adaptive_full"}, "did you mean 'adaptive-full'"),
    ],
)
def test_misspelt_arguments_get_a_suggestion(options: dict, words: str) -> None:
    with pytest.raises(auglag.OptionError, match=words):
        minimize(mean_of_squares(), **options)
