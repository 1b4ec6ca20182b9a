"""`partial_fit`: the single loop on rows as they arrive, with a state that pickles and goes on bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Matrix, Vector
from auglag.prox import L1, Zero
from auglag.single_loop.schedule import endless_fall
from auglag.sklearn.design import Design, FeatureMoments
from auglag.sklearn.gaps import best_level
from auglag.sklearn.training import Start, Training
from auglag.stochastic import LinearBlock, SingleLoop
from auglag.stochastic.walk import Walk, WalkState

#: Rows of a step, about: the largest batch of the single loop in short runs.
BATCH = 64
#: Rows for every group in it, about: a mean of one row has no spread, and most groups would have no row at all.
ROWS_OF_BLOCK = 2


@final
class OnlyIf:
    """A method that an estimator has only with some of its arguments; where not, the error says why.

    `reason(estimator)` is the text, or nothing. (scikit-learn's own decorator for this says that there is no such
    attribute, and no more.)
    """

    def __init__(self, reason: Callable[[Any], str]) -> None:
        self.reason = reason

    def __call__(self, method: Callable[..., Any]) -> OnlyIf:
        """As a decorator."""
        self.method, self.__doc__ = method, method.__doc__
        return self

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        """The bound method; of the class, the function itself."""
        if estimator is None:
            return self.method
        if why := self.reason(estimator):
            raise AttributeError(why)
        return MethodType(self.method, estimator)


@final
@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one call, as blocks; None for a block that has none of them."""

    blocks: Sequence[LinearBlock | None]
    factors: Matrix  #: of the means of the blocks (columns) in the constraints (rows)
    rows: int
    lower: Vector
    upper: Vector
    names: Sequence[str]
    shared: int = 0  #: so many consecutive rows share a level, by which their sides are moved; 0: none


