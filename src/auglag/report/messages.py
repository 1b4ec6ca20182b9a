"""The result of a run, in numbers and in words: the message with those that matter, and what to try."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from auglag._norms import highest
from auglag._typing import Vector
from auglag.algorithm.history import Iteration
from auglag.algorithm.status import Status
from auglag.algorithm.trail import OUTER, Step
from auglag.certificate import Certificate
from auglag.derivatives.kinks import kinked
from auglag.errors import DerivativeError
from auglag.inner import SOLVERS, Traits
from auglag.problems.base import AbstractProblem
from auglag.problems.workspace import Counts
from auglag.result import Result, row
from auglag.strategy.plan import LEFT, SADDLE, UNCHECKED
from auglag.strategy.settings import Settings
from auglag.strategy.tuning import BEST, Tuning

#: What a message says of a solution that is perhaps no minimum, or for which another one was left.
REMARKS = {
    LEFT: "A saddle point, or a degenerate one, was left on the way.",
    SADDLE: "It is a saddle point, or degenerate: lower points are near, but no better solution was found from there.",
}


@final
@dataclass(frozen=True, slots=True)
class Ending:
    """All that a result says of a run."""

    problem: AbstractProblem  #: the user's, with all of its rows
    settings: Settings
    tuning: Tuning
    tol: float
    scale_free: float  #: tolerance of the scale-free test
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
    wrong: str = ""  #: which derivative is wrong at x, where one is
    trail: Sequence[tuple[str, int, int, float]] = ()  #: all steps, of every kind: the fields of `Step`
    second_order: str = UNCHECKED  #: what is known of the curvature at x: one of `plan.VERDICTS`


def result_of(end: Ending) -> Result:
    """Everything about the best point of a run that has ended so."""
    text, problem, check = message(end), end.problem, end.check
    point = problem.at(end.x)
    c = point.c
    return Result(
        x=end.x.copy(),
        fun=check.objective,
        success=end.status is Status.SOLVED,
        status=end.status,
        message=text,
        nit=len(end.iterations),
        nit_inner=sum(it.inner_iterations for it in end.iterations) + _cut_short(end.trail),
        **end.counts.as_dict(),
        jac=point.grad.copy(),
        maxcv=highest(np.maximum(problem.cl - c, c - problem.cu)),
        multipliers=_split(problem, check.multipliers),
        names=tuple(group.name for group in problem.groups),
        bound_multipliers=check.bound_multipliers,
        certificate=check,
        second_order=end.second_order,
        penalty=end.penalty,
        history=[row(it) for it in end.iterations],
        steps=tuple(map(Step._make, end.trail)),
        seconds=end.seconds,
        tol=end.tol,
        inner=end.inner,
        variant=end.settings.describe(),
        advice=() if end.status is Status.SOLVED else advice(end),
        starts=(),
    )


def _cut_short(trail: Sequence[tuple[str, int, int, float]]) -> int:
    """The steps of what a limit or an interruption has ended, and which no row of the history counts."""
    return sum(1 for _ in itertools.takewhile(lambda one: one[0] != OUTER, reversed(trail)))


def _split(problem: AbstractProblem, y: Vector) -> list[Any]:
    """Multipliers per constraint, in the user's order; a number where the user's function returns one."""
    return [float(y[g.start]) if g.scalar else y[g.start : g.stop].copy() for g in problem.groups]


def message(end: Ending) -> str:
    """The status in words, with the residuals and what they were compared with, and the starts it took."""
    text = _message(end)
    if end.status is Status.SOLVED and end.second_order in REMARKS:
        text += f" {REMARKS[end.second_order]}"
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
    if status is Status.WRONG_DERIVATIVES:
        return f"{text} {end.wrong}."
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
    if status is Status.PRECISION_LIMIT:
        known = max(check.accuracy, check.rounding)
        return (
            f"Solved to the accuracy of the functions, {known:.0e}, which is not enough for tol {tol:.0e}. "
            f"Residual {check.residual:.2e}, violation {check.violation:.2e}, relative to the sizes of x, f and c "
            f"{check.scale_free:.0e}; {_errors(end)}."
        )
    if status is Status.SOLVED and check.accuracy > tol:
        return (
            f"Solved to the accuracy that noise= states, {check.accuracy:.0e}: residual {check.residual:.2e}, "
            f"tol {tol:.0e}; violation {check.violation:.2e}."
        )
    relation = "<=" if check.residual <= tol else ">"
    text = f"{text} Residual {check.residual:.2e} {relation} tol {tol:.0e}; violation {check.violation:.2e}."
    if check.residual <= tol < check.accuracy:
        text += f" It is known only to {check.accuracy:.0e}."
    if check.residual <= tol and check.scale_free > end.scale_free:
        text += f" Relative to the sizes of x, f and c it is {check.scale_free:.0e} > {end.scale_free:.0e}."
    return text


def _errors(end: Ending) -> str:
    """Where an accuracy that is not enough comes from."""
    precision = end.problem.precision
    known = {"fun": precision.f, **{end.problem.row_name(i): float(e) for i, e in enumerate(precision.c)}}
    worst = sorted((name for name in known if known[name] > 0.0), key=lambda name: -known[name])[:3]
    if not worst and end.check.rounding > end.check.derivative_error:
        return "that is what rounding in double precision makes of numbers so large"
    if not worst:
        return f"derivatives are known only to {end.check.derivative_error:.0e}"
    return "the values have errors of about " + ", ".join(f"{known[name]:.0e} ({name})" for name in worst)


def _about_noise(end: Ending) -> list[str]:
    """What to do about errors of the functions beyond those of double precision, where there are any."""
    if not end.problem.coarse:
        return []
    precision, enough = end.problem.precision, 1.1 * max(end.check.residual, end.check.accuracy)
    if precision.stated:
        return [f"derivatives (jac=), which such errors spoil less; or tol={enough:.1e}."]
    errors = {"fun": precision.f, "constraints": float(np.max(precision.c, initial=0.0))}
    stated = "{" + ", ".join(f"{name!r}: {error:.0e}" for name, error in errors.items() if error) + "}"
    steady = "functions that return the same values for the same x: two calls returned different ones."
    return [steady] * precision.unsteady + [
        f"noise={stated}, if such errors are right: {_errors(end)}. A point as good as they allow is a success then; "
        f"or tol={enough:.1e}."
    ]


def _about_scale(end: Ending) -> list[str]:
    """What to do about a residual that is small only relative to the gradient."""
    check = end.check
    size, relative = check.gradient_norm, check.relative_residual
    if relative > end.tol:
        return []
    return [
        f"tol={1.1 * max(check.residual, check.accuracy):.1e}, or fun in units of {size:.0e}: relative to ||grad f|| = "
        f"{size:.1e} the point already meets the tolerance ({relative:.1e})."
    ]


def _about_differences(end: Ending) -> list[str]:
    """What to do where most of a budget went into finite differences."""
    problem = end.problem
    spent = end.status in (Status.TIME_LIMIT, Status.EVALUATION_LIMIT)
    if not (spent and problem.differenced and problem.n >= end.tuning.advise_derivatives):
        return []
    text = f"derivatives (jac=): finite differences take {problem.n} calls for one Jacobian"
    if problem.m and isinstance(problem.at(end.x).jac, np.ndarray):
        text += "; or finite_diff_jac_sparsity= of NonlinearConstraint, where each row depends on few variables"
    return [text + "."]


def _about_distance(end: Ending) -> list[str]:
    """What a point very far from the start may mean."""
    far = float(np.max(np.abs(end.x), initial=0.0))
    if not far > end.tuning.gone_far * max(1.0, float(np.max(np.abs(end.problem.x0), initial=0.0))):
        return []
    return [f"bounds that keep fun from falling: x went as far as {far:.0e}, and the problem may be unbounded."]


def _about_kinks(end: Ending) -> list[str]:
    """What to do about functions that are not smooth at the last point."""
    problem = end.problem
    try:
        found = kinked(lambda z: np.append(problem.at(z).f, problem.at(z).c), end.x, problem.lower, problem.upper)
    except Exception:  # the points are our idea
        return []
    names = ["fun", *(problem.row_name(i) for i in range(problem.m))]
    where = [name for name, kink in zip(names, found, strict=True) if kink][:3]
    if not where:
        return []
    return [
        f"a formulation without kinks: {', '.join(where)} has one at result.x (abs, max, a table?). A convex one may "
        "be stated as g=; max(a, b) as a variable t with t >= a and t >= b."
    ]


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
        tips += _about_differences(end)
    elif status is Status.NON_FINITE:
        tips.append("an x0 at which fun and all constraints are finite.")
    elif status is Status.UNCERTIFIED and end.problem.coarse:
        tips += _about_noise(end)
    elif status is Status.UNCERTIFIED and check.derivative_error > end.tol:
        tips.append(f"exact derivatives (jac=), or a tol above {check.derivative_error:.0e}.")
    elif status is Status.UNCERTIFIED and check.scale_free > end.scale_free:
        tips += _about_distance(end)
        tips.append("x_scale=, the sizes of the variables at the solution; or x0 and bounds of that size.")
    elif status is Status.UNCERTIFIED:
        tips.append("check that the functions return the same values when called twice with the same x.")
    elif status is Status.PRECISION_LIMIT:
        tips += _about_noise(end) or _about_scale(end)
        if check.derivative_error > end.tol:
            tips.append(
                "exact derivatives (jac=)." if tips else f"exact derivatives, or tol={1.1 * check.accuracy:.1e}."
            )
        if end.problem.coarse:
            tips.append("functions that return more correct digits.")
    elif status is Status.WRONG_DERIVATIVES:
        tips.append("correct the entry that is named, or leave the derivatives out: jac=None means finite differences.")
    if (status.no_further or status in (Status.ITERATION_LIMIT, Status.NON_FINITE)) and end.evidence is not None:
        tips.append(
            f"bounds that keep fun from falling: the problem may be unbounded. f + g fell to {end.evidence[0]:.1e}; "
            "feasible points at which it falls without end were not found."
        )
    undefined = sum(it.undefined for it in end.last)
    if undefined:
        tips.append(
            f"bounds that keep x where the functions are defined: at {undefined} of the points tried one was not."
        )
    if status.no_further or status is Status.ITERATION_LIMIT:
        tips += _when_stuck(end)
    return tuple(tips[:3])


def _when_stuck(end: Ending) -> list[str]:
    """Reasons for which an inner solver gets no further, the likeliest first."""
    problem = end.problem
    tips = _about_noise(end)
    try:
        problem.check_derivatives(end.x)
    except DerivativeError as error:
        tips.append(f"the derivatives, which are wrong at result.x: {str(error).replace(' at x0', '')}.")
    tips += _about_scale(end)
    if not tips and (kinks := _about_kinks(end)):
        return kinks
    if problem.differenced:
        tips.append("exact derivatives (jac=): finite differences limit the residual that can be reached.")
    elif end.traits is not None:
        traits = replace(end.traits, has_hessp=True)
        if not problem.has_hessp and SOLVERS["newton-cg"].refuses(traits) is None:
            tips.append("second derivatives (hess=), which allow inner='newton-cg'.")
        elif end.inner != "panoc":
            tips.append("inner='panoc', or variables and constraints in units that make them of similar size.")
    return tips
