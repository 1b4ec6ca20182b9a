"""Inner solvers: one file each, one line of registration here."""

from __future__ import annotations

from auglag.errors import InputError
from auglag.inner import tuning
from auglag.inner.base import FirstOf, InnerResult, InnerSolver, InnerStatus, Oracle, Subproblem, Traits
from auglag.inner.lbfgsb import LBFGSB
from auglag.inner.newton import NewtonCG
from auglag.inner.panoc import Panoc
from auglag.inner.proximal_gradient import ProximalGradient, SpectralProximalGradient
from auglag.inner.proximal_point import ProximalPoint
from auglag.inner.qp import QPModel, curvature_for

_CLASSES = (QPModel, LBFGSB, NewtonCG, Panoc, SpectralProximalGradient, ProximalGradient, ProximalPoint)
#: name -> solver with its default options; `inner="auto"` takes the first of AUTO that accepts the problem.
SOLVERS: dict[str, InnerSolver] = {kind.name: kind() for kind in _CLASSES}
AUTO = ("qp", "newton-cg", "lbfgsb", "panoc")


def choose(inner: InnerSolver | str, traits: Traits, models: bool = True) -> InnerSolver:
    """The solver to use; raises `InputError` with the solver's own sentence if it cannot take the problem.

    "auto" takes the one by models only if `models` says so: it belongs to the acceleration.
    """
    if inner == "auto":
        products_only = traits.has_hessp and not traits.has_hess  # which a quasi-Newton method would not use
        order = [name for name in AUTO if name != "qp" or (models and _models_pay(traits))]
        order = ["newton-cg", *order] if products_only else order
        return next(SOLVERS[name] for name in order if SOLVERS[name].refuses(traits) is None)
    solver = SOLVERS[inner] if isinstance(inner, str) else inner.resolved(traits)
    refusal = solver.refuses(traits)
    if refusal is not None:
        raise InputError(refusal)
    return solver


def _models_pay(traits: Traits) -> bool:
    """Whether models are worth their price: with Hessians, or a good part of them, always.

    A learnt Hessian pays where constraints determine much of the solution, since a few pairs know little of the rest;
    and up to a size at which it makes the models expensive. Interior points (`accelerated`) stay cheap.
    """
    t = tuning.TUNING
    if traits.has_hess or traits.partly_curved or traits.n <= t.largest_learnt_alone:
        return True
    return not few_rows(traits) and traits.n <= t.largest_learnt


def few_rows(traits: Traits) -> bool:
    """Whether there are so few rows that they determine next to nothing of the solution."""
    return traits.m < tuning.TUNING.few_rows * traits.n


def accelerated(solver: InnerSolver, traits: Traits) -> bool:
    """Whether Newton's method on the KKT conditions goes with an inner solver.

    It does with models; and with L-BFGS-B where interior points with learnt curvature may come first.
    """
    if isinstance(solver, QPModel):
        return True
    sparse = QPModel().refuses(traits) is None and not curvature_for(traits).dense
    return isinstance(solver, LBFGSB) and sparse and not traits.has_hess and not few_rows(traits)


__all__ = [
    "AUTO",
    "LBFGSB",
    "SOLVERS",
    "FirstOf",
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
    "accelerated",
    "choose",
]
