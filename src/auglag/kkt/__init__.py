"""Quadratic models of the augmented Lagrangian that keep its kinks, and solvers for them.

`model` states the problem of one step, `active_set` and `interior` solve it, `solver` combines the two, `linear` has
the symmetric indefinite systems behind both, `curvature` the Hessian (exact, or learnt from first derivatives),
`tangent` its curvature where active constraints leave room.
"""

from __future__ import annotations

from auglag.kkt.curvature import Curvature, Memory
from auglag.kkt.hessian import Hessian
from auglag.kkt.model import Model, Sets, Step
from auglag.kkt.solver import again, solve
from auglag.kkt.tangent import Tangent

__all__ = ["Curvature", "Hessian", "Memory", "Model", "Sets", "Step", "Tangent", "again", "solve"]
