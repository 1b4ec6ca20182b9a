"""What the first line of a log says of a run of the library."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auglag.strategy.run import Run


def deterministic(run: Run) -> dict[str, Any]:
    """The arguments of `JsonLog.start` for a run of `auglag.minimize`."""
    problem, settings = run.original, run.settings
    inner = settings.inner
    options = {
        "rules": settings.describe(),
        "inner": inner if isinstance(inner, str) else inner.name,
        "slacks": settings.slacks,
        "scaling": settings.scaling,
        "presolve": settings.presolve,
        "acceleration": settings.acceleration is not None,
        "restoration": settings.restoration,
        "restarts": settings.restarts,
        **{f"limit_{name}": value for name, value in asdict(run.budget).items()},
    }
    return {
        "problem": str(getattr(problem, "name", None) or ""),
        "n": problem.n,
        "m": problem.m,
        "rows": [problem.row_name(i) for i in range(min(problem.m, 1000))],
        "tol": run.tol,
        "options": options,
        "resumed": run.hooks.resume is not None,
    }


def on_data(
    settings: Any,
    limits: Any,
    *,
    problem: str,
    n: int,
    rows: list[str],
    tol: float,
    seed: int,
    data_rows: int | None,
    resumed: bool,
    **options: str,
) -> dict[str, Any]:
    """The arguments of `JsonLog.start` for a run of `auglag.stochastic.minimize` or `auglag.torch.fit`."""
    told = {
        "rules": settings.describe(),
        "method": settings.method.name,
        **options,
        "seed": seed,
        "data_rows": data_rows,
        **{f"limit_{name}": value for name, value in asdict(limits).items()},
    }
    return {
        "problem": problem,
        "n": n,
        "m": len(rows),
        "rows": rows,
        "tol": tol,
        "options": told,
        "resumed": resumed,
    }
