"""The one function `solve` for all that CasADi calls a problem."""

from __future__ import annotations

from typing import Any

import casadi

from auglag.casadi.opti import solve_opti
from auglag.casadi.solver import INPUTS, NlpSolver
from auglag.minimize import require_options


def solve(problem: Any, **arguments: Any) -> Any:
    """Solve a dictionary {"x": x, "f": f, "g": g, "p": p} of expressions, or an Opti object.

    A dictionary: minimise f over x subject to lbx <= x <= ubx and lbg <= g <= ubg for the parameters p. It has SX or MX
    expressions, also structures of `casadi.tools`; "g" and "p" may be missing. `arguments` are x0, p, lbx, ubx, lbg,
    ubg (numbers are spread over vectors), lam_g0 to start from multipliers, and keywords of `auglag.minimize`: tol,
    variant, inner, budget, ... Returns x, f, g, lam_g, lam_x and lam_p as DM, in CasADi's signs, and the
    `auglag.Result` as "result".

    An Opti object: all is in it, so `arguments` are keywords of `auglag.minimize`. Returns an `OptiSolution`; where no
    solution is found it raises `RuntimeError`, as Opti does, unless `error_on_fail=False` is given.
    """
    if isinstance(problem, casadi.Opti):
        return solve_opti(problem, **arguments)
    require_options(arguments, "solve()", INPUTS)
    options = {name: value for name, value in arguments.items() if name not in INPUTS}
    solver = NlpSolver("solver", problem, **options)
    found = solver.call({name: arguments[name] for name in INPUTS if name in arguments})
    return found | {"result": solver.result}
