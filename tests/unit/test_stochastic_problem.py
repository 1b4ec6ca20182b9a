"""Stochastic problems: means over blocks, full-batch views in chunks, and bad input that is named."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.stochastic import least_squares_on_a_plane, two_classes

from auglag import InputError
from auglag.datasets import load_spambase
from auglag.stochastic import (
    LOSSES,
    SGD,
    FixedEpochs,
    FullBatchProblem,
    FunctionBlock,
    LinearBlock,
    StochasticProblem,
    minimize,
    neyman_pearson,
)
from auglag.stochastic import data as data_module
from auglag.stochastic.tuning import TUNING


def mean_problem(**changes: object) -> StochasticProblem:
    """min mean (x - a)^2 / 2 s.t. mean (x - b) <= 0."""
    arguments: dict = {
        "data": (np.arange(10.0)[:, None], np.ones((10, 1))),
        "constraints": lambda x, z: np.mean(x - z[1], axis=0),
        "vjp": lambda x, z, w: w,
        "lower": [-np.inf],
        "upper": [0.0],
    } | changes
    return StochasticProblem.from_functions(
        1, lambda x, z: 0.5 * np.mean((x - z[0]) ** 2), lambda x, z: np.mean(x - z[0], axis=0), **arguments
    )


def test_full_batch_values_are_means_over_all_rows_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = two_classes(rows=2000)
    x = np.linspace(-1, 1, 6)
    whole = problem.evaluate(x)
    plus, minus = (block.A for block in problem.linear)
    assert whole.f == pytest.approx(np.mean(np.log1p(np.exp(-plus @ x))), rel=1e-13)
    assert whole.c[0] == pytest.approx(np.mean(np.log1p(np.exp(minus @ x))), rel=1e-13)
    monkeypatch.setattr(data_module, "TUNING", replace(TUNING, chunk_bytes=1))
    parts = problem.evaluate(x)
    np.testing.assert_allclose(parts.grad, whole.grad, rtol=1e-12)
    np.testing.assert_allclose(parts.jac, whole.jac, rtol=1e-12)


def test_data_on_disk_gives_the_same_values_as_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5000, 4))
    A.tofile(tmp_path / "rows.bin")
    mapped = np.memmap(tmp_path / "rows.bin", dtype=np.float64, mode="r", shape=A.shape)
    x = rng.standard_normal(4)
    there, here = LinearBlock(mapped, objective=1.0).evaluate(x), LinearBlock(A, objective=1.0).evaluate(x)
    assert there.f == here.f
    np.testing.assert_array_equal(there.grad, here.grad)


def test_classes_keep_the_mean_over_all_rows() -> None:
    labels = np.array([0] * 7 + [1] * 3)
    x = np.array([0.3])
    together, apart = mean_problem().evaluate(x), mean_problem(classes=labels).evaluate(x)
    assert len(mean_problem(classes=labels).blocks) == 2
    assert apart.f == pytest.approx(together.f, rel=1e-14)
    np.testing.assert_allclose(apart.c, together.c, atol=1e-14)


def test_gradients_are_derivatives_of_values() -> None:
    problem, x, h = two_classes(), np.linspace(-0.5, 0.5, 6), 1e-6
    at = problem.evaluate(x)
    for j in range(6):
        e = np.zeros(6)
        e[j] = h
        up, down = problem.evaluate(x + e), problem.evaluate(x - e)
        assert at.grad[j] == pytest.approx((up.f - down.f) / (2 * h), rel=1e-6, abs=1e-9)
        assert at.jac[0, j] == pytest.approx((up.c[0] - down.c[0]) / (2 * h), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_slopes_of_losses_are_their_derivatives_and_extreme_margins_do_not_overflow(loss: object) -> None:
    z, t = np.linspace(-5, 5, 41), np.where(np.arange(41) % 2, 1.0, -1.0)
    slope = (loss.value(z + 1e-6, t) - loss.value(z - 1e-6, t)) / 2e-6
    np.testing.assert_allclose(loss.slope(z, t), slope, atol=1e-8)
    bend = (loss.slope(z + 1e-6, t) - loss.slope(z - 1e-6, t)) / 2e-6
    assert (loss.curvature(z, t) >= 0).all()
    np.testing.assert_allclose(loss.curvature(z, t), np.abs(bend), atol=1e-8)
    if loss.name != "squared":
        assert np.isfinite(loss.value(np.array([-800.0, 800.0]), np.ones(2))).all()


def test_a_deterministic_constraint_beside_a_stochastic_objective_costs_no_rows() -> None:
    rng = np.random.default_rng(3)
    A = rng.standard_normal((200, 3)) + 1.0
    ball = FunctionBlock(
        3, 1, constraints=lambda x, z: [x @ x], jacobian=lambda x, z: 2 * x[None, :], exact=True
    )  # fmt: skip
    loss = LinearBlock(A, 1.0, objective=1.0, constraints=[0.0])
    problem = StochasticProblem([loss, ball], lower=[-np.inf], upper=[0.25])
    assert problem.rows == 200
    result = minimize(problem, tol=1e-6)
    assert result.success
    assert result.x @ result.x == pytest.approx(0.25, abs=1e-6)
    assert result.multipliers[0] > 0


def test_a_full_batch_problem_is_an_ordinary_problem() -> None:
    import auglag

    problem, solution = least_squares_on_a_plane()
    result = auglag.minimize(FullBatchProblem(problem, np.zeros(5)))
    assert result.success
    np.testing.assert_allclose(result.x, solution[:5], atol=1e-6)
    np.testing.assert_allclose(result.y, solution[5:], atol=1e-6)


def test_spambase_is_what_it_should_be() -> None:
    data = load_spambase()
    assert data.X.shape == (4601, 57)
    assert data.y.sum() == 1813
    assert len(data.feature_names) == 57
    assert "CC BY 4.0" in data.attribution


# ------------------------------------------------------------------------------------------------------------ bad input


def test_an_empty_class_is_named() -> None:
    data = load_spambase()
    with pytest.raises(InputError, match="y must have two classes, got 1"):
        neyman_pearson(data.X, np.ones(4601), chat=0.6)
    few = np.zeros(20)
    few[0] = 1
    with pytest.raises(InputError, match=r"both classes must have rows in the (test|training) part, got an empty pos"):
        neyman_pearson(data.X[:20], few, chat=0.6)


def test_a_nan_feature_is_named_with_row_and_column() -> None:
    X = np.ones((10, 3))
    X[4, 1] = np.nan
    with pytest.raises(InputError, match="X must be finite, got nan in row 4, column 1"):
        neyman_pearson(X, np.arange(10) % 2, chat=0.6)
    with pytest.raises(InputError, match="A must be finite, got nan in row 4, column 1"):
        LinearBlock(X, objective=1.0)


def test_an_unattainable_chat_is_refused_with_the_least_loss() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))  # symmetric: no halfspace separates the negatives from the origin
    with pytest.raises(InputError, match=r"chat = 0\.3 is not attainable: .* below about 0\.\d+"):
        neyman_pearson(X, np.arange(400) % 2, chat=0.3, standardise=False)
    with pytest.raises(InputError, match="chat must be positive and finite, got -1"):
        neyman_pearson(X, np.arange(400) % 2, chat=-1)


def test_a_batch_larger_than_the_data_is_refused_when_replacement_is_off() -> None:
    with pytest.raises(InputError, match="batch must not exceed the rows of a block when replacement is off: got 400"):
        minimize(two_classes(rows=300), method=SGD(batch=400, replacement=False), tol=1e-2)


def test_a_constraint_function_of_the_wrong_length_is_named() -> None:
    problem = mean_problem(constraints=lambda x, z: np.zeros(2))
    with pytest.raises(
        InputError, match=r"constraints\(x, batch\) must return 1 numbers, one per constraint, got shape"
    ):
        minimize(problem, method="sgd")


def test_an_iterator_that_ends_is_reported_as_such() -> None:
    rows = np.ones((8, 1))
    problem = mean_problem(data=None, batches=itertools.repeat((rows, rows), 60))
    with pytest.raises(InputError, match="batches must not end before the run does: the iterator is exhausted"):
        minimize(problem, method="sgd", test_rows=100)


def test_a_sampler_that_ends_is_reported_as_such() -> None:
    rows = np.ones((8, 1))
    source = itertools.repeat((rows, rows), 60)
    problem = mean_problem(data=None, sampler=lambda rng, size: next(source))
    with pytest.raises(InputError, match=r"sampler\(rng, size\) must not end before the run does: it raised StopIter"):
        minimize(problem, method="sgd", test_rows=100)


def test_the_certificate_of_an_iterator_counts_the_rows_it_gave() -> None:
    rng = np.random.default_rng(0)
    batches = (tuple(rng.standard_normal((2, 7, 1))) for _ in itertools.count())
    result = minimize(mean_problem(data=None, batches=batches), method="sgd", tol=1e-6, test_rows=400, max_epochs=5)
    assert result.certificate.rows == 7 * 40


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_a_product_of_the_wrong_length_is_named(shape: tuple[int, ...]) -> None:
    block = FunctionBlock(
        2, 1, constraints=lambda x, z: [x @ x], vjp=lambda x, z, w: np.ones(shape), data=np.ones((4, 1))
    )
    with pytest.raises(InputError, match=r"vjp\(x, batch, w\) must return 2 numbers, one per variable, got shape"):
        block.evaluate(np.ones(2))


@pytest.mark.parametrize("value", [np.ones(3), "text", None])
def test_an_objective_that_is_no_number_is_named(value: object) -> None:
    block = FunctionBlock(2, objective=lambda x, z: value, gradient=lambda x, z: x, data=np.ones((4, 1)))
    with pytest.raises(InputError, match=r"objective\(x, batch\) must .*number.*, got"):
        block.evaluate(np.ones(2))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"lower": [1.0]}, r"lower must not exceed upper, got lower\[0\] = 1.0"),
        ({"upper": [0.0, 1.0]}, "lower and upper must be vectors of one length"),
        ({"vjp": None}, "constraints and vjp or jacobian must be given together"),
        ({"data": None, "batches": [np.ones(1)]}, r"batches must be an iterator \(have __next__\), got list"),
        ({"data": None}, "exactly one of data, sampler, batches or exact=True, got 0"),
        (
            {"data": (np.ones((3, 1)), np.ones((4, 1)))},
            r"must be arrays that share their first axis, got lengths \[3, 4\]",
        ),
        ({"data": (np.ones((0, 1)), np.ones((0, 1)))}, "must have at least one row"),
        ({"classes": [1, 2]}, r"classes must have one label per row of data, 10, got shape \(2,\)"),
        ({"names": ["a", "b"]}, "names must have one entry per constraint, 1, got 2"),
    ],
)
def test_bad_problems_are_refused_by_name(changes: dict, text: str) -> None:
    with pytest.raises(InputError, match=text):
        mean_problem(**changes)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tol": 0.0}, "tol must be positive and finite, got 0.0"),
        ({"seed": -1}, "seed must be a nonnegative integer, got -1"),
        ({"x0": [1.0]}, "x0 must have 6 entries"),
        ({"x0": [np.nan] * 6}, "x0 must be finite"),
        ({"y0": [1.0, 2.0]}, "y0 must be 1 finite numbers"),
        ({"method": "sgdd"}, "method must be one of"),
        ({"method": 3}, "method must be a name or a Method object, got 3"),
        ({"variant": "full"}, "variant must be one of"),
        ({"preset": "papr"}, "preset must be one of"),
        ({"epochs": 2.5, "method": "sgd"}, "epochs must be AdaptiveEpochs"),
        ({"epochs": FixedEpochs(5)}, "epochs is for sampled methods"),
        ({"epochs": 3, "method": "sgd"}, r"passes of the whole run are max_epochs=\), got 3"),
        ({"max_outer": 0.5}, "max_outer must be a positive integer or None, got 0.5"),
        ({"max_epochs": -2}, "max_epochs must be positive and finite, got -2"),
        ({"backend": "cuda", "method": "sgd"}, "backend must be 'auto', 'numba', 'jax' or 'numpy', got 'cuda'"),
        ({"slacks": "closed", "method": "sgd"}, "makes sampled gradients biased"),
        ({"slacks": "closed", "method": "svrg"}, "makes sampled gradients biased"),
        ({"method": SGD(batch=True)}, "batch must be a positive integer, got True"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict, text: str) -> None:
    from auglag import OptionError

    with pytest.raises((InputError, OptionError), match=text):
        minimize(two_classes(), **options)


def test_the_norms_of_the_rows_come_with_the_first_evaluation() -> None:
    """The first curvature needs them, and must not read all rows once more without counting them."""
    problem = two_classes()
    problem.evaluate(np.zeros(6))
    for block in problem.linear:
        A, block.A = block.A, None
        np.testing.assert_allclose(block.squares(), np.sum(A**2, axis=1))


def bad_batches(bad: Callable[[np.ndarray], bool], cap: float = 0.1) -> StochasticProblem:
    """Least squares with one constraint, whose value is NaN on batches of which `bad` is true."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 3))

    def constraint(x: np.ndarray, rows: np.ndarray) -> list[float]:
        return [np.nan if bad(rows) else float(np.mean(rows @ x))]

    block = FunctionBlock(
        3,
        1,
        objective=lambda x, rows: 0.5 * float(np.mean((rows @ x - 1.0) ** 2)),
        gradient=lambda x, rows: (rows @ x - 1.0) @ rows / len(rows),
        constraints=constraint,
        jacobian=lambda x, rows: rows.mean(axis=0)[None],
        data=A,
    )
    return StochasticProblem([block], lower=[-np.inf], upper=[cap], names=["mean"])


