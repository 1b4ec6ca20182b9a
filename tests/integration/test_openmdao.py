"""The driver of OpenMDAO on its own examples, beside SLSQP through OpenMDAO's driver for SciPy."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    om = pytest.importorskip("openmdao.api", reason="needs OpenMDAO: pip install 'auglag[openmdao]'")
    import auglag.openmdao

from helpers.frameworks import beam, brachistochrone, paraboloid, sellar

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _no_reports(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENMDAO_REPORTS", "0")
    monkeypatch.chdir(tmp_path)


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


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("sides", [{"lower": 0.0, "upper": 10.0}, {"equals": 0.0}])
def test_two_sides_equations_scaling_and_linear_rows(linear, sides):
    row = {"linear": linear, "ref": 5.0} | sides
    problem = paraboloid(auglag.openmdao.AuglagDriver(tol=1e-8), row, ref=2.0)
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
    problem = paraboloid(auglag.openmdao.AuglagDriver(maxiter=3), {"lower": 200.0})
    problem.driver.opt_settings["restarts"] = 0
    assert not problem.run_driver().success
    assert problem.driver.result.exit_status == "INFEASIBLE"
    assert "nfeasible" in capsys.readouterr().out


def test_the_brachistochrone_of_dymos():
    pytest.importorskip("dymos", reason="needs Dymos: pip install dymos")
    problem = brachistochrone(auglag.openmdao.AuglagDriver())
    assert problem.run_driver().success
    assert problem.get_val("traj.phase0.timeseries.time")[-1, 0] == pytest.approx(1.8016, abs=1e-3)


def test_a_model_without_design_variables_is_told():
    problem = om.Problem(reports=False)
    problem.model.add_subsystem("f", om.ExecComp("f = (x - 3)**2"), promotes=["*"])
    problem.model.add_objective("f")
    problem.driver = auglag.openmdao.AuglagDriver()
    problem.setup()
    with pytest.raises(auglag.InputError, match=r"must have design variables \(add_design_var\), got none"):
        problem.run_driver()
