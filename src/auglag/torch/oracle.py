"""A subproblem as a sampled method sees it: pairs of batches, the estimator D from them, steps, slacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, final

import torch

from auglag.stochastic.limits import Ledger
from auglag.stochastic.steps import Call, StepRule
from auglag.stochastic.tuning import TUNING as COMMON
from auglag.torch.data import Source, rows_of
from auglag.torch.lagrangian import Subproblem, Test
from auglag.torch.tuning import TUNING

Tensor = Any
Pair = tuple[Any, Any]


@final
class Oracle:
    """L_beta(., y) + g as a sampled method sees it. The model stands at x; `params` are its parameters themselves."""

    def __init__(
        self,
        subproblem: Subproblem,
        source: Source,
        ledger: Ledger,
        batch: int,
        seed: int,
        exhausted: Callable[[], str],
    ) -> None:
        self.subproblem, self.source, self.ledger, self.batch, self.seed = subproblem, source, ledger, batch, seed
        full = subproblem.full
        self.functions, self.variables, self.team = full.functions, full.variables, full.team
        self.params, self.prox_map = self.variables.params, subproblem.prox
        self.exhausted, self.refused = exhausted, ""
        layout, kind = subproblem.layout, {"dtype": self.variables.dtype, "device": self.variables.device}
        self.y, self.beta = torch.as_tensor(subproblem.y, **kind), subproblem.beta
        self.lower, self.upper = torch.as_tensor(layout.lower, **kind), torch.as_tensor(layout.upper, **kind)
        self.s = torch.zeros(0)
        self.rows = (batch, batch)  #: of the two batches of a step, in all processes

    def begin(self, start: Test) -> None:
        """Put the model at the point of a test, and the slacks at their minimisers there."""
        self.variables.write(start.v)
        s = start.values.c - start.c
        self.s = torch.as_tensor(s, dtype=self.variables.dtype, device=self.variables.device)

    @property
    def rows_per_gradient(self) -> int:
        """Rows touched by one D."""
        return self.batch * (2 if self.y.numel() else 1)

    def samples(self, steps: int, gradients: int = 1, stream: int = 0) -> Iterator[Pair]:
        """`steps` pairs of independent batches; fewer once a limit of the run is reached, which `refused` names."""
        every = 1 if steps < TUNING.few_steps else TUNING.look_every
        for i, pair in enumerate(self.source.pairs(self.seed + stream, steps, self.batch)):
            if i % every == 0:
                self.refused = self.exhausted()
                if self.refused:
                    return
            self.ledger.gradients += gradients
            if not self.source.sized:
                self.rows = self._counted(pair)
            self.ledger.rows += gradients * (self.rows[0] + (self.rows[1] if self.y.numel() else 0))
            yield pair

    def _counted(self, pair: Pair) -> tuple[int, int]:
        """The rows of batches that have the size they like, summed over all processes."""
        sizes = rows_of(pair[0]), rows_of(pair[1])
        if self.team.alone:
            return sizes
        first, second = self.team.sum_(torch.tensor(sizes, device=self.variables.device)).tolist()
        return int(first), int(second)

    def remainder(self, second: Any) -> Tensor:
        """r = c(x, xi2) - s, the mean over all processes; no graph."""
        if not self.y.numel():
            return self.y
        with torch.no_grad():
            c = self.functions.constraints(second).to(self.y.dtype)
            if not self.team.alone:
                c = self.team.sum_(c * (rows_of(second) / self.rows[1]))
            return c - self.s

    def weighted(self, first: Any, w: Tensor) -> list[Tensor]:
        """grad f + J'w on the batch, the mean over all processes."""
        f, c = self.functions.both(first)
        if c is not None:
            f = f + torch.dot(w, c.to(w.dtype))
        if not self.team.alone:
            f = f * (rows_of(first) / self.rows[0])
        return self.team.sum_list_(self.variables.gradients(f))

    def estimate(self, pair: Pair) -> tuple[list[Tensor], Tensor]:
        """(D for the parameters, w); the D of the slacks is -w."""
        w = torch.add(self.y, self.remainder(pair[1]), alpha=self.beta)
        return self.weighted(pair[0], w), w

    def step_(self, direction: list[Tensor], w: Tensor, alpha: float) -> None:
        """x <- prox(x - alpha D), s <- its box's projection of s + alpha w."""
        with torch.no_grad():
            torch._foreach_add_(self.params, direction, alpha=-alpha)
        if not self.prox_map.empty:
            self.prox_map.apply_(self.params, alpha)
        if w.numel():
            self.s = torch.add(self.s, w, alpha=alpha).clamp_(self.lower, self.upper)

    def lipschitz(self) -> float:
        """The curvature of a sampled L_beta here, by power iteration with differences of gradients."""
        rounds = COMMON.lipschitz_rounds
        pair = next(iter(self.samples(1, gradients=rounds + 1, stream=1)), None)
        if pair is None:
            return 1.0
        x = self.variables.read()
        here = self.variables.flatten(self.estimate(pair)[0])
        h = float(torch.finfo(self.variables.dtype).eps) ** (1 / 3) * (1.0 + float(torch.linalg.vector_norm(x)))
        generator = torch.Generator().manual_seed(self.seed)
        direction = torch.randn(x.numel(), generator=generator).to(x)
        size = 1.0
        for _ in range(rounds):
            norm = float(torch.linalg.vector_norm(direction))
            if not (math.isfinite(norm) and norm > 0.0):
                break
            self.variables.write(x + (h / norm) * direction)
            direction = (self.variables.flatten(self.estimate(pair)[0]) - here) / h
            size = float(torch.linalg.vector_norm(direction))
        self.variables.write(x)
        size = self.team.agree([size])[0]
        return size if math.isfinite(size) and size > 0.0 else 1.0

    def step_size(self, rule: StepRule, start: Test, steps: int) -> float:
        """alpha for a call."""
        return rule.size(Call(steps, self.beta, start.value, self.lipschitz))


@final
class Tail:
    """The mean of the last half of a call's iterates, where the model is put at the end: it has less noise than any."""

    def __init__(self, oracle: Oracle, steps: int, wanted: bool) -> None:
        self.oracle, self.first, self.seen, self.kept = oracle, steps // 2 if wanted else steps, 0, 0
        self.mean: list[Tensor] = []

    def see(self) -> None:
        """One more iterate."""
        if self.seen >= self.first:
            self.kept += 1
            now = [p.detach() for p in self.oracle.params]
            if self.kept == 1:
                self.mean = [p.clone() for p in now]
            else:
                torch._foreach_lerp_(self.mean, now, 1.0 / self.kept)
        self.seen += 1

    def end(self) -> None:
        """Put the model there."""
        if self.kept:
            with torch.no_grad():
                torch._foreach_copy_(self.oracle.params, self.mean)
