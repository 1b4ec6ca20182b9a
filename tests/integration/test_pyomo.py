"""Real Pyomo models through the plugin and through `asl:auglag`, each against IPOPT's answer to the same file."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest

pyo = pytest.importorskip("pyomo.environ")
pytest.importorskip("casadi")

import auglag  # noqa: E402
import auglag.pyomo  # noqa: E402
from auglag import ampl  # noqa: E402
from auglag.ampl import answer  # noqa: E402
from auglag.errors import InputError, OptionError  # noqa: E402
from auglag.problems.nl import load  # noqa: E402
from helpers.pyomo_models import MODELS, ipopt  # noqa: E402


def duals(model) -> list[float]:
    return [model.dual[c] for c in model.component_data_objects(pyo.Constraint, active=True)]


def ordered(model, path: Path, values: list[float]) -> list[float]:
    """Values in the order of the file's rows, in the order of the model's constraints."""
    rows = path.with_suffix(".row").read_text().split()
    names = [c.name for c in model.component_data_objects(pyo.Constraint, active=True)]
    return [values[rows.index(name)] for name in names]


@pytest.fixture
def _in_this_process(monkeypatch):
    """Pyomo writes its file and reads the answer as always, but no Python is started in between."""

    def execute(solver, command):
        assert command.cmd[:3] == [sys.executable, "-m", "auglag.ampl"]
        return ampl.main(command.cmd[3:]), ""

    monkeypatch.setattr(auglag.pyomo.AuglagSolver, "_execute_command", execute)


@pytest.mark.usefixtures("_in_this_process")
@pytest.mark.parametrize("interface", ["auglag", "auglag_v2"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_ends_as_with_ipopt_and_has_its_objective_and_duals(name, interface, tmp_path):
    case = MODELS[name]
    model = case.build()
    plain = tmp_path / "plain.nl"  # CasADi's reader takes no comments, which come with names
    model.write(str(plain))
    reference = ipopt(plain, maximise=load(plain).maximise)
    path = tmp_path / "model.nl"
    model.write(str(path), io_options={"symbolic_solver_labels": True})
    model.dual = pyo.Suffix(direction=pyo.Suffix.IMPORT)
    results = pyo.SolverFactory(interface).solve(model, load_solutions=case.ends == "optimal")
    assert str(results.solver.termination_condition) == case.ends
    if case.ends != "optimal":
        assert reference.status in ("Infeasible_Problem_Detected", "Diverging_Iterates")
        return
    pyo.assert_optimal_termination(results)
    assert reference.status == "Solve_Succeeded"
    objectives = list(model.component_data_objects(pyo.Objective, active=True))
    found = pyo.value(objectives[0]) if objectives else 0.0
    assert found == pytest.approx(reference.objective, rel=1e-5, abs=1e-6)
    if case.duals:
        np.testing.assert_allclose(duals(model), ordered(model, path, reference.duals), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["hs77", "hs100", "chemical_equilibrium", "control", "chain", "named_expressions"])
def test_derivatives_of_a_model_are_those_of_casadi(name, tmp_path):
    import casadi

    path = tmp_path / "model.nl"
    MODELS[name].build().write(str(path))
    ours, builder = load(path), casadi.NlpBuilder()
    builder.import_nl(str(path))
    x, f, g = casadi.vertcat(*builder.x), builder.f, casadi.vertcat(*builder.g)
    y = type(x).sym("y", ours.m)
    hessian = casadi.hessian(f + casadi.dot(y, g), x)[0]
    theirs = casadi.Function("all", [x, y], [f, g, casadi.gradient(f, x), casadi.jacobian(g, x), hessian])
    rng = np.random.default_rng(2)
    at, w = ours.x0 + rng.uniform(0.1, 0.3, ours.n), rng.standard_normal(ours.m)
    mine = [ours.f(at), ours.c(at), ours.grad(at), ours.jac(at).toarray(), ours.hess(at, w).toarray()]
    for a, b in zip(mine, theirs(at, w), strict=True):
        expected = casadi.DM(b).full()
        np.testing.assert_allclose(np.reshape(a, expected.shape), expected, rtol=1e-10, atol=1e-10)
    v = rng.standard_normal(ours.n)
    np.testing.assert_allclose(ours.hessp(at, w, v), mine[-1] @ v, rtol=1e-10, atol=1e-10)


def a_model(objective, row=None):
    model = pyo.ConcreteModel()
    model.p = pyo.Var([0, 1, 2], bounds=(0, None), initialize=0.0)
    model.cost = pyo.Objective(expr=objective(model.p))
    if row is not None:
        model.row = pyo.Constraint(expr=row(model.p))
        model.more = pyo.Constraint(expr=model.p[0] + model.p[1] >= 5)
    return model


@pytest.mark.usefixtures("_in_this_process")
@pytest.mark.parametrize(
    ("objective", "row", "options", "condition"),
    [
        (lambda p: sum(p[i] ** 1.5 for i in p), lambda p: sum(p[i] ** 2 for i in p) <= 1, {}, "infeasible"),
        (lambda p: -p[0], None, {}, "unbounded"),
        (lambda p: pyo.log(-1 - p[0]), None, {}, "invalidProblem"),
        (lambda p: p[0] - p[1], lambda p: (p[0] - 3) ** 2 <= 0, {"max_iter": 1, "preset": "paper"}, "maxIterations"),
    ],
    ids=["infeasible", "unbounded", "not defined", "limit"],
)
def test_every_end_shows_its_message_to_users_of_pyomo(objective, row, options, condition, caplog):
    results = pyo.SolverFactory("auglag").solve(a_model(objective, row), options=options)
    assert str(results.solver.termination_condition) == condition
    assert "auglag" in results.solver.message
    assert "message from solver: auglag" in caplog.text


@pytest.mark.usefixtures("_in_this_process")
def test_a_run_that_is_stuck_loads_its_point_and_shows_its_message(monkeypatch, caplog):
    ends = ampl.answer

    def stuck(problem, result):
        result.status = auglag.Status.STUCK
        return ends(problem, result)

    monkeypatch.setattr(ampl, "answer", stuck)
    model = a_model(lambda p: (p[0] - 1) ** 2)
    results = pyo.SolverFactory("auglag").solve(model)
    assert str(results.solver.termination_condition) == "other"
    assert "message from solver: auglag" in caplog.text
    assert pyo.value(model.p[0]) == pytest.approx(1.0, abs=1e-5)


def hs71():
    model = MODELS["hs71"].build()
    for name in ("dual", "auglag_zL_out", "ipopt_zL_out", "auglag_zU_out"):
        setattr(model, name, pyo.Suffix(direction=pyo.Suffix.IMPORT))
    return model


def test_the_executable_on_the_path_works_as_an_asl_solver(monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    solver = pyo.SolverFactory("asl:auglag")
    assert any(
        solver.available() for _ in range(5)
    )  # Pyomo gives it five seconds to start, which a busy machine misses
    assert solver.version()[:2] == tuple(int(part) for part in auglag.__version__.split(".")[:2])
    model = hs71()
    pyo.assert_optimal_termination(solver.solve(model, options={"tol": 1e-7, "variant": "adaptive-full"}))
    assert pyo.value(model.f) == pytest.approx(17.0140173)
    assert duals(model) == pytest.approx([0.5522936, -0.1614686], abs=1e-6)
    assert model.auglag_zL_out[model.x[1]] == pytest.approx(1.0878712, abs=1e-6)
    assert model.ipopt_zL_out[model.x[1]] == model.auglag_zL_out[model.x[1]]
    assert [model.auglag_zU_out[model.x[i]] for i in model.x] == [0.0] * 4


@pytest.mark.parametrize("sense", [pyo.minimize, pyo.maximize])
def test_duals_are_derivatives_of_the_optimal_value_whatever_the_sense(sense, tmp_path):
    sign = 1 if sense == pyo.minimize else -1

    def optimum(side: float, bound: float):
        model = pyo.ConcreteModel()
        model.x = pyo.Var([1, 2], initialize=1.0)
        model.x[1].setub(bound) if sign == 1 else model.x[1].setlb(-bound)
        model.f = pyo.Objective(expr=sign * ((model.x[1] - sign * 3) ** 2 + model.x[2] ** 2), sense=sense)
        model.c = pyo.Constraint(expr=model.x[1] + 2 * model.x[2] == side)
        model.write(str(tmp_path / "m.nl"), io_options={"symbolic_solver_labels": True})
        problem = load(tmp_path / "m.nl")
        result = auglag.minimize(problem, tol=1e-9)
        assert result.success
        return sign * result.fun, answer(problem, result), problem.variable_names.index("x[1]")

    (_, here, j), h = optimum(4.0, 1.5), 1e-3
    by_side = (optimum(4.0 + h, 1.5)[0] - optimum(4.0 - h, 1.5)[0]) / (2 * h)
    assert here.duals == pytest.approx([by_side], rel=1e-5)
    by_bound = (optimum(4.0, 1.5 + h)[0] - optimum(4.0, 1.5 - h)[0]) / (2 * h)
    if sense == pyo.minimize:
        assert here.suffixes["auglag_zU_out"][j] == pytest.approx(by_bound, rel=1e-5)
    else:
        assert here.suffixes["auglag_zL_out"][j] == pytest.approx(-by_bound, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "limit", "condition"),
    [
        ({"max_iter": 1, "preset": "paper"}, None, "maxIterations"),
        ({"max_evaluations": 5}, None, "maxEvaluations"),
        ({}, 1e-9, "maxTimeLimit"),
    ],
)
def test_limits_are_told_apart(options, limit, condition):
    results = pyo.SolverFactory("auglag").solve(hs71(), options=options, timelimit=limit, load_solutions=False)
    assert str(results.solver.termination_condition) == condition
    assert str(results.solver.status) == "warning"


def test_integers_are_relaxed_and_the_result_is_a_warning_where_that_shows():
    model = pyo.ConcreteModel()
    model.x = pyo.Var(within=pyo.Integers, initialize=0)
    model.y = pyo.Var(within=pyo.Binary, initialize=0)
    model.f = pyo.Objective(expr=(model.x - 1.25) ** 2 + (model.y - 2) ** 2)
    results = pyo.SolverFactory("auglag").solve(model)
    assert str(results.solver.status) == "warning"
    assert "Ignored the integrality of 2 variables" in results.solver.message
    assert "1 of them are not integer in the solution" in results.solver.message
    assert pyo.value(model.x) == pytest.approx(1.25)
    assert pyo.value(model.y) == pytest.approx(1.0)


def test_an_option_that_does_not_exist_is_named(capfd):
    from pyomo.common.errors import ApplicationError

    with pytest.raises(ApplicationError):
        pyo.SolverFactory("auglag").solve(hs71(), options={"toll": 1e-3}, tee=True)
    assert "there is no option 'toll'; did you mean 'tol'?" in capfd.readouterr().out
    with pytest.raises(InputError, match="timelimit must be positive, got -1"):
        pyo.SolverFactory("auglag").solve(hs71(), timelimit=-1)


def test_a_model_written_for_warm_starts_of_ipopt_starts_at_its_solution():
    model = hs71()
    model.dual.direction = pyo.Suffix.IMPORT_EXPORT
    model.ipopt_zU_out = pyo.Suffix(direction=pyo.Suffix.IMPORT)
    model.ipopt_zL_in = pyo.Suffix(direction=pyo.Suffix.EXPORT)
    model.ipopt_zU_in = pyo.Suffix(direction=pyo.Suffix.EXPORT)
    solver = pyo.SolverFactory("auglag_v2")
    solver.solve(model)
    for x in model.x.values():
        model.ipopt_zL_in[x], model.ipopt_zU_in[x] = model.ipopt_zL_out[x], model.ipopt_zU_out[x]
    warm = {"warm_start_init_point": "yes", "warm_start_bound_push": 1e-6, "mu_init": 1e-6}
    with pytest.warns(UserWarning, match="passed over: mu_init=1e-06, warm_start_bound_push=1e-06"):
        solver.solve(model, options=warm)
    again = auglag.pyomo.Auglag().solve(model, solver_options={"warm_start": "yes"})
    assert again.extra_info.iteration_count == 0


@pytest.mark.usefixtures("_in_this_process")
def test_options_of_ipopt_make_one_warning_through_files_too(capfd):
    with pytest.warns(UserWarning, match="passed over: mu_init=0.1, linear_solver=ma27") as caught:
        pyo.SolverFactory("auglag").solve(hs71(), options={"mu_init": 0.1, "linear_solver": "ma27", "max_iter": 100})
    assert len(caught) == 1
    told = capfd.readouterr()
    assert "passed over" not in told.out + told.err  # in the log of the other process


@pytest.mark.usefixtures("_in_this_process")
@pytest.mark.parametrize("interface", ["auglag", "auglag_v2"])
def test_no_solution_is_told_alike_behind_both_interfaces(interface, caplog):
    model = hs71()
    model.no = pyo.Constraint(expr=model.x[1] ** 2 + model.x[2] ** 2 <= 1)
    results = pyo.SolverFactory(interface).solve(model)
    assert "Locally infeasible" in results.solver.message
    assert str(results.solver.status) == "warning"
    assert str(results.solver.termination_condition) == "infeasible"
    assert "Locally infeasible" in caplog.text


def test_the_direct_solver_shows_what_it_does_and_raises_where_there_is_no_solution():
    from pyomo.contrib.solver.common.util import NoOptimalSolutionError

    model, stream = hs71(), io.StringIO()
    results = auglag.pyomo.Auglag().solve(model, tee=stream, load_solutions=False)
    assert "newton step" in stream.getvalue()
    assert results.solver_log == stream.getvalue()
    assert results.incumbent_objective == pytest.approx(17.0140173)
    assert pyo.value(model.x[1]) == 1.0  # as before
    assert results.extra_info.result.success
    model.no = pyo.Constraint(expr=model.x[1] ** 2 + model.x[2] ** 2 <= 1)
    with pytest.raises(NoOptimalSolutionError, match="Locally infeasible"):
        auglag.pyomo.Auglag().solve(model)
    quiet = {"raise_exception_on_nonoptimal_result": False, "load_solutions": False}
    for options, condition in (({"max_evaluations": 2}, "iterationLimit"), ({}, "locallyInfeasible")):
        results = auglag.pyomo.Auglag().solve(model, solver_options=options, **quiet)
        assert results.termination_condition.name == condition
    with pytest.raises(OptionError, match="there is no option 'toll'; did you mean 'tol'"):
        auglag.pyomo.Auglag().solve(model, solver_options={"toll": 1})
