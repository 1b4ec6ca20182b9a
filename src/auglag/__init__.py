"""auglag: constrained nonconvex optimisation with the adaptive augmented Lagrangian method.

    min f(x) + g(x)  subject to  constraints and bounds

`auglag.minimize` is the front door; `auglag.certify` checks a point from any solver; `auglag.prox` holds the terms g.
"""

from auglag import datasets, prox, stochastic, theory
from auglag._version import __version__
from auglag.algorithm.algencan import AlgencanPenalty, AlgencanTolerance
from auglag.algorithm.rules import (
    Adaptive,
    Always,
    Constant,
    DualRule,
    FromScale,
    Full,
    Geometric,
    History,
    InitialPenalty,
    Iteration,
    PenaltyRule,
    PowerLaw,
    Short,
    ToleranceRule,
)
from auglag.algorithm.status import Status
from auglag.budget import Budget
from auglag.certificate import Certificate, Tolerance
from auglag.errors import AuglagError, CheckpointError, DerivativeError, EvaluationError, InputError, OptionError
from auglag.inner import LBFGSB, NewtonCG, Panoc, ProximalGradient, ProximalPoint, QPModel, SpectralProximalGradient
from auglag.log import JsonLog
from auglag.minimize import certify, minimize, multistart, scipy_method
from auglag.problems.base import AbstractProblem
from auglag.problems.functions import Problem
from auglag.result import Result
from auglag.strategy.settings import PRESETS, VARIANTS
from auglag.strategy.sqp import SQP

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
    "Short",
    "SpectralProximalGradient",
    "Status",
    "Tolerance",
    "ToleranceRule",
    "__version__",
    "certify",
    "datasets",
    "minimize",
    "multistart",
    "prox",
    "scipy_method",
    "stochastic",
    "theory",
]
