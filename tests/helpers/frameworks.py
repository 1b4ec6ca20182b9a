"""Problems as users of other packages write them; each package is imported where it is needed."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Options of CasADi's IPOPT.
QUIET = {"ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": False, "ipopt.tol": 1e-10}


# ------------------------------------------------------------------------------------------------------------ OpenMDAO


def sellar(driver: Any, coupled: bool = True) -> Any:
    import openmdao.api as om
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


def beam(driver: Any, count: int = 10) -> Any:
    import openmdao.api as om
    from openmdao.test_suite.test_examples.beam_optimization.beam_group import BeamGroup

    problem = om.Problem(BeamGroup(E=1.0, L=1.0, b=0.1, volume=0.01, num_elements=count), reports=False)
    problem.driver = driver
    problem.setup()
    return problem


def paraboloid(driver: Any, row: Any = None, **objective: Any) -> Any:
    """With the constraint c = x + y, and what `row` says of it."""
    import openmdao.api as om

    problem = om.Problem(reports=False)
    problem.model.add_subsystem("f", om.ExecComp("f = (x - 3)**2 + x*y + (y + 4)**2 - 3"), promotes=["*"])
    problem.model.add_subsystem("c", om.ExecComp("c = x + y"), promotes=["*"])
    problem.driver = driver
    problem.model.add_design_var("x", lower=-50, upper=50, ref=10.0)
    problem.model.add_design_var("y", lower=-50, upper=50)
    problem.model.add_objective("f", **objective)
    problem.model.add_constraint("c", **(row or {"lower": 0.0, "upper": 10.0}))
    problem.setup()
    return problem


def brachistochrone(driver: Any, transcription: str = "Radau", segments: int = 5) -> Any:
    import dymos
    import openmdao.api as om
    from dymos.examples.brachistochrone import BrachistochroneODE

    problem = om.Problem(om.Group(), reports=False)
    problem.driver = driver
    problem.driver.declare_coloring()
    grid = getattr(dymos, transcription)(num_segments=segments, order=3)
    phase = dymos.Phase(ode_class=BrachistochroneODE, transcription=grid)
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


# -------------------------------------------------------------------------------------------------------------- CasADi


def parcel() -> tuple[Any, Any]:
    """rockit: the shortest time from rest to rest with limited force; 2 s, bang and bang. The OCP and its place."""
    import rockit

    ocp = rockit.Ocp(T=rockit.FreeTime(1.0))
    place, speed, force = ocp.state(), ocp.state(), ocp.control()
    ocp.set_der(place, speed)
    ocp.set_der(speed, force)
    for row in (ocp.at_t0(place) == 0, ocp.at_t0(speed) == 0, ocp.at_tf(place) == 1, ocp.at_tf(speed) == 0):
        ocp.subject_to(row)
    ocp.subject_to((force <= 1) >= -1)
    ocp.add_objective(ocp.T)
    ocp.method(rockit.MultipleShooting(N=10, intg="rk"))
    ocp.solver("ipopt", QUIET)
    return ocp, place


def oscillator() -> tuple[Any, Any]:
    """rockit: Van der Pol's oscillator, brought to rest with limited control and a limited state."""
    import rockit

    ocp = rockit.Ocp(T=10)
    x1, x2, u = ocp.state(), ocp.state(), ocp.control()
    ocp.set_der(x1, (1 - x2**2) * x1 - x2 + u)
    ocp.set_der(x2, x1)
    ocp.subject_to((u <= 1) >= -1)
    ocp.subject_to(x1 >= -0.25)
    ocp.subject_to(ocp.at_t0(x1) == 0)
    ocp.subject_to(ocp.at_t0(x2) == 1)
    ocp.add_objective(ocp.integral(x1**2 + x2**2 + u**2))
    ocp.method(rockit.MultipleShooting(N=20, intg="rk"))
    ocp.solver("ipopt", QUIET)
    return ocp, x1


def controller() -> Any:
    """do-mpc: a damped mass on a line, with limited force."""
    import casadi
    import do_mpc

    model = do_mpc.model.Model("continuous")
    place, speed, force = (model.set_variable(kind, name) for kind, name in (("_x", "s"), ("_x", "v"), ("_u", "f")))
    model.set_rhs("s", speed)
    model.set_rhs("v", force - 0.1 * casadi.sin(place))
    model.setup()
    mpc = do_mpc.controller.MPC(model)
    mpc.set_param(n_horizon=8, t_step=0.2, nlpsol_opts=QUIET, store_full_solution=False)
    mpc.set_objective(mterm=place**2 + speed**2, lterm=place**2 + 0.1 * speed**2)
    mpc.set_rterm(f=0.01)
    mpc.bounds["lower", "_u", "f"], mpc.bounds["upper", "_u", "f"] = -1.0, 1.0
    mpc.setup()
    mpc.x0 = np.array([1.0, 0.0])
    mpc.set_initial_guess()
    return mpc


# --------------------------------------------------------------------------------------------------- SciPy and BoTorch


def acquisition(seed: int) -> dict[str, Any]:
    """BoTorch: arguments of `optimize_acqf` for an upper confidence bound under x0 + x1 <= 0.5."""
    import torch
    from botorch.acquisition import UpperConfidenceBound
    from botorch.models import SingleTaskGP

    torch.manual_seed(seed)
    x = torch.rand(8, 2, dtype=torch.double)
    model = SingleTaskGP(x, torch.sin(5 * x).sum(dim=1, keepdim=True))
    return {
        "acq_function": UpperConfidenceBound(model, beta=4.0),
        "bounds": torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double),
        "q": 1,
        "num_restarts": 2,
        "raw_samples": 16,
        "inequality_constraints": [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0], dtype=torch.double), -0.5)],
    }
