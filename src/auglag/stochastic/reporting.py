"""Words for the result of a stochastic run: the message with the numbers that matter, and what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auglag.algorithm.status import Status
from auglag.certificate import Certificate
from auglag.stochastic.estimate import EstimatedCertificate
from auglag.stochastic.methods import Method

if TYPE_CHECKING:
    from auglag.stochastic.run import Run


def message(status: Status, check: Certificate | EstimatedCertificate, run: Run) -> str:
    """The status in words, with R and what it was compared with, and where the run ended."""
    relation = "<=" if check.meets(run.tol) else ">"
    if isinstance(check, EstimatedCertificate):
        low, high = check.residual_interval
        text = f"{_ending(status, run)} Estimated residual {check.residual:.2e}, {100 * check.confidence:.0f} % "
        text += f"interval [{low:.2e}, {high:.2e}] from {check.rows} rows, upper end {high:.2e} {relation} "
        text += f"tol {run.tol:.0e}"
    else:
        text = f"{_ending(status, run)} Residual {check.residual:.2e} {relation} tol {run.tol:.0e}"
    text += f"; violation {check.violation:.2e}."
    if (rows := _rows_needed(check, run)) is not None:
        text += " tol is below the radius of the interval, so that no point can meet it: "
        text += f"it takes a sample of about {rows:.0e} rows." if run.grows else f"take more than {rows:.0e} test_rows."
    if run.rescued:
        text += f" {run.settings.method.name} got stuck; L-BFGS began again at x0."
    return text + _inside(status, run)


def _ending(status: Status, run: Run) -> str:
    """The status's message; for a limit, which one, by the name it has as an argument."""
    caps = run.caps
    if run.failed is not None and run.limit in ("epochs", "memory"):
        short = f"max_epochs = {caps.epochs} leaves" if run.limit == "epochs" else "memory has"
        return f"Solved on a sample of {run.tests_on.rows} rows only: {short} no room for a larger one."
    named = {
        "epochs": f"Epoch limit reached before the tolerance: max_epochs = {caps.epochs:g} passes over the data."
        if caps.epochs is not None
        else "",
        "gradients": f"Gradient limit reached before the tolerance: max_gradients = {caps.gradients}.",
    }
    return named.get(run.limit, status.message) if status is Status.EVALUATION_LIMIT else status.message


def _rows_needed(check: Certificate | EstimatedCertificate, run: Run) -> float | None:
    """The rows of the tests' sample at which the interval of R is no wider than tol; None if it is not wider."""
    if not isinstance(check, EstimatedCertificate):
        return None
    radius = check.residual_interval[1] - check.residual
    return (radius / run.tol) ** 2 * run.times * run.test_rows if radius >= run.tol else None


def _inside(status: Status, run: Run) -> str:
    """In which subproblem a limit ended the run, and how far that was from done."""
    tested = not isinstance(run.settings.method, Method) or run.settings.controller.tested
    cut = bool(run.history.iterations) and run.history.last.inner_status == "BUDGET"
    if not (cut and tested) or status is Status.SOLVED:
        return ""
    last = run.history.last
    text = f" The run ended inside subproblem {last.k}, "
    if last.stationarity <= last.eta:
        return text + f"before a point of it was accepted (after {last.inner_iterations} iterations)."
    return text + (
        f"whose test dist <= {last.eta:.1e} was not met"
        f" (dist {last.stationarity:.1e} after {last.inner_iterations} iterations)."
    )


def advice(status: Status, check: Certificate | EstimatedCertificate, run: Run) -> tuple[str, ...]:
    """What to try, for an end that is not success."""
    tips: list[str] = []
    if status in (Status.EVALUATION_LIMIT, Status.TIME_LIMIT, Status.ITERATION_LIMIT):
        name = {"epochs": "max_epochs", "gradients": "max_gradients", "seconds": "max_seconds"}.get(run.limit)
        saved = run.hooks.checkpoint
        further = f"with resume={str(saved)!r}" if saved is not None else "from x0=result.x, y0=result.multipliers"
        tips.append(f"a larger {name or 'max_outer'}, {further}.")
    if not run.grows and (rows := _rows_needed(check, run)) is not None:
        tips.append(f"test_rows={rows:.0e} or more, or a larger tol.")
    method = run.settings.method
    if isinstance(method, Method) and run.problem.finite_data:
        tips.append(f"method='auto': on data with an end it needs fewer passes than {method.name!r}.")
    if status is Status.STUCK:
        tips.append("variables and constraints in units that make them of similar size, or a larger tol.")
    if check.violation > 10 * run.tol and run.history.iterations and run.history.last.beta > 1e8:
        tips.append("whether the constraints can be met at all: the violation did not fall as the penalty grew.")
    return tuple(tips[:3])
