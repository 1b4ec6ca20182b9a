"""What the first line of a log says of a run of the library: the arguments of `JsonLog.start`.

`settings` are those of `minimize`, of `stochastic.minimize` or of `torch.fit`, which this package does not import: they
describe themselves in words and have the attributes that are named here. `limits` is a dataclass of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from auglag.problems.base import AbstractProblem


def deterministic(problem: AbstractProblem, settings: Any, limits: Any, *, tol: float, resumed: bool) -> dict[str, Any]:
    """The first line of a run of `auglag.minimize`."""
    inner = settings.inner
    same = {name: getattr(settings, name) for name in ("slacks", "scaling", "presolve")}
    options = {
        "inner": inner if isinstance(inner, str) else inner.name,
        **same,
        "acceleration": settings.acceleration is not None,
        "restoration": settings.restoration,
        "restarts": settings.restarts,
    }
    rows = (problem.row_name(i) for i in range(min(problem.m, 1000)))
    what = {"problem": str(getattr(problem, "name", None) or ""), "n": problem.n, "m": problem.m, "tol": tol}
    return _header(what, rows, settings, options, limits, resumed)


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
    """The first line of a run of `auglag.stochastic.minimize` or `auglag.torch.fit`."""
    what = {"problem": problem, "n": n, "m": len(rows), "tol": tol}
    told = {"method": settings.method.name, **options, "seed": seed, "data_rows": data_rows}
    return _header(what, rows, settings, told, limits, resumed)


def _header(
    what: dict[str, Any], rows: Iterable[str], settings: Any, options: dict[str, Any], limits: Any, resumed: bool
) -> dict[str, Any]:
    caps = {f"limit_{name}": value for name, value in asdict(limits).items()}
    return {
        **what,
        "rows": list(rows),
        "options": {"rules": settings.describe(), **options, **caps},
        "resumed": resumed,
    }
