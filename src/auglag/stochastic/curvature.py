"""Gauss-Newton curvature of stochastic problems: which rows to take it from, and the model it makes.

Nothing in here is random unless rows have to be drawn: for linear models the rows that carry the curvature are known
from the margins of the last full-batch test ("screening"), and few of them carry nearly all.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from auglag._names import suggesting
from auglag._typing import Matrix, Vector
from auglag.errors import InputError, require_positive
from auglag.inner.base import InnerSolver
from auglag.stochastic.data import Index, release
from auglag.stochastic.limits import Ledger
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.problem import Evaluation, StochasticProblem
from auglag.stochastic.tuning import TUNING


@suggesting
@final
@dataclass(frozen=True, slots=True)
class GaussNewton:
    """Damped Gauss-Newton on the augmented Lagrangian without slacks; every iteration ends in a full-batch test.

    `damping` is the first mu in (H + mu I) d = -grad, where the gradient has norm 1 or more; a smaller gradient makes
    it smaller in proportion. `screen` is the largest share of the curvature's trace that may be left out (it falls with
    the gradient). A curvature is kept while steps cut the gradient to `lazy` of its norm. No more than
    `rows_per_variable` * n rows of a block are used for one curvature (None: 3 n, and 2 n more for every decade that
    the gradient has fallen below 1), or one row in 20 up to 200 n.
    `nested` starts on random samples of the rows: True, False, or None for "when there are more than 500 rows per
    variable".
    """

    name: ClassVar[str] = "gauss-newton"
    damping: float = 0.1
    screen: float = 0.1
    lazy: float = 0.2
    rows_per_variable: int | None = None
    patience: int = 15  #: iterations on one subproblem after which all rows are taken
    nested: bool | None = None

    def __post_init__(self) -> None:
        for name in ("damping", "screen", "lazy", "rows_per_variable", "patience"):
            if name != "rows_per_variable" or self.rows_per_variable is not None:
                require_positive(getattr(self, name), f"GaussNewton.{name}")
        if not self.screen < 1.0:
            raise InputError(f"GaussNewton.screen must lie in (0, 1), got {self.screen}")

    def rows(self, dist: float) -> float:
        """Rows per variable of a curvature where the gradient has the norm `dist`."""
        if self.rows_per_variable is not None:
            return self.rows_per_variable
        decades = max(0.0, -math.log10(max(dist, sys.float_info.min)))
        return TUNING.curvature_rows_first + TUNING.curvature_rows_decade * decades


@suggesting
@final
@dataclass(frozen=True, slots=True)
class FullBatchSolver:
    """A deterministic inner solver on the streamed full batch, by default L-BFGS-B (PANOC where g is not a box).

    For many parameters. `nested` as in `GaussNewton`: the run starts on a growing random sample.
    """

    name: ClassVar[str] = "lbfgs"
    inner: InnerSolver | str = "auto"
    nested: bool | None = None


@final
class Curvature:
    """Gauss-Newton matrices of every block at one point; f and c enter with the weights they have when it is used."""

    def __init__(self, problem: StochasticProblem, matrices: list[Matrix]) -> None:
        self.problem, self.matrices = problem, matrices

    def combined(self, w: Vector) -> Matrix:
        """The curvature of f + w'c, with blocks of negative weight left out so that it stays semidefinite."""
        total = np.zeros((self.problem.n, self.problem.n))
        for block, matrix in zip(self.problem.blocks, self.matrices, strict=True):
            if isinstance(block, LinearBlock):
                total += max(block.weight(w), 0.0) * matrix
            else:
                total += matrix[0] + np.tensordot(w, matrix[1:], axes=1)
        return total

    def second_order(self, d: Vector) -> tuple[float, Vector]:
        """(d'H_f d / 2, d'H_c d / 2 for every c)."""
        f, c = 0.0, np.zeros(self.problem.m)
        for block, matrix in zip(self.problem.blocks, self.matrices, strict=True):
            if isinstance(block, LinearBlock):
                bend = 0.5 * float(d @ matrix @ d)
                f += block.factor * bend
                if block.m:
                    c += block.factors * bend
            else:
                f += 0.5 * float(d @ matrix[0] @ d)
                c += 0.5 * np.array([float(d @ h @ d) for h in matrix[1:]])
        return f, c


