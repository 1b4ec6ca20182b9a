"""PStorm's first batch, its last step, and the rival that uses both."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.stochastic import two_classes

from auglag import prox
from auglag.stochastic import PRESETS, ConstantStep, FixedEpochs, PStorm, minimize

X0 = np.linspace(-1.0, 1.0, 6)


def one_call(method: PStorm, *, steps: int = 27, seed: int = 0, g: object = None) -> object:
    """The run of a single subproblem with so many iterations."""
    return minimize(
        two_classes(g=g), X0, preset="paper-fixed", method=method, epochs=FixedEpochs(steps, unit="iterations"),
        tol=1e-12, seed=seed, max_outer=1, max_epochs=None,
    )  # fmt: skip


def test_an_enlarged_first_batch_takes_the_cube_root_of_the_iterations() -> None:
    plain, enlarged = (
        one_call(PStorm(step=ConstantStep(0.1), lipschitz=1.0, first=first)).gradients
        for first in ("batch", "enlarged")
    )
    assert plain == 2 * 27
    assert enlarged == 2 * 27 + 3


def test_an_enlarged_first_batch_has_less_noise() -> None:
    """One step with little momentum is nearly the first direction: its variance falls by the number of batches, 5."""
    found = {
        first: np.array([
            one_call(PStorm(step=ConstantStep(1e-3), momentum=1e-6, first=first, batch=2), steps=125, seed=seed).x
            for seed in range(40)
        ])
        for first in ("batch", "enlarged")
    }  # fmt: skip
    ratio = found["batch"].var(axis=0).sum() / found["enlarged"].var(axis=0).sum()
    assert 2.5 < ratio < 10.0


def test_the_last_step_halves_the_distance_to_the_subdifferential() -> None:
    plain, finished = (
        [
            one_call(PStorm(step=ConstantStep(0.3), batch=2, finish=finish), steps=200, g=prox.L1(0.2), seed=seed)
            for seed in range(6)
        ]
        for finish in (False, True)
    )
    distances = [np.mean([run.trace[-1]["dist"] for run in runs]) for runs in (plain, finished)]
    assert distances[1] < 0.6 * distances[0]


def test_stoc_ialm_enlarges_its_first_batch_and_ends_with_a_full_step() -> None:
    settings = PRESETS["stoc-ialm"]
    assert isinstance(settings.method, PStorm)
    assert (settings.method.first, settings.method.finish) == ("enlarged", True)
    assert type(settings.penalty).__name__ == "Always"
    assert type(settings.dual).__name__ == "Short"
    result = minimize(two_classes(), X0, preset="stoc-ialm", tol=0.1, max_epochs=2000, seed=0)
    assert result.success, result.message


def test_a_call_that_the_budget_ends_before_its_first_batch_is_left_as_it_was() -> None:
    result = minimize(two_classes(), X0, method=PStorm(first="enlarged", finish=True), tol=1e-12, max_gradients=3)
    assert np.isfinite(result.x).all()
    assert result.gradients <= 3 + 8


@pytest.mark.parametrize("backend", ["numpy", "auto"])
def test_options_that_are_off_change_nothing(backend: str) -> None:
    options = {"tol": 1e-9, "max_epochs": 15, "seed": 4, "backend": backend}
    one = minimize(two_classes(), X0, method=PStorm(), **options)
    two = minimize(two_classes(), X0, method=PStorm(first="batch", finish=False), **options)
    assert [row["residual"] for row in one.trace] == [row["residual"] for row in two.trace]
