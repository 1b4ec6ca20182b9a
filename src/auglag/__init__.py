"""auglag: constrained nonconvex optimisation with the adaptive augmented Lagrangian method.

    min f(x) + g(x)  subject to  constraints and bounds

`auglag.minimize` is the front door; `auglag.certify` checks a point from any solver; `auglag.prox` holds the terms g.
`import auglag` itself imports nothing: each name brings its module along when it is first used.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from auglag._version import __version__

if TYPE_CHECKING:  # what `_HOMES` says, for editors and type checkers; a test compares the two
    from auglag import datasets, prox, stochastic, theory
    from auglag.algorithm.algencan import AlgencanPenalty, AlgencanTolerance
    from auglag.algorithm.history import History, Iteration
    from auglag.algorithm.rules import (
        Adaptive,
        Always,
        Constant,
        DualRule,
        FromScale,
        Full,
        Geometric,
        InitialPenalty,
        PenaltyRule,
        PowerLaw,
        Short,
        ToleranceRule,
    )
    from auglag.algorithm.status import Status
    from auglag.budget import Budget
    from auglag.certificate import Certificate, Tolerance
    from auglag.certification import certify
    from auglag.errors import AuglagError, CheckpointError, DerivativeError, EvaluationError, InputError, OptionError
    from auglag.inner import LBFGSB, NewtonCG, Panoc, ProximalGradient, ProximalPoint, QPModel, SpectralProximalGradient
    from auglag.least_squares import least_squares
    from auglag.log import JsonLog
    from auglag.minimize import minimize, multistart, scipy_method
    from auglag.persist.results import load_result
    from auglag.problems.base import AbstractProblem
    from auglag.problems.functions import Problem
    from auglag.result import Result
    from auglag.sensitivity import Sensitivity, sensitivity
    from auglag.slsqp import instead_of_slsqp
    from auglag.strategy.settings import PRESETS, VARIANTS
    from auglag.strategy.sqp import SQP

#: Module -> the names that come from it.
_HOMES = {
    "auglag.algorithm.algencan": ("AlgencanPenalty", "AlgencanTolerance"),
    "auglag.algorithm.history": ("History", "Iteration"),
    "auglag.algorithm.rules": (
        *("Adaptive", "Always", "Constant", "DualRule", "FromScale", "Full", "Geometric", "InitialPenalty"),
        *("PenaltyRule", "PowerLaw", "Short", "ToleranceRule"),
    ),
    "auglag.algorithm.status": ("Status",),
    "auglag.budget": ("Budget",),
    "auglag.certificate": ("Certificate", "Tolerance"),
    "auglag.certification": ("certify",),
    "auglag.errors": (
        *("AuglagError", "CheckpointError", "DerivativeError", "EvaluationError", "InputError", "OptionError"),
    ),
    "auglag.inner": (
        *("LBFGSB", "NewtonCG", "Panoc", "ProximalGradient", "ProximalPoint", "QPModel", "SpectralProximalGradient"),
    ),
    "auglag.least_squares": ("least_squares",),
    "auglag.log": ("JsonLog",),
    "auglag.minimize": ("minimize", "multistart", "scipy_method"),
    "auglag.persist.results": ("load_result",),
    "auglag.problems.base": ("AbstractProblem",),
    "auglag.problems.functions": ("Problem",),
    "auglag.result": ("Result",),
    "auglag.sensitivity": ("Sensitivity", "sensitivity"),
    "auglag.slsqp": ("instead_of_slsqp",),
    "auglag.strategy.settings": ("PRESETS", "VARIANTS"),
    "auglag.strategy.sqp": ("SQP",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, or a module of the package, imported when it is first asked for."""
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name.startswith("_"):
        raise AttributeError(f"module 'auglag' has no attribute {name!r}")
    else:
        try:
            value = importlib.import_module(f"auglag.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"auglag.{name}":
                raise
            raise AttributeError(f"module 'auglag' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What is public, and the modules that have been imported; not what this file needs itself."""
    modules = [name for name in globals() if name[0] != "_" and f"{__name__}.{name}" in sys.modules]
    return sorted({*modules, *__all__, *(name for name in globals() if name.startswith("__"))})


class _Package(ModuleType):
    """`auglag.minimize`, `multistart` and `sensitivity` are functions, though they have modules of the same name:
    importing those binds the modules as attributes of the package, which is not to happen."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in _HOME):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

__all__ = [
    "LBFGSB",
    "PRESETS",
    "SQP",
    "VARIANTS",
    "AbstractProblem",
    "Adaptive",
    "AlgencanPenalty",
    "AlgencanTolerance",
    "Always",
    "AuglagError",
    "Budget",
    "Certificate",
    "CheckpointError",
    "Constant",
    "DerivativeError",
    "DualRule",
    "EvaluationError",
    "FromScale",
    "Full",
    "Geometric",
    "History",
    "InitialPenalty",
    "InputError",
    "Iteration",
    "JsonLog",
    "NewtonCG",
    "OptionError",
    "Panoc",
    "PenaltyRule",
    "PowerLaw",
    "Problem",
    "ProximalGradient",
    "ProximalPoint",
    "QPModel",
    "Result",
    "Sensitivity",
    "Short",
    "SpectralProximalGradient",
    "Status",
    "Tolerance",
    "ToleranceRule",
    "__version__",
    "certify",
    "datasets",
    "instead_of_slsqp",
    "least_squares",
    "load_result",
    "minimize",
    "multistart",
    "prox",
    "scipy_method",
    "sensitivity",
    "stochastic",
    "theory",
]
