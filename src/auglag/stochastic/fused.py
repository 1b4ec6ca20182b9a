"""What the compiled kernels need of a subproblem, and whether they can be used for it."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.prox import L1, Box, ElasticNet, SquaredL2, Zero
from auglag.prox.base import ProxTerm
from auglag.stochastic.data import Index
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.sampling import Draw, SampledLagrangian

#: Matrices up to this size are copied with columns padded to whole vector registers, which kernels read faster.
LARGEST_COPY = 2**28


def available() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def require() -> None:
    """Raise `InputError` unless numba is installed."""
    if not available():
        raise InputError("backend='numba' needs numba: pip install 'auglag[fast]'")


@final
@dataclass(frozen=True, slots=True)
class Model:
    """The data of a problem of linear models, as the kernels read it."""

    blocks: tuple[LinearBlock, ...]
    As: tuple[Any, ...]
    ts: tuple[Vector, ...]
    codes: Any
    factor: Vector
    factors: Any  #: (m, blocks)

    @staticmethod
    def of(blocks: tuple[LinearBlock, ...], m: int) -> Model | None:
        """The packed model, or None if the blocks do not share one precision or a loss is a user's own."""
        if len({block.A.dtype for block in blocks}) != 1 or any(not 0 <= block.loss.code <= 2 for block in blocks):
            return None
        factors = np.zeros((m, len(blocks)))
        for i, block in enumerate(blocks):
            if block.m:
                factors[:, i] = block.factors
        return Model(
            blocks,
            tuple(_padded(block.A) for block in blocks),
            tuple(np.ascontiguousarray(block.t, dtype=block.A.dtype) for block in blocks),
            np.array([block.loss.code for block in blocks]),
            np.array([block.factor for block in blocks]),
            factors,
        )


def _padded(A: Any) -> Any:
    lanes = 64 // A.dtype.itemsize
    wide = -(-A.shape[1] // lanes) * lanes
    if isinstance(A, np.memmap) or A.shape[0] * wide * A.dtype.itemsize > LARGEST_COPY:
        return np.asarray(A) if A.flags.c_contiguous else np.ascontiguousarray(A)
    # Rows that begin at cache lines are gathered with the fewest misses.
    raw = np.zeros(A.shape[0] * wide + lanes, dtype=A.dtype)
    offset = (-raw.ctypes.data % 64) // A.dtype.itemsize
    padded = raw[offset : offset + A.shape[0] * wide].reshape(A.shape[0], wide)
    padded[:, : A.shape[1]] = A
    return padded


def prox_arrays(g: ProxTerm, n: int) -> tuple[Vector, Vector, Vector, Vector, bool] | None:
    """(l1, l2, lower, upper, plain) with prox = clip(soft(u, a l1) / (1 + a l2), lower, upper), or None."""
    zero, free = np.zeros(n), np.full(n, np.inf)
    box = g.box(n)
    if isinstance(g, Zero):
        return zero, zero, -free, free, True
    if isinstance(g, Box) and box is not None:
        return zero, zero, box[0], box[1], False
    if isinstance(g, L1):
        return np.broadcast_to(np.asarray(g.weight, dtype=np.float64), (n,)).copy(), zero, -free, free, False
    if isinstance(g, SquaredL2):
        return zero, np.broadcast_to(np.asarray(g.weight, dtype=np.float64), (n,)).copy(), -free, free, False
    if isinstance(g, ElasticNet):
        return np.full(n, float(g.l1)), np.full(n, float(g.l2)), -free, free, False
    return None


@final
class Fused:
    """One subproblem in the form of the kernels' arguments."""

    def __init__(self, oracle: SampledLagrangian, model: Model, prox: Any, v: Vector) -> None:
        from auglag.stochastic import kernels

        geometry = oracle.geometry
        self.kernels: ModuleType = kernels
        self.oracle = oracle
        lower = oracle.exact.problem.lower.copy()
        lower[~np.isfinite(lower)] = 0.0  # such rows are inequalities: their slack takes the place of the side
        self.model = (
            model.As, model.ts, model.codes, model.factor, model.factors, lower, geometry.rows.astype(np.int64)
        )  # fmt: skip
        self.n = geometry.n
        self.x, self.s = v[: self.n].copy(), v[self.n :].copy()
        self.y, self.beta = np.ascontiguousarray(oracle.y), float(oracle.beta)
        self.prox, self.box = prox, (geometry.low.copy(), geometry.high.copy())

    @property
    def v(self) -> Vector:
        """The current iterate."""
        return np.concatenate([self.x, self.s])

    def indices(self, draw: Draw) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        """The draw's indices, empty where a block draws none."""
        given = draw.first[0]
        assert given is not None
        none = np.zeros((1, 0), dtype=given.dtype)
        return (
            tuple(none if i is None else i.astype(none.dtype, copy=False) for i in draw.first),
            tuple(none if i is None else i.astype(none.dtype, copy=False) for i in draw.second),
        )


@final
class Backend:
    """Chooses between the kernels and NumPy, once per run; `name` is "auto", "numba" or "numpy"."""

    def __init__(self, name: str, blocks: tuple[LinearBlock, ...] | None, m: int, g: ProxTerm, n: int) -> None:
        if name not in ("auto", "numba", "numpy"):
            raise InputError(f"backend must be 'auto', 'numba' or 'numpy', got {name!r}")
        if name == "numba":
            require()
        self._model: Model | None = None
        self._prox = prox_arrays(g, n)
        self._wanted = name != "numpy" and available() and blocks is not None and self._prox is not None
        self._blocks, self._m = blocks, m
        if name == "numba" and not self._wanted:
            raise InputError(
                "backend='numba' needs linear blocks and a g of the kinds Zero, Box, L1, L2 or elastic net"
            )

    def fused(self, oracle: SampledLagrangian, v: Vector) -> Fused | None:
        """The kernels' view of a subproblem, or None if it has to be done with NumPy."""
        closed = oracle.geometry.slacks == "closed" and bool(
            (oracle.exact.problem.lower != oracle.exact.problem.upper).any()
        )
        if not self._wanted or closed or self._blocks is None:
            return None
        if self._model is None:
            self._model = Model.of(self._blocks, self._m)
            if self._model is None:
                self._wanted = False
                return None
        return Fused(oracle, self._model, self._prox, v)
