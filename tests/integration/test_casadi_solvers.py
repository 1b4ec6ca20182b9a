"""CasADi's solver objects, Opti, structures of casadi.tools, and packages that are built on them."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

casadi = pytest.importorskip("casadi", reason="needs CasADi: pip install 'auglag[casadi]'")

import auglag.casadi  # noqa: E402
from auglag.errors import InputError, OptionError  # noqa: E402
from helpers.frameworks import QUIET, controller, parcel  # noqa: E402


def rosenbrock():
    x, p = casadi.SX.sym("x", 2), casadi.SX.sym("p")
    return {"x": x, "p": p, "f": (p - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, "g": casadi.sumsqr(x)}


def test_a_solver_is_called_again_with_other_parameters_and_tells_what_it_did():
    ours = auglag.casadi.nlpsol("solver", rosenbrock(), tol=1e-8)
    theirs = casadi.nlpsol("solver", "ipopt", rosenbrock(), QUIET)
    assert ours.stats() == {}
    for p in (0.5, 1.0, 2.0):
        arguments = {"x0": [-1, 1], "p": p, "ubg": 1.5, "lbx": -1.5}
        mine, found = ours(**arguments), theirs(**arguments)
        assert mine.keys() == found.keys()
        for name, value in found.items():
            np.testing.assert_allclose(mine[name].full(), value.full(), atol=1e-6)
        stats = ours.stats()
        assert (stats["success"], stats["unified_return_status"]) == (True, "SOLVER_RET_SUCCESS")
        assert stats["iter_count"] > 0
        assert stats["n_call_nlp_f"] == ours.result.nfev
    again = ours(**arguments | {"x0": mine["x"]}, lam_g0=mine["lam_g"], lam_x0=mine["lam_x"])
    assert ours.stats()["iter_count"] == 0
    np.testing.assert_allclose(again["x"].full(), mine["x"].full(), atol=1e-8)


def test_sensitivities_by_parameters_are_those_of_solutions_beside():
    solver = auglag.casadi.nlpsol("solver", rosenbrock(), tol=1e-10)
    with pytest.raises(InputError, match="solver must have found a solution"):
        solver.sensitivity()
    arguments = {"x0": [0.5, 0.5], "ubg": 1.5}
    up, down = (solver(**arguments, p=2.0 + h) for h in (1e-4, -1e-4))
    solver(**arguments, p=2.0)
    found = solver.sensitivity()
    assert found.differentiable
    for derivative, name in ((found.dx, "x"), (found.dy, "lam_g")):
        np.testing.assert_allclose(derivative, (up[name] - down[name]).full() / 2e-4, rtol=1e-4, atol=1e-6)
    assert found.dfun[0] == pytest.approx(float(up["f"] - down["f"]) / 2e-4, rel=1e-6)


def test_arguments_without_names_give_a_tuple_and_wrong_names_an_error():
    solver = auglag.casadi.nlpsol("solver", rosenbrock())
    x, f, *_ = solver([1, 1], 1.0)
    np.testing.assert_allclose(x.full().ravel(), 1.0)
    assert float(f) == pytest.approx(0.0)
    with pytest.raises(
        InputError, match="an argument must be one of x0, p, lbx, ubx, lbg, ubg, lam_x0, lam_g0, got 'y0'"
    ):
        solver(y0=1)
    with pytest.raises(InputError, match="all by name or none, got 1"):
        solver([1, 1], p=1.0)


def test_misspelt_names_and_options_of_ipopt_get_an_answer():
    x = casadi.SX.sym("x", 2)
    nlp = {"x": x, "f": casadi.sumsqr(x), "g": x[0]}
    with pytest.raises(OptionError, match=r"solve\(\) has no argument 'lbgg'; did you mean 'lbg'"):
        auglag.casadi.solve(nlp, x0=[0, 0], lbgg=0)
    with pytest.raises(OptionError, match=r"'ipopt.print_level': options are keywords of auglag.minimize"):
        auglag.casadi.nlpsol("solver", nlp, {"ipopt.print_level": 0})


def test_structures_of_casadi_tools_are_variables_and_starts():
    from casadi.tools import entry, struct_symSX

    w = struct_symSX([entry("point", shape=2), entry("height")])
    start = w(0)
    start["point"] = [1.0, 2.0]
    nlp = {"x": w, "f": casadi.sumsqr(w["point"]) + w["height"] ** 2, "g": w["point"][0] + w["height"]}
    found = w(auglag.casadi.solve(nlp, x0=start, lbg=1, ubg=1)["x"])
    np.testing.assert_allclose(found["point"].full().ravel(), [0.5, 0.0], atol=1e-6)


def an_opti():
    opti = casadi.Opti()
    x, y, p = opti.variable(2), opti.variable(), opti.parameter()
    row = x[0] + x[1] + y == p
    opti.minimize(casadi.sumsqr(x - 1) + (y - p) ** 4)
    opti.subject_to(row)
    opti.subject_to(opti.bounded(0, x, 0.8))
    opti.subject_to(y >= 0.25 * p)
    opti.set_initial(x, [0.5, 0.1])
    opti.set_value(p, 2.0)
    return opti, x, y, p, row


def test_opti_has_the_values_and_duals_of_ipopt():
    opti, x, y, p, row = an_opti()
    ours = auglag.casadi.solve(opti, tol=1e-9)
    opti.solver("ipopt", QUIET)
    theirs = opti.solve()
    for expression in (x, y, p, x[0] * y + p, opti.dual(row), opti.lam_g, casadi.horzcat(x, 2 * x), opti.f):
        np.testing.assert_allclose(ours.value(expression), theirs.value(expression), atol=1e-5)
        assert np.shape(ours.value(expression)) == np.shape(theirs.value(expression))
    assert ours.value(x[0] + p, [casadi.MX(5) == p]) == pytest.approx(ours.value(x[0]) + 5)
    assert ours.stats()["success"]


def test_opti_is_solved_again_from_its_solution_and_after_changes():
    opti, x, y, p, _ = an_opti()
    first = auglag.casadi.solve(opti)
    opti.set_initial(first.value_variables())
    opti.set_initial(opti.lam_g, first.value(opti.lam_g))
    assert auglag.casadi.solve(opti).stats()["iter_count"] == 0
    opti.set_value(p, 2.1)
    assert auglag.casadi.solve(opti).value(y) > first.value(y)
    opti.subject_to(x[0] <= 0.3)
    assert auglag.casadi.solve(opti).value(x)[0] == pytest.approx(0.3, abs=1e-6)
    assert first.value(x)[0] > 0.3  # a solution keeps its numbers
    opti.subject_to(x[0] >= 0.4)
    with pytest.raises(RuntimeError, match="found no solution of the Opti problem: Infeasible"):
        auglag.casadi.solve(opti)
    assert not auglag.casadi.solve(opti, error_on_fail=False).result.success


def test_both_of_optis_solves_are_taken_over_and_only_limits_are_forgiven():
    opti, x, *_ = an_opti()
    with auglag.casadi.opti_solver(budget=auglag.Budget(evaluations=2)):
        cut = opti.solve_limited()
        with pytest.raises(RuntimeError, match="found no solution of the Opti problem"):
            opti.solve()
    assert cut.stats()["unified_return_status"] == "SOLVER_RET_LIMITED"
    assert "EVALUATION_LIMIT" in repr(cut)
    opti.subject_to(x[0] >= 1)
    with auglag.casadi.opti_solver(), pytest.raises(RuntimeError, match="Infeasible"):
        opti.solve_limited()
    with pytest.raises(TypeError, match=r"opti_solver\(\) has no argument 'toll'; did you mean 'tol'"):
        auglag.casadi.opti_solver(toll=1)


def test_a_callback_of_opti_is_not_passed_over_in_silence():
    opti, *_ = an_opti()
    opti.callback(lambda i: None)
    with pytest.warns(UserWarning, match=r"function of opti\.callback is not called"):
        auglag.casadi.solve(opti)


def test_a_solver_is_made_called_and_asked_as_casadis_is():
    ours = auglag.casadi.nlpsol("S", rosenbrock(), {"tol": 1e-8})
    theirs = casadi.nlpsol("S", "ipopt", rosenbrock(), QUIET)
    assert "not called yet" in repr(ours)
    everything = [[-1, 1], 0.5, -np.inf, np.inf, -np.inf, 1.5, 0, 0]
    for mine, found in zip(ours.call(everything), theirs.call(everything), strict=True):
        np.testing.assert_allclose(mine.full(), found.full(), atol=1e-6)
    assert "SOLVED" in repr(ours)
    assert (ours.n_in(), ours.n_out()) == (theirs.n_in(), theirs.n_out())
    assert (ours.name_in(), ours.name_out()) == (theirs.name_in(), theirs.name_out())
    for i, name in enumerate(ours.name_in()):
        assert ours.size_in(i) == ours.size_in(name) == theirs.size_in(name)
    for i, name in enumerate(ours.name_out()):
        assert ours.size_out(i) == ours.size_out(name) == theirs.size_out(name)
    with pytest.raises(InputError, match="there is no plugin, got 'ipopt'"):
        auglag.casadi.nlpsol("S", "ipopt", rosenbrock(), {})
    with pytest.raises(TypeError, match="no argument 'toll'; did you mean 'tol'"):
        auglag.casadi.nlpsol("S", rosenbrock(), {"toll": 1e-8})


def test_a_parameter_without_value_is_named():
    opti = casadi.Opti()
    x, p = opti.variable(), opti.parameter()
    opti.minimize((x - p) ** 2)
    with pytest.raises(InputError, match="every parameter of the Opti problem must have a value"):
        auglag.casadi.solve(opti)


def test_rockit_with_one_line_more():
    pytest.importorskip("rockit", reason="needs rockit: pip install rockit-meco")
    ocp, place = parcel()
    with auglag.casadi.opti_solver(tol=1e-8):
        ours = ocp.solve()
        limited = ocp.solve_limited()
    assert ours.value(ocp.T) == pytest.approx(2.0, abs=1e-6)  # bang, then bang
    assert limited.stats["return_status"] == "SOLVED"
    theirs = ocp.solve()
    assert ours.stats["return_status"] == "SOLVED"
    assert theirs.stats["return_status"] == "Solve_Succeeded"
    np.testing.assert_allclose(
        ours.sample(place, grid="control")[1], theirs.sample(place, grid="control")[1], atol=1e-5
    )


@pytest.mark.filterwarnings("ignore")
def test_do_mpc_with_one_line_changed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("do_mpc", reason="needs do-mpc: pip install do-mpc")
    ours, theirs = controller(), controller()
    ours.S = auglag.casadi.nlpsol("S", ours.nlp, tol=1e-8)
    state = np.array([1.0, 0.0])
    for _ in range(3):
        np.testing.assert_allclose(ours.make_step(state), theirs.make_step(state), atol=1e-5)
        assert ours.solver_stats["success"]
        state = 0.8 * state


def test_the_example_of_predictive_control_takes_few_iterations():
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "moving_horizon.py"))
    solver = auglag.casadi.nlpsol("plan", example["plan"](example["dynamics"]()))
    assert max(example["run"](solver, solver.stats, 3)[0]) <= 3
    assert max(example["run"](solver, solver.stats, 3, predicting=True)[0]) <= 1