@pytest.mark.parametrize("method", ["sgd", "pstorm", "svrg"])
def test_a_batch_that_is_not_finite_where_the_whole_is_is_named(method: str) -> None:
    problem = bad_batches(lambda rows: len(rows) < 150 and bool((rows[:, 0] > 1.5).any()))
    with pytest.raises(InputError, match=r"constraint 'mean' must be finite on every batch, .* all rows are finite"):
        minimize(problem, np.zeros(3), method=method, max_epochs=20, check_derivatives=False)


def test_what_is_not_finite_at_the_start_is_named() -> None:
    with pytest.raises(InputError, match="constraint 'mean' must be finite at x0"):
        minimize(bad_batches(lambda rows: True), np.zeros(3), check_derivatives=False)


def test_a_violated_constraint_that_does_not_depend_on_x_is_named() -> None:
    zero = FunctionBlock(
        3, 1, constraints=lambda x, batch: [0.7], jacobian=lambda x, batch: np.zeros((1, 3)), exact=True
    )
    objective = FunctionBlock(
        3,
        objective=lambda x, rows: 0.5 * float(np.mean((rows @ x - 1.0) ** 2)),
        gradient=lambda x, rows: (rows @ x - 1.0) @ rows / len(rows),
        data=np.random.default_rng(0).standard_normal((200, 3)),
    )
    result = minimize(
        StochasticProblem([objective, zero], lower=[-np.inf], upper=[0.1], names=["cap"]), np.zeros(3), max_epochs=20
    )
    assert not result.success
    assert "another way to compute 'cap'" in result.advice[0]
