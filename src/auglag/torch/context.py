"""What a training run is about (`Context`) and everything that evolves in it (`State`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from auglag._typing import Vector
from auglag.log import headers
from auglag.persist.checkpoint import described
from auglag.stochastic.course import Frame, RunState
from auglag.stochastic.limits import Limits
from auglag.strategy.hooks import Hooks
from auglag.torch.data import Source
from auglag.torch.distributed import Team
from auglag.torch.functions import Functions
from auglag.torch.prox import ProxMap
from auglag.torch.settings import Settings
from auglag.torch.single_loop_run import SampledState

Tensor = Any


@final
@dataclass(frozen=True, slots=True)
class Context:
    """What stays the same during a run."""

    functions: Functions
    source: Source
    prox: ProxMap
    settings: Settings
    team: Team
    tol: float
    seed: int
    limits: Limits
    hooks: Hooks  #: on all processes but the first without table, log and checkpoint
    y0: Any
    check_means: bool

    def header(self, data_rows: int | None) -> dict[str, Any]:
        """The first line of a log, once the lengths of constraints are known."""
        sizes = self.functions.layout.sizes or {}
        return headers.on_data(
            self.settings,
            self.limits,
            problem=type(self.functions.model).__name__,
            n=self.functions.variables.n,
            rows=[name if size == 1 else f"{name}[{i}]" for name, size in sizes.items() for i in range(size)],
            tol=self.tol,
            seed=self.seed,
            data_rows=data_rows,
            resumed=self.hooks.resume is not None,
        )

    def frame(self) -> Frame:
        """What the driver needs of this."""
        variables, constraints = self.functions.variables, self.functions.layout.constraints
        known = {
            "n": variables.n,
            "dtype": str(variables.dtype),
            "rows": self.source.rows,
            "tol": self.tol,
            "seed": self.seed,
            "settings": described(self.settings),
            "constraints": [[name, repr((con.lower, con.upper))] for name, con in constraints.items()],
        }
        return Frame("torch.fit", self.tol, self.seed, self.limits, self.hooks, known)


@final
@dataclass(slots=True, kw_only=True)
class State(RunState):
    """All that evolves in a training run."""

    f: float  #: over all rows at v
    c: Vector
    sizes: dict[str, int] | None  #: of the constraints, by name; None without constraints
    scalar: dict[str, bool]  #: whether a constraint is a number
    inside: tuple[float, Vector] | None = None  #: f and c at the last test, where the inner loop stands
    buffers: tuple[Tensor, ...] = ()  #: of the model, as of the last save
    sampled: SampledState | None = None  #: the sampled part of a single loop