def curvature(
    problem: StochasticProblem, at: Evaluation, share: float, cap: int, rng: np.random.Generator, ledger: Ledger
) -> Curvature:
    """The curvature at a point whose margins are known; rows whose curvature is formed are counted once more.

    share: the share of the trace that may be left out (0: all rows). cap: the most rows of one block, unless more come
    nearly free because there are so many.
    """
    matrices = []
    for block, part in zip(problem.blocks, at.parts, strict=True):
        if isinstance(block, LinearBlock):
            many = TUNING.curvature_rows_per_variable * block.n
            enough = max(cap, min(many, len(part.margins) // TUNING.curvature_share))
            matrix, used = _screened(block, part.margins, share, enough, rng)
        else:
            matrix, used = block.curvature(at.x), block.rows or 0
        ledger.rows += used
        ledger.curvature_rows += used
        matrices.append(matrix)
    return Curvature(problem, matrices)


def _screened(
    block: LinearBlock, margins: Vector, share: float, cap: int, rng: np.random.Generator
) -> tuple[Matrix, int]:
    """mean_i w_i a_i a_i' from the rows with the largest w_i ||a_i||^2, and a multiple of I for the rest.

    If more than `cap` rows were needed, half of the cap goes to the largest and half to a sample of the others, drawn
    in proportion to what they carry and weighted so that the mean is right.
    """
    w = block.loss.curvature(margins, block.t)
    carried = w * block.squares()
    total, rows = float(np.sum(carried)), len(carried)
    if share <= 0.0:
        return _weighted(block, np.arange(rows), w / rows), rows
    if total <= 0.0:
        return np.zeros((block.n, block.n)), 0
    few = min(rows, cap)
    top = np.argpartition(carried, rows - few)[rows - few :] if few < rows else np.arange(rows)
    top = top[np.argsort(-carried[top], kind="stable")]
    sums = np.cumsum(carried[top])
    if sums[-1] >= (1.0 - share) * total:
        count = min(int(np.searchsorted(sums, (1.0 - share) * total)) + 1, len(top))
        chosen = np.sort(top[:count])
        ridge = (total - sums[count - 1]) / rows / block.n
        return _weighted(block, chosen, w[chosen] / rows) + ridge * np.eye(block.n), count
    sure = top[: few // 2]
    rest = carried.copy()
    rest[sure] = 0.0
    ends = np.cumsum(rest)
    count = few - len(sure)
    drawn = np.searchsorted(ends, np.sort(rng.random(count)) * ends[-1], side="right")
    drawn = np.minimum(drawn, rows - 1)
    weights = np.concatenate([w[sure] / rows, ends[-1] / (rows * count) / np.maximum(block.squares()[drawn], 1e-300)])
    index = np.concatenate([sure, drawn])
    order = np.argsort(index, kind="stable")
    return _weighted(block, index[order], weights[order]), few


def _weighted(block: LinearBlock, index: Index, weights: Vector) -> Matrix:
    """sum_i weights_i a_i a_i', a slice of rows at a time."""
    whole = len(index) == block.rows
    step = max(256, 2**20 // block.n) if whole or not isinstance(block.A, np.memmap) else 1024  # each maps pages
    total = np.zeros((block.n, block.n))
    for start in range(0, len(index), step):
        part = slice(start, start + step)
        rows = np.asarray(block.A[part] if whole else block.A[index[part]], dtype=np.float64)
        total += (rows * weights[part, None]).T @ rows
        release(block.A)
    return total
