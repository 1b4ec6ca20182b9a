"""Where batches come from: tensors, a dataset, a loader, or anything that can be iterated over again and again.

All randomness comes from a generator seeded for each call of a method, so that a run resumes bit for bit; every process
draws the same rows for the whole batch and takes its share of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sized
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data.distributed import DistributedSampler
from torch.utils.data.sampler import RandomSampler, SequentialSampler, SubsetRandomSampler

from auglag.errors import InputError
from auglag.stochastic.tuning import TUNING
from auglag.torch.distributed import Team

Tensor = Any


def mapped(change: Callable[[Any], Any], nest: Any) -> Any:
    """The same nest of dictionaries, tuples and lists, with everything in it changed."""
    if isinstance(nest, Mapping):
        return {key: mapped(change, value) for key, value in nest.items()}
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*(mapped(change, value) for value in nest))
    if isinstance(nest, list | tuple):
        return type(nest)(mapped(change, value) for value in nest)
    return change(nest)


def move(batch: Any, device: Any) -> Any:
    """The same nested batch on a device; what has no `to` stays."""

    def moved(part: Any) -> Any:
        if isinstance(part, torch.Tensor):
            return part.to(device, non_blocking=True)
        return part.to(device) if hasattr(part, "to") else part

    return mapped(moved, batch)


def tensors_of(batch: Any) -> list[Tensor]:
    """The tensors of a nested batch."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    if isinstance(batch, Mapping):
        return [t for value in batch.values() for t in tensors_of(value)]
    if isinstance(batch, list | tuple):
        return [t for value in batch for t in tensors_of(value)]
    return []


def rows_of(batch: Any) -> int:
    """The number of rows of a batch: the first axis of its first tensor; 1 if that cannot be seen."""
    found = tensors_of(batch)
    return int(found[0].shape[0]) if found and found[0].ndim else 1


