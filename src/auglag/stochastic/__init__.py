"""Algorithm 1 for expectations: stochastic problems, sampled methods under Algorithm 2, and methods that use curvature.

`auglag.stochastic.minimize` is the front door.
"""

from auglag.stochastic.blocks import Block, FunctionBlock
from auglag.stochastic.controllers import AdaptiveEpochs, Controller, FixedEpochs
from auglag.stochastic.curvature import FullBatchSolver, GaussNewton
from auglag.stochastic.estimate import EstimatedCertificate, estimate_certificate
from auglag.stochastic.full_batch import FullBatchProblem
from auglag.stochastic.jax import JaxBlock, jax_problem
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.losses import LOSSES, Logistic, Loss, Sigmoid, Squared
from auglag.stochastic.methods import METHODS, SGD, SVRG, Method, PStorm
from auglag.stochastic.minimize import minimize
from auglag.stochastic.neyman_pearson import neyman_pearson
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.result import StochasticResult
from auglag.stochastic.settings import PRESETS, Tracking
from auglag.stochastic.single_loop import SingleLoop
from auglag.stochastic.steps import (
    ConstantStep,
    DistanceOverGradients,
    InverseSqrt,
    LemmaStep,
    LocalLipschitz,
    Scaled,
    StepRule,
)
from auglag.stochastic.trials import trials

__all__ = [
    "LOSSES",
    "METHODS",
    "PRESETS",
    "SGD",
    "SVRG",
    "AdaptiveEpochs",
    "Block",
    "ConstantStep",
    "Controller",
    "DistanceOverGradients",
    "EstimatedCertificate",
    "FixedEpochs",
    "FullBatchProblem",
    "FullBatchSolver",
    "FunctionBlock",
    "GaussNewton",
    "InverseSqrt",
    "JaxBlock",
    "LemmaStep",
    "LinearBlock",
    "LocalLipschitz",
    "Logistic",
    "Loss",
    "Method",
    "PStorm",
    "Scaled",
    "Sigmoid",
    "SingleLoop",
    "Squared",
    "StepRule",
    "StochasticProblem",
    "StochasticResult",
    "Tracking",
    "estimate_certificate",
    "jax_problem",
    "minimize",
    "neyman_pearson",
    "trials",
]
