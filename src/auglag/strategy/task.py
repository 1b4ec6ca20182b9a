"""One run as it was asked for: the problem, the method, where to start, and what it may spend."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, final

from auglag._typing import Vector
from auglag.budget import Budget, Meter
from auglag.certificate.incumbent import Judge
from auglag.persist import checkpoint
from auglag.problems.base import AbstractProblem
from auglag.strategy import tuning as tunings
from auglag.strategy.hooks import Hooks
from auglag.strategy.settings import Settings
from auglag.strategy.tuning import Tuning


@final
@dataclass(frozen=True, slots=True)
class WarmStart:
    """Where to start: x, multipliers in the user's units, and the first penalty (None: as the rule says)."""

    x: Vector
    y: Vector | None = None
    beta: float | None = None


@final
@dataclass(frozen=True, slots=True)
class Task:
    """One run: the problem, the method, and what it may spend."""

    problem: AbstractProblem  #: perhaps presolved
    settings: Settings
    start: WarmStart
    tol: float
    budget: Budget
    hooks: Hooks
    meter: Meter
    conflict: str = ""  #: why no point satisfies all rows, where that is obvious
    scale_free: float = math.inf  #: tolerance of the scale-free test
    x_scale: Vector | None = None  #: units of the variables that the user stated
    check_derivatives: bool = False  #: compare those that the user supplied with differences at the start
    tuning: Tuning = field(default_factory=lambda: tunings.TUNING)
    judge: Judge = field(init=False)  #: measures points on the original problem

    def __post_init__(self) -> None:
        object.__setattr__(self, "judge", Judge(self.problem, self.tol, self.scale_free))

    @property
    def original(self) -> AbstractProblem:
        """The user's problem, with all of its rows."""
        return self.judge.original

    def fingerprint(self) -> dict[str, Any]:
        """What must be the same for a saved state to fit."""
        problem = self.original
        return {
            "n": problem.n,
            "m": problem.m,
            "tol": self.tol,
            "scale_free": self.scale_free,
            "x_scale": None if self.x_scale is None else checkpoint.digest(self.x_scale),
            "settings": checkpoint.described(self.settings),
            "x0": problem.x0.tolist() if problem.n <= 10 else checkpoint.digest(problem.x0),
            "bounds": checkpoint.digest(problem.lower, problem.upper),
            "constraint sides": checkpoint.digest(problem.cl, problem.cu),
        }
