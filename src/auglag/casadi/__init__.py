"""auglag for CasADi: dictionaries as for `casadi.nlpsol`, `casadi.Opti`, and what is built on both (rockit, do-mpc).

    found = auglag.casadi.solve({"x": x, "f": f, "g": g, "p": p}, x0=..., lbg=..., ubg=...)
    solver = auglag.casadi.nlpsol("solver", {"x": x, "f": f, "g": g, "p": p})  # call it again and again
    solution = auglag.casadi.solve(opti)

Arguments and outputs are those of CasADi: DM columns, L = f + lam_g'g + lam_x'x. Gradient, Jacobian and the Hessian of
the Lagrangian are CasADi's, exact and sparse.
"""

from __future__ import annotations

try:
    import casadi as _casadi  # noqa: F401
except ImportError as error:  # pragma: no cover - seen only without the extra
    raise ImportError(f"auglag.casadi needs {error.name}: pip install 'auglag[casadi]'") from None

from auglag.casadi.opti import OptiSolution, opti_solver
from auglag.casadi.problem import CasadiProblem
from auglag.casadi.solver import NlpSolver, nlpsol
from auglag.casadi.solving import solve

__all__ = ["CasadiProblem", "NlpSolver", "OptiSolution", "nlpsol", "opti_solver", "solve"]
