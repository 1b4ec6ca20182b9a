"""What the compiled inner loops need of a subproblem, and whether they can be used for it."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.prox import L1, Box, ElasticNet, SquaredL2, Zero
from auglag.prox.base import ProxTerm
from auglag.stochastic.data import Index
from auglag.stochastic.jax import JaxBlock
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.problem import Evaluation, StochasticProblem
from auglag.stochastic.sampling import Draw, SampledLagrangian
from auglag.stochastic.tuning import TUNING


def available() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@final
@dataclass(frozen=True, slots=True)
class Model:
    """The data of a problem of linear models, as the kernels read it."""

    blocks: tuple[LinearBlock, ...]
    As: tuple[Any, ...]
    ts: tuple[Vector, ...]  #: the target of every row, or the one that all of a block's rows have
    codes: Any
    factor: Vector
    factors: Any  #: (m, blocks)

    @staticmethod
    def of(blocks: tuple[LinearBlock, ...], m: int) -> Model | None:
        """The packed model, or None if the blocks do not share one precision or a loss is a user's own."""
        if len({block.A.dtype for block in blocks}) != 1 or any(not 0 <= block.loss.code <= 2 for block in blocks):
            return None
        As = _alike([block.A for block in blocks])
        if As is None:
            return None
        factors = np.zeros((m, len(blocks)))
        for i, block in enumerate(blocks):
            if block.m:
                factors[:, i] = block.factors
        return Model(
            blocks,
            As,
            tuple(np.array(block.t[:1] if block.t.strides == (0,) else block.t, block.A.dtype) for block in blocks),
            np.array([block.loss.code for block in blocks]),
            np.array([block.factor for block in blocks]),
            factors,
        )


