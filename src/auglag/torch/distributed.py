"""Many processes: sums over all of them, numbers that all agree on, and an error when one is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import torch

from auglag.errors import AuglagError

Tensor = Any


class WorkerLost(AuglagError, RuntimeError):
    """Another process of the job died or no longer answers; the last checkpoint resumes the run."""


def mean_over_processes(value: Tensor) -> Tensor:
    """The mean over all processes of the default group; the value itself where there is only this one."""
    team = Team(value.device)
    return value if team.alone else team.sum_(value.clone()).div_(team.size)


@final
class Team:
    """The processes of the default group of `torch.distributed`, or this process alone."""

    def __init__(self, device: Any, checkpoint: object = None) -> None:
        there = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.rank = torch.distributed.get_rank() if there else 0
        self.size = torch.distributed.get_world_size() if there else 1
        self.device, self.checkpoint = device, checkpoint

    @property
    def alone(self) -> bool:
        """Whether there is only this process."""
        return self.size == 1

    def share(self, total: int) -> tuple[int, int]:
        """The part [start, stop) of `total` things that is this process's."""
        return self.rank * total // self.size, (self.rank + 1) * total // self.size

    def sum_(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if not self.alone:
            self._guarded(lambda: torch.distributed.all_reduce(tensor))
        return tensor

    def sum_list_(self, tensors: list[Tensor]) -> list[Tensor]:
        """The same for several tensors in one message per dtype."""
        if self.alone:
            return tensors
        by_dtype: dict[Any, list[Tensor]] = {}
        for t in tensors:
            by_dtype.setdefault(t.dtype, []).append(t)
        for group in by_dtype.values():
            flat = self.sum_(torch.cat([t.reshape(-1) for t in group]))
            for t, part in zip(group, torch.split(flat, [t.numel() for t in group]), strict=True):
                t.copy_(part.view_as(t))
        return tensors

    def from_first_(self, tensor: Tensor) -> Tensor:
        """The tensor of rank 0, in place."""
        if not self.alone:
            self._guarded(lambda: torch.distributed.broadcast(tensor, src=0))
        return tensor

    def agree(self, numbers: Sequence[float]) -> list[float]:
        """The numbers of rank 0: decisions must be the same everywhere, whatever clocks and rounding say."""
        if self.alone:
            return list(numbers)
        wide = torch.float32 if self.device.type == "mps" else torch.float64
        tensor = torch.tensor(list(numbers), dtype=wide, device=self.device)
        return list(self.from_first_(tensor).tolist())

    def _guarded(self, message: Callable[[], object]) -> None:
        try:
            message()
        except RuntimeError as error:
            saved = (
                f"resume={str(self.checkpoint)!r} goes on from the last test"
                if self.checkpoint is not None
                else "no checkpoint was asked for: checkpoint=... makes a run that can be resumed"
            )
            reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
            raise WorkerLost(
                f"rank {self.rank} of {self.size} lost touch with another process ({reason:.160}); {saved}"
            ) from error
