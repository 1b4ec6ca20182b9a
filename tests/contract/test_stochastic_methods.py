"""What every stochastic method has to do: solve, be reproducible from its seed, count, stop at limits, resume."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.stochastic import least_squares_on_a_plane, two_classes

from auglag import CheckpointError, Status
from auglag.stochastic import METHODS, AdaptiveEpochs, FixedEpochs, PStorm, StochasticProblem, minimize
from auglag.stochastic.settings import NAMES

#: Reachable with a few hundred passes.
TOLERANCE = {"sgd": 0.05, "pstorm": 0.05, "svrg": 1e-3, "gauss-newton": 1e-8, "lbfgs": 1e-6, "single-loop": 1e-6}
X0 = np.linspace(-1, 1, 6)


def test_every_method_by_name_has_a_tolerance_here() -> None:
    assert set(TOLERANCE) == set(NAMES)
    assert set(METHODS) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_finds_the_solution_of_the_full_batch(name: str) -> None:
    problem = two_classes()
    exact = minimize(problem, tol=1e-9)
    result = minimize(problem, X0, method=name, tol=TOLERANCE[name], max_epochs=800, seed=1)
    assert result.success, result.message
    assert result.certificate.residual <= TOLERANCE[name]
    assert result.fun == pytest.approx(exact.fun, abs=10 * TOLERANCE[name])
    assert result.epochs <= 800
    assert result.method == name


@pytest.mark.parametrize("name", [name for name in NAMES if name != "gauss-newton"])
def test_user_functions_do_as_well(name: str) -> None:
    problem, solution = least_squares_on_a_plane()
    tol = 5 * TOLERANCE[name] if name in ("sgd", "pstorm") else TOLERANCE[name]  # these rows are noisier
    result = minimize(problem, method=name, tol=tol, max_epochs=800, seed=1)
    assert result.success, result.message
    np.testing.assert_allclose(result.x, solution[:5], atol=5 * tol)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_makes_the_run(name: str) -> None:
    runs = [minimize(two_classes(), X0, method=name, tol=1e-9, max_epochs=12, seed=seed) for seed in (3, 3, 4)]
    trace = [[row["residual"] for row in run.trace] for run in runs]
    assert trace[0] == trace[1]
    assert (trace[0] == trace[2]) is (name == "lbfgs")  # the others draw rows


@pytest.mark.parametrize("name", NAMES)
def test_limits_end_it_with_the_best_point_certified(name: str) -> None:
    result = minimize(two_classes(), X0, method=name, tol=1e-12, max_epochs=9, seed=3)
    assert result.status is Status.EVALUATION_LIMIT
    assert not result.success
    assert result.epochs <= 9 + 3  # a test may come after the last step, and an estimate of curvature before
    assert result.certificate.residual == pytest.approx(min(row["residual"] for row in result.trace), rel=1e-6)
    stopped = minimize(two_classes(), X0, method=name, tol=1e-300, max_seconds=1e-6, max_epochs=None)
    assert stopped.status is Status.TIME_LIMIT


@pytest.mark.parametrize(
    "method", [*METHODS, PStorm(momentum=0.5), PStorm(lipschitz=1.0), PStorm(first="enlarged")], ids=str
)
@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_no_more_gradients_are_taken_than_allowed(method: object, backend: str) -> None:
    for most in (33, 34):
        options = {"tol": 1e-12, "max_gradients": most, "backend": backend}
        result = minimize(two_classes(), X0, method=method, **options)
        assert result.gradients <= most
        assert result.gradients >= most - 7
        assert result.status is Status.EVALUATION_LIMIT


def test_slow_functions_do_not_hide_the_clock() -> None:
    def objective(x: np.ndarray, z: np.ndarray) -> float:
        return 0.5 * float(np.mean((x - z) ** 2))

    def gradient(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        time.sleep(0.01)
        return np.mean(x - z, axis=0)

    problem = StochasticProblem.from_functions(1, objective, gradient, data=np.ones((50, 1)))
    fixed = FixedEpochs(256, unit="iterations")
    result = minimize(
        problem, method="sgd", epochs=fixed, tol=1e-300, max_epochs=None, max_seconds=0.2, check_derivatives=False
    )
    assert result.status is Status.TIME_LIMIT
    assert 1 <= result.gradients < 60  # at most 20 fit in, and 16 are taken before the first look


@pytest.mark.parametrize("name", METHODS)
def test_looking_at_the_clock_does_not_change_the_run(name: str) -> None:
    options = {"method": name, "tol": 1e-9, "max_epochs": 60, "seed": 3}
    plain, timed = minimize(two_classes(), X0, **options), minimize(two_classes(), X0, max_seconds=1e6, **options)
    np.testing.assert_array_equal(plain.x, timed.x)
    assert plain.gradients == timed.gradients


RUNS = {name: {"method": name} for name in NAMES} | {
    f"{name}, restarted": {"method": name, "epochs": AdaptiveEpochs(3, unit="epochs", restart=True)} for name in METHODS
}


@pytest.mark.parametrize("run", RUNS)
def test_a_killed_run_goes_on_bit_for_bit(run: str, tmp_path: Path) -> None:
    problem, path = two_classes(), tmp_path / "run.npz"
    options = {"tol": 1e-9, "max_epochs": 40, "seed": 7} | RUNS[run]
    whole = minimize(problem, X0, **options)

    class Killed(Exception):
        pass

    def kill(row: dict) -> None:
        if row["epochs"] > 8 and path.exists():
            raise Killed

    with pytest.raises(Killed):
        minimize(problem, X0, checkpoint=path, callback=kill, **options)
    result = minimize(problem, X0, resume=path, **options)
    np.testing.assert_array_equal(result.x, whole.x)
    np.testing.assert_array_equal(result.multipliers, whole.multipliers)
    timeless = [[{k: v for k, v in row.items() if k != "seconds"} for row in run.trace] for run in (result, whole)]
    assert timeless[0] == timeless[1]
    assert (result.gradients, result.tests, result.nit) == (whole.gradients, whole.tests, whole.nit)


@pytest.mark.parametrize("name", ["sgd", "lbfgs"])
def test_a_checkpoint_of_other_data_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    options = {"method": name, "tol": 1e-9, "max_epochs": 10}
    minimize(two_classes(seed=0), X0, checkpoint=path, **options)
    with pytest.raises(CheckpointError, match="belongs to another run: data must be"):
        minimize(two_classes(seed=1), X0, resume=path, **options)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    minimize(two_classes(), X0, method="sgd", tol=1e-9, max_epochs=10, seed=1, checkpoint=path)
    with pytest.raises(CheckpointError, match="seed must be 1 as saved, got 2"):
        minimize(two_classes(), X0, method="sgd", tol=1e-9, max_epochs=10, seed=2, resume=path)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(CheckpointError, match="not a usable checkpoint"):
        minimize(two_classes(), X0, method="sgd", resume=path)
