"""Sampled methods: SGD, PStorm, SVRG and any optimiser of `torch.optim`, on estimates from two independent batches.

    D(x, y, z) = grad f(x, xi1) + J(x, xi1)'(y + beta r(x, xi2)),    r = c - s,    z = (xi1, xi2) independent,

is unbiased: weights from one batch, gradients from the other. Slacks s are variables of the call; they start at their
minimisers and are put back there by every full-batch test. No number leaves the device inside a call.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch

from auglag._names import suggesting
from auglag.errors import InputError, integer_or_none, require_integer
from auglag.stochastic.pstorm import momentum
from auglag.stochastic.steps import Call, DistanceOverGradients, LocalLipschitz, PositiveStep, StepRule
from auglag.torch.lagrangian import Test
from auglag.torch.oracle import Oracle, Pair, Tail
from auglag.torch.tuning import TUNING

Tensor = Any


@final
@dataclass(frozen=True, slots=True)
class Cooling(PositiveStep):
    """alpha = scale / L * min(1, sqrt(steady / T)): the curvature sets it, and long calls take shorter steps."""

    scale: float = 0.5
    steady: int = 128

    def size(self, call: Call) -> float:
        return self.scale / call.lipschitz() * min(1.0, math.sqrt(self.steady / call.steps))


class Method(ABC):
    """A stochastic proximal method. To write one: `name`, `batch` and `run`."""

    batch: int

    @property
    @abstractmethod
    def name(self) -> str:
        """How results call it."""

    @abstractmethod
    def run(self, oracle: Oracle, start: Test, steps: int) -> None:
        """`steps` iterations from the point of `start`, where the model stands; they move the model itself."""


def along_gradient(optimizer: Any) -> bool:
    """Whether its steps are -lr D: with momentum they are longer, and a prox of lr has other fixed points."""
    return isinstance(optimizer, torch.optim.SGD) and not any(group["momentum"] for group in optimizer.param_groups)


def _check(method: Any) -> None:
    name = type(method).__name__
    require_integer(method.batch, f"{name}.batch")
    if not isinstance(method.step, StepRule) or isinstance(method.step, DistanceOverGradients):
        raise InputError(f"{name}.step must be a StepRule with one size per call, got {method.step!r:.80}")


@suggesting
@final
@dataclass(frozen=True, slots=True)
class SGD(Method):
    """Stochastic proximal gradient, x <- prox_{a g}(x - a D); with `average` a call ends at the mean of its last half.

    A mean of sparse points is not sparse: it is not taken where there are prox terms.
    """

    name: ClassVar[str] = "sgd"
    step: StepRule = field(default_factory=Cooling)
    batch: int = 128
    average: bool = True

    def __post_init__(self) -> None:
        _check(self)

    def run(self, oracle: Oracle, start: Test, steps: int) -> None:
        alpha = oracle.step_size(self.step, start, steps)
        tail = Tail(oracle, steps, self.average and oracle.prox_map.empty)
        for pair in oracle.samples(steps):
            oracle.step_(*oracle.estimate(pair), alpha)
            tail.see()
        tail.end()


@suggesting
@final
@dataclass(frozen=True, slots=True)
class PStorm(Method):
    """Momentum variance reduction: d <- D(x+; z) + (1 - b)(d - D(x; z)), the same z at both points."""

    name: ClassVar[str] = "pstorm"
    step: StepRule = field(default_factory=lambda: Cooling(0.25))
    batch: int = 128
    momentum: float | None = None
    average: bool = True

    def __post_init__(self) -> None:
        _check(self)
        if self.momentum is not None and not 0.0 < self.momentum <= 1.0:
            raise InputError(f"PStorm.momentum must lie in (0, 1], got {self.momentum}")

    def run(self, oracle: Oracle, start: Test, steps: int) -> None:
        """The first step, without a past, is a plain one."""
        L = oracle.lipschitz()
        alpha = self.step.size(Call(steps, oracle.beta, start.value, lambda: L))
        b = min(1.0, momentum(alpha, L)) if self.momentum is None else self.momentum
        old: list[Tensor] = []
        d: list[Tensor] = []
        dw = w_old = torch.zeros(0)
        tail = Tail(oracle, steps, self.average and oracle.prox_map.empty)
        for pair in oracle.samples(steps, gradients=2):
            new, w = oracle.estimate(pair)
            if d:
                before, w_old = self._at(oracle, old, pair)
                torch._foreach_sub_(d, before)
                torch._foreach_mul_(d, 1.0 - b)
                torch._foreach_add_(d, new)
                dw = w + (1.0 - b) * (dw - w_old)
            else:
                d, dw = [g.clone() for g in new], w
            old = [*(p.detach().clone() for p in oracle.params), oracle.s]
            oracle.step_(d, dw, alpha)
            tail.see()
        tail.end()

    @staticmethod
    def _at(oracle: Oracle, old: list[Tensor], pair: Pair) -> tuple[list[Tensor], Tensor]:
        """D at the point before, on the same sample."""
        now, s = [p.detach().clone() for p in oracle.params], oracle.s
        with torch.no_grad():
            torch._foreach_copy_(oracle.params, old[:-1])
        oracle.s = old[-1]
        found = oracle.estimate(pair)
        with torch.no_grad():
            torch._foreach_copy_(oracle.params, now)
        oracle.s = s
        return found


@suggesting
@final
@dataclass(frozen=True, slots=True)
class SVRG(Method):
    """Prox-SVRG: a snapshot of gradient and c, corrected by two independent samples.

        rhat = r(x~) + r(x, xi2) - r(x~, xi2),    w = y + beta rhat,
        D = [grad f + J'w](x, xi1) - [grad f + J'w~](x~, xi1) + grad f(x~) + J(x~)'w~

    is unbiased with a variance that vanishes as x -> x~; no Jacobian is stored. A new snapshot (a full-batch test)
    comes every `period` steps (None: one pass worth of rows); one that lies higher than the best of the call sends the
    iterates back there and halves the step.
    """

    name: ClassVar[str] = "svrg"
    step: StepRule = field(default_factory=lambda: LocalLipschitz(1.0))
    batch: int = 64
    period: int | None = None

    def __post_init__(self) -> None:
        _check(self)
        integer_or_none(self.period, "SVRG.period")

    def run(self, oracle: Oracle, start: Test, steps: int) -> None:
        alpha = oracle.step_size(self.step, start, steps)
        rows = oracle.subproblem.full.rows or oracle.batch
        period = self.period or max(1, rows // (2 * oracle.rows_per_gradient))
        best = snapshot = start
        for i, pair in enumerate(oracle.samples(steps, gradients=2)):
            if i and i % period == 0:
                with oracle.functions.testing():
                    snapshot = oracle.subproblem.test(oracle.variables.read())
                if snapshot.value <= best.value:
                    best = snapshot
                else:
                    alpha, snapshot = 0.5 * alpha, best
                oracle.begin(snapshot)
            self._step(oracle, snapshot, pair, alpha)

    @staticmethod
    def _step(oracle: Oracle, snapshot: Test, pair: Pair, alpha: float) -> None:
        now, s = oracle.variables.read(), oracle.s
        here = oracle.remainder(pair[1])
        oracle.variables.write(snapshot.v)
        there = oracle.remainder(pair[1])
        anchor = oracle.y.new_tensor(snapshot.y_hat)
        old = oracle.weighted(pair[0], anchor)
        oracle.variables.write(now)
        c = oracle.y.new_tensor(snapshot.values.c)
        w = oracle.y + oracle.beta * (c - s + here - there) if oracle.y.numel() else oracle.y
        d = oracle.weighted(pair[0], w)
        torch._foreach_sub_(d, old)
        anchored = oracle.variables.split(snapshot.gradient)
        torch._foreach_add_(d, [g.to(p.dtype) for g, p in zip(anchored, d, strict=True)])
        oracle.step_(d, w, alpha)


@suggesting
@final
@dataclass(frozen=True, slots=True)
class Optimizer(Method):
    """Any optimiser of `torch.optim`: `factory(parameters)` makes it, afresh for every call of Algorithm 2.

    With `anneal` its learning rates fall linearly to a hundredth over the call, so that a longer call comes closer;
    with `average` (and no prox terms) a call ends at the mean of its last half.
    Slacks follow by a running mean: a gradient step of size 0.1 / beta on them.
    """

    factory: Callable[[Any], Any]
    batch: int = 128
    anneal: bool = True
    average: bool = True
    label: str = "optimizer"

    def __post_init__(self) -> None:
        if not callable(self.factory):
            raise InputError(f"Optimizer.factory must be a function of the parameters, got {self.factory!r:.60}")
        require_integer(self.batch, "Optimizer.batch")

    @property
    def name(self) -> str:
        return self.label

    def make(self, params: list[Tensor]) -> Any:
        """The optimiser, if the factory makes one."""
        found = self.factory(params)
        if isinstance(found, torch.optim.LBFGS):
            raise InputError("torch.optim.LBFGS cannot step without a closure, got it as a method: take method='lbfgs'")
        if not (hasattr(found, "step") and hasattr(found, "param_groups")):
            raise InputError(f"Optimizer.factory must return a torch.optim optimiser, got {type(found).__name__}")
        return found

    def run(self, oracle: Oracle, start: Test, steps: int) -> None:
        optimizer = self.make(oracle.params)
        if not oracle.prox_map.scale_free and not along_gradient(optimizer):
            raise InputError(
                "prox terms other than boxes need steps along the gradient, got "
                f"{type(optimizer).__name__}: take torch.optim.SGD without momentum, or method='sgd', 'pstorm' or "
                "'svrg'"
            )
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        tail = Tail(oracle, steps, self.average and oracle.prox_map.empty)
        for t, pair in enumerate(oracle.samples(steps)):
            factor = 1.0 - TUNING.annealed * t / steps if self.anneal else 1.0
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            d, w = oracle.estimate(pair)
            for p, g in zip(oracle.params, d, strict=True):
                p.grad = g
            optimizer.step()
            if not oracle.prox_map.empty:
                self._prox(oracle, optimizer)
            if w.numel():
                oracle.s = (oracle.s + (TUNING.slack_rate / oracle.beta) * w).clamp(oracle.lower, oracle.upper)
            tail.see()
        tail.end()
        for p in oracle.params:
            p.grad = None

    @staticmethod
    def _prox(oracle: Oracle, optimizer: Any) -> None:
        rate = {id(p): float(group["lr"]) for group in optimizer.param_groups for p in group["params"]}
        with torch.no_grad():
            for p, term in zip(oracle.params, oracle.prox_map.terms, strict=True):
                if term is not None:
                    p.copy_(term.prox(p, rate[id(p)]))
