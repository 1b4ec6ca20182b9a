"""A sample of the parameters, for sums over all of them that are wanted in every step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import torch

from auglag.torch.tuning import TUNING
from auglag.torch.variables import Variables

Tensor = Any


@final
class Entries:
    """Every k-th entry of each parameter, k by its size: all entries of small ones, 1 of 63 of large ones.

    Inner products over these entries, weighted, stand for those over all of them: a Jacobian of 100 rows costs a step
    little in time and memory, and its rows still say how a step changes the constraints. The more `rows` there are to
    be, the fewer entries each of them has.
    """

    def __init__(self, variables: Variables, rows: int = 1) -> None:
        self.variables = variables
        self.strides = _strides(variables.sizes, rows)
        counts = [-(-size // k) for size, k in zip(variables.sizes, self.strides, strict=True)]
        self._views: list[Tensor] = []  #: of the parameters, as long as they lie at `_where`
        self._where: list[int] = []
        each = torch.tensor([size / count for size, count in zip(variables.sizes, counts, strict=True)])
        #: How many entries each one stands for; None where that is 1 throughout.
        self.share: Tensor | None = None
        if any(k > 1 for k in self.strides):
            share = each.repeat_interleave(torch.tensor(counts))
            self.share = share.to(device=variables.device, dtype=variables.dtype)

    def take(self, tensors: Iterable[Tensor]) -> Tensor:
        """These entries of tensors shaped like the parameters, as one vector; always a copy."""
        found = torch.cat([t.reshape(-1)[::k] for t, k in zip(tensors, self.strides, strict=True)])
        return found.to(self.variables.dtype)

    def rows(self, tensors: Iterable[Tensor], count: int) -> Tensor:
        """The same for tensors with one more dimension in front."""
        pairs = zip(tensors, self.strides, strict=True)
        return torch.cat([t.reshape(count, -1)[:, ::k] for t, k in pairs], 1).to(self.variables.dtype)

    def weighted(self, values: Tensor) -> Tensor:
        """Entries, ready for sums that stand for those over all of them."""
        return values if self.share is None else values * self.share

    def here(self) -> Tensor:
        """Those of the model as it is."""
        where = [p.data_ptr() for p in self.variables.params]
        if where != self._where:  # the first time, or where the user's code has moved the parameters
            flat = [p.detach() for p in self.variables.params]
            views = all(p.is_contiguous() for p in flat)
            self._where = where if views else []
            self._views = [p.reshape(-1)[::k] for p, k in zip(flat, self.strides, strict=True)]
        return torch.cat(self._views).to(self.variables.dtype)


def _strides(sizes: list[int], rows: int) -> list[int]:
    """One per parameter; odd, so that matrices with an even number of columns are not seen in some of them only."""
    first = [_odd(min(size // TUNING.least_entries, TUNING.longest_stride)) for size in sizes]
    count = sum(-(-size // k) for size, k in zip(sizes, first, strict=True))
    most = max(TUNING.least_entries, TUNING.kept_numbers // max(rows, 1))
    return first if count <= most else [_odd(-(-k * count // most)) for k in first]


def _odd(wanted: int) -> int:
    """The odd number at or below this one, at least 1."""
    return max(1, wanted - (wanted % 2 == 0))
