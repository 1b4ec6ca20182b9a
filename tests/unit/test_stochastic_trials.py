"""Several seeds of one problem: the results of `minimize` one by one, and ends that leave nobody waiting."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.stochastic import two_classes

from auglag import InputError, JsonLog, Status, prox
from auglag.stochastic import (
    SGD,
    SVRG,
    AdaptiveEpochs,
    ConstantStep,
    FixedEpochs,
    Method,
    PStorm,
    StochasticProblem,
    StochasticResult,
    jax_problem,
    minimize,
    trials,
)
from auglag.stochastic.together import Scan, _size

SEEDS = (3, 1, 4, 15)


def same(together: list[StochasticResult], alone: list[StochasticResult], rtol: float = 1e-9) -> None:
    """Same iterates up to rounding, same statuses, same counts."""
    assert len(together) == len(alone)
    for a, b in zip(together, alone, strict=True):
        assert (a.seed, a.status, a.method) == (b.seed, b.status, b.method)
        counts = [(r.gradients, r.tests, r.epochs, r.nit, r.nit_inner) for r in (a, b)]
        assert counts[0] == counts[1]
        np.testing.assert_allclose(a.x, b.x, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(a.multipliers, b.multipliers, rtol=rtol, atol=rtol)
        rows = [[(row["objective"], row["residual"]) for row in result.trace] for result in (a, b)]
        np.testing.assert_allclose(rows[0], rows[1], rtol=rtol, atol=rtol)


class TestJax:
    """JAX functions: scans of all trials at once."""

    @pytest.fixture(autouse=True)
    def _double_precision(self) -> Iterator[None]:
        self.jax = pytest.importorskip("jax")
        with self.jax.enable_x64(True):
            yield
        assert not [t for t in threading.enumerate() if t.name == "auglag trial" and t.is_alive()]

    @pytest.fixture
    def vmapped(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """How many scans each compiled call held."""
        sizes: list[int] = []
        together = Scan.together

        def counted(scan: Scan, calls: list[Any], size: int) -> list[Any]:
            sizes.append(len(calls))
            return together(scan, calls, size)

        monkeypatch.setattr(Scan, "together", counted)
        return sizes

    def problem(self, wrap: Any = lambda f: f) -> StochasticProblem:
        """Logistic loss of the positives, subject to that of the negatives."""
        jnp = self.jax.numpy
        rng = np.random.default_rng(0)
        t = np.where(np.arange(300) % 2, 1.0, -1.0)
        A = rng.standard_normal((300, 4)) + 0.5 * t[:, None]
        return jax_problem(
            4,
            wrap(lambda x, b: 2.0 * jnp.mean((b[1] > 0) * jnp.logaddexp(0.0, -b[0] @ x))),
            constraints=lambda x, b: jnp.array([2.0 * jnp.mean((b[1] < 0) * jnp.logaddexp(0.0, b[0] @ x))]),
            lower=[-np.inf], upper=[0.5], data=(A, t), g=prox.L1(0.01),
        )  # fmt: skip

    @pytest.mark.parametrize(
        "method",
        [
            SGD(step=ConstantStep(0.2), batch=8, output="uniform"),
            PStorm(step=ConstantStep(0.2), batch=8),
            SVRG(step=ConstantStep(0.2), batch=8, period=15),
        ],
        ids=lambda m: m.name,
    )
    def test_results_are_those_one_by_one(self, method: Method, vmapped: list[int]) -> None:
        options: Any = {"method": method, "epochs": FixedEpochs(30, unit="iterations"), "tol": 1e-9, "max_outer": 3}
        p = self.problem()
        found = trials(p, np.ones(4), seeds=SEEDS, **options)
        assert vmapped
        assert set(vmapped) == {4}
        same(found, [minimize(p, np.ones(4), seed=seed, **options) for seed in SEEDS])
        assert np.abs(found[0].x - found[1].x).max() > 1e-6

    def test_trials_of_different_lengths_and_ends(self, vmapped: list[int]) -> None:
        # Algorithm 2 doubles T as each trial needs it, and some trials end long before others.
        options: Any = {"method": "svrg", "epochs": AdaptiveEpochs(4), "tol": 2e-3, "max_gradients": 400}
        p = self.problem()
        found = trials(p, seeds=iter(range(5)), **options)
        same(found, [minimize(p, seed=seed, **options) for seed in range(5)], rtol=1e-7)
        assert len({result.gradients for result in found}) > 1
        assert len(set(vmapped)) > 1

    def test_single_precision_is_the_callers(self) -> None:
        options: Any = {"method": "sgd", "epochs": FixedEpochs(8, unit="iterations"), "max_outer": 2, "tol": 1e-9}
        p = self.problem()
        double = trials(p, seeds=(0, 1), **options)
        with self.jax.enable_x64(False):
            single = trials(p, seeds=(0, 1), **options)
            same(single, [minimize(p, seed=seed, **options) for seed in (0, 1)], rtol=1e-4)
        assert 0.0 < np.abs(single[0].x - double[0].x).max() < 1e-4

    def test_functions_that_vmap_cannot_take_run_one_by_one(self, vmapped: list[int]) -> None:
        jax = self.jax

        def opaque(f: Any) -> Any:
            @jax.custom_jvp
            def scaled(value: Any) -> Any:
                return jax.pure_callback(lambda v: np.asarray(v), jax.ShapeDtypeStruct((), value.dtype), value)

            scaled.defjvp(lambda primals, tangents: (scaled(*primals), tangents[0]))
            # The gradient of the square needs the value, so that the callback is called; it has no rule for vmap.
            return lambda x, b: 0.5 * scaled(f(x, b)) ** 2

        options: Any = {"method": "sgd", "epochs": FixedEpochs(4, unit="iterations"), "max_outer": 2, "tol": 1e-9}
        options["check_means"] = False  # the square of a mean is none
        p = self.problem(opaque)
        same(trials(p, seeds=(0, 1), **options), [minimize(p, seed=seed, **options) for seed in (0, 1)])
        assert vmapped == [2]  # tried once

    def test_an_exception_in_one_trial_ends_all_and_is_raised(self) -> None:
        seen = []

        def callback(row: dict[str, Any]) -> None:
            seen.append(row["seed"])
            if row["seed"] == 1 and row["k"] == 2:
                raise ZeroDivisionError("mine")

        with pytest.raises(ZeroDivisionError, match="mine") as caught:
            trials(
                self.problem(), seeds=(0, 1, 2), method="sgd", epochs=FixedEpochs(4, unit="iterations"), tol=1e-9,
                max_outer=50, callback=callback,
            )  # fmt: skip
        assert caught.value.__notes__ == ["in the trial with seed 1"]
        assert len(seen) < 12

    def test_a_callback_stops_its_own_trial(self) -> None:
        found = trials(
            self.problem(), seeds=(0, 1), method="sgd", epochs=FixedEpochs(4, unit="iterations"), tol=1e-9,
            max_outer=3, callback=lambda row: row["seed"] == 0,
        )  # fmt: skip
        assert [result.status for result in found] == [Status.STOPPED, Status.ITERATION_LIMIT]

    @pytest.mark.parametrize("signalled", [True, False])
    def test_an_interrupt_ends_all_with_what_they_have(self, signalled: bool) -> None:
        def callback(row: dict[str, Any]) -> None:
            if row["seed"] == 1 and row["k"] == 2:
                if not signalled:
                    raise KeyboardInterrupt
                signal.raise_signal(signal.SIGINT)
                time.sleep(1.0)  # Python handles it in the main thread, when that gets to run

        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # other libraries may have left their own
        try:
            found = trials(
                self.problem(), seeds=(0, 1, 2), method="sgd", epochs=FixedEpochs(4, unit="iterations"), tol=1e-9,
                max_outer=1000, callback=callback,
            )  # fmt: skip
        finally:
            signal.signal(signal.SIGINT, before)
        assert [result.status for result in found] == [Status.INTERRUPTED] * 3
        assert all(1 <= result.nit <= 3 for result in found)


def test_other_problems_run_one_after_another() -> None:
    order: list[int] = []
    options: Any = {"method": "sgd", "max_epochs": 5, "tol": 1e-9, "backend": "numpy"}
    found = trials(two_classes(), seeds=(7, 2), callback=lambda row: order.append(row["seed"]), **options)
    same(found, [minimize(two_classes(), seed=seed, **options) for seed in (7, 2)])
    assert order == [7] * order.count(7) + [2] * order.count(2)


def test_an_interrupt_leaves_out_those_not_begun() -> None:
    def callback(row: dict[str, Any]) -> None:
        if row["seed"] == 1:
            raise KeyboardInterrupt

    found = trials(two_classes(), seeds=(0, 1, 2), method="sgd", max_epochs=5, backend="numpy", callback=callback)
    assert [result.seed for result in found] == [0, 1]
    assert found[1].status is Status.INTERRUPTED


def test_sizes_are_few() -> None:
    assert {_size(k, 20) for k in range(1, 21)} == {1, 2, 3, 5, 10, 20}
    assert all(_size(k, n) >= k for n in range(1, 30) for k in range(1, n + 1))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"seeds": 8}, r"seeds must be a sequence of integers such as range\(8\), got 8"),
        ({"seeds": []}, "seeds must have at least one entry, got none"),
        ({"seeds": [0, -1]}, "seed must be a nonnegative integer, got -1"),
        ({"seeds": [0], "callback": JsonLog("run.jsonl")}, "callback must be a function, got a JsonLog"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        trials(two_classes(), max_epochs=2, **options)
