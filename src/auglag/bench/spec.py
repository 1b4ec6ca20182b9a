"""What is to be run: a problem, a solver with its options, limits and a seed; and the key that names such a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, final

from auglag.errors import InputError, require_positive


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may spend.

    `gradients` and `seconds` (CPU time of the worker) are checked at every evaluation, and the last point is judged;
    `wall` seconds and `memory` (MiB) are enforced from outside: the worker is killed, and the run has no point.
    """

    gradients: int = 20_000
    seconds: float = 20.0
    wall: float = 60.0
    memory: float = 4096.0

    def __post_init__(self) -> None:
        for name in ("gradients", "seconds", "wall", "memory"):
            require_positive(getattr(self, name), f"Limits.{name}")
        if self.gradients != int(self.gradients):
            raise InputError(f"Limits.gradients must be a whole number, got {self.gradients!r}")


@final
@dataclass(frozen=True, slots=True)
class Run:
    """One run of one solver on one problem."""

    problem: str
    solver: str
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    source: str = "s2mpj"
    params: Any = None  #: of the problem: a number, a list or a mapping of numbers, as `cutest.load` takes them
    seed: int = 0
    label: str = ""  #: what tables and plots call this solver with these options; its name if empty

    @property
    def title(self) -> str:
        """The label, or the solver's name."""
        return self.label or self.solver

    @property
    def key(self) -> str:
        """The same for the same run, whatever it is called in tables."""
        content = self.as_dict()
        del content["label"]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        return data | {"options": dict(self.options), "limits": asdict(self.limits)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Run:
        """The inverse of `as_dict`."""
        return Run(**{**data, "limits": Limits(**data["limits"])})
