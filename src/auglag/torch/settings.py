"""Methods by name and their rules."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, final

import torch

from auglag.algorithm.rules import Adaptive, DualRule, Full, PenaltyRule, PowerLaw, ToleranceRule
from auglag.errors import InputError, OptionError
from auglag.stochastic.controllers import AdaptiveEpochs, Controller
from auglag.stochastic.settings import Tracking
from auglag.stochastic.tuning import TUNING as COMMON
from auglag.torch.data import Source
from auglag.torch.distributed import Team
from auglag.torch.full_batch_methods import LBFGS
from auglag.torch.functions import Functions
from auglag.torch.methods import SGD, SVRG, Method, Optimizer, PStorm
from auglag.torch.prox import ProxMap
from auglag.torch.tuning import TUNING

#: Layers that behave differently in a training step: f is then an expectation beyond the data.
NOISY = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm)
METHODS = ("lbfgs", "svrg", "sgd", "pstorm", "adam")


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that defines the method, apart from the problem, the tolerance and the limits."""

    method: Method | LBFGS
    penalty: PenaltyRule = field(default_factory=lambda: Adaptive(initial=1.0, gamma=3.0, tau=0.5))
    dual: DualRule = field(default_factory=Full)
    tolerance: ToleranceRule | None = None  #: None: `following`
    controller: Controller = field(default_factory=lambda: AdaptiveEpochs(initial=8, restart=False))
    largest_penalty: float = 1e20
    negligible: float = 0.01

    def describe(self) -> str:
        """The rules in words."""
        inner = f", {type(self.controller).__name__}" if isinstance(self.method, Method) else ""
        return f"{type(self.penalty).__name__} penalty, {type(self.dual).__name__} dual step{inner}"


def following(tol: float) -> ToleranceRule:
    """eta'_{k+1} = min(eta'_k, max(R_k / 5, tol / 5)): subproblems are solved no better than the constraints are met.

    While the violation is large, accuracy inside would be thrown away with the next multipliers.
    """
    return Tracking(first=COMMON.first_eta, ratio=1.0, follow=TUNING.follow, floor=COMMON.least_eta * tol)


def defaults(method: Method | LBFGS) -> Settings:
    """The rules that suit a method: where gradients keep their noise, tolerances fall slowly and beta rises gently."""
    if isinstance(method, LBFGS | SVRG):
        return Settings(method)
    return Settings(method, Adaptive(initial=0.1, gamma=1.5, tau=0.8), tolerance=PowerLaw(1.0, 2.0))


def adam(params: Any) -> Any:
    """The optimiser behind method="adam"."""
    return torch.optim.Adam(params, lr=TUNING.adam_rate)


def by_name(method: Any, batch: int | None) -> Method | LBFGS:
    """The method object for a name, an object or a factory of `torch.optim` optimisers."""
    found: Method | LBFGS
    if isinstance(method, str):
        table: dict[str, Method | LBFGS] = {
            "lbfgs": LBFGS(), "svrg": SVRG(), "sgd": SGD(), "pstorm": PStorm(),
            "adam": Optimizer(adam, label="adam"),
        }  # fmt: skip
        if method not in table:
            raise OptionError(f"method must be one of {('auto', *METHODS)}, an object or a factory, got {method!r}")
        found = table[method]
    elif isinstance(method, Method | LBFGS):
        found = method
    elif callable(method):
        label = method.__name__.lower() if isinstance(method, type) else "optimizer"
        found = Optimizer(method, label=label)
    else:
        raise InputError(f"method must be a name, a Method or a factory of optimisers, got {method!r:.60}")
    if batch is None:
        return found
    if isinstance(found, LBFGS):
        raise InputError("batch is for sampled methods; 'lbfgs' evaluates full batches")
    if isinstance(found, SGD | PStorm | SVRG | Optimizer):
        return replace(found, batch=batch)
    raise InputError(f"batch must be given in the method itself, got it beside {type(found).__name__}")


def choose(functions: Functions, source: Source, prox: ProxMap, team: Team, *, sampled: bool) -> str | LBFGS:
    """What method="auto" means: full batches where they are affordable and mean something, else Adam.

    Where there are many rows, a few passes of sampled steps come first: full batches are dear far from a solution.
    """
    variables = functions.variables
    noisy = functions.model.training and any(_noisy(module) for module in functions.model.modules())
    if noisy or sampled or source.rows is None:
        return "adam" if prox.scale_free else "sgd"
    affordable = TUNING.affordable_cuda if variables.device.type == "cuda" else TUNING.affordable
    if source.rows * variables.n > affordable:
        return "adam" if prox.scale_free else "svrg"
    many = source.rows >= 2 * TUNING.warm_up_batch * TUNING.warm_up_steps
    many = many and TUNING.warm_up_share * team.size <= TUNING.warm_up_batch
    return LBFGS(warm_up=many and prox.empty)


def _noisy(module: Any) -> bool:
    """Whether a layer draws or averages in training mode; recurrent and attention layers have dropout inside."""
    inside = isinstance(module, torch.nn.RNNBase | torch.nn.MultiheadAttention) and module.dropout > 0.0
    return inside or isinstance(module, NOISY)
