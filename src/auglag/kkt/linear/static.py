"""Systems for libraries that factorise the upper triangle L D L' in a fixed order: qdldl, Pardiso.

Such a library is an `Engine`: it is told a pattern once, then factorises values. All else is here: assembly, what is
added to keep pivots away from zero, refinement, rank-one terms, systems on a part of the variables and rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.kkt import tuning
from auglag.kkt.hessian import Hessian
from auglag.kkt.linear.base import Factor, Indices, LinearSolver, System
from auglag.kkt.linear.layout import Layout, canonical
from auglag.kkt.linear.refinement import HeldFactor, LowRankFactor, PlainFactor, probe
from auglag.kkt.linear.superlu import SparseSystem, exchangeable, with_exchanges
from auglag.kkt.linear.triangle import Triangle


class Engine(ABC):
    """A library at work on matrices of one pattern; it holds the factors of the last one."""

    fill: int = 0  #: entries of L, the diagonal included
    work: float = 0.0  #: multiplications that made them; 0 where that was not counted
    owner: object = None  #: whose values the factors belong to

    @abstractmethod
    def factor(self, triangle: Any) -> int | None:
        """Factorise a matrix given by its upper triangle (csc); the number of negative pivots, None if that failed."""

    @abstractmethod
    def solve(self, b: Vector) -> Vector:
        """K^-1 b by the factors as they are."""


class StaticSolver(LinearSolver):
    """A `LinearSolver` by an `Engine`."""

    is_sparse = True

    @abstractmethod
    def engine(self) -> Engine:
        """A new engine."""

    def analysis(self) -> Triangle:
        return Triangle()

    def fill(self, analysis: Triangle) -> int:
        return 0 if analysis.known is None else int(analysis.known.fill)

    def work(self, analysis: Triangle) -> float:
        return 0.0 if analysis.known is None else float(analysis.known.work)

    def system(self, h: Hessian, j: Any, analysis: Triangle) -> System:
        return StaticSystem(self, h, j, analysis)

    def part(self, h: Hessian, j: Any, free: Indices, active: Indices, analysis: Triangle) -> System:
        """In the pattern of the whole as long as not too little of it is used; without rank-one terms."""
        used, whole = free.size + active.size, sum(j.shape)
        if h.v is None and used >= tuning.TUNING.part_of_layout * whole:
            made = StaticSystem(self, h, j, analysis)
            return made if used == whole else HeldStaticSystem(made, free, active)
        return super().part(h, j, free, active, analysis)


@final
class StaticSystem(System):
    """[[H, J'], [J, 0]] as the entries of its upper triangle."""

    __slots__ = ("_h", "_j", "data", "engine", "shape", "triangle")

    def __init__(self, solver: StaticSolver, h: Hessian, j: Any, triangle: Triangle) -> None:
        matrix, rows = canonical(h.matrix), canonical(j)
        triangle.take_on(matrix, rows)
        if triangle.known is None:
            triangle.known = solver.engine()
        self.engine: Engine = triangle.known
        self._h, self._j, self.shape, self.triangle = h, j, j.shape, triangle
        self.data = triangle.values(matrix.data, rows.data)

    def factor(self, first: Vector | float, second: Vector | float, soft: float | None = None) -> Factor:
        m, n = self.shape
        diagonal = np.empty(n + m)
        diagonal[:n], diagonal[n:] = first, -np.asarray(second)
        data = self.data.copy()
        data[self.triangle.diagonal] += diagonal
        plain = StaticFactor(self.engine, self.triangle, data, n, soft)
        h = self._h
        return plain if h.v is None or h.c is None else LowRankFactor(plain, h.v, h.c)

    def pivoted(self, first: Vector | float, second: Vector | float) -> Factor | None:
        """By SuperLU, with row exchanges; None where these factors may be too large."""
        layout = Layout()
        layout.fill = self.engine.fill
        return SparseSystem(self._h, self._j, layout).pivoted(first, second)


@final
class HeldStaticSystem(System):
    """The system of the free variables and active rows alone, in the pattern of the whole.

    What is held or not active has ones on the diagonal and nothing else: the analysis of the whole still serves.
    """

    __slots__ = ("_active", "_data", "_free", "_of")

    def __init__(self, of: StaticSystem, free: Indices, active: Indices) -> None:
        n = of.shape[1]
        self._of, self._free, self._active = of, free, active
        on = np.zeros(of.triangle.size, dtype=bool)
        on[free] = on[n + active] = True
        self._data = of.data.copy()
        self._data[of.triangle.outside(on)] = 0.0

    def factor(self, first: Vector | float, second: Vector | float, soft: float | None = None) -> Factor:
        of, (m, n) = self._of, self._of.shape
        added = np.concatenate([np.ones(n), np.full(m, -1.0)])
        places = np.concatenate([self._free, n + self._active])
        added[self._free], added[n + self._active] = first, -np.asarray(second)
        data = self._data.copy()
        data[of.triangle.diagonal] += added
        whole = StaticFactor(of.engine, of.triangle, data, n, soft)
        return HeldFactor(whole, places, m - self._active.size)


@final
class StaticFactor(PlainFactor):
    """The factors of K with a little added to its diagonal.

    An engine has room for the factors of one matrix. Where it was used for another one in between, these are made
    again: nobody has to know in which order factors are used.
    """

    __slots__ = ("_data", "_engine", "_exchanged", "_regular", "_triangle")

    def __init__(self, engine: Engine, triangle: Triangle, data: Vector, n: int, soft: float | None) -> None:
        self._engine, self._triangle, self._data = engine, triangle, data
        self._exchanged: Any = None
        self._regular = data  #: the entries of the matrix that is factorised
        if soft != 0.0:
            least = tuning.TUNING.regularisation
            added = np.full(triangle.size, least)
            added[n:] = -np.maximum((least if soft is None else soft) + data[triangle.diagonal[n:]], 0.0)
            changed = data.copy()
            changed[triangle.diagonal] += added
            self._regular = changed
        self.negative = self._factorise()

    def _factorise(self) -> int | None:
        self._engine.owner = self
        return self._engine.factor(self._triangle.lent(self._regular)) if np.isfinite(self._data).all() else None

    def once(self, b: Vector) -> Vector:
        """By the factors as they are."""
        if self.negative is None:
            return np.full(b.size, np.nan)
        if self._engine.owner is not self:
            self._factorise()
        return self._engine.solve(b)

    @property
    def size(self) -> int:
        return int(self._triangle.size)

    @property
    def fill(self) -> int:
        return self._engine.fill

    def trusted(self) -> bool:
        """Whether the factors are those of the matrix, so that the inertia is: with tiny pivots they need not be."""
        if self.negative is None:
            return False
        b = probe(self.size)
        residual = self._triangle.product(self._regular, self.once(b)) - b
        return bool(np.max(np.abs(residual), initial=0.0) <= tuning.TUNING.trusted_residual)

    @property
    def failed(self) -> bool:
        return self.negative is None

    @property
    def changed(self) -> bool:
        return self._regular is not self._data

    def magnitudes(self, x: Vector) -> Vector:
        return np.asarray(self._triangle.product(np.abs(self._data), x))

    def exchanged(self) -> Callable[[Vector], Vector] | None:
        """By SuperLU."""
        if self._exchanged is None and exchangeable(self.size, self.fill):
            self._exchanged = with_exchanges(self._triangle.whole(self._data))
        return None if self._exchanged is None else self._exchanged.solve

    def columns(self, b: Any) -> Any:
        """K^-1 B, refined once."""
        if self.negative is None:
            return np.full(b.shape, np.nan)
        x = self._each(b)
        return x + self._each(b - self.product(x))

    def _each(self, b: Any) -> Any:
        """K^-1 B by the factors as they are."""
        out = np.empty(b.shape[::-1])
        for k, column in enumerate(np.ascontiguousarray(b.T)):
            out[k] = self.once(column)
        return out.T

    def product(self, x: Any) -> Any:
        """K x, or K X."""
        return self._triangle.product(self._data, x)
