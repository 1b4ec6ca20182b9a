"""What `minimize` and `certify` are given, checked and in the form in which a run needs it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from auglag._arrays import real_array
from auglag._names import signature
from auglag._typing import Vector
from auglag.algorithm.algencan import AlgencanPenalty
from auglag.algorithm.rules import Adaptive, Always, FromScale, PenaltyRule
from auglag.algorithm.trail import OUTER
from auglag.derivatives.noise import Precision
from auglag.errors import InputError, require_positive
from auglag.problems.arguments import check_x0
from auglag.problems.base import AbstractProblem
from auglag.problems.functions import Problem
from auglag.problems.units import power_of_two
from auglag.result import Result
from auglag.strategy.following import Sight
from auglag.strategy.task import WarmStart


def problem_of(
    fun: Any, x0: Any, args: Any, given: Mapping[str, Any], constraints: Any, rel_step: Any
) -> AbstractProblem:
    """The problem that functions and constraints make, or the problem object that was given instead."""
    no_constraints = constraints is None or (isinstance(constraints, tuple | list) and not constraints)
    if isinstance(fun, AbstractProblem):
        others = {"constraints": None if no_constraints else constraints, "args": args or None}
        for name, value in {**given, **others, "finite_diff_rel_step": rel_step}.items():
            if value is not None:
                raise InputError(f"{name} must not be given beside a problem object, which already has its own")
        return fun
    if fun is None and no_constraints:
        raise InputError("fun and constraints must not both be missing: there is nothing to solve, got fun=None")
    return Problem(fun, x0, args, constraints=constraints, finite_diff_rel_step=rel_step, **given)


def start_of(problem: AbstractProblem, x0: Any, warm_start: Any) -> WarmStart:
    """Where a run begins: x inside the bounds, and what is known of multipliers and penalty."""
    x = problem.x0
    if x0 is not None:
        x = check_x0(x0)
        if x.size != problem.n:
            raise InputError(f"x0 must have {problem.n} entries, got {x.size}")
    y: Vector | None = None
    beta: float | None = None
    if warm_start is not None:
        warm_x, multipliers, beta = _unpack(warm_start)
        x = check_x0(warm_x, "warm_start: x")
        if x.size != problem.n:
            raise InputError(f"warm_start: x must have {problem.n} entries, got {x.size}")
        if multipliers is not None:
            y = flat_multipliers(multipliers, problem.m, "warm_start: multipliers")
        if beta is not None:
            beta = require_positive(beta, "warm_start: penalty")
    return WarmStart(np.minimum(np.maximum(x, problem.lower), problem.upper), y, beta)


def first_point(fun: Any, x0: Any, warm_start: Any) -> Any:
    """Where a run would begin, as it was given."""
    if x0 is None and isinstance(fun, AbstractProblem):
        return fun.x0
    return _unpack(warm_start)[0] if x0 is None and warm_start is not None else x0


def _unpack(warm_start: Any) -> tuple[Any, Any, float | None]:
    if isinstance(warm_start, Mapping):
        if "x" not in warm_start:
            raise InputError(f"warm_start must have an 'x', got the keys {sorted(warm_start)}")
        if isinstance(warm_start, OptimizeResult) and not isinstance(warm_start, Result):
            return warm_start["x"], None, None  # another solver's multipliers have a sign of their own
        return warm_start["x"], warm_start.get("multipliers"), warm_start.get("penalty")
    if isinstance(warm_start, tuple) and len(warm_start) in (2, 3):
        return (*warm_start, None)[:3]
    raise InputError(
        f"warm_start must be a Result, a mapping with x, multipliers and penalty, or a tuple of the first two or all "
        f"three, got {type(warm_start).__name__}"
    )


def flat_multipliers(multipliers: Any, m: int, what: str = "multipliers") -> Vector:
    """One vector of m multipliers from a flat array or one entry per constraint."""
    parts = multipliers if isinstance(multipliers, list | tuple) else [multipliers]
    y = np.concatenate([np.zeros(0), *[np.atleast_1d(real_array(part, what)).ravel() for part in parts]])
    if y.size != m:
        raise InputError(f"{what} must have {m} entries, one per constraint row, got {y.size}")
    if not np.isfinite(y).all():
        raise InputError(f"{what} must be finite, got NaN or infinite entries")
    return y


def stated_noise(noise: Any, m: int) -> Precision | None:
    """The errors of f and of m rows as a user states them."""
    if noise is None:
        return None
    if isinstance(noise, bool | str):
        raise InputError(f"noise must be a number, or numbers for 'fun' and 'constraints', got {noise!r:.80}")
    parts = dict(noise) if isinstance(noise, Mapping) else {"fun": noise, "constraints": noise}
    unknown = parts.keys() - {"fun", "constraints"}
    if unknown:
        raise InputError(f"noise must be a number or have the keys 'fun' and 'constraints', got {sorted(unknown)}")
    values = np.zeros(1 + m)
    for name, rows in (("fun", slice(0, 1)), ("constraints", slice(1, 1 + m))):
        given = real_array(parts.get(name, 0.0), f"noise: {name}")
        if given.shape not in ((), values[rows].shape):
            raise InputError(f"noise: {name} must be a number or have {values[rows].size} entries, got {given.size}")
        if not (np.isfinite(given).all() and (given >= 0.0).all()):
            raise InputError(f"noise: {name} must be finite and at least 0, got {parts[name]!r:.80}")
        values[rows] = given
    return Precision(values, np.maximum(values, 1.0), stated=True)


def units_of(x_scale: Any, problem: AbstractProblem) -> Vector | None:
    """The user's units as powers of two, one per variable."""
    if x_scale is None:
        return None
    sizes = real_array(x_scale, "x_scale")
    if sizes.shape not in ((), (problem.n,)) or not (np.isfinite(sizes) & (sizes > 0.0)).all():
        raise InputError(
            f"x_scale must be positive: a number, or one for each of the {problem.n} variables, got {x_scale!r:.80}"
        )
    if problem.g is not None and not (sizes == 1.0).all():
        raise InputError(f"x_scale must be 1 beside g={type(problem.g).__name__}, got {x_scale!r:.80}")
    return power_of_two(np.broadcast_to(sizes, (problem.n,)))


