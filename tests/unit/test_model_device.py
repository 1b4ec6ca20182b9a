"""The device loop on the CPU: statuses, certificates, restoration, batches, and cuDSS's bindings on an imitation."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import auglag
from auglag.interior.firmness import Firmness
from auglag.model import Model
from auglag.model.device import cudss, landing, loop, program, state
from auglag.model.device import solve as on_device
from auglag.model.device.linear import Qdldl, SuperLU
from auglag.model.device.on_sides import Active
from auglag.model.device.records import Elastic, Facts
from auglag.model.device.solve import prepared, solve
from auglag.model.device.trail import Trail
from auglag.model.precision import double
from auglag.model.structure import Pattern
from helpers.fake_cudss import FakeCuDSS, FakeRuntime

SOLVERS = ["superlu", *(["qdldl"] if importlib.util.find_spec("qdldl") else [])]


def hs71():
    m = Model("hs71")
    x = m.var(4, name="x", lb=1.0, ub=5.0, start=[1.0, 5.0, 5.0, 1.0])
    m.objective(lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2], *x)
    m.constraint(lambda x: x[0] * x[1] * x[2] * x[3], *x, lb=25.0, name="product")
    m.constraint(lambda x: x[0] ** 2, x[0], eq=40.0, name="sphere")
    m.add(np.full(3, m["sphere"]), lambda x: x[0] ** 2, x[1:])
    return m


def pendulum(steps=60):
    m, h = Model("pendulum"), 3.0 / steps
    th, om, u = m.var(steps + 1, name="th"), m.var(steps + 1, name="om"), m.var(steps + 1, name="u", lb=-3, ub=3)
    goal = m.parameter([0.0, 0.0, 1.0, 0.0], name="goal")

    def defect(x, p):
        a, b, v, c, d, w = x
        return c - a - p[0] / 2 * (b + d), d - b - p[0] / 2 * (v + w - 9.81 * (jnp.sin(a) + jnp.sin(c)))

    k = np.arange(steps)
    m.constraint(defect, th[k], om[k], u[k], th[k + 1], om[k + 1], u[k + 1], par=(h,), name="defect")
    m.constraint(lambda x, p: x[0] - p[0], np.array([th[0], om[0], th[-1], om[-1]]), par=(goal,), name="ends")
    m.objective(lambda x, p: p[0] * x[0] ** 2, u, par=(h,))
    return m


def test_runs_end_on_the_sides_that_are_active():
    """Where gap and multiplier vanish together, interior points alone would leave both at about sqrt(mu)."""
    m = Model()
    x = m.var(3, name="x", lb=0.0, ub=10.0, start=5.0)
    m.objective(lambda x: (x[0] - 1.0) ** 2 + x[1] ** 2 + x[2], *x)  # x1: a bound without a multiplier; x2: with one
    m.constraint(lambda x: x[0] + x[1], x[0], x[1], ub=1.0, name="sum")  # active, without a multiplier
    s = m.solve(device="cpu")
    assert s.success
    assert any("on sides" in line for line in s.details["log"])
    np.testing.assert_allclose(s["x"], [1.0, 0.0, 0.0], atol=1e-9)
    assert s.certificate.residual < 1e-9


def test_without_rows_no_step_is_corrected():
    m = Model()
    x = m.var(2, name="x", lb=-5.0, start=[-1.2, 1.0])
    m.objective(lambda x: 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2, *x)
    s = m.solve(device="cpu")
    assert s.success
    assert any("trials 1" in line or "trials 2" in line for line in s.details["log"])  # steps were refused
    assert s.details["corrections"] == 0
    np.testing.assert_allclose(s["x"], 1.0, atol=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_mu_does_not_run_ahead_of_what_a_shift_leaves(shift):
    """A free mu is at least a part of the dual error that is left, shift times the step, and at most the mean."""
    with double():
        ready = prepared(hs71().problem(), None, jax.devices("cpu")[0], None, deterministic=False)
        p, d = ready.program, ready.program.data(hs71().problem())
        it = p.begin(d, np.array([1.0, 5.0, 5.0, 1.0]), np.zeros(p.m), np.array([1e-2, 0.1, 0.0]))
        plain = Elastic.off(p.m, p.device)
        it, at, values, right, facts = p.advance(
            d, it, p.still(), np.zeros(2), plain, np.array([0.1, 0.1, shift, 1.0, 0.0])
        )
        assert ready.linear.factor(values) is not None
        mean = Facts(*np.asarray(facts).tolist()).mean
        both = np.stack([np.asarray(ready.linear.solve(row)) for row in np.asarray(right.both)])
        affine = both[0] - 0.1 * both[1]
        _, right, _ = p.predicted(d, both, values, right, it, at, plain, np.array([shift, mean, 1e-9, 0.99]))
    guard = min(mean, 1e-3 * shift * np.abs(affine[: p.n]).max())
    assert float(right.mu) >= guard
    assert (guard > 1e-6) == (shift > 0.0)


def test_first_multipliers_of_sides_are_of_the_size_of_the_gradient():
    def first(slope):
        m = Model()
        x = m.var(2, lb=0.0, ub=1.0, start=0.5)
        m.objective(lambda x: slope * (x[0] + x[1]), *x)
        problem = m.problem()
        with double():
            ready = prepared(problem, None, jax.devices("cpu")[0], None, deterministic=False)
            return float(ready.program.data(problem)["first_side"])

    assert first(1.0) == 1.0
    assert first(50.0) == pytest.approx(5.0)
    assert first(1e6) == pytest.approx(10.0)  # f is scaled down to gradients of 100


def test_a_run_whose_first_steps_are_short_begins_again_with_smaller_multipliers(monkeypatch):
    m = Model()
    x = m.var(2, name="x", lb=0.0, ub=10.0, start=[9.0, 0.1])
    m.objective(lambda x: 50.0 * (x[0] + 2.0 * x[1]), *x)
    m.constraint(lambda x: x[0] * x[1], *x, lb=2.0, name="product")
    short = replace(loop.TUNING, jammed_length=2.0, jammed_steps=1)  # every step counts as short
    monkeypatch.setattr(loop, "TUNING", short)
    s = m.solve(device="cpu")
    assert sum("begun again" in line for line in s.details["log"]) == 1
    assert s.success
    np.testing.assert_allclose(s["x"], [2.0, 1.0], atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_hs71_is_solved_with_its_multipliers(solver):
    s = hs71().solve(device="cpu", linear_solver=solver, tol=1e-8)
    assert s.success
    assert s.fun == pytest.approx(17.0140172892, rel=1e-8)
    np.testing.assert_allclose(s["x"], [1, 4.74299964, 3.82114998, 1.37940829], atol=1e-6)
    np.testing.assert_allclose([s["product"], s["sphere"]], [-0.55229366, 0.16146857], atol=1e-5)
    assert s.certificate.meets(1e-8)
    assert s.details["linear solver"] == solver
    for part in (f"After {s.iterations} interior-point steps", f"by {solver}", f"{s.certificate}"):
        assert part in s.explain()
    assert "Try: " not in s.explain()


def test_without_qdldl_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("auglag.model.device.linear.find_spec", lambda name: None)
    with pytest.raises(auglag.InputError, match=r"linear_solver='qdldl' needs .* pip install 'auglag\[sparse\]'"):
        hs71().solve(device="cpu", linear_solver="qdldl")


def test_the_device_and_minimize_find_the_same_control():
    m = pendulum()
    device, host = m.solve(device="cpu"), m.solve()
    assert device.success
    assert host.success
    assert device.fun == pytest.approx(host.fun, rel=1e-6)
    np.testing.assert_allclose(device["u"], host["u"], atol=1e-3)
    again = m.solve(device="cpu", warm_start=device)
    assert again.success
    assert again.iterations < device.iterations
    same = m.solve(device="cpu")
    assert same.x.tobytes() == device.x.tobytes(), "repeats are equal bit by bit"


def test_fixed_variables_and_changed_bounds_need_no_new_model():
    m = hs71()
    m.set("x", lb=[1.0, 1.0, 4.0, 1.0], ub=[5.0, 5.0, 4.0, 5.0])
    s = m.solve(device="cpu")
    assert s.success
    assert s["x"][2] == 4.0
    m.set("x", lb=1.0, ub=5.0)
    assert m.solve(device="cpu").fun == pytest.approx(17.0140172892, rel=1e-6)


def test_steps_on_sides_wait_until_the_run_is_near_a_solution():
    """x = 0 is a maximum of -x^4 that meets the KKT conditions, one step on sides away from anywhere."""
    m = Model()
    x = m.var(2, name="x", lb=0.0, ub=1.0, start=0.3)
    m.objective(lambda x: x[1] ** 4 - x[0] ** 4, x[0], x[1])
    s = m.solve(device="cpu")
    assert s.success
    assert s.fun == pytest.approx(-1.0, abs=1e-6)


def test_steps_on_sides_find_the_active_ones_by_the_signs_of_multipliers():
    m = Model()
    x = m.var(3, name="x", lb=0.0, ub=1.0, start=0.3)
    m.objective(lambda x, p: (x[0] - p[0]) ** 2, x, par=(np.array([-1.0, 0.5, 2.0]),))
    m.constraint(lambda x: x[0] + x[1] + x[2], x[0], x[1], x[2], ub=10.0)
    problem = m.problem()
    place = jax.devices("cpu")[0]
    with double(), jax.default_device(place):
        ready = prepared(problem, None, place, "superlu", deterministic=False)
        data = ready.program.data(problem)
        run = state.Run(ready.program, ready.on_sides, data, ready.linear, tol=1e-6, scaled_tol=1e-8, steps=9)
        it, at, *_ = run.advance(loop.start(run, problem.x0), run.zero, (0.0, 0.0))
        wrong = Active(jnp.array([False, True, False, False]), jnp.zeros(4, bool))
        _, _, active, _, changed = landing._step(run, it, at, wrong)
        assert changed == 3
        assert active.low.tolist() == [True, False, False, False]
        assert active.high.tolist() == [False, False, True, False]
        there, _, active, facts, changed = landing._step(run, it, at, active)
    assert changed == 0
    assert facts.residual <= 1e-6
    np.testing.assert_allclose(there.w, [0.0, 0.5, 1.0, 1.5], atol=1e-6)


def test_active_sides_are_told_from_an_iterate_with_clearly_larger_products():
    trail = Trail()
    assert trail.before(1.0) is None
    for mean, name in [(1.0, "a"), (0.5, "b"), (0.2, "c"), (0.19, "d"), (0.1, "e")]:
        trail.leave(name, mean)
    assert trail.before(0.1) == "b", "c was replaced by d, whose products are not 1/0.3 times as large"
    trail.leave("f", 0.6)  # mu rose again
    assert trail.before(0.1) == "f"
    trail.clear()
    assert trail.before(0.1) is None
    trail.leave("free", 0.0)  # no sides at all
    trail.leave("later", 0.0)
    assert trail.before(0.0) == "later"


def without_a_solution():
    m = Model()
    x = m.var(2, lb=0.0, ub=1.0)
    m.objective(lambda x: x[0] ** 2, x)
    m.constraint(lambda x: x[0] * x[1] - 4.0, x[0], x[1])
    return m


def test_a_scaled_error_is_no_solution_before_the_certificate_meets_the_tolerance(monkeypatch):
    """The loop goes on where its own residual is small enough and the certificate is not."""
    steps = hs71().solve(device="cpu").iterations
    asked = []

    def certificate_of(*args):
        asked.append(measured(*args))
        return replace(asked[-1], stationarity=1.0) if len(asked) == 1 else asked[-1]

    measured = on_device._certificate
    monkeypatch.setattr(on_device, "_certificate", certificate_of)
    s = hs71().solve(device="cpu")
    assert s.success
    assert s.iterations >= steps
    assert len(asked) >= 3  # the one that is refused, that of a later iterate, and that of the end


def test_a_smaller_diagonal_of_the_rows_is_tried_before_a_shift():
    firmness = Firmness()
    assert firmness.order(shifted=False) == [1.0, 1e-2, 1e-4]
    assert firmness.order(shifted=True) == [1.0]
    firmness.worked(1e-2, left=0.0)
    assert firmness.order(shifted=False) == [1e-2, 1.0, 1e-4]
    firmness.worked(1e-2, left=0.5)  # a step that leaves half of the violation: smaller still
    assert firmness.part == pytest.approx(1e-4)
    firmness.failed()
    assert firmness.order(shifted=False) == [1.0]  # not again at once


def test_infeasible_rows_are_not_called_solved():
    s = without_a_solution().solve(device="cpu")
    assert not s.success
    assert s.status in (auglag.Status.INFEASIBLE, auglag.Status.STUCK)
    worst = next(iter(s.certificate.row_violations))
    for part in (s.message, f"Most violated: {worst} by", "Try: "):
        assert part in s.explain()


def endless(row):
    m = Model()
    x = m.var(20, start=0.3)
    m.objective(lambda z: -0.5 * z[0] ** 2, x)
    m.constraint(row, x[:-1], x[1:], lb=0.0)
    return m


def test_an_objective_that_falls_without_end_is_unbounded():
    s = endless(lambda z: z[0] * z[1] + z[0] + z[1]).solve(device="cpu")
    assert s.status is auglag.Status.UNBOUNDED
    assert s.fun < -1e10


def test_steep_slopes_do_not_overflow_in_the_filter(monkeypatch):
    """Slopes become so steep that their powers in the test of the filter are no numbers any more."""
    monkeypatch.setattr(state.Run, "falls", lambda *_: False)
    s = endless(lambda z: z[0] * z[1] + z[0] + z[1]).solve(device="cpu")
    assert not s.success
    assert s.fun < -1e20


@pytest.mark.parametrize("coupled", [False, True])
def test_a_linear_program_without_end_is_unbounded(coupled):
    m = Model()
    x = m.var(4, lb=0.0, name="x")
    sign = m.parameter(-1.0, name="sign")
    m.objective(lambda x, p: p[0] * x[0], x, par=sign)
    if coupled:
        m.constraint(lambda x: x[0] - x[1], x[:-1], x[1:], ub=1.0)
    assert m.solve(device="cpu").status is auglag.Status.UNBOUNDED
    batch = m.solve_batch(par={"sign": [1.0, -1.0, 2.0]})
    np.testing.assert_array_equal(batch.status, [0, int(auglag.Status.UNBOUNDED), 0])


def test_a_low_objective_with_a_minimum_is_not_called_unbounded():
    m = Model()
    x = m.var(2, start=0.0)
    m.objective(lambda x: (x[0] - 3e5) ** 2 / 2 - 1e11, x)
    s = m.solve(device="cpu")
    assert s.success
    np.testing.assert_allclose(s.x, 3e5)


def test_rows_of_fixed_variables_alone_are_infeasible_at_once():
    m = Model()
    x = m.var(3, lb=1.0, ub=1.0)
    m.objective(lambda x: x[0] ** 2, x)
    m.constraint(lambda x: x[0], x)
    s = m.solve(device="cpu")
    assert s.status is auglag.Status.INFEASIBLE
    assert s.iterations < 50


def test_equations_without_an_objective_are_solved():
    """Their multipliers are rounding errors, against which no gradient is small."""
    m = Model()
    x = m.var(3, start=3.0, name="x")
    m.constraint(lambda x: x[0] ** 2, x, eq=4.0)
    s = m.solve(device="cpu")
    assert s.success
    np.testing.assert_allclose(s["x"], 2.0)
    assert s.y.tolist() == [0.0] * 3


def test_small_models_are_compiled_with_little_optimisation():
    cpu = jax.devices("cpu")[0]
    assert program.compiler(cpu, deterministic=False, small=False) is jax.jit
    options = program.compiler(cpu, deterministic=False, small=True).keywords["compiler_options"]
    assert options["xla_backend_optimization_level"] == 0


def corner():
    """The example of Waechter and Biegler (2000), on which interior-point steps alone run into a bound and stop."""
    m = Model()
    x = m.var(3, lb=[-np.inf, 0.0, 0.0], start=[-2.0, 3.0, 1.0])
    m.objective(lambda x: x[0], x[0])
    m.constraint(lambda x: x[0] ** 2 - x[1] - 1.0, x[0], x[1])
    m.constraint(lambda x: x[0] - x[1] - 0.5, x[0], x[2])
    return m


def test_restoration_leads_out_of_a_corner_of_the_bounds():
    s = corner().solve(device="cpu")
    assert s.success
    assert s.fun == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("model", [hs71, pendulum, corner, without_a_solution])
def test_nothing_is_compiled_twice_or_during_a_run(model):
    problem = model().problem()
    place = jax.devices("cpu")[0]
    with double(), jax.default_device(place):
        ready = prepared(problem, None, place, "superlu", deterministic=False)
        ready.program.compile_all(ready.program.data(problem), ready.on_sides.calls)
        kinds = [leaf.aval.weak_type for leaf in jax.tree_util.tree_leaves(ready.program.data(problem))]
    assert not any(kinds), "another value in the place of such a number would compile all anew"
    solve(problem, ready, device="cpu", linear_solver="superlu")
    parts = {**vars(ready.program), **vars(ready.on_sides), **vars(ready.program.repair)}
    functions = {name: part for name, part in parts.items() if hasattr(part, "_cache_size")}
    assert {name: part._cache_size() for name, part in functions.items()} == dict.fromkeys(functions, 1)


def test_limits_and_the_watcher_end_a_run():
    m = pendulum()
    s = m.solve(device="cpu", budget=auglag.Budget(inner=3))
    assert s.status == auglag.Status.ITERATION_LIMIT
    assert s.iterations == 3
    assert m.solve(device="cpu", watch=lambda k, facts: k == 2).status == auglag.Status.STOPPED
    assert m.solve(device="cpu", budget=auglag.Budget(seconds=1e-9)).status == auglag.Status.TIME_LIMIT

    def interrupt(k, facts):
        if k == 2:
            raise KeyboardInterrupt

    s = m.solve(device="cpu", watch=interrupt)
    assert s.status == auglag.Status.INTERRUPTED
    assert np.isfinite(s.fun)


def test_a_function_that_is_not_finite_ends_the_run():
    m = Model()
    x = m.var(1, start=-1.0)
    m.objective(lambda x: jnp.log(x[0]), x)
    assert m.solve(device="cpu").status == auglag.Status.NON_FINITE


def test_a_batch_has_the_solutions_of_single_solves():
    m = pendulum(30)
    goals = np.zeros((11, 4))
    goals[:, 2] = np.linspace(-0.8, 1.2, 11)
    batch = m.solve_batch(par={"goal": goals}, slots=4)
    assert batch.success.all()
    assert (batch.residual <= 1e-6).all()
    for k in (0, 4, 10):
        s = m.solve(device="cpu", par={"goal": goals[k]})
        assert batch.fun[k] == pytest.approx(s.fun, rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(batch["u"][k], s["u"], atol=1e-4)
        np.testing.assert_allclose(batch["defect"][k], s["defect"], atol=1e-4)
    warm = m.solve_batch(par={"goal": goals}, slots=4, warm_start=s)
    assert warm.success.all()
    np.testing.assert_allclose(warm.fun, batch.fun, rtol=1e-6, atol=1e-9)


def test_what_a_batch_cannot_solve_is_solved_alone_or_said():
    m = Model()
    x = m.var(2, name="x", lb=0.0, ub=1.0, start=0.5)
    least = m.parameter(0.1, name="least")
    m.objective(lambda x: x[0] ** 2, x)
    m.constraint(lambda x, p: x[0] * x[1] - p[0], x[0], x[1], par=(least,))
    batch = m.solve_batch(par={"least": [0.1, 4.0, 0.2]})
    np.testing.assert_array_equal(batch.success, [True, False, True])
    np.testing.assert_array_equal(batch.alone, [False, True, False])
    np.testing.assert_allclose(batch["x"][[0, 2]], np.sqrt([[0.1, 0.1], [0.2, 0.2]]), atol=1e-5)


def other():
    """A solution of another model."""
    return hs71().solve()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.solve(device="tpu"), "device must be 'cpu' or 'gpu', got 'tpu'"),
        (lambda m: m.solve(device="cpu", linear_solver="x"), "linear_solver must be 'cudss', 'qdldl' or 'superlu'"),
        (lambda m: m.solve(device="cpu", preset="paper"), r"solve\(\) on a device has no argument 'preset'"),
        (lambda m: m.solve(device="cpu", warm_start=[1.0]), "warm_start on a device or of a batch must be a Solution"),
        (lambda m: m.solve(device="cpu", warm_start=other()), "which has 12 variables and 10 rows, got 4 and 2"),
        (lambda m: m.solve(device="cpu", watch=3), r"watch must be callable as watch\(step, facts\), got 3"),
        (
            lambda m: m.solve_batch(par={"goal": np.zeros((2, 4))}, slots=2.5),
            "slots must be a positive integer or None, got 2.5",
        ),
        (lambda m: m.solve(device="cpu", scaled_tol=2.0), r"scaled_tol must lie in \(0, 1\), got 2.0"),
        (lambda m: m.solve_batch(par={}), "par must have at least one parameter"),
        (lambda m: m.solve_batch(par={"u": [1]}), "the model has no parameter 'u'; it has goal"),
        (lambda m: m.solve_batch(par={"goal": 1.0}), r"first axis, all of one length, got lengths \{'goal': None\}"),
        (lambda m: m.solve_batch(par={"goal": np.zeros((2, 3))}), r"must have the shape \(2, 4\), got \(2, 3\)"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises((auglag.InputError, auglag.OptionError), match=message):
        call(pendulum(3))


def test_without_a_gpu_the_error_says_what_to_install():
    if any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("there is a GPU")
    with pytest.raises(auglag.InputError, match=r"install 'auglag\[gpu\]'"):
        pendulum(3).solve(device="gpu")


# ----------------------------------------------------------------------------------------------------- linear solvers


def quasi_definite(seed, n=6, m=3):
    """The upper triangle of a random quasi-definite matrix: (pattern, values, dense)."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((n + m, n + m))
    dense[:n, :n] = np.diag(rng.uniform(1, 2, n)) + np.diag(rng.uniform(0, 0.3, n - 1), 1)
    dense[:n, n:] = rng.normal(size=(n, m)) * (rng.random((n, m)) < 0.6)
    dense[n:, n:] = -np.diag(rng.uniform(0.1, 1, m))
    row, column = np.nonzero(dense)
    pattern = Pattern(row.astype(np.int64), column.astype(np.int64), dense.shape)
    values = pattern.entries(dense[row, column])
    return pattern, values, dense + np.triu(dense, 1).T


