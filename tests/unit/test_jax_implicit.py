"""The derivative of a solution, straight from the KKT system at known solutions."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
from scipy.optimize import LinearConstraint  # noqa: E402

from auglag.jax.evaluation import Functions  # noqa: E402
from auglag.jax.implicit import tangents  # noqa: E402
from auglag.jax.state import Sides  # noqa: E402
from auglag.jax.statement import state  # noqa: E402


def moved(functions, x, y, p, dp, cl, cu, dtype):
    unbounded = jnp.full(functions.n, jnp.inf, dtype)
    sides = Sides(-unbounded, unbounded, jnp.asarray(cl, dtype), jnp.asarray(cu, dtype))
    still = jax.tree_util.tree_map(jnp.zeros_like, sides)
    array = lambda a: jnp.asarray(a, dtype)  # noqa: E731
    return tangents(functions, array(x), array(y), array(p), sides, array(dp), still, jnp.asarray(True))


@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-8), ("float32", 1e-3)])
def test_dependent_rows_in_both_precisions(dtype, atol):
    functions = Functions(
        lambda x, p: jnp.sum((x - p) ** 2), lambda x, p: jnp.stack([jnp.sum(x) - 1, 2 * jnp.sum(x) - 2]), 3, 2
    )
    p = np.array([1.0, 2.0, 3.0])
    x = p - 5 / 3
    dx, dy = moved(functions, x, [2 / 3, 4 / 3], p, [1.0, 0.0, 0.0], [0, 0], [0, 0], dtype)
    np.testing.assert_allclose(dx, [2 / 3, -1 / 3, -1 / 3], atol=atol)
    assert np.isfinite(dy).all()


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e-12])
def test_a_small_objective_has_the_derivative_of_a_large_one(scale):
    functions = Functions(lambda x, p: scale * (x[0] - 2) ** 2, lambda x, p: x - p, 1, 1)
    dx, _ = moved(functions, [1.0], [2 * scale], 1.0, 1.0, [-np.inf], [0.0], float)
    np.testing.assert_allclose(dx, [1.0], rtol=1e-3)
    # An active row whose multiplier is only rounding beside the curvature counts as inactive.
    flat, _ = moved(functions, [2.0], [1e-10 * scale], 2.0, 1.0, [-np.inf], [0.0], float)
    np.testing.assert_allclose(flat, [0.0], atol=1e-8)


def test_linear_constraints_with_one_matrix_are_one_function():
    def fun(matrix):
        given = LinearConstraint(matrix, -np.inf, 1.0)
        return state(lambda x: x @ x, np.zeros(2), (), given, None, np.dtype(float)).rows[0].fun

    one, same, other = fun([[1.0, 2.0]]), fun(np.array([[1, 2]])), fun([[1.0, 3.0]])
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    np.testing.assert_array_equal(one(jnp.array([1.0, 1.0])), [3.0])