def _alike(As: list[Any]) -> tuple[Any, ...] | None:
    """The matrices in one form, all padded or none: kernels take a homogeneous tuple and one row width.

    None if rows on disk would have to be copied as a whole.
    """
    lanes = 64 // As[0].dtype.itemsize
    wide = -(-As[0].shape[1] // lanes) * lanes
    if not any(isinstance(A, np.memmap) or A.shape[0] * wide * A.dtype.itemsize > TUNING.padded_bytes for A in As):
        return tuple(_padded(A, wide, lanes) for A in As)
    views = []
    for A in As:
        if not (A.flags.c_contiguous and A.flags.aligned):
            if isinstance(A, np.memmap):
                return None
            A = np.array(A, order="C")
        view = np.asarray(A).view()
        view.flags.writeable = False  # a file may be open for reading only, and one type has to fit all
        views.append(view)
    return tuple(views)


def _padded(A: Any, wide: int, lanes: int) -> Any:
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


class Fused(ABC):
    """One subproblem in the form of the kernels' arguments; `kernels` has the functions sgd, pstorm and svrg."""

    kernels: Any
    model: Any
    points: int  #: points at which SVRG evaluates a sampled row

    def __init__(self, oracle: SampledLagrangian, prox: Any, v: Vector) -> None:
        geometry = oracle.geometry
        self.oracle, self.n = oracle, geometry.n
        self.x, self.s = v[: self.n].copy(), v[self.n :].copy()
        self.y, self.beta = np.ascontiguousarray(oracle.y), float(oracle.beta)
        self.prox, self.box = prox, (geometry.low.copy(), geometry.high.copy())

    @property
    def v(self) -> Vector:
        """The current iterate."""
        return np.concatenate([self.x, self.s])

    @abstractmethod
    def snapshot(self, at: Evaluation) -> Any:
        """What the SVRG kernel wants to know of a snapshot."""

    def indices(self, draw: Draw) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        """The draw's indices, empty where a block draws none."""
        given = [i for i in (*draw.first, *draw.second) if i is not None]
        none = np.zeros((1, 0), dtype=np.result_type(*given))  # one type that holds every block's row numbers
        sides = (draw.first, draw.second)
        first, second = (tuple(none if i is None else i.astype(none.dtype, copy=False) for i in side) for side in sides)
        return first, second


def _finite_sides(lower: Vector) -> Vector:
    """Sides of equalities; 0 for inequalities, whose slack takes the place of the side."""
    return np.where(np.isfinite(lower), lower, 0.0)


@final
class NumbaFused(Fused):
    """For linear models."""

    points = 1

    def __init__(self, oracle: SampledLagrangian, model: Model, prox: Any, v: Vector) -> None:
        from auglag.stochastic import compiled, kernels

        super().__init__(oracle, prox, v)
        self.kernels, self._blocks = kernels, model.blocks
        lower, rows = _finite_sides(oracle.exact.problem.lower), oracle.geometry.rows.astype(np.int64)
        room = compiled.room(model.As[0].dtype, max(oracle.sampling.sizes), model.As[0].shape[1])
        self.model = (model.As, model.ts, model.codes, model.factor, model.factors, lower, rows, room)

    def snapshot(self, at: Evaluation) -> Any:
        """By block, per unit factor: mean loss, mean gradient, and loss and slope of every row."""
        values, slopes = [], []
        for block, part in zip(self._blocks, at.parts, strict=True):
            values.append(block.loss.value(part.margins, block.t).astype(block.A.dtype))
            slopes.append(block.loss.slope(part.margins, block.t).astype(block.A.dtype))
        means = np.array([part.mean for part in at.parts])
        gradients = np.array([part.direction for part in at.parts])
        return means, gradients, tuple(values), tuple(slopes)


@final
class JaxFused(Fused):
    """For JAX functions."""

    points = 2

    def __init__(self, oracle: SampledLagrangian, kernels: Any, data: Any, prox: Any, v: Vector) -> None:
        super().__init__(oracle, prox, v)
        self.kernels, self.model = kernels, data

    def snapshot(self, at: Evaluation) -> Any:
        """(x, grad f, c, J)."""
        return at.x, at.grad, at.c, at.jac


@final
class Backend:
    """Chooses between compiled inner loops and NumPy, once per run; `name` is "auto", "numba", "jax" or "numpy".

    `compiled` takes the place of `jax.jit` for the scans of JAX functions.
    """

    def __init__(self, name: str, problem: StochasticProblem, compiled: Callable[..., Any] | None = None) -> None:
        if name not in ("auto", "numba", "jax", "numpy"):
            raise InputError(f"backend must be 'auto', 'numba', 'jax' or 'numpy', got {name!r}")
        if name == "numba" and not available():
            raise InputError("backend='numba' needs numba: pip install 'auglag[fast]'")
        self.problem, self._compiled = problem, compiled
        self._prox = prox_arrays(problem.g, problem.n)
        self._model: Model | None = None
        self._jax: tuple[Any, Any] | None = None
        linear, functions = problem.linear is not None, all(isinstance(block, JaxBlock) for block in problem.blocks)
        usable = self._prox is not None and name != "numpy"
        self.kind = "numpy"
        if usable and linear and name in ("auto", "numba") and available():
            self.kind = "numba"
        if usable and functions and name in ("auto", "jax") and problem.finite_data:
            self.kind = "jax"
        if name in ("numba", "jax") and self.kind != name:
            what = {"numba": "linear blocks", "jax": "JAX blocks with data"}[name]
            raise InputError(f"backend={name!r} needs {what} and a g of the kinds Zero, Box, L1, L2 or elastic net")

    def fused(self, oracle: SampledLagrangian, v: Vector) -> Fused | None:
        """The compiled view of a subproblem, or None if it has to be done with NumPy."""
        problem = self.problem
        closed = oracle.geometry.slacks == "closed" and bool((problem.lower != problem.upper).any())
        if self.kind == "numpy" or closed:
            return None
        if self.kind == "jax":
            return self._jax_fused(oracle, v)
        if self._model is None and problem.linear is not None:
            self._model = Model.of(problem.linear, problem.m)
        return None if self._model is None else NumbaFused(oracle, self._model, self._prox, v)

    def _jax_fused(self, oracle: SampledLagrangian, v: Vector) -> Fused:
        if self._jax is None:
            import jax

            from auglag.stochastic.jax_kernels import JaxKernels

            blocks: Any = self.problem.blocks
            sides = _finite_sides(self.problem.lower)
            kernels = JaxKernels(blocks, oracle.geometry.rows, sides, self._compiled or jax.jit)
            self._jax = kernels, tuple(jax.tree.map(jax.numpy.asarray, block.data) for block in blocks)
        kernels, data = self._jax
        return JaxFused(oracle, kernels, data, self._prox, v)
