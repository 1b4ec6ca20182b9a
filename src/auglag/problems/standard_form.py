"""The form Algorithm 1 works on: scaled, without fixed variables, with the bounds inside g."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from auglag._norms import finite, highest, largest, norm, some
from auglag._typing import Vector
from auglag.algorithm import formulas
from auglag.errors import InputError
from auglag.inner.base import Traits
from auglag.problems.base import AbstractProblem, Point
from auglag.problems.jacobians import Selection, as_csr, columns_times, dense, row_norms, with_values
from auglag.problems.scaling import Scaling
from auglag.problems.tuning import TUNING
from auglag.prox import Box, Scaled, SeparableSum, SeparableTerm, Zero, add_bounds
from auglag.prox.base import ProxTerm


@final
class StandardForm:
    """min f(z) + g(z) subject to cl <= c(z) <= cu, over z = the free variables, then the explicit slacks if any.

    With `slacks="closed"` rows keep their intervals and the subproblem minimises the slacks out. With
    `slacks="explicit"` every inequality row c_i in [cl, cu] becomes c_i - s_i = 0 with s_i in [cl, cu] a variable whose
    bounds join g, as in the paper's experiments; all rows are then equalities.
    """

    def __init__(self, problem: AbstractProblem, scaling: Scaling, *, slacks: str = "closed") -> None:
        self.problem, self.scaling, self.slacks = problem, scaling, slacks
        g = problem.g if problem.g is not None else Zero()
        fixed = problem.lower == problem.upper
        keep = isinstance(g, SeparableTerm)  # with another g there are no bounds, so nothing is fixed
        self.free: NDArray[np.intp] | None = np.flatnonzero(~fixed) if keep and some(fixed) else None
        self.free_columns, self.free_block = Selection(columns=self.free), Selection(self.free, self.free)
        self.n_x = problem.n if self.free is None else self.free.size
        self.sx = scaling.sx if scaling.sx is None or self.free is None else scaling.sx[self.free]
        self._base = problem.x0 if self.free is None else np.where(fixed, problem.lower, problem.x0)
        self.cl, self.cu = scaling.sc * problem.cl, scaling.sc * problem.cu
        self.slack_rows = np.flatnonzero(problem.cl != problem.cu) if slacks == "explicit" else np.zeros(0, np.intp)
        self.g: ProxTerm = self._prox_term(g)
        if self.slack_rows.size:
            self._box_of_slacks = Box(self.cl[self.slack_rows], self.cu[self.slack_rows])
            x_part, s_part = np.arange(self.n_x), np.arange(self.n_x, self.n)
            slacks_term = (s_part, self._box_of_slacks)
            self.g = SeparableSum([(x_part, self.g), slacks_term]) if self.n_x else self._box_of_slacks
            self.cl, self.cu = self.cl.copy(), self.cu.copy()
            self.cl[self.slack_rows] = self.cu[self.slack_rows] = 0.0
        self.unscaled = scaling.sf == 1.0 and not some(scaling.sc != 1.0) and self.sx is None
        #: Some unit of the form is smaller than the user's: then errors in the units of the form count as well.
        self.magnified = scaling.sf > 1.0 or some(scaling.sc > 1.0) or self.sx is not None
        self.identical = self.unscaled and self.free is None and not self.slack_rows.size
        self.box = self.g.box(self.n)  #: (lower, upper) if g is just bounds
        self.jacobian = "dense"  #: or "sparse" or "operator": what the problem returns
        self.equal = self.cl == self.cu
        self.inequality = np.where(self.equal, 0.0, 1.0)
        self.equalities = not some(self.inequality)
        self.has_lower, self.has_upper = some(np.isfinite(self.cl)), some(np.isfinite(self.cu))

    def _prox_term(self, g: ProxTerm) -> ProxTerm:
        """sf * g + the indicator of the bounds, on the free variables."""
        lower, upper = self.problem.lower, self.problem.upper
        if self.free is not None:
            assert isinstance(g, SeparableTerm)
            g, lower, upper = g.restrict(self.free), lower[self.free], upper[self.free]
        if self.sx is not None:
            if g.box(self.n_x) is None:
                raise InputError(f"variables beside g={type(g).__name__} cannot have units of their own (x_scale)")
            lower, upper = lower / self.sx, upper / self.sx
        if self.scaling.sf != 1.0 and g.box(self.n_x) is None:
            g = Scaled(g, self.scaling.sf)
        if not (some(lower > -math.inf) or some(upper < math.inf)):
            return g
        return add_bounds(g, lower, upper)

    @property
    def bounds(self) -> tuple[Vector, Vector]:
        """(lower, upper), for methods that take bounds and no other g."""
        if self.box is None:
            raise InputError(f"this method takes bounds, but not g={type(self.problem.g).__name__}")
        return self.box

    @property
    def n(self) -> int:
        """Number of variables of the form."""
        return self.n_x + self.slack_rows.size

    @property
    def m(self) -> int:
        """Number of rows."""
        return self.problem.m

    @property
    def has_hessp(self) -> bool:
        """Whether second derivatives are at hand."""
        return self.problem.has_hessp

    @property
    def traits(self) -> Traits:
        """What an inner solver may want to know."""
        return Traits(
            self.g,
            self.n,
            self.has_hessp,
            smooth=self.equalities,
            has_hess=self.problem.has_hess,
            m=self.m,
            matrices=self.jacobian != "operator",
            sparse=self.jacobian == "sparse",
            partly_curved=self.problem.partly_curved,
        )

    def start(self, x: Vector) -> Vector:
        """z for the user's x, projected on dom g; a slack starts at its row's value clipped to its interval."""
        z = x if self.free is None else x[self.free]
        z = z if self.sx is None else z / self.sx
        if self.slack_rows.size:
            c = self.scaling.sc * self.problem.at(self.user_x(z)).c
            z = np.concatenate([z, c[self.slack_rows]])
        return self.g.domain().prox(np.ascontiguousarray(z, dtype=float), 1.0)

    def user_x(self, z: Vector) -> Vector:
        """The user's x for z."""
        if self.slack_rows.size:
            z = z[: self.n_x]
        z = z if self.sx is None else self.sx * z
        if self.free is None:
            return z
        x = self._base.copy()
        x[self.free] = z
        return x

    def user_y(self, y: Vector) -> Vector:
        """Multipliers in the user's units."""
        return y if self.unscaled else y * self.scaling.sc / self.scaling.sf

    def own_y(self, y_user: Vector) -> Vector:
        """Multipliers in the units of the form."""
        return y_user if self.unscaled else y_user * self.scaling.sf / self.scaling.sc

    def at(self, z: Vector) -> FormPoint | Point:
        """The point z with its scaled values; the problem's own point where form and problem are the same."""
        if self.identical:
            return self.problem.at(z)
        return FormPoint(self, z, self.problem.at(self.user_x(z)))

    def known(self, z: Vector) -> FormPoint | Point | None:
        """The point z if f and c are known there; looking at it changes nothing."""
        point = self.problem.seen_at(self.user_x(z))
        return point if point is None or self.identical else FormPoint(self, z, point)

    def user_residual(self, stationarity: float, c: Vector) -> tuple[float, float]:
        """R and its second half in the user's units, from dist and c(z) - s in the units of the form.

        With variables in units of their own only the certificate knows the user's stationarity (`magnified`).
        """
        slacks = float(np.max(self.scaling.sc[self.slack_rows], initial=1.0))  # a slack's own scale; 1 without any
        violation = norm(c / self.scaling.sc)
        return float(formulas.residual(stationarity * slacks, self.scaling.sf, violation)), violation

    def error(self, z: Vector, y: Vector) -> float:
        """The largest KKT error in the user's units, stationarity relative to max(1, |grad f|); max norms. Where units
        of the form are smaller than the user's, the larger of this and the same in the units of the form.

        It is the largest of x - P(x - v/s), v = grad L and s = max(1, |grad f|), of the violation, and, for multipliers
        at sides that c does not touch, of |y|/s or the gap times max(1, |y|), whichever is less.
        (v is divided before the projection: a gap to a bound must not look small because the gradient is large.)
        """
        box, problem = self.box, self.problem
        if box is None:
            return math.inf
        lower, upper = box
        if self.sx is not None or self.slack_rows.size:
            lower, upper = (side[: self.n_x] if self.sx is None else self.sx * side[: self.n_x] for side in box)
        x = self.user_x(z)
        point = problem.at(x)
        x = x if self.free is None else x[self.free]
        error = _error(point, x, self.user_y(y), problem, (lower, upper), self.free)
        if self.magnified and math.isfinite(error):
            error = max(error, _error(self.at(z), z, y, self, box))
        return error

    def distance(self, z: Vector) -> Vector:
        """c(z) - clip(c(z), cl, cu), scaled."""
        c = self.at(z).c
        outside: Vector = c - c.clip(self.cl, self.cu)
        return outside

    def feasibility(self, x: Vector, *, units: bool = False) -> StandardForm:
        """The same constraints and dom g with f = 0, each row scaled to a gradient of max norm 1 at the user's x.

        With `units=True` all rows have the factor of the largest: violations are weighed as in the user's units.
        """
        sx = self.scaling.sx
        norms = row_norms(columns_times(self.problem.at(x).jac, sx))
        usable = np.isfinite(norms) & (norms > 0.0)
        sizes = np.clip(np.where(usable, norms, 1.0), TUNING.least_row_gradient, TUNING.largest_row_gradient)
        sc = 1.0 / (np.full_like(sizes, np.max(sizes, initial=0.0)) if units else sizes)
        other = StandardForm(self.problem, Scaling(1.0, sc, sx), slacks=self.slacks)
        other.scaling, other.g, other.jacobian = Scaling(0.0, sc, sx), other.g.domain(), self.jacobian
        other.box = other.g.box(other.n)
        other.unscaled = other.identical = False
        return other


