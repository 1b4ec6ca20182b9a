"""Algorithm 2 around a sampled method: T steps, a full-batch test, more steps if it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import torch

from auglag.inner.base import InnerResult, InnerStatus
from auglag.stochastic.algorithm2 import InnerState, call_until_accepted
from auglag.stochastic.controllers import Controller
from auglag.stochastic.limits import Ledger
from auglag.torch.data import Source
from auglag.torch.lagrangian import Subproblem, Test
from auglag.torch.methods import Method
from auglag.torch.oracle import Oracle

Tensor = Any


def seed_for(seed: int, *key: int) -> int:
    """A seed of its own for every call of the method."""
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0] >> np.uint64(2))


@contextmanager
def seeded(seed: int, device: Any) -> Iterator[None]:
    """Inside, PyTorch's own generators (dropout) start from `seed`; outside they are as they were."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


@final
class SampledInner:
    """The inner loop for sampled methods, in the shape the outer loop asks for."""

    saves = True

    def __init__(
        self,
        method: Method,
        controller: Controller,
        source: Source,
        ledger: Ledger,
        seed: int,
        exhausted: Callable[[], str],
    ) -> None:
        self.method, self.controller, self.source, self.ledger = method, controller, source, ledger
        self.seed, self.exhausted = seed, exhausted
        self.memory, self.k = InnerState(), 1

    def solve(self, subproblem: Subproblem, x: Tensor, tol: float, *, limit: int) -> InnerResult:
        state, gradients = self.memory, self.ledger.gradients
        start = subproblem.test(x)
        last = start if state.v is None else subproblem.test(state.v)
        if state.steps == 0:
            rows = subproblem.full.rows or 1
            state.steps = self.controller.first(state.carried, max(1, -(-rows // self.method.batch)))
        stopped = ""

        def call(v: Tensor, steps: int) -> Test:
            nonlocal last, stopped
            # A call that ended above x_k has lost its way: the next one starts at x_k, as printed in the paper.
            begin = start if v is start.v or last.value > start.value else last
            last, stopped = self._call(subproblem, begin, steps, seed_for(self.seed, self.k, state.p))
            return last

        test, status, why = call_until_accepted(
            self.controller, state, start, last, tol,
            call=call, exhausted=lambda: stopped or self.exhausted(), witness=subproblem.witness,
        )  # fmt: skip
        result = InnerResult(
            test.v, test.value, test.dist, state.iterations, self.ledger.gradients - gradients, status, limit=why
        )
        if status is InnerStatus.CONVERGED:
            self.memory = InnerState(carried=state.steps)
        return result

    def one(self, subproblem: Subproblem, begin: Test, steps: int, p: int) -> Test:
        """A single call outside Algorithm 2, and its test."""
        return self._call(subproblem, begin, steps, seed_for(self.seed, 0, p))[0]

    def _call(self, subproblem: Subproblem, begin: Test, steps: int, seed: int) -> tuple[Test, str]:
        oracle = Oracle(subproblem, self.source, self.ledger, self.method.batch, seed, self.exhausted)
        oracle.begin(begin)
        with seeded(seed, oracle.variables.device), oracle.functions.stepping():
            self.method.run(oracle, begin, steps)
        return subproblem.test(oracle.variables.read()), oracle.refused

    def forget(self) -> None:
        self.memory = InnerState()
