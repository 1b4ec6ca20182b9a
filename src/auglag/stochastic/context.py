"""What a stochastic run is about (`Context`) and everything that evolves in it (`State`)."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from auglag.log import headers
from auglag.persist.checkpoint import described, digest
from auglag.prox import SquaredL2, Zero
from auglag.stochastic.algorithm2 import Algorithm2
from auglag.stochastic.course import UNSAVED, Frame, RunState
from auglag.stochastic.curvature import FullBatchSolver, GaussNewton
from auglag.stochastic.data import leaves
from auglag.stochastic.estimate import EstimatedCertificate, freeze
from auglag.stochastic.full_batch_solver import FullBatchInner
from auglag.stochastic.fused import Backend
from auglag.stochastic.gauss_newton import GaussNewtonInner
from auglag.stochastic.lagrangian import StochasticLagrangian
from auglag.stochastic.limits import Limits, Meter
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.method import Method
from auglag.stochastic.nested import Start
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.sampling import Sampling
from auglag.stochastic.settings import Settings
from auglag.stochastic.single_loop import SingleLoop
from auglag.stochastic.single_loop_run import SampledState
from auglag.stochastic.stage import InnerLoop
from auglag.stochastic.tuning import TUNING
from auglag.strategy.hooks import Hooks


@final
@dataclass(frozen=True, slots=True)
class Context:
    """What stays the same during a run."""

    problem: StochasticProblem
    settings: Settings
    start: Start
    tol: float
    seed: int
    limits: Limits
    hooks: Hooks
    backend: Backend
    test_rows: int  #: of the first sample, where data have no end
    nested: bool  #: start on samples of the rows
    sampled: bool  #: start with sampled steps
    rescue: bool  #: begin again with L-BFGS where the method gets stuck

    @property
    def grows(self) -> bool:
        """Whether a sample of endless data is solved and then enlarged, until a fresh one certifies the point."""
        return not self.problem.finite_data and not isinstance(self.settings.method, Method)

    @property
    def aim(self) -> float:
        """R over the rows of the tests at which these have told what they can."""
        return TUNING.sample_aim * self.tol if self.grows else self.tol

    def rng(self, purpose: str) -> np.random.Generator:
        """A stream of its own for a purpose outside the inner loop."""
        key = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:4], "little")
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(0, key)))

    def sample(self, times: int) -> StochasticProblem:
        """What tests are made on: all rows, or about `times * test_rows` fixed ones of data without an end."""
        if self.problem.finite_data:
            return self.problem
        purpose = "tests" if times == 1 else f"tests {times}"
        return freeze(self.problem, times * self.test_rows, self.rng(purpose))

    def inner(self, state: State, meter: Meter) -> InnerLoop[StochasticLagrangian]:
        """The inner loop for the method; L-BFGS where Gauss-Newton got stuck, as on a loss that is flat far out."""
        method = self.settings.method if not state.attempt else FullBatchSolver()
        if isinstance(method, SingleLoop):  # what follows the sampled steps
            method = GaussNewton() if structured(self.problem) else FullBatchSolver()
        if isinstance(method, GaussNewton):
            return GaussNewtonInner(method, meter, self.seed)
        if isinstance(method, FullBatchSolver):
            return FullBatchInner(method, meter)
        blocks = self.problem.blocks
        sampling = Sampling(blocks, method.batch, replacement=method.replacement)
        sampled = sum(size for block, size in zip(blocks, sampling.sizes, strict=True) if not block.exact)
        epoch = max(1, math.ceil(state.pass_rows / max(1, sampled)))
        return Algorithm2(method, self.settings.controller, sampling, self.backend, meter, self.seed, epoch)

    def header(self) -> dict[str, Any]:
        """The first line of a log."""
        problem = self.problem
        return headers.on_data(
            self.settings,
            self.limits,
            problem=str(getattr(problem, "name", None) or "sampled problem"),
            n=problem.n,
            rows=list(problem.names),
            tol=self.tol,
            seed=self.seed,
            data_rows=problem.rows if problem.finite_data else None,
            resumed=self.hooks.resume is not None,
            slacks=self.settings.slacks,
        )

    def frame(self) -> Frame:
        """What the driver needs of this."""
        known: dict[str, Any] = {}
        if self.hooks.checkpoint is not None or self.hooks.resume is not None:
            problem = self.problem
            known = {
                "n": problem.n,
                "m": problem.m,
                "rows": problem.rows if problem.finite_data else self.test_rows,
                "data": digest_of(problem),
                "backend": self.backend.kind,
                "tol": self.tol,
                "seed": self.seed,
                "settings": described(self.settings),
                "x0": digest(self.start.x, self.start.y),
                "sides": [*problem.lower.tolist(), *problem.upper.tolist()],
            }
        return Frame("stochastic.minimize", self.tol, self.seed, self.limits, self.hooks, known)


@final
@dataclass(slots=True, kw_only=True)
class State(RunState):
    """All that evolves in a stochastic run."""

    pass_rows: int  #: rows of one pass over the data; of the first sample, where they have no end
    start: Start  #: of Algorithm 1 on the present rows
    sampled: SampledState | None = None  #: the steps of a single loop, while they last
    times: int = 1  #: size of the sample that tests are made on, relative to the first one
    look_at: float = math.inf  #: R on the fixed sample at which the next certificate is tried
    certified: EstimatedCertificate | None = field(default=None, metadata=UNSAVED)  #: that ends a run on sampled data
    refuted: EstimatedCertificate | None = field(default=None, metadata=UNSAVED)  #: that ends the work on one sample


def structured(problem: StochasticProblem) -> bool:
    """Whether Gauss-Newton can be used, and its dense systems are small enough."""
    known = all(block.has_curvature for block in problem.blocks) and isinstance(problem.g, Zero | SquaredL2)
    return known and problem.n <= TUNING.gauss_newton_variables and problem.finite_data


def digest_of(problem: StochasticProblem) -> str:
    """What tells the data of one problem from those of another: sizes, factors, and some rows of every block."""
    found = hashlib.sha256()
    for block in problem.blocks:
        found.update(f"{type(block).__name__} {block.n} {block.m} {block.rows} {block.exact};".encode())
        if isinstance(block, LinearBlock):
            found.update(f"{block.loss.name} {block.A.dtype} {block.factor} {block.factors.tolist()};".encode())
        if block.rows is None or block.exact:
            continue
        index = np.unique(np.linspace(0, block.rows - 1, TUNING.digest_rows).astype(np.int64))
        for leaf in leaves(block.take(index)):
            found.update(np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()[:16]
