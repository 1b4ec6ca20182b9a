"""Steps of an optimiser as x <- x - A d, d a moving average of gradients: the diagonal A.

The single loop needs it to know what a step does to the constraints. `scaled_steps` are those of `fit`;
`OptimizerMetric` reads it off the optimisers of `torch.optim`.
"""

from __future__ import annotations

import itertools
from typing import Any, Protocol, final

import torch

from auglag.errors import InputError
from auglag.single_loop.steps import ScaledSteps, least_fall
from auglag.torch.entries import Entries
from auglag.torch.prox import ProxMap
from auglag.torch.tuning import TUNING
from auglag.torch.variables import Variables

Tensor = Any


class Metric(Protocol):
    """What the single loop asks of an optimiser."""

    def matrix(self, of: Entries) -> Tensor | None:
        """The diagonal of A at the present rate, at these entries (`of.take`); None before the first step."""
        ...

    def fall(self) -> float:
        """The present rate, relative to the largest one so far."""
        ...

    def longest(self) -> Any:
        """The most that a step changes a parameter by, at the largest rate; None: as much as the gradient says."""
        ...

    def coast(self) -> float:
        """How many times the length of the last step the momentum will still go: mu / (1 - mu)."""
        ...


def scaled_steps(variables: Variables, prox: ProxMap, rate: float, adapt: bool) -> ScaledSteps:
    """The steps of `fit`; tensors with a norm as prox term have one scale each."""
    ends = list(itertools.accumulate(variables.sizes))
    norms = [i for i, term in enumerate(prox.terms) if term is not None and not term.scale_free]
    x = torch.zeros(variables.n, dtype=variables.dtype, device=variables.device)
    shared = [slice(ends[i] - variables.sizes[i], ends[i]) for i in norms]
    return ScaledSteps(torch, x, rate, shared, adapt=adapt, tiny=float(torch.finfo(variables.dtype).tiny))


def prox_(steps: ScaledSteps, prox: ProxMap, x: Tensor) -> None:
    """The prox of g in the metric of these steps, in place."""
    split = prox.variables.split
    for t, term, a in zip(split(x), prox.terms, split(steps.matrix()), strict=True):
        if term is not None:
            t.copy_(term.prox(t, 1.0 if term.scale_free else float(a.reshape(-1)[0])))


@final
class ScaledMetric:
    """The A of `scaled_steps`."""

    def __init__(self, steps: ScaledSteps) -> None:
        self.steps = steps

    def matrix(self, of: Entries) -> Tensor | None:
        return of.take(of.variables.split(self.steps.matrix()))

    def fall(self) -> float:
        return self.steps.fall()

    def longest(self) -> Any:
        return self.steps.longest()

    def coast(self) -> float:
        return self.steps.coast()


@final
class OptimizerMetric:
    """The A of SGD (with momentum), Adam, AdamW, NAdam, RMSprop and Adagrad; rates and schedules are the user's."""

    def __init__(self, optimizer: Any, variables: Variables) -> None:
        self.optimizer, self.variables = optimizer, variables
        kinds = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RMSprop,
                 torch.optim.Adagrad)  # fmt: skip
        if not isinstance(optimizer, kinds):
            names = ", ".join(kind.__name__ for kind in kinds)
            raise InputError(
                f"optimizer must be one of {names} (or give metric=, an object with matrix(of), fall(), longest() "
                f"and coast()), "
                f"got {type(optimizer).__name__}"
            )
        groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        missing = [name for name, p in zip(variables.names, variables.params, strict=True) if id(p) not in groups]
        if missing:
            raise InputError(f"optimizer must have all trainable parameters of the model, got none of {missing[0]!r}")
        self.groups = [groups[id(p)] for p in variables.params]
        self.highest = 0.0  #: the largest rate so far
        self.first = -1.0  #: root mean square change of a parameter in SGD's first step, per unit of the rate

    def fall(self) -> float:
        rate = float(self.groups[0]["lr"])
        self.highest = max(self.highest, rate)
        return least_fall(rate / self.highest) if self.highest > 0.0 else 1.0

    def longest(self) -> float | None:
        """SGD has none; a multiple of the first step, which is the objective's alone, takes its place."""
        if not isinstance(self.optimizer, torch.optim.SGD):
            return self.highest
        return TUNING.first_steps * self.highest * self.first if self.first > 0.0 else None

    def coast(self) -> float:
        group = self.groups[0]
        mu = float(group["betas"][0] if "betas" in group else group.get("momentum", 0.0))
        return mu / (1.0 - mu)

    def _first(self) -> float:
        pairs = zip(self.variables.params, self.groups, strict=True)
        squares = [(p.grad.float() * _momentum(group)).square().sum() for p, group in pairs if p.grad is not None]
        return float(torch.stack(squares).sum() / self.variables.n) ** 0.5 if squares else -1.0

    def matrix(self, of: Entries) -> Tensor | None:
        if self.first < 0.0 and isinstance(self.optimizer, torch.optim.SGD):
            self.first = self._first()
        parts = []
        for p, group, k in zip(self.variables.params, self.groups, of.strides, strict=True):
            state, rate = self.optimizer.state.get(p, {}), float(group["lr"])
            if isinstance(self.optimizer, torch.optim.SGD):
                if p.grad is None:
                    return None
                parts.append(torch.full_like(p.detach().reshape(-1)[::k], rate * _momentum(group)))
                continue
            if not state:
                return None
            parts.append(rate / _root(state, group, k))
        return torch.cat([part.to(self.variables.dtype) for part in parts])


def _momentum(group: dict[str, Any]) -> float:
    """How much longer steps in one direction become by momentum."""
    mu = float(group["momentum"])
    return (1.0 - float(group["dampening"]) * (mu > 0.0)) / (1.0 - mu)


def _root(state: dict[str, Any], group: dict[str, Any], k: int) -> Tensor:
    """What a step divides every k-th entry by."""
    if "exp_avg_sq" in state:
        squares = state.get("max_exp_avg_sq", state["exp_avg_sq"]).reshape(-1)[::k]
        corrected = 1.0 - float(group["betas"][1]) ** float(state["step"])
        return (squares / corrected).sqrt_().add_(group["eps"])
    if "square_avg" in state:
        root = state["square_avg"].reshape(-1)[::k].sqrt().add_(group["eps"])
        return root.mul_(1.0 - float(group["momentum"])) if group["momentum"] else root
    total = state["sum"].reshape(-1)[::k]
    return (total.sqrt() + group["eps"]) * (1.0 + (float(state["step"]) - 1.0) * group["lr_decay"])
