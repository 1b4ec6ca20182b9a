"""Models of AMPL, Pyomo, JuMP, CasADi and others, from the `.nl` files these write.

    from auglag.problems import nl

    problem = nl.load("model.nl")
    result = auglag.minimize(problem)

A reader of our own, for the text and the binary form, with exact derivatives: expressions become a tape of NumPy calls
(`tape`), gradients come from one reverse sweep (`gradients`), the Hessian of the Lagrangian from second derivatives
between gradients of arguments (`second_order`). A file that is wrong gives an `NlError` that says where.
"""

from __future__ import annotations

from auglag.problems.nl.problem import NlProblem, load
from auglag.problems.nl.source import NlError, NlInfeasible

__all__ = ["NlError", "NlInfeasible", "NlProblem", "load"]
