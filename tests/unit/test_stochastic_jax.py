"""JAX functions: gradients for free, the same iterates as NumPy, Gauss-Newton curvature from a model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.helpers.stochastic import two_classes

from auglag import InputError, prox
from auglag.certificate import certificate
from auglag.stochastic import (
    SGD,
    SVRG,
    ConstantStep,
    DistanceOverGradients,
    FixedEpochs,
    FullBatchProblem,
    Method,
    PStorm,
    StochasticProblem,
    jax_problem,
    minimize,
)
from auglag.stochastic.fused import Backend

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def problem(*, model: bool = False, g: object = None) -> StochasticProblem:
    """Logistic loss of the positives, subject to that of the negatives."""
    rng = np.random.default_rng(0)
    A = np.hstack([rng.standard_normal((300, 4)), np.ones((300, 1))])
    t = np.where(np.arange(300) % 2, 1.0, -1.0)
    A[:, :4] += 0.5 * t[:, None]

    def objective(z: object, batch: object) -> object:
        return 2.0 * jnp.mean((batch[1] > 0) * jnp.logaddexp(0.0, -z))

    def constraints(z: object, batch: object) -> object:
        return jnp.array([2.0 * jnp.mean((batch[1] < 0) * jnp.logaddexp(0.0, z))])

    sides = {"lower": [-np.inf], "upper": [0.4], "data": (A, t), "g": g}
    if model:
        return jax_problem(5, objective, constraints=constraints, predict=lambda x, b: b[0] @ x, **sides)
    return jax_problem(
        5, lambda x, b: objective(b[0] @ x, b), constraints=lambda x, b: constraints(b[0] @ x, b), **sides
    )


def test_gradients_are_those_of_the_formula() -> None:
    x, p = np.linspace(-1, 1, 5), problem()
    A, t = p.blocks[0].data
    at, plus, minus = p.evaluate(x), A[t > 0], A[t < 0]
    np.testing.assert_allclose(at.grad, -(1 / (1 + np.exp(plus @ x))) @ plus / 150, rtol=1e-10)
    np.testing.assert_allclose(at.jac[0], (1 / (1 + np.exp(-minus @ x))) @ minus / 150, rtol=1e-10)


def test_what_is_certified_is_evaluated_in_double_precision() -> None:
    x, p = np.linspace(-1, 1, 5), problem()
    double = p.evaluate(x)
    with jax.enable_x64(False):
        at, result = problem().evaluate(x), minimize(problem(), tol=3e-6, max_epochs=400)
        sampled = p.blocks[0].gradient(x, p.blocks[0].take(slice(0, 300)), np.zeros(1))
    np.testing.assert_allclose(at.grad, double.grad, rtol=1e-12)
    np.testing.assert_allclose(at.jac, double.jac, rtol=1e-12)
    assert np.abs(sampled - double.grad).max() > 1e-10  # the sampled half stays in single precision
    again = certificate(FullBatchProblem(p, result.x), result.x, result.multipliers)
    assert again.residual == pytest.approx(result.certificate.residual, rel=1e-6)


def test_functions_that_insist_on_single_precision_are_refused() -> None:
    def objective(x: object, batch: object) -> object:
        return jax.lax.scan(lambda s, a: (s + a @ x, None), jnp.zeros((), jnp.float32), batch)[0]

    with jax.enable_x64(False):
        p = jax_problem(2, objective, data=np.ones((3, 2), dtype=np.float32))
        with pytest.raises(InputError, match="must also run in double precision, which certificates need, got TypeErr"):
            p.evaluate(np.ones(2))


@pytest.mark.parametrize(
    "method",
    [
        SGD(step=ConstantStep(0.2), batch=8),
        SGD(step=DistanceOverGradients(), batch=8, output="uniform"),
        SGD(step=ConstantStep(0.2), batch=8, output="tail"),
        PStorm(step=ConstantStep(0.2), batch=8),
        SVRG(step=ConstantStep(0.2), batch=8, period=15),
    ],
    ids=lambda m: f"{m.name}-{m.output}-{type(m.step).__name__}",
)
def test_scans_and_numpy_give_the_same_iterates(method: Method) -> None:
    p = problem(g=prox.L1(0.01))
    assert Backend("auto", p).kind == "jax"
    short = FixedEpochs(30, unit="iterations")
    found = [
        minimize(p, np.ones(5), method=method, epochs=short, tol=1e-9, max_outer=3, seed=2, backend=backend)
        for backend in ("numpy", "jax")
    ]
    assert found[0].gradients == found[1].gradients
    rows = [[(row["objective"], row["residual"]) for row in result.trace] for result in found]
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-9, atol=1e-11)


def test_a_model_with_losses_gets_gauss_newton_and_agrees_with_lbfgs() -> None:
    newton, lbfgs = minimize(problem(model=True), tol=1e-8), minimize(problem(), tol=1e-8)
    assert (newton.method, lbfgs.method) == ("gauss-newton", "lbfgs")
    assert newton.success
    assert lbfgs.success
    np.testing.assert_allclose(newton.x, lbfgs.x, atol=1e-6)
    assert newton.epochs < lbfgs.epochs


def test_a_backend_that_cannot_do_it_is_refused() -> None:
    with pytest.raises(InputError, match="backend='numba' needs linear blocks"):
        minimize(problem(), method="sgd", backend="numba")
    with pytest.raises(InputError, match="backend='jax' needs JAX blocks"):
        minimize(two_classes(), method="sgd", backend="jax")