@final
@dataclass(slots=True)
class Stream:
    """What lies between two calls of `partial_fit`."""

    seed: int
    features: FeatureMoments
    counts: Any = 0  #: rows of every block so far
    rows: int = 0
    chunks: int = 0
    design: Design | None = None  #: that of the last call, in whose variables the walk is
    walk: WalkState | None = None
    values: Any = None  #: of the constraints, tracked

    def look(self, X: Matrix, used: NDArray[np.bool_], *, standardize: bool, intercept: bool) -> Design:
        """The standardisation by all rows up to these. The model stays what it is, in new variables."""
        self.features.add(X)
        design = self.features.design(standardize=standardize, intercept=intercept, used=used)
        if self.walk is not None and self.design is not None:
            for name in ("x", "average"):
                setattr(self.walk, name, design.from_user(*self.design.to_user(getattr(self.walk, name))))
        self.design = design
        return design

    def learn(self, chunk: Chunk, training: Training, start: Start) -> tuple[Vector, Vector]:
        """Steps over the rows of a chunk, each once; (variables, multipliers) afterwards."""
        design = self.design
        assert design is not None
        n, m = design.n, len(chunk.names)
        penalised = np.where(np.arange(n) < design.features, 1.0, 0.0)
        walk = Walk(
            SingleLoop(),
            np.zeros(n) if start.x is None else start.x,
            np.zeros(m) if start.y is None else start.y,
            chunk.lower,
            chunk.upper,
            g=L1(training.l1 * penalised) if training.l1 > 0.0 else Zero(),
            names=chunk.names,
            pass_steps=None,
            saved=self.walk,
        )
        self.rows += chunk.rows
        self.counts = self.counts + np.array([0 if block is None else block.rows for block in chunk.blocks])
        steps = -(-chunk.rows // max(BATCH, ROWS_OF_BLOCK * len(chunk.blocks)))
        rng = np.random.default_rng([self.seed, self.chunks])
        parts = [[] if b is None else np.array_split(rng.permutation(b.rows), steps) for b in chunk.blocks]
        for i in range(steps):
            self._step(walk, chunk, [part[i] if part else np.zeros(0, int) for part in parts], training.l2 * penalised)
        self.walk, self.chunks = walk.state, self.chunks + 1
        self.values = np.zeros(0) if walk.engine is None else np.asarray(walk.engine.tracked)
        return walk.settled, np.zeros(0) if walk.engine is None else np.asarray(walk.engine.state.y)

    def _step(self, walk: Walk, chunk: Chunk, batch: list[NDArray[np.intp]], l2: Vector) -> None:
        """One step; a class or group that is rarer in these rows than in all has less of a say.

        Where a Jacobian is wanted it has half of the rows for itself: shared with the gradient, its noise would follow
        the steps, and what the constraints are thought to change by would be wrong in the mean.
        """
        _put_levels(walk, chunk, self.counts[1:] > 0)
        x, w, wanted = walk.state.x, walk.weights(), walk.wants_jacobian()
        gradient, c, jacobian = l2 * x, np.zeros(w.size), np.zeros((w.size, x.size))
        moving = [index[: -(-len(index) // 2)] if wanted else index for index in batch]
        rows = sum(map(len, moving))
        for block, index, half, seen in zip(chunk.blocks, batch, moving, self.counts, strict=True):
            if block is None or not len(half):
                continue
            part = block.part(x, block.take(half))
            usual = rows * seen / self.counts.sum()  # rows of this block in as many rows
            gradient = gradient + (len(half) / usual) * block.weight(w) * part.direction
            c = c + part.c
            if wanted:
                other = block.part(x, block.take(index[len(half) :] if len(index) > len(half) else half))
                jacobian = jacobian + other.jac
        missing = [not len(index) for index in batch]
        known = ~(chunk.factors[:, missing] != 0.0).any(axis=1)
        if chunk.shared:
            sizes = np.array([len(index) for index in batch[1:]])
            known &= _usual(sizes, self.counts[1:], chunk.shared)
            _center(jacobian, sizes, chunk.shared)
        fall = endless_fall(walk.state.done)
        walk.move(gradient, np.where(known, c, np.nan), jacobian if wanted else None, fall, known)


def _usual(sizes: Vector, counts: Vector, shared: int) -> NDArray[np.bool_]:
    """For rows that share a level, whether a batch has rows of most groups: a mean over a few groups is another one."""
    seen = np.where(sizes > 0, counts, 0).reshape(-1, shared).sum(axis=1)
    return np.repeat(2 * seen > counts.reshape(-1, shared).sum(axis=1), shared)


def _center(jacobian: Matrix, sizes: Vector, shared: int) -> None:
    """Take the mean gradient over the rows of a batch off those of all constraints that share a level, in place.

    What moves all of them alike moves the level: it needs no penalty, and must not make those of the others small.
    """
    for first in range(0, sizes.size, shared):
        part = slice(first, first + shared)
        jacobian[part] -= (sizes[part] / max(sizes[part].sum(), 1)) @ jacobian[part]


def _put_levels(walk: Walk, chunk: Chunk, seen: NDArray[np.bool_]) -> None:
    """Sides around the level that is best for the tracked values and the multipliers; none without any row so far.

    It minimises L_beta together with the slacks, as these are the best for it. So no step has to find it, and the
    weights of rows that share it add up to zero.
    """
    engine = walk.engine
    if not chunk.shared or engine is None or engine.state.beta is None:
        return
    beta = engine.state.beta
    aim, level = engine.tracked + engine.state.y / beta, np.zeros(seen.size)
    for first in range(0, aim.size, chunk.shared):
        part = first + np.flatnonzero(seen[first : first + chunk.shared])
        if part.size:
            level[part] = best_level(aim[part], beta[part], float(chunk.upper[first]))
    engine.lower = np.where(seen, level + chunk.lower, -np.inf)
    engine.upper = np.where(seen, level + chunk.upper, np.inf)
