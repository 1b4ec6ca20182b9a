"""A problem made of the user's own functions, stated as for `scipy.optimize.minimize`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from itertools import chain
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from auglag._arrays import real_array
from auglag._names import suggesting
from auglag._typing import Jacobian, Vector
from auglag.derivatives import checking, differences
from auglag.derivatives.noise import Noise, dtype_error
from auglag.errors import EvaluationError, InputError, note_point
from auglag.problems import trust
from auglag.problems.arguments import check_term, check_x0, pair, parse_bounds, scalar
from auglag.problems.base import Group, LinearRows, Point
from auglag.problems.block import Block, by_differences
from auglag.problems.constraints import around, first_value, interval, parse_constraints, parse_hess, with_args
from auglag.problems.jacobians import as_csr, as_jacobian, dense, stack
from auglag.problems.patterns import Combined, Pattern
from auglag.problems.pointwise import PointwiseProblem
from auglag.problems.thinning import Thinned, thin
from auglag.problems.tuning import TUNING
from auglag.problems.workspace import Workspace
from auglag.prox import Custom, as_term
from auglag.prox.custom import check_prox


def _rows(group: Group, point: Point) -> Vector:
    return point.c[group.start : group.stop]


@suggesting
@final
class Problem(PointwiseProblem):
    """min f(x) + g(x) subject to bounds and constraints, from plain functions.

    Arguments mean what they mean in SciPy and in `auglag.minimize`. Instead of `fun` and `constraints`, a simulation
    that yields both at once may be given as `fun_and_con(x) -> (f, c)` with `con_lower <= c <= con_upper`; it is then
    called once per point, and `jac` (optional) returns `(grad f, Jacobian of c)`. `known_curvature(x)` is the part of
    the Hessian of fun that first derivatives tell, as J'J of least squares, dense or sparse.
    """

    def __init__(
        self,
        fun: Callable[..., Any] | None = None,
        x0: Any = None,
        args: Any = (),
        *,
        jac: Any = None,
        hess: Any = None,
        hessp: Any = None,
        bounds: Any = None,
        constraints: Any = (),
        g: Any = None,
        fun_and_con: Callable[..., Any] | None = None,
        con_lower: Any = 0.0,
        con_upper: Any = 0.0,
        finite_diff_rel_step: Any = None,
        known_curvature: Callable[[Vector], Any] | None = None,
        name: str = "",
    ) -> None:
        start = check_x0(x0)
        lower, upper = parse_bounds(bounds, start.size)
        args = args if isinstance(args, tuple) else (args,)
        term = None if g is None else as_term(g)
        if term is not None:
            check_term(term, lower, upper, start.size)
        start = np.minimum(np.maximum(start, lower), upper)
        super().__init__(start, lower=lower, upper=upper, cl=np.zeros(0), cu=np.zeros(0), groups=(), g=term)
        self.name = name
        self._rel_step = finite_diff_rel_step
        self._known_curvature = known_curvature
        if fun_and_con is not None and not callable(fun_and_con):
            raise InputError(f"fun_and_con must be callable, got {fun_and_con!r:.80}")
        if fun is not None and not callable(fun):
            raise InputError(f"fun must be callable, None for a feasibility problem, or a problem, got {fun!r:.80}")
        self._joint: Any = with_args(fun_and_con, args)
        self._fun = with_args(fun, args)
        self._with_gradient = jac is True
        self._jac = self._parse_jac(jac, args)
        self._hess: Any = parse_hess(hess, "hess")
        self._hess_args = args
        if hessp is not None and not callable(hessp):
            raise InputError(f"hessp must be callable, got {hessp!r:.80}")
        self._hessp = hessp
        if isinstance(self._hess, str) and not (callable(self._jac) or self._with_gradient):
            raise InputError(f"hess={hess!r} differences jac, which must then be callable or True, got {jac!r:.80}")
        self.blocks: list[Block] = []
        self._jac_pattern, self._hess_pattern = Pattern(), Pattern()
        self._stacked, self._summed = Combined(summed=False), Combined(summed=True)
        if self._joint is not None:
            self._set_up_joint(fun, constraints, con_lower, con_upper)
        else:
            self.blocks = parse_constraints(constraints, start, lower, upper, self._workspace)
            self._set_up_rows()

    # ------------------------------------------------------------------------------------------------ construction

    def _workspace(self) -> Workspace:
        return self.workspace

    def _parse_jac(self, jac: Any, args: tuple[Any, ...]) -> Any:
        if jac is True:
            if self._fun is None:
                raise InputError("jac=True asks fun to return (value, gradient), but fun is None")
            return None
        if jac is None or jac is False:
            return "2-point"
        if callable(jac):
            return with_args(jac, args)
        if isinstance(jac, str) and jac in differences.SCHEMES:
            return jac
        raise InputError(f"jac must be callable, True, or one of {differences.SCHEMES}, got {jac!r:.80}")

    def _set_up_joint(self, fun: Any, constraints: Any, con_lower: Any, con_upper: Any) -> None:
        if fun is not None or (constraints is not None and constraints != () and constraints != []):
            raise InputError("fun_and_con replaces fun and constraints; pass either the one or the others")
        point = Point(self, self.x0)

        def call(x: Vector) -> Point:
            point.x = x
            self._fill_jointly(point, first=True)
            return point

        size = first_value(call, self.x0, (self.lower, self.upper), "fun_and_con(x)").c.size
        self.cl, self.cu = interval(con_lower, con_upper, size, "con_lower/con_upper")
        self.groups = (Group("c", 0, size),)
        self.remember(point)

    def _set_up_rows(self) -> None:
        empty = [np.zeros(0)]
        self.cl = np.concatenate(empty + [block.lower for block in self.blocks])
        self.cu = np.concatenate(empty + [block.upper for block in self.blocks])
        groups, start = [], 0
        for block in self.blocks:
            groups.append(Group(block.name, start, start + block.size, block.scalar))
            start += block.size
        self.groups = tuple(groups)

    def linear(self) -> LinearRows | None:
        found = [(b.matrix, g) for b, g in zip(self.blocks, self.groups, strict=False) if b.matrix is not None]
        if not found:
            return None
        rows = np.concatenate([np.arange(group.start, group.stop) for _, group in found])
        matrix = sparse.vstack([sparse.csr_array(part) for part, _ in found], format="csr")
        return LinearRows(rows, matrix, np.zeros(rows.size))

    # -------------------------------------------------------------------------------------------------- evaluation

    def fill_f(self, point: Point) -> None:
        """f, and with it the gradient (`jac=True`) or c (`fun_and_con`)."""
        if self._joint is not None:
            self._fill_jointly(point)
        elif self._fun is None:
            point._f = 0.0
        else:
            counts = self.workspace.counts
            counts.nfev += 1
            value = self._fun(point.x.copy())
            if self._with_gradient:
                value, gradient = pair(value, "fun(x)", "(value, gradient) when jac=True")
                counts.njev += 1
                self._set_gradient(point, gradient, "the gradient returned by fun(x)")
            point._f = value if type(value) is float else scalar(value, "fun(x)")

    def _fill_jointly(self, point: Point, first: bool = False) -> None:
        self.counts.nfev += 1
        self.counts.constr_nfev += 1
        f, c = pair(self._joint(point.x.copy()), "fun_and_con(x)", "(f, c)")
        point._f = scalar(f, "fun_and_con(x)[0]")
        point._c = np.array(real_array(c, "fun_and_con(x)[1]"), ndmin=1).ravel()
        if not first and point._c.size != self.m:
            raise InputError(f"fun_and_con(x)[1] must have {self.m} entries as at x0, got {point._c.size}")

    def _vector(self, value: Any, what: str) -> Vector:
        if type(value) is np.ndarray and value.dtype == np.float64 and value.shape == self.x0.shape:
            return value.copy()  # users reuse their arrays
        vector = real_array(value.toarray() if sparse.issparse(value) else value, what)
        if vector.shape != (self.n,):
            if vector.size != self.n or vector.ndim > 2:
                raise InputError(f"{what} must have shape ({self.n},), got {vector.shape}")
            vector = vector.reshape(self.n)
        return vector.copy() if vector is value or vector.base is not None else vector

    def fill_grad(self, point: Point) -> None:
        """The gradient of f, by the user's jac or by differences inside the bounds."""
        if self._joint is not None:
            self._fill_joint_jac(point)
        elif self._fun is None:
            point._grad = np.zeros(self.n)
        elif self._with_gradient:
            self.fill_f(point)  # only reached if f was set by hand; one call gives both
        elif isinstance(self._jac, str):
            value = np.array([point.f])
            jac, error = self._difference(self._for_differences, point.x, value, self._noise(0, 1))
            point._grad = np.ascontiguousarray(jac[0])
            point._grad_error = None if error is None else np.ascontiguousarray(error[0])
        else:
            self.workspace.counts.njev += 1
            self._set_gradient(point, self._jac(point.x.copy()), "jac(x)")

    def _set_gradient(self, point: Point, raw: Any, what: str) -> None:
        """The gradient that the user gave, with the rounding error of its type, if that is not double precision."""
        point._grad = self._vector(raw, what)
        relative = dtype_error(raw)
        point._grad_error = relative * np.abs(point._grad) if relative else None

    def _difference(self, fun: Callable[[Any], Any], x: Vector, value: Vector, noise: Noise | None) -> tuple[Any, Any]:
        lower, upper = np.minimum(self.lower, x), np.maximum(self.upper, x)  # x may lie outside in a certificate only
        work, steps = self.workspace, self._rel_step
        return by_differences(fun, x, value, self._jac, work.level, lower, upper, steps, noise=noise, unit=work.unit)

    @cached_property
    def _schemes(self) -> set[str]:
        """The finite-difference schemes in use."""
        own = isinstance(self._jac, str) and (self._fun is not None or self._joint is not None)
        schemes = {self._jac} if own else set()
        return schemes | {block.jac for block in self.blocks if isinstance(block.jac, str) and block.matrix is None}

    @property
    def differenced(self) -> bool:
        """Whether a first derivative is a real finite difference (the complex step is exact)."""
        return bool(self._schemes - {"cs"})

    def refine(self, level: int) -> bool:
        """Carry out finite differences with this level of accuracy; see `by_differences`."""
        work = self.workspace
        affected = {"2-point"} if max(level, work.level) == 1 else {"2-point", "3-point"}
        if level == work.level or not affected & self._schemes:
            return False
        work.level = level
        for point in work.points.values():
            point.forget_derivatives()
        return True

    def _for_differences(self, x: Any) -> Any:
        work = self.workspace
        work.ask_guard()
        work.counts.nfev += 1
        value = self._fun(x)
        return value if np.ndim(value) == 0 else np.asarray(value).reshape(-1)[0]

    def fill_c(self, point: Point) -> None:
        if self._joint is not None:
            self._fill_jointly(point)
        else:
            point._c = self._values(point.x, zip(self.blocks, self.groups, strict=True))

    def _values(self, x: Vector, constraints: Iterable[tuple[Block, Group]]) -> Vector:
        """c(x), by calls in this order."""
        c, counts = np.empty(self.m), self.workspace.counts
        for block, group in constraints:
            block.fill(c[group.start : group.stop], x, counts)
        return c

    def afresh(self, known: Point) -> Point:
        """Several constraint functions are called in the other order, which shows when one disturbs another."""
        point = super().afresh(known)
        if self._joint is None and len(self.blocks) > 1 and not point.filled(self._fill_c_backwards):
            point._c = np.full(self.m, np.nan)
        return point

    def _fill_c_backwards(self, point: Point) -> None:
        point._c = self._values(point.x, zip(reversed(self.blocks), reversed(self.groups), strict=True))

    def fill_jac(self, point: Point) -> None:
        """All Jacobians; a large dense one that is nearly all zeros becomes a sparse one."""
        self._fill_jac(point)
        if isinstance(point._jac, np.ndarray) and self._may_be_thin:
            thinned = self.workspace.last("thinned", b"", self._thinned)
            if thinned is not None:
                point._jac = thinned.of(point._jac)
                point._jac_error = None if point._jac_error is None else as_csr(point._jac_error)

    @property
    def _may_be_thin(self) -> bool:
        """Whether Jacobians are large and the user's own; a difference of all columns costs too much to be repeated."""
        if self.n < TUNING.thin_columns or self.n * self.m < TUNING.thin_entries:
            return False
        if self._joint is not None:
            return callable(self._jac)
        return not any(isinstance(block.jac, str) for block in self.blocks)

    def _thinned(self) -> Thinned | None:
        """What makes Jacobians sparse, if those at two points are nearly all zeros, and no Hessian is full."""
        seen: list[Any] = []
        for x in chain([self.x0], around(self.x0, (self.lower, self.upper))):
            try:
                with np.errstate(all="ignore"):
                    point = Point(self, x)
                    self._fill_jac(point)
                    hess = self.hess(x, np.ones(self.m)) if self.has_hess else None
            except EvaluationError:
                continue
            if not (thin(point._jac) and thin(hess)):
                return None
            seen.append(point._jac)
            if len(seen) == TUNING.thin_points:
                return Thinned(seen)
        return None

    def _fill_jac(self, point: Point) -> None:
        """All Jacobians as they come: one block as it is, several as one matrix or operator."""
        if self._joint is not None:
            self._fill_joint_jac(point)
            return
        parts, errors = [], {}
        for k in range(len(self.blocks)):
            jac, error = self._jacobian(point, k)
            parts.append(jac)
            if error is not None:
                errors[k] = error
        if len(parts) == 1:
            point._jac = parts[0]
        elif parts and not isinstance(parts[0], np.ndarray) and all(sparse.issparse(part) for part in parts):
            point._jac = self._stacked.of([as_csr(part) for part in parts])
        else:
            point._jac = stack(parts, self.n)
        if errors or self.workspace.level >= 2:
            blank = sparse.csr_array
            filled = [errors[k] if k in errors else blank((b.size, self.n)) for k, b in enumerate(self.blocks)]
            point._jac_error = stack(filled, self.n)

    def _jacobian(self, point: Point, k: int) -> tuple[Jacobian, Jacobian | None]:
        """The Jacobian of one constraint, and its error, if any."""
        block, group, value, noise = self.blocks[k], self.groups[k], point.x, None
        if isinstance(block.jac, str):
            value = point.c[group.start : group.stop]
            noise = self._noise(1 + group.start, 1 + group.stop)
        return block.jacobian(point.x, value, self.lower, self.upper, noise)

    def _fill_joint_jac(self, point: Point) -> None:
        """(grad f, J) by the user's function or by differencing (f, c) together."""
        if callable(self._jac):
            self.counts.njev += 1
            self.counts.constr_njev += 1
            gradient, jac = pair(self._jac(point.x.copy()), "jac(x)", "(grad f, Jacobian of c)")
            self._set_gradient(point, gradient, "jac(x)[0]")
            point._jac = as_jacobian(jac, self.m, self.n, "jac(x)[1]", self._jac_pattern.csr)
            relative = dtype_error(jac)
            point._jac_error = relative * abs(point._jac) if relative else None
            return
        values = np.concatenate([[point.f], point.c])
        noise = self._noise(0, 1 + self.m)
        both, error = self._difference(self._joint_for_differences, point.x, values, noise)
        point._grad, point._jac = np.ascontiguousarray(both[0]), np.ascontiguousarray(both[1:])
        if error is not None:
            point._grad_error, point._jac_error = error[0], error[1:]

    def _joint_for_differences(self, x: Any) -> Any:
        work = self.workspace
        work.ask_guard()
        work.counts.nfev += 1
        work.counts.constr_nfev += 1
        f, c = self._joint(x)
        return np.concatenate([np.atleast_1d(f).ravel()[:1], np.atleast_1d(c).ravel()])

    # --------------------------------------------------------------------------------------------------- precision

    def _noise(self, first: int, last: int) -> Noise | None:
        """The errors of the entries `first` to `last` - 1 of (f, c); None in double precision."""
        return self.precision.part(first, last) if self.coarse else None

    def learn_precision(self, x: Vector, *, far: bool = False) -> bool:
        """A handful of evaluations; of errors that the user has stated only the scales are looked for."""
        return trust.learn_precision(self, self._own_rows(), self._own_values, x, far=far)

    def _own_rows(self) -> NDArray[np.intp]:
        """Which of (f, c) are values of the user's functions."""
        if self._joint is not None:
            return np.arange(1 + self.m)
        parts = [np.arange(1 if self._fun is not None else 0)]
        known = zip(self.blocks, self.groups, strict=True)
        return np.concatenate(parts + [np.arange(1 + g.start, 1 + g.stop) for b, g in known if b.matrix is None])

    def _own_values(self, x: Vector, relative: Vector) -> Vector:
        """These values at x, NaN where not defined; `relative` gets the rounding errors of their types."""
        work = self.workspace
        work.ask_guard()
        try:
            raw = self._raw_values(x)
        except EvaluationError:
            return np.full(relative.size, np.nan)
        except Exception as error:
            note_point(error, x)
            raise
        sizes = [np.size(part) for part in raw]
        if sum(sizes) != relative.size:  # an error, which the next evaluation of the point itself names
            return np.full(relative.size, np.nan)
        np.maximum(relative, np.repeat([dtype_error(part) for part in raw], sizes), out=relative)
        return np.concatenate([np.zeros(0)] + [np.asarray(part, dtype=np.float64).reshape(-1) for part in raw])

    def _raw_values(self, x: Vector) -> list[Any]:
        counts = self.counts
        if self._joint is not None:
            counts.nfev += 1
            counts.constr_nfev += 1
            return list(self._joint(x.copy()))
        raw = []
        if self._fun is not None:
            counts.nfev += 1
            counts.njev += self._with_gradient
            value = self._fun(x.copy())
            raw.append(value[0] if self._with_gradient else value)
        for block in self.blocks:
            if block.matrix is None:
                counts.constr_nfev += 1
                raw.append(block.fun(x.copy()))
        return raw

    def check_derivatives(self, x: Vector) -> None:
        """Compare what the user supplied with differences along a random direction at x; name a wrong entry."""
        if isinstance(self.g, Custom):
            check_prox(self.g, x)
        trust.check_at_start(self, list(self._supplied()), x)

    def wrong_derivatives(self, x: Vector, negligible: float) -> str:
        """Two evaluations where all is well. A mismatch that errors of the functions explain is not one."""
        return trust.wrong_at_end(self, list(self._supplied()), x, negligible)

    def _supplied(self) -> Iterator[trust.Supplied]:
        """All functions whose first derivatives, or the pattern of these, the user supplied."""
        if self._joint is not None and callable(self._jac):
            yield trust.Supplied(
                checking.check_jacobian,
                lambda point: np.append(point.f, point.c),
                lambda z: np.vstack([self.at(z).grad, dense(self.at(z).jac)]),
                slice(0, 1 + self.m),
                {"name": "jac (the gradient of f as row 0)", "of": "fun_and_con"},
            )
        elif self._fun is not None and not isinstance(self._jac, str):
            yield trust.Supplied(
                checking.check_gradient,
                lambda point: np.array((point.f,)),
                lambda z: self.at(z).grad,
                slice(0, 1),
                {"name": "jac"},
            )
        for k, (block, group) in enumerate(zip(self.blocks, self.groups, strict=False)):
            own = slice(1 + group.start, 1 + group.stop)
            values, part = partial(_rows, group), partial(self._part_at, k)
            if block.matrix is None and callable(block.jac):
                yield trust.Supplied(checking.check_jacobian, values, part, own, {"name": f"{block.name}: jac"})
            elif block.matrix is None and block.sparsity is not None:
                yield trust.Supplied(checking.check_sparsity, values, part, own, {"name": block.name})

    def _part_at(self, k: int, x: Vector) -> Jacobian:
        """The Jacobian of one constraint: a part of that of all, where this is a matrix."""
        point, group = self.at(x), self.groups[k]
        if isinstance(point.jac, LinearOperator):
            return self._jacobian(point, k)[0]
        return point.jac[group.start : group.stop]

    # -------------------------------------------------------------------------------------------- second derivatives

    @property
    def has_hessp(self) -> bool:
        if self._joint is not None:
            return False
        objective = self._fun is None or self._hessp is not None or self._hess is not None
        return objective and all(block.matrix is not None or block.hess is not None for block in self.blocks)

    @property
    def partly_curved(self) -> bool:
        return self._known_curvature is not None

    def known_curvature(self, x: Vector) -> Any:
        return None if self._known_curvature is None else self._known_curvature(x)

    def _hessian(self, x: Vector) -> Jacobian:
        """Hess f(x), by the user's function or by differences of the gradient; kept for the last x."""

        def make() -> Jacobian:
            if isinstance(self._hess, str):
                return differences.hessian_from_gradient(
                    self._gradient_at, x, self.at(x).grad, lower=self.lower, upper=self.upper, scheme=self._hess
                )
            self.counts.nhev += 1
            hessian = self._hess(x.copy(), *self._hess_args)
            return as_jacobian(hessian, self.n, self.n, "hess(x)", self._hess_pattern.csr)

        hessian: Jacobian = self.workspace.last("hess", x.tobytes(), make)
        return hessian

    def _gradient_at(self, x: Any) -> Any:
        if self._with_gradient:
            self.counts.nfev += 1
            self.counts.njev += 1
            return self._fun(x)[1]
        self.counts.njev += 1
        return self._jac(x)

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        result = np.zeros(self.n)
        if self._fun is not None:
            if self._hessp is not None:
                self.counts.nhev += 1
                result = self._vector(self._hessp(x.copy(), v, *self._hess_args), "hessp(x, p)")
            else:
                result = np.asarray(self._hessian(x) @ v)
        for block, group in zip(self.blocks, self.groups, strict=True):
            result = result + block.hessp(x, y[group.start : group.stop], v, self.lower, self.upper)
        return result

    @property
    def has_hess(self) -> bool:
        """Whether f and every constraint came with Hessian matrices (products and operators do not count)."""
        if not self.has_hessp or (self._hessp is not None and self._hess is None):
            return False
        if self.n <= TUNING.small_hessian:  # an operator can be applied to the unit vectors
            return True
        return bool(self.workspace.last("hessians are matrices", b"", self._hessians_are_matrices))

    def _hessians_are_matrices(self) -> bool:
        """What the functions return at x0; asked once, since it costs their evaluation."""
        start, zero = self.x0, np.zeros(self.m)
        parts = [self._hessian(start)] if self._fun is not None else []
        curved = [(b, g) for b, g in zip(self.blocks, self.groups, strict=True) if b.matrix is None]
        parts += [b.hessian(start, zero[g.start : g.stop], self.lower, self.upper) for b, g in curved]
        return not any(isinstance(part, LinearOperator) for part in parts)

    def hess(self, x: Vector, y: Vector) -> Any:
        """Hess(f + y'c)(x), sparse if every part is."""
        parts = [self._hessian(x)] if self._fun is not None else []
        for block, group in zip(self.blocks, self.groups, strict=True):
            if block.matrix is None:
                parts.append(block.hessian(x, y[group.start : group.stop], self.lower, self.upper))
        if not parts:
            return sparse.csr_array((self.n, self.n))
        if all(sparse.issparse(part) for part in parts):
            return self._summed.of([as_csr(part) for part in parts])
        return sum((dense(part) for part in parts), np.zeros((self.n, self.n)))
