"""SciPy's ways of stating constraints, turned into blocks: lower <= fun(x) <= upper with derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, final

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, HessianUpdateStrategy, LinearConstraint, NonlinearConstraint
from scipy.sparse.linalg import LinearOperator

from auglag._arrays import real_array
from auglag._names import nearest, signature, takes
from auglag._typing import Jacobian, Vector
from auglag.derivatives import differences
from auglag.derivatives.colouring import colour
from auglag.derivatives.detection import Detected
from auglag.derivatives.extrapolation import extrapolated
from auglag.derivatives.noise import Noise, dtype_error
from auglag.errors import EvaluationError, InputError, OptionError, note_point
from auglag.problems.jacobians import as_jacobian, columns_times, transposed_product
from auglag.problems.patterns import Pattern
from auglag.problems.tuning import TUNING
from auglag.problems.workspace import Counts, Workspace

Sides = tuple[Vector, Vector]
Work = Callable[[], Workspace]

_DICT_KEYS = ("type", "fun", "jac", "args", "hess", "name")


@final
@dataclass(slots=True)
class Block:
    """One constraint of the user: lower <= fun(x) <= upper."""

    name: str
    fun: Callable[[Vector], Any]
    lower: Vector
    upper: Vector
    size: int
    scalar: bool  #: the user's function returns a number
    jac: Callable[[Vector], Any] | str  #: a function, or a finite-difference scheme
    hess: Callable[[Vector, Vector], Any] | str | None  #: Hess of v'fun(x), a scheme, or None
    matrix: Jacobian | None  #: the constant Jacobian of a linear constraint
    rel_step: Any
    sparsity: Any  #: (pattern of the Jacobian, group of each column), or None
    work: Work  #: the workspace of the run that asks
    jac_pattern: Pattern = field(default_factory=Pattern)  #: of the last sparse Jacobian, which the next one shares
    hess_pattern: Pattern = field(default_factory=Pattern)  #: of the last sparse Hessian

    def fill(self, out: Vector, x: Vector, counts: Counts) -> None:
        """Put fun(x) in its place."""
        if self.matrix is not None:
            out[:] = self.matrix @ x
            return
        counts.constr_nfev += 1
        raw = self.fun(x.copy())
        if (type(raw) is np.ndarray and raw.dtype == np.float64 and raw.shape == out.shape) or (
            isinstance(raw, float) and self.size == 1
        ):
            out[:] = raw  # users reuse their arrays
            return
        value = real_array(raw, f"{self.name}: fun(x)").ravel()
        if value.size != self.size:
            raise InputError(f"{self.name}: fun(x) must return {self.size} values as it did at x0, got {value.size}")
        out[:] = value

    def jacobian(
        self, x: Vector, value: Vector, lower: Vector, upper: Vector, noise: Noise | None = None
    ) -> tuple[Jacobian, Jacobian | None]:
        """The Jacobian at x, differences staying inside [lower, upper], and their estimated error, if any."""
        if self.matrix is not None:
            return self.matrix, None
        if isinstance(self.jac, str):
            lower, upper = np.minimum(lower, x), np.maximum(upper, x)  # x may lie outside in a certificate only
            return self._differenced(x, value, lower, upper, noise)
        self.work().counts.constr_njev += 1
        raw = self.jac(x.copy())
        jac = as_jacobian(raw, self.size, x.size, f"{self.name}: jac(x)", self.jac_pattern.csr)
        relative = dtype_error(raw)
        return jac, relative * abs(jac) if relative and not isinstance(jac, LinearOperator) else None

    def _differenced(
        self, x: Vector, value: Vector, lower: Vector, upper: Vector, noise: Noise | None
    ) -> tuple[Jacobian, Jacobian | None]:
        work = self.work()

        def by(sparsity: Any) -> tuple[Any, Any]:
            sides = (lower, upper, self.rel_step)
            return by_differences(
                self._for_differences, x, value, str(self.jac), work.level, *sides, sparsity, noise, work.unit
            )

        if self.sparsity is not None:
            return by(self.sparsity)
        known: Detected = work.kept.setdefault(("entries", self.name), Detected())
        if known.structure is not None and work.level < 2:
            jac, error = by(known.structure)
            if known.holds(self._for_differences, x, value, jac, lower, upper):
                return jac.toarray(), None if error is None else error.toarray()
        jac, error = by(None)
        known.note(x, jac)
        return jac, error

    def _for_differences(self, x: Any) -> Any:
        work = self.work()
        work.ask_guard()
        work.counts.constr_nfev += 1
        return np.asarray(self.fun(x)).reshape(-1)

    def hessp(self, x: Vector, y: Vector, v: Vector, lower: Vector, upper: Vector) -> Vector:
        """Hess(y'fun)(x) v."""
        if self.matrix is not None:
            return np.zeros_like(v)
        return np.asarray(self.hessian(x, y, lower, upper) @ v).ravel()

    def hessian(self, x: Vector, y: Vector, lower: Vector, upper: Vector) -> Jacobian:
        """Hess(y'fun)(x) of a nonlinear constraint, kept for the last x and y."""
        key = x.tobytes() + y.tobytes()
        hessian: Jacobian = self.work().last(("hess", self.name), key, lambda: self._hessian(x, y, lower, upper))
        return hessian

    def _hessian(self, x: Vector, y: Vector, lower: Vector, upper: Vector) -> Jacobian:
        if callable(self.hess):
            self.work().counts.constr_nhev += 1
            what = f"{self.name}: hess(x, v)"
            return as_jacobian(self.hess(x.copy(), y), x.size, x.size, what, self.hess_pattern.csr)
        jac: Any = self.jac  # a function, as `_block` has checked

        def gradient(z: Any) -> Any:
            self.work().counts.constr_njev += 1
            return transposed_product(as_jacobian(jac(z), self.size, x.size, f"{self.name}: jac(x)"), y)

        scheme = str(self.hess)
        return differences.hessian_from_gradient(gradient, x, gradient(x), lower=lower, upper=upper, scheme=scheme)


_HUGE = float(np.finfo(np.float64).max)


def by_differences(
    fun: Callable[[Any], Any],
    x: Vector,
    value: Vector,
    scheme: str,
    level: int,
    lower: Vector,
    upper: Vector,
    rel_step: Any,
    sparsity: Any = None,
    noise: Noise | None = None,
    unit: Vector | None = None,
) -> tuple[Any, Any]:
    """(Jacobian, error estimate or None) by differences of the given level; the complex step is always exact.

    Where values have errors beyond double precision, steps are longer, and there is an estimate at every level. `unit`
    are the sizes of variables that are much smaller than 1, as powers of two: steps are relative to them.
    """
    if unit is not None:
        sides = [np.maximum(np.minimum(side / unit, _HUGE), -_HUGE) for side in (lower, upper)]
        found = by_differences(
            lambda z: fun(z * unit), x / unit, value, scheme, level, sides[0], sides[1], rel_step, sparsity, noise
        )
        jac, error = (None if part is None else columns_times(part, 1.0 / unit) for part in found)
        return jac, error
    where = {"lower": lower, "upper": upper, "sparsity": sparsity}
    if scheme != "cs" and level >= 2:
        return extrapolated(fun, x, value, noise=noise, **where)
    if scheme == "2-point" and level == 1:
        scheme, rel_step = "3-point", None
    if noise is None or scheme == "cs":
        return differences.jacobian(fun, x, value, scheme=scheme, rel_step=rel_step, **where), None
    return differences.noisy_jacobian(fun, x, value, noise, scheme=scheme, rel_step=rel_step, **where)


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
    """x0, then random points around it at growing distance, inside the bounds; always the same ones."""
    yield x0
    rng = np.random.default_rng(0)
    for attempt in range(1, TUNING.nearby_points):
        size = 10.0 ** (TUNING.nearby_first_power + attempt // TUNING.nearby_per_distance)
        yield np.clip(x0 + size * np.maximum(1.0, np.abs(x0)) * rng.standard_normal(x0.size), *box)


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