@final
class FormPoint:
    """Values at z in the units of the form; everything is taken from the problem's cached point."""

    __slots__ = ("form", "point", "z")

    def finite(self) -> bool:
        """Whether f and c are finite here."""
        return math.isfinite(self.f) and finite(self.c)

    def __init__(self, form: StandardForm, z: Vector, point: Point) -> None:
        self.form, self.z, self.point = form, z, point

    @property
    def f(self) -> float:
        """sf f; 0 in the feasibility form, whatever f is."""
        sf = self.form.scaling.sf
        return sf * self.point.f if sf else 0.0

    @property
    def c(self) -> Vector:
        """sc c, less the explicit slacks."""
        form, c = self.form, self.point.c
        if form.unscaled and not form.slack_rows.size:
            return c
        c = form.scaling.sc * c
        if form.slack_rows.size:
            c[form.slack_rows] -= self.z[form.n_x :]
        return c

    @property
    def grad(self) -> Vector:
        """The gradient of sf f."""
        gradient = self._free(self._gradient())
        slacks = self.form.slack_rows.size
        return np.concatenate([gradient, np.zeros(slacks)]) if slacks else gradient

    @property
    def jac(self) -> Any:
        """The Jacobian of sc c less the explicit slacks, dense or csr."""
        form, jac = self.form, self.point.jac
        if sparse.issparse(jac):
            jac = _scaled(jac, form.scaling.sc) if not form.unscaled else jac
            jac = jac if form.free is None else form.free_columns.of(jac)
            jac = columns_times(jac, form.sx)
            return sparse.csr_array(sparse.hstack([jac, self._slack_columns()])) if form.slack_rows.size else jac
        jac = form.scaling.sc[:, None] * dense(jac)
        jac = jac if form.free is None else jac[:, form.free]
        jac = columns_times(jac, form.sx)
        return np.hstack([jac, self._slack_columns().toarray()]) if form.slack_rows.size else jac

    def _slack_columns(self) -> Any:
        rows, form = self.form.slack_rows, self.form
        return sparse.csr_array((-np.ones(rows.size), (rows, np.arange(rows.size))), shape=(form.m, rows.size))

    def hess(self, w: Vector) -> Any:
        """The Hessian of sf f + w'(sc c), dense or sparse."""
        form, sf, x = self.form, self.form.scaling.sf, self.point.x
        y = form.scaling.sc * w
        if sf:
            h = form.problem.hess(x, y / sf)
            h = with_values(h, sf * h.data) if type(h) is sparse.csr_array else sf * h
        else:
            with np.errstate(invalid="ignore"):
                h = _finite(form.problem.hess(x, y) - form.problem.hess(x, 0.0 * y))
        return self._second(h)

    def known_curvature(self) -> Any:
        """See `AbstractProblem.known_curvature`; of sf f."""
        sf = self.form.scaling.sf
        part = self.point.known_curvature() if sf else None
        return None if part is None else self._second(sf * part)

    def _second(self, h: Any) -> Any:
        """Second derivatives of the user's variables as those of the form's."""
        form = self.form
        if form.free is not None:
            h = form.free_block.of(h) if sparse.issparse(h) else h[form.free][:, form.free]
        if form.sx is not None:
            h = columns_times(columns_times(h, form.sx).T, form.sx)
        if form.slack_rows.size:
            blank = sparse.csr_array((form.slack_rows.size, form.slack_rows.size))
            full = sparse.block_diag([h, blank], format="csr")
            return full if sparse.issparse(h) else full.toarray()
        return h

    def lagrangian_gradient(self, w: Vector) -> Vector:
        """grad f + J'w."""
        form = self.form
        if not form.m:
            return self._free(self._gradient())
        if form.unscaled:
            gradient = self.point.grad + self.point.vjp(w)
        else:
            gradient = self.point.vjp(form.scaling.sc * w)
            if form.scaling.sf:
                gradient = gradient + form.scaling.sf * self.point.grad
        gradient = self._free(gradient)
        return np.concatenate([gradient, -w[form.slack_rows]]) if form.slack_rows.size else gradient

    def _gradient(self) -> Vector:
        sf = self.form.scaling.sf
        return self.point.grad if sf == 1.0 else sf * self.point.grad if sf else np.zeros(self.form.problem.n)

    def _free(self, v: Vector) -> Vector:
        """A gradient of the user's variables as one of the form's."""
        form = self.form
        v = v if form.free is None else v[form.free]
        return v if form.sx is None else v * form.sx

    def _embed(self, v: Vector) -> Vector:
        """A direction of the form as a direction of the user's variables."""
        form = self.form
        v = v[: form.n_x]
        v = v if form.sx is None else v * form.sx
        if form.free is None:
            return v
        full = np.zeros(form.problem.n)
        full[form.free] = v
        return full

    def vjp(self, w: Vector) -> Vector:
        """J'w."""
        form = self.form
        gradient = self._free(self.point.vjp(form.scaling.sc * w))
        return np.concatenate([gradient, -w[form.slack_rows]]) if form.slack_rows.size else gradient

    def jvp(self, v: Vector) -> Vector:
        """J v."""
        form = self.form
        if not form.m:
            return np.zeros(0)
        result = form.scaling.sc * self.point.jvp(self._embed(v))
        if form.slack_rows.size:
            result[form.slack_rows] -= v[form.n_x :]
        return result

    def hessp(self, w: Vector, v: Vector) -> Vector:
        """The Hessian of f + w'c times v."""
        form, sf = self.form, self.form.scaling.sf
        full = self._embed(v)
        if sf:
            result = sf * form.problem.hessp(self.point.x, form.scaling.sc * w / sf, full)
        else:
            y = form.scaling.sc * w
            with np.errstate(invalid="ignore"):
                result = form.problem.hessp(self.point.x, y, full) - form.problem.hessp(self.point.x, 0.0 * y, full)
            result = _finite(result)
        return np.concatenate([self._free(result), np.zeros(form.slack_rows.size)])


