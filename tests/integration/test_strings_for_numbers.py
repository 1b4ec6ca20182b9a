"""Strings, dates and None where numbers belong: an error that names argument, demand and value, everywhere alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, NonlinearConstraint

import auglag
from auglag import InputError, OptionError, prox
from auglag.stochastic import SGD, LinearBlock, SingleLoop, StochasticProblem, jax_problem
from auglag.stochastic import minimize as stochastic_minimize


def f(x: Any) -> Any:
    return x @ x


def solve(**given: Any) -> Any:
    return auglag.minimize(f, given.pop("x0", [1.0, 2.0]), **given)


def _mean(**more: Any) -> StochasticProblem:
    return StochasticProblem.from_functions(
        more.pop("n", 1), lambda x, s: 0.5 * np.mean((x - s) ** 2), lambda x, s: np.mean(x - s, axis=0),
        **{"data": np.ones((3, 1)), **more},
    )  # fmt: skip


CALLS: list[tuple[str, Any]] = [
    ("x0", lambda bad: solve(x0=bad)),
    ("bounds", lambda bad: solve(bounds=Bounds(bad, 1.0))),
    ("bounds", lambda bad: solve(bounds=[(bad[0], 1.0), (0.0, None)])),
    ("constraints", lambda bad: solve(constraints=NonlinearConstraint(lambda x: x, bad, 1.0))),
    ("constraints", lambda bad: solve(constraints={"type": "eq", "fun": lambda x: bad})),
    ("fun", lambda bad: auglag.minimize(lambda x: bad[0], [1.0])),
    ("jac", lambda bad: solve(jac=lambda x: bad)),
    ("x_scale", lambda bad: solve(x_scale=bad)),
    ("noise", lambda bad: solve(noise={"fun": bad})),
    ("rel_step", lambda bad: solve(finite_diff_rel_step=bad)),
    ("warm_start", lambda bad: solve(warm_start=(bad, None))),
    ("multipliers", lambda bad: auglag.certify(f, [1.0, 2.0], constraints={"type": "eq", "fun": f}, multipliers=bad)),
    ("x", lambda bad: auglag.certify(f, bad)),
    ("x0", lambda bad: auglag.least_squares(lambda x: x, bad)),
    ("L1.weight", prox.L1),
    ("Box.lower", prox.Box),
    ("L2Ball.center", lambda bad: prox.L2Ball(1.0, bad)),
    ("Simplex.total", prox.Simplex),
    ("x0", lambda bad: stochastic_minimize(_mean(), bad)),
    ("y0", lambda bad: stochastic_minimize(_mean(), y0=bad)),
    ("x0", lambda bad: _mean(x0=bad)),
    ("lower", lambda bad: _mean(lower=bad, upper=[1.0, 1.0])),
    ("lower", lambda bad: jax_problem(2, f, data=np.ones(3), lower=bad, upper=bad)),
    ("A", lambda bad: LinearBlock([bad], [1.0])),
    ("target", lambda bad: LinearBlock([[1.0]], bad[:1])),
]


@pytest.mark.parametrize("bad", [["1", "2"], [b"1", b"2"], ["1", 2.0], [None, 1.0], np.array(["2026-11-19"] * 2, "M8")])
@pytest.mark.parametrize(("name", "call"), CALLS)
def test_no_string_is_a_number(name: str, call: Any, bad: Any) -> None:
    if name == "bounds" and not isinstance(bad[0], str | bytes):
        pytest.skip("None is no bound, and a single date is not seen to be one")
    with pytest.raises(InputError, match="number") as caught:
        call(bad)
    assert name.split(".")[0] in str(caught.value)


@pytest.mark.parametrize("bad", ["1", ["1", "2"], None])
def test_no_string_is_a_side_of_a_torch_constraint(bad: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")
    import auglag.torch as at

    for make in (at.at_most, at.at_least, at.equal, at.Box):
        with pytest.raises(InputError, match="must be an array of numbers"):
            make(bad)
    with pytest.raises(OptionError, match=r"SingleLoop\(\) has no argument 'step'; did you mean 'steps'"):
        at.SingleLoop(torch.nn.Linear(1, 1), {}, step=10)


@pytest.mark.parametrize("data", [[[1.0], [2.0]], [1.0, 2.0], "abc", ["a", "b"], [None]])
def test_lists_of_numbers_are_no_rows(data: Any) -> None:
    with pytest.raises(InputError, match=r"data must be an array, or a tuple .* np\.asarray makes an array of a list"):
        _mean(data=data)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _mean(n="1"), "n must be a positive integer, got '1'"),
        (lambda: _mean(n=1.0), "n must be a positive integer, got 1.0"),
        (lambda: stochastic_minimize(_mean(), seed=True), "seed must be a nonnegative integer, got True"),
        (lambda: stochastic_minimize(_mean(), test_rows=99), "test_rows must be an integer of at least 100, got 99"),
        (lambda: stochastic_minimize(_mean(), method=SGD(batch="8")), "batch must be a positive integer, got '8'"),
        (lambda: SingleLoop(batch=0), "SingleLoop.batch must be a positive integer or None, got 0"),
        (lambda: auglag.Budget(outer=2.0), "Budget.outer must be a positive integer or None, got 2.0"),
        (lambda: solve(restarts=-1), "restarts must be a nonnegative integer, got -1"),
        (lambda: prox.NuclearNorm((2, "3")), "NuclearNorm.shape must be a positive integer, got '3'"),
    ],
)
def test_integers_are_asked_for_in_one_way(call: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["stepp", "learning_rate"])
def test_misspelt_fields_of_methods_are_named(name: str) -> None:
    with pytest.raises(OptionError, match=rf"SGD\(\) has no argument {name!r}"):
        SGD(**{name: 0.1})


def test_row_with_nan_is_named() -> None:
    data = np.ones((400, 1))
    data[[17, 300]] = np.nan
    with pytest.raises(InputError, match="must be finite at x0") as caught:
        stochastic_minimize(_mean(data=data))
    assert caught.value.__notes__ == ["row 17 of the data has NaN or infinite entries (the first of 2 such rows)"]


def test_row_with_infinity_is_named_in_training() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")
    from auglag.torch import fit

    rows = torch.randn(300, 3)
    rows[33, 1] = torch.inf
    for method in ("lbfgs", "single-loop"):
        with pytest.raises(InputError, match="must be finite") as caught:
            fit(torch.nn.Linear(3, 1), lambda m, b: m(b).square().mean(), {}, rows, method=method, max_epochs=5)
        assert caught.value.__notes__[-1] == "row 33 of the data has NaN or infinite entries"
