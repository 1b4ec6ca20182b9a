"""The result of a run, in numbers and in words: the message with those that matter, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.rules import Iteration
from auglag.algorithm.status import Status
from auglag.certificate import Certificate
from auglag.errors import DerivativeError
from auglag.inner import SOLVERS, Traits
from auglag.problems.base import AbstractProblem, Counts
from auglag.result import Result, row
from auglag.strategy.settings import Settings
from auglag.strategy.tuning import BEST, Tuning


@final
@dataclass(frozen=True, slots=True)
class Ending:
    """All that a result says of a run."""

    problem: AbstractProblem  #: the user's, with all of its rows
    settings: Settings
    tuning: Tuning
    tol: float
    status: Status
    check: Certificate
    x: Vector
    iterations: Sequence[Iteration]  #: of all attempts
    last: Sequence[Iteration]  #: of the last attempt
    attempt: int
    begun: bool  #: whether the last attempt did anything
    conflict: str  #: why no point satisfies all rows, where that is obvious
    evidence: tuple[float, float] | None  #: objective and violation of a very low point, which may show unboundedness
    inner: str  #: the name of the inner solver
    traits: Traits | None  #: of the subproblems, where there were any
    penalty: float
    counts: Counts
    seconds: float


def result_of(end: Ending) -> Result:
    """Everything about the best point of a run that has ended so."""
    text, problem, check = message(end), end.problem, end.check
    point = problem.at(end.x)
    c = point.c
    row_excess = np.maximum(np.maximum(problem.cl - c, c - problem.cu), 0.0)
    return Result(
        x=end.x.copy(),
        fun=check.objective,
        success=end.status is Status.SOLVED,
        status=end.status,
        message=text,
        nit=len(end.iterations),
        nit_inner=sum(it.inner_iterations for it in end.iterations),
        **end.counts.as_dict(),
        jac=point.grad.copy(),
        maxcv=float(np.max(row_excess, initial=0.0)),
        multipliers=_split(problem, check.multipliers),
        bound_multipliers=check.bound_multipliers,
        certificate=check,
        penalty=end.penalty,
        history=[row(it) for it in end.iterations],
        seconds=end.seconds,
        tol=end.tol,
        inner=end.inner,
        variant=end.settings.describe(),
        advice=() if end.status is Status.SOLVED else advice(end),
    )


def _split(problem: AbstractProblem, y: Vector) -> list[Any]:
    """Multipliers per constraint, in the user's order; a number where the user's function returns one."""
    return [float(y[g.start]) if g.scalar else y[g.start : g.stop].copy() for g in problem.groups]


def message(end: Ending) -> str:
    """The status in words, with the residuals and what they were compared with, and the starts it took."""
    text = _message(end)
    if not end.attempt:
        return text
    if end.status is Status.SOLVED:
        start = end.tuning.start_of(end.attempt, end.settings.restarts)
        return f"{text} No solution was found from x0; the restart from {start.name if start else BEST} found this one."
    count = len({it.attempt for it in end.iterations} - {0})
    return f"{text} {count} restart{'' if count == 1 else 's'} did not help."


def _message(end: Ending) -> str:
    status, check, problem, tol = end.status, end.check, end.problem, end.tol
    text = status.message
    if status is Status.NON_FINITE and not end.last:
        point = problem.at(problem.x0)
        bad = [problem.row_name(i) for i, value in enumerate(point.c) if not abs(value) < float("inf")]
        what = [f"fun = {point.f}"] if not abs(point.f) < float("inf") else []
        what += [f"{name} is not finite" for name in bad[:3]]
        return f"{text} At x0: {', '.join(what) or 'the gradient is not finite'}; no defined point was found nearby."
    if status is Status.INFEASIBLE and end.conflict:
        return f"Infeasible: no x satisfies all constraints. {end.conflict}"
    if status is Status.INFEASIBLE:
        names = ", ".join(f"{name} by {size:.3g}" for name, size in list(check.row_violations.items())[:3])
        return f"{text} The least violation found is {check.violation:.3g}; most violated: {names}."
    if status is Status.UNBOUNDED and end.evidence is not None:
        objective, violation = end.evidence
        return f"{text} At result.x f + g is {objective:.3g} and the violation {violation:.3g}; it falls on from there."
    if status is Status.SOLVED and not end.begun:
        text += " The starting point already does."
    if check.residual <= tol < check.derivative_error:
        known = f"finite differences know it only to {check.derivative_error:.0e}"
        return f"{text} The residual is {check.residual:.2e}, but {known}."
    relation = "<=" if check.meets(tol) else ">"
    return f"{text} Residual {check.residual:.2e} {relation} tol {tol:.0e}; violation {check.violation:.2e}."


def advice(end: Ending) -> tuple[str, ...]:
    """One to three things to try, for an end that is not success."""
    status, check = end.status, end.check
    tips: list[str] = []
    if status is Status.INFEASIBLE:
        tips.append("check the named constraints against each other and against the bounds.")
        if not end.conflict:
            tips.append("another starting point: infeasibility was only shown locally.")
    elif status is Status.UNBOUNDED:
        tips.append("check the sign of fun, or add the bounds or constraints that keep it from falling.")
    elif status in (Status.ITERATION_LIMIT, Status.EVALUATION_LIMIT, Status.TIME_LIMIT):
        tips.append("a larger Budget, going on with warm_start=result.")
    elif status is Status.NON_FINITE:
        tips.append("an x0 at which fun and all constraints are finite.")
    elif status is Status.UNCERTIFIED and check.derivative_error > end.tol:
        tips.append(f"exact derivatives (jac=), or a tol above {check.derivative_error:.0e}.")
    elif status is Status.UNCERTIFIED:
        tips.append("check that the functions return the same values when called twice with the same x.")
    if status in (Status.STUCK, Status.ITERATION_LIMIT, Status.NON_FINITE) and end.evidence is not None:
        tips.append(
            f"bounds that keep fun from falling: the problem may be unbounded. f + g fell to {end.evidence[0]:.1e}; "
            "feasible points at which it falls without end were not found."
        )
    undefined = sum(it.undefined for it in end.last)
    if undefined:
        tips.append(
            f"bounds that keep x where the functions are defined: at {undefined} of the points tried one was not."
        )
    if status in (Status.STUCK, Status.ITERATION_LIMIT):
        tips += _when_stuck(end)
    return tuple(tips[:3])


def _when_stuck(end: Ending) -> list[str]:
    """Reasons for which an inner solver gets no further, the likeliest first."""
    problem, check = end.problem, end.check
    tips: list[str] = []
    try:
        problem.check_derivatives(end.x)
    except DerivativeError as error:
        tips.append(f"the derivatives, which are wrong at result.x: {str(error).replace(' at x0', '')}.")
    if check.relative_residual <= end.tol:
        enough = 1.1 * max(check.residual, check.derivative_error)
        tips.append(
            f"tol={enough:.1e}: relative to ||grad f|| = {check.gradient_norm:.1e} the point already "
            f"meets the tolerance ({check.relative_residual:.1e}); or divide fun by that number."
        )
    if problem.differenced:
        tips.append("exact derivatives (jac=): finite differences limit the residual that can be reached.")
    elif end.traits is not None:
        traits = replace(end.traits, has_hessp=True)
        if not problem.has_hessp and SOLVERS["newton-cg"].refuses(traits) is None:
            tips.append("second derivatives (hess=), which allow inner='newton-cg'.")
        elif end.inner != "panoc":
            tips.append("inner='panoc', or variables and constraints in units that make them of similar size.")
    return tips
