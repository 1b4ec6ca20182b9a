"""The result of a run, in numbers and in words: the message with those that matter, and what to try."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.certificate import Certificate
from auglag.errors import DerivativeError
from auglag.inner import SOLVERS
from auglag.result import Result, row
from auglag.strategy.restarts import BEST, start_of

if TYPE_CHECKING:
    from auglag.strategy.run import Run


def report(status: Status, check: Certificate, run: Run) -> Result:
    """Everything about the best point of a run that has ended so."""
    text = message(status, check, run)
    problem, best = run.original, run.best
    point, counts = problem.at(best.x), run.used()
    iterations = run.earlier + run.history.iterations
    c = point.c
    row_excess = np.maximum(np.maximum(problem.cl - c, c - problem.cu), 0.0)
    return Result(
        x=best.x.copy(),
        fun=check.objective,
        success=status is Status.SOLVED,
        status=status,
        message=text,
        nit=len(iterations),
        nit_inner=sum(it.inner_iterations for it in iterations),
        **counts.as_dict(),
        jac=point.grad.copy(),
        maxcv=float(np.max(row_excess, initial=0.0)),
        multipliers=_split(run, check.multipliers),
        bound_multipliers=check.bound_multipliers,
        certificate=check,
        penalty=iterations[-1].beta if iterations else _first_penalty(run),
        history=[row(it) for it in iterations],
        seconds=run.guard.seconds,
        tol=run.tol,
        inner=run.inner.name if run.form is not None else str(run.settings.inner),
        variant=run.settings.describe(),
        advice=() if status is Status.SOLVED else advice(status, check, run),
    )


def _first_penalty(run: Run) -> float:
    if run.start.beta is not None:
        return run.start.beta
    return run.penalty().next(run.history) if math.isfinite(run.history.objective) else 1.0


def _split(run: Run, y: Vector) -> list[Any]:
    """Multipliers per constraint, in the user's order; a number where the user's function returns one."""
    return [float(y[g.start]) if g.scalar else y[g.start : g.stop].copy() for g in run.original.groups]


def message(status: Status, check: Certificate, run: Run) -> str:
    """The status in words, with the residuals and what they were compared with, and the starts it took."""
    text = _message(status, check, run)
    if not run.attempt:
        return text
    if status is Status.SOLVED:
        start = start_of(run.attempt, run.settings.restarts)
        return f"{text} x0 led nowhere; a restart from {start.name if start else BEST} did not."
    count = len({it.attempt for it in run.earlier + run.history.iterations} - {0})
    return f"{text} {count} restart{'' if count == 1 else 's'} did not help."


def _message(status: Status, check: Certificate, run: Run) -> str:
    text, problem, history, tol = status.message, run.original, run.history, run.tol
    if status is Status.NON_FINITE and not history.iterations:
        point = problem.at(problem.x0)
        bad = [problem.row_name(i) for i, value in enumerate(point.c) if not abs(value) < float("inf")]
        what = [f"fun = {point.f}"] if not abs(point.f) < float("inf") else []
        what += [f"{name} is not finite" for name in bad[:3]]
        return f"{text} At x0: {', '.join(what) or 'the gradient is not finite'}; no defined point was found nearby."
    if status is Status.INFEASIBLE and run.conflict:
        return f"Infeasible: no x satisfies all constraints. {run.conflict}"
    if status is Status.INFEASIBLE:
        names = ", ".join(f"{name} by {size:.3g}" for name, size in list(check.row_violations.items())[:3])
        return f"{text} The least violation found is {check.violation:.3g}; most violated: {names}."
    if status is Status.UNBOUNDED and run.depth.evidence is not None:
        objective, violation = run.depth.evidence
        return f"{text} f + g is {objective:.3g} at a point whose violation is {violation:.3g}."
    if status is Status.SOLVED and not history.iterations and run.accelerator.origin is None:
        text += " The starting point already does."
    if check.residual <= tol < check.derivative_error:
        known = f"finite differences know it only to {check.derivative_error:.0e}"
        return f"{text} The residual is {check.residual:.2e}, but {known}."
    relation = "<=" if check.meets(tol) else ">"
    return f"{text} Residual {check.residual:.2e} {relation} tol {tol:.0e}; violation {check.violation:.2e}."


def advice(status: Status, check: Certificate, run: Run) -> tuple[str, ...]:
    """One to three things to try, for an end that is not success."""
    tips: list[str] = []
    if status is Status.INFEASIBLE:
        tips.append("check the named constraints against each other and against the bounds.")
        if not run.conflict:
            tips.append("another starting point: infeasibility was only shown locally.")
    elif status is Status.UNBOUNDED:
        tips.append("check the sign of fun, or add the bounds or constraints that keep it from falling.")
    elif status in (Status.ITERATION_LIMIT, Status.EVALUATION_LIMIT, Status.TIME_LIMIT):
        tips.append("a larger Budget, going on with warm_start=result.")
    elif status is Status.NON_FINITE:
        tips.append("an x0 at which fun and all constraints are finite.")
    elif status is Status.UNCERTIFIED and check.derivative_error > run.tol:
        tips.append(f"exact derivatives (jac=), or a tol above {check.derivative_error:.0e}.")
    elif status is Status.UNCERTIFIED:
        tips.append("check that the functions return the same values when called twice with the same x.")
    undefined = sum(it.undefined for it in run.history.iterations)
    if undefined:
        tips.append(
            f"bounds that keep x where the functions are defined: at {undefined} of the points tried one was not."
        )
    if status in (Status.STUCK, Status.ITERATION_LIMIT):
        tips += _when_stuck(check, run)
    return tuple(tips[:3])


def _when_stuck(check: Certificate, run: Run) -> list[str]:
    """Reasons for which an inner solver gets no further, the likeliest first."""
    problem, tips = run.original, []
    try:
        problem.check_derivatives(run.best.x)
    except DerivativeError as error:
        tips.append(f"the derivatives, which are wrong at result.x: {str(error).replace(' at x0', '')}.")
    if check.relative_residual <= run.tol:
        enough = 1.1 * max(check.residual, check.derivative_error)
        tips.append(
            f"tol={enough:.1e}: relative to ||grad f|| = {check.gradient_norm:.1e} the point already "
            f"meets the tolerance ({check.relative_residual:.1e}); or divide fun by that number."
        )
    if problem.differenced:
        tips.append("exact derivatives (jac=): finite differences limit the residual that can be reached.")
    elif run.form is not None:
        traits = replace(run.form.traits, has_hessp=True)
        if not problem.has_hessp and SOLVERS["newton-cg"].refuses(traits) is None:
            tips.append("second derivatives (hess=), which allow inner='newton-cg'.")
        elif run.inner.name != "panoc":
            tips.append("inner='panoc', or variables and constraints in units that make them of similar size.")
    return tips
