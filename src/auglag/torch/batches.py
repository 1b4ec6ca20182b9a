"""Pairs of independent batches without end, for a loop of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import torch

from auglag.errors import CheckpointError, InputError, require_integer
from auglag.torch.data import as_source
from auglag.torch.distributed import Team
from auglag.torch.sampled import seed_for
from auglag.torch.tuning import TUNING


@final
class Batches:
    """Pairs of independent batches without end, for a loop of one's own; `state_dict` says where it stands.

    `data` as in `fit`. In a job of many processes each gets its share of every batch.
    """

    def __init__(self, data: Any, batch: int, *, seed: int = 0) -> None:
        require_integer(batch, "batch")
        self.source = as_source(data, Team(torch.device("cpu")), None)
        if not self.source.resumable:
            raise InputError("Batches needs tensors or a map-style dataset, got a stream")
        self.batch, self.seed, self.taken = batch, seed, 0

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        while True:
            count = TUNING.pairs_per_seed
            block, inside = divmod(self.taken, count)
            for i, pair in enumerate(self.source.pairs(seed_for(self.seed, block), count, self.batch)):
                if i >= inside:
                    self.taken += 1
                    yield pair

    def state_dict(self) -> dict[str, Any]:
        """Where it stands."""
        return {"batch": self.batch, "seed": self.seed, "taken": self.taken, "rows": self.source.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there; iterate afresh after this."""
        now = self.state_dict()
        for key in ("batch", "seed", "rows"):
            if state[key] != now[key]:
                raise CheckpointError(f"Batches.{key} must be {state[key]!r} as saved, got {now[key]!r}")
        self.taken = state["taken"]
