"""SciPy's ways of stating constraints, turned into blocks: lower <= fun(x) <= upper with derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, HessianUpdateStrategy, LinearConstraint, NonlinearConstraint

from auglag._arrays import real_array
from auglag._names import nearest, signature, takes
from auglag._typing import Jacobian, Vector
from auglag.derivatives import differences
from auglag.derivatives.colouring import colour
from auglag.errors import EvaluationError, InputError, OptionError, note_point
from auglag.problems.block import Block, Sides, Work
from auglag.problems.patterns import Pattern
from auglag.problems.tuning import TUNING

_DICT_KEYS = ("type", "fun", "jac", "args", "hess", "name")


def parse_constraints(constraints: Any, x0: Vector, lower: Vector, upper: Vector, work: Work) -> list[Block]:
    """Blocks in the user's order from one constraint or a list of them."""
    single = (Mapping, NonlinearConstraint, LinearConstraint, Bounds)
    if constraints is None:
        constraints = ()
    if isinstance(constraints, single):
        constraints = (constraints,)
    if not isinstance(constraints, Iterable):
        raise InputError(
            "constraints must be a constraint ({'type': 'ineq', 'fun': f}, NonlinearConstraint or LinearConstraint) "
            f"or a list of them, got {type(constraints).__name__}"
        )
    blocks: list[Block] = []
    names: set[str] = set()
    for i, constraint in enumerate(constraints):
        name = _name(constraint, i)
        if name in names:
            raise InputError(f"constraints[{i}]: the name {name!r} is used twice; names must differ")
        names.add(name)
        blocks.append(_parse_one(constraint, name, i, x0, (lower, upper), work))
    return blocks


def _name(constraint: Any, i: int) -> str:
    given = constraint.get("name") if isinstance(constraint, Mapping) else getattr(constraint, "name", None)
    return f"constraints[{i}]" if given is None else str(given)


def _parse_one(constraint: Any, name: str, i: int, x0: Vector, box: Sides, work: Work) -> Block:
    if isinstance(constraint, Mapping):
        return _from_dict(constraint, name, i, x0, box, work)
    if isinstance(constraint, NonlinearConstraint):
        return _from_nonlinear(constraint, name, i, x0, box, work)
    if isinstance(constraint, LinearConstraint):
        return _from_linear(constraint, name, i, x0.size, work)
    if isinstance(constraint, Bounds):
        raise InputError(f"constraints[{i}] is a Bounds object; pass it as bounds=")
    raise InputError(
        f"constraints[{i}] must be a dict, a NonlinearConstraint or a LinearConstraint, got {type(constraint).__name__}"
    )


def _from_dict(constraint: Mapping[str, Any], name: str, i: int, x0: Vector, box: Sides, work: Work) -> Block:
    for key in constraint:
        if key not in _DICT_KEYS:
            raise OptionError(f"constraints[{i}] has the unknown key {key!r}{nearest(key, _DICT_KEYS)}")
    kind = constraint.get("type")
    if not isinstance(kind, str) or kind.lower() not in ("eq", "ineq"):
        raise InputError(f"constraints[{i}]['type'] must be 'eq' or 'ineq', got {kind!r}")
    fun = constraint.get("fun")
    if not callable(fun):
        raise InputError(f"constraints[{i}]['fun'] must be callable, got {fun!r:.80}")
    args = constraint.get("args", ())
    args = tuple(args) if isinstance(args, tuple | list) else (args,)  # SLSQP unpacks lists as well
    jac = _scheme_or_callable(constraint.get("jac"), f"constraints[{i}]['jac']")
    what = f"constraints[{i}]['hess']"
    hess = _weighted(parse_hess(constraint.get("hess"), what), what, *args)
    upper = 0.0 if kind.lower() == "eq" else math.inf
    fun, jac, hess = (with_args(part, args) for part in (fun, jac, hess))
    return _block(name, i, fun, jac, hess, 0.0, upper, x0, box, work)


