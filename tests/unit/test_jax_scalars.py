"""Functions written out number by number say the same as the functions themselves."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402

from auglag.jax.folding import NotScalar  # noqa: E402
from auglag.jax.scalars import scalarised  # noqa: E402
from auglag.jax.vectors import Rows, clip, norm, total, where  # noqa: E402


def numbers(array):
    out = np.empty(array.shape[:-1], dtype=object)
    for index in np.ndindex(*out.shape):
        out[index] = jnp.asarray(array[index])
    return out


def objective(x, p):
    return x[0] * x[3] * jnp.sum(x[:3]) + jnp.sin(x[jnp.array([1, 2])]).sum() + jnp.where(x[1] > 2, x[0] ** 1.5, p[0])


def rows(x, p):
    return jnp.stack([jnp.prod(x) - p[0], x @ x, jnp.linalg.norm(x), jnp.exp(jnp.diff(x)).max(), x.at[1].set(0.0) @ x])


def everything(x, p, w):
    lagrangian = lambda z: objective(z, p) + w @ rows(z, p)  # noqa: E731
    return objective(x, p), rows(x, p), jax.grad(objective)(x, p), jax.jacrev(rows)(x, p), jax.hessian(lagrangian)(x)


def test_values_and_derivatives_agree_with_vmap():
    shape = jax.ShapeDtypeStruct
    written = scalarised(everything, shape((4,), float), shape((2,), float), shape((5,), float))
    rng = np.random.default_rng(0)
    x, p, w = rng.uniform(1, 3, (4, 6)), rng.uniform(1, 3, (2, 6)), rng.standard_normal((5, 6))
    expected = jax.jit(jax.vmap(everything, in_axes=-1, out_axes=-1))(x, p, w)
    run = jax.jit(lambda x, p, w: [list(o.reshape(-1)) for o in written(numbers(x), numbers(p), numbers(w))])
    for ours, theirs in zip(run(x, p, w), expected, strict=True):
        ours = np.reshape([np.broadcast_to(e, (6,)) for e in ours], theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-13)


def test_whole_numbers_keep_their_arithmetic():
    def table(x, k):
        even = jnp.array([3, 5, 7])[jnp.array([2, 0])]
        return jnp.sum(x * (k // 2)) + x[0] * (k * k - 3 * k) + jnp.sum(x[2:]) + x @ (even // 2) + jnp.prod(x[2:])

    shape = jax.ShapeDtypeStruct
    written = scalarised(table, shape((2,), float), shape((), int))
    x, k = np.arange(10.0).reshape(2, 5), np.array([0, 1, 3, -5, 8])
    (found,) = written(numbers(x), numbers(k))
    np.testing.assert_allclose(found[()], jax.vmap(table, in_axes=-1)(x, k), rtol=1e-14)


def test_structural_zeros_stay_plain_numbers():
    written = scalarised(jax.jacrev(lambda x: jnp.stack([x[0] ** 2, x[1]])), jax.ShapeDtypeStruct((2,), float))
    (jacobian,) = written(numbers(np.ones((2, 3))))
    assert [type(e) for e in (jacobian[0, 1], jacobian[1, 0], jacobian[1, 1])] == [float] * 3
    assert (jacobian[0, 1], jacobian[1, 0], jacobian[1, 1]) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jax.lax.fori_loop(0, 3, lambda _, v: v * x[0], x[1]),
        lambda x: x[jnp.argmax(x)],
        lambda x: jnp.linalg.inv(jnp.outer(x, x) + jnp.eye(2))[0, 0],
    ],
)
def test_what_cannot_be_written_out_is_refused(function):
    with pytest.raises(NotScalar):
        scalarised(function, jax.ShapeDtypeStruct((2,), float))(numbers(np.ones((2, 3))))


def test_both_layouts_of_a_vector_give_the_same():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 3, 5))
    rows_a, rows_b = Rows(list(jnp.asarray(a))), Rows(list(jnp.asarray(b)))
    zero = jnp.zeros(5)
    for ours, theirs in [
        (where(rows_a > rows_b, rows_a - 1.0, 2.0 * rows_b), np.where(a > b, a - 1, 2 * b)),
        (clip(rows_a, -0.5, rows_b), np.minimum(np.maximum(a, -0.5), b)),
    ]:
        np.testing.assert_array_equal(jnp.stack(ours.entries), theirs)
    np.testing.assert_allclose(norm(rows_a, zero), np.linalg.norm(a, axis=0))
    np.testing.assert_allclose(total(rows_a * rows_b, zero), (a * b).sum(axis=0))
