"""Are objective and constraints means over the rows of a batch? Some rows are looked at whole and in two parts."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

import numpy as np
import torch

from auglag._typing import Vector
from auglag.errors import attempted
from auglag.stochastic.means import Gap, Index, Look, gaps_where_defined, report, sample_size
from auglag.stochastic.tuning import TUNING
from auglag.torch.data import Source, StreamSource, mapped, rows_of, tensors_of
from auglag.torch.functions import Functions
from auglag.torch.prox import ProxMap
from auglag.torch.tuning import TUNING as OWN

Tensor = Any
Batches = Callable[[Index], Any]  #: the batch of some rows of the sample


def check_means(functions: Functions, source: Source, prox: ProxMap, x: Tensor, seed: int, *, sampled: bool) -> int:
    """Raise `InputError`, or warn, if functions are no means over rows; how many row evaluations that took.

    Every process looks at the same rows, and comes to the same end. Where tests see all rows at once and no step is
    `sampled`, nothing can go wrong.
    """
    stream = isinstance(source, StreamSource)
    whole = source.single or (isinstance(source, StreamSource) and _one_batch(source))
    if (whole and (stream or not sampled)) or (stream and not source.team.alone):
        return 0
    device = functions.variables.device
    devices = [device] if device.type == "cuda" else []
    looked: list[int] = []
    with functions.testing(), torch.no_grad(), torch.random.fork_rng(devices, device_type=device.type):
        found = attempted(lambda: _look(functions, source, prox, x, seed, looked))
    functions.variables.write(x)
    rows = source.rows
    chunk = None if isinstance(source, StreamSource) else source.chunk
    larger = "" if rows is None else f", chunk={rows} makes tests see all rows at once"
    how = f"{larger}; check_means=False takes such means as they are"
    report(found or (), chunk=chunk, tests_right=whole, how=how, lenient=_compares(functions.model))
    return sum(looked)


def _one_batch(source: StreamSource) -> bool:
    return isinstance(source.stream, Sized) and len(source.stream) == 1


def _compares(model: Any) -> bool:
    """Whether a layer takes its statistics from the batch even in tests."""
    norms = torch.nn.modules.batchnorm._BatchNorm
    return any(isinstance(module, norms) and module.running_mean is None for module in model.modules())


def _look(functions: Functions, source: Source, prox: ProxMap, x: Tensor, seed: int, looked: list[int]) -> list[Gap]:
    """The gaps near x, or at x itself where the functions are not finite near it."""
    rows, batch_of = _sample(source, seed)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(x.numel(), generator=generator, dtype=torch.float64).to(x)
    moved = x + TUNING.mean_move * (1.0 + x.abs()) * noise
    moved = prox.into_domain(moved)

    def values(index: Index) -> Vector:
        looked.append(index.size)
        f, c = functions.both(batch_of(index))
        numbers = f.reshape(1).double() if c is None else torch.cat([f.reshape(1).double(), c.double()])
        return np.asarray(numbers.cpu())

    def at(z: Tensor) -> Look:
        functions.variables.write(z)
        return values

    looks = map(at, (moved, x))  # one after the other: a point is written when it is its turn
    rng = np.random.default_rng(seed)
    return gaps_where_defined(looks, rows, functions.layout.names(), rng, functions.variables.eps)


def _sample(source: Source, seed: int) -> tuple[int, Batches]:
    """How many rows are looked at, and what gives the batch of some of them: parts of one batch, or batches drawn anew
    where it is made of something else than tensors of rows."""
    if isinstance(source, StreamSource):
        batch = next(iter(source.stream))
        rows = rows_of(batch)
        return (rows, lambda index: _part(batch, index)) if _sliced(batch, rows) else (0, lambda index: batch)
    assert source.rows is not None
    rows = sample_size(source.rows, OWN.mean_chunks * source.chunk)
    chosen = np.sort(np.random.default_rng(seed).choice(source.rows, rows, replace=False))
    batch = source.at(chosen)
    if _sliced(batch, rows):
        return rows, lambda index: _part(batch, index)
    return rows, lambda index: source.at(chosen[index])


def _sliced(batch: Any, rows: int) -> bool:
    """Whether a batch is tensors of so many rows, and nothing else."""
    leaves: list[Any] = []
    mapped(leaves.append, batch)
    own = tensors_of(batch)
    return len(own) == len(leaves) > 0 and all(t.ndim and int(t.shape[0]) == rows for t in own)


def _part(batch: Any, index: Index) -> Any:
    return mapped(lambda t: t[torch.as_tensor(index, device=t.device)], batch)
