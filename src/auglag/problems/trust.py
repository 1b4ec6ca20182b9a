"""Are the functions exact, and are the derivatives that the user supplied theirs? A few evaluations at a point tell."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from auglag._norms import some
from auglag._random import normal
from auglag._typing import Jacobian, Vector
from auglag.derivatives import checking
from auglag.derivatives.noise import Precision, estimate, estimate_scale
from auglag.errors import DerivativeError
from auglag.problems import units
from auglag.problems.base import AbstractProblem, Point
from auglag.problems.jacobians import row_norms, stack
from auglag.problems.tuning import TUNING


@final
@dataclass(frozen=True, slots=True)
class Supplied:
    """A function of the user with a derivative, or the pattern of one, that the user supplied, too."""

    check: Callable[..., None]  #: of `derivatives.checking`
    values: Callable[[Point], Vector]
    jac: Callable[[Vector], Any]
    rows: slice  #: of (f, c)
    names: dict[str, str]  #: for messages


# ------------------------------------------------------------------------------------------------------- precision


def learn_precision(
    problem: AbstractProblem,
    own: NDArray[np.intp],
    own_values: Callable[[Vector, Vector], Vector],
    x: Vector,
    *,
    far: bool,
) -> bool:
    """Estimate the errors of f and c at x; True if some are beyond those of double precision.

    `own_values(x, relative)` are the entries `own` of (f, c), those of the user's functions, and tells what their types
    round. Of errors that the user has stated only the scales are looked for.
    """
    start, work = problem.at(x), problem.workspace
    f0, relative = np.append(start.f, start.c)[own], np.zeros(own.size)
    before, found = problem.precision, Precision.full(problem.m)
    where = (x, f0, problem.lower, problem.upper)

    def values(z: Vector) -> Vector:
        return own_values(z, relative)

    if before.stated:
        part = estimate_scale(values, before.noise[own], *where)
        found = Precision(before.noise.copy(), found.scale, stated=True)
    else:
        moving = np.append(start.grad.any(), row_norms(start.jac) > 0.0)[own] if far else None
        part = estimate(values, *where, np.random.default_rng(0), relative, moving=moving)
        # Few digits elsewhere are few digits here: at a minimum, values move too little to show them. An error that
        # is added to the values does not grow with them: no more is assumed than was found.
        digits = (before.noise / before.scale)[own] * np.where(np.isfinite(f0), np.abs(f0), 0.0)
        digits = np.where(part.noise == 0.0, np.inf, digits)  # on a plateau errors do not show at all
        part = part.at_least(np.minimum(digits, before.noise[own]))
        # Where values are far larger, their rounding hides what is known.
        hidden = (before.noise[own] > 0.0) & (part.noise == 0.0)
        part.noise[hidden], part.scale[hidden] = before.noise[own][hidden], before.scale[own][hidden]
    found.noise[own], found.scale[own] = part.noise, part.scale
    if problem.differenced and (found.coarse or before.coarse):
        for point in work.points.values():  # differences were taken with other steps
            point.forget_derivatives()
    work.precision = found
    return found.coarse


# ----------------------------------------------------------------------------------------------------- derivatives


def check_at_start(problem: AbstractProblem, supplied: Sequence[Supplied], x: Vector) -> None:
    """Raise `DerivativeError` if a derivative is wrong at x; where errors of the functions explain it, warn."""
    start = problem.at(x)
    try:
        _check_first(problem, supplied, x)
    except DerivativeError as mismatch:
        if not problem.learn_precision(x, far=True):
            raise
        _check_first(problem, supplied, x)
        warnings.warn(
            f"{mismatch}. Errors of the functions explain it: about {np.max(problem.precision.noise):.1e}", stacklevel=3
        )
    if problem.has_hessp:
        _check_second(problem, x)
    problem.remember(start)  # it is where the run begins


def wrong_at_end(problem: AbstractProblem, supplied: Sequence[Supplied], x: Vector, negligible: float) -> str:
    """Which derivative is wrong at x by more than `negligible`, "" if none is: two evaluations where all is well."""
    start = problem.at(x)
    try:
        if _all_agree(problem, supplied, x, checking.AT_END, negligible):
            return ""
        problem.learn_precision(x, far=True)
        _check_first(problem, supplied, x, checking.AT_END, negligible)
    except DerivativeError as error:
        return str(error).replace(" at x0", " at result.x").split("; pass check_derivatives")[0]
    except Exception:  # the points are our idea: the user's functions may fail there
        return ""
    finally:
        problem.remember(start)
    return ""


def _check_first(
    problem: AbstractProblem,
    supplied: Sequence[Supplied],
    x: Vector,
    tolerance: float = checking.AT_START,
    negligible: float = 0.0,
) -> None:
    """Raise `DerivativeError` if a first derivative is wrong for sure."""
    if _all_agree(problem, supplied, x, tolerance, negligible):
        return

    def values_of(part: Supplied) -> Callable[[Vector], Vector]:
        return lambda z: part.values(problem.at(z))

    for part in supplied:
        options = {"noise": problem.precision.noise[part.rows], "tolerance": tolerance, "least": _least(problem, x)}
        for lower, upper in _boxes(problem, _together(problem, [part], x), x):
            # The same seed for all, so that they try the same directions and share their points.
            rng = np.random.default_rng(0)
            part.check(values_of(part), part.jac, x, lower, upper, **part.names, **options, rng=rng)


def _boxes(problem: AbstractProblem, derivatives: Jacobian | None, x: Vector) -> Iterator[tuple[Vector, Vector]]:
    """The bounds between which derivatives are checked; then, perhaps, with variables fixed that a bound holds at x.

    Large derivatives along these would hide errors of small ones along the others.
    """
    yield problem.lower, problem.upper
    held = (x <= problem.lower) | (x >= problem.upper)
    if derivatives is None or not some(held) or held.all():
        return
    if some(row_norms(derivatives[:, held]) > TUNING.hides * row_norms(derivatives[:, ~held])):
        yield np.where(held, x, problem.lower), np.where(held, x, problem.upper)


def _together(problem: AbstractProblem, supplied: Sequence[Supplied], x: Vector) -> Jacobian | None:
    """All derivatives at x as one matrix; None if there are operators among them."""
    point = problem.at(x)
    if _complete(problem, supplied):
        gradient, jac = point.grad, point.jac
        if isinstance(jac, np.ndarray):
            return np.concatenate((gradient[None], jac))
    found = [part.jac(x) for part in supplied]
    if any(isinstance(matrix, LinearOperator) for matrix in found):
        return None
    return stack([m[None] if getattr(m, "ndim", 2) == 1 else m for m in found], problem.n)


def _check_second(problem: AbstractProblem, x: Vector) -> None:
    """Raise `DerivativeError` if a second derivative is wrong for sure."""
    y = normal(0, problem.m)
    name, of = "hess, hessp or a constraint's hess (random multipliers)", "the gradient of the Lagrangian"
    box = (x, problem.lower, problem.upper)

    def slope(z: Vector) -> Vector:
        return problem.at(z).lagrangian_gradient(y)

    if problem.has_hess:
        checking.check_hessian(lambda z: problem.hess(z, y), slope, *box, name=name, of=of)
    else:
        rng = np.random.default_rng(0)
        checking.check_hessian_product(lambda z, v: problem.hessp(z, y, v), slope, *box, name=name, of=of, rng=rng)


def _all_agree(
    problem: AbstractProblem, supplied: Sequence[Supplied], x: Vector, tolerance: float, negligible: float
) -> bool:
    """A first look at all derivatives at once, if they are matrices: two points settle the usual case."""
    if not supplied:
        return True
    together = _together(problem, supplied, x)
    if together is None:
        return False
    complete = _complete(problem, supplied)

    def values(z: Vector) -> Vector:
        point = problem.at(z)
        if complete:
            return np.concatenate(((point.f,), point.c))
        return np.concatenate([part.values(point) for part in supplied])

    noise: Vector | float = 0.0
    if problem.coarse:
        known = problem.precision.noise
        noise = known if complete else np.concatenate([known[part.rows] for part in supplied])
    least = _least(problem, x)
    return all(
        checking.agrees(values, together, x, lower, upper, noise, tolerance, negligible, least)
        for lower, upper in _boxes(problem, together, x)
    )


def _complete(problem: AbstractProblem, supplied: Sequence[Supplied]) -> bool:
    """Whether the user supplied all derivatives, of f and of every row."""
    rows: int = sum(part.rows.stop - part.rows.start for part in supplied)
    return rows == 1 + problem.m


def _least(problem: AbstractProblem, x: Vector) -> Vector | float:
    """The sizes of variables that are much smaller than 1; 1 for the others."""
    sizes = problem.workspace.sizes if problem.workspace.sizes is not None else units.typical(problem.at(x))
    small = sizes < TUNING.small_variable
    return np.where(small, sizes, 1.0) if some(small) else 1.0