def _error(
    point: FormPoint | Point,
    x: Vector,
    y: Vector,
    rows: AbstractProblem | StandardForm,
    bounds: tuple[Vector, Vector],
    free: NDArray[np.intp] | None = None,
) -> float:
    """The largest KKT error of (x, y); see `StandardForm.error`. `free` are the entries of the gradient that x has."""
    (lower, upper), c = bounds, point.c
    size = max(1.0, largest(point.grad))
    with np.errstate(invalid="ignore", over="ignore"):
        slope = point.lagrangian_gradient(y) / size
    slope = slope if free is None else slope[free]
    error = largest(x - np.minimum(np.maximum(x - slope, lower), upper))
    if not (math.isfinite(error) and math.isfinite(point.f)):  # `max` of Python would lose a NaN
        return math.inf
    if y.size:
        above, below = c - rows.cu, rows.cl - c
        worst = np.maximum(below, above)
        weight = np.abs(y) * rows.inequality
        if some(weight):
            gap = np.maximum(-np.where(y > 0.0, above, below), 0.0)
            missed = np.minimum(weight / size, gap * np.maximum(1.0, weight))
            worst = np.maximum(worst, missed)
        error = max(highest(worst), error)
    return error if math.isfinite(error) else math.inf


def _finite(second: Any) -> Any:
    """Second derivatives of the rows alone, 0 where those of f, which were taken off, are not finite."""
    if sparse.issparse(second):
        second.data = np.nan_to_num(second.data, nan=0.0, posinf=0.0, neginf=0.0)
        return second
    return np.nan_to_num(second, nan=0.0, posinf=0.0, neginf=0.0)


def _scaled(matrix: Any, factors: Vector) -> Any:
    """The rows of a sparse matrix times their factors, as csr."""
    csr = as_csr(matrix)
    return with_values(csr, csr.data * np.repeat(factors, np.diff(csr.indptr)))


def require_slacks(slacks: str) -> None:
    """Raise unless `slacks` names one of the two treatments."""
    if slacks not in ("closed", "explicit"):
        raise InputError(f"slacks must be 'closed' or 'explicit', got {slacks!r}")
