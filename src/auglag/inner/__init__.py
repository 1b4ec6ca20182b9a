"""Inner solvers: one file each, one line of registration here."""

from __future__ import annotations

from auglag.errors import InputError
from auglag.inner.base import InnerResult, InnerSolver, InnerStatus, Oracle, Subproblem, Traits
from auglag.inner.lbfgsb import LBFGSB
from auglag.inner.newton import NewtonCG
from auglag.inner.panoc import Panoc
from auglag.inner.proximal_gradient import ProximalGradient, SpectralProximalGradient
from auglag.inner.proximal_point import ProximalPoint
from auglag.inner.qp import QPModel

#: name -> solver with its default options; `inner="auto"` takes the first of AUTO that accepts the problem.
SOLVERS: dict[str, InnerSolver] = {
    solver.name: solver
    for solver in (
        QPModel(),
        LBFGSB(),
        NewtonCG(),
        Panoc(),
        SpectralProximalGradient(),
        ProximalGradient(),
        ProximalPoint(),
    )
}
AUTO = ("qp", "newton-cg", "lbfgsb", "panoc")
#: Variables up to which "auto" learns a Hessian from first derivatives where there are fewer rows than this part of n.
LARGEST_LEARNT_ALONE, FEW_ROWS = 100, 0.1


def choose(inner: InnerSolver | str, traits: Traits, models: bool = True) -> InnerSolver:
    """The solver to use; raises `InputError` with the solver's own sentence if it cannot take the problem.

    "auto" takes the one by models only if `models` says so: it belongs to the acceleration.
    """
    if inner == "auto":
        products_only = traits.has_hessp and not traits.has_hess  # which a quasi-Newton method would not use
        # A learnt Hessian pays through the constraints: with a few pairs it knows little of what they leave free.
        learnt = traits.m < FEW_ROWS * traits.n and not traits.has_hess and traits.n > LARGEST_LEARNT_ALONE
        order = [name for name in AUTO if name != "qp" or (models and not learnt)]
        order = ["newton-cg", *order] if products_only else order
        return next(SOLVERS[name] for name in order if SOLVERS[name].refuses(traits) is None)
    solver = SOLVERS[inner] if isinstance(inner, str) else inner
    refusal = solver.refuses(traits)
    if refusal is not None:
        raise InputError(refusal)
    return solver


__all__ = [
    "AUTO",
    "LBFGSB",
    "SOLVERS",
    "InnerResult",
    "InnerSolver",
    "InnerStatus",
    "NewtonCG",
    "Oracle",
    "Panoc",
    "ProximalGradient",
    "ProximalPoint",
    "QPModel",
    "SpectralProximalGradient",
    "Subproblem",
    "Traits",
    "choose",
]