class Source(ABC):
    """Data as a run sees them."""

    resumable: bool = True
    sized: bool = True  #: whether batches have the size asked for
    rows: int | None  #: in all processes together; None if not known before a pass
    chunk: int  #: rows of a chunk
    team: Team

    @property
    def single(self) -> bool:
        """Whether every process's share is one chunk, so that one graph can hold all of it; False if not known."""
        return self.rows is not None and -(-self.rows // self.team.size) <= self.chunk

    @abstractmethod
    def chunks(self) -> Iterator[Any]:
        """This process's share of one pass, chunk by chunk."""

    @abstractmethod
    def pairs(self, seed: int, steps: int, batch: int) -> Iterator[tuple[Any, Any]]:
        """`steps` pairs of independent batches of `batch` rows in all, this process's share of each."""

    @abstractmethod
    def shuffled(self, seed: int, batch: int) -> Iterator[Any]:
        """One pass in random order, `batch` rows in all at a time, this process's share of each; a rest is left out."""

    def at(self, index: Any) -> Any:
        """The batch of the rows with these numbers, the same in every process; only where rows are numbered."""
        raise NotImplementedError(f"the rows of a {type(self).__name__} have no numbers")


@final
class TensorSource(Source):
    """A tensor, or a nest of tensors that share their first axis."""

    rows: int

    def __init__(self, data: Any, team: Team, chunk: int | None) -> None:
        parts = tensors_of(data)
        lengths = {int(t.shape[0]) if t.ndim else 0 for t in parts}
        if len(lengths) != 1:
            raise InputError(f"data must be tensors that share their first axis, got lengths {sorted(lengths)}")
        self.data, self.team, self.rows = data, team, lengths.pop()
        if self.rows < team.size:
            raise InputError(f"data must have at least one row per process, {team.size}, got {self.rows} rows")
        width = sum(t.element_size() * (t.numel() // max(1, len(t))) for t in parts)
        self.chunk = chunk or max(256, TUNING.chunk_bytes // max(1, width))
        self.device = parts[0].device

    def _take(self, index: Any) -> Any:
        return mapped(lambda tensor: tensor[index], self.data)

    def at(self, index: Any) -> Any:
        return self._take(torch.as_tensor(index, device=self.device))

    def chunks(self) -> Iterator[Any]:
        start, stop = self.team.share(self.rows)
        for begin in range(start, stop, self.chunk):
            yield self._take(slice(begin, min(begin + self.chunk, stop)))

    def pairs(self, seed: int, steps: int, batch: int) -> Iterator[tuple[Any, Any]]:
        for index in _indices(self.rows, seed, steps, batch, self.team):
            there = index.to(self.device)
            for first, second in there:
                yield self._take(first), self._take(second)

    def shuffled(self, seed: int, batch: int) -> Iterator[Any]:
        for index in _order(self.rows, seed, batch, self.team).to(self.device):
            yield self._take(index)

    def finite_rows(self, part: slice) -> Any:
        """Of every row in a part of the data whether its numbers are finite."""
        floats = [t[part] for t in tensors_of(self.data) if t.is_floating_point()]
        good = torch.ones(part.stop - part.start, dtype=torch.bool)
        for t in floats:
            good &= t.isfinite().reshape(len(t), -1).all(1).cpu()
        return good.numpy()


def _order(rows: int, seed: int, batch: int, team: Team) -> Tensor:
    """The rows of a pass in random order, (steps, share of the batch); all of them if a batch has more."""
    batch = min(batch, rows)
    start, stop = team.share(batch)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return order[: rows // batch * batch].reshape(-1, batch)[:, start:stop]


def _indices(rows: int, seed: int, steps: int, batch: int, team: Team) -> Iterator[Tensor]:
    """Indices (steps, 2, share of the batch), `steps_per_draw` steps at a time."""
    generator = torch.Generator().manual_seed(seed)
    start, stop = team.share(batch)
    for done in range(0, steps, TUNING.steps_per_draw):
        count = min(TUNING.steps_per_draw, steps - done)
        yield torch.randint(rows, (count, 2, batch), generator=generator)[:, :, start:stop]


@final
class DatasetSource(Source):
    """A map-style dataset, by itself or in a loader: collation, workers and chunk size are the loader's, order ours."""

    rows: int

    def __init__(self, dataset: Any, loader: Any, team: Team, chunk: int | None) -> None:
        self.dataset, self.loader, self.team = dataset, loader, team
        self.rows = len(dataset)
        if self.rows == 0:
            raise InputError("data must yield at least one batch, got an empty dataset")
        if self.rows < team.size:
            raise InputError(f"data must have at least one row per process, {team.size}, got {self.rows} rows")
        size = getattr(loader, "batch_size", None)
        if size is None and loader is not None:
            size = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
        self.chunk = chunk or size or 256

    def _loader(self, batches: Any) -> Any:
        options: dict[str, Any] = {}
        if self.loader is not None:
            options = {
                "num_workers": self.loader.num_workers,
                "collate_fn": self.loader.collate_fn,
                "pin_memory": self.loader.pin_memory,
                "worker_init_fn": self.loader.worker_init_fn,
                "multiprocessing_context": self.loader.multiprocessing_context,
            }
        return DataLoader(self.dataset, batch_sampler=batches, generator=torch.Generator(), **options)

    def at(self, index: Any) -> Any:
        return next(iter(self._loader([[int(i) for i in index]])))

    def chunks(self) -> Iterator[Any]:
        start, stop = self.team.share(self.rows)
        return iter(self._loader([range(i, min(i + self.chunk, stop)) for i in range(start, stop, self.chunk)]))

    def pairs(self, seed: int, steps: int, batch: int) -> Iterator[tuple[Any, Any]]:
        drawn = _Drawn(self.rows, seed, steps, batch, self.team)
        batches = iter(self._loader(drawn))
        yield from zip(batches, batches, strict=True)

    def shuffled(self, seed: int, batch: int) -> Iterator[Any]:
        return iter(self._loader(_order(self.rows, seed, batch, self.team).tolist()))


@final
class _Drawn:
    """The batches of a call as a batch sampler: first, second, first, second, ..."""

    def __init__(self, rows: int, seed: int, steps: int, batch: int, team: Team) -> None:
        self.arguments = rows, seed, steps, batch, team

    def __len__(self) -> int:
        return 2 * self.arguments[2]

    def __iter__(self) -> Iterator[list[int]]:
        for index in _indices(*self.arguments):
            for pair in index:
                yield from pair.tolist()


@final
class StreamSource(Source):
    """Anything that can be iterated over: a list of batches, an `IterableDataset` in a loader, a user's own loader.

    In a job of many processes each process's own batches are its share. Two batches in a row make a pair, so they have
    to be independent of each other: shuffle. Where a stream stands cannot be saved.
    """

    resumable = sized = False
    rows = None

    def __init__(self, stream: Any, team: Team) -> None:
        self.stream, self.team = stream, team
        self._open: Iterator[Any] | None = None

    def chunks(self) -> Iterator[Any]:
        return iter(self.stream)

    def _next(self) -> Any:
        for _ in range(2):
            if self._open is None:
                self._open = iter(self.stream)
            for batch in self._open:
                return batch
            self._open = None
        raise InputError("data must yield at least one batch every time it is iterated over, got none")

    def pairs(self, seed: int, steps: int, batch: int) -> Iterator[tuple[Any, Any]]:
        """The next batches, whatever their size."""
        for _ in range(steps):
            first = self._next()
            yield first, self._next()

    def shuffled(self, seed: int, batch: int) -> Iterator[Any]:
        """One pass as it comes: its order is the stream's own."""
        return iter(self.stream)


def as_source(data: Any, team: Team, chunk: int | None) -> Source:
    """The source for what the user gave."""
    parts = data.values() if isinstance(data, Mapping) else data if isinstance(data, list | tuple) else (data,)
    if any(isinstance(part, np.ndarray) for part in parts):
        raise InputError(
            "data must be tensors, a Dataset, a DataLoader or a re-iterable of batches, got NumPy arrays: "
            "torch.as_tensor makes tensors of them, in the dtype of the parameters"
        )
    for part in parts:
        if hasattr(part, "to_numpy"):  # pandas and the like: their elements are columns
            raise InputError(
                "data must be tensors, a Dataset, a DataLoader or a re-iterable of batches, got a "
                f"{type(part).__name__}: torch.as_tensor(frame.to_numpy()) makes a tensor of it"
            )
    if isinstance(data, torch.Tensor) or (tensors_of(data) and not isinstance(data, list) and _nest(data)):
        return TensorSource(data, team, chunk)
    if isinstance(data, DataLoader):
        if isinstance(data.dataset, IterableDataset):
            return StreamSource(data, team)
        return DatasetSource(_sampled(data), data, team, chunk)
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset) and isinstance(data, Sized):
        return DatasetSource(data, None, team, chunk)
    if isinstance(data, Iterator):
        raise InputError("data must be something that can be iterated over again and again, got an iterator")
    if hasattr(data, "__iter__"):
        if isinstance(data, Sized) and len(data) == 0:
            raise InputError("data must yield at least one batch, got none")
        if isinstance(data, list) and len({p.shape[1:] if isinstance(p, torch.Tensor) else () for p in data}) > 1:
            raise InputError(
                "data must be a tuple of tensors, (X, y), or a list of batches that are alike, got a list of different "
                "tensors"
            )
        return StreamSource(data, team)
    raise InputError(
        f"data must be tensors, a Dataset, a DataLoader or a re-iterable of batches, got {type(data).__name__}"
    )


def _sampled(loader: Any) -> Any:
    """The rows that a loader draws from, each as likely as any other; other samplers state another problem."""
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    if isinstance(sampler, SubsetRandomSampler):
        return Subset(loader.dataset, list(sampler.indices))
    if isinstance(sampler, RandomSampler | SequentialSampler | DistributedSampler):
        return loader.dataset
    if not isinstance(sampler, Sized) or len(sampler) != len(loader.dataset) or hasattr(sampler, "weights"):
        raise InputError(
            "data must be a loader that draws all rows of its dataset alike, got one with "
            f"{type(sampler).__name__}: give a Subset of the dataset, or weigh the rows in objective and constraints"
        )
    return loader.dataset


def _nest(data: Any) -> bool:
    """Whether a tuple or dictionary holds nothing but tensors."""
    if isinstance(data, torch.Tensor):
        return True
    if isinstance(data, Mapping):
        return all(_nest(value) for value in data.values())
    return isinstance(data, tuple) and all(_nest(value) for value in data)
