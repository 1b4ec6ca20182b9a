"""Algorithm 1 in one compiled program: known solutions, the NumPy loop's iterates, batches, derivatives, ends."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402

import auglag  # noqa: E402
import auglag.jax as aj  # noqa: E402
from auglag import Status  # noqa: E402
from helpers.jax_problems import PROBLEMS  # noqa: E402

X0 = np.array([1.0, 5.0, 5.0, 1.0])
SOLUTION = np.array([1.0, 4.742999643, 3.821149979, 1.379408293])


def objective(x, p):
    return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]


def volume_and_sphere(x, p):
    return jnp.stack([jnp.prod(x) - p[0], x @ x - p[1]])


HS71 = {"constraints": [(volume_and_sphere, np.zeros(2), np.array([np.inf, 0.0]))], "bounds": [(1.0, 5.0)] * 4}


def hs71(p):
    return aj.solve(objective, X0, (p,), tol=1e-10, **HS71)


def parameters(count, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([25.0, 40.0]) * (1 + 0.2 * rng.uniform(-1, 1, (count, 2)))


# --------------------------------------------------------------------------------------------------------- one instance


def test_hs71_under_vmap_with_multipliers_and_derivatives():
    def everything(p):
        def outputs(q):
            found = hs71(q)
            return (found.x, found.fun), found

        return jax.jacfwd(outputs, has_aux=True)(p)

    h = 1e-5
    points = np.concatenate([[[25.0, 40.0]], parameters(6)])
    around = np.concatenate([points + h * np.array(d) for d in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))])
    (slopes, value_slopes), found = jax.jit(jax.vmap(everything))(around)
    assert found.messages() == {Status.SOLVED.message: 35}
    assert bool(found.success.all())
    assert float(found.residual.max()) <= 1e-10
    np.testing.assert_allclose(found.x[0], SOLUTION, atol=1e-7)
    np.testing.assert_allclose(found.multipliers[0][0], [-0.55229366, 0.16146857], atol=1e-7)
    np.testing.assert_allclose(found.bound_multipliers[0], [-1.08787123, 0, 0, 0], atol=1e-6)
    x = np.asarray(found.x).reshape(5, 7, 4)
    differences = np.stack([x[1] - x[2], x[3] - x[4]], axis=-1) / (2 * h)
    np.testing.assert_allclose(slopes[:7], differences, atol=1e-6)
    # L = f + y'c with c = ... - p: the optimal value changes by -y per unit of p.
    np.testing.assert_allclose(value_slopes[:7], -np.asarray(found.multipliers[0][:7]), atol=1e-6)


@pytest.mark.parametrize(
    "variant", ["adaptive-short", "always-full"]
)  # each rule once: a program takes long to compile
def test_outer_iterations_are_those_of_the_numpy_loop(variant):
    stated = PROBLEMS["HS7"]
    given = {"constraints": stated.constraints, "bounds": stated.bounds}
    rules = {"variant": variant, "tolerance": auglag.Constant(1e-9)}
    visited = []
    host = auglag.minimize(
        aj.JaxProblem(stated.fun, np.array(stated.x0), **given),
        inner="lbfgsb",
        callback=lambda intermediate_result: visited.append(intermediate_result),
        **rules,
    )
    found = aj.solve(stated.fun, np.array(stated.x0), accelerate=False, record=8, **given, **rules)
    rows = min(8, int(found.outer), len(host.history))
    assert rows >= 3
    record = jax.tree_util.tree_map(lambda a: np.asarray(a)[:rows], found.record)
    for name in ("beta", "eta"):
        np.testing.assert_allclose(getattr(record, name), [row[name] for row in host.history[:rows]], rtol=1e-14)
    np.testing.assert_allclose(record.violation, [row["violation"] for row in host.history[:rows]], atol=1e-8)
    outer = [sight.x for sight in visited if sight.kind == "outer"]
    np.testing.assert_allclose(record.x, outer[:rows], atol=1e-8)


def test_a_pytree_goes_in_and_comes_out():
    def energy(x, load):
        return jnp.sum(x["a"] ** 2) + (x["b"] - load["height"]) ** 2

    def balance(x, load):
        return {"sum": x["a"].sum() - x["b"], "first": x["a"][0, :1]}

    found = aj.solve(
        energy,
        {"a": np.ones((1, 2)), "b": 0.5},
        ({"height": 3.0},),
        constraints=[(balance, 0.0, {"sum": 0.0, "first": np.array([0.2])})],
        bounds=({"a": -1.0, "b": -5.0}, 5.0),
    )
    # a = (0.2, t), b = 0.2 + t: t minimises t^2 + (0.2 + t - 3)^2
    np.testing.assert_allclose(found.x["a"], [[0.2, 1.4]], atol=1e-6)
    np.testing.assert_allclose(found.x["b"], 1.6, atol=1e-6)
    assert set(found.multipliers[0]) == {"sum", "first"}
    assert found.bound_multipliers["a"].shape == (1, 2)
    assert int(found.status) == Status.SOLVED


# -------------------------------------------------------------------------------------------------------------- batches


def ends(x, p):
    return p[2] * x[0] + x[1]


def disc(x, p):
    return p[0] * (x @ x) - p[1]


def test_a_batch_is_certified_and_neither_chunks_nor_devices_change_it():
    p = np.random.default_rng(0).uniform(0.5, 2.0, (600, 3))
    given = {"constraints": (disc, -np.inf, 0.0), "bounds": (-0.8, 5.0)}
    start = np.array([0.3, 0.1])
    whole = aj.solve_batch(ends, start, (p,), in_axes=(None, 0), **given)  # thinned out on the way
    assert whole.messages() == {Status.SOLVED.message: 600}
    assert float(whole.residual.max()) <= 1e-6
    held = np.asarray(whole.bound_multipliers).min(axis=1) < -1e-3
    assert 100 < held.sum() < 500, "the premise: some are held by their bounds, some by the disc alone"
    for i in (0, int(np.argmax(held)), int(np.argmin(held)), 599):
        problem = aj.JaxProblem(ends, start, (p[i],), **given)
        check = auglag.certify(problem, np.asarray(whole.x[i]), np.asarray(whole.multipliers[0][i]))
        assert check.residual == pytest.approx(float(whole.residual[i]), rel=1e-6, abs=1e-14)
        assert check.objective == pytest.approx(float(whole.fun[i]))
        np.testing.assert_allclose(check.bound_multipliers, whole.bound_multipliers[i], atol=1e-9)
    assert len(jax.devices()) == 4
    several = {"chunk": 13, "devices": jax.devices()[:2]}
    parts = aj.solve_batch(ends, np.tile(start, (97, 1)), (p[:97],), **several, **given)
    assert parts.x.shape == (97, 2)
    np.testing.assert_array_equal(parts.status, whole.status[:97])
    np.testing.assert_allclose(parts.x, whole.x[:97], atol=1e-6)


def test_each_instance_has_its_own_end():
    cases = {
        Status.SOLVED: [1.0, 1.0, 1.0],
        Status.UNBOUNDED: [0.0, 1.0, 1.0],
        Status.INFEASIBLE: [1.0, -1.0, 1.0],
        Status.NON_FINITE: [np.nan, 1.0, 1.0],
    }
    p = np.array(list(cases.values()))
    found = aj.solve_batch(ends, np.array([0.3, 0.1]), (p,), constraints=(disc, -np.inf, 0.0), in_axes=(None, 0))
    assert [int(s) for s in found.status] == list(cases)
    np.testing.assert_allclose(found.x[0], [-(0.5**0.5)] * 2, atol=1e-6)
    assert not np.asarray(found.success)[1:].any()
    few = aj.solve_batch(
        ends, np.array([0.3, 0.1]), (p,), constraints=(disc, -np.inf, 0.0), in_axes=(None, 0), max_steps=2
    )
    assert int(few.status[0]) == Status.ITERATION_LIMIT


# ---------------------------------------------------------------------------------------------------------- derivatives


def nearest_point(x, p):
    return jnp.sum((x - p["target"]) ** 2)


def budget(x, p):
    return x.sum() - p["total"]


def project(p, lower):
    given = {"constraints": (budget, -np.inf, 0.0), "bounds": (lower, 10.0), "tol": 1e-10}
    return aj.solve(nearest_point, np.zeros(3), (p,), **given).x


P = {"target": np.array([1.0, 2.0, -1.0]), "total": np.array(2.0)}


def test_derivatives_by_parameters_and_bounds_are_those_of_the_kkt_system():
    cases = {
        "target": np.array([[1.0, 2.0, -1.0], [1.0, 1.0, 0.5], [1.0, 2.0, -1.0]]),
        "total": np.array([2.0, 2.5, 2.0]),
    }
    lower = np.array([[0.0] * 3, [-5.0] * 3, [4.0] * 3])
    by_p, by_lower = jax.jit(jax.vmap(jax.jacrev(project, argnums=(0, 1))))(cases, lower)
    # The projection on {sum <= 2, x >= 0} is (0.5, 1.5, 0): x_3 is held by its bound, the sum by the budget.
    np.testing.assert_allclose(by_p["total"][0], [0.5, 0.5, 0.0], atol=1e-8)
    np.testing.assert_allclose(by_p["target"][0], [[0.5, -0.5, 0], [-0.5, 0.5, 0], [0, 0, 0]], atol=1e-8)
    np.testing.assert_allclose(by_lower[0], [[0, 0, -0.5], [0, 0, -0.5], [0, 0, 1.0]], atol=1e-8)
    # The second target has just the allowed sum: without strict complementarity the budget counts as inactive.
    np.testing.assert_allclose(by_p["total"][1], 0.0, atol=1e-8)
    np.testing.assert_allclose(by_p["target"][1], np.eye(3), atol=1e-8)
    # The third is infeasible (3 * 4 > 2): no solution, no derivative.
    assert np.isnan(by_p["total"][2]).all()


# ----------------------------------------------------------------------------------------- larger problems, other modes


def chain(x, load):
    stretch = jnp.diff(jnp.concatenate([jnp.zeros(1), x, jnp.zeros(1)]))
    return jnp.sum(stretch**2 + stretch**4 - jnp.cos(4.0 * stretch)) - load @ x


def radius(x, load):
    return x @ x


@pytest.mark.parametrize("inner", ["newton", "lbfgs"])
def test_larger_problems_by_either_inner_solver(inner):
    loads = np.random.default_rng(2).uniform(-1.0, 3.0, (5, 12))
    given = {"constraints": (radius, -np.inf, 1.0), "bounds": (-0.5, 0.5)}
    found = aj.solve_batch(chain, np.zeros(12), (loads,), in_axes=(None, 0), inner=inner, **given)
    assert found.messages() == {Status.SOLVED.message: 5}
    host = auglag.minimize(aj.JaxProblem(chain, np.zeros(12), (loads[0],), **given))
    assert host.success
    assert float(found.fun[0]) == pytest.approx(host.fun, abs=1e-5)


def test_single_precision_meets_what_it_can():
    found = aj.solve(
        nearest_point, np.zeros(3), (P,), constraints=(budget, -np.inf, 0.0), bounds=(0.0, 10.0), dtype="float32"
    )
    assert found.x.dtype == np.float32
    assert int(found.status) == Status.SOLVED
    np.testing.assert_allclose(found.x, [0.5, 1.5, 0.0], atol=1e-3)


def test_the_global_flag_is_not_flipped():
    if hasattr(jax, "enable_x64"):
        narrow = jax.enable_x64(False)
    else:
        from jax.experimental import enable_x64

        narrow = enable_x64(False)
    with narrow:
        with pytest.raises(auglag.InputError, match=r"needs JAX's 64-bit mode, which is off: call jax.config.update"):
            aj.solve(nearest_point, np.zeros(3), (P,))
        assert not jax.config.jax_enable_x64


# --------------------------------------------------------------------------------------------------------------- misuse


def misuse(fun=lambda x: x @ x, x0=(1.0, 2.0), **more):
    return aj.solve(fun, np.array(x0), **more)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: misuse(lambda x: x), r"fun\(x\) must return a number, got an array of shape \(2,\)"),
        (lambda: misuse(lambda x: None), r"fun\(x\) must return a number, got None: is a return missing"),
        (lambda: misuse(lambda x: x[0] if x[0] > 0 else x[1]), r"fun\(x\) must not branch in Python .*use jnp.where"),
        (lambda: misuse(lambda x: np.sin(np.asarray(x)).sum()), r"fun\(x\) must be written with jax.numpy"),
        (lambda: misuse(lambda x: float(x[0])), r"fun\(x\) must not turn values that depend on x into Python numbers"),
        (lambda: misuse(lambda x: x[0] > 1), r"fun\(x\) must return a real number, got bool"),
        (lambda: misuse(constraints=(lambda x: x[0] > 1, 0, 0)), r"return a difference, not a comparison"),
        (
            lambda: misuse(constraints=(lambda x: x, 0, np.zeros(3))),
            r"constraints\[0\].ub must be a number or have the shape",
        ),
        (lambda: misuse(constraints=(lambda x: x, 1, 0)), r"constraints\[0\]: lb must be at most ub"),
        (lambda: misuse(constraints={"type": "leq", "fun": abs}), r"\['type'\] must be 'eq' or 'ineq', got 'leq'"),
        (lambda: misuse(constraints=[lambda x: x]), r"constraints\[0\] must be \(fun, lb, ub\), a dict"),
        (lambda: misuse(bounds=[(0, 1)]), r"bounds must have 2 pairs"),
        (lambda: misuse(tol=-1.0), r"tol must be positive and finite, got -1.0"),
        (lambda: misuse(tol=1e-7, dtype="float32"), r"tol must be at least 1e-05 in float32"),
        (lambda: misuse(dtype="float16"), r"dtype must be float64 or float32, got float16"),
        (lambda: misuse(inner="bfgs"), r"inner must be one of .*got 'bfgs'"),
        (lambda: misuse(max_steps=0), r"max_steps must be a positive integer or None, got 0"),
        (lambda: misuse(multipliers=[1.0]), r"multipliers must have 0 entries"),
        (lambda: aj.solve_batch(lambda x: x @ x, np.ones((3, 2)), in_axes=(None, 0)), r"in_axes must mark something"),
        (lambda: aj.solve_batch(disc, np.ones((3, 2)), (np.ones(4),)), r"one size, got 3 in x0 and 4 in args\[0\]"),
    ],
)
def test_misuse_is_explained_before_anything_is_compiled(call, message):
    with pytest.raises(auglag.AuglagError, match=message):
        call()