def imitation(memory=None, status=0):
    fake = FakeCuDSS(memory=memory)
    return fake, cudss.Library(fake, FakeRuntime(status))


@pytest.mark.parametrize("name", [*SOLVERS, "cudss"])
def test_linear_solvers_solve_and_tell_the_inertia(name):
    pattern, values, dense = quasi_definite(0)
    with double():
        if name == "cudss":
            solver = cudss.CuDSS(pattern, library=imitation()[1])
        else:
            solver = {"qdldl": Qdldl, "superlu": SuperLU}[name](pattern)
        for scale in (1.0, 3.0):
            b = np.arange(9.0)
            assert solver.factor(jnp.asarray(scale * values)) == (6, 3)
            x = np.asarray(solver.solve(jnp.asarray(b)))
            np.testing.assert_allclose(scale * dense @ x, b, atol=1e-10)


def test_cudss_analyses_once_and_refactorises():
    pattern, values, _ = quasi_definite(1)
    fake, library = imitation()
    with double():
        solver = cudss.CuDSS(pattern, library=library, deterministic=True)
        for _ in range(3):
            solver.factor(jnp.asarray(values))
            solver.solve(jnp.ones(9))
        assert fake.calls == ["analysis", "factor", "solve", "refactor", "solve", "refactor", "solve"]
        assert solver.fill > 9
        solver.close()
    assert [o["kind"] for o in fake.objects.values()] == ["handle"], "everything was given back"