def _from_nonlinear(constraint: NonlinearConstraint, name: str, i: int, x0: Vector, box: Sides, work: Work) -> Block:
    if not callable(constraint.fun):
        raise InputError(f"constraints[{i}].fun must be callable, got {constraint.fun!r:.80}")
    _no_keep_feasible(constraint, i)
    jac = _scheme_or_callable(constraint.jac, f"constraints[{i}].jac")
    hess = _weighted(parse_hess(constraint.hess, f"constraints[{i}].hess"), f"constraints[{i}].hess")
    by_steps = (constraint.finite_diff_rel_step, constraint.finite_diff_jac_sparsity)
    return _block(name, i, constraint.fun, jac, hess, constraint.lb, constraint.ub, x0, box, work, *by_steps)


def _from_linear(constraint: LinearConstraint, name: str, i: int, n: int, work: Work) -> Block:
    _no_keep_feasible(constraint, i)
    a = constraint.A
    matrix: Jacobian
    if sparse.issparse(a):
        if np.iscomplexobj(a):
            raise InputError(f"constraints[{i}].A must be real, got complex values")
        matrix = Pattern().csr(a)
    else:
        matrix = np.atleast_2d(real_array(a, f"constraints[{i}].A"))
    if matrix.shape[1] != n:
        raise InputError(f"constraints[{i}].A must have {n} columns, one per variable, got shape {matrix.shape}")
    data = matrix if isinstance(matrix, np.ndarray) else matrix.data
    if not np.isfinite(data).all():
        raise InputError(f"constraints[{i}].A must be finite, got NaN or infinite entries")
    size = matrix.shape[0]
    lower, upper = interval(constraint.lb, constraint.ub, size, f"constraints[{i}]")
    return Block(
        name, lambda x: matrix @ x, lower, upper, size, False, lambda x: matrix, None, matrix, None, None, work
    )


def _block(
    name: str,
    i: int,
    fun: Callable[..., Any],
    jac: Callable[..., Any] | str,
    hess: Callable[..., Any] | str | None,
    lb: Any,
    ub: Any,
    x0: Vector,
    box: Sides,
    work: Work,
    rel_step: Any = None,
    sparsity: Any = None,
) -> Block:
    """Call the function at x0 (once, if it is defined there) to learn its length."""
    what = f"{name}: fun(x)"

    def call(x: Vector) -> Any:
        work().counts.constr_nfev += 1
        return fun(x)

    if isinstance(hess, str) and not callable(jac):
        raise InputError(f"{name}: hess={hess!r} differences jac, which must then be callable, got {jac!r}")
    value = real_array(first_value(call, x0, box, what), what)
    if value.ndim > 1:
        raise InputError(f"{what} must be a number or a vector, got an array of shape {value.shape}")
    if value.size == 0:
        raise InputError(f"{what} must return at least one value, got an empty array")
    lower, upper = interval(lb, ub, value.size, f"constraints[{i}]")
    if sparsity is not None:
        sparsity = sparse.csr_array(sparsity)
        if sparsity.shape != (value.size, x0.size):
            raise InputError(
                f"constraints[{i}].finite_diff_jac_sparsity must have shape ({value.size}, {x0.size}), "
                f"got {sparsity.shape}"
            )
        sparsity = (sparsity, colour(sparsity))  # here, and not anew for every Jacobian
    return Block(name, fun, lower, upper, value.size, value.ndim == 0, jac, hess, None, rel_step, sparsity, work)


def first_value(fun: Callable[[Vector], Any], x0: Vector, box: Sides, what: str) -> Any:
    """fun(x0), or fun at a point near x0 and inside the bounds if it raises `EvaluationError` at x0."""
    for x in nearby(x0, box):
        try:
            return fun(x.copy())
        except EvaluationError:
            continue
        except Exception as error:
            note_point(error, x)
            raise
    raise InputError(f"{what} must be defined at x0 or near it, got EvaluationError at every point tried")


def nearby(x0: Vector, box: Sides) -> Iterator[Vector]:
    """x0, then x0 moved off its bounds, then points `around` it."""
    yield x0
    lower, upper = box
    push = TUNING.nearby_push * np.minimum(np.maximum(1.0, np.abs(x0)), upper - lower)
    inside = np.clip(x0, lower + push, upper - push)
    if not np.array_equal(inside, x0):
        yield inside
    yield from around(x0, box)


