"""What the first line of a log says of a run of the library: the arguments of `JsonLog.start`.

`settings` are those of `minimize`, of `stochastic.minimize` or of `torch.fit`, which this room does not import: they
describe themselves in words and have the attributes that are named here. `limits` is a dataclass of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def stochastic(problem: Any, settings: Any, limits: Any, *, tol: float, seed: int, resumed: bool) -> dict[str, Any]:
    """The first line of a run of `auglag.stochastic.minimize`; `problem` is its `StochasticProblem`."""
    rows = problem.rows if problem.finite_data else None
    options = {"method": settings.method.name, "slacks": settings.slacks, "seed": seed, "data_rows": rows}
    name = str(getattr(problem, "name", None) or "sampled problem")
    what = {"problem": name, "n": problem.n, "m": problem.m, "tol": tol}
    return _header(what, problem.names, settings, options, limits, resumed)


def training(
    name: str,
    n: int,
    sizes: Mapping[str, int],
    settings: Any,
    limits: Any,
    *,
    tol: float,
    seed: int,
    data_rows: int | None,
    resumed: bool,
) -> dict[str, Any]:
    """The first line of a run of `auglag.torch.fit`; `sizes` has the number of rows of every constraint."""
    options = {"method": settings.method.name, "seed": seed, "data_rows": data_rows}
    rows = [name if size == 1 else f"{name}[{i}]" for name, size in sizes.items() for i in range(size)]
    return _header({"problem": name, "n": n, "m": len(rows), "tol": tol}, rows, settings, options, limits, resumed)


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
