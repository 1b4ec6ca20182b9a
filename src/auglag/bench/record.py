"""The record of one run: what was run, what it cost, where it ended, and the judge's numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, final

from auglag.bench.spec import Run

#: The tolerances at which a run may count as solved.
TOLERANCES = (1e-3, 1e-6, 1e-8)


class Ending:
    """How a run ended, as far as the harness can see. Whether it solved the problem is the judge's business."""

    RETURNED = "returned"  #: the solver returned, satisfied or not
    LIMIT = "limit"  #: gradients or CPU seconds used up; the last point is judged
    EXCEPTION = "exception"  #: the solver raised; the last point is judged
    TIMEOUT = "timeout"  #: killed at the wall-clock limit
    MEMORY = "memory"  #: killed at the memory limit
    CRASH = "crash"  #: the process died by itself


@final
@dataclass(frozen=True, slots=True)
class Record:
    """One finished run. All fields are plain JSON data; NaN and infinity are allowed in numbers."""

    run: Run
    ending: str  #: one of `Ending`
    message: str = ""  #: the solver's, or the error's
    claims_success: bool | None = None  #: what the solver says of itself
    n: int = 0
    m: int = 0
    objective: float = math.nan
    violation: float = math.inf  #: largest violation of a row or bound, absolute
    #: For each of `TOLERANCES`: the stationarity (inf-norm, divided by max(1, |grad f|_inf)) of x with the best
    #: multipliers that are allowed at this tolerance.
    stationarity: tuple[float, float, float] = (math.inf, math.inf, math.inf)
    residual: float = math.nan  #: the paper's R with the solver's own multipliers, where it gives them
    values: int = 0  #: points at which f or c was asked for
    gradients: int = 0  #: points at which grad f or the Jacobian was asked for
    hessians: int = 0  #: points at which the Hessian of a Lagrangian was asked for
    products: int = 0  #: products with such a Hessian
    seconds: float = 0.0  #: wall clock, solver only
    cpu: float = 0.0  #: CPU seconds, solver only
    x: tuple[float, ...] | None = None  #: the point that was judged
    extra: dict[str, Any] = field(default_factory=dict)  #: what the solver adds: last beta, outer iterations, ...
    history: list[dict[str, float]] | None = None  #: one row per outer iteration, where the solver gives one
    environment: dict[str, str] = field(default_factory=dict)  #: versions and machine

    @property
    def title(self) -> str:
        """What tables call this solver."""
        return self.run.title

    @property
    def subproblem_gradients(self) -> int:
        """Gradients of augmented Lagrangians that inner solvers asked for, from the history; without one `gradients`.

        It is SciPy's count `njev`, summed over the subproblems: most likely what the paper counts. It is above
        `gradients` by one for each outer iteration, since a subproblem begins where the last one ended and derivatives
        are known; and by any number where explicit slacks move alone.
        """
        counts = [row.get("evaluations", math.nan) for row in self.history or ()]
        return int(sum(counts)) if counts and all(map(math.isfinite, counts)) else self.gradients

    @property
    def last_residual(self) -> float | None:
        """R of the last outer iteration, with explicit slacks where the loop has them; None without a history."""
        return self.history[-1].get("residual") if self.history else None

    def solved(self, tolerance: float) -> bool:
        """Whether the judge accepts the point at this tolerance, one of `TOLERANCES`."""
        return self.violation <= tolerance and self.stationarity[TOLERANCES.index(tolerance)] <= tolerance

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data["run"] = self.run.as_dict()
        data["stationarity"] = list(self.stationarity)
        data["x"] = None if self.x is None else list(self.x)
        return data

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Record:
        """The inverse of `as_dict`."""
        known = {f.name for f in fields(Record)}
        content = {name: value for name, value in data.items() if name in known}
        content["run"] = Run.from_dict(data["run"])
        content["stationarity"] = tuple(data["stationarity"])
        content["x"] = None if data.get("x") is None else tuple(data["x"])
        return Record(**content)


def flat(record: Record) -> dict[str, Any]:
    """One row of a table: no nested data, no point, and of the history the last R."""
    row = {f.name: getattr(record, f.name) for f in fields(record) if f.name not in ("run", "x", "history", "extra")}
    run = record.run
    del row["environment"]
    row["subproblem_gradients"], row["last_residual"] = record.subproblem_gradients, record.last_residual
    row["stationarity_1e3"], row["stationarity_1e6"], row["stationarity_1e8"] = row.pop("stationarity")
    head = {"problem": run.problem, "solver": run.solver, "label": run.title, "source": run.source, "seed": run.seed}
    head |= {f"limit_{name}": value for name, value in asdict(run.limits).items()}
    head |= {f"option_{name}": value for name, value in sorted(run.options.items())}
    extra = sorted(record.extra.items())
    tail = {f"extra_{name}": value for name, value in extra if not isinstance(value, list | dict)}
    return head | row | {f"solved_{t:.0e}": record.solved(t) for t in TOLERANCES} | tail
