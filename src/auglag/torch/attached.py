"""What a user attaches to the state of a loop: models, optimisers, schedulers, generators."""

from __future__ import annotations

from typing import Any, final

import torch

from auglag.errors import CheckpointError, InputError


@final
class Attached:
    """Saves and restores things that have a `state_dict`, and generators; PyTorch's own generators with them."""

    def __init__(self) -> None:
        self.things: dict[str, Any] = {}

    def add(self, things: dict[str, Any]) -> None:
        """Let these go along."""
        for name, thing in things.items():
            if not (isinstance(thing, torch.Generator) or hasattr(thing, "load_state_dict")):
                raise InputError(f"attach({name}=...) takes a Generator or what has a state_dict, got {thing!r:.60}")
            self.things[name] = thing

    def save(self) -> dict[str, Any]:
        """Their states."""
        return {
            "attached": {
                name: thing.get_state() if isinstance(thing, torch.Generator) else thing.state_dict()
                for name, thing in self.things.items()
            },
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }

    def check(self, state: dict[str, Any]) -> None:
        """Raise unless the same things are attached as when saving, and the state is whole."""
        for key in ("attached", "rng", "cuda_rng"):
            if key not in state:
                raise CheckpointError(f"the state is incomplete: it has no {key!r}")
        missing = state["attached"].keys() ^ self.things.keys()
        if missing:
            raise CheckpointError(f"the same things must be attached as when saving; different: {sorted(missing)}")

    def restore(self, state: dict[str, Any]) -> None:
        """Put all of them where they were."""
        self.check(state)
        for name, thing in self.things.items():
            saved = state["attached"][name]
            if isinstance(thing, torch.Generator):
                thing.set_state(saved)
            else:
                thing.load_state_dict(saved)
        torch.set_rng_state(state["rng"])
        if state["cuda_rng"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda_rng"])
