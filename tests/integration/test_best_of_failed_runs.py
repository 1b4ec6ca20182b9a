"""An exception of a function of the data carries the best point so far, and a note that says where it was raised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from auglag import Status
from auglag.stochastic import FunctionBlock, StochasticProblem, minimize
from helpers.stochastic import least_squares_on_a_plane


class Crash(Exception):
    pass


def crashing(problem: StochasticProblem, after: int, where: str = "objective", **changes: Any) -> StochasticProblem:
    """The same problem, with a function that raises from its call number `after` on."""
    block = problem.blocks[0]
    assert isinstance(block, FunctionBlock)
    f, grad, c, _, jac = block.functions
    parts: dict[str, Any] = {"objective": f, "gradient": grad, "constraints": c, "jacobian": jac}
    calls = [0]
    whole = parts[where]

    def fails(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] >= after:
            raise Crash("out of memory")
        return whole(*args)

    parts[where] = fails
    made = FunctionBlock(block.n, block.m, **parts, **(changes or {"data": block.data}))
    return StochasticProblem([made], lower=problem.lower, upper=problem.upper)


PLANE, SOLUTION = least_squares_on_a_plane()


@pytest.mark.parametrize("method", ["lbfgs", "sgd", "svrg", "pstorm"])
@pytest.mark.parametrize("where", ["objective", "gradient", "constraints", "jacobian"])
def test_the_best_point_so_far_comes_with_an_exception(method: str, where: str) -> None:
    with pytest.raises(Crash) as caught:
        minimize(crashing(PLANE, 12, where), method=method, tol=1e-14)
    best = caught.value.best  # type: ignore[attr-defined]
    assert best.status is Status.STOPPED
    assert not best.success
    assert best.message.startswith("Stopped by an exception (Crash: out of memory). Residual ")
    assert best.certificate.residual == min(row["residual"] for row in best.trace)
    notes = caught.value.__notes__
    assert len(notes) == 1
    assert notes[0].startswith("raised by a function at x = array([")
    assert notes[0].endswith(" rows")


def test_before_the_first_test_there_is_no_best_point() -> None:
    with pytest.raises(Crash) as caught:
        minimize(crashing(PLANE, 1), method="lbfgs", check_derivatives=False)
    assert not hasattr(caught.value, "best")
    assert caught.value.__notes__[0].startswith("raised by a function at x = array([0., 0., 0., 0., 0.]), on a batch")


def test_a_point_that_cannot_be_measured_again_has_an_unknown_certificate() -> None:
    arrays: Any = PLANE.blocks[0].data  # type: ignore[attr-defined]

    def sampler(rng: np.random.Generator, size: int) -> Any:
        pick = rng.integers(0, len(arrays[1]), size)
        return tuple(part[pick] for part in arrays)

    with pytest.raises(Crash) as caught:
        minimize(crashing(PLANE, 200, sampler=sampler), method="sgd", test_rows=100, tol=1e-9, max_outer=20)
    best = caught.value.best  # type: ignore[attr-defined]
    assert math.isnan(best.certificate.residual)
    assert not best.success
    assert np.isfinite(best.x).all()


@pytest.mark.parametrize(
    ("method", "calls", "note"),
    [("lbfgs", 15, "a batch of 3 rows, in a full-batch test"), ("adam", 300, "a batch of 2 rows, in a sampled step")],
)
def test_the_best_parameters_come_with_an_exception_and_the_model_is_as_it_was(
    method: str, calls: int, note: str
) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")
    from auglag.torch import at_most, fit

    data = torch.tensor([[3.0, 1.0], [1.0, 3.0], [2.0, 2.5]], dtype=torch.float64)
    model = torch.nn.Linear(1, 2, bias=False).double()
    torch.nn.init.constant_(model.weight, -5.0)
    made = [0]

    def objective(model: Any, batch: Any) -> Any:
        made[0] += 1
        if made[0] > calls and (model.training or method == "lbfgs"):
            raise Crash("out of memory")
        return ((model.weight[:, 0] - batch) ** 2).mean()

    limits = {"sum": at_most(1.0, lambda model, batch: model.weight.sum())}
    batch = {} if method == "lbfgs" else {"batch": 2}
    with pytest.raises(Crash) as caught:
        fit(model, objective, limits, data, method=method, tol=1e-14, **batch)
    best = caught.value.best  # type: ignore[attr-defined]
    assert best.message.startswith("Stopped by an exception (Crash: out of memory). Residual ")
    assert not best.success
    assert best.certificate.residual == pytest.approx(min(row["residual"] for row in best.trace))
    assert best.certificate.residual < best.trace[0]["residual"]
    assert set(best.constraints) == set(best.multipliers) == {"sum"}
    assert caught.value.__notes__ == [f"raised by a function of the model on {note}"]
    assert (model.weight == -5.0).all()
    assert not (best.x == -5.0).any()
