"""The driver of OpenMDAO on its own examples, beside SLSQP through OpenMDAO's driver for SciPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    om = pytest.importorskip("openmdao.api", reason="needs OpenMDAO: pip install 'auglag[openmdao]'")
    import auglag.openmdao

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _no_reports(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENMDAO_REPORTS", "0")
    monkeypatch.chdir(tmp_path)


def sellar(driver, coupled=True):
    from openmdao.test_suite.components.sellar import SellarDerivatives

    solver = om.NonlinearBlockGS(rtol=1e-12, atol=1e-12, maxiter=50) if coupled else om.NonlinearRunOnce()
    model = SellarDerivatives(nonlinear_solver=solver, linear_solver=om.DirectSolver())
    problem = om.Problem(model, reports=False)
    problem.driver = driver
    problem.model.add_design_var("z", lower=np.array([-10.0, 0.0]), upper=np.array([10.0, 10.0]))
    problem.model.add_design_var("x", lower=0.0, upper=10.0)
    problem.model.add_objective("obj")
    problem.model.add_constraint("con1", upper=0.0)
    problem.model.add_constraint("con2", upper=0.0)
    problem.set_solver_print(level=-1)
    problem.setup()
    return problem


def beam(driver, count=10):
    from openmdao.test_suite.test_examples.beam_optimization.beam_group import BeamGroup

    problem = om.Problem(BeamGroup(E=1.0, L=1.0, b=0.1, volume=0.01, num_elements=count), reports=False)
    problem.driver = driver
    problem.setup()
    return problem


def slsqp(**options):
    return om.ScipyOptimizeDriver(optimizer="SLSQP", disp=False, **options)


def test_sellar_has_its_known_optimum_and_multipliers_by_name():
    problem = sellar(auglag.openmdao.AuglagDriver(tol=1e-7))
    assert problem.run_driver().success
    assert problem.get_val("obj") == pytest.approx(3.18339395, abs=1e-6)
    assert problem.get_val("z") == pytest.approx([1.97763888, 0.0], abs=1e-5)
    solution = problem.driver.solution
    assert solution.success
    multipliers = solution.multipliers_by_name
    assert multipliers.keys() == {"con1", "con2"}
    assert multipliers["con1"][0] > 0.1
    assert multipliers["con2"][0] == pytest.approx(0.0, abs=1e-7)
    assert problem.driver.result.exit_status == "SOLVED"
    assert problem.driver.get_driver_objective_calls() < 60


def test_a_model_whose_coupling_is_not_solved_is_no_success_and_the_advice_says_why():
    problem = sellar(auglag.openmdao.AuglagDriver(), coupled=False)
    assert not problem.run_driver().success
    assert any("two calls returned different ones" in text for text in problem.driver.solution.advice)


def test_a_beam_is_as_stiff_as_slsqp_makes_it():
    ours, theirs = beam(auglag.openmdao.AuglagDriver()), beam(slsqp(tol=1e-9))
    assert ours.run_driver().success
    theirs.run_driver()
    name = "compliance_comp.compliance"
    assert ours.get_val(name) == pytest.approx(theirs.get_val(name), rel=1e-5)
    assert ours.get_val("h") == pytest.approx(theirs.get_val("h"), abs=1e-3)


def paraboloid(driver, **objective):
    problem = om.Problem(reports=False)
    problem.model.add_subsystem("f", om.ExecComp("f = (x - 3)**2 + x*y + (y + 4)**2 - 3"), promotes=["*"])
    problem.model.add_subsystem("c", om.ExecComp("c = x + y"), promotes=["*"])
    problem.driver = driver
    problem.model.add_design_var("x", lower=-50, upper=50, ref=10.0)
    problem.model.add_design_var("y", lower=-50, upper=50)
    problem.model.add_objective("f", **objective)
    return problem


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("sides", [{"lower": 0.0, "upper": 10.0}, {"equals": 0.0}])
def test_two_sides_equations_scaling_and_linear_rows(linear, sides):
    problem = paraboloid(auglag.openmdao.AuglagDriver(tol=1e-8), ref=2.0)
    problem.model.add_constraint("c", linear=linear, ref=5.0, **sides)
    problem.setup()
    assert problem.run_driver().success
    assert [problem.get_val("x")[0], problem.get_val("y")[0]] == pytest.approx([7.0, -7.0], abs=1e-6)


def test_a_model_that_fails_at_some_points_is_undefined_there_and_other_errors_come_out():
    class Fragile(om.ExplicitComponent):
        error = om.AnalysisError

        def setup(self):
            self.add_input("x", 1.5)
            self.add_output("f")
            self.declare_partials("f", "x")

        def compute(self, inputs, outputs):
            if inputs["x"][0] < 0.5:
                raise self.error("too small")
            outputs["f"] = (inputs["x"] - 0.6) ** 4

        def compute_partials(self, inputs, partials):
            partials["f", "x"] = 4 * (inputs["x"] - 0.6) ** 3

    problem = om.Problem(reports=False)
    problem.model.add_subsystem("f", Fragile(), promotes=["*"])
    problem.model.add_design_var("x", lower=-10, upper=10)
    problem.model.add_objective("f")
    problem.driver = auglag.openmdao.AuglagDriver()
    problem.setup()
    assert problem.run_driver().success
    assert problem.get_val("x")[0] == pytest.approx(0.6, abs=0.02)
    Fragile.error = ZeroDivisionError
    problem.set_val("x", 0.4)
    with pytest.raises(ZeroDivisionError, match="too small"):
        problem.run_driver()


def test_settings_reach_auglag_and_failure_is_told(capsys):
    problem = paraboloid(auglag.openmdao.AuglagDriver(maxiter=3))
    problem.model.add_constraint("c", lower=200.0)
    problem.setup()
    problem.driver.opt_settings["restarts"] = 0
    assert not problem.run_driver().success
    assert problem.driver.result.exit_status == "INFEASIBLE"
    assert "nfeasible" in capsys.readouterr().out


def brachistochrone(driver):
    import dymos
    from dymos.examples.brachistochrone import BrachistochroneODE

    problem = om.Problem(om.Group(), reports=False)
    problem.driver = driver
    problem.driver.declare_coloring()
    transcription = dymos.Radau(num_segments=5, order=3)
    phase = dymos.Phase(ode_class=BrachistochroneODE, transcription=transcription)
    trajectory = dymos.Trajectory()
    trajectory.add_phase("phase0", phase)
    problem.model.add_subsystem("traj", trajectory)
    phase.set_time_options(fix_initial=True, duration_bounds=(0.5, 10))
    phase.add_state("x", fix_initial=True, fix_final=True)
    phase.add_state("y", fix_initial=True, fix_final=True)
    phase.add_state("v", fix_initial=True)
    phase.add_control("theta", units="deg", lower=0.01, upper=179.9)
    phase.add_parameter("g", units="m/s**2", val=9.80665, opt=False)
    phase.add_objective("time", loc="final")
    problem.setup()
    phase.set_time_val(initial=0.0, duration=2.0)
    phase.set_state_val("x", [0, 10])
    phase.set_state_val("y", [10, 5])
    phase.set_state_val("v", [0, 9.9])
    phase.set_control_val("theta", [5, 100.5], units="deg")
    return problem


def test_the_brachistochrone_of_dymos():
    pytest.importorskip("dymos", reason="needs Dymos: pip install dymos")
    problem = brachistochrone(auglag.openmdao.AuglagDriver())
    assert problem.run_driver().success
    assert problem.get_val("traj.phase0.timeseries.time")[-1, 0] == pytest.approx(1.8016, abs=1e-3)
