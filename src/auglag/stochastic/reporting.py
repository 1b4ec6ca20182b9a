"""Words for the result of a stochastic run: the message with the numbers that matter, and what to try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag.algorithm.history import History
from auglag.algorithm.status import Status
from auglag.certificate import Certificate
from auglag.stochastic.estimate import EstimatedCertificate
from auglag.stochastic.limits import Limits
from auglag.stochastic.methods import Method
from auglag.stochastic.settings import Settings


@final
@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, as far as words need it."""

    status: Status
    check: Certificate | EstimatedCertificate
    tol: float
    settings: Settings
    history: History
    limits: Limits
    limit: str  #: the one that was reached: epochs, gradients, seconds, memory, or ''
    finite_data: bool
    grows: bool  #: samples of endless data are enlarged where they do not suffice
    refuted: bool  #: solved on its sample, but a fresh one did not certify it
    sample_rows: int  #: rows of the tests, or of the sample that they are made on
    drawn_rows: int  #: the same as it was asked for, per block of endless data
    rescued: bool  #: the first method got stuck and L-BFGS began again
    checkpoint: object  #: the file of the state, or None
    stuck: str = ""  #: a constraint that is violated where its gradient is zero


def message(end: Ending) -> str:
    """The status in words, with R and what it was compared with, and where the run ended."""
    check = end.check
    relation = "<=" if check.meets(end.tol) else ">"
    if isinstance(check, EstimatedCertificate):
        low, high = check.residual_interval
        text = f"{_ending(end)} Estimated residual {check.residual:.2e}, {100 * check.confidence:.0f} % "
        text += f"interval [{low:.2e}, {high:.2e}] from {check.rows} rows, upper end {high:.2e} {relation} "
        text += f"tol {end.tol:.0e}"
    else:
        text = f"{_ending(end)} Residual {check.residual:.2e} {relation} tol {end.tol:.0e}"
    text += f"; violation {check.violation:.2e}."
    if (rows := _rows_needed(end)) is not None:
        text += " tol is below the radius of the interval, so that no point can meet it: "
        text += f"it takes a sample of about {rows:.0e} rows." if end.grows else f"take more than {rows:.0e} test_rows."
    if end.rescued:
        text += f" {end.settings.method.name} got stuck; L-BFGS began again at x0."
    return text + _inside(end)


def _ending(end: Ending) -> str:
    """The status's message; for a limit, which one, by the name it has as an argument."""
    limits = end.limits
    if end.refuted and end.limit in ("epochs", "memory"):
        short = f"max_epochs = {limits.epochs} leaves" if end.limit == "epochs" else "memory has"
        return f"Solved on a sample of {end.sample_rows} rows only: {short} no room for a larger one."
    return ending(end.status, limits, end.limit)


def ending(status: Status, limits: Limits, limit: str) -> str:
    """The status's message; for a limit with its name and value as an argument."""
    reached = _limit_of(status, limit)
    if reached is None or (value := getattr(limits, reached)) is None:
        return status.message
    kind, unit = _WORDS[reached]
    return f"{kind} limit reached before the tolerance: max_{reached} = {value:g}{unit}."


#: Limit -> (what it limits, the unit of its value).
_WORDS = {
    "epochs": ("Epoch", " passes over the data"),
    "gradients": ("Gradient", ""),
    "seconds": ("Time", ""),
    "outer": ("Iteration", ""),
}


def _limit_of(status: Status, limit: str) -> str | None:
    """The field of `Limits` that ended a run, or None."""
    if status is Status.EVALUATION_LIMIT:
        return limit if limit in _WORDS else None
    return {Status.TIME_LIMIT: "seconds", Status.ITERATION_LIMIT: "outer"}.get(status)


def longer(status: Status, limit: str, checkpoint: object, otherwise: str) -> tuple[str, ...]:
    """The advice to go on, where a limit ended a run: from its checkpoint, or else from what it returned."""
    if status not in (Status.EVALUATION_LIMIT, Status.TIME_LIMIT, Status.ITERATION_LIMIT):
        return ()
    name = _limit_of(status, limit) or "epochs"
    return (f"a larger max_{name}, {f'with resume={str(checkpoint)!r}' if checkpoint is not None else otherwise}.",)


def _rows_needed(end: Ending) -> float | None:
    """The rows of the tests' sample at which the interval of R is no wider than tol; None if it is not wider."""
    if not isinstance(end.check, EstimatedCertificate):
        return None
    radius = end.check.residual_interval[1] - end.check.residual
    return (radius / end.tol) ** 2 * end.drawn_rows if radius >= end.tol else None


def _inside(end: Ending) -> str:
    """In which subproblem a limit ended the run, and how far that was from done."""
    tested = not isinstance(end.settings.method, Method) or end.settings.controller.tested
    cut = bool(end.history.iterations) and end.history.last.inner_status == "BUDGET"
    if not (cut and tested) or end.status is Status.SOLVED:
        return ""
    last = end.history.last
    text = f" The run ended inside subproblem {last.k}, "
    if last.stationarity <= last.eta:
        return text + f"before a point of it was accepted (after {last.inner_iterations} iterations)."
    return text + (
        f"whose test dist <= {last.eta:.1e} was not met"
        f" (dist {last.stationarity:.1e} after {last.inner_iterations} iterations)."
    )


def advice(end: Ending) -> tuple[str, ...]:
    """What to try, for an end that is not success."""
    tips = []
    if end.stuck:
        tips.append(
            f"another way to compute {end.stuck!r}, or another x0: it is violated and its gradient is zero, so that no "
            "step can change it."
        )
    tips += longer(end.status, end.limit, end.checkpoint, "from x0=result.x, y0=result.multipliers")
    if not end.grows and (rows := _rows_needed(end)) is not None:
        tips.append(f"test_rows={rows:.0e} or more, or a larger tol.")
    method = end.settings.method
    if isinstance(method, Method) and end.finite_data:
        tips.append(f"method='auto': on data with an end it needs fewer passes than {method.name!r}.")
    if end.status.no_further:
        tips.append("variables and constraints in units that make them of similar size, or a larger tol.")
    if end.check.violation > 10 * end.tol and end.history.iterations and end.history.last.beta > 1e8:
        tips.append("whether the constraints can be met at all: the violation did not fall as the penalty grew.")
    return tuple(tips[:3])