def warm_penalty(rule: PenaltyRule, beta: float) -> PenaltyRule:
    """The rule, starting from an earlier run's last penalty, but not above the largest first penalty of the rule.

    With good multipliers a moderate penalty is enough, and a large one makes the subproblems hard.
    """
    if not isinstance(rule, Adaptive | Always | AlgencanPenalty):
        return rule  # a user's own rule decides by itself
    usual = rule.initial.highest if isinstance(rule.initial, FromScale) else rule.initial
    return replace(rule, initial=min(beta, usual)) if isinstance(usual, float) else replace(rule, initial=beta)


def caller(callback: Callable[..., Any] | None) -> Callable[[Sight], Any] | None:
    """SciPy's callback signatures. Where only x is asked for, an outer iteration is not shown if its x just was."""
    if callback is None:
        return None
    if not callable(callback):
        raise InputError(f"callback must be callable, got {callback!r:.80}")
    try:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = signature(callback).parameters.values()
        names = [p.name for p in parameters if p.kind in kinds and p.default is p.empty]
        if [p.name for p in parameters] == ["intermediate_result"]:
            names = ["intermediate_result"]
    except (TypeError, ValueError):
        names = []

    last: list[Vector] = []

    def call(seen: Sight) -> Any:
        if names == ["intermediate_result"]:
            answer = callback(intermediate_result=seen.result())
        elif len(names) == 2:  # trust-constr's (xk, state)
            answer = callback(seen.x(), seen.result())
        else:
            x = seen.x()
            if seen.kind == OUTER and last and np.array_equal(last[0], x):
                return None
            last[:] = [x.copy()]
            answer = callback(x)
        return answer

    return call
