"""Odd but legal problems in the compiled program: crossing bounds, no constraints, indices, flat rows, integers."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402

import auglag  # noqa: E402
import auglag.jax as aj  # noqa: E402
from auglag import Status  # noqa: E402


def squares(x, p):
    return jnp.sum((x - p) ** 2)


def first(x, p):
    return x[0]


def test_crossing_sides_are_infeasible_and_the_certificate_follows_the_derivatives():
    def outputs(p, lower, upper, row):
        given = {"bounds": (lower, upper), "constraints": (first, row, 2.0), "max_steps": 50, "accelerate": False}
        found = aj.solve(squares, np.array([0.5]), (p,), **given)
        return (found.x, found.bound_multipliers), found

    p = np.array([[3.0], [3.0], [-1.0], [0.4]])
    lower, upper = np.array([[2.0], [0.0], [0.0], [0.0]]), np.array([[1.0], [1.0], [1.0], [1.0]])
    row = np.array([-1.0, 3.0, -1.0, -1.0])  # the first has crossing bounds, the second a crossing row
    slopes, found = jax.jit(jax.vmap(jax.jacfwd(outputs, has_aux=True)))(p, lower, upper, row)
    assert [int(s) for s in found.status] == [Status.INFEASIBLE, Status.INFEASIBLE, Status.SOLVED, Status.SOLVED]
    assert np.asarray(found.violation[:2] >= 0.5).all()
    assert any(message.startswith("Locally infeasible") and "several" not in message for message in found.messages())
    # z = -2 (x - p): at the lower bound -2 p moves with p twice as fast; a free variable has none.
    np.testing.assert_allclose(found.bound_multipliers[2:], [[-2.0], [0.0]], atol=1e-6)
    np.testing.assert_allclose(np.ravel(slopes[1])[2:], [2.0, 0.0], atol=1e-8)
    np.testing.assert_allclose(np.ravel(slopes[0])[2:], [0.0, 1.0], atol=1e-8)


def test_the_derivative_goes_by_the_certified_status():
    def x(p):
        return aj.solve(squares, np.zeros(2), (p,), max_steps=1, accelerate=False).x

    np.testing.assert_allclose(jax.jacfwd(x)(jnp.array([1.0, 2.0])), np.eye(2), atol=1e-10)


@pytest.mark.parametrize(("n", "inner"), [(10, "newton"), (3, "lbfgs")])
def test_problems_without_constraints_on_the_array_path(n, inner):
    p = np.array([0.5, 3.0])
    found = aj.solve_batch(squares, np.zeros(n), (p,), in_axes=(None, 0), bounds=(-1.0, 1.0), inner=inner)
    assert found.messages() == {Status.SOLVED.message: 2}
    np.testing.assert_allclose(found.x, [[0.5] * n, [1.0] * n], atol=1e-6)


def test_an_index_may_come_from_the_parameters():
    found = aj.solve_batch(
        lambda x, k: (x - 1.0) @ (x - 1.0) + x[k] * jnp.array([1.0, 2.0])[k], np.zeros(2), (np.array([0, 1]),),
        in_axes=(None, 0),
    )  # fmt: skip
    assert found.messages() == {Status.SOLVED.message: 2}
    np.testing.assert_allclose(found.x, [[0.5, 1.0], [1.0, 0.0]], atol=1e-6)


@pytest.mark.parametrize("transform", [jax.jit, jax.jacobian, jax.vmap])
@pytest.mark.parametrize("n", [2, 10])
def test_a_traced_value_from_outside_is_refused(transform, n):
    def closed(p):
        return aj.solve(lambda x: jnp.sum((x - p) ** 2), np.zeros(n)).x

    with pytest.raises(auglag.InputError, match=r"fun\(x\) must get values .*pass it through args"):
        transform(closed)(jnp.ones(3 if transform is jax.vmap else n))


def test_a_flat_row_is_not_called_infeasible():
    found = aj.solve(lambda x: x @ x, np.array([1.0, 0.0]), constraints=(lambda x: 1e-6 * (x[0] + x[1]), 1e-2, 1e-2))
    assert int(found.status) in (Status.SOLVED, Status.STUCK)  # its multiplier is -1e10: R <= 1e-6 is out of reach
    np.testing.assert_allclose(found.x, 5000.0, rtol=1e-2)


class Parts(NamedTuple):
    a: Any
    b: Any


def test_named_tuples_lists_empty_sums_whole_numbers_and_a_device_of_choice():
    other = jax.devices()[1]
    found = aj.solve_batch(
        lambda x, p, k: jnp.sum((x.a - p) ** 2) + (x.b - k // 2) ** 2 + jnp.sum(x.a[1:]),
        Parts(np.zeros(1), np.zeros(())), ([1.0, 2.0, 3.0], np.array([1, 3, -5])), in_axes=(None, 0), devices=[other],
    )  # fmt: skip
    assert isinstance(found.x, Parts)
    assert found.messages() == {Status.SOLVED.message: 3}
    np.testing.assert_allclose(found.x.a, [[1.0], [2.0], [3.0]], atol=1e-6)
    np.testing.assert_allclose(found.x.b, [0.0, 1.0, -3.0], atol=1e-6)
    assert found.x.b.devices() == {other}


@pytest.mark.parametrize("transform", [jax.grad, jax.jit], ids=["grad", "jit"])
def test_a_batch_inside_a_transformation_names_what_works_there(transform):
    def outer(p):
        return jnp.sum(aj.solve_batch(squares, np.zeros(2), (p,), in_axes=(None, 0)).x)

    with pytest.raises(auglag.InputError, match=r"got traced values; jax.vmap of auglag.jax.solve can be compiled"):
        transform(outer)(jnp.ones((3, 2)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"g": auglag.prox.L1(1.0)},
            "has no argument 'g': prox terms are not compiled; auglag.jax.minimize takes them",
        ),
        ({"max_outr": 3}, "has no argument 'max_outr'; did you mean 'max_outer'"),
    ],
)
def test_arguments_that_do_not_exist_get_a_hint(options, words):
    for function, start in ((aj.solve, np.zeros(2)), (aj.solve_batch, np.zeros((1, 2)))):
        with pytest.raises(auglag.OptionError, match=words):
            function(squares, start, (np.ones(2),), **options)


@pytest.mark.parametrize("inner", ["newton", "lbfgs"])
def test_an_unbounded_subproblem_returns_to_its_start_and_counts_as_an_iteration(inner):
    found = aj.solve(
        lambda x: -9e4 * x[0] * x[1], np.array([1.0, 0.7]) / 300, inner=inner,
        constraints=[(lambda x: 300 * (x[0] + x[1]), 2.0, 2.0)],
        penalty=auglag.Adaptive(0.1, 3.0), scaling=False, accelerate=False, record=2, max_outer=2,
    )  # fmt: skip
    np.testing.assert_allclose(found.record.beta, [0.1, 2.7], rtol=1e-15)
    assert np.isnan(found.record.violation[0])
    assert abs(float(found.record.violation[1])) < 10.0
    np.testing.assert_array_equal(found.record.y[0], [0.0])
    assert int(found.outer) == 2


@pytest.mark.parametrize("entry", [aj.solve, aj.minimize])
def test_lists_of_numbers_are_arrays_among_the_further_arguments(entry):
    found = entry(
        lambda x, a, b: jnp.sum((x - a) ** 2) + jnp.sum(x @ b["m"]) * 0, [0.0, 0.0], ([1.0, 2], {"m": [[1, 2], [3, 4]]})
    )
    np.testing.assert_allclose(found.x, [1.0, 2.0], atol=1e-5)
    parts = entry(lambda x, a: jnp.sum((x - a[0]) ** 2 + (x - a[1]) ** 2), [0.0, 0.0], ([jnp.zeros(2), jnp.ones(2)],))
    np.testing.assert_allclose(parts.x, [0.5, 0.5], atol=1e-5)  # a list of arrays stays a list


@pytest.mark.parametrize("entry", [aj.solve, aj.minimize])
def test_lists_of_numbers_are_the_sides_of_rows(entry):
    row = (lambda x: x, [0.0, 0.0], [0.5, 1.0])
    np.testing.assert_allclose(
        entry(lambda x: jnp.sum((x - 2) ** 2), [0.0, 0.0], constraints=row).x, [0.5, 1.0], atol=1e-5
    )
    with pytest.raises(auglag.InputError, match="lb must be a number or have the s"):
        entry(lambda x: jnp.sum(x**2), [0.0, 0.0], constraints=(lambda x: x, [0.0, 0.0, 0.0], 1.0))


@pytest.mark.parametrize("call", [aj.solve, aj.solve_batch])
def test_functions_that_do_not_take_all_arguments_are_named(call):
    x0, args = jnp.zeros((3, 2)), (jnp.ones((3, 2)),)
    with pytest.raises(auglag.InputError, match=r"fun\(x\) must take x and the 1 argument in args, 2 in all, .* \(x\)"):
        call(lambda x: jnp.sum(x**2), x0, args)
    with pytest.raises(auglag.InputError, match=r"constraints\[0\]: fun\(x\) must take x and the 1 argument in args"):
        call(lambda x, p: jnp.sum((x - p) ** 2), x0, args, constraints=(lambda x: jnp.sum(x), 0.0, 0.0))
    with pytest.raises(auglag.InputError, match=r"fun\(x\) must take x alone, 1 in all, but .* \(x, p\)"):
        call(lambda x, p: jnp.sum((x - p) ** 2), x0, ())


def test_one_start_for_all_is_not_silently_a_number_for_each() -> None:
    def near(x: Any, p: Any) -> Any:
        return jnp.sum((x - p) ** 2)

    targets = np.arange(9.0).reshape(3, 3)
    with pytest.warns(UserWarning, match=r"x0 of shape \(3,\) was taken for 3 instances .* in_axes=\(None, 0\)"):
        aj.solve_batch(near, np.ones(3), (targets,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert aj.solve_batch(near, np.ones(3), (targets,), in_axes=(0, 0)).x.shape == (3,)
        assert aj.solve_batch(near, np.ones(3), (targets,), in_axes=(None, 0)).x.shape == (3, 3)
        assert aj.solve_batch(near, np.ones((3, 3)), (targets,)).x.shape == (3, 3)
