"""A problem without the rows it does not need, and the way back to all of its rows."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from auglag._typing import Jacobian, Vector
from auglag.derivatives.noise import Precision
from auglag.problems.base import AbstractProblem, LinearRows, Point
from auglag.problems.jacobians import Selection, transposed_product
from auglag.problems.pointwise import PointwiseProblem
from auglag.problems.presolve import Reduction
from auglag.problems.workspace import Counts
from auglag.prox import SeparableTerm, Zero


@final
class Presolved(PointwiseProblem):
    """The same f, g and x with fewer rows and narrower bounds; every value comes from the original problem's points."""

    def __init__(self, original: AbstractProblem, found: Reduction) -> None:
        self.original, self.found, self.keep = original, found, found.keep
        narrowed_low, narrowed_high = found.bounds.low_row >= 0, found.bounds.high_row >= 0
        lower = np.where(narrowed_low, found.bounds.low, original.lower)
        upper = np.where(narrowed_high, found.bounds.high, original.upper)
        super().__init__(
            np.clip(original.x0, lower, upper), lower=lower, upper=upper, cl=found.cl, cu=found.cu, g=original.g
        )
        self.name, self.repeatable = original.name, original.repeatable
        self._singletons = bool(narrowed_low.any() or narrowed_high.any())
        self._rows = Selection(rows=self.keep)
        self._last: tuple[Any, Any] = (None, None)  #: the last Jacobian, and its rows that are kept

    @property
    def counts(self) -> Counts:
        return self.original.counts

    def row_name(self, i: int) -> str:
        return self.original.row_name(int(self.keep[i]))

    def variable_name(self, j: int) -> str:
        return self.original.variable_name(j)

    # --------------------------------------------------------------------------------------------- multipliers

    def own_y(self, y: Vector) -> Vector:
        """Multipliers of the kept rows with the same J'y as all, apart from rows that are bounds now."""
        rows, places, factors = self.found.merged
        own = y[self.keep].copy()
        np.add.at(own, places, factors * y[rows])
        return own

    def user_y(self, x: Vector, y: Vector) -> Vector:
        """Multipliers of all rows from those of the kept ones, at x.

        A multiplier goes to the row that its side came from; where that side is a bound, the multiplier is what the
        gradient of the Lagrangian leaves to it.
        """
        found, full = self.found, np.zeros(self.original.m)
        rows, keep = found.rows, self.keep
        low, high = keep[y < 0.0], keep[y > 0.0]
        full[rows.low_row[low]] = y[y < 0.0] / rows.low_factor[low]
        full[rows.high_row[high]] = y[y > 0.0] / rows.high_factor[high]
        if self._singletons:
            self._add_singletons(self.source(self.at(x)), full)
        return full

    def _add_singletons(self, point: Point, full: Vector) -> None:
        bounds, x = self.found.bounds, point.x
        with np.errstate(invalid="ignore", over="ignore"):
            v = -point.lagrangian_gradient(full)
        if not np.isfinite(v).all():
            return
        g = self.g if self.g is not None else Zero()
        assert isinstance(g, SeparableTerm)
        excess = v - np.clip(v, *g.subdiff_interval(x))
        for sign, row, factor, gap in (
            (1.0, bounds.high_row, bounds.high_factor, self.upper - x),
            (-1.0, bounds.low_row, bounds.low_factor, x - self.lower),
        ):
            size = sign * excess
            wanted = (size > 0.0) & (row >= 0)
            j = np.flatnonzero(wanted)
            size, slope, near = size[j], np.abs(factor[j]), np.maximum(gap[j], 0.0)
            # As in the certificate: a bound that x does not touch gets a multiplier only if R is smaller then.
            j = j[near * np.maximum(1.0, slope) * np.maximum(1.0, size) < size]
            full[row[j]] = excess[j] / factor[j]

    def source(self, point: Point) -> Point:
        """The original problem's point behind one of this problem, kept as long as that is."""
        if point.source is None:
            point.source = self.original.at(point.x)
        return point.source

    # -------------------------------------------------------------------------------------------------- values

    def fill_f(self, point: Point) -> None:
        point._f = self.source(point).f

    def fill_grad(self, point: Point) -> None:
        source = self.source(point)
        point._grad, point._grad_error = source.grad, source._grad_error

    def fill_c(self, point: Point) -> None:
        """The kept rows; without any, nothing is evaluated."""
        point._c = self.source(point).c[self.keep] if self.m else np.zeros(0)

    def fill_jac(self, point: Point) -> None:
        """The kept rows, taken once of a matrix that does not change."""
        source = self.source(point)
        jac = source.jac
        if jac is not self._last[0]:
            self._last = (jac, self._kept(jac))
        point._jac = self._last[1]
        point._jac_error = None if source._jac_error is None else self._kept(source._jac_error)

    def _kept(self, jac: Any) -> Jacobian:
        if isinstance(jac, LinearOperator):
            return LinearOperator(
                (self.m, self.n),
                matvec=lambda v: np.asarray(jac @ v.ravel())[self.keep],
                rmatvec=lambda w: transposed_product(jac, self._spread(w.ravel())),
                dtype=np.float64,
            )
        kept: Jacobian = self._rows.of(jac) if sparse.issparse(jac) else jac[self.keep]
        return kept

    def _spread(self, w: Vector) -> Vector:
        full = np.zeros(self.original.m)
        full[self.keep] = w
        return full

    def vjp(self, point: Point, w: Vector) -> Vector:
        return self.original.vjp(self.source(point), self._spread(w))

    # ---------------------------------------------------------------------------------- what else a problem knows

    @property
    def differenced(self) -> bool:
        return self.original.differenced

    @property
    def has_hessp(self) -> bool:
        return self.original.has_hessp

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        """As the original: rows that are gone were linear."""
        return self.original.hessp(x, self._spread(y), v)

    @property
    def has_hess(self) -> bool:
        return self.original.has_hess

    def hess(self, x: Vector, y: Vector) -> Any:
        return self.original.hess(x, self._spread(y))

    @property
    def partly_curved(self) -> bool:
        return self.original.partly_curved

    def known_curvature(self, x: Vector) -> Any:
        return self.original.known_curvature(x)

    def linear(self) -> LinearRows | None:
        """Those of the original that are kept."""
        known = self.original.linear()
        if known is None:
            return None
        places = np.full(self.original.m, -1)
        places[self.keep] = np.arange(self.m)
        kept = np.flatnonzero(places[known.rows] >= 0)
        matrix = sparse.csr_array(known.matrix)[kept]
        return LinearRows(places[known.rows[kept]], matrix, known.constant[kept]) if kept.size else None

    def check_derivatives(self, x: Vector) -> None:
        self.original.check_derivatives(x)

    @property
    def precision(self) -> Precision:
        return self.original.precision.rows(self.keep)

    @property
    def coarse(self) -> bool:
        return self.original.coarse

    def learn_precision(self, x: Vector, *, far: bool = False) -> bool:
        return self.original.learn_precision(x, far=far)

    def refine(self, level: int) -> bool:
        """Of the original, at all points that are known."""
        changed = self.original.refine(level)
        if changed:
            for point in self.workspace.points.values():
                point.forget_derivatives()
        return changed
