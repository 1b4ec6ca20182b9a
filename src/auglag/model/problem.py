"""A model as a problem of the library: sparse derivatives of fixed pattern, evaluated by XLA."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.model.precision import double
from auglag.model.structure import Structure
from auglag.problems.base import AbstractProblem, Group, LinearRows, Point


@final
class ModelProblem(AbstractProblem):
    """The model with its parameters, bounds and start values as they were when this was made."""

    has_hess = has_hessp = repeatable = True

    def __init__(
        self,
        structure: Structure,
        par: Vector,
        x0: Vector,
        bounds: tuple[Vector, Vector],
        sides: tuple[Vector, Vector],
        groups: tuple[Group, ...],
        name: str,
    ) -> None:
        lower, upper = bounds
        super().__init__(np.clip(x0, lower, upper), lower=lower, upper=upper, cl=sides[0], cu=sides[1], groups=groups)
        self.structure, self.par, self.name = structure, par, name
        self.data = structure.data  #: of the structure, on the device where functions are evaluated

    def f(self, x: Vector) -> float:
        self.counts.nfev += 1
        return float(self._values(x)[0])

    def c(self, x: Vector) -> Vector:
        self.counts.constr_nfev += 1
        return np.array(self._values(x)[1])

    def grad(self, x: Vector) -> Vector:
        self.counts.njev += 1
        return np.array(self._first(x)[1])

    def jac(self, x: Vector) -> Any:
        """A csr_array; its pattern is the same at every x."""
        self.counts.constr_njev += 1
        return self.structure.jac.matrix(np.asarray(self._first(x)[3]))

    def hess(self, x: Vector, y: Vector) -> Any:
        """A csr_array with both triangles; its pattern is the same at every x."""
        self.count_hessian()
        with double():
            found = self.structure.second(self.data, self.par, x, y)
        return self.structure.hessian(np.asarray(found))

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        key = x.tobytes() + y.tobytes()
        return np.asarray(self.workspace.last("hess", key, lambda: self.hess(x, y)) @ v)

    def fill_grad(self, point: Point) -> None:
        """Everything of first order comes from one call."""
        self._fill(point)

    def fill_jac(self, point: Point) -> None:
        """As `fill_grad`."""
        self._fill(point)

    def fill_f(self, point: Point) -> None:
        """f and c come from one call."""
        f, c = self._values(point.x)
        self._count(1, 0)
        point._f, point._c = float(f), np.array(c)

    def fill_c(self, point: Point) -> None:
        """As `fill_f`."""
        self.fill_f(point)

    def _fill(self, point: Point) -> None:
        f, gradient, c, entries = self._first(point.x)
        self._count(point._f is None, 1)
        point._f, point._grad, point._c = float(f), np.array(gradient), np.array(c)
        point._jac = self.structure.jac.matrix(np.asarray(entries))

    def _count(self, values: int, derivatives: int) -> None:
        counts, rows = self.counts, self.m > 0
        counts.nfev += values
        counts.constr_nfev += values * rows
        counts.njev += derivatives
        counts.constr_njev += derivatives * rows

    def linear(self) -> LinearRows | None:
        """The rows whose terms have no second derivatives."""
        rows = self.structure.linear_rows()
        if not rows.any():
            return None
        _, _, c, entries = self._first(np.zeros(self.n))
        return LinearRows.among(rows, np.array(c), self.structure.jac.matrix(np.asarray(entries)))

    def _values(self, x: Vector) -> Any:
        with double():
            return self.structure.values(self.data, self.par, x)

    def _first(self, x: Vector) -> Any:
        with double():
            return self.structure.first(self.data, self.par, x)