@pytest.mark.parametrize("deterministic", [False, True])
def test_cudss_solves_for_several_right_sides(deterministic):
    pattern, values, dense = quasi_definite(4)
    right = np.random.default_rng(0).standard_normal((2, 9))
    with double():
        solver = cudss.CuDSS(pattern, library=imitation()[1], deterministic=deterministic)
        solver.factor(jnp.asarray(values))
        x = np.asarray(solver.solve(jnp.asarray(right)))
    np.testing.assert_allclose(x @ dense, right, atol=1e-10)


def test_cudss_solves_batches_one_after_the_other():
    pattern, values, dense = quasi_definite(2)
    with double():
        solver = cudss.CuDSS(pattern, batch=3, library=imitation()[1])
        scales = np.array([1.0, 2.0, 5.0])
        solver.factor(jnp.asarray((scales[:, None] * values).ravel()))
        x = np.asarray(solver.solve(jnp.ones(27))).reshape(3, 9)
    for scale, row in zip(scales, x, strict=True):
        np.testing.assert_allclose(scale * dense @ row, np.ones(9), atol=1e-10)


def test_cudss_errors_are_named():
    pattern, values, _ = quasi_definite(3)
    with double():
        with pytest.raises(MemoryError, match="cudssMatrixCreateCsr: the GPU is out of memory"):
            cudss.CuDSS(pattern, library=imitation(memory=4)[1])
        with pytest.raises(cudss.CuDSSError, match="cudaDeviceSynchronize failed: error 700"):
            cudss.CuDSS(pattern, library=imitation(status=700)[1])
        solver = cudss.CuDSS(pattern, library=imitation()[1])
        assert solver.factor(jnp.zeros(pattern.nnz)) is None, "a zero pivot is no exception"
        assert solver.factor(jnp.asarray(values)) == (6, 3)


