"""The contract of a solver under test."""

from __future__ import annotations

import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auglag._typing import Vector
from auglag.bench.counted import CountedProblem


@dataclass(frozen=True, slots=True)
class Answer:
    """What a solver hands back."""

    x: Vector
    claims_success: bool
    message: str
    y: Vector | None = None  #: multipliers of the rows, in the sign L = f + y'c, where the solver gives them
    extra: dict[str, Any] = field(default_factory=dict)  #: plain JSON data worth keeping: iterations, last beta, ...
    history: list[dict[str, float]] | None = None


class Baseline(ABC):
    """A solver under test: one file, one line of registration in `auglag.bench.baselines`.

    `solve` sees the problem only through a `CountedProblem`, which raises `LimitReached` when the budget is gone; let
    it pass, or return the best point known. Any other exception costs this one record: the last point is judged.
    """

    name: str
    requires: tuple[str, ...]  #: distributions to install, as pip calls them
    extra: str = ""  #: of auglag, that brings them
    derivatives: int = 1  #: 0 values only, 1 gradients, 2 Hessians
    defaults: Mapping[str, Any]  #: every option it takes, "tol" among them, with its default; others are refused

    @abstractmethod
    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Solve the problem to the tolerance `options["tol"]`; `options` is complete."""

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise an `InputError` if a value among the complete options makes no sense; before a long run, not in it."""
        return

    def unavailable(self) -> str:
        """Why it cannot run here, with what to install; empty if it can."""
        for distribution in self.requires:
            try:
                importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:
                brought = f"'auglag[{self.extra}]'" if self.extra else distribution
                return f"{self.name} needs {distribution}: pip install {brought}"
        return ""

    def version(self) -> str:
        """What to call it in a table, with the version of the solver itself."""
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in self.requires)
