"""A model as a problem of the library: sparse derivatives of fixed pattern, evaluated by NumPy or XLA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.model.columns import Columns
from auglag.model.handles import Handle, Rows, Variables, entry_name, first
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
        handles: Mapping[str, Handle],
        name: str,
    ) -> None:
        lower, upper = bounds
        self._rows, self._variables = (
            [handle for handle in handles.values() if handle.size and isinstance(handle, kind)]
            for kind in (Rows, Variables)
        )
        groups = tuple(Group(str(h.name), first(h), first(h) + h.size, h.shape == ()) for h in self._rows)
        super().__init__(np.clip(x0, lower, upper), lower=lower, upper=upper, cl=sides[0], cu=sides[1], groups=groups)
        self.structure, self.par, self.name = structure, par, name
        self.data: Any = None  #: of the structure, on a device where XLA is to evaluate functions

    def row_name(self, i: int) -> str:
        """As it is written with the constraint's name: `defect[3]`, `flow[2, 5]`."""
        return entry_name(self._rows, i)

    def variable_name(self, j: int) -> str:
        """As it is written with the variables' name."""
        return entry_name(self._variables, j)

    def f(self, x: Vector) -> float:
        self.counts.nfev += 1
        return self._values(x)[0]

    def c(self, x: Vector) -> Vector:
        self.counts.constr_nfev += 1
        return self._values(x)[1]

    def grad(self, x: Vector) -> Vector:
        self.counts.njev += 1
        return self.first_order(x)[1]

    def jac(self, x: Vector) -> Any:
        """A csr_array; its pattern is the same at every x."""
        self.counts.constr_njev += 1
        return self.structure.jac.matrix(self.first_order(x)[3])

    def hess(self, x: Vector, y: Vector) -> Any:
        """A csr_array with both triangles; its pattern is the same at every x."""
        self.count_hessian()
        return self.structure.hessian(self._second(x, y))

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
        point._f, point._c = f, c

    def fill_c(self, point: Point) -> None:
        """As `fill_f`."""
        self.fill_f(point)

    def _fill(self, point: Point) -> None:
        f, gradient, c, entries = self.first_order(point.x)
        self._count(point._f is None, 1)
        point._f, point._grad, point._c = f, gradient, c
        point._jac = self.structure.jac.matrix(entries)

    def _count(self, values: int, derivatives: int) -> None:
        counts, rows = self.counts, self.m > 0
        counts.nfev += values
        counts.constr_nfev += values * rows
        counts.njev += derivatives
        counts.constr_njev += derivatives * rows

    def linear(self) -> LinearRows | None:
        """The rows whose terms have neither second derivatives nor kinks."""
        rows = self.structure.linear_rows()
        if not rows.any():
            return None
        _, _, c, entries = self.first_order(np.zeros(self.n))
        return LinearRows.among(rows, c, self.structure.jac.matrix(entries))

    # NumPy needs no compilation and is faster on a CPU; XLA takes what NumPy has no operation for.

    def _columns(self) -> Columns | None:
        return self.structure.columns if self.data is None else None

    def _data(self) -> Any:
        return self.structure.data if self.data is None else self.data

    def _values(self, x: Vector) -> tuple[float, Vector]:
        columns = self._columns()
        if columns is not None:
            return columns.values(self.par, x)
        with double():
            f, c = self.structure.values(self._data(), self.par, x)
        return float(f), np.array(c)

    def first_order(self, x: Vector) -> tuple[float, Vector, Vector, Vector]:
        """f, its gradient, c and the contributions to the Jacobian (`Structure.places`); nothing is counted."""
        columns = self._columns()
        if columns is not None:
            return columns.first(self.par, x)
        with double():
            f, gradient, c, entries = self.structure.first(self._data(), self.par, x)
        return float(f), np.array(gradient), np.array(c), np.asarray(entries)

    def _second(self, x: Vector, y: Vector) -> Vector:
        columns = self._columns()
        if columns is not None:
            return columns.second(self.par, x, y)
        with double():
            return np.asarray(self.structure.second(self._data(), self.par, x, y))