def around(x0: Vector, box: Sides) -> Iterator[Vector]:
    """Random points around x0 at growing distance, inside the bounds; always the same ones.

    Bounds reflect them. If they were moved onto the bounds, nearly all would have some entry there where x0 is in a
    corner, and a function that is undefined on the bounds would be defined at none of them.
    """
    lower, upper = box
    rng = np.random.default_rng(0)
    for attempt in range(1, TUNING.nearby_points):
        size = 10.0 ** (TUNING.nearby_first_power + attempt // TUNING.nearby_per_distance)
        step = np.minimum(size * np.maximum(1.0, np.abs(x0)), TUNING.nearby_room * (upper - lower))
        x = x0 + step * rng.standard_normal(x0.size)
        x = np.where(x < lower, 2.0 * lower - x, np.where(x > upper, 2.0 * upper - x, x))
        yield np.clip(x, lower, upper)


def interval(lb: Any, ub: Any, size: int, what: str) -> tuple[Vector, Vector]:
    """lb and ub broadcast to `size`, with lb <= ub and nothing NaN."""
    sides = []
    for side, label in ((lb, "lb"), (ub, "ub")):
        array = real_array(side, f"{what}.{label}")
        if array.shape != (size,) and (array.size != 1 or array.ndim > 1):
            raise InputError(f"{what}.{label} must be a number or have {size} entries, got {array.size}")
        sides.append(array.copy() if array.shape == (size,) else np.full(size, array))
    lower, upper = sides
    good = (lower <= upper) & (lower < np.inf) & (upper > -np.inf)
    if np.count_nonzero(good) < size:
        for side, array, label in ((lb, lower, "lb"), (ub, upper, "ub")):
            if np.isnan(array).any():
                raise InputError(f"{what}.{label} must not contain NaN, got {side!r:.80}")
        j = int(good.argmin())
        raise InputError(
            f"{what}: lb must be at most ub and both sides reachable, got {lower[j]} > {upper[j]} in entry {j}"
        )
    return lower, upper


def with_args(fun: Any, args: tuple[Any, ...]) -> Any:
    """fun(x, *args) as a function of x; schemes pass through."""
    if not args or not callable(fun):
        return fun
    return lambda *x: fun(*x, *args)


def _scheme_or_callable(jac: Any, what: str) -> Callable[..., Any] | str:
    if jac is None:
        return "2-point"
    if callable(jac) or (isinstance(jac, str) and jac in differences.SCHEMES):
        return cast("Callable[..., Any] | str", jac)
    raise InputError(f"{what} must be callable or one of {differences.SCHEMES}, got {jac!r:.80}")


def parse_hess(hess: Any, what: str) -> Callable[..., Any] | str | None:
    """A function, a finite-difference scheme, or None where a quasi-Newton strategy was given."""
    if hess is None or isinstance(hess, HessianUpdateStrategy):
        return None  # quasi-Newton strategies are the inner solver's business
    if callable(hess) or (isinstance(hess, str) and hess in differences.SCHEMES):
        return cast("Callable[..., Any] | str", hess)
    raise InputError(f"{what} must be callable, one of {differences.SCHEMES} or None, got {hess!r:.80}")


def _weighted(hess: Any, what: str, *args: Any) -> Any:
    """The Hessian of a constraint, if it is no function or takes x and the weights v of the entries."""
    if callable(hess) and not takes(hess, None, None, *args):
        demand = ", ".join(["hess(x, v", *(["*args"] if args else [])]) + ")"
        raise InputError(
            f"{what} must have the signature {demand}, the Hessian of v'fun at x, got the arguments {signature(hess)}"
        )
    return hess


def _no_keep_feasible(constraint: Any, i: int) -> None:
    if constraint.keep_feasible is not False and np.any(constraint.keep_feasible):
        raise InputError(
            f"constraints[{i}].keep_feasible must be False: an augmented Lagrangian visits infeasible points. "
            "Bounds are always kept; state simple limits as bounds"
        )
