"""How many iterations a stochastic method gets for a subproblem: Algorithm 2, and its rival, a fixed number."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

from auglag._names import suggesting
from auglag.errors import InputError, require_integer


class Controller(ABC):
    """Decides how long the method runs before a full-batch test, and what the test decides."""

    @property
    @abstractmethod
    def tested(self) -> bool:
        """Whether a point has to pass the tests of Algorithm 2; if not, whatever one call returns is taken."""

    @property
    @abstractmethod
    def restart(self) -> bool:
        """Whether a further call on the same subproblem starts again from x_k, or goes on from the last point."""

    @property
    @abstractmethod
    def exact_slacks(self) -> bool:
        """Whether the slacks are replaced by their exact minimisers before a test."""

    @abstractmethod
    def first(self, carried: int | None, epoch: int) -> int:
        """T_{k,1}; `carried` is the last T of the subproblem before (None for the first), `epoch` steps per epoch."""

    @abstractmethod
    def next(self, steps: int) -> int:
        """T_{k,p+1} after T_{k,p} = steps did not suffice."""


@suggesting
@final
@dataclass(frozen=True, slots=True)
class AdaptiveEpochs(Controller):
    """Algorithm 2: T iterations, a full-batch test of dist <= eta_k and of monotonicity, and T <- r T if it fails.

    `restart=True` starts every call at x_k, as printed; False goes on from x_{k,p-1}. With `carry=True` the next
    subproblem begins with the T that this one ended with, else with `initial`. `unit` says what `initial` counts:
    "iterations" (the paper) or "epochs" (passes over the data).
    """

    tested: ClassVar[bool] = True
    initial: int = 1
    r: float = 2.0
    restart: bool = True
    carry: bool = True
    exact_slacks: bool = False
    unit: str = "iterations"

    def __post_init__(self) -> None:
        require_integer(self.initial, "AdaptiveEpochs.initial")
        _unit("AdaptiveEpochs", self.unit)
        if not 1.0 < self.r < math.inf:
            raise InputError(f"AdaptiveEpochs.r must be finite and greater than 1, got {self.r}")

    def first(self, carried: int | None, epoch: int) -> int:
        if self.carry and carried is not None:
            return carried
        return self.initial * (epoch if self.unit == "epochs" else 1)

    def next(self, steps: int) -> int:
        return math.ceil(self.r * steps)


@suggesting
@final
@dataclass(frozen=True, slots=True)
class FixedEpochs(Controller):
    """The same number of epochs for every subproblem, and no test of the result (Li et al. 2023).

    `unit="epochs"` counts passes over the data, "iterations" single steps.
    """

    tested: ClassVar[bool] = False
    restart: ClassVar[bool] = False  #: there is one call per subproblem
    n: int = 100
    unit: str = "epochs"
    exact_slacks: bool = False

    def __post_init__(self) -> None:
        require_integer(self.n, "FixedEpochs.n")
        _unit("FixedEpochs", self.unit)

    def first(self, carried: int | None, epoch: int) -> int:
        return self.n * (epoch if self.unit == "epochs" else 1)

    def next(self, steps: int) -> int:
        return steps


def _unit(what: str, unit: str) -> None:
    if unit not in ("iterations", "epochs"):
        raise InputError(f"{what}.unit must be 'iterations' or 'epochs', got {unit!r}")
