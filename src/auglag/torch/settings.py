"""Methods by name and their rules."""

from __future__ import annotations

import math
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
from auglag.torch.single_loop_run import SingleLoopMethod
from auglag.torch.tuning import TUNING

#: Layers that behave differently in a training step: f is then an expectation beyond the data.
NOISY = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm)
METHODS = ("single-loop", "lbfgs", "svrg", "sgd", "pstorm", "adam")


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that defines the method, apart from the problem, the tolerance and the limits."""

    method: Method | LBFGS | SingleLoopMethod
    penalty: PenaltyRule = field(default_factory=lambda: Adaptive(initial=1.0, gamma=3.0, tau=0.5))
    dual: DualRule = field(default_factory=Full)
    tolerance: ToleranceRule | None = None  #: None: `following`
    controller: Controller = field(default_factory=lambda: AdaptiveEpochs(initial=8, restart=False))
    largest_penalty: float = 1e20
    negligible: float = 0.01

    def describe(self) -> str:
        """The rules in words."""
        if isinstance(self.method, SingleLoopMethod):
            rule = "the paper's rule" if self.method.rule is None else f"{type(self.method.rule).__name__}"
            return f"penalties from the Jacobian and {rule}, multipliers that move with every step"
        inner = f", {type(self.controller).__name__}" if isinstance(self.method, Method) else ""
        return f"{type(self.penalty).__name__} penalty, {type(self.dual).__name__} dual step{inner}"


def following(tol: float, residual: float = math.inf) -> ToleranceRule:
    """eta'_{k+1} = min(eta'_k, max(R_k / 5, tol / 5)): subproblems are solved no better than the constraints are met.

    While the violation is large, accuracy inside would be thrown away with the next multipliers. eta'_1 is 0.1, or what
    the rule makes of the R of the start, where it is known.
    """
    first = min(COMMON.first_eta, max(TUNING.follow * residual, COMMON.least_eta * tol))
    return Tracking(first=first, ratio=1.0, follow=TUNING.follow, floor=COMMON.least_eta * tol)


def defaults(method: Method | LBFGS | SingleLoopMethod) -> Settings:
    """The rules that suit a method: where gradients keep their noise, tolerances fall slowly and beta rises gently."""
    if isinstance(method, LBFGS | SVRG | SingleLoopMethod):
        return Settings(method)
    return Settings(method, Adaptive(initial=0.1, gamma=1.5, tau=0.8), tolerance=PowerLaw(1.0, 2.0))


def adam(params: Any) -> Any:
    """The optimiser behind method="adam"."""
    return torch.optim.Adam(params, lr=TUNING.adam_rate)


def by_name(method: Any, batch: int | None) -> Method | LBFGS | SingleLoopMethod:
    """The method object for a name, an object or a factory of `torch.optim` optimisers."""
    found: Method | LBFGS | SingleLoopMethod
    if isinstance(method, str):
        table: dict[str, Method | LBFGS | SingleLoopMethod] = {
            "single-loop": SingleLoopMethod(), "lbfgs": LBFGS(), "svrg": SVRG(), "sgd": SGD(), "pstorm": PStorm(),
            "adam": Optimizer(adam, label="adam"),
        }  # fmt: skip
        if method not in table:
            raise OptionError(f"method must be one of {('auto', *METHODS)}, an object or a factory, got {method!r}")
        found = table[method]
    elif isinstance(method, Method | LBFGS | SingleLoopMethod):
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
    if isinstance(found, SGD | PStorm | SVRG | Optimizer | SingleLoopMethod):
        return replace(found, batch=batch)
    raise InputError(f"batch must be given in the method itself, got it beside {type(found).__name__}")


def choose(
    functions: Functions, source: Source, prox: ProxMap, team: Team, *, sampled: bool, algorithm1: bool, short: bool
) -> str | LBFGS:
    """What method="auto" means: the single loop where passes are what is dear, else full batches.

    They are where full batches are not affordable or mean something else, where sampled steps are asked for, where the
    budget is `short` (and rows are not few), and where the model is so large that a step takes longer than its calls.
    In a small model without such a budget, full batches take more passes and less time: after a few passes of sampled
    steps where there are many rows. `algorithm1` says that its parts are asked for: then the sampled methods are those
    of Algorithm 2.
    """
    rows = source.rows or 0
    exact = source.rows is not None and not noisy(functions) and not sampled
    full = exact and affordable(functions, rows)
    short = short and rows >= TUNING.few_rows
    if not algorithm1 and (not full or short or functions.variables.n >= TUNING.large_model):
        return "single-loop"
    if not full:
        return "adam" if prox.scale_free else "svrg" if exact else "sgd"
    many = rows >= 2 * TUNING.warm_up_batch * TUNING.warm_up_steps
    many = many and TUNING.warm_up_share * team.size <= TUNING.warm_up_batch
    return LBFGS(warm_up=many and prox.empty)


def noisy(functions: Functions) -> bool:
    """Whether a training step evaluates another function than a test does."""
    return bool(functions.model.training) and any(_noisy(module) for module in functions.model.modules())


def affordable(functions: Functions, rows: int) -> bool:
    """Whether a pass over all rows takes about a second."""
    variables = functions.variables
    most = TUNING.affordable_cuda if variables.device.type == "cuda" else TUNING.affordable
    return bool(rows * variables.n <= most)


def _noisy(module: Any) -> bool:
    """Whether a layer draws or averages in training mode; recurrent and attention layers have dropout inside."""
    inside = isinstance(module, torch.nn.RNNBase | torch.nn.MultiheadAttention) and module.dropout > 0.0
    return inside or isinstance(module, NOISY)