def test_without_cudss_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(cudss.Library, "_loaded", None)
    monkeypatch.setattr(cudss, "_folders", lambda: [tmp_path])
    with pytest.raises(ImportError, match=r"device='gpu' needs cuDSS: pip install 'auglag\[gpu\]'"):
        cudss.Library.load()


def test_the_loop_runs_on_cudss(monkeypatch):
    fake, library = imitation()
    monkeypatch.setattr(cudss.Library, "_loaded", library)
    s = hs71().solve(device="cpu", linear_solver="cudss")
    assert s.success
    assert s.fun == pytest.approx(17.0140172892, rel=1e-6)
    assert fake.calls[0] == "analysis"
    assert fake.calls.count("analysis") == 1


def test_linear_rows_that_exclude_each_other_are_named_after_a_few_steps():
    m = Model()
    charge, u = m.var(41, lb=0.0, ub=10.0, name="charge"), m.var(40, lb=-1.0, ub=1.0, name="u")
    m.constraint(lambda x: x[1] - x[0] - x[2], charge[:-1], charge[1:], u, name="step")
    m.constraint(lambda x: x[0], charge[0], eq=20.0, name="begin")
    m.objective(lambda x: x[0] ** 2, u)
    found = m.solve(device="cpu")
    assert found.status is auglag.Status.INFEASIBLE
    assert found.message.endswith("begin and the bounds exclude each other: charge[0] >= 20 and <= 10.")
    assert found.iterations <= 15
