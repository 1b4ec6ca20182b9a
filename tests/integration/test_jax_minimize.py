"""JAX problems on the NumPy side: the same values, the same iterates, the same results."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402

import auglag  # noqa: E402
import auglag.jax as aj  # noqa: E402
from auglag.jax.tuning import Tuning  # noqa: E402
from auglag.problems import cutest  # noqa: E402
from auglag.problems.jacobians import dense  # noqa: E402
from helpers.jax_problems import PROBLEMS  # noqa: E402
from helpers.s2mpj import needs_s2mpj  # noqa: E402


@needs_s2mpj
@pytest.mark.parametrize("name", PROBLEMS)
def test_cutest_problems_written_in_jax_take_the_same_iterates(name):
    stated, theirs = PROBLEMS[name], cutest.load(name)
    ours = aj.JaxProblem(stated.fun, np.array(stated.x0), constraints=stated.constraints, bounds=stated.bounds)
    x = np.array(stated.x0) + 0.1
    order = np.lexsort(np.round([ours.c(x), ours.cu], 9)), np.lexsort(np.round([theirs.c(x), theirs.cu], 9))
    assert ours.f(x) == pytest.approx(theirs.f(x), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(ours.grad(x), theirs.grad(x), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.c(x)[order[0]], theirs.c(x)[order[1]], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dense(ours.jac(x))[order[0]], dense(theirs.jac(x))[order[1]], rtol=1e-12, atol=1e-12)
    a, b = (auglag.minimize(p, inner="lbfgsb") for p in (ours, theirs))
    assert a.success
    assert b.success
    rows = min(len(a.history), len(b.history), 5)
    for column, tolerance in (("beta", 1e-12), ("eta", 1e-12), ("objective", 1e-6), ("user_violation", 1e-5)):
        left, right = ([row[column] for row in r.history[:rows]] for r in (a, b))
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=1e-6 if tolerance > 1e-9 else 0.0)
    # The Hessian of HS26 vanishes along a direction at its solution, which determines x to a few digits only.
    np.testing.assert_allclose(a.x, b.x, atol=1e-3 if name == "HS26" else 1e-5)


def surface(x):
    return x["a"][0] * x["b"] * (x["a"].sum()) + x["a"][2]


CONSTRAINTS = [
    {"type": "ineq", "fun": lambda x: jnp.prod(x["a"]) * x["b"] - 25, "name": "volume"},
    (lambda x: {"sphere": x["a"] @ x["a"] + x["b"] ** 2}, 40.0, 40.0),
]
START = {"a": jnp.array([1.0, 5.0, 5.0]), "b": 1.0}


def test_minimize_takes_and_returns_pytrees():
    result = aj.minimize(surface, START, constraints=CONSTRAINTS, bounds=(1.0, 5.0))
    assert result.success
    np.testing.assert_allclose(result.x["a"], [1.0, 4.742999643, 3.821149979], atol=1e-6)
    assert result.x["b"] == pytest.approx(1.379408293, abs=1e-6)
    assert result.multipliers[0] == pytest.approx(-0.55229366, abs=1e-5)
    assert result.multipliers[1]["sphere"] == pytest.approx(0.16146857, abs=1e-5)
    assert result.bound_multipliers["a"][0] == pytest.approx(-1.08787123, abs=1e-4)
    assert result.njev == result.nfev > 0
    assert aj.minimize(surface, START, constraints=CONSTRAINTS, bounds=(1.0, 5.0), warm_start=result).nit == 0


def test_the_front_door_takes_a_jax_problem_and_names_its_constraints():
    problem = aj.JaxProblem(surface, START, constraints=CONSTRAINTS, bounds=(1.0, 5.0))
    result = auglag.minimize(problem, variant="always-full")
    assert result.success
    assert problem.row_name(0) == "volume"
    assert auglag.certify(problem, result.x).meets(1e-5)
    assert set(problem.tree(result.x)) == {"a", "b"}


def test_second_derivatives_allow_newton_steps_and_products_replace_large_jacobians(monkeypatch):
    monkeypatch.setattr("auglag.jax.problem.TUNING", Tuning(largest_jacobian=5))
    problem = aj.JaxProblem(
        lambda x: jnp.sum((x - 1.0) ** 4), np.zeros(6), constraints=(lambda x: x[:2] * x[2:4] - 0.5, 0.0, 0.0)
    )
    result = auglag.minimize(problem)
    assert result.success
    assert result.inner == "newton-cg"
    assert result.nhev > 0


def test_a_prox_term_beside_jax_functions():
    result = aj.minimize(
        lambda x: jnp.sum((x - jnp.array([3.0, 0.2])) ** 2), np.ones(2), g=auglag.prox.L1(1.0), constraints=()
    )
    np.testing.assert_allclose(result.x, [2.5, 0.0], atol=1e-6)
