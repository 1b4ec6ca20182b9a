"""What the first line of a log says of a run of the library."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auglag.stochastic.run import Context
    from auglag.strategy.run import Run
    from auglag.torch.run import Context as TrainingContext


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


def stochastic(context: Context) -> dict[str, Any]:
    """The arguments of `JsonLog.start` for a run of `auglag.stochastic.minimize`."""
    problem, settings = context.problem, context.settings
    options = {
        "rules": settings.describe(),
        "method": settings.method.name,
        "slacks": settings.slacks,
        "seed": context.seed,
        "data_rows": problem.rows if problem.finite_data else None,
        **{f"limit_{name}": value for name, value in asdict(context.limits).items()},
    }
    return {
        "problem": str(getattr(problem, "name", None) or "sampled problem"),
        "n": problem.n,
        "m": problem.m,
        "rows": list(problem.names),
        "tol": context.tol,
        "options": options,
        "resumed": context.hooks.resume is not None,
    }


def training(context: TrainingContext, data_rows: int | None) -> dict[str, Any]:
    """The arguments of `JsonLog.start` for a run of `auglag.torch.fit`, once the lengths of constraints are known."""
    layout, settings = context.functions.layout, context.settings
    options = {
        "rules": settings.describe(),
        "method": settings.method.name,
        "seed": context.seed,
        "data_rows": data_rows,
        **{f"limit_{name}": value for name, value in asdict(context.limits).items()},
    }
    sizes = layout.sizes or {}
    rows = [name if size == 1 else f"{name}[{i}]" for name, size in sizes.items() for i in range(size)]
    return {
        "problem": type(context.functions.model).__name__,
        "n": context.functions.variables.n,
        "m": layout.m,
        "rows": rows,
        "tol": context.tol,
        "options": options,
        "resumed": context.hooks.resume is not None,
    }
