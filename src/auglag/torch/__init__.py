"""auglag in PyTorch: training under constraints.

`fit` is the whole job; `AugmentedLagrangian` adds the method to a training loop of your own. Needs the extra `torch`.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("auglag.torch needs PyTorch: pip install 'auglag[torch]'") from error

from auglag.stochastic.controllers import AdaptiveEpochs, FixedEpochs
from auglag.torch.batches import Batches
from auglag.torch.constraints import Constraint, at_least, at_most, between, equal
from auglag.torch.distributed import WorkerLost
from auglag.torch.fit import fit
from auglag.torch.full_batch_methods import LBFGS
from auglag.torch.loop import AugmentedLagrangian
from auglag.torch.methods import SGD, SVRG, Cooling, Method, Optimizer, PStorm
from auglag.torch.prox import L1, Box, GroupL2, NuclearNorm, Term
from auglag.torch.result import TrainingResult
from auglag.torch.single_loop_own import SingleLoop
from auglag.torch.single_loop_run import SingleLoopMethod
from auglag.torch.tensorboard import TensorBoard

__all__ = [
    "L1",
    "LBFGS",
    "SGD",
    "SVRG",
    "AdaptiveEpochs",
    "AugmentedLagrangian",
    "Batches",
    "Box",
    "Constraint",
    "Cooling",
    "FixedEpochs",
    "GroupL2",
    "Method",
    "NuclearNorm",
    "Optimizer",
    "PStorm",
    "SingleLoop",
    "SingleLoopMethod",
    "TensorBoard",
    "Term",
    "TrainingResult",
    "WorkerLost",
    "at_least",
    "at_most",
    "between",
    "equal",
    "fit",
]
