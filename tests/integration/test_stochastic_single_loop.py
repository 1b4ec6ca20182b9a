"""`auglag.stochastic.minimize(method="single-loop")`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auglag import InputError, prox
from auglag.stochastic import FunctionBlock, LinearBlock, SingleLoop, StochasticProblem, jax_problem, minimize

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3000, 6))
T = np.where(A.sum(1) + RNG.standard_normal(3000) > 0, 1.0, -1.0)


def two_classes(f: float = 1.0, c: float = 1.0, bound: float = 0.4, **options: Any) -> StochasticProblem:
    """Logistic losses of two classes, in units f and c."""
    blocks = [
        LinearBlock(A[T > 0], 1.0, loss="logistic", objective=f, constraints=[0.0]),
        LinearBlock(A[T < 0], -1.0, loss="logistic", objective=0.0, constraints=[c]),
    ]
    return StochasticProblem(blocks, lower=[-np.inf], upper=[c * bound], **options)


def test_a_few_passes_come_close_and_full_batches_reach_tol() -> None:
    few = minimize(two_classes(), method="single-loop", max_epochs=4)
    assert few.certificate.residual < 0.08
    done = minimize(two_classes(), method="single-loop", tol=1e-7)
    assert done.success
    assert done.method == "single-loop"
    exact = minimize(two_classes(), method="gauss-newton", tol=1e-8)
    assert done.x == pytest.approx(exact.x, abs=1e-5)
    assert done.multipliers == pytest.approx(exact.multipliers, abs=1e-5)


def test_its_path_is_the_same_in_any_units_of_f_and_c() -> None:
    plain = minimize(two_classes(), method="single-loop", max_epochs=3)
    scaled = minimize(two_classes(1e3, 1e-4), method="single-loop", max_epochs=3)
    assert scaled.x == pytest.approx(plain.x, rel=1e-6)
    assert scaled.multipliers * 1e-7 == pytest.approx(plain.multipliers, rel=1e-5)


def test_functions_equalities_prox_terms_and_exact_blocks() -> None:
    points = RNG.standard_normal((500, 2)) + 2.0
    mean = FunctionBlock(
        2, 1, objective=lambda x, b: 0.5 * float(((x - b) ** 2).sum(1).mean()), gradient=lambda x, b: x - b.mean(0),
        data=points,
    )  # fmt: skip
    line = FunctionBlock(
        2, 1, constraints=lambda x, b: np.array([x.sum()]), jacobian=lambda x, b: np.ones((1, 2)), exact=True
    )
    boxed = StochasticProblem([mean, line], lower=[1.0], upper=[1.0], g=prox.Box(np.zeros(2), np.full(2, 0.2)))
    problem = StochasticProblem([mean, line], lower=[1.0], upper=[1.0])
    few = minimize(problem, method=SingleLoop(batch=20), max_epochs=10, tol=1e-3)
    assert few.certificate.violation < 2e-2
    assert few.certificate.residual < 0.05
    assert minimize(problem, method="single-loop", tol=1e-6).success
    sparse = StochasticProblem([mean, line], lower=[1.0], upper=[1.0], g=prox.L1(0.1))
    assert minimize(sparse, method="single-loop", tol=1e-5).success
    stopped = minimize(boxed, method="single-loop", max_epochs=5)  # no feasible point: the box is kept
    assert (stopped.x <= 0.2).all()


def test_it_resumes_bit_for_bit(tmp_path: Path) -> None:
    path, calls = tmp_path / "run.npz", 0
    whole = minimize(two_classes(), method="single-loop", tol=1e-7, seed=3)

    class Killed(Exception):
        pass

    block = two_classes().blocks[0]
    kind = type(block)
    plain = kind.gradient

    def dying(self: Any, x: Any, batch: Any, w: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 700:  # after the first pass, at whose end the state is saved
            raise Killed
        return plain(self, x, batch, w)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "gradient", dying)
        with pytest.raises(Killed):
            minimize(two_classes(), method="single-loop", tol=1e-7, seed=3, checkpoint=path)
    resumed = minimize(two_classes(), method="single-loop", tol=1e-7, seed=3, resume=path)
    assert resumed.x.tolist() == whole.x.tolist()
    assert resumed.epochs == whole.epochs


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match=r"SingleLoop.rate must be positive"):
        SingleLoop(rate=-1.0)
    with pytest.raises(InputError, match=r"SingleLoop.batch must be a positive integer"):
        SingleLoop(batch=0)
    block = FunctionBlock(
        2, 1, objective=lambda x, b: float(x @ x), gradient=lambda x, b: 2 * x, constraints=lambda x, b: np.ones(1),
        jacobian=lambda x, b: np.zeros((1, 2)), data=RNG.standard_normal((100, 2)),
    )  # fmt: skip
    constant = StochasticProblem([block], lower=[-np.inf], upper=[0.0], names=["load"])
    with pytest.raises(InputError, match="constraint 'load' must change with x"):
        minimize(constant, method="single-loop", x0=[1.0, 1.0])
    broken = FunctionBlock(
        1, 0, objective=lambda x, b: float(x[0] * b.mean()), gradient=lambda x, b: np.array([b.mean()]),
        data=np.where(np.arange(200) == 150, np.nan, 1.0),
    )  # fmt: skip
    with pytest.raises(InputError, match=r"must be finite on every batch, got NaN or inf at step"):
        minimize(StochasticProblem([broken]), method="single-loop", x0=[1.0], check_derivatives=False)


def test_rows_that_most_batches_lack_are_not_called_constant() -> None:
    # 40 groups of 10 rows, batches of 4: most of them have no row of a group.
    group = np.arange(400) % 40

    def shares(x: np.ndarray, batch: np.ndarray) -> np.ndarray:
        return np.bincount(batch[:, 2].astype(int), minlength=40) / len(batch)

    rows = np.column_stack([RNG.standard_normal((400, 2)), group])
    block = FunctionBlock(
        2, 40, objective=lambda x, b: 0.5 * float(((x - b[:, :2]) ** 2).sum(1).mean()),
        gradient=lambda x, b: x - b[:, :2].mean(0), constraints=lambda x, b: x.sum() * shares(x, b),
        jacobian=lambda x, b: np.outer(shares(x, b), np.ones(2)), data=rows,
    )  # fmt: skip
    problem = StochasticProblem([block], lower=[-np.inf] * 40, upper=[1.0] * 40)
    result = minimize(problem, method=SingleLoop(batch=4), max_epochs=1.2)
    assert result.certificate.violation < 0.1


WEIGHTS = np.array([1.0, -2.0, 0.5])


def regression(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    rows = rng.standard_normal((size, 3))
    return rows, rows @ WEIGHTS + 0.3 * rng.standard_normal(size)


def test_a_sampler_is_certified_on_a_fresh_sample() -> None:
    problem = StochasticProblem.from_functions(
        3, lambda x, z: 0.5 * np.mean((z[0] @ x - z[1]) ** 2), lambda x, z: z[0].T @ (z[0] @ x - z[1]) / len(z[1]),
        constraints=lambda x, z: np.array([np.mean((z[0] @ x) ** 2)]),
        jacobian=lambda x, z: 2.0 * (z[0].T @ (z[0] @ x))[None] / len(z[1]), sampler=regression, lower=[-np.inf],
        upper=[2.0],
    )  # fmt: skip
    result = minimize(problem, np.ones(3), method="single-loop", tol=0.05, max_epochs=60)
    assert result.success
    assert result.estimated
    shrunk = WEIGHTS * np.sqrt(2.0 / (WEIGHTS @ WEIGHTS))  # the covariance is the identity
    assert result.x == pytest.approx(shrunk, abs=0.03)


def test_jax_functions_do_as_well() -> None:
    jax = pytest.importorskip("jax", reason="needs JAX: pip install 'auglag[jax]'")
    jnp = jax.numpy
    problem = jax_problem(
        3, lambda x, z: 0.5 * jnp.mean((z[0] @ x - z[1]) ** 2),
        constraints=lambda x, z: jnp.array([jnp.mean((z[0] @ x) ** 2)]), lower=[-np.inf], upper=[2.0],
        data=regression(np.random.default_rng(1), 2000),
    )  # fmt: skip
    assert minimize(problem, np.ones(3), method="single-loop", tol=1e-4).success
