"""A training problem: blocks of losses with an L1 and an L2 term, solved by the method that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.rules import Adaptive
from auglag.errors import InputError, require_integer, require_positive
from auglag.prox import L1
from auglag.sklearn.arguments import require_nonnegative
from auglag.stochastic import SVRG, FullBatchSolver, GaussNewton, LinearBlock, Squared, StochasticProblem
from auglag.stochastic.minimize import choose, minimize
from auglag.stochastic.result import StochasticResult

#: Solver -> the tolerance where none is given.
SOLVERS = {"deterministic": 1e-5, "single-loop": 1e-5, "stochastic": 1e-2}
#: Rows of a block in one step of the stochastic solver: small, because passes are what it spends. The L2 term gets one.
BATCH = 8


@final
@dataclass(frozen=True, slots=True)
class Start:
    """Where a run begins: variables and multipliers of an earlier one, or None.

    The penalty starts at its first value again: with good multipliers a small one is enough, and subproblems with a
    large one are harder to solve.
    """

    x: Vector | None = None
    y: Vector | None = None


@final
@dataclass(frozen=True, slots=True)
class Training:
    """How to solve: everything that a classifier's constructor says about it."""

    solver: str
    l1: float
    l2: float
    tol: float | None  #: None: that of `SOLVERS`
    max_iter: int
    verbose: int

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise InputError(f"solver must be one of {sorted(SOLVERS)}, got {self.solver!r:.80}")
        for name in ("l1", "l2"):
            require_nonnegative(getattr(self, name), name)
        if self.tol is not None:
            require_positive(self.tol, "tol")
        require_integer(self.max_iter, "max_iter")

    def problem(
        self, blocks: Sequence[LinearBlock], features: int, lower: Any, upper: Any, names: Sequence[str]
    ) -> StochasticProblem:
        """The blocks with l1 ||w||_1 + l2 / 2 ||w||^2 of the first `features` variables; the intercept goes free.

        The L2 term is a block of squares of one variable each, so that Gauss-Newton and the compiled loops know it.
        """
        n, blocks = blocks[0].n, list(blocks)
        if self.l2 > 0.0 and features:
            rows = np.sqrt(self.l2 * features) * np.eye(features, n)
            blocks.append(LinearBlock(rows, 0.0, loss="squared", objective=1.0, constraints=np.zeros(len(names))))
        g = L1(np.where(np.arange(n) < features, self.l1, 0.0)) if self.l1 > 0.0 else None
        return StochasticProblem(blocks, lower=lower, upper=upper, g=g, names=names)

    @property
    def tolerance(self) -> float:
        """What R has to come down to."""
        return SOLVERS[self.solver] if self.tol is None else float(self.tol)

    def solve(self, problem: StochasticProblem, start: Start, seed: int, least: float = 0.0) -> StochasticResult:
        """Run it, with a tolerance of at least `least`."""
        result = self._run(problem, start, seed, least)
        stuck = result.status.no_further and start.x is not None
        return self._run(problem, Start(), seed, least) if stuck else result

    def _run(self, problem: StochasticProblem, start: Start, seed: int, least: float) -> StochasticResult:
        method: str | SVRG | GaussNewton | FullBatchSolver = "auto"
        sampled = self.solver == "stochastic"
        if self.solver == "single-loop" and start.x is None:  # its steps, too, would lead away from a good start
            method = "single-loop"
        elif sampled:
            method = SVRG(batch=[1 if isinstance(block.loss, Squared) else BATCH for block in problem.linear or ()])
        elif start.x is not None:  # samples of the rows would lead away from a good one
            method = GaussNewton(nested=False) if choose(problem) == "gauss-newton" else FullBatchSolver(nested=False)
        return minimize(
            problem,
            start.x,
            method=method,
            # Losses are means of order 1, so a penalty of 1 is no extreme, and the early subproblems are worth solving.
            penalty=Adaptive(initial=1.0, gamma=3.0, tau=0.5) if sampled else None,
            tol=max(self.tolerance, least),
            seed=0 if self.solver == "deterministic" else seed,
            max_epochs=float(self.max_iter),
            y0=np.zeros(problem.m)
            if start.y is None and self.solver == "deterministic"
            else start.y,  # no sampled steps
            progress=bool(self.verbose),
        )
